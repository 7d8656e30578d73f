"""Which catalog records a filter keeps, and in which order."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.schema import Accelerator, Engine, Model, Record
from advisor.cli.known import known_value, nothing_left

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


def select_models(
    family: str | None, mixer: str | None, moe: bool | None, max_parameters: float, sort: str
) -> list[Model]:
    """Models that pass every filter, in the order asked for.

    Raises: UnknownNameError: no record has that family or mixer.
    Raises: InfeasibleError: nothing passes all filters together.
    """
    from advisor.catalog.models import all_models
    from advisor.simulator.graph.model import is_moe, kv_bytes_per_token, parameter_count

    models = all_models()
    known_value(family, {m.family for m in models if m.family}, "family")
    known_value(mixer, {kind for m in models for kind in _mixers(m)}, "mixer")
    kept = [
        m
        for m in models
        if (family is None or m.family == family)
        and (mixer is None or mixer in _mixers(m))
        and (moe is None or moe == is_moe(m))
        and parameter_count(m).total <= max_parameters
    ]
    if not kept:
        raise nothing_left("model")
    keys: dict[str, Callable[[Model], float | None]] = {
        "parameters": lambda m: parameter_count(m).total,
        "active": lambda m: parameter_count(m).active,
        "context": lambda m: m.max_context_tokens,
        "kv": lambda m: kv_bytes_per_token(m).full_bytes_per_token,
    }
    return largest_first(kept, keys[sort]) if sort in keys else kept


def select_engines(vendor: str | None, precision: str | None) -> list[Engine]:
    """Engines that run on a vendor's accelerators and serve a weight format.

    Raises: UnknownNameError: no engine has that vendor or format.
    Raises: InfeasibleError: none has both.
    """
    from advisor.catalog.engines import all_engines

    engines = all_engines()
    known_value(vendor, {name for e in engines for name in e.vendors}, "vendor")
    known_value(precision, {dtype for e in engines for dtype in e.weight_dtypes}, "precision")
    kept = [
        e
        for e in engines
        if (vendor is None or vendor in e.vendors)
        and (precision is None or precision in e.vendor_weight_dtypes.get(vendor or "", e.weight_dtypes))
    ]
    if not kept:
        raise nothing_left("engine")
    return kept


def _mixers(model: Model) -> set[str]:
    return {group.mixer.kind for group in model.layers if group.mixer is not None}


def find_record(name: str) -> tuple[Record, str, str]:
    """The record that a person means by a name, its kind, and a note where the name is not its id.

    Raises: UnknownNameError: no accelerator, model or engine is called so, or several are.
    Raises: InputFileError: the name is a path, and the config.json there cannot be read.
    """
    from advisor.catalog import accelerators, engines, models

    found: list[tuple[Record, str, str]] = []
    unknown: list[UnknownNameError] = []
    for kind, get in (("accelerator", accelerators.get), ("model", models.get), ("engine", engines.get)):
        try:
            record, note = get(name)
            found.append((record, kind, note))
        except UnknownNameError as error:
            unknown.append(error)
    if found:
        return found[0]
    hints = [error.hint.removeprefix("did you mean: ") for error in unknown if error.hint]
    raise UnknownNameError(
        f"the catalog has no record '{name}'",
        why="no accelerator, model or engine has this id or alias",
        fix="advisor catalog gpus, models or engines list the ids",
        hint=f"did you mean: {', '.join(hints)}" if hints else "",
    )


def largest_first(records: Iterable[T], key: Callable[[T], float | None]) -> list[T]:
    """Records by a number, largest first; those without it come last, equal ones keep their order."""
    return sorted(records, key=lambda record: -(key(record) or 0.0))
