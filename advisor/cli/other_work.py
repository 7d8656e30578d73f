"""Recommendations beyond text chat and training: images, texts, audio, batches with a deadline, images in prompts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from advisor.catalog import accelerators, engines, models, vision
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.cli.calibration_file import given_calibration
from advisor.cli.item_input import item_job, parse_size
from advisor.cli.item_options import ItemInput
from advisor.cli.measures import parse_count, parse_seconds, positive
from advisor.cli.options import Shared
from advisor.cli.recommend_run import recommended
from advisor.cli.scenario_input import (
    LimitInput,
    LoadInput,
    constraints_of,
    needed_model,
    parse_rate,
    refuse_goal,
    scenario_of,
)
from advisor.cli.work_options import WorkInput
from advisor.recommend.batch_job import recommend_batch
from advisor.recommend.batch_result import BatchJob
from advisor.recommend.item_scenario import ItemScenario
from advisor.recommend.items import recommend_items
from advisor.render.answer import Answer
from advisor.render.batch_view import batch_answer
from advisor.render.calibration_view import with_calibration
from advisor.render.item_view import item_answer
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.workloads.encoder_pass import pass_flop
from advisor.simulator.workloads.services import ItemWorkload
from advisor.simulator.workloads.vision import ImageTokens, tokens_of_image

_DEFAULT_LATENCY_S: Final = 1.0
_DEFAULT_DEADLINE: Final = "24h"
_BATCH_PROFILE: Final = "batch"


@dataclass(frozen=True, slots=True)
class OtherInput:
    """A question beyond chat and training, as typed."""

    model: str
    item: ItemInput
    load: LoadInput
    limits: LimitInput
    goals: Mapping[str, str]
    deadline: str | None
    spot_losses_per_day: float
    top: int
    explain: bool


def other_work(
    model: str | None,
    workload: str,
    work: WorkInput,
    load: LoadInput,
    limits: LimitInput,
    goals: Mapping[str, str],
    shown: tuple[int, bool, Path | None],
    shared: Shared,
) -> Answer:
    """The answer to a question beyond chat and training; `shown` is how many options, how much, and a plan file.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    refuse_goal(limits, workload)
    top, explain, plan = shown
    if plan is not None:
        raise AdvisorError(
            f"--workload {workload} keeps no plan",
            why="plans are kept for serve, train, finetune and rl",
            fix="-o answer.json",
        )
    training = work.training
    days, losses = training.deadline, training.spot_losses_per_day
    typed = OtherInput(needed_model(model), work.item, load, limits, goals, days, losses, top, explain)
    if workload == "batch":
        return _batch(typed, shared)
    if workload == "vision":
        return _vision(typed, shared)
    _refuse_chat_options(load, limits)
    return _items(typed, cast(ItemWorkload, workload), shared)


def _refuse_chat_options(load: LoadInput, limits: LimitInput) -> None:
    """Tell of options that mean nothing here instead of dropping them.

    Raises: AdvisorError: one of them was given.
    """
    given = {
        "--concurrency": load.concurrency,
        "--trace": load.trace,
        "--profile": load.profile,
        "--engine": limits.engine,
    }
    for option, value in given.items():
        if value is not None:
            fix = "--runtime" if option == "--engine" else "--rate, the items per second"
            raise AdvisorError(
                f"{option} means nothing for items", why="they come one by one at a rate", fix=fix
            )


