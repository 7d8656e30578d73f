"""Communication inside a layer and between stages, exposed: tensor, context and expert parallel, pipeline sends."""

from dataclasses import dataclass

import numpy as np

from advisor.simulator.graph.operator import Layer
from advisor.simulator.training.cluster import Groups, TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import FloatArray, PlanLattice
from advisor.simulator.training.step_layers import LayerTimes

_BYTES = 2.0


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

    def layer(self, layer: Layer, times: LayerTimes) -> LayerExchanges:
        """Exposed communication of one layer [s]. Source: own composition, see docs/training-time.md."""
        tensor_f, tensor_b = self._tensor(layer, times)
        context_f, context_b = self._context(layer, times)
        expert_f, expert_b = self._expert(layer)
        return LayerExchanges(tensor_f, tensor_b, context_f, context_b, expert_f, expert_b)

    def send_s(self) -> FloatArray:
        """One activation from a stage to the next [s]: micro-batch · sequence / cp · hidden, over tp where divided."""
        return self.stages.send_recv_s(self.activation_bytes())

    def activation_bytes(self) -> FloatArray:
        """Output of a layer on one accelerator [bytes]."""
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        return self.rows * self.job.model.hidden_size * _BYTES / split

    def _tensor(self, layer: Layer, times: LayerTimes) -> tuple[FloatArray, FloatArray]:
        """Sums of the outputs of attention and feed-forward part, or gather and scatter along the sequence."""
        experts = layer.experts
        parts = layer.num_parts - (experts is not None)
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
        hidden = np.minimum(0.5 * backward, common_term("hidden_by_weights") * times.weight_s)
        if experts is not None:
            copies = experts.per_token / np.maximum(self.lattice.expert_parallel, 1)
            routed = num_bytes * np.maximum(copies, 1.0)
            split = self.expert_tensor.all_gather_s(routed) + self.expert_tensor.reduce_scatter_s(routed)
            forward = forward + split
            backward = backward + split
        return forward, backward - hidden

    def _tensor_overlap(self) -> float:
        return max(self.costs.tensor_overlap, 0.5 if "async_tp" in self.job.features else 0.0)

    def _context(self, layer: Layer, times: LayerTimes) -> tuple[FloatArray, FloatArray]:
        """Keys and values around a ring beside attention, or heads for sequence by all-to-all (Ulysses)."""
        attention, cp = layer.attention, self.lattice.context_parallel
        zero = np.zeros_like(self.rows)
        if layer.mixer is None or not np.any(cp > 1):
            return zero, zero
        tp = self.lattice.tensor_parallel
        if attention is None or "ulysses_sp" in self.job.features:
            num_bytes = 2.0 * self.rows * self.job.model.hidden_size * _BYTES / tp
            seconds = 2.0 * self.context.all_to_all_s(num_bytes)
            return seconds, seconds
        width = np.maximum(1.0, attention.num_kv_heads / tp) * (attention.key_dim + attention.value_dim)
        # A ring of cp − 1 sends moves what one gather does.
        ring_s = self.context.all_gather_s(self.rows * width * _BYTES * cp)
        shown = 1.0 - self.costs.context_overlap
        forward = np.maximum(ring_s - times.core_s, shown * ring_s)
        backward = np.maximum(
            2.0 * ring_s - self.costs.attention_backward * times.core_s, shown * 2.0 * ring_s
        )
        return forward, backward

    def _expert(self, layer: Layer) -> tuple[FloatArray, FloatArray]:
        """Tokens to their experts' ranks and back; the backward pass sends the gradients the same ways."""
        experts = layer.experts
        if experts is None:
            return np.zeros_like(self.rows), np.zeros_like(self.rows)
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        tokens = self.rows / split
        if "alltoall_dispatcher" in self.job.features:
            num_bytes = tokens * experts.per_token * experts.hidden_size * _BYTES
            both_ways = 2.0 * self.expert.all_to_all_s(num_bytes)
        else:
            both_ways = self.expert.expert_exchange_s(
                tokens, experts.hidden_size, experts.per_token, experts.num_experts
            )
        seconds = (1.0 - self.costs.expert_overlap) * both_ways
        return seconds, seconds
