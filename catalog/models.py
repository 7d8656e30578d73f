"""Models of the catalog, found by id, alias, Hugging Face id or local config.json."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from advisor.catalog import hub
from advisor.catalog.closed_models import closed_model_error
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, read_csv, read_json, read_toml, toml_names
from advisor.catalog.hf.fields import PASTED, is_pasted
from advisor.catalog.home import expand_home
from advisor.catalog.listing import make_callable
from advisor.catalog.resolve import Chosen, drop_separators, match, resolve
from advisor.catalog.schema import Model
from advisor.catalog.units import BITS_PER_BYTE, GIGA

_FOLDER: Final = DATA_DIR / "models"
NAMES_FILE: Final = _FOLDER / "names.csv"
"""Every name that is not an id: aliases and sizes, written by hand, and the Hugging Face ids of the records.

The file exists so that one name costs the reading of one record; a test holds it equal to the records.
"""
_VARIANT: Final = re.compile(
    r"[-_.](instruct|it|chat|base|hf|thinking|fp8|fp4|bf16|fp16|f16|nvfp4|nvfp4a16|mxfp4|mxfp8|awq|gptq|int4|int8"
    r"|w4a16|w8a8|w8a16|w4a4|w4a8|w4afp8|dynamic|static|block|pertensor|per-tensor|kv|gguf|(ud-)?i?q\d[\w]*|quantized"
    r"|bnb|unsloth|mlx|dwq|autoround(gptq|awq)?|marlin|exl[23]|\d(\.\d+)?bpw|hb?[2-8]|aqlm|pv|\dx\d{1,2}|hqq|higgs|calib"
    r"|v\d{1,2}-k\d+-\d+-(woft|wft)|vptq|eetq|nf4|smoothquant|torchao|unquantized|i1|g\d{2,3}|\d{2,3}g"
    r"|sym|asym|inc|rtn|gptqmodel|vortex-v\d(\.\d)?|(gptq|awq|autoround)-[2-8]b|compressed-tensors|tensor|channel|e8p|128k"
    r"|qat|ct|(mixed[-_]\d[-_])?[1-8]-?bit(gs\d{2,3})?|mixed([-_]\d){0,2}|e8prvq|cloud|onnx|(smol|pure)-i?q\d\w*|preview"
    r"|abliterated(-v\d(\.\d)?)?|uncensored|heretic|dpo|simpo|orpo|grpo|sft|v0\.\d|test|e2e|mtp|ctx\d+k?|20\d{6}|(?!2507)\d{4})$"
)
"""Endings of checkpoint names that do not change the shape: tuning, weight format, month of release. Qwen's models of
July 2025 have another context and records of their own."""
_ADAPTER: Final = "adapter_config.json"
_FORMATS_BESIDE: Final = "hf_quant_config.json"
"""ModelOpt's file of formats, which the config.json of its folder completes."""
_PART: Final = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$|$)", re.IGNORECASE)
"""Number of one file of several that hold a GGUF model."""
_OLLAMA_ADDRESS: Final = re.compile(
    r"^(?:https?://)?(?:(?:www\.|registry\.)?ollama\.(?:com|ai)/library|ollama|(?:docker\.io/)?ai)/(?=[^/]+$)"
)
"""Address of a model in Ollama's library or in that of Docker, or its prefix in the clients of several libraries."""
_HUB_ADDRESS: Final = re.compile(
    r"(?:(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.(?:cn|com|ai))/(?:models/)?"
    r"|(?:hf|huggingface|ms|modelscope):(?://)?)(?P<name>[^/\s]+/[^/\s?#]+)"
    r"(?:/(?:tree|blob|resolve)/(?P<branch>[^/\s?#]+)(?:/(?P<file>[^\s?#]+))?)?(?:\S*?[?&]show_file_info=(?P<shown>[^\s&#]+))?\S*"
)
"""Address of a repository on a hub, of one of its branches, or of a file in it."""
_NO_WEIGHTS: Final = re.compile(r".*\.(?:json|md|txt|py|safetensors|model|jinja)$")
"""File of a repository that does not choose among its weights."""
_STORE: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+]*://(?P<path>\S+)")
"""Address of a folder in a store of objects: s3://, gs://, oci://, pvc://."""
_BETWEEN_WORDS: Final = re.compile(r"[\s()\[\],]+")
"""Signs between the words of a name as people write it: Qwen3 32B (AWQ)."""
_WORD: Final = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_HF_ID: Final = re.compile(r"[\w.-]+/[\w.-]+")
_GGUF_BLOB: Final = re.compile(r"(?:^|/)sha256[-:][0-9a-f]{64}$")
"""File of Ollama's store, which has no other name."""
_ACTIVE: Final = re.compile(r"-a\d+(\.\d+)?b$")
"""Ending with the number of active parameters, which users leave out: qwen3-235b."""


