"""Reader that turns any local Hugging Face config.json into a model record."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from advisor.catalog.architectures import writes_blocks
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, parsed_json, read_text
from advisor.catalog.hf import diffusion as hf_diffusion
from advisor.catalog.hf import encoder_decoder as hf_encoder_decoder
from advisor.catalog.hf import linear as hf_linear
from advisor.catalog.hf.classes import class_defaults
from advisor.catalog.hf.feed_forward import expert_part, feed_forwards, is_gated
from advisor.catalog.hf.fields import PASTED, ConfigFields, read_config
from advisor.catalog.hf.mixers import NUM_HEADS, attention, layer_kinds, mamba, mixers
from advisor.catalog.hf.vision import tower_of
from advisor.catalog.hf.weights import published_weights
from advisor.catalog.legible import Line
from advisor.catalog.schema import (
    DenseFeedForward,
    FeedForward,
    LayerGroup,
    Mixer,
    Model,
    Source,
)

_HIDDEN: Final = ("hidden_size", "n_embed", "n_embd", "d_model", "dim")
_NUM_LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_VOCAB: Final = ("vocab_size", "padded_vocab_size")
_CONTEXT: Final = (
    "max_position_embeddings",
    "max_position_embedding",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "block_size",
)
_MTP: Final = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_ENCODERS: Final = (
    "bert",
    "roberta",
    "xlm-roberta",
    "modernbert",
    "nomic_bert",
    "mpnet",
    "distilbert",
    "new",
)

_MOST_NAME_CHARACTERS: Final = 200
"""Longest name of a local model [characters]. A hub takes 96 characters for a repository."""
_LARGEST_CHECKPOINT_BYTES: Final = 1e15
_TYPES_FILE: Final = DATA_DIR / "model_types.txt"

_Layer = tuple[Mixer | None, FeedForward | None]


def model_from_hf_config(path: str | Path) -> Model:
    """Return the model that a local config.json describes.

    Reads dense, mixture-of-experts, latent-attention, sliding-window, linear-attention and state-space
    decoders, the text tower of vision-language files, encoders, Whisper, and diffusion transformers; layers
    are distinguished by their fields, not by model names.

    Raises: InputFileError: the file cannot be read, a field is missing, absurd or contradicts another, or a name is not
        one line of printable characters.
    Source: field names as written by the transformers and diffusers libraries.
    """
    config = read_config(path)
    try:
        model = _describe_model(config)
    except ValidationError as error:
        first = error.errors()[0]
        config.fail(".".join(map(str, first["loc"])), f"makes no model: {first['msg']}")
    is_file = config.file != PASTED
    return model.model_copy(update={"folder": str(_folder(Path(config.file).parent))}) if is_file else model


def class_from_hf_config(path: str | Path) -> Model | None:
    """Return a record without layers that says which class a local config.json names; None if it names none.

    Raises: InputFileError: the file cannot be read, or the name of a class is none.
    """
    config = read_config(path)
    named = _classes(config)
    if named is None:
        return None
    own_code = config.section("auto_map")
    name = _identity(config)
    values: dict[str, Any] = {
        "id": name.lower(),
        "name": name,
        "family": config.text("model_type"),
        "architectures": named,
        "has_own_code": own_code is not None and own_code.has("AutoConfig"),
        "has_own_tokenizer": _has_own_tokenizer(config),
        "layers": (),
        "workload": "decoder",
    }
    return Model.model_construct(**values)


def model_from_gguf(path: Path, shape: Mapping[str, Any], storage: Mapping[str, Any]) -> Model:
    """Return the model that the header of a GGUF file describes; see `gguf.read_header`.

    Raises: InputFileError: a field is missing, absurd or contradicts another.
    """
    config = ConfigFields({**shape, "_name_or_path": path.stem}, str(path))
    try:
        return _describe_model(config).model_copy(update={**storage, "checkpoint": str(path)})
    except ValidationError as error:
        first = error.errors()[0]
        return config.fail(".".join(map(str, first["loc"])), f"makes no model: {first['msg']}")


def _folder(path: Path) -> Line:
    """Return the path in a form that no program takes for an option or for a name on a hub."""
    is_plain = path.is_absolute() or path.parts[:1] == ("..",)
    return Line(path if is_plain else f"./{path}", "the path of the model")


def _describe_model(config: ConfigFields) -> Model:
    if config.has("_class_name"):
        return hf_diffusion.diffusion_model(config, _identity(config))
    text = config.text_tower()
    model_type = text.text("model_type")
    if model_type in ("dbrx", "mpt"):
        text = text.with_sections("attn_config", "ffn_config")
    if model_type in hf_encoder_decoder.READERS:
        return hf_encoder_decoder.READERS[model_type](text, _identity(config))
    _refuse_unknown(config, text)
    hidden = text.count(*_HIDDEN)
    _refuse_narrow_tables(text, hidden)
    layers = _layers(text, hidden)
    shared = _shared_blocks(text)
    vocab = text.count(*_VOCAB)
    is_encoder = model_type in _ENCODERS
    is_tied = is_encoder or _has_tied_embeddings(config, text)
    weights = published_weights(config, layers, hidden, vocab, tied=is_tied)
    name = _identity(config)
    own_code = config.section("auto_map")
    return Model(
        id=name.lower(),
        name=name,
        family=config.text("model_type"),
        architectures=_classes(config),
        has_own_code=own_code is not None and own_code.has("AutoConfig"),
        has_own_tokenizer=_has_own_tokenizer(config),
        hidden_size=hidden,
        vocab_size=vocab,
        tied_embeddings=is_tied,
        layers=group_layers(layers, stored=shared),
        max_context_tokens=text.optional_count(*_CONTEXT),
        weights=weights.dtype,
        quantized_parts=weights.parts,
        weights_elsewhere=weights.elsewhere,
        part_formats=weights.by_part,
        activations=weights.activations,
        kv_dtype=weights.kv_dtype,
        kv_dtype_beside=weights.kv_dtype_beside,
        tensor_bytes=_tensor_bytes(config),
        fp8_scaling=weights.fp8_scaling,
        file_format=weights.files,
        mtp_layers=text.optional_number(*_MTP),
        extra_parameters=_extra_parameters(text, hidden),
        vision=tower_of(config, hidden),
        workload="encoder" if is_encoder else "decoder",
        notes="; ".join(config.defaults_told),
        sources=(Source(kind="derived", title="local config.json", where=Path(config.file).name),),
    )


def _classes(config: ConfigFields) -> tuple[str, ...] | None:
    """Return the classes that the file names, which must be names; None if it names none."""
    named = config.sequence("architectures") or ()
    if not all(isinstance(name, str) and name.isidentifier() for name in named):
        config.fail("architectures", "must be a list of class names", fix='e.g. ["LlamaForCausalLM"]')
    return tuple(named) or None


def _has_own_tokenizer(config: ConfigFields) -> bool:
    """Whether tokenizer_config.json next to config.json names code of the repository."""
    return bool(_entry_beside(config, "tokenizer_config.json", "auto_map", "AutoTokenizer"))


def _tensor_bytes(config: ConfigFields) -> float | None:
    """Size of all tensors that the index next to config.json states [bytes]; None without an index."""
    size = _entry_beside(config, "model.safetensors.index.json", "metadata", "total_size")
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    return float(size) if is_number and 0 < size < _LARGEST_CHECKPOINT_BYTES else None


def _entry_beside(config: ConfigFields, file: str, *keys: str) -> Any:
    """Return an entry of a JSON file next to config.json; None if there is no such file or entry."""
    try:
        found = parsed_json(read_text(Path(config.file).with_name(file)))
        for key in keys:
            found = found[key]
    except (InputFileError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return found


def group_layers(layers: list[_Layer], stored: int | None = None) -> tuple[LayerGroup, ...]:
    """Return equal layers as one group, in the order in which they first occur; of attention with several input states
    only `stored` have weights of their own."""
    counts = Counter(layers)
    return tuple(
        LayerGroup(
            count=count,
            mixer=mixer,
            feed_forward=feed_forward,
            stored_count=stored
            if mixer is not None and mixer.kind == "gqa" and (mixer.input_states or 1) > 1
            else None,
        )
        for (mixer, feed_forward), count in counts.items()
    )


def known_types() -> set[str]:
    """Return the model types that are read: listed types, whose fields are sufficient, and types with readers.

    Source: data/model_types.txt.
    """
    lines = read_text(_TYPES_FILE).splitlines()
    listed = {name for line in lines[1:] for name in line.split()}
    return listed | hf_linear.READERS.keys() | hf_encoder_decoder.READERS.keys()


def _refuse_unknown(config: ConfigFields, text: ConfigFields) -> None:
    """Refuse model types whose layers this program does not know, instead of reading them as transformers."""
    known = known_types()
    own = text.text("model_type")
    if not own or own in known:
        return
    classes = ", ".join(str(name) for name in config.sequence("architectures") or ())
    two = config.values.get("is_encoder_decoder") is True
    near = ", ".join(hf_encoder_decoder.READERS if two else get_close_matches(own, known, n=5, cutoff=0.3))
    kind = "encoder-decoder" if two else "architecture"
    fix = "name a known type in the file if the layers are the same as that type's"
    problem = f"is '{own}'{f' ({classes})' if classes else ''}, an {kind} that is not known"
    if any(map(writes_blocks, _classes(config) or ())):
        problem += ", of a model that writes blocks of tokens by diffusion, which is not priced as serving"
        fix = f"--model with an autoregressive model; for --workload train, {fix}"
    elif classes:
        fix += f"; advisor catalog engines says which engines load {classes} as it is"
    text.fail(
        "model_type",
        problem,
        fix=fix,
        hint=f"nearest known types: {near}" if near else "",
    )


def _refuse_narrow_tables(text: ConfigFields, hidden: int) -> None:
    """Refuse embeddings that are narrower or wider than the layers (OPT-350m), which are not modelled."""
    width = text.optional_count("word_embed_proj_dim")
    if width not in (None, hidden):
        text.fail(
            "word_embed_proj_dim",
            f"is {width}, and layers are {hidden} wide: projected embeddings are not modelled",
            fix=f"take a model whose embeddings are as wide as its layers, or state {hidden} to count them so",
        )


def _layers(text: ConfigFields, hidden: int) -> list[_Layer]:
    if text.text("model_type") in hf_linear.READERS:
        return hf_linear.READERS[text.text("model_type")](text, hidden)
    blocks = text.sequence("block_configs")
    if blocks is not None:
        searched = [_searched_layer(text, index, block, hidden) for index, block in enumerate(blocks)]
        if not any(mixer or part for mixer, part in searched):
            text.fail("block_configs", "describes no block with attention or a feed-forward part")
        return searched
    interleaved = _interleaved_mixers(text)
    if interleaved is not None:
        return [_single_part(text, kind, hidden) for kind in interleaved]
    model_type = text.text("model_type")
    num_layers = text.count(
        *_NUM_LAYERS, hint="a config.json without layers describes no model: take the full file"
    )
    is_mamba = model_type == "mamba2" or (text.has("state_size", "ssm_cfg") and not text.has(*NUM_HEADS))
    if is_mamba:  # no attention, no feed-forward part
        return [(mamba(text, hidden), None)] * num_layers
    if model_type == "longcat_flash":
        return _shortcut_layers(text, num_layers, hidden)
    if model_type.startswith("zamba"):
        return _shared_attention_layers(text, num_layers, hidden)
    parts = feed_forwards(text, num_layers, hidden)
    if model_type == "falcon_h1":  # attention and state space side by side in every layer
        return _beside_mamba(text, hidden, num_layers, [(attention(text, hidden), part) for part in parts])
    found = mixers(text, num_layers, hidden)
    if len(found) != len(parts):
        text.fail(_NUM_LAYERS[0], f"is {len(parts)}, and lists of the file describe {len(found)} layers")
    layers: list[_Layer] = list(zip(found, parts, strict=True))
    if model_type in _ENCODERS:
        return [(_without_causality(mixer), part) for mixer, part in layers]
    return layers


def _shortcut_layers(text: ConfigFields, num_layers: int, hidden: int) -> list[_Layer]:
    """Return the layers of LongCat-Flash: each has two attentions with two dense parts, and one part with experts.

    Source: LongCat-Flash, arXiv:2509.01322, section 2 (shortcut-connected MoE).
    """
    dense = DenseFeedForward(intermediate_size=text.count("ffn_hidden_size", "intermediate_size"))
    halves: list[_Layer] = [(mixer, dense) for mixer in mixers(text, 2 * num_layers, hidden)]
    return [*halves, *[(None, expert_part(text))] * num_layers]


def _shared_attention_layers(text: ConfigFields, num_layers: int, hidden: int) -> list[_Layer]:
    """Return the layers of Zamba: Mamba in every one, and calls of shared blocks of attention and MLP, which read the
    hidden state together with the embedding.

    Source: Zamba, arXiv:2405.16712, section 3; Zamba2, arXiv:2411.15242, section 2.
    """
    kinds = layer_kinds(text, num_layers)
    shared = attention(text, hidden)
    block = shared.model_copy(
        update={
            "input_states": 2,
            "head_dim": text.optional_count("attention_head_dim") or 2 * hidden // shared.num_heads,
        }
    )
    dense = DenseFeedForward(intermediate_size=text.count("intermediate_size", "ffn_hidden_size"))
    calls: list[_Layer] = [(block, dense)] * sum(kind == "full" for kind in kinds)
    return _beside_mamba(text, hidden, num_layers, calls)


def _shared_blocks(text: ConfigFields) -> int | None:
    """Return the number of blocks with weights of their own that several layers call; None if none is shared."""
    if not text.text("model_type").startswith("zamba"):
        return None
    return text.optional_count("num_mem_blocks") or 1


def _beside_mamba(text: ConfigFields, hidden: int, num_layers: int, others: Sequence[_Layer]) -> list[_Layer]:
    return [*[(mamba(text, hidden), None)] * num_layers, *others]


def _without_causality(mixer: Mixer | None) -> Mixer | None:
    return mixer.model_copy(update={"causal": False}) if mixer is not None and mixer.kind == "gqa" else mixer


def _interleaved_mixers(text: ConfigFields) -> tuple[str, ...] | None:
    """Return the parts of Nemotron-H layers, or None for other models. Each layer is a mixer or a feed-forward part,
    given as a string of letters or a list of names."""
    pattern = text.text("hybrid_override_pattern")
    if pattern:
        num_layers = text.count(*_NUM_LAYERS)
        if len(pattern) != num_layers:
            text.fail("hybrid_override_pattern", f"has {len(pattern)} letters for {num_layers} layers")
        return tuple(pattern)
    names = text.sequence("layers_block_type")
    if names is None or not any(name in ("moe", "mlp") for name in names):
        return None
    letters = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}
    letters |= {"linear_attention": "M", "full_attention": "*"}  # as transformers 5 writes them
    return tuple(letters.get(str(name), str(name)) for name in names)


def _single_part(text: ConfigFields, kind: str, hidden: int) -> _Layer:
    if kind == "M":
        return mamba(text, hidden), None
    if kind == "*":
        return attention(text, hidden), None
    if kind == "E":
        return None, expert_part(text)
    if kind == "-":
        return None, DenseFeedForward(intermediate_size=text.count("intermediate_size"), gated=is_gated(text))
    return text.fail("hybrid_override_pattern", f"has a layer type '{kind}' that is not known (M, *, E, -)")


def _searched_layer(text: ConfigFields, index: int, entry: object, hidden: int) -> _Layer:
    """Return one block of a network found by architecture search (Nemotron NAS): parts may be absent or linear."""
    if not isinstance(entry, dict):
        text.fail(f"block_configs[{index}]", f"is {entry!r}, not a block")
    block = ConfigFields(entry, text.file, f"{text.prefix}block_configs[{index}].")
    mixer_fields = block.section("attention")
    part_fields = block.section("ffn")
    mixer: Mixer | None = None
    if mixer_fields is not None and mixer_fields.has("n_heads_in_group"):
        num_heads = text.count(*NUM_HEADS)
        num_kv_heads = num_heads // mixer_fields.count("n_heads_in_group")
        base = ConfigFields({**text.values, "num_key_value_heads": num_kv_heads}, text.file, text.prefix)
        mixer = attention(base, hidden)
    part: FeedForward | None = None
    if part_fields is not None and part_fields.values.get("ffn_mult") is not None:
        width = int(2 * part_fields.factor("ffn_mult") * hidden / 3)
        part = DenseFeedForward(intermediate_size=-(-width // 256) * 256)
    elif part_fields is not None and part_fields.has("intermediate_size"):
        part = DenseFeedForward(intermediate_size=part_fields.count("intermediate_size"))
    return mixer, part


def _extra_parameters(text: ConfigFields, hidden: int) -> float:
    """Number of parameters of learned positions, or of per-layer input embeddings (Gemma 3n and 4 E-models) with their
    projections [count]."""
    if class_defaults(text).learned_positions:
        return float((text.optional_count(*_CONTEXT) or 0) * hidden)
    if text.has("cross_attention_layers"):  # keys and values of images, which text layers do not count
        per_layer = 2 * text.count("num_key_value_heads") * (hidden // text.count(*NUM_HEADS)) * hidden
        return float(len(text.sequence("cross_attention_layers") or ()) * per_layer)
    if text.text("model_type").startswith("zamba"):
        return _adapters_of_calls(text, hidden)
    width = text.optional_number("hidden_size_per_layer_input")
    if not width:
        return 0.0
    num_layers = text.count(*_NUM_LAYERS)
    table = text.count("vocab_size_per_layer_input") * num_layers * width
    return float(table + hidden * num_layers * width + num_layers * 2 * hidden * width)


def _adapters_of_calls(text: ConfigFields, hidden: int) -> float:
    """Number of parameters that each call of a shared block has for itself: a projection, and low ranks [count]."""
    num_layers = text.count(*_NUM_LAYERS)
    calls = sum(kind == "full" for kind in layer_kinds(text, num_layers))
    rank = text.optional_number("adapter_rank") if text.text("model_type") == "zamba2" else 0
    inner = text.count("intermediate_size", "ffn_hidden_size")
    adapters = rank * (hidden + 2 * inner)
    if text.flag("use_shared_attention_adapter"):
        adapters += 3 * rank * (2 * hidden + 2 * hidden)
    return float(calls * (hidden**2 + adapters))


def _has_tied_embeddings(config: ConfigFields, text: ConfigFields) -> bool:
    for fields in (text, config):
        if fields.values.get("tie_word_embeddings") is not None:
            return fields.flag("tie_word_embeddings")
    return class_defaults(text).tied or class_defaults(config).tied


def _identity(config: ConfigFields) -> Line:
    """Return a name from the file's own words: its repository name, else its folder or file name."""
    name = config.text("_name_or_path").rstrip("/").rsplit("/", 1)[-1]
    if not name or name in (".", "main"):
        file = Path("given-shape" if config.file == PASTED else config.file).resolve()
        name = file.parent.name if file.name == "config.json" else re.sub(r"[_.-]?config$", "", file.stem)
    if len(name) > _MOST_NAME_CHARACTERS:
        raise InputFileError(
            f"{config.file}: the name of the model has {len(name):,} characters",
            why=f"at most {_MOST_NAME_CHARACTERS} are shown in tables and files",
            fix="shorten _name_or_path, or name the folder so",
        )
    return Line(name or "local-model", f"{config.file}: the name of the model")
