"""Hostile texts, and the places of a file that hold a text: keys and values of JSON and TOML, cells, lines."""

import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

PIECES: Final = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "' ; touch pwned ; '",
    '" ; touch pwned ; "',
    "&& touch pwned",
    "| touch pwned",
    "> pwned",
    "<(touch pwned)",
    "${x:=$(touch pwned)}",
    "$((touch pwned))",
    "\ntouch pwned\n",
    "x\nTo fix: touch pwned\n",
    "\r\ntouch pwned",
    "\\\ntouch pwned",
    "\nEOF\ntouch pwned\n",
    "EOF",
    "'''\nimport os; os.system('touch pwned')\n'''",
    '"); __import__("os").system("touch pwned") #',
    "--trust-remote-code",
    "-o",
    "--config=x",
    "=cmd|'/c calc'!A1",
    "@SUM(1+1)",
    "+1+1",
    "-2+3+cmd",
    "\uff1d1+1",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "</style><svg onload=alert(1)>",
    '" onmouseover="alert(1)',
    "<!--",
    "]]>",
    "![x](http://e/)",
    "[x](javascript:alert(1))",
    "```\n![x](http://e/)\n```",
    "\u202egnp",
    "\u2066x\u2069",
    "\x1b[2J",
    "\x1b]8;;http://e/\x07x\x1b]8;;\x07",
    "\x9b31m",
    "\x07",
    "\u2028",
    "\u0085",
    "\u200b",
    "\ufeff",
    "\U000e0041",
    "${HOME}",
    "$HOME",
    "$(HF_TOKEN)",
    "$$",
    "{{ x }}",
    "{% raw %}",
    "{0}",
    "%s%n",
    "a: b",
    ": ",
    "- a",
    " #x",
    "'",
    '"',
    "]",
    "{",
    "|",
    "\\",
    "&lt;",
    "&#60;script&#62;",
    "-->",
    "x",
    "Llama",
    "8b",
    "\u6a21\u578b",
    "e\u0301",
    "\x00",
    "\t=1+1",
    "..",
    "../../x",
    "/",
    "~",
    "#",
    "!important",
    "!!python/object/apply:os.system ['touch pwned']",
    "*",
    "*a",
    "&anchor",
    "? key",
    "<<: *a",
    "null",
    "no",
    "1e3",
    "\ud800",
)
"""Texts that one of shells, YAML, Docker, Kubernetes, HTML, Markdown, spreadsheets, terminals or Python acts upon."""

_TOML_TEXT: Final = re.compile(r'"[^"\n]*"')
_TOML_KEY: Final = re.compile(r"^[A-Za-z_][\w-]*(?= *=)", re.MULTILINE)


def draw_text(draw: random.Random) -> str:
    """Return a text of one to three hostile pieces."""
    return draw.choice(("", " ", "a", "/")).join(draw.choices(PIECES, k=draw.choice((1, 1, 2, 3))))


Place = Callable[[str], str]
"""One text of a file: returns the content of the file with another text in its place."""


def places(content: str, suffix: str) -> tuple[list[Place], list[Place]]:
    """Return the places of a file that hold a value, and those that hold a name: keys, header cells."""
    match suffix:
        case ".json":
            return _places_of_tree(json.loads(content))
        case ".journal":
            return _places_of_lines(content.splitlines())
        case ".toml":
            values = [_spot(content, found) for found in _TOML_TEXT.finditer(content)]
            return values, [_spot(content, found) for found in _TOML_KEY.finditer(content)]
        case ".csv":
            rows = list(csv.reader(io.StringIO(content)))
            values = [_cell(rows, len(rows) - 1, column) for column in range(len(rows[-1]))]
            return values, [_cell(rows, 0, column) for column in range(len(rows[0]))]
        case _:
            lines = content.splitlines()
            return [_line(lines, number) for number in range(len(lines))], []


def replace_text(content: str, suffix: str, text: str, draw: random.Random) -> str:
    """Return the content of a file with one of its texts, or one of its names, replace_text by a hostile text."""
    values, names = places(content, suffix)
    is_name = not values or (names and draw.random() < 0.15)
    return draw.choice(names if is_name else values)(text)


def _places_of_tree(tree: Any) -> tuple[list[Place], list[Place]]:
    found = list(_texts_of(tree))
    values = [_inner(tree, path, is_name=False) for path, is_name in found if not is_name]
    return values, [_inner(tree, path, is_name=True) for path, is_name in found if is_name]


def _texts_of(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Yield the path of every text below a value, and whether it is a name of a mapping."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield (*path, key), True
            yield from _texts_of(value, (*path, key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _texts_of(value, (*path, number))
    elif isinstance(tree, str) and path:
        yield path, False


def _inner(tree: Any, path: tuple[Any, ...], *, is_name: bool) -> Place:
    def place(text: str) -> str:
        changed = json.loads(json.dumps(tree))
        inner = changed
        for step in path[:-1]:
            inner = inner[step]
        if is_name:
            inner[text] = inner.pop(path[-1])
        else:
            inner[path[-1]] = text
        return json.dumps(changed, ensure_ascii=len(text) % 2 == 0)

    return place


def _places_of_lines(lines: list[str]) -> tuple[list[Place], list[Place]]:
    values = list[Place]()
    names = list[Place]()
    for number, line in enumerate(lines):
        for found, of_line in zip((values, names), _places_of_tree(json.loads(line)), strict=True):
            found += [_within(lines, number, place) for place in of_line]
    return values, names


def _within(lines: list[str], number: int, place: Place) -> Place:
    return lambda text: "\n".join([*lines[:number], place(text), *lines[number + 1 :], ""])


def _spot(content: str, spot: re.Match[str]) -> Place:
    def place(text: str) -> str:
        written = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        return content[: spot.start()] + written + content[spot.end() :]

    return place


def _cell(rows: list[list[str]], row: int, column: int) -> Place:
    def place(text: str) -> str:
        changed = [list(cells) for cells in rows]
        changed[row][column] = text
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(changed)
        return out.getvalue()

    return place


def _line(lines: list[str], number: int) -> Place:
    def place(text: str) -> str:
        written = (text, f"{lines[number]} {text}", f"{text} {lines[number]}")[len(text) % 3]
        return "\n".join([*lines[:number], written, *lines[number + 1 :], ""])

    return place