def get(ref: str) -> Chosen[Model]:
    """Return the model that the user means: id, size ("70b"), Hugging Face id, config.json or its folder. A name of the
    catalog is not looked up in the working directory, so that no folder there replaces a model.

    Raises: UnknownNameError: no record or several records have this name; `hint` lists near misses.
        InputFileError: the config.json cannot be read as a model.
    """
    if is_pasted(ref):
        from advisor.catalog.hf.config import model_from_hf_config

        record = model_from_hf_config(ref)
        return Chosen(record, f"shape read from {PASTED}{_reading_in_words(record)}")
    if (base := _adapter_base(ref)) is not None:
        chosen = get(base)
        note = f"{ref} is an adapter: its base {base} is read, and the adapter's own weights are not counted"
        return chosen._replace(note="; ".join(filter(None, (note, chosen.note))))
    if Path(ref).name == _FORMATS_BESIDE and _has_config(str(Path(ref).parent)):
        return get(f"./{Path(ref).parent}" if not Path(ref).is_absolute() else str(Path(ref).parent))
    if (in_file := _of_gguf(ref)) is not None:
        return in_file
    if (name := _name_elsewhere(ref)) != ref:
        try:
            chosen = get(name)
        except UnknownNameError as error:
            raise UnknownNameError(
                f"{ref}: no such file or folder", why=error.what, fix=error.fix, hint=error.hint
            ) from None
        return chosen._replace(note="; ".join(filter(None, (f"{ref} is not on this machine", chosen.note))))
    if is_path(ref):
        from advisor.catalog.hf.config import model_from_hf_config

        record = model_from_hf_config(ref)
        return Chosen(record, f"shape read from {ref}{_reading_in_words(record)}")
    if not ref.isprintable():
        raise UnknownNameError(
            f"unknown model {ref!a}",
            why="the name has characters that cannot be printed",
            fix="type an id that advisor catalog models lists",
        )
    chosen = _look_up(ref)
    if _has_config(ref):
        unread = f"the folder of this name is not read: ./{ref} names it"
        return chosen._replace(note="; ".join(filter(None, (chosen.note, unread))))
    return chosen


def _look_up(typed: str, *, fetch: bool = True) -> Chosen[Model]:
    """Return the model of the catalog that the user means, or that a repository holds if `fetch`; see `get`."""
    names = _names()
    ref = _as_reference(typed)
    repository = ref.partition(":")[0] if "/" in ref else ref
    hf_name = names.hf.get(repository.casefold())
    if hf_name is None and _HF_ID.fullmatch(repository):
        _, hf_name = _listed_repositories().get(repository.casefold(), (repository, None))
    if hf_name is not None:
        return _as_checkpoint(hf_name, ref, f"model '{typed}' is taken as {hf_name}")
    if " " in ref and ref not in names.aliases and (newest := _newest_of_family(ref)):
        # The id of the family's first generation reads like these words: qwen-7b is an id, and qwen 7b no version.
        return _as_family(newest, typed)
    try:
        found = resolve(ref, all_ids(), names.aliases | _without_active(), "model")
    except UnknownNameError as error:
        if (closed := closed_model_error(typed)) is not None:
            raise closed from None
        variant = _variant_of(repository)
        if variant is None and (of_ollama := _as_ollama_tag(ref)) is not None:
            return of_ollama
        if variant is None and (newest := _newest_of_family(ref)):
            return _as_family(newest, typed)
        if variant is None:
            if fetch and _HF_ID.fullmatch(repository):
                folder = hub.folder_of(repository)
                if folder is not None:
                    return _fetched_model(folder, repository)
                address = f"huggingface.co/{repository}"
                error.fix = f"download config.json of {address} and name its path or folder as the model"
            raise
        return _as_meant(
            variant, ref, f"model '{typed}' is taken as {variant}: same shape, another checkpoint"
        )
    if ref in names.aliases:
        return _as_meant(found.id, ref, found.note)
    return Chosen(by_id(found.id), found.note)


