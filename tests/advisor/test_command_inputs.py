"""How a frozen dataclass becomes the options of a command, and what was typed becomes the dataclass again."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from typer import Context, Option
from typer.main import get_command

from advisor.ask.inputs import fill_inputs, only, parameters_of
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.cli.command import FOLDERS, commands, folders_for, tree


@dataclass(frozen=True, slots=True)
class Group:
    gpu: Annotated[str | None, Option()] = None
    own: Annotated[str | None, Option()] = None
    count: Annotated[int, Option()] = 1


@dataclass(frozen=True, slots=True)
class Inputs:
    model: Annotated[str, Option()]
    own: Annotated[str | None, Option()] = None
    group: Annotated[Group, only("count", "gpu")] = Group(count=64)
    made: Annotated[str, Option()] = field(default_factory=lambda: "made")
    note: str = "not an option"


def test_options_of_groups_stand_in_their_place_and_take_the_defaults_of_the_command() -> None:
    found = {parameter.name: parameter.default for parameter in parameters_of(Inputs)}
    assert list(found) == ["model", "own", "count", "gpu", "made"]
    assert found["model"] is inspect.Parameter.empty
    assert found["count"] == 64
    assert found["made"] is None


def test_a_group_takes_only_the_options_that_its_command_has_of_it() -> None:
    found = fill_inputs(Inputs, {"model": "70b", "own": "8xh100", "gpu": "h100", "made": None})
    assert found == Inputs("70b", own="8xh100", group=Group("h100", own=None, count=64))
    assert found.note == "not an option"


def test_what_a_default_instance_says_stands_where_nothing_is_typed() -> None:
    found = fill_inputs(SharedOptions, {"seed": 3}, SharedOptions(quiet=True))
    assert (found.seed, found.quiet) == (3, True)


def test_no_command_has_an_option_twice() -> None:
    for found in commands().values():
        names = [
            parameter.name for parameter in (*parameters_of(found.inputs), *parameters_of(SharedOptions))
        ]
        assert len(set(names)) == len(names), found.name


@pytest.mark.parametrize(
    ("arguments", "folders"),
    [
        (["cost", "--model", "70b"], ["cost"]),
        (["simulate", "long-context"], ["simulate_long_context"]),
        (["simulate", "vision"], [folder for folder in FOLDERS if folder.startswith("simulate_")]),
        (["replay", "plan.json"], FOLDERS),
        (["--help"], FOLDERS),
        ([], FOLDERS),
    ],
)
def test_only_the_options_that_a_command_line_names_are_read(
    arguments: list[str], folders: list[str]
) -> None:
    assert list(folders_for(arguments)) == list(folders)


def leaves(command: Any, path: str = "advisor") -> Iterator[tuple[str, Any]]:
    """Every command of the tree that takes options, with its name."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from leaves(child, f"{path} {name}")


def test_an_option_typed_twice_is_refused_by_every_command() -> None:
    """The parser would keep the last and drop the others in silence."""
    refused = 0
    for path, command in leaves(get_command(tree())):
        for option in command.params:
            if option.param_type_name != "option" or option.is_flag or option.multiple:
                continue
            for name in option.opts:
                typed = [name, "1", name, "2"]
                with pytest.raises(AdvisorError, match="is given twice"):
                    command.make_context(path, typed)
                refused += 1
    assert refused > 300


def test_a_list_typed_twice_is_told_how_it_is_written() -> None:
    recommend = get_command(tree(["recommend"])).commands["recommend"]  # type: ignore[attr-defined]
    with pytest.raises(AdvisorError) as told:
        recommend.make_context("recommend", ["--gpu", "l4", "--gpu", "l40s"])
    assert told.value.fix == "--gpu A,B takes several"


def test_a_default_is_what_its_option_would_make_of_it() -> None:
    """Defaults are not converted: Typer would take a millisecond for each option that nobody typed."""
    wrong = []
    todo: list[Any] = [get_command(tree())]
    while todo:
        found = todo.pop()
        todo += getattr(found, "commands", {}).values()
        for option in found.params:
            if option.default is not None and not option.callback:
                made = option.process_value(Context(found), option.default)
                wrong += [option.name] if (type(made), made) != (type(option.default), option.default) else []
    assert wrong == []
