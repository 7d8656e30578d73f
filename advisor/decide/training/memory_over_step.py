"""Memory of one accelerator of the fullest pipeline stage over a training step, from the account of the plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from advisor.decide.training.search import PlanFound, pipeline_to_draw
from advisor.simulator.training.memory import PeakStageMemory, stage_memory
from advisor.simulator.training.schedule_orders import Kind

MOST_MICRO_BATCHES: Final = 3
"""Micro-batches of a step without a pipeline that are shown; the others are alike."""
_PASSES: Final = ("forward", "backward", "recompute")


@dataclass(frozen=True, slots=True)
class MemoryAtTime:
    """Memory in tensors at one time of a step [bytes]."""

    at_s: float
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    working_bytes: float
    """Logits and loss, workspace of the running layer, and buffers of communication."""

    @property
    def total_bytes(self) -> float:
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.working_bytes
        )


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Memory over a step whose micro-batches may be fewer than those of the plan."""

    stage: int
    num_shown: int
    """Micro-batches that are shown."""
    num_micro_batches: int
    points: tuple[MemoryAtTime, ...]


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of a micro-batch: what it adds to, or takes from, the activations [micro-batches]."""

    start_at_s: float
    end_at_s: float
    is_forward: bool
    change: float


def memory_over_step(found: PlanFound) -> StepMemory:
    """Return the memory of the fullest stage at the ends of its passes.

    States, activations and buffers are those of the plan's account at its four instants. Activations rise evenly in a
    forward pass and fall evenly in the pass that frees them; gradients grow in the last backward pass.

    Assumes: passes of a step without a pipeline share the time that the optimizer leaves.
    """
    stages = stage_memory(found.job, found.plan)
    stage = max(stages, key=lambda each: each.fullest.allocated_bytes)
    passes, num_shown, number = _passes(found, stage.stage)
    optimizer_s = found.breakdown_s.get("optimizer", 0.0)
    return StepMemory(stage.stage, num_shown, number, tuple(_points(stage, passes, optimizer_s)))


def _passes(found: PlanFound, stage: int) -> tuple[list[_Pass], int, int]:
    """Return the passes of a stage, how many micro-batches they are of, and how many a step has."""
    drawn = pipeline_to_draw(found)
    if drawn is not None and found.run is not None:
        part = 1.0 / drawn.chunks_per_stage
        passes = []
        for slot in drawn.slots[stage]:
            kinds = [each.kind for each in slot.passes]
            change = part * sum(
                (each is Kind.FORWARD) - (each in (Kind.BACKWARD, Kind.WEIGHT)) for each in kinds
            )
            passes.append(_Pass(slot.start_at_s, slot.end_at_s, Kind.FORWARD in kinds, change))
        return passes, drawn.num_micro_batches, found.run.num_micro_batches
    plan = found.plan
    number = max(1, round(found.job.global_batch / (plan.data_parallel * plan.micro_batch)))
    times = [found.breakdown_s.get(name, 0.0) for name in _PASSES]
    each_s = (found.step_s - found.breakdown_s.get("optimizer", 0.0)) / number
    forward_s = each_s * times[0] / sum(times)
    shown = min(number, MOST_MICRO_BATCHES)
    passes = []
    for place in range(shown):
        start = place * each_s
        passes.append(_Pass(start, start + forward_s, is_forward=True, change=1.0))
        passes.append(_Pass(start + forward_s, start + each_s, is_forward=False, change=-1.0))
    return passes, shown, number


def _points(stage: PeakStageMemory, passes: list[_Pass], optimizer_s: float) -> Iterator[MemoryAtTime]:
    loss, first, last, step = stage.instants
    levels = [0.0]
    for each in passes:
        levels.append(levels[-1] + each.change)
    # The account holds the activations of all micro-batches in flight, which the passes reach at their highest.
    unit = loss.activation_bytes / max(*levels, 1e-9)
    idle = MemoryAtTime(
        0.0, loss.weight_bytes, loss.gradient_bytes, loss.optimizer_bytes, 0.0, loss.buffer_bytes
    )
    final = max(place for place, each in enumerate(passes) if not each.is_forward)
    yield idle
    for place, each in enumerate(passes):
        before, after = (max(0.0, level) * unit for level in levels[place : place + 2])
        is_last = place == final
        running = loss.loss_bytes if each.is_forward else first.workspace_bytes
        buffers = loss.buffer_bytes if each.is_forward else first.buffer_bytes
        begun = replace(idle, activation_bytes=before, working_bytes=buffers)
        if not each.is_forward:
            begun = replace(begun, working_bytes=buffers + running)
        yield replace(begun, at_s=each.start_at_s)
        ended = replace(begun, activation_bytes=after, working_bytes=buffers + running)
        if is_last:
            ended = replace(
                ended,
                gradient_bytes=last.gradient_bytes,
                activation_bytes=last.activation_bytes,
                working_bytes=last.workspace_bytes + last.buffer_bytes,
            )
        yield replace(ended, at_s=each.end_at_s)
    end_s = passes[-1].end_at_s
    at_step = MemoryAtTime(
        end_s,
        step.weight_bytes,
        step.gradient_bytes,
        step.optimizer_bytes,
        step.activation_bytes,
        step.loss_bytes + step.workspace_bytes + step.buffer_bytes,
    )
    yield at_step
    yield replace(at_step, at_s=end_s + optimizer_s)
