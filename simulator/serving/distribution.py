"""Distributions of times in bounded memory, however many values they take in: mean, quantiles, maximum."""

import math

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import PICOSECONDS_PER_S

_SUB_BINS_LOG2 = 10
_SHIFT = 52 - _SUB_BINS_LOG2
_FIRST_BIN = int(np.float64(1.0).view(np.int64)) >> _SHIFT
_NUM_BINS = (63 << _SUB_BINS_LOG2) + 1
"""Number of bins: bin 0 holds zeros; then 1024 bins for each power of two up to 2^62 ps, each at most 0.1 % wide."""
_NORMAL_80 = 1.2816
"""Standard deviations of a normal distribution that hold 80 % around its middle."""
_EXACT_VALUES = 1 << 16
"""Highest number of values, or of runs of them, that are kept exactly."""
_Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First values, slopes, lengths and weights of runs."""


class Distribution:
    """Times [ps in, s out]: the mean is exact; quantiles are exact up to 65 536 values, then within 0.05 %.

    Values become a histogram whose bins are the leading bits of their floating-point form, so that a bin is found
    without a logarithm. Weighted runs (inter-token times) always go to the histogram, once a quantile is asked for.

    Assumes: values are whole picoseconds from 0 to 2^62.
    Error: half a bin, 0.05 % of the value, tests/simulator/serving/test_distribution.py
    Source: own design, after high-dynamic-range histograms.
    """

    def __init__(self) -> None:
        self._kept: list[NDArray[np.int64]] = []
        self._ordered: NDArray[np.int64] | None = None
        """Kept values in order, once a quantile was asked for."""
        self._runs: list[_Runs] = []
        self._num_runs = 0
        self._counts: NDArray[np.int64] | None = None
        self._cumulative: NDArray[np.int64] | None = None
        self._num = 0
        self._sum = 0
        self._max = 0

    def add(self, values: NDArray[np.int64]) -> None:
        """Take in values [ps]."""
        if not values.size:
            return
        self._num += values.size
        self._sum += _exact_sum(values)
        self._max = max(self._max, int(values.max()))
        self._kept.append(values)
        self._stay_small()

    def add_runs(
        self,
        first: NDArray[np.int64],
        slope: NDArray[np.int64],
        num_values: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        """Take in runs of values first, first + slope, ... with a weight each; every value lands in its own bin."""
        if not first.size:
            return
        last = first + slope * (num_values - 1)
        self._num += int(np.dot(num_values, weight))
        self._sum += _weighted_sum(first + last, num_values, weight) // 2
        self._max = max(self._max, int((last * (weight > 0)).max()))
        self._runs.append((first, slope, num_values, weight))
        self._num_runs += first.size
        self._stay_small()

    def merge(self, other: "Distribution") -> None:
        """Take in all values of another distribution, as if each had been added here."""
        self._num += other._num
        self._sum += other._sum
        self._max = max(self._max, other._max)
        self._kept += other._kept
        self._runs += other._runs
        self._num_runs += other._num_runs
        if other._counts is not None:
            self._counts = other._counts + (0 if self._counts is None else self._counts)
            self._cumulative = None
        self._stay_small()

    @property
    def num_samples(self) -> int:
        """Number of values taken in, each counted with its weight."""
        return self._num

    @property
    def sum_ps(self) -> int:
        """Sum of the values [ps]."""
        return self._sum

    @property
    def mean_s(self) -> float:
        """Mean [s]; nan without values."""
        return self._sum / self._num / PICOSECONDS_PER_S if self._num else math.nan

    @property
    def max_s(self) -> float:
        """Largest value [s]; nan without values."""
        return self._max / PICOSECONDS_PER_S if self._num else math.nan

    def quantile_s(self, fraction: float) -> float:
        """Value below which a fraction of the values lies, interpolated between order statistics [s]; nan without
        values."""
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"a quantile's fraction lies in 0 to 1, not {fraction}")
        if not self._num:
            return math.nan
        rank = fraction * (self._num - 1)
        if self._counts is None and not self._runs:
            if self._ordered is None:
                self._ordered = np.sort(np.concatenate(self._kept))
            return _between_ranks(self._ordered, rank) / PICOSECONDS_PER_S
        self._spill()
        assert self._counts is not None
        if self._cumulative is None:
            self._cumulative = np.cumsum(self._counts)
        cumulative = self._cumulative
        index = int(cumulative.searchsorted(int(rank), side="right"))  # whole: no conversion of the column
        before = int(cumulative[index - 1]) if index else 0
        low, high = _edges(index)
        value = low + (high - low) * (rank - before + 0.5) / int(self._counts[index])
        return min(value, float(self._max)) / PICOSECONDS_PER_S

    def fraction_above(self, limit_s: float) -> float:
        """Fraction of the values that are longer than a limit [s], exact to half a bin where there are many; nan
        without values."""
        if not self._num:
            return math.nan
        limit_ps = limit_s * PICOSECONDS_PER_S
        if limit_ps >= self._max:
            return 0.0
        if self._counts is None and not self._runs:
            return sum(int(np.count_nonzero(values > limit_ps)) for values in self._kept) / self._num
        self._spill()
        assert self._counts is not None
        index = int(_bins(np.array([round(limit_ps)]))[0])
        low, high = _edges(index)
        part = (high - limit_ps) / (high - low) if high > low else 0.0
        return float(self._counts[index + 1 :].sum() + part * self._counts[index]) / self._num

    def sampling_factors(self, fraction: float) -> tuple[float, float]:
        """Factors (low, high) of a quantile between which it lies in 80 % of repetitions of the run.

        The values at the ranks n p ± 1.28 √(n p (1 − p)). If the upper one lies beyond the largest value, the tail
        goes on above the quantile as far as it came below it. Equal values have no sampling error.

        Assumes: values are independent.
        Source: order statistics (David and Nagaraja 2003, section 7.1).
        """
        value = self.quantile_s(fraction)
        if not value > 0.0:
            return 1.0, 1.0
        half = _NORMAL_80 * math.sqrt(fraction * (1.0 - fraction) / self._num)
        low = self.quantile_s(max(0.0, fraction - half)) / value
        high = self.quantile_s(min(1.0, fraction + half)) / value
        return min(1.0, low), max(1.0, high, 2.0 - low if fraction + half > 1.0 else 1.0)

    def percentile_s(self, percent: float) -> float:
        """Quantile at percent / 100 [s]."""
        return self.quantile_s(percent / 100.0)

    @property
    def p50_s(self) -> float:
        """Median [s]."""
        return self.quantile_s(0.50)

    @property
    def p90_s(self) -> float:
        """90th percentile [s]."""
        return self.quantile_s(0.90)

    @property
    def p95_s(self) -> float:
        """95th percentile [s]."""
        return self.quantile_s(0.95)

    @property
    def p99_s(self) -> float:
        """99th percentile [s]."""
        return self.quantile_s(0.99)

    def _stay_small(self) -> None:
        """Move kept values to the histogram if there are many, or if the histogram is in use already."""
        self._ordered = None
        too_many = self._num_runs if self._runs else self._num
        if self._counts is not None or too_many > _EXACT_VALUES:
            self._spill()

    def _spill(self) -> None:
        """Move all kept values to the histogram."""
        if not self._kept and not self._runs and self._counts is not None:
            return
        self._cumulative = None
        if self._counts is None:
            self._counts = np.zeros(_NUM_BINS, dtype=np.int64)
        for values in self._kept:
            self._counts += np.bincount(_bins(values), minlength=_NUM_BINS)
        for first, slope, num_values, weight in self._runs:
            low = _bins(first)
            high = _bins(first + slope * (num_values - 1))
            inside = low == high
            np.add.at(self._counts, low[inside], (num_values * weight)[inside])
            if not inside.all():
                wide = ~inside
                bins, counts = _spread(first[wide], slope[wide], num_values[wide], low[wide], high[wide])
                np.add.at(self._counts, bins, counts * np.repeat(weight[wide], high[wide] - low[wide] + 1))
        self._kept = []
        self._runs = []
        self._num_runs = 0


def _between_ranks(ordered: NDArray[np.int64], rank: float) -> float:
    """Value at a rank, linear between whole ranks: equal to numpy.quantile to the last bit, in a tenth of its time."""
    below = int(rank)
    low = int(ordered[below])
    high = int(ordered[min(below + 1, len(ordered) - 1)])
    part = rank - below
    return float(high - (high - low) * (1.0 - part) if part >= 0.5 else low + (high - low) * part)


def _bins(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bin of each value: exponent and leading mantissa bits, 0 for zero."""
    bits = values.astype(np.float64).view(np.int64) >> _SHIFT
    bins: NDArray[np.int64] = np.maximum(bits - _FIRST_BIN + 1, 0)
    return bins


