"""The answer about money in a sentence, and what may make it wrong."""

import datetime
from collections.abc import Sequence

from advisor.catalog.prices import STALE_AFTER_DAYS
from advisor.catalog.schema import Model
from advisor.catalog.units import GIGA, MILLION, plain_number, usd_words
from advisor.decide.offers import seller_words, stale_price_warnings
from advisor.decide.served_option import accelerator_words, ages_days, spot_warning
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostReport, CostRow, Way

_OLD_FIGURE_DAYS = 365
_VERBS = {"rent": "rent", "own": "buy", "api": "call the API of"}


def headline(report: CostReport, model: Model, question: CostQuestion) -> str:
    """Return one sentence: what is cheapest for the volume, or what a token costs at the planned load."""
    row = report.rows[0]
    if question.volume is None:
        return f"{model.name}: {_prices(row)} at {_load(question)} on {_deal(row)}, ${row.usd_per_hour:.2f}/h"
    cheapest = leading_ways(report.ways)
    best = next(iter(cheapest.values()))
    others = [
        f"{name} {usd_words(cheapest[way].usd_per_month)}"
        f"{_if_it_holds(cheapest[way], report.ways, question.scenario.as_of)}"
        for way, name in (("rent", "renting"), ("own", "owning"), ("api", "an API"))
        if way in cheapest and way != best.way
    ]
    against = f", against {' and '.join(others)} a month" if others else ""
    note = f" ({best.note})" if best.note and best.way == "rent" else ""
    verb = _VERBS[best.way]
    if best.way == "own" and question.own is not None:
        verb = "own"
    return (
        f"{model.name}, {_volume(report.volume['tokens_per_day'])} tokens a day: {verb} {best.what}{note} for "
        f"{usd_words(best.usd_per_month)} a month, ${plain_number(best.usd_per_million_tokens)} per million{against}"
    )


def _if_it_holds(sure: Way, ways: Sequence[Way], as_of: datetime.date) -> str:
    """Return what the cheapest way of the same kind costs, where one that is less sure than `sure` costs less: not one
    whose price has no date, or was read more than a year ago."""
    able = (way.usd_per_month for way in ways if way.way == sure.way and _is_of_this_year(way, as_of))
    least = min(able, default=sure.usd_per_month)
    return f" (less surely {usd_words(least)})" if least < sure.usd_per_month else ""


def _is_of_this_year(way: Way, as_of: datetime.date) -> bool:
    try:
        read_on = datetime.date.fromisoformat(way.price_observed_on)
    except ValueError:
        return False
    return (as_of - read_on).days <= _OLD_FIGURE_DAYS


def leading_ways(ways: Sequence[Way]) -> dict[str, Way]:
    """Return the cheapest way of each kind that may lead, the cheapest of all first: the headline compares them."""
    cheapest: dict[str, Way] = {}
    for way in ways:
        if way.may_lead:
            cheapest.setdefault(way.way, way)
    return cheapest


def _prices(row: CostRow) -> str:
    return (
        f"${plain_number(row.usd_per_million_input_tokens.value)} per million prompt tokens, "
        f"${plain_number(row.usd_per_million_cached_tokens.value, 2)} cached, "
        f"${plain_number(row.usd_per_million_output_tokens.value)} per million output tokens "
        f"(${plain_number(row.usd_per_million_tokens.value)} on average)"
    )


def _load(question: CostQuestion) -> str:
    clients = question.scenario.traffic.concurrency
    if clients is None:
        return "the planned load"
    return f"{clients} client{'' if clients == 1 else 's'}"


def _deal(row: CostRow) -> str:
    offer = row.option.offer
    words = accelerator_words(row.option)
    return words if offer is None else f"{words} from {seller_words(offer)}"


def _volume(tokens: float) -> str:
    if tokens >= GIGA:
        return f"{plain_number(tokens / GIGA)} billion"
    return f"{plain_number(tokens / MILLION)} million"


def warnings_of(report: CostReport, as_of: datetime.date) -> tuple[str, ...]:
    """Return which prices and figures are too old to rely on, once per kind.

    Source: own definition; rented prices and API lists after a month, figures of ownership after a year.
    """
    options = [row.option for row in report.rows]
    found = [*spot_warning(options), *stale_price_warnings(ages_days(options))]
    listed = [cost.price_age_days for cost in report.api if cost.price_age_days > STALE_AFTER_DAYS]
    if listed:
        found.append(
            f"{len(listed)} of {len(report.api)} API prices are older than {STALE_AFTER_DAYS} days (oldest "
            f"{max(listed)} days): check the providers' lists, or give your own with --api-price-file"
        )
    if report.tco is not None:
        ages = [(as_of - line.observed_on).days for line in report.tco.lines]
        old = [age for age in ages if age > _OLD_FIGURE_DAYS]
        if old:
            found.append(
                f"{len(old)} of {len(ages)} figures of ownership are older than a year (oldest {max(old)} days): "
                "give your own with --assumptions"
            )
    return tuple(found)
