"""Host time of a step: when the accelerator waits for launches, or for weights that live in host memory."""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import Model
from advisor.catalog.training import software_of
from advisor.catalog.units import FP32_BYTES
from advisor.simulator.graph.model import layers_of, num_experts, num_layers, routed_layers
from advisor.simulator.training.cluster import TrainingCluster, host_copy_bytes_per_s
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import adapted_matrices
from advisor.simulator.training.memory.formats import formats_of
from advisor.simulator.training.memory.peak import MemoryColumns, kept_activation_bytes, peak_memory
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, FloatArray, PlanLattice
from advisor.simulator.training.step_layers import BLOCK_SCALED, SIXTEEN_BIT, is_autocast, is_eager

LAUNCH_NORM: Final = 5.0
"""Exponent with which launches and kernels of a pass overlap: 1 is one after the other, infinity perfect. Chosen of 2,
3, 5 and infinity with vtrain-single in sight (6.7 % against 7.2 at infinity); megatron-bridge, which was not, has 6.1
against 6.6."""
_NORM_KERNELS: Final = 7.0
_TURN_KERNELS: Final = 9.0
_ADAPTER_KERNELS: Final = {"lora": 8.0, "qlora": 9.0, "dora": 21.0, "ia3": 1.0}
"""Kernels of an RMS norm beyond one, of a rotary embedding with a gate beyond three, and of a matrix's adapter.

An adapter casts its input forth and back and both factors, and has two products, a scale and a sum; DoRA's has norms,
scales and sums too. Own count on transformers 5.24.0, models/llama/modeling_llama.py, and peft 0.21.2, tuners/lora;
DoRA's by a profile of a step."""
_SHORTEST_S: Final = 1e-12
"""Time that stands for none in a ratio [s]."""


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Times of one micro-batch through one stage [s], per plan."""

    forward_s: FloatArray
    backward_s: FloatArray
    """Time of the backward pass, recomputation included [s]."""

    def waits(self, in_pipeline: NDArray[np.bool_], forward_s: FloatArray, backward_s: FloatArray) -> Self:
        """Return the time that the accelerator waits for launches that take as long as these passes, in addition to its
        own times [s].

        Without a pipeline the host runs ahead, so that only the sum of both passes counts; in a pipeline it waits
        between them until a neighbour has sent. Where launching and computing take about as long, neither hides the
        other whole: short kernels wait for the host while long ones let it run ahead.

        Source: own composition, see LAUNCH_NORM.
        """
        together = _beyond(self.forward_s + self.backward_s, forward_s + backward_s)
        return type(self)(
            np.where(in_pipeline, _beyond(self.forward_s, forward_s), 0.0),
            np.where(in_pipeline, _beyond(self.backward_s, backward_s), together),
        )


def _beyond(launching_s: FloatArray, computing_s: FloatArray) -> FloatArray:
    """Time by which launching and computing together outlast computing [s]: (a^p + b^p)^(1/p) - b."""
    longer = np.maximum(np.maximum(launching_s, computing_s), _SHORTEST_S)
    shorter = np.minimum(launching_s, computing_s) / longer
    return np.asarray(longer * (1.0 + shorter**LAUNCH_NORM) ** (1.0 / LAUNCH_NORM) - computing_s)


def launch_times(
    job: TrainingJob,
    lattice: PlanLattice,
    costs: FrameworkCosts,
    num_layers: FloatArray,
    recomputed_share: FloatArray,
) -> PassTimes:
    """Time in which the host launches the kernels of one micro-batch through a stage [s].

    (layers + 1) · kernels · launch; kernels of a layer are the framework's, more under tensor parallelism, for routed
    experts and for each local one, and in formats that need casts; the backward pass launches `backward_launches`
    times as many, and the forward pass again for recomputed layers. Kernels in a CUDA graph (the mixers and norms of
    layers, their routers, or the whole step) are not launched. Those of Transformers' modules are counted one by one.

    Assumes: embedding and head together launch as much as a layer.
    Source: own model, fitted on small models (catalog/data/terms.csv).
    """
    kernels = costs.kernels_per_layer + np.where(lattice.tensor_parallel > 1, costs.tensor_kernels, 0.0)
    of_modules = job.framework == "peft"
    if of_modules:
        kernels = kernels + _module_kernels(job)
    if "graphed_mixers" in job.features:
        kernels = kernels * (1.0 - common_term("graphed_mixer_share"))
    if is_eager(job) and not of_modules:
        kernels = kernels * costs.eager_passes
    if is_autocast(job):
        kernels = kernels * common_term("autocast_launches")
    experts = num_experts(job.model)
    if experts:
        graphed = common_term("graphed_router_share") if "graphed_routers" in job.features else 0.0
        kernels = kernels + expert_layers_share(job.model) * costs.expert_kernels * (1.0 - graphed)
    low_bit = job.compute_dtype not in SIXTEEN_BIT
    if low_bit:
        block_scaled = job.compute_dtype in BLOCK_SCALED
        kernels = kernels * (costs.block_scaled_kernels if block_scaled else costs.fp8_kernels)
    if experts:
        of_one = costs.low_bit_expert_kernels if low_bit else costs.local_expert_kernels
        kernels = kernels + expert_layers_share(job.model) * of_one * np.maximum(
            1.0, experts / lattice.expert_parallel
        )
    if "overlapped_experts" in job.features:
        kernels = kernels * costs.overlapped_launches
    if job.method != "full" and not of_modules:
        kernels = kernels * costs.adapter_launches
    graphs = max(costs.graphs, common_term("compiled_graphs") if "compile" in job.features else 0.0)
    if "graphed_step" in job.features:
        graphs = 1.0
    forward = (num_layers + 1.0) * kernels * costs.launch_s * (1.0 - graphs)
    full = lattice.recompute == RECOMPUTES.index("full")
    again = np.where(full, recomputed_share, 0.0)
    return PassTimes(forward, forward * (costs.backward_launches + again))


def _module_kernels(job: TrainingJob) -> float:
    """Number of kernels of an average layer of Transformers' modules in a forward pass beyond those of fused ones.

    They are those of adapters, and of norms, rotary embedding and gate that run operator by operator.

    Source: as `_NORM_KERNELS`.
    """
    layers = layers_of(job.model)
    software = software_of(job.framework, job.software)
    eager = is_eager(job)
    each = _ADAPTER_KERNELS.get(job.method, 0.0)
    found = 0.0
    for layer in layers:
        one = each * len(adapted_matrices(layer, job, software)) if job.method != "full" else 0.0
        if eager:
            normed = 2.0 if layer.mixer is not None and layer.mixer.normed_values else 0.0
            one += _NORM_KERNELS * (layer.num_parts + normed) + _TURN_KERNELS
        found += layer.count * one
    return found / num_layers(job.model)


def expert_layers_share(model: Model) -> float:
    """Fraction of the layers that have routed experts. Source: own definition."""
    return sum(count for count, _ in routed_layers(model)) / num_layers(model)


def resident_weight_bytes(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Size of the weights of an accelerator as if none lived in host memory [bytes], per plan.

    Source: advisor.simulator.training.memory.
    """
    return _all_resident(job, lattice).weight_bytes


