"""One stated training plan as an answer: step, utilisation, memory by stage, the pipeline as a picture."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.training import framework_release
from advisor.catalog.units import DAY_S, GB
from advisor.commands.simulate_train.far_sites import FarSites
from advisor.commands.simulate_train.first_principles import bubble_words, first_principles, states_words
from advisor.commands.simulate_train.islands import islands_flags, islands_result, islands_words, title_of
from advisor.commands.simulate_train.pipeline_picture import LEGEND as PICTURE_LEGEND
from advisor.commands.simulate_train.pipeline_picture import pipeline_svg, pipeline_text
from advisor.decide.training.islands import Islands, IslandsFound
from advisor.decide.training.memory_over_step import memory_over_step
from advisor.decide.training.option import bottleneck_of, memory_stages, modelled_parts_s, plan_columns
from advisor.decide.training.result import StageMemory
from advisor.decide.training.search import MEMORY_PARTS as PARTS_OF_TENSORS
from advisor.decide.training.search import PlanFound, pipeline_to_draw
from advisor.decide.training.space import rated_flop_per_s
from advisor.decide.training.uncertainty import memory_quantity, step_quantity
from advisor.render.answer import Answer, Block, Figure, Paragraph
from advisor.render.document import pick_attributes
from advisor.render.numbers import LEGEND, SIZE, TIME, digits, percent, show, show_quantity
from advisor.render.training_charts import MEMORY_PARTS, memory_over_step_chart, stage_chart, waterfall_chart
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.cluster import on_bus
from advisor.simulator.training.flop import hardware_flop_per_token, model_flop_per_token
from advisor.simulator.training.launch_flags import WITH_COMMANDS, launch_flags
from advisor.simulator.training.launch_start import explain_command, placeholders_of
from advisor.simulator.training.launch_tuning import adapted_modules
from advisor.simulator.training.memory import MemoryVerdict, memory_verdict
from advisor.simulator.training.pipeline import PipelineRun
from advisor.simulator.training.plan_check import plan_words

_SHOWN_FROM_BYTES: Final = 0.05 * GB
"""Smallest use of memory that a summary names."""
_MOST_ROWS = 32
"""Stages that a terminal's picture shows; longer pipelines only in the drawing."""


@dataclass(frozen=True, slots=True)
class TrainRun:
    """A plan, and whether its memory is enough."""

    found: PlanFound
    fits: bool
    tokens: float | None
    names_framework: bool = False
    """Whether a framework was asked for: then the options of no other are printed."""
    sites: FarSites | None = None
    islands: tuple[Islands, IslandsFound] | None = None
    data_words: str = ""
    """Data of a step in words; empty if nothing of it was stated."""

    @property
    def peak_flop_per_s(self) -> float:
        """Return the mean peak of an accelerator in the job's format [flop/s]."""
        cluster = self.found.cluster
        dtype = self.found.job.compute_dtype
        if self.islands is None:
            return rated_flop_per_s(cluster.accelerator, dtype)
        whole, _ = self.islands
        pairs = zip(whole.counts, whole.clusters, strict=True)
        total = sum(count * rated_flop_per_s(each.accelerator, dtype) for count, each in pairs)
        return total / whole.num_accelerators

    @property
    def limit_bytes(self) -> float:
        """Return the memory of the accelerator that is fullest."""
        return (
            self.islands[1].limit_bytes
            if self.islands
            else self.found.cluster.accelerator.memory_bytes or 0.0
        )

    @property
    def verdict(self) -> MemoryVerdict:
        """Whether the plan fits, by the 80 % interval of its peak."""
        return memory_verdict(memory_quantity(self.found), self.limit_bytes) if self.fits else "does not fit"

    @property
    def stages(self) -> Sequence[StageMemory]:
        """Return the memory of every pipeline stage."""
        if self.islands is not None and self.islands[1].memory:
            return self.islands[1].memory
        return memory_stages(self.found.job, self.found.plan)

    @property
    def batch_s(self) -> tuple[float, float]:
        """Return tokens of a step on all sites, and its time [s]."""
        number = self.sites.sites.num_sites if self.sites else 1
        seconds = self.sites.step_s(self.found) if self.sites else self.found.step_s
        return number * self.found.job.real_tokens_per_step, seconds


