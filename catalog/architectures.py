"""Model classes that serving engines load: the class that a checkpoint names, and whether a release of an engine has
it."""

import functools
from collections import defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from advisor.catalog.engines import SUPPORT_FOLDER, sources_of
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.files import read_csv
from advisor.catalog.releases import version_key
from advisor.catalog.schema import Accelerator, Engine, GroupedQueryAttention, LatentAttention, Model
from advisor.catalog.schema.model import CrossAttention

ClassVerdict = Literal["native", "transformers", "no", "unknown"]
"""native: the engine has the class; transformers: the engine runs the class of the transformers library, at a speed
that is not modelled; no: the engine refuses the class; unknown: no list was read that settles it."""
Generates = Literal["tokens", "blocks", "nothing"]
"""tokens: one token after the other; blocks: a block of tokens at once, by diffusion; nothing: no text."""
_NO_TEXT: Final = (
    "ForRewardModel",
    "ForProcessRewardModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForMaskedLM",
    "ForQuestionAnswering",
)
"""Endings of classes whose output is no text, whatever their layers are."""
_PLUGINS: Final = {"google": "google", "aws": "aws", "huawei": "huawei"}
"""Hardware on which an engine runs through a plug-in with a model list of its own, by vendor."""
_WHOLE_LISTS: Final = (
    ("exllamav3", ""),
    ("llama.cpp", ""),
    ("lmdeploy", ""),
    ("mlx", ""),
    ("tensorrt-llm", ""),
    ("vllm", "aws"),
)
"""Engines and plug-ins whose list of classes was read whole and which run no class of another library: what is absent
from the list is refused."""
_LOADED_BY: Final[Mapping[str, str]] = {"mlx": "MLX", "exl2": "ExLlamaV2", "exl3": "ExLlamaV3"}
"""Program that loads files of a format that engines in general do not, also where the catalog has no such engine.
Source: quantization methods in the registries of vLLM 0.33.0 and SGLang 0.5.23, which have none of these; exllamav3,
doc/exl3.md, whose loader takes quant_method exl3 alone."""
_LOADS_BY_TYPE: Final = ("mlx",)
"""Engines that read the shape from config.json themselves and choose a class by its model type, whatever class the file
names. Source: mlx-lm 0.32.2, mlx_lm/utils.py, load_config and _get_classes."""
ClassLimit = Literal["tensor", "pipeline", "adapters", "eagle", "mtp", "int4", "nf4"]
_LIMIT_WORDS: Final[Mapping[ClassLimit, str]] = {
    "tensor": "tensor parallelism",
    "pipeline": "pipeline parallelism",
    "adapters": "LoRA adapters",
    "eagle": "EAGLE-3 heads",
    "mtp": "multi-token prediction",
    "int4": "4-bit integer weights",
    "nf4": "weights of bitsandbytes",
}
"""Features that an engine offers for some of its classes only, in words."""
_WORST_LAST: Final = ("native", "transformers", "unknown", "no")


class ClassSupport(NamedTuple):
    """Whether a release of an engine loads a model class, and the source."""

    verdict: ClassVerdict
    engine: str
    architecture: str
    """Class that the checkpoint names; empty if it names none."""
    version: str = ""
    since: str = ""
    """Releases between which the class came, as `after 0.16.0, by 0.20.2`; empty if unknown."""
    source: str = ""
    note: str = ""
    file_format: str = ""
    """Format of the checkpoint's files, where the engine does not load that; empty for any other verdict."""

    @property
    def is_refused(self) -> bool:
        return self.verdict == "no"

    @property
    def is_known(self) -> bool:
        """Whether the engine has the class itself, which the predicted speed assumes."""
        return self.verdict == "native"


class ModelClass(NamedTuple):
    """Class and needs of checkpoints of one model type."""

    architecture: str
    configured_by: tuple[str, ...]
    """Programs that can read the configuration without code of the repository: transformers, vllm, sglang."""
    has_own_tokenizer: bool
    """Whether the tokenizer is code of the repository."""
    generates: Generates


