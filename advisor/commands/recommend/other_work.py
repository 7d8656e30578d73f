"""Recommendations beyond text chat and training: images, texts, audio, batches with a deadline, images in prompts."""

from dataclasses import replace
from typing import Final, cast

from advisor.catalog import accelerators, engines, models, vision
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, HOUR_S
from advisor.cli.item_input import item_job, parse_size
from advisor.cli.lever_input import beside_of
from advisor.cli.measures import parse_budget, parse_count, parse_rate, parse_seconds
from advisor.cli.options import Shared
from advisor.cli.own_data import given_calibration
from advisor.cli.scenario_input import LADDER_PER_S, constraints_of, needed_model, scenario_of
from advisor.commands.recommend.options import RecommendInput
from advisor.commands.recommend.other_view import batch_answer, item_answer
from advisor.commands.recommend.serving import recommended
from advisor.decide.batch.recommend import recommend_batch, with_deadlines
from advisor.decide.batch.result import BatchJob
from advisor.decide.items.recommend import recommend_items
from advisor.decide.items.result import ItemScenario
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.workloads.encoder_pass import pass_flop
from advisor.simulator.workloads.services import ItemWorkload
from advisor.simulator.workloads.vision import ImageTokens, tokens_of_image

_DEFAULT_LATENCY_S: Final = {"diffusion": 10.0}
"""What people wait for: an image some seconds, everything else one."""
_DEFAULT_DEADLINE: Final = "24h"
_DEADLINES_S: Final = (HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S)
"""That are compared where none is given."""
_BATCH_PROFILE: Final = "batch"


def other_work(asked: RecommendInput, shared: Shared) -> Answer:
    """The answer to a question beyond chat and training.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    model = needed_model(asked.model)
    if asked.workload == "batch":
        return batch_of_requests(model, asked, shared)[0]
    if asked.workload == "vision":
        return _vision(model, asked, shared)
    return _items(model, asked, shared)


def _items(model: str, asked: RecommendInput, shared: Shared) -> Answer:
    item, workload, budget = asked.item, cast(ItemWorkload, asked.workload), asked.objectives.budget
    found = models.get(model)
    constraints, notes = constraints_of(asked.where)
    latency_s = (
        parse_seconds(item.latency_p99, "--latency-p99")
        if item.latency_p99
        else _DEFAULT_LATENCY_S.get(workload, 1.0)
    )
    tokens = asked.load.input_tokens or asked.load.output_tokens
    job = item_job(found.record, workload, replace(item, tokens=tokens))
    asks_ladder = asked.load.rate is None and budget is None and not constraints.own
    scenario = ItemScenario(
        model=found.record.id,
        job=job,
        rate_per_s=parse_rate(asked.load.rate) if asked.load.rate else None,
        latency_p99_s=latency_s,
        constraints=constraints,
        as_of=shared.as_of,
        seed=shared.seed,
        budget_usd_per_hour=None if budget is None else parse_budget(budget),
        calibration=given_calibration(shared.calibration),
        top=asked.shown.top,
        beside=beside_of(asked.beside),
        ladder_per_s=LADDER_PER_S if asks_ladder else (),
    )
    inputs = {
        "model": found.record.id,
        "workload": workload,
        "job": job,
        "rate_per_s": scenario.rate_per_s,
        "latency_p99_s": latency_s,
        "constraints": constraints,
        "beside": scenario.beside,
        "top": asked.shown.top,
    }
    answer = item_answer(
        recommend_items(scenario),
        inputs,
        tuple(filter(None, (found.note, *notes))),
        explain=asked.shown.explain,
    )
    return with_calibration(answer, scenario.calibration, constraints.accelerators)


def batch_of_requests(model: str, asked: RecommendInput, shared: Shared) -> tuple[Answer, Traffic]:
    """Requests without anybody waiting, and their lengths: those of the profile `batch` where nothing is said.

    Raises: AdvisorError and its kinds: something typed is malformed, or nothing is done in time.
    """
    load = asked.load
    said = load.input_tokens or load.output_tokens or load.profile or load.trace
    if load.rate is not None or load.concurrency is not None:
        raise AdvisorError(
            "a batch has no rate", why="its requests are there already", fix="--items N and --deadline TIME"
        )
    load = load if said else replace(load, profile=_BATCH_PROFILE)
    patient = replace(asked.objectives, ttft_p99="1d", tpot_p99="1d")
    scenario, notes = scenario_of(model, load, patient, asked.where, asked.shown.top, shared)
    scenario = scenario.model_copy(update={"beside": beside_of(asked.beside)})
    job = BatchJob(
        num_requests=round(parse_count(asked.item.items, "--items")),
        deadline_s=parse_seconds(asked.training.deadline or _DEFAULT_DEADLINE, "--deadline"),
        spot_losses_per_day=asked.training.spot_losses_per_day,
    )
    inputs = {"model": scenario.model, "workload": "batch", "traffic": scenario.traffic, "job": job,
              "constraints": scenario.constraints, "beside": scenario.beside, "top": asked.shown.top}  # fmt: skip
    found = recommend_batch(scenario, job)
    if asked.training.deadline is None and asked.workload == "batch":
        found = with_deadlines(found, scenario, job, _DEADLINES_S)
    answer = batch_answer(found, job, inputs, notes, explain=asked.shown.explain)
    answer = with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)
    return answer, scenario.traffic


def _vision(name: str, asked: RecommendInput, shared: Shared) -> Answer:
    """Serving with images in prompts: their tokens, and the encoder as prompt tokens of equal work."""
    model, item = models.get(name).record, asked.item
    scheme = vision.get(item.image_scheme) if item.image_scheme else vision.scheme_of(model.id)
    width, height = parse_size(item.image_size or "1024x1024")
    image = tokens_of_image(scheme, width, height)
    encoder_tokens = round(encoder_work_tokens(model, scheme, image))
    text = asked.load.input_tokens or 64
    tokens = text + item.images * (image.language_tokens + encoder_tokens)
    load = replace(asked.load, input_tokens=tokens)
    scenario, notes = scenario_of(name, load, asked.objectives, asked.where, asked.shown.top, shared)
    scenario = scenario.model_copy(update={"beside": beside_of(asked.beside)})
    count = item.images
    told = (
        f"{count} x {width} x {height} pixels are {count * image.language_tokens:,} tokens under {scheme.id}; "
        f"encoding counts as {count * encoder_tokens:,} more, so a prompt of {text} counts {tokens:,}"
    )
    return recommended(scenario, (*notes, told), asked.shown, shared)


def encoder_work_tokens(model: Model, scheme: vision.ImageScheme, image: ImageTokens) -> float:
    """Prompt tokens whose multiplications are as many as encoding one image takes.

    passes · flop of a pass / (2 · active parameters)

    Assumes: encoder and language model reach the same share of the peak.
    """
    tower = Deployment(scheme.tower_model(), accelerators.by_id("h100-sxm"), engines.by_id("vllm"))
    flop = image.num_passes * pass_flop(tower, image.patches_per_pass)
    return flop / (2.0 * parameter_count(model).active)
