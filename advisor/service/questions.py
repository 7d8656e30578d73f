"""Questions of strangers: the commands that a service answers, JSON schemas of their keywords, and checks of values.

A service reads no file of its machine: a keyword that takes a file takes its content instead.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from typer.models import ArgumentInfo

from advisor.ask.options import Effect
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses
from advisor.cli.command import commands, effect_of
from advisor.cli.keywords import Keyword, keywords_of, name_meant

ALWAYS: Final = {"offline": True}
"""Keywords that a service sets: it never uses the network for a client."""
FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OUTSIDE: Final = re.compile(r"^\s*(/|~|\.\.?/|\\|[A-Za-z]:\\)|(^|[/\\])\.\.($|[/\\])|\x00")
"""A text that could lead out of the empty folder in which a question is answered."""
_LONGEST_TEXT: Final = 100_000
"""Longest text of a value [characters]; contents of files may be longer."""
_LEAST_DOCUMENT: Final = ("schema_version", "tool_version", "catalog_version", "seed", "inputs", "warnings")


class UnknownQuestionError(AdvisorError):
    """A command that does not exist or that a service does not answer."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The content of a file that a question names."""

    name: str
    text: str


@cache
def questions() -> tuple[str, ...]:
    """Return the names of the commands that a service answers, as typed after `advisor`."""
    return tuple(name for name, found in commands().items() if not found.is_local)


@cache
def keywords_for(name: str) -> Mapping[str, Keyword]:
    """Return the keywords of a question: those that only ask, and those that read a file.

    Raises: UnknownQuestionError: no service answers this command.
    """
    if name not in questions():
        near = near_misses(name, questions(), {})
        raise UnknownQuestionError(
            f"no question is called {name[:100]!r}",
            why="it works on this machine alone" if name in commands() else "no command has that name",
            fix=f"ask {near[0]}" if near else f"one of {', '.join(questions())}",
        )
    return {
        word: each
        for word, each in keywords_of(name).items()
        if word not in ALWAYS and effect_of(each.parameter.annotation) in (None, Effect.READS)
    }


def check_values(name: str, body: object) -> tuple[dict[str, object], tuple[Attachment, ...]]:
    """Return the values of a question by keyword, and the files that they name.

    Raises: AdvisorError: the body is no object, a keyword is unknown, or a value leads to a file of the machine.
    """
    known = keywords_for(name)
    if not isinstance(body, dict):
        raise AdvisorError(
            "a question is a JSON object of keywords",
            why=f"it is a {type(body).__name__}",
            fix='{"model": "8b"}',
        )
    values: dict[str, object] = {}
    attached: list[Attachment] = []
    for word, value in body.items():
        if word not in known:
            slip, hint = name_meant(str(word)[:100], known)
            raise AdvisorError(
                f"{name} has no keyword {str(word)[:100]!r}",
                fix=f'"{slip}": ...' if slip else f"one of {', '.join(list(known)[:8])}, ...",
                hint=hint,
            )
        is_file = _takes_file(known[word])
        if isinstance(value, list) and _takes_files(known[word]):
            found = [_attachment(word, each) for each in value if isinstance(each, dict)]
            if len(found) < len(value):
                _check_value(known[word], [each for each in value if not isinstance(each, dict)])
            attached += found
            values[word] = [one.name for one in found] if len(found) == len(value) else value
        elif isinstance(value, dict) and (is_file or word == "model"):
            attachment = _attachment(word, value)
            attached.append(attachment)
            values[word] = f"./{attachment.name}" if word == "model" else attachment.name
        else:
            _check_value(known[word], value)
            values[word] = value
    return {**values, **ALWAYS}, tuple(attached)


def _takes_file(known: Keyword) -> bool:
    return known.kind is Path


def _takes_files(known: Keyword) -> bool:
    return get_origin(known.kind) is list and get_args(known.kind) == (Path,)


def _is_argument(known: Keyword) -> bool:
    return isinstance(get_args(known.parameter.annotation)[1], ArgumentInfo)


