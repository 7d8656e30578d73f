"""What an iteration of a batch takes, read from a step-cost surface that has been checked against a policy."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.batch import MicroBatch
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.step_cost import StepSurface


def mixed_ps(surface: StepSurface, batch: MicroBatch, riding: int) -> int:
    """Time in one stage of an iteration with the batch's chunks and `riding` of its decoding sequences [ps].

    The batch's pairs are 2A = Σ n(2c + n), whole numbers.
    Source: StepSurface.
    """
    twice_ps = surface.prefill_pair_ps * batch.pairs + surface.prefill_window_pair_ps * batch.window_pairs
    time_ps = (
        surface.mixed_base_ps[riding + batch.chunk_tokens]
        + round(0.5 * twice_ps)
        + surface.prefill_sequence_ps * batch.num_chunks
    )
    if riding:
        time_ps += surface.decode_context_ps[riding] * batch.context_sum + surface.riding_sequence_ps * riding
        if surface.window_tokens is not None:
            time_ps += surface.decode_window_ps[riding] * batch.window_sum
    return time_ps


def decode_ps(surface: StepSurface, batch: MicroBatch) -> tuple[int, int]:
    """Time in one stage of the next decode iteration, and what each further one adds [ps].

    Source: StepSurface.
    """
    num_decoding = batch.num_decoding
    slope_ps = surface.decode_context_ps[num_decoding]
    time_ps = surface.decode_base_ps[num_decoding] + slope_ps * batch.context_sum
    slope_ps *= num_decoding
    if surface.window_tokens is not None:
        window_ps = surface.decode_window_ps[num_decoding]
        time_ps += window_ps * batch.window_sum
        slope_ps += window_ps * batch.num_unsaturated
    return time_ps, slope_ps


def step_tables(surface: StepSurface, policy: SchedulerPolicy) -> StepSurface:
    """The surface with plain lists, once it is known to cover everything that the policy can compose.

    Raises: AdvisorError: the surface is too small for the policy, or has negative or all-zero times.
    Source: own definition.
    """
    window = surface.window_tokens
    num_slots, num_tokens = policy.num_slots, policy.max_num_batched_tokens
    tables = replace(
        surface,
        decode_base_ps=_covering("decode_base_ps", surface.decode_base_ps, num_slots),
        decode_context_ps=_covering("decode_context_ps", surface.decode_context_ps, num_slots),
        decode_window_ps=()
        if window is None
        else _covering("decode_window_ps", surface.decode_window_ps, num_slots),
        mixed_base_ps=_covering("mixed_base_ps", surface.mixed_base_ps, num_tokens),
    )
    if min(tables.decode_base_ps[1:]) <= 0 or min(tables.mixed_base_ps[1:]) <= 0:
        raise AdvisorError("the step-cost surface has an iteration that takes no time")
    scalars = (
        surface.prefill_pair_ps,
        surface.prefill_window_pair_ps,
        surface.prefill_sequence_ps,
        surface.riding_sequence_ps,
        surface.stage_transfer_ps,
    )
    if min(scalars) < 0 or not np.all(np.isfinite(scalars)):
        raise AdvisorError("the step-cost surface has a negative or non-finite time")
    if surface.num_stages < 1 or (window is not None and window < 1):
        raise AdvisorError(
            "the step-cost surface needs at least one stage and a window of at least one token"
        )
    return tables


def _covering(name: str, column: Sequence[int], largest: int) -> list[int]:
    """The column as plain integers 0..largest."""
    if len(column) <= largest:
        raise AdvisorError(
            f"the step-cost surface tabulates {name} up to {len(column) - 1}, the policy needs {largest}",
            fix="build the surface for the policy's max_num_seqs and max_num_batched_tokens",
        )
    values = list(column[: largest + 1])
    if set(map(type, values)) != {int}:
        values = [int(value) for value in values]
    if min(values[1:]) < 0:
        raise AdvisorError(f"the step-cost surface has negative times in {name}")
    return values
