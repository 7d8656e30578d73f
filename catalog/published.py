"""Published checkpoints: which one to load for a weight format and how certain it is that it exists, its storage
format, and its context length."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from advisor.catalog.architectures import plugin_of
from advisor.catalog.dtypes import EXL3_DTYPES, GGUF_DTYPES, bytes_per_element
from advisor.catalog.engines import SUPPORT_FOLDER, sources_of, weight_formats
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import read_csv
from advisor.catalog.models import all_ids, by_hf_id, by_id
from advisor.catalog.named_formats import CHAT, base_repository, is_quantised, with_named_format
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.catalog.units import BITS_PER_BYTE

Publisher = Literal["official", "vendor", "community"]
_KINDS: Final = ("official", "vendor", "community")
_METHODS: Final = {
    "int4": ("int4", "int4-awq", "int4-gptq"),
    "int8": ("int8",),
    "fp8": ("fp8", "fp8-block"),
    "bf16": ("bf16", "original"),
    "fp16": ("bf16", "original"),
}
_FORMATS: Final = {
    "fp8": re.compile(r"fp8", re.IGNORECASE),
    "nvfp4": re.compile(r"nvfp4|-fp4", re.IGNORECASE),
    "mxfp4": re.compile(r"mxfp4", re.IGNORECASE),
    "int4": re.compile(r"awq|gptq|w4a16|int4", re.IGNORECASE),
    "int8": re.compile(r"w8a8|int8", re.IGNORECASE),
}
_DERIVED: Final = re.compile(r"distill|base\b|zero\b|vl-|coder", re.IGNORECASE)
_TUNINGS: Final = re.compile(r"distill|base|zero|coder|math|reasoning|thinking|deepseek")
"""Words of names that tell models of one shape apart."""
Origin = Literal["published", "pattern", "local", "quantised on loading", "convert first", "quantise first"]
SIXTEEN_BIT = ("bf16", "fp16")


class Checkpoint(NamedTuple):
    """Published checkpoint and the format in which it stores its weights."""

    hf_id: str
    weight_dtype: str


_STORAGE: Final = (
    "weights",
    "part_formats",
    "quantized_parts",
    "weights_elsewhere",
    "fp8_scaling",
    "file_format",
    "checkpoint",
    "other_checkpoints",
)
"""Fields of a model that say how a checkpoint stores its weights."""


def checkpoint_for(model: Model, weight_dtype: str, engine: str = "") -> Checkpoint:
    """Return the checkpoint that serves a model in a weight format: published in that format if the record lists one,
    else the 16-bit or native one, which the engine quantises on loading.

    NVIDIA's own checkpoints come first for TensorRT-LLM and last elsewhere; instruct models before base ones.

    Assumes: the names of checkpoints say their format, as publishers write them.
    Source: hf_ids of the model record.
    """
    model = _with_repositories(model)
    if model.checkpoint and weight_dtype == model.weights:
        return Checkpoint(model.checkpoint, model.weights)
    if model.folder or not model.hf_ids:
        return Checkpoint(model.folder or model.id, model.weights)
    wanted = _FORMATS.get(weight_dtype)
    if wanted is not None and weight_dtype != model.weights:
        stored = [hf_id for hf_id in model.hf_ids if wanted.search(hf_id)]
        if stored:
            return Checkpoint(min(stored, key=lambda hf_id: _order(hf_id, model, engine)), weight_dtype)
    plain = [hf_id for hf_id in model.hf_ids if not any(form.search(hf_id) for form in _FORMATS.values())]
    return Checkpoint(
        min(plain or model.hf_ids, key=lambda hf_id: _order(hf_id, model, engine)), model.weights
    )


def _with_repositories(model: Model) -> Model:
    """Return the model as the catalog has it if its checkpoint was named without an organisation: such a name states a
    format, and no hub has a repository of it."""
    is_bare = model.checkpoint and "/" not in model.checkpoint and not model.folder
    return by_id(model.id) if is_bare and model.id in all_ids() else model


def checkpoint_format(hf_id: str) -> str | None:
    """Return the weight format in which the checkpoint of a Hugging Face id is published; None if no record lists it.

    Assumes: see checkpoint_for; if a name contains several formats, the first counts.
    Source: names of checkpoints, else the record.
    """
    model = by_hf_id(hf_id)
    if model is None:
        return None
    said = {dtype: found.start() for dtype, form in _FORMATS.items() if (found := form.search(hf_id))}
    if said:
        return min(said, key=said.__getitem__)
    others = {stored.hf_id.casefold(): stored.weights for stored in model.other_checkpoints}
    return others.get(hf_id.casefold(), model.weights)


def _order(hf_id: str, model: Model, engine: str) -> tuple[bool, bool, bool, int]:
    nvidia = hf_id.startswith("nvidia/")
    return (
        bool(_DERIVED.search(hf_id)),
        nvidia != (engine == "tensorrt-llm"),
        not CHAT.search(hf_id),
        model.hf_ids.index(hf_id),
    )


class PublishedCheckpoint(NamedTuple):
    """Repository on the model hub that a source names; its present existence was not checked."""

    repository: str
    format: str
    """Format as support() names it; original if the source does not state the publisher's storage format."""
    kind: Publisher
    """official: the model's own publisher; vendor: a maker of accelerators or of an engine; community: others."""
    is_seen: bool
    """Whether the source spells the name out; if not, the name follows a pattern that the source states."""
    engines: tuple[str, ...]
    source: str

    @property
    def publisher(self) -> str:
        return self.repository.partition("/")[0]


