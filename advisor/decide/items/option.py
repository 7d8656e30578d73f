"""A simulated fleet as an option: its price per item, its latencies with their ranges, what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.schema import Model
from advisor.catalog.units import HOUR_S, KILO, plain_number
from advisor.decide.certainty import holds_word
from advisor.decide.decision import Rung
from advisor.decide.items.result import ItemScenario
from advisor.decide.items.starting import item_launch, started_batch
from advisor.decide.offers import Placement, machine_of, offer_of, seller_words, stale_price_warnings
from advisor.decide.option import Explanation, ItemPerformance, Launch, Layout, Option
from advisor.decide.purchase import bill_of
from advisor.decide.safe_picks import doubt_of_limit, doubts_of
from advisor.decide.served_option import accelerator_words, ages_days, spot_warning
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
    """A simulated fleet of a candidate, bought for a load."""

    candidate: ItemCandidate
    fleet: BatchFleet
    num_units: int
    items_per_s: float
    drawn_fraction: float = 1.0
    """Power that own boards draw over their rated power, by which their electricity is paid; 1 for what is rented."""

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.candidate.way.usd_per_unit_hour * self.drawn_fraction

    @property
    def usd_per_item(self) -> float:
        return self.usd_per_hour / HOUR_S / self.items_per_s


def item_option(rank: int, found: ItemFound, scenario: ItemScenario) -> Option:
    """The option that a simulated fleet becomes."""
    service = found.candidate.service
    fleet = found.fleet
    way = found.candidate.way
    latency_s = latencies_of(service, fleet, found.items_per_s, scenario.seed)
    how = service.parallel
    p99 = latency_s["p99"]
    served = Quantity(found.items_per_s, found.items_per_s, found.items_per_s, service.basis)
    if scenario.rate_per_s is None:
        served = quantity(service, found.items_per_s, is_rate=True)
    launch = item_launch(
        service, scenario.job, started_batch(service, fleet.max_batch, scenario.latency_p99_s)
    )
    holds = holds_word(p99, scenario.latency_p99_s)
    if holds == "sure" and isinstance(launch, Launch):
        # The times are those of another program than the one that is started, whose host no run was held against.
        holds = "likely"
    split = [f"{how.split} {how.sequence}"] if how.sequence > 1 else []
    split += ["guidance 2"] if how.guidance > 1 else []
    return Option(
        rank=rank,
        role="other",
        machine=machine_of(way, found.num_units),
        layout=Layout(
            engine=service.runtime.name,
            engine_version=None,
            weight_dtype=service.deployment.weight_dtype,
            kv_dtype=None,
            tensor_parallel=1,
            pipeline_parallel=1,
            expert_parallel=1,
            data_parallel=how.guidance,
            context_parallel=how.sequence,
            num_replicas=fleet.num_servers,
            max_num_seqs=fleet.max_batch,
            max_num_batched_tokens=None,
            max_model_len=None,
        ),
        offer=offer_of(way.price, scenario.as_of),
        bill=bill_of(way.price, found.usd_per_hour, scenario.beside),
        performance=ItemPerformance(
            items_per_s=served,
            usd_per_thousand_items=quantity(service, KILO * found.usd_per_item),
            latency_s=latency_s,
            holds=holds,
            utilization_fraction=fleet.busy_fraction,
            mean_batch=fleet.mean_batch,
            basis=service.basis,
        ),
        launch=launch,
        levers={"split": ", ".join(split)} if split else {},
        reasons=(
            *doubts_of(service.basis, way.price, scenario.as_of),
            *doubt_of_limit(p99, scenario.latency_p99_s),
        ),
        explanation=Explanation(step_s=service.parts, basis_notes=service.transferred_operators),
    )


def latencies_of(
    service: ItemService, fleet: BatchFleet, items_per_s: float, seed: int
) -> dict[str, Quantity]:
    """Latencies of a fleet under a load [s]; their ranges are those of the same load on a faster and on a slower
    service."""
    arrivals = poisson_arrivals(items_per_s, NUM_REQUESTS, seed)
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


def headline(option: Option, model: Model, scenario: ItemScenario, ladder: Sequence[Rung] = ()) -> str:
    """The answer in a sentence; of a ladder its smallest and its largest load."""
    shown = option.of_items
    load = f"{scenario.rate_per_s:g}" if scenario.rate_per_s else f"{plain_number(shown.items_per_s.value)}"
    unit = scenario.job.unit
    usd = shown.usd_per_thousand_items.value
    answer = f"{_deal(option)}, {load} {unit}s/s at ${plain_number(usd)} per thousand"
    small = next((rung for rung in ladder if rung.option), None)
    if small is None or small.option is None or small.option is option:
        return f"{model.name}: {answer}"
    return f"{model.name}: for {small.rate_per_s:g} {unit}s/s {_deal(small.option)}; {answer}"


def _deal(option: Option) -> str:
    usd_per_hour = option.bill.machines_usd_per_hour
    if option.offer is None:
        return f"your own {accelerator_words(option)} for ${usd_per_hour:.2f}/h of electricity"
    seller = seller_words(option.offer)
    return f"{accelerator_words(option)} from {seller} for ${usd_per_hour:.2f}/h"


def warnings_of(options: Sequence[Option]) -> tuple[str, ...]:
    """Return the warnings about old prices, each offer once, and about kernels without a measurement."""
    offers = {(each.machine.accelerator, each.offer): each for each in options}
    unmeasured = {option.machine.accelerator for option in options if option.explained.basis_notes}
    names = ", ".join(sorted(unmeasured))
    words = f"some kernels were never measured on the architecture of {names}: marked as assumed"
    return (
        *spot_warning(options),
        *stale_price_warnings(ages_days(list(offers.values()))),
        *((words,) if names else ()),
    )
