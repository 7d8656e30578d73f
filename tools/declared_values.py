"""Values that a release's source allows for its options: literals, lists of choices, and the keys of JSON objects."""

import argparse
import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Values(NamedTuple):
    """Values of an option or of a key."""

    choices: frozenset[str] | None = None
    """Every value that is allowed; None if the declaration leaves that open."""
    owner: str = ""
    """Class whose fields are the keys of a JSON object; empty if the value is none."""
    is_number: bool = False


ANY: Final = Values()
_NUMBERS: Final = ("int", "float")
_WRAPPERS: Final = ("Optional", "A", "Annotated", "SkipValidation", "list", "List")
"""Generic types whose first argument is the type of a value."""


@dataclass(slots=True)
class Declarations:
    """Types and lists that the files of a release name, by which declarations of options are understood."""

    names: dict[str, ast.expr] = field(default_factory=dict)
    """Values of assignments at the top of a file."""
    classes: dict[str, dict[str, ast.expr]] = field(default_factory=dict)
    """Annotations of fields by class."""
    keywords: dict[str, str] = field(default_factory=dict)
    """Class whose fields become keywords of options, by the variable that holds them (vLLM)."""

    def add(self, source: str) -> None:
        """Read the top-level names, the fields of classes and the variables of keywords of a file."""
        tree = ast.parse(source.lstrip("\ufeff"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = {
                    each.target.id: each.annotation
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                }
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                call = node.value
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "get_kwargs":
                    self.keywords[node.targets[0].id] = ast.unparse(call.args[0])
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.names[node.targets[0].id] = node.value

    def values_of(self, node: ast.expr | None) -> Values:
        """Return the values that a type or a list of choices allows."""
        if node is None or isinstance(node, ast.Constant):
            return ANY
        if isinstance(node, ast.List | ast.Tuple):
            return self._join(node.elts)
        if isinstance(node, ast.Name):
            if node.id in _NUMBERS:
                return Values(is_number=True)
            if node.id in self.classes and node.id not in self.names:
                return Values(owner=node.id)
            return self.values_of(self.names.get(node.id))
        if isinstance(node, ast.BinOp):
            parts = [part for part in (node.left, node.right) if ast.unparse(part) != "None"]
            found = [self.values_of(part) for part in parts]
            return found[0] if len(found) == 1 else ANY
        if isinstance(node, ast.Subscript):
            return self._of_generic(node)
        return ANY

    def _of_generic(self, node: ast.Subscript) -> Values:
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        name = ast.unparse(node.value)
        if name == "Literal":
            return self._join(inner)
        if name not in _WRAPPERS:
            return ANY
        first = self.values_of(inner[0])
        for each in inner[1:]:
            if isinstance(each, ast.Call):
                given = {word.arg: word.value for word in each.keywords}
                if "choices" in given:
                    return self.values_of(given["choices"])
        return first

    def _join(self, nodes: Iterable[ast.expr]) -> Values:
        """Return the union of constants and of the lists that names stand for; open if one of them is."""
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Constant):
                found.add(str(node.value))
                continue
            choices = self.values_of(node).choices
            if choices is None:
                return ANY
            found |= choices
        return Values(frozenset(found))

    def of_keywords(self, given: Mapping[str, ast.expr], spread: Iterable[ast.expr]) -> Values:
        """Return the values of an option from the keywords of its declaration; `spread` are those behind `**`."""
        if "choices" in given:
            return self.values_of(given["choices"])
        if "type" in given and ast.unparse(given["type"]) in _NUMBERS:
            return Values(is_number=True)
        for each in spread:
            if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant):
                owner = self.keywords.get(ast.unparse(each.value), "")
                return self.values_of(self.classes.get(owner, {}).get(str(each.slice.value)))
        return ANY

    def reader_of(self, values: Values) -> Callable[[str], str]:
        """Return the function that takes the text of a value, as `type` of an argument does, or refuses it."""

        def read(text: str) -> str:
            if values.choices is not None and text not in values.choices:
                raise argparse.ArgumentTypeError(f"{text!r} is none of {sorted(values.choices)}")
            if values.is_number and "$" not in text and not re.fullmatch(r"-?[0-9.]+", text):
                raise argparse.ArgumentTypeError(f"{text!r} is no number")
            if values.owner and text.startswith("{"):
                known = self.classes[values.owner]
                for key, value in json.loads(text).items():
                    if key not in known:
                        raise argparse.ArgumentTypeError(f"{values.owner} has no {key}")
                    if isinstance(value, str):
                        self.reader_of(self.values_of(known[key]))(value)
            return text

        return read