def _all_resident(job: TrainingJob, lattice: PlanLattice) -> MemoryColumns:
    nothing = np.zeros_like(lattice.offload_parameters)
    return peak_memory(job, replace(lattice, offload_parameters=nothing, offload_optimizer=nothing))


def host_bytes(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Host memory that a plan takes for each accelerator [bytes].

    It holds the plan's weights on the host; of the optimizer its states with gradients in fp32, in which the processor
    updates; and the activations of all layers that are kept for the backward pass.

    Source: ZeRO-Offload (arXiv:2101.06840), section 4; deepspeed/runtime/zero/stage_1_and_2.py; activations as in
        Arctic Long Sequence Training (arXiv:2506.13996), section 3.3.
    """
    held = _all_resident(job, lattice)
    activations = np.zeros(len(lattice))
    if lattice.offload_activations.any():
        activations = lattice.offload_activations * kept_activation_bytes(job, lattice)
    size = formats_of(job)
    trained = size.adapters if size.frozen else size.layers
    states = held.optimizer_bytes * (1.0 + FP32_BYTES / max(trained.optimizer, FP32_BYTES))
    return np.asarray(
        lattice.offload_parameters * held.weight_bytes + lattice.offload_optimizer * states + activations
    )


def exposed_stream_s(
    job: TrainingJob,
    lattice: PlanLattice,
    cluster: TrainingCluster,
    num_micro_batches: FloatArray,
    compute_s: FloatArray,
) -> FloatArray:
    """Time of a step that waits for weights from host memory [s], per plan; 0 if they stay on the accelerator.

    max(0, 2 m · weights / host link − computation): every micro-batch reads the weights once forward and once
    backward, the next layer while the one before computes.

    If ranks divide the weights (ZeRO-3), their gather starts from the host, and its wait counts there.

    Assumes: gradients of frozen weights do not travel; those of trained ones stay on the accelerator until the end.
    Source: own composition; ZeRO-Infinity, arXiv:2104.07857, section 4 (bandwidth-centric partitioning).
    """
    if not lattice.offload_parameters.any():
        return np.zeros(len(lattice))
    moved_s = (
        2.0
        * num_micro_batches
        * resident_weight_bytes(job, lattice)
        / host_copy_bytes_per_s(cluster.accelerator)
    )
    waits = np.maximum(0.0, moved_s - compute_s)
    streams = (lattice.offload_parameters > 0) & (lattice.sharding != SHARDINGS.index("zero3"))
    return np.asarray(np.where(streams, waits, 0.0))
