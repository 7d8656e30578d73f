"""Start commands in Python: lists of words, texts, and calls of classes of engines. The code is parsed, never run."""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from advisor.catalog.programs import all_programs, kebab

_MOST_CHARACTERS: Final = 1_000_000
_UNKNOWN: Final = object()
"""Value that only running the code would tell."""
_READ_VARIABLE: Final = ("os.environ.get", "os.getenv", "environ.get", "getenv")
_AS_THEY_ARE: Final = (
    "str",
    "int",
    "float",
    "bool",
    "list",
    "tuple",
    "dict",
    "Path",
    "pathlib.Path",
    "shlex.split",
)
_POSITIONAL: Final = "model"


def commands_of_python(text: str) -> list[list[str] | str | dict[str, Any]] | None:
    """Return the words, the text or the settings of each command that a program in Python may start; None if the text
    is no such program.

    Assumes: a name has the value that is assigned to it last; a variable of the environment has its default.
    """
    if "import" not in text or len(text) > _MOST_CHARACTERS:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree)):
        return None
    source = _Source(tree)
    return [*source.commands(), *source.calls()]


_PARTS_OF_TUNING: Final = {
    "from_pretrained": "load",
    "get_peft_model": "peft",
    "LoraConfig": "peft",
    "BitsAndBytesConfig": "load",
    "TrainingArguments": "args",
}
"""What calls of a script that tunes a model set: how it is loaded, its adapters, its trainer."""


def settings_of_python(text: str) -> dict[str, Any] | None:
    """Return the arguments of the calls that load and train a model, by part; None if the text is no such script.

    Source: TRL, docs: SFTConfig; peft, LoraConfig; Unsloth, README.
    """
    if "import" not in text or len(text) > _MOST_CHARACTERS:
        return None
    try:
        source = _Source(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, Any] = {}
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        part = _PARTS_OF_TUNING.get(name, "args" if name.endswith("Config") else "")
        given = {keyword.arg: source.value_of(keyword.value) for keyword in node.keywords if keyword.arg}
        if name.endswith("Trainer"):
            part = "load"
            found["$name"] = name.removesuffix("Trainer")
            given = {"model_name": given.get("model", _UNKNOWN)}
        elif name == "from_pretrained" and node.args and "Tokenizer" not in ast.unparse(node.func):
            given.setdefault("model_name", source.value_of(node.args[0]))
        if part:
            found |= {
                f"{part}.{key}": value
                for key, value in given.items()
                if value is not _UNKNOWN and not isinstance(value, ast.AST)
            }
    return found or None


