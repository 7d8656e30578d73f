"""Settings of a measured server and its client among the named fields of a result, whichever program wrote them.

A setting becomes a column of a case, or is named with the reason why no prediction reads it.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import CACHE_DTYPES, DTYPES, cache_halves, joined_cache
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, named_records, read_toml
from advisor.catalog.formats.accelerator_names import boards_in
from advisor.catalog.formats.benchmark_result import BenchmarkResult, number_of, whole_of
from advisor.catalog.formats.documents import document_of
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.schema.record import Record

Holds = Literal[
    "whole",
    "accelerator",
    "engine",
    "model",
    "weights",
    "cache",
    "version",
    "fraction",
    "on",
    "off",
    "kept",
    "speculation",
    "watts",
    "gib",
]
"""Kind of value: flags that are on, that turn something off, or that keep it where they are not false; and others."""


class NamedSetting(Record):
    """One setting: names under which programs write it, and what becomes of its value."""

    names: tuple[str, ...]
    """Regular expressions of whole names in plain words."""
    below: str = ""
    """Regular expression of a name above it; empty for any."""
    column: str = ""
    """Column of a case; empty if no prediction reads it."""
    holds: Holds = "whole"
    usual: tuple[str, ...] = ()
    """Values that say nothing."""
    why: str = ""
    """Reason why no prediction reads it."""
    called: str = ""
    """Name under which a setting is told that people write in prose."""
    prose: tuple[str, ...] = ()
    """Regular expressions of the setting in prose; their group is the value."""
    memory: str = ""
    """Part of the memory that a plan lacks where the setting is on; empty if it lacks none."""


@dataclass(slots=True)
class StatedSettings:
    """Settings of one result."""

    columns: dict[str, str] = field(default_factory=dict)
    """Values by column of a case."""
    names: dict[str, str] = field(default_factory=dict)
    """Name in the file by column."""
    unused: dict[str, str] = field(default_factory=dict)
    """Reasons by what the file says and no prediction reads."""
    differing: dict[str, str] = field(default_factory=dict)
    """Reasons by what the file says and contradicts elsewhere."""
    unplanned: dict[str, str] = field(default_factory=dict)
    """Parts of the memory that a plan lacks, by what the file says."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is not used."""
        return tuple(f"not used: {said} ({why})" for said, why in (self.unused | self.differing).items())

    def with_those_of(self, other: "StatedSettings") -> "StatedSettings":
        """Return these settings and those of another part of the same text, of which these count first."""
        return StatedSettings(
            {**other.columns, **self.columns},
            {**other.names, **self.names},
            {**other.unused, **self.unused},
            {**other.differing, **self.differing},
            {**other.unplanned, **self.unplanned},
        )


_MOST_LISTED: Final = 64
"""Longest list whose items may be settings; longer ones hold a figure of each request."""
_LONGEST_VALUE: Final = 400
"""Characters of the longest value that is a setting."""
_LONGEST_SHOWN: Final = 80
"""Characters of a setting that a note shows."""
_DEEPEST: Final = 12
_NOTHING: Final = ("", "none", "null", "n/a", "na", "-", "unknown", "unset", "not set", "default")
_FALSE: Final = ("false", "0", "off", "no", "disabled")
_WITHIN: Final = re.compile(
    r"(?<![\w-])--([a-z][\w-]*)(?:[ =]+([^\s-][^\s,;)]*))?"
    r"|(?<![\w.])(?:([A-Za-z_]\w*)=|['\"]([A-Za-z_]\w*)['\"]: ?)('[^']*'|\"[^\"]*\"|\{[^{}]{0,300}\}|[^\s,;(){}]+)"
)
"""Option of a command, or a setting between commas, `name=value` or as Python prints a dictionary."""
_PAIR: Final = re.compile(
    r"^\s*(?:[-*|•]\s*)?[\"']?([A-Za-z][\w ./()-]{0,50}?)[\"']?\s*(?::|\s=)\s+"
    r"[\"']?([^\s\"',|][^\"'|]{0,80}?)[\"',|]*\s*$"
)
_VERSION: Final = re.compile(r"(?:^|[:v@=-])v?(\d+\.\d+(?:\.\d+)?(?:(?:rc|post|a|b)\d+)*)")
_DRAFTS: Final = (
    ("nextn", "mtp"),
    ("mtp", "mtp"),
    ("eagle", "eagle"),
    ("medusa", "medusa"),
    ("ngram", "ngram"),
    ("prompt_lookup", "ngram"),
    ("lookahead", "lookahead"),
)
"""Methods of speculative decoding of cases by a part of the engines' words for them."""
_DRAFT_TOKENS: Final = "draft_tokens"


