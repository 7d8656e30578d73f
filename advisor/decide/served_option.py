"""One simulated candidate as an option: its figures with intervals, its cost, its explanation."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.engines import quality_note
from advisor.catalog.prices import price_age_days
from advisor.catalog.schema import Model
from advisor.catalog.units import GB, plain_number
from advisor.decide.bounds import PEAK_KEYS, bottleneck_of
from advisor.decide.certainty import latencies_of
from advisor.decide.decision import Rung
from advisor.decide.drawn_power import power_of
from advisor.decide.engine_classes import doubt_of
from advisor.decide.levers import LEVERS, lacks_head
from advisor.decide.offers import local_ownership, machine_of, offer_of, seller_words
from advisor.decide.option import Explanation, Option, Performance
from advisor.decide.purchase import bill_of
from advisor.decide.ranking import Planned, cost_range, is_firm
from advisor.decide.reason import AssumedKernels, MayNotHold, NoCheckpoint, Reason, UnsureNetwork, UnsurePrice
from advisor.decide.scenario import Scenario
from advisor.decide.starting import (
    basis_notes,
    fleet_machine,
    launch_of,
    launch_settings,
    layout_of,
    levers_of,
    memory_of,
    parts_of,
    simulate_args,
)
from advisor.decide.trial import Found
from advisor.simulator.deployment import Deployment
from advisor.simulator.intervals import with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.surface import decode_breakdown_s

_TIGHT_FRACTION: Final = 0.05
"""Part of an accelerator's memory that its cache may fall below before a user is told. Own assumption: activations and
buffers of engines are predicted no better than that."""


def option_of(rank: int, plan: Planned, scenario: Scenario) -> Option:
    """The option that a deployment at its planning point becomes.

    Assumes: replicas behind a router share the load evenly.
    """
    found = plan.found
    candidate = found.candidate
    way = found.purchase.placement
    settings = launch_settings(candidate, scenario)
    parts = parts_of(plan, scenario)
    machine = machine_of(way, found.purchase.num_units, candidate.power_limit_w)
    if found.fleet is not None:
        machine = fleet_machine(parts, found.purchase, is_shared=found.fleet.parts[0].is_shared)
    return Option(
        rank=rank,
        role="other",
        machine=machine,
        layout=layout_of(
            candidate,
            found.purchase.num_replicas * way.num_workers,
            settings.max_model_len,
            scenario.constraints,
        ),
        offer=offer_of(way.price, scenario.as_of),
        bill=bill_of(way.price, found.purchase.usd_per_hour, scenario.beside),
        performance=_performance(plan, scenario),
        launch=launch_of(
            candidate,
            scenario,
            parts[0].machine if parts else machine,
            simulate_args=simulate_args(plan, scenario),
        ),
        levers=levers_of(candidate, scenario),
        parts=parts,
        reasons=_doubts(plan, scenario),
        explanation=_explanation(plan, scenario),
    )


def _performance(plan: Planned, scenario: Scenario) -> Performance:
    """How the deployment behaves at its planning point, and what its tokens cost there."""
    found = plan.found
    result = plan.result
    traffic = scenario.traffic
    basis = found.replica.basis
    class_name = class_of(found.replica, result.mean_batch)
    served = found.purchase.requests_per_s
    rate = Quantity(served, served, served, basis)
    if plan.demand.kind != "rate":
        rate = with_interval(served, "throughput", class_name, basis)
    tokens_in = traffic.mean_input_tokens
    tokens_out = traffic.mean_output_tokens
    usd = _cost(plan, basis)
    power_w = power_of(plan)
    total = rate.scale(float(tokens_in + tokens_out))
    return Performance(
        requests_per_s=rate,
        output_tokens_per_s=rate.scale(float(tokens_out)),
        total_tokens_per_s=total,
        usd_per_million_tokens=usd,
        usd_per_million_output_tokens=usd.scale((tokens_in + tokens_out) / tokens_out),
        expected_usd_per_million_tokens=_expected_usd_per_million_tokens(plan),
        **latencies_of(found, result, scenario.objectives),
        utilization_fraction=result.busy_fraction,
        mean_batch=result.mean_batch,
        headroom_fraction=1.0 - plan.load / found.capacity.load,
        chance=plan.chance,
        holds=plan.holds,
        basis=basis,
        power_w=power_w,
        energy_j_per_token=None if power_w is None else power_w.scale(1.0 / total.value),
    )


def _explanation(plan: Planned, scenario: Scenario) -> Explanation:
    """The parts of a decode step at the mean batch, the memory, and what the prediction rests on."""
    found = plan.found
    batch = max(1.0, plan.result.mean_batch)
    replica = found.replica
    deployment = found.candidate.deployment
    step_s = decode_breakdown_s(
        deployment,
        replica.library,
        replica.costs,
        round(batch),
        scenario.traffic.mean_context_tokens,
        replica.cuda_graph_sizes,
    )
    return Explanation(
        bottleneck=bottleneck_of(replica, step_s, batch, plan.result.mean_kv_tokens),
        binding_objective=found.capacity.binding,
        step_s=step_s,
        memory_bytes=memory_of(replica),
        kv_capacity_tokens=replica.memory.kv_capacity_tokens,
        quality_note=_quality(found),
        basis_notes=basis_notes(found),
    )


def _quality(found: Found) -> str:
    """Return the loss of quality from the formats of weights and KV cache, in words."""
    deployment = found.candidate.deployment
    weights = " ".join(
        filter(None, (quality_note(deployment.model, deployment.weight_dtype), _unpacked_words(deployment)))
    )
    used = next((each.name for each in LEVERS.values() if deployment.kv_dtype in each.formats), "")
    return f"{weights} {quality_note(deployment.model, used)}" if used else weights


def _unpacked_words(deployment: Deployment) -> str:
    """Return that a chip multiplies in 16 bit what a format means for narrower arithmetic; empty where it does not."""
    chip = deployment.accelerator
    needed = PEAK_KEYS.get(deployment.weight_dtype, "bf16")
    if (
        needed == "bf16"
        or needed in chip.peak_flop_per_s
        or PEAK_KEYS.get(deployment.activation_dtype) != "bf16"
    ):
        return ""
    return (
        f"{chip.id} has no {needed} arithmetic: {deployment.weight_dtype} is weight-only there, which saves memory and "
        "the time to read it, and is multiplied in 16 bit."
    )


def _doubts(plan: Planned, scenario: Scenario) -> tuple[Reason, ...]:
    """Why a deployment is not safe to take; none where it is."""
    candidate = plan.found.candidate
    price = plan.found.purchase.placement.price
    found: list[Reason] = []
    if plan.found.replica.basis == "assumed":
        found.append(AssumedKernels())
    unsure = doubt_of(candidate.deployment)
    if unsure is not None:
        found.append(unsure)
    if candidate.checkpoint.origin == "quantise first":
        found.append(NoCheckpoint(f"checkpoint in {candidate.deployment.weight_dtype}"))
    if lacks_head(candidate):
        found.append(NoCheckpoint("head for speculative decoding"))
    if plan.holds != "likely":
        found.append(MayNotHold(plan.chance))
    if plan.may_lack_network:
        found.append(UnsureNetwork())
    if not is_firm(price, plan.price_spread):
        found.append(UnsurePrice(price.price_kind, price.tenancy, price_age_days(price, scenario.as_of)))
    return tuple(found)


def _cost(plan: Planned, basis: Basis) -> Quantity:
    """Cost per million tokens; where a load is given, the number of replicas carries the model's error."""
    value = plan.found.purchase.usd_per_million_tokens
    low, high = cost_range(plan)
    return Quantity(value, min(low, value), max(high, value), basis)


