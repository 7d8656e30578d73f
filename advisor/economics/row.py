"""Options with the prices of their tokens: who pays how much of a bill at the mean load of a day."""

import math
from dataclasses import dataclass, replace

from advisor.catalog.ownership import Ownership
from advisor.catalog.prices import price_age_days
from advisor.catalog.units import DAY_S, HOUR_S, MILLION
from advisor.decide.bounds import NEARLY_FULL
from advisor.decide.offers import OWN, Placement
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
    UsedSeconds,
    request_tokens,
    token_prices,
    used_seconds,
)
from advisor.simulator.power import board_power_w
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
    return token_prices(usd_per_request, _seconds_used(replica, result, requests_per_s, tokens), tokens)


def _seconds_used(
    replica: ReplicaModel, result: ServingResult, requests_per_s: float, tokens: RequestTokens
) -> UsedSeconds:
    """Return what a mean request uses of a replica at the batch of a run."""
    return used_seconds(
        replica.surface,
        tokens,
        requests_per_s * max(0.0, result.e2e.mean_s - result.ttft.mean_s),
        rides_along=replica.policy.kind == "mixed",
        max_batched_tokens=replica.policy.max_num_batched_tokens,
        cache_is_full=result.mean_kv_tokens > NEARLY_FULL * replica.memory.kv_capacity_tokens,
    )


def prices_of(
    plan: Planned,
    option: Option,
    result: ServingResult,
    requests_per_s: float,
    usd_per_request: float,
    tokens: RequestTokens,
) -> TokenPrices:
    """Return the prices of the classes of tokens of a deployment at a run of one of its replicas [USD per million].

    Where prefill and decode workers are apart, prompts pay the bill of the former, and what is kept and generated that
    of the latter.
    """
    found = plan.found
    decoding = [part for part in option.parts if part.role == "decode"]
    if not decoding:
        return split_prices(found.replica, result, requests_per_s, usd_per_request, tokens)
    workers = sum(part.replica_layout.num_replicas for part in decoding) / found.purchase.num_replicas
    used = _seconds_used(found.replica, result, requests_per_s / workers, tokens)
    paid = sum(part.bill.usd_per_hour for part in decoding) / sum(
        part.bill.usd_per_hour for part in option.parts
    )
    prompts_s = used.prefill_s + used.cached_read_s
    more = (1.0 - paid) / paid * (used.total_s - prompts_s) / prompts_s
    apart = replace(
        used,
        prefill_s=more * used.prefill_s,
        cached_read_s=more * used.cached_read_s,
        cached_read_per_token_s=more * used.cached_read_per_token_s,
    )
    return token_prices(usd_per_request, apart, tokens)


def cost_row(
    plan: Planned, option: Option, question: CostQuestion, known: Ownership, tco: Tco | None = None
) -> CostRow:
    """Return an option with the prices of its tokens at the mean load; of owned hardware `tco` is what they pay for.

    Assumes: replicas share the load evenly; the split is that of the planning point.
    """
    found = plan.found
    part = question.mean_over_peak
    scenario = question.scenario
    purchase = found.purchase
    traffic = scenario.traffic
    peak_per_s = purchase.requests_per_s
    mean_per_s = peak_per_s * part
    usd_per_hour = option.bill.usd_per_hour
    if tco is not None:
        usd_per_hour = tco.usd_per_hour + extra_usd_per_hour(purchase.placement.price, scenario.beside)
    tokens = tokens_of(traffic, plan.result.prefix_hit_fraction or 0.0)
    per_request = usd_per_hour / (mean_per_s * HOUR_S)
    each_per_s = peak_per_s / purchase.num_replicas
    prices = prices_of(plan, option, plan.result, each_per_s, per_request, tokens)
    interval = option.served.usd_per_million_tokens
    tokens_per_s = mean_per_s * question.tokens_per_request

    # Boards that are paid for and stay idle are not used.
    at_work = 1.0 if tco is None else min(1.0, option.machine.num_accelerators / tco.num_accelerators)
    power_w = mean_power(plan, option, part)
    return CostRow(
        option=option,
        way="rent" if tco is None else "own",
        load_fraction=part * plan.load / found.capacity.load * purchase.used_fraction * at_work,
        mean_requests_per_s=mean_per_s,
        tokens_per_day=tokens_per_s * DAY_S,
        usd_per_hour=usd_per_hour,
        usd_per_million_tokens=interval.scale(
            per_request * MILLION / question.tokens_per_request / interval.value
        ),
        usd_per_million_input_tokens=interval.scale(prices.usd_per_million_input / interval.value),
        usd_per_million_cached_tokens=interval.scale(prices.usd_per_million_cached / interval.value),
        usd_per_million_output_tokens=interval.scale(prices.usd_per_million_output / interval.value),
        share=prices.share,
        mean_power_w=power_w,
        kwh_per_million_tokens=None
        if power_w is None
        else site_kwh_per_million_tokens(power_w, tokens_per_s, known),
        providers=() if tco is not None or found.fleet is not None else provider_prices(plan, scenario),
        tco=tco,
    )


def mean_power(plan: Planned, option: Option, part: float) -> float | None:
    """Return the mean power of all boards over a day whose mean load is this part of its peak [W]; None where no source
    states what one draws.

    Assumes: what busy boards draw above that of waiting ones follows the load; boards of one's own on which nothing
    runs are switched off.
    """
    peak = option.served.power_w
    found = plan.found
    chip = found.candidate.deployment.accelerator
    size = found.candidate.deployment.accelerators_per_replica
    waiting = board_power_w(chip, "waiting")
    idle = board_power_w(chip, "unloaded")
    if peak is None or waiting is None or idle is None:
        return None
    there = option.machine.num_accelerators
    busy = there if found.fleet is not None else min(there, found.purchase.num_replicas * size)
    least_w = busy * waiting.value + (there - busy) * idle.value
    return least_w + (peak.value - least_w) * part


def provider_prices(plan: Planned, scenario: Scenario) -> tuple[ProviderPrice, ...]:
    """Return the cheapest offer of every other provider and term for the same deployment, cheapest first."""
    found = plan.found
    chosen = plan.found.purchase.placement.price
    best: dict[tuple[str, str], ProviderPrice] = {}
    for way in found.ways:
        price = way.price
        bought = _same_on(way, plan, scenario)
        key = price.provider, price.term
        if bought is None or price.provider == OWN or key == (chosen.provider, chosen.term):
            continue
        usd = bought.usd_per_million_tokens
        if key not in best or usd < best[key].usd_per_million_tokens:
            best[key] = ProviderPrice(
                provider=price.provider,
                region=price.region,
                term=price.term,
                kind=price.price_kind,
                tenancy=price.tenancy,
                age_days=price_age_days(price, scenario.as_of),
                num_accelerators=bought.num_units * way.accelerators_per_unit,
                usd_per_hour=bought.usd_per_hour,
                usd_per_million_tokens=usd,
            )
    return tuple(sorted(best.values(), key=lambda each: (each.usd_per_million_tokens, each.provider)))


def _same_on(way: Placement, plan: Planned, scenario: Scenario) -> Purchase | None:
    """Return the purchase of as many replicas on another offer; without a given load, of what a unit or budget buys."""
    capacity = plan.found.capacity
    demand = plan.demand
    if demand.kind in ("rate", "clients"):
        count = plan.found.purchase.num_replicas
        return with_replicas(scenario, demand, way, capacity.load, capacity.requests_per_s, count)
    return purchase_on(scenario, demand, way, capacity.load, capacity.requests_per_s)