def weight_format(word: str) -> str:
    """Return the format of weights that an engine's word means; empty if it stands for none, or several."""
    return _format("weights", word)


def cache_format(word: str) -> str:
    """Return the format of the KV cache that an engine's word means, or its words for keys/values; empty if it stands
    for none."""
    halves = [_format("cache", half) for half in cache_halves(word)]
    return joined_cache(*halves) if all(halves) else ""


def _format(kind: str, word: str) -> str:
    plain = word.lower().removeprefix("torch.")
    known = CACHE_DTYPES if kind == "cache" else DTYPES
    return str(_formats()[kind].get(plain, plain if plain in known else ""))


@functools.cache
def _formats() -> Mapping[str, Mapping[str, str]]:
    return read_toml(DATA_DIR / "engine_formats.toml")


@functools.cache
def _settings() -> tuple[tuple[NamedSetting, re.Pattern[str], re.Pattern[str]], ...]:
    """Return the settings with the patterns of their names and of those above them."""
    return tuple(
        (one, re.compile("|".join(one.names)), re.compile(rf"\b(?:{one.below})\b"))
        for one in named_records(NamedSetting, "stated_settings.toml").values()
    )


@functools.lru_cache(maxsize=4096)
def _setting_named(name: str) -> NamedSetting | None:
    above, _, own = name.rpartition(".")
    words = plain_words(own)
    higher = plain_words(above)
    return next(
        (
            one
            for one, names, below in _settings()
            if names.fullmatch(words) and (not one.below or below.search(higher))
        ),
        None,
    )


def settings_among(fields: Iterable[tuple[str, Any]]) -> StatedSettings:
    """Return the settings among named values; one that is stated with several values is not used."""
    said: dict[str, dict[str, tuple[NamedSetting, str]]] = {}
    for name, value in fields:
        setting = _setting_named(name)
        text = str(value).strip().strip("'\"")
        is_usual = number_of(text) is not None and f"{number_of(text):g}" in (
            setting.usual if setting else ()
        )
        if setting is None or text.lower() in (*_NOTHING, *setting.usual) or is_usual:
            continue
        if not setting.column and text.lower() in _FALSE:
            continue
        said.setdefault(setting.column or name, {})[text] = (setting, name)
    found = StatedSettings()
    for column, stated in said.items():
        values = {text: _value(setting, text) for text, (setting, _) in stated.items()}
        # What says nothing, as a measured mean or an interface that many engines have, contradicts no setting.
        read = {
            value
            for text, value in values.items()
            if value is not None and (value or stated[text][0].holds not in _SILENT)
        }
        for text, (setting, name) in stated.items():
            parts = name.split(".")[-2:] if setting.below else [name.rpartition(".")[2]]
            shown = f"{' '.join(parts)} {text}"[:_LONGEST_SHOWN]
            if setting.memory and values[text] != "":
                found.unplanned[shown] = setting.memory
            if setting.why:
                found.unused[shown] = setting.why
            elif values[text] is None:
                found.unused[shown] = _UNREAD.get(setting.holds, "its value is not understood")
            elif len(read) > 1:
                found.differing[shown] = "it is stated with several values"
            elif values[text]:
                found.columns[column] = str(values[text])
                found.names[column] = name.rpartition(".")[2]
    return _as_columns(found)


