"""Rent, own or call an API: the same tokens by every way, and where two ways cost the same."""

from collections.abc import Sequence
from typing import Literal

from advisor.catalog.units import DAYS_PER_MONTH, HOURS_PER_DAY, HOURS_PER_MONTH, MILLION, plain_number
from advisor.decide.purchase import left_out
from advisor.decide.reason import Reason
from advisor.economics import break_even as crossing
from advisor.economics.api_bill import ApiCost
from advisor.economics.break_even import BreakEven
from advisor.economics.fleet import PricedFleet
from advisor.economics.result import CostRow, Way

_NUM_APIS = 2
_NUM_OWNED = 1


def ways(
    rented: Sequence[CostRow],
    fleets: Sequence[PricedFleet],
    owned: Sequence[CostRow],
    apis: Sequence[ApiCost],
    *,
    api_tokens_per_day: float,
) -> tuple[Way, ...]:
    """Return the tokens of a day by every way, cheapest per token first.

    The headline may name the first option with its fleets, APIs, and hardware that is as well known as that option's.
    Without a volume of its own each deployment serves what it can, and APIs `api_tokens_per_day`.
    """
    is_safe = not rented[0].option.reasons
    found = [_way_of_row("rent", row, paid_always_on(row), may_lead=row is rented[0]) for row in rented]
    found += [
        _way(
            "rent",
            each.what,
            each.usd_per_day,
            api_tokens_per_day,
            each.cost.utilisation_fraction,
            each.priced_on,
            each.note,
            may_lead=each.may_lead,
        )
        for each in fleets
    ]
    for row in owned:
        doubts = row.option.reasons if is_safe else ()
        found.append(_way_of_row("own", row, _for_life(row, doubts), may_lead=not doubts))
    found += [
        _way(
            "api",
            f"{api.provider} ({api.model})",
            api.usd_per_million_tokens * api_tokens_per_day / MILLION,
            api_tokens_per_day,
            None,
            api.price_observed_on,
            api.note,
        )
        for api in apis
    ]
    return tuple(sorted(found, key=lambda way: way.usd_per_million_tokens))


def _way_of_row(way: Literal["rent", "own"], row: CostRow, note: str, *, may_lead: bool) -> Way:
    """Return the way of a deployment that is rented or owned."""
    return _way(
        way,
        row.deal,
        row.usd_per_hour * HOURS_PER_DAY,
        row.tokens_per_day,
        row.load_fraction,
        row.priced_on,
        note,
        may_lead=may_lead,
    )


def _way(
    way: Literal["rent", "own", "api"],
    what: str,
    usd_per_day: float,
    tokens: float,
    used: float | None,
    observed: str,
    note: str,
    *,
    may_lead: bool = True,
) -> Way:
    return Way(
        way=way,
        what=what,
        usd_per_day=usd_per_day,
        usd_per_month=usd_per_day * DAYS_PER_MONTH,
        usd_per_million_tokens=usd_per_day / tokens * MILLION,
        utilisation_fraction=used,
        price_observed_on=observed,
        note=note,
        may_lead=may_lead,
    )


def paid_always_on(row: CostRow) -> str:
    """Return how a rented deployment is paid."""
    offer = row.option.offer
    notes = ["always on"]
    if offer is not None and not offer.is_listed:
        notes.append(f"{offer.kind.replace('_', ' ')} price")
    return f"{', '.join(notes)}{left_out(row.option.bill)}"


def _for_life(row: CostRow, doubts: Sequence[Reason]) -> str:
    """Return how owned hardware is paid, and why it is less sure than the first option."""
    years = 0.0 if row.tco is None else row.tco.life_years
    doubt = f", less sure than option 1: {'; '.join(map(str, doubts))}" if doubts else ""
    return f"{years:g} years, resale counted{left_out(row.option.bill)}{doubt}"


def break_evens(
    rented: Sequence[CostRow], owned: Sequence[CostRow], apis: Sequence[ApiCost]
) -> tuple[BreakEven, ...]:
    """Return where renting and owning meet the cheapest APIs, and where owning meets renting the same accelerator, or
    the first option where that accelerator is not among the options."""
    first = rented[0]
    cheapest = sorted(apis, key=lambda api: api.usd_per_million_tokens)[:_NUM_APIS]
    found = [_against_api(first, f"renting {first.deal}", api) for api in cheapest]
    for row in owned[:_NUM_OWNED]:
        found += [_against_api(row, f"owning {row.deal}", api) for api in cheapest[:1]]
        name = row.option.machine.accelerator
        found += _against_rent(row, next((r for r in rented if r.option.machine.accelerator == name), first))
    return tuple(found)


def _against_api(row: CostRow, deal: str, api: ApiCost) -> BreakEven:
    full_per_hour = row.tokens_per_day / HOURS_PER_DAY / row.load_fraction
    share = crossing.utilisation(row.usd_per_hour, full_per_hour, api.usd_per_million_tokens)
    volume = crossing.tokens_per_day(row.usd_per_hour, api.usd_per_million_tokens)
    if share is None:
        full = row.usd_per_hour / full_per_hour * MILLION
        sentence = (
            f"{deal} costs more than {api.provider} at any load: ${plain_number(full)} per million tokens when full, "
            f"against ${plain_number(api.usd_per_million_tokens)}"
        )
    else:
        sentence = (
            f"{deal} costs less than {api.provider} from {volume / MILLION:,.0f} million tokens a day on, "
            f"{100 * share:.0f} % of what it can serve"
        )
    return BreakEven(deal, f"{api.provider} API", "utilisation_fraction", share, sentence)


def _against_rent(row: CostRow, rented: CostRow) -> list[BreakEven]:
    """Return where owning meets renting what carries as much."""
    cost = row.tco
    assert cost is not None
    deal = f"owning {row.deal}"
    other = f"renting {rented.deal}"
    rent_per_hour = rented.usd_per_hour * row.mean_requests_per_s / rented.mean_requests_per_s
    if rented.mean_requests_per_s != row.mean_requests_per_s:
        other += " for the same tokens"
    months = crossing.payback_months(
        cost.purchase_usd, rent_per_hour * HOURS_PER_MONTH, cost.running_usd_per_month
    )
    energy_per_hour = cost.energy_usd_per_month / HOURS_PER_MONTH
    fixed_per_day = (cost.usd_per_hour - energy_per_hour) * HOURS_PER_DAY
    hours = crossing.hours_per_day_worth_owning(fixed_per_day, rent_per_hour, energy_per_hour)
    paid = (
        f"{deal} breaks even after {months:.0f} months against {other} around the clock"
        if months is not None
        else f"{deal} never pays for itself against {other}: running it costs as much"
    )
    if months is not None and months > 12 * cost.life_years:
        paid += f", longer than its {cost.life_years:g} years: what resale brings back is not counted here"
    worth = (
        f"{deal} costs less than {other} from {hours:.1f} hours of use a day on"
        if hours is not None
        else f"{deal} costs more than {other} even around the clock"
    )
    return [
        BreakEven(deal, other, "months", months, paid),
        BreakEven(deal, other, "hours_per_day", hours, worth),
    ]