class ContextLimits(NamedTuple):
    """Context lengths that a checkpoint reads."""

    native: int | None
    """Context length of config.json [tokens]; None if no source states it."""
    with_scaling: int | None
    """Context length with the scaling that the publisher states [tokens]; None if no source states it."""
    source: str
    note: str = ""


def loadable_checkpoints(
    model: Model, weight_dtype: str, engine: str = ""
) -> tuple[PublishedCheckpoint, ...]:
    """Return the checkpoints of a model in a weight format that an engine loads, best first: the model's own
    publisher's before a vendor's and a community's, names that were seen before those of a pattern. Empty means that
    the model must be quantised first.

    Source: data/support/checkpoints.csv, each row with its source.
    """
    if weight_dtype in GGUF_DTYPES:
        formats: Sequence[str] = ("gguf",)
    elif weight_dtype in EXL3_DTYPES:
        formats = ("exl3",)
    elif engine == "mlx":
        formats = {"int4": ("mlx-4bit",), "int8": ("mlx-8bit",)}.get(
            weight_dtype, ("mlx-bf16", "bf16", "original")
        )
    else:
        formats = _METHODS.get(weight_dtype, (weight_dtype,))
        if weight_dtype == model.weights:
            formats = (*formats, "original")
    found = [
        one
        for one in known_checkpoints(model)
        if one.format in formats and (not engine or _reads_format(engine, one))
    ]
    return best_first(model, found)


_LMDEPLOY_FORMATS: Final = ("bf16", "original", "int4-awq", "int4-gptq", "mxfp4")
"""Formats of the files for vLLM that LMDeploy reads as well. Source: lmdeploy 0.18.0, turbomind/converter.py."""


def _reads_format(engine: str, one: PublishedCheckpoint) -> bool:
    is_like = engine == "lmdeploy" and "vllm" in one.engines and one.format in _LMDEPLOY_FORMATS
    return engine in one.engines or is_like


def best_first(model: Model, found: Iterable[PublishedCheckpoint]) -> tuple[PublishedCheckpoint, ...]:
    """Return the checkpoints of a model in order of preference."""
    own = checkpoint_for(model, model.weights).hf_id
    return tuple(sorted(found, key=lambda one: _place(one, model, own)))


def _has_other_name(one: PublishedCheckpoint, model: Model) -> bool:
    """Whether a checkpoint is that of a model that was tuned from this one under another name."""
    name = one.repository.casefold().partition("/")[2]
    own = f"{model.id} {checkpoint_for(model, model.weights).hf_id}".casefold()
    is_tuned = any(word not in own for word in _TUNINGS.findall(name))
    return is_tuned or not all(part in name for part in model.id.split("-"))


def _place(one: PublishedCheckpoint, model: Model, own: str) -> tuple[object, ...]:
    """Return a sort key: models that were tuned from this one under another name come last, other releases of the
    record late, base models after chat models."""
    name = one.repository.casefold().partition("/")[2]
    return (
        _has_other_name(one, model),
        base_repository(one.repository, model.hf_ids) != own,
        _KINDS.index(one.kind),
        one.format == "original",
        not one.is_seen,
        not CHAT.search(name),
        len(name),
        name,
    )