_SILENT: Final = ("whole", "engine", "model", "version")
"""Kinds of values of which an empty one says nothing; that of a flag says that it is off."""
_UNREAD: Final[Mapping[str, str]] = {
    "weights": "it stands for no one format: --precision says which",
    "cache": "it stands for no format that is planned: --kv-precision says which",
    "speculation": "the method is not modelled",
    "accelerator": "it names no accelerator of the catalog: --gpu says which",
    "engine": "the program has no plan: vllm is taken; --engine NAME says another",
    "version": "it names no release",
}
"""Reasons for values that are not understood, by their kind."""


_USUAL_HALF: Final = "bf16"
"""Format of keys, and of values, if a result states that of the other alone."""


def _as_columns(found: StatedSettings) -> StatedSettings:
    """Return settings with those columns alone that cases have."""
    columns = found.columns
    if counted := re.fullmatch(r"(.*)\*(\d+)", columns.get("gpu", "")):
        columns["gpu"] = counted[1]
        columns.setdefault("n_gpus", counted[2])
    halves = [columns.pop(half, "") for half in ("kv_keys", "kv_values")]
    if any(halves) and (cache := joined_cache(*(half or _USUAL_HALF for half in halves))) != _USUAL_HALF:
        columns.setdefault("kv_dtype", cache)
    drafted = columns.pop(_DRAFT_TOKENS, "")
    if drafted and "spec_decode" in columns:
        columns["spec_decode"] += f":{drafted}"
    if columns.pop("attends_apart", "") and (ranks := int(columns.get("dp", "1"))) > 1:
        columns["tp"] = str(max(1, int(columns.get("tp", "1")) // ranks))
    for name in ("pp", "dp", "ep"):
        if columns.get(name) == "1":
            columns.pop(name)
    return found


def _value(setting: NamedSetting, text: str) -> str | None:
    """Return a value as a case has it; empty for one that says nothing, None for one that is not understood."""
    return _READERS[setting.holds](text)


def _whole(text: str) -> str | None:
    found = whole_of(text.replace(",", ""))
    return None if found is None and number_of(text) is None else str(found or "")


def _fraction(text: str) -> str | None:
    found = number_of(text.rstrip("% "))
    if found is None:
        return None
    part = found / 100.0 if found > 1.0 or text.endswith("%") else found
    return f"{part:g}" if 0.0 < part <= 1.0 else None


def _accelerator(text: str) -> str | None:
    """Return the id of the one accelerator that a name means, with its number behind a star if it has one."""
    known = accelerators.find(text)
    named = [(known.id, "")] if known else list(boards_in(text, counts_short_names=True))
    if len({id_ for id_, _ in named}) != 1:
        return None
    id_, count = named[0]
    return f"{id_}*{count}" if count else id_


def unplanned_engine(text: str) -> str:
    """Return the one serving program without a plan that a text names; empty if it names none, or several."""
    names = _formats()["not_planned"].items()
    found = {
        name for word, name in names if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text.lower())
    }
    return found.pop() if len(found) == 1 else ""


def _engine(text: str) -> str | None:
    """Return the id of the engine that a word or its first part names; empty for an interface that many have, None for
    a program without a plan."""
    if unplanned_engine(text):
        return None
    for name in (text, re.split(r"[-_ ]", text.strip())[0]):
        try:
            return engines.get(name).record.id
        except AdvisorError:
            continue
    return ""


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found[1] if found else ""


def speculation_method(text: str) -> str | None:
    """Return the method of speculative decoding that an engine's word means; empty if it means none, None if it is not
    known."""
    word = text.lower().replace("-", "_")
    return "" if word in _FALSE else next((own for part, own in _DRAFTS if part in word), None)


def _number_before(text: str, *units: str) -> str | None:
    """Return the number of a text that may have one of some units behind it."""
    found = number_of(re.sub(rf"\s*(?:{'|'.join(units)})$", "", text.strip().lower()))
    return None if found is None else f"{found:g}"


_READERS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "whole": _whole,
    "accelerator": _accelerator,
    "engine": _engine,
    "model": lambda text: text if models.find(models.name_in_path(text)) else "",
    "weights": lambda text: weight_format(text) or None,
    "cache": lambda text: cache_format(text) or None,
    "version": _version,
    "fraction": _fraction,
    "on": lambda text: "" if text.lower() in _FALSE else "1",
    "off": lambda text: "" if text.lower() in _FALSE else "0",
    "kept": lambda text: "0" if text.lower() in _FALSE else "",
    "speculation": speculation_method,
    "watts": lambda text: _number_before(text, "watts", "w"),
    "gib": lambda text: _number_before(text, "gib", "gb"),
}
"""Readers by kind of value."""


