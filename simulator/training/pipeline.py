"""Pipeline schedules, run as event graphs (when every pass starts and ends, activations held), and in closed form."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from advisor.simulator.training.plan import SCHEDULES, FloatArray, IntArray, Schedule
from advisor.simulator.training.schedule_orders import Kind, MicroBatchPass, ScheduleOrder, Slot, order_of


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Times of one micro-batch through every chunk of the model, in forward order, and of a send between stages."""

    forward_s: tuple[float, ...]
    input_s: tuple[float, ...]
    """Time of the gradients of the inputs, recomputation included [s]."""
    weight_s: tuple[float, ...]
    send_s: float = 0.0

    @classmethod
    def equal(
        cls, num_chunks: int, forward_s: float, input_s: float, weight_s: float, send_s: float = 0.0
    ) -> Self:
        """Return times that are equal for every chunk [s]."""
        return cls((forward_s,) * num_chunks, (input_s,) * num_chunks, (weight_s,) * num_chunks, send_s)

    def of(self, step: MicroBatchPass) -> float:
        """Time of one pass [s]."""
        if step.kind is Kind.FORWARD:
            return self.forward_s[step.position]
        if step.kind is Kind.INPUT:
            return self.input_s[step.position]
        if step.kind is Kind.WEIGHT:
            return self.weight_s[step.position]
        return self.input_s[step.position] + self.weight_s[step.position]


class TimedSlot(NamedTuple):
    """A slot of a stage with its instants [s]."""

    stage: int
    passes: Slot
    start_at_s: float
    end_at_s: float


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """Passes of one optimizer step through a pipeline."""

    schedule: Schedule
    num_micro_batches: int
    chunks_per_stage: int
    slots: tuple[tuple[TimedSlot, ...], ...]
    """Slots of each stage, in order of time."""
    busy_s: tuple[float, ...]
    max_in_flight: tuple[float, ...]
    """Highest number of micro-batches whose activations of the whole stage are held at once, by stage."""

    @property
    def num_stages(self) -> int:
        return len(self.slots)

    @property
    def makespan_s(self) -> float:
        """Time from the first start to the last end [s]."""
        return max(stage[-1].end_at_s for stage in self.slots)

    @property
    def bubble_s(self) -> float:
        """Idle time of a stage, averaged over stages [s]."""
        return self.makespan_s - sum(self.busy_s) / self.num_stages

    @property
    def bubble_fraction(self) -> float:
        """Idle fraction of stages × time."""
        return self.bubble_s / self.makespan_s if self.makespan_s else 0.0

    @property
    def period_s(self) -> float:
        """Longest time between a stage's own first start and last end [s].

        The period is the time of a step if stages do not wait for each other between steps (optimizer post-validation
        of the zero-bubble schedules).
        """
        return max(stage[-1].end_at_s - stage[0].start_at_s for stage in self.slots)


def run_schedule(
    schedule: Schedule, num_stages: int, num_micro_batches: int, times: ChunkTimes, *, virtual_stages: int = 1
) -> PipelineRun:
    """Return one step of a schedule: instants of every pass [s], bubble, activations in flight.

    A pass starts when its stage is free, its input has arrived and, going backward, its own forward pass is done.

    Assumes: sends overlap with computation and take `send_s` from the end of a pass to the start of the next
        stage's; none inside a stage.
    Raises: AdvisorError: the schedule does not exist for these numbers.
        ValueError: `times` has another number of chunks than the schedule.
    Source: own formulation; orders as cited in advisor.simulator.training.schedule_orders.
    """
    order = order_of(schedule, num_stages, num_micro_batches, virtual_stages)
    if len(times.forward_s) != order.num_positions:
        raise ValueError(f"{len(times.forward_s)} chunk times for {order.num_positions} positions")
    slots = _time_slots(order, times)
    return PipelineRun(
        schedule=schedule,
        num_micro_batches=num_micro_batches,
        chunks_per_stage=order.chunks_per_stage,
        slots=slots,
        busy_s=tuple(sum(slot.end_at_s - slot.start_at_s for slot in stage) for stage in slots),
        max_in_flight=tuple(_max_in_flight(stage) / _chunks_a_pass_counts(order) for stage in order.stages),
    )


def _chunks_a_pass_counts(order: ScheduleOrder) -> int:
    """Number of chunks over which one micro-batch's activations of a stage are spread.

    DualPipe's two chunks serve different micro-batches, so it is 1 there.
    """
    return 1 if order.num_positions == len(order.stages) else order.chunks_per_stage


