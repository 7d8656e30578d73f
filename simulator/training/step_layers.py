"""Time of one layer, of its adapters and of the head for one micro-batch: forward, gradients of inputs and weights.

All plans of a lattice share few distinct (tensor, context, expert parallel, micro-batch) combinations; operators are
priced once per combination.
"""

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.catalog.training import software_of
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.device import Device
from advisor.simulator.graph.model import layers_of
from advisor.simulator.graph.operator import Attention, Experts, Layer, MixerOperators
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.grouped_matmul import (
    ExpertShape,
    GroupedMatmulEfficiency,
    expert_load,
    experts_s,
)
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s, overlapped_s
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import adapted_matrices, adapts_experts, is_tiled, scaled_width
from advisor.simulator.training.plan import FloatArray, IntArray

OPERATOR_DTYPES: Final = {
    "bf16": "bf16",
    "fp16": "bf16",
    "fp32": "bf16",
    "tf32": "bf16",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "nvfp4",
    "int8": "int8",
}
"""Matrix format whose measured kernels represent a compute format."""
BLOCK_SCALED: Final = ("mxfp8", "nvfp4")
SIXTEEN_BIT: Final = ("bf16", "fp16", "fp32", "tf32")
_AUTOCAST_BYTES: Final = 6.0
"""Bytes moved per weight by autocast in the forward pass, fp32 to 16 bits, and again for its gradient, 16 bits to
fp32."""
_SCALED_BYTES: Final = 4.0
"""Bytes of a 16-bit value that IA3 reads and writes again."""
_REBUILT_PASSES: Final = 6.0
"""Passes over a matrix whose change an adapter rebuilds: two factors, their product, its scale, written and read. Own
count on huggingface/peft, tuners/loha/layer.py."""


@dataclass(frozen=True, slots=True)
class ValueWork:
    """Work of PyTorch's element-wise kernels per value."""

    num_bytes: float
    """Bytes moved by kernels that read and write several values at once."""
    single: float = 0.0
    """Number of values that kernels handle one at a time: their operands are broadcast, have gaps or another format.
    One and a half for a kernel with operands of two formats, which takes as much longer."""
    single_bytes: float = 0.0
    """Bytes moved by these kernels, which decide where memory is slower than processors that take single values."""


