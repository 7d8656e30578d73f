"""Mixer of every layer from the fields of a config.json: attention, linear attention, state space."""

from typing import Any, Final, Literal

from advisor.catalog.hf.classes import class_defaults
from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema import GatedDeltaNet, GroupedQueryAttention, LatentAttention, Mamba2, Mixer

NUM_HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
_NUM_KV_HEADS: Final = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "kv_n_heads",
    "n_kv_heads",
    "num_attention_groups",
)
_HEAD_DIM: Final = ("head_dim", "kv_channels", "attention_head_dim", "d_kv")
_ONE_KEY_HEAD: Final = ("multiquery", "multiquery_attention")
"""Names of attention with one head of keys and values, in SantaCoder's and in MPT's files."""
_MAMBA_HEAD_DIM: Final = 64
_FIRST_MAMBA: Final = ("mamba", "falcon_mamba", "jamba", "zamba")
"""Model types with the projections of Mamba-1."""
_WINDOWED: Final = ("sliding_attention", "chunked_attention", "local_attention", "local")
_NORM_SWITCHES: Final = ("use_qk_norm", "qk_layernorm")
_SHORT_DTYPES: Final = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def mixers(config: ConfigFields, num_layers: int, hidden: int) -> tuple[Mixer, ...]:
    """Return the mixer of each layer.

    Raises: InputFileError: a head count or size is missing, absurd or contradicts another.
    Source: field names as written by the transformers library for its model types.
    """
    ratios = _compress_ratios(config, num_layers)
    if ratios is not None:
        return _compressed_mixers(config, ratios)
    if config.has("kv_lora_rank"):
        return _latent_layers(config, num_layers)
    kinds = layer_kinds(config, num_layers)
    return tuple(
        _mixer(config, kind, layer, hidden, shared_kv=_shares_cache(config, layer, num_layers))
        for layer, kind in enumerate(kinds)
    )


def _shares_cache(config: ConfigFields, layer: int, num_layers: int) -> bool:
    """Whether a layer has no keys and values of its own: it takes those of an earlier layer, or those of an image."""
    if layer >= num_layers - config.optional_number("num_kv_shared_layers"):
        return True
    if config.flag("use_cla"):  # Hunyuan-Large: the first layer of each group keeps the cache of the group
        return layer % config.count("cla_share_factor") != 0
    return layer in (config.sequence("cross_attention_layers") or ())


def layer_kinds(config: ConfigFields, num_layers: int) -> tuple[str, ...]:
    """Return 'full', 'window', 'linear' or 'mamba' for each layer, from whichever field of the known formats is
    present."""
    listed = config.per_layer(num_layers, "layer_types", "layers_block_type")
    if listed is not None:
        return tuple(_kind_of(config, name) for name in listed)
    repeated = config.sequence("attention_types")
    if repeated is not None:
        return _repeated_kinds(config, repeated, num_layers)
    flags = config.per_layer(num_layers, "hybrid_layer_pattern")
    if flags is not None:  # MiMo-V2: 1 is a windowed layer
        return tuple("window" if flag else "full" for flag in flags)
    if config.has("linear_num_value_heads"):
        return _every(num_layers, config.optional_count("full_attention_interval") or 4, "linear")
    if config.has("attn_layer_period"):
        period = config.count("attn_layer_period")
        offset = config.optional_number("attn_layer_offset")
        return tuple("full" if layer % period == offset else "mamba" for layer in range(num_layers))
    indices = config.sequence("attn_layer_indices", "hybrid_layer_ids")
    if indices is not None:
        return tuple("full" if layer in indices else "mamba" for layer in range(num_layers))
    if config.text("model_type") == "bamba":
        return ("mamba",) * num_layers
    if config.has("ssm_cfg", "state_size", "time_step_rank") and not config.has(*NUM_HEADS):
        return ("mamba",) * num_layers
    return _window_kinds(config, num_layers)


def _repeated_kinds(config: ConfigFields, entries: tuple[Any, ...], num_layers: int) -> tuple[str, ...]:
    """Return the kinds of GPT-Neo's layers, whose file says which kinds follow each other and how often."""
    found: list[str] = []
    for entry in entries:
        match entry:
            case [list(names), int(times)] if 0 < times <= num_layers:
                found += [_kind_of(config, name) for name in names] * times
            case _:
                config.fail("attention_types", f"has {entry!r} in place of names and how often they follow")
    if len(found) != num_layers:
        config.fail("attention_types", f"describes {len(found)} layers of {num_layers}")
    return tuple(found)


