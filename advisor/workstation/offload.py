"""Models that are larger than the cards: the layers that do not fit run on the CPU, as in llama.cpp."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Model
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count
from advisor.simulator.replica_model import ReplicaModel
from advisor.workstation.hardware import Hardware

HOST_FRACTION: Final = 0.65
"""Fraction of the modules' peak bandwidth at which a CPU reads weights. Own estimate; nothing here was measured."""
PCIE_FRACTION: Final = 0.8
"""Fraction of a link's rate that copies of weights reach. Own estimate."""


@dataclass(frozen=True, slots=True)
class Offloaded:
    """Layers on the cards, and the time that the layers on the CPU add."""

    replica: ReplicaModel
    """Replica of the model reduced to the layers that fit."""
    cpu_layers: int
    num_layers: int
    read_bytes: float
    """Bytes that the CPU reads from main memory in one decode iteration."""
    prefill_s: float
    """Time to send the CPU's layers to a card, which each prompt needs [s]."""
    prefill_factor: float
    """Computation of a prompt on the cards over that for their own layers alone."""

    def step_s(self, host_bytes_per_s: float) -> float:
        """Time that the CPU's layers add to one decode iteration at a bandwidth of the main memory [s]."""
        return self.read_bytes / (host_bytes_per_s * HOST_FRACTION)

    @property
    def split(self) -> str:
        return f"{self.cpu_layers} of {self.num_layers} layers on the CPU"


def offload_layers(
    model: Model,
    hardware: Hardware,
    weights: str,
    context_tokens: float,
    num_streams: int,
    modelled: Callable[[Model], ReplicaModel | None],
) -> Offloaded | None:
    """Place as many layers on the cards as fit, and the others on the CPU; None if not even one fits a card.

    The CPU reads its layers' active weights and cache for every token from main memory; a prompt's layers are sent to
    the cards.

    Assumes: the main memory holds what it must, which rule ram-loading judges; streams share each reading of weights.
    Source: own composition; llama.cpp, option --n-gpu-layers.
    """
    total = sum(group.count for group in model.layers)
    least = 0
    most = total
    best: tuple[Model, ReplicaModel] | None = None
    while least < most:
        kept = (least + most + 1) // 2
        part = with_layers(model, kept)
        replica = modelled(part)
        if replica is None:
            most = kept - 1
        else:
            least = kept
            best = (part, replica)
    if best is None:
        return None
    part, replica = best
    whole = parameter_count(model)
    held = parameter_count(part)
    read_bytes = (whole.active - held.active) * bytes_per_element(weights)
    read_bytes += _cache_bytes(model, part, context_tokens) * num_streams
    moved_bytes = (whole.total - held.total) * bytes_per_element(weights)
    kept = sum(group.count for group in part.layers)
    lanes = PCIE_LANE_BYTES_PER_S[hardware.pcie_generation or 4] * (hardware.pcie_lanes or 16)
    return Offloaded(
        replica=replica,
        cpu_layers=total - kept,
        num_layers=total,
        read_bytes=read_bytes,
        prefill_s=moved_bytes / (lanes * PCIE_FRACTION),
        prefill_factor=total / kept,
    )


def with_layers(model: Model, num: int) -> Model:
    """Return the model with `num` of its layers, about the same fraction of each kind."""
    total = sum(group.count for group in model.layers)
    left = num
    groups = []
    for group in model.layers:
        count = min(left, round(group.count * num / total))
        left -= count
        groups.append(count)
    for i, group in enumerate(model.layers):
        more = min(left, group.count - groups[i])
        groups[i] += more
        left -= more
    layers = tuple(
        group.model_copy(update={"count": count})
        for group, count in zip(model.layers, groups, strict=True)
        if count
    )
    return model.model_copy(update={"layers": layers, "published_parameters": None})


def _cache_bytes(model: Model, part: Model, context_tokens: float) -> float:
    whole = kv_bytes_per_token(model)
    held = kv_bytes_per_token(part)
    return whole.bytes_of(int(context_tokens)) - held.bytes_of(int(context_tokens))
