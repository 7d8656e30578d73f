"""How an engine runs latent attention over chosen keys: which kernels, on how many heads, and for which prompts."""

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import Engine, LatentAttention, SparseLatentKernels
from advisor.simulator.deployment import Deployment
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.sparse_attention import (
    IndexerEfficiency,
    SparseLatentEfficiency,
    indexer_s,
    selection_s,
    sparse_latent_s,
)

FloatArray = NDArray[np.float64]


def sparse_kernels_of(
    engine: Engine, architecture: str, kv_dtype: str, num_heads: int
) -> SparseLatentKernels | None:
    """The sparse kernels of an engine for so many query heads of a rank; None where its record names none.

    Source: the engine's record.
    """
    for kernels in engine.sparse_latent:
        of_cache = not kernels.kv_dtypes or kv_dtype in kernels.kv_dtypes
        of_heads = kernels.below_heads is None or num_heads < kernels.below_heads
        if architecture in kernels.architectures and of_cache and of_heads:
            return kernels
    return None


def kernels_for(deployment: Deployment, mixer: LatentAttention) -> SparseLatentKernels | None:
    """The sparse kernels that a deployment runs a layer with; None where the layer attends to all keys, or to others
    than an indexer's choice too (DeepSeek V4).

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
    """Whether prompts of so many tokens run through the sparse kernel, absorbed as in decode.

    Source: the engine's record.
    """
    kernels = kernels_for(deployment, mixer)
    return kernels is not None and not (
        kernels.expands_short_prompts and input_tokens <= (mixer.sparse_top_k or 0)
    )


def scores_prompts(deployment: Deployment, mixer: LatentAttention, input_tokens: float) -> bool:
    """Whether a layer's indexer scores prompts of so many tokens. Source: the engine's record."""
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
    """Time of a layer's sparse kernel over so many tokens of a rank [s]; 0 where another kernel attends.

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
    """Time of one layer's indexer [s]: scores of new tokens against all before them, and the choice among them.

    Source: operators.sparse_attention.
    """
    efficiency = library.parameters(IndexerEfficiency, "indexer", "fp8")
    heads, dim = mixer.indexer_num_heads, mixer.indexer_head_dim
    scored = indexer_s(new_tokens, cached_tokens, batch_size, heads, dim, library.device, efficiency)
    pairs = batch_size * new_tokens * (cached_tokens + new_tokens / 2.0)
    return np.asarray(scored + efficiency.launch_s + selection_s(pairs, library.device, efficiency))
