"""The whole answer about money: the decision of `recommend`, priced by every way to get the same tokens."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from advisor.catalog import accelerators
from advisor.catalog.api_prices import api_prices_as_of, endings_of, priced_models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.ownership import USER, Ownership, ownership, purchase_price
from advisor.catalog.regions import DEFAULT_REGION, get_region, home_region, region_of_offer, regions_among
from advisor.catalog.schema import Model
from advisor.catalog.schema.economics import Region
from advisor.catalog.units import HOURS_PER_DAY, HOURS_PER_MONTH
from advisor.decide.changes import compare_first
from advisor.decide.decision import NotTaken
from advisor.decide.effort import SHOW_WORK, limit_effort
from advisor.decide.offers import owned_offers
from advisor.decide.race import WIDTH, Report
from advisor.decide.reason import ServiceEnded
from advisor.decide.recommend import Shortlist, build_shortlist, search_scenario
from advisor.decide.served_option import tight_memory_notes
from advisor.economics.api_bill import ApiCost, api_cost, models_alike
from advisor.economics.carbon import Footprint, footprint
from advisor.economics.decisions import break_evens, ways
from advisor.economics.fleets import fleet_costs
from advisor.economics.loads import load_points
from advisor.economics.owned import named_hardware, systems_to_buy
from advisor.economics.power_limits import power_limits
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostReport, CostRow, LimitedDeployment
from advisor.economics.row import Priced, cost_row, tokens_of
from advisor.economics.swings import owned_swings, rented_swings
from advisor.economics.what_if import CostTerms, terms_of
from advisor.economics.words import headline, warnings_of

METHOD = (
    "Prompt tokens pay the time that their prefill adds and the reading of their cache while the output is decoded; "
    "cached prompt tokens pay the attention to them and the same reading; output tokens pay their share of the decode "
    "iterations and the reading of their own cache. Idle time is shared in proportion, so that the three prices times "
    "their tokens are the bill of the whole deployment."
)
_COMPARED_REGIONS = ("sweden", "us-virginia", "india")


@dataclass(frozen=True, slots=True)
class PricedReport:
    """A report, and the terms from which its ways follow at other volumes and prices; None without a volume."""

    report: CostReport
    terms: CostTerms | None


def priced_report(question: CostQuestion, *, progress: Report = lambda message: None) -> PricedReport:
    """Return what tokens cost rented, owned and through an API, what would change it, and its terms.

    Rows are the options that `recommend` gives for the same question. Prices, lists and figures of ownership are those
    of the catalog or of the user's files.

    Raises: AdvisorError and its kinds: nothing serves the model, a name is unknown, or a file is wrong.
    """
    started = time.perf_counter()
    home, home_note = home_of(question)
    known, tariff_note = _ownership_at(question, home)
    _check_power(question)
    done = search_scenario(question.rented, progress=progress, suggests=True)
    question = question.within_window(done.scenario)
    with limit_effort(SHOW_WORK):
        found = build_shortlist(done)
        rented = _price_rented(found, question, known)
        rows = tuple(each.row for each in rented[: question.scenario.top])
        owned, owned_note = _price_owned(found, question, known, progress)
        limits = _power_limits(owned, owned_note, question, known)
        loads = load_points(question, rented[0])
    owned_rows = tuple(each.row for each in owned)
    apis, ended, api_note = _apis(question, done.model)
    tokens_per_day = question.volume or rows[0].tokens_per_day
    tight = tight_memory_notes(found.options[: question.scenario.top])
    fleets = fleet_costs(question, rented, known)
    report = CostReport(
        kind="report",
        currency="USD",
        model=done.model.id,
        headline="",
        rows=rows,
        safe_pick=found.safe_pick,
        comparisons=compare_first(found.entries[: len(rows)]),
        api=apis,
        ways=ways(rows, fleets, owned_rows, apis, api_tokens_per_day=tokens_per_day),
        fleet=tuple(each.cost for each in fleets),
        load=loads,
        tco=owned_rows[0].tco if owned_rows else None,
        owned=owned_rows,
        power_limits=limits,
        sensitivity=rented_swings(rented[0]),
        owned_sensitivity=owned_swings(owned[0], known) if owned else (),
        break_even=break_evens(rows, owned_rows, apis),
        carbon=_carbon(rows[0], home, question.scenario.constraints.home_places, tokens_per_day),
        method=METHOD,
        rejected=found.rejected,
        not_taken=(*found.not_taken, *ended),
        counts=done.counts(time.perf_counter() - started),
        volume=_volume(question, rows[0]),
        notes=tuple(filter(None, (*done.notes, home_note, tariff_note, api_note, owned_note, *tight))),
    )
    report = replace(
        report,
        headline=headline(report, done.model, question),
        warnings=warnings_of(report, question.scenario.as_of),
    )
    has_volume = question.volume is not None
    return PricedReport(report, terms_of(question, rented, owned, apis, known) if has_volume else None)


def _check_power(question: CostQuestion) -> None:
    """Refuse a power budget that feeds none of the user's hardware before anything is searched.

    Raises: InfeasibleError: it feeds none at full power, and no power limit is asked for.
    """
    if question.own is None or question.power_cap:
        return
    scenario = question.scenario
    chip = accelerators.by_id(question.own[1])
    owned_offers((question.own,), {chip.id: chip}, scenario.as_of, scenario.constraints.power_budget_w)


def _price_rented(found: Shortlist, question: CostQuestion, known: Ownership) -> list[Priced]:
    """Return the options of a decision with the prices of their tokens."""
    return [
        Priced(cost_row(plan, option, question, known), plan)
        for plan, option in zip(found.entries, found.options, strict=False)
    ]


def home_of(question: CostQuestion) -> tuple[Region, str]:
    """Return the grid on which machines of one's own stand, and a note where it is that of several places, or where no
    source states that of the named one."""
    names = question.scenario.constraints.home_places
    found = home_region(names)
    places = [place.name for place in regions_among(names)]
    if found is not None and len(places) > 1 and question.electricity_usd_per_kwh is None:
        shown = ", ".join(places)
        return (
            found,
            f"machines of one's own are charged the mean electricity of {shown}: --electricity says another",
        )
    home = get_region(DEFAULT_REGION)[0]
    if found is not None or not names:
        return found or home, ""
    return home, f"no source states the grid of {names[0]}: carbon and electricity are those of {home.name}"


def _ownership_at(question: CostQuestion, home: Region) -> tuple[Ownership, str]:
    """Return what owning rests on, with the tariff of the place, and a note where no source states that tariff.

    Raises: AdvisorError: hardware is named of which no source states what it costs to buy.
    """
    known = ownership(question.scenario.as_of, question.assumptions_file)
    note = ""
    as_of = question.scenario.as_of
    if question.years is not None:
        known = known.with_user_value("life_years", question.years, as_of)
    if question.electricity_usd_per_kwh is not None:
        known = known.with_user_value("electricity_usd_per_kwh", question.electricity_usd_per_kwh, as_of)
    if question.scenario.constraints.home_places:
        before = known.assumptions["electricity_usd_per_kwh"]
        known = known.with_electricity_of(home)
        if home.electricity_usd_per_kwh is None and before.source != USER:
            note = (
                f"no source states what electricity costs in {home.name}: {before.value:g} USD/kWh is the mean of "
                "the United States; --electricity says another"
            )
    if question.own is None:
        return known, note
    record = accelerators.by_id(question.own[1])
    if question.purchase_usd is not None:
        return known.with_purchase(record, question.purchase_usd, question.scenario.as_of), note
    if purchase_price(known, record) is None:
        raise AdvisorError(
            f"what {record.id} costs to buy is not known",
            why="no source of the catalog states a price of it, and none is guessed",
            fix=f"--purchase-price USD of one, or `[purchase]` and `{record.id} = USD` in a file of --assumptions",
        )
    return known, note


def _price_owned(
    found: Shortlist, question: CostQuestion, known: Ownership, progress: Report
) -> tuple[tuple[Priced, ...], str]:
    """Return the hardware that the question names, else systems that can be bought, and a note.

    The first five entries are looked at however many are shown, so that the headline does not depend on it. What can be
    bought does not depend on where, by whom and how machines are rented out.
    """
    if question.own is not None:
        return _price_named(question, known, progress)
    anywhere = question.anywhere
    if anywhere is not None:
        with contextlib.suppress(InfeasibleError):
            found = build_shortlist(search_scenario(anywhere, progress=progress))
    pairs = zip(found.entries[:WIDTH], found.options, strict=False)
    return systems_to_buy(pairs, question, known), ""


def _price_named(
    question: CostQuestion, known: Ownership, progress: Report
) -> tuple[tuple[Priced, ...], str]:
    """Return the hardware that the question names, or a note why it cannot carry the load.

    Raises: InfeasibleError: it takes no power limit that is asked for.
    """
    assert question.own is not None
    count, name = question.own
    try:
        found, note = named_hardware(question, known, progress=progress)
    except InfeasibleError as error:
        if question.power_cap:
            raise
        what = f"{count} x {name} of one's own cannot carry this load"
        return (), f"{what}: {error.why or error.what}; --own with more, or a smaller load"
    return () if found is None else (found,), note


def _power_limits(
    owned: tuple[Priced, ...], note: str, question: CostQuestion, known: Ownership
) -> tuple[LimitedDeployment, ...]:
    """Return the power limits of the first owned option.

    Raises: AdvisorError: a limit is asked for, and no hardware of one's own is among the answers.
    """
    if not owned and question.power_cap:
        raise AdvisorError(
            "--levers power-cap is for hardware of one's own, and none is among the answers",
            why=note or "none that carries the load has a purchase price",
            fix="--own 8xh100-sxm",
        )
    return power_limits(owned[0], question, known) if owned else ()


def _apis(question: CostQuestion, model: Model) -> tuple[tuple[ApiCost, ...], tuple[NotTaken, ...], str]:
    """Return list prices of the model, or of one with the same layers, cheapest for this mix first; providers whose
    listed service has ended; and a note."""
    if question.apis == ():
        return (), (), ""
    limits = question.scenario.constraints
    has_place = bool(limits.countries or limits.regions)
    if question.apis is None and has_place:
        return (
            (),
            (),
            "APIs are left out: no source states where they compute; --api NAME takes one whose place you know",
        )
    alike = models_alike(model, priced_models(question.api_price_file))
    as_of = question.scenario.as_of
    traffic = question.scenario.traffic
    prices = api_prices_as_of(as_of, alike, providers=question.apis, user_file=question.api_price_file)
    tokens = tokens_of(traffic, traffic.reused_input_tokens / traffic.mean_input_tokens)
    costs = [api_cost(price, tokens, max(0, (as_of - price.observed_on).days)) for price in prices]
    alive = {cost.provider for cost in costs}
    asked = None if question.apis is None else {name.lower() for name in question.apis}
    ended = tuple(
        NotTaken("--api", each.provider, ServiceEnded(each.ended_on.isoformat(), each.model, each.url))
        for each in endings_of(as_of, alike)
        if each.provider not in alive and (asked is None or each.provider in asked)
    )
    note = (
        ""
        if costs or ended
        else f"no API in the catalog lists {model.id}: --api-price-file adds your own rows"
    )
    if costs and has_place:
        note = f"no source states where {' and '.join(sorted({cost.provider for cost in costs}))} compute: ask them"
        return _cheapest_apis(costs), ended, note
    others = sorted({cost.model for cost in costs} - {model.id})
    if others:
        note = f"API prices are of {', '.join(others)} too: the same layers as {model.id}, so the same work"
    return _cheapest_apis(costs), ended, note


def _cheapest_apis(costs: Iterable[ApiCost]) -> tuple[ApiCost, ...]:
    return tuple(sorted(costs, key=lambda cost: (cost.usd_per_million_tokens, cost.provider)))


def _carbon(row: CostRow, home: Region, names: Sequence[str], tokens_per_day: float) -> tuple[Footprint, ...]:
    """Return energy and emissions of the first option where it stands, at home, and on other grids: those of least and
    most carbon among the places of the question, or else three apart; none where no source states the power of its
    accelerator."""
    if row.kwh_per_million_tokens is None:
        return ()
    offer = row.option.offer
    stands = region_of_offer(offer.region, offer.country) if offer else None
    regions = {region.id: region for region in (stands, home) if region is not None}
    allowed = sorted(regions_among(names), key=lambda each: each.kg_co2e_per_kwh)
    others = (
        [allowed[0], allowed[-1]]
        if names and allowed
        else [get_region(each)[0] for each in _COMPARED_REGIONS]
    )
    for region in others:
        regions.setdefault(region.id, region)
    per_month = tokens_per_day * HOURS_PER_MONTH / HOURS_PER_DAY
    return tuple(footprint(row.kwh_per_million_tokens, per_month, region) for region in regions.values())


def _volume(question: CostQuestion, row: CostRow) -> dict[str, float]:
    traffic = question.scenario.traffic
    return {
        "tokens_per_day": question.volume or row.tokens_per_day,
        "mean_requests_per_s": row.mean_requests_per_s,
        "peak_requests_per_s": row.mean_requests_per_s / question.mean_over_peak,
        "input_tokens": float(traffic.mean_input_tokens),
        "output_tokens": float(traffic.mean_output_tokens),
    }
