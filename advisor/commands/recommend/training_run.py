"""Ask the training search, keep the plan, and ask it again for another number of accelerators."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from advisor.ask.inputs import given_options
from advisor.ask.levers import beside_of
from advisor.ask.measures import parse_seconds
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.scenario import constraints_of, refuse_goal
from advisor.ask.training import total_budget, training_question
from advisor.ask.work import Shown, WorkQuestion
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.regions import DEFAULT_REGION, get_region
from advisor.cli.notes import progress
from advisor.commands.recommend.plan_file import read_plan, write_plan
from advisor.commands.recommend.training_view import training_answer
from advisor.decide.training.recommend import recommend_training
from advisor.decide.training.scenario import TrainingScenario
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable
from advisor.render.calibration_view import with_calibration


def answer_typed_training(asked: WorkQuestion, shared: SharedOptions) -> Answer:
    """Return the answer to a question about training as typed, or to a plan's question with other limits.

    Raises: AdvisorError and its kinds: something typed is wrong, or nothing satisfies it.
    """
    refuse_goal(asked.objectives, asked.workload)
    path = asked.training.from_plan
    scenario, notes = training_question(asked, shared) if path is None else _from_plan(path, asked, shared)
    return answer_training(scenario, notes, asked.shown, shared)


def answer_training(
    scenario: TrainingScenario, notes: tuple[str, ...], shown: Shown, shared: SharedOptions
) -> Answer:
    """Return the answer to a training scenario; writes the plan file if asked.

    Raises: AdvisorError and its kinds: nothing satisfies the scenario, or the plan cannot be written.
    """
    if shown.plan is not None:
        check_writable(shown.plan)
    with progress(quiet=shared.quiet) as line:
        found = recommend_training(scenario, progress=line)
    answer = training_answer(found, scenario, notes, explain=shown.explain)
    considered = tuple(name for _, name in scenario.limits.own) or scenario.limits.accelerators
    return write_plan(with_calibration(answer, scenario.calibration, considered), scenario, shown.plan)


def _from_plan(
    path: Path, asked: WorkQuestion, shared: SharedOptions
) -> tuple[TrainingScenario, tuple[str, ...]]:
    """Return the question of a plan with the typed changes: another size, deadline or budget, other hardware,
    providers or prices, another day, seed or calibration.

    Raises: InputFileError: the file is no training plan. AdvisorError: a limit is malformed, nothing is to change, or
        the plan is of other work.
    """
    scenario, content = read_plan(path)
    if not isinstance(scenario, TrainingScenario):
        raise InputFileError(
            f"{path}: is a plan for serving", why="--from lays out training again", fix="advisor replay"
        )
    names = set(given_options(asked, shared.given)) - _SAID_AGAIN
    of_all = {name: getattr(shared, name) for name in _OF_ALL & set(given_options(shared, shared.given))}
    if not names - _SHOWN and not of_all:
        raise AdvisorError(
            "--from needs what shall change", why="as it stands it is the same question", fix="--gpus 256"
        )
    _check_same_work(asked, scenario)
    first = _first_option(content, path)
    changed, notes = _changed_limits(asked, names)
    if not {"gpu", "own"} & names:
        changed["accelerators"] = (first["machine"]["accelerator"],)
    words = first["plan"].get("words", "")
    note = f"{path}: {first['machine']['num_accelerators']} x {first['machine']['accelerator']} ran {words}"
    if "calibration" in of_all:
        of_all["calibration"] = given_calibration(shared.calibration)
    if "top" in names:
        of_all["top"] = asked.shown.top
    again = scenario.with_limits(**changed).model_copy(update=of_all)
    kept_day = f"{path}: asked as of {again.as_of} with seed {again.seed}"
    return again, (note, kept_day, *notes)


_SAID_AGAIN: Final = {"from_plan", "model", "workload"}
_SHOWN: Final = {"plan", "explain", "top"}
_OF_ALL: Final = {"seed", "as_of", "calibration"}
"""Fields of the options of every command that a plan also states."""
_FIELDS: Final = {
    "gpu": "accelerators",
    "provider": "providers",
    "own": "own",
    "term": "terms",
    "tenancy": "tenancies",
    "residency": "countries",
    "max_price_age": "max_price_age_days",
    "price_file": "price_file",
    "power_budget": "power_budget_w",
}
"""Limits of a plan, as of any question, by the option that changes them."""


def _changed_limits(asked: WorkQuestion, names: set[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return fields of a plan's limits that the options given change, and notes on what was understood."""
    typed = asked.training
    where = asked.where
    constraints, notes = constraints_of(replace(where, precision=None, engine=None, region=None))
    changed = {field: getattr(constraints, field) for option, field in _FIELDS.items() if option in names}
    if "own" in names:
        changed["accelerators"] = ()
    if names & {"gpus", "deadline", "budget"}:
        deadline_s = parse_seconds(typed.deadline, "--deadline") if typed.deadline is not None else None
        changed |= {
            "num_accelerators": typed.gpus,
            "deadline_s": deadline_s,
            "budget_usd": total_budget(asked),
        }
    if "region" in names:
        region, note = get_region(where.region or DEFAULT_REGION)
        changed["region"] = region.id
        notes = (*notes, note)
    if names & {"storage_tb", "egress_tb"}:
        changed["beside"] = beside_of(asked.beside)
    return changed, tuple(filter(None, notes))


def _check_same_work(asked: WorkQuestion, scenario: TrainingScenario) -> None:
    if asked.workload not in ("serve", scenario.workload):
        raise AdvisorError(
            f"the plan is of --workload {scenario.workload}", fix=f"drop --workload {asked.workload}"
        )
    if asked.model is not None and models.get(asked.model).record.id != models.get(scenario.model).record.id:
        raise AdvisorError(f"the plan is of --model {scenario.model}", fix=f"drop --model {asked.model}")


def _first_option(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    options = content.get("options")
    if not isinstance(options, list) or not options or not isinstance(options[0], dict):
        raise InputFileError(
            f"{path}: has no options", fix="name a plan that `advisor recommend --plan` wrote"
        )
    return options[0]
