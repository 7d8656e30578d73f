"""Hardware for sale or already owned within the limits of a scenario, and how replicas fit on it: SKUs hold whole
nodes, and a user who rents eight accelerators pays for eight.
"""

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership, ownership
from advisor.catalog.prices import (
    COMPARED_KINDS,
    STALE_AFTER_DAYS,
    PriceSpread,
    age_days,
    all_providers,
    price_age_days,
    prices_as_of,
    spread_of,
)
from advisor.catalog.regions import home_region
from advisor.catalog.schema import Accelerator, Calibration, Price
from advisor.catalog.schema.price import Tenancy, Term
from advisor.catalog.units import KILO, plain_number
from advisor.decide.option import Machine, Offer, with_terms
from advisor.decide.scenario import Constraints, Market
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.deployment import Deployment

OWN = "own"
"""Provider of hardware that is already there."""
NO_SPREAD: Final = PriceSpread(0.0, 0.0)
"""Spread of a price that has not moved."""
ROUNDING: Final = 1e-9
"""Relative error of products and quotients of a few factors: whole numbers and limits are reached within it."""
COUNTRY_LETTERS = 2
_LEAST_USD_PER_HOUR = 1e-6
"""Price of boards whose draw is not known: above zero, so that fewer of them always cost less."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One way to buy a replica size: the SKU, and what one replica costs on it."""

    price: Price
    replicas_per_unit: int
    """Replicas on one purchase unit (an SKU, a group of SKUs, or single accelerators of one node)."""
    accelerators_per_unit: int
    usd_per_unit_hour: float
    max_units: int | None = None
    """Largest number of units on offer; None if the provider does not state it."""
    min_units: int = 1
    """Least order."""
    num_workers: int = 1
    """Number of workers of a fleet that is bought as one; the fleet grows by single workers. 1 for a plain replica."""
    has_spare: bool = False
    """Whether one more of each of its workers is part of it."""

    @property
    def usd_per_replica_hour(self) -> float:
        """Price of the part of a unit that one replica takes [USD/h]."""
        return self.usd_per_unit_hour / self.replicas_per_unit


def price_spread_of(price: Price, as_of: datetime.date) -> PriceSpread:
    """How far a price may have moved by a day; that of one's own electricity has not."""
    return NO_SPREAD if price.provider == OWN else spread_of(price, as_of)


def offers_by_accelerator(
    market: Market, as_of: datetime.date, regions: Sequence[str] = ()
) -> dict[str, tuple[Price, ...]]:
    """Return the prices on a day in these regions or anywhere, by accelerator id, cheapest per accelerator first.

    Raises: UnknownNameError: a provider is not known. InputFileError: the price file is wrong.
    Source: catalog.prices; the newest row of each offer.
    """
    rows = prices_as_of(
        as_of,
        providers=market.providers or None,
        terms=market.terms,
        accelerators=market.accelerators or None,
        kinds=COMPARED_KINDS,
        tenancies=market.tenancies or None,
        user_file=market.price_file,
        cache_dir=market.price_cache,
    )
    grouped: dict[str, list[Price]] = defaultdict(list)
    most = {name: count for count, name in market.most_rented}
    for row in rows:
        if _is_there(row, market.countries, regions) and _is_recent(row, market, as_of):
            grouped[row.accelerator].append(_with_limit(row, most.get(row.accelerator)))
    return {name: tuple(found) for name, found in grouped.items()}


_MOST_NAMED: Final = 6
"""Accelerators that a note names one by one."""


def place_note(market: Market, as_of: datetime.date, providers: Sequence[str], regions: Sequence[str]) -> str:
    """Return which accelerators providers rent elsewhere, at prices that are not known for the places of a question;
    empty where places are not limited or nothing else is rented.

    Source: prices of one provider differ by place, and sources list some places in part.
    """
    if not (market.countries or regions):
        return ""
    asked = market.model_copy(update={"providers": tuple(sorted(providers))})
    anywhere = asked.model_copy(update={"countries": ()})
    known = offers_by_accelerator(asked, as_of, regions)
    others = sorted(set(offers_by_accelerator(anywhere, as_of)).difference(known))
    if not others:
        return ""
    named = (*market.countries, *regions)
    places = ", ".join(named) if len(named) <= _MOST_NAMED else "the places of the question"
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return (
        f"in {places}, prices of {', '.join(sorted(known))} alone are known of {' and '.join(asked.providers)}; "
        f"{', '.join(others[:_MOST_NAMED])}{more} are priced elsewhere and may be rented there too: --price-file takes "
        "their prices"
    )


