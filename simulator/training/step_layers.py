"""Time of one layer on one accelerator for one micro-batch: forward, gradients of inputs, gradients of weights.

All plans of a lattice share few distinct (tensor, context, expert parallel, micro-batch) combinations; operators are
priced once per combination.
"""

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import (
    DenseFeedForward,
    FeedForward,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mamba2,
    Mixer,
    MoeFeedForward,
)
from advisor.simulator.device import Device
from advisor.simulator.graph.mixers import mixer_operators
from advisor.simulator.graph.model import layer_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.grouped_matmul import (
    ExpertShape,
    GroupedMatmulEfficiency,
    expert_load,
    experts_s,
)
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s
from advisor.simulator.operators.tiles import overlapped_s
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.job import TrainingJob

FloatArray = NDArray[np.float64]

OPERATOR_DTYPES: Final = {
    "bf16": "bf16", "fp16": "bf16", "fp32": "bf16", "tf32": "bf16", "fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4",
    "int8": "int8",
}  # fmt: skip
"""Matrix format whose measured kernels stand for a compute format."""
BLOCK_SCALED: Final = ("mxfp8", "nvfp4")
SIXTEEN_BIT: Final = ("bf16", "fp16", "fp32", "tf32")
_BYTES: Final = 2.0
_AUTOCAST_BYTES: Final = 6.0
"""Moved per weight by autocast in the forward pass, fp32 to 16 bits, and again for its gradient, 16 bits to fp32."""
_CAST_BYTES: Final = {"fp8": 1.0, "nvfp4": 7.0}
"""Moved per activation or gradient beside what the multiplication's own cast moves: the transposed copy, and for
nvfp4 a pass for the scale and one through the random rotation."""
_RECURRENCE_BACKWARD: Final = 3.0
"""Backward over forward pass of chunked state mixers: states are recomputed, and every product has two gradients."""
_COMPILED_PASSES: Final = 1.0
_EAGER_FAMILIES: Final = ("fsdp", "torchtitan", "peft", "deepspeed")
_FUSED_SOFTWARE: Final = ("intern", "megatron", "unsloth", "liger")
_UNFUSED_FORWARD_BYTES: Final = 13.0
_UNFUSED_BACKWARD_BYTES: Final = 19.0
_UNFUSED_RATE: Final = 0.6
_STREAM_FRACTION: Final = 0.85


@dataclass(frozen=True, slots=True)
class Slices:
    """Distinct combinations of what one accelerator computes of a layer; arrays of one length."""

    sequence: FloatArray
    """Tokens of a sequence as it is computed."""
    rows: FloatArray
    """Tokens of a micro-batch on this rank: micro-batch · sequence / context parallel."""
    micro_batch: FloatArray
    tensor_parallel: NDArray[np.int64]
    context_parallel: FloatArray
    sequence_split: FloatArray
    """Ranks that divide norms and residuals among them."""
    expert_parallel: NDArray[np.int64]
    expert_tensor_parallel: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Kernel time of one layer [s], per slice."""

    forward_s: FloatArray
    input_s: FloatArray
    """Gradients of the inputs, attention's backward pass and small operators included."""
    weight_s: FloatArray
    core_s: FloatArray
    """Part of forward_s that selective recomputation repeats: attention's core."""
    matmul_forward_s: FloatArray
    """Part of forward_s in dense multiplications, behind which communication can hide."""
    attention_s: FloatArray
    """Part of forward_s in the attention core."""
    last_matmul_s: FloatArray
    """Part of matmul_forward_s in the layer's last matrix, whose output no gradient needs."""

    def taken(self, rows: NDArray[np.int64]) -> "LayerTimes":
        """The times at these slices. Source: own definition."""
        return LayerTimes(*(getattr(self, field.name)[rows] for field in fields(self)))