def _as_family(model_id: str, typed: str) -> Chosen[Model]:
    """Return a model that a family and a size in words mean, with the note that says so."""
    return Chosen(
        by_id(model_id),
        f"model '{typed}' is taken as {model_id}, its family's newest or most used of this size",
    )


def _as_meant(model_id: str, ref: str, note: str) -> Chosen[Model]:
    """Return the record of the repository that a name without organisation means; `note` is said if it means none."""
    meant = _repository_meant(ref, by_id(model_id))
    if not meant and ref in _names().aliases:
        return Chosen(by_id(model_id), note)
    note = f"model '{ref}' is taken as {model_id}: repository {meant}" if meant else note
    return _as_checkpoint(model_id, meant or ref, note)


def _repository_meant(name: str, record: Model) -> str:
    """Return the repository of a record that a name without organisation means: the one of that whole name, else one
    with all its words, instruct models before base ones; empty if none has them, or if the record's own default has.

    A name that states a format means repositories in that format alone.
    """
    from advisor.catalog.named_formats import CHAT

    if "/" in name or ":" in name:
        return ""
    said = _format_label(name)
    words = _words_in(name) - (_words_in(said) | set(_FORMAT_WORDS) if said else set())
    listed = [repository for repository, of in _listed_repositories().values() if of == record.id and said]
    able = [
        each
        for each in dict.fromkeys((*record.hf_ids, *listed))
        if words <= _words_in(_tail_of(each)) and _format_label(each) == said
    ]
    if said and {"nvidia"} < {each.partition("/")[0] for each in able}:
        return ""  # Which of the two loads depends on the engine and the accelerator.
    whole = [each for each in able if _tail_of(each) == name.casefold()]
    if not whole and not said and record.hf_ids[:1] == tuple(able[:1]):
        return ""

    def order(repository: str) -> tuple[bool, int]:
        return not CHAT.search(repository), len(_words_in(_tail_of(repository)) - words)

    return min(whole or able, key=order, default="")


def _format_label(name: str) -> str:
    """Return the format that a name states, in words; empty if it states none, or one of unknown width."""
    from advisor.catalog.named_formats import format_of_name

    try:
        said = format_of_name(name)
    except UnknownNameError:
        return ""
    return said.label if said else ""


_FORMAT_WORDS: Final = ("fp4", "nvfp4", "int4", "int8", "fp8", "w4a16", "w8a8", "4bit", "8bit", "gguf")
"""Words for formats that publishers use for one another in names."""


def _words_in(name: str) -> frozenset[str]:
    """Return the words of a name in lower case."""
    return frozenset(filter(None, re.split(r"[-_\s()]", name.casefold())))


def _as_reference(typed: str) -> str:
    """Return a repository, with its branch or file behind a colon, for an address of the hub or `name@branch`."""
    typed = _PART.sub("", _POINT.sub(".", typed))
    if (in_library := _OLLAMA_ADDRESS.match(typed)) is not None:
        typed = with_default_tag(typed[in_library.end() :])
    if _HYPHEN.search(typed) and typed.casefold() not in _listed_repositories():
        typed = _HYPHEN.sub(".", typed)
    found = _HUB_ADDRESS.fullmatch(typed)
    if found is not None:
        branch = "" if found["branch"] in (None, "main", "master") else found["branch"]
        file = _NO_WEIGHTS.sub("", found["file"] or found["shown"] or "")
        return ":".join(filter(None, (found["name"].replace("@", ":"), file or branch)))
    if (stored := _STORE.fullmatch(typed)) is not None:
        return name_in_path(f"/{stored['path']}")
    return typed.replace("@", ":", 1) if "/" in typed else typed


_POINT: Final = re.compile(r"(?<=\d)_{2,3}(?=\d)")
"""Signs for a point in the folders of ModelScope's cache: Qwen2___5-7B-Instruct."""
_HYPHEN: Final = re.compile(r"(?:(?<=[A-Za-z]\d)|(?<=-\d))-(?=\d(?:-|$))")
"""Hyphen for the point of a version, as names of services and folders have it: llama-3-1-70b-instruct."""
_OLLAMA_TAG: Final = re.compile(r"(?P<name>[a-z][\w.-]*):(?P<tag>[\w.-]+)", re.IGNORECASE)
_OLLAMA_TYPE: Final = re.compile(r"(?:^|-)(i?q\d\w*|fp16|f16|bf16)$", re.IGNORECASE)


