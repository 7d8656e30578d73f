"""How sure the first option beats the others, and the prices and needs at which another wins."""

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError
from advisor.recommend.candidates import fitted, usable_precisions
from advisor.recommend.lever_trials import LESS, carried
from advisor.recommend.levers import replica_of
from advisor.recommend.load_runs import is_spent
from advisor.recommend.ranking import Planned, chance_cheaper, log_error
from advisor.recommend.result import BeforeAfter, Comparison, Option
from advisor.recommend.scenario import Objectives, Scenario, ServiceLevel
from advisor.simulator.deployment import activation_dtype_for
from advisor.simulator.intervals import pair_class
from advisor.simulator.quantity import Quantity, weakest

_LOOSER = 1.5
"""Times an objective that binds."""
_FOUR_BIT = ("nvfp4", "mxfp4", "int4")
_SURE = 0.9
"""Chance from which on an order counts as settled."""


def what_would_change(
    options: tuple[Option, ...], comparisons: tuple[Comparison, ...], tried: Sequence[str]
) -> tuple[str, ...]:
    """Short sentences: break-even prices of the runners-up, orders that are open, changes that were tried.

    Source: own definition; costs are linear in the hourly price.
    """
    first, sentences = options[0], _surest(options)
    for option in options[1:3]:
        ratio = first.usd_per_million_tokens.value / option.usd_per_million_tokens.value
        per_accelerator = option.usd_per_hour / option.num_accelerators
        sentences.append(
            f"{option.accelerator} wins below ${per_accelerator * ratio:.2f} per accelerator and hour "
            f"(now ${per_accelerator:.2f} at {option.provider})"
            if ratio < 1.0
            else f"{option.accelerator} at {option.provider} costs less already: a benchmark that holds makes it first"
        )
    close = [each.accelerator for each in comparisons if each.chance_first_is_cheaper < _SURE]
    if close:
        sentences.append(
            f"within the model's error the order against {', '.join(close)} is open: "
            "benchmark both before a long contract"
        )
    return (*sentences, *tried)


def tried_changes(scenario: Scenario, plan: Planned) -> tuple[str, ...]:
    """What a looser binding objective and four-bit weights would do to the first option, simulated like it; nothing
    where they gain nothing, where only short runs are made, or of unlike parts, which are sized together.

    Source: lever_trials.carried.
    """
    if scenario.screened_only or is_spent() or plan.found.fleet is not None:
        return ()
    found, binding = [], plan.found.capacity.binding
    level = next((each for each in scenario.objectives.levels if each.metric == binding), None)
    if level is not None:
        looser = _with_limit(scenario.objectives, level, _LOOSER * level.limit_s)
        after = carried(scenario.model_copy(update={"objectives": looser}), plan, plan.found)
        found.append(_effect(f"{level.name} within {_LOOSER * level.limit_s:.3g} s", plan, after))
    if not scenario.constraints.precisions:
        found += [
            _effect(
                f"four-bit weights (--precision {dtype}, where your quality tests allow them)", plan, after
            )
            for dtype, after in _four_bit(scenario, plan)
        ]
    return tuple(filter(None, found))


def _with_limit(objectives: Objectives, level: ServiceLevel, limit_s: float) -> Objectives:
    if level in objectives.others:
        others = tuple(
            each.model_copy(update={"limit_s": limit_s}) if each == level else each
            for each in objectives.others
        )
        return objectives.model_copy(update={"others": others})
    return objectives.model_copy(update={f"{level.metric}_p99_s": limit_s})


def _four_bit(scenario: Scenario, plan: Planned) -> list[tuple[str, Planned | None]]:
    """The first option with weights of four bits, in the first format that its engine has for it; none where it has
    none, or where they have four already."""
    candidate, traffic = plan.found.candidate, scenario.traffic
    deployment = candidate.deployment
    if bytes_per_element(deployment.weight_dtype) < 1.0:
        return []
    chip, engine = deployment.accelerator, deployment.engine
    usable = usable_precisions(deployment.model, chip, engine, _FOUR_BIT)
    for dtype in usable[:1]:
        changed = replace(deployment, weight_dtype=dtype, activation_dtype=activation_dtype_for(dtype, chip))
        try:
            fits = fitted(changed, traffic.mean_context_tokens, float(traffic.longest_request_tokens))
            lighter = replace(candidate, deployment=changed, memory=fits.memory)
            replica = replica_of(lighter, scenario)
        except AdvisorError:
            continue
        return [(dtype, carried(scenario, plan, replace(plan.found, candidate=lighter, replica=replica)))]
    return []


def _effect(change: str, plan: Planned, after: Planned | None) -> str:
    """What a change does to the cost, as tried; empty where it saves nothing."""
    if after is None:
        return ""
    cost = BeforeAfter(plan.found.usd_per_million_tokens, after.found.usd_per_million_tokens)
    if cost.ratio > LESS:
        return ""
    counts = plan.found.purchase.num_replicas, after.found.purchase.num_replicas
    fewer = f", {counts[1]} replicas for {counts[0]}" if counts[1] < counts[0] else ""
    return f"{change}: option 1 ${cost.before:.3g} to ${cost.after:.3g} per million tokens{fewer}"


def _surest(options: tuple[Option, ...]) -> list[str]:
    """Where the first option rests on borrowed kernel parameters: the cheapest one that does not."""
    first = options[0]
    if first.usd_per_million_tokens.basis != "assumed":
        return []
    measured = next((option for option in options if option.usd_per_million_tokens.basis != "assumed"), None)
    lead = f"{first.accelerator} is predicted with kernel parameters of related hardware"
    if measured is None:
        return [f"{lead}, and so are its rivals: benchmark before you commit"]
    return [
        f"{lead}; the cheapest whose own kernels were measured is {measured.accelerator}, "
        f"option {measured.rank}, at ${measured.usd_per_million_tokens.value:.2g} per million tokens"
    ]


def compared(order: Sequence[Planned]) -> tuple[Comparison, ...]:
    """The first option against each of the others, by what they may really cost."""
    found, first = [], order[0]
    for rank, option in enumerate(order[1:], start=2):
        ratio, factor = option.expected_cost / first.expected_cost, math.exp(log_error(first, option))
        basis = weakest(first.found.replica.basis, option.found.replica.basis)
        found.append(
            Comparison(
                rank,
                option.found.accelerator_id,
                pair_class(first.found.replica, option.found.replica),
                Quantity(ratio, ratio / factor, ratio * factor, basis),
                chance_cheaper(first, option),
            )
        )
    return tuple(found)