def train_answer(run: TrainRun, notes: tuple[str, ...], warnings: tuple[str, ...]) -> Answer:
    """Return time, utilisation and memory of one step of a stated plan."""
    found = run.found
    job = found.job
    plan = found.plan
    accelerator = found.cluster.accelerator
    step = step_quantity(found, found.step_s)
    per_step = job.real_tokens_per_step / plan.num_accelerators
    rate = per_step / step
    peak = run.peak_flop_per_s
    mfu = per_step * model_flop_per_token(job) / peak / step
    hfu = per_step * hardware_flop_per_token(job, plan) / peak / step
    tokens, seconds = run.batch_s
    days = step.scale(seconds / found.step_s * run.tokens / tokens / DAY_S) if run.tokens else None
    stages = run.stages
    figures = first_principles(found)
    measures = {
        "step_time_s": step,
        "tokens_per_s_per_accelerator": rate,
        "mfu_fraction": mfu,
        "hfu_fraction": hfu,
        "days": days,
    }
    where = title_of(run.islands[0]) if run.islands else f"{plan.num_accelerators} x {accelerator.id}"
    title = f"{job.model.id} on {where}, {plan_words(plan)}"
    blocks: list[Block] = [
        Paragraph(_headline(run, title, step), emphasis=True),
        Paragraph(_summary(run, rate, mfu, hfu, days)),
        *([] if run.islands else [Paragraph(states_words(found, figures))]),
        *([Paragraph(run.data_words)] if run.data_words else []),
        *([Paragraph(run.sites.words(found, rate))] if run.sites else []),
        *([Paragraph(islands_words(*run.islands))] if run.islands else []),
        waterfall_chart(found.breakdown_s, "One step"),
    ]
    if len(stages) > 1:
        blocks.append(stage_chart(stages, run.limit_bytes))
    if not run.islands:
        blocks.append(memory_over_step_chart(memory_over_step(found), run.limit_bytes))
    blocks += _pictures(found)
    if figures.even_bubbles:
        blocks.append(Paragraph(bubble_words(found, figures)))
    blocks.append(_start(run))
    blocks.append(Paragraph(LEGEND))
    return Answer(
        result=_result(run, rate, measures, stages) | {"first_principles": figures},
        inputs=_inputs(run),
        blocks=tuple(blocks),
        records="memory_by_stage",
        notes=notes,
        warnings=warnings,
        svg=pipeline_svg(drawn, title) if (drawn := pipeline_to_draw(found)) else "",
    )


def _headline(run: TrainRun, title: str, step: Quantity) -> str:
    """Return the time of a step, and first that the plan does not fit where it does not."""
    time = f"{show_quantity(step, TIME)} a step"
    return (
        f"{title}: does not fit; with more memory {time}"
        if run.verdict == "does not fit"
        else f"{title}: {time}"
    )


def _start(run: TrainRun) -> Block:
    """Return the launch options of every framework that starts the plan."""
    if run.verdict == "does not fit":
        return Paragraph("No launch options are shown: the plan does not fit.")
    flags = "\n".join(explain_command(name, text) for name, text in _launch(run).items())
    if not flags:
        return Paragraph(_why_no_options(run))
    return Figure(flags, title="Launch options by framework")


def _why_no_options(run: TrainRun) -> str:
    vendor = run.found.cluster.accelerator.vendor
    job = run.found.job
    if job.method not in ("full", "ia3") and not adapted_modules(job):
        return (
            f"No command is shown: the matrices of attention of {job.model.id}, which alone have adapters, have no "
            "names of their own in the catalog."
        )
    if vendor in WITH_COMMANDS:
        return "No framework known here has options for it."
    return f"No command is shown: options of training frameworks for accelerators of {vendor} are not in the catalog."


def _inputs(run: TrainRun) -> dict[str, object]:
    job = run.found.job
    plan = run.found.plan
    return {
        "model": job.model.id,
        "gpu": run.found.cluster.accelerator.id,
        "gpus": plan.num_accelerators,
        "framework": job.framework,
        "global_batch": job.global_batch,
        "sequence": job.sequence_tokens,
        "precision": job.compute_dtype,
        "method": job.method,
        "lora_rank": job.lora_rank,
        "optimizer": job.optimizer,
        "tokens": run.tokens,
        "plan": plan_columns(job, plan),
    }


