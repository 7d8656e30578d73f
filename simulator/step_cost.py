"""Step-cost surface: tabulated iteration times of one deployment, which the scheduler reads.

Everything that an iteration of one deployment costs depends on few aggregates. The surface tabulates them once;
the scheduler then prices an iteration with a handful of integer additions. Times are integer picoseconds so that
sums are exact whatever their order, which is what lets the simulator jump over identical iterations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.catalog.units import PICOSECONDS_PER_S


@dataclass(frozen=True, slots=True, eq=False)
class StepSurface:
    """Time of one engine iteration of one replica [integer ps].

    A decode-only iteration with `d` sequences whose contexts sum to S tokens takes

        decode_base_ps[d] + decode_context_ps[d] * S + decode_window_ps[d] * S_w

    where S_w = Σ min(context, window_tokens) (0 if window_tokens is None). An iteration that also carries
    prefill takes, with T = d + prefill tokens, P prefill sequences, A = Σ n(c + n/2) over prefill chunks of n new
    tokens on c cached ones, and A_w the same with each query's context capped at window_tokens,

        mixed_base_ps[T] + decode_context_ps[d] * S + decode_window_ps[d] * S_w
          + round(prefill_pair_ps * A + prefill_window_pair_ps * A_w) + prefill_sequence_ps * P
          + riding_sequence_ps * d

    With num_stages > 1 these are times of the slowest pipeline stage: the iteration leaves the pipeline after
    num_stages * (stage time + stage_transfer_ps), and up to num_stages iterations over disjoint sequences are in
    flight.

    Assumes: all sequences of an iteration share one kernel launch per layer; context slopes are linear at fixed d.
    Source: own design; the aggregates follow from the operators' flop and byte counts.
    """

    decode_base_ps: Sequence[int]
    """Time by number of sequences d = 0..max_num_seqs [ps]; [0] is unused."""
    decode_context_ps: Sequence[int]
    """Time per token of summed context, by number of sequences d [ps]."""
    mixed_base_ps: Sequence[int]
    """Time by number of tokens T = 0..max_num_batched_tokens [ps]; [0] is unused."""
    prefill_pair_ps: float
    prefill_sequence_ps: int = 0
    window_tokens: int | None = None
    decode_window_ps: Sequence[int] = ()
    """Time per token of summed windowed context, by number of sequences d [ps]; empty without windows."""
    prefill_window_pair_ps: float = 0.0
    num_stages: int = 1
    stage_transfer_ps: int = 0
    riding_sequence_ps: int = 0
    """Time per sequence that decodes in an iteration with prefill [ps]: states read and written (mixed batches)."""
    launch_ps: int = 0
    """Host time to launch an iteration of more than captured_tokens with prefill [ps]: the iteration ends no sooner
    after the host began to launch it. The host begins once it has composed the iteration, while the previous iteration
    runs."""
    slow_launch_ps: int = 0
    """Value of launch_ps on the slowest host that was measured, which widens intervals [ps]."""
    captured_tokens: int = 0
    full_clock_ps: int = 0
    """Prefill work that a rested board does at its full clock before its power limit sets in [ps]."""
    limited_scale: float = 1.0
    """Time of prefill work beyond full_clock_ps over its time at the full clock."""
    clock_recovery: float = 0.0
    """Full-clock work regained per unit of time in which the replica decodes or waits."""
    reading_ps: int = 0
    """Part of an iteration with prefill that reads weights and does not depend on its tokens [ps]."""


def scale_steps(surface: StepSurface, decode_scale: float, prefill_scale: float) -> StepSurface:
    """Return the surface with iterations that only decode, and those with prefill, each multiplied by a factor.

    Source: own definition; the factors come from a benchmark of the same server.
    """

    def multiply(times_ps: Sequence[int], scale: float) -> tuple[int, ...]:
        return tuple(round(scale * time) for time in times_ps)

    return replace(
        surface,
        decode_base_ps=multiply(surface.decode_base_ps, decode_scale),
        decode_context_ps=multiply(surface.decode_context_ps, decode_scale),
        decode_window_ps=multiply(surface.decode_window_ps, decode_scale),
        riding_sequence_ps=round(decode_scale * surface.riding_sequence_ps),
        mixed_base_ps=multiply(surface.mixed_base_ps, prefill_scale),
        prefill_pair_ps=prefill_scale * surface.prefill_pair_ps,
        prefill_window_pair_ps=prefill_scale * surface.prefill_window_pair_ps,
        prefill_sequence_ps=round(prefill_scale * surface.prefill_sequence_ps),
        launch_ps=round(prefill_scale * surface.launch_ps),
        slow_launch_ps=round(prefill_scale * surface.slow_launch_ps),
    )


def decode_iteration_s(surface: StepSurface, num_sequences: int, context_tokens: float) -> float:
    """Time of one decode iteration of sequences with this mean context, alone in the pipeline [s].

    Source: StepSurface.
    """
    summed = num_sequences * context_tokens
    stage_ps = surface.decode_base_ps[num_sequences] + surface.decode_context_ps[num_sequences] * summed
    if surface.window_tokens is not None:
        windowed = num_sequences * min(context_tokens, surface.window_tokens)
        stage_ps += surface.decode_window_ps[num_sequences] * windowed
    return _through_stages_s(surface, stage_ps)


def prefill_iteration_s(surface: StepSurface, new_tokens: int, cached_tokens: float = 0.0) -> float:
    """Time of one iteration that computes only one chunk of a prompt behind cached tokens [s].

    Source: StepSurface.
    """
    window = surface.window_tokens
    stage_ps: float = surface.mixed_base_ps[new_tokens] + surface.prefill_sequence_ps
    stage_ps += surface.prefill_pair_ps * new_tokens * (cached_tokens + new_tokens / 2.0)
    if window is not None:
        growing = min(float(new_tokens), max(0.0, window - cached_tokens))
        pairs = growing * (cached_tokens + growing / 2.0) + (new_tokens - growing) * window
        stage_ps += surface.prefill_window_pair_ps * pairs
    if new_tokens > surface.captured_tokens:
        stage_ps = max(stage_ps, surface.launch_ps)
    return _through_stages_s(surface, stage_ps)


def prefill_s(surface: StepSurface, new_tokens: int, chunk_tokens: int, cached_tokens: float = 0.0) -> float:
    """Time of a prompt of new tokens behind cached ones, computed in chunks of one iteration each [s].

    Source: StepSurface.
    """
    starts = range(0, new_tokens, chunk_tokens)
    full_s = sum(
        prefill_iteration_s(surface, min(chunk_tokens, new_tokens - start), cached_tokens + start)
        for start in starts
    )
    work_s = full_s / surface.num_stages - len(starts) * surface.reading_ps / PICOSECONDS_PER_S
    beyond_s = max(0.0, work_s - surface.full_clock_ps / PICOSECONDS_PER_S)
    return full_s + surface.num_stages * (surface.limited_scale - 1.0) * beyond_s


def steadily_s(surface: StepSurface, work_s: float, other_s: float) -> float:
    """Mean time of `work_s` of prefill work at the full clock if it alternates without end with `other_s` of other work
    [s].

    Source: the power limit of StepSurface, in the long run.
    """
    return work_s + (surface.limited_scale - 1.0) * max(0.0, work_s - surface.clock_recovery * other_s)


def _through_stages_s(surface: StepSurface, stage_ps: float) -> float:
    if surface.num_stages == 1:
        return stage_ps / PICOSECONDS_PER_S
    return surface.num_stages * (stage_ps + surface.stage_transfer_ps) / PICOSECONDS_PER_S
