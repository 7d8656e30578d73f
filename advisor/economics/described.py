"""Edge modules, phones, FPGAs and small chips: what they are, and what the memory alone allows for a model."""

from dataclasses import dataclass

from advisor.catalog import accelerators
from advisor.catalog.platforms import Described, all_described
from advisor.catalog.schema import Model
from advisor.catalog.units import BITS_PER_BYTE, GB
from advisor.simulator.graph.model import parameter_count

_BITS = 4.5
"""Bits of a weight in the usual four-bit files, scales included (4.25 to 4.85 bits)."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """One kind of hardware in words, and the bound for the model."""

    name: str
    what: str
    use: str
    bound: str
    source: str


def sketches(model: Model) -> tuple[Sketch, ...]:
    """Hardware that is described, not ranked, with what its memory allows for a model.

    A decode step reads every active weight once: bandwidth over their bytes bounds the tokens per second of a user.

    Assumes: weights of 4.5 bits, nothing else read.
    Source: roofline of decoding at batch 1; catalog records.
    """
    return tuple(
        Sketch(kind.name, kind.what, kind.use, _bound(kind, model), kind.source) for kind in all_described()
    )


def _bound(kind: Described, model: Model) -> str:
    if kind.accelerators:
        records = [accelerators.by_id(name) for name in kind.accelerators]
        return "; ".join(
            f"{record.id}: {memory_bound(model, record.memory_bytes, record.bandwidth_bytes_per_s)}"
            for record in records
        )
    if kind.memory_gb is None:
        return "no general bound: it depends on the card and on the design"
    bandwidth = None if kind.bandwidth_gb_per_s is None else kind.bandwidth_gb_per_s * GB
    return memory_bound(model, kind.memory_gb * GB, bandwidth)


def memory_bound(model: Model, memory_bytes: float | None, bandwidth_bytes_per_s: float | None) -> str:
    """Whether a model in four bits fits, and how fast one user could be answered at most, in words.

    Source: definition; bytes of all parameters against the memory, of the active ones against the bandwidth.
    """
    counted = parameter_count(model)
    weights = counted.total * _BITS / BITS_PER_BYTE
    if memory_bytes is None:
        return "memory not known"
    if weights > memory_bytes:
        return (
            f"does not fit ({weights / GB:.0f} GB of four-bit weights, {memory_bytes / GB:.0f} GB of memory)"
        )
    if bandwidth_bytes_per_s is None:
        return "fits; bandwidth not known"
    active = counted.active * _BITS / BITS_PER_BYTE
    return f"fits; at most {bandwidth_bytes_per_s / active:.0f} tokens/s for one user"
