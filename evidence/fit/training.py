"""Fit the costs that training frameworks add to their kernels, on published training runs.

Only conditions of a row enter its prediction. Parameters are few, belong to a family of frameworks, an era or an
architecture, and carry priors. Every source has a weight of its own, whatever its number of rows; whole sources are
left out in turn to score the fit on runs that it has not seen. Writes rows of the table of terms with the left-out
residuals and their quantiles into catalog/data/training_intervals.toml.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from advisor.catalog.files import DATA_DIR
from advisor.catalog.terms import Terms
from advisor.catalog.units import TERA
from advisor.evidence.fit.base import FloatArray, Options, errors_in_words, published_rows, write_found
from advisor.evidence.fit.training_parameters import PARAMETERS, rows_of, shipped_values, terms_of
from advisor.evidence.prediction import UnsupportedCaseError
from advisor.evidence.training.case import INPUT_COLUMNS, TrainingCase, parse_case
from advisor.evidence.training.prediction import counted_flop_per_token
from advisor.evidence.training.unstated import ResolvedCase, resolve_knobs
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.framework_costs import FrameworkCosts, framework_costs
from advisor.simulator.training.plan import PlanLattice
from advisor.simulator.training.step import (
    INTERVALS_FILE,
    TORCHTITAN_ELSEWHERE,
    slow_host_factor,
    step_class,
    step_factors,
    step_time,
)

OWN_RUNS = DATA_DIR / "training" / "measured-h200-2026-11-20.csv"
"""File of steps measured with tools/measure_training.py; one more source."""
OWN = "own-h200"
ROWS_PER_SOURCE = 100
ROBUST_SCALE = 0.15
"""Logarithm of an error from which on a row counts less (Cauchy weights)."""
NOISE = 0.1
ITERATIONS = (2, 2)
"""Gauss-Newton iterations of the first fit, and of the second, which sets unstated knobs again under its parameters."""
STEP = 0.05
"""Step of finite differences, as a fraction of a prior's width."""
WIDEST = (0.5, 2.5)
"""Widest ends of an interval, as factors; a ratio beyond them means another run than the one that was assumed."""
MIN_INTERVAL_POINTS = 12
LEAST_LEFT_OUT_INSIDE = 0.76
"""Fraction of left-out runs that an interval holds at least; it is widened until it does."""
SOURCE_WEIGHTS = {
    "megatron-bridge": 2.5,
    "dgxc-25.04": 1.5,
    "vtrain-single": 0.7,
    "peft": 0.4,
    "own": 0.3,
    "torchtitan": 0.4,
    "XTuner speed pages": 0.5,
    "ml-engineering": 0.5,
    "torchao training docs": 0.2,
    "mlperf-v4.0": 0.5,
    "mlperf-v4.1": 0.5,
}
"""Weights of sources with many accelerators, models and releases, and of small or doubtful ones, relative to one;
layouts of most of MLPerf's runs are guessed."""
UNEXPLAINED = ("torchao training docs",)
"""Sources whose runs took up to 2.4 times what is predicted on every chip, under releases that their rows and power
limits that their pages do not state; the intervals of classes leave them out."""
DOUBTFUL = ("SUSPECT", "CHECK")
"""Marks of rows that their collectors found implausible; they are kept out of the fit, not out of validation."""


@dataclass(frozen=True)
class TrainingRow:
    """Case with every knob set, and its measured step."""

    case: TrainingCase
    source: str
    measured_s: float
    lattice: PlanLattice

    def ratio(self, terms: Terms) -> float:
        """Predicted over measured step time."""
        costs = costs_of(self.case, terms)
        return (
            float(step_time(self.case.job, self.lattice, self.case.cluster, costs).step_s[0])
            / self.measured_s
        )

    @property
    def campaign(self) -> str:
        """Campaign of the row: runs of a source on one accelerator, of mixtures or of other models."""
        kind = "experts" if num_experts(self.case.job.model) else "dense"
        return f"{self.source}, {self.case.cluster.accelerator.id}, {kind}"

    @property
    def class_name(self) -> str:
        case = self.case
        assumed = "layout" in case.unstated
        return step_class(case.job, case.cluster, case.num_accelerators, assumed=assumed)


def costs_of(case: TrainingCase, terms: Terms) -> FrameworkCosts:
    return framework_costs(case.job, case.cluster.accelerator.architecture, terms)


