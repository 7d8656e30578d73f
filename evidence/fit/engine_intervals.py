"""80 % intervals of serving predictions by engine, architecture and load: once over all rows (a third-party server) and
once over those with published start-up scripts (a server started as predicted, e.g. by a printed command).

Errors are those of the shipped terms, few of which were fitted on runs: with campaigns left out of that fit, errors are
no larger (docs/accuracy.md). Rows of the second blind round, which no fit has seen, count too.

Intervals are quantiles of measured / predicted, in which every group (accelerator, model, engine) counts by the square
root of its rows. A class with few groups is drawn towards the class above it: a third-party server hides settings,
which differ between groups and not within one.
"""

import math
import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.catalog import accelerators
from advisor.catalog.files import DATA_DIR
from advisor.evidence.fit.base import Options
from advisor.evidence.fit.engine_rows import METRICS, EngineRow, campaign_of, read_rows
from advisor.evidence.prediction import Prediction
from advisor.evidence.serving.accuracy import BLIND_TIERS, CORE_TIERS
from advisor.evidence.serving.prediction import predict_case
from advisor.simulator.intervals import class_names, load_of

TAIL = 0.1
SCRIPTED_TAIL = 0.08
"""Probability beyond either end of an interval. Few groups are scripted, so their quantiles are too narrow for the
next group and the second tail is smaller."""
SCRIPTED = ("A1", "A3", "OWN")
"""Tiers whose start-up scripts are known."""
GROUPS_OF_PARENT = 2.0
"""Number of groups that a class's parent counts as; chosen, like the tails, by the coverage of left-out campaigns and
groups, see `coverage`: with 4, 85 % of TPOT is inside."""
MEASURED = "stranger any"
"""Class of all servers on hardware whose kernels were measured."""
MIN_POINTS = 15
MIN_GROUPS = 2
Pair = tuple[float, float]


@dataclass(frozen=True)
class Error:
    """Error ln(measured / predicted) of one value, with its classes, group and campaign."""

    classes: tuple[str, ...]
    """Classes of the value, the most specific first."""
    metric: str
    group: str
    campaign: str
    value: float


def errors_of(rows: Sequence[EngineRow], predictions: Sequence[Prediction]) -> list[Error]:
    """Return the errors of all values that were predicted, in the classes that the predictions have."""
    found = []
    for row, prediction in zip(rows, predictions, strict=True):
        architecture = accelerators.by_id(row.case.gpu).architecture
        transferred = prediction.basis == "assumed"
        load = load_of(row.case.most_at_once)
        ratios = {
            name: value / prediction.metrics[METRICS[name]].value
            for name, value in row.truth.items()
            if METRICS[name] in prediction.metrics
        }
        for stranger in (True, False) if row.tier in SCRIPTED and not transferred else (True,):
            classes = class_names(
                row.case.engine, architecture, load, transferred=transferred, stranger=stranger
            )
            found += [
                Error(classes, metric, row.group, campaign_of(row), math.log(ratio))
                for metric, ratio in ratios.items()
                if ratio > 0.0
            ]
    return found


def is_stranger(error: Error) -> bool:
    return error.classes[-1] != "any"


def quantiles(errors: Sequence[Error]) -> Pair:
    """Return weighted quantiles of errors at the tails."""
    tail = TAIL if is_stranger(errors[0]) else SCRIPTED_TAIL
    counts = Counter(error.group for error in errors)
    ordered = sorted(errors, key=lambda error: error.value)
    mass = np.cumsum([counts[error.group] ** -0.5 for error in ordered])
    middle = (mass - np.diff(mass, prepend=0.0) / 2.0) / mass[-1]
    low, high = np.interp((tail, 1.0 - tail), middle, [error.value for error in ordered])
    return float(low), float(high)


