"""One simulated candidate as an option: its figures with intervals, its cost, its explanation."""

from collections.abc import Sequence
from typing import Any

from advisor.catalog.engines import quality_note
from advisor.catalog.ownership import ownership
from advisor.catalog.prices import age_days, all_providers
from advisor.catalog.schema import Accelerator, Model
from advisor.decide.bounds import bottleneck_of
from advisor.decide.levers import LEVERS
from advisor.decide.offers import OWN, seller_words
from advisor.decide.power import rate_factors
from advisor.decide.purchase import MonthlyBill, bill_of
from advisor.decide.ranking import Planned, cost_range
from advisor.decide.result import OfferedPrice, Option, Rung
from advisor.decide.scenario import Objectives, Scenario
from advisor.decide.screening import Found
from advisor.decide.starting import (
    basis_notes,
    launch_of,
    levers_of,
    memory_of,
    parts_of,
    simulate_args,
)
from advisor.simulator.intervals import with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.serving_prediction import class_of, statistics
from advisor.simulator.speculation import widened
from advisor.simulator.surface import decode_breakdown_s

_SHOWN = (50, 90, 95, 99)
"""Percentiles of an option."""
_IDLE_POWER_FRACTION = 0.3
"""Of board power while no kernel runs; idle accelerators of a server draw a quarter to a third."""


def option_of(rank: int, plan: Planned, scenario: Scenario) -> Option:
    """The option that a deployment at its planning point becomes.

    Assumes: replicas behind a router share the load evenly.
    """
    found, result = plan.found, plan.result
    deployment, replica = found.candidate.deployment, found.replica
    basis = replica.basis
    class_name = class_of(replica, result.mean_batch)
    given = plan.demand.kind == "rate"
    served = found.purchase.requests_per_s
    throughput = (
        Quantity(served, served, served, basis)
        if given
        else with_interval(served, "throughput", class_name, basis)
    )
    tokens_in, tokens_out = scenario.traffic.mean_input_tokens, scenario.traffic.mean_output_tokens
    batch = max(1.0, result.mean_batch)
    breakdown = decode_breakdown_s(
        deployment, replica.library, replica.costs, round(batch), scenario.traffic.mean_context_tokens,
        replica.cuda_graph_sizes,
    )  # fmt: skip
    num_accelerators = found.purchase.num_units * found.purchase.placement.accelerators_per_unit
    total_tokens_per_s = throughput.scaled(float(tokens_in + tokens_out))
    usd = _cost(plan, basis)
    times, started = _times(plan, class_name), launch_of(found.candidate, scenario)
    bill = bill_of(found.purchase.placement.price, found.purchase.usd_per_hour, scenario.beside)
    return Option(
        rank=rank,
        **_layout(found),
        **_offer(found, scenario, bill),
        usd_per_million_tokens=usd,
        usd_per_million_output_tokens=usd.scaled((tokens_in + tokens_out) / tokens_out),
        expected_usd_per_million_tokens=plan.expected_cost,
        **times,
        output_tokens_per_s=throughput.scaled(float(tokens_out)),
        total_tokens_per_s=total_tokens_per_s,
        requests_per_s=throughput,
        **_safety(plan, scenario),
        utilisation_fraction=result.busy_fraction,
        mean_batch=result.mean_batch,
        slo_confidence=_confidence(times["ttft_s"]["p99"], times["tpot_s"].get("p99"), scenario.objectives),
        price=_price(plan, scenario, bill.commitment_usd),
        checkpoint=found.candidate.checkpoint,
        max_num_seqs=found.candidate.max_num_seqs,
        max_num_batched_tokens=found.candidate.max_num_batched_tokens,
        bottleneck=bottleneck_of(replica, breakdown, batch, result.mean_kv_tokens),
        step_breakdown=breakdown,
        memory=memory_of(found.replica),
        **_power(deployment.accelerator, num_accelerators, result.busy_fraction, total_tokens_per_s.value),
        quality_note=_quality(found),
        levers=levers_of(found.candidate, scenario),
        launch_command=started.command,
        launch_argv=started.argv,
        launch_config=started.config,
        accelerators_per_unit=found.purchase.placement.accelerators_per_unit,
        simulate_args=simulate_args(plan, scenario),
        basis_notes=basis_notes(found),
        parts=parts_of(plan, scenario),
    )


