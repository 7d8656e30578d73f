"""Published serving runs for the fit of engines, and the simulator's predictions for them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.catalog import accelerators
from advisor.catalog.releases import is_before
from advisor.evidence.fit.base import by_key, published_rows
from advisor.evidence.fit.engine_solver import Place
from advisor.evidence.serving.accuracy import CORE_TIERS, copied_cases, has_short_latencies, is_core
from advisor.evidence.serving.case import ServingCase, parse_case, with_date
from advisor.evidence.serving.prediction import predict_case
from advisor.simulator.engine_costs import EngineCosts

KERNEL_ARCHITECTURES = ("ampere", "hopper", "blackwell", "blackwell-ultra", "ada", "blackwell-geforce")
METRICS = {"ttft": "ttft_ms_mean", "tpot": "tpot_ms_mean", "throughput": "output_tok_s"}
SAME_ARCHIVE = {"AIConfigurator silicon_sample (InferenceX dumps)": "InferenceX"}
RELEASES = {
    "vllm": "0.14.0 2026-01-20",
    "sglang": "0.5.10 2026-04-05",
    "tensorrt-llm": "1.2.0 2026-03-12",
}
"""First release of a new era by engine: asynchronous scheduling by default (vLLM), prompts from captured graphs
(SGLang), expert kernels chosen by model (TensorRT-LLM)."""
WEIGHTS = {"ttft": 1.0, "tpot": 1.0, "throughput": 0.7}
DOUBTFUL = ("B2", "B4", "B5")
DOUBTFUL_SHARE = 0.5
NOT_BY_LATENCY = ("B2",)
"""Tiers whose concurrency is at times the server's limit and not the client's: their throughput counts, their latency
does not."""
MOST_CLIENTS = 512
"""Most clients of a run in the fit. Longer runs are scored, not fitted: they take long and say little about an
engine's costs."""


@dataclass(frozen=True)
class EngineRow:
    """Case with its measured values."""

    case: ServingCase
    group: str
    tier: str
    source: str
    truth: dict[str, float]


def read_rows(path: Path, tiers: Sequence[str] = CORE_TIERS) -> list[EngineRow]:
    """Return aggregated runs of these tiers without speculative decoding whose conditions are all known; latencies that
    contradict their throughput are left out."""
    rows = []
    published = list(published_rows(path))
    copied = copied_cases(raw for _, raw in published)
    for number, raw in published:
        if is_core(raw, tiers) and raw["case_id"] not in copied:
            told = ("throughput",) if has_short_latencies(raw) else tuple(METRICS)
            truth = {name: float(raw[METRICS[name]]) for name in told if raw[METRICS[name]]}
            rows.append(EngineRow(parse_case(raw, number), raw["group"], raw["tier"], raw["source"], truth))
    return rows


def place_of(row: EngineRow) -> Place:
    """Return (engine, first release of its era) of a row; the release is empty for the first era."""
    case = with_date(row.case)
    since = RELEASES.get(case.engine, "")
    later = since and not is_before(case.engine_version, case.date, since)
    return case.engine, since if later else ""


def campaign_of(row: EngineRow) -> str:
    """Return the campaign of a row: sources that share their scripts and machines are one."""
    return SAME_ARCHIVE.get(row.source, row.source)


def weight_of(row: EngineRow, metric: str, drawn: int) -> float:
    """Weight of a value: a group counts by the fourth root of its drawn rows, as neighbours are almost collinear;
    sources with a doubtful set-up count half."""
    if row.tier in NOT_BY_LATENCY and metric != "throughput":
        return 0.0
    quality = DOUBTFUL_SHARE if row.tier in DOUBTFUL else 1.0
    return quality * WEIGHTS[metric] / math.sqrt(math.sqrt(drawn))


def has_kernels(row: EngineRow) -> bool:
    """Whether the accelerator's architecture was measured, so that errors are the engine's."""
    return accelerators.by_id(row.case.gpu).architecture in KERNEL_ARCHITECTURES


def predicted_ratios(row: EngineRow, costs: EngineCosts | None) -> dict[str, float]:
    """Predicted / measured by metric; empty without a prediction."""
    metrics = predict_case(row.case, costs=costs).metrics
    return {
        name: metrics[METRICS[name]].value / value
        for name, value in row.truth.items()
        if METRICS[name] in metrics
    }


def thin_groups(rows: Iterable[EngineRow], most_of_a_group: int, seed: int = 0) -> list[EngineRow]:
    """Return rows to fit on: at most `most_of_a_group` of each group, drawn at random, without very long runs."""
    rng = np.random.default_rng(seed)
    short = (row for row in rows if row.case.load == "offline" or (row.case.concurrency or 1) <= MOST_CLIENTS)
    chosen = []
    for members in by_key((row.group, row) for row in short if row.truth).values():
        picked = rng.permutation(len(members))[:most_of_a_group]
        chosen += [members[index] for index in sorted(picked)]
    return chosen
