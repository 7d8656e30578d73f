"""Communication is never faster than its wire: what a step waits for and what it hides are the bytes over the link."""

import numpy as np
import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.simulator.collectives import topology_of
from advisor.simulator.graph.training import layer_parameters
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice
from advisor.simulator.training.memory.formats import shape_of
from advisor.simulator.training.passes import pass_times
from advisor.simulator.training.plan import FloatArray, PlanLattice, Sharding, TrainingPlan
from advisor.simulator.training.step import num_micro_batches, step_time

CARDS = ("h100-sxm", "h100-pcie", "l40s", "a100-sxm-80gb", "b200-sxm", "gb200", "mi300x")
COMMUNICATION = (
    "tensor_parallel_s",
    "context_parallel_s",
    "expert_parallel_s",
    "pipeline_s",
    "data_parallel_s",
)
BYTES = 2.0
TWO_NODES = 16


def least_wire_s(job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster) -> FloatArray:
    """Bytes that an accelerator must receive in one step over the fastest link that can carry them [s].

    Layers of an average stage: a gather and a scatter along the sequence (or a sum, which a switch may halve) for both
    parts of every layer and both passes; keys and values once around the ring; gradients once.
    """
    groups = [topology_of(cluster.accelerator, 1 << power) for power in range(1, cluster.domain.bit_length())]
    intra = max(group.intra_bytes_per_s for group in groups)
    inter = cluster.group(2 * cluster.domain).inter_bytes_per_s
    tp = lattice.tensor_parallel
    cp = lattice.context_parallel
    layers = sum(group.count for group in job.model.layers) / lattice.pipeline_parallel
    rows = lattice.micro_batch * job.sequence_tokens / cp
    hidden = rows * job.model.hidden_size * BYTES
    times = num_micro_batches(job, lattice)
    twice = np.where(lattice.sequence_parallel == 1, 2.0, 1.0)
    tensor_s = times * layers * 2.0 * 2.0 * twice * (tp - 1) / tp * hidden / intra
    ranks = lattice.data_parallel * cp
    beside = np.maximum(1, cluster.domain // tp)
    fastest = np.maximum(intra, inter * np.minimum(beside, ranks))
    held = layer_parameters(shape_of(job), tp, lattice.expert_ranks).dense[0] * layers
    return np.asarray(tensor_s + (ranks - 1) / ranks * held * BYTES / fastest)


def lattice_of(job: TrainingJob, cluster: TrainingCluster, number: int) -> PlanLattice:
    limits = LatticeLimits(
        cluster.domain, schedules=("1f1b", "interleaved", "zb_h1", "zbv", "dualpipe"), micro_batch=(1, 4)
    )
    return enumerate_lattice(job, number, limits)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_no_plan_moves_its_bytes_faster_than_the_wire(card: str, framework: str) -> None:
    cluster = TrainingCluster(accelerators.by_id(card))
    job = TrainingJob(models.get("llama-3.1-8b").record, 4096, 64, framework=framework)
    for number in (8, TWO_NODES):
        lattice = lattice_of(job, cluster, number)
        found = step_time(job, lattice, cluster)
        exposed = np.asarray(sum(getattr(found, name) for name in COMMUNICATION))
        assert np.all(found.hidden_s >= 0.0)
        assert np.all(exposed + found.hidden_s >= least_wire_s(job, lattice, cluster) * (1 - 1e-9))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
def test_a_second_of_computation_hides_a_second_of_communication_at_most(model: str) -> None:
    """Layers hide no more than they compute, on every kind of schedule."""
    cluster = TrainingCluster(accelerators.by_id("h100-sxm"))
    job = TrainingJob(models.get(model).record, 4096, 256)
    lattice = lattice_of(job, cluster, 64)
    passes = pass_times(job, lattice, cluster, framework_costs(job, "hopper"))
    forward = passes.forward_s - passes.layer_waits_s[0]
    backward = passes.input_s + passes.weight_s - passes.layer_waits_s[1]
    assert np.all(passes.hidden_forward_s <= forward * (1 + 1e-9))
    assert np.all(passes.hidden_backward_s <= backward * (1 + 1e-9))


def test_sums_along_pcie_hide_behind_weight_gradients_alone() -> None:
    """Eight H100s on PCIe hold 8B at TP8 no better than their bus: only switched fabrics take operands in pieces."""
    cluster = TrainingCluster(accelerators.by_id("h100-pcie"))
    job = TrainingJob(models.get("llama-3.1-8b").record, 8192, 64)
    plan = PlanLattice.of([TrainingPlan(tensor_parallel=8, sharding="zero1")])
    found = step_time(job, plan, cluster)
    assert float(found.tensor_parallel_s[0]) > 0.8 * float(least_wire_s(job, plan, cluster)[0])
    assert float(found.tensor_parallel_s[0]) > float(found.forward_s[0] + found.backward_s[0])


@pytest.mark.parametrize(("sharding", "times"), [("zero1", 1), ("zero2", 16)])
def test_divided_gradients_are_summed_after_every_micro_batch(sharding: Sharding, times: int) -> None:
    """At 25 Gb/s nothing hides: sixteen micro-batches sum sixteen times where gradients are divided (ZeRO-2)."""
    cluster = TrainingCluster(
        accelerators.by_id("h100-sxm"), ranks_per_node=1, network=NodeNetwork(25.0 * GIGA / BITS_PER_BYTE)
    )
    waits = {}
    for accumulation in (1, 16):
        job = TrainingJob(models.get("llama-3.1-8b").record, 512, 8 * accumulation, framework="deepspeed")
        plan = PlanLattice.of([TrainingPlan(data_parallel=8, sharding=sharding)])
        found = step_time(job, plan, cluster)
        waits[accumulation] = float(found.data_parallel_s[0] + found.hidden_s[0])
    held = shape_of(TrainingJob(models.get("llama-3.1-8b").record, 512, 8)).total
    once_s = 7 / 8 * held * BYTES / (25.0 * GIGA / BITS_PER_BYTE)
    assert waits[16] - waits[1] >= (times - 1) * once_s
    assert waits[16] < (times + 1) * 2.0 * waits[1]
