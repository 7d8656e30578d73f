"""Files that were given to a command that does not take them: what such a file is, and which command takes it."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_text, read_toml
from advisor.cli.launch_files import has_long_row, is_answer

_MOST_BYTES: Final = 1_000_000
"""Largest file that is looked at after an error."""
_MOST_TYPED: Final = 20_000
"""Longest text that people write or a program lists of one machine [characters]."""
_Found = TypeVar("_Found")
_CONFIG: Final = re.compile(r'\s*\{[^{}]*"(?:model_type|architectures|_class_name)"', re.DOTALL)


_OF_A_MACHINE: Final = ("collectives", "links")
"""Content that `advisor probe read` judges too."""


class _Kind(NamedTuple):
    """A kind of file, with the words of a command that takes it."""

    title: str
    words: tuple[str, ...]
    """Words of which a command that takes it has one."""
    example: str


_MODEL: Final = _Kind("the config.json of a model", ("--model",), "--model {file}")
_TRACE: Final = _Kind(
    "recorded traffic", ("trace", "--trace"), "advisor simulate trace {file}, or --trace {file}"
)
_LISTS_PARTS: Final = ("check", "--have")
"""Words of commands that take a list of parts, which reads as a machine and, with prices, as a list of prices."""
_PRICES: Final = _Kind("a list of prices", ("--price-file", *_LISTS_PARTS), "--price-file {file}")
_MACHINE: Final = _Kind("a listing of a machine", ("--own", "--gpu", "read", *_LISTS_PARTS), "--own {file}")
_TABLE: Final = ".csv"
"""Ending of files that no program lists a machine in: a price list with a fault in it may read as one."""
_START: Final = _Kind("a start command of an engine", ("memory", "serve"), "advisor memory --gpu ID {file}")
_TRAINING: Final = _Kind("settings of training", ("train", "recommend"), "advisor simulate train {file}")


_STUDY: Final = _Kind("a study", ("sweep",), "advisor sweep {file}")
_FLEET: Final = _Kind("a fleet", ("fleet",), "advisor simulate fleet {file}")
_SETTINGS: Final = ".toml"
"""Ending of files that advisor defines: no program lists a machine or prices in one, so that only fields tell them."""


_ANSWER: Final = _Kind(
    "a saved answer of advisor",
    ("replay", "watch", "report", "compare", "train", "--from"),
    "advisor replay {file}",
)
_VERDICT: Final = _Kind("a saved verdict on a machine", ("show", "compare"), "advisor probe show {file}")
_ANSWERS: Final = {'"kind": "probe"': _VERDICT, '"kind": "pasted_proof"': _VERDICT}
"""Kind of a saved answer by the field that states it, where another command than `replay` takes it."""


def hint_of(arguments: Sequence[str]) -> str:
    """Return which command takes a file among the words of a command that failed; empty where none is misplaced."""
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        file = value if equals and name.startswith("--") else argument
        option = name if equals else arguments[place - 1] if place else ""
        if option in ("-o", "--output", "--calibration") or not _is_small_file(file):
            continue
        kind = _kind_of(Path(file))
        around = {option, *(word for word in arguments[:place] if not word.startswith("-"))}
        if kind is not None and not around.intersection(kind.words):
            return f"{file}: {kind.title}, taken by {kind.example.format(file=file)}"
    return ""


def _is_small_file(name: str) -> bool:
    try:
        path = Path(name)
        return path.is_file() and path.stat().st_size <= _MOST_BYTES
    except (OSError, ValueError):  # a text that no system takes for a name
        return False


def _kind_of(path: Path) -> _Kind | None:
    """Return what a file is, the most specific kind first; None if nothing recognises it."""
    try:
        text = read_text(path)
    except AdvisorError:
        return None
    if is_answer(text):
        return next((kind for mark, kind in _ANSWERS.items() if mark in text), _ANSWER)
    if _CONFIG.match(text):
        return _MODEL
    if not text.lstrip().startswith(("{", "[")) and has_long_row(text):
        return None
    return next((kind for kind in _kinds(path, text) if kind is not None), None)


def _kinds(path: Path, text: str) -> Iterator[_Kind | None]:
    """Yield what each reader makes of a file."""
    if path.suffix == _SETTINGS:
        yield _kind_of_settings(path)
        return
    from advisor.catalog.formats import named_results, registry
    from advisor.catalog.formats.machine_listing import read_machine
    from advisor.catalog.formats.price_rows import catalogue_of
    from advisor.cli.engine_command import starts_an_engine
    from advisor.cli.tuning_settings import holds_settings
    from advisor.simulator.serving.trace_files import read_trace

    found = _reads(lambda: registry.recognise(text, str(path)))
    judged = None
    if found is not None:
        words = ("file", "calibrate", "nccl-tests", *(("read",) if found.holds in _OF_A_MACHINE else ()))
        judged = _Kind(found.title, words, "advisor validate file {file}")
    yield None if found is named_results.FORMAT else judged
    recorded = _reads(lambda: read_trace(path))
    yield _TRACE if recorded and recorded.has_times else None
    if len(text) > _MOST_TYPED:
        yield judged
        return
    yield _PRICES if _reads(lambda: catalogue_of(path)) else None
    yield judged
    if path.suffix != _TABLE:
        yield _MACHINE if _reads(lambda: read_machine(text, str(path))) else None
    yield _TRAINING if _reads(lambda: holds_settings(path)) else None
    yield _START if _reads(lambda: starts_an_engine(text, path)) else None


def _kind_of_settings(path: Path) -> _Kind | None:
    """Return which file of advisor a TOML file is, by the tables that only one of them has; None for others."""
    from advisor.sweep.study import TABLES

    names = set(_reads(lambda: read_toml(path)) or ())
    if "pools" in names:
        return _FLEET
    return _STUDY if "command" in names and names & set(TABLES) - {"command"} else None


def _reads(read: Callable[[], _Found]) -> _Found | None:
    """Return what a reader finds; None if it refuses the file."""
    try:
        return read()
    except (AdvisorError, ValueError, LookupError, RecursionError):
        return None
