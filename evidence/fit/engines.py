"""Fit what engines add to their kernels, by (engine, era), on published serving measurements.

Only conditions of a row enter its prediction. Parameters are few and carry priors; whole groups (accelerator,
model, engine) are left out in turn to see how the fit does on what it has not seen. Writes the parameters with
their residuals into the table of terms and the left-out quantiles into data/intervals.toml.

Predictions are linearised around the last parameters (some rows of every group), solved for all eras at once, and
linearised again; the left-out errors are those of the simulator itself, not of its linear form.
"""

import json
import math
import multiprocessing
import time
from collections import Counter, defaultdict
from multiprocessing.pool import Pool

import numpy as np

from advisor.catalog import engines
from advisor.catalog.files import DATA_DIR
from advisor.catalog.releases import split
from advisor.catalog.schema.term import Term
from advisor.catalog.terms import UNITS
from advisor.evidence.fit.base import FloatArray, Options, errors_in_words
from advisor.evidence.fit.engine_rows import (
    METRICS,
    Row,
    era_key,
    has_kernels,
    predicted_ratios,
    read_rows,
    thinned,
)
from advisor.evidence.fit.engine_solver import (
    NAMES,
    Era,
    Line,
    costs_of,
    own_parameters,
    point_of,
    solve,
    weight_of,
)
from advisor.evidence.fit.term_rows import write_found
from advisor.simulator.engine_costs import EngineCosts, engine_costs
from advisor.simulator.terms import Case, find

Ratios = dict[str, float]

ROWS_OF_A_GROUP = 16
ROUNDS = 2
STEP = 0.3
"""In standard deviations of the prior: wide, as the simulator is a step function when looked at closely."""
LONGEST_STEP = 1.5
MIN_INTERVAL_POINTS = 20


def lines_of(job: tuple[Row, Era, FloatArray, tuple[int, int]]) -> list[Line]:
    """A row's values as lines around a point."""
    row, era, at, counts = job
    others = shipped(era)
    base = predicted_ratios(row, costs_of(at, others))
    units = np.eye(len(NAMES))
    moved = {
        place: predicted_ratios(row, costs_of(at + STEP * units[place], others))
        for place in own_parameters(era)
    }
    found = []
    for metric, ratio in base.items():
        slopes = np.zeros(len(NAMES))
        for place, other in moved.items():
            slopes[place] = math.log(other[metric] / ratio) / STEP if metric in other else 0.0
        weight = weight_of(row, metric, *counts)
        found.append(Line(row.group, era, metric, at, math.log(ratio), slopes, weight))
    return found


def scored(job: tuple[Row, EngineCosts | None]) -> Ratios:
    """Predicted / measured of a row with these parameters."""
    return predicted_ratios(*job)


def fit(rows: list[tuple[Row, Era]], pool: Pool) -> tuple[list[Line], dict[Era, FloatArray]]:
    """Lines around the last parameters and the point of each era, starting from the catalog's parameters."""
    eras = sorted({era for _, era in rows})
    start = {era: point_of(shipped(era)) for era in eras}
    drawn_ids = {row.case.case_id for row in thinned([row for row, _ in rows], ROWS_OF_A_GROUP)}
    chosen = [(row, era) for row, era in rows if row.case.case_id in drawn_ids]
    sizes, drawn = (Counter(row.group for row, _ in some) for some in (rows, chosen))
    lines: list[Line] = []
    for number in range(ROUNDS):
        begun = time.time()
        jobs = [(row, era, start[era], (sizes[row.group], drawn[row.group])) for row, era in chosen]
        lines = [line for part in pool.imap(lines_of, jobs, chunksize=2) for line in part]
        found = solve(lines, eras, start)
        start = {
            era: start[era] + np.clip(found[era] - start[era], -LONGEST_STEP, LONGEST_STEP) for era in eras
        }
        print(f"round {number + 1}: {len(lines)} values, {time.time() - begun:.0f} s", flush=True)
    return lines, start


def shipped(era: Era) -> EngineCosts:
    """The catalog's parameters of an era."""
    version, date = split(era[1])
    return engine_costs(engines.by_id(era[0]), version=version, date=date)


def left_out(
    rows: list[tuple[Row, Era]],
    lines: list[Line],
    points: dict[Era, FloatArray],
    pool: Pool,
) -> list[Ratios]:
    """Ratios of all rows, each with parameters of a fit that has not seen its group."""
    eras = sorted(points)
    without: dict[str, dict[Era, EngineCosts]] = {}
    for group in sorted({row.group for row, _ in rows}):
        found = solve([line for line in lines if line.group != group], eras, points)
        without[group] = {era: costs_of(found[era], shipped(era)) for era in eras}
    jobs = [(row, without[row.group][era]) for row, era in rows]
    return list(pool.imap(scored, jobs, chunksize=8))


def report(title: str, rows: list[tuple[Row, Era]], ratios: list[Ratios]) -> None:
    """Errors by era on the screen."""
    print(title)
    for era in sorted({era for _, era in rows}):
        own = [ratio for (_, other), ratio in zip(rows, ratios, strict=True) if other == era]
        print("  ", *era, in_words(own), flush=True)
    print("   all", in_words(ratios), flush=True)