def _items(typed: OtherInput, workload: ItemWorkload, shared: Shared) -> Answer:
    found = models.get(typed.model)
    constraints, notes = constraints_of(typed.limits)
    latency_s = (
        parse_seconds(typed.item.latency_p99, "--latency-p99")
        if typed.item.latency_p99
        else _DEFAULT_LATENCY_S
    )
    tokens = typed.load.input_tokens or typed.load.output_tokens
    job = item_job(found.record, workload, replace(typed.item, tokens=tokens))
    scenario = ItemScenario(
        model=found.record.id,
        job=job,
        rate_per_s=parse_rate(typed.load.rate) if typed.load.rate else None,
        latency_p99_s=latency_s,
        constraints=constraints,
        as_of=shared.as_of,
        seed=shared.seed,
        budget_usd_per_hour=_budget(typed),
        calibration=given_calibration(shared.calibration),
        top=typed.top,
    )
    inputs = {
        "model": found.record.id,
        "workload": workload,
        "job": job,
        "rate_per_s": scenario.rate_per_s,
        "latency_p99_s": latency_s,
        "constraints": constraints,
        "top": typed.top,
    }
    answer = item_answer(
        recommend_items(scenario), inputs, tuple(filter(None, (found.note, *notes))), explain=typed.explain
    )
    return with_calibration(answer, scenario.calibration, constraints.accelerators)


def _batch(typed: OtherInput, shared: Shared) -> Answer:
    """Requests without anybody waiting: lengths of the profile `batch` where nothing is said."""
    load = typed.load
    said = load.input_tokens or load.output_tokens or load.profile or load.trace
    if load.rate is not None or load.concurrency is not None:
        raise AdvisorError(
            "a batch has no rate", why="its requests are there already", fix="--items N and --deadline TIME"
        )
    load = load if said else replace(load, profile=_BATCH_PROFILE)
    scenario, notes = scenario_of(
        typed.model, load, typed.limits, ttft_p99="1d", tpot_p99="1d", top=typed.top, shared=shared
    )
    job = BatchJob(
        num_requests=round(parse_count(typed.item.items, "--items")),
        deadline_s=parse_seconds(typed.deadline or _DEFAULT_DEADLINE, "--deadline"),
        spot_losses_per_day=typed.spot_losses_per_day,
    )
    inputs = {"model": scenario.model, "workload": "batch", "traffic": scenario.traffic, "job": job,
              "constraints": scenario.constraints, "top": typed.top}  # fmt: skip
    answer = batch_answer(recommend_batch(scenario, job), job, inputs, notes, explain=typed.explain)
    return with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)


def _vision(typed: OtherInput, shared: Shared) -> Answer:
    """Serving with images in prompts: their tokens, and the encoder as prompt tokens of equal work."""
    model, item = models.get(typed.model).record, typed.item
    scheme = vision.get(item.image_scheme) if item.image_scheme else vision.scheme_of(model.id)
    width, height = parse_size(item.image_size or "1024x1024")
    image = tokens_of_image(scheme, width, height)
    encoder_tokens = round(encoder_work_tokens(model, scheme, image))
    text = typed.load.input_tokens or 64
    tokens = text + item.images * (image.language_tokens + encoder_tokens)
    load = replace(typed.load, input_tokens=tokens)
    scenario, notes = scenario_of(
        typed.model, load, typed.limits, **typed.goals, top=typed.top, shared=shared
    )
    count = item.images
    told = (
        f"{count} x {width} x {height} pixels are {count * image.language_tokens:,} tokens under {scheme.id}; "
        f"encoding counts as {count * encoder_tokens:,} more, so a prompt of {text} counts {tokens:,}"
    )
    return recommended(scenario, (*notes, told), shared, explain=typed.explain, plan=None)


def encoder_work_tokens(model: Model, scheme: vision.ImageScheme, image: ImageTokens) -> float:
    """Prompt tokens whose multiplications are as many as encoding one image takes.

    passes · flop of a pass / (2 · active parameters)

    Assumes: encoder and language model reach the same share of the peak.
    Source: definition.
    """
    tower = Deployment(scheme.tower_model(), accelerators.by_id("h100-sxm"), engines.by_id("vllm"))
    flop = image.num_passes * pass_flop(tower, image.patches_per_pass)
    return flop / (2.0 * parameter_count(model).active)


def _budget(typed: OtherInput) -> float | None:
    return (
        positive(typed.limits.budget, "--budget", example="20") if typed.limits.budget is not None else None
    )
