"""The host's side of a step: how long it takes to launch the kernels of a pass, and when the accelerator waits."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import Model, MoeFeedForward
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import RECOMPUTES, PlanLattice
from advisor.simulator.training.step_layers import BLOCK_SCALED, SIXTEEN_BIT, is_autocast, is_eager

FloatArray = NDArray[np.float64]

_COMPILED: Final = 0.6
"""Share of launches that torch.compile fuses away."""
_AUTOCAST: Final = 1.3
"""Kernels of a layer under autocast over those without: a cast in front of each matrix and behind its gradient."""


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Of one micro-batch through one stage [s], per plan."""

    forward_s: FloatArray
    backward_s: FloatArray
    """Recomputation included."""

    def waits(self, in_pipeline: NDArray[np.bool_], forward_s: FloatArray, backward_s: FloatArray) -> Self:
        """How long the accelerator waits for launches that take as long as these passes, beside its own times [s].

        Without a pipeline the host runs ahead, so that only the sum of both passes counts; in a pipeline it stands
        still between them until a neighbour has sent.

        Source: own model.
        """
        together = np.maximum(0.0, self.forward_s + self.backward_s - forward_s - backward_s)
        return type(self)(
            np.where(in_pipeline, np.maximum(0.0, self.forward_s - forward_s), 0.0),
            np.where(in_pipeline, np.maximum(0.0, self.backward_s - backward_s), together),
        )


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
    times as many, and the forward pass again for what is recomputed.

    Assumes: embedding and head together launch as much as a layer.
    Source: own model, fitted on small models (catalog/data/terms.csv).
    """
    kernels = costs.kernels_per_layer + np.where(lattice.tensor_parallel > 1, costs.tensor_kernels, 0.0)
    if is_eager(job):
        kernels = kernels * costs.eager_passes
    if is_autocast(job):
        kernels = kernels * _AUTOCAST
    experts = num_experts(job.model)
    if experts:
        local = np.maximum(1.0, experts / lattice.expert_parallel)
        of_experts = costs.expert_kernels + costs.local_expert_kernels * local
        kernels = kernels + expert_layers_share(job.model) * of_experts
    if job.compute_dtype not in SIXTEEN_BIT:
        block_scaled = job.compute_dtype in BLOCK_SCALED
        kernels = kernels * (costs.block_scaled_kernels if block_scaled else costs.fp8_kernels)
    if job.method != "full":
        kernels = kernels * costs.adapter_launches
    graphs = max(costs.graphs, _COMPILED if "compile" in job.features else 0.0)
    forward = (num_layers + 1.0) * kernels * costs.launch_s * (1.0 - graphs)
    full = lattice.recompute == RECOMPUTES.index("full")
    again = np.where(full, recomputed_share, 0.0)
    return PassTimes(forward, forward * (costs.backward_launches + again))


def expert_layers_share(model: Model) -> float:
    """Share of the layers that have routed experts. Source: own definition."""
    with_experts = sum(g.count for g in model.layers if isinstance(g.feed_forward, MoeFeedForward))
    return with_experts / sum(group.count for group in model.layers)
