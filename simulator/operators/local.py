"""Decode and prompt steps of engines for one user's machine (llama.cpp, MLX, exllamav3): weights are streamed.

Such an engine runs one kernel after another over GGUF-like weights. A decode step reads every active weight once and
unpacks it on the general-purpose units, which on chips with slow ones takes longer than reading it; a prompt runs
in micro-batches on the matrix units.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device

FloatArray = NDArray[np.float64]

_MAX_COPIES: Final = 4
"""Highest number of micro-batches under way at once (llama.cpp, GGML_SCHED_MAX_COPIES)."""
_WIDEST_FULL_TILE: Final = 256.0
_OVERLAP_NORM: Final = 3.0
"""Exponent p of the norm that joins reading and unpacking: they overlap except at the ends of each kernel."""
_HALF_ACCUMULATE: Final = ("turing", "turing-geforce", "ampere-geforce", "ada", "blackwell-geforce")
"""Architectures of boards whose matrix units run twice as fast if sums are kept in 16 bits, unless made for
workstations."""
_EMULATES_BFLOAT: Final = ("apple-m1", "apple-m2")
"""Architectures whose units multiply 16-bit floats of one kind alone: bfloat16 is converted by other instructions
(jundot/omlx pull request 3277)."""
_HALF_OVER_FP32: Final = 4.0
"""Ratio of those boards' rate with 16-bit sums to the rate of their general-purpose units (NVIDIA Ampere GA102 white
paper, table 2)."""
_INTEGER_DOTS: Final = ("pascal", "turing-vector")
"""Architectures without matrix units whose boards multiply four pairs of 8-bit numbers per lane and cycle (dp4a, from
compute capability 6.1): quantised weights are multiplied so, four times as fast as in fp32."""


@dataclass(frozen=True, slots=True)
class LocalDecodeEfficiency(Fitted):
    """Fitted parameters of one (architecture, format, engine and back end)."""

    memory_fraction: float
    """Fraction of the bandwidth, reached by matrix-vector products."""
    element_flop: float
    """Work of general-purpose units on one weight [flop of their fp32 rate]."""
    layer_s: float
    """Time of all small operators in a layer [s]: launches, norms, routing, the gap between kernels."""
    cache_fraction: float
    """Fraction of the bandwidth, reached when reading keys and values."""
    cache_repeat: float
    """Number of times that each further query head reads its keys and values again; 0 if attention is fused over a
    group."""
    sync_s: float
    """Time per layer and further accelerator if each layer is split [s]; per hand-over if layers are divided."""
    expert_layer_s: float = 0.0
    """Time added to each layer with routed experts [s]."""
    layer_kernels: float = 0.0
    """Number of kernels in a layer of the model on which `layer_s` was read; 0 if they were not counted."""
    core_flop_per_s: float = 0.0
    """Rate of one core in fp32 on the chip on which `layer_s` was read; 0 if the time is that of any chip."""

    def layer_ratio(self, num_kernels: int | None, device: Device) -> float:
        """Time of the small operators of a layer over `layer_s`: as many more as the layer has kernels, and slower by
        the clock of the cores.

        Assumes: cores of one vendor's chips do the same work in a cycle, so that their rates are as their clocks; a
        chip whose rate in fp32 is not known has the clock of the measured one.
        Source: own model; mlx-lm, models/*.py, for the kernels.
        """
        kernels = num_kernels / self.layer_kernels if num_kernels and self.layer_kernels else 1.0
        core_flop_per_s = device.peak_flop_per_s.get("fp32", 0.0) / device.num_sms
        return kernels * (
            self.core_flop_per_s / core_flop_per_s if self.core_flop_per_s and core_flop_per_s else 1.0
        )


@dataclass(frozen=True, slots=True)
class LocalPrefillEfficiency(Fitted):
    """Fitted parameters of one (architecture, format, engine and back end)."""

    compute_fraction: float
    """Fraction of the peak with 16-bit sums, reached by dense matmuls."""
    expert_fraction: float
    """Fraction of that peak reached by matmuls of routed experts, whose rows are few and scattered."""
    attention_fraction: float
    """Fraction of that peak reached by attention of prompts over heads of up to 256 values."""
    attention_rows: float
    """Number of queries that share one pass over cached keys and values."""
    expert_tile_rows: float = 0.0
    """Rows of one tile of routed experts' matmuls, which is computed whole; 0 if only filled rows count."""
    wide_sum_fraction: float = 0.0
    """Fraction of attention's FLOP whose sums are kept in 32 bits."""
    emulated_fraction: float = 1.0
    """Rate with activations in bfloat16 over that in fp16 where bfloat16 is emulated; 1 if the engine takes fp16."""

    def on(self, device: Device) -> Self:
        """Return the parameters as an accelerator reaches them, which may emulate the format of the activations.

        Source: raullenchai/Rapid-MLX issue 3154: the same prompt of 2 726 tokens and 4-bit weights on one M2 Max.
        """
        if device.architecture not in _EMULATES_BFLOAT or self.emulated_fraction == 1.0:
            return self
        names = ("compute_fraction", "expert_fraction", "attention_fraction")
        return replace(self, **{name: getattr(self, name) * self.emulated_fraction for name in names})


def stream_weights_s(
    num_bytes: FloatArray | float, num_elements: FloatArray | float, device: Device, e: LocalDecodeEfficiency
) -> FloatArray:
    """Time to read and unpack weights once [s].

    (read^p + unpack^p)^(1/p), read = bytes / (bandwidth · fraction), unpack = elements · flop each / fp32 peak

    Assumes: the fp32 peak stands for the rate of general-purpose units; where it is not known, the 16-bit peak.
    Error: `residual` of the catalog record, measured by evidence/fit/local.py.
    Source: own model, fitted on published llama-bench runs.
    """
    alu_flop_per_s = device.peak_flop_per_s.get("fp32") or device.peak_flop_per_s["bf16"]
    read_s = np.asarray(num_bytes, dtype=np.float64) / (device.bandwidth_bytes_per_s * e.memory_fraction)
    unpack_s = np.asarray(num_elements, dtype=np.float64) * e.element_flop / alu_flop_per_s
    return np.asarray((read_s**_OVERLAP_NORM + unpack_s**_OVERLAP_NORM) ** (1.0 / _OVERLAP_NORM))


def read_cache_s(num_bytes: float, group_size: float, device: Device, e: LocalDecodeEfficiency) -> float:
    """Time to attend over `num_bytes` of cached keys and values, which `group_size` query heads share [s].

    bytes · (1 + repeat · (group − 1)) / (bandwidth · fraction)

    Error: as stream_weights_s.
    Source: own model; llama.cpp without flash attention multiplies head by head.
    """
    passes = 1.0 + e.cache_repeat * (group_size - 1.0)
    return num_bytes * passes / (device.bandwidth_bytes_per_s * e.cache_fraction)


def attend_pair_s(
    flop: float, num_bytes: float, head_width: float, device: Device, e: LocalPrefillEfficiency
) -> float:
    """Time of one query with one cached token in a prompt's attention, summed over heads [s].

    (multiply^p + read^p)^(1/p), multiply = flop · max(1, width / 256) / (peak · fraction),
    read = bytes / (rows · bandwidth), peak = that of 16-bit sums, joined with that of 32-bit sums for their FLOP

    Assumes: keys and values of long contexts come from main memory for every group of queries; tiles of heads
    beyond 256 values shrink as the heads grow, since registers do not.
    Error: as stream_weights_s.
    Source: own model.
    """
    wide = max(1.0, head_width / _WIDEST_FULL_TILE)
    wide_sums = e.wide_sum_fraction
    peak_s = (1.0 - wide_sums) / half_peak_flop_per_s(device) + wide_sums / device.peak_flop_per_s["bf16"]
    multiply_s = flop * wide * peak_s / e.attention_fraction
    read_s = num_bytes / (e.attention_rows * device.bandwidth_bytes_per_s)
    return float((multiply_s**_OVERLAP_NORM + read_s**_OVERLAP_NORM) ** (1.0 / _OVERLAP_NORM))


def half_peak_flop_per_s(device: Device) -> float:
    """Rate of the matrix units on 16-bit numbers with 16-bit sums, as llama.cpp asks for [flop/s].

    Raises: KeyError: the device has no 16-bit peak.
    Source: llama.cpp, ggml-cuda (CUBLAS_COMPUTE_16F); NVIDIA Ampere GA102 white paper.
    """
    peak = device.peak_flop_per_s["bf16"]
    if device.architecture in _HALF_ACCUMULATE:
        return max(peak, _HALF_OVER_FP32 * device.peak_flop_per_s.get("fp32", 0.0))
    return peak


def weight_peak_flop_per_s(device: Device, *, is_quantised: bool) -> float:
    """Rate at which llama.cpp multiplies the weights of a prompt [flop/s]: of integers where the device multiplies
    quantised weights as such and has no matrix units, else that of 16-bit numbers.

    Raises: KeyError: the device has no 16-bit peak.
    Source: llama.cpp, ggml-cuda/mmq.cu (ggml_cuda_should_use_mmq: from GGML_CUDA_CC_DP4A = 610) and common.cuh
    (ggml_cuda_dp4a); NVIDIA CUDA C++ programming guide, arithmetic throughput by compute capability.
    """
    peak = half_peak_flop_per_s(device)
    if is_quantised and device.architecture in _INTEGER_DOTS:
        return max(peak, device.peak_flop_per_s.get("int8", 0.0))
    return peak


def integer_peak_flop_per_s(device: Device) -> float:
    """Rate of the matrix units on 8-bit numbers, by which llama.cpp multiplies quantised weights [flop/s]; that of 16
    bits where the record has none.

    Raises: KeyError: the device has no 16-bit peak.
    Source: llama.cpp, ggml-cuda/mmq.cuh (vec_dot_q8_0_q8_1_mma).
    """
    return max(half_peak_flop_per_s(device), device.peak_flop_per_s.get("int8", 0.0))


def host_sum_s(num_bytes: FloatArray | float, num_ranks: int, bytes_per_s: float) -> FloatArray:
    """Time to sum buffers of num_bytes of every rank in one process of the host [s]: ranks · bytes / rate.

    Assumes: the process adds more slowly than links carry, and ranks write and read while it adds, so only the slowest
    of the three takes time.
    Raises: ValueError: there is no rank, or the rate is not positive.
    Error: `residual` of the term, measured by evidence/fit/local.py.
    Source: exllamav3, exllamav3_ext/parallel/all_reduce_cpu.cu: chunks go to host memory, one process adds them.
    """
    if num_ranks < 1 or not bytes_per_s > 0:
        raise ValueError(f"num_ranks must be at least 1 and bytes_per_s positive: {num_ranks}, {bytes_per_s}")
    return np.asarray(np.asarray(num_bytes, dtype=np.float64) * (num_ranks / bytes_per_s))


def piped_s(one_s: FloatArray | float, num_micro_batches: FloatArray | float, num_in_turn: int) -> FloatArray:
    """Time of micro-batches that follow each other over accelerators which hold layers in turn [s].

    one + (number − 1) · one / min(accelerators, 4)

    Assumes: stages of equal time.
    Source: llama.cpp, ggml-backend.cpp: at most GGML_SCHED_MAX_COPIES = 4 micro-batches are under way.
    """
    under_way = min(num_in_turn, _MAX_COPIES)
    return np.asarray(one_s * (1.0 + (np.asarray(num_micro_batches, dtype=np.float64) - 1.0) / under_way))
