"""Weights in main memory: layers that the processors compute, or weights that accelerators read over their link."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Accelerator, Model
from advisor.catalog.schema.model import DenseFeedForward, LayerGroup, MoeFeedForward
from advisor.catalog.units import GIGA, PICOSECONDS_PER_S
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count
from advisor.simulator.memory import layer_weight_bytes
from advisor.simulator.step_cost import StepSurface

HOST_FRACTION: Final = 0.65
"""Fraction of the modules' peak bandwidth at which a CPU reads weights in decoding. Seven kinds of machines without
cards were measured with models of at least 2 GB; the means over the models of each are 0.57 to 0.82
(docs/validation.md, Processors alone)."""
HOST_SPREAD: Final = (0.57 / HOST_FRACTION, 0.82 / HOST_FRACTION)
"""Factors between which the means of those machines lie."""
EXPERT_FRACTION: Final = 0.57
"""Fraction of the modules' peak bandwidth at which a CPU reads chosen experts: two further experts a token take 9.0 ms
with both sockets and 17.4 with one (KTransformers 0.2, DeepSeek-V3 in 4 bits)."""
PCIE_FRACTION: Final = 0.8
"""Fraction of a link's rate that copies of weights reach. Own estimate."""
USUAL_HOST_BYTES_PER_S: Final = 90.0 * GIGA
"""Bandwidth of the main memory if nothing says it [bytes/s]: two channels of DDR5-5600."""
_LEAST_COPIED: Final = 32
"""Tokens of a pass from which weights are sent to the accelerator. Source: llama.cpp, ggml-cuda.cu (offload_op)."""


@dataclass(frozen=True, slots=True)
class HostLayers:
    """Layers or weights that a server keeps in main memory, as it was started."""

    gpu_layers: int | None = None
    """Number of layers on the accelerators, the output layer counted as one; None for all."""
    expert_layers: int = 0
    """Number of layers, from the first, whose routed experts are in main memory."""
    bytes_per_s: float = USUAL_HOST_BYTES_PER_S
    """Bandwidth of the main memory [bytes/s]."""
    offloaded_bytes: float = 0.0
    """Weights of each accelerator that lie in main memory and that it reads over its link in each iteration [bytes]."""

    def weights_in_host(self, deployment: Deployment) -> float:
        """Weights of the fullest accelerator that lie in main memory, those of its layers at most [bytes].

        Source: vLLM v0.11.0, model_executor/models/utils.py (maybe_offload_to_cpu); SGLang v0.5.0, utils/offloader.py
        (OffloaderV1): parameters of layers, from the first, until their size reaches the limit.
        """
        return min(self.offloaded_bytes, layer_weight_bytes(deployment))

    def model_on_accelerators(self, model: Model) -> Model:
        """Return the part of a model that the accelerators hold.

        Assumes: layers of each kind in the same proportion, so that only their numbers count.
        Source: llama.cpp v0.5.0, src/llama-model.cpp (i_gpu_start): the output layer is the first on the accelerators.
        """
        part = model
        total = sum(group.count for group in model.layers)
        if self.gpu_layers is not None and self.gpu_layers <= total:
            part = with_layers(model, max(self.gpu_layers - 1, 0))
        dense = next(
            (i for i, each in enumerate(_feed_forwards(model)) if isinstance(each, MoeFeedForward)), total
        )
        in_host = max(0, self.expert_layers - dense)
        if in_host:
            part = without_experts(part, max(0, num_expert_layers(part) - in_host))
        return part


def with_host_layers(
    surface: StepSurface, whole: Deployment, part: Deployment, host: HostLayers, micro_batch_tokens: int
) -> StepSurface:
    """Return the surface of a `part` of a model with the time that its other layers take in main memory.

    decode: bytes of their active weights and cache / (bandwidth · 0.65, experts 0.57); prompts: their weights sent to
    the accelerator once a micro-batch, and the arithmetic of all layers on the accelerator

    Assumes: accelerator and host take turns; sequences share each reading of weights, experts apart.
    Source: own composition; llama.cpp, options --n-gpu-layers and --n-cpu-moe.
    """
    model = whole.model
    every = parameter_count(model)
    held = parameter_count(part.model)
    each = bytes_per_element(whole.weight_dtype)
    rate = host.bytes_per_s * HOST_FRACTION
    routed = parameter_count(without_experts(model, 0)).active
    kept = parameter_count(without_experts(part.model, 0)).active
    dense = routed - kept
    experts = every.active - held.active - dense

    def read_s(num_tokens: int) -> float:
        return host_read_s(
            dense * each, experts * distinct_experts(model, num_tokens) * each, host.bytes_per_s
        )

    caches = (kv_bytes_per_token(one.model, whole.kv_dtype).full_bytes_per_token for one in (whole, part))
    cached_s = (next(caches) - next(caches)) / rate
    sent_s = (every.total - held.total) * each / link_bytes_per_s(whole.accelerator)
    factor = every.active / max(held.active, 1.0)

    def mixed_ps(num_tokens: int, own_ps: int) -> int:
        if num_tokens < _LEAST_COPIED:
            return own_ps + _picoseconds(read_s(num_tokens))
        return round(factor * own_ps) + _picoseconds(math.ceil(num_tokens / micro_batch_tokens) * sent_s)

    return replace(
        surface,
        decode_base_ps=tuple(own + _picoseconds(read_s(d)) for d, own in enumerate(surface.decode_base_ps)),
        decode_context_ps=_add_to_each(surface.decode_context_ps, cached_s),
        mixed_base_ps=tuple(mixed_ps(tokens, own) for tokens, own in enumerate(surface.mixed_base_ps)),
        prefill_pair_ps=factor * surface.prefill_pair_ps,
        prefill_window_pair_ps=factor * surface.prefill_window_pair_ps,
    )


