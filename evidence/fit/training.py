"""Fit what training frameworks add to their kernels, on published training runs.

    python -m advisor.evidence.fit.training --truth ../shared/data/truth/training.csv --write

Only conditions of a row enter its prediction. Parameters are few, belong to a family of frameworks, an era or an
architecture, and carry priors. Every source has a weight of its own, whatever its number of rows; whole sources are
left out in turn to see how the fit does on what it has not seen. Writes catalog/data/training/frameworks.toml with the
left-out residuals and their quantiles into catalog/data/training_intervals.toml.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.files import DATA_DIR
from advisor.catalog.units import TERA
from advisor.evidence.fit.training_parameters import PARAMETERS, records_of
from advisor.evidence.training.case import INPUT_COLUMNS, TrainingCase, parse_case
from advisor.evidence.training.cluster import UnsupportedCaseError
from advisor.evidence.training.prediction import counted_flop_per_token
from advisor.evidence.training.unstated import ResolvedCase, resolved
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.framework_costs import FrameworkCosts, framework_costs
from advisor.simulator.training.plan import PlanLattice
from advisor.simulator.training.step import step_time
from advisor.simulator.training.step_interval import step_class, step_factors

FloatArray = NDArray[np.float64]

FRAMEWORKS_FILE = DATA_DIR / "training" / "frameworks.toml"
OWN_RUNS = DATA_DIR / "training" / "measured-h200-2026-11-20.csv"
"""Steps measured with tools/measure_training.py; one more source."""
OWN = "own-h200"
INTERVALS_FILE = DATA_DIR / "training_intervals.toml"
ROWS_PER_SOURCE = 45
ROBUST_SCALE = 0.15
"""Logarithm of an error from which on a row counts less (Cauchy weights)."""
NOISE = 0.1
ITERATIONS = 5
STEP = 0.05
"""Of a prior's width, for differences."""
MIN_INTERVAL_POINTS = 12
LEAST_LEFT_OUT_INSIDE = 0.76
"""Share of the runs left out that an interval holds at least; it is widened until it does."""
SOURCE_WEIGHTS = {"megatron-bridge": 2.5, "dgxc-25.04": 1.5, "vtrain-single": 0.7, "peft": 0.4, "own": 0.3}
"""Relative to one: sources with many accelerators, models and releases; small or doubtful ones."""
DOUBTFUL = ("SUSPECT", "CHECK")
"""Marks of rows that their collectors found implausible; they are kept out of the fit, not out of validation."""


@dataclass(frozen=True)
class Row:
    """A case with every knob set, and the step that was measured."""

    case: TrainingCase
    source: str
    measured_s: float
    lattice: PlanLattice

    def ratio(self, records: Sequence[Mapping[str, Any]]) -> float:
        """Predicted over measured step time."""
        costs = costs_of(self.case, records)
        return (
            float(step_time(self.case.job, self.lattice, self.case.cluster, costs).step_s[0])
            / self.measured_s
        )

    @property
    def class_name(self) -> str:
        case = self.case
        assumed = "layout" in case.unstated
        return step_class(case.job, case.cluster, case.num_accelerators, assumed=assumed)


def costs_of(case: TrainingCase, records: Sequence[Mapping[str, Any]]) -> FrameworkCosts:
    return framework_costs(case.job, case.cluster.accelerator.architecture, records)


