"""Write `advisor/__init__.pyi`: the functions of the Python interface with the types and the help of their options.

    python tools/api_stub.py

The options' own records are the source; a test refuses a file that is not what this program writes.
"""

import datetime
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from advisor import api
from advisor.catalog.listing import FUNCTIONS as LISTS

HEAD = '''\
"""Types of the Python interface. `python tools/api_stub.py` writes this file from the records of the options."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from advisor.api import Result as Result
from advisor.catalog.errors import AdvisorError as AdvisorError

__version__: str
'''
LIST_MODULES = ("models", "prices", "parts", "engines", "interconnects")


def type_of(known: api.Keyword) -> str:
    """The type of a keyword: what the option's record takes, or a number in SI units, or several of them."""
    kind = known.kind
    declared = get_args(known.parameter.annotation)[1]
    if get_origin(kind) is Literal:
        words = f"Literal[{', '.join(repr(each) for each in get_args(kind))}]"
    elif get_origin(kind) is list:
        words = "str | Sequence[str]"
    elif kind is str:
        one = "str" if known.unit is None else "float | str"
        several = str(declared.metavar or "").endswith(",...")
        words = f"{one} | Sequence[{one}]" if several else one
    else:
        words = {int: "int | str", float: "float | str", bool: "bool", Path: "str | Path"}.get(kind, "")
        words = words or {datetime.date: "datetime.date | str"}[kind]
    return words if known.parameter.default is inspect.Parameter.empty else f"{words} | None"


def function(name: str, indent: str = "", word: str = "") -> Iterator[str]:
    """Yield the lines of one function."""
    known = api.keywords_of(name)
    yield f"{indent}def {word or name.split()[-1].replace('-', '_')}("
    if indent:
        yield f"{indent}    self,"
    positional = [each for each in known.values() if each.is_positional]
    others = [each for each in known.values() if not each.is_positional]
    # A required keyword may follow one with a default only behind the star.
    for each in positional:
        yield f"{indent}    {each.name}: {type_of(each)}{_default(each)},"
    if others:
        yield f"{indent}    *,"
    for each in others:
        yield f"{indent}    {each.name}: {type_of(each)}{_default(each)},"
    yield f"{indent}) -> Result:"
    text = api.documentation(name).replace("\\", "\\\\").split("\n")
    yield f'{indent}    """{text[0]}'
    for line in text[1:]:
        wrapped = textwrap.wrap(line, 110 - len(indent), subsequent_indent=" " * 8) or [""]
        yield from (f"{indent}    {each}".rstrip() for each in wrapped)
    yield f'{indent}    """'


def _default(known: api.Keyword) -> str:
    return "" if known.parameter.default is inspect.Parameter.empty else " = ..."


def group(word: str, names: dict[str, str], call: str = "") -> Iterator[str]:
    """Yield the class of a group of functions and its one instance."""
    yield f"class _{word.capitalize()}:"
    if call:
        yield from function(call, "    ", "__call__")
    for method, name in names.items():
        yield from function(name, "    ", method)
    yield ""
    yield f"{word}: _{word.capitalize()}"


def stub() -> str:
    """The whole file."""
    lines = [HEAD]
    for name in api.FUNCTIONS:
        lines += group(name, {"check": "build check"}, name) if name == "build" else function(name)
        lines.append("")
    for word in api.GROUPS:
        names = {each: f"{word} {each.replace('_', '-')}" for each in dir(api.Group(word))}
        lines += [*group(word, names), ""]
    lists = {each: f"catalog {each}" for each in (*LISTS, *LIST_MODULES)}
    lines += group("catalog", lists)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "advisor" / "__init__.pyi").write_text(stub(), encoding="utf-8")
