"""A plan carried through at an offer: steps, stragglers, failures, checkpoints; days and dollars."""

from dataclasses import dataclass

import numpy as np

from advisor.catalog.prices import committed_hours
from advisor.catalog.units import BF16_BYTES, DAY_S, FP32_BYTES, HOUR_S
from advisor.decide.offers import OWN
from advisor.decide.purchase import job_usd
from advisor.decide.reason import FailsTooOften, NotWorthCommitting, Reason, TakesTooLong
from advisor.decide.training.money import ClusterOffer
from advisor.decide.training.result import Reinforcement
from advisor.decide.training.scenario import Reliability, TrainingScenario
from advisor.decide.training.search import PlanFound
from advisor.simulator.graph.model import layers_of, parameter_count
from advisor.simulator.training.goodput import (
    CheckpointMethod,
    FailureModel,
    Goodput,
    cluster_mtbf_s,
    elastic_goodput,
    goodput,
    straggler_factor,
    with_spot,
)
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import adapter_parameters
from advisor.simulator.training.memory.formats import formats_of, moment_bytes

LEAST_GOODPUT = 0.5
"""Fraction of the time that failures must leave for useful work."""
LONGEST_DAYS = 5.0 * 365.0
"""Days that accelerators are used before they are sold (data/ownership.toml, life_years)."""
LEAST_OF_COMMITMENT = 0.1
ESTIMATED_RESERVATION = "reserved_1y_estimate"
"""Term of a bill that rests on the usual discount, because no provider lists the price of such a commitment."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A plan carried through to the end of the tokens at one offer."""

    found: PlanFound
    offer: ClusterOffer
    step_s: float
    """Time of one step with stragglers [s]."""
    num_steps: int
    goodput: Goodput
    checkpoint: CheckpointMethod
    reinforcement: Reinforcement | None = None

    @property
    def num_accelerators(self) -> int:
        """Number of accelerators of the whole cluster, including those that only generate."""
        loop = self.reinforcement
        apart = loop is not None and loop.placement == "disaggregated"
        return self.found.num_accelerators + (loop.num_rollout_accelerators if loop and apart else 0)

    @property
    def wall_s(self) -> float:
        """Wall time of the run with failures [s]."""
        return self.num_steps * self.step_s / max(self.goodput.goodput_fraction, 1e-9)

    @property
    def days(self) -> float:
        return self.wall_s / DAY_S

    @property
    def paid_s(self) -> float:
        """Time that is paid [s]: hours begun of a provider, electricity of one's own machines by the second."""
        if self.offer.price.provider == OWN:
            return self.wall_s
        return HOUR_S * max(1.0, float(np.ceil(self.wall_s / HOUR_S)))

    @property
    def usd(self) -> float:
        """Cost of the run's machines [USD]."""
        return job_usd(self.offer.price.term, self.offer.usd_per_hour, self.paid_s)

    @property
    def straggler_factor(self) -> float:
        """Step with stragglers over the one without."""
        return self.step_s / (self.reinforcement.step_s if self.reinforcement else self.found.step_s)

    @property
    def infeasible(self) -> Reason | None:
        """Why the run makes no sense whatever the limits are; None where it does."""
        term = self.offer.price.term
        left = self.goodput.goodput_fraction
        if left < LEAST_GOODPUT:
            return FailsTooOften(self.num_accelerators, left, term == "spot")
        if self.days > LONGEST_DAYS:
            return TakesTooLong(self.days, self.num_accelerators, None)
        if not is_worth_committing(term, self.wall_s):
            return NotWorthCommitting(self.days, committed_hours(term) * HOUR_S / DAY_S)
        return None


def is_worth_committing(term: str, wall_s: float) -> bool:
    """Whether a run takes a tenth of the term's commitment or more. Source: own rule."""
    return wall_s / HOUR_S >= LEAST_OF_COMMITMENT * committed_hours(term.removesuffix("_estimate"))


