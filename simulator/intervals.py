"""80 % intervals of predictions: quantiles of measured / predicted on points that the fit did not see."""

import math
from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.quantity import Basis, Quantity

METRICS: Final = ("ttft", "tpot", "throughput")


@cache
def _classes() -> dict[str, dict[str, list[float]]]:
    return dict(read_toml(DATA_DIR / "intervals.toml")) | dict(read_toml(DATA_DIR / "local_intervals.toml"))


def prediction_class(engine: str, *, transferred: bool) -> str:
    """The class of residuals that a prediction belongs to: by engine where its kernels were measured on the
    architecture, one class of its own where they were transferred.

    Source: own definition.
    """
    if transferred:
        return "transferred"
    return engine if engine in _classes() else "any"


def factors(metric: str, class_name: str) -> tuple[float, float]:
    """(low, high) of measured / predicted between which 80 % of left-out points of the class lie.

    Raises: KeyError: the metric is not known.
    Source: data/intervals.toml, by evidence/fit/engines.py, and data/local_intervals.toml, by evidence/fit/local.py.
    """
    known = _classes()
    low, high = known.get(class_name, known["any"])[metric]
    return low, high


def with_interval(
    value: float,
    metric: str,
    class_name: str,
    basis: Basis,
    *,
    sampling: tuple[float, float] = (1.0, 1.0),
) -> Quantity:
    """A predicted value with its 80 % interval: model error by class, and the sampling error of the run.

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
