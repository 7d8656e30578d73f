"""80 % intervals of predictions and of ratios of two predictions: quantiles of errors on points left out of the fit.

Errors that two predictions share cancel in their ratio; which errors remain depends on how the two deployments differ.
"""

import math
from bisect import bisect_left
from dataclasses import replace
from functools import cache
from typing import Final

from pydantic import Field

from advisor.catalog.files import DATA_DIR, check_record, read_toml
from advisor.catalog.schema.record import Record
from advisor.simulator.quantity import Z80, Basis, Quantity
from advisor.simulator.replica_model import ReplicaModel

METRICS: Final = ("ttft", "tpot", "throughput")
FEW_SEQUENCES: Final = 16
"""Most concurrent sequences of the class of few, whose residuals have intervals of their own."""


@cache
def _classes() -> dict[str, dict[str, list[float]]]:
    return dict(read_toml(DATA_DIR / "intervals.toml")) | dict(read_toml(DATA_DIR / "local_intervals.toml"))


def load_of(sequences: float | None) -> str:
    """Return the load class of a prediction's residuals: few or many concurrent sequences; None means many.

    Source: own definition.
    """
    return "few" if sequences is not None and sequences <= FEW_SEQUENCES else "many"


def class_names(
    engine: str, architecture: str, load: str, *, transferred: bool, stranger: bool = False
) -> tuple[str, ...]:
    """Return the classes of residuals that a prediction belongs to, most specific first.

    Predictions with transferred kernels are classed by architecture, others by engine, architecture and load. A
    third-party server hides settings that decide how fast it is, so its residuals are wider and form classes of their
    own.

    Source: own definition.
    """
    if transferred:
        return (f"transferred {architecture}", "transferred")
    names = (f"{engine} {architecture} {load}", f"{engine} {architecture}", engine, "any")
    return tuple(f"stranger {name}" for name in names) if stranger else names


def prediction_class(
    engine: str,
    *,
    transferred: bool,
    architecture: str = "",
    sequences: float | None = None,
    stranger: bool = False,
) -> str:
    """Return the most specific known class of residuals of a prediction; without an architecture, the engine's class.

    Source: data/intervals.toml.
    """
    names = class_names(engine, architecture, load_of(sequences), transferred=transferred, stranger=stranger)
    return next((name for name in names if name in _classes()), names[-1])


def factors(metric: str, class_name: str) -> tuple[float, float]:
    """Return the (low, high) ratios of measured to predicted that contain 80 % of the published points of the class.

    Raises: KeyError: the metric is not known.
    Source: data/intervals.toml and local_intervals.toml, by evidence/fit/engine_intervals.py and local.py.
    """
    known = _classes()
    low, high = known.get(class_name, known["any"])[metric]
    return low, high


def with_interval(
    value: float, metric: str, class_name: str, basis: Basis, *, sampling: tuple[float, float] = (1.0, 1.0)
) -> Quantity:
    """Return a predicted value with its 80 % interval: the model error of its class, and the sampling error of the run.

    Both are (low, high) factors; they add in squares on the logarithm.

    Assumes: the two errors are independent.
    Source: conformal residuals (Vovk et al. 2005); Distribution.sampling_factors.
    """
    both = zip(factors(metric, class_name), sampling, strict=True)
    low, high = (
        math.exp(math.copysign(math.hypot(*(max(0.0, side * math.log(part)) for part in parts)), side))
        for side, parts in zip((-1.0, 1.0), both, strict=True)
    )
    return Quantity(value, value * low, value * high, basis)


def narrow(quantity: Quantity, replica: ReplicaModel, metric: str) -> Quantity:
    """Return a prediction with the interval of a server that was measured, if that is narrower than its own.

    Assumes: what a calibration leaves is log-normal.
    Source: residuals of the calibration.
    """
    server = replica.server
    if server is None:
        return quantity
    sigma = server.ttft_sigma if metric == "ttft" else server.tpot_sigma
    low = max(quantity.low, quantity.value * math.exp(-Z80 * sigma))
    high = min(quantity.high, quantity.value * math.exp(Z80 * sigma))
    return replace(quantity, low=low, high=high, basis="calibrated")