def fit_quantiles(
    errors: Sequence[Error], parent_groups: float = GROUPS_OF_PARENT
) -> dict[str, dict[str, Pair]]:
    """Return quantiles by class and metric, the general classes first."""
    members: dict[tuple[str, str], list[Error]] = defaultdict(list)
    depth: dict[str, int] = {}
    parents: dict[str, str] = {}
    for error in errors:
        for place, name in enumerate(error.classes):
            members[name, error.metric].append(error)
            depth[name] = len(error.classes) - place
            parents[name] = error.classes[place + 1] if place + 1 < len(error.classes) else ""
    found: dict[str, dict[str, Pair]] = defaultdict(dict)
    for name in sorted(depth, key=lambda each: (depth[each], each)):
        for metric in METRICS:
            of_class = members[name, metric]
            groups = len({error.group for error in of_class})
            parent = found.get(parents[name], {}).get(metric)
            if len(of_class) < MIN_POINTS or groups < MIN_GROUPS:
                if parent is not None:
                    found[name][metric] = parent
                continue
            own = quantiles(of_class)
            share = 1.0 if parent is None else groups / (groups + parent_groups)
            above = parent or own
            found[name][metric] = (
                share * own[0] + (1.0 - share) * above[0],
                share * own[1] + (1.0 - share) * above[1],
            )
    return {name: of_class for name, of_class in found.items() if len(of_class) == len(METRICS)}


def coverage(errors: Sequence[Error], parent_groups: float, part: Callable[[Error], str]) -> dict[str, float]:
    """Fraction of the values of each part (a campaign, a group) inside the intervals of the others, by metric."""
    inside: dict[str, list[bool]] = defaultdict(list)
    for left_out in {part(error) for error in errors}:
        known = fit_quantiles([error for error in errors if part(error) != left_out], parent_groups)
        for error in errors:
            if part(error) != left_out:
                continue
            name = next((each for each in error.classes if each in known), error.classes[-1])
            low, high = known[name][error.metric]
            inside[error.metric].append(min(low, 0.0) <= error.value <= max(high, 0.0))
    return {metric: sum(values) / len(values) for metric, values in inside.items()}


def text_of(classes: Mapping[str, Mapping[str, Pair]]) -> str:
    """Return the data file; transferred hardware never has narrower intervals than all measured hardware together.

    The widest class of measured hardware is no measure of it: one release decides the ends of a class of few groups.
    """
    lines = [
        "# (low, high) of measured / predicted that hold 80 % of published runs, by engine, architecture and load, and",
        "# metric: of runs whose start-up scripts are published, and of all runs (stranger). Written by",
        "# evidence/fit/engine_intervals.py.",
    ]
    for name, of_class in classes.items():
        lines.append(f'\n["{name}"]')
        for metric in METRICS:
            low, high = of_class[metric]
            if name == "transferred":
                low = min(low, classes[MEASURED][metric][0])
                high = max(high, classes[MEASURED][metric][1])
            lines.append(f"{metric} = [{math.exp(low):.3f}, {math.exp(high):.3f}]")
    return "\n".join(lines) + "\n"


def run(options: Options) -> None:
    """Predict all published runs, print the coverage of campaigns and groups left out, and write the intervals."""
    tables = options.all_published("serving")
    rows = [row for path in tables for row in read_rows(path, (*CORE_TIERS, *BLIND_TIERS))]
    with multiprocessing.Pool(options.processes) as pool:
        predictions = pool.map(predict_case, [row.case for row in rows], chunksize=8)
    errors = errors_of(rows, predictions)
    strangers = [error for error in errors if is_stranger(error)]
    scripted = [error for error in errors if not is_stranger(error)]
    # Two archives publish their scripts: one left out leaves too little, so here groups are left out.
    judged = (
        ("campaigns", strangers, lambda error: error.campaign),
        ("groups", scripted, lambda error: error.group),
    )
    for what, chosen, part in judged:
        for groups in (1.0, GROUPS_OF_PARENT, 16.0):
            found = coverage(chosen, groups, part)
            shares = ", ".join(f"{metric} {share:.0%}" for metric, share in found.items())
            print(f"{what} left out, a parent as {groups:g} groups: {shares}")
    if options.write:
        (DATA_DIR / "intervals.toml").write_text(text_of(fit_quantiles(errors)), encoding="utf-8")
