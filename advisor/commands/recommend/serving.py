"""Ask the search for serving, or which family of hardware suits a team; keep the plan and the files that start it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Final

from advisor.ask.options import SharedOptions
from advisor.ask.work import Shown
from advisor.catalog.errors import AdvisorError
from advisor.cli.notes import progress
from advisor.commands.recommend.options import Emission
from advisor.commands.recommend.view import recommendation_answer
from advisor.decide.decision import Counts, Decision
from advisor.decide.reason import NoAnswerError
from advisor.decide.recommend import recommend, with_reachable_limits
from advisor.decide.scenario import Objectives, Scenario
from advisor.render.answer import Answer, Figure
from advisor.render.atomic import check_writable, write_files
from advisor.render.calibration_view import with_calibration
from advisor.render.numbers import TIME, show

NOTHING: Final = Emission()


def check_emission(typed: Emission) -> None:
    """Refuse a folder without a form, or one that is a file, before the work starts.

    Raises: AdvisorError: so it is. UnwritableError: nothing may be written there.
    """
    folder = typed.emit_dir
    if folder is not None and typed.emit is None:
        raise AdvisorError(
            "--emit-dir says where, not in which form", fix=f"--emit compose --emit-dir {quote(str(folder))}"
        )
    if folder is not None and folder.exists() and not folder.is_dir():
        raise AdvisorError(
            f"--emit-dir {folder} is a file", fix="name a folder, or one that does not exist yet"
        )
    if folder is not None:
        missing = folder / "files"
        while not missing.parent.exists():
            missing = missing.parent
        check_writable(missing)


def with_files(answer: Answer, found: Decision, typed: Emission) -> Answer:
    """Return the answer with the files that start its first option, written to the named folder or else shown.

    Raises: AdvisorError: they cannot be made for this hardware or engine. UnwritableError: the system refused.
    """
    if typed.emit is None:
        return answer
    from advisor.emit.formats import check_hardware, emit_files

    first, *others = (option.machine.accelerator for option in found.options)
    check_hardware(typed.emit, () if found.options[0].parts else (first,), others)
    return with_emitted(answer, emit_files(found.model, found.options[0], typed.emit), typed)


def with_emitted(answer: Answer, files: Mapping[str, str], typed: Emission) -> Answer:
    """Return the answer with files, written where a folder is named and shown otherwise.

    Raises: UnwritableError: the system refused.
    """
    result = {**answer.result, "deployment": {"format": typed.emit, "files": files}}
    if typed.emit_dir is None:
        blocks = (*answer.blocks, *(Figure(text.rstrip(), title=name) for name, text in files.items()))
        return replace(answer, result=result, blocks=blocks)
    write_files(typed.emit_dir, files)
    wrote = f"wrote {', '.join(sorted(files))} into {typed.emit_dir}"
    return replace(answer, result=result, notes=(*answer.notes, wrote))


def answer_scenario(
    scenario: Scenario,
    notes: tuple[str, ...],
    shown: Shown,
    shared: SharedOptions,
    emission: Emission = NOTHING,
    *,
    whole: bool = False,
    limits_are_usual: bool = False,
) -> Answer:
    """Return the answer to a scenario; write the plan file and the files that start its first option if asked.
    `whole` means that not only a terminal shows the answer. Limits of latency that are usual and not the user's give
    way where nothing keeps them.

    Raises: AdvisorError and its kinds: nothing satisfies the scenario, or something cannot be written.
    """
    check_emission(emission)
    scenario, only = _for_form(scenario, emission)
    notes += only
    if shown.plan is not None:
        check_writable(shown.plan)
    whole = whole or shown.explain or shared.json or shared.output is not None or shown.plan is not None
    with progress(quiet=shared.quiet) as line:
        try:
            found = recommend(scenario, progress=line, whole=whole, suggests=not limits_are_usual)
        except NoAnswerError:
            if not limits_are_usual:
                raise
            longer = with_reachable_limits(scenario, line) or scenario
            found = recommend(longer, progress=line, whole=whole)
            notes += (_limits_note(scenario.objectives, longer.objectives),)
            scenario = longer
    if scenario.ladder_per_s:
        rates = tuple(rung.rate_per_s for rung in found.ladder if rung.rate_per_s is not None)
        scenario = scenario.model_copy(update={"ladder_per_s": rates})
    answer = recommendation_answer(found, scenario, notes, explain=shown.explain)
    limits = scenario.constraints
    considered = tuple(name for _, name in limits.own) or limits.accelerators
    answer = with_calibration(answer, scenario.calibration, considered)
    answer = with_files(answer, found, emission)
    if shared.verbose:
        answer = replace(answer, notes=(*answer.notes, _effort(found.counts)))
    if shown.plan is None:
        return answer
    from advisor.commands.recommend.plan_file import write_plan

    return write_plan(answer, scenario, shown.plan)


def _limits_note(usual: Objectives, taken: Objectives) -> str:
    return f"nothing here keeps the usual {usual.words}: {taken.words} is taken; --ttft-p99 and --tpot-p99 set others"


def _for_form(scenario: Scenario, emission: Emission) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario with the engines for which the asked form is written, unless engines are named, and a note
    that says so.

    Raises: AdvisorError: the form is written for none of the stated accelerators.
    """
    if emission.emit is None:
        return scenario, ()
    from advisor.emit.formats import check_hardware
    from advisor.emit.operators import engines_of

    limits = scenario.constraints
    check_hardware(emission.emit, tuple(name for _, name in limits.own) or limits.accelerators)
    written = () if limits.engines else engines_of(emission.emit)
    if not written:
        return scenario, ()
    note = f"--emit {emission.emit} is written for {' and '.join(written)}: no other engine is considered"
    return scenario.with_limits(engines=written), (note,)


def _effort(counts: Counts) -> str:
    """Return a sentence on the effort of the search, which explains how long it took."""
    return (
        f"{counts.num_candidates} candidates, {counts.num_modelled} modelled, {counts.num_simulated} simulated with "
        f"{counts.num_simulated_requests} requests, {show(counts.wall_s, TIME)} in all"
    )


def goal_answer_of(
    file: Path, scenario: Scenario, notes: tuple[str, ...], shown: Shown, shared: SharedOptions
) -> Answer:
    """Return families of hardware ranked by the goal in a file.

    Raises: AdvisorError and its kinds: the file is malformed, or --own, --gpu, --concurrency or --plan is given too.
    """
    from advisor.catalog.ownership import ownership
    from advisor.commands.recommend.goal_view import goal_answer
    from advisor.economics.goal import read_goal
    from advisor.economics.goal_report import goal_report

    limits = scenario.constraints
    traffic = scenario.traffic
    for name, given in (
        ("--own", limits.own),
        ("--gpu", limits.accelerators),
        ("--rate", traffic.rate_per_s or scenario.ladder_per_s),
        ("--concurrency", traffic.concurrency),
        ("--plan", shown.plan),
        ("--fast", scenario.screened_only),
        ("--max-context", scenario.max_contexts),
    ):
        if given:
            raise AdvisorError(
                f"--goal and {name} exclude each other",
                why="a goal compares families of hardware at the highest load that each carries",
                fix=f"drop {name}",
            )
    goal = read_goal(file)
    known = ownership(scenario.as_of)
    with progress(quiet=shared.quiet) as line:
        report = goal_report(scenario, goal, known, progress=line)
    return goal_answer(report, goal, scenario, notes, explain=shown.explain)