def _times(plan: Planned, class_name: str) -> dict[str, Any]:
    """Every latency with its percentiles; those after the first token also err as far as acceptance is not known."""
    result, basis, guess = plan.result, plan.found.replica.basis, plan.found.candidate.speculation
    slower = guess.time_factors if guess else (1.0, 1.0)
    found = {"ttft_s": statistics(result.ttft, "ttft", class_name, basis, _SHOWN)}
    for name, times, kind in (
        ("tpot_s", result.tpot, "tpot"),
        ("e2e_s", result.e2e, "ttft"),
        ("itl_s", result.itl, "tpot"),
    ):
        values = statistics(times, kind, class_name, basis, _SHOWN)
        found[name] = {key: widened(value, slower) for key, value in values.items()}
    if (chip := plan.found.candidate.full_power) is None:
        return found
    least, most = rate_factors(chip)
    errors = 1.0 / most, 1.0 / least
    return {
        name: {key: widened(value, errors) for key, value in times.items()} for name, times in found.items()
    }


def _quality(found: Found) -> str:
    """What the formats of weights and cache cost in quality."""
    deployment = found.candidate.deployment
    weights = quality_note(deployment.model, deployment.weight_dtype)
    used = next((each.name for each in LEVERS.values() if deployment.kv_dtype in each.formats), "")
    return f"{weights} {quality_note(deployment.model, used)}" if used else weights


def _layout(found: Found) -> dict[str, Any]:
    """What runs: the fields of an option that name the deployment."""
    deployment, purchase = found.candidate.deployment, found.purchase
    return {
        "accelerator": deployment.accelerator.id,
        "accelerator_name": deployment.accelerator.name,
        "num_accelerators": purchase.num_units * purchase.placement.accelerators_per_unit,
        "num_replicas": purchase.num_replicas * purchase.placement.num_workers,
        "tensor_parallel": deployment.tensor_parallel,
        "pipeline_parallel": deployment.pipeline_parallel,
        "expert_parallel": deployment.expert_parallel,
        "data_parallel": deployment.data_parallel,
        "weight_dtype": deployment.weight_dtype,
        "kv_dtype": deployment.kv_dtype,
        "engine": deployment.engine.id,
        "kv_capacity_tokens": found.replica.memory.kv_capacity_tokens,
    }


def _safety(plan: Planned, scenario: Scenario) -> dict[str, Any]:
    """How far it is from missing an objective: the fields of an option that say how safe it is."""
    return {
        "meets_slo": True,
        "holds": plan.holds,
        "chance_of_holding": plan.chance,
        "headroom_fraction": 1.0 - plan.load / plan.found.capacity.load,
        "binding_objective": plan.found.capacity.binding,
        "redundancy": scenario.redundancy,
    }


def _offer(found: Found, scenario: Scenario, bill: MonthlyBill) -> dict[str, Any]:
    """Where it comes from: the fields of an option that name the price."""
    price = found.purchase.placement.price
    return {
        "provider": price.provider,
        "provider_class": _provider_class(price.provider),
        "sku": price.sku,
        "region": price.region,
        "term": price.term,
        "price_observed_on": price.observed_on.isoformat(),
        "price_age_days": age_days(price, scenario.as_of),
        "price_url": price.url,
        "usd_per_hour": found.purchase.usd_per_hour,
        "usd_per_month": bill.usd_per_month,
        "bill": bill,
    }


def _cost(plan: Planned, basis: Basis) -> Quantity:
    """Cost per million tokens; where a load is given, the number of replicas carries the model's error."""
    value = plan.found.purchase.usd_per_million_tokens
    low, high = cost_range(plan)
    return Quantity(value, min(low, value), max(high, value), basis)


def _confidence(ttft: Quantity, tpot: Quantity | None, objectives: Objectives) -> str:
    pairs = [(ttft, objectives.largest_ttft_s)]
    if tpot is not None:
        pairs.append((tpot, objectives.largest_tpot_s))
    if all(quantity.high <= limit for quantity, limit in pairs):
        return "sure"
    return "likely" if all(quantity.value <= 0.9 * limit for quantity, limit in pairs) else "marginal"


def mean_power_w(accelerator: Accelerator, num_accelerators: int, busy_fraction: float) -> float:
    """Mean board power of a deployment [W]: busy accelerators at their limit, idle ones at a third.

    Source: own approximation.
    """
    tdp_w = accelerator.tdp_w or 0.0
    return num_accelerators * tdp_w * (busy_fraction + (1.0 - busy_fraction) * _IDLE_POWER_FRACTION)