_AUTOCAST_INPUT: Final = (ValueWork(8.0, 1.0, 6.0), ValueWork(16.0, 1.0, 6.0))
_AUTOCAST_OUTPUT: Final = (ValueWork(10.0), ValueWork(8.0))
"""Work per value in front of and behind a matrix whose fp32 adapter runs under autocast, forward and backward: forward
the input becomes fp32, then 16 bits, and is read; the adapter's output is written, scaled and added. Backward casts,
scales and sums go the other way. Own count on peft 0.21.2, tuners/lora/layer.py (Linear.forward)."""
_CAST_INPUT: Final = (ValueWork(4.0, 1.0, 6.0), ValueWork(20.0))
_CAST_OUTPUT: Final = (ValueWork(18.0, 1.5, 10.0), ValueWork(22.0, 1.0, 6.0))
"""Work of such an adapter without autocast: the input becomes fp32; the adapter's output is written and scaled in fp32,
added to the matrix's in 16 bits, and the sum becomes 16 bits. Own count on peft 0.21.2, as above."""
_DORA_OUTPUT: Final = (ValueWork(16.0, 4.5, 36.0), ValueWork(32.0, 6.0, 48.0))
"""Work per output of a matrix by DoRA in addition to LoRA's, forward and backward: both outputs are scaled by column
and added, in fp32; backward also the products and sums that are the magnitudes' gradients. Own count on peft 0.21.2,
tuners/lora/dora.py."""
_DORA_NORM: Final = ValueWork(14.0, 3.0, 20.0)
_DORA_IDENTITY: Final = ValueWork(12.0)
"""Work per element of a matrix, and per squared number of its inputs, for the norms of DoRA in a forward pass: an fp32
identity goes through the adapter; product and weight become fp32, are added, and the norm is taken. Own count on peft
0.21.2, tuners/lora/dora.py (get_lora_weight, get_weight_norm)."""
_MERGED_BYTES: Final = (16.0, 4.0)
"""Bytes moved per weight of experts that have adapters, forward and backward. The sum of weight and change is made
twice, once to check its format; each time the weight is copied and the change is added to the copy in a second kernel.
The gradient of a weight is read for both factors. Own count on peft 0.21.2, tuners/lora/layer.py (ParamWrapper,
_LoraFactorsProxy), and PyTorch 2.11, torch/nn/utils/parametrize.py (ParametrizationList) and
aten/src/ATen/native/cuda/Blas.cpp (baddbmm)."""
_INNER_TENSORS: Final = ("attended", "activated")
"""Tensors in front of the last matrix of attention and feed-forward part, which tensor-parallel ranks divide."""
_CAST_BYTES: Final = {"fp8": 1.0, "fp8_block": 1.5, "nvfp4": 7.0}
"""Bytes moved per activation or gradient in addition to the cast of the multiplication itself: the transposed copy, and
for nvfp4 a pass for the scale and one through the random rotation. With scales for blocks activations are read,
transposed and written again, gradients written both ways. Source: DeepSeek-V3 (arXiv:2412.19437), section 3.5.2."""
_CLAMPING: Final = ("gpt_oss",)
"""Families of models whose experts have biases and clamp both halves of their gates."""
_UNFUSED_ROTARY: Final = ("gpt_oss",)
"""Families of models whose rotary embedding Megatron runs operator by operator: YaRN scales its angles' values by 1.35,
which the fused kernel does not (NVIDIA/Megatron-LM, core/models/common/embeddings/rope_utils.py, mscale;
NVIDIA-NeMo/Megatron-Bridge, models/gpt_oss/gpt_oss_bridge.py, yarn_rotary_scaling_factor)."""
_FIRST_MATMUL_PASSES: Final = {"megatron": (12.2, 24.0), "fsdp": (8.0, 6.0)}
"""Passes over a tensor of the inner size in addition to the first matmul, forward and backward: Megatron clamps both
halves and joins them, as measured on an H100 (tools/measure_experts.py; by its bytes 8 and 10); AutoModel adds a bias
expert by expert, by its bytes, and clamps in a compiled kernel."""
_EAGER_EXPERT_HIDDEN: Final = (ValueWork(10.0, 1.0, 4.0), ValueWork(16.0, 2.0, 8.0))
_EAGER_EXPERT_INNER: Final = (ValueWork(0.0, 2.0, 10.0), ValueWork(14.0, 2.0, 10.0))
"""Work per value of a token's copies, of the hidden and of the inner size, around the products of Transformers'
experts, forward and backward: copies are sorted, put back and summed; gates and up-projections are halves of one
tensor; the router's weights are broadcast. Own count on transformers 5.24.0, integrations/moe.py."""
_EAGER_NORM: Final = (ValueWork(18.0, 3.0, 18.0), ValueWork(62.0, 4.0, 22.0))
_LEARNED_NORM: Final = ValueWork(8.0)
_EAGER_RESIDUAL: Final = ValueWork(6.0)
_EAGER_ROTARY: Final = (ValueWork(10.0, 2.5, 10.0), ValueWork(22.0, 3.5, 12.0))
_EAGER_GATE: Final = (ValueWork(10.0), ValueWork(18.0))
"""Work per value of Transformers' modules, forward and backward: of an RMS norm in fp32 (cast, square, mean, product
with the root, cast back, product with the weight), and of its weight's gradient; of a residual, either way; of queries
and keys in a rotary embedding (two broadcast products, a half negated, halves joined, a sum); of a gate and its
product. Own count on transformers 5.24.0, models/llama/modeling_llama.py, and autograd's derivatives.yaml."""
_BIAS_WEIGHED: Final = {"bf16": (8.6, 14.3), "fp32": (19.4, 27.7)}
"""Passes over a tensor of the hidden size for the second matmul's bias, weighted by each token's share of the router:
measured with tools/measure_experts.py on an H100, by the format of the shares (fp32 if the dispatcher takes nothing
else)."""
_LARGE_OVERLAP: Final = 2.0
_SMALL_OVERLAP: Final = 1.1
"""Overlap exponents of a matmul with the traffic of the fp32 gradient that it adds to (1 is none), `_LARGE_OVERLAP`
for a large matmul, `_SMALL_OVERLAP` for each expert's own. Measured on an H100 with 1 024 and 4 096 rows
(tools/measure_experts.py)."""
_LATENT_UP: Final = ("query_up", "kv_up")
_EAGER_FAMILIES: Final = ("fsdp", "torchtitan", "peft", "deepspeed")
_FUSED_SOFTWARE: Final = ("intern", "megatron", "unsloth", "liger", "xtuner")
_UNFUSED_FORWARD_BYTES: Final = 13.0
_UNFUSED_BACKWARD_BYTES: Final = 19.0
_LOSS_BYTES: Final = {"unfused": (16.0, 12.0), "usual": (8.0, 6.0), "chunked": (4.0, 4.0)}
"""Bytes moved per logit by the loss, forward and backward."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Distinct combinations of the layer work of one accelerator; arrays of one length."""

    sequence: FloatArray
    """Number of tokens of a sequence as it is computed."""
    rows: FloatArray
    """Number of tokens of a micro-batch on this rank: micro-batch · sequence / context parallel."""
    micro_batch: FloatArray
    tensor_parallel: IntArray
    context_parallel: FloatArray
    sequence_split: FloatArray
    """Number of ranks that divide norms and residuals among them."""
    expert_parallel: IntArray
    expert_tensor_parallel: IntArray


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Kernel time of one layer [s], per slice."""

    forward_s: FloatArray
    input_s: FloatArray
    """Time of the gradients of the inputs, attention's backward pass and small operators included [s]."""
    weight_s: FloatArray
    core_s: FloatArray
    """Part of forward_s in the core of attention or recurrence, which selective recomputation repeats [s]."""
    matmul_forward_s: FloatArray
    """Part of forward_s in dense multiplications, behind which communication can hide [s]."""
    last_matmul_s: FloatArray
    """Part of matmul_forward_s in the layer's last matrix, whose output no gradient needs [s]."""
    modules_s: FloatArray
    """Part of forward_s in norms, activations and latent up-projections [s]."""
    experts_s: FloatArray
    """Part of forward_s in routed experts [s]."""
    tiled_s: FloatArray
    """Part of forward_s in a feed-forward part that runs tile by tile, and again in its own backward pass [s]."""

    def take(self, rows: IntArray) -> "LayerTimes":
        """Return the times at these slices. Source: own definition."""
        return LayerTimes(*(getattr(self, field.name)[rows] for field in fields(self)))


