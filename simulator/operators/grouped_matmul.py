"""Routed experts of a mixture-of-experts layer: two grouped matmuls and the operators around them.

Tokens pick experts; the busiest rank of the expert-parallel group sets the time. Its weight traffic is that
of the experts that got a token at all, its compute that of whole tiles per expert.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import BF16_BYTES
from advisor.simulator.device import Device
from advisor.simulator.operators.matmul import (
    FORMATS,
    ProductEfficiency,
    datasheet_peak_flop_per_s,
    overlapped_s,
    paid_waves,
    peak_flop_per_s,
    relative_sm_rate,
    tile_flop,
)

FloatArray = NDArray[np.float64]

TILE_ROWS: Final = (16.0, 32.0, 64.0, 128.0)
_TILE_COLUMNS: Final = (64.0, 128.0, 256.0)
_SHARPEST_NORM: Final = 32.0
"""Exponent that stands for perfect overlap where powers are taken."""
TYPICAL_SKEW: Final = 0.7
"""Coefficient of variation of expert popularity if none is known: the token counts of 16 experts of DeepSeek-V3 in
sgl-project/sglang pull request 5524, without a load balancer."""


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Expert weights of one layer as one accelerator holds them; scalars, or arrays along the tokens."""

    hidden_size: FloatArray | float
    intermediate_size: FloatArray | float
    """Inner width of an expert after tensor parallelism."""
    up_columns: FloatArray | float
    """Number of columns of the first multiplication: twice intermediate_size with a gate."""
    num_local_experts: FloatArray | float


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """Load that routing gives the busiest rank, per number of tokens."""

    active_experts: FloatArray
    """Number of experts of the rank that get at least one token."""
    rows: FloatArray
    """Number of (token, expert) pairs on the rank."""
    all_rows: FloatArray
    """Number of (token, expert) pairs on all ranks together."""
    row_tiles: FloatArray
    """Number of tiles along the rows, summed over experts [TILE_ROWS, tokens]."""
    padding_rows: float = 0.0
    """Number of rows that are not multiplied, but travel like the others."""


@dataclass(frozen=True, slots=True)
class GroupedMatmulEfficiency(ProductEfficiency):
    """Fitted parameters of routed experts; a launch is routing, permutation, both multiplications and the sum."""

    expert_s: float
    """Additional time per expert that the rank holds [s]: sorting tokens, descriptors, empty groups."""
    row_passes: float
    """Number of times that activations travel to memory around the multiplications, relative to once per tensor."""
    foreign_passes: float
    """Number of times that rows of other ranks travel to memory, in kernels that do not compact their rows."""


def moe_s(
    num_tokens: FloatArray | float,
    hidden_size: int,
    intermediate_size: int,
    num_experts: int,
    experts_per_token: int,
    device: Device,
    efficiency: GroupedMatmulEfficiency,
    *,
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    gated: bool = True,
    skew: float = TYPICAL_SKEW,
    block_rows: float = 0.0,
    dispatched: bool = False,
) -> FloatArray:
    """Time of the routed experts of one layer on the busiest accelerator, without all-to-all [s].

    t = launch + experts · per expert + activations / bandwidth + Σ over both multiplications of
    min over tiles (compute^p + memory^p)^(1/p)

    Assumes: num_tokens are the tokens of the whole expert-parallel group before routing; routing is random,
    popularity has the coefficient of variation `skew`; weights are cold. Kernels that pad the rows of each expert
    to whole blocks of `block_rows`, 1 where shapes are fixed, read the weights of all; 0 leaves experts without rows
    out. If tokens were `dispatched`, a rank holds the rows of its own experts only; otherwise every rank holds all
    tokens, and those of other ranks' experts pass through memory too.
    Raises: KeyError: the device has no 16-bit peak.
    Error: `residual` of the catalog record, measured by evidence/fit/grouped_matmul.py.
    Source: own model, fitted to MoE measurements of ai-dynamo/aiconfigurator (Apache-2.0).
    """
    tokens = np.atleast_1d(np.asarray(num_tokens, dtype=np.float64))
    inner = intermediate_size / tensor_parallel
    shape = ExpertShape(hidden_size, inner, inner * (2.0 if gated else 1.0), num_experts / expert_parallel)
    load = expert_load(tokens, num_experts, experts_per_token, expert_parallel, skew)
    if block_rows:
        load = padded_load(load, num_experts / expert_parallel, block_rows)
    if dispatched:
        load = replace(load, all_rows=load.rows)
        tokens = np.minimum(tokens, load.rows)
    return experts_s(tokens, shape, load, device, efficiency)


