"""Command-line options of engine releases, against which every printed command is checked."""

import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from advisor.catalog.engines import SUPPORT_FOLDER, sources_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import read_csv


class LaunchOptions(NamedTuple):
    """Options of one release."""

    release: str
    takes_value: Mapping[str, bool]
    """Whether an option takes a value, by option."""
    source: str


ROUTERS: Final = {"vllm": "vllm-router", "sglang": "sglang-router"}
"""Routers whose options are also kept, by engine; TensorRT-LLM's router is a command of the engine."""
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


def check_command(engine: str, argv: Sequence[str]) -> None:
    """Refuse a command with an option that the engine's release does not have, or one without its value.

    Raises: AdvisorError: an option is wrong, or no list of the engine's options is kept.
    """
    known = launch_options().get(engine)
    if known is None:
        raise AdvisorError(
            f"no list of {engine}'s options is kept, so that no command for it is written",
            fix=f"--engine {' or '.join(name for name in sorted(launch_options()) if name not in ROUTERS.values())}",
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
