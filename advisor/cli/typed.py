"""Checks of typed options: each option once, conversion of typed values only, and no file both written and read."""

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from advisor.ask.inputs import choices_of
from advisor.ask.measures import parse_count, parse_usd, without_groups
from advisor.ask.options import Effect, SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import choice_of
from advisor.cli.engine_words import own_words, places_of_lone_words, plain_signs
from advisor.cli.notes import note

CHECK: Final = "check"
"""Command of a group that takes a text."""


class _Once:
    """A command whose parser accepts each option once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        _convert_what_is_given(self)

    def make_parser(self, ctx: Any) -> Any:
        return _refusing_repeated(super().make_parser(ctx))  # type: ignore[misc]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = [plain_signs(argument) for argument in args]
        if CHECK in getattr(self, "commands", {}) and args and " " in args[0]:
            args = [CHECK, *args]  # a list or a question in the place of a command
        known = {text for option in self.params for text in (*option.opts, *option.secondary_opts)}  # type: ignore[attr-defined]
        is_of_subcommand = bool(getattr(self, "commands", {}).keys() & set(args[:1]))
        flags = {text for option in self.params if getattr(option, "is_flag", False) for text in option.opts}  # type: ignore[attr-defined]
        words = args
        notes: tuple[str, ...] = ()
        if not is_of_subcommand and _has_lone_word(args, flags):
            # It loads the catalog, without which help appears at once.
            from advisor.cli.engine_command import with_pasted_command

            if "--recompute" in known:
                from advisor.cli.tuning_settings import with_tuning_settings

                words, notes = with_tuning_settings(args, known, flags)
            if words == args:
                words, notes = with_pasted_command(args, known, flags)
            if words == args and "--use-case" in known:
                words, notes = _with_sentence(args, flags)
            takes_words = any(one.param_type_name == "argument" for one in self.params)  # type: ignore[attr-defined]
            if words == args and not takes_words and not hasattr(self, "commands"):
                _refuse_sentence(ctx.command_path, args, known, flags)
        if notes and not {"-q", "--quiet"} & set(args):
            note(*notes)
        return super().parse_args(ctx, own_words(words, known))  # type: ignore[misc, no-any-return]


def _has_lone_word(arguments: Sequence[str], flags: Collection[str]) -> bool:
    """Whether a word is typed that is no option and no value of one, as any pasted command has."""
    return bool(places_of_lone_words(arguments, flags))


def _with_sentence(arguments: Sequence[str], flags: Collection[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return what was typed with the options for which a sentence in it stands, and notes; typed options count first.

    Raises: AdvisorError: the sentence says nothing that is asked.
    """
    places = places_of_lone_words(arguments, flags)
    text = " ".join(arguments[place] for place in places)
    if len(text.split()) < _LEAST_WORDS:
        return list(arguments), ()
    from advisor.cli.sentence import options_of_sentence

    options, notes = options_of_sentence(text)
    typed = [word for place, word in enumerate(arguments) if place not in places]
    given = {word.partition("=")[0] for word in typed}
    pairs = zip(options[::2], options[1::2], strict=True)
    return [*typed, *(word for name, value in pairs if name not in given for word in (name, value))], notes


def _refuse_sentence(
    command: str, arguments: Sequence[str], known: Collection[str], flags: Collection[str]
) -> None:
    """Refuse a question that is typed as a sentence to a command which takes options alone, with its options.

    Raises: AdvisorError: there is one.
    """
    places = places_of_lone_words(arguments, flags)
    text = " ".join(arguments[place] for place in places)
    if len(text.split()) < _LEAST_WORDS_OF_A_QUESTION:
        return
    from advisor.cli.sentence import options_of_sentence

    try:
        options, _ = options_of_sentence(text)
    except AdvisorError as error:
        fix = error.fix
    else:
        typed = [word for place, word in enumerate(arguments) if place not in places]
        given = {word.partition("=")[0] for word in typed}
        pairs = zip(options[::2], options[1::2], strict=True)
        told = {name: value for name, value in pairs if name not in given}
        named = [word for pair in told.items() if pair[0] in known for word in pair]
        fix = shlex.join([*command.split(), *typed, *named])
    raise AdvisorError(
        f"{command} takes no sentence", why="advisor recommend and advisor cost read questions", fix=fix
    )


_LEAST_WORDS_OF_A_QUESTION: Final = 4
"""Least words of a sentence in a command that takes none: fewer are a slip, which its parser names."""
_LEAST_WORDS: Final = 2
"""Least words of a sentence; a single one is a slip."""


class Once(_Once, TyperCommand):
    """A command whose options are typed once."""


class OnceGroup(_Once, TyperGroup):
    """A group that is a command too."""


def _refusing_repeated(parser: Any) -> Any:
    """Return the parser, changed to refuse a second value of an option that takes one."""
    parse = parser.parse_args

    def parse_checked(args: list[str]) -> Any:
        parsed = parse(args)
        _refuse_repeated(parsed[2])
        return parsed

    parser.parse_args = parse_checked
    return parser


