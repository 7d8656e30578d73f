"""Long prompts over several accelerators, and caches kept in fewer bits or in part."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.simulator.collectives import send_recv_s, topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.forward_pass import token_costs
from advisor.simulator.graph.model import kv_bytes_per_token, layers_of
from advisor.simulator.operator_library import OperatorLibrary

_WIDE_BITS: Final = 16.0
SPREAD_HIGH: Final = 2.0
"""Highest ratio of published to predicted prefill time on several groups: 1.3 and 1.94 were published
(arXiv:2411.01783)."""


_MERGED_BYTES: Final = 10.0
"""Bytes moved per value of attention's output for each further round: a sum in 32 bits is read and written, and a part
in 16 bits is read. Own assumption: a kernel that keeps the sum on chip moves less."""


@dataclass(frozen=True, slots=True)
class LongPrefill:
    """Time of one long prompt on a group of accelerators [s], by part."""

    context_parallel: int
    seconds: Mapping[str, float]

    @property
    def total_s(self) -> float:
        """Sum over the parts [s]. Source: definition."""
        return sum(self.seconds.values())


def ring_prefill(
    deployment: Deployment, library: OperatorLibrary, prompt_tokens: int, context_parallel: int
) -> LongPrefill:
    """Time of a prompt whose tokens are dealt to `context_parallel` groups of TP ranks [s].

    linear parts of tokens / n + attention / n + (n − 1) rounds of a merge and of max(0, passing a share of the cache −
    a round of attention)

    Assumes: zigzag shares, so that causal work is even; the cache passes around while attention computes; linear
    layers run in chunks of one length, so that n groups are at most n times as fast.
    Raises: AdvisorError: fewer tokens than ranks.
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889; Yang et al. 2024, arXiv:2411.01783.
    """
    if context_parallel < 1 or prompt_tokens < context_parallel:
        raise AdvisorError(f"{prompt_tokens} tokens cannot be dealt to {context_parallel} groups")
    whole, share = (
        token_costs(deployment, library, np.array([tokens]), decode=False, prompt_tokens=tokens).seconds
        for tokens in (float(prompt_tokens), prompt_tokens / context_parallel)
    )
    seconds = {
        name: max(float(part[0]), float(whole[name][0]) / context_parallel) for name, part in share.items()
    }
    attention = (
        sum(
            layer.count
            / deployment.pipeline_parallel
            * float(
                np.ravel(layer.mixer.sequence_s(library, prompt_tokens, 1.0, deployment.tensor_parallel))[0]
            )
            for layer in layers_of(deployment.model)
            if layer.mixer is not None
        )
        / context_parallel
    )
    seconds["attention"] = attention
    seconds["merge"] = _merge_s(deployment, library, prompt_tokens, context_parallel)
    seconds["ring"] = _exposed_ring_s(deployment, prompt_tokens, context_parallel, attention)
    return LongPrefill(context_parallel, seconds)


def _merge_s(deployment: Deployment, library: OperatorLibrary, tokens: int, ranks: int) -> float:
    """Time of adding the output of each further round to that of the rounds before it [s].

    Assumes: the sum stays in 32 bits, is read and written, and the new part is read in 16 bits.
    Source: own derivation from the update of ring attention, arXiv:2310.01889, section 3.
    """
    values = sum(
        layer.count * layer.mixer.attention.num_heads * layer.mixer.attention.value_dim
        for layer in layers_of(deployment.model)
        if layer.mixer is not None and layer.mixer.attention is not None
    )
    shares = deployment.tensor_parallel * deployment.pipeline_parallel
    moved = _MERGED_BYTES * values * tokens / ranks / shares
    return (ranks - 1) * moved / library.device.bandwidth_bytes_per_s


def _exposed_ring_s(deployment: Deployment, tokens: int, ranks: int, attention_s: float) -> float:
    """Time of passing the cache around that attention does not hide [s]."""
    if ranks == 1:
        return 0.0
    layers = sum(group.count for group in deployment.model.layers if group.mixer is not None)
    footprint = kv_bytes_per_token(deployment.model, deployment.kv_dtype).full_bytes_per_token
    layer_bytes = footprint * tokens / ranks / layers / deployment.tensor_parallel
    group = topology_of(deployment.accelerator, ranks * deployment.tensor_parallel)
    pass_s = float(np.ravel(send_recv_s(layer_bytes, group))[0])
    round_s = attention_s / layers / ranks
    return layers * (ranks - 1) * max(0.0, pass_s - round_s)


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Way to keep a cache smaller than every token in 16 bits."""

    name: str
    kv_dtype: str = "bf16"
    keep_fraction: float = 1.0
    """Fraction of a prompt's tokens that stay after prefill."""
    window_tokens: int | None = None
    """Number of latest tokens that stay in addition to `sink_tokens`; older ones are dropped. None: all stay."""
    sink_tokens: int = 4
    stored_bits: float | None = None
    """Width of a value with its scales, where it is not that of the format [bits]."""
    quality: str = ""
    source: str = ""