def known_checkpoints(model: Model) -> tuple[PublishedCheckpoint, ...]:
    """Return the known checkpoints of a model, those of the named repository where the user named one; none for a local
    folder, whose name may be that of another model."""
    found = () if model.folder else all_published().get(model.id, ())
    if not model.repository:
        return found
    names = (*by_id(model.id).hf_ids, model.repository)
    return tuple(one for one in found if base_repository(one.repository, names) == model.repository)


_HEADS: Final = ("draft-eagle3", "draft-speculator")


def published_heads(model: Model, engine: str) -> tuple[PublishedCheckpoint, ...]:
    """Return the EAGLE heads of a model that an engine loads, best first. Heads belong to the model that answers in
    chats, in whichever format it is stored: none to a folder, to its base model or to one that was tuned from it.

    Source: data/support/checkpoints.csv, each row with its source.
    """
    if model.folder:
        return ()
    if model.repository:
        plain = [name for name in by_id(model.id).hf_ids if not is_quantised(name)]
        named = base_repository(model.repository, tuple(plain))
        talks = CHAT.search(named) or not any(map(CHAT.search, plain))
        if named not in plain or not talks:
            return ()
    found = all_published().get(model.id, ())
    return best_first(model, (one for one in found if one.format in _HEADS and engine in one.engines))


@functools.cache
def all_published() -> Mapping[str, tuple[PublishedCheckpoint, ...]]:
    """Return every known checkpoint by model id."""
    columns = ("repository", "model", "format", "kind", "is_seen", "engines", "source")
    titles = sources_of("checkpoints")
    found: dict[str, list[PublishedCheckpoint]] = defaultdict(list)
    for _, cells in read_csv(SUPPORT_FOLDER / "checkpoints.csv", columns):
        found[cells["model"]].append(
            PublishedCheckpoint(
                cells["repository"],
                cells["format"],
                cells["kind"],  # type: ignore[arg-type]
                cells["is_seen"] == "true",
                tuple(cells["engines"].split()),
                titles[cells["source"]],
            )
        )
    return {model: tuple(rows) for model, rows in found.items()}


def context_limits(model: Model, repository: str = "") -> ContextLimits:
    """Return the longest context of a model's checkpoint [tokens], as configured and with the scaling that its
    publisher states. Without `repository`, the checkpoint served by default counts.

    Assumes: where no source has that repository, the record's own figure holds.
    Source: data/support/windows.csv, each row with its source; model records.
    """
    name = repository or checkpoint_for(model, model.weights).hf_id
    base = base_repository(name, model.hf_ids)  # a quantised form has the window of what was quantised
    found = _windows().get(name.casefold()) or _windows().get(base.casefold())
    if found is not None:
        return found
    title = model.sources[0].title if model.sources else ""
    return ContextLimits(model.max_context_tokens, None, title)


@functools.cache
def _windows() -> Mapping[str, ContextLimits]:
    titles = sources_of("windows")
    columns = ("repository", "native", "with_scaling", "source", "note")
    return {
        cells["repository"].casefold(): ContextLimits(
            int(cells["native"]),
            int(cells["with_scaling"]) if cells["with_scaling"] else None,
            titles[cells["source"]],
            cells["note"],
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "windows.csv", columns)
    }


@dataclass(frozen=True, slots=True)
class ServedCheckpoint:
    """Checkpoint that an engine loads."""

    repository: str
    format: str
    """Format in which the checkpoint is stored."""
    origin: Origin
    """published: a source spells the name out; pattern: a source states how such names are made, so check it first;
    local: a folder of which only the config.json was read; quantised on loading: the 16-bit checkpoint, which the
    engine converts; convert first: the format is published, but not in files that the engine reads; quantise first:
    the format is not published."""

    @property
    def is_local(self) -> bool:
        """Whether the checkpoint is a folder of this machine: a path, unlike any name on a hub."""
        return self.repository.startswith((".", "/"))

    @property
    def start_words(self) -> str:
        """How a sentence on the start begins: the verb, after what comes first for a folder of this machine."""
        if not self.is_local:
            return "Start"
        return (
            f"Put the weights beside the config.json of {self.repository}, which alone was read, then start"
        )

    @property
    def is_made_first(self) -> bool:
        """Whether the files that the engine loads are made first, by a script that quantises or converts."""
        return self.origin in ("quantise first", "convert first")

    @property
    def verified(self) -> bool:
        """Whether a source names the checkpoint; a local folder is not checked for weights."""
        return self.origin in ("published", "quantised on loading") and not self.is_local


