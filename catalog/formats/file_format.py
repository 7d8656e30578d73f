"""One format of files that other programs write: its name, what it holds, and how its content is recognised."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json

Holds = Literal[
    "collectives", "links", "serving benchmark", "local benchmark", "server log", "server metrics"
]
"""Kind of content of a file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format that is read, with its reader."""

    id: str
    title: str
    """Program that writes it, as a message names it."""
    holds: Holds
    is_it: Callable[[str], bool]
    """Whether a text is in this format. A text that was cut in the middle still is."""
    read: Callable[[str], Any]
    """Reader of the text. Raises: InputFileError: what the text lacks."""
    reads_prefixes: bool = False
    """Whether the prefixes of lines say something to the reader: which ranks wrote a log."""


def json_object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a text holds, alone or in a list of one; None if it holds anything else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        found = parsed_json(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, dict) else None


def has_keys(text: str, *names: str) -> bool:
    """Whether a text is JSON, perhaps cut in the middle, in which these keys occur."""
    return text.lstrip()[:1] in ("{", "[") and all(f'"{name}"' in text for name in names)


def read_object(text: str, title: str) -> Mapping[str, Any]:
    """Return the JSON object of a text.

    Raises: InputFileError: the text is not one JSON object; a text that was cut is named as cut.
    """
    found = json_object(text)
    if found is None:
        raise InputFileError(
            f"the {title} is not one whole JSON object", why=fault_of_json(text), fix="give the whole file"
        )
    return found


def fault_of_json(text: str) -> str:
    """Return what keeps a text from being one JSON object; where it was cut, that it ends in the middle."""
    try:
        parsed_json(text)
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg
        return f"the text ends in the middle (line {error.lineno})" if ended else str(error)
    except (RecursionError, ValueError) as error:
        return str(error)
    return "it holds another JSON value"