def _attachment(word: str, value: Mapping[str, object]) -> Attachment:
    """Return the file that a value holds: `{"name": ..., "text": ...}`, or a JSON document.

    Raises: AdvisorError: the name is no plain name of a file, or the text is none.
    """
    if "text" not in value or not value.keys() <= {"name", "text"}:
        return Attachment(f"{word}.json", json.dumps(value))
    name = value.get("name", f"{word}.csv")
    text = value["text"]
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name) or not isinstance(text, str):
        raise AdvisorError(
            f"{word}: the content of a file is given by its name and its text",
            why="a name has letters, digits, dots and dashes, at most 64",
            fix=f'"{word}": {{"name": "{word}.csv", "text": "..."}}',
        )
    return Attachment(name, text)


def _check_value(known: Keyword, value: object) -> None:
    """Refuse a value that names a file of the machine, or a text without end.

    Raises: AdvisorError: it does.
    """
    if _takes_file(known) and not _is_argument(known):
        raise AdvisorError(
            f"{known.name} takes the content of a file, not its name",
            why="a service reads no file of its machine",
            fix=f'"{known.name}": {{"name": "...", "text": "..."}}, or a JSON document',
        )
    for text in _texts(value):
        if len(text) > _LONGEST_TEXT:
            raise AdvisorError(
                f"{known.name} has {len(text):,} characters",
                why=f"the limit is {_LONGEST_TEXT:,}",
                fix="shorten it",
            )
        if _OUTSIDE.search(text):
            raise AdvisorError(
                f"{known.name} {text[:100]!r} names a place on the machine",
                why="a service reads no file of its machine",
                fix="give a name of the catalog, or the content of the file as an object",
            )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON schema of a question's keywords."""
    known = keywords_for(name)
    return {
        "type": "object",
        "properties": {word: _schema(each) for word, each in known.items()},
        "required": [word for word, each in known.items() if _is_required(each)],
        "additionalProperties": False,
    }


def _is_required(known: Keyword) -> bool:
    return known.parameter.default is known.parameter.empty


def _schema(known: Keyword) -> dict[str, Any]:
    about = known.help + (f" A number is in {known.unit}." if known.unit else "")
    found: dict[str, Any] = {**_type(known), "description": about}
    default = known.parameter.default
    if isinstance(default, bool | int | float | str):
        found["default"] = default
    return found


def _type(known: Keyword) -> dict[str, Any]:
    """Return the types that a keyword takes: what its record takes, and texts as a person types them."""
    kind = known.kind
    declared = get_args(known.parameter.annotation)[1]
    text: dict[str, Any] = {"type": "string"}
    if kind is bool:
        return {"type": "boolean"}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if _takes_files(known):
        return {"type": "array", "items": {"anyOf": [{"type": "object"}, text]}}
    if get_origin(kind) is list:
        return {"anyOf": [text, {"type": "array", "items": text}]}
    if kind in (int, float):
        number: dict[str, Any] = {"type": "integer" if kind is int else "number"}
        number |= {"minimum": declared.min} if declared.min is not None else {}
        number |= {"maximum": declared.max} if declared.max is not None else {}
        return {"anyOf": [number, text]}
    if kind is datetime.date:
        return {"type": "string", "format": "date"}
    if kind is Path:
        return {"anyOf": [{"type": "object"}, text]} if _is_argument(known) else {"type": "object"}
    one: list[dict[str, Any]] = [text] if known.unit is None else [{"type": "number"}, text]
    if str(declared.metavar or "").endswith(",..."):
        one.append({"type": "array", "items": {"anyOf": one[:]} if len(one) > 1 else text})
    if known.name == "model":
        one.append({"type": "object", "description": "The content of a config.json."})
    return {"anyOf": one} if len(one) > 1 else text


def answer_schema() -> dict[str, Any]:
    """Return the JSON schema of what every document has."""
    return {
        "type": "object",
        "properties": {
            "schema_version": {"type": "integer"},
            "tool_version": {"type": "string"},
            "catalog_version": {"type": "string"},
            "seed": {"type": "integer"},
            "inputs": {"type": "object"},
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
        "required": list(_LEAST_DOCUMENT),
    }


def error_schema() -> dict[str, Any]:
    """Return the JSON schema of a refusal."""
    texts = {name: {"type": "string"} for name in ("what", "why", "fix", "hint")}
    inner = {
        "type": "object",
        "properties": {**texts, "exit_code": {"type": "integer"}},
        "required": [*texts, "exit_code"],
    }
    return {"type": "object", "properties": {"error": inner}, "required": ["error"]}
