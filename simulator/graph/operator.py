"""Operators of one layer beside its matrices: attention, recurrences, experts; and what a kind says of itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.backward import FeedForwardBackward, MixerBackward
from advisor.simulator.graph.weights import Matrix, Projection, Weighted
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.state_space import RecurrenceEfficiency, RecurrenceShape, recurrence_s

FloatArray = NDArray[np.float64]
Floats = FloatArray | float

_CONVOLUTION_INPUT_BYTES: Final = 2.0
_INDEXER_SCALE_BYTES: Final = 4.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention of one layer: what its queries meet, and what it keeps of every token."""

    num_heads: int
    num_kv_heads: int
    """Heads of the keys and values that prompts attend to."""
    key_dim: int
    value_dim: int
    cached_values: int
    """Per token that decode reads, of all heads."""
    cached_heads: int
    """Parts of the cache that ranks can share out; 1 where each rank needs all of it."""
    decode_pair_flop: float
    """Of one decoding token with one cached token, all heads."""
    latent: bool = False
    """Decode attends in a latent space that all heads share (absorbed); prompts to keys and values of each head."""
    kept: bool = True
    """False where keys and values are another layer's, an encoder's, or gone with the pass."""
    in_prompts: bool = True
    """False where tokens of prompts bring no queries."""
    causal: bool = True
    window_tokens: int | None = None
    top_k: int | None = None
    """Tokens that an indexer chooses."""
    line_window: int | None = None
    """Tokens from which on decode does not read more."""
    compress_ratio: int = 1
    indexer_bytes: float = 0.0
    """Of an indexer's key per token."""
    cross_tokens: int | None = None
    """Length of the encoder's keys and values, which a sequence keeps besides."""

    @property
    def prefill_pair_flop(self) -> float:
        """Of one query with one key of a prompt, all heads."""
        return 2.0 * self.num_heads * (self.key_dim + self.value_dim)

    @property
    def decode_width(self) -> float:
        """Values of a cached token that one head multiplies with, key and value on average."""
        return float(self.cached_values) if self.latent else (self.key_dim + self.value_dim) / 2.0

    def seen_tokens(self, context_tokens: float) -> float:
        """Entries of the cache that a decoding token attends to."""
        if self.cross_tokens:
            return float(self.cross_tokens)
        seen = min(context_tokens / self.compress_ratio, self.top_k or math.inf)
        if self.window_tokens is None:
            return seen
        tail = min(context_tokens, self.window_tokens)
        return tail + seen if self.compress_ratio > 1 else min(tail, seen)

    def cache_share(self, tensor_parallel: int) -> float:
        """Part of the layer's cache on one rank."""
        return 1.0 / min(tensor_parallel, self.cached_heads)


@dataclass(frozen=True, slots=True)
class Line:
    """Attention of one layer as a straight line: intercept [s] and slope [s per token or per query-key pair]."""

    intercept_s: FloatArray
    slope_s: FloatArray
    windowed: bool = False
    """Grows with the context within the window only."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One accelerator of a deployment, and its operators."""

    deployment: Deployment
    library: OperatorLibrary


@dataclass(frozen=True, slots=True)
class Decoding(Rank):
    """The same where sequences decode."""

    context_spread: float = 0.0
    """Standard deviation over mean of their contexts."""


@dataclass(frozen=True, slots=True)
class Pass(Rank):
    """A pass over a grid of token counts."""

    tokens: FloatArray
    """Of the whole replica."""
    rank_tokens: FloatArray
    """On the busiest attention data-parallel rank."""
    decode: bool
    """One token per sequence."""
    input_tokens: float = 1.0


