"""Fit the costs of early engines beyond recent kernels, by (engine, era, architecture), on static batches.

The eras are those of which only static batches, isolated iterations and offline runs are published. Groups
(accelerator, model, engine) are left out in turn. Writes the rows of the table of terms.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from advisor.catalog import accelerators, engines
from advisor.catalog.errors import AdvisorError
from advisor.catalog.releases import belongs
from advisor.catalog.terms import UNITS, Term
from advisor.evidence.fit.base import FloatArray, Options, by_key, cauchy, published_rows, write_found
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.deployment import replica_of
from advisor.evidence.serving.prediction import load_metrics
from advisor.simulator.engine_costs import EraKernels, engine_costs, with_era_kernels
from advisor.simulator.replica_model import ReplicaModel

TIERS = ("C1", "B3", "B1")
LOADS = ("static_batch", "batch1", "step", "offline")
Era = tuple[str, str]
"""Engine, and the name of its era."""
SPANS: dict[Era, tuple[str, str]] = {
    ("vllm", "2023"): ("", "0.3.0 2024-01-31"),
    ("vllm", "v0"): ("0.3.0 2024-01-31", "0.8.0 2025-03-18"),
    ("tensorrt-llm", "2024"): ("", "0.15.0 2024-12-04"),
}
"""Releases (from, until) of each era that is fitted on its own."""
FREE: dict[Era, tuple[str, ...]] = {("tensorrt-llm", "2024"): ("wait_s",)}
"""Terms that are fitted, by era; all terms for any other era. More terms of these eras did not improve left-out
groups."""
NEAREST = "nvidia"
"""Vendor whose terms stand for an architecture that was not measured. Its generations are fitted together, as an
engine's costs hardly differ among them."""
COLUMNS = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
START = {
    "step_s": 1.5e-3,
    "sequence_s": 30e-6,
    "row_fraction": 0.5,
    "attention_repeat": 0.1,
    "prefill_scale": 1.1,
    "wait_s": 8e-6,
}
SIGMA = {
    "step_s": 1.0,
    "sequence_s": 1.0,
    "row_fraction": 1.5,
    "attention_repeat": 1.5,
    "prefill_scale": 0.4,
    "wait_s": 1.0,
}
ROBUST = 0.15
ROWS_PER_FIT = 60
NUM_FOLDS = 3
OFFLINE_REQUESTS = 1200
"""Requests of a simulated offline run: enough for a steady state, few enough for a fit."""


@dataclass(frozen=True)
class StaticRow:
    """Case with its replica without any terms, and its measured values."""

    case: ServingCase
    replica: ReplicaModel
    group: str
    source: str
    truth: dict[str, float]


def read_rows(paths: list[Path]) -> dict[tuple[str, str, str], list[StaticRow]]:
    """Return rows by (engine, era, architecture)."""
    rows: dict[tuple[str, str, str], list[StaticRow]] = defaultdict(list)
    for number, raw in (each for path in paths for each in published_rows(path)):
        if raw["tier"] not in TIERS or raw["load"] not in LOADS or raw["engine"] not in engines.all_ids():
            continue
        engine = engines.by_id(raw["engine"])
        era = next((era for era in SPANS if era[0] == engine.id and _is_of_era(era, raw)), None)
        if era is None:
            continue
        truth = {name: float(raw[name]) for name in COLUMNS if raw[name]}
        try:
            case = parse_case(raw, number)
            if case.load == "offline":
                case = replace(case, num_requests=OFFLINE_REQUESTS)
            costs = engine_costs(engine, version=case.engine_version, date=case.date)
            bare = replica_of(
                replace(case, engine_version="", date=""), costs=costs
            )  # the newest has no terms
        except AdvisorError:
            continue
        chip = accelerators.by_id(case.gpu)
        key = (*era, NEAREST if chip.vendor == NEAREST else chip.architecture)
        rows[key].append(StaticRow(case, bare, raw["group"], raw["source"], truth))
    return rows


def _is_of_era(era: Era, raw: Mapping[str, str]) -> bool:
    since, until = SPANS[era]
    return belongs(since, until, version=raw["engine_version"], date=raw["date"])


def ratios(rows: list[StaticRow], kernels: EraKernels) -> list[dict[str, float]]:
    """Return predicted / measured by column."""
    found = []
    for row in rows:
        surface = with_era_kernels(row.replica.surface, row.replica.deployment, kernels)
        metrics, _ = load_metrics(row.case, replace(row.replica, surface=surface))
        found.append({name: metrics[name] / value for name, value in row.truth.items() if name in metrics})
    return found