def elementwise_passes(job: TrainingJob, costs: FrameworkCosts) -> float:
    """Ratio of the traffic of small operators to that of fused kernels.

    Source: own model; torch.compile fuses what stands between multiplications.
    """
    if "compile" in job.features:
        return min(costs.elementwise_passes, 1.0)
    return costs.elementwise_passes * (costs.eager_passes if is_eager(job) else 1.0)


def is_eager(job: TrainingJob) -> bool:
    """Whether a gated decoder runs as plain PyTorch modules, operator by operator.

    Source: own definition: Megatron and its relatives, unsloth and Liger bring fused norms and activations.
    """
    gated = any(layer.feed_forward is not None and layer.feed_forward.gated for layer in layers_of(job.model))
    software = job.software.casefold()
    fused = "transformer_engine" in job.features or any(name in software for name in _FUSED_SOFTWARE)
    return gated and job.framework in _EAGER_FAMILIES and not fused and "compile" not in job.features


class LayerPricing:
    """Pricing of the layers of one job on one device."""

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

    def layer(self, layer: Layer) -> LayerTimes:
        """Return the kernel times of one layer under the job's method [s]. Source: own composition of
        simulator.operators."""
        matmul_f, matmul_i, matmul_w, last, latent, dense = self._projections(layer)
        core_f, core_b = self._mixer_core(layer.mixer)
        small_f, small_b = self._small(layer)
        expert_f, expert_i, expert_w = self._experts(layer.experts)
        adapter_f, adapter_b = self._adapters(layer)
        merged_f, merged_b = self._merged_experts(layer.experts)
        learned = matmul_w + expert_w if self.job.method == "full" else expert_w * (merged_f > 0.0)
        return LayerTimes(
            forward_s=matmul_f + core_f + small_f + expert_f + adapter_f + merged_f,
            input_s=matmul_i + core_b + small_b + expert_i + adapter_b + merged_b,
            weight_s=learned,
            core_s=core_f,
            matmul_forward_s=matmul_f,
            last_matmul_s=last,
            modules_s=small_f + latent,
            experts_s=expert_f,
            tiled_s=dense if is_tiled(layer, self.job) else np.zeros_like(dense),
        )

    def head(self) -> dict[str, FloatArray]:
        """Time of forward pass, gradients of inputs and gradients of weights of the head with its loss, and of the
        input table [s].

        The head is a matrix of vocabulary / tp columns, of a reward model one of a single column; the loss passes over
        the logits: in 16 bits if it is fused, with copies in fp32 if it is not. TRL's tiles are computed again in the
        backward pass.

        Assumes: the vocabulary is divided over tensor-parallel ranks; the head multiplies in 16 bits.
        Source: Megatron-LM vocabulary-parallel cross entropy (arXiv:1909.08053, section 3); TRL 1.16.0,
            kernels/chunked_logprob.py.
        """
        outputs = 1 if "scalar_head" in self.job.features else self.job.model.vocab_size
        columns = np.ceil(outputs / self.slices.tensor_parallel)
        forward, inputs, weights = self.matmul(columns, np.full_like(columns, self.hidden), "bf16")
        logits = self.slices.rows * columns
        table = self.stream_s(self.slices.rows * self.hidden * 4.0)
        forward_bytes, backward_bytes = _LOSS_BYTES[_loss_kind(self.job)]
        if "tiled_head" in self.job.features:
            inputs = inputs + forward
        return {
            "forward": forward + table + self.stream_s(forward_bytes * logits),
            "input": inputs + 2.0 * table + self.stream_s(backward_bytes * logits),
            "weight": weights if self.job.method == "full" else np.zeros_like(weights),
        }

    def joining_matmul(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of the matrix that makes one hidden vector of two: forward pass, gradients of inputs and of weights [s].

        Source: DeepSeek-V3 (arXiv:2412.19437), section 2.2.
        """
        columns = np.ceil(self.hidden / self.slices.tensor_parallel)
        return self.matmul(columns, np.full_like(columns, 2.0 * self.hidden), self.dtype)

    def matmul(
        self, columns: FloatArray, depth: FloatArray, dtype: str, rows: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of forward pass, input gradient and weight gradient of y[rows, columns] = x[rows, depth] W [s].

        The gradients are dx[rows, depth] = dy Wᵀ and dW[depth, columns] = xᵀ dy, which adds to the fp32 gradient.

        Assumes: transposed operands cost as much as plain ones.
        Source: operators.matmul; chain rule.
        """
        rows, norm = (self.slices.rows, _LARGE_OVERLAP) if rows is None else (rows, _SMALL_OVERLAP)
        scale = self.costs.low_bit_scale if dtype != "bf16" else self.costs.kernel_scale
        efficiency = self.library.parameters(MatmulEfficiency, "matmul", dtype)
        forward = matmul_s(rows, columns, depth, self.device, efficiency)
        inputs = matmul_s(rows, depth, columns, self.device, efficiency)
        weights = matmul_s(depth, columns, rows, self.device, efficiency)
        traffic = self.stream_s(columns * depth * self.costs.main_gradient_bytes)
        cast = self.stream_s(columns * depth * (_AUTOCAST_BYTES if is_autocast(self.job) else 0.0))
        return (scale * forward + cast, scale * inputs, overlapped_s(scale * weights, traffic, norm) + cast)

    def stream_s(self, num_bytes: FloatArray | float) -> FloatArray:
        """Time of memory-bound operators that move num_bytes [s]."""
        return np.asarray(num_bytes / (self.device.bandwidth_bytes_per_s * common_term("stream_fraction")))

    def _moved_s(self, values: FloatArray, work: ValueWork) -> FloatArray:
        """Time of PyTorch's element-wise kernels over as many values [s].

        Kernels that take values one at a time compute an address for each, whatever its size: a processor finishes so
        many a cycle.

        Source: own model; aten/src/ATen/native/cuda/Loops.cuh and CUDALoops.cuh (launch_unrolled_kernel,
            launch_legacy_kernel); rates measured on an H200 (tools/measure_elementwise.py).
        """
        per_s = common_term("single_values_per_cycle") * self.device.num_sms * self.device.clock_hz
        one_by_one = np.maximum(work.single * values / per_s, self.stream_s(work.single_bytes * values))
        return self.stream_s(work.num_bytes * values) + one_by_one

    def _projections(self, layer: Layer) -> tuple[FloatArray, ...]:
        """Time of all dense multiplications of a layer (three passes), and of three parts of the forward pass [s].

        The parts are the last multiplication, if it ends the layer, those that come up from a latent space, and those
        of the feed-forward part.
        """
        by_degree = [layer.local(int(tp)) for tp in self.tensor_degrees]
        place = np.searchsorted(self.tensor_degrees, self.slices.tensor_parallel)
        totals = [np.zeros_like(self.slices.rows) for _ in range(3)]
        parts: tuple[FloatArray, ...] = ()
        latent = np.zeros_like(self.slices.rows)
        dense = np.zeros_like(self.slices.rows)
        own = len(layer.feed_forward.local(1)) if layer.feed_forward is not None else 0
        for index, projection in enumerate(by_degree[0]):
            columns = np.array([row[index].columns for row in by_degree], dtype=np.float64)[place]
            depth = np.array([row[index].depth for row in by_degree], dtype=np.float64)[place]
            parts = self.matmul(columns, depth, self.dtype if projection.low_bit else "bf16")
            for total, part in zip(totals, parts, strict=True):
                total += part
            if projection.name in _LATENT_UP:
                latent = latent + parts[0]
            if index >= len(by_degree[0]) - own:
                dense = dense + parts[0]
        ends = layer.feed_forward is not None and layer.experts is None
        last = parts[0] if ends else np.zeros_like(totals[0])
        return totals[0], totals[1], totals[2], last, latent, dense

    def _adapters(self, layer: Layer) -> tuple[FloatArray, FloatArray]:
        """Time that adapters and the preparation of frozen weights add to a forward and to a backward pass [s].

        LoRA adds per adapted matrix x A B of rank r: inputs and outputs travel once more, in the adapters' format; the
        backward pass twice that. Under autocast casts, scales and sums are counted one by one. Kinds that learn a
        change of the whole matrix rebuild it and multiply with it in every pass. Learned tokens, norms and biases add
        nothing to a matrix. QLoRA unpacks 4-bit weights to 16 bits before each use; DoRA finds the norms of the columns
        of adapted weights before each forward pass. IA3 reads and writes what it multiplies.

        Assumes: adapters multiply at half of the peak in 16 bits, as autocast has it whatever their format; those that
            rebuild a matrix in their format, as in PEFT's comparison of its methods, which has no autocast.
        Source: LoRA (arXiv:2106.09685), QLoRA (arXiv:2305.14314), DoRA (arXiv:2402.09353); huggingface/peft,
            tuners/*/layer.py (forward), tuners/tuners_utils.py (autocast_adapter_dtype); bytes counted operator by
            operator in peft 0.21.2, tuners/lora/layer.py and dora.py.
        """
        s = self.slices
        job = self.job
        nothing = np.zeros_like(s.rows)
        if job.method == "full":
            return nothing, nothing
        if job.method == "ia3":
            scaled = self.stream_s(_SCALED_BYTES * scaled_width(layer) / s.tensor_parallel * s.rows)
            return scaled, 2.0 * scaled
        software = software_of(job.framework, job.software)
        size = software.adapter_states.weights
        inputs, outputs, elements, identities = self._adapted_values(layer, software)
        peaks = self.device.peak_flop_per_s
        peak = peaks["bf16"]
        if "whole_matrix_adapters" in job.features:
            peak = peaks.get("fp32", peak) if size > BF16_BYTES else peak
            forward = self.stream_s(_REBUILT_PASSES * size * elements) + 2.0 * elements * s.rows / (
                0.5 * peak
            )
            return forward, 2.0 * forward
        inputs = inputs * s.rows
        outputs = outputs * s.rows
        travel = inputs + 2.0 * outputs
        product_s = 2.0 * job.lora_rank * travel / (0.5 * peak)
        forward = self.stream_s(size * travel)
        backward = 2.0 * forward
        if job.framework == "peft" and size > BF16_BYTES:
            casts = software.adapter_inputs == "cast"
            of_inputs = _CAST_INPUT if casts else _AUTOCAST_INPUT
            of_outputs = _CAST_OUTPUT if casts else _AUTOCAST_OUTPUT
            forward, backward = (
                self._moved_s(inputs, before) + self._moved_s(outputs, behind)
                for before, behind in zip(of_inputs, of_outputs, strict=True)
            )
        if job.method == "dora":
            norms_s = self._moved_s(elements, _DORA_NORM) + self._moved_s(identities, _DORA_IDENTITY)
            forward = forward + self._moved_s(outputs, _DORA_OUTPUT[0]) + norms_s
            backward = backward + self._moved_s(outputs, _DORA_OUTPUT[1])
        elif job.method == "qlora":
            unpacked_s = self._unpacked_s(layer)
            forward = forward + unpacked_s
            backward = backward + unpacked_s
        return forward + product_s, backward + 2.0 * product_s

    def _adapted_values(
        self, layer: Layer, software: TrainingSoftware
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Number of values per token in front of and behind all adapted matrices of a layer, of the matrices' elements,
        and of the elements of identities as wide as their inputs, on one rank."""
        s = self.slices
        beside = "adapters_beside_matrices" in self.job.features
        adapted = () if beside else adapted_matrices(layer, self.job, software)
        tp = s.tensor_parallel.astype(np.float64)
        inputs = outputs = elements = identities = np.zeros_like(s.rows)
        read: set[str] = set()
        for matrix in adapted:
            # Tensors of the whole hidden size are divided along the sequence, the others over tensor-parallel ranks.
            leaves = matrix.tensor in _INNER_TENSORS
            # Fused layers have one adapter for all matrices of a tensor.
            if matrix.tensor not in read or software.activations != "fused":
                inputs = inputs + matrix.inputs / (tp if leaves else s.sequence_split)
            read.add(matrix.tensor)
            outputs = outputs + matrix.outputs / (s.sequence_split if leaves else tp)
            elements = elements + matrix.inputs * matrix.outputs / tp
            identities = identities + matrix.inputs**2
        return inputs, outputs, elements, identities

    def _unpacked_s(self, layer: Layer) -> FloatArray:
        """Time in which the 4-bit matrices of a layer become 16 bits [s]."""
        held = np.zeros_like(self.slices.rows)
        for degree in self.tensor_degrees:
            own = sum(matrix.elements for matrix in layer.local(int(degree)))
            held = np.where(self.slices.tensor_parallel == degree, own, held)
        unpacked = held * (bytes_per_element("int4") + 2.0)
        return self.stream_s(unpacked / common_term("dequantized_fraction"))

    def _merged_experts(self, experts: Experts | None) -> tuple[FloatArray, FloatArray]:
        """Time in which a forward pass adds the adapters of routed experts to their weights, and in which a backward
        pass finds the adapters' gradients from those of the weights [s]; zero without such adapters.

        Source: as `_MERGED_BYTES`.
        """
        none = np.zeros_like(self.slices.rows)
        if experts is None or not adapts_experts(
            self.job, software_of(self.job.framework, self.job.software)
        ):
            return none, none
        elements = experts.num_experts * experts.elements
        forward, backward = (none + self.stream_s(num_bytes * elements) for num_bytes in _MERGED_BYTES)
        return forward, backward

    def _mixer_core(self, mixer: MixerOperators | None) -> tuple[FloatArray, FloatArray]:
        """Time of attention or recurrence without projections, forward and backward [s]."""
        s = self.slices
        if mixer is None:
            return np.zeros_like(s.rows), np.zeros_like(s.rows)
        if mixer.recurrence_kernel:
            forward = np.zeros_like(s.rows)
            for tp in self.tensor_degrees:
                mask = s.tensor_parallel == tp
                forward[mask] = mixer.recurrence_s(self.library, s.rows[mask], s.micro_batch[mask], int(tp))
            forward = self.costs.recurrence_scale * forward
            return forward, common_term("recurrence_backward") * forward
        if "unfused_attention" in self.job.features and mixer.attention is not None:
            return self._unfused_attention_s(mixer.attention)
        degrees = s.tensor_parallel.astype(np.float64)
        whole = mixer.sequence_s(self.library, s.sequence, s.micro_batch, degrees)
        forward = self.costs.attention_scale * whole / s.context_parallel
        return forward, self.costs.attention_backward * forward

    def _unfused_attention_s(self, attention: Attention) -> tuple[FloatArray, FloatArray]:
        """Time of attention with stored scores [s]: two batched multiplications and passes of scale, mask, softmax and
        dropout over them."""
        s = self.slices
        queries = s.micro_batch * s.sequence / s.tensor_parallel
        scores = attention.num_heads * queries * s.sequence / s.context_parallel
        peak = self.device.peak_flop_per_s["bf16"] * common_term("unfused_fraction")
        product_s = 2.0 * (attention.key_dim + attention.value_dim) * scores / peak
        forward = product_s + self.stream_s(_UNFUSED_FORWARD_BYTES * scores)
        return forward, 2.0 * product_s + self.stream_s(_UNFUSED_BACKWARD_BYTES * scores)

    def _small(self, layer: Layer) -> tuple[FloatArray, FloatArray]:
        """Time of norms, residuals, rotary embedding, activation and dropout, forward and backward [s]."""
        s = self.slices
        if self.job.framework == "peft" and is_eager(self.job) and not is_autocast(self.job):
            return self._eager_small(layer)
        tp = self.slices.tensor_parallel
        # Per token: a norm reads and writes, a residual reads two and writes one; backward reads about twice as much.
        # Under autocast the residual stream and the outputs of norms and rotary embedding are fp32.
        wide = 2.0 if is_autocast(self.job) else 1.0
        whole = wide * layer.num_parts * 5.0 * self.hidden * BF16_BYTES * s.rows / s.sequence_split
        widths = 0.0
        turned_f = turned_b = 0.0 * s.rows
        if layer.mixer is not None:
            widths = wide * 2.0 * layer.mixer.normed_values
            if self.job.framework == "megatron" and self.job.model.family in _UNFUSED_ROTARY:
                turned = 0.5 * layer.mixer.rotary_values * s.rows / tp
                turned_f, turned_b = (self._moved_s(turned, work) for work in _EAGER_ROTARY)
            else:
                widths += wide * layer.mixer.rotary_values
        if layer.feed_forward is not None:
            widths += (3.0 if layer.feed_forward.gated else 2.0) * layer.feed_forward.inner_size
        inner = widths / tp * BF16_BYTES * s.rows + self._routed_activation_bytes(layer.experts)
        routed = 4.0 * (layer.experts.num_experts if layer.experts else 0) * s.rows / s.sequence_split
        passes = elementwise_passes(self.job, self.costs)
        forward = passes * self.stream_s(whole + inner + routed) + turned_f
        return forward, passes * self.stream_s(1.8 * (whole + inner) + routed) + turned_b

    def _routed_activation_bytes(self, experts: Experts | None) -> FloatArray | float:
        """Bytes that the activation between the matmuls of 16-bit experts moves in a forward pass, of one rank.

        Experts in fewer bits were measured with theirs.

        Source: NVIDIA/Megatron-LM, core/transformer/moe/experts.py (TEGroupedMLP: weighted_bias_swiglu_impl between
            both grouped linear layers).
        """
        if experts is None or self.low_bit:
            return 0.0
        s = self.slices
        copies = (self.costs.expert_capacity or 1.0) * s.rows / s.sequence_split * experts.per_token
        return (3.0 if experts.gated else 2.0) * experts.intermediate_size * BF16_BYTES * copies

    def _eager_small(self, layer: Layer) -> tuple[FloatArray, FloatArray]:
        """Time of the same parts of a gated layer as Transformers' modules run them, operator by operator [s].

        Source: as `_EAGER_NORM`.
        """
        s = self.slices
        hidden = layer.num_parts * self.hidden * s.rows
        turned = normed = 0.0 * s.rows
        if layer.mixer is not None:
            turned = 0.5 * layer.mixer.rotary_values * s.rows
            normed = layer.mixer.normed_values * s.rows
        inner = (layer.feed_forward.inner_size if layer.feed_forward is not None else 0) * s.rows
        routed = self.stream_s(4.0 * (layer.experts.num_experts if layer.experts else 0) * s.rows)
        forward, backward = (
            self._moved_s(hidden + normed, norm)
            + self._moved_s(hidden, _EAGER_RESIDUAL)
            + self._moved_s(turned, rotary)
            + self._moved_s(inner, gate)
            + routed
            for norm, rotary, gate in zip(_EAGER_NORM, _EAGER_ROTARY, _EAGER_GATE, strict=True)
        )
        learned = self._moved_s(hidden + normed, _LEARNED_NORM) if self.job.method == "full" else 0.0
        return forward, backward + learned + self._moved_s(self._shared_inputs(layer), _EAGER_RESIDUAL)

    def _shared_inputs(self, layer: Layer) -> FloatArray:
        """Number of values of matrices' inputs beyond the first of each tensor: their gradients are added up."""
        parts = (part for part in (layer.mixer, layer.feed_forward) if part is not None)
        linears = [linear for part in parts for linear in part.linears(every=True)]
        whole = {linear.tensor: linear.inputs for linear in linears}
        return (sum(linear.inputs for linear in linears) - sum(whole.values())) * self.slices.rows

    def _experts(self, experts: Experts | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of routed experts: forward, gradients of inputs, gradients of weights [s]."""
        s = self.slices
        forward = np.zeros_like(self.slices.rows)
        if experts is None:
            return forward, forward, forward
        if self.costs.expert_capacity or not self.low_bit:
            return self._dense_experts(experts)
        pairs = s.expert_parallel * 4096 + s.expert_tensor_parallel
        for pair in np.unique(pairs):
            mask = pairs == pair
            ep = int(pair) // 4096
            etp = int(pair) % 4096
            forward[mask] = self._grouped_experts_s(experts, ep, etp, s.rows[mask] / s.sequence_split[mask])
        width = 2.0 * experts.hidden_size + 3.0 * experts.intermediate_size
        pairs_per_rank = s.rows / s.sequence_split * experts.per_token
        cast = self.stream_s(0.5 * _CAST_BYTES.get(self.dtype, 0.0) * pairs_per_rank * width)
        scale = self.costs.low_bit_expert_scale
        scale = scale * (self.costs.fused_expert_scale if "fused_experts" in self.job.features else 1.0)
        beside_f, beside_b = self._beside_experts(experts)
        forward = scale * forward + cast
        ranks = s.expert_parallel * np.maximum(s.expert_tensor_parallel, 1)
        weights = experts.num_experts * experts.elements / ranks
        traffic = self.stream_s(weights * self.costs.main_gradient_bytes)
        weight_s = overlapped_s(forward, traffic, _LARGE_OVERLAP)
        return forward + beside_f, forward + beside_b, weight_s

    def _beside_experts(self, experts: Experts) -> tuple[FloatArray, FloatArray]:
        """Time of the operators around the matmuls of experts, forward and backward [s].

        These operators reorder tokens by expert and back, and clamp and bias their activations one tensor at a time. A
        copy of a token is read and written when it is sorted, after an all-to-all once more by local expert, and again
        on its way back, where the copies are summed; HybridEP does so as a part of its exchange.

        Transformers runs one operator after another, the gate and its activation too.

        Source: NVIDIA/Megatron-LM, core/transformer/moe: token_dispatcher.py (permutation 1 and 2),
            experts.py (_apply_bias), core/fusions/fused_bias_geglu.py (clamp and cat in front of the fused kernel);
            NVIDIA-NeMo/Automodel, components/moe/experts.py (_apply_bias); transformers 5.24.0, integrations/moe.py
            (grouped_mm_experts_forward).
        """
        s = self.slices
        h = experts.hidden_size
        inner = experts.intermediate_size
        features = self.job.features
        copies = s.rows / s.sequence_split * experts.per_token
        if self.job.framework == "peft":
            forward, backward = (
                self._moved_s(copies * h, of_hidden) + self._moved_s(copies * inner, of_inner)
                for of_hidden, of_inner in zip(_EAGER_EXPERT_HIDDEN, _EAGER_EXPERT_INNER, strict=True)
            )
            return forward, backward
        values = np.zeros_like(copies)
        if "hybrid_dispatcher" not in features:
            values = values + (3.0 + 1.0 / experts.per_token) * h
        if "alltoall_dispatcher" in features:
            values = values + np.where(s.expert_parallel < experts.num_experts, 4.0, 0.0) * h
        forward = backward = values
        own = _FIRST_MATMUL_PASSES.get(self.job.framework)
        if self.job.model.family in _CLAMPING and own is not None and not self.low_bit:
            weighed = _BIAS_WEIGHED["fp32" if "alltoall_dispatcher" not in features else "bf16"]
            forward = forward + own[0] * inner + weighed[0] * h
            backward = backward + own[1] * inner + weighed[1] * h
        return self.stream_s(BF16_BYTES * copies * forward), self.stream_s(BF16_BYTES * copies * backward)

    def _dense_experts(self, experts: Experts) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Time of routed experts as a dense matmul each [s].

        In 16 bits cuBLAS on several streams reaches the rate of one large matmul (tools/measure_experts.py); in MaxText
        every expert has equally many rows, and the excess is dropped.

        Source: TransformerEngine, nvte_multi_stream_cublas_gemm; grouped_gemm (CublasGroupedGemm) on Hopper; MaxText,
            layers/moe.py (dense_matmul) with sparse_matmul=False and a capacity factor.
        """
        s = self.slices
        split = np.maximum(s.expert_tensor_parallel, 1)
        local = np.maximum(1.0, experts.num_experts / s.expert_parallel)
        share = s.rows / s.sequence_split * split * experts.per_token / local
        rows = (self.costs.expert_capacity or 1.0) * share
        inner = experts.intermediate_size / split
        hidden = np.full_like(inner, experts.hidden_size)
        into = self.matmul(inner * (2.0 if experts.gated else 1.0), hidden, self.dtype, rows)
        out_of = self.matmul(hidden, inner, self.dtype, rows)
        forward, inputs, weights = (local * (up + down) for up, down in zip(into, out_of, strict=True))
        if self.costs.expert_capacity:
            return forward, inputs, weights
        beside_f, beside_b = self._beside_experts(experts)
        return forward + beside_f, inputs + beside_b, weights

    def _grouped_experts_s(self, experts: Experts, ep: int, etp: int, tokens: FloatArray) -> FloatArray:
        """Time of the experts of one rank for the pairs that reach it [s]; each rank of the expert group brings
        `tokens`.

        Assumes: losses and biases keep routing even.
        """
        efficiency = self.library.parameters(GroupedMatmulEfficiency, "grouped_matmul", self.dtype)
        load = expert_load(tokens * ep * etp, experts.num_experts, experts.per_token, ep, skew=0.0)
        inner = experts.intermediate_size / etp
        shape = ExpertShape(
            experts.hidden_size, inner, inner * (2.0 if experts.gated else 1.0), experts.num_experts / ep
        )
        # Training kernels get only their own rows, already sorted by expert.
        return experts_s(tokens * etp, shape, replace(load, all_rows=load.rows), self.device, efficiency)


def is_autocast(job: TrainingJob) -> bool:
    """Whether weights and the residual stream stay in fp32 and single operators cast. Source: torch.autocast."""
    return "autocast" in job.features


def _loss_kind(job: TrainingJob) -> str:
    fused = job.features & {"fused_ce", "linear_ce"}
    if job.features & {"unfused_ce", "fp32_logits"} or (job.framework == "peft" and not fused):
        return "unfused"
    return "chunked" if fused or "chunked_ce" in job.features else "usual"
