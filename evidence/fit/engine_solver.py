"""Engine parameters from logarithms of predicted / measured that are linear in the logarithms of parameters.

A parameter set of an era is the mean of all engines plus what is the era's own. Both are held by priors, so that an era
with few runs stays near its relatives; all eras are solved at once.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from advisor.evidence.fit.base import FloatArray, cauchy
from advisor.evidence.fit.engine_rows import Row
from advisor.simulator.engine_costs import EngineCosts, default_costs

Era = tuple[str, str]

PRIOR = default_costs()
PRIOR_SIGMA = {"request_s": 0.4, "request_launch_s": 0.8, "launch_scale": 0.7, "delivery_s": 0.5}
"""The parameters that belong to an era, with the standard deviation of their logarithm around the default: what
experience allows. The others are the same for all engines: given to eras too, even under narrow priors, the median
error of the time per output token of groups left out rises from 8 to 10 %."""
ONLY_OF = {
    "request_launch_s": ("sglang", "tensorrt-llm", "lmdeploy"),
    "launch_scale": ("sglang",),
    "delivery_s": ("sglang",),
}
"""Parameters that only some engines have of their own. vLLM launches prompts ahead of its device. SGLang captures a
model operator by operator; vLLM compiles and TensorRT-LLM fuses what stands between the large kernels. No other engine
than SGLang was seen at the end of what it can deliver."""
OWN_SHARE = 0.95
"""Standard deviation of what is an era's own, as a part of the prior's."""
NAMES = tuple(PRIOR_SIGMA)
SIGMA = np.array([PRIOR_SIGMA[name] for name in NAMES])
WEIGHTS = {"ttft": 1.0, "tpot": 1.0, "throughput": 0.7}
ROBUST_SCALES = {"ttft": 0.25, "tpot": 0.12, "throughput": 0.12}
"""Relative error from which on a point counts as an outlier (Cauchy loss)."""
DOUBTFUL = ("B2", "B4", "B5")
DOUBTFUL_SHARE = 0.5
NOT_BY_LATENCY = ("B2",)
"""Its concurrency is at times the server's limit and not the client's: throughput counts, latency does not."""


@dataclass(frozen=True)
class Line:
    """One measured value near a parameter set: log(predicted / measured) and its slopes."""

    group: str
    era: Era
    metric: str
    at: FloatArray
    """Where it was linearised, in standard deviations of the prior."""
    miss: float
    slopes: FloatArray
    weight: float


def costs_of(point: FloatArray, others: EngineCosts) -> EngineCosts:
    """Parameters at a point in standard deviations of the prior, beside those that are not fitted."""
    prior = np.array([getattr(PRIOR, name) for name in NAMES])
    return replace(others, **dict(zip(NAMES, (prior * np.exp(point * SIGMA)).tolist(), strict=True)))


def point_of(costs: EngineCosts) -> FloatArray:
    """The point of parameters, in standard deviations of the prior."""
    found = [np.log(getattr(costs, name) / getattr(PRIOR, name)) for name in NAMES]
    return np.asarray(found / SIGMA, dtype=np.float64)


def own_parameters(era: Era) -> list[int]:
    """Places in NAMES of the parameters that this era has of its own."""
    return [place for place, name in enumerate(NAMES) if era[0] in ONLY_OF.get(name, (era[0],))]


def weight_of(row: Row, metric: str, rows_in_group: int, of_them_fitted: int) -> float:
    """Weight of a value: a group counts by the square root of its rows, as neighbours are almost collinear, however
    many of them were drawn; sources whose set-up is doubtful count half."""
    if row.tier in NOT_BY_LATENCY and metric != "throughput":
        return 0.0
    quality = DOUBTFUL_SHARE if row.tier in DOUBTFUL else 1.0
    return quality * WEIGHTS[metric] * math.sqrt(math.sqrt(rows_in_group) / of_them_fitted)


def _owned(era: Era) -> FloatArray:
    return np.isin(np.arange(len(NAMES)), own_parameters(era)).astype(np.float64)


def solve(lines: list[Line], eras: list[Era], start: dict[Era, FloatArray]) -> dict[Era, FloatArray]:
    """Points of all eras that fit the lines best."""
    size, index = len(NAMES), {era: place for place, era in enumerate(eras)}
    chosen = [line for line in lines if line.weight > 0.0]
    miss = np.array([line.miss for line in chosen])
    slopes = np.array([line.slopes for line in chosen])
    at = np.array([line.at for line in chosen])
    scale = np.array([ROBUST_SCALES[line.metric] for line in chosen])
    weight = np.array([line.weight for line in chosen])
    place = np.array([index[line.era] for line in chosen])

    def parts(unknown: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        shared, own = unknown[:size], unknown[size:].reshape(len(eras), size)
        scaled = (miss + np.sum(slopes * (shared + own[place] - at), axis=1)) / scale
        return shared, own, scaled

    def residuals(unknown: FloatArray) -> FloatArray:
        shared, own, scaled = parts(unknown)
        return np.concatenate([weight * cauchy(scaled), shared, own.ravel() / OWN_SHARE])

    def jacobian(unknown: FloatArray) -> FloatArray:
        _, _, scaled = parts(unknown)
        root = np.sqrt(np.log1p(scaled**2))
        small = np.abs(scaled) < 1e-6
        slope = np.where(small, 1.0, np.abs(scaled) / ((1.0 + scaled**2) * np.where(small, 1.0, root)))
        rows = (weight * slope / scale)[:, None] * slopes
        data = np.zeros((len(chosen), size * (1 + len(eras))))
        data[:, :size] = rows
        for era in range(len(eras)):
            data[place == era, size * (1 + era) : size * (2 + era)] = rows[place == era]
        prior = np.diag(np.concatenate([np.ones(size), np.full(size * len(eras), 1.0 / OWN_SHARE)]))
        return np.vstack([data, prior])

    shared = np.mean([start[era] for era in eras], axis=0)
    first = np.concatenate([shared, *(start[era] - shared for era in eras)])
    found = least_squares(residuals, first, jac=jacobian, max_nfev=60).x
    shared, own, _ = parts(found)
    return {era: (shared + own[place]) * _owned(era) for era, place in index.items()}
