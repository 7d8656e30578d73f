"""Ask the search, keep the plan, and ask again from a kept one."""

from dataclasses import replace
from pathlib import Path

from advisor.cli.options import Shared
from advisor.cli.plan_file import differences, read_plan, write_plan
from advisor.cli.progress import progress
from advisor.recommend.recommend import recommend
from advisor.recommend.result import SearchStatistics
from advisor.recommend.scenario import Scenario
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable
from advisor.render.calibration_view import with_calibration
from advisor.render.numbers import TIME, show
from advisor.render.recommendation_view import recommendation_answer


def recommended(
    scenario: Scenario,
    notes: tuple[str, ...],
    shared: Shared,
    *,
    explain: bool,
    plan: Path | None,
    goal: Path | None = None,
) -> Answer:
    """The answer to a scenario, or a ranking of families of hardware by a goal; writes the plan file if asked.

    Raises: AdvisorError and its kinds: nothing satisfies the scenario, or the plan cannot be written.
    """
    if goal is not None:
        from advisor.cli.goal_run import goal_answer_of

        return goal_answer_of(goal, scenario, notes, shared, explain=explain, plan=plan)
    if plan is not None:
        check_writable(plan)
    with progress(quiet=shared.quiet) as line:
        found = recommend(scenario, progress=line)
    answer = recommendation_answer(found, scenario, notes, explain=explain)
    answer = with_calibration(answer, scenario.calibration, _considered(scenario))
    if shared.verbose:
        answer = replace(answer, notes=(*answer.notes, _effort(found.search)))
    if plan is not None:
        write_plan(plan, answer, scenario)
        answer = replace(answer, notes=(*answer.notes, f"wrote {plan}"))
    return answer


def _considered(scenario: Scenario) -> tuple[str, ...]:
    """Accelerators that could be the answer; none stands for all."""
    limits = scenario.constraints
    return tuple(name for _, name in limits.own) or limits.accelerators


def _effort(search: SearchStatistics) -> str:
    """What the search did, for people who want to know why it took so long."""
    return (
        f"{search.num_candidates} candidates screened in {show(search.screen_wall_s, TIME)}, {search.num_modelled} "
        f"modelled, {search.num_simulated} simulated with {search.num_simulated_requests} requests, "
        f"{show(search.wall_s, TIME)} in all"
    )


def replayed(path: Path, shared: Shared, *, explain: bool, plan: Path | None) -> Answer:
    """The question of a plan file asked again, with a warning for what differs now.

    Raises: InputFileError: the file is no plan. AdvisorError: nothing satisfies the question any more.
    """
    scenario, content = read_plan(path)
    if isinstance(scenario, Scenario):
        answer = recommended(scenario, (), shared, explain=explain, plan=plan)
    else:
        from advisor.cli.training_run import trained

        answer = trained(scenario, (), shared, explain=explain, plan=plan)
    changed = differences(content, answer, scenario)
    same = () if changed else (f"the same answer as in {path}",)
    return replace(answer, notes=(*answer.notes, *same), warnings=(*answer.warnings, *changed))
