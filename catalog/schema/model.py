"""Neural networks for the cost model: groups of equal layers with a mixer and a feed-forward part."""

from typing import Annotated, Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source

Count = Annotated[int, Field(ge=1, le=10_000_000)]


class GroupedQueryAttention(Record):
    """Multi-head, grouped-query or multi-query softmax attention."""

    kind: Literal["gqa"] = "gqa"
    num_heads: Count
    num_kv_heads: Count
    head_dim: Count
    window_tokens: Count | None = None
    """Sliding window [tokens]; None means full attention."""
    output_gate: bool = False
    """Whether the query projection also yields a gate of the size of the output (Qwen3-Next, Qwen3.5)."""
    shared_kv: bool = False
    """Whether the layer reuses the keys and values of an earlier one (Gemma 3n / 4 E-models) and
    has no KV of its own.
    """
    v_head_dim: Count | None = None
    """Head dimension of values narrower than queries and keys (MiMo-V2); None means head_dim."""
    keys_are_values: bool = False
    """Whether keys and values share one projection (global layers of Gemma 4); the cache holds both."""
    sparse_top_k: int | None = None
    """Number of tokens attended to when an indexer selects blocks (MiniMax-M3); None means dense attention."""
    indexer_num_heads: int = 0
    indexer_head_dim: int = 0
    sinks: bool = False
    """Whether a learned logit per head joins those of the keys (gpt-oss)."""
    query_key_norm: Literal["none", "head", "all_heads"] = "none"
    """Width over which queries and keys are normed: each head (Qwen3), or all heads together, so that tensor-parallel
    ranks exchange values first (MiniMax-M2, OLMo 2)."""
    input_states: Count | None = None
    """Number of hidden states side by side that queries, keys and values are projected from (Zamba: 2); None means 1.
    """
    query_rank: Count | None = None
    """Rank through which queries are projected (Step-3); None means one matrix."""
    causal: bool = True
    """Whether a token attends only to earlier ones; False in encoders and diffusion transformers."""


class LatentAttention(Record):
    """Multi-head latent attention (DeepSeek): the cache holds one latent vector per token."""

    kind: Literal["mla"] = "mla"
    num_heads: Count
    q_lora_rank: int | None = None
    kv_lora_rank: Count
    qk_nope_head_dim: Count
    qk_rope_head_dim: Count
    v_head_dim: Count
    sparse_top_k: int | None = None
    """Number of tokens attended to under a lightning indexer (DeepSeek V3.2, GLM-5); None means dense attention."""
    indexer_num_heads: int = 0
    """Number of indexer heads; 0 if the layer reuses the selection of an earlier one (GLM-5.2) or has no indexer."""
    indexer_head_dim: int = 0
    output_gate: bool = False
    """Whether a projection of its own yields a gate of the size of the heads' outputs (Kimi K3)."""
    latent_only: bool = False
    """Whether queries and outputs live in the latent space itself: no key and value up-projections, and prefill attends
    over one shared head as decode does (DeepSeek V4)."""
    compress_ratio: Count = 1
    """Number of tokens per cache entry, in addition to the latest window_tokens in full (DeepSeek V4)."""
    window_tokens: Count | None = None
    """Plain sliding window if compress_ratio is 1, else the uncompressed tail [tokens]."""
    output_groups: int | None = None
    output_lora_rank: int | None = None
    """Rank of an output projection in two steps: heads in output_groups to this rank each, then to the hidden size."""


class GatedDeltaNet(Record):
    """Linear attention with a constant state (Qwen3-Next, Qwen3.5, Kimi Linear)."""

    kind: Literal["gdn"] = "gdn"
    num_key_heads: Count
    num_value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    conv_kernel: int = 4
    channel_gate_rank: int | None = None
    """Rank of the projection of a decay per channel (Kimi Delta Attention); None means one decay per head."""
    output_gate_rank: int | None = None
    """Rank of the output gate's projection (Kimi Linear); None means full rank."""
    state_dtype: str = "fp32"