def in_words(ratios: list[Ratios]) -> str:
    """Errors by metric."""
    found = {name: [ratio[name] for ratio in ratios if name in ratio] for name in METRICS}
    return "; ".join(f"{name} {errors_in_words(values)}" for name, values in found.items())


def rows_of(era: Era, costs: EngineCosts, rows: list[Row], ratios: list[Ratios]) -> list[Term]:
    """What was found of an era, as rows of the table of terms."""
    span = find("engine", "request_s", Case(era[0], *split(era[1])))
    assert span is not None, era
    errors = ", ".join(f"{name} {error:.3f}" for name, error in medians(ratios).items())
    return [
        Term(
            scope="engine",
            name=span.name,
            since=span.since,
            until=span.until,
            term=name,
            value=float(f"{getattr(costs, name):.4g}"),
            unit=UNITS["engine"][name],
            kind="fitted on runs",
            source="evidence/fit/engines.py",
            fitted_on="; ".join(sorted({row.source for row in rows})),
            residual=f"{errors} ({len(ratios)} runs, groups left out)",
        )
        for name in (NAMES[place] for place in own_parameters(era))
    ]


def medians(ratios: list[Ratios]) -> Ratios:
    """Median absolute error by metric."""
    found = {}
    for name in METRICS:
        values = [abs(ratio[name] - 1.0) for ratio in ratios if name in ratio]
        if values:
            found[name] = float(np.median(values))
    return found


def interval_lines(classes: dict[str, list[dict[str, float]]]) -> str:
    """TOML of 10th and 90th percentiles of measured / predicted by class and metric; thin classes borrow from all."""
    everything = [ratio for name, ratios in classes.items() if name != "transferred" for ratio in ratios]
    lines = [
        "# (low, high) of measured / predicted that hold 80 % of the points left out of the fit, by class and metric.",
        "# Written by evidence/fit/engines.py.",
    ]
    widest: dict[str, list[float]] = {}
    ordered = {
        "any": everything,
        **{name: classes[name] for name in sorted(classes, key="transferred".__eq__)},
    }
    for name, ratios in ordered.items():
        lines.append(f"\n[{name}]")
        for metric in METRICS:
            values = [1.0 / ratio[metric] for ratio in ratios if ratio.get(metric)]
            if len(values) < MIN_INTERVAL_POINTS:
                values = [1.0 / ratio[metric] for ratio in everything if ratio.get(metric)]
            low, high = np.quantile(values, (0.1, 0.9))
            seen = widest.setdefault(metric, [low, high])
            seen[0], seen[1] = min(seen[0], low), max(seen[1], high)
            if name == "transferred":
                # Hardware that nobody measured is never surer than hardware that somebody did.
                low, high = seen
            lines.append(f"{metric} = [{low:.3f}, {high:.3f}]")
    return "\n".join(lines) + "\n"


def write_intervals(rows: list[tuple[Row, Era]], ratios: list[Ratios], others: list[Ratios]) -> None:
    """Replace data/intervals.toml: engines by their left-out rows, transferred hardware by all of its rows."""
    classes: dict[str, list[Ratios]] = defaultdict(list)
    for (_, era), ratio in zip(rows, ratios, strict=True):
        classes[era[0]].append(ratio)
    classes["transferred"] = others
    (DATA_DIR / "intervals.toml").write_text(interval_lines(classes), encoding="utf-8")


def run(options: Options) -> None:
    """Fit all eras, judge them by groups left out, write."""
    everything = read_rows(options.published("serving"))
    rows = [(row, era) for row in everything if (era := era_key(row)) and has_kernels(row)]
    with multiprocessing.Pool() as pool:
        lines, points = fit(rows, pool)
        costs = {era: costs_of(point, shipped(era)) for era, point in points.items()}
        for era, found in costs.items():
            print(era, {name: float(f"{getattr(found, name):.4g}") for name in NAMES}, flush=True)
        known = [(row, era) for row, era in rows if era in points]
        seen = list(pool.imap(scored, [(row, costs[era]) for row, era in known], chunksize=8))
        report("seen", known, seen)
        unseen = left_out(known, lines, points, pool)
        report("left out", known, unseen)
        transferred = [
            (row, costs.get(era)) for row in everything if (era := era_key(row)) and not has_kernels(row)
        ]
        others = list(pool.imap(scored, transferred, chunksize=8))
    if options.write:
        for era, found in costs.items():
            members = [place for place, (_, own) in enumerate(known) if own == era]
            runs, errors = [known[place][0] for place in members], [unseen[place] for place in members]
            write_found(rows_of(era, found, runs, errors))
        write_intervals(known, unseen, others)
    if options.dump:
        ratios = [
            [list(era), row.case.case_id, ratio] for (row, era), ratio in zip(known, unseen, strict=True)
        ]
        options.dump.write_text(json.dumps(ratios), encoding="utf-8")