def _result(
    run: TrainRun, rate: Quantity, measures: Mapping[str, Quantity | None], stages: Sequence[StageMemory]
) -> dict[str, object]:
    found = run.found
    job = found.job
    plan = found.plan
    accelerator = found.cluster.accelerator
    held = found.memory_bytes
    launch = _launch(run)
    return {
        "kind": "simulation",
        "model": job.model.id,
        "accelerator": accelerator.id,
        "num_accelerators": plan.num_accelerators,
        "plan": plan_columns(job, plan),
        **measures,
        "peak_memory_bytes": memory_quantity(found),
        "allocated_memory_bytes": found.allocated_bytes,
        "reserved_memory_bytes": found.reserved_bytes,
        "memory_limit_bytes": run.limit_bytes or None,
        "fits": run.fits,
        "memory_verdict": run.verdict,
        "memory": held,
        "memory_by_stage": stages,
        "breakdown": modelled_parts_s(found.breakdown_s),
        "bubble_fraction": found.breakdown_s["bubble"] / found.step_s,
        "bottleneck": bottleneck_of(found.breakdown_s),
        "pipeline": _pipeline_result(found.run) if found.run else None,
        "launch_flags": launch,
        "launch_releases": {name: framework_release(name) for name in launch},
        "launch_placeholders": {name: placeholders_of(text) for name, text in launch.items()},
        "sites": run.sites.result(found, rate) if run.sites else None,
        "islands": islands_result(*run.islands) if run.islands else None,
    }


def _launch(run: TrainRun) -> Mapping[str, str]:
    found = run.found
    bus = on_bus(found.cluster, found.plan.tensor_parallel)
    order = islands_flags(run.islands[1]) if run.islands else {}
    accelerator = found.cluster.accelerator
    return launch_flags(
        found.job,
        found.plan,
        on_bus=bus,
        as_priced=run.names_framework,
        node_size=found.cluster.node_size,
        num_steps=math.ceil(run.tokens / found.job.real_tokens_per_step) if run.tokens else 0,
        vendor=accelerator.vendor,
        **order,
    )


def _summary(run: TrainRun, rate: Quantity, mfu: Quantity, hfu: Quantity, days: Quantity | None) -> str:
    found = run.found
    memory = run.limit_bytes
    verdict = run.verdict
    beside = bottleneck_of(found.breakdown_s)
    costs = f"{beside} costs most beside computing"
    if beside == "compute":
        costs = "no part but computation takes 10 % of the step"
    whole = f" The run takes {show_quantity(days.scale(DAY_S), TIME)}." if days else ""
    return (
        f"{digits(rate.value)} tokens/s per accelerator, MFU {percent(mfu.value)}, with recomputation "
        f"{percent(hfu.value)}; {costs}.{whole}\n"
        f"Memory of the fullest accelerator {show_quantity(memory_quantity(found), SIZE)} of {show(memory, SIZE)}: "
        f"{verdict}. Tensors hold {show(found.allocated_bytes, SIZE)} of it{_split_words(run)}, the allocator "
        f"{show(found.reserved_bytes, SIZE)}, the rest is the driver's."
    )


def _split_words(run: TrainRun) -> str:
    """Return what tensors of a plan without stages hold, largest first; the chart of the stages tells it of others."""
    if len(run.stages) > 1:
        return ""
    held = {MEMORY_PARTS[part]: run.found.memory_bytes[part] for part in PARTS_OF_TENSORS}
    shown = sorted(((size, words) for words, size in held.items() if size >= _SHOWN_FROM_BYTES), reverse=True)
    return f" ({', '.join(f'{words} {show(size, SIZE)}' for size, words in shown)})" if shown else ""


def _pipeline_result(run: PipelineRun) -> dict[str, object]:
    names = (
        "schedule",
        "num_stages",
        "num_micro_batches",
        "makespan_s",
        "bubble_s",
        "bubble_fraction",
        "period_s",
    )
    return pick_attributes(run, *names) | {"micro_batches_in_flight": list(run.max_in_flight)}


def _pictures(found: PlanFound) -> list[Block]:
    run = found.run
    shown = pipeline_to_draw(found)
    if run is None or shown is None or run.num_stages > _MOST_ROWS:
        return []
    held = ", ".join(digits(count) for count in run.max_in_flight)
    few = "" if shown is run else f"{shown.num_micro_batches} of "
    return [
        Figure(
            pipeline_text(shown),
            title=f"The pipeline ({run.schedule}), {few}{run.num_micro_batches} micro-batches",
        ),
        Paragraph(
            f"{PICTURE_LEGEND}.\nStages are idle {percent(run.bubble_fraction)} of the pipeline's time, lighter ones "
            f"while they wait for heavier included; micro-batches held at once by stage: {held}."
        ),
    ]