def _window_kinds(config: ConfigFields, num_layers: int) -> tuple[str, ...]:
    if config.has("attention_chunk_size") and config.text("model_type").startswith("llama4"):
        rotary = config.per_layer(num_layers, "no_rope_layers")
        if rotary:  # 1 marks layers with rotary embedding, which attend within chunks
            return tuple("window" if flag else "full" for flag in rotary)
        return _every(num_layers, config.optional_count("no_rope_layer_interval") or 4, "window")
    if not config.has("sliding_window") or config.values.get("use_sliding_window") is False:
        return ("full",) * num_layers
    letters = config.text("sliding_window_pattern").upper()
    if letters and not set(letters) - set("LG"):  # EXAONE 4 repeats LLLG; its last layer attends to all
        kinds = [
            "window" if letters[layer % len(letters)] == "L" else "full" for layer in range(num_layers - 1)
        ]
        return (*kinds, "full")
    pattern = config.optional_count("sliding_window_pattern", "_sliding_window_pattern")
    if config.text("model_type") in ("gemma2", "gemma3", "gemma3_text"):
        pattern = pattern or (2 if config.text("model_type") == "gemma2" else 6)
    if pattern:
        return _every(num_layers, pattern, "window")
    if config.flag("use_sliding_window"):  # Qwen2: the first max_window_layers attend fully
        first = config.optional_number("max_window_layers")
        return tuple("full" if layer < first else "window" for layer in range(num_layers))
    longest = config.optional_count("max_position_embeddings")
    if longest is not None and config.count("sliding_window") >= longest:
        return ("full",) * num_layers
    return ("window",) * num_layers


def _every(num_layers: int, period: int, others: str) -> tuple[str, ...]:
    return tuple("full" if (layer + 1) % period == 0 else others for layer in range(num_layers))


def _kind_of(config: ConfigFields, name: Any) -> str:
    if name in _WINDOWED:
        return "window"
    if name in ("full_attention", "attention", "full", "hybrid", "global_attention", "global"):
        return "full"
    has_mamba = config.has("mamba_d_state", "ssm_state_size", "mamba_n_heads", "mamba_num_heads")
    if name in ("linear_attention", "linear") and not has_mamba:
        return "linear"
    if name in ("mamba", "mamba2", "linear_attention", "linear"):
        return "mamba"
    return config.fail("layer_types", f"has a layer type '{name}' that is not known")


def _mixer(config: ConfigFields, kind: str, layer: int, hidden: int, *, shared_kv: bool) -> Mixer:
    if kind == "linear":
        return _gated_delta_net(config)
    if kind == "mamba":
        return mamba(config, hidden)
    return attention(config, hidden, windowed=kind == "window", layer=layer, shared_kv=shared_kv)


def attention(
    config: ConfigFields, hidden: int, *, windowed: bool = False, layer: int = 0, shared_kv: bool = False
) -> GroupedQueryAttention:
    """Return the softmax attention of one layer.

    Raises: InputFileError: heads do not divide, or sizes are missing or absurd.
    Source: field names as written by the transformers library for its model types.
    """
    own = {
        **(_windowed_fields(config) if windowed else _global_fields(config)),
        **_layer_fields(config, layer),
    }
    num_heads = own.get("heads") or config.count(*NUM_HEADS)
    num_kv_heads = own.get("kv_heads") or _num_kv_heads(config, num_heads)
    if num_heads % num_kv_heads:
        config.fail(
            "num_key_value_heads", f"({num_kv_heads}) does not divide num_attention_heads ({num_heads})"
        )
    head_dim = own.get("head_dim") or config.optional_count(*_HEAD_DIM) or class_defaults(config).head_dim
    if head_dim is None:
        if hidden % num_heads:
            config.fail("num_attention_heads", f"({num_heads}) does not divide hidden_size ({hidden})")
        head_dim = hidden // num_heads
    sparse = config.section("sparse_attention_config")
    frequency = sparse.sequence("sparse_attention_freq") if sparse else None
    selects = sparse is not None and (frequency is None or layer >= len(frequency) or bool(frequency[layer]))
    return GroupedQueryAttention(
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        v_head_dim=own.get("v_head_dim") or config.optional_count("v_head_dim"),
        window_tokens=_window_tokens(config) if windowed else None,
        query_rank=config.optional_count("share_q_dim"),
        output_gate=config.flag("attn_output_gate") or config.has("linear_num_value_heads"),
        shared_kv=shared_kv,
        keys_are_values=not windowed and config.flag("attention_k_eq_v"),
        sinks=config.text("model_type") == "gpt_oss",
        query_key_norm=_query_key_norm(config),
        **(_block_selection(sparse) if sparse is not None and selects else {}),
    )


