"""Attention over the cache as straight lines in the surface's aggregates: summed context and query-key pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import GroupedQueryAttention, LatentAttention, LayerGroup
from advisor.simulator.deployment import Deployment
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention import (
    DecodeEfficiency,
    PrefillEfficiency,
    decode_line,
    prefill_line,
)
from advisor.simulator.operators.attention_kernels import secant_over_cache, secant_over_context
from advisor.simulator.operators.latent_attention import (
    LatentDecodeEfficiency,
    LatentPrefillEfficiency,
    mla_decode_line,
    mla_prefill_line,
)
from advisor.simulator.operators.triton_latent import KERNELS as TRITON
from advisor.simulator.operators.triton_latent import TritonLatentEfficiency, triton_latent_line
from advisor.simulator.operators.unified_attention import (
    UnifiedAttentionEfficiency,
    unified_decode_line,
    unified_prefill_line,
)
from advisor.simulator.sparse_latent import decodes_sparse, runs_absorbed, scores_prompts, scoring_s

FloatArray = NDArray[np.float64]


@dataclass(slots=True)
class DecodeLines:
    """Decode attention of one stage at each batch size: intercept [s] + slope·S + window_slope·S_w."""

    intercept_s: FloatArray
    slope_s: FloatArray
    window_slope_s: FloatArray
    window_tokens: int | None = None

    def growing_s(self, context_tokens: float) -> FloatArray:
        """What every sequence of such a context adds to the intercept [s], at each batch size."""
        windowed = min(context_tokens, self.window_tokens or 0)
        return self.slope_s * context_tokens + self.window_slope_s * windowed


@dataclass(slots=True)
class PrefillLines:
    """Prefill attention of one stage: sequence [s] + token·n + pair·A + window_pair·A_w."""

    sequence_s: float = 0.0
    token_s: float = 0.0
    pair_s: float = 0.0
    window_pair_s: float = 0.0


def window_of(deployment: Deployment) -> int | None:
    """The window, in tokens, that most windowed layers share; top-k of sparse attention counts as one.

    Assumes: one window per model; published models with windows have one.
    Source: own definition.
    """
    votes: dict[int, int] = {}
    for group in deployment.model.layers:
        window = _window(group)
        if window is not None:
            votes[window] = votes.get(window, 0) + group.count
    return max(votes, key=lambda window: votes[window]) if votes else None


def decode_lines(
    deployment: Deployment,
    library: OperatorLibrary,
    num_sequences: FloatArray,
    context_low: float,
    context_high: float,
) -> DecodeLines:
    """Decode attention of one pipeline stage, per number of sequences of the replica.

    Attention data-parallel ranks each hold their share of the sequences, so a slope per token of the replica's
    summed context is the rank's slope divided by the number of ranks.

    Sparse latent kernels cost the same whatever the context, and are counted with the tokens (`token_costs`).

    Source: operators.attention.decode_line, operators.latent_attention.mla_decode_line.
    """
    dp = deployment.data_parallel
    batch = np.maximum(1.0, np.ceil(num_sequences / dp))
    zero = np.zeros_like(batch)
    lines = DecodeLines(zero, zero.copy(), zero.copy(), window_of(deployment))
    for group in deployment.model.layers:
        layers = group.count / deployment.pipeline_parallel
        mixer, window = group.mixer, _window(group)
        if isinstance(mixer, GroupedQueryAttention):
            intercept, slope = _grouped_decode_line(
                mixer, deployment, library, batch, context_low, context_high
            )
        elif isinstance(mixer, LatentAttention) and decodes_sparse(deployment, mixer):
            intercept, slope = np.zeros_like(batch), np.zeros_like(batch)
        elif isinstance(mixer, LatentAttention):
            low, high = (context_low, context_high) if window is None else (window / 2.0, float(window))
            intercept, slope = _latent_decode_line(mixer, deployment, library, batch, low, high)
        else:
            continue
        if isinstance(mixer, LatentAttention) and mixer.sparse_top_k and mixer.indexer_num_heads:
            # The indexer scores every token of the context, whatever the attention then reads.
            indexer_intercept, indexer_slope = _indexer_line(mixer, library, batch, context_low, context_high)
            lines.intercept_s += layers * np.maximum(indexer_intercept, 0.0)
            lines.slope_s += layers * np.maximum(indexer_slope, 0.0) / dp
        lines.intercept_s += layers * np.maximum(intercept, 0.0)
        target = lines.slope_s if window is None else lines.window_slope_s
        target += layers * np.maximum(slope, 0.0) / dp
    return lines


def prefill_lines(
    deployment: Deployment, library: OperatorLibrary, chunk_tokens: float, cached_tokens: float
) -> PrefillLines:
    """Prefill attention of one pipeline stage around a typical chunk on a typical cache.

    Two chunk sizes separate what a sequence costs once from what each of its tokens costs. Where an indexer chooses
    keys for absorbed prompts, only its scores grow with the pairs.

    Source: operators.attention.prefill_line, operators.latent_attention.mla_prefill_line.
    """
    dp, tp = deployment.data_parallel, deployment.tensor_parallel
    small, large = max(16.0, chunk_tokens / 4.0), max(64.0, chunk_tokens)
    result = PrefillLines()
    for group in deployment.model.layers:
        layers = group.count / deployment.pipeline_parallel
        mixer, window = group.mixer, _window(group)
        points = []
        for chunk in (small, large):
            cached = max(cached_tokens, chunk)
            if isinstance(mixer, GroupedQueryAttention):
                line = _grouped_prefill_line(mixer, deployment, library, chunk, cached)
            elif isinstance(mixer, LatentAttention) and runs_absorbed(deployment, mixer, cached_tokens):
                line = (np.zeros(()), np.zeros(()))
            elif isinstance(mixer, LatentAttention):
                line = mla_prefill_line(
                    chunk, 0.0, cached, mixer.num_heads // tp, mixer.qk_nope_head_dim, mixer.qk_rope_head_dim,
                    mixer.v_head_dim, mixer.kv_lora_rank, library.device,
                    library.parameters(LatentPrefillEfficiency, _expanded_prefill(library), "bf16"),
                )  # fmt: skip
            else:
                break
            points.append((float(line[0]), float(line[1])))
        if not points:
            continue
        if isinstance(mixer, LatentAttention) and scores_prompts(deployment, mixer, cached_tokens):
            result.pair_s += layers * _score_s(mixer, library, large, max(cached_tokens, large)) / dp
        token = max(0.0, (points[1][0] - points[0][0]) / (large - small))
        result.token_s += layers * token / dp
        result.sequence_s += layers * max(0.0, points[1][0] - token * large)
        pair = layers * max(0.0, points[1][1]) / dp
        if window is None:
            result.pair_s += pair
        else:
            result.window_pair_s += pair
    return result


def _latent_decode_line(
    mixer: LatentAttention,
    deployment: Deployment,
    library: OperatorLibrary,
    batch: FloatArray,
    context_low: float,
    context_high: float,
) -> tuple[FloatArray, FloatArray]:
    """Intercept [s] and slope [s per token of the rank's summed context] of one layer."""
    heads, device = mixer.num_heads // deployment.tensor_parallel, library.device
    if library.kernels.get("mla_decode") == TRITON:
        triton = library.parameters(TritonLatentEfficiency, "mla_triton", "bf16")
        return triton_latent_line(batch, context_low, context_high, heads, device, triton)
    cache = library.latent_cache_dtype or deployment.kv_dtype
    key = "fp8" if cache == "fp8" else "bf16"
    return mla_decode_line(
        batch, context_low, context_high, heads, mixer.kv_lora_rank, mixer.qk_rope_head_dim, device,
        library.parameters(LatentDecodeEfficiency, "mla_decode", key),
        kv_bytes_per_element=bytes_per_element(cache),
    )  # fmt: skip


def _expanded_prefill(library: OperatorLibrary) -> str:
    """Operator whose records price prompts with expanded keys: Triton has one kernel for all attention of prompts."""
    return "attention_prefill" if library.kernels.get("attention_prefill") == TRITON else "mla_prefill"


def runs_unified(mixer: GroupedQueryAttention, deployment: Deployment) -> bool:
    """Whether an engine runs this attention in its one kernel for prompts and decodes, as for sinks without
    FlashAttention-3.

    Source: the engine's record.
    """
    architectures = deployment.engine.sinks_in_unified_kernel
    return mixer.sinks and deployment.accelerator.architecture in architectures


def _grouped_decode_line(
    mixer: GroupedQueryAttention,
    deployment: Deployment,
    library: OperatorLibrary,
    batch: FloatArray,
    context_low: float,
    context_high: float,
) -> tuple[FloatArray, FloatArray]:
    """Intercept [s] and slope [s per token of the rank's summed context] of one layer."""
    tp, device = deployment.tensor_parallel, library.device
    heads, kv_heads = mixer.num_heads // tp, max(1, mixer.num_kv_heads // tp)
    window, kv_bytes = mixer.window_tokens, bytes_per_element(deployment.kv_dtype)
    if runs_unified(mixer, deployment):
        unified = library.parameters(UnifiedAttentionEfficiency, "unified_attention", "bf16")
        return unified_decode_line(
            batch, context_low, context_high, heads, kv_heads, mixer.head_dim, device, unified,
            window_tokens=window, kv_bytes_per_element=kv_bytes,
        )  # fmt: skip
    key = "fp8" if deployment.kv_dtype == "fp8" else "bf16"
    return decode_line(
        batch, context_low, context_high, heads, kv_heads, mixer.head_dim, device,
        library.parameters(DecodeEfficiency, "attention_decode", key),
        window_tokens=window, kv_bytes_per_element=kv_bytes,
    )  # fmt: skip


def _grouped_prefill_line(
    mixer: GroupedQueryAttention,
    deployment: Deployment,
    library: OperatorLibrary,
    chunk: float,
    cached: float,
) -> tuple[FloatArray, FloatArray]:
    """Intercept [s] and slope [s per query-key pair] of one layer for a chunk of one sequence."""
    tp, device = deployment.tensor_parallel, library.device
    heads, kv_heads = mixer.num_heads // tp, max(1, mixer.num_kv_heads // tp)
    if runs_unified(mixer, deployment):
        unified = library.parameters(UnifiedAttentionEfficiency, "unified_attention", "bf16")
        return unified_prefill_line(chunk, 0.0, cached, heads, kv_heads, mixer.head_dim, device, unified)
    return prefill_line(
        chunk, 0.0, cached, heads, kv_heads, mixer.head_dim, device,
        library.parameters(PrefillEfficiency, "attention_prefill", "bf16"),
        kv_bytes_per_element=bytes_per_element(deployment.kv_dtype),
    )  # fmt: skip


def _indexer_line(
    mixer: LatentAttention,
    library: OperatorLibrary,
    batch: FloatArray,
    context_low: float,
    context_high: float,
) -> tuple[FloatArray, FloatArray]:
    """Intercept [s] and slope [s per token of summed context] of one layer's indexer in decode."""

    def seconds(sequences: FloatArray, context: float) -> FloatArray:
        return scoring_s(library, mixer, 1.0, context, sequences)

    return secant_over_context(seconds, batch, context_low, context_high)


def _score_s(mixer: LatentAttention, library: OperatorLibrary, chunk: float, cached: float) -> float:
    """Time of one layer's indexer per query-key pair of a prompt [s]."""

    def seconds(tokens: FloatArray, cached_tokens: float) -> FloatArray:
        return scoring_s(library, mixer, float(tokens[0]), cached_tokens, np.ones(1))

    return float(secant_over_cache(seconds, np.array([chunk]), 0.0, cached)[1][0])


def _window(group: LayerGroup) -> int | None:
    if isinstance(group.mixer, GroupedQueryAttention):
        return group.mixer.window_tokens
    if isinstance(group.mixer, LatentAttention):
        return group.mixer.sparse_top_k
    return None
