"""Simulated deployments as rows: which provider, which precision, which load, and what tokens of each class cost."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from advisor.catalog.ownership import Ownership
from advisor.catalog.prices import age_days, all_providers
from advisor.catalog.schema import Price
from advisor.catalog.units import HOUR_S, HOURS_PER_DAY, MILLION
from advisor.decide.bounds import NEARLY_FULL
from advisor.decide.measure import Capacity
from advisor.decide.offers import OWN, Placement, placements
from advisor.decide.options import mean_power_w, option_of
from advisor.decide.purchase import Demand, Purchase, replicas_for
from advisor.decide.ranking import NO_SPREAD, Planned, chance_of_capacity, led_by
from advisor.decide.scenario import Scenario, Traffic
from advisor.decide.standing import standing_of
from advisor.decide.trial import Found
from advisor.economics.carbon import site_kwh_per_million_tokens
from advisor.economics.result import CostRow
from advisor.economics.token_split import (
    RequestTokens,
    TokenPrices,
    request_tokens,
    token_prices,
    used_seconds,
)
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult


@dataclass(frozen=True, slots=True)
class Served:
    """A load that a deployment is to carry: its mean, and its highest within the day."""

    mean_per_s: float
    peak_per_s: float


def tokens_of(traffic: Traffic, cached_fraction: float = 0.0) -> RequestTokens:
    """Mean tokens of the traffic's requests, lognormal around the means; of prompts that part is cached.

    Source: cv² of a lognormal distribution is exp(σ²) − 1.
    """
    return request_tokens(
        traffic.mean_input_tokens,
        traffic.mean_output_tokens,
        input_variation=math.expm1(traffic.input_sigma**2),
        output_variation=math.expm1(traffic.output_sigma**2),
        cached_fraction=cached_fraction,
    )


def split_prices(
    replica: ReplicaModel,
    result: ServingResult,
    requests_per_s: float,
    usd_per_request: float,
    tokens: RequestTokens,
) -> TokenPrices:
    """Prices of the classes of tokens at the batch of a simulated run of one replica [USD per million].

    The batch is the steady one, by Little's law: rate × time between first and last token.
    """
    batch = requests_per_s * max(0.0, result.e2e.mean_s - result.ttft.mean_s)
    used = used_seconds(
        replica.surface,
        tokens,
        batch,
        rides_along=replica.policy.kind == "mixed",
        max_batched_tokens=replica.policy.max_num_batched_tokens,
        cache_is_full=result.mean_kv_tokens > NEARLY_FULL * replica.memory.kv_capacity_tokens,
    )
    return token_prices(usd_per_request, used, tokens)


def purchase_for(way: Placement, capacity: Capacity, traffic: Traffic, served: Served | None) -> Purchase:
    """Units of one offer that carry a load at its peak, or all clients; one unit where the load is the highest.

    Every accelerator that is paid for serves: a unit of eight runs eight replicas though seven would do.
    """
    per_replica = capacity.requests_per_s
    needed = way.replicas_per_unit
    if served is not None:
        needed = replicas_for(served.peak_per_s, per_replica)
    elif traffic.concurrency is not None:
        needed = replicas_for(traffic.concurrency, capacity.load)
    num_units = math.ceil(needed / way.replicas_per_unit)
    num_replicas = num_units * way.replicas_per_unit
    mean = num_replicas * per_replica if served is None else served.mean_per_s
    return Purchase(way, num_replicas, num_units, mean, 0.0, 0.0)


def ways_by_provider(
    found: Found, offers: Iterable[Price], *, largest: int | None = None
) -> tuple[Placement, ...]:
    """The cheapest placement of every provider and term, cheapest per replica first."""
    deployment = found.candidate.deployment
    best: dict[tuple[str, str], Placement] = {}
    for way in placements(deployment.accelerators_per_replica, offers, deployment.accelerator):
        best.setdefault((way.price.provider, way.price.term), way)
    chosen = tuple(best.values())
    return chosen if largest is None else chosen[:largest]


def row_of(
    found: Found,
    way: Placement,
    scenario: Scenario,
    known: Ownership,
    *,
    served: Served | None = None,
    price_basis: str = "listed",
) -> CostRow:
    """One simulated deployment on one offer under a load, priced.

    Assumes: replicas share the load evenly; the split is that of the simulated load.
    """
    capacity_per_s = found.capacity.requests_per_s
    traffic = scenario.traffic
    purchase = purchase_for(way, found.capacity, traffic, served)
    tokens = tokens_of(traffic, found.capacity.result.prefix_hit_fraction or 0.0)
    per_request = purchase.usd_per_hour / (purchase.requests_per_s * HOUR_S)
    prices = split_prices(found.replica, found.capacity.result, capacity_per_s, per_request, tokens)
    blended = per_request * MILLION / (tokens.input + tokens.output)
    bought = replace(purchase, usd_per_million_tokens=blended, cost=blended)
    plan = Planned(
        found.bought(bought),
        Demand("unit"),
        found.capacity.load,
        chance_of_capacity(found, 1.0 - scenario.headroom_fraction),
        blended,
        found.capacity.result,
        NO_SPREAD,
    )
    option = option_of(1, plan, scenario)
    load = purchase.requests_per_s / (purchase.num_replicas * capacity_per_s)
    power_w = mean_power_w(
        found.candidate.deployment.accelerator,
        option.machine.num_accelerators,
        min(1.0, found.capacity.result.busy_fraction * load),
    )
    performance, layout, price = option.served, option.replica_layout, way.price
    interval = performance.usd_per_million_tokens
    tokens_per_s = purchase.requests_per_s * (
        performance.total_tokens_per_s.value / performance.requests_per_s.value
    )
    return CostRow(
        way="own" if price.provider == OWN else "rent",
        accelerator=option.machine.accelerator,
        accelerator_name=found.candidate.deployment.accelerator.name,
        num_accelerators=option.machine.num_accelerators,
        num_replicas=layout.num_replicas,
        tensor_parallel=layout.tensor_parallel,
        pipeline_parallel=layout.pipeline_parallel,
        data_parallel=layout.data_parallel,
        expert_parallel=layout.expert_parallel,
        engine=layout.engine,
        weight_dtype=layout.weight_dtype,
        kv_dtype=layout.kv_dtype,
        provider=price.provider,
        provider_class=_provider_class(price.provider),
        sku=price.sku,
        region=price.region,
        term=price.term,
        usd_per_hour=purchase.usd_per_hour,
        bill=option.bill,
        price_basis=price_basis,
        price_kind=price.price_kind,
        price_tenancy=price.tenancy,
        price_observed_on=price.observed_on.isoformat(),
        price_age_days=age_days(price, scenario.as_of),
        price_url=price.url,
        standing=standing_of(found.replica.basis, price, scenario.as_of),
        levers=option.levers,
        load_fraction=load,
        requests_per_s=purchase.requests_per_s,
        tokens_per_day=tokens_per_s * HOURS_PER_DAY * HOUR_S,
        usd_per_million_tokens=interval.scaled(blended / interval.value),
        usd_per_million_input_tokens=interval.scaled(prices.usd_per_million_input / interval.value),
        usd_per_million_cached_tokens=interval.scaled(prices.usd_per_million_cached / interval.value),
        usd_per_million_output_tokens=interval.scaled(prices.usd_per_million_output / interval.value),
        share=prices.share,
        ttft_p99_s=performance.ttft_s["p99"],
        tpot_p99_s=performance.tpot_s.get("p99"),
        power_w=power_w,
        kwh_per_million_tokens=site_kwh_per_million_tokens(power_w, tokens_per_s, known),
    )


def _provider_class(provider: str) -> str:
    record = all_providers().get(provider)
    return record.kind if record else "own"


def cheapest_first(rows: Iterable[CostRow]) -> tuple[CostRow, ...]:
    """Rows by cost per token; equal ones by accelerator and provider."""
    return tuple(
        sorted(rows, key=lambda row: (row.usd_per_million_tokens.value, row.accelerator, row.provider))
    )


def founded_first(rows: Iterable[CostRow]) -> tuple[CostRow, ...]:
    """Rows by cost per token; one that is assumed or of an old or foreign price does not stand first while a better
    founded one may cost no more.
    """
    order = cheapest_first(rows)
    leader = max(order, key=lambda row: row.standing)
    return tuple(
        led_by(order, leader, lambda a, b: a.usd_per_million_tokens.high >= b.usd_per_million_tokens.low)
    )


def best_by_precision(options: Sequence[Found]) -> dict[str, Found]:
    """The cheapest deployment of each weight format among those of one accelerator."""
    best: dict[str, Found] = {}
    for found in sorted(options, key=lambda found: found.usd_per_million_tokens):
        best.setdefault(found.candidate.deployment.weight_dtype, found)
    return best
