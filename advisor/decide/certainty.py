"""How surely an answer holds: latencies with their 80 % intervals, and the chance that they are within a limit.

One word has one meaning wherever it stands: objectives are likely to hold from a chance of 75 % on, and sure to hold
where the whole 80 % interval of a figure that is more than an assumption is within them.
"""

from statistics import NormalDist
from typing import Final, Literal

from advisor.decide.power import rate_factors
from advisor.decide.scenario import Objectives, ServiceLevel
from advisor.decide.trial import Found
from advisor.simulator import serving_prediction
from advisor.simulator.intervals import factors
from advisor.simulator.quantity import Z80, Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult
from advisor.simulator.speculation import widen_by_factors

_SHOWN: Final = (50, 90, 95, 99)
"""Percentiles of an option besides those that have an objective."""
LIKELY: Final = 0.75
"""Chance from which on objectives are called likely to hold, and an order of two options settled."""
_LIKELY_PART: Final = NormalDist().inv_cdf(LIKELY + 1e-9) / Z80
"""Part of the logarithm of an interval's end that a prediction must leave below a limit to be likely to hold; a little
more than LIKELY needs, so that a prediction at just that distance is not called marginal by rounding."""


def allowance(high_factor: float) -> float:
    """Return the factor by which a prediction must stay below a limit so that it is likely to hold; `high_factor` is
    the upper end of its 80 % interval over the prediction.

    Source: Quantity.chance_below.
    """
    return float(max(1.0, high_factor) ** _LIKELY_PART)


def holds_word(predicted: Quantity, limit: float) -> Literal["sure", "likely", "marginal"]:
    """Return how surely a quantity keeps a limit: an assumed one is likely to at most."""
    if predicted.high <= limit and predicted.basis != "assumed":
        return "sure"
    return "likely" if predicted.chance_below(limit) >= LIKELY else "marginal"


def latencies_of(
    found: Found, result: ServingResult, objectives: Objectives
) -> dict[str, dict[str, Quantity]]:
    """Return every latency of a run by statistic, those that have an objective among them [s].

    Times after the first token also err as far as the acceptance of drafted tokens is not known, all times as far as
    the speed under a power limit is not.
    """
    candidate = found.candidate
    percents = tuple(sorted({*_SHOWN, *(_percent(level) for level in objectives.levels)}))
    times = serving_prediction.latencies_of(result, found.replica, percents)
    guessed = candidate.speculation.time_factors if candidate.speculation else (1.0, 1.0)
    limited = (1.0, 1.0)
    if candidate.full_power is not None:
        least, most = rate_factors(candidate.full_power)
        limited = 1.0 / most, 1.0 / least
    for metric in ("ttft_s", "tpot_s", "itl_s"):
        for name, value in times[metric].items():
            unsure = value if metric == "ttft_s" else widen_by_factors(value, guessed)
            times[metric][name] = widen_by_factors(unsure, limited)
    whole = serving_prediction.values_of(result.e2e, percents)
    return times | {"e2e_s": serving_prediction.end_to_end(whole, times["ttft_s"], times["tpot_s"])}


def chance_within(found: Found, result: ServingResult, objectives: Objectives) -> float:
    """Return the chance that a deployment keeps its tightest objective under the load of a run, by the interval that
    is printed of that latency; 1 without objectives.

    Assumes: all latencies err together.
    Source: latencies_of; Quantity.chance_below.
    """
    if not objectives.levels:
        return 1.0
    times = latencies_of(found, result, objectives)
    chances = [1.0]
    for level in objectives.levels:
        shown = times[f"{level.metric}_s"].get(f"p{_percent(level)}")
        if shown is not None and shown.value > 0.0:
            chances.append(shown.chance_below(level.limit_s))
    return min(chances)


def tighten(objectives: Objectives, replica: ReplicaModel) -> Objectives:
    """Return the objectives within which a prediction must lie, at least, so that the real latencies are likely to keep
    those that are asked.

    Assumes: of the classes that a replica may have under a load the surest.
    """
    classes = [serving_prediction.class_of(replica, sequences) for sequences in (1.0, None)]

    def room(metric: str) -> float:
        errs_as = "tpot" if metric == "itl" else metric
        return allowance(min(factors(errs_as, name)[1] for name in classes))

    levels = tuple(
        level.model_copy(update={"limit_s": level.limit_s / room(level.metric)})
        for level in objectives.levels
        if level.metric != "e2e"
    )
    return Objectives(ttft_p99_s=None, tpot_p99_s=None, others=levels)


def _percent(level: ServiceLevel) -> float:
    """The percentile of a level; whole ones as whole numbers, as they are written."""
    return int(level.percent) if float(level.percent).is_integer() else level.percent