def recipe_of_python(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a call `llm.NAME.pretrain_recipe(...)`, NAME as its `factory`, and what a script sets in
    parts of an object, `recipe.trainer.max_steps = 100`, by dotted keys."""
    if "_recipe" not in text or len(text) > _MOST_CHARACTERS:
        return
    try:
        source = _Source(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_recipe"):
            yield "factory", ast.unparse(node.func).rpartition(".")[0].rpartition(".")[2]
            yield from (
                (keyword.arg, value)
                for keyword in node.keywords
                if keyword.arg and (value := source.value_of(keyword.value)) is not _UNKNOWN
            )
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            value = source.value_of(node.value)
            yield from () if value is _UNKNOWN else ((ast.unparse(node.targets[0]), value),)


class _Source:
    """Names of a program with what they stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = sorted(
            (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)),
            key=lambda node: (node.lineno, node.col_offset),
        )
        self.packages: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        for node in self.nodes:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        """Keep what an import or an assignment gives to a name."""
        if isinstance(node, ast.Import):
            self.packages |= {
                alias.asname or alias.name.partition(".")[0]: alias.name.partition(".")[0]
                for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module:
            package = node.module.partition(".")[0]
            self.packages |= {alias.asname or alias.name: f"{package}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    value = self.value_of(node.value)
                    is_object = value is _UNKNOWN and isinstance(node.value, ast.Call)
                    self.values[target.id] = node.value if is_object else value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._extend(node.target.id, self.value_of(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner = node.func.value
            if node.func.attr == "add_argument" and isinstance(option := self.value_of(node.args[0]), str):
                defaults = [self.value_of(each.value) for each in node.keywords if each.arg == "default"]
                self.values |= dict.fromkeys(
                    [option.lstrip("-").replace("-", "_")] if defaults else [], *defaults
                )
            if isinstance(owner, ast.Name) and node.func.attr in ("extend", "append"):
                added = self.value_of(node.args[0])
                self._extend(owner.id, [added] if node.func.attr == "append" else added)

    def _extend(self, name: str, added: Any) -> None:
        before = self.values.get(name)
        if isinstance(before, list) and isinstance(added, list):
            self.values[name] = [*before, *added]
        elif isinstance(before, str) and isinstance(added, str):
            self.values[name] = before + added

    def commands(self) -> Iterator[list[str] | str | dict[str, Any]]:
        """Yield lists of words, texts and mappings: those with names as they are in the end, then those without."""
        named = list(self.values.values())
        others = [
            self.value_of(node)
            for node in self.nodes
            if isinstance(node, ast.List | ast.JoinedStr | ast.Constant | ast.Dict)
        ]
        for value in (*named, *others):
            if (
                isinstance(value, list)
                and value
                and all(isinstance(word, str | int | float) for word in value)
            ):
                yield [str(word) for word in value]
            elif isinstance(value, dict) or (isinstance(value, str) and _may_be_command(value)):
                yield value

    def calls(self) -> Iterator[list[str]]:
        """Yield the command for which each call of an engine's class stands."""
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            name = self._name_of(node.func)
            for program in all_programs().values():
                if name in program.calls:
                    yield [*program.command.split(), *self._options_of(node)]

    def _name_of(self, function: ast.expr) -> str:
        """Return package and class of what is called; constructors with names of their own count as the class."""
        parts: list[str] = []
        node = function
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        package, _, name = self.packages.get(node.id, node.id).partition(".")
        names = [each for each in (name, *parts) if each]
        chosen = next((each for each in names if each[:1].isupper()), names[-1] if names else "")
        return f"{package}.{chosen}"

    def _options_of(self, call: ast.Call) -> list[str]:
        words: list[str] = []
        names_model = any(keyword.arg == _POSITIONAL for keyword in call.keywords)
        for place, argument in enumerate(call.args):
            argument = self._object(argument)
            if isinstance(argument, ast.Call | ast.Dict):
                words += self._options_inside(argument)
            elif place == 0 and not names_model and isinstance(value := self.value_of(argument), str):
                words.append(f"--{_POSITIONAL}={value}")
        for keyword in call.keywords:
            given = self._object(keyword.value)
            is_object = isinstance(given, ast.Dict) or (isinstance(given, ast.Call) and _makes_object(given))
            if is_object and self.value_of(given) is _UNKNOWN:
                words += self._options_inside(given)
                continue
            value = self.value_of(keyword.value)
            if value is _UNKNOWN and keyword.arg:
                words.append(f"--{kebab(keyword.arg)}=${ast.unparse(keyword.value)}")
                continue
            words += _as_options({keyword.arg: value} if keyword.arg else value)
        return words

    def _object(self, node: ast.expr) -> ast.expr:
        """Return the call that gave a name its value; any other expression as it is."""
        value = self.values.get(node.id) if isinstance(node, ast.Name) else None
        return value if isinstance(value, ast.Call) else node

    def _options_inside(self, node: ast.expr) -> list[str]:
        """Return the options of an argument that is itself a call, such as a configuration of the cache."""
        if isinstance(node, ast.Call):
            return self._options_of(ast.Call(node.func, [], node.keywords))
        return _as_options(self.value_of(node))

    def value_of(self, node: ast.expr) -> Any:
        """Return the value of an expression of constants and names; `_UNKNOWN` for any other."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self.values.get(name, _UNKNOWN)
            case ast.List(items) | ast.Tuple(items):
                return self._items(items)
            case ast.Dict(keys, values):
                pairs = [
                    (self.value_of(key), self.value_of(value))
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                ]
                return {str(name): value for name, value in pairs if _UNKNOWN not in (name, value)}
            case ast.JoinedStr(parts):
                texts = [
                    self.value_of(part.value if isinstance(part, ast.FormattedValue) else part)
                    for part in parts
                ]
                is_known = all(isinstance(text, str | int | float) for text in texts)
                return "".join(map(str, texts)) if is_known else _UNKNOWN
            case ast.BinOp(left, sign, right):
                return _compute(sign, self.value_of(left), self.value_of(right))
            case ast.UnaryOp(ast.USub(), operand):
                value = self.value_of(operand)
                return -value if isinstance(value, int | float) else _UNKNOWN
            case ast.Attribute(ast.Name("sys"), "executable"):
                return "python3"
            case ast.Attribute(ast.Name(_), name):
                return self.values.get(name, _UNKNOWN)
            case ast.Subscript(ast.Attribute(_, "environ"), key):
                return self.values.get(str(self.value_of(key)), _UNKNOWN)
            case ast.Call():
                return self._result(node)
        return _UNKNOWN

    def _items(self, items: list[ast.expr]) -> Any:
        found: list[Any] = []
        for item in items:
            if isinstance(item, ast.Starred):
                inner = self.value_of(item.value)
                found += inner if isinstance(inner, list) else []
            elif (value := self.value_of(item)) is not _UNKNOWN:
                found.append(value)
        return found

    def _result(self, call: ast.Call) -> Any:
        """Return the result of a call that only converts, joins, splits, or reads a variable with a default."""
        name = ast.unparse(call.func)
        arguments = [self.value_of(argument) for argument in call.args]
        if name in _READ_VARIABLE:
            return arguments[1] if len(arguments) > 1 else _UNKNOWN
        if name == "dict" and not arguments:
            return {keyword.arg: self.value_of(keyword.value) for keyword in call.keywords if keyword.arg}
        if isinstance(call.func, ast.Attribute) and call.func.attr == "join" and arguments:
            words = arguments[0]
            return " ".join(map(str, words)) if isinstance(words, list) else _UNKNOWN
        if isinstance(call.func, ast.Attribute) and call.func.attr == "split" and not arguments:
            text = self.value_of(call.func.value)
            return text.split() if isinstance(text, str) else _UNKNOWN
        if name == "int" and len(arguments) == 1 and isinstance(arguments[0], float):
            return int(arguments[0])
        if name in _AS_THEY_ARE and len(arguments) == 1:
            return str(arguments[0]) if name == "str" and arguments[0] is not _UNKNOWN else arguments[0]
        return _UNKNOWN


def _makes_object(call: ast.Call) -> bool:
    """Whether a call makes an object of a class, whose arguments are settings, and does not compute a value."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return name[:1].isupper() or any(keyword.arg for keyword in call.keywords)


def _may_be_command(text: str) -> bool:
    return " " in text.strip() and "import " not in text


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_LARGEST_POWER: Final = 64
"""Largest exponent or shift that a size is written with; more could make a number that fills the memory."""


def _compute(sign: ast.operator, left: Any, right: Any) -> Any:
    """Return the sum of two lists or texts, or what a sign of arithmetic makes of two numbers; `_UNKNOWN` else."""
    are_joined = isinstance(sign, ast.Add) and isinstance(left, list | str) and type(left) is type(right)
    are_numbers = all(isinstance(side, int | float) for side in (left, right))
    if type(sign) not in _ARITHMETIC or not (are_joined or are_numbers):
        return _UNKNOWN
    if isinstance(sign, ast.Pow | ast.LShift) and abs(right) > _LARGEST_POWER:
        return _UNKNOWN
    try:
        return _ARITHMETIC[type(sign)](left, right)
    except (ArithmeticError, TypeError, ValueError):
        return _UNKNOWN


def _as_options(values: Any) -> list[str]:
    """Return a mapping of options as words, with mappings inside of it; what is off or unknown has none."""
    words: list[str] = []
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if isinstance(value, Mapping):
            words += _as_options(value)
        elif value is True:
            words.append(f"--{kebab(str(name))}")
        elif isinstance(value, str | int | float) and value is not False and value != "":
            words.append(f"--{kebab(str(name))}={value}")
        elif isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
            words.append(f"--{kebab(str(name))}={','.join(map(str, value))}")
    return words
