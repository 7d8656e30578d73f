"""Mixers with a constant state: gated delta net, Kimi delta attention, Mamba-2, with their short convolution.

Prefill works in chunks: matmuls inside a chunk, and a chain of states from chunk to chunk that one SM
walks per head. Decode reads and writes the state once per token: a memory stream. Times are of one layer on one
accelerator of a tensor-parallel group that splits the heads.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.efficiencies import Fitted
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import (
    Floats,
    bytes_past_l2,
    overlap_norm_s,
)

_OVERLAP_EXPONENT: Final = 4.0
"""Exponent with which parts of a recurrence kernel overlap: 1 is one after the other, infinity perfect. Own choice."""


@dataclass(frozen=True, slots=True)
class RecurrenceEfficiency(Fitted):
    """Fitted constants of one kind of state mixer on one architecture."""

    chunk_launch_s: float
    """Launch time of all kernels of one chunked prefill call [s]."""
    chunk_peak_fraction: float
    """Fraction of the dense 16-bit peak inside a chunk."""
    chunk_stream_cycles: float
    """Cycles of fixed cost of one (sequence, head) on one SM."""
    chunk_serial_share: float
    """Fraction of a head's work that its chain of chunks keeps on one SM; 1 is all of it."""
    chunk_token_passes: float
    """Number of times that queries, keys, values and outputs travel to memory."""
    chunk_l2_fraction: float
    """Fraction of the L2 up to which the output of one kernel of the chain is there for the next."""
    chunk_l2_speedup: float
    step_launch_s: float
    step_bandwidth_fraction: float
    """Fraction of the bandwidth, for reading and writing the state in decode."""
    step_l2_fraction: float
    """Fraction of the L2 up to which a repeated call finds the state there (only in benchmarks)."""
    step_l2_speedup: float
    conv_launch_s: float
    conv_passes: float
    conv_l2_fraction: float
    """Fraction of the L2 up to which inputs are still there from the projection."""
    conv_l2_speedup: float
    conv_stream_cycles: float
    """Cycles of fixed cost of one (sequence, channel) of the convolution on one SM."""
    conv_step_launch_s: float
    conv_step_passes: float


@dataclass(frozen=True, slots=True)
class RecurrenceShape:
    """Traffic and work of a state mixer on one accelerator."""

    num_heads: float
    """Number of heads with a state of their own."""
    chunk_tokens: int
    chunk_flop: float
    """FLOP per chunk and head."""
    token_elements: float
    """Number of values of queries, keys, values and outputs of one token, all heads."""
    state_elements: float
    """Number of state values of one sequence."""
    state_bytes: float
    conv_channels: float
    conv_kernel: int


def recurrence_s(
    num_tokens: ArrayLike,
    num_sequences: ArrayLike,
    shape: RecurrenceShape,
    device: Device,
    efficiency: RecurrenceEfficiency,
    *,
    decode: bool,
) -> Floats:
    """Time of convolution and state mixer of one layer for `num_tokens` in `num_sequences` [s].

    Chunked prefill, or with `decode` one recurrent step per token; projections and norms are the caller's.

    Assumes: equal sequences; in decode num_tokens = num_sequences.
    Error: see `residual` of the catalog records; tests/simulator/test_state_space.py repeats it.
    Source: `chunked_s`, `recurrent_step_s`; constants from catalog/data/efficiency/gdn, kda and mamba2.
    """
    if decode:
        core_s = recurrent_step_s(num_tokens, shape, device, efficiency)
    else:
        core_s = chunked_s(num_tokens, num_sequences, shape, device, efficiency)
    if not shape.conv_channels:
        return core_s
    if decode:
        return core_s + convolution_step_s(num_tokens, shape, device, efficiency)
    return core_s + convolution_s(num_tokens, num_sequences, shape, device, efficiency)


