"""Operators of one layer in addition to its matrices (attention, recurrences, experts), and the protocol of a kind."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element, cached_value_bytes
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
    """Softmax attention of one layer: the keys that its queries attend to, and the cache of each token."""

    num_heads: int
    num_kv_heads: int
    """Number of heads of the keys and values that prompts attend to."""
    key_dim: int
    value_dim: int
    cached_values: int
    """Number of values per cached token that decode reads, all heads."""
    cached_heads: int
    """Number of parts of the cache that ranks can share out; 1 if each rank needs all of it."""
    decode_pair_flop: float
    """FLOP per pair of decoding token and cached token, all heads."""
    latent: bool = False
    """Whether decode attends in a latent space that all heads share (absorbed); prompts attend to keys and values of
    each head."""
    kept: bool = True
    """False if keys and values are another layer's, an encoder's, or gone with the pass."""
    in_prompts: bool = True
    """False if tokens of prompts bring no queries."""
    causal: bool = True
    window_tokens: int | None = None
    top_k: int | None = None
    """Number of tokens that an indexer chooses; None: all."""
    line_window: int | None = None
    """Number of tokens from which on decode does not read more; None: no limit."""
    compress_ratio: int = 1
    scaled_entry_bytes: float | None = None
    """Size of one entry in an fp8 cache that keeps scales and 16-bit positions with its values [bytes]; None if an
    fp8 cache keeps one byte per value."""
    indexer_bytes: float = 0.0
    """Size of an indexer's key per token [bytes]."""
    cross_tokens: int | None = None
    """Length of the encoder's keys and values, which a sequence keeps in addition [tokens]; None without an encoder."""

    @property
    def prefill_pair_flop(self) -> float:
        """FLOP per pair of query and key of a prompt, all heads."""
        return 2.0 * self.num_heads * (self.key_dim + self.value_dim)

    @property
    def decode_width(self) -> float:
        """Number of values of a cached token that one head multiplies with, key and value on average."""
        return float(self.cached_values) if self.latent else (self.key_dim + self.value_dim) / 2.0

    def seen_tokens(self, context_tokens: float) -> float:
        """Number of cache entries that a decoding token attends to."""
        if self.cross_tokens:
            return float(self.cross_tokens)
        seen = min(context_tokens / self.compress_ratio, self.top_k or math.inf)
        if self.window_tokens is None:
            return seen
        tail = min(context_tokens, self.window_tokens)
        return tail + seen if self.compress_ratio > 1 else min(tail, seen)

    @property
    def key_fraction(self) -> float:
        """Fraction of the cached values that are keys; latent attention keeps no values apart from them."""
        return 1.0 if self.latent else self.key_dim / (self.key_dim + self.value_dim)

    def cached_bytes(self, kv_dtype: str) -> float:
        """Size of one cached token, or of one entry if tokens are compressed, in a cache without separate scales
        [bytes]."""
        return self.cached_values * cached_value_bytes(kv_dtype, self.key_fraction)

    def cache_share(self, tensor_parallel: int) -> float:
        """Fraction of the layer's cache on one rank."""
        return 1.0 / min(tensor_parallel, self.cached_heads)


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """Attention of one layer as a straight line: intercept [s] and slope [s per token or per query-key pair]."""

    intercept_s: FloatArray
    slope_s: FloatArray
    windowed: bool = False
    """Whether the time grows with the context within the window only."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One accelerator of a deployment, and its operators."""

    deployment: Deployment
    library: OperatorLibrary


@dataclass(frozen=True, slots=True)
class Decoding(Rank):
    """One accelerator of a deployment that decodes sequences, and its operators."""

    context_spread: float = 0.0
    """Standard deviation over mean of the contexts of the sequences."""


@dataclass(frozen=True, slots=True)
class Pass(Rank):
    """A pass over a grid of token counts."""

    tokens: FloatArray
    """Numbers of tokens of the whole replica."""
    rank_tokens: FloatArray
    """Numbers of tokens on the busiest attention data-parallel rank."""
    decode: bool
    """Whether the pass decodes: one token per sequence."""
    input_tokens: float = 1.0