def fit(rows: list[StaticRow], names: tuple[str, ...]) -> EraKernels:
    """Return the terms of these names that bring predictions closest to the rows, held by START and SIGMA."""
    start = np.log([START[name] for name in names])
    sigma = np.array([SIGMA[name] for name in names])
    count = Counter(row.group for row in rows)

    def kernels_of(x: FloatArray) -> EraKernels:
        return EraKernels(**dict(zip(names, np.exp(start + x * sigma).tolist(), strict=True)))

    def loss(shifted: FloatArray) -> FloatArray:
        x = shifted - 1.0
        pairs = zip(rows, ratios(rows, kernels_of(x)), strict=True)
        values = [(count[row.group] ** -0.25, ratio) for row, found in pairs for ratio in found.values()]
        weight, ratio = np.array(values).T
        return np.concatenate([weight * cauchy(np.log(ratio) / ROBUST), x])

    found = least_squares(loss, np.ones(len(names)), diff_step=0.05, max_nfev=10)
    return kernels_of(found.x - 1.0)


def thin(rows: list[StaticRow], limit: int) -> list[StaticRow]:
    """Return at most `limit` rows, drawn evenly over groups."""
    rng = np.random.default_rng(0)
    by_group = by_key((row.group, row) for row in rows)
    for members in by_group.values():
        rng.shuffle(members)
    chosen: list[StaticRow] = []
    while len(chosen) < limit and any(by_group.values()):
        for members in by_group.values():
            if members and len(chosen) < limit:
                chosen.append(members.pop())
    return chosen


def left_out(
    rows: list[StaticRow], elsewhere: list[StaticRow], names: tuple[str, ...]
) -> list[dict[str, float]]:
    """Return predicted / measured of each group by a fit that has not seen it: on the architecture's other groups, or
    on other architectures if it has no other group."""
    groups = sorted({row.group for row in rows})
    found = []
    for fold in range(min(NUM_FOLDS, len(groups))):
        held = set(groups[fold::NUM_FOLDS])
        train = [row for row in rows if row.group not in held] or elsewhere
        test = thin([row for row in rows if row.group in held], ROWS_PER_FIT)
        found += ratios(test, fit(thin(train, ROWS_PER_FIT), names) if train else EraKernels())
    return found


def errors(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of |predicted / measured - 1| by column."""
    medians = {}
    for name in COLUMNS:
        values = [abs(ratio[name] - 1.0) for ratio in found if name in ratio]
        if values:
            medians[name] = round(float(np.median(values)), 3)
    return medians


def terms_of(
    era: Era, fitted: dict[str, EraKernels], sources: dict[str, set[str]], residual: dict[str, float]
) -> list[Term]:
    """Return the fitted terms of an era as rows of the table of terms; NVIDIA's hold for every architecture without
    its own."""
    since, until = SPANS[era]
    errors = ", ".join(f"{name} {value}" for name, value in residual.items())
    return [
        Term(
            scope="engine",
            name=(era[0],),
            since=since,
            until=until,
            architecture=() if architecture == NEAREST else (architecture,),
            term=f"early_{name}",
            value=float(f"{value:.4g}"),
            unit=UNITS["engine"][f"early_{name}"],
            kind="fitted on runs",
            source="evidence/fit/static.py",
            fitted_on="; ".join(sorted(sources[architecture])) + f", {architecture}",
            residual=f"{errors} (groups left out)",
        )
        for architecture, kernels in sorted(fitted.items())
        for name, value in asdict(kernels).items()
        if value != getattr(EraKernels(), name)
    ]


def run(options: Options) -> None:
    """Fit every era and architecture with enough rows."""
    fitted: dict[tuple[str, str], dict[str, EraKernels]] = defaultdict(dict)
    blind: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    table = read_rows(options.all_published("serving"))
    for (engine_id, era_id, architecture), rows in sorted(table.items()):
        if not options.wants(f"{engine_id}/{era_id}"):
            continue
        era = (engine_id, era_id)
        names = FREE.get(era) or tuple(START)
        kernels = fit(thin(rows, ROWS_PER_FIT), names)
        elsewhere = [
            row for key, others in table.items() if key[:2] == era for row in others if others is not rows
        ]
        found = left_out(rows, elsewhere, names)
        fitted[engine_id, era_id][architecture] = kernels
        blind[engine_id, era_id] += found
        numbers = {name: float(f"{value:.3g}") for name, value in asdict(kernels).items()}
        print(engine_id, era_id, architecture, len(rows), "rows", json.dumps(numbers))
        print("   bare", errors(ratios(thin(rows, ROWS_PER_FIT), EraKernels())), "seen", end=" ")
        print(errors(ratios(thin(rows, ROWS_PER_FIT), kernels)), "left out", errors(found), flush=True)
    for (engine_id, era_id), found in blind.items():
        print(engine_id, era_id, "left out", errors(found))
        if options.write:
            era = (engine_id, era_id)
            sources = {key[2]: {row.source for row in rows} for key, rows in table.items() if key[:2] == era}
            write_found(terms_of(era, fitted[era], sources, errors(found)))
