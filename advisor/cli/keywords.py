"""Commands called by keyword: options as typed, or as numbers in SI units, become the record that a command takes.

The Python interface, the HTTP service and the tools for agents call commands through this module, so all take the same
names and refuse the same mistakes.
"""

import datetime
import inspect
import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from typer import Option
from typer.models import ArgumentInfo

from advisor.ask.inputs import option_name, parameters_of
from advisor.ask.measures import parse_count
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import choice_of, near_misses
from advisor.cli.command import Command, commands, folders_for, run_command
from advisor.cli.engine_words import split_counts

if TYPE_CHECKING:
    from advisor.render.answer import Answer

SHARED: Final = ("seed", "as_of", "calibration", "offline")
"""Options of every command that change an answer; the others are about a terminal."""
_OF_QUESTIONS: Final = "use_case"
"""Option of the commands that take a question in words."""
_QUESTION: Final = inspect.Parameter(
    "question",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        Option("--question", metavar="TEXT", help="The question in words; other keywords count first."),
    ],
)
_ALIKE: Final = 0.8
"""Likeness of two names from which on one is a slip for the other: `rates` and `rate` have 0.89, `request` and
`requests_per_user` have 0.58."""
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


class UnknownOptionError(AdvisorError, TypeError):
    """A keyword that no option is called, or one too many or too few."""


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
    own = list(parameters_of(command_of(name).inputs))
    places = [each for each in own if isinstance(get_args(each.annotation)[1], ArgumentInfo)]
    first = [each.name for each in places if each.default is inspect.Parameter.empty] or ["model"]
    ordered = sorted(own, key=lambda each: first.index(each.name) if each.name in first else len(first))
    common = [each for each in parameters_of(SharedOptions) if each.name in SHARED]
    found = {}
    asks = [_QUESTION] if any(option_name(each) == _OF_QUESTIONS for each in own) else []
    for each in (*ordered, *asks, *common):
        word = option_name(each)
        word = each.name if keyword.iskeyword(word) else word
        found[word] = Keyword(word, each, each.name in first)
    return found


def answer_call(
    name: str, arguments: Iterable[object], options: Mapping[str, object]
) -> "tuple[Answer, SharedOptions]":
    """Return the answer of a command, asked by keyword, and the shared options.

    Raises: AdvisorError and its kinds: as the command, or a keyword is unknown, missing or of another type.
    """
    given, notes = _read_keywords(name, arguments, options)
    values = _values_of(name, given)
    answer, shared = run_command(command_of(name), {**FIXED, **values}, frozenset(values))
    return replace(answer, notes=(*notes, *answer.notes)), shared


def _read_keywords(
    name: str, arguments: Iterable[object], options: Mapping[str, object]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the keywords that are given, those of a question in words among them, and notes on how that was read.

    Raises: AdvisorError: a keyword is unknown, or the question says nothing that is asked.
    """
    known = keywords_of(name)
    given = {word: value for word, value in _by_name(name, known, arguments, options) if value is not None}
    question = given.pop(_QUESTION.name, None) if _QUESTION.name in known else None
    if question is None:
        return given, ()
    from advisor.cli.sentence import options_of_sentence

    words, notes = options_of_sentence(_text(known[_QUESTION.name], question))
    by_option = {each.option: word for word, each in known.items()}
    asked = dict(zip(words[::2], words[1::2], strict=True))
    if unknown := sorted(asked.keys() - by_option.keys()):
        raise UnknownOptionError(
            f"{python_name(name)}() has no option for a part of the question: {', '.join(unknown)}",
            fix="advisor.recommend(question=...) takes every part",
        )
    return {**{by_option[option]: value for option, value in asked.items()}, **given}, notes


def _values_of(name: str, given: dict[str, object]) -> dict[str, object]:
    """Return the values of the command's fields.

    Raises: AdvisorError: a keyword is missing, or a value of another type.
    """
    known = keywords_of(name)
    given |= _split_count(known, given)
    for word, each in known.items():
        if each.parameter.default is inspect.Parameter.empty and word not in given:
            raise UnknownOptionError(f"{python_name(name)}() needs {word}", why=each.help, fix=f"{word}=...")
    return {known[word].parameter.name: value_of(known[word], value) for word, value in given.items()}


def _split_count(known: Mapping[str, Keyword], given: Mapping[str, object]) -> dict[str, object]:
    """Return what gpu="8xh100" says: the accelerator, and how many there are in the keyword that counts them."""
    if not isinstance(given.get("gpu"), str):
        return {}
    by_option = {each.option: word for word, each in known.items()}
    words = [text for word, value in given.items() for text in (known[word].option, str(value))]
    apart = split_counts(words, by_option)
    if apart == words:
        return {}
    said = dict(zip(apart[::2], apart[1::2], strict=True))
    changed = {by_option[option]: value for option, value in said.items() if option in by_option}
    return {word: value for word, value in changed.items() if word == "gpu" or word not in given}


def _by_name(
    name: str, known: Mapping[str, Keyword], arguments: Iterable[object], options: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    places = [word for word, each in known.items() if each.is_positional]
    arguments = list(arguments)
    if len(arguments) > len(places):
        raise UnknownOptionError(
            f"{python_name(name)}() takes {len(places)} value without a name, not {len(arguments)}",
            fix="name them: " + ", ".join(f"{word}=" for word in list(known)[:3]),
        )
    for word in options:
        if word not in known:
            slip, hint = name_meant(word, known)
            raise UnknownOptionError(
                f"{python_name(name)}() has no option {word!r}",
                fix=f"{slip}=..." if slip else f"help(advisor.{python_name(name)}) lists what it takes",
                hint=hint,
            )
        if word in places[: len(arguments)]:
            raise UnknownOptionError(f"{python_name(name)}() has {word} twice", fix=f"give {word} once")
    yield from zip(places, arguments, strict=False)
    yield from options.items()


def name_meant(word: str, known: Mapping[str, Keyword]) -> tuple[str, str]:
    """Return the keyword for which an unknown one is a slip, empty where none is as like as that, and a hint at those
    that are close."""
    near = near_misses(word, list(known), {})
    slip = next((each for each in near if SequenceMatcher(None, word, each).ratio() >= _ALIKE), "")
    return slip, f"did you mean: {', '.join(near)}?" if near else ""


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
        value = choice_of(value, choices) if isinstance(value, str) else value
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


def command_of(name: str) -> Command:
    """Return a command by its name as typed."""
    return commands(folders_for(name.split()))[name]


def python_name(name: str) -> str:
    """Return the name by which Python calls a command."""
    return name.replace(" ", ".").replace("-", "_")
