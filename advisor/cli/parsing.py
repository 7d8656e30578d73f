"""How a command reads what was typed: each option once, and only what was typed is converted."""

from collections.abc import Callable, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from advisor.catalog.errors import AdvisorError


class Once(TyperCommand):
    """A command whose options are typed once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_repeated(self.make_parser(ctx), args)
        _convert_what_is_given(self)
        return super().parse_args(ctx, args)


class OnceGroup(TyperGroup):
    """A group that is a command too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _refuse_repeated(self.make_parser(ctx), args)
        _convert_what_is_given(self)
        return super().parse_args(ctx, args)


def _refuse_repeated(parser: Any, args: Sequence[str]) -> None:
    """Refuse an option that is typed twice, of which the parser would drop the first.

    Raises: AdvisorError: there is one.
    """
    _, _, typed = parser.parse_args(list(args))
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


def _convert_what_is_given(command: TyperCommand | TyperGroup) -> None:
    """Leave defaults as they are: Typer makes a converter for each option, which takes a millisecond."""
    for option in command.params:
        if option.nargs == 1 and not (option.multiple or option.required or option.callback):
            option.process_value = _given_alone(option)  # type: ignore[assignment]


def _given_alone(option: Any) -> Callable[[Any, Any], Any]:
    converted, default = option.process_value, option.default
    return lambda ctx, value: value if value is None or value is default else converted(ctx, value)
