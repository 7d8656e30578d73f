"""Rent, own or call an API: the same tokens by every way, and where two ways cost the same."""

from collections.abc import Callable, Sequence

from advisor.catalog.units import DAYS_PER_MONTH, HOURS_PER_DAY, HOURS_PER_MONTH, MILLION
from advisor.decide.ownership import Tco
from advisor.decide.purchase import left_out
from advisor.economics import break_even as crossing
from advisor.economics.api_bill import ApiCost
from advisor.economics.break_even import BreakEven
from advisor.economics.fleet import PricedFleet
from advisor.economics.result import CostRow, OwnedOption, Way

_NUM_APIS = 2
_NUM_OWNED = 1


def ways(
    rented: Sequence[CostRow],
    fleets: Sequence[PricedFleet],
    owned: Sequence[OwnedOption],
    apis: Sequence[ApiCost],
    *,
    api_tokens_per_day: float,
) -> tuple[Way, ...]:
    """The tokens of a day by every way, cheapest per token first.

    Without a volume of its own each deployment serves what it can, and APIs `api_tokens_per_day`.
    """
    found = [
        _way("rent", _deal(row), row.bill.usd_per_hour * HOURS_PER_DAY, row.tokens_per_day, row.load_fraction,
             row.price_observed_on, _always_on(row), row.standing)
        for row in rented
    ]  # fmt: skip
    found += [
        _way("rent", each.what, each.usd_per_day, api_tokens_per_day, each.cost.utilisation_fraction, each.priced_on,
             each.note, each.standing, is_assumed=each.is_assumed)
        for each in fleets
    ]  # fmt: skip
    found += [
        _way("own", _own_deal(option), option.row.bill.usd_per_hour * HOURS_PER_DAY, option.row.tokens_per_day,
             option.row.load_fraction, option.row.price_observed_on,
             f"{option.tco.life_years:g} years, resale counted{left_out(option.row.bill)}")
        for option in owned
    ]  # fmt: skip
    found += [
        _way("api", f"{api.provider} ({api.model})", api.usd_per_million_tokens * api_tokens_per_day / MILLION,
             api_tokens_per_day, None, api.price_observed_on, api.note)
        for api in apis
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda way: way.usd_per_million_tokens))


def _way(
    way: str,
    what: str,
    usd_per_day: float,
    tokens: float,
    used: float | None,
    observed: str,
    note: str,
    standing: int = 2,
    *,
    is_assumed: bool = False,
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
        standing=standing,
        is_assumed=is_assumed,
    )


def _always_on(row: CostRow) -> str:
    kind = row.price_kind.replace("_", " ")
    said = "always on" if kind in ("list", "quote") else f"always on, {kind} price"
    return f"{said}{left_out(row.bill)}"


def _deal(row: CostRow) -> str:
    return f"{row.num_accelerators} x {row.accelerator} from {row.provider}"


def _own_deal(option: OwnedOption) -> str:
    return f"{option.row.num_accelerators} x {option.row.accelerator}"


def break_evens(
    rented: CostRow,
    owned: Sequence[OwnedOption],
    apis: Sequence[ApiCost],
    rent_instead: Callable[[str, int], tuple[str, float] | None],
) -> tuple[BreakEven, ...]:
    """Where renting and owning meet the cheapest APIs, and where owning meets renting the same accelerator.

    `rent_instead`: of an accelerator and how many are owned, what renting it is and costs by the hour.
    """
    cheapest = sorted(apis, key=lambda api: api.usd_per_million_tokens)[:_NUM_APIS]
    found = [_against_api(rented, f"renting {_deal(rented)}", rented.usd_per_hour, api) for api in cheapest]
    for option in owned[:_NUM_OWNED]:
        found += [
            _against_api(option.row, f"owning {_own_deal(option)}", option.tco.usd_per_hour, api)
            for api in cheapest[:1]
        ]
        rent = rent_instead(option.row.accelerator, option.row.num_accelerators)
        if rent is not None:
            found += _against_rent(option, *rent)
    return tuple(found)


def _against_api(row: CostRow, deal: str, usd_per_hour: float, api: ApiCost) -> BreakEven:
    full_per_hour = row.tokens_per_day / HOURS_PER_DAY / row.load_fraction
    share = crossing.utilisation(usd_per_hour, full_per_hour, api.usd_per_million_tokens)
    volume = crossing.tokens_per_day(usd_per_hour, api.usd_per_million_tokens)
    if share is None:
        full = usd_per_hour / full_per_hour * MILLION
        sentence = (
            f"{deal} is dearer than {api.provider} at any load: ${full:.3g} per million tokens when full, "
            f"against ${api.usd_per_million_tokens:.3g}"
        )
    else:
        sentence = (
            f"{deal} is cheaper than {api.provider} from {volume / MILLION:,.0f} million tokens a day on, "
            f"{100 * share:.0f} % of what it can serve"
        )
    return BreakEven(deal, f"{api.provider} API", "utilisation_fraction", share, sentence)


def _against_rent(option: OwnedOption, rented: str, rent_per_hour: float) -> list[BreakEven]:
    cost: Tco = option.tco
    deal, other = f"owning {_own_deal(option)}", f"renting {rented}"
    months = crossing.payback_months(
        cost.purchase_usd, rent_per_hour * HOURS_PER_MONTH, cost.running_usd_per_month
    )
    energy_per_hour = cost.energy_usd_per_month / HOURS_PER_MONTH
    fixed_per_day = (cost.usd_per_hour - energy_per_hour) * HOURS_PER_DAY
    hours = crossing.hours_per_day_worth_owning(fixed_per_day, rent_per_hour, energy_per_hour)
    paid = (
        f"{deal} has paid for itself after {months:.0f} months against {other} all the time"
        if months is not None
        else f"{deal} never pays for itself against {other}: running it costs as much"
    )
    if months is not None and months > 12 * cost.life_years:
        paid += f", longer than its {cost.life_years:g} years"
    worth = (
        f"{deal} is cheaper than {other} from {hours:.1f} hours of use a day on"
        if hours is not None
        else f"{deal} is dearer than {other} even around the clock"
    )
    return [
        BreakEven(deal, other, "months", months, paid),
        BreakEven(deal, other, "hours_per_day", hours, worth),
    ]
