"""Documents in JSON, JSON lines, literals of Python, YAML and XML as the one value that each of them holds."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree

import yaml

from advisor.catalog.files import parsed_json

_JSON: Final = re.compile(r"\ufeff?\s*(?:\{|\[\s*[\[{\"])")
_LONGEST_LITERAL: Final = 100_000
"""Characters of the longest line that is read as a literal of Python."""
_DEEPEST: Final = 12
_UNIT: Final = re.compile(r"units?", re.IGNORECASE)
_TABLE_OF_HTML: Final = re.compile(r"<tr\b", re.IGNORECASE)
_XML: Final = re.compile(r"\ufeff?\s*<(?:\?xml\b|[A-Za-z][\w.-]*(?:\s[^<>]*)?>\s*<[A-Za-z])")
_DECLARED: Final = re.compile(r"<!(?:DOCTYPE|ENTITY)")
"""Declarations of XML, whose entities may grow without bound: such a text is not read as XML."""
_LISTED: Final = re.compile(
    r"^( *)- +(?:\{|[^\s:][^:\n]*:(?: .*)?\n(?:\1  +)[^\s:-][^:\n]*:(?:\s|$))|^ *[\w.-]+: +\{[^{}\n]*:",
    re.MULTILINE,
)
"""Item of a list in YAML that has fields of its own, or fields between braces."""
_ALIAS: Final = re.compile(r"[:-] +[&*]\w")
"""Anchors of YAML, by which a short text may stand for one of any length."""


def document_of(text: str) -> Any:
    """Return the value of a text that is JSON, XML, or YAML whose lists have fields; None for any other text.

    Lines of JSON are a list of their objects; a line that was cut is left out.
    """
    if _JSON.match(text):
        try:
            return parsed_json(text)
        except (ValueError, RecursionError):
            return _lines_of_objects(text)
    if _XML.match(text) and not _DECLARED.search(text) and not _TABLE_OF_HTML.search(text):
        try:
            root = ElementTree.fromstring(text.strip("\ufeff \t\r\n"))
        except ElementTree.ParseError:
            return None
        return _of_element(root, _DEEPEST)
    if _LISTED.search(text) and not _ALIAS.search(text):
        try:
            found = yaml.load(text, Loader=yaml.BaseLoader)
        except (yaml.YAMLError, RecursionError):
            return None
        return found if isinstance(found, dict | list) else None
    return None


def _of_element(element: ElementTree.Element, depth: int) -> Any:
    """Return an element of XML as JSON has it: attributes and inner elements are fields, and those of one name a list.

    A unit that is an attribute stands behind the name; an element with its name in an attribute is the field of it.
    """
    fields: dict[str, Any] = {
        key: value for key, value in element.attrib.items() if not (_UNIT.fullmatch(key) or key == "name")
    }
    text = (element.text or "").strip()
    if not len(element) or not depth:
        value = fields.pop("value", text)
        return {**fields, "value": value} if fields and value else fields or value
    named = {"name": element.attrib["name"]} if "name" in element.attrib else {}
    lists: dict[str, list[Any]] = {}
    for inner in element:
        tag = inner.attrib.get("name") if not len(inner) else None
        unit = next((value for key, value in inner.attrib.items() if _UNIT.fullmatch(key)), "")
        name = f"{tag or inner.tag.rpartition('}')[2]}{f' ({unit})' if unit else ''}"
        lists.setdefault(name, []).append(_of_element(inner, depth - 1))
    return named | fields | {name: one if len(one) > 1 else one[0] for name, one in lists.items()}


def json_objects(
    text: str, is_wanted: Callable[[Mapping[str, Any]], bool] = lambda one: True
) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a text: one, a list of them, or those of its lines that are whole and wanted."""
    try:
        whole = parsed_json(text)
    except (ValueError, RecursionError):
        values = (_parsed_line(line) for line in text.splitlines())
        yield from (one for one in values if isinstance(one, dict) and is_wanted(one))
        return
    yield from (one for one in (whole if isinstance(whole, list) else [whole]) if isinstance(one, dict))


def _parsed_line(line: str) -> object:
    try:
        return parsed_json(line.strip().rstrip(","))
    except (ValueError, RecursionError):
        return None


def _lines_of_objects(text: str) -> list[Any]:
    values = []
    for line in text.splitlines():
        try:
            values.append(parsed_json(line.strip().rstrip(",")))
        except (ValueError, RecursionError):
            values += _literals(line)
    return [value for value in values if isinstance(value, dict)]


def _literals(line: str) -> list[Any]:
    """Return the objects of a line that Python printed; none if it printed another value."""
    if len(line) > _LONGEST_LITERAL or line.strip()[:1] not in ("{", "["):
        return []
    try:
        with warnings.catch_warnings(action="ignore"):
            found = ast.literal_eval(line.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return found if isinstance(found, list) else [found]
