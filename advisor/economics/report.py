"""The whole answer about money: one search on the market, priced by every way to get the tokens."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.catalog import accelerators
from advisor.catalog.api_prices import api_prices_as_of, priced_models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.ownership import Ownership, ownership, purchase_price
from advisor.catalog.prices import STALE_AFTER_DAYS
from advisor.catalog.regions import DEFAULT_REGION, get_region, region_of_offer
from advisor.catalog.schema.economics import Region
from advisor.catalog.units import HOURS_PER_DAY, HOURS_PER_MONTH
from advisor.decide.race import Report
from advisor.economics.api_bill import ApiCost, api_cost, models_alike
from advisor.economics.carbon import Footprint, footprint
from advisor.economics.decisions import break_evens, ways
from advisor.economics.fleets import fleet_costs
from advisor.economics.loads import load_points
from advisor.economics.market import Market, survey
from advisor.economics.owned import owned_options
from advisor.economics.power_limits import power_limits
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostReport, CostRow, OwnedOption, PowerLimit
from advisor.economics.rows import tokens_of
from advisor.economics.swings import owned_swings, rented_swings
from advisor.economics.words import headline, warnings_of

METHOD = (
    "Prompt tokens pay the time that their prefill adds and the reading of their cache while the answer is decoded; "
    "cached prompt tokens pay the attention to them and the same reading; answer tokens pay their share of the decode "
    "iterations and the reading of their own cache. Idle time is shared in proportion, so that the three prices times "
    "their tokens are the bill of the whole deployment."
)
_COMPARED_REGIONS = ("sweden", "us-virginia", "india")


@dataclass(frozen=True, slots=True)
class _Owned:
    """Options of one's own, and what their sensitivity needs."""

    options: tuple[OwnedOption, ...]
    market: Market
    note: str = ""
    """Why what the user named is not among the options."""


def cost_report(question: CostQuestion, *, progress: Report = lambda message: None) -> CostReport:
    """What tokens cost: rented, owned and through an API, by provider, precision and load, with what would change it.

    Capacities come from the simulator; prices, lists and figures of ownership from the catalog or the user's files.

    Raises: AdvisorError and its kinds: nothing serves the model, a name is unknown, or a file is wrong.
    """
    started = time.perf_counter()
    scenario = question.scenario
    home, home_note = get_region(question.region or DEFAULT_REGION)
    known = _known(question)
    if question.region is not None:
        known = known.with_electricity_of(home)
    market = survey(question, known, progress)
    best = market.rows[0]
    owned = _owned(question, market, known, home, progress)
    apis, api_note = _apis(question, market)
    tokens_per_day = question.tokens_per_day or best.tokens_per_day
    fleets = fleet_costs(question, market, known)
    found, bought = None, None
    if owned.options:
        found = owned.market.found_of(owned.options[0].row)
        bought = purchase_price(known, found.candidate.deployment.accelerator)
    report = CostReport(
        kind="report",
        currency="USD",
        model=market.model.id,
        headline="",
        rows=market.rows,
        api=apis,
        ways=ways(
            _cheapest_of_each(market.rows), fleets, owned.options, apis, api_tokens_per_day=tokens_per_day
        ),
        fleet=tuple(each.cost for each in fleets),
        load=load_points(question, market, best),
        tco=owned.options[0].tco if owned.options else None,
        owned=owned.options,
        power_limits=_power_limits(question, owned, known, home),
        sensitivity=rented_swings(best, [row for row in market.rows if row.accelerator == best.accelerator]),
        owned_sensitivity=owned_swings(owned.options[0], found, bought, known) if found and bought else (),
        break_even=break_evens(best, owned.options, apis, market.rent_instead),
        carbon=_carbon(question, best, home, tokens_per_day),
        method=METHOD,
        rejected=market.rejected,
        counts=replace(market.counts, wall_s=time.perf_counter() - started),
        volume=_volume(question, best),
        notes=tuple(note for note in (market.note, home_note, api_note, owned.note) if note),
    )
    return replace(
        report,
        headline=headline(report, market.model, question),
        warnings=warnings_of(report, scenario.as_of, STALE_AFTER_DAYS),
    )


def _known(question: CostQuestion) -> Ownership:
    """What owning rests on.

    Raises: AdvisorError: hardware is named of which nobody states what it costs to buy.
    """
    known = ownership(question.scenario.as_of, question.assumptions_file)
    if question.own is None:
        return known
    record = accelerators.by_id(question.own[1])
    if question.purchase_usd is not None:
        return known.with_purchase(record, question.purchase_usd, question.scenario.as_of)
    if purchase_price(known, record) is None:
        raise AdvisorError(
            f"what {record.id} costs to buy is not known",
            why="no source of the catalog states a price of it, and none is guessed",
            fix=f"--purchase-price USD of one, or `[purchase]` and `{record.id} = USD` in a file of --assumptions",
        )
    return known