def _query_key_norm(config: ConfigFields) -> Literal["none", "head", "all_heads"]:
    stated = next((config.values[name] for name in _NORM_SWITCHES if name in config.values), None)
    usual = class_defaults(config).query_key_norm
    if stated is None:
        return usual
    return "none" if not stated else "head" if usual == "none" else usual


def _windowed_fields(config: ConfigFields) -> dict[str, int | None]:
    return {
        "heads": config.optional_count("swa_num_attention_heads"),
        "kv_heads": config.optional_count("swa_num_key_value_heads"),
        "head_dim": config.optional_count("swa_head_dim"),
        "v_head_dim": config.optional_count("swa_v_head_dim"),
    }


def _global_fields(config: ConfigFields) -> dict[str, int | None]:
    """Return the head sizes of layers with full attention that differ from windowed layers (Gemma 4)."""
    return {
        "kv_heads": config.optional_count("num_global_key_value_heads"),
        "head_dim": config.optional_count("global_head_dim"),
    }


def _layer_fields(config: ConfigFields, layer: int) -> dict[str, int]:
    """Return the head counts that differ from layer to layer (DeciLM, Laguna)."""
    found: dict[str, int] = {}
    for key, name in (
        ("heads", "num_attention_heads_per_layer"),
        ("kv_heads", "num_key_value_heads_per_layer"),
    ):
        counts = config.per_layer(layer + 1, name)
        if counts is not None:
            found[key] = ConfigFields({name: counts[layer]}, config.file, config.prefix).count(name)
    return found


def _block_selection(sparse: ConfigFields) -> dict[str, int]:
    blocks = sparse.optional_number("sparse_topk_blocks", "sparse_num_blocks", "topk_blocks")
    return {
        "sparse_top_k": blocks * sparse.count("sparse_block_size"),
        "indexer_num_heads": sparse.optional_number("sparse_num_index_heads", "index_n_heads"),
        "indexer_head_dim": sparse.optional_number("sparse_index_dim", "index_head_dim"),
    }


def _num_kv_heads(config: ConfigFields, num_heads: int) -> int:
    stated = config.values.get("multi_query")
    shares_one = class_defaults(config).multi_query if stated is None else stated is True
    is_named = config.text("attention_head_type", "attn_type") in _ONE_KEY_HEAD
    if is_named or (shares_one and not config.flag("new_decoder_architecture")):
        return 1
    return config.optional_count(*_NUM_KV_HEADS) or num_heads


def _window_tokens(config: ConfigFields) -> int:
    if config.text("model_type").startswith("llama4"):
        return config.count("attention_chunk_size")
    names = (
        "sliding_window",
        "sliding_window_size",
        "attention_chunk_size",
        "local_attention",
        "window_size",
    )
    return config.count(*names)


def _gated_delta_net(config: ConfigFields) -> GatedDeltaNet:
    return GatedDeltaNet(
        num_key_heads=config.count("linear_num_key_heads"),
        num_value_heads=config.count("linear_num_value_heads"),
        key_head_dim=config.count("linear_key_head_dim"),
        value_head_dim=config.count("linear_value_head_dim"),
        conv_kernel=config.optional_count("linear_conv_kernel_dim") or 4,
        state_dtype=_state_dtype(config),
    )


