"""Recommendations beyond text chat and training: images, texts, audio, batches with a deadline, images in prompts."""

from typing import Final

from advisor.ask.batch import batch_question
from advisor.ask.items import item_question
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import needed_model
from advisor.ask.vision import vision_question
from advisor.ask.work import WorkQuestion
from advisor.catalog.units import DAY_S, HOUR_S
from advisor.commands.recommend.other_view import batch_answer, item_answer
from advisor.commands.recommend.serving import answer_scenario
from advisor.decide.batch.recommend import recommend_batch, with_deadlines
from advisor.decide.items.recommend import recommend_items
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.render.document import pick_attributes

_DEADLINES_S: Final = (HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S)
"""Deadlines that are compared where none is given."""


def other_work(asked: WorkQuestion, shared: SharedOptions) -> Answer:
    """Return the answer to a question beyond chat and training.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    if asked.workload == "batch":
        return batch_of_requests(needed_model(asked.model), asked, shared)[0]
    if asked.workload == "vision":
        scenario, notes = vision_question(asked, shared)
        return answer_scenario(scenario, notes, asked.shown, shared)
    return _items(asked, shared)


def _items(asked: WorkQuestion, shared: SharedOptions) -> Answer:
    scenario, notes = item_question(asked, shared)
    inputs = pick_attributes(
        scenario,
        "model job rate_per_s num_items deadline_s latency_p99_s budget_usd_per_hour constraints beside top",
    )
    inputs = {"model": inputs.pop("model"), "workload": asked.workload, **inputs}
    answer = item_answer(recommend_items(scenario), scenario, inputs, notes, explain=asked.shown.explain)
    return with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)


def batch_of_requests(model: str, asked: WorkQuestion, shared: SharedOptions) -> tuple[Answer, Traffic]:
    """Return the answer for requests for which no client waits, and their lengths.

    Raises: AdvisorError and its kinds: something typed is malformed, or nothing is done in time.
    """
    scenario, job, notes = batch_question(model, asked, shared)
    inputs = {
        "model": scenario.model,
        "workload": "batch",
        "traffic": scenario.traffic,
        "job": job,
        "constraints": scenario.constraints,
        "beside": scenario.beside,
        "top": asked.shown.top,
    }
    found = recommend_batch(scenario, job)
    if asked.training.deadline is None and asked.workload == "batch":
        found = with_deadlines(found, scenario, job, _DEADLINES_S)
    answer = batch_answer(found, job, inputs, notes, explain=asked.shown.explain)
    answer = with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)
    return answer, scenario.traffic