@functools.cache
def model_classes() -> Mapping[str, ModelClass]:
    """Return the class of checkpoints by model type.

    Assumes: transformers as vLLM 0.33.0 (before 5.21) and SGLang 0.5.23 (5.19.0) take it.
    Source: data/support/model_classes.csv: registries of transformers 5.24.0, vLLM 0.33.0 and SGLang 0.5.23;
        tokenizers, block diffusion and the classes of Ling (inclusionAI/Ling) from the publishers' repositories.
    """
    columns = ("model_type", "architecture", "configured_by", "repository_tokenizer", "generates")
    return {
        cells["model_type"]: ModelClass(
            cells["architecture"],
            tuple(cells["configured_by"].split()),
            cells["repository_tokenizer"] == "yes",
            cells["generates"],  # type: ignore[arg-type]
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "model_classes.csv", columns)
    }


def class_of(model: Model) -> str:
    """Return the class that the model's checkpoint names, else the class of its model type; empty if there is none."""
    if model.architectures is not None:
        return model.architectures[0] if model.architectures else ""
    known = model_classes().get(model.family)
    return known.architecture if known else ""


def refuses_cache(engine: Engine, model: Model, accelerator: Accelerator, kv_dtype: str) -> bool:
    """Whether an engine does not start a model with a format of the cache on an accelerator.

    Source: cache_refusals of the engine record.
    """
    mixers = [layer.mixer for layer in model.layers]
    has_sinks = any(isinstance(mixer, GroupedQueryAttention) and mixer.sinks for mixer in mixers)
    is_latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    return any(
        kv_dtype in rule.kv_dtypes
        and accelerator.architecture in rule.architectures
        and (class_of(model) in rule.classes or (rule.sinks and has_sinks) or (rule.latent and is_latent))
        for rule in engine.cache_refusals
    )


def can_make_weights(engine: Engine, model: Model, dtype: str) -> bool:
    """Whether a tool is known that makes weights of a model in a format that an engine reads.

    Source: makes_weights of the engine record.
    """
    made = engine.makes_weights
    return made is None or class_of(model) in made.get(dtype, ())


def output_of(model: Model) -> Generates:
    """Return how the model writes text. A model type that is in no list writes token after token."""
    if class_of(model).endswith(_NO_TEXT):
        return "nothing"
    if writes_blocks(class_of(model)):
        return "blocks"
    known = model_classes().get(model.family)
    if known is None or known.generates == "nothing":
        return "tokens" if model.workload == "decoder" else "nothing"
    return known.generates


def writes_blocks(architecture: str) -> bool:
    """Whether models of a class write blocks of tokens by diffusion, whatever their model type.

    Source: data/support/block_classes.csv, each row with its source.
    """
    return any(fnmatchcase(architecture, pattern) for pattern in _block_patterns())


@functools.cache
def _block_patterns() -> tuple[str, ...]:
    rows = read_csv(SUPPORT_FOLDER / "block_classes.csv", ("pattern", "source"))
    return tuple(cells["pattern"] for _, cells in rows)


class Repository(NamedTuple):
    """Needs of a repository beyond the class of its model."""

    needs_code: bool | None = None
    """Whether engines load it only with its own code, tokenizers included; None if its model type says so."""
    tokenizer: str = ""
    """Repository of the tokenizer; empty if it has one that engines read."""
    tensor_parallel: int = 0
    """Degree of tensor parallelism for which its files are cut; 0 if engines cut them."""
    inner_size: int = 0
    """Width to which its dense feed-forward matrices are padded; 0 if they are not."""


@functools.cache
def _repositories() -> Mapping[str, Repository]:
    columns = ("repository", "needs_code", "tokenizer", "tensor_parallel", "inner_size", "source")
    return {
        cells["repository"]: Repository(
            cells["needs_code"] == "yes" if cells["needs_code"] else None,
            cells["tokenizer"],
            int(cells["tensor_parallel"] or 0),
            int(cells["inner_size"] or 0),
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "repositories.csv", columns)
    }


