"""Pools by length of prompt behind a router: a boundary, what carries either side of it, and both as one fleet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from advisor.catalog.schema import Accelerator, Model
from advisor.decide.levers import BY_LENGTH, LEVERS
from advisor.decide.load_runs import LoadShare, SplitModel, prompt_pairs, trace_of
from advisor.decide.option import Share
from advisor.decide.purchase import Demand, demands_of
from advisor.decide.race import Race
from advisor.decide.ranking import Planned
from advisor.decide.scenario import Objectives, PromptRange, Scenario, ServiceLevel, Traffic
from advisor.decide.screening import screen
from advisor.decide.trial import Found
from advisor.decide.unlike_parts import Asked, Base, Offers, Side, fleets, seller_of
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.content import mean_reused_tokens
from advisor.simulator.serving.trace_replay import contents_of

_QUANTILES: Final = (0.5, 0.75, 0.9)
"""Quantiles of the prompts' lengths at which boundaries are tried."""
_ROUND: Final = 256
"""Round boundaries to a multiple of this number [tokens]."""
_LEAST_REQUESTS: Final = 20
"""Least number of requests of a trace on either side of a boundary."""
_PART: Final = 0.5
"""Fraction of the requests that may miss an objective which each side may use: together no more than are allowed."""


@dataclass(frozen=True, slots=True)
class LengthPair:
    """Replicas for prompts up to a boundary, and others for longer ones."""

    sides: tuple[Side, Side]
    traffics: tuple[Traffic, Traffic]
    fractions: tuple[float, float]
    """Fraction of all requests that each side serves."""
    capacities: tuple[float, float]
    """Capacity of one replica of each side in short runs [requests/s]."""
    lever: ClassVar[str] = BY_LENGTH.name
    roles: ClassVar[tuple[Share, Share]] = ("short", "long")
    moves_caches: ClassVar[bool] = False

    def begin(self, load: float) -> tuple[int, int]:
        """Return the number of replicas of each side that carries the load at the capacities of the short runs."""
        short, long = (
            max(1, math.ceil(load * fraction / capacity))
            for fraction, capacity in zip(self.fractions, self.capacities, strict=True)
        )
        return short, long

    def least(self, load: float) -> tuple[int, int]:
        """Return the same numbers as `begin`: short runs are more exact than a bound."""
        return self.begin(load)

    def bound(self, counts: Sequence[int]) -> float:
        """Load at which one side is at the capacity of its short runs [requests/s]."""
        columns = (self.fractions, self.capacities, counts)
        return min(count * capacity / fraction for fraction, capacity, count in zip(*columns, strict=True))

    def likely(self, load: float) -> tuple[int, int]:
        """Return the same numbers as `begin`: short runs are more exact than a bound."""
        return self.begin(load)

    def build_served(self, counts: Sequence[int]) -> SplitModel:
        """Return the model of both pools with their shares of the load."""
        columns = (self.sides, self.traffics, self.fractions, counts)
        return SplitModel(
            tuple(
                LoadShare(side.replica, traffic, fraction, count)
                for side, traffic, fraction, count in zip(*columns, strict=True)
            )
        )

    def short(self, result: ServingResult, missed: str, counts: Sequence[int], asked: Asked) -> int:
        """The side whose replicas are nearer to what they hold in short runs."""
        columns = (self.fractions, self.capacities, counts)
        filled = [fraction / (capacity * count) for fraction, capacity, count in zip(*columns, strict=True)]
        return filled.index(max(filled))


def split_fleets(
    scenario: Scenario,
    demand: Demand,
    bases: Sequence[Base],
    model: Model,
    accelerators: Mapping[str, Accelerator],
    offers: Offers,
) -> list[Planned]:
    """Return the fleets of pools by length of prompt that cost less than the plain deployments."""
    names = {base.plain.found.accelerator_id for base in bases}
    chips = {name: accelerators[name] for name in sorted(names)}
    known: dict[tuple[object, ...], list[LengthPair]] = {}

    def pairs_of(asked: Asked, base: Base) -> list[LengthPair]:
        plan = base.plain
        deployment = plan.found.candidate.deployment
        seller = seller_of(plan.found.purchase.placement.price)
        key = seller, deployment.engine.id, deployment.weight_dtype
        if key not in known:
            known[key] = _pairs(asked, plan, model, chips)
        return known[key]

    return fleets(scenario, demand, bases, offers, pairs_of)


