"""Published checkpoints: which to load for a weight format and how sure it is that there is one, in which format one is
stored, how long a context it reads.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from advisor.catalog.dtypes import EXL3_DTYPES, GGUF_DTYPES
from advisor.catalog.engines import SUPPORT_FOLDER, sources_of, weight_formats
from advisor.catalog.files import read_csv
from advisor.catalog.models import by_hf_id
from advisor.catalog.schema import Accelerator, Engine, Model

Publisher = Literal["official", "vendor", "community"]
_KINDS: Final = ("official", "vendor", "community")
_METHODS: Final = {
    "int4": ("int4", "int4-awq", "int4-gptq"), "int8": ("int8",), "fp8": ("fp8", "fp8-block"),
    "bf16": ("bf16", "original"), "fp16": ("bf16", "original"),
}  # fmt: skip
_FORMATS: Final = {
    "fp8": re.compile(r"fp8", re.IGNORECASE),
    "nvfp4": re.compile(r"nvfp4|-fp4", re.IGNORECASE),
    "mxfp4": re.compile(r"mxfp4", re.IGNORECASE),
    "int4": re.compile(r"awq|gptq|w4a16|int4", re.IGNORECASE),
    "int8": re.compile(r"w8a8|int8", re.IGNORECASE),
}
CHAT: Final = re.compile(r"instruct|chat|-it\b|thinking", re.IGNORECASE)
_DERIVED: Final = re.compile(r"distill|base\b|zero\b|vl-|coder", re.IGNORECASE)
Origin = Literal["published", "pattern", "local", "quantised on loading", "quantise first"]
_SIXTEEN_BIT = ("bf16", "fp16")


class Checkpoint(NamedTuple):
    """A published checkpoint and the format in which it stores its weights."""

    hf_id: str
    weight_dtype: str


def checkpoint_for(model: Model, weight_dtype: str, engine: str = "") -> Checkpoint:
    """The checkpoint that serves a model in a weight format: published in it where the record lists one, else the
    16-bit or native one, which the engine quantises on loading.

    NVIDIA's own checkpoints come first for TensorRT-LLM and last elsewhere; instruct models before base ones.

    Assumes: the names of checkpoints say their format, as publishers write them.
    Source: hf_ids of the model record.
    """
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


def checkpoint_format(hf_id: str) -> str | None:
    """Weight format in which the checkpoint of a Hugging Face id is published; None where no record lists it.

    Assumes: as checkpoint_for; a name that says several says the one that counts first.
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
    """A repository on the model hub that a source names; nobody looked whether it is still there."""

    repository: str
    format: str
    """As support() calls it; original where the source does not say in which format its publisher stores it."""
    kind: Publisher
    """official: the model's own publisher; vendor: a maker of chips or of an engine; community: others."""
    is_seen: bool
    """The source spells the name out; else it follows a pattern that the source states."""
    engines: tuple[str, ...]
    source: str

    @property
    def publisher(self) -> str:
        return self.repository.partition("/")[0]


class ContextLimits(NamedTuple):
    """How many tokens a checkpoint reads."""

    native: int | None
    """As its config.json has them; None where nobody says."""
    with_scaling: int | None
    """With the scaling that its own publisher states; None where nobody says."""
    source: str
    note: str = ""


def published(model: Model, weight_dtype: str, engine: str = "") -> tuple[PublishedCheckpoint, ...]:
    """Checkpoints of a model in a weight format that an engine loads, best first: the model's own publisher's before a
    vendor's and a community's, names that were seen before those of a pattern. Empty: quantise first.

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
        one for one in published_of(model) if one.format in formats and (not engine or engine in one.engines)
    ]
    return best_first(model, found)


def best_first(model: Model, found: Iterable[PublishedCheckpoint]) -> tuple[PublishedCheckpoint, ...]:
    """Checkpoints of a model in the order in which one would take them."""
    return tuple(sorted(found, key=lambda one: _place(one, model)))


def _place(one: PublishedCheckpoint, model: Model) -> tuple[object, ...]:
    """Place in the order: models that were tuned from this one under another name come last, base models late."""
    name = one.repository.casefold().partition("/")[2]
    return (
        not all(part in name for part in model.id.split("-")) or "distill" in name,
        _KINDS.index(one.kind),
        one.format == "original",
        not one.is_seen,
        not CHAT.search(name),
        len(name),
        name,
    )


def published_of(model: Model) -> tuple[PublishedCheckpoint, ...]:
    """Return the known checkpoints of a model; none of a local folder, whose name may be that of another's model."""
    return () if model.folder else all_published().get(model.id, ())


@functools.cache
def all_published() -> Mapping[str, tuple[PublishedCheckpoint, ...]]:
    """Every known checkpoint by model id."""
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
    """The longest context of a model's checkpoint [tokens]: of the repository, else of the one served by default, as
    configured and with the scaling that its publisher states.

    Assumes: where no source has that repository, the record's own figure holds.
    Source: data/support/windows.csv, each row with its source; model records.
    """
    name = repository or checkpoint_for(model, model.weights).hf_id
    found = _windows().get(name.casefold())
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
    """What an engine loads."""

    repository: str
    format: str
    """In which it is stored."""
    origin: Origin
    """published: a source spells its name out; pattern: a source states how such names are made, so look first;
    local: a folder of which only the config.json was read; quantised on loading: the 16-bit one, which the engine
    converts; quantise first: nobody published the format."""

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine: a path, which no name on a hub begins like."""
        return self.repository.startswith((".", "/"))

    @property
    def verified(self) -> bool:
        """Whether a source names it; nobody looked whether a local folder holds weights."""
        return self.origin in ("published", "quantised on loading") and not self.is_local


def served_checkpoint(model: Model, engine: Engine, dtype: str, accelerator: Accelerator) -> ServedCheckpoint:
    """The checkpoint that an engine loads to serve a model in a weight format on an accelerator.

    Source: data/support/checkpoints.csv; hf_ids of the model record; the engine's flags.
    """
    named = checkpoint_for(model, dtype, engine.id)
    if named.weight_dtype == dtype or (dtype in _SIXTEEN_BIT and named.weight_dtype in _SIXTEEN_BIT):
        return ServedCheckpoint(named.hf_id, dtype, "local" if model.folder else "published")
    found = published(model, dtype, engine.id)
    if found:
        return ServedCheckpoint(found[0].repository, dtype, "published" if found[0].is_seen else "pattern")
    if dtype in engine.flags.weights and dtype in weight_formats(engine, accelerator):
        return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantised on loading")
    return ServedCheckpoint(named.hf_id, named.weight_dtype, "quantise first")
