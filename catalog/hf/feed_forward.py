"""Feed-forward part of every layer from the fields of a config.json: dense, mixture of experts, or both."""

from typing import Any, Final

from advisor.catalog.hf.classes import class_defaults
from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.schema import DenseFeedForward, FeedForward, MoeFeedForward

_NUM_EXPERTS: Final = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "moe_num_primary_experts",
)
_EXPERTS_PER_TOKEN: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "moe_num_active_primary_experts",
)
_EXPERT_WIDTH: Final = (
    "moe_intermediate_size",
    "expert_intermediate_size",
    "moe_ffn_hidden_size",
    "expert_ffn_hidden_size",
)
_SHARED_WIDTH: Final = (
    "moe_shared_expert_intermediate_size",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
_NUM_SHARED: Final = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
_LATENT_WIDTH: Final = ("moe_latent_size", "routed_expert_hidden_size")
_DENSE_WIDTH: Final = (
    "intermediate_size",
    "ffn_hidden_size",
    "ffn_dim",
    "inner_hidden_size",
    "n_inner",
    "d_ff",
    "inner_dim",
    "hidden_dim",
    "mlp_hidden_size",
)
_DENSE_WIDTH_BESIDE_EXPERTS: Final = ("intermediate_size_mlp", "dense_intermediate_size", *_DENSE_WIDTH)
_ACTIVATION: Final = (
    "hidden_act",
    "mlp_hidden_act",
    "activation_function",
    "hidden_activation",
    "activation",
    "activation_type",
    "ffn_type",
)


def feed_forwards(config: ConfigFields, num_layers: int, hidden: int) -> tuple[FeedForward, ...]:
    """Return the feed-forward part of each layer.

    Raises: InputFileError: a width or expert count is missing, absurd or contradicts another.
    Source: field names as written by the transformers library for its model types.
    """
    has_experts = config.has(*_NUM_EXPERTS) and config.values.get("enable_moe_block") is not False
    if has_experts and config.optional_number(*_NUM_EXPERTS) > 1:
        moe = expert_part(config)
        moe_layers = _moe_layers(config, num_layers)
    else:
        moe = None
        moe_layers = (False,) * num_layers
    widths = config.per_layer(num_layers, "intermediate_size")
    parts: list[FeedForward] = []
    for layer, is_moe in enumerate(moe_layers):
        if moe is not None and is_moe:
            parts.append(moe)
        else:
            parts.append(_dense(config, hidden, moe is not None, widths[layer] if widths else None))
    return _doubled_where_kv_is_shared(config, tuple(parts))


def expert_part(config: ConfigFields) -> MoeFeedForward:
    """Return the mixture-of-experts part; in layers that also have a dense MLP, the MLP counts as a shared expert.

    Raises: InputFileError: a width or count is missing or contradicts another.
    Source: field names as written by the transformers library for its model types.
    """
    num_experts = config.count(*_NUM_EXPERTS)
    experts_per_token = config.count(*_EXPERTS_PER_TOKEN)
    idle = config.optional_number("zero_expert_num")
    if experts_per_token > num_experts + idle:
        config.fail(_name_of(config, _EXPERTS_PER_TOKEN), f"is {experts_per_token} of {num_experts} experts")
    if idle:  # LongCat: experts without weights take their share of a token's choices
        experts_per_token = max(1, round(experts_per_token * num_experts / (num_experts + idle)))
    width = config.optional_count(*_EXPERT_WIDTH) or config.count(*_DENSE_WIDTH)
    return MoeFeedForward(
        num_experts=num_experts,
        experts_per_token=experts_per_token,
        intermediate_size=width,
        shared_intermediate_size=_shared_width(config, width),
        gated=is_gated(config),
        latent_size=config.optional_count(*_LATENT_WIDTH),
        num_groups=config.optional_count("n_group") or 1,
        groups_per_token=config.optional_count("topk_group") or 1,
    )


def is_gated(config: ConfigFields) -> bool:
    """Whether the MLP has a gate (three matrices): as the file states it, as the class of its type has it, or by its
    activation.

    Raises: InputFileError: the file has neither a type nor an activation.
    """
    activation = config.text(*_ACTIVATION).lower()
    if "glu" in activation or config.flag("is_gated_act", "gated_mlp"):
        return True
    gated = class_defaults(config).gated
    if gated is not None:
        return gated
    if activation.startswith(("relu", "gelu", "quick_gelu", "xielu")):
        return config.has("hidden_activation")
    if not activation and not config.has("model_type", "multiple_of"):
        config.fail(
            "model_type",
            "is missing, and there is no activation: the feed-forward part may have two matrices or three",
            fix="add model_type, or hidden_act: silu has a gate, gelu and relu have none",
        )
    return True


def _shared_width(config: ConfigFields, expert_width: int) -> int:
    if config.flag("enable_moe_block"):
        return config.count("intermediate_size")
    if config.flag("use_residual"):  # Arctic: a dense part as wide as the hidden state next to the experts
        return config.count("hidden_size")
    num_shared = config.optional_number(*_NUM_SHARED)
    width = config.optional_number(*_SHARED_WIDTH)
    if width:
        return width
    if config.has("intermediate_size_mlp"):  # Llama 4: one shared expert as wide as a routed one
        return expert_width
    return num_shared * expert_width


def _dense(config: ConfigFields, hidden: int, beside_experts: bool, width: Any) -> DenseFeedForward:
    names = _DENSE_WIDTH_BESIDE_EXPERTS if beside_experts else _DENSE_WIDTH
    if isinstance(width, int) and width > 0:
        intermediate = width
    elif config.values.get("num_local_experts") == 0 and config.has("shared_intermediate_size"):
        intermediate = config.count("shared_intermediate_size")  # Granite 4 without experts
    elif not config.has(*names) and class_defaults(config).width_over_hidden is not None:
        intermediate = round(_width_over_hidden(config) * hidden)
    elif not config.has(*names) and config.has("multiple_of"):
        intermediate = _width_of_params_json(config, hidden)
    elif config.text("model_type") == "qwen":  # Qwen 1 counts both halves of its gated part
        intermediate = config.count(*names) // 2
    else:
        intermediate = config.count(*names)
    return DenseFeedForward(intermediate_size=intermediate, gated=is_gated(config))


def _width_over_hidden(config: ConfigFields) -> float:
    """Width of the feed-forward part over the hidden size: MPT states it, other classes have one."""
    stated = config.has("expansion_ratio")
    return (
        config.factor("expansion_ratio") if stated else float(class_defaults(config).width_over_hidden or 1)
    )


def _width_of_params_json(config: ConfigFields, hidden: int) -> int:
    """Return the width that Meta's params.json states by a factor and a divisor: two thirds of four times the hidden
    size, times the factor, rounded up. Source: meta-llama/llama-models, models/llama3/model.py, FeedForward."""
    width = int(2 * 4 * hidden / 3)
    if config.has("ffn_dim_multiplier"):
        width = int(config.factor("ffn_dim_multiplier") * width)
    divisor = config.count("multiple_of")
    return -(-width // divisor) * divisor


def _moe_layers(config: ConfigFields, num_layers: int) -> tuple[bool, ...]:
    """Return which layers have experts, from whichever field of the known formats is present."""
    kinds = config.per_layer(num_layers, "mlp_layer_types")
    if kinds is not None:
        return tuple(kind in ("sparse", "moe", "hash_moe") for kind in kinds)
    flags = config.per_layer(num_layers, "moe_layer_freq")
    if flags is not None:
        return tuple(bool(flag) for flag in flags)
    layout = config.per_layer(num_layers, "moe_layer_layout")
    if layout is not None:
        return tuple(bool(flag) for flag in layout)
    listed = config.sequence("moe_layers") or _parse_layer_list(config)
    if listed is not None:
        return tuple(layer in listed for layer in range(num_layers))
    first = config.optional_number("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
    last = config.optional_number("moe_layer_end_index") or num_layers - 1
    dense = config.sequence("mlp_only_layers") or ()
    period, offset = _period(config)
    return tuple(
        first <= layer <= last and layer not in dense and layer % period == offset % period
        for layer in range(num_layers)
    )


def _period(config: ConfigFields) -> tuple[int, int]:
    if config.has("expert_layer_period"):
        return config.count("expert_layer_period"), config.optional_number("expert_layer_offset")
    period = config.optional_count("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
    if period is not None:
        return period, period - 1
    return config.optional_count("moe_layer_freq") or 1, 0


def _parse_layer_list(config: ConfigFields) -> tuple[int, ...] | None:
    listed = config.values.get("moe_layers_enum")
    if isinstance(listed, list | tuple):
        return tuple(layer for layer in listed if isinstance(layer, int))
    text = config.text("moe_layers_enum")
    return tuple(int(part) for part in text.split(",") if part.strip().isdigit()) if text else None


def _doubled_where_kv_is_shared(
    config: ConfigFields, parts: tuple[FeedForward, ...]
) -> tuple[FeedForward, ...]:
    """Return the parts with the MLP doubled in layers that reuse keys and values (Gemma 4 E-models)."""
    num_shared = config.optional_number("num_kv_shared_layers")
    if not num_shared or not config.flag("use_double_wide_mlp"):
        return parts
    first = len(parts) - num_shared
    return tuple(
        part.model_copy(update={"intermediate_size": 2 * part.intermediate_size}) if layer >= first else part
        for layer, part in enumerate(parts)
    )


def _name_of(config: ConfigFields, names: tuple[str, ...]) -> str:
    return next((name for name in names if config.has(name)), names[0])
