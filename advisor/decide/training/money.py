"""The cost of a training run: clusters by provider and term, energy and carbon."""

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.ownership import Ownership
from advisor.catalog.prices import all_providers
from advisor.catalog.regions import all_regions, get_region, region_of_offer
from advisor.catalog.schema import Accelerator, Price
from advisor.catalog.units import HOUR_S, KILO
from advisor.decide.offers import OWN, Placement, offers_by_accelerator, placements
from advisor.decide.reason import ByContract
from advisor.decide.scenario import Market

BUSY_POWER_FRACTION: Final = 0.85
"""Power drawn as a fraction of the board limit, averaged over a training step with its communication. Own assumption:
electricity and carbon of a run are proportional to it."""


@dataclass(frozen=True, slots=True)
class ClusterOffer:
    """A number of accelerators at one provider and term."""

    price: Price
    num_accelerators: int
    usd_per_hour: float

    @property
    def usd_per_accelerator_hour(self) -> float:
        return self.usd_per_hour / self.num_accelerators

    @property
    def stated_host_bytes(self) -> float | None:
        """Host memory of a machine for each of its accelerators that is used [bytes]; None where its provider does not
        say."""
        if not self.price.ram_bytes:
            return None
        return self.price.ram_bytes / min(self.num_accelerators, self.price.num_accelerators)

    def has_host_memory(self, needed_bytes: float) -> bool:
        """Whether a machine has this much host memory for each accelerator [bytes], as far as its provider says."""
        held_bytes = self.stated_host_bytes
        return held_bytes is None or needed_bytes <= held_bytes


@dataclass(frozen=True, slots=True)
class Energy:
    """Electricity of a run and what its grid emits for it."""

    power_w: float
    """Power of the cluster at work, hosts and cooling included [W]."""
    energy_kwh: float
    region: str
    carbon_kg_co2e: float


def cluster_offers(
    num_accelerators: int, offers: Iterable[Price], accelerator: Accelerator
) -> list[ClusterOffer]:
    """Return the offers for `num_accelerators` accelerators as one cluster, cheapest first.

    Several machines are joined only with a network between them, and no further than the provider sells; whoever needs
    part of a machine pays for all of it. A service that starts inference servers alone sells none.

    Source: advisor.decide.offers.placements; largest clusters from data/providers.toml.
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
    provider = all_providers().get(way.price.provider)
    if provider is not None and provider.serves_only:
        return False
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
        return accelerators.by_id(price.accelerator).node_size
    return max(known.largest_cluster or 0 for known in all_providers().values())


def sold_at_once(price: Price) -> int:
    """Most accelerators for which the list price of a provider stands [accelerators].

    Of who says nothing no more is taken than anybody says; a machine is sold whole.

    Source: data/providers.toml.
    """
    provider = all_providers().get(price.provider)
    stated = provider.sold_at_once if provider is not None else None
    most = stated or max(known.sold_at_once or 0 for known in all_providers().values())
    return max(most, price.num_accelerators)


def contract_needed(offer: ClusterOffer) -> ByContract | None:
    """Return the doubt about a cluster that no list price sells; None where one does, or the machines are one's own."""
    price = offer.price
    most = sold_at_once(price)
    if price.provider == OWN or offer.num_accelerators <= most:
        return None
    return ByContract(price.provider, offer.num_accelerators, most)


def unsold(accelerator: Accelerator, num_accelerators: int, as_of: datetime.date) -> str:
    """Return a sentence that no provider sells `num_accelerators` accelerators as one cluster on a day, with the number
    on sale; empty if one does, or none sells any.

    Raises: InputFileError: the bundled prices are damaged.
    """
    wanted = Market(accelerators=(accelerator.id,), tenancies=())
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
    return f"no provider sells {num_accelerators:,} x {accelerator.id} as one cluster{can}"


_ON_DEMAND: Final = "on_demand"


def cheapest_by_term(offers: Iterable[ClusterOffer], taken: str) -> Mapping[str, ClusterOffer]:
    """Return the cheapest offer of each term; one with a commitment or losses that costs no less than the same cluster
    on demand is left out, unless its term is the `taken` one."""
    found: dict[str, ClusterOffer] = {}
    for offer in offers:
        rival = found.get(offer.price.term)
        if rival is None or offer.usd_per_hour < rival.usd_per_hour:
            found[offer.price.term] = offer
    free = found.get(_ON_DEMAND)
    return {
        term: offer
        for term, offer in found.items()
        if free is None or term in (_ON_DEMAND, taken) or offer.usd_per_hour < free.usd_per_hour
    }


def energy_of(
    accelerator: Accelerator,
    num_accelerators: int,
    duration_s: float,
    offer: Price | None,
    default_region: str,
    known: Ownership,
    *,
    power_cap_w: float | None = None,
) -> Energy:
    """Electricity of a run [kWh] and its carbon [kg CO2e].

    power limit · busy share · system factor · PUE · hours, times the grid's intensity.

    Assumes: accelerators draw 85 % of their limit over a step, the rated one or a lower cap.
    Source: data/ownership.toml, data/grid_carbon.toml.
    """
    limit_w = min(accelerator.tdp_w or 0.0, power_cap_w or math.inf)
    power_w = known.site_power_w(num_accelerators * limit_w * BUSY_POWER_FRACTION)
    kwh = power_w / KILO * duration_s / HOUR_S
    place = region_of_offer(offer.region, offer.country) if offer is not None else None
    if place is None:
        place = all_regions().get(default_region) or get_region(default_region)[0]
    return Energy(power_w, kwh, place.id, kwh * place.kg_co2e_per_kwh)
