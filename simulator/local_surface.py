"""Step-cost surfaces of engines for one user's machine: llama.cpp, MLX and exllamav3."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import EXL3_DTYPES, bytes_per_element, cached_value_bytes
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.catalog.schema.model import Part
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.collectives import all_reduce_s, send_recv_s
from advisor.simulator.deployment import Deployment, is_local
from advisor.simulator.device import Device, device_of
from advisor.simulator.graph.model import (
    kv_bytes_per_token,
    layers_of,
    num_layers,
    parameter_count,
    routed_layers,
    window_of,
)
from advisor.simulator.graph.operator import Attention, Experts
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention_kernels import attended_pairs
from advisor.simulator.operators.local import (
    LocalDecodeEfficiency,
    LocalPrefillEfficiency,
    attend_pair_s,
    half_peak_flop_per_s,
    host_sum_s,
    integer_peak_flop_per_s,
    piped_s,
    read_cache_s,
    stream_weights_s,
    weight_peak_flop_per_s,
)
from advisor.simulator.roofline import decode_step_work, floor_s, prefill_work
from advisor.simulator.step_cost import StepSurface
from advisor.simulator.surface import SurfaceInputs
from advisor.simulator.terms import TermCase, find

FloatArray = NDArray[np.float64]

MICRO_BATCH_TOKENS: Final = 512
"""Prompt tokens of one micro-batch (llama.cpp, -ub)."""
_DEEP_MICRO_BATCH_TOKENS: Final = 2048
_OWN_KERNELS: Final = ("exllamav3", "mlx")
"""Engines that use none of llama.cpp's back ends; they process prompts in chunks of their token budget."""
_OWN_OPERATORS: Final = ("mlx",)
"""Engines of `_OWN_KERNELS` whose records are operators of their own: a related chip lends its records before another
engine does."""
_EXPANDS_LATENT: Final = ("mlx",)
"""Engines that compute prompt attention on keys and values expanded from the latent (mlx-lm, models/deepseek_v3.py)."""
_GRAPHS_FROM: Final = 8.0
"""Compute capability from which llama.cpp captures CUDA graphs."""
_BACK_ENDS: Final = ("rocm", "vulkan", "cuda", "metal", "sycl")
_VENDOR_BACK_END: Final = {"nvidia": "cuda", "apple": "metal", "amd": "rocm", "intel": "vulkan"}
_FAMILIES: Final = {
    "bf16": "bf16",
    "fp16": "bf16",
    "q8_0": "q8_0",
    "q8_k_xl": "q8_0",
    "fp8": "q8_0",
    "mxfp4": "mxfp4",
    **dict.fromkeys(EXL3_DTYPES, "exl3"),
}
_MIXED_FORMATS: Final = {"mxfp4": "q8_0", "q4_k_xl": "q8_0", "q5_k_xl": "q8_0"}
"""Format of the weights outside routed experts, where published GGUF files keep more bits for them (ggml-org's gpt-oss
files; Unsloth's dynamic ones)."""
_LEAST_TILE_ROWS: Final = 8.0
"""Rows of the narrowest tile of llama.cpp's quantised matmuls (ggml-cuda/mmq.cuh)."""
_LEAST_CHOSEN: Final = 1e-9
_ACTIVATION_BYTES: Final = 4.0
"""Bytes per activation: llama.cpp keeps activations in 32 bits."""
_PASSES_OF_INPUT: Final = 1.0 + 9.0 / 32.0
"""Times that a matmul's input is moved, in units of its 32 bits: read, and written in 8 bits with a scale for 32."""
_PASSES_OF_OUTPUT: Final = 3.0
"""Times that a matmul's output is moved: written by it, read and written by the operator behind it."""
_PASSES_OF_PART: Final = 3.0
"""Times that the hidden state is moved in front of each part of a layer: a norm reads and writes it, a sum reads it."""
HOST_SUM_BYTES: Final = 2.0
"""Bytes per summed value: exllamav3 rounds sums to 16 bits (exllamav3_ext/parallel/all_reduce_cpu.cu)."""


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """Matmul weights of the whole model, as GGUF files store them."""

    dense_elements: float
    dense_bytes_per_element: float
    experts: tuple[tuple[int, Experts], ...]
    """Pairs of number of layers and their routed experts."""
    expert_bytes_per_element: float

    def expert_flop(self, num_tokens: FloatArray, tile_rows: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """FLOP of the chosen experts over `num_tokens` tokens, multiplications and additions: on rows that hold a
        token, and on the empty rows of their tiles, if tiles have a size.

        Assumes: tokens are spread evenly over the chosen experts; a tile is as narrow as the tokens allow.
        Source: llama.cpp, ggml-cuda/mmq.cuh (mul_mat_q_case): the tile is chosen by all tokens of a micro-batch, an
            expert's rows fill it in part.
        """
        flop = np.zeros_like(num_tokens)
        empty = np.zeros_like(num_tokens)
        tile = np.clip(np.ceil(num_tokens / _LEAST_TILE_ROWS) * _LEAST_TILE_ROWS, _LEAST_TILE_ROWS, tile_rows)
        for layers, e in self.experts:
            rows = num_tokens * e.per_token
            row_flop = 2.0 * layers * e.elements
            flop += row_flop * rows
            if tile_rows:
                chosen = np.maximum(e.num_chosen(num_tokens), _LEAST_CHOSEN)
                whole = chosen * tile * np.ceil(rows / (chosen * tile))
                empty += row_flop * np.where(rows > 0.0, np.maximum(whole - rows, 0.0), 0.0)
        return flop, empty

    def read(self, num_tokens: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bytes and the elements that a step over `num_tokens` tokens reads."""
        active = np.zeros_like(num_tokens)
        for layers, experts in self.experts:
            active += layers * experts.num_chosen(num_tokens) * experts.elements
        num_bytes = (
            self.dense_elements * self.dense_bytes_per_element + active * self.expert_bytes_per_element
        )
        return num_bytes, self.dense_elements + active


def local_weights(model: Model, weight_dtype: str) -> LocalWeights:
    """Return the matmul weights of one step in a weight format.

    Assumes: tokens choose experts independently and evenly; the input table is looked up, not multiplied with.
    Raises: KeyError: the format is not known.
    Source: shapes of the model's record; formats as GGUF files of that name hold them.
    """
    experts = routed_layers(model)
    routed = sum(layers * e.per_token * e.elements for layers, e in experts)
    return LocalWeights(
        parameter_count(model).active - routed,
        local_element_bytes(model, weight_dtype, "mixer"),
        experts,
        local_element_bytes(model, weight_dtype, "experts"),
    )


def local_element_bytes(model: Model, weight_dtype: str, part: Part) -> float:
    """Size of one weight of a part in the files of such an engine [bytes]: all parts have the file's mean, since head
    and attention are converted too, unless published files keep more bits outside routed experts.

    Raises: KeyError: the format is not known.
    Source: formats as GGUF files of that name hold them; mlx-lm, convert.py.
    """
    is_mixed = part != "experts" and bool(routed_layers(model))
    return bytes_per_element(_MIXED_FORMATS.get(weight_dtype, weight_dtype) if is_mixed else weight_dtype)


def back_end(version: str, vendor: str) -> str:
    """Return the back end that the version text names, or else the vendor's default back end.

    Source: own definition.
    """
    words = version.lower()
    if "amdvlk" in words:
        return "vulkan-amdvlk"
    return next((name for name in _BACK_ENDS if name in words), _VENDOR_BACK_END.get(vendor, "vulkan"))


def micro_batch_tokens(engine: Engine, name: str, context_depth: int = 0) -> int:
    """Prompt tokens of one micro-batch in a published run on a back end [tokens].

    Assumes: benchmarks of prompts behind a deep context give ROCm micro-batches of a whole batch, as published
    long-context runs do; all others keep the default.
    Source: llama.cpp, common/common.h (n_batch 2048, n_ubatch 512); kyuz0/amd-strix-halo-toolboxes, benchmark.
    """
    if name == "rocm" and context_depth:
        return _DEEP_MICRO_BATCH_TOKENS
    return default_micro_batch(engine)


def format_family(weight_dtype: str) -> str:
    """Return the format under which the efficiency of a weight format is stored: 16 bits, 8, mxfp4, exl3, or fewer.

    Source: own definition; formats of one family share kernels of one structure.
    """
    return _FAMILIES.get(weight_dtype, "q4_k_m")


def is_quantised(weight_dtype: str) -> bool:
    """Whether a local engine keeps weights in fewer than 16 bits."""
    return format_family(weight_dtype) != "bf16"


def kernel_level(engine: Engine, accelerator: Accelerator, *, version: str = "", date: str = "") -> str:
    """Return the name under which the efficiencies of an engine's kernels are stored: by back end, or by release.

    llama.cpp captures decode steps as CUDA graphs since 2025, on boards of compute capability 8 and later, and
    multiplies all experts of a prompt in one kernel; since October 2025 it fuses attention by default.

    Source: own definition; llama.cpp, ggml-cuda.cu (use_cuda_graph), pull requests 13199 and 15434.
    """
    if engine.id in _OWN_KERNELS:
        levels = (entry.level for entry in engine.kernel_levels if entry.holds(version, date))
        return next(levels, engine.id)
    end = back_end(version, accelerator.vendor)
    has_graphs = end == "cuda" and float(accelerator.compute_capability or _GRAPHS_FROM) >= _GRAPHS_FROM
    levels = (entry.level for entry in engine.kernel_levels if has_graphs and entry.holds(version, date))
    return next(levels, f"llama.cpp-{end}")


def default_micro_batch(engine: Engine) -> int:
    """Prompt tokens of one micro-batch unless the user sets them [tokens].

    Source: llama.cpp, common/common.h; exllamav3, generator/generator.py (max_chunk_size); mlx-lm, generate.py
        (prefill_step_size).
    """
    return engine.max_num_batched_tokens if engine.id in _OWN_KERNELS else MICRO_BATCH_TOKENS


def divides_batches(engine: Engine) -> bool:
    """Whether an engine divides the prompt tokens of one batch into micro-batches (llama.cpp, -b and -ub)."""
    return is_local(engine) and engine.id not in _OWN_KERNELS


def local_library(
    engine: Engine, accelerator: Accelerator, *, version: str = "", date: str = ""
) -> OperatorLibrary:
    """Return the operators of an accelerator under an engine, by the back end that the version names or by release.

    Raises: ValueError: the record lacks memory, bandwidth or a 16-bit peak.
    Source: own composition.
    """
    level = kernel_level(engine, accelerator, version=version, date=date)
    return OperatorLibrary(device_of(accelerator), level)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Deployment, library and inputs that every part of the surface needs."""

    deployment: Deployment
    device: Device
    weights: LocalWeights
    decode: LocalDecodeEfficiency
    prefill: LocalPrefillEfficiency

    @property
    def num_layers(self) -> int:
        return num_layers(self.deployment.model)

    @property
    def num_kernels(self) -> int | None:
        """Number of kernels that the engine starts for a layer of the model; None if they were not counted."""
        entries = self.deployment.engine.layer_kernels
        family = self.deployment.model.family
        return next((entry.kernels for entry in entries if family in entry.families), None)

    def multiply_s(self, rows: FloatArray, dense_elements: float) -> FloatArray:
        """Matmul time of rows with dense weights and with chosen experts on one accelerator's matrix units [s]."""
        dense_flop = 2.0 * rows * dense_elements
        routed_flop, empty_flop = self.weights.expert_flop(rows, self.prefill.expert_tile_rows)
        seconds = dense_flop / self.prefill.compute_fraction + routed_flop / self.prefill.expert_fraction
        return seconds / self.weight_peak_flop_per_s + empty_flop / integer_peak_flop_per_s(self.device)

    @property
    def weight_peak_flop_per_s(self) -> float:
        """Rate at which prompts multiply with weights [flop/s]."""
        return weight_peak_flop_per_s(self.device, is_quantised=is_quantised(self.deployment.weight_dtype))

    def small_s(self) -> float:
        """Time of all small operators in all layers, and of their sums over tensor-parallel accelerators [s]."""
        split = self.deployment.tensor_parallel - 1
        routed = sum(layers for layers, _ in self.weights.experts)
        layers_s = (
            self.num_layers * self.decode.layer_s * self.decode.layer_ratio(self.num_kernels, self.device)
        )
        layers_s += routed * self.decode.expert_layer_s * self.decode.layer_ratio(None, self.device)
        return layers_s + self.num_layers * self.decode.sync_s * split


def build_local_surface(
    deployment: Deployment,
    library: OperatorLibrary,
    inputs: SurfaceInputs,
    micro_batch_tokens: int | None = None,
) -> StepSurface:
    """Tabulate the step-cost surface of one local replica [integer ps].

    A decode step of d sequences reads the weights once, multiplies d − 1 further times, pays each layer's small
    costs and reads each sequence's cache. Prompt tokens run in micro-batches that read the weights once each. With
    pipeline parallelism, accelerators hold layers in turn: a decode step passes through all of them, micro-batches
    of a prompt follow each other. With tensor parallelism each holds a share of every layer.

    Assumes: decode and prompt tokens of one iteration do not share micro-batches; one request's attention at its
    mean length stands for how far its micro-batches overlap.
    Raises: KeyError: the device has no 16-bit peak.
    Error: docs/serving-mechanisms.md, by evidence/fit/local.py.
    Source: own composition.
    """
    terms = _terms_of(deployment, library)
    slope_s, window_slope_s = _cache_slopes(terms)
    pair_s, window_pair_s = _pair_slopes(terms)
    most = micro_batch_tokens or default_micro_batch(deployment.engine)
    micro_batches = max(1.0, inputs.mean_input_tokens / most)
    overlap = float(piped_s(1.0, micro_batches, deployment.pipeline_parallel)) / micro_batches
    window = window_of(deployment.model)
    count = inputs.max_num_seqs + 1
    return StepSurface(
        decode_base_ps=_picoseconds(_decode_s(terms, inputs.max_num_seqs)),
        decode_context_ps=[round(slope_s * PICOSECONDS_PER_S)] * count,
        mixed_base_ps=_picoseconds(_prompt_s(terms, inputs.max_num_batched_tokens, most)),
        prefill_pair_ps=pair_s * overlap * PICOSECONDS_PER_S,
        window_tokens=window,
        decode_window_ps=() if window is None else [round(window_slope_s * PICOSECONDS_PER_S)] * count,
        prefill_window_pair_ps=window_pair_s * overlap * PICOSECONDS_PER_S,
    )


def _terms_of(deployment: Deployment, library: OperatorLibrary) -> _Terms:
    family = format_family(deployment.weight_dtype)
    engine = deployment.engine.id
    kernels = engine if engine in _OWN_OPERATORS else "local"
    return _Terms(
        deployment,
        library.device,
        local_weights(deployment.model, deployment.weight_dtype),
        library.parameters(LocalDecodeEfficiency, f"{kernels}_decode", family),
        library.parameters(LocalPrefillEfficiency, f"{kernels}_prefill", family).on(library.device),
    )


_CATEGORY_OF: Final = {
    "projections": "attention_projections",
    "feed_forward": "feed_forward",
    "experts": "experts",
    "head": "head",
}
"""Category of time behind each part of a pass whose weights are read."""


def local_decode_parts_s(
    deployment: Deployment, library: OperatorLibrary, num_sequences: int, context_tokens: float
) -> dict[str, float]:
    """Time of one decode step of a local replica by category [s]; the values add up to the surface's step.

    Weights are read and multiplied as one stream, which is divided by the bytes of each category.

    Source: as build_local_surface.
    """
    terms = _terms_of(deployment, library)
    whole_s = float(_decode_s(terms, num_sequences)[num_sequences])
    small_s = terms.small_s()
    work = decode_step_work(
        deployment.model,
        num_sequences,
        context_tokens,
        weight_dtype=deployment.weight_dtype,
        element_bytes=local_element_bytes,
    )
    parts = _by_category({name: work[name].num_bytes for name in _CATEGORY_OF}, whole_s - small_s)
    full_s, windowed_s = _cache_slopes(terms)
    window = window_of(deployment.model)
    seen = context_tokens if window is None else min(context_tokens, float(window))
    parts["attention"] = num_sequences * (full_s * context_tokens + windowed_s * seen)
    parts["small_operators"] = small_s
    return parts


def local_prompt_parts_s(
    deployment: Deployment, library: OperatorLibrary, num_tokens: int
) -> dict[str, float]:
    """Time of one prompt of a local replica by category [s]; what weights take is divided by the floor of each part.

    Source: as build_local_surface.
    """
    terms = _terms_of(deployment, library)
    most = default_micro_batch(deployment.engine)
    whole_s = float(_prompt_s(terms, num_tokens, most)[num_tokens])
    small_s = min(whole_s, terms.small_s() * math.ceil(num_tokens / most))
    work = prefill_work(
        deployment.model,
        num_tokens,
        weight_dtype=deployment.weight_dtype,
        element_bytes=local_element_bytes,
    )
    peak = terms.weight_peak_flop_per_s
    bandwidth = terms.device.bandwidth_bytes_per_s
    floors = {name: floor_s(work[name], peak, bandwidth) for name in _CATEGORY_OF}
    parts = _by_category(floors, whole_s - small_s)
    pair_s, window_pair_s = _pair_slopes(terms)
    pairs = attended_pairs(num_tokens, 0.0)
    near = attended_pairs(num_tokens, 0.0, window_of(deployment.model))
    parts["attention"] = float(pair_s * pairs + window_pair_s * near)
    parts["small_operators"] = small_s
    return parts


def _by_category(sizes: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Divide a time among categories by their sizes; categories without a size are left out."""
    total = sum(sizes.values())
    return {_CATEGORY_OF[name]: seconds * size / total for name, size in sizes.items() if size}


def _decode_s(terms: _Terms, max_num_seqs: int) -> FloatArray:
    deployment = terms.deployment
    tp = terms.deployment.tensor_parallel
    sequences = np.arange(max_num_seqs + 1, dtype=np.float64)
    streamed_s = stream_weights_s(*terms.weights.read(np.maximum(sequences, 1.0)), terms.device, terms.decode)
    further_s = terms.multiply_s(sequences - 1.0, terms.weights.dense_elements)
    state_bytes = 2.0 * sequences * kv_bytes_per_token(deployment.model).state_bytes_per_sequence
    state_s = state_bytes / (terms.device.bandwidth_bytes_per_s * terms.decode.memory_fraction)
    hops_s = terms.decode.sync_s * (deployment.pipeline_parallel - 1)
    seconds = (streamed_s + further_s + state_s) / tp + terms.small_s() + hops_s
    seconds[0] = 0.0
    return np.asarray(seconds)


def _prompt_s(terms: _Terms, max_num_tokens: int, micro_batch_tokens: int) -> FloatArray:
    model = terms.deployment.model
    tokens = np.arange(max_num_tokens + 1, dtype=np.float64)
    micro_batches = np.maximum(1.0, np.ceil(tokens / micro_batch_tokens))
    rows = np.maximum(1.0, tokens / micro_batches)
    in_layers = (
        terms.weights.dense_elements - model.vocab_size * model.hidden_size
    )  # The head runs on one row.
    streamed_s = stream_weights_s(*terms.weights.read(rows), terms.device, terms.decode)
    moved_bytes = _moved_bytes(model) if divides_batches(terms.deployment.engine) else 0.0
    moved_s = rows * moved_bytes / (terms.device.bandwidth_bytes_per_s * terms.decode.memory_fraction)
    one_s = (terms.multiply_s(rows, in_layers) + streamed_s + moved_s) / terms.deployment.tensor_parallel
    one_s += terms.small_s() + _links_s(terms.deployment, rows)
    seconds = piped_s(one_s, micro_batches, terms.deployment.pipeline_parallel)
    seconds[0] = 0.0
    return seconds


def _moved_bytes(model: Model) -> float:
    """Bytes of activations that the operators of a prompt read and write per token, in all layers.

    A matmul's input is read and written again in 8 bits; its output is written, and the operator behind it reads and
    writes it; a norm reads and writes, and the residual is read, in front of each part.

    Assumes: matrices with one input read it once; nothing stays in the cache between two operators; attention, whose
    rate was measured, is left out.
    Source: llama.cpp, ggml-cuda/quantize.cu (block_q8_1: 36 bytes for 32 values), src/models.
    """
    passes = 0.0
    for layer in layers_of(model):
        one = _PASSES_OF_PART * layer.num_parts * model.hidden_size
        for matrix in layer.local(1):
            one += _PASSES_OF_INPUT * matrix.depth + _PASSES_OF_OUTPUT * matrix.columns
        if (experts := layer.experts) is not None:
            outer = experts.hidden_size
            inner = experts.intermediate_size
            outputs = (2.0 if experts.gated else 1.0) * inner + outer
            one += experts.per_token * (_PASSES_OF_INPUT * (outer + inner) + _PASSES_OF_OUTPUT * outputs)
        passes += layer.count * one
    return passes * _ACTIVATION_BYTES


def _links_s(deployment: Deployment, rows: FloatArray) -> FloatArray:
    """Time to move activations between accelerators for one micro-batch [s]: sent on after a stage, summed in every
    layer."""
    values = rows * deployment.model.hidden_size
    num_bytes = values * _ACTIVATION_BYTES
    stages = deployment.pipeline_parallel
    tp = deployment.tensor_parallel
    seconds = np.zeros_like(rows)
    if stages > 1:
        seconds += (stages - 1) * send_recv_s(
            num_bytes, deployment.group(stages, apart=deployment.ranks_per_stage)
        )
    if tp > 1:
        layers = num_layers(deployment.model)
        host = find("engine", "host_sum_bytes_per_s", TermCase(deployment.engine.id))
        if host is None:
            one_s = all_reduce_s(num_bytes, deployment.group(tp))
        else:
            one_s = host_sum_s(values * HOST_SUM_BYTES, tp, host.value)
        seconds += 2.0 * layers * one_s
    return seconds


def _cache_slopes(terms: _Terms) -> tuple[float, float]:
    """Time per token of summed context, and per token of windowed context [s]."""
    peak = half_peak_flop_per_s(terms.device)

    def attend_s(a: Attention, per_value: float) -> float:
        group = a.num_heads / a.cached_heads
        read_s = read_cache_s(a.cached_values * per_value, group, terms.device, terms.decode)
        return max(read_s, a.decode_pair_flop / peak)

    return _by_window(terms, attend_s)


def _pair_slopes(terms: _Terms) -> tuple[float, float]:
    """Time per pair of a query and a cached token [s], for layers without and with a window."""
    expands = terms.deployment.engine.id in _EXPANDS_LATENT

    def pair_s(a: Attention, per_value: float) -> float:
        flop = a.decode_pair_flop
        width = a.decode_width
        values = float(a.cached_values)
        if expands:
            flop = a.prefill_pair_flop
            width = (a.key_dim + a.value_dim) / 2.0
            values = float(a.num_kv_heads * (a.key_dim + a.value_dim))
        return attend_pair_s(flop, values * per_value, width, terms.device, terms.prefill)

    return _by_window(terms, pair_s)


def _by_window(terms: _Terms, seconds: Callable[[Attention, float], float]) -> tuple[float, float]:
    """Sum over layers without and with a sliding window, divided among accelerators that split layers."""
    full = windowed = 0.0
    deployment = terms.deployment
    for layer in layers_of(deployment.model):
        attention = layer.attention
        if attention is None:
            continue
        per_value = cached_value_bytes(deployment.kv_dtype, attention.key_fraction)
        share = layer.count * seconds(attention, per_value) / deployment.tensor_parallel
        if attention.line_window is not None and not attention.latent:
            windowed += share
        else:
            full += share
    return full, windowed


def _picoseconds(seconds: FloatArray) -> list[int]:
    found: list[int] = np.rint(seconds * PICOSECONDS_PER_S).astype(np.int64).tolist()
    return found