_OLLAMA_TUNING: Final = re.compile(r"(?:^|-)(?:instruct|chat|text|code|python)(?=-|$)")
"""Words of a tag that choose a tuning, not a size."""
_DEFAULT_TAG: Final = "latest"


def with_default_tag(name: str) -> str:
    """Return a name of Ollama's library with the tag that it has if none is typed; any other name as it is."""
    return name if ":" in name or "/" in name else f"{name}:{_DEFAULT_TAG}"


@cache
def _ollama_tags() -> dict[str, tuple[str, str]]:
    """Return the tag that `latest` stands for, and the type of files whose tag names none, by name in the library.

    Source: data/support/ollama_tags.csv, each row with its source.
    """
    rows = read_csv(DATA_DIR / "support" / "ollama_tags.csv", ("name", "tag", "type", "source"))
    return {row["name"]: (row["tag"], row["type"]) for _, row in rows}


def _as_ollama_tag(ref: str) -> Chosen[Model] | None:
    """Return the model of a tag of Ollama's library, `llama3.3:70b-instruct-q4_K_M`; None if it is none.

    Assumes: a tag that names no type is q4_k_m where the library is not known to have another type, quantisation-aware
    ones are q4_0; models published in mxfp4 keep it.
    Source: ollama.com/library, pages of tags.
    """
    found = _OLLAMA_TAG.fullmatch(ref)
    if found is None:
        return None
    usual_tag, usual_type = _ollama_tags().get(found["name"].casefold(), ("", ""))
    tag = _OLLAMA_TUNING.sub("", found["tag"].removesuffix(_DEFAULT_TAG).casefold())
    if not tag or _OLLAMA_TYPE.fullmatch(tag):
        tag = "-".join(filter(None, (usual_tag, tag)))
    core = _core(f"{found['name']}-{tag}".rstrip("-"))
    wanted = drop_separators(core)
    targets = {
        one for core, ids in _targets_by_core().items() if drop_separators(core) == wanted for one in ids
    } or _targets_by_words().get(_words_of(core), frozenset())
    if (usual := _names().aliases.get(core)) is not None:
        targets = {usual}
    targets = targets or _of_a_size(core) or frozenset()
    is_tuning = not targets
    targets = targets or _base_of_tuning(re.sub(r"-v\d[\d.]*$", "", core)) or frozenset()
    if len(targets) != 1:
        return None
    (model_id,) = targets
    beside = ": same shape, another checkpoint" if is_tuning else ""
    note = f"model '{ref}' is taken as {model_id}{beside}"
    said = _OLLAMA_TYPE.search(tag)
    if said is None and by_id(model_id).weights == "mxfp4":
        return Chosen(by_id(model_id), note)
    quant = said[1] if said else "q4_0" if "qat" in tag else usual_type or "q4_k_m"
    chosen = _as_checkpoint(model_id, f"{model_id}-GGUF:{quant}", note)
    return chosen._replace(record=chosen.record.model_copy(update={"checkpoint": ref}))


@lru_cache(maxsize=4096)
def find(name: str) -> Model | None:
    """Return the model of the catalog with this name, or None. Names that no model has cost little, and no file is read
    for them: they come from lists of others."""
    spelled = (name, _HYPHEN.sub(".", name))
    is_name = any(
        drop_separators(one) in _names_without_separators() or _core(one) in _targets_by_core()
        for one in spelled
    )
    is_tag = _OLLAMA_TAG.fullmatch(name) is not None and name.partition(":")[0].casefold() in _ollama_tags()
    if not is_name and not is_tag and not _FAMILY_AND_SIZE.fullmatch(name):
        return None
    try:
        return _look_up(name, fetch=False).record
    except UnknownNameError:
        return None


def _fetched_model(folder: Path, repository: str) -> Chosen[Model]:
    """Return the model of a repository whose config.json was fetched, under the repository's name.

    Raises: InputFileError: the config.json cannot be read as a model.
    """
    from advisor.catalog.hf.config import model_from_hf_config

    name = repository.rpartition("/")[2]
    update = {
        "id": name.lower(),
        "name": name,
        "hf_ids": (repository,),
        "checkpoint": repository,
        "folder": "",
    }
    record = model_from_hf_config(folder).model_copy(update=update)
    note = f"model '{repository}' is not in the catalog: its config.json is kept in {folder}"
    return Chosen(record, f"{note}{_reading_in_words(record)}")


