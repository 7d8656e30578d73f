"""Pools by length of prompt behind a router: a boundary, what carries either side of it, and both as one fleet."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from advisor.catalog.schema import Accelerator, Model
from advisor.decide.levers import BY_LENGTH, LEVERS
from advisor.decide.load_runs import LoadShare, SplitModel, prompt_pairs, trace_of
from advisor.decide.option import Share
from advisor.decide.purchase import Demand
from advisor.decide.ranking import Planned
from advisor.decide.scenario import Objectives, PromptRange, Scenario, ServiceLevel, Traffic
from advisor.decide.screening import Entry, Found, Question, SearchOutcome, screen
from advisor.decide.search import estimate, tighten
from advisor.decide.unlike_parts import BASES, Asked, Offers, Side, seller_of, with_parts
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.content import mean_reused_tokens
from advisor.simulator.serving.trace_replay import contents_of

_QUANTILES: Final = (0.5, 0.75, 0.9)
"""Of the prompts' lengths, at which boundaries are tried."""
_ROUND: Final = 256
"""Of which a boundary is a multiple [tokens]."""
_MOST_MODELLED: Final = 12
"""Candidates of one side whose step-cost surface is built."""
_LEAST_REQUESTS: Final = 20
"""Of a trace on either side of a boundary."""
_PART: Final = 0.5
"""Of the requests that may miss an objective, those of each side: together no more than are allowed."""


@dataclass(frozen=True, slots=True)
class LengthPair:
    """Replicas for prompts up to a boundary, and others for longer ones."""

    sides: tuple[Side, Side]
    traffics: tuple[Traffic, Traffic]
    fractions: tuple[float, float]
    """Of all requests, those of either side."""
    capacities: tuple[float, float]
    """That one replica of either side holds in short runs [requests/s]."""
    lever: ClassVar[str] = BY_LENGTH.name
    roles: ClassVar[tuple[Share, Share]] = ("short", "long")
    moves_caches: ClassVar[bool] = False

    def begin(self, load: float) -> tuple[int, int]:
        """As many as carry what short runs found."""
        short, long = (
            max(1, math.ceil(load * fraction / capacity))
            for fraction, capacity in zip(self.fractions, self.capacities, strict=True)
        )
        return short, long

    def likely(self, load: float) -> tuple[int, int]:
        """The same: short runs say more than a bound."""
        return self.begin(load)

    def served(self, counts: Sequence[int]) -> SplitModel:
        """Both pools with their shares of the load."""
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


def with_split(
    scenario: Scenario,
    demand: Demand,
    plain: Sequence[Planned],
    model: Model,
    accelerators: Mapping[str, Accelerator],
    offers: Offers,
) -> list[Planned]:
    """The deployments of a ranking, with pools by length of prompt in place of those that they beat."""
    chips = {plan.found.accelerator_id: accelerators[plan.found.accelerator_id] for plan in plain[:BASES]}

    known: dict[tuple[object, ...], list[LengthPair]] = {}

    def pairs_of(asked: Asked, plan: Planned) -> list[LengthPair]:
        deployment = plan.found.candidate.deployment
        seller = seller_of(plan.found.purchase.placement.price)
        key = seller, deployment.engine.id, deployment.weight_dtype
        if key not in known:
            known[key] = _pairs(asked, plan, model, chips)
        return known[key]

    return with_parts(scenario, demand, plain, offers, pairs_of)


@dataclass(slots=True)
class _Half:
    """One side of a boundary while it is searched: its question, and candidates by what they cost at least."""

    question: Question
    fraction: float
    entries: list[Entry]

    @property
    def traffic(self) -> Traffic:
        return self.question.scenario.traffic


def _pairs(asked: Asked, plan: Planned, model: Model, chips: Mapping[str, Accelerator]) -> list[LengthPair]:
    """What may serve both sides of the boundaries that promise most."""
    libraries: dict[tuple[str, str, str], OperatorLibrary] = {}
    whole, pairs = asked.scenario.traffic, list[LengthPair]()
    for end in boundaries(whole):
        short, long = (
            _half(asked, plan, part, model, chips, libraries)
            for part in (traffic_in(whole, 1, end), traffic_in(whole, end + 1))
        )
        first = _estimated(short)
        second = _estimated(long) if first else None
        if first is None or second is None:
            continue
        pairs.append(
            LengthPair(
                (_side(first), _side(second)),
                (short.traffic, long.traffic),
                (short.fraction, long.fraction),
                (first.capacity.load, second.capacity.load),
            )
        )
    return pairs


def _side(found: Found) -> Side:
    return Side(found.candidate, found.replica, found.ways)


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
    """The requests of a traffic whose prompts have so many tokens, with the lengths and the rate of their own.

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


def _half(
    asked: Asked,
    plan: Planned,
    traffic: Traffic,
    model: Model,
    chips: Mapping[str, Accelerator],
    libraries: dict[tuple[str, str, str], OperatorLibrary],
) -> _Half:
    """One side's question, with the engine and the weights of the plain deployment and below its bill, and of each size
    of replica the candidate that may cost least."""
    scenario, deployment = asked.scenario, plan.found.candidate.deployment
    fraction = (traffic.rate_per_s or 0.0) / (scenario.traffic.rate_per_s or 1.0)
    limits = {"engines": (deployment.engine.id,), "precisions": (deployment.weight_dtype,)}
    rest = tuple(name for name in scenario.levers if LEVERS.get(name) is None or LEVERS[name].kind != "fleet")
    changes = {
        "traffic": traffic,
        "objectives": _of_part(scenario.objectives, fraction, plan.found.purchase.usd_per_hour),
        "constraints": scenario.constraints.model_copy(update=limits),
        "levers": rest or ("auto",),
        "redundancy": "none",
        "top": 1,
    }
    outcome, heap = SearchOutcome(), list[Entry]()
    question, screened = screen(
        scenario.model_copy(update=changes), model, chips, (deployment.engine,), asked.offers, outcome
    )
    for entry in heapq.nsmallest(_MOST_MODELLED, screened):
        tighten(question, entry, libraries, outcome, heap)
    best: dict[tuple[str, int], Entry] = {}
    for entry in sorted(heap, key=lambda each: (each.bounds[-1], -each.rate_bound)):
        one = entry.candidate.deployment
        best.setdefault((one.accelerator.id, one.accelerators_per_replica), entry)
    return _Half(question, fraction, list(best.values()))


def _estimated(half: _Half) -> Found | None:
    """What carries one side for least by short runs; None where nothing does within the bill."""
    outcome, best = SearchOutcome(), None
    for entry in half.entries:
        if best is not None and entry.bounds[-1] >= best.cost(-1):
            break
        estimate(half.question, entry, outcome, [], exhaustive=False)
        found = [each for options in outcome.estimated.values() for each in options]
        best = min(found, key=lambda each: each.cost(-1), default=None)
        outcome.found = outcome.estimated  # what costs more than these need not be looked at closely
    return best


def _of_part(objectives: Objectives, fraction: float, budget: float) -> Objectives:
    """What a side must keep so that all requests keep the objectives, whatever the other side does."""
    levels = tuple(
        ServiceLevel(
            metric=each.metric,
            percent=max(1.0, 100.0 - (100.0 - each.percent) * _PART / fraction),
            limit_s=each.limit_s,
        )
        for each in objectives.levels
    )
    return Objectives(ttft_p99_s=None, tpot_p99_s=None, others=levels, budget_usd_per_hour=budget)