class MixerOperators(Weighted, MixerBackward):
    """What the mixer of one layer does. A kind sets what it has and overrides the times of its own kernels."""

    kind: str = ""
    launches: int = 0
    """Kernels outside a graph: norms, projections, rotary embedding, cache write, core and its reduction."""
    attention: Attention | None = None
    recurrence_kernel: str = ""
    """Operator of the efficiency records that price the state mixer; empty without a state."""
    lent_kernel: bool = False
    """Nobody measured this kind: the kernel's records are those of a related one."""
    cached_state: bool = False
    """Engines keep the state in a prefix cache beside blocks of tokens."""
    follows_encoder: bool = False
    """Reads what an encoder of the same model wrote."""
    head_counts: tuple[int, ...] = ()
    """Heads that tensor parallelism must divide."""
    norm_values: int = 0
    """Query and key values of a token that a norm over the heads of all ranks passes over; 0 without one."""
    repeated_heads: int | None = None
    """Key-value heads, which are repeated where there are fewer than ranks."""

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape | None:
        """The constant state on one of so many ranks; None without one."""
        return None

    def state_bytes(self, kv_element_bytes: float) -> float:
        """State that one layer keeps of a sequence whatever its context [bytes]: recurrent state and the last inputs
        of its convolution, or keys and values of an encoder.

        Source: vLLM 0.20.2, model_executor/layers/mamba/mamba_utils.py (state shapes).
        """
        shape = self.recurrence()
        if shape is not None:
            inputs = (shape.conv_kernel - 1) * shape.conv_channels
            return shape.state_bytes + inputs * _CONVOLUTION_INPUT_BYTES
        if self.attention is not None and self.attention.cross_tokens:
            return self.attention.cross_tokens * self.attention.cached_values * kv_element_bytes
        return 0.0

    def refused_heads(self, tensor_parallel: int) -> str:
        """The heads that keep an engine from starting at this degree, in words; empty if none do.

        Key-value heads are repeated where there are fewer of them than ranks, and then ranks divide among heads.

        Source: vLLM 0.20.2, config/model.py (verify_with_parallel_config) and the attention layers' own checks.
        """
        uneven = [number for number in self.head_counts if number % tensor_parallel]
        if uneven:
            return f"{uneven[0]} heads"
        kv_heads = self.repeated_heads
        if kv_heads is not None and kv_heads % tensor_parallel and tensor_parallel % kv_heads:
            return f"{kv_heads} key-value heads"
        return ""

    def projections(self, tensor_parallel: int, *, decode: bool) -> tuple[Projection, ...]:
        """The matrices that tokens of a step or of a prompt are multiplied with."""
        return self.local(tensor_parallel)

    def pass_projections(self, at: Pass) -> tuple[Projection, ...]:
        """The matrices of a pass. Source: own definition."""
        return self.projections(at.deployment.tensor_parallel, decode=at.decode)

    def pass_widths(self, at: Pass) -> list[float]:
        """16-bit values per token of small operators beside norms and projections, one entry per operator."""
        return []

    def pass_s(self, at: Pass) -> Mapping[str, FloatArray]:
        """Time of what the tokens of a pass alone decide, beside matrices and small operators, by category [s]."""
        if not self.recurrence_kernel:
            return {}
        sequences = at.rank_tokens if at.decode else np.ones_like(at.tokens)
        tp = at.deployment.tensor_parallel
        return {"state_space": self.recurrence_s(at.library, at.rank_tokens, sequences, tp, decode=at.decode)}

    def recurrence_s(
        self,
        library: OperatorLibrary,
        num_tokens: FloatArray,
        num_sequences: FloatArray,
        tensor_parallel: int,
        *,
        decode: bool = False,
    ) -> FloatArray:
        """Time of the state mixer of one layer with its convolution [s]. Source: operators.state_space."""
        shape = self.recurrence(tensor_parallel)
        assert shape is not None
        efficiency = library.parameters(RecurrenceEfficiency, self.recurrence_kernel, "bf16")
        if self.lent_kernel:
            library.transferred.add(f"{self.kind}: {self.recurrence_kernel}")
        return recurrence_s(num_tokens, num_sequences, shape, library.device, efficiency, decode=decode)

    def decode_lines(self, at: Decoding, batch: FloatArray, low: float, high: float) -> tuple[Line, ...]:
        """Decode attention of one layer per batch of a rank, in its summed context [s]."""
        return ()

    def prefill_line(self, at: Rank, chunk: float, cached: float) -> tuple[float, float]:
        """Intercept [s] and slope [s per query-key pair] of one layer for a chunk of one sequence."""
        return 0.0, 0.0

    def attends_prompts(self, deployment: Deployment, input_tokens: float) -> bool:
        """Whether attention over prompts of so many tokens grows with the query-key pairs (`prefill_line`)."""
        return self.attention is not None

    def score_pair_s(self, at: Rank, chunk: float, cached: float, input_tokens: float) -> float:
        """Time of one layer's indexer per query-key pair of a chunk of a prompt [s]; 0 where nothing is scored."""
        return 0.0

    def sequence_s(
        self, library: OperatorLibrary, tokens: Floats, batch: Floats, ranks: Floats
    ) -> FloatArray:
        """Attention of one layer over whole sequences without a cache, heads shared by so many ranks [s]."""
        return np.zeros(np.broadcast_shapes(np.shape(tokens), np.shape(batch), np.shape(ranks)))


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of one layer."""

    num_experts: int
    per_token: int
    hidden_size: int
    """Of their inputs: the model's, or narrower."""
    intermediate_size: int
    gated: bool

    @property
    def elements(self) -> int:
        """Weights of one expert."""
        return (3 if self.gated else 2) * self.intermediate_size * self.hidden_size

    @property
    def hit_fraction(self) -> float:
        """Chance that a token goes to a certain expert."""
        return self.per_token / self.num_experts

    @overload
    def touched(self, num_tokens: float) -> float: ...
    @overload
    def touched(self, num_tokens: FloatArray) -> FloatArray: ...
    def touched(self, num_tokens: float | FloatArray) -> float | FloatArray:
        """Expected experts that at least one of so many tokens chose: E (1 − (1 − k/E)^tokens).

        Assumes: tokens choose independently and evenly.
        Source: occupancy problem.
        """
        return self.num_experts * (1.0 - (1.0 - self.hit_fraction) ** num_tokens)