def repository_of(name: str) -> Repository:
    """Return what a repository needs to be loaded. Source: data/support/repositories.csv, each row with its source."""
    found = (needs for pattern, needs in _repositories().items() if fnmatchcase(name, pattern))
    return next(found, Repository())


def needs_repository_code(model: Model, engine: str) -> bool:
    """Whether an engine loads the checkpoint only with Python code of its repository (`--trust-remote-code`): by its
    tokenizer, by lists of repositories and model types, and of a type in none of them by what its config.json says.
    An engine that reads the shape itself needs no code for it."""
    said = [needs for name in model.hf_ids if (needs := repository_of(name).needs_code) is not None]
    if model.has_own_tokenizer or said:
        return model.has_own_tokenizer or any(said)
    known = model_classes().get(model.family)
    reads_shape = engine in _LOADS_BY_TYPE
    if known is None or not model.family:
        return model.has_own_code and not reads_shape
    return known.has_own_tokenizer or not (reads_shape or {"transformers", engine} & set(known.configured_by))


def class_support(
    engine: Engine, model: Model, accelerator: Accelerator | None = None, version: str = ""
) -> ClassSupport:
    """Return whether an engine loads the class of a model, on an accelerator whose plug-in may have a list of its own,
    in `version`, else in the release that the record names, else in the newest one that was read.

    Assumes: no engine runs an encoder-decoder of text through another library, as vLLM states of its own.
    Source: data/support/engine_models.csv, class_limits.csv and class_parts.csv, each row with its source.
    """
    release = version or engine.release
    if model.file_format and model.file_format not in engine.file_formats:
        return ClassSupport("no", engine.id, class_of(model), release, file_format=model.file_format)
    limit = _limit_of(engine.id, class_of(model), release, "accelerator")
    if limit is not None and accelerator is not None and accelerator.architecture in limit.architectures:
        note = f"not on accelerators of architecture {accelerator.architecture}"
        return ClassSupport(
            "no", engine.id, class_of(model), release or limit.release, "", limit.source, note
        )
    for part in _parts_of(model) if release else ():
        later = _later_parts().get((engine.id, class_of(model), part))
        if later is not None and version_key(release) < version_key(later.present):
            note = f"its {part} came after {later.absent}, by {later.present}"
            return ClassSupport("no", engine.id, class_of(model), release, "", later.source, note)
    plugin = "" if accelerator is None else plugin_of(accelerator)
    found = _support(engine.id, class_of(model), model.family, plugin, release)
    if _is_text_to_text(model) and found.verdict in ("transformers", "unknown"):
        note = "an encoder-decoder, which engines run only with a class of their own"
        return found._replace(verdict="no", note=note)
    return found


def _is_text_to_text(model: Model) -> bool:
    """Whether an encoder reads the prompt and a decoder writes, as in T5."""
    return model.workload == "decoder" and any(
        isinstance(group.mixer, CrossAttention) for group in model.layers
    )


class _LaterPart(NamedTuple):
    """Part of a class that came after the class itself."""

    absent: str
    """Newest release that was read without it."""
    present: str
    """Oldest release that was read with it."""
    source: str


@functools.cache
def _later_parts() -> Mapping[tuple[str, str, str], _LaterPart]:
    columns = ("engine", "architecture", "part", "absent", "present", "source")
    return {
        (cells["engine"], cells["architecture"], cells["part"]): _LaterPart(
            cells["absent"], cells["present"], cells["source"]
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "class_parts.csv", columns)
    }


def _parts_of(model: Model) -> tuple[str, ...]:
    """Return the parts of a model that classes may have had later than others."""
    mixtures = [
        part for group in model.layers if (part := group.feed_forward) is not None and part.kind == "moe"
    ]
    is_latent = any(part.latent_size for part in mixtures)
    return (*(("latent experts",) if is_latent else ()), *(("experts",) if mixtures else ()))


