"""Plans near one that cannot run: the nearest that a framework's release runs and that fits, as refusals name it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from advisor.decide.training.space import Variant, host_layouts, limits_of, option_faults
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice
from advisor.simulator.training.memory import fits, peak_memory
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.plan_check import distances
from advisor.simulator.training.releases import limits_at, missing_features
from advisor.simulator.training.step_host import host_bytes


def nearest_that_runs(
    plan: TrainingPlan,
    job: TrainingJob,
    cluster: TrainingCluster,
    counts: Sequence[Sequence[int]],
    *,
    is_of_framework: bool = True,
) -> TrainingPlan | None:
    """Return the plan nearest to a wanted one that fits and that the job's release runs, on numbers of accelerators of
    the first group that has one; None if none has.

    Plans with states in host memory are taken if no other fits. `is_of_framework`: only what the job's framework has
    options for; else also the wanted schedule, sharding and recomputation.
    """
    limits = limits_of(job, cluster)
    if not is_of_framework:
        limits = _with_wanted(limits, plan)
    limits = limits_at(replace(limits, are_stated=True), job)
    variants = (Variant(job, cluster, limits), *host_layouts(job, cluster, limits))
    for group, variant in product(counts, variants):
        found = (_nearest_of(plan, variant, count, is_of_framework=is_of_framework) for count in group)
        near = [each for each in found if each is not None]
        if near:
            return near[int(distances(plan, PlanLattice.of(near)).argmin())]
    return None


def _with_wanted(limits: LatticeLimits, plan: TrainingPlan) -> LatticeLimits:
    return replace(
        limits,
        sharding=tuple(dict.fromkeys((plan.sharding, *limits.sharding))),
        recompute=tuple(dict.fromkeys((plan.recompute, *limits.recompute))),
        schedules=tuple(dict.fromkeys((plan.schedule, *limits.schedules))),
    )


def _nearest_of(
    plan: TrainingPlan, variant: Variant, count: int, *, is_of_framework: bool
) -> TrainingPlan | None:
    lattice = enumerate_lattice(variant.job, count, variant.limits)
    rows = plans_that_fit(variant.job, variant.cluster, lattice)
    for row in rows[np.argsort(distances(plan, lattice.take(rows)), kind="stable")]:
        near = lattice.plan(int(row))
        is_lacking = is_of_framework and any(option_faults(variant.job, near))
        if not is_lacking and not any(missing_features(variant.job, near)):
            return near
    return None


def plans_that_fit(job: TrainingJob, cluster: TrainingCluster, lattice: PlanLattice) -> NDArray[np.int64]:
    """Return the positions of the plans of a lattice whose expected peak fits the accelerators, and what they keep in
    host memory the host."""
    if not len(lattice):
        return np.zeros(0, dtype=np.int64)
    inside = fits(peak_memory(job, lattice), cluster.accelerator.memory_bytes or 0.0)
    return np.flatnonzero(inside & (host_bytes(job, lattice) <= cluster.host_bytes))
