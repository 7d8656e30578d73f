"""Communication inside a layer and between stages, exposed: tensor, context and expert parallel, pipeline sends."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import GroupedQueryAttention, LatentAttention, LayerGroup, MoeFeedForward
from advisor.simulator.training.cluster import Groups, TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import PlanLattice
from advisor.simulator.training.step_layers import LayerTimes

FloatArray = NDArray[np.float64]

_BYTES = 2.0
_HIDDEN_BY_WEIGHTS = 0.7
"""Share of the weight gradient's time behind which the sum of input gradients hides."""


@dataclass(frozen=True, slots=True)
class LayerExchanges:
    """Exposed communication of one layer and micro-batch [s], per plan."""

    tensor_forward_s: FloatArray
    tensor_backward_s: FloatArray
    context_forward_s: FloatArray
    context_backward_s: FloatArray
    expert_forward_s: FloatArray
    expert_backward_s: FloatArray


class Exchanges:
    """Communication of layers, priced for all plans of a lattice."""

    def __init__(
        self,
        job: TrainingJob,
        lattice: PlanLattice,
        cluster: TrainingCluster,
        costs: FrameworkCosts,
        rows: FloatArray,
    ) -> None:
        self.job, self.lattice, self.costs, self.rows = job, lattice, costs, rows
        one = np.ones_like(lattice.tensor_parallel)
        tp, cp = lattice.tensor_parallel, lattice.context_parallel
        self.tensor = Groups(cluster, tp, one)
        self.context = Groups(cluster, cp, tp)
        etp = lattice.tensor_parallel_of_experts
        self.expert = Groups(cluster, lattice.expert_parallel, etp)
        self.expert_tensor = Groups(cluster, etp, one)
        stages = np.minimum(lattice.pipeline_parallel, 2)
        self.stages = Groups(cluster, stages, tp * cp * lattice.data_parallel)

    def layer(self, group: LayerGroup, times: LayerTimes) -> LayerExchanges:
        """Exposed communication of one layer [s]. Source: own composition, see docs/training-time.md."""
        tensor_f, tensor_b = self._tensor(group, times)
        context_f, context_b = self._context(group, times)
        expert_f, expert_b = self._expert(group)
        return LayerExchanges(tensor_f, tensor_b, context_f, context_b, expert_f, expert_b)

    def send_s(self) -> FloatArray:
        """One activation from a stage to the next [s]: micro-batch · sequence / cp · hidden, over tp where divided."""
        return self.stages.send_recv_s(self.activation_bytes())

    def activation_bytes(self) -> FloatArray:
        """Output of a layer on one accelerator [bytes]."""
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        return self.rows * self.job.model.hidden_size * _BYTES / split

    def _tensor(self, group: LayerGroup, times: LayerTimes) -> tuple[FloatArray, FloatArray]:
        """Sums of the outputs of attention and feed-forward part, or gather and scatter along the sequence."""
        feed_forward = group.feed_forward
        inside_experts = isinstance(feed_forward, MoeFeedForward)
        parts = (group.mixer is not None) + (feed_forward is not None and not inside_experts)
        num_bytes = self.rows * self.job.model.hidden_size * _BYTES
        gather_s = self.tensor.all_gather_s(num_bytes)
        whole_s = np.where(
            self.lattice.sequence_parallel == 1,
            gather_s + self.tensor.reduce_scatter_s(num_bytes),
            self.tensor.all_reduce_s(num_bytes),
        )
        exposed = self.costs.communication_scale * (1.0 - self._tensor_overlap())
        forward = parts * whole_s * exposed
        # The input is gathered again for the weight gradient, beside the input gradient's multiplication.
        backward = parts * whole_s * exposed
        hidden = np.minimum(0.5 * backward, _HIDDEN_BY_WEIGHTS * times.weight_s)
        if isinstance(feed_forward, MoeFeedForward):
            copies = feed_forward.experts_per_token / np.maximum(self.lattice.expert_parallel, 1)
            routed = num_bytes * np.maximum(copies, 1.0)
            split = self.expert_tensor.all_gather_s(routed) + self.expert_tensor.reduce_scatter_s(routed)
            forward = forward + split
            backward = backward + split
        return forward, backward - hidden

    def _tensor_overlap(self) -> float:
        return max(self.costs.tensor_overlap, 0.5 if "async_tp" in self.job.features else 0.0)

    def _context(self, group: LayerGroup, times: LayerTimes) -> tuple[FloatArray, FloatArray]:
        """Keys and values around a ring beside attention, or heads for sequence by all-to-all (Ulysses)."""
        mixer, cp = group.mixer, self.lattice.context_parallel
        zero = np.zeros_like(self.rows)
        if mixer is None or not np.any(cp > 1):
            return zero, zero
        tp = self.lattice.tensor_parallel
        hidden = self.job.model.hidden_size
        if "ulysses_sp" in self.job.features or not isinstance(
            mixer, GroupedQueryAttention | LatentAttention
        ):
            seconds = 2.0 * self.context.all_to_all_s(2.0 * self.rows * hidden * _BYTES / tp)
            return seconds, seconds
        if isinstance(mixer, LatentAttention):
            width = (
                mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim) / tp
            )
        else:
            width = np.maximum(1.0, mixer.num_kv_heads / tp) * 2.0 * mixer.head_dim
        # A ring of cp − 1 sends moves what one gather does.
        ring_s = self.context.all_gather_s(self.rows * width * _BYTES * cp)
        shown = 1.0 - self.costs.context_overlap
        forward = np.maximum(ring_s - times.attention_s, shown * ring_s)
        backward = np.maximum(
            2.0 * ring_s - self.costs.attention_backward * times.attention_s, shown * 2.0 * ring_s
        )
        return forward, backward

    def _expert(self, group: LayerGroup) -> tuple[FloatArray, FloatArray]:
        """Tokens to their experts' ranks and back; the backward pass sends the gradients the same ways."""
        moe = group.feed_forward
        zero = np.zeros_like(self.rows)
        if not isinstance(moe, MoeFeedForward):
            return zero, zero
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        tokens = self.rows / split
        width = moe.latent_size or self.job.model.hidden_size
        if "alltoall_dispatcher" in self.job.features:
            num_bytes = tokens * moe.experts_per_token * width * _BYTES
            both_ways = 2.0 * self.expert.all_to_all_s(num_bytes)
        else:
            both_ways = self.expert.expert_exchange_s(tokens, width, moe.experts_per_token, moe.num_experts)
        seconds = (1.0 - self.costs.expert_overlap) * both_ways
        return seconds, seconds
