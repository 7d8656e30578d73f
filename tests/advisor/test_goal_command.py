"""`advisor recommend --goal`: families of hardware by a team's weights, and what a mistake in the file gets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.economics.goal import EXAMPLE

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]
ASK = "advisor recommend --model llama-3.1-8b --as-of 2026-11-20 --goal goal.toml"
FEW = "--precision bf16 --levers none"


@pytest.fixture(scope="module")
def everything(ask_once: Cli, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All families for a team that knows PyTorch."""
    file = tmp_path_factory.mktemp("goal") / "goal.toml"
    file.write_text(EXAMPLE, encoding="utf-8")
    found: dict[str, Any] = ask_once(f"{ASK.replace('goal.toml', str(file))} {FEW} --json").document()
    return found


def test_every_family_is_scored_and_every_fact_has_a_source(everything: dict[str, Any]) -> None:
    assert everything["kind"] == "goal"
    assert {option["platform"] for option in everything["options"]} == {
        "nvidia",
        "amd",
        "tpu",
        "trainium",
        "gaudi",
        "apple",
        "groq",
        "cerebras",
    }
    for option in everything["options"]:
        assert [score["name"] for score in option["scores"]] == ["fit", "cost", "ecosystem", "team"]
        assert all(fact["source"] and fact["text"] for score in option["scores"] for fact in score["facts"])
    assert everything["inputs"]["goal"]["team"]["frameworks"] == ["pytorch"]
    assert len(everything["described"]) == 4
    assert everything["what_would_change"]


def test_costs_are_those_of_the_market(cli: Cli, everything: dict[str, Any]) -> None:
    """The family's deployment is the cheapest that `advisor cost` finds for its accelerator."""
    tpu = next(option for option in everything["options"] if option["platform"] == "tpu")
    run = cli(
        f"{ASK.split(' --goal')[0].replace('recommend', 'cost')} --gpu {tpu['accelerator']} {FEW} --json"
    )
    best = json.loads(run.out)["rows"][0]
    assert tpu["usd_per_million_tokens"] == pytest.approx(best["usd_per_million_tokens"]["value"], rel=0.05)


def test_a_file_decides(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("goal.toml").write_text(
        'platforms = ["tpu", "groq"]\n[weights]\nfit = 0\ncost = 0\necosystem = 0\nteam = 1\n'
        '[team]\nframeworks = ["jax"]\n',
        encoding="utf-8",
    )
    run = cli(f"{ASK} --explain")
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= 100
    for part in (
        "Google TPUs, 100 of 100 points",
        "Groq LPU",
        "weights fit 0 %, cost 0 %",
        "FPGA cards",
        "jax: native",
    ):
        assert part in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("misspelt-weight", "[weights]\nfti = 1\n"),
        ("misspelt-table", "[wieghts]\nfit = 1\n"),
        ("negative-weight", "[weights]\nfit = -1\n"),
        ("no-weight", "[weights]\nfit = 0\ncost = 0\necosystem = 0\nteam = 0\n"),
        ("weight-is-text", '[weights]\nfit = "much"\n'),
        ("unknown-framework", '[team]\nframeworks = ["pytroch"]\n'),
        ("no-framework", "[team]\nframeworks = []\n"),
        ("unknown-family", 'platforms = ["tpus"]\n'),
        ("not-toml", "fit: 3\n"),
    ],
)
def test_a_mistake_in_the_file_is_told(
    cli: Cli, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("goal.toml").write_text(text, encoding="utf-8")
    run = cli(ASK)
    assert run.code == 2
    assert run.out == ""
    golden(f"goal-{name}", run.transcript())


@pytest.mark.parametrize("option", ["--gpu h100-sxm", "--own 8xh100-sxm", "--rate 3", "--workload train"])
def test_a_goal_excludes_what_it_does_not_use(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("goal.toml").write_text(EXAMPLE, encoding="utf-8")
    run = cli(f"{ASK} {option}")
    assert run.code == 2
    assert "--goal" in run.err


def test_a_missing_file_is_told(cli: Cli) -> None:
    run = cli(ASK.replace("goal.toml", "none.toml"))
    assert run.code == 2
    assert "no such file" in run.err
