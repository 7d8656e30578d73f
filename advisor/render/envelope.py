"""The JSON document around every answer: which program, which data and which inputs led to it."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from advisor import __version__
from advisor.render.answer import Answer
from advisor.render.legible import escaped
from advisor.render.serialize import Json, to_json

SCHEMA_VERSION: Final = 1


@cache
def catalog_version() -> str:
    """Short hash over names and contents of the catalog's data files: equal data, equal answers."""
    digest = hashlib.sha256()
    for name, file in sorted(_walk(files("advisor.catalog") / "data", "").items()):
        digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _walk(folder: Traversable, prefix: str) -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found.update(_walk(entry, f"{prefix}{entry.name}/"))
        elif entry.name.endswith((".toml", ".csv", ".json")):
            found[prefix + entry.name] = entry
    return found


def document(answer: Answer, *, seed: int, shared: Mapping[str, object]) -> dict[str, Json]:
    """The JSON document of an answer: the envelope's fields first, then the result's.

    Raises: ValueError: a field of the result bears the name of one of the envelope's.
    """
    envelope: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "catalog_version": catalog_version(),
        "seed": seed,
        "inputs": to_json({**answer.inputs, **shared}, "inputs"),
        "warnings": list(answer.warnings),
    }
    clash = envelope.keys() & answer.result.keys()
    if clash:
        raise ValueError(f"result fields hide the envelope: {', '.join(sorted(clash))}")
    return envelope | {key: to_json(value, key) for key, value in answer.result.items()}


def dump(content: Json) -> str:
    """JSON text, indented, UTF-8 as it is but for characters that a terminal would obey."""
    return escaped(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
