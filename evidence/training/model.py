"""Model of a row of training measurements: a name, a shape, or a name with a shape that overrides it."""

import re
from functools import cache
from typing import Final

from advisor.catalog import models
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model, MoeFeedForward
from advisor.catalog.units import GIGA
from advisor.evidence.table import Cells
from advisor.simulator.graph.model import with_depth

_UNGATED: Final = (
    "gpt",
    "mpt",
    "nemotron",
    "megatron",
    "turing",
    "mt-nlg",
    "falcon",
    "phi",
    "opt",
    "bloom",
    "pythia",
    "stablelm-base",
    "bert",
    "t5",
    "vit",
    "starcoder",
    "santacoder",
    "dit",
    "cerebras",
)
"""Families with two matrices in the feed-forward part; all others have a gate."""
_TIED: Final = (
    "gpt",
    "mpt",
    "megatron",
    "turing",
    "mt-nlg",
    "gemma",
    "opt",
    "bloom",
    "bert",
    "t5",
    "starcoder",
)
_VOCABULARY: Final = 51_200
"""Vocabulary if the row states none: GPT-2's table padded for tensor parallelism, the custom of published training
runs."""
_HEAD_DIM: Final = 128
_ASPECT: Final = 128
"""Hidden size over layers of a typical dense decoder."""
_NAMED: Final = re.compile(r"(\d+)x(\d+(?:\.\d+)?)b")
_NAMED_PER_TOKEN: Final = 2
_FINE_PER_TOKEN: Final = 8
_KV_SHARE: Final = 4
_GATED_MATRICES: Final = 3


def model_of(cells: Cells) -> tuple[Model, bool]:
    """Return the model of a row, and whether its shape had to be assumed from a parameter count alone.

    `layers, hidden, heads, kv_heads, ffn, vocab` override the named model; a name that the catalog does not know needs
    layers and hidden, or at least params_b of a dense decoder.

    Raises: UnknownNameError: neither name nor shape nor size tell what the model is.

    Source: gates and tied embeddings by family, as published.
    """
    name = cells.text("model")
    try:
        known = models.get(name).record
    except UnknownNameError:
        return _unknown(cells, name)
    if any(isinstance(group.mixer, GroupedQueryAttention) for group in known.layers) and _is_dense(known):
        return _overridden(cells, known), False
    return with_depth(known, cells.degree("layers")), False


def _overridden(cells: Cells, known: Model) -> Model:
    first = next(group for group in known.layers if isinstance(group.mixer, GroupedQueryAttention))
    assert isinstance(first.mixer, GroupedQueryAttention)
    assert isinstance(first.feed_forward, DenseFeedForward)
    hidden = cells.degree("hidden") or known.hidden_size
    heads = cells.degree("heads") or first.mixer.num_heads
    kv_heads = cells.degree("kv_heads") or first.mixer.num_kv_heads
    ffn = cells.degree("ffn") or first.feed_forward.intermediate_size
    same = (hidden, heads, kv_heads, ffn) == (
        known.hidden_size,
        first.mixer.num_heads,
        first.mixer.num_kv_heads,
        first.feed_forward.intermediate_size,
    )
    vocabulary = cells.degree("vocab") or known.vocab_size
    tied = known.tied_embeddings and not _has_untied_embeddings(cells)
    if not same:
        head_dim = (
            first.mixer.head_dim if heads == first.mixer.num_heads and hidden == known.hidden_size else 0
        )
        layers = cells.degree("layers") or sum(group.count for group in known.layers)
        gated = first.feed_forward.gated
        return _decoder(known.id, layers, hidden, heads, kv_heads, ffn, vocabulary, gated, tied, head_dim)
    model = with_depth(known, cells.degree("layers"))
    if (vocabulary, tied) == (model.vocab_size, model.tied_embeddings):
        return model
    return _with_table(model, vocabulary, tied)


@cache
def _with_table(model: Model, vocabulary: int, tied: bool) -> Model:
    return model.model_copy(update={"vocab_size": vocabulary, "tied_embeddings": tied})


def _unknown(cells: Cells, name: str) -> tuple[Model, bool]:
    family = name.split("/")[-1].casefold()
    gated = not family.startswith(_UNGATED)
    tied = family.startswith(_TIED) and not _has_untied_embeddings(cells)
    vocabulary = cells.degree("vocab") or _VOCABULARY
    hidden = cells.degree("hidden")
    layers = cells.degree("layers")
    parameters = (cells.positive("params_b") or 0.0) * GIGA
    assumed = not (hidden and layers)
    mixture = mixture_of(cells, name, vocabulary)
    if mixture is not None:
        return mixture, True
    if assumed:
        parameters = parameters or _parameters_in(family)
        if not parameters:
            raise UnknownNameError(
                f"unknown model {name!r}", why="the row gives no shape either", fix="give layers and hidden"
            )
        hidden, layers = typical_shape(parameters)
        layers = cells.degree("layers") or layers
    assert hidden
    assert layers
    heads = cells.degree("heads") or max(1, hidden // _HEAD_DIM)
    kv_heads = cells.degree("kv_heads") or heads
    ffn = cells.degree("ffn") or (hidden * 8 // 3 if gated else 4 * hidden)
    return _decoder(family, layers, hidden, heads, kv_heads, ffn, vocabulary, gated, tied, 0), assumed


def _parameters_in(name: str) -> float:
    """Number of parameters that a name states, as in `some-7b-base`; 0 if it states none."""
    stated = re.search(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z0-9])", name)
    return float(stated[1]) * GIGA if stated else 0.0


@cache
def _decoder(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocabulary: int,
    gated: bool,
    tied: bool,
    head_dim: int,
) -> Model:
    mixer = GroupedQueryAttention(
        num_heads=heads, num_kv_heads=kv_heads, head_dim=head_dim or max(1, hidden // heads)
    )
    feed_forward = DenseFeedForward(intermediate_size=ffn, gated=gated)
    return Model(
        id=f"{name} {layers}x{hidden}".replace(" ", "-"),
        name=name,
        hidden_size=hidden,
        vocab_size=vocabulary,
        tied_embeddings=tied,
        layers=(LayerGroup(count=layers, mixer=mixer, feed_forward=feed_forward),),
    )


def _has_untied_embeddings(cells: Cells) -> bool:
    return "untied_embeddings" in cells.text("features").split()


def _is_dense(model: Model) -> bool:
    return all(isinstance(group.feed_forward, DenseFeedForward) for group in model.layers)


def mixture_of(cells: Cells, name: str, vocabulary: int) -> Model | None:
    """Return a mixture of experts that the catalog does not know; None if the row states no sign of one.

    Assumes: `8x2B` is eight experts, two per token, on the decoder of a dense model of 2B, as Mixtral is on Mistral;
    with sizes alone (all and active parameters), eight of many small experts per token, as in DeepSeek's and Qwen's.
    Raises: InputFileError: a number is none.
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
