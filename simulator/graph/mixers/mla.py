"""Multi-head latent attention (DeepSeek): expanded, absorbed, and over keys that an indexer chooses."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.schema import Engine, LatentAttention, SparseLatentKernels
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.backward import SCORE_BYTES, KeptTensors, Style
from advisor.simulator.graph.operator import (
    Attention,
    AttentionLine,
    Decoding,
    FloatArray,
    Floats,
    MixerOperators,
    Pass,
    Rank,
    indexer_bytes,
)
from advisor.simulator.graph.weights import Block, Matrix, Projection
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention_kernels import (
    PrefillEfficiency,
    secant_over_cache,
    secant_over_context,
)
from advisor.simulator.operators.latent_attention import (
    AbsorbEfficiency,
    LatentDecodeEfficiency,
    mla_absorb_s,
    mla_decode_s,
    mla_prefill_s,
)
from advisor.simulator.operators.sparse_attention import (
    IndexerEfficiency,
    SparseLatentEfficiency,
    indexer_s,
    selection_s,
    sparse_latent_s,
)
from advisor.simulator.operators.triton_latent import KERNELS as TRITON
from advisor.simulator.operators.triton_latent import TritonLatentEfficiency, triton_latent_s

_OVERLAPPING_COMPRESS_RATIO: Final = 4
_LAUNCHES: Final = 22
_INDEXER_LAUNCHES: Final = 14
"""Number of launches of an indexer: projections with quantised inputs, norm, rotary embedding, quantised queries,
weights, cache write, cleared list, scores, choice and its translation; queries joined and padded (vLLM's Indexer and
sparse_attn_indexer)."""


_SCALED_VALUES: Final = 128
"""Number of latent values with one fp32 scale in an fp8 cache of sparse latent attention (vLLM fp8_ds_mla)."""
_COMPRESSED_SCALE_BYTES: Final = 8
"""Scales of one entry of a compressed latent cache [bytes]: one byte for 64 values, padded (vLLM deepseek_v4)."""


def _scaled_entry_bytes(record: LatentAttention) -> float | None:
    """Size of an entry of an fp8 cache with scales and positions in 16 bits [bytes]; None for dense latent attention,
    whose entries have neither.

    kv_lora_rank + 4 · ceil(kv_lora_rank / 128) + 2 · rope (656 for DeepSeek-V3.2); 584 for DeepSeek-V4.

    Source: vLLM 0.33.0 v1/kv_cache_interface.py; SGLang 0.5.23 mem_cache/memory_pool.py.
    """
    positions = 2.0 * record.qk_rope_head_dim
    if record.latent_only:
        return record.kv_lora_rank + positions + _COMPRESSED_SCALE_BYTES
    if record.sparse_top_k is None:
        return None
    return record.kv_lora_rank + 4.0 * math.ceil(record.kv_lora_rank / _SCALED_VALUES) + positions


class Operators(MixerOperators):
    """Operators of latent attention. The down-projections are repeated on every rank, the up-projections split by heads
    (arXiv:2405.04434)."""

    kind = "mla"

    def __init__(self, record: LatentAttention, hidden: int) -> None:
        self.record = record
        self.hidden = hidden
        super().__init__(_matrices(record, hidden))
        latent = record.kv_lora_rank + record.qk_rope_head_dim
        rank = record.kv_lora_rank
        self.launches = _LAUNCHES + (_INDEXER_LAUNCHES if record.indexer_num_heads else 0)
        self.head_counts = (record.num_heads,)
        self.rotary_values = 2 * record.num_heads * (record.qk_nope_head_dim + record.qk_rope_head_dim)
        self.attention = Attention(
            num_heads=record.num_heads,
            num_kv_heads=record.num_heads,
            key_dim=record.qk_nope_head_dim + record.qk_rope_head_dim,
            value_dim=record.v_head_dim,
            cached_values=latent,
            cached_heads=1,
            latent=True,
            decode_pair_flop=2.0 * record.num_heads * (latent + rank),
            window_tokens=record.window_tokens,
            top_k=record.sparse_top_k,
            line_window=record.sparse_top_k,
            compress_ratio=record.compress_ratio,
            indexer_bytes=indexer_bytes(record.indexer_num_heads, record.indexer_head_dim),
            scaled_entry_bytes=_scaled_entry_bytes(record),
        )

    def kept_tensors(self, style: Style) -> KeptTensors:
        """Tensors kept for the backward pass: latents before and after their norms; queries, keys, values, the
        up-projection behind them, the output."""
        record = self.record
        heads = record.num_heads
        nope = record.qk_nope_head_dim
        rope = record.qk_rope_head_dim
        value = record.v_head_dim
        down = (record.q_lora_rank or 0) + record.kv_lora_rank
        sums = heads * (FP32_BYTES + SCORE_BYTES * style.score_tokens)
        if record.latent_only:
            query = heads * (record.kv_lora_rank + rope)
            return KeptTensors(BF16_BYTES * (2 * down + rope), BF16_BYTES * (query + heads * value) + sums)
        attention = heads * (2 * (nope + rope) + (nope + value) + value)
        latent = down if style.compiled else 2 * down
        return KeptTensors(BF16_BYTES * (latent + rope), BF16_BYTES * attention + sums)

    def without_modules(self, kept: KeptTensors, style: Style) -> KeptTensors:
        """Tensors kept when cheap modules are recomputed: latents in front of their norms and attention's output;
        queries, keys and values are projected again."""
        record = self.record
        down = (record.q_lora_rank or 0) + record.kv_lora_rank
        output = record.num_heads * (BF16_BYTES * record.v_head_dim + FP32_BYTES)
        return KeptTensors(BF16_BYTES * (down + record.qk_rope_head_dim), output)

    def pass_projections(self, at: Pass) -> tuple[Projection, ...]:
        projections = self.local(at.deployment.tensor_parallel)
        if not self._runs_absorbed(at):
            return projections
        return tuple(projection for projection in projections if not projection.prefill_only)

    def pass_widths(self, at: Pass) -> list[float]:
        if not self._runs_absorbed(at) or kernels_for(at.deployment, self.record) is None:
            return []
        return sparse_widths(self.record, self.record.num_heads // at.deployment.tensor_parallel)

    def pass_s(self, at: Pass) -> Mapping[str, FloatArray]:
        """Time of latent attention that depends on the tokens of a pass alone, by category [s].

        If attention runs absorbed, it contains the matmuls of queries into the latent space and of outputs out of it,
        and the kernels of chosen keys.
        """
        if not self._runs_absorbed(at):
            return {}
        record = self.record
        library = at.library
        parts: dict[str, FloatArray] = {}
        if not record.latent_only:
            parts["attention_projections"] = mla_absorb_s(
                at.rank_tokens,
                record.num_heads // at.deployment.tensor_parallel,
                record.kv_lora_rank,
                record.qk_nope_head_dim,
                record.v_head_dim,
                library.device,
                library.parameters(AbsorbEfficiency, "mla_absorb", "bf16"),
            )
        if kernels_for(at.deployment, record) is not None:
            parts["attention"] = sparse_pass_s(
                at.deployment, library, record, at.rank_tokens, decode=at.decode
            )
        return parts

    def decode_lines(
        self, at: Decoding, batch: FloatArray, low: float, high: float
    ) -> tuple[AttentionLine, ...]:
        """Return decode attention of one layer as lines in the summed context [s].

        Sparse kernels cost the same whatever the context, and are counted with the tokens; the indexer scores every
        token of the context, whatever the attention then reads.
        """
        record = self.record
        top_k = self.record.sparse_top_k
        lines: list[AttentionLine] = []
        if top_k and record.indexer_num_heads:

            def scored_s(sequences: FloatArray, context: float) -> FloatArray:
                return scoring_s(at.library, record, 1.0, context, sequences)

            lines.append(AttentionLine(*secant_over_context(scored_s, batch, low, high)))
        if not decodes_sparse(at.deployment, record):
            first, last = (low, high) if top_k is None else (top_k / 2.0, float(top_k))
            line = self._dense_line(at, batch, first, last)
            lines.append(AttentionLine(*line, windowed=top_k is not None))
        return tuple(lines)

    def prefill_line(self, at: Rank, chunk: float, cached: float) -> tuple[float, float]:
        record = self.record

        def time_s(tokens: FloatArray, before: float) -> FloatArray:
            return mla_prefill_s(
                tokens,
                before,
                1,
                record.num_heads // at.deployment.tensor_parallel,
                record.qk_nope_head_dim,
                record.qk_rope_head_dim,
                record.v_head_dim,
                record.kv_lora_rank,
                at.library.device,
                at.library.parameters(PrefillEfficiency, _expanded_prefill(at.library), "bf16"),
            )

        line = secant_over_cache(time_s, chunk, 0.0, cached)
        return float(line[0]), float(line[1])

    def attends_prompts(self, deployment: Deployment, input_tokens: float) -> bool:
        return not runs_absorbed(deployment, self.record, input_tokens)

    def score_pair_s(self, at: Rank, chunk: float, cached: float, input_tokens: float) -> float:
        if not scores_prompts(at.deployment, self.record, input_tokens):
            return 0.0

        def scored_s(tokens: FloatArray, cached_tokens: float) -> FloatArray:
            return scoring_s(at.library, self.record, float(tokens[0]), cached_tokens, np.ones(1))

        return float(secant_over_cache(scored_s, np.array([chunk]), 0.0, cached)[1][0])

    def sequence_s(
        self, library: OperatorLibrary, tokens: Floats, batch: Floats, ranks: Floats
    ) -> FloatArray:
        record = self.record
        return np.asarray(
            mla_prefill_s(
                tokens,
                0.0,
                batch,
                np.maximum(1.0, record.num_heads / np.asarray(ranks, dtype=np.float64)),
                record.qk_nope_head_dim,
                record.qk_rope_head_dim,
                record.v_head_dim,
                record.kv_lora_rank,
                library.device,
                library.parameters(PrefillEfficiency, "mla_prefill", "bf16"),
            )
        )

    def _runs_absorbed(self, at: Pass) -> bool:
        return at.decode or runs_absorbed(at.deployment, self.record, at.input_tokens)

    def _dense_line(
        self, at: Decoding, batch: FloatArray, low: float, high: float
    ) -> tuple[FloatArray, FloatArray]:
        """Intercept [s] and slope [s per token of the rank's summed context] of attention to all keys."""
        record = self.record
        library = at.library
        device = at.library.device
        heads = record.num_heads // at.deployment.tensor_parallel
        key = "fp8" if at.deployment.kv_dtype == "fp8" else "bf16"

        def time_s(sequences: FloatArray, context: float) -> FloatArray:
            if library.kernels.get("mla_decode") == TRITON:
                triton = library.parameters(TritonLatentEfficiency, "mla_triton", "bf16")
                return triton_latent_s(
                    sequences, context, heads, device, triton, stream_share=library.latent_stream_share
                )
            efficiency = library.parameters(LatentDecodeEfficiency, "mla_decode", key)
            split_sms = library.latent_stream_share * device.num_sms
            if split_sms > efficiency.stream_sms:
                efficiency = replace(efficiency, stream_sms=split_sms)
            return mla_decode_s(
                sequences,
                context,
                heads,
                record.kv_lora_rank,
                record.qk_rope_head_dim,
                device,
                efficiency,
                kv_bytes_per_element=cached_value_bytes(at.deployment.kv_dtype),
            )

        return secant_over_context(time_s, batch, low, high)


def _matrices(record: LatentAttention, hidden: int) -> tuple[Matrix, ...]:
    inputs = _whole(hidden)
    rank = record.q_lora_rank
    latent = _whole(record.kv_lora_rank + record.qk_rope_head_dim)
    queries = Block(record.num_heads, record.qk_nope_head_dim + record.qk_rope_head_dim)
    if rank:
        found = [
            Matrix("qkv_down", (_whole(rank), latent), inputs),
            Matrix("query_up", (queries,), _whole(rank)),
        ]
    else:
        found = [Matrix("kv_down", (latent,), inputs), Matrix("query", (queries,), inputs)]
    if not record.latent_only:
        expanded = Block(record.num_heads, record.qk_nope_head_dim + record.v_head_dim)
        found.append(Matrix("kv_up", (expanded,), _whole(record.kv_lora_rank), prefill_only=True))
    elif record.compress_ratio > 1:
        found.append(_compressor(record, inputs))
    if record.indexer_num_heads:
        scored = _whole(record.indexer_num_heads * record.indexer_head_dim)
        found.append(Matrix("indexer", (scored,), _whole(rank or hidden)))
        if not record.latent_only:
            found.append(Matrix("indexer_key", (_whole(record.indexer_head_dim),), inputs))
        found.append(Matrix("indexer_weights", (_whole(record.indexer_num_heads),), inputs, low_bit=False))
    values = Block(record.num_heads, record.v_head_dim)
    if record.output_gate:
        found.append(Matrix("output_gate", (values,), inputs))
    if record.output_lora_rank:
        found.append(Matrix("output_down", (_whole(record.output_lora_rank),), values))
        values = Block(record.output_groups or 1, record.output_lora_rank)
    found.append(Matrix("attention_out", (inputs,), values))
    return tuple(found)


def _compressor(record: LatentAttention, inputs: Block) -> Matrix:
    """Return two matrices for entries of the cache and keys of the indexer, twice as wide if entries overlap."""
    entry = record.kv_lora_rank + record.qk_rope_head_dim
    compressed = entry + (record.indexer_head_dim if record.indexer_num_heads else 0)
    overlap = 2 if record.compress_ratio == _OVERLAPPING_COMPRESS_RATIO else 1
    return Matrix("compressor", (_whole(2 * overlap * compressed),), inputs)


def _whole(size: int) -> Block:
    return Block(size, divided=False)


def _expanded_prefill(library: OperatorLibrary) -> str:
    """Return the operator whose records price prompts with expanded keys; Triton has one kernel for all attention of
    prompts."""
    return "attention_prefill" if library.kernels.get("attention_prefill") == TRITON else "mla_prefill"


def sparse_kernels_of(
    engine: Engine, architecture: str, kv_dtype: str, num_heads: int
) -> SparseLatentKernels | None:
    """Return the sparse kernels of an engine for `num_heads` query heads of a rank; None if its record names none.

    Source: the engine's record.
    """
    for kernels in engine.sparse_latent:
        of_cache = not kernels.kv_dtypes or kv_dtype in kernels.kv_dtypes
        of_heads = kernels.below_heads is None or num_heads < kernels.below_heads
        if architecture in kernels.architectures and of_cache and of_heads:
            return kernels
    return None


def kernels_for(deployment: Deployment, mixer: LatentAttention) -> SparseLatentKernels | None:
    """Return the sparse kernels that a deployment runs a layer with.

    None if the layer attends to all keys, or also to keys other than an indexer's choice (DeepSeek V4).

    Source: own definition.
    """
    if not mixer.sparse_top_k or mixer.latent_only:
        return None
    return sparse_kernels_of(
        deployment.engine,
        deployment.accelerator.architecture,
        deployment.kv_dtype,
        mixer.num_heads // deployment.tensor_parallel,
    )


def runs_absorbed(deployment: Deployment, mixer: LatentAttention, input_tokens: float) -> bool:
    """Whether prompts of `input_tokens` tokens run through the sparse kernel, absorbed as in decode.

    Source: the engine's record.
    """
    kernels = kernels_for(deployment, mixer)
    return kernels is not None and not (
        kernels.expands_short_prompts and input_tokens <= (mixer.sparse_top_k or 0)
    )


def scores_prompts(deployment: Deployment, mixer: LatentAttention, input_tokens: float) -> bool:
    """Whether a layer's indexer scores prompts of `input_tokens` tokens. Source: the engine's record."""
    if mixer.latent_only or not (mixer.sparse_top_k and mixer.indexer_num_heads):
        return False
    return kernels_for(deployment, mixer) is None or runs_absorbed(deployment, mixer, input_tokens)


def sparse_pass_s(
    deployment: Deployment,
    library: OperatorLibrary,
    mixer: LatentAttention,
    tokens: FloatArray,
    *,
    decode: bool,
) -> FloatArray:
    """Time of a layer's sparse kernel over `tokens` tokens of a rank [s]; 0 if another kernel attends.

    Assumes: prompts run absorbed, see `runs_absorbed`; one call for all tokens of an iteration.
    Source: operators.sparse_attention.
    """
    kernels = kernels_for(deployment, mixer)
    if kernels is None or (decode and kernels.decode == "latent"):
        return np.zeros_like(tokens, dtype=np.float64)
    return sparse_latent_s(
        tokens,
        mixer.num_heads // deployment.tensor_parallel,
        mixer.sparse_top_k or 0,
        mixer.kv_lora_rank,
        mixer.qk_rope_head_dim,
        library.device,
        library.parameters(
            SparseLatentEfficiency, "mla_sparse", kernels.decode if decode else kernels.prompt
        ),
        head_multiple=kernels.decode_head_multiple if decode else kernels.prompt_head_multiple,
    )


def decodes_sparse(deployment: Deployment, mixer: LatentAttention) -> bool:
    """Whether decode runs through the sparse kernel, whose time does not depend on the context.

    Source: the engine's record.
    """
    kernels = kernels_for(deployment, mixer)
    return kernels is not None and kernels.decode != "latent"


def sparse_widths(mixer: LatentAttention, num_heads: int) -> list[float]:
    """16-bit values per token that small operators around chosen keys read and write, one entry per operator.

    Queries and latents are normed, rotated, stored, joined in the latent space and copied to the padded heads, which
    records of dense kernels contain as far as whole modules were measured; the list of choices is translated into
    places of the cache. With an indexer of its own, a layer also quantises its queries, norms and stores the key and
    clears the list (32-bit entries, which are written only).

    Source: own count over vLLM 0.13's Indexer, sparse_attn_indexer and FlashMLASparseImpl.
    """
    top_k = float(mixer.sparse_top_k or 0)
    latent = float(mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    widths = [float(mixer.q_lora_rank or 0), latent, float(num_heads * mixer.qk_rope_head_dim), latent]
    widths += [num_heads * latent, num_heads * latent, 2.0 * top_k]
    if mixer.indexer_num_heads:
        queries = float(mixer.indexer_num_heads * mixer.indexer_head_dim)
        widths += [0.75 * queries, float(mixer.indexer_head_dim), float(mixer.indexer_head_dim), top_k]
    return widths


def scoring_s(
    library: OperatorLibrary,
    mixer: LatentAttention,
    new_tokens: float,
    cached_tokens: float,
    batch_size: FloatArray,
) -> FloatArray:
    """Time of one layer's indexer [s]: scores of new tokens against all earlier ones, and the choice among them.

    Source: operators.sparse_attention.
    """
    efficiency = library.parameters(IndexerEfficiency, "indexer", "fp8")
    heads = mixer.indexer_num_heads
    dim = mixer.indexer_head_dim
    scored = indexer_s(new_tokens, cached_tokens, batch_size, heads, dim, library.device, efficiency)
    pairs = batch_size * new_tokens * (cached_tokens + new_tokens / 2.0)
    return np.asarray(scored + efficiency.launch_s + selection_s(pairs, library.device, efficiency))
