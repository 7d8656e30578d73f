"""Charts of a training plan: parts of a step, memory by stage, days against dollars."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from advisor.catalog.units import GB, MILLISECOND_S
from advisor.decide.training.memory_over_step import MemoryAtTime, StepMemory
from advisor.decide.training.result import ParetoPoint, StageMemory, TrainingOption
from advisor.render.answer import Axis, Chart, Datum, Reference, Series

PARTS: Final[Mapping[str, str]] = {
    "forward": "forward",
    "backward": "backward",
    "recompute": "recompute",
    "tensor_parallel": "TP exchange",
    "context_parallel": "CP exchange",
    "expert_parallel": "EP exchange",
    "pipeline": "stage sends",
    "bubble": "bubble",
    "link": "link between",
    "data_parallel": "DP exchange",
    "optimizer": "optimizer",
    "host": "host",
    "offload": "weights from host",
    "data_loading": "data loading",
    "straggler": "stragglers",
}
"""Parts of a step in their order, by the name that people read."""
MEMORY_PARTS: Final[Mapping[str, str]] = {
    "weight": "weights",
    "gradient": "gradients",
    "optimizer": "optimizer",
    "activation": "activations",
    "loss": "logits and loss",
    "workspace": "workspace",
    "buffer": "buffers",
    "reserve": "allocator reserve",
    "context": "context",
}
MOST_STAGES: Final = 16
"""Number of bars in a terminal's chart; longer pipelines show every n-th stage."""


def waterfall_chart(breakdown: Mapping[str, float], title: str) -> Chart:
    """Return a chart of one step by part, in order; the sum is the step."""
    total = sum(breakdown.values())
    unit, factor = ("s", 1.0) if total >= 1.0 else ("ms", MILLISECOND_S)
    points = tuple(
        Datum(PARTS.get(name, name), breakdown[name] / factor)
        for name in (*PARTS, *(name for name in breakdown if name not in PARTS))
        if breakdown.get(name, 0.0) > 0.0005 * total
    )
    return Chart(
        "waterfall",
        title,
        Axis("part"),
        Axis("time", unit),
        (Series("step", points),),
        "Communication counts where it is not hidden behind computation; parts add up to the step",
    )


def stage_chart(stages: Sequence[StageMemory], limit_bytes: float | None) -> Chart:
    """Return a chart of the memory of each pipeline stage at its fullest instant, by part."""
    every = -(-len(stages) // MOST_STAGES)
    shown = [stage for stage in stages if stage.stage % every == 0 or stage is stages[-1]]
    names = [f"stage {stage.stage}" for stage in shown]
    series = [
        Series(
            words,
            tuple(
                Datum(name, stage.parts.get(part, 0.0) / GB) for name, stage in zip(names, shown, strict=True)
            ),
        )
        for part, words in MEMORY_PARTS.items()
        if any(stage.parts.get(part, 0.0) > 0 for stage in shown)
    ]
    return Chart(
        "stacked",
        "Memory by pipeline stage, at its fullest instant",
        Axis("stage"),
        Axis("memory", "GB"),
        tuple(series),
        "What one accelerator of each stage holds; reserve and driver come on top",
        (Reference("y", limit_bytes / GB, "memory"),) if limit_bytes else (),
    )


def memory_over_step_chart(memory: StepMemory, limit_bytes: float | None) -> Chart:
    """Return a chart of the memory of the fullest stage over one step: states, activations, and what works on them."""
    total_s = memory.points[-1].at_s
    unit, factor = ("s", 1.0) if total_s >= 1.0 else ("ms", MILLISECOND_S)
    lines: dict[str, Callable[[MemoryAtTime], float]] = {
        "total": lambda at: at.total_bytes,
        "weights, gradients and optimizer": lambda at: (
            at.weight_bytes + at.gradient_bytes + at.optimizer_bytes
        ),
        "activations": lambda at: at.activation_bytes,
        "loss, workspace and buffers": lambda at: at.working_bytes,
    }
    few = ""
    if memory.num_shown < memory.num_micro_batches:
        few = f"; {memory.num_shown} of {memory.num_micro_batches} micro-batches, the others are alike"
    return Chart(
        "line",
        "Memory over a step",
        Axis("time", unit),
        Axis("memory", "GB"),
        tuple(
            Series(name, tuple(Datum(at.at_s / factor, size(at) / GB) for at in memory.points))
            for name, size in lines.items()
        ),
        f"What tensors of one accelerator of stage {memory.stage} hold: activations rise in forward passes and fall in "
        f"backward passes, then the optimizer steps{few}",
        (Reference("y", limit_bytes / GB, "memory"),) if limit_bytes else (),
        is_in_terminal=False,
    )


def days_chart(
    options: Sequence[TrainingOption], pareto: Sequence[ParetoPoint], *, is_in_terminal: bool = True
) -> Chart:
    """Return a chart of options and their other cluster sizes by days and dollars."""
    best = tuple(_point(option, str(option.rank)[-1]) for option in options)
    others = tuple(_point(variant, ".") for option in options for variant in option.variants)
    front = tuple(
        Datum(point.days, point.usd, label=f"{point.num_accelerators} x {point.accelerator}")
        for point in pareto
    )
    series = [Series("best of each accelerator", best)]
    if others:
        series.append(Series("other cluster sizes", others))
    if len(front) > 1 and not is_in_terminal:
        series.append(Series("Pareto front", front, is_joined=True))
    return Chart(
        "scatter",
        "Days against dollars",
        Axis("days", "", "left is faster", is_log=True),
        Axis("USD of the run", "", "down is cheaper", is_log=True),
        tuple(series) if len(best) + len(others) > 1 else (),
        "Each point is a cluster with its best plan, failures included; whiskers are 80 % intervals of the dollars",
        is_in_terminal=is_in_terminal,
    )


def _point(option: TrainingOption, mark: str) -> Datum:
    usd = option.usd
    label = f"{option.machine.num_accelerators} x {option.machine.accelerator}"
    return Datum(option.performance.days.value, usd.value, usd.low, usd.high, label, mark)
