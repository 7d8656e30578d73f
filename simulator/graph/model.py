"""Sums that depend on the shape of a model alone: parameters, weights of a rank, cache and state, launches,
collectives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from importlib import import_module
from typing import Final, TypeVar, cast

from advisor.catalog.dtypes import (
    EXL3_DTYPES,
    EXL3_HEAD_DTYPE,
    GGUF_BLOCK,
    GGUF_DTYPES,
    GgufKind,
    bytes_per_element,
    cached_value_bytes,
    gguf_bits,
    gguf_row_bits,
)
from advisor.catalog.errors import AdvisorError
from advisor.catalog.published import SIXTEEN_BIT
from advisor.catalog.schema import FeedForward, LayerGroup, Mixer, Model
from advisor.catalog.schema.model import Part, PartFormat
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.simulator.graph.feed_forward import feed_forward_operators
from advisor.simulator.graph.operator import Attention, Experts, FeedForwardOperators, Layer, MixerOperators

EXPERT_OPERATORS: Final = 12
"""Number of launches of a part with routed experts: norm, routing, sorting, two grouped matmuls, activation and their
sum."""
_UNLIKE_PUBLISHED: Final = 0.05
_FOUR_BIT_FLOATS: Final = ("nvfp4", "mxfp4")


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a model; `total` is the text tower without MTP layers and vision tower."""

    total: float
    active: float
    """Number of weights that one token multiplies with: layers with the chosen experts, and the head; not the
    look-up."""
    embedding: float
    """Parameters of the input table, which is the head too if embeddings are tied."""
    head: float
    """Parameters of the output head; 0 if embeddings are tied."""
    extra: float
    mtp: float
    vision: float
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class KvFootprint:
    """Cache that sequences take on the whole deployment; tensor parallelism divides or repeats it."""

    full_bytes_per_token: float
    """Cache of the layers that keep every token [bytes per token]."""
    windowed: tuple[tuple[int, float], ...]
    """Pairs (window_tokens, bytes_per_token) of the layers that keep the latest tokens only, by ascending window."""
    state_bytes_per_sequence: float
    """Recurrent and convolution state, keys and values of an encoder: equal at every context [bytes per sequence]."""

    def bytes_of(self, context_tokens: int, new_tokens: int = 1) -> float:
        """Cache of one sequence with this context [bytes], the `new_tokens` of the latest iteration included.

        Source: vLLM 0.24.0, v1/kv_cache_interface.py (SlidingWindowSpec.max_memory_usage_bytes).
        """
        windowed = sum(
            min(context_tokens, window - 1 + new_tokens) * per_token for window, per_token in self.windowed
        )
        return self.full_bytes_per_token * context_tokens + windowed + self.state_bytes_per_sequence


T = TypeVar("T")
_MOST_MODELS: Final = 1024
"""Models of which a sum is kept: more than any question looks at."""


def keep_by_identity(function: Callable[[Model], T]) -> Callable[[Model], T]:
    """Return the function with a memory for its last models, by identity: hashing a record walks through all of its
    fields, which takes longer than most sums.

    Source: own definition.
    """
    known: dict[int, tuple[Model, T]] = {}

    @wraps(function)
    def look_up(model: Model) -> T:
        found = known.get(id(model))
        if found is None or found[0] is not model:
            if len(known) >= _MOST_MODELS:
                known.clear()
            # The model is kept with its sum, so that no other gets its identity.
            found = known[id(model)] = model, function(model)
        return found[1]

    return look_up


@keep_by_identity
def layers_of(model: Model) -> tuple[Layer, ...]:
    """Return the operators of a model's layers, one entry per layer group in its order. Source: own definition."""
    return tuple(layer_of(group, model.hidden_size) for group in model.layers)


def layers_in(model: Model, *, decode: bool) -> tuple[Layer, ...]:
    """Return the layers that the tokens of a step or of a prompt pass: all, except in a model with encoder and decoder.

    An encoder reads prompts; cross-attention keeps the encoder's output; the rest of a decoder sees the text it writes.

    Source: own definition.
    """
    layers = layers_of(model)
    if not any(layer.encodes for layer in layers) or all(layer.encodes for layer in layers):
        return layers
    if decode:
        return tuple(layer for layer in layers if not layer.encodes)
    return tuple(layer for layer in layers if layer.encodes or (layer.mixer and layer.mixer.follows_encoder))