def class_lacks(engine: Engine, model: Model, what: ClassLimit) -> str:
    """Return why an engine does not offer a feature for the class of a model; empty if no list says so.

    Assumes: releases after the one that was read are as that one, and so are plug-ins; earlier ones do not refuse.
    Source: data/support/class_limits.csv, each row with its source.
    """
    found = _limit_of(engine.id, class_of(model), engine.release, what)
    release = engine.release or (found.release if found else "")
    return f"{engine.name} {release} has no {_LIMIT_WORDS[what]} for class {class_of(model)}" if found else ""


class _Limit(NamedTuple):
    """Limits of an engine release for classes of models."""

    release: str
    architectures: frozenset[str]
    """Architectures of accelerators on which it does not run them; empty for a feature that none has."""
    classes: frozenset[str]
    source: str


def _limit_of(engine: str, architecture: str, version: str, what: str) -> _Limit | None:
    """Return the limit of a class in a release of an engine; None if no list has one."""
    found = _limits().get((engine, what))
    is_older = found is not None and bool(version) and version_key(version) < version_key(found.release)
    return None if found is None or is_older or architecture not in found.classes else found


@functools.cache
def _limits() -> Mapping[tuple[str, str], _Limit]:
    """Return the limits of classes by engine and feature."""
    columns = ("engine", "release", "lacks", "architectures", "classes", "source")
    return {
        (cells["engine"], cells["lacks"]): _Limit(
            cells["release"],
            frozenset(cells["architectures"].split()),
            frozenset(cells["classes"].split()),
            cells["source"],
        )
        for _, cells in read_csv(SUPPORT_FOLDER / "class_limits.csv", columns)
    }


def plugin_of(accelerator: Accelerator) -> str:
    """Return the plug-in through which engines run on an accelerator; empty if they run without one."""
    if accelerator.architecture.startswith("gaudi"):
        return "gaudi"
    return _PLUGINS.get(accelerator.vendor, "")


def last_release_with(engine: Engine, model: Model) -> str:
    """Return the newest release of an engine that was read with the class of a model; empty if none was.

    Source: data/support/engine_models.csv, each row with its source.
    """
    found = _statements(engine.id, class_of(model), model.family, "")
    return max((row.version for row in found if row.is_known), key=version_key, default="")


def _statements(engine: str, architecture: str, model_type: str, plugin: str) -> list[ClassSupport]:
    """Return what is known of a class in the releases of an engine that were read."""
    rows = _rows().get((engine, plugin), {})
    found = rows.get((model_type, architecture)) or [
        row for (_, name), more in rows.items() if architecture and name == architecture for row in more
    ]
    if not found and architecture and engine in _LOADS_BY_TYPE:
        found = [row for (name, _), more in rows.items() if name == model_type for row in more]
    return found


@functools.cache
def _support(engine: str, architecture: str, model_type: str, plugin: str, version: str) -> ClassSupport:
    rows = _rows().get((engine, plugin), {})
    found = _statements(engine, architecture, model_type, plugin)
    if found:
        newest = max(found, key=lambda row: (version_key(row.version), _WORST_LAST.index(row.verdict)))
        return _in_version(found, version) if version else newest
    if not architecture:
        note = "no checkpoint is known that names a class which engines could load"
        return ClassSupport("no", engine, "", note=note)
    if (engine, plugin) in _WHOLE_LISTS:
        listed = max(
            (row for more in rows.values() for row in more), key=lambda row: version_key(row.version)
        )
        return ClassSupport(
            "no",
            engine,
            architecture,
            version or listed.version,
            "",
            listed.source,
            "not in its list of classes",
        )
    return ClassSupport("unknown", engine, architecture, note="no list of the engine's classes settles it")


