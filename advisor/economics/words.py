"""The answer about money in a sentence, and what may make it wrong."""

import datetime

from advisor.catalog.schema import Model
from advisor.catalog.units import GIGA, MILLION
from advisor.decide.offers import seller_words
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostReport

_OLD_FIGURE_DAYS = 365


def headline(report: CostReport, model: Model, question: CostQuestion) -> str:
    """One sentence: what is cheapest for the volume, or what a token costs at full load."""
    row = report.rows[0]
    deal = (
        f"{row.num_accelerators} × {row.accelerator_name} from {seller_words(row.provider, row.price_kind)}"
    )
    if question.mean_rate_per_s is None:
        prices = (
            f"${row.usd_per_million_input_tokens.value:.3g} per million prompt tokens, "
            f"${row.usd_per_million_cached_tokens.value:.2g} cached, "
            f"${row.usd_per_million_output_tokens.value:.3g} per million answer tokens"
        )
        return (
            f"{model.name}: {prices} (${row.usd_per_million_tokens.value:.3g} on average) at full load on {deal}, "
            f"${row.usd_per_hour:.2f}/h"
        )
    offered = [way for way in report.ways if not way.is_assumed]
    offered = [way for way in offered if way.standing >= row.standing]
    best = offered[0]
    verb = {"rent": "rent", "own": "buy", "api": "call the API of"}[best.way]
    rivals = {way.way: way for way in reversed(offered)}
    others = [
        f"{name} {_dollars(rivals[way].usd_per_month)}"
        for way, name in (("rent", "renting"), ("own", "owning"), ("api", "an API"))
        if way in rivals and way != best.way
    ]
    against = f", against {' and '.join(others)}" if others else ""
    note = f" ({best.note})" if best.note and best.way == "rent" else ""
    return (
        f"{model.name}, {_volume(report.volume['tokens_per_day'])} tokens a day: {verb} {best.what}{note} for "
        f"{_dollars(best.usd_per_month)} a month, ${best.usd_per_million_tokens:.3g} per million{against} a month"
    )


def _dollars(usd: float) -> str:
    return f"${usd:,.0f}" if usd >= 100.0 else f"${usd:,.2f}"


def _volume(tokens: float) -> str:
    if tokens >= GIGA:
        return f"{tokens / GIGA:.3g} billion"
    return f"{tokens / MILLION:.3g} million"


def warnings_of(report: CostReport, as_of: datetime.date, stale_days: int) -> tuple[str, ...]:
    """Prices and figures that are too old to rely on, told once per kind.

    Source: own definition; rented prices and API lists after a month, figures of ownership after a year.
    """
    found = []
    rented = [row.price_age_days for row in report.rows if row.price_age_days > stale_days]
    if rented:
        found.append(
            f"{len(rented)} of {len(report.rows)} rental prices are older than {stale_days} days "
            f"(oldest {max(rented)} days): check before you rent, or give your own with --price-file"
        )
    listed = [cost.price_age_days for cost in report.api if cost.price_age_days > stale_days]
    if listed:
        found.append(
            f"{len(listed)} of {len(report.api)} API prices are older than {stale_days} days (oldest "
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
