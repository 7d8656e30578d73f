"""Published serving runs that engines are fitted on, and what the simulator predicts for them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.catalog import accelerators, engines
from advisor.evidence.fit.base import by_key, published_rows
from advisor.evidence.serving.accuracy import is_core
from advisor.evidence.serving.case import ServingCase, dated, parse_case
from advisor.evidence.serving.prediction import predict_case
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.terms import Case, find

KERNEL_ARCHITECTURES = ("ampere", "hopper", "blackwell", "blackwell-ultra", "ada", "blackwell-geforce")
METRICS = {"ttft": "ttft_ms_mean", "tpot": "tpot_ms_mean", "throughput": "output_tok_s"}
MOST_CLIENTS = 512
"""Longer runs are scored, not fitted: they take long and say little about an engine's costs."""


@dataclass(frozen=True)
class Row:
    """A case with what was measured."""

    case: ServingCase
    group: str
    tier: str
    source: str
    truth: dict[str, float]


def read_rows(path: Path) -> list[Row]:
    """Aggregated runs without speculative decoding of which all conditions are known."""
    rows = []
    for number, raw in published_rows(path):
        if is_core(raw):
            truth = {name: float(raw[column]) for name, column in METRICS.items() if raw[column]}
            rows.append(Row(parse_case(raw, number), raw["group"], raw["tier"], raw["source"], truth))
    return rows


def era_key(row: Row) -> tuple[str, str] | None:
    """(engine, first release of its era) of a row: eras are the spans of the terms of request_s; None without one."""
    if row.case.engine not in engines.all_ids():
        return None
    case = dated(row.case)
    found = find("engine", "request_s", Case(case.engine, case.engine_version, case.date))
    return (row.case.engine, found.since) if found and found.name else None


def has_kernels(row: Row) -> bool:
    """Whether the accelerator's architecture was measured, so that misses are the engine's."""
    return accelerators.by_id(row.case.gpu).architecture in KERNEL_ARCHITECTURES


def predicted_ratios(row: Row, costs: EngineCosts | None) -> dict[str, float]:
    """Predicted / measured by metric; empty where there is no prediction."""
    metrics = predict_case(row.case, costs=costs).metrics
    return {
        name: metrics[METRICS[name]].value / value
        for name, value in row.truth.items()
        if METRICS[name] in metrics
    }


def thinned(rows: Iterable[Row], most_of_a_group: int, seed: int = 0) -> list[Row]:
    """Rows to fit on: at most so many of each group, drawn at random, without very long runs."""
    rng = np.random.default_rng(seed)
    short = (row for row in rows if row.case.load == "offline" or (row.case.concurrency or 1) <= MOST_CLIENTS)
    chosen = []
    for members in by_key((row.group, row) for row in short if row.truth).values():
        picked = rng.permutation(len(members))[:most_of_a_group]
        chosen += [members[index] for index in sorted(picked)]
    return chosen
