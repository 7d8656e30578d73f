"""Fit the costs that engines add to their kernels on published serving measurements, and measure the errors elsewhere.

Only conditions of a row enter its prediction. Whole campaigns are left out in turn: to choose which parameters are
fitted and how far down they go (all engines, an engine, a release), and to score the simulator on runs that the fit has
not seen. Writes the parameters into the table of terms; engine_intervals then renews the intervals.

Predictions are linearised around the defaults (some rows of every group); left-out errors are those of the simulator.
"""

import json
import math
import multiprocessing
import time
from collections import Counter
from dataclasses import replace
from multiprocessing.pool import Pool

import numpy as np

from advisor.catalog import engines
from advisor.catalog.terms import UNITS, Term
from advisor.evidence.fit.base import Options, errors_in_words, write_found
from advisor.evidence.fit.engine_rows import (
    METRICS,
    EngineRow,
    campaign_of,
    has_kernels,
    place_of,
    predicted_ratios,
    read_rows,
    thin_groups,
    weight_of,
)
from advisor.evidence.fit.engine_solver import (
    PRIORS,
    FittedRow,
    Shifts,
    chosen_levels,
    of_place,
    solve,
)
from advisor.evidence.serving.case import with_date
from advisor.simulator.engine_costs import EngineCosts, engine_costs
from advisor.simulator.terms import TermCase, find

Ratios = dict[str, float]

ROWS_OF_A_GROUP = 10
SAME = 0.01
"""Relative difference from the common value below which an era takes that value."""
STEP = 0.4
"""Step of a parameter's logarithm for its slope: wide, because the simulator is a step function at small scales."""


def fitted_names(row: EngineRow) -> list[str]:
    """Return the parameters of a row's release that are fitted; measured ones are kept."""
    case = with_date(row.case)
    release = TermCase(case.engine, case.engine_version, case.date)
    terms = {name: find("engine", name, release) for name in PRIORS}
    return [name for name, term in terms.items() if term is None or term.kind != "measured"]


def costs_of(row: EngineRow) -> EngineCosts:
    """Return the shipped parameters of a row's release, with the defaults of those that are fitted."""
    case = with_date(row.case)
    shipped = engine_costs(engines.by_id(case.engine), version=case.engine_version, date=case.date)
    return replace(shipped, **{name: PRIORS[name][0] for name in fitted_names(row)})


def lines_of(job: tuple[EngineRow, int]) -> list[FittedRow]:
    """Return a row's values as lines around the defaults."""
    row, drawn = job
    costs = costs_of(row)
    base = predicted_ratios(row, costs)
    moved = {
        name: predicted_ratios(row, replace(costs, **{name: getattr(costs, name) * math.exp(STEP)}))
        for name in fitted_names(row)
    }
    return [
        FittedRow(
            campaign_of(row),
            place_of(row),
            metric,
            math.log(ratio),
            {
                name: math.log(other[metric] / ratio) / STEP
                for name, other in moved.items()
                if metric in other
            },
            weight,
        )
        for metric, ratio in base.items()
        if (weight := weight_of(row, metric, drawn)) > 0.0 and ratio > 0.0
    ]


def with_shifts(row: EngineRow, shifts: Shifts) -> EngineCosts:
    """Return a row's parameters with the fitted shifts."""
    costs = costs_of(row)
    own = of_place(shifts, place_of(row))
    moved = {name: own[name] for name in fitted_names(row) if name in own}
    return replace(costs, **{name: getattr(costs, name) * math.exp(value) for name, value in moved.items()})


def score_row(job: tuple[EngineRow, EngineCosts]) -> Ratios:
    """Return predicted / measured of a row under these parameters."""
    return predicted_ratios(*job)


def left_out(rows: list[EngineRow], without: dict[str, Shifts], pool: Pool) -> list[Ratios]:
    """Return the ratios of all rows, each with parameters of a fit that has not seen its campaign."""
    jobs = [(row, with_shifts(row, without[campaign_of(row)])) for row in rows]
    return list(pool.imap(score_row, jobs, chunksize=8))


def report(rows: list[EngineRow], ratios: list[Ratios]) -> None:
    """Print errors by campaign and engine."""
    keys = [(campaign_of(row), row.case.engine) for row in rows]
    for key in [*sorted(set(keys)), None]:
        own = [ratio for other, ratio in zip(keys, ratios, strict=True) if key in (other, None)]
        found = {name: [ratio[name] for ratio in own if name in ratio] for name in METRICS}
        words = "; ".join(f"{name} {errors_in_words(values)}" for name, values in found.items())
        print("  ", *(key or ("all",)), words, flush=True)


def rows_of(shifts: Shifts, rows: list[EngineRow], ratios: list[Ratios]) -> list[Term]:
    """Return the fitted parameters as rows of the table of terms: one row for all engines unless an engine has its
    own."""
    names = sorted({name for own in shifts.values() for name in own})
    errors = ", ".join(f"{name} {error:.3f}" for name, error in medians(ratios).items())
    found = []
    for name in names:
        values = {
            place: PRIORS[name][0] * math.exp(own[name]) for place, own in shifts.items() if name in own
        }
        common = float(np.median(list(values.values())))
        special = {place: value for place, value in values.items() if abs(value / common - 1.0) > SAME}
        owners = {("", ""): common} | special
        found += [
            Term(
                scope="engine",
                name=(place[0],) if place[0] else (),
                since=place[1],
                term=name,
                value=float(f"{value:.3g}"),
                unit=UNITS["engine"][name],
                kind="fitted on runs",
                source="evidence/fit/engines.py",
                fitted_on="; ".join(sorted({campaign_of(row) for row in rows})),
                residual=f"{errors} ({len(ratios)} runs, campaigns left out)",
            )
            for place, value in owners.items()
        ]
    return found


def medians(ratios: list[Ratios]) -> Ratios:
    """Return the median absolute error by metric."""
    values = {name: [abs(ratio[name] - 1.0) for ratio in ratios if name in ratio] for name in METRICS}
    return {name: float(np.median(some)) for name, some in values.items() if some}


def run(options: Options) -> None:
    """Choose and fit the parameters, judge them by left-out campaigns, and write them."""
    everything = [row for path in options.all_published("serving") for row in read_rows(path)]
    everything = [row for row in everything if row.case.engine in engines.all_ids()]
    rows = [row for row in everything if has_kernels(row)]
    drawn = thin_groups(rows, ROWS_OF_A_GROUP)
    counts = Counter(row.group for row in drawn)
    begun = time.time()
    with multiprocessing.Pool(options.processes) as pool:
        jobs = [(row, counts[row.group]) for row in drawn]
        lines = [line for part in pool.imap(lines_of, jobs, chunksize=4) for line in part]
        print(f"{len(lines)} values, {time.time() - begun:.0f} s", flush=True)
        levels = chosen_levels(lines)
        shifts = solve(lines, levels)
        without = {
            campaign: solve([line for line in lines if line.campaign != campaign], levels)
            for campaign in sorted({campaign_of(row) for row in everything})
        }
        unseen = left_out(everything, without, pool)
    report(everything, unseen)
    known = [ratio for row, ratio in zip(everything, unseen, strict=True) if has_kernels(row)]
    for term in (found := rows_of(shifts, rows, known)):
        print(term.name, term.since, term.term, term.value)
    if options.write:
        write_found(found)
    if options.dump:
        dumped = [
            [row.case.engine, campaign_of(row), row.case.case_id, ratio]
            for row, ratio in zip(everything, unseen, strict=True)
        ]
        options.dump.write_text(json.dumps(dumped), encoding="utf-8")
