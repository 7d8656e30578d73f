"""How sure a ratio of two predictions is: what both get wrong alike cancels, by what the two deployments differ in."""

import math
from bisect import bisect_left
from functools import cache
from typing import Final

from pydantic import Field

from advisor.catalog.files import DATA_DIR, checked, read_toml
from advisor.catalog.schema.record import Record
from advisor.simulator.quantity import Quantity, weakest
from advisor.simulator.replica_model import ReplicaModel

LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_LEVEL_80: Final = 0.8


class PairErrors(Record):
    """|ln| by which predicted ratios of one class err."""

    quantiles: tuple[float, ...] = Field(min_length=len(LEVELS), max_length=len(LEVELS))
    num_pairs: int
    num_cells: int
    """Combinations of model, accelerators and engines, each of which weighs the same."""
    left_out: float
    """Part of pairs of left-out models within the 80 % quantile of the others."""


class PairedIntervals(Record):
    """The data file."""

    levels: tuple[float, ...]
    unpaired: dict[str, float]
    """80 % half width on the logarithm if both errors had nothing in common, by metric."""
    classes: dict[str, dict[str, PairErrors]]


@cache
def paired_intervals() -> PairedIntervals:
    """All classes.

    Source: data/paired_intervals.toml, written by evidence/fit/pairs.py.
    """
    path = DATA_DIR / "paired_intervals.toml"
    return checked(PairedIntervals, read_toml(path), path.name)


def class_of_pair(*, same_accelerator: bool, same_engine: bool, same_format: bool, transferred: bool) -> str:
    """What two deployments of a model differ in most: hardware without measured kernels, the engine, the accelerator,
    the weight format or the layout.

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
    """The class of two replicas.

    Source: class_of_pair.
    """
    a, b = first.deployment, second.deployment
    return class_of_pair(
        same_accelerator=a.accelerator.id == b.accelerator.id,
        same_engine=a.engine.id == b.engine.id,
        same_format=a.weight_dtype == b.weight_dtype,
        transferred=bool(first.transferred or second.transferred),
    )


def pair_errors(class_name: str, metric: str) -> PairErrors:
    """How far ratios of a class err; of the widest class where too few pairs were published.

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
    return max(known, key=lambda errors: errors.quantiles[LEVELS.index(_LEVEL_80)])


def ratio_with_interval(first: Quantity, second: Quantity, class_name: str, metric: str) -> Quantity:
    """first / second with the 80 % interval of their ratio.

    Source: pair_errors; math of a symmetric error on the logarithm.
    """
    ratio = first.value / second.value
    width = pair_errors(class_name, metric).quantiles[LEVELS.index(_LEVEL_80)]
    factor = math.exp(width)
    return Quantity(ratio, ratio / factor, ratio * factor, weakest(first.basis, second.basis))


def chance_above_one(log_ratio: float, class_name: str, metric: str) -> float:
    """Chance that a ratio whose predicted logarithm is this is really above 1.

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
