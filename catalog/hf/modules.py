"""Weight matrices of a model by the names that checkpoints give them, with their sizes."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from advisor.catalog.schema import FeedForward, Mixer, Model
from advisor.catalog.schema.model import GatedLinearAttention, Part, Rwkv7

Layers = list[tuple[Mixer | None, FeedForward | None]]

_ATTENTION: Final = ("self_attn", "attn", "attention", "self_attention", "mixer")
_LINEAR: Final = ("linear_attn", "mixer", "mamba", "self_attn", "attn", "linear_attention")
_DENSE: Final = ("mlp", "ffn", "feed_forward", "mixer")
_ROUTED: Final = ("mlp", "block_sparse_moe", "ffn", "feed_forward", "mixer", "moe")
_SHARED: Final = ("shared_experts", "shared_expert", "shared_mlp")
_GATE: Final = ("gate_proj", "w1", "gate_up_proj", "in_proj", "fc1")
_UP: Final = ("up_proj", "w3", "gate_up_proj", "in_proj", "fc1")
_DOWN: Final = ("down_proj", "w2", "out_proj", "fc2")
FUSED: Final = ("gate_up_proj", "qkv_proj")
"""Names of several projections that engines keep in one matrix; patterns mean them only where they spell them out."""
_HEAD: Final = ("lm_head", "head", "output", "embed_out")
_TABLE: Final = ("embed_tokens", "embeddings", "wte", "word_embeddings", "embedding")

PREFIXES: Final = (
    "model.",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "backbone.",
    "transformer.",
    "",
)
"""Words in front of a layer's name in the files of different publishers. Source: names in published checkpoints."""
_PREFIX_WORDS: Final = frozenset(word for prefix in PREFIXES for word in prefix.split(".") if word)
_LAYER_WORDS: Final = frozenset(("h", "blocks", "block", "layer"))


_MOST_NAMED_LAYERS: Final = 256
"""Most layers whose names are compared with a config's patterns; the deepest published model has 126."""


class NamedMatrix(NamedTuple):
    """One matrix of a checkpoint, or equal ones of all routed experts together."""

    part: Part
    elements: float
    names: tuple[str, ...]
    """Names that checkpoints give it, without the words in front of the layer."""
    num: int = 1
    """Matrices that it stands for: one for each routed expert."""


def matrices_of(model: Model) -> Iterator[NamedMatrix]:
    """Yield the weight matrices of a model of the catalog, as `matrices`."""
    layers = [(group.mixer, group.feed_forward) for group in model.layers for _ in range(group.count)]
    return matrices(layers, model.hidden_size, model.vocab_size, tied=model.tied_embeddings)


def matrices(
    layers: Layers, hidden: int, vocab: int, *, tied: bool, experts_in_layer: bool = False
) -> Iterator[NamedMatrix]:
    """Yield the weight matrices that a checkpoint may quantise; norms, routers and convolutions are left out.

    `experts_in_layer` says that experts are not inside of the dense part but next to it (Gemma 4).

    Source: names of modules in the transformers library and in published quantised checkpoints.
    """
    for index, (mixer, feed_forward) in enumerate(layers[:_MOST_NAMED_LAYERS]):
        path = f"layers.{index}"
        if mixer is not None:
            yield from _mixer(mixer, hidden, path)
        if feed_forward is not None:
            yield from _feed_forward(feed_forward, hidden, path, experts_in_layer=experts_in_layer)
    table = float(vocab * hidden)
    yield NamedMatrix("embedding", table, _TABLE)
    if not tied:
        yield NamedMatrix("head", table, _HEAD)


def canonical(name: str) -> str:
    """Return the name of a module without the words in front of its layer, as `NamedMatrix.names` have it."""
    words = name.strip(".").split(".")
    while len(words) > 1 and (words[0] in _PREFIX_WORDS or words[0] == "*"):
        words.pop(0)
    if len(words) > 1 and words[0] in _LAYER_WORDS and re.match(r"\d|\*", words[1]):
        words[0] = "layers"
    return ".".join(words)


def _mixer(mixer: Mixer, hidden: int, path: str) -> Iterator[NamedMatrix]:
    for elements, projections in _projections(mixer, hidden):
        owners = _ATTENTION if mixer.kind in ("gqa", "mla", "cross") else _LINEAR
        names = tuple(f"{path}.{owner}.{projection}" for owner in owners for projection in projections)
        yield NamedMatrix("mixer", float(elements), names)