def _with_limit(price: Price, most: int | None) -> Price:
    """Return an offer with a largest order of `most` accelerators; None leaves the provider's own limit."""
    if most is None:
        return price
    return price.model_copy(update={"max_quantity": min(most, price.max_quantity or most)})


def _is_there(price: Price, countries: Sequence[str], regions: Sequence[str]) -> bool:
    if countries and price.country not in countries:
        return False
    return not regions or any(is_in_region(price, name) for name in regions)


def is_in_region(price: Price, name: str) -> bool:
    """Whether an offer is in a country, or in a region whose name begins so; two letters are a country."""
    region = price.region.lower()
    if len(name) <= COUNTRY_LETTERS:
        return name in (price.country.lower(), region) or region.startswith(f"{name}-")
    return region.startswith(name)


def _is_recent(price: Price, market: Market, as_of: datetime.date) -> bool:
    most = market.max_price_age_days
    return most is None or (price.is_dated and age_days(price, as_of) <= most)


def owned_offers(
    own: Iterable[tuple[int, str]],
    accelerators: Mapping[str, Accelerator],
    as_of: datetime.date,
    power_budget_w: float | None = None,
    *,
    may_be_none: bool = False,
    places: Sequence[str] = (),
) -> dict[str, tuple[Price, ...]]:
    """Return the owned accelerators by id: of each kind as many as the power budget feeds.

    Raises: InfeasibleError: it feeds none, and that is not told otherwise.
    """
    found: dict[str, tuple[Price, ...]] = {}
    for count, name in own:
        fed = count_within_power(power_budget_w, count, accelerators[name], as_of)
        if fed:
            offer = owned_offer(fed, accelerators[name], as_of, places)
            offer = offer.model_copy(update={"max_quantity": count})
            found[name] = (*found.get(name, ()), offer)
    if found or power_budget_w is None or may_be_none:
        return found
    draws = [accelerators[name] for _, name in own]
    stated = [ownership(as_of).system_power_w(each.tdp_w) for each in draws if each.tdp_w]
    raise InfeasibleError(
        f"{power_budget_w / KILO:g} kW feed none of {', '.join(each.id for each in draws)}",
        why=f"one draws {plain_number(min(stated) / KILO)} kW with its part of the host"
        if stated
        else "no source states what one draws",
        fix=f"--power-budget {math.ceil(min(stated))}W or more" if stated else "drop --power-budget",
    )


def count_within_power(
    power_budget_w: float | None, count: int, accelerator: Accelerator, as_of: datetime.date
) -> int:
    """Return how many of `count` accelerators a power budget feeds, hosts included: all without a budget, 0 if no
    source states the power of one accelerator.

    Assumes: board power at its limit.
    Source: system_power_factor of catalog.ownership.
    """
    if power_budget_w is None:
        return count
    one_w = ownership(as_of).system_power_w(accelerator.tdp_w or 0.0)
    return min(count, int(power_budget_w / one_w * (1.0 + ROUNDING))) if one_w else 0


def offers_under_limit(
    constraints: Constraints, accelerator: Accelerator, as_of: datetime.date
) -> tuple[Price, ...]:
    """Return the owned accelerators of one kind, with the power limit of this record; empty if the power budget
    feeds none."""
    own = [each for each in constraints.own if each[1] == accelerator.id]
    limit_w = constraints.power_budget_w
    named = {accelerator.id: accelerator}
    found = owned_offers(own, named, as_of, limit_w, may_be_none=True, places=constraints.home_places)
    return found.get(accelerator.id, ())


def local_ownership(places: Sequence[str], as_of: datetime.date) -> Ownership:
    """Return the catalog's figures of ownership, with the tariff of these places, or the mean of theirs."""
    home = home_region(places)
    known = ownership(as_of)
    return known if home is None else known.with_electricity_of(home)


def owned_offer(
    count: int, accelerator: Accelerator, as_of: datetime.date, places: Sequence[str] = ()
) -> Price:
    """Hardware that is already there, at the price of its electricity in these places.

    Assumes: board power at its limit.
    Source: own definition; hosts, cooling and tariff as in catalog.ownership.
    """
    known = local_ownership(places, as_of)
    usd_per_hour = known.energy_usd_per_hour(count * (accelerator.tdp_w or 0.0))
    return Price(
        provider=OWN,
        sku=f"{count}x{accelerator.id}",
        region="",
        accelerator=accelerator.id,
        num_accelerators=count,
        term="on_demand",
        usd_per_hour=max(_LEAST_USD_PER_HOUR, usd_per_hour),
        observed_on=as_of,
        valid_from=as_of,
    )


