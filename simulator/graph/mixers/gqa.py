"""Multi-head, grouped-query and multi-query attention."""

import numpy as np

from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.schema import GroupedQueryAttention
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.backward import SCORE_BYTES, KeptTensors, Linear, Style
from advisor.simulator.graph.operator import (
    Attention,
    AttentionLine,
    Decoding,
    FloatArray,
    Floats,
    MixerOperators,
    Rank,
    indexer_bytes,
)
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention import attention_decode_s, attention_encoder_s, attention_prefill_s
from advisor.simulator.operators.attention_kernels import (
    DecodeEfficiency,
    PrefillEfficiency,
    secant_over_cache,
    secant_over_context,
)
from advisor.simulator.operators.unified_attention import (
    UnifiedAttentionEfficiency,
    unified_decode_s,
    unified_prefill_s,
)

_WIDEST_ENCODER_HEAD = 80
"""Largest head size among the measurements behind the records of encoder attention."""


class Operators(MixerOperators):
    """Operators of grouped-query attention. Query, key and value are one matrix; key-value heads are repeated if there
    are fewer than ranks."""

    kind = "gqa"
    attention: Attention
    launches = 8

    def __init__(self, record: GroupedQueryAttention, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        value = record.v_head_dim or record.head_dim
        inputs = Block(hidden, divided=False)
        states = Block(hidden, record.input_states or 1, divided=False)
        query = Block(record.num_heads, record.head_dim + (value if record.output_gate else 0))
        keys = Block(record.num_kv_heads, record.head_dim + (0 if record.keys_are_values else value))
        projected = query if record.query_rank is None else Block(record.query_rank, divided=False)
        matrices = [Matrix("qkv", (projected,) if record.shared_kv else (projected, keys), states)]
        if record.query_rank is not None:
            matrices.append(Matrix("query_up", (query,), projected))
        if record.indexer_num_heads:
            scored = Block((record.indexer_num_heads + 1) * record.indexer_head_dim, divided=False)
            matrices.append(Matrix("indexer", (scored,), inputs))
        matrices.append(Matrix("attention_out", (inputs,), Block(record.num_heads, value)))
        super().__init__(tuple(matrices))
        if record.query_key_norm != "none":
            self.normed_values = (record.num_heads + record.num_kv_heads) * record.head_dim
        if record.query_key_norm == "all_heads":
            self.exchanged_norm_values = self.normed_values
        self.head_dim = (record.head_dim + value) // 2
        self.rotary_values = 2 * (record.num_heads + record.num_kv_heads) * record.head_dim
        self.head_counts = (record.num_heads,)
        self.repeated_heads = record.num_kv_heads
        self.attention = Attention(
            num_heads=record.num_heads,
            num_kv_heads=record.num_kv_heads,
            key_dim=record.head_dim,
            value_dim=value,
            cached_values=record.num_kv_heads * (record.head_dim + value),
            cached_heads=record.num_kv_heads,
            decode_pair_flop=2.0 * record.num_heads * (record.head_dim + value),
            kept=not record.shared_kv and record.causal,
            causal=record.causal,
            window_tokens=record.window_tokens,
            top_k=record.sparse_top_k,
            line_window=record.window_tokens,
            indexer_bytes=indexer_bytes(record.indexer_num_heads, record.indexer_head_dim),
        )

    @property
    def attended_values(self) -> int:
        return self.record.num_heads * (self.record.v_head_dim or self.record.head_dim)

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: queries, keys, values, the output and the sums of its softmax; scores if
        attention stores them."""
        record = self.record
        output = self.attended_values
        query = record.num_heads * record.head_dim
        # In compiled layers the transposed output is written out for the matrix behind it.
        outputs = output * (2 if style.compiled and not style.frozen else 1)
        kept = BF16_BYTES * (query + outputs) + FP32_BYTES * record.num_heads
        if record.output_gate:
            kept += BF16_BYTES * 2 * output
        if style.low_bit:
            kept += 1.0 * output
        keys = record.num_kv_heads * record.head_dim
        values = record.num_kv_heads * (record.v_head_dim or record.head_dim)
        if style.splits_one_projection and record.num_kv_heads == record.num_heads:
            kept += BF16_BYTES * query
            keys *= 2
        elif style.repeats_key_value:
            kept += BF16_BYTES * (query + output)
            keys = values = 0
        kept += SCORE_BYTES * record.num_heads * style.score_tokens
        key_value = BF16_BYTES * (keys + values)
        if self.normed_values:
            kept += style.norm_bytes * query
            key_value += style.norm_bytes * record.num_kv_heads * record.head_dim
        return KeptTensors(sharded=kept, key_value=key_value)

    def every_second(self, kept: KeptTensors) -> KeptTensors:
        """Tensors kept when every second matmul is saved: queries and values of the projections, and attention's
        output."""
        record = self.record
        return KeptTensors(
            sharded=BF16_BYTES * 2 * record.num_heads * record.head_dim + FP32_BYTES * record.num_heads,
            key_value=BF16_BYTES * record.num_kv_heads * (record.v_head_dim or record.head_dim),
        )

    def linears(self, *, every: bool) -> tuple[Linear, ...]:
        record = self.record
        hidden = self.hidden
        query = record.num_heads * record.head_dim
        values = record.num_kv_heads * (record.v_head_dim or record.head_dim)
        found = (Linear("mixer", hidden, query), Linear("mixer", hidden, values))
        if not every:
            return found
        keys = Linear("mixer", hidden, record.num_kv_heads * record.head_dim)
        return *found, keys, Linear("attended", query, hidden)

    def decode_lines(
        self, at: Decoding, batch: FloatArray, low: float, high: float
    ) -> tuple[AttentionLine, ...]:
        heads, kv_heads, dim = self._shape(at.deployment)
        window = self.record.window_tokens
        kv_bytes = cached_value_bytes(at.deployment.kv_dtype)
        library = at.library
        key = "fp8" if at.deployment.kv_dtype == "fp8" else "bf16"
        is_unified = runs_unified(self.record, at.deployment)

        def time_s(sequences: FloatArray, context: float) -> FloatArray:
            if is_unified:
                return unified_decode_s(
                    sequences,
                    context,
                    heads,
                    kv_heads,
                    dim,
                    library.device,
                    library.parameters(UnifiedAttentionEfficiency, "unified_attention", "bf16"),
                    window_tokens=window,
                    kv_bytes_per_element=kv_bytes,
                )
            return attention_decode_s(
                sequences,
                context,
                heads,
                kv_heads,
                dim,
                library.device,
                library.parameters(DecodeEfficiency, "attention_decode", key),
                window_tokens=window,
                kv_bytes_per_element=kv_bytes,
                uneven_share=library.uneven_streams,
                spread=at.context_spread,
            )

        line = secant_over_context(time_s, batch, low, high, window_tokens=window)
        return (AttentionLine(*line, windowed=window is not None),)

    def prefill_line(self, at: Rank, chunk: float, cached: float) -> tuple[float, float]:
        heads, kv_heads, dim = self._shape(at.deployment)
        library = at.library
        kv_bytes = cached_value_bytes(at.deployment.kv_dtype)
        is_unified = runs_unified(self.record, at.deployment)

        def time_s(tokens: FloatArray, before: float) -> FloatArray:
            if is_unified:
                unified = library.parameters(UnifiedAttentionEfficiency, "unified_attention", "bf16")
                return unified_prefill_s(tokens, before, 1, heads, kv_heads, dim, library.device, unified)
            return attention_prefill_s(
                tokens,
                before,
                1,
                heads,
                kv_heads,
                dim,
                library.device,
                library.parameters(PrefillEfficiency, "attention_prefill", "bf16"),
                kv_bytes_per_element=kv_bytes,
            )

        line = secant_over_cache(time_s, chunk, 0.0, cached)
        # An encoder's queries attend to all tokens, twice as many as the earlier ones.
        return float(line[0]), float(line[1]) * (1.0 if self.record.causal else 2.0)

    def sequence_s(
        self, library: OperatorLibrary, tokens: Floats, batch: Floats, ranks: Floats
    ) -> FloatArray:
        record = self.record
        device = library.device
        heads = record.num_heads / np.asarray(ranks, dtype=np.float64)
        if not record.causal:
            # Encoder kernels were measured at head sizes of vision towers, up to 80; wider heads run the kernels of
            # prompts, without their mask.
            operator = "attention_encoder" if self.head_dim <= _WIDEST_ENCODER_HEAD else "attention_prefill"
            encoder = library.parameters(PrefillEfficiency, operator, "bf16")
            return np.asarray(attention_encoder_s(tokens, batch, heads, self.head_dim, device, encoder))
        efficiency = library.parameters(PrefillEfficiency, "attention_prefill", "bf16")
        kv_heads = np.maximum(1.0, record.num_kv_heads / np.asarray(ranks, dtype=np.float64))
        return np.asarray(
            attention_prefill_s(
                tokens,
                0.0,
                batch,
                heads,
                kv_heads,
                self.head_dim,
                device,
                efficiency,
                window_tokens=record.window_tokens,
            )
        )

    def _shape(self, deployment: Deployment) -> tuple[int, int, int]:
        """Return query heads, key-value heads and the mean size of keys and values on one rank."""
        tp = deployment.tensor_parallel
        return self.record.num_heads // tp, max(1, self.record.num_kv_heads // tp), self.head_dim


def runs_unified(mixer: GroupedQueryAttention, deployment: Deployment) -> bool:
    """Whether an engine runs this attention in its one kernel for prompts and decodes, e.g. sinks without
    FlashAttention-3.

    Source: the engine's record.
    """
    return mixer.sinks and deployment.accelerator.architecture in deployment.engine.sinks_in_unified_kernel