def run_of(
    scenario: TrainingScenario,
    found: PlanFound,
    offer: ClusterOffer,
    reinforcement: Reinforcement | None = None,
) -> TrainingRun:
    """A plan's whole run at an offer: steps, failures of its term, days, dollars.

    Where the plan is part of a loop of generation and training, the loop's step counts.
    """
    reliability = scenario.reliability
    count = offer.num_accelerators
    nodes = -(-count // node_of(found))
    step_s = reinforcement.step_s if reinforcement else found.step_s
    seconds = step_s * straggler_factor(nodes, reliability.straggler_spread)
    checkpoint = checkpoint_of(found.job, found.num_accelerators, nodes, reliability)
    left = goodput_of(found, checkpoint, reliability, nodes, is_spot=offer.price.term == "spot", count=count)
    return TrainingRun(found, offer, seconds, num_steps_of(scenario), left, checkpoint, reinforcement)


def num_steps_of(scenario: TrainingScenario) -> int:
    """Optimizer steps of a run; loops of generation and training for reinforcement learning."""
    if scenario.rollout is not None:
        return scenario.rollout.num_steps
    task = scenario.task
    length = min(task.mean_sequence_tokens or task.sequence_tokens, task.sequence_tokens)
    return max(1, int(np.ceil(task.tokens / (task.global_batch * length))))


def node_of(found: PlanFound) -> int:
    """Accelerators that fail and are replaced together: a machine, or a tray of a rack."""
    node = found.cluster.accelerator.node_size
    return min(node, found.cluster.domain) if found.cluster.domain > 1 else node


def checkpoint_of(job: TrainingJob, count: int, nodes: int, reliability: Reliability) -> CheckpointMethod:
    """Return the checkpoint of a job: its size and the speed of writing it.

    Assumes: a 16-bit copy, master weights and moments of what is trained; storage as the reliability says.
    Source: sizes of mixed-precision optimizers (ZeRO, arXiv:1910.02054, section 3.1).
    """
    return CheckpointMethod(
        state_bytes=trained_parameters(job) * (BF16_BYTES + FP32_BYTES + moment_bytes(job, FP32_BYTES)),
        num_nodes=nodes,
        num_accelerators=count,
        asynchronous=reliability.asynchronous_checkpoints,
        storage_bytes_per_s_per_node=reliability.storage_bytes_per_s_per_node,
        storage_bytes_per_s=reliability.storage_bytes_per_s,
    )


def trained_parameters(job: TrainingJob) -> float:
    """Parameters that learn [parameters]: all, or the adapters."""
    if job.method == "full":
        return parameter_count(job.model).total
    if job.trainable_parameters:
        return job.trainable_parameters
    formats = formats_of(job)
    return sum(layer.count * adapter_parameters(layer, job, formats) for layer in layers_of(job.model))


def failures_of(
    checkpoint: CheckpointMethod, reliability: Reliability, nodes: int, *, is_spot: bool, count: int
) -> FailureModel:
    """Return how often a cluster fails, machines that are taken back included, and what a failure costs."""
    model = FailureModel(
        cluster_mtbf_s(count, reliability.accelerator_mtbf_s),
        checkpoint.stall_s,
        checkpoint.write_s,
        reliability.restart_s + checkpoint.write_s,
        checkpoint.least_interval_s,
    )
    if not is_spot:
        return model
    return with_spot(model, nodes, reliability.spot_interruptions_per_node_hour / HOUR_S)


def goodput_of(
    found: PlanFound,
    checkpoint: CheckpointMethod,
    reliability: Reliability,
    nodes: int,
    *,
    is_spot: bool,
    count: int,
) -> Goodput:
    """Return the part of a plan's time that failures leave."""
    model = failures_of(checkpoint, reliability, nodes, is_spot=is_spot, count=count)
    plan = found.plan
    if reliability.elastic and plan.data_parallel > 1:
        replica = count / plan.data_parallel / node_of(found)
        return elastic_goodput(model, nodes, replica)
    return goodput(model)