def _expected_usd_per_million_tokens(plan: Planned) -> float:
    """Return the expected cost of a million tokens; clients are compared by the bill, and all own boards by what they
    carry."""
    if plan.demand.kind not in ("clients", "unit"):
        return plan.expected_cost
    bought = plan.found.purchase
    return plan.expected_cost / bought.cost * bought.usd_per_million_tokens


def headline(option: Option, model: Model, scenario: Scenario, ladder: Sequence[Rung]) -> str:
    """The answer in a sentence; of a ladder its smallest and its cheapest load."""
    if not ladder:
        return f"{model.name}: {_deal(option)}, {_load_words(option, scenario)}"
    first = next((rung for rung in ladder if rung.option), None)
    assert first is not None
    assert first.option is not None
    usd = option.served.usd_per_million_tokens.value
    less = _carries_less_for_less(first.option, option)
    if first.clients:
        many = f"for {ladder[-1].clients} at ${plain_number(usd)} per million tokens"
        return (
            f"{model.name}: for {first.clients} clients {_deal(first.option)}; {many}: {_deal(option)}{less}"
        )
    small = f"for {first.rate_per_s:g} requests/s {_deal(first.option)}"
    cheapest = f"at {option.served.requests_per_s.value:g} requests/s a million tokens cost least"
    return f"{model.name}: {small}; {cheapest}, ${plain_number(usd)}: {_deal(option)}{less}"


def _carries_less_for_less(small: Option, large: Option) -> str:
    """Return the clause that the option of the larger load costs less an hour, and why the smaller load has another;
    empty where it costs more."""
    if large.bill.machines_usd_per_hour >= small.bill.machines_usd_per_hour:
        return ""
    old = large.offer
    if old is None or old.age_days is None:
        return ", which also carries the smaller load"
    return f", which also carries the smaller load if its price of {old.age_days} days ago still stands"