def read_rows(truth: Path, records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows with a measured step or rate, unstated knobs set under these parameters."""
    rows = []
    with truth.open(newline="") as file:
        for number, raw in enumerate(csv.DictReader(file), 2):
            if any(mark in raw.get("notes", "") for mark in DOUBTFUL):
                continue
            try:
                case = parse_case({name: raw[name] for name in INPUT_COLUMNS if name in raw}, number)
            except UnsupportedCaseError:
                continue
            found = resolved(case, costs_of(case, records))
            seconds = measured_step_s(raw, case, found)
            if seconds:
                case = replace(case, job=found.job, plan=found.plan)
                source = raw["source"] if truth != OWN_RUNS else OWN
                rows.append(Row(case, source, seconds, PlanLattice.of([case.plan])))
    return rows


def measured_step_s(raw: Mapping[str, str], case: TrainingCase, found: ResolvedCase) -> float:
    """The step that a row states, directly or through its rate [s]; 0 where it states none."""
    if raw.get("step_time_s"):
        return float(raw["step_time_s"])
    tokens = found.job.tokens_per_step / case.num_accelerators
    if raw.get("tokens_per_s_per_gpu"):
        return tokens / float(raw["tokens_per_s_per_gpu"])
    if raw.get("tflops_per_gpu"):
        flop = counted_flop_per_token(case.job.framework_version, case, found)
        return tokens * flop / (float(raw["tflops_per_gpu"]) * TERA)
    return 0.0


def thinned(rows: Sequence[Row]) -> list[Row]:
    """At most so many rows of a source, evenly through it."""
    total, seen = Counter(row.source for row in rows), Counter[str]()
    kept = []
    for row in rows:
        every = max(1, total[row.source] // ROWS_PER_SOURCE)
        if seen[row.source] % every == 0:
            kept.append(row)
        seen[row.source] += 1
    return kept


def residuals(rows: Sequence[Row], codes: FloatArray) -> FloatArray:
    """Logarithm of predicted over measured, per row."""
    records = records_of(p.decoded(c) for p, c in zip(PARAMETERS, codes, strict=True))
    return np.asarray(np.log([row.ratio(records) for row in rows]))


def weights_of(rows: Sequence[Row]) -> FloatArray:
    """Weight of each row: its source's, divided among its rows, in units of the noise."""
    count = Counter(row.source for row in rows)
    return (
        np.array([20.0 * SOURCE_WEIGHTS.get(row.source, 1.0) / count[row.source] for row in rows]) / NOISE**2
    )


def jacobian(rows: Sequence[Row], codes: FloatArray, base: FloatArray) -> FloatArray:
    """Slopes of the residuals; a row whose parameters stay the same is not priced again."""
    decoded = [p.decoded(c) for p, c in zip(PARAMETERS, codes, strict=True)]
    before = [costs_of(row.case, records_of(decoded)) for row in rows]
    slopes = np.zeros((len(rows), len(PARAMETERS)))
    for index, parameter in enumerate(PARAMETERS):
        width = STEP * parameter.sigma * (-1.0 if decoded[index] >= parameter.high else 1.0)
        moved = list(decoded)
        moved[index] = parameter.decoded(codes[index] + width)
        records = records_of(moved)
        for number, row in enumerate(rows):
            if costs_of(row.case, records) != before[number]:
                slopes[number, index] = (np.log(row.ratio(records)) - base[number]) / width
    return slopes


def improved(codes: FloatArray, found: FloatArray, slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """One Gauss-Newton step of the robust fit with its priors."""
    prior = np.array([p.encoded(p.prior) for p in PARAMETERS])
    precision = np.array([1.0 / p.sigma**2 for p in PARAMETERS])
    robust = weights / (1.0 + (found / ROBUST_SCALE) ** 2)
    left = slopes.T @ (robust[:, None] * slopes) + np.diag(precision)
    right = slopes.T @ (robust * found) + precision * (codes - prior)
    step = np.linalg.solve(left, right)
    widths = np.array([p.sigma for p in PARAMETERS])
    step = np.clip(step, -1.5 * widths, 1.5 * widths)
    low, high = (np.array([p.encoded(getattr(p, edge)) for p in PARAMETERS]) for edge in ("low", "high"))
    return np.asarray(np.clip(codes - step, low, high))


def fitted(rows: Sequence[Row], codes: FloatArray, verbose: bool) -> tuple[FloatArray, FloatArray]:
    """Parameters of all rows, and the slopes there."""
    weights = weights_of(rows)
    slopes = np.zeros((len(rows), len(PARAMETERS)))
    for iteration in range(ITERATIONS):
        found = residuals(rows, codes)
        if verbose:
            print(f"iteration {iteration}: median error {np.median(np.abs(np.expm1(found))):.4f}")
        slopes = jacobian(rows, codes, found)
        codes = improved(codes, found, slopes, weights)
    return codes, slopes


def left_out(rows: Sequence[Row], codes: FloatArray, slopes: FloatArray, source: str) -> FloatArray:
    """Parameters without a source: a few steps from those of all, with the same slopes."""
    kept = [index for index, row in enumerate(rows) if row.source != source]
    subset, weights = [rows[index] for index in kept], weights_of(rows)[kept]
    for _ in range(4):
        codes = improved(codes, residuals(subset, codes), slopes[kept], weights)
    return codes


def quantiles(ratios: FloatArray, weights: FloatArray, inside: float = 0.8) -> tuple[float, float]:
    """(low, high) of measured over predicted between which this share of the weight lies."""
    values = 1.0 / ratios
    order = np.argsort(values)
    share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    low, high = np.interp([0.5 - 0.5 * inside, 0.5 + 0.5 * inside], share, values[order])
    return float(low), float(high)


def report(rows: Sequence[Row], ratios: FloatArray, key: str, names: Sequence[str]) -> None:
    print(f"\n{key:24} {'n':>4} {'median':>7} {'p90':>7} {'bias':>7}")
    for name in sorted(set(names)):
        chosen = ratios[[index for index, other in enumerate(names) if other == name]]
        errors = np.abs(chosen - 1.0)
        bias = np.median(chosen) - 1.0
        print(
            f"{name:24} {len(chosen):4} {np.median(errors):7.3f} {np.quantile(errors, 0.9):7.3f} {bias:+7.3f}"
        )


def reports(rows: Sequence[Row], ratios: FloatArray) -> None:
    cases = [row.case for row in rows]
    report(rows, ratios, "source", [row.source for row in rows])
    report(rows, ratios, "gpu", [case.cluster.accelerator.id for case in cases])
    report(rows, ratios, "precision", [case.job.compute_dtype for case in cases])
    report(rows, ratios, "class", [row.class_name for row in rows])
    kinds = [
        "lora" if c.job.method != "full" else "moe" if num_experts(c.job.model) else "dense" for c in cases
    ]
    report(rows, ratios, "kind", kinds)
    report(rows, ratios, "nodes", ["multi" if c.num_accelerators > 8 else "single" for c in cases])


def write(
    records: Sequence[Mapping[str, Any]], rows: Sequence[Row], ratios: FloatArray, inside: FloatArray
) -> None:
    errors = np.abs(ratios - 1.0)
    lines = [
        "# Written by evidence/fit/training.py; run it again rather than edit.",
        "",
        "[source]",
        'kind = "measured"',
        'title = "published training runs, whole sources left out"',
        'where = "evidence/fit/training.py"',
        'accessed = "2026-11-20"',
        "",
        "[residual]",
        f"num_points = {len(rows)}",
        f"left_out_median_abs_error = {np.median(errors):.4f}",
        f"left_out_p90_abs_error = {np.quantile(errors, 0.9):.4f}",
    ]
    for record in records:
        lines += ["", "[[records]]"]
        for name, value in record.items():
            if name != "parameters":
                lines.append(
                    f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}".replace(
                        "'", '"'
                    )
                )
        inner = ", ".join(f"{name} = {float(f'{value:.4g}')}" for name, value in record["parameters"].items())
        lines.append(f"parameters = {{ {inner} }}")
    FRAMEWORKS_FILE.write_text("\n".join(lines) + "\n")
    write_intervals([*rows, *rows], np.concatenate([ratios, inside]))