def host_read_s(dense_bytes: float, expert_bytes: float, host_bytes_per_s: float) -> float:
    """Return the time in which a CPU reads weights or cache, and routed experts, for a decode iteration [s].

    Assumes: reading alone takes time; no source states how waiting for other cores grows with their number.
    Source: HOST_FRACTION, EXPERT_FRACTION.
    """
    return dense_bytes / (host_bytes_per_s * HOST_FRACTION) + expert_bytes / (
        host_bytes_per_s * EXPERT_FRACTION
    )


def with_offloaded_weights(surface: StepSurface, deployment: Deployment, host: HostLayers) -> StepSurface:
    """Return the surface with the time in which each iteration reads the weights that lie in main memory.

    bytes / rate of the link, in every iteration, whatever it computes

    Assumes: nothing overlaps the reading; accelerators read at once, each over its own link.
    Source: own composition; see `HostLayers.weights_in_host`.
    """
    read_s = host.weights_in_host(deployment) / link_bytes_per_s(deployment.accelerator)
    return replace(
        surface,
        decode_base_ps=_add_to_each(surface.decode_base_ps, read_s),
        mixed_base_ps=_add_to_each(surface.mixed_base_ps, read_s),
    )


def link_bytes_per_s(accelerator: Accelerator) -> float:
    """Rate at which an accelerator reads weights from main memory [bytes/s].

    Assumes: a usual slot of 16 lanes of PCIe 4 where the record does not say it.
    Source: own estimate, PCIE_FRACTION.
    """
    lanes = accelerator.pcie_lanes or 16
    return PCIE_LANE_BYTES_PER_S[accelerator.pcie_generation or 4] * lanes * PCIE_FRACTION


def with_wide_stage(model: Model, factor: float) -> Model:
    """Return the model with the layers that equal stages would hold if all held as many as the fullest: each group of
    layers multiplied by `factor`.

    Source: own definition.
    """
    layers = (group.model_copy(update={"count": round(factor * group.count)}) for group in model.layers)
    kept = tuple(group for group in layers if group.count)
    return model.model_copy(update={"layers": kept, "published_parameters": None})


def _add_to_each(times_ps: Sequence[int], seconds: float) -> tuple[int, ...]:
    return tuple(time + _picoseconds(seconds) for time in times_ps)


def _picoseconds(seconds: float) -> int:
    return round(seconds * PICOSECONDS_PER_S)


def _feed_forwards(model: Model) -> list[object]:
    return [group.feed_forward for group in model.layers for _ in range(group.count)]


def num_expert_layers(model: Model) -> int:
    """Number of layers with routed experts.

    Source: own definition.
    """
    return sum(group.count for group in model.layers if isinstance(group.feed_forward, MoeFeedForward))


def without_experts(model: Model, num: int) -> Model:
    """Return the model with the routed experts of only `num` of its layers; shared experts stay everywhere.

    Source: own definition.
    """
    left = num
    groups: list[LayerGroup] = []
    for group in model.layers:
        part = group.feed_forward
        if not isinstance(part, MoeFeedForward):
            groups.append(group)
            continue
        kept = min(left, group.count)
        left -= kept
        shared = part.shared_intermediate_size
        bare = DenseFeedForward(intermediate_size=shared, gated=part.gated) if shared else None
        if kept:
            groups.append(group.model_copy(update={"count": kept}))
        if group.count > kept:
            groups.append(group.model_copy(update={"count": group.count - kept, "feed_forward": bare}))
    return model.model_copy(update={"layers": tuple(groups), "published_parameters": None})


def distinct_experts(model: Model, num_tokens: int) -> float:
    """Number of experts of a layer that `num_tokens` tokens choose together, over that of one token.

    E · (1 − (1 − k / E)^n) / k

    Assumes: tokens choose evenly and independently.
    Source: own definition.
    """
    found = [g.feed_forward for g in model.layers if isinstance(g.feed_forward, MoeFeedForward)]
    if not found or num_tokens <= 1:
        return 1.0
    share = found[0].experts_per_token / found[0].num_experts
    return float((1.0 - (1.0 - share) ** num_tokens) / share)


def with_layers(model: Model, num: int) -> Model:
    """Return the model with `num` of its layers, about the same fraction of each kind.

    Source: own definition.
    """
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
