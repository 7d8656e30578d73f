"""Disaggregated prefill and decode: the candidates for the workers of both pools, and the capacity of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from advisor.catalog.engines import all_engines, support
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Price
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.decide.bounds import least_prompt_s
from advisor.decide.candidates import Candidate, candidates_of
from advisor.decide.levers import APART, UNLIKE, serves_pools
from advisor.decide.load_runs import spread_of_contexts
from advisor.decide.offers import ROUNDING, Placement, placements
from advisor.decide.option import Share
from advisor.decide.purchase import Demand
from advisor.decide.ranking import Planned
from advisor.decide.replicas import ReplicaCase, Work, plain_replica
from advisor.decide.scenario import Scenario
from advisor.decide.unlike_parts import LARGEST_WORKER, Asked, Base, Side, fleets
from advisor.simulator.disaggregation import (
    DisaggregatedModel,
    PoolPlan,
    join_pools,
)
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.serving import ServingResult

_SLOTS: Final = 512
"""Answers under way in a decode worker at most: graphs of all these batches are captured."""
_ROUND: Final = 1024
"""Round a token budget that holds a prompt to a multiple of this number [tokens]."""
_TAIL_OVER_MEAN: Final = 2.0
"""Ratio of the p99 to the mean of a queueing delay when service times hardly vary."""
_LEAST_BUSY: Final = 0.2
"""Least utilization by which pairs are compared: a lower one asks for more workers than runs need. Own choice."""
_NEARLY_FULL: Final = 0.95
"""First tokens wait for decode workers if these are busier than this fraction of their capacity; else for prefill."""


@dataclass(frozen=True, slots=True)
class Worker(Side):
    """One kind of worker with what it carries."""

    rate_bound: float
    """Requests per second of one, at most."""
    slack_s: float
    """Longest wait for the worker that the objective allows a request [s]."""


@dataclass(frozen=True, slots=True)
class PoolPair:
    """Prefill and decode workers that understand each other's caches."""

    prefill: Worker
    decode: Worker
    lever: ClassVar[str] = APART.name
    roles: ClassVar[tuple[Share, Share]] = ("prefill", "decode")
    traffics: ClassVar[tuple[None, None]] = (None, None)
    moves_caches: ClassVar[bool] = True

    @property
    def sides(self) -> tuple[Worker, Worker]:
        return self.prefill, self.decode

    def least(self, load: float) -> tuple[int, int]:
        """Workers of each kind without which a load [requests/s] cannot be carried."""
        prompts, answers = (math.ceil(load / side.rate_bound - ROUNDING) for side in self.sides)
        return prompts, answers

    def bound(self, counts: Sequence[int]) -> float:
        """Load that these counts of workers cannot exceed [requests/s]."""
        return min(count * side.rate_bound for count, side in zip(counts, self.sides, strict=True))

    def likely(self, load: float) -> tuple[int, int]:
        """Workers busy enough to leave the tail of a queue within the objective.

        Source: own rule of thumb; a queue of c servers waits about 1 / (c · rate · (1 - busy)).
        """
        counts = []
        for side, least in zip(self.sides, self.least(load), strict=True):
            busy = 1.0 - _TAIL_OVER_MEAN / (least * side.rate_bound * side.slack_s)
            counts.append(math.ceil(load / side.rate_bound / max(busy, _LEAST_BUSY) - ROUNDING))
        return counts[0], counts[1]

    def begin(self, load: float) -> tuple[int, int]:
        """Return numbers of workers between the least that is needed and the number likely to suffice."""
        prompts, answers = (
            (low + high) // 2 for low, high in zip(self.least(load), self.likely(load), strict=True)
        )
        return prompts, answers

    def build_served(self, counts: Sequence[int]) -> DisaggregatedModel:
        """Return the model of both pools and of the links between them."""
        first, second = (
            PoolPlan(side.candidate.deployment, count) for side, count in zip(self.sides, counts, strict=True)
        )
        return join_pools(first, second, self.prefill.replica, self.decode.replica)

    def short(self, result: ServingResult, missed: str, counts: Sequence[int], asked: Asked) -> int:
        """Decode workers where tokens came late, or where they are nearly full."""
        busy = asked.load / (counts[1] * self.decode.rate_bound)
        return 1 if missed in ("tpot", "itl") or busy > _NEARLY_FULL else 0