def read_rows(truth: Path, terms: Terms) -> list[TrainingRow]:
    """Return rows with a measured step or rate, unstated knobs set under these parameters."""
    rows = []
    for number, raw in published_rows(truth):
        if any(mark in raw.get("notes", "") for mark in DOUBTFUL):
            continue
        try:
            case = parse_case({name: raw[name] for name in INPUT_COLUMNS if name in raw}, number)
        except UnsupportedCaseError:
            continue
        found = resolve_knobs(case, costs_of(case, terms))
        seconds = measured_step_s(raw, case, found)
        if seconds:
            case = replace(case, job=found.job, plan=found.plan)
            source = raw["source"] if truth != OWN_RUNS else OWN
            rows.append(TrainingRow(case, source, seconds, PlanLattice.of([case.plan])))
    return rows


def measured_step_s(raw: Mapping[str, str], case: TrainingCase, found: ResolvedCase) -> float:
    """Step time that a row states, directly or through its rate [s]; 0 if it states none.

    A step of a batch that the row does not state says nothing of the one that was assumed; its rate does.
    """
    if raw.get("step_time_s") and "global_batch" not in case.unstated:
        return float(raw["step_time_s"])
    tokens = found.job.tokens_per_step / case.num_accelerators
    if raw.get("tokens_per_s_per_gpu"):
        return tokens / float(raw["tokens_per_s_per_gpu"])
    if raw.get("tflops_per_gpu"):
        flop = counted_flop_per_token(case.job.framework_version, case, found)
        return tokens * flop / (float(raw["tflops_per_gpu"]) * TERA)
    return 0.0