def _projections(mixer: Mixer, hidden: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the size of each projection of a mixer, and its names."""
    if mixer.kind == "gqa":
        query = mixer.num_heads * mixer.head_dim * hidden
        value_dim = mixer.v_head_dim or mixer.head_dim
        yield query * (2 if mixer.output_gate else 1), ("q_proj", "qkv_proj", "qkv", "query_key_value", "wq")
        if not mixer.shared_kv:
            yield (
                mixer.num_kv_heads * mixer.head_dim * hidden,
                ("k_proj", "qkv_proj", "qkv", "query_key_value", "wk"),
            )
            if not mixer.keys_are_values:
                yield (
                    mixer.num_kv_heads * value_dim * hidden,
                    ("v_proj", "qkv_proj", "qkv", "query_key_value", "wv"),
                )
        yield mixer.num_heads * value_dim * hidden, ("o_proj", "out_proj", "dense", "wo", "c_proj")
    elif mixer.kind == "mla":
        width = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        if mixer.q_lora_rank:
            yield mixer.q_lora_rank * hidden, ("q_a_proj", "wq_a", "fused_qkv_a_proj_with_mqa")
            yield mixer.q_lora_rank * width, ("q_b_proj", "wq_b")
        else:
            yield width * hidden, ("q_proj", "wq")
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        yield latent * hidden, ("kv_a_proj_with_mqa", "wkv_a", "wkv", "fused_qkv_a_proj_with_mqa")
        if not mixer.latent_only:
            yield (
                mixer.kv_lora_rank * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim),
                ("kv_b_proj", "wkv_b"),
            )
        yield mixer.num_heads * mixer.v_head_dim * hidden, ("o_proj", "wo", "wo_a", "wo_b")
    elif mixer.kind == "gdn":
        keys = 2 * mixer.num_key_heads * mixer.key_head_dim
        values = mixer.num_value_heads * mixer.value_head_dim
        yield (keys + values) * hidden, ("in_proj_qkv", "in_proj_qkvz", "q_proj")
        yield values * hidden, ("in_proj_z", "in_proj_qkvz", "g_proj")
        yield values * hidden, ("out_proj", "o_proj")
    elif mixer.kind == "mamba2":
        inner = mixer.num_heads * mixer.head_dim
        columns = 2 * inner + 2 * mixer.num_groups * mixer.state_dim + mixer.num_heads
        yield columns * hidden, ("in_proj",)
        yield inner * hidden, ("out_proj",)
    elif isinstance(mixer, Rwkv7 | GatedLinearAttention):
        yield 4 * hidden * hidden, ("q_proj", "r_proj")
    else:
        yield 2 * mixer.num_heads * mixer.head_dim * hidden, ("q_proj",)


def _feed_forward(
    part: FeedForward, hidden: int, path: str, *, experts_in_layer: bool
) -> Iterator[NamedMatrix]:
    if part.kind == "dense":
        owners = tuple(f"{path}.{owner}" for owner in _DENSE)
        yield from _mlp_matrices("feed_forward", part.intermediate_size * hidden, part.gated, owners)
        return
    if part.shared_intermediate_size:
        # A dense part next to the experts (Gemma 4, Arctic) counts as shared and keeps the names of a dense part.
        named = tuple(f"{path}.{owner}.{name}" for owner in _ROUTED for name in _SHARED)
        owners = (
            *named,
            f"{path}.shared_mlp",
            f"{path}.residual_mlp",
            *(f"{path}.{owner}" for owner in _DENSE),
        )
        yield from _mlp_matrices("shared_experts", part.shared_intermediate_size * hidden, part.gated, owners)
    holders = (path,) if experts_in_layer else tuple(f"{path}.{owner}" for owner in _ROUTED)
    routed = tuple(f"{holder}.experts{number}" for number in (".0", "") for holder in holders)
    each = part.num_experts * part.intermediate_size * (part.latent_size or hidden)
    yield from _mlp_matrices("experts", each, part.gated, routed, part.num_experts)


def _mlp_matrices(
    part: Part, elements: int, gated: bool, owners: tuple[str, ...], count: int = 1
) -> Iterator[NamedMatrix]:
    for projections in (_GATE, _UP, _DOWN) if gated else (_UP, _DOWN):
        names = tuple(f"{owner}.{projection}" for owner in owners for projection in projections)
        yield NamedMatrix(part, float(elements), names, count)
