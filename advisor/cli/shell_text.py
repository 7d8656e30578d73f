"""Lines of a shell, a batch file or a makefile: where they end, which variables they set, and a text with the values of
its variables in place. Nothing is executed."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Variables = Mapping[str, str]

_REFERENCE: Final = re.compile(
    r"\$\(\((?P<sum>[^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)\)"
    r'|"?\$\{(?P<array>\w+)\[[@*]\]\}"?|\$\{(?P<name>\w+)(?::?[-=](?P<default>[^}]*))?\}|\$\((?P<kept>\w+)\)'
    r'|\$(?P<bare>[A-Za-z_]\w*)|%(?P<batch>[A-Za-z_]\w*)%|"?\$[@*]"?|\$\([^()]*\)'
)
"""A sum, or a variable of a shell, compose file, manifest or batch file; arguments of a script and outputs of commands,
which are not known."""
_SET: Final = re.compile(
    r"(?:export[ \t]+|readonly[ \t]+|local[ \t]+|declare[ \t]+(?:-\w+[ \t]+)?)?[A-Za-z_]\w*="
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|\$\(\([^\n]*?\)\)|\$\([^()\n]*\)|\$\{[^}\n]*\}|[^\s\"'();#&|$]|\$(?=\w))*"
)
"""A word of a shell that sets a variable."""
_BETWEEN: Final = re.compile(r"[ \t]*(?P<ends>;|&&)[ \t]*|[ \t]+")
"""Signs between two words of a line; some end a command."""
ASSIGNED: Final = re.compile(
    r"^[ \t]*(?:export[ \t]+|readonly[ \t]+|local[ \t]+|declare[ \t]+(?:-\w+[ \t]+)?|\$env:)?"
    r"(?P<name>[A-Za-z_][\w.]*)[ \t]*[?:+]?=[ \t]*"
    r"(?P<value>\([^()]*\)|(?:\"[^\"\n]*\"|'[^'\n]*'|\$\(\([^\n]*?\)\)|[^\s\"'();#])*)[ \t]*(?:[;#][^\n]*)?$"
    r"|^[ \t]*@?set[ \t]+\"?(?P<batch>\w+)=(?P<rest>[^\n\"]*)\"?$",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that sets a variable and does nothing else: of a shell, make, PowerShell, a batch file or a file .env."""
JOINED: Final = re.compile(r"(?<![ \t])[ \t]*[\\^`][ \t]*\r?\n|\r?\n[ \t]*(?=--?[A-Za-z])")
"""End of a line that goes on in the next one: a shell's, a batch file's, PowerShell's; or one before an option."""
_COMMENT: Final = re.compile(r"^[ \t]*(?:REM\b|::|#).*$", re.MULTILINE)
_LONGEST_SUM: Final = 200
"""Longest sum that is computed [characters]."""
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def whole_lines(text: str) -> str:
    """Return the lines of a script without comments, each whole, with at most one variable set on a line."""
    return _one_set_a_line(JOINED.sub(" ", _COMMENT.sub("", text)))


def _one_set_a_line(text: str) -> str:
    """Return a text whose lines `A=1; B=2`, `export A=1 B=2` and `A=1 && command` are lines of their own."""
    return "\n".join(part for line in text.split("\n") for part in _parts_of(line))


def _parts_of(line: str) -> list[str]:
    """Return the variables that a line sets for those behind it, and the rest: a command with variables of its own."""
    place = start = len(line) - len(line.lstrip(" \t"))
    alone: list[str] = []
    waiting: list[str] = []
    while (word := _SET.match(line, place)) is not None:
        between = _BETWEEN.match(line, word.end())
        if between is None and word.end() < len(line):
            break
        waiting.append(word[0])
        place = between.end() if between else word.end()
        if between is None or between["ends"] or line[place : place + 1] in ("", "#"):
            alone += waiting
            waiting = []
            start = place
    return [*alone, line[start:]] if alone else [line]


def variables_in(text: str, outer: Variables) -> dict[str, str]:
    """Return the variables that whole lines of a script set, each with those before it in place."""
    found: dict[str, str] = {}
    for match in ASSIGNED.finditer(text):
        raw = match["value"] if match["name"] else match["rest"].strip()
        is_array = raw.startswith("(")
        plain = (
            raw[1:-1] if is_array or (raw[:1] in ("'", '"') and raw[-1:] == raw[:1] and len(raw) > 1) else raw
        )
        found[match["name"] or match["batch"]] = expand(
            " ".join(plain.split()) if is_array else plain, {**outer, **found}
        )
    return found


def expand(text: str, variables: Mapping[str, Any]) -> str:
    """Return a text with its variables and sums in place, or what stands for them where they are not set."""

    def value_of(found: re.Match[str]) -> str:
        if found["sum"] is not None:
            known = _sum(expand(re.sub(r"(?<![\w$])([A-Za-z_]\w*)", r"$\1", found["sum"]), variables))
            return found[0] if known is None else str(known)
        name = next((found[key] for key in ("array", "name", "kept", "bare", "batch") if found[key]), "")
        if not name:
            return ""
        if name in variables:
            return str(variables[name])
        return found["default"] if found["default"] is not None else found[0]

    return _REFERENCE.sub(value_of, text)


def _sum(text: str) -> int | None:
    """Return the value of a sum of whole numbers, as a shell computes it; None for any other text."""
    if len(text) > _LONGEST_SUM or "**" in text:
        return None
    try:
        return _compute(ast.parse(text.replace("/", "//").strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _compute(node: ast.expr) -> int:
    """Return the value of a node. Raises: ValueError: it is of another kind."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and (compute := _OPERATORS.get(type(node.op))):
        return compute(_compute(node.left), _compute(node.right))
    raise ValueError("no sum of whole numbers")
