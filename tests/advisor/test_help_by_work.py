"""Help of a command with several kinds of work: what acts for one of them, in few lines, with two examples."""

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from advisor.ask.acts import Work, acts_of, option_of, refuse_idle
from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.cli.command import commands
from advisor.commands.recommend.options import WORKS, RecommendInput

Cli = Callable[[str], Any]
MOST_LINES = 90
MOST_COLUMNS = 100


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def options_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z0-9-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("work", get_args(Work))
def test_the_help_of_a_work_lists_what_acts_for_it_with_two_examples(cli: Cli, work: str) -> None:
    run = cli(f"advisor recommend --workload {work} --help")
    assert run.code == 0
    lines = run.out.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    acting = {option_of(name) for name, one in acts_of(RecommendInput).items() if work in one.work}
    shown = {each.removesuffix("/--no-guidance") for each in options_in(run.out)}
    assert shown == acting
    assert sum(line.startswith("  advisor recommend ") for line in lines) == 2
    assert WORKS[work].summary in " ".join(run.out.split())
    for name in ("--json", "--output FILE", "--as-of", "--calibration FILE"):
        assert name in run.out


def test_plain_help_is_short_and_names_the_work(cli: Cli) -> None:
    run = cli("advisor recommend --help")
    assert run.code == 0
    lines = run.out.splitlines()
    assert len(lines) <= MOST_LINES
    for work, about in WORKS.items():
        assert any(line.startswith(f"  {work} ") for line in lines)
        assert about.summary.split(":")[0] in run.out
    assert "advisor recommend --workload NAME --help" in run.out
    assert {"--model", "--workload", "--gpu"} <= options_in(run.out)
    assert "--rate" not in options_in(run.out)


@pytest.mark.parametrize("words", ["--help --workload train", "--workload=train -h"])
def test_the_work_is_found_wherever_it_stands(cli: Cli, words: str) -> None:
    run = cli(f"advisor recommend {words}")
    assert run.out.startswith("Usage: advisor recommend --workload train [OPTIONS]")


@pytest.mark.parametrize("width", ["20", "60", "400"])
def test_the_help_fits_other_terminals(cli: Cli, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    run = cli("advisor recommend --workload serve --help")
    texts = [line for line in run.out.splitlines() if not line.startswith("  advisor ")]
    assert max(map(len, texts)) <= min(MOST_COLUMNS, max(60, int(width)))


def test_an_unknown_work_gets_near_misses(cli: Cli) -> None:
    run = cli("advisor recommend --workload fine-tune --help")
    assert run.code == 2
    assert "--workload fine-tune: no such work" in run.err
    assert "To fix: --workload finetune" in run.err
    run = cli("advisor recommend --workload")
    assert run.code == 2


@pytest.mark.parametrize(("work", "number"), [(work, number) for work in WORKS for number in (0, 1)])
def test_every_option_of_an_example_acts(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, work: str, number: int
) -> None:
    def keep(asked: RecommendInput, shared: SharedOptions) -> Any:
        refuse_idle(asked, shared.given)
        found.append(asked)
        raise AdvisorError("asked")

    found: list[RecommendInput] = []
    monkeypatch.setattr("advisor.commands.recommend.run.recommend", keep)
    run = cli(f"advisor recommend {WORKS[work].examples[number]}")
    assert found, run.err
    assert found[0].workload == work


def test_work_is_described_for_every_choice() -> None:
    assert tuple(WORKS) == get_args(Work)
    assert commands()["recommend"].works is WORKS