class FeedForwardOperators(Weighted, FeedForwardBackward):
    """What the feed-forward part of one layer does."""

    experts: Experts | None = None
    gated: bool = True
    inner_size: int = 0
    """Width inside the dense matrices; of the shared experts where experts are routed."""

    def launches(self, expert_operators: int) -> int:
        """Kernels outside a graph; `expert_operators` are those of a part with routed experts."""
        raise NotImplementedError

    def pass_widths(self, tensor_parallel: int) -> list[float]:
        """16-bit values per token of small operators beside the norm, one entry per operator."""
        raise NotImplementedError

    @property
    def widest_values(self) -> float:
        """Values per token at the widest moment, before tensor parallelism."""
        raise NotImplementedError

    @property
    def parameters(self) -> float:
        """Weights of the part, all experts included."""
        experts = self.experts
        return super().parameters + (experts.num_experts * experts.elements if experts else 0.0)

    @property
    def active(self) -> float:
        """Weights that one token multiplies with."""
        experts = self.experts
        return super().parameters + (experts.per_token * experts.elements if experts else 0.0)


@dataclass(frozen=True, slots=True)
class Layer:
    """`count` equal layers; a layer may lack a mixer or a feed-forward part."""

    count: int
    mixer: MixerOperators | None
    feed_forward: FeedForwardOperators | None

    @property
    def encodes(self) -> bool:
        """Whether the layer reads whole inputs at once and writes nothing."""
        return self.attention is not None and not self.attention.causal

    @property
    def attention(self) -> Attention | None:
        """The attention of the layer, if its mixer is one."""
        return self.mixer.attention if self.mixer is not None else None

    @property
    def experts(self) -> Experts | None:
        """The routed experts of the layer."""
        return self.feed_forward.experts if self.feed_forward is not None else None

    @property
    def num_parts(self) -> int:
        """Mixer and feed-forward part, as far as the layer has them."""
        return (self.mixer is not None) + (self.feed_forward is not None)

    @property
    def stored(self) -> tuple[Matrix, ...]:
        """All weights but those of routed experts, in the order of the layer."""
        mixer = self.mixer.stored if self.mixer else ()
        return (*mixer, *(self.feed_forward.stored if self.feed_forward else ()))

    def held(self, tensor_parallel: int) -> tuple[float, float]:
        """Weights but those of routed experts on one rank: in the deployment's format, and in 16 bits."""
        parts = [part.held(tensor_parallel) for part in (self.mixer, self.feed_forward) if part is not None]
        return sum(low_bit for low_bit, _ in parts), sum(others for _, others in parts)

    def local(self, tensor_parallel: int) -> tuple[Projection, ...]:
        """All dense matrices as one of so many ranks multiplies with them."""
        mixer = self.mixer.local(tensor_parallel) if self.mixer else ()
        return (*mixer, *(self.feed_forward.local(tensor_parallel) if self.feed_forward else ()))

    @property
    def parameters(self) -> float:
        """Weights of one layer."""
        mixer = self.mixer.parameters if self.mixer else 0.0
        return mixer + (self.feed_forward.parameters if self.feed_forward else 0.0)

    @property
    def active(self) -> float:
        """Weights of one layer that one token multiplies with."""
        mixer = self.mixer.parameters if self.mixer else 0.0
        return mixer + (self.feed_forward.active if self.feed_forward else 0.0)


def indexer_bytes(num_heads: int, head_dim: int) -> float:
    """One key per token for all heads of an indexer: 132 bytes for 128 values in vLLM and SGLang.

    Source: vLLM 0.20.2, sparse_attn_indexer (fp8 key, one fp32 scale).
    """
    return head_dim * bytes_per_element("fp8") + _INDEXER_SCALE_BYTES if num_heads else 0.0