def _edges(index: int) -> tuple[float, float]:
    """Lower and upper end of a bin [ps]."""
    if index == 0:
        return 0.0, 0.0
    ends = np.array([index - 1 + _FIRST_BIN, index + _FIRST_BIN], dtype=np.int64) << _SHIFT
    low, high = ends.view(np.float64).tolist()
    return low, high


def _spread(
    first: NDArray[np.int64],
    slope: NDArray[np.int64],
    num_values: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of values of each ascending run in each bin between its lowest and its highest."""
    widths = high - low + 1
    run = np.repeat(np.arange(len(first)), widths)
    offsets = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    bins = low[run] + offsets
    upper = np.ceil(((bins + _FIRST_BIN) << _SHIFT).view(np.float64)).astype(np.int64)
    below = np.clip(-((first[run] - upper) // slope[run]), 0, num_values[run])
    counts = np.diff(below, prepend=0)
    starts = offsets == 0
    counts[starts] = below[starts]
    return bins, counts


def _weighted_sum(ends: NDArray[np.int64], num_values: NDArray[np.int64], weight: NDArray[np.int64]) -> int:
    """Twice the weighted sum of all runs' values; in Python's integers if 64 bits might not hold it."""
    if int(ends.max()) * int(num_values.max()) < 1 << 62 and int(weight.sum()) < 1 << 31:
        return _exact_sum(ends * num_values, weight)
    runs = zip(ends.tolist(), num_values.tolist(), weight.tolist(), strict=True)
    return int(sum(end * count * share for end, count, share in runs))


def _exact_sum(values: NDArray[np.int64], weight: NDArray[np.int64] | int = 1) -> int:
    """Weighted sum that cannot overflow: high and low halves are added separately."""
    high = values >> 31
    low = values & ((1 << 31) - 1)
    return (int((high * weight).sum()) << 31) + int((low * weight).sum())