def _owned(
    question: CostQuestion, market: Market, known: Ownership, home: Region, progress: Report
) -> _Owned:
    """Deployments on hardware of one's own: those of the market that have a purchase price, or what --own names."""
    count = None
    if question.own is not None:
        count = question.own[0]
        market = survey(question, known, progress, own=question.own)
    elif not any(purchase_price(known, found.candidate.deployment.accelerator) for found in market.best):
        return _Owned((), market)
    options = owned_options(
        market.best, question.scenario, known, served=market.served, region=home.id, count=count
    )
    note = ""
    if question.own is not None and not options:
        size = market.best[0].candidate.deployment.accelerators_per_replica
        note = f"{count} x {question.own[1]} of one's own cannot carry this load: a replica takes {size}, and the load "
        note += f"more than {(count or 0) // size} of them; --own with more, or a smaller load"
    return _Owned(options, market, note)


def _power_limits(
    question: CostQuestion, owned: _Owned, known: Ownership, home: Region
) -> tuple[PowerLimit, ...]:
    if not owned.options and question.power_cap:
        raise AdvisorError(
            "--levers power-cap is for hardware of one's own, and none is among the answers",
            why=owned.note or "none that carries the load has a purchase price",
            fix="--own 8xh100-sxm",
        )
    if not owned.options:
        return ()
    found = owned.market.found_of(owned.options[0].row)
    bought = purchase_price(known, found.candidate.deployment.accelerator)
    count = question.own[0] if question.own else None
    served, scenario = owned.market.served, question.scenario
    return (
        power_limits(
            found,
            bought,
            scenario,
            known,
            served=served,
            region=home.id,
            count=count,
            power_cap=question.power_cap,
        )
        if bought
        else ()
    )


def _apis(question: CostQuestion, market: Market) -> tuple[tuple[ApiCost, ...], str]:
    """List prices of the model, or of one with the same layers, cheapest for this mix first."""
    if question.apis == ():
        return (), ""
    alike = models_alike(market.model, priced_models(question.api_price_file))
    prices = api_prices_as_of(
        question.scenario.as_of, alike, providers=question.apis, user_file=question.api_price_file
    )
    traffic = question.scenario.traffic
    tokens = tokens_of(traffic, traffic.reused_input_tokens / traffic.mean_input_tokens)
    as_of = question.scenario.as_of
    costs = [api_cost(price, tokens, max(0, (as_of - price.observed_on).days)) for price in prices]
    note = (
        "" if costs else f"no API in the catalog lists {market.model.id}: --api-price-file adds your own rows"
    )
    others = sorted({cost.model for cost in costs} - {market.model.id})
    if others:
        note = f"API prices are of {', '.join(others)} too: the same layers as {market.model.id}, so the same work"
    return tuple(sorted(costs, key=lambda cost: (cost.usd_per_million_tokens, cost.provider))), note


def _cheapest_of_each(rows: Sequence[CostRow]) -> list[CostRow]:
    """The cheapest row of every accelerator."""
    best: dict[str, CostRow] = {}
    for row in rows:
        best.setdefault(row.accelerator, row)
    return list(best.values())


def _carbon(
    question: CostQuestion, row: CostRow, home: Region, tokens_per_day: float
) -> tuple[Footprint, ...]:
    """Energy and emissions of the cheapest rented deployment where it stands, at home, and on three other grids."""
    stands = region_of_offer(row.region)
    regions = {region.id: region for region in (stands, home) if region is not None}
    for name in _COMPARED_REGIONS:
        regions.setdefault(name, get_region(name)[0])
    tokens_per_month = tokens_per_day * HOURS_PER_MONTH / HOURS_PER_DAY
    return tuple(
        footprint(row.kwh_per_million_tokens, tokens_per_month, region) for region in regions.values()
    )


def _volume(question: CostQuestion, best: CostRow) -> dict[str, float]:
    mean = question.mean_rate_per_s or best.requests_per_s
    return {
        "tokens_per_day": question.tokens_per_day or best.tokens_per_day,
        "mean_requests_per_s": mean,
        "peak_requests_per_s": question.peak_rate_per_s or best.requests_per_s,
        "input_tokens": float(question.scenario.traffic.mean_input_tokens),
        "output_tokens": float(question.scenario.traffic.mean_output_tokens),
    }
