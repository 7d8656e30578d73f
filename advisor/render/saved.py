"""Saved answers that are read again: plans and reports, of the schema that this program writes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_json
from advisor.catalog.resolve import near_misses
from advisor.decide.reason import reason_codes
from advisor.render.document import SCHEMA_VERSION

_COMMANDS: Final = {"report": "cost"}
"""Command by the kind of its documents, if it is not `recommend`."""
OPTION_KINDS: Final = frozenset({"plan", "batch_plan", "item_plan", "fleet", "report"})
"""Kinds of documents that hold options, bills or reasons."""


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the JSON document of a file that this program wrote.

    Raises: InputFileError: it cannot be read, is no document of this program, or is one of another schema.
    """
    content = read_json(path, "name a file that -o FILE.json or --plan wrote")
    if not isinstance(content, dict) or "schema_version" not in content:
        raise InputFileError(
            f"{path}: is no answer of advisor",
            why="it has no schema_version",
            fix="name a file that -o FILE.json, --plan or advisor probe wrote",
        )
    check_saved(path, content)
    return content


def check_saved(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse a plan or a report of another schema, or with a reason that no answer gives.

    Raises: InputFileError: the document has another schema, or an unknown reason code.
    """
    kind = content.get("kind")
    if kind not in OPTION_KINDS:
        return
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        older = isinstance(version, int) and version < SCHEMA_VERSION
        raise InputFileError(
            f"{path}: has {'no schema' if version is None else f'schema {version}'}, and this advisor reads schema "
            f"{SCHEMA_VERSION}",
            why=(
                f"options of schema {SCHEMA_VERSION} are composed of machine, layout, offer, bill and performance; "
                "those of schema 1 are flat"
                if older
                else "another release of advisor wrote it"
            ),
            fix=f"ask the question again and save the answer: {_again(path, content)}"
            if older
            else "read it with the release that wrote it, or ask the question again",
        )
    for where, code in _codes(content, "$"):
        if code not in reason_codes():
            near = near_misses(str(code), reason_codes(), {})
            raise InputFileError(
                f"{path}: {where} has the unknown reason code {code!r}",
                why="reason codes are a closed list",
                fix=f"one of {', '.join(near or reason_codes())}",
            )


def _again(path: Path, content: Mapping[str, Any]) -> str:
    """Return the command that asks the question of a document again, as far as its inputs name the question."""
    inputs = content.get("inputs")
    asked = inputs if isinstance(inputs, Mapping) else {}
    command = _COMMANDS.get(str(content.get("kind")), "recommend")
    words = ["advisor", command]
    for name in ("model", "workload"):
        value = asked.get(name, content.get(name))
        if isinstance(value, str) and not (command == "cost" and name == "workload"):
            words += [f"--{name}", value]
    return " ".join((*words, "-o", path.name))


def _codes(value: Any, where: str) -> Iterator[tuple[str, object]]:
    """Yield the codes of all reasons of a document, with their places; `inputs` hold none."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _codes(item, f"{where}[{number}]")
    elif isinstance(value, dict):
        if "code" in value and "text" in value:
            yield where, value["code"]
        for name, item in value.items():
            if name != "inputs":
                yield from _codes(item, f"{where}.{name}")
