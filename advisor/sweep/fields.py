"""Options of a command as fields of a study: names, types, bounds, and the conversion of TOML values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses

Value = str | int | float | bool
"""Types of value that a study file can hold for one field."""
DEFAULT: Final = "default"
"""Entry of a list that stands for the value which the command uses if the field is not given."""


@dataclass(frozen=True, slots=True)
class Field:
    """One option of a command."""

    name: str
    kind: type
    """Type of the value: str, int, float, bool or Path."""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    required: bool = False
    or_name: bool = False
    """Whether a path may also be the name of something that is no file (an example)."""
    parameter: str = ""
    """Name of the parameter of the command's function, if it differs from the option's name."""


class FieldError(AdvisorError):
    """Value that a field does not accept; the caller adds file and line."""


def checked_value(field: Field, value: object, folder: Path) -> Value:
    """Return a TOML value as the command takes it; a relative path starts at the study's folder.

    Raises: FieldError: wrong type, out of bounds, not among the choices, or no such file.
    """
    if isinstance(value, str) and value == DEFAULT:
        return value
    try:
        converted = _CONVERT[field.kind](value)
    except OverflowError:
        converted = None
    if converted is None or (isinstance(converted, float) and not math.isfinite(converted)):
        raise FieldError(
            f"{value!r} is not {_WORDS[field.kind]}", fix=f"{field.name} takes {_WORDS[field.kind]}"
        )
    if field.kind is Path:
        return _file(field, str(converted), folder)
    _check_range(field, converted)
    return converted


def unknown_field(name: str, fields: Mapping[str, Field], command: str) -> FieldError:
    """Return the error for a name that the command does not have."""
    near = near_misses(name, fields, {})
    return FieldError(
        f"unknown field {name!r}",
        why=f"advisor {command} has no option of this name",
        fix=f"write {near[0]}" if near else f"one of {', '.join(fields)}",
        hint=f"did you mean: {', '.join(near)}" if len(near) > 1 else "",
    )


def _check_range(field: Field, value: Value) -> None:
    if field.choices and value not in field.choices:
        near = near_misses(str(value), field.choices, {})
        raise FieldError(
            f"{value!r} is none of {', '.join(field.choices)}",
            fix=f"write {near[0] if near else field.choices[0]}",
        )
    if isinstance(value, bool | str):
        return
    low = field.low
    high = field.high
    if (low is not None and value < low) or (high is not None and value > high) or value != value:
        bounds = " and ".join(
            text
            for text in (f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high else "")
            if text
        )
        raise FieldError(f"{value!r} is out of range", fix=f"{field.name} is {bounds}")


def _file(field: Field, name: str, folder: Path) -> str:
    path = Path(name) if Path(name).is_absolute() else folder / name
    if not path.exists() and field.or_name:
        return name
    if not path.exists():
        raise FieldError(f"{name!r}: no such file", why=f"looked for {path}", fix="check the path")
    return str(path.resolve())


def _text(value: object) -> str | None:
    """Return text, or a number as text for options that also take units: rate = 10 is "10"."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str) else f"{value:.12g}"


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value % 1:
        return None
    return int(value)


def _number(value: object) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


_CONVERT: Final[Mapping[type, Callable[[object], Value | None]]] = {
    str: _text,
    Path: _text,
    int: _whole,
    float: _number,
    bool: _flag,
}
_WORDS: Final[Mapping[type, str]] = {
    str: "a text or a finite number",
    Path: "a path",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}
