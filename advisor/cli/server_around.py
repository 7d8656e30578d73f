"""Conditions of a measured server in the start commands around its result, read as pasted commands are."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from advisor.ask.acts import option_of
from advisor.ask.options import StatedServer
from advisor.ask.server import stated_columns
from advisor.catalog.errors import AdvisorError
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.cli.engine_command import options_of_commands

_OF_A_LOAD: Final = (
    "concurrency",
    "rate",
    "input_tokens",
    "output_tokens",
    "shared_prefix_tokens",
    "power_cap",
)
"""Fields that the client says, not the server's start."""
_FIELDS: Final = {option_of(one.name): one for one in fields(StatedServer) if one.name not in _OF_A_LOAD}
_MOST_CHARACTERS: Final = 50_000
"""Longest text in which commands are looked for: people paste a command and its result."""


def conditions_around(text: str) -> dict[str, str]:
    """Return the conditions that every start command of an engine in a text states alike, by column of a case.

    A text without a command, or one whose commands name something unknown, says nothing.
    """
    if len(text) > _MOST_CHARACTERS or text.lstrip()[:1] in ("{", "["):
        return {}
    plain = "\n".join(line.strip("` ") for line in without_prefixes(text))
    try:
        said = _alike(options_of_commands(plain, tuple(_FIELDS)))
        return stated_columns(
            StatedServer(**{_FIELDS[name].name: _value(name, said[name]) for name in said})
        )[0]
    except (AdvisorError, ValueError):
        return {}


def _alike(found: Iterable[dict[str, str]]) -> dict[str, str]:
    """Return the options with one value in all commands that state them."""
    values: dict[str, set[str]] = {}
    for said in found:
        for name, value in said.items():
            values.setdefault(name, set()).add(value)
    return {name: stated.pop() for name, stated in values.items() if len(stated) == 1 and name in _FIELDS}


def _value(option: str, text: str) -> Any:
    """Return the value of an option in the type of its field."""
    kind = str(_FIELDS[option].type)
    return (
        True if "bool" in kind else int(text) if "int" in kind else float(text) if "float" in kind else text
    )