def _load_words(option: Option, scenario: Scenario) -> str:
    cost = f"${plain_number(option.served.usd_per_million_tokens.value)} per million tokens"
    if scenario.traffic.rate_per_s:
        return f"{cost} at the {scenario.traffic.rate_per_s:,g} requests/s asked for"
    rate = float(f"{option.served.requests_per_s.value:.3g}")
    words = f"{cost} at {rate:,g} requests/s"
    lasts = option.served.e2e_s.get("mean")
    if scenario.traffic.concurrency or lasts is None:
        return words
    return f"{words}, {plain_number(max(1.0, rate * lasts.value), 2)} of them at a time"  # Little's law


def _deal(option: Option) -> str:
    count = accelerator_words(option)
    replicas = (
        f" as {option.replica_layout.num_replicas} replicas" if option.replica_layout.num_replicas > 1 else ""
    )
    if option.parts:
        replicas = " as " + " and ".join(part.work_words for part in option.parts)
    usd_per_hour = option.bill.machines_usd_per_hour
    if option.offer is None:
        limit_w = option.machine.power_limit_w
        held = f" held to {limit_w:.0f} W each" if limit_w else ""
        return f"run your own {count}{held}{replicas} for ${usd_per_hour:.2f}/h of electricity"
    seller = seller_words(option.offer)
    return f"rent {count}{replicas} from {seller} for ${usd_per_hour:.2f}/h"


def accelerator_words(option: Option) -> str:
    """How many accelerators of which kind, by name."""
    counts = Counter[str]()
    for part in option.parts or (option,):
        counts[part.machine.accelerator] += part.machine.num_accelerators
    if len(counts) == 1:
        counts = Counter({option.machine.accelerator: option.machine.num_accelerators})
    return " and ".join(f"{count} × {accelerators.by_id(name).name}" for name, count in counts.items())


def ages_days(options: Sequence[Option]) -> list[int | None]:
    """Age of the price of each option [days]; 0 for hardware that is already there."""
    return [option.offer.age_days if option.offer else 0 for option in options]


def owned_note(scenario: Scenario) -> tuple[str, ...]:
    """Return the note on the costs that owned hardware is charged; empty without owned hardware."""
    if not scenario.constraints.own:
        return ()
    known = local_ownership(scenario.constraints.home_places, scenario.as_of)
    tariff = plain_number(known.value("electricity_usd_per_kwh"), 4)
    pue = plain_number(known.value("pue"))
    hosts = plain_number(known.value("system_power_factor"))
    return (
        f"own hardware is charged its electricity only: {tariff} USD/kWh, {hosts} times its boards with hosts, "
        f"PUE {pue}, at the power that boards draw under the load; those on which nothing runs are taken as switched "
        "off; advisor cost adds the purchase",
    )


def idle_notes(options: Sequence[Option]) -> tuple[str, ...]:
    """Return a note for each option that pays for accelerators which no replica uses; empty if all are used."""
    return tuple(
        f"option {option.rank} pays for {bought} {option.machine.accelerator} and uses {used}: the offer is sold "
        f"in units of {option.offer.accelerators_per_unit}"
        for option in options
        if option.offer is not None and option.layout is not None and not option.parts
        if (used := option.layout.num_replicas * option.layout.accelerators_per_replica)
        < (bought := option.machine.num_accelerators)
    )


def tight_memory_notes(options: Sequence[Option]) -> tuple[str, ...]:
    """Return a note for each option whose memory leaves so little for the cache that it may not start."""
    return tuple(
        f"the memory of option {option.rank} is tight: {left / GB:.1f} of {whole / GB:.0f} GB of one "
        f"{option.machine.accelerator} are left for the cache; if weights and buffers take more than predicted, it "
        "does not start"
        for option in options
        if not option.parts
        and (left := option.explained.memory_bytes.get("kv_bytes", 0.0))
        and (whole := accelerators.by_id(option.machine.accelerator).memory_bytes or 0.0)
        and left < _TIGHT_FRACTION * whole
    )


def spot_warning(options: Sequence[Option]) -> tuple[str, ...]:
    """Return the warning that machines of spot options may be taken back; empty without such options."""
    ranks = [
        str(option.rank) for option in options if option.offer is not None and option.offer.term == "spot"
    ]
    if not ranks:
        return ()
    named = f"option{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
    return (
        f"spot price of {named}: the provider may take these machines back at any time, and no spare capacity is "
        "planned for that; --term on-demand leaves them out",
    )


def router_note(options: Sequence[Option]) -> tuple[str, ...]:
    """Return the note on the router that the reuse of a conversation's earlier turns depends on; empty if none is
    needed."""
    if not any(
        option.levers.get("sticky_router") and option.replica_layout.num_replicas > 1 for option in options
    ):
        return ()
    return ("each conversation must stay with its replica: --emit writes the router that keeps it there",)
