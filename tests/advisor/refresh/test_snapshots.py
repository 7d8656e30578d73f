"""Snapshots of prices: what a team shares gives the same answers, and a changed or odd one keeps the old prices."""

import datetime
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.refresh.fetch import FetchLimits, open_fetcher
from advisor.refresh.price_lists import price_lists

Cli = Callable[[str], Any]
Server = Any
ONE_ATTEMPT = FetchLimits(attempts=1, least_gap_s=0.0)
REFRESH = "advisor catalog refresh"


@pytest.fixture(autouse=True)
def at_the_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.commands.catalog import refresh_run
    from advisor.refresh import snapshot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "mine"))
    monkeypatch.setattr("advisor.ask.options.today", lambda: datetime.date(2026, 11, 20))
    monkeypatch.setattr(refresh_run, "price_lists", functools.partial(price_lists, at=server.at))
    for module in (refresh_run, snapshot):
        monkeypatch.setattr(module, "open_fetcher", lambda: open_fetcher(ONE_ATTEMPT))


@pytest.fixture
def made(cli: Cli) -> dict[str, Any]:
    """A snapshot of two lists in the file team.json."""
    run = cli(f"{REFRESH} --source azure,vast --region eastus --write-snapshot team.json")
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(Path("team.json").read_text())
    return found


def rows(cli: Cli) -> list[dict[str, Any]]:
    told = json.loads(cli("advisor catalog prices --provider azure,vast --json").out)
    return [{name: each[name] for name in ("provider", "sku", "usd_per_hour")} for each in told["prices"]]


def test_a_snapshot_gives_a_colleague_the_same_prices(
    cli: Cli, made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = rows(cli)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "theirs"))
    assert rows(cli) != own
    told = json.loads(cli(f"{REFRESH} --snapshot team.json --digest {made['digest']} --offline --json").out)
    assert told["digest"] == made["digest"]
    assert rows(cli) == own
    again = cli(f"{REFRESH} --offline --write-snapshot again.json")
    assert again.code == 0, again.err
    assert json.loads(Path("again.json").read_text())["digest"] == made["digest"]


def test_a_snapshot_is_fetched_with_its_digest(cli: Cli, made: dict[str, Any], server: Server) -> None:
    server.serve_recording("/team.json", "azure-1.json")
    server.replies["/team.json"][0].body = Path("team.json").read_bytes()
    address = f"{server.origin}/team.json"
    assert cli(f"{REFRESH} --snapshot {address} --digest {made['digest']}").code == 0
    assert "over http" in cli(f"{REFRESH} --snapshot {address}").err
    assert "--offline forbids it" in cli(f"{REFRESH} --snapshot {address} --digest x --offline").err
    assert cli(f"{REFRESH} --snapshot {server.origin}/none.json --digest x").code == 2


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a changed price": lambda made: {
        **made,
        "lists": {name: text.replace(",3", ",4", 1) for name, text in made["lists"].items()},
    },
    "a changed digest": lambda made: {**made, "digest": "0" * 64},
    "another format": lambda made: {**made, "format": 2},
    "another kind": lambda made: {**made, "kind": "plan"},
    "a name that leads elsewhere": lambda made: {**made, "lists": {"../../x": "a"}, "digest": None},
    "no lists": lambda made: {**made, "lists": {}},
    "lists of numbers": lambda made: {**made, "lists": {"azure": 5}, "digest": None},
    "a list": lambda made: [made],
    "a row that is none": lambda made: {**made, "lists": {"azure": "provider\nx\n"}, "digest": None},
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_broken_snapshot_keeps_the_old_prices(
    cli: Cli, made: dict[str, Any], change: Callable[[dict[str, Any]], Any]
) -> None:
    before = rows(cli)
    Path("bad.json").write_text(json.dumps(change(made)))
    run = cli(f"{REFRESH} --snapshot bad.json")
    assert run.code == 2
    assert "bad.json" in run.err
    assert "To fix" in run.err
    assert rows(cli) == before
    assert cli(f"{REFRESH} --snapshot team.json --digest {'f' * 64}").code == 2
    assert rows(cli) == before


def test_what_does_not_go_together_is_refused(cli: Cli, made: dict[str, Any]) -> None:
    for options in ("--source azure", "--region eastus", "--accept"):
        assert cli(f"{REFRESH} --snapshot team.json {options}").code == 2
    assert cli(f"{REFRESH} --digest {made['digest']}").code == 2
    cli(f"{REFRESH} --clear")
    assert "no prices were refreshed" in cli(f"{REFRESH} --offline --write-snapshot none.json").err
    assert not Path("none.json").exists()
