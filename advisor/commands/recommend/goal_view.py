"""A ranking of families of hardware as an answer: the scores, the facts behind them, what would change it."""

from advisor.decide.scenario import Scenario
from advisor.economics.described import Sketch
from advisor.economics.goal import Goal
from advisor.economics.goal_report import GoalReport
from advisor.economics.goal_scores import GoalScore, PlatformScore
from advisor.render.answer import (
    Answer,
    Axis,
    Block,
    Chart,
    Datum,
    Paragraph,
    Section,
    Series,
    Table,
    bullet_list,
    columns,
)
from advisor.render.document import fields_of
from advisor.render.numbers import MISSING, TIME, digits, show

_WHOLE = 100.0
_MORE = "The facts behind the other scores, and edge modules, phones, FPGAs and small chips: --explain, --json or -o."


def goal_answer(
    report: GoalReport, goal: Goal, scenario: Scenario, notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """Return the whole answer; a terminal shows every fact with its points and its source only on explain."""
    shares = goal.weights.shares()
    weights = ", ".join(f"{name} {_WHOLE * share:.0f} %" for name, share in shares.items())
    ranking = _ranking(report.options)
    facts = tuple(_facts(option) for option in report.options)
    described = _hardware_table(report.described)
    shown: tuple[Block, ...] = (*facts, described) if explain else (*facts[:1], Paragraph(_MORE))
    changes = bullet_list("What would change this answer", report.what_would_change)
    asked = Paragraph(_question_sentence(scenario, weights))
    head: tuple[Block, ...] = (
        Paragraph(report.headline, emphasis=True),
        asked,
        ranking,
        _chart(report.options),
    )
    return Answer(
        result=fields_of(report),
        inputs=fields_of(scenario, "calibration") | {"goal": goal},
        blocks=(*head, *shown, changes),
        sections=(
            Section("Ranking", (*head, changes)),
            Section("The data behind each score", facts),
            Section("Other hardware, as what it is", (described,)),
        ),
        records="options",
        notes=notes,
    )


def _question_sentence(scenario: Scenario, weights: str) -> str:
    traffic = scenario.traffic
    goals = scenario.objectives
    return (
        f"Asked: weights {weights}; {traffic.mean_input_tokens} tokens in, {traffic.mean_output_tokens} out "
        f"({traffic.profile}), p99 TTFT {show(goals.ttft_p99_s, TIME)}, p99 TPOT {show(goals.tpot_p99_s, TIME)}; "
        f"prices as of {scenario.as_of}. A score is the mean of its facts; what is not known counts nothing, and in "
        "full for the number after the dash."
    )


def _ranking(options: tuple[PlatformScore, ...]) -> Table:
    names = [score.name for score in options[0].scores]
    rows = tuple(
        (
            str(option.rank),
            option.name,
            _points(option.score, option.score_at_best),
            *(_points(score.low, score.high) for score in option.scores),
            MISSING if option.usd_per_million_tokens is None else f"${digits(option.usd_per_million_tokens)}",
            option.deal,
        )
        for option in options
    )
    return Table(
        columns(
            "#> | family~ | points>",
            *(f"{name}>" for name in names),
            "$/M tokens> | cheapest deployment, or why there is none~",
        ),
        rows,
        "Families of hardware, points of 100",
    )


def _points(low: float, high: float) -> str:
    bottom = f"{_WHOLE * low:.0f}"
    top = f"{_WHOLE * high:.0f}"
    return bottom if bottom == top else f"{bottom}-{top}"


def _facts(option: PlatformScore) -> Table:
    rows = tuple(row for score in option.scores for row in _fact_rows(score))
    return Table(
        columns("score | fact | points> | what is known~ | source~"),
        rows,
        f"{option.rank}. {option.name}: {option.access}",
    )


def _fact_rows(score: GoalScore) -> list[tuple[str, ...]]:
    return [
        (
            score.name,
            fact.name,
            "not known" if fact.points is None else f"{_WHOLE * fact.points:.0f}",
            fact.text,
            " ".join(filter(None, (fact.source, fact.date))) or MISSING,
        )
        for fact in score.facts
    ]


def _chart(options: tuple[PlatformScore, ...]) -> Chart:
    names = [score.name for score in options[0].scores]
    series = tuple(
        Series(
            name,
            tuple(
                Datum(option.name, _WHOLE * score.weight * score.low)
                for option in options
                for score in option.scores
                if score.name == name
            ),
        )
        for name in names
    )
    return Chart(
        "stacked",
        "Where the points come from",
        Axis("family"),
        Axis("points", "of 100"),
        series,
        "Weighted scores of each family on top of each other.",
        is_in_terminal=False,
    )


def _hardware_table(found: tuple[Sketch, ...]) -> Table:
    rows = tuple((entry.name, entry.what, entry.use, entry.bound) for entry in found)
    details = tuple((Paragraph(entry.source),) for entry in found)
    return Table(
        columns("hardware~ | what it is~ | good for~ | this model on it~"), rows, "Not ranked", details
    )