def elementwise_passes(job: TrainingJob, costs: FrameworkCosts) -> float:
    """Traffic of small operators over that of fused kernels.

    Source: own model; torch.compile fuses what stands between multiplications.
    """
    if "compile" in job.features:
        return min(costs.elementwise_passes, _COMPILED_PASSES)
    return costs.elementwise_passes * (costs.eager_passes if is_eager(job) else 1.0)


def is_eager(job: TrainingJob) -> bool:
    """Whether a gated decoder runs as plain PyTorch modules, operator by operator.

    Source: own definition: Megatron and its relatives, unsloth and Liger bring fused norms and activations.
    """
    gated = any(
        isinstance(group.feed_forward, DenseFeedForward | MoeFeedForward) and group.feed_forward.gated
        for group in job.model.layers
    )
    software = job.software.casefold()
    fused = any(name in software for name in _FUSED_SOFTWARE)
    return gated and job.framework in _EAGER_FAMILIES and not fused and "compile" not in job.features


class LayerPricing:
    """Prices layers of one job on one device."""

    def __init__(
        self, job: TrainingJob, library: OperatorLibrary, costs: FrameworkCosts, slices: Slices
    ) -> None:
        self.job = job
        self.library = library
        self.device: Device = library.device
        self.costs = costs
        self.slices = slices
        self.hidden = job.model.hidden_size
        self.dtype = OPERATOR_DTYPES[job.compute_dtype]
        if (
            job.compute_dtype == "fp8"
            and job.model.fp8_scaling == "block"
            and self.device.architecture == "hopper"
        ):
            self.dtype = "fp8_block"
        self.low_bit = job.compute_dtype not in SIXTEEN_BIT
        self.tensor_degrees = np.unique(slices.tensor_parallel)

    def layer(self, group: LayerGroup) -> LayerTimes:
        """Kernel times of one layer of a group [s]. Source: own composition of simulator.operators."""
        matmul_f, matmul_i, matmul_w, last = self._projections(group)
        core_f, core_b = self._mixer_core(group.mixer)
        small_f, small_b = self._small(group)
        expert_f, expert_i, expert_w = self._experts(group.feed_forward)
        return LayerTimes(
            forward_s=matmul_f + core_f + small_f + expert_f,
            input_s=matmul_i + core_b + small_b + expert_i,
            weight_s=matmul_w + expert_w,
            core_s=core_f,
            matmul_forward_s=matmul_f,
            attention_s=core_f,
            last_matmul_s=last,
        )

    def matmul(
        self, columns: FloatArray, depth: FloatArray, dtype: str, rows: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Forward, input gradient and weight gradient of y[rows, columns] = x[rows, depth] W [s].

        The gradients are dx[rows, depth] = dy Wᵀ and dW[depth, columns] = xᵀ dy, which adds to the fp32 gradient.

        Assumes: transposed operands cost what plain ones do.
        Source: operators.matmul; chain rule.
        """
        rows = self.slices.rows if rows is None else rows
        scale = self.costs.low_bit_scale if dtype != "bf16" else self.costs.kernel_scale
        efficiency = self.library.parameters(MatmulEfficiency, "matmul", dtype)
        forward = matmul_s(rows, columns, depth, self.device, efficiency)
        inputs = matmul_s(rows, depth, columns, self.device, efficiency)
        weights = matmul_s(depth, columns, rows, self.device, efficiency)
        traffic = self.stream_s(columns * depth * self.costs.main_gradient_bytes)
        cast = self.stream_s(columns * depth * (_AUTOCAST_BYTES if is_autocast(self.job) else 0.0))
        return scale * forward + cast, scale * inputs, overlapped_s(scale * weights, traffic, 2.0) + cast

    def stream_s(self, num_bytes: FloatArray | float) -> FloatArray:
        """Time of memory-bound operators that move so many bytes [s]."""
        return np.asarray(num_bytes / (self.device.bandwidth_bytes_per_s * _STREAM_FRACTION))

    def _projections(self, group: LayerGroup) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """All dense multiplications of a layer, and the forward pass of the last one where it ends the layer."""
        by_degree = [layer_of(group, self.hidden).local(int(tp)) for tp in self.tensor_degrees]
        place = np.searchsorted(self.tensor_degrees, self.slices.tensor_parallel)
        totals = [np.zeros_like(self.slices.rows) for _ in range(3)]
        parts: tuple[FloatArray, ...] = ()
        for index, projection in enumerate(by_degree[0]):
            columns = np.array([row[index].columns for row in by_degree], dtype=np.float64)[place]
            depth = np.array([row[index].depth for row in by_degree], dtype=np.float64)[place]
            dtype = self.dtype if projection.low_bit else "bf16"
            parts = self.matmul(columns, depth, dtype)
            for total, part in zip(totals, parts, strict=True):
                total += part
        ends = isinstance(group.feed_forward, DenseFeedForward)
        last = parts[0] if ends else np.zeros_like(totals[0])
        return totals[0], totals[1], totals[2], last

    def _mixer_core(self, mixer: Mixer | None) -> tuple[FloatArray, FloatArray]:
        """Attention or recurrence without projections, forward and backward [s]."""
        if mixer is None:
            zero = np.zeros_like(self.slices.rows)
            return zero, zero
        if isinstance(mixer, GatedDeltaNet | Mamba2):
            forward = self.costs.recurrence_scale * self._recurrence(mixer)
            return forward, _RECURRENCE_BACKWARD * forward
        if "unfused_attention" in self.job.features and isinstance(mixer, GroupedQueryAttention):
            return self._unfused(mixer)
        forward = self.costs.attention_scale * self._flash(mixer)
        return forward, self.costs.attention_backward * forward

    def _flash(self, mixer: GroupedQueryAttention | LatentAttention) -> FloatArray:
        s = self.slices
        operators = mixer_operators(mixer, self.hidden)
        degrees = s.tensor_parallel.astype(np.float64)
        return operators.sequence_s(self.library, s.sequence, s.micro_batch, degrees) / s.context_parallel

    def _unfused(self, mixer: GroupedQueryAttention) -> tuple[FloatArray, FloatArray]:
        """Scores stored: two batched multiplications and passes of scale, mask, softmax and dropout over them."""
        s, sequence = self.slices, self.slices.sequence
        scores = s.micro_batch * mixer.num_heads / s.tensor_parallel * sequence**2 / s.context_parallel
        peak = self.device.peak_flop_per_s["bf16"] * _UNFUSED_RATE
        forward = 4.0 * mixer.head_dim * scores / peak + self.stream_s(_UNFUSED_FORWARD_BYTES * scores)
        backward = 8.0 * mixer.head_dim * scores / peak + self.stream_s(_UNFUSED_BACKWARD_BYTES * scores)
        return forward, backward

    def _recurrence(self, mixer: GatedDeltaNet | Mamba2) -> FloatArray:
        rows, seconds = self.slices.rows, np.zeros_like(self.slices.rows)
        operators = mixer_operators(mixer, self.hidden)
        for tp in self.tensor_degrees:
            mask = self.slices.tensor_parallel == tp
            seconds[mask] = operators.recurrence_s(
                self.library, rows[mask], self.slices.micro_batch[mask], int(tp)
            )
        return seconds

    def _small(self, group: LayerGroup) -> tuple[FloatArray, FloatArray]:
        """Norms, residuals, rotary embedding, activation and dropout: forward and backward [s]."""
        s, tp = self.slices, self.slices.tensor_parallel
        parts = (group.mixer is not None) + (group.feed_forward is not None)
        # Per token: a norm reads and writes, a residual reads two and writes one; backward reads about twice as much.
        # Under autocast the residual stream and what norms and rotary embedding write is fp32.
        wide = 2.0 if is_autocast(self.job) else 1.0
        whole = wide * parts * 5.0 * self.hidden * _BYTES * s.rows / s.sequence_split
        inner = (wide * _rotary_width(group) + _activation_width(group)) / tp * _BYTES * s.rows
        routed = np.zeros_like(s.rows)
        if isinstance(group.feed_forward, MoeFeedForward):
            routed = 4.0 * group.feed_forward.num_experts * s.rows / s.sequence_split
        passes = elementwise_passes(self.job, self.costs)
        return passes * self.stream_s(whole + inner + routed), passes * self.stream_s(
            1.8 * (whole + inner) + routed
        )

    def _experts(self, feed_forward: FeedForward | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Routed experts: forward, gradients of inputs, gradients of weights [s]."""
        zero = np.zeros_like(self.slices.rows)
        if not isinstance(feed_forward, MoeFeedForward):
            return zero, zero, zero
        s = self.slices
        efficiency = self.library.parameters(GroupedMatmulEfficiency, "grouped_matmul", self.dtype)
        forward = zero.copy()
        pairs = s.expert_parallel * 4096 + s.expert_tensor_parallel
        for pair in np.unique(pairs):
            mask = pairs == pair
            ep, etp = int(pair) // 4096, int(pair) % 4096
            forward[mask] = self._grouped(
                feed_forward, ep, etp, s.rows[mask] / s.sequence_split[mask], efficiency
            )
        forward = self.costs.expert_scale * forward
        width = 2.0 * (feed_forward.latent_size or self.hidden) + 3.0 * feed_forward.intermediate_size
        pairs_per_rank = s.rows / s.sequence_split * feed_forward.experts_per_token
        forward = forward + self.stream_s(0.5 * _CAST_BYTES.get(self.dtype, 0.0) * pairs_per_rank * width)
        weights = feed_forward.num_experts / s.expert_parallel * feed_forward.intermediate_size
        weights = weights * (feed_forward.latent_size or self.hidden) * (3 if feed_forward.gated else 2)
        traffic = self.stream_s(
            weights / np.maximum(s.expert_tensor_parallel, 1) * self.costs.main_gradient_bytes
        )
        return forward, forward, overlapped_s(forward, traffic, 2.0)

    def _grouped(
        self, moe: MoeFeedForward, ep: int, etp: int, tokens: FloatArray, efficiency: GroupedMatmulEfficiency
    ) -> FloatArray:
        """Experts of one rank for the pairs that reach it; each rank of the expert group brings `tokens` [s]."""
        load = expert_load(
            tokens * ep * etp, moe.num_experts, moe.experts_per_token, ep, self.costs.imbalance
        )
        inner = moe.intermediate_size / etp
        shape = ExpertShape(
            moe.latent_size or self.hidden, inner, inner * (2.0 if moe.gated else 1.0), moe.num_experts / ep
        )
        # Training kernels see their own rows alone: they arrive sorted by expert.
        return experts_s(tokens * etp, shape, replace(load, all_rows=load.rows), self.device, efficiency)


def is_autocast(job: TrainingJob) -> bool:
    """Whether weights and the residual stream stay in fp32 and single operators cast. Source: torch.autocast."""
    return "autocast" in job.features


def _rotary_width(group: LayerGroup) -> float:
    """Values per token that rotary embedding reads and writes."""
    if isinstance(group.mixer, GroupedQueryAttention):
        return 2.0 * (group.mixer.num_heads + group.mixer.num_kv_heads) * group.mixer.head_dim
    if isinstance(group.mixer, LatentAttention):
        return 2.0 * group.mixer.num_heads * (group.mixer.qk_nope_head_dim + group.mixer.qk_rope_head_dim)
    return 0.0


def _activation_width(group: LayerGroup) -> float:
    """Values per token that the activation of dense matrices reads and writes."""
    feed_forward = group.feed_forward
    if isinstance(feed_forward, DenseFeedForward):
        return (3.0 if feed_forward.gated else 2.0) * feed_forward.intermediate_size
    if isinstance(feed_forward, MoeFeedForward):
        return (3.0 if feed_forward.gated else 2.0) * feed_forward.shared_intermediate_size
    return 0.0
