"""Ask the training search, keep the plan, and ask it again for another number of accelerators."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.cli.measures import parse_seconds
from advisor.cli.notes import progress
from advisor.cli.options import Shared
from advisor.cli.scenario_input import constraints_of, refuse_goal
from advisor.commands.recommend.options import RecommendInput, Shown
from advisor.commands.recommend.plan_file import kept, read_plan
from advisor.commands.recommend.training_input import total_budget, training_question
from advisor.commands.recommend.training_view import training_answer
from advisor.recommend.training_recommend import recommend_training
from advisor.recommend.training_scenario import TrainingScenario
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable
from advisor.render.calibration_view import with_calibration


def trained_as_typed(asked: RecommendInput, shared: Shared) -> Answer:
    """The answer to a question about training as typed, or to a plan's question with other limits.

    Raises: AdvisorError and its kinds: something typed is wrong, or nothing satisfies it.
    """
    refuse_goal(asked.objectives, asked.workload)
    path = asked.training.from_plan
    scenario, notes = training_question(asked, shared) if path is None else _from_plan(path, asked)
    return trained(scenario, notes, asked.shown, shared)


def trained(scenario: TrainingScenario, notes: tuple[str, ...], shown: Shown, shared: Shared) -> Answer:
    """The answer to a training scenario; writes the plan file if asked.

    Raises: AdvisorError and its kinds: nothing satisfies the scenario, or the plan cannot be written.
    """
    if shown.plan is not None:
        check_writable(shown.plan)
    with progress(quiet=shared.quiet) as line:
        found = recommend_training(scenario, progress=line)
    answer = training_answer(found, scenario, notes, explain=shown.explain)
    considered = tuple(name for _, name in scenario.limits.own) or scenario.limits.accelerators
    return kept(with_calibration(answer, scenario.calibration, considered), scenario, shown.plan)


def _from_plan(path: Path, asked: RecommendInput) -> tuple[TrainingScenario, tuple[str, ...]]:
    """The question of a plan with another number of accelerators, deadline, budget, accelerator or provider.

    Raises: InputFileError: the file is no training plan. AdvisorError: a limit is malformed.
    """
    typed, where, budget = asked.training, asked.where, total_budget(asked)
    scenario, content = read_plan(path)
    if not isinstance(scenario, TrainingScenario):
        raise InputFileError(
            f"{path}: is a plan for serving", why="--from lays out training again", fix="advisor replay"
        )
    if typed.gpus is None and typed.deadline is None and budget is None and where.gpu is None:
        raise AdvisorError(
            "--from needs what shall change", why="as it stands it is the same question", fix="--gpus 256"
        )
    first = _first_option(content, path)
    constraints, notes = constraints_of(replace(where, precision=None, engine=None))
    changed: dict[str, Any] = {"num_accelerators": typed.gpus, "deadline_s": None, "budget_usd": budget}
    changed["accelerators"] = constraints.accelerators or (first["accelerator"],)
    if where.provider is not None:
        changed["providers"] = constraints.providers
    if typed.deadline is not None:
        changed["deadline_s"] = parse_seconds(typed.deadline, "--deadline")
    within = scenario.limits.model_copy(update=changed)
    words = first["plan"].get("words", "")
    note = f"{path}: {first['num_accelerators']} x {first['accelerator']} ran {words}"
    return scenario.model_copy(update={"limits": within}), (note, *notes)


def _first_option(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    options = content.get("options")
    if not isinstance(options, list) or not options or not isinstance(options[0], dict):
        raise InputFileError(
            f"{path}: has no options", fix="name a plan that `advisor recommend --plan` wrote"
        )
    return options[0]
