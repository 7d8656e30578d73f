"""Results of serving benchmarks in one form, whichever client measured them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.units import MICROSECOND_S, MILLISECOND_S, with_decimal_point

_SECONDS: Final[Mapping[str, float]] = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": MILLISECOND_S,
    "milliseconds": MILLISECOND_S,
    "us": MICROSECOND_S,
    "µs": MICROSECOND_S,
    "ns": 1e-9,
    "nanoseconds": 1e-9,
}


ROUNDED: Final = 1.01
"""Ratio up to which two statistics of one sample may differ by rounding and by how a percentile is interpolated. Own
choice."""


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Statistics of one latency [s]; None where the file does not state one."""

    mean_s: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None
    p50_within_s: tuple[float, float] | None = field(default=None, kw_only=True)
    """Bounds between which the median lies, where it is interpolated between those of a bucket; None if it is not."""
    p99_within_s: tuple[float, float] | None = field(default=None, kw_only=True)
    """Bounds of the 99th percentile."""

    def __post_init__(self) -> None:
        """Refuse statistics that contradict each other. Raises: InputFileError: the median exceeds the percentile."""
        if self.p50_s and self.p99_s and self.p50_s > ROUNDED * self.p99_s:
            raise InputFileError(
                f"a median of {self.p50_s:.4g} s and a p99 of {self.p99_s:.4g} s",
                why="half of the values lie at or below the median, and 99 % at or below the p99",
                fix="correct the two, or say which column is which",
            )

    @property
    def is_empty(self) -> bool:
        return self.mean_s is None and self.p50_s is None and self.p99_s is None


NO_TIMES: Final = MeasuredTimes()


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One load on one server as a benchmark's file states it; None where it does not."""

    tool: str
    model: str = ""
    concurrency: int | None = None
    """Clients that each wait for their output; None if the load is open or not stated."""
    request_rate_per_s: float | None = None
    """Rate at which requests were sent [1/s]; infinite if all were sent at once."""
    num_requests: int | None = None
    """Number of requests that succeeded."""
    num_failed: int | None = None
    mean_input_tokens: float | None = None
    mean_output_tokens: float | None = None
    length_dist: str = ""
    """Distribution of the lengths as cases write it: fixed, uniform:0.8, mean; empty if it is not stated."""
    ttft: MeasuredTimes = NO_TIMES
    tpot: MeasuredTimes = NO_TIMES
    e2e: MeasuredTimes = NO_TIMES
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    engine: str = ""
    gpu: str = ""
    num_gpus: int | None = None
    tensor_parallel: int | None = None
    expert_parallel: int | None = None
    data_parallel: int | None = None
    max_num_seqs: int | None = None
    """Sequences of one iteration; None if the file does not say it."""
    weight_dtype: str = ""
    date: str = ""
    settings: Mapping[str, str] | None = None
    """Further settings of server and client by column of a case; None if they were not looked for."""
    notes: tuple[str, ...] = ()
    """Sentences about what the file leaves open and how it was read."""

    @property
    def has_figures(self) -> bool:
        """Whether anything was measured that a prediction can be compared with."""
        rates = (self.output_tokens_per_s, self.total_tokens_per_s, self.requests_per_s)
        return any(rates) or not (self.ttft.is_empty and self.tpot.is_empty and self.e2e.is_empty)


def number_of(value: object) -> float | None:
    """Return a finite number that is not negative; None if the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def typed_number_of(value: object) -> float | None:
    """Return a number as people of any language type it, `0,5` or `1,200` too; None if the value is none."""
    return number_of(with_decimal_point(value) if isinstance(value, str) and "," in value else value)


def whole_of(value: object) -> int | None:
    """Return a whole number that is not negative; None if the value is none."""
    found = number_of(value)
    return round(found) if found is not None and found == round(found) else None


def rate_of(value: object) -> float | None:
    """Return a rate of requests [1/s], which is infinite where all are sent at once; None if the value is none."""
    return math.inf if str(value).strip().lower() in ("inf", "infinity") else number_of(value) or None


def ratio_of(total: object, count: object) -> float | None:
    """Return the mean of a total over a count; None if either is missing or the count is 0."""
    whole = number_of(total)
    parts = number_of(count)
    return whole / parts if whole is not None and parts else None


def seconds_in(unit: object, name: str) -> float:
    """Return how many seconds a unit of time has.

    Raises: InputFileError: the unit is missing or unknown; it is never guessed from the size of a number.
    """
    factor = _SECONDS.get(str(unit).strip().lower())
    if factor is None:
        raise InputFileError(
            f"{name} is in {str(unit)!r}" if unit else f"{name} has no unit",
            why=f"times are read in {', '.join(_SECONDS)}; a unit is not guessed from the size of a number",
            fix="give the file as its program wrote it",
        )
    return factor


def multiply(value: object, factor: float) -> float | None:
    """Return a number multiplied by a factor; None if the value is no number."""
    found = number_of(value)
    return None if found is None else found * factor


def length_of(values: Any) -> str:
    """Return the distribution of listed lengths as cases write it: fixed if all are equal, else the mean."""
    found = {number_of(value) for value in values} if isinstance(values, list) else set()
    return "fixed" if len(found) == 1 else "mean"


def require_figures(result: BenchmarkResult, title: str) -> BenchmarkResult:
    """Return the result. Raises: InputFileError: it holds no latency and no rate."""
    if result.has_figures:
        return result
    raise InputFileError(
        f"the {title} holds no latency and no rate",
        why="nothing in it can be compared with a prediction; every request may have failed",
        fix="give the file of a run in which requests succeeded",
    )
