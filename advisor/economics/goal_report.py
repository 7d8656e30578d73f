"""Decision help: families of hardware ranked by a team's own weights, with the data behind every score."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog import models as model_catalog
from advisor.catalog.ownership import Ownership
from advisor.catalog.platforms import Platform, all_platforms
from advisor.catalog.schema import Model
from advisor.decide.race import Report
from advisor.decide.scenario import Scenario
from advisor.economics.described import Sketch, sketches
from advisor.economics.goal import Goal
from advisor.economics.goal_facts import PlatformFacts, facts_of
from advisor.economics.goal_scores import PlatformScore, rank_platforms


@dataclass(frozen=True, slots=True)
class GoalReport:
    """The whole answer."""

    kind: str
    model: str
    headline: str
    options: tuple[PlatformScore, ...]
    """Best first."""
    what_would_change: tuple[str, ...]
    described: tuple[Sketch, ...]


def goal_report(
    scenario: Scenario, goal: Goal, known: Ownership, *, progress: Report = lambda message: None
) -> GoalReport:
    """Families of hardware for a model and a team, best first.

    Raises: UnknownNameError: the model or a provider is not known.
    """
    return goal_reports(scenario, (goal,), known, progress=progress)[0]


def goal_reports(
    scenario: Scenario, goals: Sequence[Goal], known: Ownership, *, progress: Report = lambda message: None
) -> tuple[GoalReport, ...]:
    """Return a report for each team: families are searched once, as no weight changes what they serve or cost.

    Raises: UnknownNameError: the model or a provider is not known.
    """
    model = model_catalog.get(scenario.model)[0]
    wanted = [entry for entry in all_platforms() if any(_is_compared(entry, goal) for goal in goals)]
    facts = [_facts(platform, scenario, known, progress) for platform in wanted]
    return tuple(
        _report_of(model, [each for each in facts if _is_compared(each.platform, goal)], goal)
        for goal in goals
    )


def _is_compared(platform: Platform, goal: Goal) -> bool:
    return not goal.platforms or platform.id in goal.platforms


def _report_of(model: Model, facts: list[PlatformFacts], goal: Goal) -> GoalReport:
    options = rank_platforms(facts, goal)
    first = options[0]
    return GoalReport(
        kind="goal",
        model=model.id,
        headline=(
            f"{model.name} for a team that knows {', '.join(goal.team.frameworks)}: {first.name}, "
            f"{100 * first.score:.0f} of 100 points; {first.deal}"
        ),
        options=options,
        what_would_change=_changes(facts, options, goal),
        described=sketches(model),
    )


def _facts(platform: Platform, scenario: Scenario, known: Ownership, progress: Report) -> PlatformFacts:
    progress(f"looking at {platform.name}")
    return facts_of(platform, scenario, known)


def _changes(facts: list[PlatformFacts], options: tuple[PlatformScore, ...], goal: Goal) -> tuple[str, ...]:
    """Return the single weights that would put another family first, with all else equal, and the facts that are
    unknown."""
    first = options[0]
    sentences = []
    shares = goal.weights.shares()
    for name in shares:
        only = goal.model_copy(
            update={"weights": goal.weights.model_copy(update={n: float(n == name) for n in shares})}
        )
        leader = rank_platforms(facts, only)[0]
        if leader.platform != first.platform:
            sentences.append(f"{name} alone would put {leader.name} first")
    for option in options[1:]:
        if option.score_at_best > first.score > option.score:
            missing = [fact.name for score in option.scores for fact in score.facts if fact.points is None]
            sentences.append(
                f"{option.name} could come first if what is not known of it ({', '.join(missing)}) were good: "
                "--price-file or --assumptions can tell"
            )
    return tuple(sentences) or ("no single weight would put another family first",)
