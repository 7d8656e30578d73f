"""80 % intervals of predictions: quantiles of measured / predicted on points that the fit did not see."""

import math
from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.quantity import Basis, Quantity

METRICS: Final = ("ttft", "tpot", "throughput")
_NORMAL_80: Final = 1.2816
"""Standard deviations of a normal distribution that hold 80 % around its middle."""


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
    num_samples: int = 0,
    tail_fraction: float = 0.5,
) -> Quantity:
    """A predicted value with its 80 % interval: model error by class, and the sampling error of the run.

    A percentile of n samples has a relative sampling error of about sqrt(p (1 − p) / n) / (1 − p) in its tail
    mass; both errors add in squares on the logarithm.

    Assumes: the two errors are independent.
    Source: conformal residuals (Vovk et al. 2005); order statistics.
    """
    low, high = factors(metric, class_name)
    if num_samples > 0:
        sampling = _NORMAL_80 * math.sqrt(tail_fraction / ((1.0 - tail_fraction) * num_samples))
        low = math.exp(-math.hypot(min(0.0, math.log(low)), sampling))
        high = math.exp(math.hypot(max(0.0, math.log(high)), sampling))
    return Quantity(value, value * min(low, 1.0), value * max(high, 1.0), basis)
