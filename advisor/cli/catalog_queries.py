"""Which catalog records a filter keeps, and in which order."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from advisor.catalog.errors import InfeasibleError, UnknownNameError
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Accelerator

T = TypeVar("T")

ACCELERATOR_KEYS: Final[dict[str, Callable[[Accelerator], float | None]]] = {
    "memory": lambda record: record.memory_bytes,
    "bandwidth": lambda record: record.bandwidth_bytes_per_s,
    "bf16": lambda record: record.peak_flop_per_s.get("bf16"),
    "fp8": lambda record: record.peak_flop_per_s.get("fp8"),
    "fp4": lambda record: record.peak_flop_per_s.get("fp4"),
    "power": lambda record: record.tdp_w,
}


def select_accelerators(
    vendor: str | None, family: str | None, engine: str | None, min_memory_bytes: float, sort: str
) -> list[Accelerator]:
    """Accelerators that pass every filter, in the order asked for.

    Raises: UnknownNameError: no record has that vendor, family or engine.
    Raises: InfeasibleError: nothing passes all filters together.
    """
    from advisor.catalog.accelerators import all_accelerators

    records = all_accelerators()
    known_value(vendor, {r.vendor for r in records}, "vendor")
    known_value(family, {r.architecture for r in records}, "family")
    known_value(engine, {name for r in records for name in r.engines}, "engine")
    kept = [
        r
        for r in records
        if (vendor is None or r.vendor == vendor)
        and (family is None or r.architecture == family)
        and (engine is None or engine in r.engines)
        and (r.memory_bytes or 0.0) >= min_memory_bytes
    ]
    if not kept:
        raise nothing_left("accelerator")
    if sort == "released":
        return sorted(kept, key=lambda r: r.released, reverse=True)
    return largest_first(kept, ACCELERATOR_KEYS[sort]) if sort in ACCELERATOR_KEYS else kept


def largest_first(records: Iterable[T], key: Callable[[T], float | None]) -> list[T]:
    """Records by a number, largest first; those without it come last, equal ones keep their order."""
    return sorted(records, key=lambda record: -(key(record) or 0.0))


def known_value(name: str | None, known: Iterable[str], kind: str) -> None:
    """Refuse a filter value that no record has: an empty list would hide the typing mistake.

    Raises: UnknownNameError: it is not among the known ones.
    """
    values = sorted(set(known))
    if name is None or name in values:
        return
    near = near_misses(name, values, {})
    raise UnknownNameError(
        f"unknown {kind} '{name}'",
        why=f"no record of the catalog has it; there are {', '.join(values)}",
        fix=f"--{kind} {near[0] if near else values[0]}" if values else "",
    )


def nothing_left(kind: str) -> InfeasibleError:
    """The failure of filters that exclude each other."""
    return InfeasibleError(f"no {kind} passes all filters together", fix="loosen one of them")
