"""Mixtures of experts of which a row tells only a name or sizes, and the shape of a typical decoder."""

import re
from functools import cache
from typing import Final

from advisor.catalog.schema import GroupedQueryAttention, LayerGroup, Model, MoeFeedForward
from advisor.catalog.units import GIGA
from advisor.evidence.table import Cells

_HEAD_DIM: Final = 128
_ASPECT: Final = 128
"""Hidden size over layers of a typical dense decoder."""
_NAMED: Final = re.compile(r"(\d+)x(\d+(?:\.\d+)?)b")
_NAMED_PER_TOKEN: Final = 2
_FINE_PER_TOKEN: Final = 8
_KV_SHARE: Final = 4
_GATED_MATRICES: Final = 3


def mixture_of(cells: Cells, name: str, vocabulary: int) -> Model | None:
    """A mixture of experts that the catalog does not know; None where nothing says that it is one.

    Assumes: `8x2B` is eight experts, two per token, on the decoder of a dense model of 2B, as Mixtral is on Mistral;
    with sizes alone (all and active parameters), eight of many small experts per token, as in DeepSeek's and Qwen's.
    Raises: InputFileError: a number is none.
    Source: own definition.
    """
    named = _NAMED.search(name.casefold())
    total, active = ((cells.positive(column) or 0.0) * GIGA for column in ("params_b", "active_params_b"))
    if not named and not total > active > 0:
        return None
    hidden, layers = typical_shape(float(named[2]) * GIGA if named else active)
    hidden = cells.degree("hidden") or hidden
    layers = cells.degree("layers") or layers
    if named:
        width = cells.degree("ffn") or hidden * 7 // 2
        return _mixture(name, layers, hidden, int(named[1]), _NAMED_PER_TOKEN, width, vocabulary)
    rest = layers * 2 * (1 + 1 / _KV_SHARE) * hidden**2 + 2 * vocabulary * hidden
    per_token = max(0.2 * active, active - rest) / layers
    width = max(1, round(per_token / (_FINE_PER_TOKEN * _GATED_MATRICES * hidden)))
    experts = max(_FINE_PER_TOKEN, round((total - rest) / (layers * _GATED_MATRICES * hidden * width)))
    return _mixture(name, layers, hidden, experts, _FINE_PER_TOKEN, width, vocabulary)


@cache
def _mixture(
    name: str, layers: int, hidden: int, experts: int, per_token: int, width: int, vocabulary: int
) -> Model:
    heads = max(1, hidden // _HEAD_DIM)
    mixer = GroupedQueryAttention(
        num_heads=heads, num_kv_heads=max(1, heads // _KV_SHARE), head_dim=hidden // heads
    )
    feed_forward = MoeFeedForward(
        num_experts=experts, experts_per_token=per_token, intermediate_size=width, gated=True
    )
    return Model(
        id=f"{name} {layers}x{hidden}".replace(" ", "-"),
        name=name,
        hidden_size=hidden,
        vocab_size=vocabulary,
        tied_embeddings=False,
        layers=(LayerGroup(count=layers, mixer=mixer, feed_forward=feed_forward),),
    )


def typical_shape(parameters: float) -> tuple[int, int]:
    """Hidden size and layers of a dense decoder of this size: 12 layers · hidden², hidden = 128 layers."""
    hidden = round((_ASPECT * parameters / 12.0) ** (1.0 / 3.0) / _HEAD_DIM) * _HEAD_DIM or _HEAD_DIM
    return hidden, max(1, round(parameters / (12.0 * hidden**2)))