_HUB_FOLDER: Final = re.compile(r"(?:^|.*/)models--([\w.-]+?)--([\w.-]+?)(?:/.*)?")
"""Folder of a repository in the cache of the hub's own client."""


_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\|\.{1,2}\\")
"""Beginning of a path of Windows."""


def name_in_path(name: str) -> str:
    """Return the name of the model in a path of another machine, as logs, results and start commands have it.

    /models/Qwen3-32B-AWQ names it, and so does a folder of the hub's cache. A file of a folder, config.json, has the
    folder's name. A path that exists here stays as it is.
    """
    if _WINDOWS.match(name):
        name = name.replace("\\", "/")
    elif not name.startswith(("/", "./", "../", "~")) or expand_home(name).exists():
        return name
    cached = _HUB_FOLDER.fullmatch(name)
    if cached:
        return f"{cached[1]}/{cached[2]}"
    folder, _, last = name.rstrip("/").rpartition("/")
    return folder.rpartition("/")[2] if last.endswith(".json") else last


def _name_elsewhere(ref: str) -> str:
    """Return the name of the model in a path that this machine does not have, where the path alone tells the name: one
    of Windows, or a folder of the hub's cache; any other reference as it is."""
    tells = _WINDOWS.match(ref) or _HUB_FOLDER.fullmatch(ref)
    return name_in_path(ref) if tells and not expand_home(ref).exists() else ref


def reference(typed: str, record: Model) -> str:
    """Return a name under which `get` finds the record again: a typed path or text, the checkpoint, or the id."""
    return (
        typed if is_pasted(typed) or is_path(typed) else record.checkpoint or record.repository or record.id
    )


def _as_checkpoint(model_id: str, ref: str, note: str) -> Chosen[Model]:
    """Return the record of the repository that is named, in the format that its name states, which the note repeats.

    Raises: UnknownNameError: the name states a format whose size is not known.
    """
    from advisor.catalog.named_formats import with_named_format, with_repository

    repository, mark, file = ref.partition(":")
    repository = _spelling_of(repository, by_id(model_id))
    record, words = with_named_format(by_id(model_id), f"{repository}{mark}{file}")
    if _HF_ID.fullmatch(repository):
        record = with_repository(record, repository)
    return Chosen(record, f"{note}, {words}" if words else note)


def _spelling_of(repository: str, record: Model) -> str:
    """Return the name of a repository in the letters in which its publisher writes it, as hubs tell them apart."""
    name = repository.casefold()
    listed, _ = (_listed_repositories() | _tunings()).get(name, (repository, ""))
    return next((each for each in record.hf_ids if each.casefold() == name), listed)


def _reading_in_words(record: Model) -> str:
    cache = f", {record.kv_dtype} cache" if record.kv_dtype else ""
    formats = f" ({weights_in_words(record, record.weights)}{cache})" if record.part_formats else ""
    return f"{formats}; {record.notes}" if record.notes else formats


def weights_in_words(model: Model, dtype: str) -> str:
    """Return the format of a model's weights, with the width of its files where the format names that of kernels."""
    parts = [
        entry
        for part in ("experts", "feed_forward", "mixer")
        for entry in model.part_formats
        if entry.part == part and entry.dtype == dtype
    ]
    if dtype != model.weights or dtype not in _KERNEL_WIDTHS or not parts:
        return f"{dtype} weights"
    bits = parts[0].bits_per_weight
    is_usual = abs(bits / (BITS_PER_BYTE * bytes_per_element(dtype)) - 1.0) <= _USUAL_WIDTH
    return f"{dtype} weights" if is_usual else f"{dtype} weights of {bits:.2g} bits"


_KERNEL_WIDTHS: Final = ("int4", "int8")
"""Formats that name the width of kernels: files of 2 and 3 bits are multiplied as int4, those of 6 bits as int8."""
_USUAL_WIDTH: Final = 0.15
"""Relative difference of widths that scales explain: groups of 32 add 10 % to groups of 128."""


def by_hf_id(hf_id: str) -> Model | None:
    """Return the record that lists this Hugging Face id in any case, or None."""
    found = _names().hf.get(hf_id.casefold())
    return None if found is None else by_id(found)