def pools(
    scenario: Scenario,
    demand: Demand,
    bases: Sequence[Base],
    accelerators: Mapping[str, Accelerator],
    offers: Mapping[str, tuple[Price, ...]],
    *,
    gain: float = 1.0,
    at_any_cost: bool = False,
) -> list[Planned]:
    """Return the fleets of two pools that cost less than the plain deployments, or cost anything."""
    of_candidate: dict[int, tuple[list[Worker], list[Worker]]] = {}
    for base in bases:
        candidate = id(base.plain.found.candidate)
        if candidate not in of_candidate:
            of_candidate[candidate] = sides_of(scenario, base.plain, accelerators, offers)
    sides = [of_candidate[id(base.plain.found.candidate)] for base in bases]
    prefill = list[Worker]()
    for prompts, _ in sides:
        known = [side.candidate.deployment for side in prefill]
        prefill += [side for side in prompts if side.candidate.deployment not in known]

    def pairs_of(asked: Asked, base: Base) -> Iterator[PoolPair]:
        _, decode = sides[bases.index(base)]
        for first in prefill:
            for second in decode:
                if agree(first, second):
                    yield PoolPair(_from_offers(base, first), _from_offers(base, second))

    return fleets(scenario, demand, bases, offers, pairs_of, gain=gain, at_any_cost=at_any_cost)


def _from_offers(base: Base, side: Worker) -> Worker:
    """A kind of worker with the ways to buy it from the offers that a base allows."""
    return replace(side, ways=tuple(way for way in side.ways if base.allows(way.price)))


def sides_of(
    scenario: Scenario,
    plan: Planned,
    accelerators: Mapping[str, Accelerator],
    offers: Mapping[str, tuple[Price, ...]],
) -> tuple[list[Worker], list[Worker]]:
    """Prefill and decode workers on the accelerator of a plain deployment, with its engine and formats."""
    base = plan.found.candidate
    traffic = scenario.traffic
    deployment = base.deployment
    chip = deployment.accelerator
    others = scenario.constraints.engines_of(all_engines())
    engine = next(
        (each for each in (deployment.engine, *others) if serves_pools(each, chip.architecture)), None
    )
    if engine is None:
        return [], []
    found, _ = candidates_of(
        chip,
        deployment.model,
        (engine,),
        precisions=(deployment.weight_dtype,),
        mean_context_tokens=traffic.mean_context_tokens,
        max_context_tokens=float(traffic.longest_request_tokens),
        max_accelerators=min(LARGEST_WORKER, scenario.constraints.max_accelerators),
    )
    sides: tuple[list[Worker], list[Worker]] = [], []
    for one in found:
        if one.deployment.pipeline_parallel > 1:
            continue
        worker = replace(one, deployment=replace(one.deployment, kv_dtype=deployment.kv_dtype))
        ways = tuple(
            placements(one.deployment.accelerators_per_replica, offers[chip.id], accelerators[chip.id])
        )
        prefill = _side(scenario, worker, "prefill", ways, caches_prefixes=base.caches_prefixes)
        decode = _side(scenario, worker, "decode", ways, caches_prefixes=base.caches_prefixes)
        for side, kept in ((prefill, sides[0]), (decode, sides[1])):
            kept += [side] if side else []
    return sides


