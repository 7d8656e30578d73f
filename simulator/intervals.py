"""80 % intervals of predictions: quantiles of measured / predicted on points that the fit did not see."""

import math
from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.quantity import Basis, Quantity

METRICS: Final = ("ttft", "tpot", "throughput")
FEW_SEQUENCES: Final = 16


@cache
def _classes() -> dict[str, dict[str, list[float]]]:
    return dict(read_toml(DATA_DIR / "intervals.toml")) | dict(read_toml(DATA_DIR / "local_intervals.toml"))


def load_of(sequences: float | None) -> str:
    """The kind of load that a prediction's residuals depend on: few sequences at once, or many; None is many.

    Source: own definition.
    """
    return "few" if sequences is not None and sequences <= FEW_SEQUENCES else "many"


def class_names(engine: str, architecture: str, load: str, *, transferred: bool) -> tuple[str, ...]:
    """Classes of residuals that a prediction belongs to, the most special first: where kernels were transferred, by
    architecture; else by engine, architecture and load.

    Source: own definition.
    """
    if transferred:
        return (f"transferred {architecture}", "transferred")
    return (f"{engine} {architecture} {load}", f"{engine} {architecture}", engine, "any")


def prediction_class(
    engine: str, *, transferred: bool, architecture: str = "", sequences: float | None = None
) -> str:
    """The most special class of residuals that is known of a prediction; without an architecture that of the engine.

    Source: data/intervals.toml.
    """
    names = class_names(engine, architecture, load_of(sequences), transferred=transferred)
    return next((name for name in names if name in _classes()), names[-1])


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