def expert_load(
    tokens: FloatArray,
    num_experts: int,
    experts_per_token: int,
    expert_parallel: int = 1,
    skew: float = TYPICAL_SKEW,
) -> ExpertLoad:
    """Return the experts and rows that random routing gives the busiest of `expert_parallel` ranks.

    Popularities are the quantiles of a lognormal distribution with coefficient of variation `skew`. An expert
    with mean load l of T tokens is idle with probability (1 - l/T)^T. The busiest rank has
    1 + sqrt(2 ln(ranks) v) times the mean, where v is the relative variance of a rank's load (of popularity
    and of chance).

    Assumes: tokens route independently; the maximum over ranks is that of normal variables; a tile boundary
    falls anywhere, so that an expert pays half a tile more than its rows.
    Source: own derivation; extreme value of normal variables as in any textbook (leading order).
    """
    num_local = num_experts / expert_parallel
    pairs = tokens * experts_per_token
    surplus = busiest_rank_surplus(pairs, num_experts, expert_parallel, skew)
    popularity = _popularity(skew)
    mean_load = np.minimum(pairs / num_experts * surplus, tokens)[:, None] * popularity
    mean_load = np.minimum(mean_load, tokens[:, None])
    active = 1.0 - (1.0 - mean_load / tokens[:, None]) ** tokens[:, None]
    row_tiles = [np.mean(active + np.maximum(mean_load / size - 0.5, 0.0), axis=1) for size in TILE_ROWS]
    return ExpertLoad(
        active_experts=num_local * active.mean(axis=1),
        rows=num_local * mean_load.mean(axis=1),
        all_rows=pairs,
        row_tiles=num_local * np.array(row_tiles),
    )


def busiest_rank_surplus(
    pairs: FloatArray, num_experts: int, expert_parallel: int, skew: float = TYPICAL_SKEW
) -> FloatArray:
    """Ratio of the load of the busiest of `expert_parallel` ranks to the mean load, for `pairs` (token, expert) pairs.

    1 + sqrt(2 ln(ranks) v), where v is the relative variance of a rank's load: of popularity and of chance.

    Assumes: the maximum over ranks is that of normal variables.
    Source: extreme value of normal variables as in any textbook (leading order).
    """
    num_local = num_experts / expert_parallel
    variance = skew**2 / num_local * (1.0 - 1.0 / expert_parallel) + expert_parallel / pairs
    surplus = 1.0 + np.sqrt(2.0 * np.log(expert_parallel) * variance)
    return np.asarray(np.minimum(surplus, expert_parallel), dtype=np.float64)


def padded_load(load: ExpertLoad, num_local_experts: float, block_rows: float) -> ExpertLoad:
    """Return the load of kernels whose rows are padded to whole blocks, one at least for each expert of the rank.

    Assumes: the number of padding blocks is that of experts with one row each beyond their last block; they read
    weights and are not multiplied.
    Source: own formulation of vLLM's compute_aligned_M.
    """
    return replace(
        load,
        active_experts=np.full_like(load.active_experts, num_local_experts),
        padding_rows=num_local_experts * (block_rows - 1),
    )


def experts_s(
    tokens: FloatArray,
    shape: ExpertShape,
    load: ExpertLoad,
    device: Device,
    efficiency: GroupedMatmulEfficiency,
) -> FloatArray:
    """Time of the routed experts for a given load [s].

    The formula is that of `moe_s`, with the load of the busiest rank known.

    Assumes: as `moe_s`.
    Raises: KeyError: the device has no 16-bit peak.
    Source: own model.
    """
    hidden = shape.hidden_size
    inner = shape.intermediate_size
    bandwidth = device.bandwidth_bytes_per_s * efficiency.memory_fraction
    row_elements = 2.0 * hidden + shape.up_columns + inner
    foreign_rows = np.maximum(load.all_rows - load.rows, 0.0)
    own_rows = load.rows + load.padding_rows
    own = efficiency.row_passes * (own_rows * row_elements + 2.0 * tokens * hidden)
    foreign = efficiency.foreign_passes * foreign_rows * row_elements
    activations_s = BF16_BYTES * (own + foreign) / bandwidth
    fixed_s = efficiency.launch_s + efficiency.expert_s * shape.num_local_experts
    up_s = _grouped_s(shape.up_columns, hidden, load, device, efficiency)
    down_s = _grouped_s(hidden, inner, load, device, efficiency)
    return np.asarray(fixed_s + activations_s + up_s + down_s)