class Mamba2(Record):
    """State-space mixer with a constant state: Mamba-2 (Nemotron-H, Granite 4, Zamba2), and Mamba-1 (Jamba,
    Falcon-Mamba) with groups of channels in place of heads."""

    kind: Literal["mamba2"] = "mamba2"
    num_heads: Count
    head_dim: Count
    state_dim: Count
    num_groups: int = 1
    conv_kernel: int = 4
    time_step_rank: Count | None = None
    """Rank through which Mamba-1 projects inner values to time steps; None for Mamba-2, which has one per head."""
    state_dtype: str = "fp32"


class Rwkv7(Record):
    """RWKV-7: a generalised delta rule with a decay per channel, and gates through low ranks (arXiv:2503.14456)."""

    kind: Literal["rwkv7"] = "rwkv7"
    num_heads: Count
    head_dim: Count
    decay_rank: Count
    rate_rank: Count
    """Low rank of the in-context learning rate."""
    value_rank: Count | None = None
    """Low rank of the mix with the first layer's values; None in the first layer, which has no such mix."""
    gate_rank: Count
    state_dtype: str = "fp32"


class GatedLinearAttention(Record):
    """Linear attention whose state decays: by the data (GLA, arXiv:2312.06635) or by the head (RetNet,
    arXiv:2307.08621)."""

    kind: Literal["gla"] = "gla"
    num_heads: Count
    num_kv_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    decay_rank: Count | None = None
    """Rank of the projection of the decay per channel; None means a constant per head."""
    output_gate: bool = True
    conv_kernel: Count | None = None
    state_dtype: str = "fp32"


class CrossAttention(Record):
    """Attention of a decoder to the output of its encoder."""

    kind: Literal["cross"] = "cross"
    num_heads: Count
    head_dim: Count
    source_tokens: Count | None = None
    """Encoder tokens of every sequence if inputs have one length (Whisper); None means the prompt length."""


Mixer = Annotated[
    GroupedQueryAttention
    | LatentAttention
    | GatedDeltaNet
    | Mamba2
    | Rwkv7
    | GatedLinearAttention
    | CrossAttention,
    Field(discriminator="kind"),
]


class DenseFeedForward(Record):
    kind: Literal["dense"] = "dense"
    intermediate_size: Count
    gated: bool = True
    """Whether the part is SwiGLU/GeGLU, with three matrices instead of two."""


class MoeFeedForward(Record):
    kind: Literal["moe"] = "moe"
    num_experts: Count
    experts_per_token: Count
    intermediate_size: Count
    """Intermediate size of one expert."""
    shared_intermediate_size: int = 0
    """Sum of the intermediate sizes of shared experts; 0 without shared experts."""
    gated: bool = True
    latent_size: int | None = None
    """Width of the space in which experts work if narrower than hidden_size (Nemotron 3 Super);
    None means hidden_size.
    """
    num_groups: Count = 1
    """Number of equal groups into which routing divides the experts."""
    groups_per_token: Count = 1
    """Number of groups in which a token may choose its experts."""


FeedForward = Annotated[DenseFeedForward | MoeFeedForward, Field(discriminator="kind")]


class LayerGroup(Record):
    """`count` equal layers; a layer may lack a mixer or a feed-forward part (Nemotron-H interleaves them)."""

    count: Count
    mixer: Mixer | None = None
    feed_forward: FeedForward | None = None
    stored_count: Count | None = None
    """Number of layers whose weights are stored if fewer than `count` are shared by all (Zamba); None means `count`."""


class VisionTower(Record):
    parameters: float = 0.0
    tokens_per_image: int | None = None
    """Number of language-model tokens of one image at the default resolution."""
    family: str = ""
    """Model type of the tower in a config.json; empty if it is not stated."""
    hidden_size: int | None = None
    """Width of the tower; None if it is not stated."""


Part = Literal["mixer", "feed_forward", "shared_experts", "experts", "embedding", "head"]
"""Kinds of weights that a checkpoint can store in formats of their own; `mixer` is attention or a recurrent layer."""


class PartFormat(Record):
    """Storage of one kind of weights in one checkpoint."""

    part: Part
    dtype: str
    """Format of most weights of the part, which says with which kernels they are multiplied."""
    bits_per_weight: Annotated[float, Field(gt=0, le=64)]
    """Mean over all weights of the part, scales and weights that stay in 16 bits included [bits]."""


