"""The Python interface: each command as a function of its options, and its answer as a frozen record.

`import advisor` gives these functions on first use. Their signatures and docstrings are made from the records that
declare the options of the command line, so both take the same names and refuse the same mistakes.
"""

import datetime
import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from typer.models import ArgumentInfo

from advisor.ask.inputs import option_name, parameters_of
from advisor.ask.measures import parse_count
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses
from advisor.cli.command import Command, commands, folders_for, run_command
from advisor.cli.errors import as_mistake
from advisor.render.answer import Answer

if TYPE_CHECKING:
    import pandas

SHARED: Final = ("seed", "as_of", "calibration", "offline")
"""Options of every command that change an answer; the others are about a terminal."""
FIXED: Final = {"json": True, "quiet": True, "no_input": True}
UNITS: Final = {
    "N": "",
    "R": "",
    "C": "",
    "USD": "",
    "N|FOLDER": "",
    "TIME": "s",
    "SIZE": "B",
    "SIZE/s": "B/s",
    "W": "W",
    "kW": "W",
}
"""SI unit of a number that stands for an option of text, by the option's metavar; other options take no number."""
FUNCTIONS: Final = (
    "recommend",
    "replay",
    "cost",
    "build",
    "roofline",
    "memory",
    "calibrate",
    "compare",
    "kernel",
)
GROUPS: Final = ("simulate", "validate", "probe")


class UnknownOptionError(AdvisorError, TypeError):
    """A keyword that no option is called, or one too many or too few."""


class Fields(Mapping[str, Any]):
    """A record of a result without a class of its own: its fields are attributes and items, and none can be set."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getitem__(self, name: str) -> Any:
        return _freeze(self._values[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no field {name!r}; there are {', '.join(self)}")
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a result cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return Fields, (self._values,)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"Fields({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


def _freeze(value: object) -> object:
    """A value of a result that cannot be changed."""
    if isinstance(value, Mapping):
        return Fields({str(name): item for name, item in value.items()})
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """Answer of a command: fields of its document as attributes, as records in SI units."""

    command: str
    """The command, as typed after `advisor`."""
    answer: Answer
    """Answer with the blocks that people read."""
    shared: SharedOptions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.answer.result:
            raise AttributeError(
                f"the result of {self.command} has no {name!r}; it has {', '.join(self.answer.result)}"
            )
        return _freeze(self.answer.result[name])

    def __dir__(self) -> Iterable[str]:
        return sorted({*object.__dir__(self), *self.answer.result})

    @property
    def inputs(self) -> Mapping[str, object]:
        """Everything that the answer rests on, resolved, defaults included."""
        return Fields(self.answer.inputs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the answer may be wrong."""
        return self.answer.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions that the program made for the user."""
        return self.answer.notes

    def to_dict(self) -> dict[str, Any]:
        """Return the document that the command prints with --json."""
        from advisor.render.document import document

        found: dict[str, Any] = document(self.answer, seed=self.shared.seed, shared=self.shared.as_inputs())
        return found

    def to_frame(self) -> "pandas.DataFrame":
        """Return the answer's list as a table: a row a record, SI units in the names of columns.

        An answer without a list is one row.
        """
        from advisor.render.frame import frame_of

        answer = self.answer
        return frame_of(answer.rows() if answer.records else [dict(answer.result)])

    def save(self, path: str | Path) -> None:
        """Write the answer to a file, whose suffix says how: .json .csv .md .html.

        Raises: AdvisorError: no such form, or the file cannot be written.
        """
        from advisor.render.atomic import write_text
        from advisor.render.files import writer_for

        write_text(Path(path), writer_for(Path(path))(self.answer, self.to_dict()))

    def __str__(self) -> str:
        """Return what a terminal shows."""
        import io

        from advisor.render.terminal import print_blocks

        stream = io.StringIO()
        print_blocks(self.answer.blocks, stream)
        return stream.getvalue()

    def __repr__(self) -> str:
        headline = self.answer.result.get("headline", "")
        return f"<advisor {self.command}: {headline}>" if headline else f"<advisor {self.command}>"

    def _repr_html_(self) -> str:
        """Return the answer for a notebook: no script, no style of a page."""
        from itertools import count

        from advisor.render.answer import Chart
        from advisor.render.chart_text import chart_figure
        from advisor.render.html_blocks import blocks_html

        shown = [chart_figure(block) if isinstance(block, Chart) else block for block in self.answer.blocks]
        number = count(1)
        return f'<div class="advisor">{blocks_html(shown, lambda: f"advisor-{next(number)}")}</div>'


class Keyword(NamedTuple):
    """A keyword of a function: the option that it stands for."""

    name: str
    """The option's name with underscores; its field's where that is a word of Python's own."""
    parameter: inspect.Parameter
    is_positional: bool

    @property
    def option(self) -> str:
        """The option as typed."""
        declared = get_args(self.parameter.annotation)[1]
        name = option_name(self.parameter)
        return self.name if isinstance(declared, ArgumentInfo) else f"--{name.replace('_', '-')}"

    @property
    def help(self) -> str:
        """Meaning of the option."""
        declared = get_args(self.parameter.annotation)[1]
        return str(declared.help or "")

    @property
    def kind(self) -> Any:
        """The type of the option's field, None apart."""
        kind = get_args(self.parameter.annotation)[0]
        if get_origin(kind) in (UnionType, Union):
            (kind,) = (each for each in get_args(kind) if each is not NoneType)
        return kind

    @property
    def unit(self) -> str | None:
        """SI unit of a number for an option of text; None where it takes no number."""
        declared = get_args(self.parameter.annotation)[1]
        return UNITS.get((declared.metavar or "").removesuffix(",...")) if self.kind is str else None


