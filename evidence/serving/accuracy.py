"""Choice of the published serving runs that count, and the errors of their predictions: the figures of
docs/accuracy.md."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.scores import (
    JudgedRow,
    MeasuredPrediction,
    MetricScore,
    Score,
    comparisons,
    measured_value,
    score,
    score_metrics,
)

CORE_TIERS = ("A1", "A2", "A3", "B2", "B4", "B5", "OWN")
"""Tiers of whole servers under load: no ports of MLPerf, no offline maxima, no local machines."""
BLIND_TIERS = ("B6", "C", "D")
"""Tiers of whole servers under load in the second blind round."""
THROUGHPUT = "output_tok_s"
CORE_METRICS = ("tpot_ms_mean", "ttft_ms_mean", THROUGHPUT)
CORE_COLUMNS = ("engine", "gpu", "model", "tier")
GROUP = "group"
"""Column of the groups (accelerator, model, engine) over which macro averages run."""
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
"""Tiers outside the core, with the metric that each of them measured."""
MATCHED = ("model", "gpu", "n_gpus", "weight_dtype", "load", "concurrency", "request_rate", "isl", "osl")
"""Columns in which two runs of different engines must agree to be compared."""
FIGURES = (
    *(f"{name}_ms_{kind}" for name in ("ttft", "tpot") for kind in ("mean", "p50", "p99")),
    "output_tok_s",
    "total_tok_s",
    "req_s",
)
"""Columns of measured values by which a copy is known."""
LEAST_FIGURES = 4
"""Fewest equal figures of two runs that are a copy and no chance."""
LEAST_IN_FLIGHT = 0.5
"""Least fraction of a closed loop's clients that its own throughput and latencies must leave in flight. The start and
end of a run take less than that; a client that stops its clock before all tokens have come leaves a few percent."""
TIE = 1.05
"""Ratio up to which two runs count as equally fast."""


@dataclass(frozen=True, slots=True)
class ServingAccuracy:
    """Errors of predictions on the core and elsewhere; a missing prediction counts if the score says so."""

    core: Mapping[str, MetricScore]
    """Scores on the core by metric: overall, by each of CORE_COLUMNS, and by group."""
    num_core_rows: Mapping[str, Mapping[str, int]]
    """Number of rows of the core by column of CORE_COLUMNS, then by its value."""
    other_loads: Mapping[str, Mapping[str, Score]]
    """Scores by tier outside the core, then by metric."""


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """Pairs of runs of different engines under equal conditions, measured more than 5 % apart."""

    num_pairs: int
    num_right: int
    """Number of pairs predicted in the measured order, more than 5 % apart."""
    num_tied: int
    """Number of pairs predicted within 5 % of each other."""
    num_told: int
    """Number of pairs whose faster run is predicted to be faster, by any margin."""


def engine_order(rows: Sequence[JudgedRow], metric: str) -> EngineOrder:
    """Count how often predictions name the faster of two engines on equal hardware; a missing prediction is wrong.

    Definition: see docs/accuracy.md.
    """
    alike: dict[tuple[str, ...], list[MeasuredPrediction]] = {}
    for one in comparisons([row for row in rows if is_core(row.cells)], metric):
        alike.setdefault(tuple(one.groups.get(name, "") for name in MATCHED), []).append(one)
    num_pairs = num_right = num_tied = num_told = 0
    for group in alike.values():
        for first, second in combinations(group, 2):
            measured = _compare_order(first.measured, second.measured)
            if first.groups["engine"] == second.groups["engine"] or not measured:
                continue
            num_pairs += 1
            if first.predicted and second.predicted:
                predicted = _compare_order(first.predicted.value, second.predicted.value)
                num_right += predicted == measured
                num_tied += predicted == 0
                num_told += (first.predicted.value > second.predicted.value) == (measured > 0)
    return EngineOrder(num_pairs, num_right, num_tied, num_told)


def _compare_order(first: float, second: float) -> int:
    """Return 1 if the first is larger, -1 if the second is, 0 if they count as equal."""
    return int(first > TIE * second) - int(second > TIE * first)


def is_core(cells: Mapping[str, str], tiers: Sequence[str] = CORE_TIERS) -> bool:
    """Whether a row of these tiers is an aggregated run without speculative decoding, all conditions published.

    Definition: see docs/accuracy.md.
    """
    return (
        cells.get("tier") in tiers
        and cells.get("mode", "agg") == "agg"
        and not _speculates(cells)
        and all(cells.get(name) for name in NEEDED)
    )


def copied_cases(rows: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the case ids of runs whose figures their source prints for two accelerators, to the last digit: no column
    says on which of them they were measured, so neither counts.

    Source: GPUStack's pages of GLM-4.5-Air on A100s and on H100s have eight runs in common.
    """
    by_figures: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for cells in rows:
        figures = tuple(cells.get(name, "") for name in FIGURES)
        if sum(map(bool, figures)) >= LEAST_FIGURES:
            by_figures.setdefault((cells.get("source", ""), *figures), []).append(cells)
    return frozenset(
        cells["case_id"]
        for alike in by_figures.values()
        if len({cells["gpu"] for cells in alike}) > 1
        for cells in alike
    )


def has_short_latencies(cells: Mapping[str, str]) -> bool:
    """Whether the latencies of a closed loop are too short for its own throughput: fewer than half of its clients would
    wait for an output at any time (Little's law), so its client measured something else.

    Source: Little 1961; GPUStack's runs of reasoning models, whose clients miss the tokens of thoughts: 0.03 ms per
    token, and a whole answer as long as its first token.
    """
    names = ("output_tok_s", "ttft_ms_mean", "tpot_ms_mean", "osl", "concurrency")
    rate, first_ms, each_ms, tokens, clients = (measured_value(cells, name) for name in names)
    if cells.get("load") != "closed" or not (rate and first_ms and each_ms and tokens and clients):
        return False
    whole_ms = first_ms + each_ms * (tokens - 1.0)
    most = min(clients, measured_value(cells, "num_requests") or clients)
    return rate / tokens * whole_ms * MILLISECOND_S < LEAST_IN_FLIGHT * most


def serving_accuracy(rows: Sequence[JudgedRow]) -> ServingAccuracy | None:
    """Return the errors on rows that state their tier; None if no row of the core was measured.

    Definition: see docs/accuracy.md.
    """
    copied = copied_cases(row.cells for row in rows)
    core = [row for row in rows if is_core(row.cells) and row.cells.get("case_id") not in copied]
    told = [row for row in core if not has_short_latencies(row.cells)]
    found = score_metrics(
        (
            one
            for metric in CORE_METRICS
            for one in comparisons(core if metric == THROUGHPUT else told, metric)
        ),
        (*CORE_COLUMNS, GROUP),
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