def mamba(config: ConfigFields, hidden: int) -> Mamba2:
    """Return the state-space mixer; heads of Mamba-1, which has none, divide its inner width.

    Raises: InputFileError: the state size is missing, or heads do not divide the inner width.
    Source: field names as written by the transformers library for its model types.
    """
    is_plain = config.text("model_type") == "mamba2"
    own = (("num_heads",), ("head_dim",)) if is_plain else ((), ())
    num_heads = config.optional_count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", *own[0])
    said_dim = config.values.get("mamba_d_head") == "auto"
    names = ("mamba_head_dim", "mamba_headdim", *own[1])
    head_dim = config.optional_count(*names) if said_dim else config.optional_count("mamba_d_head", *names)
    inner = config.optional_count("mamba_d_ssm", "mamba_intermediate_size")
    if inner is None and not config.has(*NUM_HEADS):
        inner = config.optional_count("intermediate_size")
    inner = inner or (config.optional_count("mamba_expand", "expand") or 2) * hidden
    if head_dim is None:
        head_dim = inner // num_heads if num_heads and num_heads > 1 else _MAMBA_HEAD_DIM
    if inner % head_dim:
        config.fail("mamba_expand", f"gives an inner width {inner} that head size {head_dim} does not divide")
    rank = None
    if config.text("model_type") in _FIRST_MAMBA:
        said = config.values.get("mamba_dt_rank", config.values.get("time_step_rank"))
        rank = said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else -(-hidden // 16)
    return Mamba2(
        time_step_rank=rank,
        num_heads=num_heads if num_heads and num_heads > 1 else inner // head_dim,
        head_dim=head_dim,
        state_dim=config.count("ssm_state_size", "mamba_d_state", "state_size"),
        num_groups=config.optional_count("n_groups", "mamba_n_groups", "mamba_ngroups") or 1,
        conv_kernel=config.optional_count("conv_kernel", "mamba_d_conv") or 4,
        state_dtype=_state_dtype(config),
    )


def _state_dtype(config: ConfigFields) -> str:
    return _SHORT_DTYPES.get(config.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype"), "fp32")


def _latent_layers(config: ConfigFields, num_layers: int) -> tuple[Mixer, ...]:
    kinds = config.per_layer(num_layers, "indexer_types")
    linear = config.section("linear_attn_config")
    delta_layers = (linear.sequence("kda_layers") or ()) if linear else ()
    found: list[Mixer] = []
    for layer in range(num_layers):
        if linear is not None and layer + 1 in delta_layers:  # the format numbers layers from 1
            found.append(_kimi_delta(linear))
        else:
            found.append(_latent(config, own_indexer=kinds is None or kinds[layer] != "shared"))
    return tuple(found)


def _latent(config: ConfigFields, *, own_indexer: bool) -> LatentAttention:
    return LatentAttention(
        num_heads=config.count(*NUM_HEADS),
        q_lora_rank=config.optional_count("q_lora_rank"),
        kv_lora_rank=config.count("kv_lora_rank"),
        qk_nope_head_dim=config.count("qk_nope_head_dim"),
        qk_rope_head_dim=config.count("qk_rope_head_dim"),
        v_head_dim=config.count("v_head_dim"),
        sparse_top_k=config.optional_count("index_topk"),
        indexer_num_heads=config.optional_number("index_n_heads") if own_indexer else 0,
        indexer_head_dim=config.optional_number("index_head_dim") if own_indexer else 0,
        output_gate=config.flag("mla_use_output_gate"),
    )


def _kimi_delta(linear: ConfigFields) -> GatedDeltaNet:
    num_heads = linear.count("num_heads")
    head_dim = linear.count("head_dim")
    return GatedDeltaNet(
        num_key_heads=num_heads,
        num_value_heads=num_heads,
        key_head_dim=head_dim,
        value_head_dim=head_dim,
        conv_kernel=linear.optional_count("short_conv_kernel_size") or 4,
        channel_gate_rank=head_dim,
        output_gate_rank=None if linear.flag("use_full_rank_gate") else head_dim,
    )


def _compress_ratios(config: ConfigFields, num_layers: int) -> tuple[int, ...] | None:
    """Return the tokens per cache entry of each layer of DeepSeek V4, 0 for a window alone; None for other models."""
    listed = config.per_layer(num_layers, "compress_ratios")
    if listed is not None:
        return tuple(ratio if isinstance(ratio, int) else 0 for ratio in listed)
    rates = config.values.get("compress_rates")
    kinds = config.per_layer(num_layers, "layer_types")
    if not isinstance(rates, dict) or kinds is None:
        return None
    return tuple(int(rates.get(kind, 0)) for kind in kinds)


def _compressed_mixers(config: ConfigFields, ratios: tuple[int, ...]) -> tuple[Mixer, ...]:
    """Return the layers of DeepSeek V4: one shared key-value head, compressed by the layer's ratio (0: only the
    window)."""
    head_dim = config.count("head_dim")
    rotary = config.count("qk_rope_head_dim")
    found: list[Mixer] = []
    for ratio in ratios:
        if isinstance(ratio, bool) or not isinstance(ratio, int):
            config.fail("compress_ratios", f"has an entry {ratio!r}, not a whole number")
        selects = 1 < ratio <= 16  # only finely compressed layers are long enough to need a selection
        found.append(
            LatentAttention(
                num_heads=config.count(*NUM_HEADS),
                q_lora_rank=config.optional_count("q_lora_rank"),
                kv_lora_rank=head_dim - rotary,
                qk_nope_head_dim=head_dim - rotary,
                qk_rope_head_dim=rotary,
                v_head_dim=head_dim,
                latent_only=True,
                compress_ratio=max(ratio, 1),
                window_tokens=config.count("sliding_window"),
                sparse_top_k=config.optional_count("index_topk") if selects else None,
                indexer_num_heads=config.optional_number("index_n_heads") if selects else 0,
                indexer_head_dim=config.optional_number("index_head_dim") if selects else 0,
                output_groups=config.optional_count("o_groups"),
                output_lora_rank=config.optional_count("o_lora_rank"),
            )
        )
    return tuple(found)