def _pairs(asked: Asked, plan: Planned, model: Model, chips: Mapping[str, Accelerator]) -> list[LengthPair]:
    """Return the pairs of deployments for both sides of the most promising boundaries."""
    whole = asked.scenario.traffic
    pairs = list[LengthPair]()
    for end in boundaries(whole):
        short = traffic_in(whole, 1, end)
        long = traffic_in(whole, end + 1)
        first = _cheapest(asked, plan, short, model, chips)
        second = _cheapest(asked, plan, long, model, chips) if first else None
        if first is None or second is None:
            continue
        pairs.append(
            LengthPair(
                (_side(first), _side(second)),
                (short, long),
                (_fraction(short, whole), _fraction(long, whole)),
                (first.capacity.load, second.capacity.load),
            )
        )
    return pairs


def _side(found: Found) -> Side:
    return Side(found.candidate, found.replica, found.ways)


def _fraction(traffic: Traffic, whole: Traffic) -> float:
    """Requests of one side over all requests."""
    return (traffic.rate_per_s or 0.0) / (whole.rate_per_s or 1.0)


def boundaries(traffic: Traffic) -> list[int]:
    """Lengths [tokens] at which the prompts of a traffic may be parted; none where they are too much alike."""
    prompts = prompt_pairs(traffic)[:, 0]
    ends = {_ROUND * math.ceil(float(np.quantile(prompts, part)) / _ROUND) for part in _QUANTILES}
    return [
        end
        for end in sorted(ends)
        if end > traffic.shared_prefix_tokens
        and min((prompts <= end).sum(), (prompts > end).sum()) >= _LEAST_REQUESTS
    ]


def traffic_in(whole: Traffic, from_tokens: int, to_tokens: int | None = None) -> Traffic:
    """Return the requests of a traffic whose prompts are in a range of lengths, with their own lengths and rate.

    Assumes: prompts of any length begin alike as often; arrivals are as they are of all.
    """
    part = whole.model_copy(
        update={"part": PromptRange(whole=whole, from_tokens=from_tokens, to_tokens=to_tokens)}
    )
    pairs = prompt_pairs(part)
    own = np.log(np.maximum(1, pairs - np.array([whole.shared_prefix_tokens, 0])))
    changes: dict[str, object] = {
        "mean_input_tokens": max(round(float(pairs[:, 0].mean())), whole.shared_prefix_tokens + 1),
        "mean_output_tokens": max(1, round(float(pairs[:, 1].mean()))),
        "input_sigma": float(own[:, 0].std()),
        "output_sigma": float(own[:, 1].std()),
        "max_input_tokens": to_tokens or whole.longest_request_tokens - whole.longest_output_tokens,
        "max_output_tokens": whole.longest_output_tokens,
        "rate_per_s": (whole.rate_per_s or 0.0) * len(pairs) / len(prompt_pairs(whole)),
    }
    if whole.trace is not None and whole.reused_input_tokens:
        contents = contents_of(trace_of(part))
        changes["reused_input_tokens"] = mean_reused_tokens(contents) if contents else 0.0
    return part.model_copy(update=changes)


def _cheapest(
    asked: Asked, plan: Planned, traffic: Traffic, model: Model, chips: Mapping[str, Accelerator]
) -> Found | None:
    """Return the cheapest deployment that carries one side in short runs, with the engine and the weights of the
    plain deployment and below its bill; None if there is none."""
    scenario = asked.scenario
    deployment = plan.found.candidate.deployment
    fraction = _fraction(traffic, scenario.traffic)
    limits = {"engines": (deployment.engine.id,), "precisions": (deployment.weight_dtype,)}
    rest = tuple(name for name in scenario.levers if LEVERS.get(name) is None or LEVERS[name].kind != "fleet")
    changes = {
        "traffic": traffic,
        "objectives": _of_part(scenario.objectives, fraction, plan.found.purchase.usd_per_hour),
        "constraints": scenario.constraints.model_copy(update=limits),
        "levers": rest or ("auto",),
        "redundancy": "none",
        "screened_only": True,
    }
    half = scenario.model_copy(update=changes)
    trials, _ = screen(half, model, chips, (deployment.engine,), asked.offers)
    race = Race(half, model, demands_of(half), trials, width=1)
    race.run()
    best = race.entries(0, 1)
    return best[0].found if best else None


def _of_part(objectives: Objectives, fraction: float, budget: float) -> Objectives:
    """Return the objectives that a side must meet so that all requests meet the given ones, whatever the other side
    does."""
    levels = tuple(
        ServiceLevel(
            metric=each.metric,
            percent=max(1.0, 100.0 - (100.0 - each.percent) * _PART / fraction),
            limit_s=each.limit_s,
        )
        for each in objectives.levels
    )
    return Objectives(ttft_p99_s=None, tpot_p99_s=None, others=levels, budget_usd_per_hour=budget)
