"""Which published serving runs count, and how far predictions are from them: the figures of docs/accuracy.md."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from advisor.evidence.scores import (
    Comparison,
    JudgedRow,
    MetricScore,
    Score,
    comparisons,
    score,
    score_metrics,
)

CORE_TIERS = ("A1", "A2", "A3", "B2", "B4", "B5", "OWN")
"""Whole servers under load: no ports of MLPerf, no offline maxima, no local machines."""
CORE_METRICS = ("tpot_ms_mean", "ttft_ms_mean", "output_tok_s")
CORE_COLUMNS = ("engine", "gpu", "model", "tier")
GROUP = "group"
"""Column of the groups (accelerator, model, engine) that macro averages are over."""
NEEDED = ("model", "gpu", "tp", "isl", "osl", "load", "weight_dtype")
OTHER_LOADS = (
    ("B1", "output_tok_s"),
    ("C1", "output_tok_s"),
    ("C2", "decode_tok_s"),
    ("C2", "prefill_tok_s"),
    ("C3", "decode_tok_s"),
    ("C3", "prefill_tok_s"),
    ("D1", "tpot_ms_mean"),
    ("D1", "ttft_ms_mean"),
    ("D1", "output_tok_s"),
    ("M", "output_tok_s"),
)
"""Tiers outside the core, and what was measured there."""
MATCHED = ("model", "gpu", "n_gpus", "weight_dtype", "load", "concurrency", "request_rate", "isl", "osl")
"""Columns that two runs of different engines share to be compared."""
TIE = 1.05
"""Ratio up to which two runs are alike."""


@dataclass(frozen=True, slots=True)
class ServingAccuracy:
    """Errors of predictions on the core and elsewhere; a missing prediction counts where the score says so."""

    core: Mapping[str, MetricScore]
    """By metric: overall, by each of CORE_COLUMNS, and by group."""
    num_core_rows: Mapping[str, Mapping[str, int]]
    """By column of CORE_COLUMNS, then by its value."""
    other_loads: Mapping[str, Mapping[str, Score]]
    """By tier outside the core, then by metric."""


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """Pairs of runs of different engines under the same conditions, measured more than 5 % apart."""

    num_pairs: int
    num_right: int
    """Predicted in the measured order, more than 5 % apart."""
    num_tied: int
    """Predicted within 5 % of each other."""
    num_told: int
    """Of which the faster one is predicted to be faster, by however little."""


def engine_order(rows: Sequence[JudgedRow], metric: str) -> EngineOrder:
    """How often the faster of two engines on the same hardware is told; a missing prediction is wrong.

    Source: own definition, described in docs/accuracy.md.
    """
    alike: dict[tuple[str, ...], list[Comparison]] = {}
    for one in comparisons([row for row in rows if is_core(row.cells)], metric):
        alike.setdefault(tuple(one.groups.get(name, "") for name in MATCHED), []).append(one)
    num_pairs = num_right = num_tied = num_told = 0
    for group in alike.values():
        for first, second in combinations(group, 2):
            measured = _ordered(first.measured, second.measured)
            if first.groups["engine"] == second.groups["engine"] or not measured:
                continue
            num_pairs += 1
            if first.predicted and second.predicted:
                predicted = _ordered(first.predicted.value, second.predicted.value)
                num_right += predicted == measured
                num_tied += predicted == 0
                num_told += (first.predicted.value > second.predicted.value) == (measured > 0)
    return EngineOrder(num_pairs, num_right, num_tied, num_told)


def _ordered(first: float, second: float) -> int:
    """1 where the first is larger, -1 where the second is, 0 where they are alike."""
    return int(first > TIE * second) - int(second > TIE * first)


def is_core(cells: Mapping[str, str]) -> bool:
    """Whether a row is an aggregated run without speculation whose conditions are all published.

    Source: own definition, described in docs/accuracy.md.
    """
    return (
        cells.get("tier") in CORE_TIERS
        and cells.get("mode", "agg") == "agg"
        and not _speculates(cells)
        and all(cells.get(name) for name in NEEDED)
    )


def serving_accuracy(rows: Sequence[JudgedRow]) -> ServingAccuracy | None:
    """Errors on rows that state their tier; None if nothing of the core was measured.

    Source: own definition, described in docs/accuracy.md.
    """
    core = [row for row in rows if is_core(row.cells)]
    found = score_metrics(
        (one for metric in CORE_METRICS for one in comparisons(core, metric)), (*CORE_COLUMNS, GROUP)
    )
    if not found:
        return None
    num_rows = {column: Counter(row.cells.get(column, "") for row in core) for column in CORE_COLUMNS}
    return ServingAccuracy(found, num_rows, _other_loads(rows))


def _other_loads(rows: Sequence[JudgedRow]) -> dict[str, dict[str, Score]]:
    scores: dict[str, dict[str, Score]] = {}
    for tier, metric in OTHER_LOADS:
        chosen = [row for row in rows if row.cells.get("tier") == tier and not _speculates(row.cells)]
        if compared := comparisons(chosen, metric):
            scores.setdefault(tier, {})[metric] = score(compared)
    return scores


def _speculates(cells: Mapping[str, str]) -> bool:
    return cells.get("spec_decode", "") not in ("", "none")