def is_named(name: str) -> bool:
    """Whether a word is the id of a model, or one of the catalog's other names for one."""
    return name in all_ids() or name in _names().aliases


@cache
def all_ids() -> tuple[str, ...]:
    """Return the ids of every model of the catalog, sorted."""
    return toml_names(_FOLDER)


def all_models() -> tuple[Model, ...]:
    """Return every model of the catalog in the order of ids.

    Raises: InputFileError: a bundled file is damaged.
    """
    return tuple(by_id(model_id) for model_id in all_ids())


@cache
def by_id(model_id: str) -> Model:
    """Return the model with exactly this id.

    Raises: UnknownNameError: no model has this id. InputFileError: the file is damaged.
    """
    if model_id not in all_ids():
        return by_id(resolve(model_id, all_ids(), {}, "model").id)
    path = _FOLDER / f"{model_id}.toml"
    return check_record(Model, {"id": model_id, **read_toml(path)}, path.name)


def hf_id_rows(models: Iterable[Model]) -> list[tuple[str, str, str]]:
    """Return the rows of names.csv that the records' own Hugging Face ids give: (name, id, kind)."""
    return [(hf_id, model.id, "hf") for model in models for hf_id in model.hf_ids]


class _Names(NamedTuple):
    aliases: dict[str, str]
    hf: dict[str, str]


@cache
def _names() -> _Names:
    names = _Names({}, {})
    for _, row in read_csv(NAMES_FILE, required=("name", "id", "kind")):
        if row["kind"] == "hf":
            names.hf[row["name"].casefold()] = row["id"]
        else:
            names.aliases[row["name"]] = row["id"]
    return names


@cache
def _listed_repositories() -> dict[str, tuple[str, str]]:
    """Return the spelling and the model of every repository that a source names as its checkpoint, by lower case.

    Draft heads and conversions that are no checkpoint of the model itself are left out.
    """
    columns = ("repository", "model", "format", "kind", "is_seen", "engines", "source")
    rows = read_csv(DATA_DIR / "support" / "checkpoints.csv", columns)
    return {
        row["repository"].casefold(): (row["repository"], row["model"])
        for _, row in rows
        if not row["format"].startswith("draft")
    }


@cache
def _tunings() -> dict[str, tuple[str, str]]:
    """Return the spelling and the model of repositories whose names do not tell what they are tuned from, by lower case
    with and without their organisation."""
    rows = read_csv(DATA_DIR / "support" / "tunings.csv", ("repository", "model", "source"))
    found = {row["repository"].casefold(): (row["repository"], row["model"]) for _, row in rows}
    return found | {_tail_of(name): each for name, each in found.items()}


@cache
def _without_active() -> dict[str, str]:
    """Return the ids of mixture-of-experts models without their number of active parameters, if the short name is
    unique."""
    short: dict[str, list[str]] = {}
    for model_id in all_ids():
        short.setdefault(_ACTIVE.sub("", model_id), []).append(model_id)
    return {name: of[0] for name, of in short.items() if len(of) == 1 and name != of[0]}


def _variant_of(ref: str) -> str | None:
    """Return the one id whose own or published name is `ref` except for organisation, tuning, format and date."""
    core = _core(ref)
    cores = _targets_by_core()
    targets = cores.get(core) or _of_a_size(core)
    if targets is None and ":" not in ref:
        targets = _targets_by_words().get(_words_of(core))
    for sign in "._":  # x/deepseek-ai.DeepSeek-R1-GGUF and x/Qwen_Qwen3-32B-GGUF repeat the publisher
        organisation, _, name = core.partition(sign)
        if targets is None and organisation in _organisations():
            targets = cores.get(name)
    targets = targets or _base_of_tuning(core)
    if targets is None or len(targets) == 1:
        return next(iter(targets), None) if targets else None
    begun = [
        each for each in _spellings() if each[1] in targets and _tail_of(ref).startswith(_tail_of(each[0]))
    ]
    return max(begun, key=lambda each: len(_tail_of(each[0])))[1] if begun else None


