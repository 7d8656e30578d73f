"""How a frozen dataclass becomes the options of a command, and what was typed becomes the dataclass again."""

import inspect
from dataclasses import dataclass, field
from typing import Annotated

import pytest
from typer import Option

from advisor.cli.command import FOLDERS, commands, folders_for, gathered, only, parameters_of
from advisor.cli.options import Shared


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
    found = gathered(Inputs, {"model": "70b", "own": "8xh100", "gpu": "h100", "made": None})
    assert found == Inputs("70b", own="8xh100", group=Group("h100", own=None, count=64))
    assert found.note == "not an option"


def test_what_a_default_instance_says_stands_where_nothing_is_typed() -> None:
    found = gathered(Shared, {"seed": 3}, Shared(quiet=True))
    assert (found.seed, found.quiet) == (3, True)


def test_no_command_has_an_option_twice() -> None:
    for found in commands().values():
        names = [parameter.name for parameter in (*parameters_of(found.inputs), *parameters_of(Shared))]
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