def thin_sources(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """Return every n-th row of each source, so that about ROWS_PER_SOURCE of it remain."""
    total = Counter(row.source for row in rows)
    seen = Counter[str]()
    kept = []
    for row in rows:
        every = max(1, total[row.source] // ROWS_PER_SOURCE)
        if seen[row.source] % every == 0:
            kept.append(row)
        seen[row.source] += 1
    return kept


def residuals(rows: Sequence[TrainingRow], codes: FloatArray) -> FloatArray:
    """Logarithm of predicted over measured, per row."""
    terms = terms_of(p.decode(c) for p, c in zip(PARAMETERS, codes, strict=True))
    return np.asarray(np.log([row.ratio(terms) for row in rows]))


def weights_of(rows: Sequence[TrainingRow]) -> FloatArray:
    """Weight of each row: its source's, divided among its rows, in units of the noise."""
    count = Counter(row.source for row in rows)
    return (
        np.array([20.0 * SOURCE_WEIGHTS.get(row.source, 1.0) / count[row.source] for row in rows]) / NOISE**2
    )


def jacobian(rows: Sequence[TrainingRow], codes: FloatArray, base: FloatArray) -> FloatArray:
    """Slopes of the residuals; a row whose parameters stay the same is not priced again."""
    decoded = [p.decode(c) for p, c in zip(PARAMETERS, codes, strict=True)]
    terms = terms_of(decoded)
    before = [costs_of(row.case, terms) for row in rows]
    slopes = np.zeros((len(rows), len(PARAMETERS)))
    for index, parameter in enumerate(PARAMETERS):
        width = STEP * parameter.sigma * (-1.0 if decoded[index] >= parameter.high else 1.0)
        moved = list(decoded)
        moved[index] = parameter.decode(codes[index] + width)
        terms = terms_of(moved)
        for number, row in enumerate(rows):
            if costs_of(row.case, terms) != before[number]:
                slopes[number, index] = (np.log(row.ratio(terms)) - base[number]) / width
    return slopes


def improve(codes: FloatArray, found: FloatArray, slopes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return parameters after one Gauss-Newton step of the robust fit with its priors."""
    prior = np.array([p.encode(p.prior) for p in PARAMETERS])
    precision = np.array([1.0 / p.sigma**2 for p in PARAMETERS])
    robust = weights / (1.0 + (found / ROBUST_SCALE) ** 2)
    left = slopes.T @ (robust[:, None] * slopes) + np.diag(precision)
    right = slopes.T @ (robust * found) + precision * (codes - prior)
    step = np.linalg.solve(left, right)
    widths = np.array([p.sigma for p in PARAMETERS])
    step = np.clip(step, -1.5 * widths, 1.5 * widths)
    low, high = (np.array([p.encode(getattr(p, edge)) for p in PARAMETERS]) for edge in ("low", "high"))
    return np.asarray(np.clip(codes - step, low, high))


def fit_all_rows(
    rows: Sequence[TrainingRow], codes: FloatArray, iterations: int
) -> tuple[FloatArray, FloatArray]:
    """Return parameters fitted on all rows, and the slopes there."""
    weights = weights_of(rows)
    slopes = np.zeros((len(rows), len(PARAMETERS)))
    for iteration in range(iterations):
        found = residuals(rows, codes)
        print(f"iteration {iteration}: median error {np.median(np.abs(np.expm1(found))):.4f}", flush=True)
        slopes = jacobian(rows, codes, found)
        codes = improve(codes, found, slopes, weights)
    return codes, slopes


def left_out(
    rows: Sequence[TrainingRow], codes: FloatArray, found: FloatArray, slopes: FloatArray, source: str
) -> FloatArray:
    """Return parameters without a source or a campaign: a few steps from those of all, along the same slopes."""
    kept = [index for index, row in enumerate(rows) if source not in (row.source, row.campaign)]
    weights = weights_of(rows)[kept]
    start = codes
    for _ in range(8):
        moved = found[kept] + slopes[kept] @ (codes - start)
        codes = improve(codes, moved, slopes[kept], weights)
    return codes


def quantiles(ratios: FloatArray, weights: FloatArray, inside: float = 0.8) -> tuple[float, float]:
    """Return (low, high) of measured over predicted between which the fraction `inside` of the weight lies."""
    values = 1.0 / ratios
    order = np.argsort(values)
    share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    low, high = np.interp([0.5 - 0.5 * inside, 0.5 + 0.5 * inside], share, values[order])
    return float(low), float(high)


def report(ratios: FloatArray, key: str, names: Sequence[str]) -> None:
    """Print errors by a property that rows share."""
    print(f"\n{key}")
    for name in sorted(set(names)):
        chosen = ratios[[index for index, other in enumerate(names) if other == name]]
        print(f"{name:24} {errors_in_words(chosen)}")


def reports(rows: Sequence[TrainingRow], ratios: FloatArray) -> None:
    cases = [row.case for row in rows]
    report(ratios, "source", [row.source for row in rows])
    report(ratios, "gpu", [case.cluster.accelerator.id for case in cases])
    report(ratios, "precision", [case.job.compute_dtype for case in cases])
    report(ratios, "class", [row.class_name for row in rows])
    kinds = [
        "lora" if c.job.method != "full" else "moe" if num_experts(c.job.model) else "dense" for c in cases
    ]
    report(ratios, "kind", kinds)
    report(
        ratios,
        "nodes",
        ["multi" if c.num_accelerators > c.cluster.accelerator.node_size else "single" for c in cases],
    )


def write(codes: FloatArray, rows: Sequence[TrainingRow], ratios: FloatArray, inside: FloatArray) -> None:
    """Write the rows of the table of terms, and the intervals."""
    values = [float(f"{p.decode(code):.4g}") for p, code in zip(PARAMETERS, codes, strict=True)]
    sources = "; ".join(sorted({row.source for row in rows}))
    residual = f"step time {np.median(np.abs(ratios - 1.0)):.3f} ({len(rows)} runs, sources left out)"
    write_found(rows_of(values, sources, residual))
    write_intervals([*rows, *rows], np.concatenate([ratios, inside]))


def write_intervals(rows: Sequence[TrainingRow], ratios: FloatArray) -> None:
    """Write quantiles by class. The first half of the rows was left out; the class `untested` has the quantiles of
    that half."""
    classes = [row.class_name for row in rows]
    lines = [
        "# (low, high) of measured / predicted step time that hold 80 % of published runs, by class: each run once",
        "# with its source left out and once with it; a source weighs by the root of its rows, in `any` and",
        "# `untested` (left out only) as much as any other; wider where less than 76 % of left-out runs were inside;",
        "# torchao's runs, whose rows state no releases, count in these two and in torchtitan_elsewhere alone.",
        "# Written by evidence/fit/training.py.",
        "",
        "[step_time]",
    ]
    num_left_out = len(rows) // 2
    everywhere = ["untested" if index < num_left_out else "" for index in range(len(rows))]
    for name in ("any", "untested", *sorted(set(classes) - {"untested"})):
        chosen = [index for index, other in enumerate(classes) if name in ("any", other, everywhere[index])]
        if name not in ("any", "untested", TORCHTITAN_ELSEWHERE):
            chosen = [index for index in chosen if rows[index].source not in UNEXPLAINED]
        if len(chosen) < MIN_INTERVAL_POINTS:
            continue
        count = Counter(rows[index].source for index in chosen)
        power = (
            1.0 if name in ("any", "untested") else 0.5
        )  # each source counts the same for an untested run, which is one more source
        weights = np.array([1.0 / count[rows[index].source] ** power for index in chosen])
        blind = 1.0 / ratios[[index for index in chosen if index < num_left_out]]
        for share in np.arange(0.8, 0.99, 0.02):
            low, high = quantiles(ratios[chosen], weights, float(share))
            low = min(low, 0.95)
            high = max(high, 1.05)
            if np.mean((blind >= low) & (blind <= high)) >= LEAST_LEFT_OUT_INSIDE:
                break
        low = max(low, WIDEST[0])
        high = min(high, WIDEST[1])
        lines.append(f"{name} = [{low:.3f}, {high:.3f}]")
    INTERVALS_FILE.write_text("\n".join(lines) + "\n")


def report_coverage(rows: Sequence[TrainingRow], ratios: FloatArray) -> None:
    """Print the fraction of runs inside the stored intervals, by class."""
    names = [row.class_name for row in rows]
    print(f"\n{'inside their interval':24} {'n':>4} {'share':>7}")
    slow = np.array([slow_host_factor(row.case.job, row.case.plan, row.case.cluster) for row in rows])
    for name in sorted(set(names)):
        low, high = step_factors(name)
        here = [index for index, other in enumerate(names) if other == name]
        chosen = 1.0 / ratios[here]
        print(f"{name:24} {len(chosen):4} {np.mean((chosen >= low) & (chosen <= high * slow[here])):7.2f}")


@dataclass(frozen=True)
class TrainingFit:
    """Parameters fitted on tables of runs, with what it takes to leave a part of the runs out."""

    everything: list[TrainingRow]
    rows: list[TrainingRow]
    """Rows of the fit: `everything` with long sources thinned."""
    codes: FloatArray
    slopes: FloatArray

    def ratios(self) -> FloatArray:
        """Return predicted over measured step times of all rows."""
        return np.exp(residuals(self.everything, self.codes))

    def ratios_left_out(self, part_of: Callable[[TrainingRow], str]) -> FloatArray:
        """Return predicted over measured step times of all rows, each with its source or campaign left out."""
        at_end = residuals(self.rows, self.codes)
        ratios = np.zeros(len(self.everything))
        names = [part_of(row) for row in self.everything]
        for name in sorted(set(names)):
            without = left_out(self.rows, self.codes, at_end, self.slopes, name)
            chosen = [index for index, other in enumerate(names) if other == name]
            ratios[chosen] = np.exp(residuals([self.everything[index] for index in chosen], without))
        return ratios


def tables_of(options: Options) -> tuple[Path, ...]:
    """Return the tables of runs to fit: published, released by blind rounds, own."""
    published = options.published_table("training")
    released = () if options.truth else sorted(published.parent.glob("training_blind*.csv"))
    return (published, *released, OWN_RUNS)


def fit_tables(tables: Sequence[Path], iterations: Sequence[int] = ITERATIONS) -> TrainingFit:
    """Return the parameters fitted from the shipped ones; rows are read again before each number of iterations."""
    codes = np.array([p.encode(value) for p, value in zip(PARAMETERS, shipped_values(), strict=True)])
    for count in iterations:
        terms = terms_of(p.decode(c) for p, c in zip(PARAMETERS, codes, strict=True))
        everything = [row for table in tables for row in read_rows(table, terms)]
        rows = thin_sources(everything)
        codes, slopes = fit_all_rows(rows, codes, count)
    return TrainingFit(everything, rows, codes, slopes)


def run(options: Options) -> None:
    """Fit all families, leave sources out in turn, and write."""
    start = time.monotonic()
    fit = fit_tables(tables_of(options))
    for parameter, code in zip(PARAMETERS, fit.codes, strict=True):
        print(f"{parameter.decode(code):10.4g}  {parameter.name} {dict(parameter.selector)}")
    inside = fit.ratios()
    print(f"\nin the fit, {time.monotonic() - start:.0f} s")
    report(inside, "source", [row.source for row in fit.everything])
    ratios = fit.ratios_left_out(lambda row: row.source)
    print(f"\nleft out, {time.monotonic() - start:.0f} s")
    reports(fit.everything, ratios)
    campaigns = fit.ratios_left_out(lambda row: row.campaign)
    report(campaigns, "campaign", [row.campaign for row in fit.everything])
    if options.write:
        write(fit.codes, fit.everything, ratios, inside)
    report_coverage(fit.everything, ratios)
    report_coverage(fit.everything, inside)