@lru_cache(maxsize=4096)
def layer_of(group: LayerGroup, hidden: int) -> Layer:
    """Return the operators of one layer group. Source: own definition."""
    mixer = mixer_operators(group.mixer, hidden) if group.mixer is not None else None
    part = feed_forward_operators(group.feed_forward, hidden) if group.feed_forward is not None else None
    return Layer(group.count, mixer, part, group.stored_count or 0)


@keep_by_identity
def parameter_count(model: Model) -> ParameterCount:
    """Return the parameters of a model from its shape.

    total = embedding + head + extra + Σ count · (mixer + feed-forward): all matrices and convolutions;
    norms and biases are left out.

    Assumes: a multi-token-prediction layer is an attention layer of the model with its last feed-forward
    part, and a projection from twice the hidden size to the hidden size.
    Error: below 1.5 % for dense, 2.5 % for other models of published counts (tests/simulator/graph/test_model.py).
    Source: shapes as published; matrices of each layer type as in the transformers library.
    """
    layers = layers_of(model)
    embedding = float(model.vocab_size * model.hidden_size)
    head = 0.0 if model.tied_embeddings else embedding
    total = embedding + head + model.extra_parameters
    total += sum(layer.copies * layer.parameters for layer in layers)
    # A U-Net is no stack of layers: all of its parameters act on every image.
    active = embedding + sum(layer.count * layer.active for layer in layers) if layers else total
    return ParameterCount(
        total=total,
        active=active,
        embedding=embedding,
        head=head,
        extra=model.extra_parameters,
        mtp=model.mtp_layers * _mtp_layer(layers, model.hidden_size) if model.mtp_layers else 0.0,
        vision=model.vision.parameters if model.vision else 0.0,
        layers=layers,
    )


def check_parameters(model: Model) -> None:
    """Refuse a record whose operators do not add up to the parameters that its publisher counts.

    Raises: AdvisorError: they differ by more than 5 %; names the record's file.
    Source: tests/simulator/graph/test_model.py holds every record to 1.5 or 2.5 %.
    """
    if model.published_parameters is None:
        return
    count = parameter_count(model)
    extra = {"vision": count.vision, "mtp": count.mtp}
    total = count.total + sum(extra[name] for name in model.published_includes)
    if abs(total / model.published_parameters - 1.0) > _UNLIKE_PUBLISHED:
        raise AdvisorError(
            f"catalog/data/models/{model.id}.toml: operators of {total / GIGA:.2f} billion parameters, "
            f"published {model.published_parameters / GIGA:.2f} billion",
            fix="correct its layers or its published_parameters",
        )


def _mtp_layer(layers: tuple[Layer, ...], hidden: int) -> float:
    attention = [layer.mixer.parameters for layer in layers if layer.mixer and layer.mixer.attention]
    parts = [layer.feed_forward.parameters for layer in layers if layer.feed_forward]
    return (attention[-1] if attention else 0.0) + (parts[-1] if parts else 0.0) + 2.0 * hidden**2


def kv_bytes_per_token(model: Model, kv_dtype: str = "bf16", *, pads_groups: bool = False) -> KvFootprint:
    """Return the cache of a sequence by the quantity that it grows with [bytes per token, bytes per sequence].

    Per token and layer: num_kv_heads · (head_dim + v_head_dim) values, or kv_lora_rank + qk_rope_head_dim
    values with latent attention; an indexer adds its own key in fp8 with one fp32 scale. Compressed layers
    keep one entry per compress_ratio tokens in addition to their window. An fp8 cache of sparse or compressed latent
    attention keeps scales and 16-bit positions. With `pads_groups`, caches that grow at several rates each take the
    pages of the largest, as vLLM gives all groups of layers one page size.

    Assumes: layers that share the keys and values of another keep none.
    Raises: KeyError: the format is not known.
    Source: vLLM 0.20.2, vllm/v1/kv_cache_interface.py (what each layer type stores).
    """
    element_bytes = cached_value_bytes(kv_dtype)
    full = state = 0.0
    growths: list[tuple[int, float]] = []
    windows: dict[int, float] = {}
    for layer in layers_of(model):
        if layer.mixer is None:
            continue
        state += layer.count * layer.mixer.state_bytes(element_bytes)
        attention = layer.attention
        if attention is None:
            continue
        entry_bytes = layer.count * _entry_bytes(attention, kv_dtype)
        window = attention.window_tokens
        if window is not None:
            windows[window] = windows.get(window, 0.0) + entry_bytes
        if window is None or attention.compress_ratio > 1:
            full += (entry_bytes + layer.count * attention.indexer_bytes) / attention.compress_ratio
            sizes = (entry_bytes / layer.count, attention.indexer_bytes)
            growths += [(layer.count, size / attention.compress_ratio) for size in sizes if size]
    if (
        pads_groups
        and len({layer.attention.compress_ratio for layer in layers_of(model) if layer.attention}) > 1
    ):
        full = sum(count for count, _ in growths) * max(size for _, size in growths)
    return KvFootprint(full, tuple(sorted(windows.items())), state)