def served_checkpoint(model: Model, engine: Engine, dtype: str, accelerator: Accelerator) -> ServedCheckpoint:
    """Return the checkpoint that an engine loads to serve a model in a weight format on an accelerator.

    Source: data/support/checkpoints.csv; hf_ids of the model record; the engine's flags.
    """
    model = _with_repositories(model)
    able = tuple(name for name in model.hf_ids if reads_checkpoint(name, dtype, engine, accelerator))
    model = model.model_copy(update={"hf_ids": able}) if able else model
    named = checkpoint_for(model, dtype, engine.id)
    if engine.flags.reads_only == "gguf":
        return _gguf_checkpoint(model, dtype, named)
    if model.checkpoint and named.hf_id == model.checkpoint:
        known = {one.repository: one.is_seen for one in known_checkpoints(model)}
        is_seen = known.get(named.hf_id.partition(":")[0], True)
        return ServedCheckpoint(named.hf_id, dtype, "published" if is_seen else "pattern")
    if named.weight_dtype == dtype or (dtype in SIXTEEN_BIT and named.weight_dtype in SIXTEEN_BIT):
        return ServedCheckpoint(named.hf_id, dtype, "local" if model.folder else "published")
    found = [
        one
        for one in loadable_checkpoints(model, dtype, engine.id)
        if reads_checkpoint(one.repository, dtype, engine, accelerator) and not _has_other_name(one, model)
    ]
    if found:
        return ServedCheckpoint(found[0].repository, dtype, "published" if found[0].is_seen else "pattern")
    if dtype in engine.flags.weights and dtype in weight_formats(engine, accelerator):
        return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantised on loading")
    return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantise first")


def is_block_scaled(model: Model, engine: Engine, dtype: str, accelerator: Accelerator) -> bool:
    """Whether the checkpoint that an engine loads in a weight format has one scale for each block of 128 × 128 weights.

    Source: data/support/checkpoints.csv, format fp8-block; model records.
    """
    served = served_checkpoint(model, engine, dtype, accelerator)
    if dtype != "fp8" or served.format != "fp8" or served.is_made_first:
        return False
    listed = {one.repository: one.format for one in known_checkpoints(model)}.get(
        served.repository, "original"
    )
    return listed == "fp8-block" or (listed == "original" and model.fp8_scaling == "block")


_PUBLISHERS_METHODS: Final = {
    "nvidia": "modelopt",
    "RedHatAI": "compressed-tensors",
    "neuralmagic": "compressed-tensors",
    "amd": "quark",
}
"""Methods of quantisation that the files of publishers of quantised checkpoints name, by publisher."""
_REPOSITORIES_METHODS: Final = {
    "moonshotai/Kimi-K2-Thinking": "compressed-tensors",
    "moonshotai/Kimi-K2.5": "compressed-tensors",
    "moonshotai/Kimi-K2.6": "compressed-tensors",
    "moonshotai/Kimi-K2.7-Code": "compressed-tensors",
}
"""Methods of repositories whose names state no format. Source: SGLang 0.5.23, srt/arg_groups/overrides.py: Kimi K2
Thinking and K2.5 follow the int4 recipe of compressed-tensors; vllm-project/recipes, models/moonshotai/Kimi-K2.5.yaml.
Assumes: releases after K2.5 are as that one."""
_NAMED_METHODS: Final = re.compile(r"awq|gptq", re.IGNORECASE)
"""Methods that names of repositories state."""
_READS_OF_METHOD: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("lmdeploy", "modelopt"): (),
    ("lmdeploy", "compressed-tensors"): ("int4",),
    ("tensorrt-llm", "awq"): (),
    ("tensorrt-llm", "gptq"): (),
    ("tensorrt-llm", "quark"): (),
    ("tensorrt-llm", "compressed-tensors"): ("fp8", "nvfp4", "mxfp4"),
}
"""Formats of a method that an engine reads, on whatever hardware. Source: lmdeploy 0.18.0, turbomind/converter.py,
get_tm_config: of compressed-tensors 4-bit integers alone, and no other method than awq, gptq, fp8 and mxfp4;
NVIDIA/TensorRT-LLM@0066b2a5, llmapi/llm_utils.py, _update_from_hf_quant_config: modelopt, fp8, mxfp4, mxfp8, nvfp4 and
compressed-tensors, any other method is refused; @21156a7a, models/quant_config_utils.py: no integers of the last."""
_MODELOPT_ELSEWHERE: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("vllm", "amd"): ("fp8", "nvfp4", "mxfp8"),
    ("vllm", "intel"): ("fp8",),
    ("sglang", "amd"): ("nvfp4",),
}
"""Formats of NVIDIA's quantised checkpoints, whose method is modelopt, that an engine reads on accelerators of another
vendor. Source: vLLM 0.33.0, platforms/rocm.py and xpu.py, supported_quantization; SGLang 0.5.23,
configs/model_config.py, rocm_supported_quantization, where petit_nvfp4 reads NVFP4."""