@cache
def keywords_of(name: str) -> Mapping[str, Keyword]:
    """Return the keywords of a command's function, in order."""
    own = list(parameters_of(_command(name).inputs))
    places = [each for each in own if isinstance(get_args(each.annotation)[1], ArgumentInfo)]
    first = [each.name for each in places if each.default is inspect.Parameter.empty] or ["model"]
    ordered = sorted(own, key=lambda each: first.index(each.name) if each.name in first else len(first))
    common = [each for each in parameters_of(SharedOptions) if each.name in SHARED]
    found = {}
    for each in (*ordered, *common):
        word = option_name(each)
        word = each.name if keyword.iskeyword(word) else word
        found[word] = Keyword(word, each, each.name in first)
    return found


def call(name: str, arguments: Iterable[object], options: Mapping[str, object]) -> Result:
    """Return the result of a command, asked with values as a person types them or as numbers in SI units.

    Raises: AdvisorError and its kinds: as the command, or a keyword is unknown, missing or of another type.
    """
    try:
        values = _values(name, arguments, options)
        answer, shared = run_command(_command(name), {**FIXED, **values}, frozenset(values))
    except Exception as error:
        mistake = error if isinstance(error, AdvisorError) else as_mistake(error)
        if mistake is None:
            raise
        for label, text in (("why", mistake.why), ("To fix", mistake.fix), ("Hint", mistake.hint)):
            if text:
                mistake.add_note(f"  {label}: {text}")
        if mistake is error:
            raise
        raise mistake from error
    return Result(name, answer, shared)


def _values(name: str, arguments: Iterable[object], options: Mapping[str, object]) -> dict[str, object]:
    """Values of the command's fields; None is what is not given.

    Raises: AdvisorError: a keyword is unknown or missing, or a value of another type.
    """
    known = keywords_of(name)
    given = {word: value for word, value in _by_name(name, known, arguments, options) if value is not None}
    for word, each in known.items():
        if each.parameter.default is inspect.Parameter.empty and word not in given:
            raise UnknownOptionError(f"{_python(name)}() needs {word}", why=each.help, fix=f"{word}=...")
    return {known[word].parameter.name: value_of(known[word], value) for word, value in given.items()}