def _max_in_flight(stage: Sequence[Slot]) -> int:
    held = most = 0
    for slot in stage:
        held += sum(step.kind is Kind.FORWARD for step in slot)
        most = max(most, held)
        held -= sum(step.kind in (Kind.BACKWARD, Kind.WEIGHT) for step in slot)
    return most


def _time_slots(order: ScheduleOrder, times: ChunkTimes) -> tuple[tuple[TimedSlot, ...], ...]:
    """Return the instants of all slots: every stage advances until it waits for a pass that has no end yet."""
    ends: dict[tuple[bool, int, int], float] = {}
    timed: list[list[TimedSlot]] = [[] for _ in order.stages]
    waiting: dict[tuple[bool, int, int], list[int]] = defaultdict(list)
    runnable = list(range(len(order.stages)))
    while runnable:
        stage = runnable.pop()
        done = timed[stage]
        while len(done) < len(order.stages[stage]):
            slot = order.stages[stage][len(done)]
            start_s = done[-1].end_at_s if done else 0.0
            missing = None
            for step in slot:
                for key, delay_s in _needs(step, order, times.send_s):
                    if key not in ends:
                        missing = key
                        break
                    start_s = max(start_s, ends[key] + delay_s)
            if missing is not None:
                waiting[missing].append(stage)
                break
            end_s = start_s + sum(times.of(step) for step in slot)
            done.append(TimedSlot(stage, slot, start_s, end_s))
            for step in slot:
                if step.kind is not Kind.WEIGHT:
                    key = (step.kind is Kind.FORWARD, step.micro_batch, step.position)
                    ends[key] = end_s
                    runnable += waiting.pop(key, [])
    if any(len(done) < len(stage) for done, stage in zip(timed, order.stages, strict=True)):
        raise ValueError("the order deadlocks: a stage waits for a pass that another runs later")
    return tuple(tuple(stage) for stage in timed)


def _needs(
    step: MicroBatchPass, order: ScheduleOrder, send_s: float
) -> list[tuple[tuple[bool, int, int], float]]:
    """Return the passes that must have ended before a pass starts, and how long their results travel [s]."""
    micro = step.micro_batch
    position = step.position
    if step.kind is Kind.WEIGHT:
        return [((False, micro, position), 0.0)]
    here = order.stage_of(micro, position)
    if step.kind is Kind.FORWARD:
        if position == 0:
            return []
        travel_s = send_s if order.stage_of(micro, position - 1) != here else 0.0
        return [((True, micro, position - 1), travel_s)]
    found = [((True, micro, position), 0.0)]
    if position + 1 < order.num_positions:
        travel_s = send_s if order.stage_of(micro, position + 1) != here else 0.0
        found.append(((False, micro, position + 1), travel_s))
    return found


def bubbles_s(
    schedule: IntArray,
    num_stages: IntArray,
    virtual_stages: IntArray,
    forward_s: FloatArray,
    input_s: FloatArray,
    weight_s: FloatArray,
) -> FloatArray:
    """Idle time of a stage in one step [s]; times are those of one micro-batch through an average stage.

    With F the forward pass, I and W the gradients of inputs and weights, B = I + W, p stages, v chunks per stage:
    gpipe, 1f1b (p − 1)(F + B); interleaved (p − 1)(F + B)/v; zb_h1 (p − 1)(F + I − W); zbv (p − 1) F/2;
    dualpipe (p/2 − 1)(F + 2I − W). None is negative.

    Zbv does not idle at all if stages do not wait for each other between steps (`PipelineRun.period_s`).

    Assumes: enough micro-batches to fill the pipeline and free sends; for zb_h1, zbv and dualpipe F, I and W are about
        equal. Tests hold it to `run_schedule`.
    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2; Qi et al. 2023, arXiv:2401.10241, table 2;
        DeepSeek-AI 2024, arXiv:2412.19437, table 2: (p/2 − 1)(F&B + B − 3W) with B = I + W.
    """
    whole = forward_s + input_s + weight_s
    later = num_stages - 1.0
    forms = {
        "gpipe": later * whole,
        "1f1b": later * whole,
        "interleaved": later * whole / np.maximum(virtual_stages, 1),
        "zb_h1": later * np.maximum(0.0, forward_s + input_s - weight_s),
        "zbv": later * forward_s / 2.0,
        "dualpipe": np.maximum(0.0, (num_stages / 2.0 - 1.0) * (forward_s + 2.0 * input_s - weight_s)),
    }
    return np.asarray(np.choose(schedule, [forms[name] for name in SCHEDULES]), dtype=np.float64)
