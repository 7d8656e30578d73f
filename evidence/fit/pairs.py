"""Derive the errors of predicted ratios of two deployments, by the conditions in which they differ, from published
pairs.

Two rows are a pair if model and load are the same and accelerator, engine, format or layout differs. Errors that both
predictions share cancel in the ratio; |ln(ratio of errors)| remains. Each combination of models, accelerators and
engines weighs the same, however many loads were published. Whole models are left out in turn to see whether intervals
hold. Writes data/paired_intervals.toml.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.catalog.files import DATA_DIR
from advisor.evidence.fit.base import Options, published_rows
from advisor.evidence.prediction import Prediction
from advisor.evidence.serving.accuracy import CORE_TIERS
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.intervals import LEVEL_80, LEVELS, METRICS, class_of_pair
from advisor.simulator.quantity import Basis

TIERS = (*CORE_TIERS, "B1")
CLIENTS_OF = ("isl", "osl", "load", "concurrency", "request_rate", "length_dist", "num_requests")
LEAST_CELLS = 5
LINK_NOT_STATED = ("gh200-96gb", "gh200-144gb")
"""Superchips that are linked over NVLink or over a network; rows of several of them do not say which."""
UNIFORM_MEAN = 0.9


@dataclass(frozen=True)
class LoadErrors:
    """Deployment under one load: ln(predicted / measured) by metric."""

    model: str
    accelerator: str
    engine: str
    weight_dtype: str
    layout: tuple[str, ...]
    load: tuple[str, ...]
    basis: Basis
    errors: Mapping[str, float]


@dataclass(frozen=True)
class PointPair:
    """Difference of two points of one load, and the errors of the ratio of their predictions."""

    class_name: str
    model: str
    cell: tuple[str, ...]
    errors: Mapping[str, float]


def point_of(row: Mapping[str, str], predicted: Prediction) -> LoadErrors | None:
    """Return a row with the errors of its prediction; None without a prediction or measurement."""
    if predicted.status != "ok":
        return None
    value = {name: quantity.value for name, quantity in predicted.metrics.items()}
    measured = {name: float(row[name]) for name in value if row.get(name)}
    errors = {}
    for metric, column in (
        ("ttft", "ttft_ms_mean"),
        ("tpot", "tpot_ms_mean"),
        ("throughput", "output_tok_s"),
    ):
        # If all requests come at once, latencies measure the queue, not the deployment.
        counts = metric == "throughput" or row["load"] != "offline"
        if counts and measured.get(column) and value[column] > 0:
            errors[metric] = math.log(value[column] / measured[column])
    if "throughput" not in errors and {"ttft", "tpot"} <= set(errors) and row["load"] == "closed":
        # The rate of clients that wait for outputs is the inverse of the time of an output.
        steps = UNIFORM_MEAN * float(row["osl"]) - 1.0
        spent = [each["ttft_ms_mean"] + steps * each["tpot_ms_mean"] for each in (value, measured)]
        errors["throughput"] = math.log(spent[1] / spent[0])
    if not errors:
        return None
    return LoadErrors(
        row["model"],
        row["gpu"],
        row["engine"],
        row["weight_dtype"],
        tuple(row[name] for name in ("tp", "pp", "ep", "dp")),
        tuple(row[name] for name in CLIENTS_OF),
        predicted.basis,
        errors,
    )


def is_comparable(row: Mapping[str, str]) -> bool:
    """Whether a row states the conditions on which its speed depends."""
    if row["gpu"] in LINK_NOT_STATED and int(row["n_gpus"] or 1) > 1:
        return False
    plain = row["mode"] == "agg" and row["spec_decode"] in ("none", "")
    return plain and row["tier"] in TIERS


def read_points(path: Path) -> list[LoadErrors]:
    """Return predicted and measured points of the tiers that pairs come from."""
    points = []
    for number, row in published_rows(path):
        if is_comparable(row) and (point := point_of(row, predict_row(row, number))) is not None:
            points.append(point)
    return points


def pairs_of(points: Iterable[LoadErrors]) -> list[PointPair]:
    """Return all pairs of points of the same model and load."""
    by_load: dict[tuple[object, ...], list[LoadErrors]] = defaultdict(list)
    for point in points:
        by_load[point.model, point.load].append(point)
    return [
        pair for same in by_load.values() for pair in map(pair_of, itertools.combinations(same, 2)) if pair
    ]


def pair_of(two: tuple[LoadErrors, LoadErrors]) -> PointPair | None:
    """Return the pair of two points; None if they do not differ, as with two releases of an engine."""
    a, b = two
    if (a.accelerator, a.engine, a.weight_dtype, a.layout) == (
        b.accelerator,
        b.engine,
        b.weight_dtype,
        b.layout,
    ):
        return None
    name = class_of_pair(
        same_accelerator=a.accelerator == b.accelerator,
        same_engine=a.engine == b.engine,
        same_format=a.weight_dtype == b.weight_dtype,
        transferred="assumed" in (a.basis, b.basis),
    )
    errors = {
        metric: abs(a.errors[metric] - b.errors[metric]) for metric in a.errors.keys() & b.errors.keys()
    }
    cell = (a.model, *sorted(f"{p.accelerator} {p.engine}" for p in two))
    return PointPair(name, a.model, cell, errors) if errors else None


def quantiles(values: Sequence[float], weights: Sequence[float], levels: Sequence[float]) -> list[float]:
    """Return weighted quantiles."""
    order = np.argsort(values)
    sorted_values = np.asarray(values)[order]
    mass = np.cumsum(np.asarray(weights)[order])
    return [float(np.interp(level * mass[-1], mass, sorted_values)) for level in levels]


def weigh_pairs(pairs: Sequence[PointPair]) -> list[float]:
    """Return weights by which every cell counts the same."""
    counts = Counter(pair.cell for pair in pairs)
    return [1.0 / counts[pair.cell] for pair in pairs]


def conformal(levels: Sequence[float], num_cells: int) -> list[float]:
    """Return the quantile levels that hold the fraction `levels` of new cells, if only `num_cells` cells are known.

    (n + 1) / n of the level, at most 1 (split conformal prediction, Vovk et al. 2005).
    """
    return [min(1.0, level * (num_cells + 1) / num_cells) for level in levels]


def cells_of(pairs: Sequence[PointPair]) -> int:
    """Number of combinations of model, accelerators and engines among pairs."""
    return len({pair.cell for pair in pairs})


def left_out_coverage(pairs: Sequence[PointPair], metric: str) -> float:
    """Fraction of left-out pairs within the 80 % quantile of pairs of other models."""
    inside = total = 0.0
    for model in sorted({pair.model for pair in pairs}):
        rest = [pair for pair in pairs if pair.model != model]
        mine = [pair for pair in pairs if pair.model == model]
        if not rest:
            continue
        level = conformal([LEVEL_80], cells_of(rest))
        limit = quantiles([pair.errors[metric] for pair in rest], weigh_pairs(rest), level)[0]
        for pair, weight in zip(mine, weigh_pairs(mine), strict=True):
            total += weight
            inside += weight * (pair.errors[metric] <= limit)
    return inside / total if total else math.nan


def unpaired_half_width(points: Sequence[LoadErrors], metric: str) -> float:
    """Half width, on the logarithm, of the ratio of two predictions with independent errors."""
    errors = np.array([point.errors[metric] for point in points if metric in point.errors])
    rng = np.random.default_rng(0)
    return float(np.quantile(np.abs(rng.permutation(errors) - rng.permutation(errors)), LEVEL_80))


def text_of(pairs: Sequence[PointPair], points: Sequence[LoadErrors]) -> str:
    """Return the data file."""
    lines = [
        "# |ln| by which predicted ratios of two deployments of one model under one load err, by what they",
        "# differ in: quantiles at the levels. left_out is the part of pairs of left-out models within the 80 %",
        "# quantile of the others.",
        "# Written by evidence/fit/pairs.py.",
        f"levels = [{', '.join(map(str, LEVELS))}]",
        "",
        "[unpaired]  # 80 % half width if errors had nothing in common",
        *(f"{metric} = {unpaired_half_width(points, metric):.3f}" for metric in METRICS),
    ]
    classes = sorted({pair.class_name for pair in pairs})
    for name in classes:
        for metric in METRICS:
            mine = [pair for pair in pairs if pair.class_name == name and metric in pair.errors]
            cells = cells_of(mine)
            if cells < LEAST_CELLS:
                continue
            levels = conformal(LEVELS, cells)
            found = quantiles([pair.errors[metric] for pair in mine], weigh_pairs(mine), levels)
            lines += [
                "",
                f"[classes.{name}.{metric}]",
                f"quantiles = [{', '.join(f'{value:.3f}' for value in found)}]",
                f"num_pairs = {len(mine)}",
                f"num_cells = {cells}",
                f"left_out = {left_out_coverage(mine, metric):.2f}",
            ]
    return "\n".join(lines) + "\n"


def run(options: Options) -> None:
    """Derive and write the quantiles."""
    points = [point for path in options.all_published("serving") for point in read_points(path)]
    text = text_of(pairs_of(points), points)
    if options.write:
        (DATA_DIR / "paired_intervals.toml").write_text(text, encoding="utf-8")
    print(text)
