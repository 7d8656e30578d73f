"""Step-cost surfaces of engines for servers: the forward pass, attention lines and engine costs of a deployment,
tabulated once."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.collectives import send_recv_s
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import PowerLimit, power_limit
from advisor.simulator.engine_costs import (
    EngineCosts,
    eager_decode_s,
    launch_ahead_s,
    on_slow_host,
    prompt_floor_s,
    takes_turns,
    unmeasured_scale,
)
from advisor.simulator.graph.forward_pass import (
    DecodeLines,
    TokenCosts,
    decode_lines,
    head_s,
    prefill_lines,
    riding_state_s,
    token_costs,
)
from advisor.simulator.graph.model import (
    num_collectives,
    num_experts,
    routed_layers,
    window_of,
)
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention_kernels import attended_pairs
from advisor.simulator.operators.grouped_matmul import busiest_rank_surplus, expert_load
from advisor.simulator.step_cost import StepSurface
from advisor.simulator.terms import TermCase, value

FloatArray = NDArray[np.float64]
_Parts = dict[str, FloatArray]
"""Seconds by category over a grid."""

_TILE_ROWS = 64
"""Smallest number of rows of a tile, in matmuls that are computed many rows at a time."""
_PRODUCTS = ("attention_projections", "feed_forward")
"""Categories of dense matmuls."""
_READING_TOKENS = 128
"""Tokens of an iteration that takes as long as reading the weights, experts included."""
_TILES_OF_OCTAVE = 8
"""Number of tile edges tried between a number of tokens and its double: beyond, one more tile matters little."""


@dataclass(frozen=True, slots=True)
class SurfaceInputs:
    """Inputs that a step-cost surface is tabulated for."""

    max_num_seqs: int
    max_num_batched_tokens: int
    mean_input_tokens: float
    mean_context_tokens: float
    """Typical context during decode, around which attention is linearised [tokens]."""
    cuda_graph_sizes: tuple[int, ...] = ()
    """Batch sizes for which decode graphs are captured; empty if launch time never matters."""
    captured_tokens: int = 0
    """Highest number of tokens of an iteration whose layers are captured, with or without prefill; 0 if the engine
    captures none."""
    context_spread: float = 0.0
    """Standard deviation over mean of the contexts that decode together."""

    @property
    def chunk_tokens(self) -> float:
        """Tokens of a typical prompt that one iteration computes."""
        return min(self.mean_input_tokens, float(self.max_num_batched_tokens))


def build_surface(
    deployment: Deployment, library: OperatorLibrary, costs: EngineCosts, inputs: SurfaceInputs
) -> StepSurface:
    """Tabulate the step-cost surface of one replica [integer ps].

    A decode-only iteration runs from captured graphs: its batch pads to the next captured size and its host time
    is the fixed part. An iteration with prefill is launched operator by operator: it lasts at least as long as that,
    or, where the host runs ahead, ends no sooner than its launches.

    Assumes: token costs between grid points are linear; attention is linear in context around the typical one.
    Source: own composition.
    """
    library, costs = library.with_launch_scale(costs.launch_scale), _specific(deployment, library, costs)
    decode_grid = _grid(int(_pad_to_graphs(inputs.cuda_graph_sizes, inputs.max_num_seqs)[-1]))
    typical = inputs.mean_context_tokens
    lines = decode_lines(
        deployment, library, decode_grid, typical / 2.0, typical * 1.5, inputs.context_spread
    )
    stages = deployment.pipeline_parallel
    window = lines.window_tokens
    grid = _grid(inputs.max_num_batched_tokens)
    parts = _prompt_parts(deployment, library, costs, inputs, grid)
    mixed, sequence_s, pair_s, window_pair_s = _mixed_lines(deployment, library, costs, inputs, grid, parts)
    hop = send_recv_s(
        inputs.max_num_seqs * deployment.model.hidden_size * 2.0,
        deployment.group(stages, apart=deployment.ranks_per_stage),
    )
    surface = StepSurface(
        decode_base_ps=_decode_base(deployment, library, costs, decode_grid, lines, inputs),
        decode_context_ps=_spread(decode_grid, lines.slope_s * costs.kernel_scale, inputs.max_num_seqs),
        mixed_base_ps=mixed,
        prefill_pair_ps=pair_s * PICOSECONDS_PER_S,
        prefill_sequence_ps=round(sequence_s * PICOSECONDS_PER_S),
        riding_sequence_ps=round(
            riding_state_s(deployment, library) * costs.kernel_scale * costs.prefill_scale * PICOSECONDS_PER_S
        ),
        window_tokens=window,
        decode_window_ps=()
        if window is None
        else _spread(decode_grid, lines.window_slope_s * costs.kernel_scale, inputs.max_num_seqs),
        prefill_window_pair_ps=window_pair_s * PICOSECONDS_PER_S,
        launch_ps=round(launch_ahead_s(deployment, costs) * PICOSECONDS_PER_S),
        slow_launch_ps=round(launch_ahead_s(deployment, on_slow_host(deployment, costs)) * PICOSECONDS_PER_S),
        captured_tokens=inputs.captured_tokens,
        num_stages=stages,
        stage_transfer_ps=round(float(np.max(hop)) * PICOSECONDS_PER_S) if stages > 1 else 0,
    )
    limit = power_limit(deployment.accelerator)
    if limit is None:
        return surface
    kept = _prompt_parts(deployment, library.sustaining(limit.flop_per_s), costs, inputs, grid[-1:])
    return _limit_power(surface, limit, parts, kept, costs.kernel_scale * costs.prefill_scale)


def _limit_power(
    surface: StepSurface, limit: PowerLimit, full: _Parts, kept: _Parts, prefill_scale: float
) -> StepSurface:
    """Return the surface slowed to what the power limit leaves of its largest iteration; unchanged if the limit leaves
    all.

    An iteration is as long as its energy takes to come through the limit: products by their work, the rest by its time.
    What other time leaves of the limit is work at the full clock that is regained.
    """
    full_s = float(sum(seconds[-1] for seconds in full.values()))
    products_s, kept_products_s = (float(sum(each[name][-1] for name in _PRODUCTS)) for each in (full, kept))
    kept_s = kept_products_s / prefill_scale + limit.other_draw * (full_s - products_s)
    reading_ps = surface.mixed_base_ps[min(_READING_TOKENS, len(surface.mixed_base_ps) - 1)]
    work_s = (surface.mixed_base_ps[-1] - reading_ps) / PICOSECONDS_PER_S
    if kept_s <= full_s or work_s <= 0.0:
        return surface
    slowdown = (kept_s - full_s) / work_s
    return replace(
        surface,
        full_clock_ps=round(limit.full_clock_s * PICOSECONDS_PER_S),
        limited_scale=1.0 + slowdown,
        clock_recovery=(1.0 - limit.other_draw) / slowdown,
        reading_ps=reading_ps,
    )


def decode_breakdown_s(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    num_sequences: int,
    context_tokens: float,
    cuda_graph_sizes: tuple[int, ...] = (),
) -> dict[str, float]:
    """Time of one decode iteration by category [s]; the values add up to the iteration of one stage.

    The batch pads to the next captured size; launches that outlast the kernels of a batch without a graph count as
    host time.

    Source: own composition, the same parts as build_surface.
    """
    library, costs = library.with_launch_scale(costs.launch_scale), _specific(deployment, library, costs)
    padded = _pad_to_graphs(cuda_graph_sizes, num_sequences)[-1:]
    batches = np.array([padded[0], float(num_sequences)])
    lines = decode_lines(deployment, library, batches, context_tokens / 2.0, context_tokens * 1.5)
    growing_s = num_sequences * float(lines.growing_s(context_tokens)[1])
    attention_s = costs.kernel_scale * (float(lines.intercept_s[0]) + growing_s)
    beside_s = np.array([attention_s])
    priced = _pass_parts(deployment, library, costs, padded, decode=True, beside_s=beside_s)
    parts = {name: float(seconds[0]) for name, seconds in priced.items()}
    parts["collectives"] = parts.get("collectives", 0.0) + _collective_wait_s(deployment, costs)
    parts["head"] = costs.kernel_scale * float(head_s(deployment, library, padded)[0])
    parts["attention"] = parts.get("attention", 0.0) + attention_s
    parts["attention"] += costs.release_layers_s / deployment.pipeline_parallel
    exposed_s = 0.0
    if cuda_graph_sizes and num_sequences > max(cuda_graph_sizes):
        host_s = float(eager_decode_s(deployment, costs, np.array(float(num_sequences))))
        exposed_s = max(0.0, host_s - sum(parts.values()))
    parts["host"] = costs.step_s + costs.sequence_s * num_sequences / deployment.data_parallel + exposed_s
    return {name: seconds for name, seconds in parts.items() if seconds > 0}


def prefill_breakdown_s(
    deployment: Deployment, library: OperatorLibrary, costs: EngineCosts, num_tokens: int
) -> dict[str, float]:
    """Time of one iteration over the whole prompt of one sequence by category [s].

    Launches that outlast the kernels count as host time.

    Source: own composition, the same parts as build_surface.
    """
    library, costs = library.with_launch_scale(costs.launch_scale), _specific(deployment, library, costs)
    tokens = np.array([float(num_tokens)])
    priced = _pass_parts(deployment, library, costs, tokens, decode=False, input_tokens=float(num_tokens))
    lines = prefill_lines(deployment, library, float(num_tokens), float(num_tokens))
    windowed = float(attended_pairs(num_tokens, 0.0, window_of(deployment.model)))
    parts = {name: float(seconds[0]) for name, seconds in priced.items()}
    parts["collectives"] = parts.get("collectives", 0.0) + _collective_wait_s(deployment, costs)
    scale = costs.kernel_scale * costs.prefill_scale
    parts["head"] = scale * float(head_s(deployment, library, np.ones(1))[0])
    parts["attention"] = parts.get("attention", 0.0) + scale * (
        lines.sequence_s
        + lines.token_s * num_tokens
        + lines.pair_s * num_tokens**2 / 2.0
        + lines.window_pair_s * windowed
    )
    ahead = num_tokens > max(deployment.engine.cuda_graph_sizes, default=0)
    floor_s = prompt_floor_s(deployment, costs, num_tokens) + (
        launch_ahead_s(deployment, costs) if ahead else 0.0
    )
    exposed_s = max(0.0, floor_s - sum(parts.values()))
    parts["host"] = costs.step_s + costs.mixed_step_s + exposed_s
    return {name: seconds for name, seconds in parts.items() if seconds > 0}


def _specific(deployment: Deployment, library: OperatorLibrary, costs: EngineCosts) -> EngineCosts:
    """Return the costs with scales that fit hardware and model.

    Kernels take longer if only a related chip's were measured, or if a release lacks their configuration. Routing that
    leaves some experts out saves reading them; kernels that pad their rows or have fixed shapes read all.
    """
    architecture = deployment.accelerator.architecture
    scale = unmeasured_scale(architecture) * costs.release_scale
    case = TermCase(deployment.engine.id, architecture=architecture, dtype=deployment.weight_dtype)
    experts = 1.0 - value("engine", "expert_spared_fraction", case) * (1.0 - costs.expert_scale)
    reads_all = library.expert_block_rows > 0 and num_experts(deployment.model) > 0
    return replace(
        costs,
        kernel_scale=scale * costs.kernel_scale,
        expert_scale=max(1.0, experts) if reads_all else experts,
    )


def _decode_base(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    grid: FloatArray,
    lines: DecodeLines,
    inputs: SurfaceInputs,
) -> Sequence[int]:
    max_num_seqs = inputs.max_num_seqs
    graphs = inputs.cuda_graph_sizes
    attention_s = costs.kernel_scale * (
        lines.intercept_s + grid * lines.growing_s(inputs.mean_context_tokens)
    )
    parts = _pass_parts(deployment, library, costs, grid, decode=True, beside_s=attention_s)
    gpu_s = _total_s(deployment, costs, parts)
    gpu_s += costs.kernel_scale * (head_s(deployment, library, grid) + lines.intercept_s)
    gpu_s += costs.release_layers_s / deployment.pipeline_parallel
    padded = _pad_to_graphs(graphs, max_num_seqs)
    seconds = np.interp(padded, grid, gpu_s)
    num_sequences = np.arange(max_num_seqs + 1, dtype=np.float64)
    if graphs:
        beyond = num_sequences > max(graphs)
        host_s = eager_decode_s(deployment, costs, num_sequences)
        growing_s = num_sequences * np.interp(
            num_sequences, grid, lines.growing_s(inputs.mean_context_tokens)
        )
        hidden_s = costs.kernel_scale * growing_s
        seconds = np.where(beyond, np.maximum(seconds, host_s - hidden_s), seconds)
    # Each attention data-parallel rank has a scheduler of its own.
    seconds = seconds + costs.step_s + costs.sequence_s * num_sequences / deployment.data_parallel
    seconds[0] = 0.0
    return _picoseconds(seconds)


def _mixed_lines(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    inputs: SurfaceInputs,
    grid: FloatArray,
    parts: _Parts,
) -> tuple[Sequence[int], float, float, float]:
    lines = prefill_lines(deployment, library, inputs.chunk_tokens, inputs.mean_input_tokens)
    gpu_s = _total_s(deployment, costs, parts)
    sampled = np.minimum(grid, value("engine", "sampled_sequences", TermCase()))
    scale = costs.kernel_scale * costs.prefill_scale
    gpu_s += scale * (head_s(deployment, library, sampled) + lines.token_s * grid)
    tokens = np.arange(inputs.max_num_batched_tokens + 1, dtype=np.float64)
    floor_s = np.where(
        tokens > deployment.engine.captured_prompt_tokens,
        prompt_floor_s(deployment, costs, float(inputs.max_num_batched_tokens)),
        0.0,
    )
    seconds = np.maximum(np.interp(tokens, grid, gpu_s), floor_s)
    seconds += costs.step_s + costs.mixed_step_s
    seconds[0] = 0.0
    return _picoseconds(seconds), lines.sequence_s * scale, lines.pair_s * scale, lines.window_pair_s * scale


def _prompt_parts(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    inputs: SurfaceInputs,
    grid: FloatArray,
) -> _Parts:
    """Device time of iterations with prefill by number of tokens [s], without the part that grows with their
    contexts."""
    return _pass_parts(
        deployment,
        library,
        costs,
        grid,
        decode=False,
        prompt_tokens=1.0 if deployment.engine.balances_prompts else inputs.chunk_tokens,
        input_tokens=inputs.mean_input_tokens,
    )


def _pass_parts(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    tokens: FloatArray,
    *,
    decode: bool,
    beside_s: FloatArray | float = 0.0,
    prompt_tokens: float = 1.0,
    input_tokens: float = 0.0,
) -> _Parts:
    """Device time of a pass by category [s], with the exchange of experts among the collectives as far as nothing hides
    it.

    An engine that divides batches does so if that is faster: two halves read all weights, and a part of the shorter of
    their computation and exchange hides behind the longer. `beside_s` is attention over the cache, which also hides
    the exchange and is not in the result.

    Source: own composition; engine costs, hidden_exchange_fraction.
    """

    def price(divisor: float) -> tuple[_Parts, FloatArray]:
        pass_costs = token_costs(
            deployment,
            library,
            tokens / divisor,
            decode=decode,
            prompt_tokens=max(1.0, prompt_tokens / divisor),
            input_tokens=input_tokens,
        )
        parts = _scaled_seconds(deployment, costs, pass_costs, decode=decode)
        parts = {name: divisor * seconds for name, seconds in parts.items()}
        return parts, parts.pop("exchange")

    parts, exchange_s = price(1.0)
    if takes_turns(deployment, costs):
        halves, both_s = price(2.0)
        computed_s = sum(halves.values()) + beside_s
        shown_s = both_s - costs.hidden_exchange_fraction * np.minimum(computed_s, both_s)
        faster = sum(halves.values()) + shown_s < sum(parts.values()) + exchange_s
        parts = {name: np.where(faster, halves[name], seconds) for name, seconds in parts.items()}
        exchange_s = np.where(faster, shown_s, exchange_s)
    parts["collectives"] = parts["collectives"] + exchange_s
    return parts


def _total_s(deployment: Deployment, costs: EngineCosts, parts: _Parts) -> FloatArray:
    return np.asarray(sum(parts.values()), dtype=np.float64) + _collective_wait_s(deployment, costs)


def _collective_wait_s(deployment: Deployment, costs: EngineCosts) -> float:
    """Time that the ranks of one stage wait for each other, beyond the collectives themselves [s]."""
    if deployment.ranks_per_stage == 1:
        return 0.0
    group = deployment.group(deployment.tensor_parallel)
    wait_s = costs.collective_wait_s
    if group.num_nodes > 1:
        wait_s += costs.network_wait_s * group.num_ranks
    return wait_s * num_collectives(deployment.model) / deployment.pipeline_parallel


def _scaled_seconds(
    deployment: Deployment, costs: EngineCosts, pass_costs: TokenCosts, *, decode: bool
) -> _Parts:
    """Seconds of a pass by category, as kernels take inside the engine."""
    scale = costs.kernel_scale if decode else costs.kernel_scale * costs.prefill_scale
    experts = (
        _decode_expert_scale(deployment, costs, pass_costs.tokens) if decode else costs.expert_prefill_scale
    )
    return {
        name: scale * (experts if name == "experts" else 1.0) * seconds
        for name, seconds in pass_costs.seconds.items()
    }


def read_expert_share(
    deployment: Deployment, library: OperatorLibrary, costs: EngineCosts, num_sequences: int
) -> float:
    """Experts that a decode step reads, as a fraction of those that even and independent routing would touch.

    Source: popularity as routed experts are priced with, and engine costs, as build_surface has them.
    """
    mixtures = [experts for _, experts in routed_layers(deployment.model)]
    if not mixtures:
        return 1.0
    costs = _specific(deployment, library, costs)
    tokens = np.array([float(num_sequences)])
    densest = max(mixtures, key=lambda experts: experts.hit_fraction)
    popular = expert_load(tokens, densest.num_experts, densest.per_token).active_experts / densest.num_chosen(
        tokens
    )
    share = np.asarray(_decode_expert_scale(deployment, costs, tokens)) * popular
    return min(1.0, float(np.max(share)))


def _decode_expert_scale(
    deployment: Deployment, costs: EngineCosts, tokens: FloatArray
) -> FloatArray | float:
    """Ratio of the time of routed experts to that under independent routing.

    Sequences of one batch resemble each other and leave experts out, until every expert has rows of some of them. The
    excess of the busiest rank of an expert-parallel group over the mean is not saved.
    """
    mixtures = [experts for _, experts in routed_layers(deployment.model)]
    if not mixtures or costs.expert_scale >= 1.0:
        return costs.expert_scale
    densest = max(mixtures, key=lambda experts: experts.hit_fraction)
    pairs = np.maximum(tokens, 1.0) * densest.per_token
    rows_per_expert = pairs / densest.num_experts
    spared = (1.0 - costs.expert_scale) / (
        1.0 + (rows_per_expert / value("engine", "busy_expert_rows", TermCase())) ** 2
    )
    spared /= busiest_rank_surplus(pairs, densest.num_experts, deployment.expert_parallel)
    return np.asarray(1.0 - spared, dtype=np.float64)


@lru_cache(maxsize=64)
def _grid(largest: int) -> FloatArray:
    """Return the token counts at which operators are priced: powers of two and points between, and both sides of the
    edges at which matmuls get another row of tiles, up to the largest.

    Between whole tiles time is a staircase: points that are all multiples of tiles would price its foot.
    """
    points = {1, largest}
    step = 2
    while step <= largest:
        points.update((step, step * 5 // 4, step * 3 // 2, step * 7 // 4))
        tile = max(_TILE_ROWS, step // _TILES_OF_OCTAVE)
        points.update(
            edge + beyond for edge in range(step, 2 * step, tile) if step >= tile for beyond in (0, 1)
        )
        step *= 2
    grid = np.array(sorted(point for point in points if point <= largest), dtype=np.float64)
    grid.flags.writeable = False
    return grid


@lru_cache(maxsize=64)
def _pad_to_graphs(graph_sizes: tuple[int, ...], max_num_seqs: int) -> FloatArray:
    """Return the batch that really runs for 0..max_num_seqs sequences: the next captured size, or the batch itself
    beyond."""
    padded = np.arange(max_num_seqs + 1, dtype=np.float64)
    if graph_sizes:
        sizes = np.array(sorted(graph_sizes), dtype=np.float64)
        slots = np.minimum(np.searchsorted(sizes, padded), len(sizes) - 1)
        padded = np.where(padded > sizes[-1], padded, sizes[slots])
    padded.flags.writeable = False
    return padded


def _spread(grid: FloatArray, seconds: FloatArray, largest: int) -> Sequence[int]:
    return _picoseconds(np.interp(np.arange(largest + 1, dtype=np.float64), grid, seconds))


def _picoseconds(seconds: FloatArray) -> Sequence[int]:
    """Return whole picoseconds as Python integers in a buffer that numpy reads in place: most surfaces are bounded, and
    never simulated."""
    return array("q", np.rint(seconds * PICOSECONDS_PER_S).astype(np.int64).tobytes())