def _power(accelerator: Accelerator, count: int, busy_fraction: float, tokens_per_s: float) -> dict[str, Any]:
    power_w = mean_power_w(accelerator, count, busy_fraction)
    return {"power_w": power_w, "energy_j_per_token": power_w / tokens_per_s}


def _provider_class(provider: str) -> str:
    known = all_providers().get(provider)
    return known.kind if known else "own"


def _price(plan: Planned, scenario: Scenario, owed_usd: float | None) -> OfferedPrice:
    price = plan.found.purchase.placement.price
    return OfferedPrice(
        kind=price.price_kind,
        tenancy=price.tenancy,
        age_days=age_days(price, scenario.as_of) if price.is_dated else None,
        min_quantity=price.min_quantity,
        max_quantity=price.max_quantity,
        commitment_usd=owed_usd,
        storage_usd_per_gb_hour=price.storage_usd_per_gb_hour,
        egress_usd_per_gb=price.egress_usd_per_gb,
    )


def headline(option: Option, model: Model, scenario: Scenario, ladder: Sequence[Rung]) -> str:
    """The answer in a sentence; of a ladder its smallest and its cheapest load."""
    if not ladder:
        return f"{model.name}: {_deal(option)}, {_carried(option, scenario)}"
    first = next((rung for rung in ladder if rung.pick), None)
    assert first is not None
    assert first.pick is not None
    if first.clients:
        many = f"for {ladder[-1].clients} at ${option.usd_per_million_tokens.value:.3g} per million tokens"
        return f"{model.name}: for {first.clients} clients {_deal(first.pick)}; {many}: {_deal(option)}"
    small = f"for {first.rate_per_s:g} requests/s {_deal(first.pick)}"
    cheapest = f"at {option.requests_per_s.value:g} requests/s a million tokens cost least"
    return f"{model.name}: {small}; {cheapest}, ${option.usd_per_million_tokens.value:.3g}: {_deal(option)}"


def _carried(option: Option, scenario: Scenario) -> str:
    cost = f"${option.usd_per_million_tokens.value:.3g} per million tokens"
    if scenario.traffic.rate_per_s:
        return f"{cost} at the {scenario.traffic.rate_per_s:,g} requests/s asked for"
    rate = float(f"{option.requests_per_s.value:.3g}")
    return f"{cost} at {rate:,g} requests/s"


def _deal(option: Option) -> str:
    kinds = dict.fromkeys(part.accelerator_name for part in option.parts) or (option.accelerator_name,)
    counts = {
        name: sum(part.num_accelerators for part in option.parts if part.accelerator_name == name)
        for name in kinds
    }
    if len(counts) == 1:
        counts = {option.accelerator_name: option.num_accelerators}
    count = " and ".join(f"{number} × {name}" for name, number in counts.items())
    replicas = f" as {option.num_replicas} replicas" if option.num_replicas > 1 else ""
    if option.parts:
        replicas = " as " + " and ".join(part.work for part in option.parts)
    if option.provider == OWN:
        held = f" held to {option.power_limit_w:.0f} W each" if option.power_limit_w else ""
        return f"run your own {count}{held}{replicas} for ${option.usd_per_hour:.2f}/h of electricity"
    seller = seller_words(option.provider, option.price.kind)
    return f"rent {count}{replicas} from {seller} for ${option.usd_per_hour:.2f}/h"


def owned_note(scenario: Scenario) -> tuple[str, ...]:
    """What hardware that is already there is charged."""
    if not scenario.constraints.own:
        return ()
    known = ownership(scenario.as_of)
    tariff, pue = known.value("electricity_usd_per_kwh"), known.value("pue")
    hosts = known.value("system_power_factor")
    return (
        f"own hardware is charged its electricity only: {tariff:.4g} USD/kWh, {hosts:.3g} times its boards with hosts, "
        f"PUE {pue:.3g}; advisor cost adds the purchase",
    )


def router_note(options: Sequence[Option]) -> tuple[str, ...]:
    """What the reuse of a conversation's earlier turns rests on."""
    if not any(option.levers.get("sticky_router") and option.num_replicas > 1 for option in options):
        return ()
    return ("each conversation must stay with its replica: --emit writes the router that keeps it there",)