def _by_name(
    name: str, known: Mapping[str, Keyword], arguments: Iterable[object], options: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    places = [word for word, each in known.items() if each.is_positional]
    arguments = list(arguments)
    if len(arguments) > len(places):
        raise UnknownOptionError(
            f"{_python(name)}() takes {len(places)} value without a name, not {len(arguments)}",
            fix="name them: " + ", ".join(f"{word}=" for word in list(known)[:3]),
        )
    for word in options:
        if word not in known:
            near = near_misses(word, list(known), {})
            raise UnknownOptionError(
                f"{_python(name)}() has no option {word!r}",
                fix=f"{near[0]}=..." if near else f"help(advisor.{_python(name)}) lists what it takes",
                hint=f"did you mean: {', '.join(near)}?" if near else "",
            )
        if word in places[: len(arguments)]:
            raise UnknownOptionError(f"{_python(name)}() has {word} twice", fix=f"give {word} once")
    yield from zip(places, arguments, strict=False)
    yield from options.items()


def value_of(known: Keyword, value: object) -> object:
    """Return a value as the command's record takes it.

    Raises: AdvisorError: it is of another type, out of range or no choice.
    """
    kind = known.kind
    declared = get_args(known.parameter.annotation)[1]
    if kind is bool:
        if not isinstance(value, bool):
            raise _wrong(known, value, "True or False")
        return value
    if get_origin(kind) is list:
        return [value] if isinstance(value, str) else [_text(known, each) for each in _sequence(known, value)]
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            near = near_misses(str(value), choices, {})
            raise _wrong(known, value, f"one of {', '.join(choices)}", near)
        return value
    if kind is Path:
        if not isinstance(value, str | Path):
            raise _wrong(known, value, "a path")
        return Path(value)
    if kind in (int, float):
        return _number(known, value, declared.min, declared.max)
    if kind is datetime.date:
        if isinstance(value, datetime.datetime):
            return value.date()
        return value if isinstance(value, datetime.date) else declared.parser(_text(known, value))
    return _text(known, value)


def _number(known: Keyword, value: object, low: float | None, high: float | None) -> float:
    """A whole or real number within the option's limits; a text may have k, M, B or T."""
    number = value
    if isinstance(value, str):
        number = parse_count(value, known.option) if value[-1:].isalpha() else _read(known, value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise _wrong(known, value, "a number")
    number = float(number)
    if known.kind is int and not number.is_integer():
        raise _wrong(known, value, "a whole number")
    if (low is not None and not number >= low) or (high is not None and not number <= high):
        ends = f"from {low:,} " if low is not None else ""
        raise _wrong(known, value, f"a number {ends}" + (f"to {high:,}" if high is not None else "or more"))
    return int(number) if known.kind is int else float(number)


def _read(known: Keyword, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _wrong(known, text, "a number") from None


def _text(known: Keyword, value: object) -> str:
    """A value as a person types it: a number with the SI unit, several values with commas."""
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, bool) or value is None:
        raise _wrong(known, value, "text")
    if isinstance(value, Real):
        if known.unit is None:
            raise _wrong(known, value, f"text ({known.help})")
        number = int(value) if isinstance(value, Integral) else float(value)
        return f"{number!r}".removesuffix(".0") + known.unit
    return ",".join(_text(known, each) for each in _sequence(known, value))


def _sequence(known: Keyword, value: object) -> Iterable[object]:
    if isinstance(value, list | tuple | set | frozenset) and value:
        return value
    raise _wrong(known, value, "text, a number or a list of them")


def _wrong(known: Keyword, value: object, wanted: str, near: Iterable[str] = ()) -> AdvisorError:
    shown = repr(value)
    return AdvisorError(
        f"{known.name}={shown if len(shown) < 100 else shown[:100] + ' ...'} is not {wanted}",
        why=known.help,
        fix=f"{known.name}={next(iter(near), '...')!r}" if near else f"give {wanted}",
    )


def _command(name: str) -> Command:
    return commands(folders_for(name.split()))[name]


def _python(name: str) -> str:
    """A command as it is called in Python."""
    return name.replace(" ", ".").replace("-", "_")


def function_of(name: str) -> Callable[..., Result]:
    """Return the function of a command, with the signature and the documentation that its options give."""

    def ask(*arguments: object, **options: object) -> Result:
        return call(name, arguments, options)

    ask.__name__ = ask.__qualname__ = _python(name).rpartition(".")[2]
    ask.__doc__ = documentation(name)
    vars(ask)["__signature__"] = signature_of(name)
    return ask


def signature_of(name: str) -> inspect.Signature:
    """Return the parameters of a command's function with their defaults; None where the program chooses."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(
        [
            inspect.Parameter(word, kinds[each.is_positional], default=each.parameter.default)
            for word, each in keywords_of(name).items()
        ],
        return_annotation=Result,
    )


def documentation(name: str) -> str:
    """Return the docstring of a command's function."""
    lines = [inspect.cleandoc(_command(name).inputs.__doc__ or ""), "", "Args:"]
    for word, each in keywords_of(name).items():
        unit = f" [{each.unit}]" if each.unit else ""
        lines.append(f"    {word}{unit}: {each.help}")
    return "\n".join(lines)


class Group:
    """Commands with a first word in common, as attributes."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.__doc__ = f"Functions of `advisor {word} ...`."

    def __getattr__(self, name: str) -> Callable[..., Result]:
        if name.startswith("_") or name not in dir(self):
            raise AttributeError(f"advisor.{self._word} has no {name!r}; it has {', '.join(dir(self))}")
        function = function_of(f"{self._word} {name.replace('_', '-')}")
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        words = (name.partition(" ") for name in commands(folders_for([self._word])))
        return [rest.replace("-", "_") for word, _, rest in words if word == self._word and rest]

    def __repr__(self) -> str:
        return f"<advisor.{self._word}: {', '.join(dir(self))}>"


def __getattr__(name: str) -> Any:
    if name in GROUPS:
        found: Any = Group(name)
    elif name in FUNCTIONS:
        found = function_of(name)
        if name == "build":
            found.check = function_of("build check")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
