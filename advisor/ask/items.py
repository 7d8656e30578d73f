"""Conversion of typed options about images, texts or audio into a job."""

import re
from dataclasses import replace
from typing import Final, cast

from advisor.ask.batch import DEFAULT_DEADLINE
from advisor.ask.levers import beside_of
from advisor.ask.measures import parse_budget, parse_count, parse_rate, parse_seconds
from advisor.ask.options import DEFAULT_ITEMS, ItemInput, SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.scenario import LADDER_PER_S, constraints_of, needed_model
from advisor.ask.work import WorkQuestion
from advisor.catalog import diffusion, models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.decide.items.result import ItemScenario
from advisor.simulator.workloads.diffusion import ImageJob
from advisor.simulator.workloads.embedding import Texts
from advisor.simulator.workloads.services import DEFAULT_RUNTIME, ItemJob, ItemWorkload, check_model
from advisor.simulator.workloads.speech import SEGMENT_S, TOKENS_PER_S

_SIZE: Final = re.compile(r"(\d+)\s*[xX×]\s*(\d+)")
_DEFAULT_LATENCY_S: Final = {"diffusion": 10.0}
"""Largest p99 latency of an item where none is given [s]; 1 s for work that is not named."""
_BACKLOG_LATENCY_S: Final = 60.0
"""Largest p99 latency of items that are there already [s]. Own choice: batches fill, and none waits for an hour."""
DEFAULT_TEXT_TOKENS: Final = 512
DEFAULT_QUERY_TOKENS: Final = 32


def parse_size(text: str) -> tuple[int, int]:
    """Return width and height [pixels], written 1024x768.

    Raises: AdvisorError: written otherwise.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise AdvisorError(
            f"--image-size {text}: not a size",
            why="width x height in pixels",
            fix="e.g. --image-size 1024x768",
        )
    return int(match.group(1)), int(match.group(2))


def item_job(model: Model, workload: ItemWorkload, typed: ItemInput) -> ItemJob:
    """Return the job of a workload, defaults filled in.

    Raises: AdvisorError: the model does other work, or something typed is malformed.
    """
    check_model(model, workload)
    runtime = typed.runtime or DEFAULT_RUNTIME[workload]
    most = typed.max_batch or 256
    if workload == "diffusion":
        return ItemJob(workload, runtime, image=image_job(model, typed), max_batch=most)
    if workload == "speech":
        per_segment = float(typed.tokens) if typed.tokens else TOKENS_PER_S * SEGMENT_S
        return ItemJob(workload, runtime, tokens_per_segment=per_segment, max_batch=most)
    query = typed.query_tokens or (DEFAULT_QUERY_TOKENS if workload == "rerank" else 0)
    return ItemJob(workload, runtime, texts=Texts(typed.tokens or DEFAULT_TEXT_TOKENS, query), max_batch=most)


def image_job(model: Model, typed: ItemInput) -> ImageJob:
    """Return one image or video, with the settings of the model's pipeline where nothing was typed.

    Raises: AdvisorError: the size is malformed. UnknownNameError: the model's pipeline is not recorded.
    """
    pipeline = diffusion.get(model.id)
    size = (pipeline.default_width, pipeline.default_height)
    width, height = parse_size(typed.image_size) if typed.image_size else size
    guided = pipeline.guidance == "classifier_free" if typed.guidance is None else typed.guidance
    if guided and pipeline.guidance != "classifier_free":
        raise AdvisorError(
            f"{model.id} has no unguided half to run",
            why="its guidance is distilled into the weights"
            if pipeline.guidance == "distilled"
            else "it was trained to be run without guidance",
            fix="drop --guidance",
        )
    steps = typed.steps or pipeline.default_steps
    return ImageJob(width, height, steps, guided, pipeline.default_frames)


def named_model(name: str) -> tuple[Model, tuple[str, ...]]:
    """Return a model and what was understood by its name.

    Raises: UnknownNameError: there is none.
    """
    found = models.get(name)
    return found.record, tuple(filter(None, (found.note,)))


def item_question(asked: WorkQuestion, shared: SharedOptions) -> tuple[ItemScenario, tuple[str, ...]]:
    """Return the whole question about images, texts or audio, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the model does other work.
    """
    item = asked.item
    workload = cast(ItemWorkload, asked.workload)
    budget = asked.objectives.budget
    found = models.get(needed_model(asked.model, asked.workload))
    constraints, notes = constraints_of(asked.where)
    waits = item.items is not None or asked.training.deadline is not None
    latency_s = (
        parse_seconds(item.latency_p99, "--latency-p99")
        if item.latency_p99
        else _BACKLOG_LATENCY_S
        if waits
        else _DEFAULT_LATENCY_S.get(workload, 1.0)
    )
    deadline_s = parse_seconds(asked.training.deadline or DEFAULT_DEADLINE, "--deadline")
    count = parse_count(item.items or DEFAULT_ITEMS, "--items") if waits else None
    rate_per_s = parse_rate(asked.load.rate) if asked.load.rate else None
    if count is not None:
        if rate_per_s is not None:
            raise AdvisorError(
                "items with a deadline have no rate",
                why="they are there already, and nothing is left for --rate to say",
                fix="--items N and --deadline TIME, or --rate R alone",
            )
        rate_per_s = count / deadline_s
        told = "" if item.items else f"no number is told: {DEFAULT_ITEMS} items are taken (--items)"
        until = (
            ""
            if asked.training.deadline
            else f"no deadline is told: {DEFAULT_DEADLINE} is taken (--deadline)"
        )
        loose = (
            ""
            if item.latency_p99
            else f"items may wait: a p99 latency of {latency_s:g} s is taken (--latency-p99)"
        )
        notes = (*notes, told, until, loose)
    tokens = asked.load.input_tokens or asked.load.output_tokens
    asks_ladder = rate_per_s is None and budget is None and not constraints.own
    scenario = ItemScenario(
        model=models.reference(needed_model(asked.model, asked.workload), found.record),
        job=item_job(found.record, workload, replace(item, tokens=tokens)),
        rate_per_s=rate_per_s,
        latency_p99_s=latency_s,
        constraints=constraints,
        as_of=shared.as_of,
        seed=shared.seed,
        budget_usd_per_hour=None if budget is None else parse_budget(budget),
        calibration=given_calibration(shared.calibration),
        top=asked.shown.top,
        beside=beside_of(asked.beside),
        ladder_per_s=LADDER_PER_S if asks_ladder else (),
        num_items=count,
        deadline_s=deadline_s,
    )
    return scenario, tuple(filter(None, (found.note, *notes)))