def _refuse_repeated(typed: Sequence[Any]) -> None:
    """Refuse an option that is typed twice, because the parser would drop the first value.

    Raises: AdvisorError: there is one.
    """
    for place, option in enumerate(typed):
        if (
            option not in typed[:place]
            or option.param_type_name != "option"
            or option.multiple
            or option.is_flag
        ):
            continue
        name = max(option.opts, key=len)
        is_list = (option.metavar or "").endswith("...")
        raise AdvisorError(
            f"{name} is given twice",
            why="one of them would do nothing",
            fix=f"{name} A,B takes several" if is_list else f"give {name} once",
        )


def _convert_what_is_given(command: Any) -> None:
    """Leave defaults as they are: Typer makes a converter for each option, which takes a millisecond."""
    for option in command.params:
        if choices := choices_of(option.type_descriptor.annotation):
            option.process_value = _spelled_otherwise(option.process_value, choices)
        if option.nargs == 1 and not (option.multiple or option.required or option.callback):
            option.process_value = _given_alone(option)


def _spelled_otherwise(read: Callable[[Any, Any], Any], choices: Sequence[str]) -> Callable[[Any, Any], Any]:
    """Return a reader that takes a choice in another case and with other separators."""

    def as_choice(value: Any) -> Any:
        if isinstance(value, str):
            return choice_of(value, choices)
        return type(value)(map(as_choice, value)) if isinstance(value, list | tuple) else value

    return lambda ctx, value: read(ctx, as_choice(value))


def _given_alone(option: Any) -> Callable[[Any, Any], Any]:
    converted = option.process_value
    default = option.default
    read = _as_typed
    if option.type_descriptor.annotation is int:
        read = _in_full
    elif option.type_descriptor.annotation is float and option.metavar == "USD":
        read = partial(_in_dollars, max(option.opts, key=len))
    return lambda ctx, value: value if value is None or value is default else converted(ctx, read(value))


def _as_typed(text: Any) -> Any:
    return text


def _in_full(text: Any) -> Any:
    """Return a whole number with its digits alone where it was typed with k, M, B, T or signs between thousands;
    anything else as it was typed."""
    if not isinstance(text, str):
        return text
    text = without_groups(text)
    try:
        number = parse_count(text, "") if text[-1:].isalpha() else math.nan
    except AdvisorError:
        return text
    return str(round(number)) if number.is_integer() else text


def _in_dollars(option: str, text: Any) -> Any:
    """Return a sum with its digits where it was typed as sums are: $2,000, 2k, 2000 USD.

    Raises: AdvisorError: it is another currency, or no number.
    """
    try:
        return str(float(text))
    except ValueError:
        return str(parse_usd(text, example="8600", option=option))


def check_numbers(values: Mapping[str, Any]) -> None:
    """Refuse what compares with no limit.

    Raises: AdvisorError: a number is not finite.
    """
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise AdvisorError(
                f"--{name.replace('_', '-')} {value} is out of range", fix="type a finite number"
            )


def check_files(effects: Mapping[str, Effect], values: Mapping[str, Any]) -> None:
    """Refuse output files that cannot be written or that are also an input or another output.

    An option that changes files names one that may be written again: an interrupted probe goes on in its own.

    Raises: AdvisorError: with the option's name.
    """
    written = {
        name: Path(values[name])
        for name, effect in effects.items()
        if effect is Effect.WRITES and values.get(name) is not None
    }
    if not written:
        return
    from advisor.render.atomic import check_writable

    taken: dict[tuple[int, int] | str, str] = {}
    changed = {name for name, effect in effects.items() if effect is Effect.CHANGES}
    for name, path in _inputs(values, changed | written.keys()):
        taken.setdefault(_identity(path), name)
    for name, path in written.items():
        check_writable(path)
        other = taken.setdefault(_identity(path), name)
        if other != name and not (path.exists() and not path.is_file()):
            raise AdvisorError(
                f"--{name} {path} is also the file of {_words(other)}",
                why="it would be overwritten",
                fix="name another file",
            )


def _inputs(values: Mapping[str, Any], written: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Yield whatever else was typed and is a file: paths, and names that turn out to be one."""
    for name, value in values.items():
        if name in written or not isinstance(value, Path | str):
            continue
        path = Path(value)
        try:
            for each in (path, path / "config.json"):
                if each.is_file():
                    yield name, each
        except (OSError, ValueError):  # a text that is no path
            continue


def _identity(path: Path) -> tuple[int, int] | str:
    """Return an identity that all names of one file share."""
    try:
        state = path.stat()
        return state.st_dev, state.st_ino
    except OSError:
        return str(path.absolute())


def _words(option: str) -> str:
    return f"--{option.replace('_', '-')}" if option not in ("file", "first", "second", "cases") else option


def check_shared(shared: SharedOptions) -> SharedOptions:
    """Return the shared options if the work can begin with them.

    Raises: AdvisorError: an output path that cannot be written, or a file that is no calibration.
    """
    if shared.output is not None:
        from advisor.render.atomic import check_writable

        check_writable(shared.output)
    if shared.calibration is not None:
        from advisor.ask.own_data import read_calibration

        read_calibration(shared.calibration)
    return shared
