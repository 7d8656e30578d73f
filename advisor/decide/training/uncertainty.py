"""How sure a training prediction is: 80 % intervals around step time and memory, and on what they rest."""

from advisor.decide.training.search import PlanFound
from advisor.simulator.device import device_of
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.memory import MemoryVerdict, memory_verdict, peak_factors
from advisor.simulator.training.step import (
    TORCHTITAN_ELSEWHERE,
    slow_host_factor,
    step_class,
    step_factors,
    widest_factors,
)

_MEASURED_ARCHITECTURES = ("ampere", "hopper", "blackwell")
"""Architectures on which published training runs were compared."""


def loop_quantity(step_s: float) -> Quantity:
    """Time of a step of a loop that generates, with its 80 % interval [s]; its basis is an assumption.

    Assumes: it errs as runs of any class may, since no published loop is among those that intervals come from; two that
        were looked at took 1.3 and 2.2 times the predicted step (docs/training.md).
    """
    low, high = widest_factors()
    return Quantity(step_s, step_s * low, step_s * high, "assumed")


def step_quantity(found: PlanFound, step_s: float) -> Quantity:
    """A time of a plan's step with its 80 % interval [s].

    Source: residuals of published runs whose source was left out, advisor.simulator.training.step.
    """
    residuals = step_class(found.job, found.cluster, found.num_accelerators)
    low, high = step_factors(residuals)
    high *= slow_host_factor(found.job, found.plan, found.cluster)
    chip = found.cluster.accelerator
    measured = chip.architecture in _MEASURED_ARCHITECTURES and not device_of(chip).assumed
    measured = measured and residuals != TORCHTITAN_ELSEWHERE
    basis: Basis = "modelled" if measured else "assumed"
    return Quantity(step_s, step_s * min(low, 1.0), step_s * max(high, 1.0), basis)


def memory_quantity(found: PlanFound) -> Quantity:
    """Peak memory of a plan with its 80 % interval [bytes].

    Source: residuals of published peaks, data/training/memory_intervals.toml.
    """
    low, high = peak_factors(found.job)
    peak = found.peak_memory_bytes
    return Quantity(peak, peak * low, peak * high, "modelled")


def verdict_of(found: PlanFound) -> MemoryVerdict:
    """Return whether a plan fits its accelerators, by the 80 % interval of its peak.

    Source: memory_verdict.
    """
    return memory_verdict(memory_quantity(found), found.cluster.accelerator.memory_bytes or 0.0)