_CHANGES_SHAPE: Final = re.compile(
    r"\d+(\.\d+)?[bm]|\d*x\d+b?|eagle\d*|medusa|mtp|draft\w*|speculator|hass|dflash|reap|prun\w*|minitron|moe|merge\w*|upscaled"
    r"|reward|rm|prm|classifier|guard|embed\w*|rerank\w*|\w*vl|llava|\w*vision|video\w*|audio|omni|speech|ultravox|lora|adapter"
)
"""Words in front of the name of a base that say that the layers are others or that more are there."""


def _base_of_tuning(core: str) -> frozenset[str] | None:
    """Return the model with whose whole name and size a name ends, hermes-3-llama-3.1-8b; None if words in front of it
    say that its layers are others."""
    words = core.split("-")
    for place in range(1, len(words)):
        name = "-".join(words[place:])
        usual = _names().aliases.get(name)
        targets = _targets_by_core().get(name) or _targets_without_separators().get(drop_separators(name))
        targets = targets if usual is None else frozenset((usual,))
        if targets is not None and _ANY_SIZE.search(f"-{'-'.join(words[place + 1 :])}"):
            return None if any(map(_CHANGES_SHAPE.fullmatch, words[:place])) else targets
    return None


_SIZE: Final = re.compile(r"-(\d+(?:\.\d+)?)b(?=-|$)")
_ANY_SIZE: Final = re.compile(r"-(?:\d+x)?\d+(?:\.\d+)?b(?=-|$)")
_SIZE_TOLERANCE: Final = 0.05


def _of_a_size(core: str) -> frozenset[str] | None:
    """Return the one model whose name is `core` without the size that it states, mistral-large-2407-123b; None if the
    model has another size."""
    stated = _SIZE.search(core)
    targets = _targets_by_core().get(_core(_SIZE.sub("", core, count=1))) if stated else None
    if stated is None or targets is None or len(targets) != 1:
        return None
    from advisor.catalog.hf.modules import matrices_of

    (model_id,) = targets
    billions = sum(one.elements for one in matrices_of(by_id(model_id))) / GIGA
    return targets if abs(billions / float(stated[1]) - 1.0) < _SIZE_TOLERANCE else None


_FAMILY_AND_SIZE: Final = re.compile(r"(?P<family>[a-z]{3,})[\s_-]*(?P<size>\d+(?:\.\d+)?)b", re.IGNORECASE)


def _newest_of_family(ref: str) -> str:
    """Return the model that a family and a size without a version mean, gemma 27b; empty if the family has none.

    It is the one that the size alone stands for, if that is of the family, or the newest.
    """
    typed = _FAMILY_AND_SIZE.fullmatch(ref)
    if typed is None:
        return ""
    family = typed["family"].casefold()
    size = typed["size"]
    usual = _names().aliases.get(f"{size}b", "")
    if re.match(rf"{family}(?![a-z])", usual):
        return usual
    of_size = re.compile(rf"{family}[\d.]*(?:-\d[\d.]*)?-{re.escape(size)}b(?:-a\d+b)?(?:-\d{{4}})?")
    unsized = re.compile(rf"{family}-?\d[\d.]*")
    found = [
        by_id(each)
        for each in all_ids()
        if of_size.fullmatch(each) or (unsized.fullmatch(each) and _has_size(by_id(each), float(size)))
    ]
    return max(found, key=lambda model: model.released).id if found else ""


def _has_size(model: Model, billions: float) -> bool:
    published = model.published_parameters or 0.0
    # Names round down: phi-4 has 14.7 billion parameters, and is called 14b.
    return round(abs(published / GIGA / billions - 1.0), 3) <= _SIZE_TOLERANCE


def _tail_of(name: str) -> str:
    """Return a name in lower case without its organisation."""
    return name.casefold().rstrip("/").rsplit("/", 1)[-1]


@cache
def _organisations() -> frozenset[str]:
    return frozenset(name.partition("/")[0] for name in _names().hf)


@cache
def _spellings() -> tuple[tuple[str, str], ...]:
    """Return every id, alias and Hugging Face id of a model with the model's id."""
    names = _names()
    return (
        *((model_id, model_id) for model_id in all_ids()),
        *names.aliases.items(),
        *names.hf.items(),
        *_tunings().values(),
    )


@cache
def _names_without_separators() -> frozenset[str]:
    names = (*(name for name, _ in _spellings()), *_without_active())
    return frozenset(map(drop_separators, names))


