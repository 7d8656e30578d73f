"""What a training run costs: clusters by provider and term, the same cluster owned, energy and carbon."""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.providers import all_providers
from advisor.catalog.regions import all_regions, get_region, region_of_offer
from advisor.catalog.schema import Accelerator, Price
from advisor.catalog.units import DAY_S, HOUR_S, KILO
from advisor.recommend.offers import OWN, Placement, offers_by_accelerator, placements
from advisor.recommend.scenario import Constraints

_YEAR_HOURS: Final = 365.0 * DAY_S / HOUR_S
_NODE: Final = 8
BUSY_POWER_FRACTION: Final = 0.85
"""Of the board limit, averaged over a training step with its communication."""


@dataclass(frozen=True, slots=True)
class ClusterOffer:
    """A number of accelerators at one provider and term."""

    price: Price
    num_accelerators: int
    usd_per_hour: float

    @property
    def usd_per_accelerator_hour(self) -> float:
        return self.usd_per_hour / self.num_accelerators


@dataclass(frozen=True, slots=True)
class Energy:
    """Electricity of a run and what its grid emits for it."""

    power_w: float
    """Of the cluster at work, hosts and cooling included."""
    energy_kwh: float
    region: str
    carbon_kg_co2e: float


def cluster_offers(
    num_accelerators: int, offers: Iterable[Price], accelerator: Accelerator
) -> list[ClusterOffer]:
    """Ways to rent so many accelerators as one cluster, cheapest first.

    Several machines are joined only with a network between them, and no further than the provider sells; whoever needs
    part of a machine pays for all of it.

    Source: advisor.recommend.offers.placements; largest clusters from data/providers.toml.
    """
    return [
        ClusterOffer(way.price, num_accelerators, way.usd_per_unit_hour)
        for way in sorted(
            placements(num_accelerators, offers, accelerator), key=lambda way: way.usd_per_unit_hour
        )
        if _is_sold(way, num_accelerators)
    ]


def _is_sold(way: Placement, num_accelerators: int) -> bool:
    if way.price.provider == OWN:
        return True
    return num_accelerators <= max(largest_cluster(way.price), way.price.num_accelerators)


def largest_cluster(price: Price) -> int:
    """Most accelerators that a provider joins with a network [accelerators].

    A marketplace's machines belong to different hosts: one machine, unless the record says more. Of who says nothing no
    more is taken than anybody says.

    Source: data/providers.toml.
    """
    provider = all_providers().get(price.provider)
    if provider is not None and provider.largest_cluster is not None:
        return provider.largest_cluster
    if provider is not None and provider.kind == "marketplace":
        return _NODE
    return max(known.largest_cluster or 0 for known in all_providers().values())


def unsold(accelerator: Accelerator, num_accelerators: int, as_of: datetime.date) -> str:
    """That nobody sells so many of an accelerator as one cluster on a day, and how many can be had; empty where
    somebody does, or sells none at all.

    Raises: InputFileError: the bundled prices are damaged.
    """
    wanted = Constraints(accelerators=(accelerator.id,), tenancies=())
    offers = offers_by_accelerator(wanted, as_of).get(accelerator.id, ())
    if not offers or cluster_offers(num_accelerators, offers, accelerator):
        return ""
    sizes = (num_accelerators // part * part for part in (8, 4, 2, 1))
    halves = (1 << power for power in range(num_accelerators.bit_length() - 1, -1, -1))
    near = next((size for size in (*sizes, *halves) if size and cluster_offers(size, offers, accelerator)), 0)
    most = max(largest_cluster(price) for price in offers)
    if most < num_accelerators and cluster_offers(most, offers, accelerator):
        near = most
    can = f"; {near:,} can be had" if near else ""
    return f"nobody sells {num_accelerators:,} x {accelerator.id} as one cluster{can}"


def cheapest_by_term(offers: Iterable[ClusterOffer]) -> Mapping[str, ClusterOffer]:
    """The cheapest offer of each term."""
    found: dict[str, ClusterOffer] = {}
    for offer in offers:
        rival = found.get(offer.price.term)
        if rival is None or offer.usd_per_hour < rival.usd_per_hour:
            found[offer.price.term] = offer
    return found


def owned_usd_per_hour(accelerator: Accelerator, num_accelerators: int, known: Ownership) -> float | None:
    """What a cluster costs its owner per hour of its life [USD]; None where nobody says what it costs to buy.

    (purchase + server + network) · ((1 − resale) / life + interest / 2) + energy, resale (1 − decay)^life; the
    colocation fee covers space and provisioned power.

    Assumes: the cluster is in use all its life; interest is paid on half of the price on average.
    Source: data/ownership.toml; straight-line depreciation to the resale value.
    """
    bought = purchase_price(known, accelerator)
    if bought is None:
        return None
    per_accelerator = bought.usd
    if not bought.is_system:
        many = accelerator.scale_up is not None
        per_accelerator += known.value(
            "server_usd_per_accelerator" if many else "workstation_usd_per_accelerator"
        )
    if num_accelerators > _NODE:
        per_accelerator += known.value("network_usd_per_accelerator")
    life = known.value("life_years")
    resale = (1.0 - known.value("resale_decay_per_year")) ** life
    capital = per_accelerator * ((1.0 - resale) / life + known.value("interest_per_year") / 2.0) / _YEAR_HOURS
    power_w = (accelerator.tdp_w or 0.0) * known.value("system_power_factor")
    energy = (
        power_w * BUSY_POWER_FRACTION * known.value("pue") / KILO * known.value("electricity_usd_per_kwh")
    )
    return float(num_accelerators * (capital + energy))


def energy_of(
    accelerator: Accelerator, num_accelerators: int, duration_s: float, offer: Price | None, default_region: str,
    known: Ownership,
) -> Energy:  # fmt: skip
    """Electricity of a run [kWh] and its carbon [kg CO2e].

    tdp · busy share · system factor · PUE · hours, times the grid's intensity.

    Assumes: accelerators draw 85 % of their limit over a step.
    Source: data/ownership.toml, data/grid_carbon.toml.
    """
    per_accelerator_w = (accelerator.tdp_w or 0.0) * BUSY_POWER_FRACTION * known.value("system_power_factor")
    power_w = num_accelerators * per_accelerator_w * known.value("pue")
    kwh = power_w / KILO * duration_s / HOUR_S
    place = region_of_offer(offer.region) if offer is not None else None
    if place is None:
        place = all_regions().get(default_region) or get_region(default_region)[0]
    return Energy(power_w, kwh, place.id, kwh * place.kg_co2e_per_kwh)


def usd_words(usd: float) -> str:
    """Dollars with cents below a hundred: nothing that costs something is $0. Source: own definition."""
    return f"${usd:,.2f}" if abs(usd) < 100.0 else f"${usd:,.0f}"
