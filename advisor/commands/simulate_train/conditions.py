"""Stated conditions of a simulated step: its release, host memory and network, and what is said of those assumed."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from advisor.ask.measures import parse_bytes
from advisor.ask.training import conditions_of
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA, MICROSECOND_S, TERA
from advisor.decide.training.conditions import check_power_cap, cluster_of, network_words
from advisor.decide.training.scenario import MachineConditions
from advisor.decide.training.search import does_fit, evaluate_plan
from advisor.simulator.device import with_power_cap
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.releases import missing_features
from advisor.simulator.training.step import slow_host_factor
from advisor.simulator.training.step_host import host_bytes
from advisor.simulator.training.switches import SWITCHES, Switches, read_switches, words_of

_OF_TORCH: Final = frozenset(
    {"compile", "linear_ce", "tiled_mlp", "optim_in_backward", "autocast", "fp32_params"}
)
"""Switches of modules of PyTorch, which Megatron and MaxText do not have."""
_TOLD_FACTOR: Final = 1.1
"""Smallest factor by which uncertain launches widen a step's time that a note explains; less is within other errors."""


def stated_conditions(values: Mapping[str, Any]) -> MachineConditions:
    """Return the conditions of machines that were typed, or that a plan file states.

    Raises: AdvisorError and its kinds: as `conditions_of`, or two options state the network.
    """
    if values.get("network") and values.get("network_gbps") is not None:
        raise AdvisorError(
            "--network and --network-gbps exclude each other",
            why="both state the network",
            fix="drop one of them",
        )
    return conditions_of(values.get("network"), values.get("host_memory"), values.get("power_cap_w"))


def stated_cluster(values: Mapping[str, Any], accelerator: Accelerator) -> TrainingCluster:
    """Return the cluster of an accelerator, or of a variant of it, under the conditions that were typed.

    Raises: AdvisorError and its kinds: as `stated_conditions`; a power limit that the board does not take.
    """
    conditions = stated_conditions(values)
    changes: dict[str, float] = {}
    if "gpu_memory" in values:
        changes["memory_bytes"] = parse_bytes(str(values["gpu_memory"]), "--gpu-memory")
    if "gpu_bandwidth_tb_s" in values:
        changes["bandwidth_bytes_per_s"] = float(values["gpu_bandwidth_tb_s"]) * TERA
    variant = accelerator.model_copy(update=changes) if changes else accelerator
    check_power_cap(accelerator, conditions.power_cap_w)
    node = int(values.get("gpus_per_node", 0))
    cluster = cluster_of(with_power_cap(variant, conditions.power_cap_w), conditions, node)
    if "host_operator_us" in values:
        cluster = replace(cluster, host_operator_s=float(values["host_operator_us"]) * MICROSECOND_S)
    rate = values.get("network_gbps")
    if rate is None:
        return cluster
    return replace(cluster, network=NodeNetwork(float(rate) * GIGA / BITS_PER_BYTE))


def with_switches(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed values with those of the layout that a switch sets: states or inputs of layers on the host.

    Raises: AdvisorError: as `stated_switches`.
    """
    found = read_switches(_feature_words(values))
    told = {
        "offload_optimizer": found.offloads_optimizer,
        "offload_activations": found.offloads_activations,
    }
    return {**values, **{name: True for name, is_on in told.items() if is_on}}


def stated_switches(values: Mapping[str, Any], framework: str) -> Switches:
    """Return the switches of a run that were typed, by --features and --compile.

    Raises: AdvisorError: no switch has a word; InfeasibleError: a switch needs context parallelism, or is another
    framework's.
    """
    found = read_switches([*_feature_words(values), *(("compile",) if values.get("compile") else ())])
    if found.unknown:
        word = found.unknown[0]
        near = get_close_matches(word.casefold(), SWITCHES, 1, 0.5)
        raise AdvisorError(
            f"--features {word!r} is no switch of a training run",
            why=f"known are {', '.join(SWITCHES)}",
            fix=f"--features {near[0]}" if near else "drop it",
        )
    if "ulysses_sp" in found.features and int(values.get("cp", 1)) == 1:
        raise InfeasibleError(
            "--features ulysses_sp divides nothing",
            why="heads are exchanged among the ranks of --cp, which is 1",
            fix="--cp 2 or more, or drop ulysses_sp",
        )
    torch = sorted(found.features & _OF_TORCH)
    if torch and framework in ("megatron", "maxtext"):
        raise InfeasibleError(
            f"{framework} has no {torch[0]}",
            why=f"{SWITCHES[torch[0]]}: a switch of PyTorch's own modules",
            fix="--framework deepspeed, fsdp, torchtitan or peft",
        )
    return found


def _feature_words(values: Mapping[str, Any]) -> list[str]:
    return words_of(str(values.get("features", "")))


def habit_notes(
    job: TrainingJob, cluster: TrainingCluster, plan: TrainingPlan, *, fits: bool
) -> Iterator[str]:
    """Yield what is taken for a trainer's habit and decides on the memory: stored scores of attention, and a loss in
    tiles without which a plan that `fits` would not."""
    if job.framework in OF_TRANSFORMERS and "unfused_attention" in job.features:
        yield (
            f"attention of {job.model.id} stores its scores, as Transformers has no other for it; "
            "--features flash_attention if your trainer's stores none"
        )
    whole = replace(job, features=job.features - {"linear_ce", "tiled_head"})
    if fits and "tiled_head" in job.features and not does_fit(evaluate_plan(whole, cluster, plan)):
        yield (
            "the loss is computed in tiles, as TRL's newest release does: with whole logits the plan would not "
            "fit (--framework-version 2025-06 prices an older release)"
        )


def launch_note(job: TrainingJob, cluster: TrainingCluster, plan: TrainingPlan) -> str:
    """Return why the upper end of a step's time is far: launches of 16-bit experts are uncertain; empty elsewhere."""
    factor = slow_host_factor(job, plan, cluster)
    if factor < _TOLD_FACTOR:
        return ""
    return (
        "how long a host launches experts in 16 bits was not measured, and this step waits for it: the upper end of "
        f"its time is {factor:.2g} times as far (a larger --micro-batch waits less)"
    )


def check_release(plan: TrainingPlan, job: TrainingJob) -> None:
    """Refuse a plan whose features the stated release does not have.

    Raises: InfeasibleError: it lacks one; the first release that has all of them is the fix.
    """
    missing = max(missing_features(job, plan), key=lambda each: each.first.month, default=None)
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

    Raises: InfeasibleError: it needs more.
    """
    stated = "host_memory" in values
    needed = float(host_bytes(job, PlanLattice.of([plan]))[0])
    if not needed:
        return ""
    room = cluster.host_bytes
    if needed > room:
        raise InfeasibleError(
            f"the plan keeps {needed / GB:.0f} GB in host memory for each accelerator",
            why=f"{room / GB:.0f} GB {'are stated' if stated else 'are taken to be there'}",
            fix=f"--host-memory {math.ceil(needed / GB)}GB, or less in host memory",
        )
    assumed = f", of {room / GB:.0f} GB {'there' if stated else 'assumed (--host-memory)'}"
    return f"the plan keeps {needed / GB:.0f} GB in host memory for each accelerator{assumed}"


def network_note(cluster: TrainingCluster, num_accelerators: int) -> str:
    """Return the network that a job over several nodes is priced with, where none was typed, or leaves open how."""
    words = network_words(cluster, num_accelerators)
    if cluster.network is not None and cluster.network.is_ethernet:
        return f"{words} (--network-gbps)" if words else ""
    return f"{words} (--network says another)" if words and cluster.network is None else ""
