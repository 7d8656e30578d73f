"""Models that are larger than the cards: layers or experts that do not fit run on the CPU, as in llama.cpp."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Model
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count
from advisor.simulator.host_layers import (
    PCIE_FRACTION,
    distinct_experts,
    host_read_s,
    num_expert_layers,
    with_layers,
    without_experts,
)
from advisor.simulator.local_surface import local_element_bytes
from advisor.simulator.replica_model import ReplicaModel
from advisor.workstation.hardware import Hardware

PROMPT_TOKENS_PER_PASS: Final = 2048
"""Tokens of a prompt for which weights are sent to the cards once: llama.cpp's option --ubatch-size as people set it
for models on the CPU (its default is 512)."""


_OPERATIONS_OF_LAYER: Final = 20
"""Operations of a dense layer after each of which the threads of the CPU wait for each other. Own count of the graph
that llama.cpp builds for a decoded token."""
_OPERATIONS_OF_EXPERTS: Final = 20
"""Operations that routing and experts of a layer add: choice, gathering, three products, weighting and sums."""


def num_operations(model: Model) -> int:
    """Return the number of operations of one decoded token after which the threads of a CPU wait for each other."""
    num_layers = sum(group.count for group in model.layers)
    return _OPERATIONS_OF_LAYER * num_layers + _OPERATIONS_OF_EXPERTS * num_expert_layers(model)


@dataclass(frozen=True, slots=True)
class Offloaded:
    """Layers on the cards, and the time that the layers on the CPU add."""

    replica: ReplicaModel
    """Replica of the model reduced to the layers that fit."""
    cpu_layers: int
    """Number of layers, or of layers' routed experts, that the CPU runs."""
    num_layers: int
    experts_alone: bool
    """Whether the CPU runs routed experts only, and the cards the rest of every layer."""
    dense_bytes: float
    """Bytes of weights and cache that the CPU reads from main memory in one decode iteration, routed experts apart."""
    expert_bytes: float
    """Bytes of routed experts that the CPU reads from main memory in one decode iteration."""
    prefill_s: float
    """Time to send the CPU's layers to a card, which each prompt needs [s]."""
    prefill_factor: float
    """Computation of a prompt on the cards over that for their own layers alone."""
    wait_s: float = 0.0
    """Time for which threads of two CPUs wait for each other in one decode iteration [s]."""

    def step_s(self, host_bytes_per_s: float) -> float:
        """Time that the CPU's layers add to one decode iteration at a bandwidth of the main memory [s]."""
        return host_read_s(self.dense_bytes, self.expert_bytes, host_bytes_per_s) + self.wait_s

    @property
    def split(self) -> str:
        what = "experts of " if self.experts_alone else ""
        return f"{what}{self.cpu_layers} of {self.num_layers} layers on the CPU"


def offload_layers(
    model: Model,
    hardware: Hardware,
    weights: str,
    load: tuple[float, int, int],
    fits: Callable[[Model], bool],
    modelled: Callable[[Model], ReplicaModel | None],
) -> Offloaded | None:
    """Place as much of a model on the cards as fits, and the rest on the CPU; None if not even one layer fits a card.

    A mixture of experts keeps attention and shared experts of every layer on the cards and gives routed experts of some
    layers to the CPU, if the cards hold that much; any other model gives whole layers. The CPU reads its active weights
    and cache for every token from main memory; for a prompt they are sent to the cards. `load` is the context [tokens],
    the number of streams and the length of a prompt [tokens]; `fits` says whether the cards hold a part of the model,
    `modelled` returns its replica.

    Assumes: the main memory holds what it must, which rule model-memory judges; streams share each reading of weights,
    except that each chooses experts of its own.
    Source: own composition; llama.cpp, options --n-gpu-layers and --n-cpu-moe.
    """
    context_tokens, num_streams, prompt_tokens = load
    kept = _most_that_fits(model, num_expert_layers(model), without_experts, fits, hardware, weights)
    experts_alone = kept is not None
    if kept is None:
        total = sum(group.count for group in model.layers)
        kept = _most_that_fits(model, total, with_layers, fits, hardware, weights, least=1)
    if kept is None:
        return None
    num, part = kept
    replica = modelled(part)
    if replica is None:
        return None
    whole = parameter_count(model)
    held = parameter_count(part)
    each, expert = (local_element_bytes(model, weights, name) for name in ("mixer", "experts"))
    dense = (
        parameter_count(without_experts(model, 0)).active - parameter_count(without_experts(part, 0)).active
    )
    experts = (whole.active - held.active - dense) * distinct_experts(model, num_streams)
    dense_total = (
        parameter_count(without_experts(model, 0)).total - parameter_count(without_experts(part, 0)).total
    )
    moved_bytes = dense_total * each + (whole.total - held.total - dense_total) * expert
    lanes = PCIE_LANE_BYTES_PER_S[hardware.pcie_generation or 4] * (hardware.pcie_lanes or 16)
    passes = max(1, math.ceil(prompt_tokens / PROMPT_TOKENS_PER_PASS))
    most = num_expert_layers(model) if experts_alone else sum(group.count for group in model.layers)
    return Offloaded(
        replica=replica,
        cpu_layers=most - num,
        num_layers=most,
        experts_alone=experts_alone,
        dense_bytes=dense * each + _cache_bytes(model, part, context_tokens) * num_streams,
        expert_bytes=experts * expert,
        prefill_s=passes * moved_bytes / (lanes * PCIE_FRACTION),
        prefill_factor=whole.active / max(held.active, 1.0),
        wait_s=hardware.host_wait_s * max(num_operations(model) - num_operations(part), 0),
    )


def _most_that_fits(
    model: Model,
    total: int,
    reduce: Callable[[Model, int], Model],
    fits: Callable[[Model], bool],
    hardware: Hardware,
    weights: str,
    *,
    least: int = 0,
) -> tuple[int, Model] | None:
    """Return the largest number of layers that the cards hold and the model reduced to them; None if not even `least`
    fit. The search begins at the number that the weights alone leave room for."""
    if not total:
        return None
    memory = (hardware.record().memory_bytes or 0.0) * hardware.num
    low = least
    high = total
    guess = _layers_by_weights(model, total, reduce, memory / bytes_per_element(weights))
    best: tuple[int, Model] | None = None
    while low <= high:
        num = min(max(guess, low), high)
        part = reduce(model, num)
        is_held = fits(part)
        if is_held:
            best = (num, part)
            low = num + 1
        else:
            high = num - 1
        # Cache and workspace take the memory of a few layers: one step down first, then halves of what is left.
        guess = num - max(1, total // 20) if not is_held and best is None else (low + high + 1) // 2
    return best


def _layers_by_weights(
    model: Model, total: int, reduce: Callable[[Model, int], Model], most_weights: float
) -> int:
    """Return the number of layers whose weights are as many as fit a memory, other needs left out."""
    some = parameter_count(reduce(model, 1)).total
    all_of_them = parameter_count(reduce(model, total)).total
    each = max((all_of_them - some) / max(total - 1, 1), 1.0)
    return int((most_weights - some) // each) + 1


def _cache_bytes(model: Model, part: Model, context_tokens: float) -> float:
    whole = kv_bytes_per_token(model)
    held = kv_bytes_per_token(part)
    return whole.bytes_of(int(context_tokens)) - held.bytes_of(int(context_tokens))
