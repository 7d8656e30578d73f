"""Options with the prices of their tokens: who pays how much of a bill at the mean load of a day."""

import math
from dataclasses import dataclass

from advisor.catalog.ownership import Ownership
from advisor.catalog.prices import age_days
from advisor.catalog.units import DAY_S, HOUR_S, MILLION
from advisor.decide.bounds import NEARLY_FULL
from advisor.decide.offers import OWN, Placement, idle_power_w
from advisor.decide.option import Option
from advisor.decide.ownership import Tco
from advisor.decide.purchase import Purchase, extra_usd_per_hour, purchase_on, with_replicas
from advisor.decide.ranking import Planned
from advisor.decide.scenario import Scenario, Traffic
from advisor.economics.carbon import site_kwh_per_million_tokens
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostRow, ProviderPrice
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
class Priced:
    """A row, and the planned deployment that it shows."""

    row: CostRow
    plan: Planned


def tokens_of(traffic: Traffic, cached_fraction: float = 0.0) -> RequestTokens:
    """Return the mean tokens of the traffic's requests, of whose prompts that part is cached.

    Assumes: lengths are lognormal around their means.
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
    """Return the prices of the classes of tokens at the batch of a simulated run of one replica [USD per million].

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


def cost_row(
    plan: Planned, option: Option, question: CostQuestion, known: Ownership, tco: Tco | None = None
) -> CostRow:
    """Return an option with the prices of its tokens at the mean load; of owned hardware `tco` is what they pay for.

    Assumes: replicas share the load evenly; the split is that of the planning point.
    """
    found, part, scenario = plan.found, question.mean_over_peak, question.scenario
    purchase, traffic = found.purchase, scenario.traffic
    num_replicas, peak_per_s = purchase.num_replicas, purchase.requests_per_s
    mean_per_s = peak_per_s * part
    usd_per_hour = option.bill.usd_per_hour
    if tco is not None:
        usd_per_hour = tco.usd_per_hour + extra_usd_per_hour(purchase.placement.price, scenario.beside)
    tokens = tokens_of(traffic, plan.result.prefix_hit_fraction or 0.0)
    per_request = usd_per_hour / (mean_per_s * HOUR_S)
    prices = split_prices(found.replica, plan.result, peak_per_s / num_replicas, per_request, tokens)
    interval = option.served.usd_per_million_tokens
    tokens_per_s = mean_per_s * question.tokens_per_request

    power_w = mean_power(plan, option, part, None if tco is None else tco.num_accelerators)
    return CostRow(
        option=option,
        way="rent" if tco is None else "own",
        load_fraction=mean_per_s / (num_replicas * found.capacity.requests_per_s),
        mean_requests_per_s=mean_per_s,
        tokens_per_day=tokens_per_s * DAY_S,
        usd_per_hour=usd_per_hour,
        usd_per_million_tokens=interval.scaled(
            per_request * MILLION / question.tokens_per_request / interval.value
        ),
        usd_per_million_input_tokens=interval.scaled(prices.usd_per_million_input / interval.value),
        usd_per_million_cached_tokens=interval.scaled(prices.usd_per_million_cached / interval.value),
        usd_per_million_output_tokens=interval.scaled(prices.usd_per_million_output / interval.value),
        share=prices.share,
        mean_power_w=power_w,
        kwh_per_million_tokens=None
        if power_w is None
        else site_kwh_per_million_tokens(power_w, tokens_per_s, known),
        providers=() if tco is not None else provider_prices(plan, scenario),
        tco=tco,
    )


def mean_power(plan: Planned, option: Option, part: float, there: int | None = None) -> float | None:
    """Return the mean power of accelerators over a day whose mean load is this part of its peak [W].

    `there` counts all boards of one's own: those that the deployment leaves free are idle. None where no source states
    their power.

    Assumes: power between idle and that of the planning point follows the load.
    """
    busy_w, chip = option.served.power_w, plan.found.candidate.deployment.accelerator
    if busy_w is None:
        return None
    count = option.machine.num_accelerators
    idle_w = idle_power_w(chip)
    free = 0 if there is None else max(0, there - count)
    return count * idle_w + (busy_w - count * idle_w) * part + free * idle_w


def provider_prices(plan: Planned, scenario: Scenario) -> tuple[ProviderPrice, ...]:
    """Return the cheapest offer of every other provider and term for the same deployment, cheapest first."""
    found, chosen = plan.found, plan.found.purchase.placement.price
    best: dict[tuple[str, str], ProviderPrice] = {}
    for way in found.ways:
        price, bought = way.price, _same_on(way, plan, scenario)
        key = price.provider, price.term
        if bought is None or price.provider == OWN or key == (chosen.provider, chosen.term):
            continue
        usd = bought.usd_per_million_tokens
        if key not in best or usd < best[key].usd_per_million_tokens:
            best[key] = ProviderPrice(
                provider=price.provider,
                term=price.term,
                kind=price.price_kind,
                age_days=age_days(price, scenario.as_of) if price.is_dated else None,
                num_accelerators=bought.num_units * way.accelerators_per_unit,
                usd_per_hour=bought.usd_per_hour,
                usd_per_million_tokens=usd,
            )
    return tuple(sorted(best.values(), key=lambda each: (each.usd_per_million_tokens, each.provider)))


def _same_on(way: Placement, plan: Planned, scenario: Scenario) -> Purchase | None:
    """Return the purchase of as many replicas on another offer; without a given load, of what a unit or budget buys."""
    capacity, demand = plan.found.capacity, plan.demand
    if demand.kind in ("rate", "clients"):
        count = plan.found.purchase.num_replicas
        return with_replicas(scenario, demand, way, capacity.load, capacity.requests_per_s, count)
    return purchase_on(scenario, demand, way, capacity.load, capacity.requests_per_s)