def _in_version(found: list[ClassSupport], version: str) -> ClassSupport:
    """Return the statement for one release: that of the release itself, else of the next one that was read.

    Assumes: a class stays between its first release and the next one that was read with it; releases after the newest
        one that was read are as that one.
    """
    asked = version_key(version)
    later = [row for row in found if version_key(row.version) >= asked]
    exact = [row for row in later if version_key(row.version) == asked]
    usable = [row for row in later if not row.is_refused]
    row = min(exact or usable or later, key=lambda one: version_key(one.version), default=None)
    if row is None:
        return max(found, key=lambda one: version_key(one.version))._replace(version=version)
    lacking, _, having = row.since.removeprefix("after ").rpartition("by ")
    if (having and asked >= version_key(having)) or row.is_refused or version_key(row.version) == asked:
        return row._replace(version=version)
    lacking = lacking.rstrip(", ") or ("" if having else row.since.removeprefix("after "))
    if lacking and asked <= version_key(lacking) and row.verdict == "transformers":
        note = "not in its list; it runs the class if the installed Transformers has one"
        return row._replace(verdict="unknown", version=version, note=note)
    if lacking and asked <= version_key(lacking):
        return row._replace(verdict="no", version=version, note=f"the class came after {lacking}")
    return row._replace(verdict="unknown", version=version, note="no list of this release was read")


def check_release(engine: Engine, model: Model, version: str, known: str) -> str:
    """Return a note on a release of an engine that the user named; `known` is the release whose options are printed.

    Raises: InfeasibleError: the release does not load the class of the model, as one that is older than the model.
    """
    found = class_support(engine, model, version=version)
    if found.is_refused:
        newest = class_support(engine, model)
        last = last_release_with(engine, model)
        if not newest.is_refused:
            able = f"--engine {engine.id}, whose {newest.version} has the class"
        else:
            able = f"--engine {engine.id}@{last}" if last else "another --engine"
        raise InfeasibleError(
            f"{engine.name} {version} does not start {model.id}",
            why=class_words(found, engine.name),
            fix=able,
        )
    if known and version_key(known) == version_key(version):
        return ""
    options = f"{engine.name} {known}" if known else f"a newer {engine.name}"
    words = class_words(found, engine.name)
    doubt = f"; {words}" if words else ""
    differ = f"the command, times and memory are those of {version} where they are known to differ"
    return f"defaults are those of {options}; {differ}{doubt}"


def files_in_words(file_format: str) -> str:
    """Return which program loads files of a format that engines in general do not load."""
    return f"its files are in the format {file_format}, which {_LOADED_BY[file_format]} alone loads"


def class_words(found: ClassSupport, engine: str) -> str:
    """Return one sentence on a class that an engine does not have itself; empty if it has."""
    release = f"{engine} {found.version}".strip()
    more = f" ({found.note})" if found.note else ""
    if found.file_format:
        return f"{release} does not load them: {files_in_words(found.file_format)}"
    if found.verdict == "no":
        what = f"class {found.architecture}" if found.architecture else "no model class to load"
        return f"{release} {'does not load ' if found.architecture else 'has '}{what}{more}"
    if found.verdict == "transformers":
        return f"{release} runs {found.architecture} through the transformers library: its speed there is not modelled"
    if found.verdict == "unknown":
        return f"whether {release} loads {found.architecture or 'this model'} is unknown{more}"
    return ""


@functools.cache
def _rows() -> Mapping[tuple[str, str], Mapping[tuple[str, str], list[ClassSupport]]]:
    """Return the statements by engine and plug-in, then by model type and class."""
    columns = (
        "engine",
        "hardware",
        "version",
        "model_type",
        "architecture",
        "support",
        "since",
        "source",
        "note",
    )
    titles = sources_of("engine_models")
    found: dict[tuple[str, str], dict[tuple[str, str], list[ClassSupport]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for _, cells in read_csv(SUPPORT_FOLDER / "engine_models.csv", columns):
        one = ClassSupport(
            cells["support"],  # type: ignore[arg-type]
            cells["engine"],
            cells["architecture"],
            cells["version"],
            cells["since"],
            titles[cells["source"]],
            cells["note"],
        )
        found[cells["engine"], cells["hardware"]][cells["model_type"], cells["architecture"]].append(one)
    return found
