"""Defaults from advisor.toml and ADVISOR_* variables: who wins, for which commands, and what a misspelling gets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
PRICES = "advisor catalog prices --gpu h100-sxm --as-of 2026-11-20"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write advisor.toml into the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    return lambda text: (tmp_path / "advisor.toml").write_text(text) and None


def providers(cli: Cli, options: str = "") -> set[str]:
    run = cli(f"{PRICES} {options} --json")
    assert run.code == 0, run.err
    return {price["provider"] for price in json.loads(run.out)["prices"]}


def test_flag_over_variable_over_file_over_default(
    cli: Cli, settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(providers(cli)) > 3
    settings('provider = ["aws", "azure"]\n')
    assert providers(cli) == {"aws", "azure"}
    monkeypatch.setenv("ADVISOR_PROVIDER", "gcp")
    assert providers(cli) == {"gcp"}
    assert providers(cli, "--provider lambda") == {"lambda"}


def test_a_commands_own_table_counts_for_it_alone(cli: Cli, settings: Callable[[str], None]) -> None:
    settings(
        'provider = "aws"\n[catalog.prices]\nprovider = "azure"\nterm = "spot,on-demand"\n[recommend]\ntop = 1\n'
    )
    assert providers(cli) == {"azure"}
    shown = cli("advisor config show --json")
    found = {(d["command"][-1], d["option"]): d["value"] for d in json.loads(shown.out)["defaults"]}
    assert found["recommend", "top"] == 1
    assert found["recommend", "provider"] == "aws"
    assert found["prices", "provider"] == "azure"
    assert ("cost", "top") not in found


def test_defaults_in_use_are_told_unless_typed_or_quiet(cli: Cli, settings: Callable[[str], None]) -> None:
    settings('offline = true\n[catalog.prices]\nprovider = "aws"\n')
    told = f"note: provider = aws (from {Path.cwd() / 'advisor.toml'})"
    assert told in cli(PRICES).err
    assert "note: offline = true" in cli(PRICES).err
    assert "provider =" not in cli(f"{PRICES} --provider azure").err
    assert "provider =" not in cli("advisor catalog gpus").err
    assert cli(f"{PRICES} -q").err == ""
    assert json.loads(cli(f"{PRICES} --json").out)["inputs"]["offline"] is True


def test_flags_and_unknown_variables(
    cli: Cli, settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_JSON", "1")
    json.loads(cli(PRICES).out)
    monkeypatch.setenv("ADVISOR_JSON", "no")
    assert cli(PRICES).out.startswith("provider")
    monkeypatch.setenv("ADVISOR_PROVDER", "aws")
    assert "warning: ADVISOR_PROVDER sets no option of any command" in cli(PRICES).err


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("ofline = true\n", "advisor.toml: ofline", "offline"),
        ("[recomend]\ntop = 1\n", "[recomend]", "recommend"),
        ("[recommend]\nprovder = 1\n", "recommend.provder", "provider"),
        ("[recommend]\ntop = \n", "not valid TOML", ""),
    ],
)
def test_mistakes_name_the_file_and_near_misses(
    cli: Cli, settings: Callable[[str], None], text: str, told: str, hint: str
) -> None:
    settings(text)
    run = cli(PRICES)
    assert run.code == 2
    assert told in run.err
    assert hint in run.err


def test_a_file_that_is_named_must_be_there(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CONFIG", str(tmp_path / "none.toml"))
    assert "no such file" in cli(PRICES).err
    (tmp_path / "some.toml").write_text('provider = "aws"\n')
    monkeypatch.setenv("ADVISOR_CONFIG", str(tmp_path / "some.toml"))
    assert providers(cli) == {"aws"}


def test_nothing_set_is_said(cli: Cli, settings: Callable[[str], None]) -> None:
    assert cli("advisor config show").out.startswith("No defaults are set")


def test_a_user_without_a_home_is_answered(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that no file of users names."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", dict[int, str]().__getitem__)
    run = cli("advisor catalog gpus -q")
    assert (run.code, run.err) == (0, "")