@cache
def _targets_by_core() -> dict[str, frozenset[str]]:
    """Return the ids that names stand for, by the names except for organisation, tuning, format and date."""
    found: dict[str, set[str]] = {}
    for name, model_id in (*_spellings(), *_without_active().items()):
        found.setdefault(_core(name), set()).add(model_id)
    return {core: frozenset(targets) for core, targets in found.items()}


@cache
def _targets_without_separators() -> dict[str, frozenset[str]]:
    """Return the ids that names stand for, by the names without separators too: llama3-8b is llama-3-8b."""
    found: dict[str, frozenset[str]] = {}
    for core, targets in _targets_by_core().items():
        name = drop_separators(core)
        found[name] = found.get(name, frozenset()) | targets
    return found


@cache
def _targets_by_words() -> dict[tuple[str, ...], frozenset[str]]:
    """Return the ids by the words of their names in any order: Ollama's granite4:small-h is granite-4.0-h-small."""
    found: dict[tuple[str, ...], frozenset[str]] = {}
    for core, targets in _targets_by_core().items():
        words = _words_of(core)
        found[words] = found.get(words, frozenset()) | targets
    return found


def _words_of(core: str) -> tuple[str, ...]:
    """Return the words and numbers of a name, sorted."""
    return tuple(sorted(f"{float(word):g}" if word[0].isdigit() else word for word in _WORD.findall(core)))


@lru_cache(maxsize=16_384)
def _core(name: str) -> str:
    core = (
        _PART.sub("", _BETWEEN_WORDS.sub("-", _tail_of(name)).strip("-"))
        .removesuffix(".gguf")
        .removeprefix("meta-")
    )
    while (shorter := _VARIANT.sub("", core)) != core:
        core = shorter
    return core


def _adapter_base(ref: str) -> str | None:
    """Return the base model that the adapter_config.json of a folder names; None for any other reference.

    Raises: InputFileError: the file names no base.
    """
    path = expand_home(ref)
    file = path if path.name == _ADAPTER else path / _ADAPTER
    if _has_config(str(file.parent)) or not file.is_file():
        return None
    base = read_json(file, "give the file as PEFT wrote it").get("base_model_name_or_path")
    if not isinstance(base, str) or not base or (Path(base) / _ADAPTER).is_file():
        raise InputFileError(
            f"{file}: field base_model_name_or_path names no base model",
            why="an adapter has no layers of its own",
            fix="name the base model",
        )
    return base


def _of_gguf(ref: str) -> Chosen[Model] | None:
    """Return the model that the header of a GGUF file describes: that of the catalog whose name and shape it has, else
    the shape that it states; None if there is no such file, or its architecture is not read.

    Raises: InputFileError: the header is damaged.
    """
    path = expand_home(ref)
    if not ref.endswith(".gguf") and _GGUF_BLOB.search(ref) is None:
        return None
    from advisor.catalog.hf import gguf

    if not gguf.is_gguf(path):
        return None
    header = gguf.read_header(path)
    for name in header.names:
        known = find(_as_reference(name))
        if known is None or known.hidden_size != header.hidden_size:
            continue
        if sum(group.count for group in known.layers if group.mixer is not None) == header.num_layers:
            record = known.model_copy(update={**header.storage, "checkpoint": ref, "other_checkpoints": ()})
            return Chosen(record, f"{ref} holds {known.id}, {record.weights} weights by its tensors")
    if not header.shape:
        return None
    from advisor.catalog.hf.config import model_from_gguf

    record = model_from_gguf(path, header.shape, header.storage)
    return Chosen(record, f"shape and weights read from the header of {ref} ({record.weights})")


def is_path(ref: str) -> bool:
    """Whether a typed model is a file or folder: by its spelling, or as a folder whose name the catalog lacks. A GGUF
    file is no path: its header is read if it is there, else its name says what it holds."""
    if ref.endswith(".gguf") or _HUB_ADDRESS.fullmatch(ref):
        return False
    if ref.endswith(".json") or ref.startswith((".", "/", "~")):
        return True
    return _has_config(ref) and not _is_name(ref)


def _has_config(ref: str) -> bool:
    """Whether a folder of this name holds a config.json."""
    return (Path(ref) / "config.json").is_file()


def _is_name(ref: str) -> bool:
    """Whether the catalog has a model of this name."""
    if ref.casefold() in _names().hf:
        return True
    try:
        return match(ref, all_ids(), _names().aliases | _without_active(), "model") is not None
    except UnknownNameError:
        return False


make_callable(__name__)