def reads_checkpoint(repository: str, dtype: str, engine: Engine, accelerator: Accelerator) -> bool:
    """Whether an engine reads the quantisation method of a checkpoint in a format on an accelerator. What plug-ins read
    is not known."""
    method = method_of(repository)
    if dtype not in _READS_OF_METHOD.get((engine.id, method), (dtype,)):
        return False
    if accelerator.vendor == "nvidia" or method != "modelopt":
        return True
    known = _MODELOPT_ELSEWHERE.get((engine.id, accelerator.vendor), ())
    return dtype in known and not plugin_of(accelerator)


def method_of(repository: str) -> str:
    """Return the method of quantisation that the files of a publisher's repository name; empty if they are in 16 bits,
    or if it is not known."""
    known = _REPOSITORIES_METHODS.get(repository, "")
    if known or not is_quantised(repository):
        return known
    named = _NAMED_METHODS.search(repository)
    return _PUBLISHERS_METHODS.get(repository.partition("/")[0]) or (named[0].lower() if named else "")


def _gguf_checkpoint(model: Model, dtype: str, named: Checkpoint) -> ServedCheckpoint:
    """Return the checkpoint for an engine that reads GGUF files alone.

    Assumes: a repository of GGUF files has the usual quantised files; whether it also has 16-bit ones is unknown, so
    those are made from the publisher's weights.
    """
    if is_gguf(model.checkpoint) and named.hf_id == model.checkpoint:
        return ServedCheckpoint(named.hf_id, dtype, "published")
    if dtype in GGUF_DTYPES and not model.folder:
        found = loadable_checkpoints(model, dtype, "llama.cpp")
        if found and not _has_other_name(found[0], model):
            return ServedCheckpoint(
                found[0].repository, dtype, "published" if found[0].is_seen else "pattern"
            )
    is_same = dtype == named.weight_dtype or dtype in SIXTEEN_BIT
    return ServedCheckpoint(named.hf_id, named.weight_dtype, "convert first" if is_same else "quantise first")


def is_gguf(repository: str) -> bool:
    """Whether a repository or file holds GGUF files: a source says so, or its name does, as publishers write it."""
    name = repository.partition(":")[0]
    return "gguf" in name.casefold() or name in _gguf_repositories()


@functools.cache
def _gguf_repositories() -> frozenset[str]:
    return frozenset(
        one.repository for rows in all_published().values() for one in rows if one.format == "gguf"
    )


_ALIKE_FRACTION: Final = 0.01
"""Sizes of a part that differ by less are alike: scales of blocks and channels, which no price shows."""


def served_model(model: Model, engine: Engine, dtype: str, accelerator: Accelerator) -> Model:
    """Return the model in the formats of the checkpoint that an engine loads to serve it in a weight format; the model
    itself if that checkpoint holds what its format suggests.

    Source: data/support/checkpoint_parts.csv; names of checkpoints.
    """
    listed = _with_repositories(model)
    if model.folder or (listed.checkpoint and dtype == model.weights):
        return model
    served = served_checkpoint(model, engine, dtype, accelerator)
    if served.format != dtype or served.origin not in ("published", "pattern"):
        return model
    try:
        found, _ = with_named_format(listed, served.repository)
    except UnknownNameError:
        return model
    declares = found.kv_dtype or found.kv_dtype_beside or found.activations
    return found if found.weights == dtype and (declares or _is_unusual(found)) else model


def with_storage(model: Model, served: Model) -> Model:
    """Return the model with its weights stored as in the checkpoint that is served, and the rest as it was.

    Source: own definition.
    """
    stored = {name: getattr(served, name) for name in _STORAGE}
    return model if served is model else model.model_copy(update=stored)


def _is_unusual(model: Model) -> bool:
    """Whether a part has another size than the weight format suggests."""
    low = BITS_PER_BYTE * bytes_per_element(model.weights)
    for entry in model.part_formats:
        usual = BITS_PER_BYTE * bytes_per_element("bf16") if entry.part in ("embedding", "head") else low
        if abs(entry.bits_per_weight / usual - 1.0) > _ALIKE_FRACTION:
            return True
    return False
