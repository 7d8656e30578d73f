"""Feed-forward parts: dense, and routed experts with shared ones, in the hidden size or a narrower space."""

from dataclasses import replace

from advisor.catalog.schema import DenseFeedForward, FeedForward, MoeFeedForward
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.graph.backward import KeptTensors, Linear, Style, activation_bytes
from advisor.simulator.graph.operator import Experts, FeedForwardOperators
from advisor.simulator.graph.weights import Block, Matrix

_DENSE_OPERATORS = 4
"""Number of launches of a dense part: norm, two projections and activation."""
_ACTIVATION_PASSES = 0.75
"""Reads and writes of the activation, relative to the fused gate and up: both are read, one is written."""


class Dense(FeedForwardOperators):
    """Dense feed-forward part: two matrices, or three with a gate, which is fused with the first (SwiGLU,
    arXiv:2002.05202)."""

    def __init__(self, record: DenseFeedForward, hidden: int) -> None:
        super().__init__(_pair("feed_forward", record.intermediate_size, record.gated, hidden))
        self.hidden = hidden
        self.gated = record.gated
        self.inner_size = record.intermediate_size

    def launches(self, expert_operators: int) -> int:
        return _DENSE_OPERATORS

    def pass_widths(self, tensor_parallel: int) -> list[float]:
        return [_ACTIVATION_PASSES * self.local(tensor_parallel)[0].columns]

    @property
    def widest_values(self) -> float:
        return 3.0 * self.inner_size

    @property
    def gradient_values(self) -> int:
        return self.inner_size

    @property
    def matrix_width(self) -> int:
        return self.inner_size

    @property
    def is_layer_norm(self) -> bool:
        return not self.gated

    def kept_tensors(self, style: Style) -> KeptTensors:
        return KeptTensors(sharded=activation_bytes(self.inner_size, self.gated, style))

    def every_second(self, kept: KeptTensors) -> KeptTensors:
        """Tensors kept when every second matmul is saved: those of the first and the last matrix."""
        return KeptTensors(BF16_BYTES * self.hidden, BF16_BYTES * self.inner_size)

    def linears(self, *, every: bool) -> tuple[Linear, ...]:
        if not every:
            return ()
        inwards = Linear("feed_forward", self.hidden, self.inner_size)
        return *(inwards,) * (2 if self.gated else 1), Linear("activated", self.inner_size, self.hidden)


class Routed(FeedForwardOperators):
    """Feed-forward part with routed experts; router, shared experts and projections into a narrower space are its
    matrices."""

    def __init__(self, record: MoeFeedForward, hidden: int) -> None:
        matrices = [
            Matrix("router", (Block(record.num_experts, divided=False),), _whole(hidden), low_bit=False)
        ]
        if record.latent_size:
            matrices += [
                Matrix("latent_down", (_whole(record.latent_size),), _whole(hidden)),
                Matrix("latent_up", (_whole(hidden),), _whole(record.latent_size)),
            ]
        if record.shared_intermediate_size:
            matrices += _pair("shared_expert", record.shared_intermediate_size, record.gated, hidden)
        super().__init__(tuple(matrices))
        self.hidden = hidden
        self.gated = record.gated
        self.inner_size = record.shared_intermediate_size
        self.routed = self.experts = Experts(
            record.num_experts,
            record.experts_per_token,
            record.latent_size or hidden,
            record.intermediate_size,
            record.gated,
            record.num_groups,
            record.groups_per_token,
        )

    def launches(self, expert_operators: int) -> int:
        return expert_operators

    def pass_widths(self, tensor_parallel: int) -> list[float]:
        """Values per token of small operators: gating, top-k and, with shared experts, their activation and the final
        sum."""
        widths = [float(self.routed.num_experts), 2.0 * self.routed.per_token]
        if self.inner_size:
            shared = self.local(tensor_parallel)[-2]
            widths += [_ACTIVATION_PASSES * shared.columns, _ACTIVATION_PASSES * self.hidden]
        return widths

    @property
    def widest_values(self) -> float:
        inner = float(self.routed.intermediate_size)
        return self.routed.per_token * (max(2.0 * inner, self.hidden) + inner)

    @property
    def gradient_values(self) -> int:
        return self.routed.per_token * self.routed.intermediate_size

    @property
    def matrix_width(self) -> int:
        return self.routed.intermediate_size

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass.

        In addition to the activations: routed copies of the token in front of the experts, and the experts' outputs,
        whose weighting has a gradient. Experts whose weights have gradients keep their inputs, frozen or not.
        """
        routed = self.routed
        own = replace(style, frozen=False) if style.adapts_experts else style
        latent = 0 if routed.hidden_size == self.hidden else routed.hidden_size
        return KeptTensors(
            residual=2 * FP32_BYTES * routed.num_experts + BF16_BYTES * latent,
            sharded=activation_bytes(self.inner_size, self.gated, style),
            expert=routed.per_token * activation_bytes(routed.intermediate_size, self.gated, own),
            exchanged=routed.per_token * routed.hidden_size * (own.input_bytes + BF16_BYTES),
        )

    def without_modules(self, kept: KeptTensors, style: Style) -> KeptTensors:
        """Tensors kept when cheap modules are recomputed: routed copies and the inputs of the activation function.

        They are in 8 bits if matrices multiply in 8 bits; weights of experts are applied inside the function, so that
        their outputs have no use.

        Source: DeepSeek-V3 (arXiv:2412.19437), section 3.3.3; Megatron-Core, moe_act.
        """
        routed = self.routed
        before = (style.input_bytes or BF16_BYTES) * (2 if self.gated else 1)
        return KeptTensors(
            residual=2 * FP32_BYTES * routed.num_experts,
            sharded=self.inner_size * before,
            expert=routed.per_token * routed.intermediate_size * before,
            exchanged=routed.per_token * routed.hidden_size * style.input_bytes,
        )


def feed_forward_operators(record: FeedForward, hidden: int) -> FeedForwardOperators:
    """Return the operators behind a feed-forward record. Source: own definition."""
    return Dense(record, hidden) if isinstance(record, DenseFeedForward) else Routed(record, hidden)


def _pair(name: str, intermediate: int, gated: bool, hidden: int) -> tuple[Matrix, ...]:
    return (
        Matrix(f"{name}_in", (Block(intermediate, 2 if gated else 1),), _whole(hidden)),
        Matrix(f"{name}_out", (_whole(hidden),), Block(intermediate)),
    )


def _whole(size: int) -> Block:
    return Block(size, divided=False)