def unified_bytes_per_token(model: Model, kv_dtype: str) -> float:
    """Cache of one token if every layer kept it in entries of the largest size [bytes per token].

    Layers of one kind (full attention, one window, a recurrent state) are divided into groups of as many layers as the
    smallest kind has, the last one padded.

    Source: vLLM before 0.21, v1/core/kv_cache_utils.py: tokens printed = blocks / groups · tokens of a block.
    """
    counts: dict[int | str, int] = {}
    largest = 0.0
    element_bytes = cached_value_bytes(kv_dtype)
    for layer in layers_of(model):
        attention = layer.attention
        if attention is not None and attention.kept:
            kind: int | str = attention.window_tokens or "full"
            largest = max(largest, _entry_bytes(attention, kv_dtype))
        elif layer.mixer is not None and layer.mixer.state_bytes(element_bytes) > 0:
            kind = "state"
        else:
            continue
        counts[kind] = counts.get(kind, 0) + layer.count
    size = min(counts.values(), default=0)
    return sum(-(-count // size) * size for count in counts.values()) * largest if size else 0.0


def _entry_bytes(attention: Attention, kv_dtype: str) -> float:
    """Size of the cache of one token in one layer [bytes]; of one entry if tokens are compressed."""
    if not attention.kept:
        return 0.0
    if kv_dtype == "fp8" and attention.scaled_entry_bytes is not None:
        return attention.scaled_entry_bytes
    return attention.cached_bytes(kv_dtype)


def kv_share(model: Model, tensor_parallel: int) -> float:
    """Fraction of the model's KV cache that one tensor-parallel rank holds: 1/tp, more if heads are replicated.

    Source: key-value heads are replicated when there are fewer than ranks; latent vectors always are.
    """
    total = shared = 0.0
    for layer in layers_of(model):
        attention = layer.attention
        if attention is not None and attention.kept:
            values = float(layer.count * attention.cached_values)
            total += values
            shared += values * attention.cache_share(tensor_parallel)
    return shared / total if total else 1.0 / tensor_parallel


def window_of(model: Model) -> int | None:
    """Return the window that most windowed layers share [tokens]; top-k of sparse attention counts as one.

    Assumes: one window per model; published models with windows have one.
    Source: own definition.
    """
    votes: dict[int, int] = {}
    for layer in layers_of(model):
        if layer.attention is not None and layer.attention.line_window is not None:
            votes[layer.attention.line_window] = votes.get(layer.attention.line_window, 0) + layer.count
    return max(votes, key=lambda window: votes[window]) if votes else None


def routed_layers(model: Model) -> tuple[tuple[int, Experts], ...]:
    """Return (layers, routed experts) of each layer group with routed experts. Source: own definition."""
    return tuple((layer.count, layer.experts) for layer in layers_of(model) if layer.experts is not None)


def is_moe(model: Model) -> bool:
    """Whether any layer routes tokens to experts. Source: own definition."""
    return bool(routed_layers(model))


def num_experts(model: Model) -> int:
    """Number of routed experts of the layer with most; 0 for a dense model. Source: own definition."""
    return max((experts.num_experts for _, experts in routed_layers(model)), default=0)


def has_state(model: Model) -> bool:
    """Whether any layer keeps a recurrent state. Source: own definition."""
    return any(layer.mixer is not None and layer.mixer.recurrence_kernel for layer in layers_of(model))


def num_layers(model: Model) -> int:
    """Number of layers of a model. Source: definition."""
    return sum(group.count for group in model.layers)


@lru_cache(maxsize=256)
def with_depth(model: Model, num_layers: int | None) -> Model:
    """Return the model with `num_layers` layers: each kind keeps its share, and at least one layer if there is room.

    Source: own definition.
    """
    total = sum(group.count for group in model.layers)
    if num_layers is None or num_layers == total:
        return model
    shares = [group.count * num_layers / total for group in model.layers]
    counts = [int(share) for share in shares]
    if num_layers >= len(counts):
        counts = [max(1, count) for count in counts]
    while sum(counts) < num_layers:
        counts[max(range(len(counts)), key=lambda index: shares[index] - counts[index])] += 1
    while sum(counts) > num_layers:
        counts[max(range(len(counts)), key=lambda index: counts[index] - shares[index])] -= 1
    groups = zip(model.layers, counts, strict=True)
    layers = tuple(group.model_copy(update={"count": count}) for group, count in groups if count)
    return model.model_copy(update={"layers": layers, "mtp_layers": 0})


def num_operators(model: Model, expert_operators: int = EXPERT_OPERATORS) -> int:
    """Number of operators that the host launches for one pass of a model, counted by layer type.

    `expert_operators` is the number for a feed-forward part with routed experts, of which engines fuse more or less.

    Assumes: the counts of each kind, which are those of vLLM's and SGLang's model definitions, fused where they fuse.
    Source: own count.
    """
    return sum(
        layer.count
        * (
            (layer.mixer.launches if layer.mixer else 0)
            + (layer.feed_forward.launches(expert_operators) if layer.feed_forward else 0)
        )
        for layer in layers_of(model)
    )


def num_collectives(model: Model) -> int:
    """Number of sums over tensor-parallel ranks in one pass of a model.

    One follows each mixer and each feed-forward part, and one is within a mixer whose norm covers the heads of all
    ranks.

    Source: Megatron-LM, arXiv:1909.08053, section 3.
    """
    return sum(
        layer.count
        * (
            (layer.mixer is not None)
            + (layer.feed_forward is not None)
            + (layer.mixer is not None and layer.mixer.exchanged_norm_values > 0)
        )
        for layer in layers_of(model)
    )


def dense_dtype(model: Model, weight_dtype: str, part: Part = "mixer") -> str:
    """Return the format of the dense matrices outside the routed experts: those of mixers, or of another part.

    A checkpoint that lists its formats decides. Other checkpoints of mixture-of-experts models in 4-bit floats quantise
    the experts and leave attention in 16 bits, or in the format that the model's record names (DeepSeek V4: fp8 with
    mxfp4 experts). GPTQ and AWQ (int4) quantise attention too, except where a model has recurrent layers.

    Source: nvidia/DeepSeek-R1-FP4, moonshotai/Kimi-K2.5 and openai/gpt-oss-120b quantization_config;
    Qwen/Qwen3-30B-A3B-GPTQ-Int4 takes 16 GB; Qwen/Qwen3.5-27B-GPTQ-Int4 excludes attention (onnxruntime/mobius pull
    request 18).
    """
    listed = _listed_format(model, weight_dtype, part)
    if listed is not None:
        return listed.dtype
    if weight_dtype in SIXTEEN_BIT or not is_moe(model):
        return weight_dtype
    only_experts = weight_dtype in _FOUR_BIT_FLOATS or (weight_dtype == "int4" and has_state(model))
    if only_experts or model.quantized_parts == "experts":
        return model.weights_elsewhere
    return weight_dtype


def feed_forward_part(layer: Layer) -> Part:
    """Return the kind of weights that the dense matrices of a layer's feed-forward part are. Source: own definition."""
    return "shared_experts" if layer.experts is not None else "feed_forward"


def stored_element_bytes(model: Model, weight_dtype: str, part: Part) -> float:
    """Size of one weight of a part in a checkpoint of this format [bytes], scales included.

    Embedding and head stay in 16 bits, except in GGUF and EXL3 files and where a checkpoint lists another format.

    Source: part_formats of the model; llama.cpp's rules for mixes; exllamav3, doc/convert.md.
    """
    listed = _listed_format(model, weight_dtype, part)
    if listed is not None:
        return listed.bits_per_weight / BITS_PER_BYTE
    is_table = part in ("embedding", "head")
    if weight_dtype in GGUF_DTYPES:
        kind: GgufKind = "layers"
        if is_table:
            kind = "head" if part == "head" or model.tied_embeddings else "embedding"
        if part == "experts" and model.weights == "mxfp4":
            return bytes_per_element("mxfp4")  # llama-quantize leaves them as they are
        wider = _row_bits(model, weight_dtype, part, kind)
        return (gguf_bits(weight_dtype, kind) + wider) / BITS_PER_BYTE
    if is_table:
        return bytes_per_element(EXL3_HEAD_DTYPE if weight_dtype in EXL3_DTYPES else "bf16")
    if part == "experts":
        return bytes_per_element(weight_dtype)
    return bytes_per_element(dense_dtype(model, weight_dtype, part))


def _row_bits(model: Model, weight_dtype: str, part: Part, kind: GgufKind) -> float:
    """Bits that a weight of a part takes more because its rows are no whole number of llama.cpp's blocks.

    Assumes: matrices of a mixer have rows of the hidden size; parts of all layers are as wide as the first one.
    """
    inputs = gguf_row_bits(weight_dtype, kind) if model.hidden_size % GGUF_BLOCK else 0.0
    if kind != "layers" or part == "mixer":
        return inputs
    first = next((group.feed_forward for group in model.layers if _holds(group.feed_forward, part)), None)
    if first is None:
        return inputs
    inner = first.intermediate_size
    if part == "shared_experts" and first.kind == "moe":
        inner = first.shared_intermediate_size
    outputs = gguf_row_bits(weight_dtype, kind, is_down=True) if inner % GGUF_BLOCK else 0.0
    num_inputs = 2 if first.gated else 1
    return (num_inputs * inputs + outputs) / (num_inputs + 1)


def _holds(feed_forward: FeedForward | None, part: Part) -> bool:
    """Whether a feed-forward part of a layer has weights of this kind."""
    return feed_forward is not None and (feed_forward.kind == "dense") == (part == "feed_forward")


def _listed_format(model: Model, weight_dtype: str, part: Part) -> PartFormat | None:
    """Return the storage of a part as the model's own checkpoint lists it; None if it does not or another is asked."""
    if weight_dtype != model.weights:
        return None
    return next((entry for entry in model.part_formats if entry.part == part), None)


def dense_weight_bytes(model: Model, layer: Layer, weight_dtype: str, tensor_parallel: int) -> float:
    """Size of the weights of one layer without its routed experts on one accelerator [bytes].

    Assumes: norms and biases are negligible.
    Source: own definition, from the matrices.
    """
    wide = bytes_per_element("bf16")
    total = 0.0
    parts: tuple[tuple[Part, MixerOperators | FeedForwardOperators | None], ...] = (
        ("mixer", layer.mixer),
        (feed_forward_part(layer), layer.feed_forward),
    )
    for name, part in parts:
        if part is not None:
            low_bit, others = part.num_weights_on_rank(tensor_parallel)
            total += low_bit * stored_element_bytes(model, weight_dtype, name) + others * wide
    return total


def expert_weight_bytes(model: Model, layer: Layer, weight_dtype: str) -> float:
    """Size of all routed experts of one layer [bytes]. Source: own definition."""
    experts = layer.experts
    if experts is None:
        return 0.0
    return experts.num_experts * experts.elements * stored_element_bytes(model, weight_dtype, "experts")


@lru_cache(maxsize=4096)
def mixer_operators(record: Mixer, hidden: int) -> MixerOperators:
    """Return the operators behind a mixer's record.

    Raises: AdvisorError: the kind has no file, or its file leaves out what a mixer must say.
    Source: own definition.
    """
    file = f"simulator/graph/mixers/{record.kind}.py"
    try:
        module = import_module(f"advisor.simulator.graph.mixers.{record.kind}")
    except ModuleNotFoundError as error:
        raise AdvisorError(f"mixer {record.kind!r} has no operators", fix=f"write {file}") from error
    operators = cast(MixerOperators, module.Operators(record, hidden))
    missing = _missing(operators)
    if missing:
        raise AdvisorError(f"{file}: {missing}")
    return operators


def _missing(operators: MixerOperators) -> str:
    """Return the properties that a kind of mixer does not state, as a phrase; empty if it is complete."""
    if (operators.attention is None) == (operators.recurrence() is None):
        return "a mixer has either attention over a cache or a recurrence"
    if not operators.matrices or not operators.launches or not operators.head_counts:
        return "a mixer has matrices, launches and heads"
    if bool(operators.recurrence_kernel) == (operators.attention is not None):
        return "a recurrence names the kernel that prices it"
    if any(matrix.local(1).elements != matrix.elements for matrix in operators.stored):
        return "the matrices of one rank do not add up to the parameters"
    return ""