def with_settings(results: tuple[BenchmarkResult, ...], text: str) -> tuple[BenchmarkResult, ...]:
    """Return results with the settings that their text states; those that a reader found in a record count first."""
    document = document_of(text)
    around = map(settings_among, fields_of(text, document, len(results)))
    return tuple(
        _with(one, found, is_document=document is not None)
        for one, found in zip(results, around, strict=True)
    )


def _with(one: BenchmarkResult, found: StatedSettings, *, is_document: bool) -> BenchmarkResult:
    """Return a result with settings of the text that holds it, and those named that its own contradict."""
    own = one.settings or {}
    others = {
        f"{found.names[column]} {value}": f"the record of the result says {own[column]}"
        for column, value in found.columns.items()
        if own.get(column, value) != value and column in found.names
    }
    # A document's settings that differ from record to record are in each of these.
    differing = {} if is_document and own else found.differing
    unused = found.unused
    if "mode" in own:  # the pools that a reader found
        apart = named_records(NamedSetting, "stated_settings.toml")["apart"].why
        unused = {said: why for said, why in unused.items() if why != apart}
    notes = StatedSettings(unused=unused | others, differing=differing).notes
    return replace(
        one,
        settings={**found.columns, **own},
        notes=(*one.notes, *(note for note in notes if note not in one.notes)),
    )


def settings_in_lines(text: str) -> StatedSettings:
    """Return the settings that lines, commands and headings of a text state."""
    return settings_among(_pairs(text))


def memory_notes(text: str) -> tuple[str, ...]:
    """Return sentences on the settings of a start-up log that take memory for which there is no plan."""
    found = settings_in_lines(text)
    return tuple(f"not planned: {lacks} ({said})" for said, lacks in found.unplanned.items())


def fields_of(text: str, document: Any, num_results: int) -> list[list[tuple[str, Any]]]:
    """Return the named values of a text for each of its results: those of its own object, where a document has one for
    each, or else those of the whole text."""
    if document is None:
        return [list(_pairs(text))] * num_results
    parts = document if isinstance(document, list) else [document]
    if len(parts) != num_results:
        parts = [document] * num_results
    return [list(leaves(part)) for part in parts]


def leaves(value: Any, name: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """Yield the values of a document with their names and those above them; settings within a text too."""
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif isinstance(value, list) and depth and len(value) <= _MOST_LISTED:
        for inner in value:
            yield from leaves(inner, name, depth - 1)
    elif value is not None and not isinstance(value, list | Mapping) and len(str(value)) <= _LONGEST_VALUE:
        yield name, value
        if isinstance(value, str) and "=" in value:
            yield from _within(value)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that lines of a text state, and the options of its commands."""
    for line in without_prefixes(text):
        if (found := _PAIR.match(line)) is not None:
            yield found[1], found[2].partition(" (")[0]
        yield from _within(line)
        if "|" not in line and len(line) <= _LONGEST_VALUE:
            for name, form in _prose():
                yield from ((name, found[1]) for found in form.finditer(line))


@functools.cache
def _prose() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the settings that people write in prose, each by its name, with the pattern of one form."""
    return tuple((one.called, re.compile(form)) for one, _, _ in _settings() for form in one.prose)


def _within(text: str) -> Iterator[tuple[str, str]]:
    for option, value, name, key, said in _WITHIN.findall(text):
        yield (option, value or "true") if option else (name or key, said.strip("'\""))
