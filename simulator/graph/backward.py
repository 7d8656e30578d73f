"""Backward side of a layer: the tensors kept from the forward pass, and the matrices that adapters are added to.

Bytes per token split by what divides them: `residual` by tensor parallelism only with sequence parallelism, `sharded`
by tensor parallelism always, `key_value` up to the key-value heads, `expert` by expert and tensor parallelism.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import BF16_BYTES

SCORE_BYTES: Final = 5.0
"""Bytes that unfused attention keeps per score: softmax and its dropout output in 16 bits, and the mask (2205.05198,
eq. 1)."""


@dataclass(frozen=True, slots=True)
class KeptTensors:
    """Tensors that one layer keeps for its backward pass [bytes per token]."""

    residual: float = 0.0
    sharded: float = 0.0
    key_value: float = 0.0
    expert: float = 0.0
    """Bytes inside routed experts and their exchange, for all experts of a token."""
    exchanged: float = 0.0
    """Part of `expert` in copies at full width, which expert tensor parallelism gathers instead of dividing [bytes]."""

    def __add__(self, other: "KeptTensors") -> "KeptTensors":
        return KeptTensors(
            self.residual + other.residual,
            self.sharded + other.sharded,
            self.key_value + other.key_value,
            self.expert + other.expert,
            self.exchanged + other.exchanged,
        )

    def times(self, share: float) -> "KeptTensors":
        """Return the kept tensors multiplied by `share`."""
        return KeptTensors(
            share * self.residual,
            share * self.sharded,
            share * self.key_value,
            share * self.expert,
            share * self.exchanged,
        )


@dataclass(frozen=True, slots=True)
class Style:
    """Way in which the kernels of a framework keep a layer's tensors."""

    fused: bool = True
    compiled: bool = False
    frozen: bool = False
    low_bit: bool = False
    """Whether inputs of matrices are kept in 8 bits."""
    autocast: bool = False
    """Whether weights and residual are fp32, and each matrix casts its own copy of a norm's output."""
    dropout: bool = False
    adapts_last: bool = True
    """Whether the last matrix of a feed-forward part, or an adapter on it, learns."""
    adapts_experts: bool = False
    """Whether routed experts have adapters that are added to their weights, which then have gradients."""
    repeats_key_value: bool = False
    splits_one_projection: bool = False
    score_tokens: int = 0
    """Number of keys of each query whose scores are stored; 0 if attention is fused."""
    norm_bytes: float = BF16_BYTES
    """Bytes that an RMS norm keeps in addition to its output, per hidden value."""
    layer_norm_bytes: float = BF16_BYTES
    """Bytes that a LayerNorm keeps in addition to its output, per hidden value: one kernel, which keeps its 16-bit
    input."""

    @property
    def input_bytes(self) -> float:
        """Bytes per value of a tensor kept only as the input of a matrix that learns; 0 if none learns or the tensor is
        recomputed."""
        if self.frozen or self.compiled:
            return 0.0
        return 1.0 if self.low_bit else BF16_BYTES


class Linear(NamedTuple):
    """One matrix as adapters see it, unfused."""

    tensor: str
    """Name of the tensor that the matrix multiplies; matrices of one tensor share it."""
    inputs: int
    outputs: int


class MixerBackward:
    """Backward side of a mixer; each kind defines the tensors that it keeps."""

    kind: str = ""
    hidden: int = 0
    rotary_values: int = 0
    """Values per token that rotary embedding reads and writes."""
    normed_values: int = 0
    """Number of query and key values of a token that have a norm of their own."""

    @property
    def attended_values(self) -> int:
        """Values per token of the input of the last matrix."""
        return self.hidden

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Activation bytes kept per token from the forward to the backward pass, norms excluded.

        Raises: InfeasibleError: the kind does not define the tensors that it keeps.
        Source: each kind's own.
        """
        raise InfeasibleError(
            f"training of {self.kind} layers is not modelled",
            why="what they keep for the backward pass is not known",
            fix="serving them is: simulate serve, recommend",
        )

    def every_second(self, kept: KeptTensors) -> KeptTensors:
        """Part of `kept` if every second matmul and attention are saved, and the residual is the layer's input [bytes].

        Assumes: half of it.
        Source: torchtitan distributed/activation_checkpoint.py.
        """
        return KeptTensors(sharded=kept.sharded / 2.0)

    def without_modules(self, kept: KeptTensors, style: Style) -> KeptTensors:
        """Part of `kept` if cheap modules are recomputed [bytes]: all of a mixer without any.

        Source: Megatron-Core, --recompute-modules.
        """
        return kept

    def linears(self, *, every: bool) -> tuple[Linear, ...]:
        """Return the matrices that have an adapter: those of queries and values, or all.

        Assumes: mixers without separate queries and values are adapted at their input and output.
        Source: huggingface/peft, tuners/lora.
        """
        return Linear("mixer", self.hidden, self.hidden), Linear("attended", self.hidden, self.hidden)


class FeedForwardBackward:
    """Backward side of a feed-forward part."""

    hidden: int

    @property
    def gradient_values(self) -> int:
        """Values per token of the widest tensor whose gradient is in flight."""
        raise NotImplementedError

    @property
    def matrix_width(self) -> int:
        """Largest matrix dimension that is not the hidden size."""
        raise NotImplementedError

    @property
    def is_layer_norm(self) -> bool:
        """Whether the norm is LayerNorm, which comes with models without a gate (GPT, MPT, StableLM alpha); RMS norms
        may be written in Python."""
        return False

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Activation bytes kept per token from the forward to the backward pass, norms excluded. Source: each kind's
        own."""
        raise NotImplementedError

    def every_second(self, kept: KeptTensors) -> KeptTensors:
        """Part of `kept` if every second matmul is saved [bytes]. Source: torchtitan
        distributed/activation_checkpoint.py."""
        return KeptTensors(BF16_BYTES * self.hidden, 0.0, 0.0, kept.expert / 2.0, kept.exchanged / 2.0)

    def without_modules(self, kept: KeptTensors, style: Style) -> KeptTensors:
        """Part of `kept` if cheap modules are recomputed [bytes]. Source: Megatron-Core, --recompute-modules."""
        return kept

    def linears(self, *, every: bool) -> tuple[Linear, ...]:
        """Return the matrices that have an adapter. Source: huggingface/peft: routed experts have none."""
        return ()


def activation_bytes(width: int, gated: bool, style: Style) -> float:
    """Tensors kept inside a feed-forward part: before the activation function, in between, and its result [bytes per
    token].

    Source: Korthikanti et al. (arXiv:2205.05198) section 4.1; torch.compile's partitioner keeps the input of the last
    matrix too, though it could recompute it.
    """
    before = BF16_BYTES * (2 if gated else 1)
    between = BF16_BYTES if gated and not (style.fused or style.compiled) else 0.0
    after = BF16_BYTES if style.compiled and style.adapts_last else style.input_bytes
    return width * (before + between + after)
