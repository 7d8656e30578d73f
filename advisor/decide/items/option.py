"""A simulated fleet as an option: its price per item, its latencies with their ranges, what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.schema import Model
from advisor.catalog.units import HOUR_S, KILO
from advisor.decide.items.result import ItemOption, ItemRung, ItemScenario
from advisor.decide.offers import Placement, named, seller_words, stale_price_warnings
from advisor.decide.purchase import bill_of
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.batch_queue import BatchFleet, poisson_arrivals, simulate_batches
from advisor.simulator.workloads.services import ItemService, quantity

NUM_REQUESTS = 10_000


@dataclass(frozen=True, slots=True)
class ItemCandidate:
    """One replica on one offer, and the least that serving the load with it can cost per hour and item."""

    service: ItemService
    way: Placement
    bound_usd: float


@dataclass(frozen=True, slots=True)
class ItemFound:
    candidate: ItemCandidate
    fleet: BatchFleet
    num_units: int
    items_per_s: float

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.candidate.way.usd_per_unit_hour

    @property
    def usd_per_item(self) -> float:
        return self.usd_per_hour / HOUR_S / self.items_per_s


def item_option(rank: int, found: ItemFound, scenario: ItemScenario) -> ItemOption:
    service, fleet, price = found.candidate.service, found.fleet, found.candidate.way.price
    latency = _latencies(found, scenario)
    p99 = latency["p99"]
    confidence = (
        "sure"
        if p99.high <= scenario.latency_p99_s
        else "likely"
        if p99.value <= scenario.latency_p99_s
        else "marginal"
    )
    how = service.parallel
    parts = [f"{how.split} {how.sequence}"] if how.sequence > 1 else []
    parts += ["guidance 2"] if how.guidance > 1 else []
    usd = quantity(service, KILO * found.usd_per_item)
    served = Quantity(found.items_per_s, found.items_per_s, found.items_per_s, service.basis)
    if scenario.rate_per_s is None:
        served = quantity(service, found.items_per_s, is_rate=True)
    accelerator = service.deployment.accelerator
    return ItemOption(
        rank=rank,
        accelerator=accelerator.id,
        accelerator_name=accelerator.name,
        num_accelerators=fleet.num_servers * service.accelerators_per_replica,
        num_replicas=fleet.num_servers,
        accelerators_per_replica=service.accelerators_per_replica,
        split=", ".join(parts),
        max_batch=fleet.max_batch,
        weight_dtype=service.deployment.weight_dtype,
        runtime=service.runtime.name,
        **named(price, scenario.as_of),
        usd_per_hour=found.usd_per_hour,
        bill=bill_of(price, found.usd_per_hour, scenario.beside),
        usd_per_thousand_items=usd,
        items_per_s=served,
        latency_s=latency,
        meets_slo=p99.value <= scenario.latency_p99_s,
        slo_confidence=confidence,
        busy_fraction=fleet.busy_fraction,
        mean_batch=fleet.mean_batch,
        parts_s=service.parts,
        basis_notes=service.transferred,
    )


def _latencies(found: ItemFound, scenario: ItemScenario) -> dict[str, Quantity]:
    """Latencies of the fleet [s]; their ranges are those of the same load on a faster and on a slower service."""
    service, fleet = found.candidate.service, found.fleet
    arrivals = poisson_arrivals(found.items_per_s, NUM_REQUESTS, scenario.seed)
    low, high = service.time_range
    times = service.batch_s[: fleet.max_batch + 1]
    runs = [
        simulate_batches(arrivals, [factor * seconds for seconds in times], fleet.num_servers)
        for factor in (1.0, low, high)
    ]
    latencies = {}
    for name, percent in (("p50", 50.0), ("p99", 99.0)):
        value, fast, slow = (run.percentile_s(percent) for run in runs)
        latencies[name] = Quantity(value, min(value, fast), max(value, slow), service.basis)
    return latencies


def headline(
    option: ItemOption, model: Model, scenario: ItemScenario, ladder: Sequence[ItemRung] = ()
) -> str:
    """The answer in a sentence; of a ladder its smallest and its largest load."""
    load = f"{scenario.rate_per_s:g}" if scenario.rate_per_s else f"{option.items_per_s.value:.3g}"
    unit, usd = scenario.job.unit, option.usd_per_thousand_items.value
    answer = f"{_deal(option)}, {load} {unit}s/s at ${usd:.3g} per thousand"
    small = next((rung for rung in ladder if rung.pick), None)
    if small is None or small.pick is None or small.pick is option:
        return f"{model.name}: {answer}"
    return f"{model.name}: for {small.rate_per_s:g} {unit}s/s {_deal(small.pick)}; {answer}"


def _deal(option: ItemOption) -> str:
    seller = seller_words(option.provider, option.price_kind)
    return f"{option.num_accelerators} × {option.accelerator_name} from {seller} for ${option.usd_per_hour:.2f}/h"


def warnings_of(options: Sequence[ItemOption]) -> tuple[str, ...]:
    """Old prices, each offer once, and kernels that nobody measured."""
    offers = {(each.accelerator, each.provider, each.sku, each.region): each for each in options}
    names = ", ".join(sorted({option.accelerator for option in options if option.basis_notes}))
    unmeasured = f"some kernels were never measured on the architecture of {names}: marked as assumed"
    return (
        *stale_price_warnings([each.price_age_days for each in offers.values()]),
        *((unmeasured,) if names else ()),
    )
