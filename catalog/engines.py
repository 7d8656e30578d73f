"""Serving engines of the catalog: records, defaults on an accelerator, formats that they serve there, and the support
that their sources state; no support was tested by running."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from advisor.catalog.dtypes import EXL3_DTYPES, GGUF_DTYPES
from advisor.catalog.files import (
    DATA_DIR,
    check_record,
    named_records,
    read_csv,
    read_toml,
    stated_aliases,
    toml_names,
)
from advisor.catalog.listing import make_callable
from advisor.catalog.resolve import Chosen, resolve
from advisor.catalog.schema import Accelerator, EarlierMemory, Engine, Model
from advisor.catalog.schema.record import Record, Source

_FOLDER: Final = DATA_DIR / "engines"
Verdict = Literal["native", "emulated", "no", "unknown"]
"""native: a kernel of that format is chosen (int4 weights count, although they are multiplied in 16 bits); emulated:
the checkpoint loads, but weights are expanded first; no: refused, or absent from a complete list; unknown: no source
states it."""
SUPPORT_FOLDER: Final = DATA_DIR / "support"
_RELEASED: Final = re.compile(r"(?P<name>[^@=]+?)\s*(?:@|==?)\s*v?(?P<release>b?\d[\w.+-]*|latest)")
_BEST_FIRST: Final = ("native", "emulated", "unknown", "no")
_WAYS: Final = {"int4": ("int4-awq", "int4-gptq", "int4-mlx"), "int8": ("int8", "int8-mlx")}
"""Formats of the catalog that engines distinguish by how their checkpoints are made."""


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """Scheduler and memory settings of an engine on one accelerator, as the engine would choose them."""

    max_num_seqs: int
    max_num_batched_tokens: int
    memory_fraction: float
    cuda_graph_sizes: tuple[int, ...]


def get(name: str) -> Chosen[Engine]:
    """Return the engine that the user means by `name`, and a note that names the choice.

    Raises: UnknownNameError: no engine or several engines have this name; `hint` lists near misses.
    """
    found = resolve(name, all_ids(), {} if name in all_ids() else stated_aliases(_FOLDER), "engine")
    return Chosen(by_id(found.id), found.note)


def split_release(name: str) -> tuple[str, str]:
    """Return the name of an engine and the release that was typed with it (`vllm@0.24.0`, `llama.cpp@b6500`); an empty
    release if none was, or the latest."""
    found = _RELEASED.fullmatch(name.strip())
    return (found["name"].strip(), found["release"].removeprefix("latest")) if found else (name, "")


@cache
def all_ids() -> tuple[str, ...]:
    """Return the ids of every engine, sorted."""
    return toml_names(_FOLDER)


@cache
def by_id(engine_id: str) -> Engine:
    """Return the engine with exactly this id.

    Raises: UnknownNameError: no engine has this id. InputFileError: the file is damaged.
    """
    if engine_id not in all_ids():
        return by_id(resolve(engine_id, all_ids(), {}, "engine").id)
    path = _FOLDER / f"{engine_id}.toml"
    return check_record(Engine, {"id": engine_id, **read_toml(path)}, path.name)


def all_engines() -> tuple[Engine, ...]:
    """Return every engine of the catalog in the order of ids."""
    return tuple(by_id(engine_id) for engine_id in all_ids())


METAL_FRACTION: Final = 0.75
"""Fraction of the memory that macOS lets the GPU of a Mac hold unless told otherwise (iogpu.wired_limit_mb).

