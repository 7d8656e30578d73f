"""Which part of the program answers a recommendation: each kind of work loads only what it needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from advisor.cli.options import Shared
from advisor.cli.scenario_input import LimitInput, LoadInput
from advisor.cli.work_options import TRAINING, WorkInput
from advisor.render.answer import Answer


class Shown(NamedTuple):
    """How much of an answer is shown and kept."""

    top: int
    explain: bool
    plan: Path | None


def answered(
    model: str | None,
    workload: str,
    work: WorkInput,
    load: LoadInput,
    limits: LimitInput,
    goals: Mapping[str, str],
    shown: Shown,
    shared: Shared,
) -> Answer:
    """The answer to what was typed after `advisor recommend`.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or nothing satisfies it.
    """
    top, explain, plan = shown
    if workload in TRAINING or (workload == "serve" and work.training.from_plan is not None):
        from advisor.cli.training_run import trained_as_typed

        asked = (model, workload, work.training, load, limits)
        return trained_as_typed(*asked, top=top, shared=shared, explain=explain, plan=plan)
    if workload == "serve":
        from advisor.cli.recommend_run import recommended
        from advisor.cli.scenario_input import needed_model, scenario_of

        scenario, notes = scenario_of(needed_model(model), load, limits, **goals, top=top, shared=shared)
        return recommended(scenario, notes, shared, explain=explain, plan=plan, goal=limits.goal)
    from advisor.cli.other_work import other_work

    return other_work(model, workload, work, load, limits, goals, shown, shared)
