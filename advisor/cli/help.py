"""Help of a command that is asked for several kinds of work: what acts for one of them, or what all have in common."""

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from advisor.ask.acts import acts_of, option_of
from advisor.ask.inputs import parameters_of
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses
from advisor.cli.typed import Once

_MOST_COLUMNS: Final = 100
_LEAST_COLUMNS: Final = 60
_MOST_NAME: Final = 27
"""Columns for an option with its value; a longer one stands on a line of its own."""
_WORKLOAD: Final = "workload"


class WorkHelp(NamedTuple):
    """A kind of work: what the answer is, and two questions about it."""

    summary: str
    examples: tuple[str, str]
    """Two example command lines, without the command itself."""


Works = Mapping[str, WorkHelp]


def class_of(name: str, inputs: type, works: Works) -> type[Once]:
    """Return the class of a command whose help depends on the workload that is typed before `--help`."""

    class OfWork(Once):
        """Command whose help shows the options that act for the named workload."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            ctx.meta[_WORKLOAD] = _named_workload(args)
            return super().parse_args(ctx, args)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            columns = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, shutil.get_terminal_size().columns))
            work = ctx.meta.get(_WORKLOAD)
            formatter.write("\n".join(help_of(name, inputs, works, work, columns)) + "\n")

    return OfWork


def _named_workload(args: Sequence[str]) -> str | None:
    """Return the workload that a command line names; None where it names none."""
    for word, after in pairwise((*args, "")):
        option, equals, value = word.partition("=")
        if option == f"--{_WORKLOAD}":
            return value if equals else after
    return None


def help_of(name: str, inputs: type, works: Works, work: str | None, columns: int) -> Iterator[str]:
    """Yield the lines of the help: the options that act for one kind of work, or those that act for all if it is None.

    Raises: AdvisorError: there is no such work.
    """
    if work is not None and work not in works:
        near = near_misses(work, list(works), {})
        raise AdvisorError(
            f"--workload {work}: no such work",
            why=f"there are {', '.join(works)}",
            fix=f"--workload {near[0] if near else next(iter(works))}",
        )
    acts = acts_of(inputs)
    shown = [
        each
        for each in parameters_of(inputs)
        if (work in acts[each.name].work if work else acts[each.name].work == set(works))
    ]
    about = works[work or next(iter(works))]
    yield f"Usage: advisor {name} {f'--workload {work} ' if work else ''}[OPTIONS]"
    yield ""
    yield from textwrap.wrap(about.summary if work else inspect.cleandoc(inputs.__doc__ or ""), columns)
    yield ""
    yield from (f"  advisor {name} {example}" for example in about.examples)
    if work is None:
        yield ""
        yield f"What acts for one kind of work: advisor {name} --workload NAME --help"
        width = max(map(len, works)) + 4
        for each, described in works.items():
            yield from _entry(f"  {each}", described.summary, width, columns)
        usual = next(iter(works))
        further = [
            each for each in parameters_of(inputs) if usual in acts[each.name].work and each not in shown
        ]
        yield ""
        yield from _list_options(f"For {usual}, the usual work, also", further, columns)
    yield from _options(shown, columns)
    yield from _common(columns)


def _options(shown: Iterable[inspect.Parameter], columns: int) -> Iterator[str]:
    """Yield options under their headings, a line each where it fits."""
    order: dict[str, list[inspect.Parameter]] = {}
    for each in shown:
        order.setdefault(_declaration(each).rich_help_panel or "Options", []).append(each)
    for heading, group in order.items():
        yield ""
        yield heading
        for each in group:
            yield from _entry(f"  {_option_words(each)}", _option_help(each), _MOST_NAME + 4, columns)


def _entry(head: str, text: str, width: int, columns: int) -> Iterator[str]:
    lines = textwrap.wrap(text, columns - width, break_long_words=False, break_on_hyphens=False) or [""]
    if len(head) + 2 > width:
        yield head
    else:
        yield head.ljust(width) + lines.pop(0)
    yield from (" " * width + line for line in lines)


def _common(columns: int) -> Iterator[str]:
    """Yield the options of every command, by name alone."""
    yield ""
    yield from _list_options("Of every command", parameters_of(SharedOptions), columns)


def _list_options(introduction: str, options: Iterable[inspect.Parameter], columns: int) -> Iterator[str]:
    """Yield options by name and value alone, behind what they have in common."""
    names = ", ".join(map(_option_words, options))
    yield from textwrap.wrap(
        f"{introduction}: {names}.", columns, break_long_words=False, break_on_hyphens=False
    )


def _declaration(parameter: inspect.Parameter) -> Any:
    return get_args(parameter.annotation)[1]


def _choices(parameter: inspect.Parameter) -> tuple[str, ...]:
    """Return the words that an option takes; none where it takes anything."""
    kind = get_args(parameter.annotation)[0]
    kinds = (kind, *get_args(kind)) if get_origin(kind) is not Literal else (kind,)
    return next((get_args(each) for each in kinds if get_origin(each) is Literal), ())


def _option_words(parameter: inspect.Parameter) -> str:
    """Return an option as typed, with its value."""
    declared = _declaration(parameter)
    names = [text for text in (declared.default, *(declared.param_decls or ())) if str(text).startswith("-")]
    name = next((text for text in names if text.startswith("--")), option_of(parameter.name))
    is_flag = bool in (get_args(parameter.annotation)[0], *get_args(get_args(parameter.annotation)[0]))
    metavar = declared.metavar or (
        "NAME" if _choices(parameter) else "DATE" if parameter.name == "as_of" else ""
    )
    return name if is_flag else f"{name} {metavar}".rstrip()


def _option_help(parameter: inspect.Parameter) -> str:
    """Return the help of an option: its meaning, the words to choose from, and the value if it is not typed."""
    declared = _declaration(parameter)
    default = parameter.default
    text = str(declared.help)
    choices = [each for each in _choices(parameter) if each != default]
    if choices and parameter.name != _WORKLOAD and not all(each in text for each in choices):
        text = f"{text.removesuffix('.')}: {', '.join(choices)}."
    shown = declared.show_default
    if shown is True and default not in (None, False, True):
        text += f" [{default}]"
    elif isinstance(shown, str):
        text += f" [{shown}]"
    return text.replace("  [default: (", " [").replace(")]", "]")
