"""Command-line options of engine releases, against which every printed command is checked."""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from advisor.catalog.engines import SUPPORT_FOLDER, sources_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_csv
from advisor.catalog.releases import version_key


class LaunchOptions(NamedTuple):
    """Options of one release."""

    release: str
    takes_value: Mapping[str, bool]
    """Whether an option takes a value, by option."""
    source: str


ROUTERS: Final = {"vllm": "vllm-router", "sglang": "sglang-router"}
"""Routers whose options are also kept, by engine; TensorRT-LLM's router is a command of the engine."""
DYNAMO_TRTLLM: Final = "dynamo-trtllm"
"""NVIDIA Dynamo's worker of TensorRT-LLM, whose options are not those of trtllm-serve."""
_COLUMNS: Final = ("engine", "release", "flag", "takes_value", "source")


@functools.cache
def launch_options() -> Mapping[str, LaunchOptions]:
    """Return the options of each engine.

    Source: data/support/flags.csv, read from the packages and files that flags_sources.csv names.
    """
    titles = sources_of("flags")
    found: dict[str, LaunchOptions] = {}
    for _, cells in read_csv(SUPPORT_FOLDER / "flags.csv", _COLUMNS):
        one = found.setdefault(cells["engine"], LaunchOptions(cells["release"], {}, titles[cells["source"]]))
        assert isinstance(one.takes_value, dict)
        one.takes_value[cells["flag"]] = cells["takes_value"] == "true"
    return found


class OlderWords(NamedTuple):
    """An option, or a value of one (`--option=value`), that came with a release, and the words of earlier ones."""

    absent: str
    """Newest release that was read without the option."""
    present: str
    """Oldest release that was read with it."""
    older: str
    """Words of earlier releases with {value}, or for the value that the option names; `--option:key` for a key of a
    JSON option; `=1` if a value of 1 needs no words; empty if earlier releases have no words for it."""


@functools.cache
def _older_words() -> Mapping[str, Mapping[str, OlderWords]]:
    columns = ("engine", "option", "absent", "present", "older", "source")
    found: dict[str, dict[str, OlderWords]] = {}
    for _, cells in read_csv(SUPPORT_FOLDER / "older_words.csv", columns):
        one = OlderWords(cells["absent"], cells["present"], cells["older"])
        found.setdefault(cells["engine"], {})[cells["option"]] = one
    return found


def words_in_release(engine: str, argv: Sequence[str], release: str) -> tuple[str, ...]:
    """Return a command in the words of a release of the engine, which may lack options that came later.

    Raises: AdvisorError: the release has no words for an option.
    Source: data/support/older_words.csv, read in the releases that older_words_sources.csv names.
    """
    known = launch_options().get(engine)
    rows = _older_words().get(engine, {})
    found: list[str] = []
    objects: dict[str, dict[str, object]] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        row = rows.get(word)
        valued = rows.get(f"{word}={words[0]}") if words else None
        if valued and release and version_key(release) < version_key(valued.present):
            if not valued.older:
                raise _absent(engine, release, f"{word} {words[0]}", valued)
            found += valued.older.split()
            words.pop(0)
            continue
        if row is None or not release or version_key(release) >= version_key(row.present):
            found.append(word)
            continue
        value = words.pop(0) if known is not None and known.takes_value.get(word) else ""
        option, _, key = row.older.partition(":")
        if key:
            objects.setdefault(option, {})[key] = int(value) if value.isdigit() else value
        elif row.older.startswith("--"):
            found += row.older.format(value=value).split()
        elif row.older != f"={value}":
            raise _absent(engine, release, word, row)
    found += [word for option, value in objects.items() for word in (option, json.dumps(value))]
    return tuple(found)


def _absent(engine: str, release: str, option: str, row: OlderWords) -> AdvisorError:
    """Return the error for an option that came after a release."""
    return AdvisorError(
        f"{engine} {release} has no option {option}, which the plan needs",
        why=f"the option came after {row.absent}, by {row.present}",
        fix=f"--engine {engine}, without a release",
    )


def check_command(engine: str, argv: Sequence[str], release: str = "") -> None:
    """Refuse a command with an option that the engine's release does not have, or one without its value.

    `release` names an earlier one, whose words the command may have.

    Raises: AdvisorError: an option is wrong, or no list of the engine's options is kept.
    """
    known = launch_options().get(engine)
    if known is None:
        able = sorted(set(launch_options()) - {*ROUTERS.values(), DYNAMO_TRTLLM})
        raise AdvisorError(
            f"no list of {engine}'s options is kept, so that no command for it is written",
            fix=f"--engine {' or '.join(able)}",
        )
    words = list(argv[1:])
    if argv[0] == "python":
        words = words[2:] if words[:1] == ["-m"] else words[1:]
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-"):
            continue
        name, _, value = word.partition("=")
        takes = known.takes_value.get(name)
        if takes is None and release and release != known.release:
            takes = _is_older(engine, name)
        if takes is None:
            raise AdvisorError(
                f"{engine} {known.release} has no option {name}",
                why=f"its options are those of {known.source}",
                fix="report it: the command was not written",
            )
        if takes and not value:
            if place == len(words):
                raise AdvisorError(f"{engine}: {name} lacks its value", fix="report it")
            place += 1


def _is_older(engine: str, name: str) -> bool | None:
    """Return whether an option of earlier releases takes a value; None if it is none."""
    for row in _older_words().get(engine, {}).values():
        words = row.older.partition(":")[0].split()
        if name in words:
            return ":" in row.older or words[words.index(name) + 1 :][:1] == ["{value}"]
    return None
