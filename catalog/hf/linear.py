"""Layers of models without softmax attention from a config.json: RWKV-7, gated linear attention, RetNet."""

from collections.abc import Callable, Mapping
from typing import Final

from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.hf.modules import Layers
from advisor.catalog.schema import DenseFeedForward
from advisor.catalog.schema.model import GatedLinearAttention, Rwkv7

_GLA_DECAY_RANK: Final = 16
"""Rank of the decay projection of GLA: the layer's default (gate_low_rank_dim), which the file does not hold."""


def rwkv7_layers(config: ConfigFields, hidden: int) -> Layers:
    """Return the layers of RWKV-7; the first has no mix with earlier values.

    Raises: InputFileError: a rank or size is missing, or heads do not divide.
    Source: flash-linear-attention, RWKV7Config.
    """
    head_dim = config.count("head_dim")
    if hidden % head_dim:
        config.fail("head_dim", f"({head_dim}) does not divide hidden_size ({hidden})")
    first = Rwkv7(
        num_heads=hidden // head_dim,
        head_dim=head_dim,
        decay_rank=config.count("decay_low_rank_dim"),
        rate_rank=config.count("a_low_rank_dim"),
        gate_rank=config.count("gate_low_rank_dim"),
    )
    others = first.model_copy(update={"value_rank": config.count("v_low_rank_dim")})
    width = (
        config.optional_count("intermediate_size") or (config.optional_count("hidden_ratio") or 4) * hidden
    )
    part = DenseFeedForward(intermediate_size=width, gated=False)
    layers: Layers = [(first, part)]
    return layers + [(others, part)] * (config.count("num_hidden_layers") - 1)


def linear_layers(config: ConfigFields, hidden: int) -> Layers:
    """Return the layers of gated linear attention or of RetNet, whose decay is a constant of the head.

    Raises: InputFileError: a size is missing, or heads do not divide.
    Source: flash-linear-attention, GLAConfig and RetNetConfig, with their defaults.
    """
    is_retention = config.text("model_type") == "retnet"
    heads = config.count("num_heads")
    keys, values = (
        _head_width(config, name, default, hidden, heads)
        for name, default in (
            ("expand_k", 1.0 if is_retention else 0.5),
            ("expand_v", 2.0 if is_retention else 1.0),
        )
    )
    mixer = GatedLinearAttention(
        num_heads=heads,
        num_kv_heads=config.optional_count("num_kv_heads") or heads,
        key_head_dim=keys,
        value_head_dim=values,
        decay_rank=None if is_retention else config.optional_count("gate_low_rank_dim") or _GLA_DECAY_RANK,
        output_gate=config.values.get("use_output_gate") is not False,
        conv_kernel=(config.optional_count("conv_size") or 4) if config.flag("use_short_conv") else None,
    )
    ratio = config.optional_count("hidden_ratio") or (2 if is_retention else 4)
    width = config.optional_count("intermediate_size") or -(-int(hidden * ratio * 2 / 3) // 256) * 256
    return [(mixer, DenseFeedForward(intermediate_size=width))] * config.count("num_hidden_layers")


def _head_width(config: ConfigFields, name: str, default: float, hidden: int, heads: int) -> int:
    """Width of one head if the whole width is a multiple of the hidden size [elements]."""
    factor = config.factor(name) if name in config.values else default
    width = int(hidden * factor)
    if width % heads:
        config.fail(name, f"gives a width {width} that num_heads ({heads}) does not divide")
    return width // heads


READERS: Final[Mapping[str, Callable[[ConfigFields, int], Layers]]] = {
    "rwkv7": rwkv7_layers,
    "rwkv7_fla": rwkv7_layers,
    "gla": linear_layers,
    "retnet": linear_layers,
}
"""Reader of the layers, by model type."""
