"""Discrete-event simulation of serving: from a step-cost surface, a scheduler policy and a workload to metrics."""

from advisor.simulator.serving.arrivals import (
    Arrivals,
    ClosedLoop,
    Gamma,
    Poisson,
    TraceArrivals,
    VaryingRate,
    Weibull,
)
from advisor.simulator.serving.distribution import Distribution
from advisor.simulator.serving.lengths import (
    EmpiricalLengths,
    FixedLengths,
    Lengths,
    LognormalLengths,
    UniformLengths,
)
from advisor.simulator.serving.metrics import Records, ServingResult
from advisor.simulator.serving.policy import SchedulerKind, SchedulerPolicy, Slo
from advisor.simulator.serving.simulation import simulate
from advisor.simulator.serving.workload import Workload

__all__ = [
    "Arrivals",
    "ClosedLoop",
    "Distribution",
    "EmpiricalLengths",
    "FixedLengths",
    "Gamma",
    "Lengths",
    "LognormalLengths",
    "Poisson",
    "Records",
    "SchedulerKind",
    "SchedulerPolicy",
    "ServingResult",
    "Slo",
    "TraceArrivals",
    "UniformLengths",
    "VaryingRate",
    "Weibull",
    "Workload",
    "simulate",
]
