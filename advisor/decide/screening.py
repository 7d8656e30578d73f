"""The start of a race: every candidate that is for sale, at the load that its datasheet allows."""

from collections.abc import Mapping, Sequence

from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.decide.bounds import roofline_miss, roofline_requests_per_s
from advisor.decide.candidates import Candidate, candidates_within
from advisor.decide.levers import check_applied, variants
from advisor.decide.offers import Placement, offers_under_limit, placements
from advisor.decide.ranking import complexity, least_throughput
from advisor.decide.reason import (
    NotForSale,
    NotPowered,
    NotSoldTogether,
    Reason,
    TooFewOwned,
    keep_furthest,
)
from advisor.decide.scenario import Constraints, Scenario
from advisor.decide.trial import Trial
from advisor.simulator.calibrated_device import calibrated_accelerator


def screen(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: Sequence[Engine],
    offers: Mapping[str, tuple[Price, ...]],
) -> tuple[list[Trial], dict[str, Reason]]:
    """Return every candidate that can be bought and may hold the objectives, and a reason for each accelerator without.

    Candidates that may cost as little are tried in this order: the simpler one, then the one that may carry most by the
    least that its engine is known to reach.
    """
    reasons: dict[str, Reason] = {}
    pool = _pool(scenario, model, accelerators, engines, offers, reasons)
    rates = roofline_requests_per_s(
        [candidate for candidate, _ in pool], scenario.traffic, scenario.objectives
    ).tolist()
    trials = []
    offered = sorted(
        zip(pool, rates, strict=True),
        key=lambda each: _likely_order(each[0][0], each[1]),
    )
    for order, ((candidate, ways), rate) in enumerate(offered):
        if rate <= 0:
            why = roofline_miss(candidate, scenario.traffic, scenario.objectives)
            keep_furthest(reasons, candidate.deployment.accelerator.id, why)
        else:
            trials.append(Trial(order, candidate, ways, rate))
    return trials, reasons


def _likely_order(candidate: Candidate, rate_per_s: float) -> tuple[float, ...]:
    """Key by which candidates that may cost as little are tried."""
    kinds, size = complexity(candidate)
    return kinds, -rate_per_s / size * least_throughput(candidate), size


def _pool(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: Sequence[Engine],
    offers: Mapping[str, tuple[Price, ...]],
    reasons: dict[str, Reason],
) -> list[tuple[Candidate, tuple[Placement, ...]]]:
    """Candidates that can be bought, with the ways to buy them; accelerators without any leave their reason."""
    constraints = scenario.constraints
    measured = scenario.calibration
    pool: list[tuple[Candidate, tuple[Placement, ...]]] = []
    for record in accelerators.values():
        accelerator = calibrated_accelerator(record, measured) if record.is_ranked else record
        candidates, reason = candidates_within(
            scenario, accelerator, model, engines, is_calibrated=accelerator is not record
        )
        if reason is not None:
            reasons[accelerator.id] = reason
            continue
        if accelerator.id not in offers and not constraints.own:
            reasons[accelerator.id] = NotForSale()
            continue
        known = {accelerator.tdp_w: offers.get(accelerator.id, ())}
        ways: dict[tuple[float | None, int], tuple[Placement, ...]] = {}
        placed = [
            (variant, found)
            for candidate in candidates
            for variant in variants(scenario, model, candidate)
            if (found := _ways(variant, scenario, known, ways))
        ]
        if not placed:
            reasons[accelerator.id] = _explain_no_purchase(
                constraints, candidates, accelerator.id, is_fed=any(known.values())
            )
        pool += placed
    check_applied(scenario, model, [candidate for candidate, _ in pool])
    return pool


def _explain_no_purchase(
    constraints: Constraints, candidates: Sequence[Candidate], accelerator: str, *, is_fed: bool
) -> Reason:
    """Return why no candidate of an accelerator can be bought, or runs on those that are there."""
    if not constraints.own:
        return NotSoldTogether()
    if not is_fed:
        return NotPowered()
    least = min((each.deployment for each in candidates), key=lambda each: each.accelerators_per_replica)
    owned = sum(count for count, name in constraints.own if name == accelerator)
    return TooFewOwned(accelerator, owned, least.accelerators_per_replica, least.weight_dtype)


def _ways(
    candidate: Candidate,
    scenario: Scenario,
    known: dict[float | None, tuple[Price, ...]],
    ways: dict[tuple[float | None, int], tuple[Placement, ...]],
) -> tuple[Placement, ...]:
    """Ways to buy a candidate; `known` are offers by what a board may draw [W], `ways` those by size of replica too."""
    chip = candidate.deployment.accelerator
    size = candidate.deployment.accelerators_per_replica
    if chip.tdp_w not in known:
        known[chip.tdp_w] = offers_under_limit(scenario.constraints, chip, scenario.as_of)
    key = chip.tdp_w, size
    if key not in ways:
        ways[key] = tuple(placements(size, known[chip.tdp_w], chip))
    return ways[key]