def offer_of(price: Price, as_of: datetime.date) -> Offer | None:
    """The offer of a price as answers show it; None for hardware that is already there."""
    if price.provider == OWN:
        return None
    return Offer(
        provider=price.provider,
        sku=price.sku,
        region=price.region,
        country=price.country,
        term=price.term,
        kind=price.price_kind,
        tenancy=price.tenancy,
        usd_per_hour=price.usd_per_hour,
        accelerators_per_unit=price.num_accelerators,
        observed_on=price.observed_on.isoformat() if price.is_dated else "",
        age_days=price_age_days(price, as_of),
        url=price.url,
        min_quantity=price.min_quantity,
        max_quantity=price.max_quantity,
        storage_usd_per_gb_hour=price.storage_usd_per_gb_hour,
        egress_usd_per_gb=price.egress_usd_per_gb,
    )


def machine_of(way: Placement, num_units: int, power_limit_w: float | None = None) -> Machine:
    """Return the accelerators of `num_units` units of an offer, and the nodes that hold them.

    Single accelerators that are rented together stand in one node; boards of one's own fill nodes of their kind.
    """
    count = num_units * way.accelerators_per_unit
    unit = way.price.num_accelerators
    name = way.price.accelerator
    each = unit if 1 < unit < way.accelerators_per_unit else way.accelerators_per_unit
    if way.price.provider == OWN:
        there = way.price.max_quantity or unit
        each = min(there, accelerator_catalog.by_id(name).node_size)
    return Machine(name, count, each, math.ceil(count / each), power_limit_w)


