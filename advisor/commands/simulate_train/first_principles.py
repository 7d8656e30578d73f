"""Figures that textbooks derive by hand, of the plan that is priced: states of the model, exchange, even pipelines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from advisor.catalog.units import BITS_PER_BYTE
from advisor.decide.training.search import PlanFound, evaluate_plan
from advisor.render.numbers import SIZE, digits, percent, show
from advisor.simulator.graph.model import layers_of, parameter_count
from advisor.simulator.graph.training import expert_parameters
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.pipeline import bubbles_s
from advisor.simulator.training.plan import SCHEDULES, PlanLattice, Schedule
from advisor.simulator.training.step_sharding import gathered_weight_bytes, gradient_bytes

_STATES: Final = ("weight", "gradient", "optimizer")
_NAMES: Final[Mapping[Schedule, str]] = {
    "1f1b": "under 1F1B",
    "interleaved": "interleaved",
    "zb_h1": "under ZB-H1",
    "zbv": "under ZB-V",
    "dualpipe": "under DualPipe",
}


class _Moves(NamedTuple):
    """Times that data parallelism moves each parameter."""

    gradients: float
    weights: float


_EXCHANGES: Final[Mapping[str, _Moves]] = {
    "none": _Moves(2.0, 0.0),
    "zero1": _Moves(1.0, 1.0),
    "zero2": _Moves(1.0, 1.0),
    "zero3": _Moves(1.0, 2.0),
}
"""Moves in a step of one micro-batch: gradients are scattered and gathered, or weights gathered; ZeRO-3 gathers weights
once more for the backward pass (Rajbhandari et al. 2020, arXiv:1910.02054, section 7)."""

_PER_MICRO_BATCH: Final[Mapping[str, _Moves]] = {
    "none": _Moves(0.0, 0.0),
    "zero1": _Moves(0.0, 0.0),
    "zero2": _Moves(1.0, 0.0),
    "zero3": _Moves(1.0, 2.0),
}
"""Moves in every further micro-batch of a step: divided gradients are summed and divided parameters gathered each
time."""


@dataclass(frozen=True, slots=True)
class FirstPrinciples:
    """Figures of a plan that follow from counts alone."""

    states_bytes: float
    """Weights, gradients and optimizer states of the whole model [bytes]."""
    bytes_per_parameter: float
    share_bytes: float
    """Part of the states that the fullest accelerator holds [bytes]."""
    exchanged_bytes: float
    """Traffic that an accelerator sends for data parallelism in a step, in the formats in which gradients are summed
    and weights gathered [bytes]; 0 without, and for adapters, whose gradients are few."""
    exchanged_gradient_bits: float
    """Bits of a gradient as it is summed over ranks."""
    exchanged_weight_bits: float
    """Bits of a weight as it is gathered; 0 where weights are not."""
    exchange_factor: float
    """Ratio of the parameters that are moved to those of an all-reduce, in a step of one micro-batch."""
    even_bubbles: Mapping[str, float]
    """Idle fraction of equal stages whose three passes take equally long, by schedule; empty without stages."""


def first_principles(found: PlanFound) -> FirstPrinciples:
    """Return the figures of a plan.

    Assumes: for even stages, forward pass, gradients of inputs and of weights take equally long.
    """
    plan = found.plan
    alone = replace(
        plan,
        tensor_parallel=1,
        pipeline_parallel=1,
        virtual_stages=1,
        context_parallel=1,
        expert_parallel=1,
        expert_tensor_parallel=0,
        data_parallel=1,
        sharding="none",
        shard_group=0,
        schedule="1f1b",
        first_stage_layers=0,
        last_stage_layers=0,
    )
    whole = evaluate_plan(found.job, found.cluster, alone).memory_bytes
    states = sum(whole[name] for name in _STATES)
    count = parameter_count(found.job.model).total
    costs = framework_costs(found.job, found.cluster.accelerator.architecture)
    moves = _EXCHANGES[plan.sharding]
    widths = _Moves(
        gradient_bytes(found.job, costs), gathered_weight_bytes(found.job) if moves.weights else 0.0
    )
    return FirstPrinciples(
        states,
        states / count,
        sum(found.memory_bytes[name] for name in _STATES),
        _exchanged_bytes(found, count, widths) if found.job.method == "full" else 0.0,
        BITS_PER_BYTE * widths.gradients,
        BITS_PER_BYTE * widths.weights,
        sum(moves) / sum(_EXCHANGES["none"]),
        _even_bubbles(found) if found.run is not None else {},
    )


def _exchanged_bytes(found: PlanFound, count: float, widths: _Moves) -> float:
    """Return what an accelerator sends for data parallelism in a step of a model of `count` parameters, of which a
    gradient and a weight have `widths` bytes [bytes].

    A rank exchanges the parameters that it holds with the others that hold the same: dense ones with all data-parallel
    ranks, routed experts with the fewer ranks that hold the same experts.
    """
    plan = found.plan
    lattice = PlanLattice.of((plan,))
    experts = (
        sum(layer.copies * expert_parameters(layer) for layer in layers_of(found.job.model))
        / plan.pipeline_parallel
    )
    dense = count / plan.pipeline_parallel - experts
    ranks = plan.data_parallel * plan.context_parallel
    copies = float(lattice.expert_copies[0])
    sent = dense / plan.tensor_parallel * (ranks - 1) / ranks
    sent += experts / float(lattice.expert_ranks[0]) * (copies - 1.0) / copies
    rounds = max(1, found.job.global_batch // (plan.data_parallel * plan.micro_batch))
    moves = zip(_EXCHANGES[plan.sharding], _PER_MICRO_BATCH[plan.sharding], widths, strict=True)
    return sent * sum((once + again * (rounds - 1)) * width for once, again, width in moves)


def _even_bubbles(found: PlanFound) -> dict[str, float]:
    """Return the idle fraction of equal stages by schedule, as many micro-batches as the plan has."""
    assert found.run is not None
    stages = found.plan.pipeline_parallel
    micro = found.run.num_micro_batches
    chunks = max(2, found.plan.virtual_stages)
    names = list(_NAMES)
    codes = np.array([SCHEDULES.index(name) for name in names])
    ones = np.ones(len(names))
    virtual = np.array([chunks if name == "interleaved" else 1 for name in names])
    idle = bubbles_s(codes, np.full(len(names), stages), virtual, ones, ones, ones)
    return {name: float(each / (3.0 * micro + each)) for name, each in zip(names, idle, strict=True)}


def states_words(found: PlanFound, figures: FirstPrinciples) -> str:
    """Return the states of the model in words, and what data parallelism moves."""
    text = (
        f"Weights, gradients and optimizer states have {digits(figures.bytes_per_parameter)} bytes for each parameter, "
        f"{show(figures.states_bytes, SIZE)} before activations"
    )
    if found.plan.num_accelerators > 1:
        text += f", {show(figures.share_bytes, SIZE)} on the fullest accelerator"
    text += "."
    if figures.exchanged_bytes:
        sent = show(figures.exchanged_bytes, SIZE)
        text += f" Data parallelism sends {sent} from each accelerator in a step, "
        text += f"gradients in {digits(figures.exchanged_gradient_bits)} bits"
        if figures.exchanged_weight_bits:
            text += f" and weights in {digits(figures.exchanged_weight_bits)}"
        if figures.exchange_factor > 1.0:
            text += f": {digits(figures.exchange_factor)} times the parameters of an all-reduce for each micro-batch"
        text += "."
    return text


def bubble_words(found: PlanFound, figures: FirstPrinciples) -> str:
    """Return the idle fractions of equal stages in words."""
    chunks = max(2, found.plan.virtual_stages)
    parts = ", ".join(
        f"{percent(figures.even_bubbles[name])} {words}"
        + (f" with {chunks} chunks" if name == "interleaved" else "")
        for name, words in _NAMES.items()
    )
    return f"Equal stages would be idle {parts}."