def _side(
    scenario: Scenario,
    worker: Candidate,
    kind: Work,
    ways: tuple[Placement, ...],
    *,
    caches_prefixes: bool,
) -> Worker | None:
    """A kind of worker with its bound; None where it does not fit or misses an objective alone."""
    traffic = scenario.traffic
    slots = min(_SLOTS, worker.max_num_seqs)
    budget = max(worker.max_num_batched_tokens, -(-traffic.mean_input_tokens // _ROUND) * _ROUND)
    settings = EngineSettings(slots, budget, worker.memory_fraction)
    try:
        replica = plain_replica(
            ReplicaCase(
                worker.deployment,
                settings,
                float(traffic.mean_input_tokens),
                float(traffic.mean_output_tokens),
                spread_of_contexts(traffic),
                work=kind,
            )
        )
        if kind == "prefill":
            policy = replace(replica.policy, prefix_caching=caches_prefixes)
            replica = replace(replica, policy=policy)
            bound, slack_s = _prompts_per_s(replica, scenario)
        else:
            bound = _answers_per_s(replica, scenario)
            slack_s = math.inf
    except AdvisorError:
        return None
    started = replace(
        worker,
        memory=replica.memory,
        max_num_seqs=replica.policy.max_num_seqs,
        max_num_batched_tokens=replica.policy.max_num_batched_tokens,
        caches_prefixes=caches_prefixes,
    )
    return Worker(started, replica, ways, bound, slack_s) if bound > 0 and slack_s > 0 and ways else None


def _prompts_per_s(replica: ReplicaModel, scenario: Scenario) -> tuple[float, float]:
    """Most prompts per second of a prefill worker [1/s], and what the objective leaves a long prompt to wait [s].

    Source: recommend.bounds, without decoding; the 99th percentile of a lognormal.
    """
    policy = replica.policy
    traffic = scenario.traffic
    reused = traffic.reused_input_tokens if policy.prefix_caching else 0.0
    slack_s = scenario.objectives.largest_ttft_s - least_prompt_s(
        replica, traffic.prompt_tokens(99.0) - reused
    )
    return 1.0 / least_prompt_s(replica, traffic.mean_input_tokens - reused), slack_s


def _answers_per_s(replica: ReplicaModel, scenario: Scenario) -> float:
    """Most answers per second of a decode worker [1/s]; 0 where one alone misses the time per token.

    Source: recommend.bounds, without prompts.
    """
    surface = replica.surface
    policy = replica.policy
    traffic = scenario.traffic
    context = traffic.mean_context_tokens
    most = min(policy.num_slots, int(max(replica.memory.kv_capacity_tokens / context, 1.0)))
    batch = np.arange(1, most + 1)
    step_s = (
        np.asarray(surface.decode_base_ps)[batch]
        + np.asarray(surface.decode_context_ps)[batch] * batch * context
    ) / PICOSECONDS_PER_S
    allowed = step_s <= scenario.objectives.largest_tpot_s
    steps = max(1.0, traffic.mean_output_tokens - 1.0)
    return float((batch / step_s)[allowed].max(initial=0.0)) / steps


def agree(prefill: Side, decode: Side) -> bool:
    """Whether caches of one kind of worker mean something to the other: as engines state it."""
    first = prefill.candidate.deployment
    second = decode.candidate.deployment
    if (first.engine.id, first.weight_dtype, first.kv_dtype) != (
        second.engine.id,
        second.weight_dtype,
        second.kv_dtype,
    ):
        return False
    chips = first.accelerator, second.accelerator
    if chips[0].id != chips[1].id and (
        chips[0].architecture != chips[1].architecture
        or not support(first.engine.id, chips[0].architecture, UNLIKE).is_usable
    ):
        return False
    experts = first.tensor_parallel if second.expert_parallel > 1 else 1
    is_alike = all(
        getattr(first, name) == getattr(second, name)
        for name in ("tensor_parallel", "data_parallel", "expert_parallel")
    )
    return is_alike or (first.data_parallel == 1 and first.expert_parallel == experts)