def placements(size: int, offers: Iterable[Price], accelerator: Accelerator) -> list[Placement]:
    """Ways to buy replicas of `size` accelerators, cheapest per replica first.

    A replica stays inside one node where it can: several replicas share a larger SKU; a price per accelerator is
    multiplied within one node; only full nodes are joined, and only with a network between them.
    """
    domain = accelerator.fast_group_size
    node = accelerator.node_size
    found = []
    for price in offers:
        if price.provider == OWN:
            if size <= price.num_accelerators:
                found.append(_owned_placement(price, size))
            continue
        price = _least_rented(price)
        count = price.num_accelerators
        if size <= count:
            found.append(_placement(price, count // size, count, 1))
        elif count == 1 and size <= max(node, domain) and _sold_singly(price):
            found.append(_placement(price, 1, size, size))
        elif size % count == 0 and count >= min(node, domain) and accelerator.scale_out_bytes_per_s:
            found.append(_placement(price, 1, size, size // count))
    able = [one for one in found if one.max_units is None or one.max_units >= one.min_units]
    return sorted(able, key=lambda placement: placement.usd_per_replica_hour)


def cheapest_placement(
    deployment: Deployment,
    as_of: datetime.date,
    *,
    term: Term,
    provider: str | None,
    price_cache: Path | None,
) -> Placement | None:
    """Return the cheapest way to rent a replica of a deployment; None if no offer holds one.

    Raises: UnknownNameError: the provider is not known.
    """
    market = Market(
        accelerators=(deployment.accelerator.id,),
        providers=(provider,) if provider else (),
        terms=(term,),
        price_cache=price_cache,
    )
    offers = offers_by_accelerator(market, as_of).get(deployment.accelerator.id, ())
    found = placements(deployment.accelerators_per_replica, offers, deployment.accelerator)
    return found[0] if found else None


def _placement(price: Price, replicas: int, accelerators: int, num_skus: int) -> Placement:
    """One way to buy, within the least and the largest order that the seller states."""
    most = price.max_quantity
    least = price.min_quantity or 1
    limit = None if most is None else most // accelerators
    return Placement(
        price, replicas, accelerators, num_skus * price.usd_per_hour, limit, max(1, -(-least // accelerators))
    )


def _owned_placement(price: Price, size: int) -> Placement:
    """One replica on boards of one's own, at the electricity that they draw at their power limit.

    Assumes: boards on which nothing runs are switched off.
    """
    return Placement(
        price,
        replicas_per_unit=1,
        accelerators_per_unit=size,
        usd_per_unit_hour=size * price.usd_per_hour / price.num_accelerators,
        max_units=price.num_accelerators // size,
    )


def _least_rented(price: Price) -> Price:
    """The price of the least that can be rented, where it is quoted per accelerator but sold by the node."""
    provider = all_providers().get(price.provider)
    if provider is None or provider.node_of <= price.num_accelerators:
        return price
    factor = provider.node_of // price.num_accelerators
    return price.model_copy(
        update={"num_accelerators": provider.node_of, "usd_per_hour": price.usd_per_hour * factor}
    )


def _sold_singly(price: Price) -> bool:
    provider = all_providers().get(price.provider)
    return provider is not None and provider.sells_singly(price.accelerator)


def named_accelerators(constraints: Market) -> tuple[Accelerator, ...]:
    """Return the accelerators that a question names, as its own or as those to rent; none if it names none.

    Raises: UnknownNameError: one is not known.
    """
    names = [name for _, name in constraints.own] or constraints.accelerators
    return tuple(map(accelerator_catalog.by_id, names))


def market(
    constraints: Constraints,
    as_of: datetime.date,
    calibration: Calibration | None,
    *,
    may_draw_less: bool = False,
) -> tuple[Mapping[str, tuple[Price, ...]], dict[str, Accelerator]]:
    """Offers and records by accelerator id; own hardware is offered at the price of its electricity. `may_draw_less`:
    its boards may be held to less power, so that a budget may feed them that feeds none now.

    Raises: UnknownNameError: an accelerator or provider is not known. InputFileError: the price file is wrong.
        InfeasibleError: the power budget feeds no own hardware.
    """
    records = named_accelerators(constraints)
    chips = {
        record.id: calibrated_accelerator(record, calibration)
        for record in records or accelerator_catalog.all_accelerators()
    }
    if not constraints.own:
        return offers_by_accelerator(constraints, as_of, constraints.regions), chips
    limit_w = constraints.power_budget_w
    found = owned_offers(
        constraints.own, chips, as_of, limit_w, may_be_none=may_draw_less, places=constraints.home_places
    )
    return found, chips


def sold_values(
    constraints: Constraints, as_of: datetime.date, field: Literal["terms", "tenancies"]
) -> tuple[str, ...]:
    """Return the terms, or the tenancies, at which something is for sale within the other limits."""
    everything = get_args(Term) if field == "terms" else get_args(Tenancy)
    loose = constraints.model_copy(update={field: everything})
    sold = offers_by_accelerator(loose, as_of, loose.regions).values()
    prices = (price for found in sold for price in found)
    return tuple(sorted({price.term if field == "terms" else price.tenancy for price in prices}))


def placeless_note(constraints: Constraints, as_of: datetime.date) -> str:
    """Return how many prices of the terms of a question state no place, where the question asks for one and none is
    there; empty where all do, or where nothing is for sale anywhere."""
    if not constraints.countries:
        return ""
    anywhere = constraints.model_copy(update={"countries": ()})
    sold = offers_by_accelerator(anywhere, as_of).values()
    prices = [price for found in sold for price in found]
    unknown = sum(not price.country for price in prices)
    if not unknown or any(price.country in constraints.countries for price in prices):
        return ""
    terms = ", ".join(term.replace("_", "-") for term in constraints.terms)
    return (
        f"{unknown} of {len(prices)} prices of the term {terms} state no place: where they stand, nothing shows that "
        "they keep --residency"
    )


def seller_words(offer: Offer) -> str:
    """Return the provider's name with place and term, and the kind of price unless it is a list price or quote:
    `TensorWave (spot, tracker price)`."""
    known = all_providers().get(offer.provider)
    kind = "" if offer.is_listed else f"{offer.kind.replace('_', ' ')} price"
    return with_terms(known.name if known else offer.provider, offer.region, offer.term, kind)


def stale_price_warnings(ages_days: Sequence[int | None]) -> tuple[str, ...]:
    """How many prices are stale, how old the oldest is, and how many bear no date; empty where all are fresh.

    `ages_days` has the age of each price that is shown [days]; None where its source bears no date.
    """
    stale = [age for age in ages_days if age is not None and age > STALE_AFTER_DAYS]
    undated = sum(age is None for age in ages_days)
    check = "check before you rent, or give your own with --price-file"
    found = []
    if stale:
        found.append(
            f"{len(stale)} of {len(ages_days)} prices are older than {STALE_AFTER_DAYS} days "
            f"(oldest {max(stale)} days): {check}"
        )
    if undated:
        found.append(f"{undated} of {len(ages_days)} prices bear no date: {check}")
    return tuple(found)