class MixerOperators(Weighted, MixerBackward):
    """Operators of the mixer of one layer. A kind sets its own values and overrides the times of its own kernels."""

    kind: str = ""
    launches: int = 0
    """Number of kernels outside a graph: norms, projections, rotary embedding, cache write, core and its reduction."""
    attention: Attention | None = None
    recurrence_kernel: str = ""
    """Operator of the efficiency records that price the state mixer; empty without a state."""
    lent_kernel: bool = False
    """Whether this kind has no measurements and takes the kernel records of a related one."""
    cached_state: bool = False
    """Whether engines keep the state in a prefix cache together with blocks of tokens."""
    follows_encoder: bool = False
    """Whether the mixer reads the output of an encoder of the same model."""
    head_counts: tuple[int, ...] = ()
    """Numbers of heads that tensor parallelism must divide."""
    exchanged_norm_values: int = 0
    """Number of query and key values of a token under a norm over the heads of all ranks; 0 without one."""
    repeated_heads: int | None = None
    """Number of key-value heads, which are repeated if there are fewer than ranks; None: not repeated."""

    def recurrence(self, tensor_parallel: int = 1) -> RecurrenceShape | None:
        """Return the constant state on one of `tensor_parallel` ranks; None without one."""
        return None

    def state_bytes(self, kv_element_bytes: float) -> float:
        """Size of the state that one layer keeps of a sequence whatever its context [bytes].

        Recurrent state and the last inputs of its convolution, or keys and values of an encoder.

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
        """Return the heads that keep an engine from starting at this degree, as a phrase; empty if none do.

        Key-value heads are repeated if there are fewer of them than ranks, and then ranks divide among heads.

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
        """Return the matrices that tokens of a step or of a prompt are multiplied with."""
        return self.local(tensor_parallel)

    def pass_projections(self, at: Pass) -> tuple[Projection, ...]:
        """Return the matrices of a pass. Source: own definition."""
        return self.projections(at.deployment.tensor_parallel, decode=at.decode)

    def pass_widths(self, at: Pass) -> list[float]:
        """Number of 16-bit values per token of small operators other than norms and projections, one entry per
        operator."""
        return []

    def pass_s(self, at: Pass) -> Mapping[str, FloatArray]:
        """Time of the operators that depend on the tokens of a pass alone, without matrices and small operators, by
        category [s]."""
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
            library.transferred_operators.add(f"{self.kind}: {self.recurrence_kernel}")
        return recurrence_s(num_tokens, num_sequences, shape, library.device, efficiency, decode=decode)

    def decode_lines(
        self, at: Decoding, batch: FloatArray, low: float, high: float
    ) -> tuple[AttentionLine, ...]:
        """Decode attention of one layer per batch of a rank, in its summed context [s]."""
        return ()

    def prefill_line(self, at: Rank, chunk: float, cached: float) -> tuple[float, float]:
        """Intercept [s] and slope [s per query-key pair] of one layer for a chunk of one sequence."""
        return 0.0, 0.0

    def attends_prompts(self, deployment: Deployment, input_tokens: float) -> bool:
        """Whether attention over prompts of `input_tokens` tokens grows with the query-key pairs (`prefill_line`)."""
        return self.attention is not None

    def score_pair_s(self, at: Rank, chunk: float, cached: float, input_tokens: float) -> float:
        """Time of one layer's indexer per query-key pair of a chunk of a prompt [s]; 0 if nothing is scored."""
        return 0.0

    def sequence_s(
        self, library: OperatorLibrary, tokens: Floats, batch: Floats, ranks: Floats
    ) -> FloatArray:
        """Time of attention of one layer over whole sequences without a cache, heads divided among `ranks` ranks
        [s]."""
        return np.zeros(np.broadcast_shapes(np.shape(tokens), np.shape(batch), np.shape(ranks)))


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of one layer."""

    num_experts: int
    per_token: int
    hidden_size: int
    """Width of the experts' inputs: the model's hidden size, or narrower."""
    intermediate_size: int
    gated: bool
    num_groups: int = 1
    """Number of groups of experts, of which a token chooses experts in `groups_per_token`."""
    groups_per_token: int = 1

    @property
    def elements(self) -> int:
        """Number of weights of one expert."""
        return (3 if self.gated else 2) * self.intermediate_size * self.hidden_size

    @property
    def hit_fraction(self) -> float:
        """Probability that a token goes to a given expert."""
        return self.per_token / self.num_experts

    @overload
    def num_chosen(self, num_tokens: float) -> float: ...
    @overload
    def num_chosen(self, num_tokens: FloatArray) -> FloatArray: ...
    def num_chosen(self, num_tokens: float | FloatArray) -> float | FloatArray:
        """Expected number of experts that at least one of `num_tokens` tokens chose: E (1 − (1 − k/E)^tokens).

        Assumes: tokens choose independently and evenly.
        Source: occupancy problem.
        """
        return self.num_experts * (1.0 - (1.0 - self.hit_fraction) ** num_tokens)


class FeedForwardOperators(Weighted, FeedForwardBackward):
    """Operators of the feed-forward part of one layer."""

    experts: Experts | None = None
    gated: bool = True
    inner_size: int = 0
    """Width inside the dense matrices; with routed experts, inside the shared experts."""

    def launches(self, expert_operators: int) -> int:
        """Number of kernels outside a graph; `expert_operators` is the number for a part with routed experts."""
        raise NotImplementedError

    def pass_widths(self, tensor_parallel: int) -> list[float]:
        """Number of 16-bit values per token of small operators other than the norm, one entry per operator."""
        raise NotImplementedError

    @property
    def widest_values(self) -> float:
        """Number of values per token at the widest moment, before tensor parallelism."""
        raise NotImplementedError

    @property
    def parameters(self) -> float:
        """Number of weights of the part, all experts included."""
        experts = self.experts
        return super().parameters + (experts.num_experts * experts.elements if experts else 0.0)

    @property
    def active(self) -> float:
        """Number of weights that one token multiplies with."""
        experts = self.experts
        return super().parameters + (experts.per_token * experts.elements if experts else 0.0)


@dataclass(frozen=True, slots=True)
class Layer:
    """`count` equal layers; a layer may lack a mixer or a feed-forward part."""

    count: int
    mixer: MixerOperators | None
    feed_forward: FeedForwardOperators | None
    stored_count: int = 0
    """Number of layers whose weights are stored if fewer than `count` are shared; 0 means `count`."""

    @property
    def copies(self) -> int:
        """Number of layers whose weights are stored."""
        return self.stored_count or self.count

    @property
    def encodes(self) -> bool:
        """Whether the layer reads whole inputs at once and writes no text."""
        return self.attention is not None and not self.attention.causal

    @property
    def attention(self) -> Attention | None:
        """Attention of the layer; None if its mixer is not attention."""
        return self.mixer.attention if self.mixer is not None else None

    @property
    def experts(self) -> Experts | None:
        """Routed experts of the layer; None without any."""
        return self.feed_forward.experts if self.feed_forward is not None else None

    @property
    def num_parts(self) -> int:
        """Number of parts, mixer and feed-forward, that the layer has."""
        return (self.mixer is not None) + (self.feed_forward is not None)

    @property
    def stored(self) -> tuple[Matrix, ...]:
        """All weights except those of routed experts, in the order of the layer."""
        mixer = self.mixer.stored if self.mixer else ()
        return (*mixer, *(self.feed_forward.stored if self.feed_forward else ()))

    def num_weights_on_rank(self, tensor_parallel: int) -> tuple[float, float]:
        """Number of weights outside routed experts on one rank: in the deployment's format, and in 16 bits."""
        parts = [
            part.num_weights_on_rank(tensor_parallel)
            for part in (self.mixer, self.feed_forward)
            if part is not None
        ]
        return sum(low_bit for low_bit, _ in parts), sum(others for _, others in parts)

    def local(self, tensor_parallel: int) -> tuple[Projection, ...]:
        """Return all dense matrices as one of `tensor_parallel` ranks multiplies with them."""
        mixer = self.mixer.local(tensor_parallel) if self.mixer else ()
        return (*mixer, *(self.feed_forward.local(tensor_parallel) if self.feed_forward else ()))

    @property
    def parameters(self) -> float:
        """Number of weights of one layer."""
        mixer = self.mixer.parameters if self.mixer else 0.0
        return mixer + (self.feed_forward.parameters if self.feed_forward else 0.0)

    @property
    def active(self) -> float:
        """Number of weights of one layer that one token multiplies with."""
        mixer = self.mixer.parameters if self.mixer else 0.0
        return mixer + (self.feed_forward.active if self.feed_forward else 0.0)


def indexer_bytes(num_heads: int, head_dim: int) -> float:
    """Size of one indexer key per token for all heads [bytes]: 132 bytes for 128 values in vLLM and SGLang.

    Source: vLLM 0.20.2, sparse_attn_indexer (fp8 key, one fp32 scale).
    """
    return head_dim * bytes_per_element("fp8") + _INDEXER_SCALE_BYTES if num_heads else 0.0