def chunked_s(
    num_tokens: ArrayLike,
    num_sequences: ArrayLike,
    shape: RecurrenceShape,
    device: Device,
    efficiency: RecurrenceEfficiency,
) -> Floats:
    """Time of the chunked rule in prefill [s].

    A head's chain of chunks costs h = fixed + chunks flop / (c peak / num_sms); chains share the SMs, and a part
    of each cannot be spread: t = launch + ‖heads h / num_sms, serial h‖ + passes bytes / bandwidth

    Assumes: equal sequences.
    Source: own form.
    """
    tokens = np.asarray(num_tokens, float)
    sequences = np.asarray(num_sequences, float)
    chunks = np.ceil(tokens / sequences / shape.chunk_tokens)
    sm_flop_per_s = device.peak_flop_per_s["bf16"] * efficiency.chunk_peak_fraction / device.num_sms
    chain_s = efficiency.chunk_stream_cycles / device.clock_hz + chunks * shape.chunk_flop / sm_flop_per_s
    spread_s = sequences * shape.num_heads * chain_s / device.num_sms
    num_bytes = bytes_past_l2(
        tokens * shape.token_elements * BF16_BYTES,
        device.l2_bytes * efficiency.chunk_l2_fraction,
        efficiency.chunk_l2_speedup,
    )
    traffic_s = efficiency.chunk_token_passes * num_bytes / device.bandwidth_bytes_per_s
    busy_s = overlap_norm_s(_OVERLAP_EXPONENT, spread_s, efficiency.chunk_serial_share * chain_s)
    return np.asarray(efficiency.chunk_launch_s + busy_s + traffic_s)


def recurrent_step_s(
    num_sequences: ArrayLike,
    shape: RecurrenceShape,
    device: Device,
    efficiency: RecurrenceEfficiency,
    *,
    warm_l2: bool = False,
) -> Floats:
    """Time of one recurrent step in decode: the state of every sequence read and written [s].

    t = launch + (2 state + inputs and outputs) / (e bandwidth)

    Assumes: the state comes from memory; `warm_l2` prices a benchmark that repeats the call.
    Source: own form.
    """
    sequences = np.asarray(num_sequences, float)
    num_bytes = sequences * (2.0 * shape.state_bytes + shape.token_elements * BF16_BYTES)
    if warm_l2:
        l2_bytes = 2.0 * device.l2_bytes * efficiency.step_l2_fraction
        num_bytes = bytes_past_l2(num_bytes, l2_bytes, efficiency.step_l2_speedup)
    bandwidth = device.bandwidth_bytes_per_s * efficiency.step_bandwidth_fraction
    return np.asarray(efficiency.step_launch_s + num_bytes / bandwidth)


def convolution_s(
    num_tokens: ArrayLike,
    num_sequences: ArrayLike,
    shape: RecurrenceShape,
    device: Device,
    efficiency: RecurrenceEfficiency,
) -> Floats:
    """Time of the causal convolution over a prefill [s].

    t = launch + ‖sequences channels fixed / num_sms, passes bytes / bandwidth‖ with every input read and every
    output written once per pass.

    Assumes: equal sequences.
    Source: own form.
    """
    tokens = np.asarray(num_tokens, float)
    sequences = np.asarray(num_sequences, float)
    fixed_cycles = sequences * shape.conv_channels * efficiency.conv_stream_cycles
    num_bytes = bytes_past_l2(
        2.0 * BF16_BYTES * tokens * shape.conv_channels,
        device.l2_bytes * efficiency.conv_l2_fraction,
        efficiency.conv_l2_speedup,
    )
    busy_s = overlap_norm_s(
        _OVERLAP_EXPONENT,
        np.asarray(fixed_cycles / (device.clock_hz * device.num_sms)),
        np.asarray(efficiency.conv_passes * num_bytes / device.bandwidth_bytes_per_s),
    )
    return np.asarray(efficiency.conv_launch_s + busy_s)


def convolution_step_s(
    num_sequences: ArrayLike, shape: RecurrenceShape, device: Device, efficiency: RecurrenceEfficiency
) -> Floats:
    """Time of one step of the causal convolution: its window shifted by one token per sequence [s].

    t = launch + passes channels (2 kernel) bytes / bandwidth

    Assumes: the window of kernel − 1 inputs is read and written together with one input and one output.
    Source: own form.
    """
    sequences = np.asarray(num_sequences, float)
    num_bytes = BF16_BYTES * sequences * shape.conv_channels * 2.0 * shape.conv_kernel
    traffic_s = efficiency.conv_step_passes * num_bytes / device.bandwidth_bytes_per_s
    return np.asarray(efficiency.conv_step_launch_s + traffic_s)
