"""Text from files, names and servers, made safe for a script, a page, a table or a terminal.

`Line` is the type of a text that enters a script, a manifest or a comment; `legible` shows any other text with its
control characters written out.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Self

from advisor.catalog.errors import InputFileError

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001-\U000e007f]"
)
"""Characters that a reader obeys or cannot see: control characters, changes of direction, line separators, zero-width
characters, and surrogates, which no encoding has. Tabs and line feeds stay."""
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings that make a spreadsheet compute a cell; the last four are full-width, which East Asian spreadsheets also
take."""
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_SHOWN: Final = 100


class Line(str):
    """One line of printable characters: the only text from outside that enters a script, a manifest or a comment."""

    __slots__ = ()

    def __new__(cls, text: object, of: str = "a name") -> Self:
        """Return the text unchanged.

        Raises: InputFileError: the text has a line break or another character that is not printable; `of` names the
          text.
        """
        line = super().__new__(cls, text)
        if not line.isprintable():
            place, letter = next((i, each) for i, each in enumerate(line, 1) if not each.isprintable())
            raise InputFileError(
                f"{of}: {repr(str(line))[:_MOST_SHOWN]} is not one line of printable characters",
                why=f"character {place} is U+{ord(letter):04X}, which could run as a command or hide what is written",
                fix="name it in printable characters and simple blanks",
            )
        return line


def legible(text: str) -> str:
    r"""Return the text with every control or invisible character written as \uXXXX."""
    return _OBEYED.sub(lambda found: _escape_letter(found.group()), text)


def on_one_line(text: str) -> str:
    r"""Return the text with line feeds and tabs written \uXXXX as well, so that a name in it adds no line."""
    return re.sub("[\n\t]", lambda found: _escape_letter(found.group()), legible(text))


def legible_in(value: Any) -> Any:
    """Return nested tuples, lists, mappings and dataclasses with every text in them made legible."""
    if isinstance(value, str):
        return legible(value)
    if isinstance(value, tuple | list):
        return type(value)(map(legible_in, value))
    if isinstance(value, Mapping):
        return {legible_in(name): legible_in(inner) for name, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{field.name: legible_in(getattr(value, field.name)) for field in fields(value)}
        )
    return value


def as_cell(text: str) -> str:
    """Return the text as a spreadsheet shows it, with a quotation mark before text that it would
    compute as a formula.
    """
    shown = on_one_line(text)
    is_formula = shown.startswith(_FORMULA_STARTS) and len(shown) > 1 and not _NUMBER.fullmatch(shown)
    return f"'{shown}" if is_formula else shown


def of_cell(cell: str) -> str:
    """Return the text of a cell that `as_cell` wrote."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA_STARTS) else cell


def escape_json(json_text: str) -> str:
    r"""Return JSON text with control and invisible characters written \uXXXX, as surrogate pairs beyond the first
    plane."""
    return _OBEYED.sub(lambda found: _as_pairs(found.group()), json_text)


def markdown(text: str) -> str:
    """Return the text with HTML, links and pictures disabled, so that Markdown shows it as written."""
    shown = _ENTITY.sub("&amp;", legible(text)).replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace("](", "]\\(")


def _escape_letter(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _as_pairs(letter: str) -> str:
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
