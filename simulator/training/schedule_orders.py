"""Schedules: the order in which each pipeline stage runs its passes, from GPipe to DualPipe, as lists of slots.

A *position* numbers the chunks of the model in forward order, 0 to stages · chunks − 1. A *pass* is one micro-batch
through one position. A *slot* holds the passes that a stage starts together: one, or two that overlap (DualPipe).
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from advisor.catalog.errors import AdvisorError
from advisor.simulator.training.plan import Schedule


class Kind(IntEnum):
    """Kind of a pass by its computation."""

    FORWARD = 0
    BACKWARD = 1
    """Gradients of inputs and of weights together."""
    INPUT = 2
    """Gradients of the inputs alone, for which the previous stage waits."""
    WEIGHT = 3
    """Gradients of the weights alone, for which no stage waits before the optimizer."""


class MicroBatchPass(NamedTuple):
    """One micro-batch through one position of the model."""

    kind: Kind
    micro_batch: int
    position: int


Slot = tuple[MicroBatchPass, ...]
StageOrder = tuple[Slot, ...]


class ScheduleOrder(NamedTuple):
    """Order of a whole schedule: the slots of every stage, and the stage of each position."""

    stages: tuple[StageOrder, ...]
    num_positions: int
    stage_of: Callable[[int, int], int]
    """Stage of (micro-batch, position)."""
    chunks_per_stage: int
    """Number of chunks that a stage holds; parameters are stored for each of them."""


CHUNKS: Final[dict[str, int]] = {"zbv": 2, "dualpipe": 2}
"""Number of chunks per stage that a schedule prescribes."""


def order_of(
    schedule: Schedule, num_stages: int, num_micro_batches: int, virtual_stages: int = 1
) -> ScheduleOrder:
    """Return the order of a schedule for given numbers of stages, micro-batches and, if interleaved, chunks per stage.

    Raises: AdvisorError: the schedule does not exist for these numbers.
    Source: each schedule's own function.
    """
    if num_stages < 1 or num_micro_batches < 1 or virtual_stages < 1:
        raise AdvisorError(
            f"{num_stages} stages, {num_micro_batches} micro-batches, {virtual_stages} chunks: no pipeline",
            fix="each is at least 1",
        )
    if schedule == "interleaved":
        return interleaved_order(num_stages, num_micro_batches, virtual_stages)
    if schedule == "gpipe":
        return gpipe_order(num_stages, num_micro_batches)
    if schedule == "zb_h1":
        return zb_h1_order(num_stages, num_micro_batches)
    if schedule == "zbv":
        return zbv_order(num_stages, num_micro_batches)
    if schedule == "dualpipe":
        return dualpipe_order(num_stages, num_micro_batches)
    return one_forward_one_backward_order(num_stages, num_micro_batches)


def gpipe_order(num_stages: int, num_micro_batches: int) -> ScheduleOrder:
    """Return the order of all forward passes, then all backward passes.

    Source: Huang et al. 2019, arXiv:1811.06965.
    """
    return _straight(
        num_stages,
        lambda stage: [
            *(MicroBatchPass(Kind.FORWARD, m, stage) for m in range(num_micro_batches)),
            *(MicroBatchPass(Kind.BACKWARD, m, stage) for m in range(num_micro_batches)),
        ],
    )


def one_forward_one_backward_order(num_stages: int, num_micro_batches: int) -> ScheduleOrder:
    """Return the 1F1B order: as many forward passes as stages follow, then one forward and one backward pass in turn.

    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1 (PipeDream-Flush).
    """

    def passes(stage: int) -> list[MicroBatchPass]:
        warm_up = min(num_stages - 1 - stage, num_micro_batches)
        forward = [MicroBatchPass(Kind.FORWARD, m, stage) for m in range(num_micro_batches)]
        backward = [MicroBatchPass(Kind.BACKWARD, m, stage) for m in range(num_micro_batches)]
        steady = [p for pair in zip(forward[warm_up:], backward, strict=False) for p in pair]
        return [*forward[:warm_up], *steady, *backward[num_micro_batches - warm_up :]]

    return _straight(num_stages, passes)


def zb_h1_order(num_stages: int, num_micro_batches: int) -> ScheduleOrder:
    """Return the ZB-H1 order: 1F1B with the backward pass in two; stage s postpones the weight gradients of s
    micro-batches.

    The stages before then get their gradients earlier, and the postponed work fills the end. No stage holds more
    micro-batches than the first one of 1F1B.

    Source: Qi et al. 2023, arXiv:2401.10241, section 2.2 (ZB-H1).
    """

    def passes(stage: int) -> list[MicroBatchPass]:
        warm_up = min(num_stages - 1 - stage, num_micro_batches)
        found = [MicroBatchPass(Kind.FORWARD, m, stage) for m in range(warm_up)]
        weights = 0
        for m in range(num_micro_batches):
            if warm_up + m < num_micro_batches:
                found.append(MicroBatchPass(Kind.FORWARD, warm_up + m, stage))
            found.append(MicroBatchPass(Kind.INPUT, m, stage))
            if m >= stage:
                found.append(MicroBatchPass(Kind.WEIGHT, weights, stage))
                weights += 1
        return [*found, *(MicroBatchPass(Kind.WEIGHT, m, stage) for m in range(weights, num_micro_batches))]

    return _straight(num_stages, passes)


def interleaved_order(num_stages: int, num_micro_batches: int, virtual_stages: int) -> ScheduleOrder:
    """Return the interleaved order: 1F1B over chunks. Stage s holds positions s, s + stages, …; micro-batches go round
    in groups of `num_stages`.

    Raises: AdvisorError: the micro-batches are not a multiple of the stages.
    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2.
    """
    if num_micro_batches % num_stages:
        raise AdvisorError(
            f"{num_micro_batches} micro-batches do not interleave over {num_stages} stages",
            why="interleaved chunks take turns of as many micro-batches as there are stages",
            fix=f"use {max(1, num_micro_batches // num_stages) * num_stages} micro-batches, or 1f1b",
        )
    group = num_stages * virtual_stages
    total = num_micro_batches * virtual_stages

    def passes(stage: int) -> list[MicroBatchPass]:
        def turn(kind: Kind, i: int) -> MicroBatchPass:
            chunk = i % group // num_stages
            if kind is Kind.BACKWARD:
                chunk = virtual_stages - 1 - chunk
            return MicroBatchPass(kind, i // group * num_stages + i % num_stages, chunk * num_stages + stage)

        warm_up = min(2 * (num_stages - 1 - stage) + (virtual_stages - 1) * num_stages, total)
        forward = [turn(Kind.FORWARD, i) for i in range(total)]
        backward = [turn(Kind.BACKWARD, i) for i in range(total)]
        steady = [p for pair in zip(forward[warm_up:], backward, strict=False) for p in pair]
        return [*forward[:warm_up], *steady, *backward[total - warm_up :]]

    stages = tuple(_one_by_one(passes(stage)) for stage in range(num_stages))
    return ScheduleOrder(stages, group, lambda _, position: position % num_stages, virtual_stages)


def zbv_order(num_stages: int, num_micro_batches: int) -> ScheduleOrder:
    """Return the ZB-V order: two chunks per stage, down the stages and back up, so that the last position ends where
    the first began.

    Every stage holds at most as many activations as the first one of 1F1B. With fewer than 2 · stages − 1
    micro-batches the pattern does not fill; its surplus passes are left out.

    Source: Qi et al. 2023, arXiv:2401.10241, section 6 (ZB-V).
    """
    last = 2 * num_stages - 1
    filled = max(num_micro_batches, last)

    def passes(stage: int) -> list[MicroBatchPass]:
        down = _Chunk(stage)
        up = _Chunk(last - stage)
        found = [down.forward() for _ in range(2 * (num_stages - stage) - 1)]
        for _ in range(stage):
            found += [up.forward(), down.forward()]
        for _ in range(num_stages - stage):
            found += [up.forward(), up.input(), up.weight()]
        while up.forwards < down.forwards or down.forwards < filled:
            if down.forwards < filled:
                found.append(down.forward())
            found += [down.input(), down.weight(), up.forward(), up.input(), up.weight()]
        for _ in range(stage):
            found += [down.input(), up.input()]
        for _ in range(num_stages - stage):
            found += [down.input(), down.weight()]
        found += [up.weight() for _ in range(up.inputs - up.weights)]
        found += [down.weight() for _ in range(down.inputs - down.weights)]
        return [p for p in found if p.micro_batch < num_micro_batches]

    def stage_of(_: int, position: int) -> int:
        return min(position, last - position)

    return ScheduleOrder(
        tuple(_one_by_one(passes(s)) for s in range(num_stages)), 2 * num_stages, stage_of, 2
    )


def dualpipe_order(num_stages: int, num_micro_batches: int) -> ScheduleOrder:
    """Return the DualPipe order: half of the micro-batches enter at each end of the pipeline.

    A forward pass of one direction overlaps a backward pass of the other. Every stage holds its chunk of both
    directions, so parameters are stored twice.

    Raises: AdvisorError: odd numbers, or fewer than two micro-batches per stage.
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 and figure 5; phases of deepseek-ai/DualPipe.
    """
    if num_stages % 2 or num_micro_batches % 2 or num_micro_batches < 2 * num_stages:
        raise AdvisorError(
            f"DualPipe does not run {num_micro_batches} micro-batches on {num_stages} stages",
            why="both are even, and each stage needs two micro-batches",
            fix=f"use {max(2 * num_stages, num_micro_batches + num_micro_batches % 2)} micro-batches, or 1f1b",
        )
    half = num_micro_batches // 2

    def stage_of(micro_batch: int, position: int) -> int:
        return position if micro_batch < half else num_stages - 1 - position

    stages = tuple(_dualpipe_stage(stage, num_stages, half) for stage in range(num_stages))
    return ScheduleOrder(stages, num_stages, stage_of, 2)


def _dualpipe_stage(stage: int, num_stages: int, half: int) -> StageOrder:
    """Return the slots of one stage by phases; `near` is the direction whose entrance is closer."""
    mirrored = stage >= num_stages // 2
    depth = min(stage, num_stages - 1 - stage)
    rest = num_stages // 2 - depth - 1
    low = _Chunk(stage)
    high = _Chunk(num_stages - 1 - stage, first=half)
    near, far = (high, low) if mirrored else (low, high)
    slots: list[Slot] = [(near.forward(),) for _ in range(2 * rest)]
    for _ in range(depth + 1):
        slots += [(near.forward(),), (far.forward(),)]
    for _ in range(rest):
        slots += [(far.input(),), (far.weight(),), (far.forward(),)]
    for i in range(half - num_stages + depth + 1):
        if i == 0 and rest == 0:
            slots += [(near.forward(),), (far.backward(),)]
        else:
            slots.append((near.forward(), far.backward()))
        slots.append((far.forward(), near.backward()))
    for _ in range(rest):
        slots += [(far.backward(),), (far.forward(), near.backward())]
    split = False
    for i in range(depth + 1):
        split = split or (i == (depth + 1) // 2 and depth % 2 == 1)
        slots.append((far.input() if split else far.backward(),))
        split = split or (i == (depth + 1) // 2 and depth % 2 == 0)
        slots.append((near.input() if split else near.backward(),))
    # Postponed weight gradients are computed in the order in which they were postponed.
    owed = [p for slot in slots for p in slot if p.kind is Kind.INPUT]
    done = sum(p.kind is Kind.WEIGHT for slot in slots for p in slot)
    for _ in range(rest):
        slots.append((owed[done]._replace(kind=Kind.WEIGHT),))
        owed.append(near.input())
        slots.append((owed[-1],))
        done += 1
    slots += [(p._replace(kind=Kind.WEIGHT),) for p in owed[done:]]
    return tuple(slots)


class _Chunk:
    """Counter of the passes of one chunk of a stage."""

    def __init__(self, position: int, first: int = 0) -> None:
        self._position = position
        self.forwards = self.inputs = self.weights = first

    def forward(self) -> MicroBatchPass:
        self.forwards += 1
        return MicroBatchPass(Kind.FORWARD, self.forwards - 1, self._position)

    def input(self) -> MicroBatchPass:
        self.inputs += 1
        return MicroBatchPass(Kind.INPUT, self.inputs - 1, self._position)

    def weight(self) -> MicroBatchPass:
        self.weights += 1
        return MicroBatchPass(Kind.WEIGHT, self.weights - 1, self._position)

    def backward(self) -> MicroBatchPass:
        self.inputs += 1
        return MicroBatchPass(Kind.BACKWARD, self.inputs - 1, self._position)


def _one_by_one(passes: list[MicroBatchPass]) -> StageOrder:
    return tuple((p,) for p in passes)


def _straight(num_stages: int, passes: Callable[[int], list[MicroBatchPass]]) -> ScheduleOrder:
    """Return the order for one chunk per stage: positions are stages."""
    stages = tuple(_one_by_one(passes(stage)) for stage in range(num_stages))
    return ScheduleOrder(stages, num_stages, lambda _, position: position, 1)
