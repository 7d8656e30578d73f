"""Errors as documents: with --json a script reads what, why, fix and hint where it reads an answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.errors import install_command
from advisor.cli.command import commands

Cli = Callable[[str], Any]

MISTAKES = (
    "catalog show h101",
    "kernel",
    "kernel gemmm",
    "recommend --model 8b --rate -1",
    "recommend --model 70b --rate 1 --gpu t4 --own 1xt4",
    "recommend --no-such-option",
    "simulate serve --model 8b --gpu h100 --rate 1 --trace nothing.csv",
    "no-such-command",
)


@pytest.mark.parametrize("command", MISTAKES)
def test_an_error_is_a_document_where_the_answer_would_be_one(cli: Cli, command: str) -> None:
    shown = cli(f"advisor {command}")
    assert shown.code
    assert shown.out == ""
    asked = cli(f"advisor {command} --json")
    error = json.loads(asked.out)["error"]
    assert asked.code == shown.code == error["exit_code"]
    assert asked.err == shown.err
    assert error["what"] in " ".join(asked.err.split())
    for label, name in (("why", "why"), ("To fix", "fix"), ("Hint", "hint")):
        assert (f"  {label}: " in asked.err) == bool(error[name])


@pytest.mark.parametrize("name", sorted(commands()))
def test_a_missing_word_is_told_on_one_line(cli: Cli, name: str) -> None:
    """The parser lists choices on lines of their own, which escapes would show as codes."""
    if commands()[name].is_local:
        pytest.skip("it works on this machine")
    run = cli(f"advisor {name}")
    assert "\\u000" not in run.err


def test_an_install_command_names_what_the_work_needs() -> None:
    assert install_command("sweep", "pyarrow") == "pip install pyarrow"
    assert install_command("notebook", "matplotlib") == "pip install matplotlib"
    assert "joblib" in install_command("sweep")
