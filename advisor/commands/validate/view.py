"""Scores of predictions as an answer: how many cases, how far off, and where."""

from collections.abc import Mapping

from advisor.commands.validate.cases import Validation
from advisor.commands.validate.options import CaseTable as TypedTable
from advisor.commands.validate.serving_accuracy_view import STRANGER, serving_accuracy_blocks, stranger_tables
from advisor.evidence.scores import MetricScore, Score
from advisor.evidence.serving.accuracy import ServingAccuracy
from advisor.render.answer import Answer, Block, Column, Paragraph, Table, columns
from advisor.render.numbers import percent

MAX_GROUPS = 12
"""Groups of a column that the terminal lists, those with most measurements first; JSON has all."""
MAX_PROBLEMS = 10
MAX_REASONS = 3
"""Reasons of rows without a prediction that are printed, the most common first; the predictions' file has all."""


def validation_answer(
    suite: str,
    asked: TypedTable,
    found: Validation,
    accuracy: ServingAccuracy | None = None,
    *,
    stranger: Validation | None = None,
    stranger_accuracy: ServingAccuracy | None = None,
) -> Answer:
    """Return the summary of a validation; predictions themselves go to their file.

    Published serving runs that state their tier are shown by the tables of docs/accuracy.md, others by group; both as
    their scripts say and as a stranger's server would be predicted.
    """
    num_cases = sum(found.statuses.values())
    counts = ", ".join(f"{number} {status}" for status, number in sorted(found.statuses.items()))
    blocks: list[Block] = [
        Paragraph(f"{num_cases} cases, {percent(found.coverage)} predicted ({counts})", emphasis=True)
    ]
    if found.scores:
        blocks.append(_overall_table(found.scores))
        blocks += serving_accuracy_blocks(accuracy) if accuracy else _group_tables(found.scores)
        blocks += _stranger_blocks(stranger, stranger_accuracy)
    else:
        blocks.append(Paragraph("The table holds no measured values, so there is nothing to compare with."))
    more = len(found.problems) - MAX_PROBLEMS
    return Answer(
        result={
            "num_cases": num_cases,
            "coverage": found.coverage,
            "statuses": found.statuses,
            "metrics": found.scores,
            **({"accuracy": accuracy} if accuracy else {}),
            **({"metrics_stranger": stranger.scores} if stranger else {}),
            **({"accuracy_stranger": stranger_accuracy} if stranger_accuracy else {}),
        },
        inputs={"suite": suite, "cases": asked.cases, "predictions": asked.predictions},
        blocks=tuple(blocks),
        warnings=(
            *found.misspelt,
            *found.problems[:MAX_PROBLEMS],
            *((f"{more} more rows with errors",) if more > 0 else ()),
            *found.left_out[:MAX_REASONS],
        ),
        notes=(f"wrote {asked.predictions}",) if asked.predictions else (),
    )


_SCORE_COLUMNS = columns(
    *(f"{header}>" for header in ("n", "missing", "median", "mean", "p90", "bias", "in 80 %"))
)


def _overall_table(scores: Mapping[str, MetricScore], title: str = "Error of all predictions") -> Table:
    rows = tuple((metric, *_cells(found.overall)) for metric, found in scores.items())
    return Table((Column("metric"), *_SCORE_COLUMNS), rows, title=title)


def _stranger_blocks(stranger: Validation | None, accuracy: ServingAccuracy | None) -> list[Block]:
    if stranger is None:
        return []
    if accuracy is None:
        return [_overall_table(stranger.scores, f"Error of all predictions, {STRANGER}")]
    return [*stranger_tables(accuracy)]


def _group_tables(scores: Mapping[str, MetricScore]) -> list[Table]:
    """Return tables by column for the groups of the metric that was measured most often."""
    metric, found = max(scores.items(), key=lambda item: item[1].overall.n + item[1].overall.num_missing)
    tables = []
    for column, groups in found.by.items():
        largest = sorted(groups.items(), key=lambda item: -(item[1].n + item[1].num_missing))[:MAX_GROUPS]
        rows = tuple((name, *_cells(score)) for name, score in largest)
        tables.append(
            Table((Column(column, fold=True), *_SCORE_COLUMNS), rows, title=f"{metric} by {column}")
        )
    return tables


def _cells(score: Score) -> tuple[str, ...]:
    errors = (score.median_ape, score.mape, score.p90_ape, score.bias, score.interval_coverage)
    return (str(score.n), str(score.num_missing), *(percent(error) for error in errors))
