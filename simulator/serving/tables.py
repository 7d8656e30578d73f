"""A step-cost surface as plain lists, checked against the policy that will index it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.batch import MicroBatch
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.step_cost import StepSurface


@dataclass(frozen=True, slots=True)
class StepTables:
    """The numbers of a StepSurface in the form that the loop reads fastest."""

    decode_base_ps: list[int]
    decode_context_ps: list[int]
    decode_window_ps: list[int]
    mixed_base_ps: list[int]
    half_pair_ps: float
    """Per unit of 2A = n(2c + n), which is a whole number."""
    half_window_pair_ps: float
    prefill_sequence_ps: int
    riding_sequence_ps: int
    window_tokens: int | None
    num_stages: int
    stage_transfer_ps: int

    def mixed_ps(self, batch: MicroBatch, riding: int) -> int:
        """Time in one stage of an iteration with the batch's chunks and `riding` of its decoding sequences [ps]."""
        time_ps = (
            self.mixed_base_ps[riding + batch.chunk_tokens]
            + round(self.half_pair_ps * batch.pairs + self.half_window_pair_ps * batch.window_pairs)
            + self.prefill_sequence_ps * batch.num_chunks
        )
        if riding:
            time_ps += self.decode_context_ps[riding] * batch.context_sum + self.riding_sequence_ps * riding
            if self.window_tokens is not None:
                time_ps += self.decode_window_ps[riding] * batch.window_sum
        return time_ps

    def decode_ps(self, batch: MicroBatch) -> tuple[int, int]:
        """Time in one stage of the next decode iteration, and what each further one adds [ps]."""
        num_decoding = batch.num_decoding
        slope_ps = self.decode_context_ps[num_decoding]
        time_ps = self.decode_base_ps[num_decoding] + slope_ps * batch.context_sum
        slope_ps *= num_decoding
        if self.window_tokens is not None:
            window_ps = self.decode_window_ps[num_decoding]
            time_ps += window_ps * batch.window_sum
            slope_ps += window_ps * batch.num_unsaturated
        return time_ps, slope_ps


def step_tables(surface: StepSurface, policy: SchedulerPolicy) -> StepTables:
    """Tables of a surface, once it is known to cover everything that the policy can compose.

    Raises: AdvisorError: the surface is too small for the policy, or has negative or all-zero times.
    Source: own definition.
    """
    decode_base = _covering("decode_base_ps", surface.decode_base_ps, policy.num_slots)
    mixed_base = _covering("mixed_base_ps", surface.mixed_base_ps, policy.max_num_batched_tokens)
    if min(decode_base[1:]) <= 0 or min(mixed_base[1:]) <= 0:
        raise AdvisorError("the step-cost surface has an iteration that takes no time")
    windowed = surface.window_tokens is not None
    tables = StepTables(
        decode_base_ps=decode_base,
        decode_context_ps=_covering("decode_context_ps", surface.decode_context_ps, policy.num_slots),
        decode_window_ps=_covering("decode_window_ps", surface.decode_window_ps, policy.num_slots)
        if windowed
        else [],
        mixed_base_ps=mixed_base,
        half_pair_ps=surface.prefill_pair_ps / 2.0,
        half_window_pair_ps=surface.prefill_window_pair_ps / 2.0,
        prefill_sequence_ps=surface.prefill_sequence_ps,
        riding_sequence_ps=surface.riding_sequence_ps,
        window_tokens=surface.window_tokens,
        num_stages=surface.num_stages,
        stage_transfer_ps=surface.stage_transfer_ps,
    )
    scalars = (
        tables.half_pair_ps,
        tables.half_window_pair_ps,
        tables.prefill_sequence_ps,
        tables.riding_sequence_ps,
        tables.stage_transfer_ps,
    )
    if min(scalars) < 0 or not np.all(np.isfinite(scalars)):
        raise AdvisorError("the step-cost surface has a negative or non-finite time")
    if tables.num_stages < 1 or (tables.window_tokens is not None and tables.window_tokens < 1):
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
