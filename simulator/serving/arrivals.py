"""Arrival processes: Poisson, gamma-distributed gaps, given instants, varying rates, or a closed loop of clients."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError, positive, whole
from advisor.catalog.units import DAY_S, PICOSECONDS_PER_S
from advisor.simulator.serving.lengths import CHUNK

_DAY_STEPS = 96
"""Number of steps of a daily swing: a quarter of an hour each."""
_LONGEST_S = 2.0e6
"""Longest time of a simulation [s]: times stay below 2^62 picoseconds, so that 64-bit sums of two cannot overflow."""
_SURE_SIGMAS = 4.0
_LEAST_WEIBULL_CV = 0.05
_MOST_WEIBULL_CV = 20.0


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Closed loop of `concurrency` clients, each of which sends its next request when the output of its last is
    complete.

    burst: all clients start at once, as benchmark clients do; staggered: evenly over ramp_s.
    With concurrency = number of requests this is the offline load, everything submitted at once.
    """

    concurrency: int
    start: Literal["burst", "staggered"] = "burst"
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        whole("concurrency", self.concurrency)
        if self.start not in ("burst", "staggered"):
            raise AdvisorError(f"a closed loop starts 'burst' or 'staggered', not {self.start!r}")
        if self.start == "staggered":
            positive("ramp_s of a staggered start", self.ramp_s)
        elif self.ramp_s != 0.0:
            raise AdvisorError("ramp_s belongs to a staggered start", fix="start='staggered'")

    def start_instants_ps(self, num_clients: int) -> list[int]:
        """Instants at which the clients send their first requests [ps]."""
        ramp_ps = round(self.ramp_s * PICOSECONDS_PER_S)
        return [ramp_ps * client // self.concurrency for client in range(num_clients)]


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals at a mean rate [1/s].

    Request i arrives at (Σ unit exponentials up to i) / rate: two rates see the same pattern, stretched.
    """

    rate_per_s: float

    def __post_init__(self) -> None:
        positive("rate_per_s", self.rate_per_s)

    def instants_ps(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield ascending arrival instants [ps], in chunks, without end."""
        return _accumulate_instants(lambda: rng.standard_exponential(CHUNK), 1.0 / self.rate_per_s)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Arrivals whose gaps are gamma-distributed with mean 1/rate and coefficient of variation cv; cv > 1 is bursty.

    Gaps have shape 1/cv² and scale cv²/rate; cv = 1 is Poisson.
    """

    rate_per_s: float
    cv: float

    def __post_init__(self) -> None:
        positive("rate_per_s", self.rate_per_s)
        positive("cv", self.cv)

    def instants_ps(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield ascending arrival instants [ps], in chunks, without end."""
        shape = 1.0 / self.cv**2
        return _accumulate_instants(lambda: rng.standard_gamma(shape, CHUNK), 1.0 / (shape * self.rate_per_s))


@dataclass(frozen=True, slots=True)
class Weibull:
    """Arrivals whose gaps have a Weibull distribution with mean 1/rate and coefficient of variation cv; cv > 1 is
    bursty.

    Gaps have the shape k with Γ(1 + 2/k) / Γ(1 + 1/k)² = 1 + cv²; cv = 1 is Poisson.

    Source: moments of the Weibull distribution; BurstGPT, arXiv:2401.17644, fits gaps of real requests with it.
    """

    rate_per_s: float
    cv: float

    def __post_init__(self) -> None:
        positive("rate_per_s", self.rate_per_s)
        if not _LEAST_WEIBULL_CV <= self.cv <= _MOST_WEIBULL_CV:
            raise AdvisorError(
                f"a coefficient of variation of {self.cv:g} is out of range",
                why=f"Weibull gaps are drawn for {_LEAST_WEIBULL_CV:g} to {_MOST_WEIBULL_CV:g}",
                fix="gamma gaps, or a value in that range",
            )

    @property
    def shape(self) -> float:
        """Shape k of the gaps, by bisection: their variation falls as k grows."""
        low = 0.1
        high = 100.0
        for _ in range(100):
            middle = math.sqrt(low * high)
            log_ratio = math.lgamma(1.0 + 2.0 / middle) - 2.0 * math.lgamma(1.0 + 1.0 / middle)
            if math.expm1(log_ratio) > self.cv**2:
                low = middle
            else:
                high = middle
        return low

    def instants_ps(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield ascending arrival instants [ps], in chunks, without end."""
        shape = self.shape
        scale_s = 1.0 / (math.gamma(1.0 + 1.0 / shape) * self.rate_per_s)
        return _accumulate_instants(lambda: rng.weibull(shape, CHUNK), scale_s)


@dataclass(frozen=True, slots=True)
class TraceArrivals:
    """Arrivals at given instants [s], ascending."""

    times_s: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.times_s) == 0:
            raise AdvisorError("the trace holds no arrivals")
        times = np.asarray(self.times_s, dtype=np.float64)
        if not np.all(np.isfinite(times)) or times.min() < 0 or times.max() > _LONGEST_S:
            raise AdvisorError(f"arrival instants must be finite and between 0 and {_LONGEST_S:.0f} s")
        steps = np.flatnonzero(np.diff(times) < 0)
        if steps.size:
            raise AdvisorError(
                f"arrival {int(steps[0]) + 2} is earlier than the one before it", fix="sort the trace by time"
            )

    def instants_ps(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield arrival instants [ps], in chunks."""
        times = np.asarray(self.times_s, dtype=np.float64)
        for start in range(0, len(times), CHUNK):
            yield np.rint(times[start : start + CHUNK] * PICOSECONDS_PER_S).astype(np.int64)


@dataclass(frozen=True, slots=True)
class VaryingRate:
    """Arrivals at a rate that changes in steps and repeats after the last step: days, bursts, ramps.

    Gaps of the time rescaled by the rate have mean 1 and coefficient of variation cv; 1 is Poisson.

    Source: own definition; time rescaling of a renewal process.
    """

    steps: tuple[tuple[float, float], ...]
    """Steps as (duration [s], requests per second)."""
    cv: float = 1.0

    def __post_init__(self) -> None:
        positive("cv", self.cv)
        for duration_s, rate in self.steps:
            positive("the duration of a step", duration_s)
            if not (math.isfinite(rate) and rate >= 0):
                raise AdvisorError(f"the rate of a step must be at least 0 and finite, not {rate}")
        if not sum(duration_s * rate for duration_s, rate in self.steps) > 0:
            raise AdvisorError("a varying rate needs a step with a rate above 0")

    @property
    def mean_rate_per_s(self) -> float:
        """Mean request rate over a whole round of the steps [1/s]."""
        return sum(d * rate for d, rate in self.steps) / sum(d for d, _ in self.steps)

    def instants_ps(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield ascending arrival instants [ps], in chunks, without end."""
        ends_s = np.cumsum([0.0, *(duration_s for duration_s, _ in self.steps)])
        expected = np.cumsum([0.0, *(duration_s * rate for duration_s, rate in self.steps)])
        shape = 1.0 / self.cv**2
        rates = np.array([rate for _, rate in self.steps])

        def rescale(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            rounds, within = np.divmod(counts, expected[-1])
            # While the rate is 0 the expectation does not grow; the last instant of that time counts.
            step = np.searchsorted(expected, within, side="right") - 1
            instants: NDArray[np.float64] = (
                rounds * ends_s[-1] + ends_s[step] + (within - expected[step]) / rates[step]
            )
            return instants

        return _accumulate_instants(lambda: rng.standard_gamma(shape, CHUNK) / shape, 1.0, rescale)


def diurnal(
    mean_rate_per_s: float, peak_to_mean: float, *, period_s: float = DAY_S, cv: float = 1.0
) -> VaryingRate:
    """Return a rate that swings as a sine around its mean, from its lowest point: rate = mean (1 − (peak/mean − 1) cos
    2πt/T).

    Raises: AdvisorError: a peak below the mean, or above twice the mean, where the rate would become negative.
    Source: own definition.
    """
    if not 1.0 <= peak_to_mean <= 2.0:
        raise AdvisorError(
            f"a daily peak of {peak_to_mean} times the mean", fix="1 to 2 times: a sine has no higher peak"
        )
    middles = (np.arange(_DAY_STEPS) + 0.5) / _DAY_STEPS
    rates = mean_rate_per_s * (1.0 - (peak_to_mean - 1.0) * np.cos(2.0 * np.pi * middles))
    return VaryingRate(tuple((period_s / _DAY_STEPS, float(rate)) for rate in rates), cv)


def bursts(
    base_rate_per_s: float, burst_rate_per_s: float, *, every_s: float, lasting_s: float, cv: float = 1.0
) -> VaryingRate:
    """Return a base rate with a burst of a given length at the end of each interval.

    Raises: AdvisorError: a burst that is not shorter than its interval.
    Source: own definition.
    """
    if not 0 < lasting_s < every_s:
        raise AdvisorError(
            f"bursts of {lasting_s} s every {every_s} s", fix="bursts shorter than the interval"
        )
    return VaryingRate(((every_s - lasting_s, base_rate_per_s), (lasting_s, burst_rate_per_s)), cv)


Arrivals = ClosedLoop | Poisson | Gamma | Weibull | VaryingRate | TraceArrivals


def check_span(num_requests: int, rate_per_s: float) -> None:
    """Refuse requests that a mean rate spreads over more time than a simulation may last, before the first is drawn.

    Raises: AdvisorError: the span is too long.
    Source: own limit.
    """
    if num_requests / rate_per_s > _LONGEST_S:
        raise AdvisorError(
            f"arrivals spread over more than {_LONGEST_S:.0f} s",
            why=f"{num_requests:,} requests at {rate_per_s:g}/s take {num_requests / rate_per_s:.3g} s",
            fix=f"a higher rate, or --requests {most_requests(rate_per_s)}",
        )


def most_requests(rate_per_s: float) -> int:
    """Number of requests that arrive within the longest simulation at a mean rate; a Poisson process has not yet
    reached it once in 30 000 times.

    Source: own limit; a Poisson count's spread is the root of its mean.
    """
    mean = _LONGEST_S * rate_per_s
    return max(1, int(mean - _SURE_SIGMAS * math.sqrt(mean)))


def _accumulate_instants(
    draw: Callable[[], NDArray[np.float64]],
    scale: float,
    instants_s_of: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda sums: sums,
) -> Iterator[NDArray[np.int64]]:
    """Yield running sums of scaled gaps, converted to instants [ps]."""
    last = 0.0
    while True:
        sums = last + np.cumsum(draw()) * scale
        last = float(sums[-1])
        instants_s = instants_s_of(sums)
        within = instants_s[instants_s <= _LONGEST_S]
        if within.size:  # a chunk may reach further than the requests that are asked for
            yield np.rint(within * PICOSECONDS_PER_S).astype(np.int64)
        if within.size < instants_s.size:
            raise AdvisorError(
                f"arrivals spread over more than {_LONGEST_S:.0f} s", fix="a higher rate or fewer requests"
            )
