"""Stated conditions of a simulated step: its release, host memory and network, and what is said of those assumed."""

import math
from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import GB
from advisor.simulator.collectives.topology import network_of
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.framework_costs import release_month
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.releases import features_at, missing_features
from advisor.simulator.training.step_host import HOST_BYTES_PER_ACCELERATOR, host_bytes

_MOST_HOST_GB: Final = 1024.0
"""Host memory of an accelerator that servers are sold with: 8 TB for eight, in 32 modules of 256 GB."""


def known_release(text: str) -> str:
    """Return a release of a framework as typed.

    Raises: AdvisorError: it is no month, container or version of Megatron-Core.
    """
    if text and not release_month(text):
        raise AdvisorError(
            f"--framework-version {text!r} names no release whose date is known",
            why="a month, a container of NVIDIA's or a release of Megatron-Core since 0.11 is read",
            fix="--framework-version 2024-06, 25.11 or 0.15.0",
        )
    return text


def stated_switches(values: Mapping[str, Any], framework: str, version: str) -> frozenset[str]:
    """Return features by what was typed: compiled layers, and what an old release lacks."""
    compiled = frozenset({"compile"}) if values.get("compile") else frozenset[str]()
    return compiled | features_at(framework, version if version.startswith("20") else "")


def check_release(plan: TrainingPlan, job: TrainingJob) -> None:
    """Refuse a plan whose features the stated release does not have.

    Raises: InfeasibleError: it lacks one; the first release that has it is the fix.
    """
    missing = next(missing_features(job, plan), None)
    if missing is not None:
        raise InfeasibleError(
            str(missing),
            why=f"it came with {missing.first.release}",
            fix=f"--framework-version {missing.first.month}, or a plan without it",
        )


def host_note(
    values: Mapping[str, Any], plan: TrainingPlan, job: TrainingJob, cluster: TrainingCluster
) -> str:
    """Return a note on what a plan keeps in host memory, and on the host memory that is assumed.

    Raises: InfeasibleError: it needs more; AdvisorError: more is stated than nodes are sold with.
    """
    stated = values.get("host_memory_gb")
    if stated is not None and stated > _MOST_HOST_GB:
        raise AdvisorError(
            f"--host-memory-gb {stated:g} is more than nodes are sold with",
            why=f"servers hold at most {_MOST_HOST_GB:g} GB for each of eight accelerators",
            fix=f"--host-memory-gb {_MOST_HOST_GB:g}",
        )
    needed = float(host_bytes(job, PlanLattice.of([plan]))[0])
    if not needed:
        return ""
    room = float(stated) * GB if stated is not None else HOST_BYTES_PER_ACCELERATOR
    if needed > room:
        raise InfeasibleError(
            f"the plan keeps {needed / GB:.0f} GB in host memory for each accelerator",
            why=f"{room / GB:.0f} GB {'are stated' if stated is not None else 'are taken to be there'}",
            fix=f"--host-memory-gb {math.ceil(needed / GB)}, or less in host memory",
        )
    assumed = "" if stated is not None else f", of {room / GB:.0f} GB assumed (--host-memory-gb)"
    return f"the plan keeps {needed / GB:.0f} GB in host memory for each accelerator{assumed}"


def network_note(cluster: TrainingCluster, num_accelerators: int) -> str:
    """Return the network that a job over several nodes is priced with, where none was typed."""
    if num_accelerators <= cluster.domain or cluster.network_bytes_per_s:
        return ""
    between = network_of(cluster.accelerator, cluster.group(num_accelerators))
    return "" if between is None else f"{between.words} (--network-gbps says another)"