class StoredFormat(Record):
    """Format in which a published checkpoint stores its weights."""

    hf_id: str
    weights: str


class Model(Record):
    """Architecture of a decoder (text tower). The order of layers does not matter for cost; groups are sums."""

    id: str
    """Lower-case id, e.g. llama-3.1-70b."""
    name: str
    hf_ids: tuple[str, ...] = ()
    """Published checkpoints with this architecture, precision variants included."""
    family: str = ""
    architectures: tuple[str, ...] | None = None
    """Classes that the checkpoint's config.json names, which engines load it by. Empty: it names none, or there is no
    checkpoint; None: the class of its model type."""
    has_own_code: bool = False
    """Whether config.json names Python files of its repository that read it (`auto_map`)."""
    has_own_tokenizer: bool = False
    """Whether the repository's tokenizer_config.json names Python files that read it."""
    hidden_size: Count
    vocab_size: Count
    tied_embeddings: bool = False
    layers: tuple[LayerGroup, ...] = ()
    max_context_tokens: int | None = None
    weights: str = "bf16"
    """Format in which the default checkpoint is published (bf16, fp8, mxfp4, int4, nvfp4)."""
    other_checkpoints: tuple[StoredFormat, ...] = ()
    """Checkpoints in `hf_ids` that are published in another format without naming it."""
    quantized_parts: Literal["all", "experts", "linear"] = "linear"
    """Parts that a weight format below 16 bits covers in this model's published low-bit checkpoints: 'experts' = only
    the routed experts (gpt-oss mxfp4, Kimi int4), 'linear' = all matrices in layers; embeddings and head stay bf16."""
    weights_elsewhere: str = "bf16"
    """Format of layer matrices that `quantized_parts` leaves out (DeepSeek V4: fp8 for them, mxfp4 for experts)."""
    part_formats: tuple[PartFormat, ...] = ()
    """Storage by kind of weights in the format `weights`, as the checkpoint's own files list it; empty: as
    `quantized_parts` says."""
    activations: str | None = None
    """Format of activations if the checkpoint keeps another one than its weights suggest: bf16 for weight-only formats;
    None: the format that goes with the weights."""
    kv_dtype: str | None = None
    """Format of the KV cache that the checkpoint's config.json declares; None: none, so engines keep 16 bits."""
    kv_dtype_beside: str | None = None
    """Format of the KV cache that hf_quant_config.json alone declares; vLLM does not read that file."""
    file_format: str = ""
    """Format of the checkpoint's files if only certain engines load it (mlx, exl2, exl3); empty for others."""
    tensor_bytes: float | None = None
    """Size of all tensors as the index of the checkpoint's safetensors files states it [bytes]; None without one."""
    repository: str = ""
    """Repository that the user named, which is then the one that is served or trained; empty for the catalog's own
    choice. `hf_ids` has the forms of that repository alone."""
    checkpoint: str = ""
    """Repository of the checkpoint whose formats these are; empty for the catalog's own default."""
    fp8_scaling: Literal["tensor", "block"] = "tensor"
    """Scaling of published fp8 checkpoints: one scale per tensor (or token), or per 128 × 128 block (DeepSeek)."""
    mtp_layers: int = 0
    extra_parameters: float = 0.0
    """Parameters outside layers and embeddings that text needs too, e.g. per-layer embeddings."""
    vision: VisionTower | None = None
    published_parameters: float | None = None
    published_active_parameters: float | None = None
    published_includes: tuple[Literal["vision", "mtp"], ...] = ()
    """Parts that the published total counts in addition to text layers and embeddings."""
    released: str = ""
    workload: Literal["decoder", "encoder", "diffusion", "speech"] = "decoder"
    """encoder: one pass over the input (embedding models); speech: encoder and decoder (Whisper)."""
    folder: str = ""
    """Path of the folder whose config.json describes the model, never a name on a hub; empty for a model of the
    catalog."""
    notes: str = ""
    sources: tuple[Source, ...] = ()
