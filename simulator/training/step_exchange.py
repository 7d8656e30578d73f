"""Communication inside a layer and between stages, exposed: tensor, context and expert parallel, pipeline sends."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from advisor.catalog.training import software_of
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.collectives.expert_parallel import GroupLimit, distinct_holders
from advisor.simulator.device import device_of
from advisor.simulator.graph.operator import Experts, Layer
from advisor.simulator.training.cluster import Groups, TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import SCHEDULES, FloatArray, PlanLattice
from advisor.simulator.training.step_layers import LayerTimes

DUALPIPE: Final = SCHEDULES.index("dualpipe")


@dataclass(frozen=True, slots=True)
class LayerExchanges:
    """Exposed communication of one layer and micro-batch [s], per plan."""

    tensor_forward_s: FloatArray
    tensor_backward_s: FloatArray
    context_forward_s: FloatArray
    context_backward_s: FloatArray
    expert_forward_s: FloatArray
    expert_backward_s: FloatArray
    hidden_forward_s: FloatArray
    """Communication time of the forward pass that its computation hides [s]."""
    hidden_backward_s: FloatArray


class Exchange(NamedTuple):
    """Communication of one kind in a layer [s], per plan: the time that a pass waits for, and the time that computation
    hides."""

    forward_s: FloatArray
    backward_s: FloatArray
    hidden_forward_s: FloatArray
    hidden_backward_s: FloatArray


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
        self.job = job
        self.lattice = lattice
        self.costs = costs
        self.rows = rows
        one = np.ones_like(lattice.tensor_parallel)
        tp = lattice.tensor_parallel
        cp = lattice.context_parallel
        self.tensor = Groups(cluster, tp, one)
        self.context = Groups(cluster, cp, tp)
        self.stream_bytes_per_s = device_of(cluster.accelerator).bandwidth_bytes_per_s * common_term(
            "stream_fraction"
        )
        etp = lattice.tensor_parallel_of_experts
        self.expert = Groups(cluster, lattice.expert_parallel, etp)
        self.expert_tensor = Groups(cluster, etp, one)
        stride = tp * cp * lattice.data_parallel
        self.stages = Groups(cluster, np.minimum(lattice.pipeline_parallel, 2), stride)
        # The first two stages may share a node that others do not.
        self.all_stages = Groups(cluster, lattice.pipeline_parallel, stride)

    def layer(self, layer: Layer, times: LayerTimes) -> LayerExchanges:
        """Exposed communication of one layer [s]. Source: own composition, see docs/training-time.md."""
        tensor = self._tensor(layer, times)
        context = self._context(layer, times)
        # A second of computation covers a second of communication, of whichever micro-batch.
        free_f = times.forward_s - tensor.hidden_forward_s - context.hidden_forward_s
        free_b = times.input_s + times.weight_s - tensor.hidden_backward_s - context.hidden_backward_s
        expert = self._expert(layer, np.maximum(free_f, 0.0), np.maximum(free_b, 0.0))
        return LayerExchanges(
            tensor.forward_s,
            tensor.backward_s,
            context.forward_s,
            context.backward_s,
            expert.forward_s,
            expert.backward_s,
            tensor.hidden_forward_s + context.hidden_forward_s + expert.hidden_forward_s,
            tensor.hidden_backward_s + context.hidden_backward_s + expert.hidden_backward_s,
        )

    def send_s(self) -> FloatArray:
        """Time to send one activation from a stage to the next [s]: micro-batch · sequence / cp · hidden, over tp if
        divided."""
        return self.stages.send_recv_s(self.activation_bytes())

    def slowest_send_s(self) -> FloatArray:
        """Time of the same send between the two neighbouring stages that are furthest apart [s]."""
        return self.all_stages.send_recv_s(self.activation_bytes())

    def activation_bytes(self) -> FloatArray:
        """Size of the output of a layer on one accelerator [bytes]."""
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        return self.rows * self.job.model.hidden_size * BF16_BYTES / split

    def _tensor(self, layer: Layer, times: LayerTimes) -> Exchange:
        """Time of sums of the outputs of attention and feed-forward part, or of gather and scatter along the sequence
        [s].

        Multiplications hide the pieces of their own operands that travel meanwhile: all except the first piece of a
        gather and the last of a scatter, if ranks write into each other's memory.
        """
        experts = layer.experts
        tp = self.lattice.tensor_parallel
        parts = layer.num_parts - (experts is not None)
        num_bytes = self.rows * self.job.model.hidden_size * BF16_BYTES
        divided = self.lattice.sequence_parallel == 1
        scattered_s = self.tensor.all_gather_s(num_bytes) + self.tensor.reduce_scatter_s(num_bytes)
        whole_s = np.where(divided, scattered_s, self.tensor.all_reduce_s(num_bytes))
        waits_s = np.where(tp > 1, np.where(divided, 2.0, 1.0) * self.costs.collective_wait_s, 0.0)
        wire_s = parts * (whole_s * self.costs.communication_scale + waits_s)
        pieces = np.where(divided & self.tensor.shares_memory, 1.0 - 1.0 / tp, 0.0)
        hidden_f = np.minimum(pieces * wire_s, self._tensor_overlap() * times.matmul_forward_s)
        hidden_b = np.minimum(pieces * wire_s, self.costs.tensor_overlap * times.matmul_forward_s)
        # The input is gathered again for the weight gradient, during the input gradient's multiplication.
        by_weights = np.minimum(0.5 * (wire_s - hidden_b), self.costs.hidden_by_weights * times.weight_s)
        forward = wire_s - hidden_f
        backward = wire_s - hidden_b - by_weights
        if experts is not None:
            copies = experts.per_token / np.maximum(self.lattice.expert_parallel, 1)
            routed = num_bytes * np.maximum(copies, 1.0)
            split = self.expert_tensor.all_gather_s(routed) + self.expert_tensor.reduce_scatter_s(routed)
            forward = forward + split
            backward = backward + split
        return Exchange(forward, backward, hidden_f, hidden_b + by_weights)

    def _tensor_overlap(self) -> float:
        """Fraction of the multiplications' time in the forward pass in which the link is busy with their operands."""
        return max(self.costs.tensor_overlap, 0.5 if "async_tp" in self.job.features else 0.0)

    def _context(self, layer: Layer, times: LayerTimes) -> Exchange:
        """Time of keys and values around a ring during attention, or of heads for sequence by all-to-all (Ulysses)
        [s].

        PyTorch merges the parts of a ring in fp32, operator by operator. torchtitan and Accelerate gather keys and
        values at once, during the first part, torchtitan's repeated for their query heads; their gradients travel in
        fp32, the last ones after all parts.

        Source: pytorch/pytorch, torch/distributed/tensor/experimental/_attention.py (_templated_ring_attention,
            _SDPAMerger); pytorch/torchtitan, models/llama3 (repeat_kv), context_parallel_rotate_method; accelerate
            1.15.0, cp_comm_strategy; transformers 5.24.0, integrations/sdpa_attention.py (use_gqa_in_sdpa).
        """
        attention = layer.attention
        cp = self.lattice.context_parallel
        zero = np.zeros_like(self.rows)
        if layer.mixer is None or not np.any(cp > 1):
            return Exchange(zero, zero, zero, zero)
        tp = self.lattice.tensor_parallel
        if attention is None or self.job.exchanges_heads:
            num_bytes = 2.0 * self.rows * self.job.model.hidden_size * BF16_BYTES / tp
            seconds = 2.0 * self.context.all_to_all_s(num_bytes)
            return Exchange(seconds, seconds, zero, zero)
        software = software_of(self.job.framework, self.job.software)
        at_once = software.gathers_ring
        heads = attention.num_heads if software.repeats_ring_heads else attention.num_kv_heads
        width = np.maximum(1.0, heads / tp) * (attention.key_dim + attention.value_dim)
        # A ring of cp − 1 sends moves as many bytes as one gather.
        ring_s = self.context.all_gather_s(self.rows * width * BF16_BYTES * cp)
        parts = cp if at_once else 1.0
        shown = 1.0 - self.costs.context_overlap
        gradient_s = self.costs.attention_backward * times.core_s
        forward = np.maximum(ring_s - times.core_s / parts, shown * ring_s)
        if at_once:
            last_s = np.where(cp > 1, self.context.send_recv_s(self.rows * width * FP32_BYTES), 0.0)
            backward = np.maximum(ring_s - gradient_s / parts, shown * ring_s) + last_s
        else:
            backward = np.maximum(2.0 * ring_s - gradient_s, shown * 2.0 * ring_s)
        hidden_f = ring_s - forward
        hidden_b = np.maximum(2.0 * ring_s - backward, 0.0)
        merged = np.where(cp > 1, cp, 0.0) * self.rows * attention.num_heads / tp * attention.value_dim
        merged_s = merged / self.stream_bytes_per_s
        return Exchange(
            forward + self.costs.ring_forward_bytes * merged_s,
            backward + self.costs.ring_backward_bytes * merged_s,
            hidden_f,
            hidden_b,
        )

    def _expert(self, layer: Layer, free_forward_s: FloatArray, free_backward_s: FloatArray) -> Exchange:
        """Time of tokens to their experts' ranks and back [s]; the backward pass sends the gradients the same ways.

        DualPipe, and Megatron's `overlap_moe_expert_parallel_comm` (overlapped_experts), run a forward and a backward
        pass together, so that all of one's computation covers the other's exchange; elsewhere a part of the layer's own
        does. The kernels that move tokens take processors from those that compute: DualPipe's own ones all the time.

        Source: DeepSeek-V3 (arXiv:2412.19437), sections 3.2.1, 3.2.2 and 3.5.1; deepseek-ai/DeepEP, branch hybrid-ep,
            csrc/hybrid_ep/executor/executor.cu (allgather_routing_map, permute_launcher, unpermute_launcher).
        """
        experts = layer.experts
        zero = np.zeros_like(self.rows)
        if experts is None:
            return Exchange(zero, zero, zero, zero)
        split = np.where(self.lattice.sequence_parallel == 1, self.lattice.tensor_parallel, 1)
        tokens = self.rows / split
        hybrid = "hybrid_dispatcher" in self.job.features
        if "alltoall_dispatcher" in self.job.features:
            num_bytes = tokens * experts.per_token * experts.hidden_size * BF16_BYTES
            both_ways = 2.0 * self.expert.all_to_all_s(num_bytes)
        else:
            both_ways = self.expert.expert_exchange_s(
                tokens,
                experts,
                mode="hybrid" if hybrid else "normal",
                neighbours="neighbouring_experts" in self.job.features,
            )
        routed_s = zero
        if hybrid:
            # Every rank gathers all maps of tokens and experts, one byte a pair; the backward pass has them already.
            routed_s = self.expert.all_gather_s(tokens * experts.num_experts * self.lattice.expert_parallel)
            both_ways = both_ways + self._sorted_s(tokens, experts)
        reserved = self.lattice.schedule == DUALPIPE
        covered = reserved | ("overlapped_experts" in self.job.features)
        share = np.where(covered, 1.0, self.costs.expert_overlap)
        forward_s = both_ways + routed_s
        hidden_f = np.minimum(forward_s, share * free_forward_s)
        hidden_b = np.minimum(both_ways, share * free_backward_s)
        taken = common_term("exchange_processors")
        return Exchange(
            forward_s - hidden_f + taken * np.where(reserved, free_forward_s, hidden_f),
            both_ways - hidden_b + taken * np.where(reserved, free_backward_s, hidden_b),
            hidden_f,
            hidden_b,
        )

    def _sorted_s(self, tokens: FloatArray, experts: Experts) -> FloatArray:
        """Time in which HybridEP's own kernels sort what a rank received by expert, and put it back in order [s].

        Sorting reads a vector for each token and rank and writes one for each token and expert; the way back reads and
        writes as many.

        Source: deepseek-ai/DeepEP, branch hybrid-ep, docs/Hybrid-EP_Implementation.md, section 7.2 (independent mode);
            NVIDIA/Megatron-LM, core/transformer/moe/fused_a2a.py (moe_permute_fusion_into_hybridep is off by default,
            and in Megatron-Bridge's recipes).
        """
        limit = GroupLimit(experts.num_groups, experts.groups_per_token)
        ranks, of = np.unique(self.lattice.expert_parallel, return_inverse=True)
        received = np.array([distinct_holders(int(count), experts.per_token, limit) for count in ranks])[of]
        moved = 2.0 * tokens * (received + experts.per_token) * experts.hidden_size * BF16_BYTES
        return np.asarray(moved / self.stream_bytes_per_s)