CACHE_POLICIES: Final[Mapping[str, CachePolicy]] = {
    policy.name: policy
    for policy in (
        CachePolicy("full", quality="as trained"),
        CachePolicy(
            "fp8",
            kv_dtype="fp8",
            quality="within noise on most published evaluations; check long retrieval",
            source="vLLM documentation, quantized KV cache; TensorRT-LLM quantization guide",
        ),
        CachePolicy(
            "int4",
            kv_dtype="int4",
            quality="small losses, larger where heads share few keys; keys need scales per channel",
            source="Liu et al. 2024 (KIVI), arXiv:2402.02750; Hooper et al. 2024 (KVQuant), arXiv:2401.18079",
        ),
        CachePolicy(
            "kvquant-3bit",
            kv_dtype="int4",
            stored_bits=3.25,
            quality="less than 0.1 perplexity on WikiText2 and C4 at 3 bits for Llama, Llama 2 and Mistral",
            source="Hooper et al. 2024 (KVQuant), arXiv:2401.18079, abstract; 1 % of outliers in full width",
        ),
        CachePolicy(
            "kivi-2bit",
            kv_dtype="int4",
            stored_bits=3.0,
            quality="about the quality of 16 bits for Llama 2, Falcon and Mistral by its authors; the latest 128 "
            "tokens stay in 16 bits",
            source="Liu et al. 2024 (KIVI), arXiv:2402.02750: groups of 32 with a 16-bit scale and zero point",
        ),
        CachePolicy(
            "snapkv-25",
            keep_fraction=0.25,
            quality="near full on question answering over the kept prompt; loses what later questions need",
            source="Li et al. 2024 (SnapKV), arXiv:2404.14469; Zhang et al. 2023 (H2O), arXiv:2306.14048",
        ),
        CachePolicy(
            "streaming-4k",
            window_tokens=4096,
            quality="fluent without end, but blind to everything older than the window",
            source="Xiao et al. 2023 (StreamingLLM), arXiv:2309.17453",
        ),
    )
}


def heavy_hitters(keep_fraction: float) -> CachePolicy:
    """Return the policy that keeps a fraction of the tokens, those with the largest attention scores and the latest.

    Raises: AdvisorError: no fraction between 0 and 1.
    Source: Zhang et al. 2023 (H2O), arXiv:2306.14048.
    """
    if not 0.0 < keep_fraction <= 1.0:
        raise AdvisorError(
            f"{keep_fraction:g} of the tokens cannot be kept", why="a fraction above 0 to 1", fix="--keep 0.2"
        )
    return CachePolicy(
        f"h2o-{100 * keep_fraction:g}",
        keep_fraction=keep_fraction,
        quality="near full at 20 % on the tasks of its authors; loses what no earlier token attended to",
        source="Zhang et al. 2023 (H2O), arXiv:2306.14048",
    )


def window_of(window_tokens: int) -> CachePolicy:
    """Return the policy that keeps a window of latest tokens and four of the beginning.

    Raises: AdvisorError: the window is empty.
    Source: Xiao et al. 2023 (StreamingLLM), arXiv:2309.17453.
    """
    if window_tokens < 1:
        raise AdvisorError(f"a window of {window_tokens} tokens holds nothing", fix="--window 4096")
    return replace(
        CACHE_POLICIES["streaming-4k"], name=f"window-{window_tokens}", window_tokens=window_tokens
    )


def kept_bytes(deployment: Deployment, policy: CachePolicy, context_tokens: int) -> float:
    """Size of the cache of one sequence under a policy [bytes]. Source: graph.model.kv_bytes_per_token."""
    footprint = kv_bytes_per_token(deployment.model, policy.kv_dtype)
    tokens = context_tokens * policy.keep_fraction
    if policy.window_tokens is not None:
        tokens = min(tokens, policy.window_tokens + policy.sink_tokens)
    whole = footprint.bytes_of(max(1, round(tokens)))
    if policy.stored_bits is None:
        return whole
    wide = kv_bytes_per_token(deployment.model, "bf16").bytes_of(max(1, round(tokens)))
    return wide * policy.stored_bits / _WIDE_BITS


def with_cache_policy(deployment: Deployment, policy: CachePolicy) -> Deployment:
    """Return the deployment whose cache has the policy's format. Source: definition."""
    return replace(deployment, kv_dtype=policy.kv_dtype)