def write_intervals(rows: Sequence[Row], ratios: FloatArray) -> None:
    """Quantiles by class; the first half of the rows was left out, and what is untested has the quantiles of these."""
    classes = [row.class_name for row in rows]
    lines = [
        "# (low, high) of measured / predicted step time that hold 80 % of published runs, by class: each run once",
        "# with its source left out and once with it; a source weighs by the root of its rows, in `any` and",
        "# `untested` (left out only) as much as any other; wider where less than 76 % of left-out runs were inside.",
        "# Written by evidence/fit/training.py.",
        "",
        "[step_time]",
    ]
    num_left_out = len(rows) // 2
    everywhere = ["untested" if index < num_left_out else "" for index in range(len(rows))]
    for name in ("any", "untested", *sorted(set(classes))):
        chosen = [index for index, other in enumerate(classes) if name in ("any", other, everywhere[index])]
        if len(chosen) < MIN_INTERVAL_POINTS:
            continue
        count = Counter(rows[index].source for index in chosen)
        power = 1.0 if name in ("any", "untested") else 0.5  # what nobody tested is one more source
        weights = np.array([1.0 / count[rows[index].source] ** power for index in chosen])
        blind = 1.0 / ratios[[index for index in chosen if index < num_left_out]]
        for share in np.arange(0.8, 0.99, 0.02):
            low, high = quantiles(ratios[chosen], weights, float(share))
            low, high = min(low, 0.95), max(high, 1.05)
            if np.mean((blind >= low) & (blind <= high)) >= LEAST_LEFT_OUT_INSIDE:
                break
        lines.append(f"{name} = [{low:.3f}, {high:.3f}]")
    INTERVALS_FILE.write_text("\n".join(lines) + "\n")


def report_coverage(rows: Sequence[Row], ratios: FloatArray) -> None:
    """Share of runs inside the stored intervals, by class."""
    names = [row.class_name for row in rows]
    print(f"\n{'inside their interval':24} {'n':>4} {'share':>7}")
    for name in sorted(set(names)):
        low, high = step_factors(name)
        chosen = 1.0 / ratios[[index for index, other in enumerate(names) if other == name]]
        print(f"{name:24} {len(chosen):4} {np.mean((chosen >= low) & (chosen <= high)):7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    start = time.monotonic()
    codes = np.array([p.encoded(p.prior) for p in PARAMETERS])
    for _ in range(2):  # unstated knobs are set again under the first fit's parameters
        records = records_of(p.decoded(c) for p, c in zip(PARAMETERS, codes, strict=True))
        everything = read_rows(arguments.truth, records) + read_rows(OWN_RUNS, records)
        rows = thinned(everything)
        codes, slopes = fitted(rows, codes, verbose=True)
    for parameter, code in zip(PARAMETERS, codes, strict=True):
        print(f"{parameter.decoded(code):10.4g}  {parameter.name} {dict(parameter.selector)}")
    records = records_of(p.decoded(c) for p, c in zip(PARAMETERS, codes, strict=True))
    inside = np.exp(residuals(everything, codes))
    print(f"\nin the fit, {time.monotonic() - start:.0f} s")
    report(everything, inside, "source", [row.source for row in everything])
    ratios = np.zeros(len(everything))
    for source in sorted({row.source for row in everything}):
        without = left_out(rows, codes, slopes, source)
        chosen = [index for index, row in enumerate(everything) if row.source == source]
        ratios[chosen] = np.exp(residuals([everything[index] for index in chosen], without))
    print(f"\nleft out, {time.monotonic() - start:.0f} s")
    reports(everything, ratios)
    if arguments.write:
        write(records, everything, ratios, inside)
    report_coverage(everything, ratios)
    report_coverage(everything, inside)


if __name__ == "__main__":
    main()
