"""How sure a training prediction is: 80 % intervals around step time and memory, and on what they rest."""

from advisor.decide.training.search import PlanFound
from advisor.simulator.device import device_of
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.memory import MemoryVerdict, memory_verdict, peak_factors
from advisor.simulator.training.step import TORCHTITAN_ELSEWHERE, step_class, step_factors

_MEASURED_ARCHITECTURES = ("ampere", "hopper", "blackwell")
"""Architectures on which published training runs were compared."""


def step_quantity(found: PlanFound, step_s: float) -> Quantity:
    """A time of a plan, its step's or a loop's around it, with its 80 % interval [s].

    Source: residuals of published runs whose source was left out, advisor.simulator.training.step.
    """
    residuals = step_class(found.job, found.cluster, found.num_accelerators)
    low, high = step_factors(residuals)
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