def latency_factors(class_name: str, first_share: float) -> tuple[float, float]:
    """Return the (low, high) ratios of measured to predicted end-to-end time; the fraction `first_share` of that time
    passes before the first token.

    Assumes: both parts err together.
    Source: `factors`.
    """
    share = min(1.0, max(0.0, first_share))
    ttft = factors("ttft", class_name)
    tpot = factors("tpot", class_name)
    low, high = (share * first + (1.0 - share) * rest for first, rest in zip(ttft, tpot, strict=True))
    return min(1.0, low), max(1.0, high)


def as_rate(value: float, latency: tuple[float, float], basis: Basis) -> Quantity:
    """Return a rate that is the inverse of a time, with the interval that the time's (low, high) factors imply.

    The interval holds the rate itself, even where nearly all published points of a class lie on one side.
    Source: arithmetic.
    """
    low, high = latency
    return Quantity(value, value / max(1.0, high), value / min(1.0, low), basis)


LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LEVEL_80: Final = 0.8


class PairErrors(Record):
    """Quantiles of the error of predicted ratios of one class, as |ln(measured / predicted)|."""

    quantiles: tuple[float, ...] = Field(min_length=len(LEVELS), max_length=len(LEVELS))
    num_pairs: int
    num_cells: int
    """Number of combinations of model, accelerators and engines; each has equal weight."""
    left_out: float
    """Fraction of the pairs of left-out models within the 80 % quantile of the other pairs."""


class PairedIntervals(Record):
    """Contents of data/paired_intervals.toml."""

    levels: tuple[float, ...]
    unpaired: dict[str, float]
    """80 % half width on the logarithm if the two errors were independent, by metric."""
    classes: dict[str, dict[str, PairErrors]]


@cache
def paired_intervals() -> PairedIntervals:
    """Return the errors of ratios of all classes.

    Source: data/paired_intervals.toml, written by evidence/fit/pairs.py.
    """
    path = DATA_DIR / "paired_intervals.toml"
    return check_record(PairedIntervals, read_toml(path), path.name)


def class_of_pair(*, same_accelerator: bool, same_engine: bool, same_format: bool, transferred: bool) -> str:
    """Return the largest difference between two deployments of a model: hardware without measured kernels, the engine,
    the accelerator, the weight format, or the layout.

    Source: own definition; too few engines were published side by side on one accelerator for a class of their own.
    """
    if transferred:
        return "transferred"
    if not same_engine:
        return "engine"
    if not same_accelerator:
        return "accelerator"
    return "layout" if same_format else "format"


def pair_class(first: ReplicaModel, second: ReplicaModel) -> str:
    """Return the class of errors of the ratio of two replicas.

    Source: class_of_pair.
    """
    a = first.deployment
    b = second.deployment
    return class_of_pair(
        same_accelerator=a.accelerator.id == b.accelerator.id,
        same_engine=a.engine.id == b.engine.id,
        same_format=a.weight_dtype == b.weight_dtype,
        transferred=bool(first.transferred_operators or second.transferred_operators),
    )


def pair_errors(class_name: str, metric: str) -> PairErrors:
    """Return the errors of ratios of a class, or of the widest class if too few pairs were published.

    Raises: KeyError: the metric is not known.
    Source: data/paired_intervals.toml.
    """
    classes = paired_intervals().classes
    found = classes.get(class_name, {}).get(metric)
    if found is not None:
        return found
    known = [by_metric[metric] for by_metric in classes.values() if metric in by_metric]
    if not known:
        raise KeyError(metric)
    return max(known, key=lambda errors: errors.quantiles[LEVELS.index(LEVEL_80)])


def chance_above_one(log_ratio: float, class_name: str, metric: str) -> float:
    """Probability that a ratio with the predicted logarithm `log_ratio` is really above 1.

    0.5 + F(|x|) / 2 for x > 0, else its complement, F being the distribution of |ln| errors between the levels.

    Assumes: errors of ratios are symmetric, as which deployment comes first is arbitrary; beyond the last level the
    chance stays.
    Source: pair_errors.
    """
    known = pair_errors(class_name, metric).quantiles
    size = abs(log_ratio)
    at = bisect_left(known, size)
    if at == len(known):
        level = LEVELS[-1]
    else:
        low_x, low_y = (known[at - 1], LEVELS[at - 1]) if at else (0.0, 0.0)
        span = known[at] - low_x
        level = low_y + (LEVELS[at] - low_y) * ((size - low_x) / span if span > 0 else 1.0)
    chance = 0.5 + level / 2.0
    return chance if log_ratio > 0 else 1.0 - chance