Source: ggml-org/llama.cpp, log lines of Metal: recommendedMaxWorkingSetSize of chips with 48 GB and more.
"""


def defaults(
    engine: Engine,
    memory_bytes: float,
    architecture: str = "",
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    usage: Literal["server", "offline"] = "server",
    version: str = "",
) -> EngineDefaults:
    """Return the settings that the engine chooses on an accelerator with this memory.

    The first entry of `defaults_for` that applies overrides the engine's own; a memory reserve gives
    fraction = 1 − reserve / memory, rounded to three digits as the engine does; graphs are captured up to the
    smaller of cuda_graph_max_size and cuda_graph_sizes_per_seq · max_num_seqs. An earlier release (`version`) has the
    memory fraction and the sequences of its time.

    Assumes: memory_bytes is what the driver reports.
    Source: the engines' own argument resolution, cited in each record.
    """
    num_seqs = engine.max_num_seqs
    tokens = engine.max_num_batched_tokens
    graph_max = None
    for entry in engine.defaults_for:
        if (
            entry.usage in (None, usage)
            and entry.min_memory_bytes <= memory_bytes < (entry.max_memory_bytes or float("inf"))
            and architecture not in entry.except_architectures
            and tp * dp >= entry.min_tensor_parallel
        ):
            num_seqs = entry.max_num_seqs or num_seqs
            tokens = entry.max_num_batched_tokens or tokens
            graph_max = entry.cuda_graph_max_size
            break
    fraction = _memory_fraction(engine, memory_bytes, tokens, graph_max or 0, tp * pp * dp, dp)
    if architecture.startswith("apple"):
        fraction = min(fraction, METAL_FRACTION)
    earlier = earlier_memory(engine, version)
    num_seqs = (earlier.max_num_seqs if earlier else None) or num_seqs
    return EngineDefaults(
        max_num_seqs=num_seqs,
        max_num_batched_tokens=tokens,
        memory_fraction=(earlier.memory_fraction if earlier else None) or fraction,
        cuda_graph_sizes=graph_sizes(engine, num_seqs, graph_max),
    )


def earlier_memory(engine: Engine, version: str) -> EarlierMemory | None:
    """Return how a release of an engine accounts memory if it differs from today's; None without a version.

    Source: earlier_memory of the engine record.
    """
    if not version:
        return None
    return next((span for span in engine.earlier_memory if span.holds(version, "")), None)


def graph_sizes(
    engine: Engine, max_num_seqs: int, graph_max: int | None = None, *, model: str = ""
) -> tuple[int, ...]:
    """Return the batch sizes with a captured decode graph when at most `max_num_seqs` sequences of a model run.

    Source: the engines' own rules, cited in each record.
    """
    wider = [size for entry in engine.wider_graphs if model in entry.models for size in entry.sizes]
    sizes = (*engine.cuda_graph_sizes, *wider)
    limits = [sizes[-1] if sizes else 0]
    if graph_max is not None and not wider:
        limits.append(graph_max)
    if engine.cuda_graph_sizes_per_seq is not None:
        limits.append(int(engine.cuda_graph_sizes_per_seq * max_num_seqs))
    most = min(limits)
    return tuple(size for size in sizes if size <= most)


def default_kv_dtype(engine: Engine, model: Model, accelerator: Accelerator) -> str | None:
    """Return the format that an engine gives the cache of a model on an accelerator unless told otherwise; None where
    it follows the checkpoint or the model's own format.

    Source: cache_defaults of the engine record.
    """
    return next(
        (
            rule.kv_dtype
            for rule in engine.cache_defaults
            if model.family in rule.families
            and (not rule.architectures or accelerator.architecture in rule.architectures)
        ),
        None,
    )


def _memory_fraction(
    engine: Engine, memory_bytes: float, chunk_tokens: int, graph_max: int, num_accelerators: int, dp: int
) -> float:
    reserve = engine.memory_reserve
    if reserve is None:
        return engine.memory_fraction
    reserved_bytes = (
        reserve.fixed_bytes
        + reserve.bytes_per_chunk_token * chunk_tokens
        + reserve.bytes_per_graph_size * graph_max
        + reserve.bytes_per_accelerator * num_accelerators
        + (reserve.bytes_per_graph_size_and_dp_rank * graph_max * dp if dp > 1 else 0.0)
    )
    if memory_bytes >= reserve.floor_from_bytes:
        reserved_bytes = max(reserved_bytes, reserve.floor_bytes)
    return round(1.0 - reserved_bytes / memory_bytes, 3)


class NativeFormats(Record):
    """Formats that an engine serves only if the accelerator multiplies in them, each with the key of that peak."""

    formats: dict[str, str]
    source: Source


@cache
def _native() -> dict[str, NativeFormats]:
    return named_records(NativeFormats, "native_formats.toml")


def plans_on(engine: Engine, accelerator: Accelerator) -> bool:
    """Whether plans are made with an engine on an accelerator."""
    named = engine.is_planned_if_named and accelerator.vendor in engine.vendors and bool(accelerator.engines)
    return engine.id in accelerator.engines or named


def weight_formats(engine: Engine, accelerator: Accelerator, version: str = "") -> tuple[str, ...]:
    """Return the weight formats that an engine serves on an accelerator, in the engine's order.

    `version` is a release of the engine; empty for the one of its record.

    Source: engine records; data/native_formats.toml.
    """
    native = _native().get(engine.id)
    needs = {} if native is None else native.formats
    listed = engine.vendor_weight_dtypes.get(accelerator.vendor, engine.weight_dtypes)
    of_releases = [each for each in engine.release_formats if accelerator.architecture in each.architectures]
    needs_release = {each.weight_dtype for each in of_releases}
    usual = (
        name
        for name in listed
        if name not in needs_release and (name not in needs or needs[name] in accelerator.peak_flop_per_s)
    )
    further = (each.weight_dtype for each in of_releases if each.holds(version or engine.release, ""))
    return (*usual, *further)


def releases_that_serve(engine: Engine, accelerator: Accelerator, weight_dtype: str) -> str:
    """Return the releases that serve a format of `release_formats` on an accelerator; empty if none does."""
    for each in engine.release_formats:
        if each.weight_dtype == weight_dtype and accelerator.architecture in each.architectures:
            if each.until:
                return f"releases before {each.until.split()[0]}"
            return f"releases from {each.since.split()[0]} on" if each.since else "its releases"
    return ""


def lacks_arithmetic(engine: Engine, accelerator: Accelerator, weight_dtype: str) -> bool:
    """Whether the engine serves a weight format, but not on this accelerator, which does not multiply in it."""
    native = _native().get(engine.id)
    peak = None if native is None else native.formats.get(weight_dtype)
    return peak is not None and peak not in accelerator.peak_flop_per_s


class QualityNote(Record):
    note: str
    source: str


@cache
def _notes() -> dict[str, QualityNote]:
    return named_records(QualityNote, "quality.toml")


def quality_note(model: Model, weight_dtype: str) -> str:
    """Return one sentence on the quality loss of a model in a weight format, with its source.

    Source: data/quality.toml.
    """
    if weight_dtype == model.weights:
        return f"{weight_dtype} is the {'local' if model.folder else 'published'} checkpoint's own format."
    found = _notes().get(weight_dtype)
    if found is None:
        return f"no published evaluation of {weight_dtype} is in the catalog"
    return f"{found.note} ({found.source})" if found.source else found.note


class Support(NamedTuple):
    """Support of a feature or format by an engine on an architecture, with its source."""

    verdict: Verdict
    version: str = ""
    """Engine version for which the statement holds."""
    source: str = ""
    note: str = ""

    @property
    def is_usable(self) -> bool:
        return self.verdict in ("native", "emulated")


UNKNOWN: Final = Support("unknown")


def support(engine: str, architecture: str, what: str) -> Support:
    """Return whether an engine serves a weight format, `kv:` cache format or `feature:` on an architecture, and the
    source.

    `what` is a format of the catalog (int4: the better of awq and gptq; every GGUF and EXL3 format is one), fp8-block,
    kv:fp8, feature:prefix_caching or another name that `known_things` lists.

    Assumes: ids of the catalog. Without a statement the verdict is unknown, never a guess.
    Source: data/support/engines.csv, each row with its source.
    """
    if what in GGUF_DTYPES:
        what = "gguf"
    elif what in EXL3_DTYPES:
        what = "exl3"
    matrix = _matrix()
    keys = [(engine, architecture, way) for way in _WAYS.get(what, (what,))]
    found = [matrix[key] for key in keys if key in matrix]
    return min(found, key=lambda one: _BEST_FIRST.index(one.verdict), default=UNKNOWN)


def support_statements(engine: str = "", architecture: str = "") -> Mapping[tuple[str, str, str], Support]:
    """Return every statement by engine, architecture and feature or format; `engine` and `architecture` restrict it.

    Source: data/support/engines.csv, each row with its source.
    """
    return {
        key: one for key, one in _matrix().items() if engine in ("", key[0]) and architecture in ("", key[1])
    }


def known_things(engine: str = "") -> tuple[str, ...]:
    """Return every format and feature with a statement, of one engine or of all, sorted."""
    return tuple(sorted({what for name, _, what in _matrix() if engine in ("", name)}))


def engines_on(architecture: str) -> tuple[str, ...]:
    """Return the engines whose sources state that they serve weights of some format on an architecture, sorted."""
    return tuple(
        sorted(
            {
                engine
                for (engine, name, what), one in _matrix().items()
                if name == architecture and one.is_usable and ":" not in what
            }
        )
    )


@cache
def sources_of(name: str) -> Mapping[str, str]:
    """Return the titles of the numbered sources of a file of the support folder."""
    rows = read_csv(SUPPORT_FOLDER / f"{name}_sources.csv", ("source", "title"))
    return {cells["source"]: cells["title"] for _, cells in rows}


@cache
def _matrix() -> Mapping[tuple[str, str, str], Support]:
    columns = ("engine", "version", "what", "support", "architectures", "source", "note")
    titles = sources_of("engines")
    found: dict[tuple[str, str, str], Support] = {}
    for _, cells in read_csv(SUPPORT_FOLDER / "engines.csv", columns):
        one = Support(cells["support"], cells["version"], titles[cells["source"]], cells["note"])  # type: ignore[arg-type]
        for architecture in cells["architectures"].split():
            found[cells["engine"], architecture, cells["what"]] = one
    return found


make_callable(__name__)
