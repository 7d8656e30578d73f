"""Conversion of records to JSON, and the envelope of every document: the same for every command and file."""

import datetime
import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Final, TypeAlias

from advisor import __version__
from advisor.catalog.legible import escape_json
from advisor.render.answer import Answer

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def to_json(value: object, path: str = "$") -> Json:
    """Return plain JSON data for records, dataclasses, arrays and their nestings.

    Raises: ValueError: a number is not finite (JSON has no NaN, and no prediction is one).
    Raises: TypeError: the value is of no kind that has a JSON form.
    """
    if isinstance(value, enum.Enum):
        return to_json(value.value, path)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}")
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return [to_json(item, path) for item in sorted(value)]
    if isinstance(value, Sequence):
        return [to_json(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    return _from_record(value, path)


def _from_record(value: object, path: str) -> Json:
    """Return JSON for a value that names its fields. numpy and pydantic are recognised by their methods, so neither is
    imported.

    A record whose document is not its fields, such as a reason, states that document in `document_fields`.
    """
    stated = getattr(value, "document_fields", None)
    if stated is not None:
        return to_json(stated(), path)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name), f"{path}.{f.name}") for f in fields(value)}
    names = getattr(type(value), "model_fields", None)
    if names is not None:
        return {name: to_json(getattr(value, name), f"{path}.{name}") for name in names}
    plain = getattr(value, "tolist", None)
    if plain is not None:
        return to_json(plain(), path)
    raise TypeError(f"{path}: no JSON form of {type(value).__name__}")


def fields_of(record: object, *without: str) -> dict[str, object]:
    """Return the fields of a dataclass or model by name, unconverted, except those in `without`."""
    names = getattr(type(record), "model_fields", None) or getattr(type(record), "__dataclass_fields__", {})
    return {name: getattr(record, name) for name in names if name not in without}


def pick_attributes(record: object, *names: str) -> dict[str, object]:
    """Return some attributes of a record by name, unconverted; a text may hold several names."""
    return {name: getattr(record, name) for text in names for name in text.split()}


def flatten(record: Json, prefix: str = "") -> dict[str, Json]:
    """Return a nested record as one flat row: a quantity under X becomes X, X_low, X_high and X_basis.

    Lists of plain values are joined with spaces, lists of records have no place in a row; other nested fields
    become X_Y.
    """
    if isinstance(record, list):
        plain = not any(isinstance(item, dict | list) for item in record)
        return {prefix: " ".join(map(str, record))} if plain else {}
    if not isinstance(record, dict):
        return {prefix: record}
    if prefix and record.keys() == {"value", "low", "high", "basis"}:
        suffixes = {"value": "", "low": "_low", "high": "_high", "basis": "_basis"}
        return {prefix + suffixes[key]: item for key, item in record.items()}
    row: dict[str, Json] = {}
    for key, item in record.items():
        row.update(flatten(item, f"{prefix}_{key}" if prefix else key))
    return row


SCHEMA_VERSION: Final = 2


@cache
def catalog_version() -> str:
    """Return the version of the catalog's data: equal data give equal answers.

    An installed package states that of the checkout it was built from, because it holds the data in other files.
    """
    from advisor.catalog.files import stated_version  # `data_hash` also runs where pydantic is absent

    return stated_version() or data_hash(files("advisor.catalog") / "data")


def data_hash(data: Traversable) -> str:
    """Return a short hash over names and contents of the files of a data folder."""
    digest = hashlib.sha256()
    for name, file in sorted(_walk(data, "").items()):
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
    """Return the JSON document of an answer: the envelope's fields first, then the result's.

    Raises: ValueError: a field of the result bears the name of one of the envelope's.
    """
    envelope: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "catalog_version": catalog_version(),
        "seed": seed if answer.seed is None else answer.seed,
        "inputs": to_json({**shared, **answer.inputs}, "inputs"),
        "warnings": list(answer.warnings),
    }
    clash = envelope.keys() & answer.result.keys()
    if clash:
        raise ValueError(f"result fields hide the envelope: {', '.join(sorted(clash))}")
    return envelope | {key: to_json(value, key) for key, value in answer.result.items()}


def dump(content: Json) -> str:
    """Return indented JSON text in UTF-8; only characters that control a terminal are escaped."""
    return escape_json(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