def _grouped_s(
    columns: FloatArray | float,
    depth: FloatArray | float,
    load: ExpertLoad,
    device: Device,
    e: GroupedMatmulEfficiency,
) -> FloatArray:
    """Time of one grouped multiplication, the best over tile shapes [s]."""
    form = FORMATS[e.dtype]
    peak = peak_flop_per_s(e.dtype, device)
    relative = relative_sm_rate(datasheet_peak_flop_per_s(e.dtype, device), device, e.sm_flop_per_cycle)
    fraction = rate_fraction(e.compute_fraction, relative, e.overlap_norm)
    traffic = form.weight_bytes * columns * depth * load.active_experts
    memory_s = traffic / (device.bandwidth_bytes_per_s * e.memory_fraction)
    latency_s = np.asarray(depth * e.depth_cycles / device.clock_hz)
    best = np.full_like(load.rows, np.inf)
    for tile_rows, row_tiles in zip(TILE_ROWS, load.row_tiles, strict=True):
        for tile_columns in _TILE_COLUMNS:
            num_tiles = row_tiles * np.ceil(columns / tile_columns)
            work = tile_flop(tile_rows, tile_columns, depth, e.ramp_depth * relative, e.tile_half * relative)
            measured = tile_flop(tile_rows, tile_columns, depth, e.ramp_depth, e.tile_half)
            # A slower unit takes no less time than the measured one.
            work = np.maximum(work / fraction, relative * measured / e.compute_fraction)
            waves = paid_waves(num_tiles, device.num_sms, e.wave_smoothing)
            compute_s = waves * work * device.num_sms / peak
            best = np.minimum(best, overlapped_s(np.maximum(compute_s, latency_s), memory_s, e.overlap_norm))
    return best


def rate_fraction(compute_fraction: float, relative: float, overlap_norm: float = 1.0) -> float:
    """Return the fraction of its matrix unit's rate that a kernel reaches on an SM with `relative` times the measured
    rate.

    At the measured rate a kernel that reaches f spends 1 on the unit and x on what feeds it, joined by the p-norm in
    which the kernel overlaps memory and unit: (1 + x^p)^(1/p) = 1/f. A slower unit spends more, and its feed as much as
    before: 1 / (1 + (x · relative)^p)^(1/p), which for p = 1, one after the other, is 1 / (1 + (1/f - 1) · relative).

    Assumes: a feed overlaps with the unit as memory does; attention, whose softmax waits for the unit, does not.
    Error: tiles of DeepGEMM keep an H800's unit busy for 0.70 of their time and an H20's for 0.87 to 0.94
    (deepseek-ai/DeepGEMM pull requests 74 and 116); p of 1 and of 1.66 say 0.91 and 0.95 there.
    Source: own model, the law of `relative_sm_rate` for tiles and their start.
    """
    norm = overlap_norm if math.isfinite(overlap_norm) else _SHARPEST_NORM
    feed = (compute_fraction**-norm - 1.0) ** (1.0 / norm)
    return float((1.0 + (feed * relative) ** norm) ** (-1.0 / norm))


def _popularity(skew: float) -> FloatArray:
    """Relative popularity of experts at 32 quantiles; mean 1, coefficient of variation about `skew`."""
    if skew <= 0.0:
        return np.ones(1)
    sigma = np.sqrt(np.log1p(skew**2))
    normal = _normal_quantiles(32)
    weights = np.exp(sigma * normal)
    return np.asarray(weights / weights.mean())


@cache
def _normal_quantiles(count: int) -> NDArray[np.float64]:
    from statistics import NormalDist

    return np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])
