"""`advisor catalog refresh`: its answer, what other commands then use, and what a mistake gets."""

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


@pytest.fixture(autouse=True)
def at_the_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command asks the local server, keeps in a folder of the test, and takes a fixed day for today."""
    from advisor.commands.catalog import refresh_run

    day = datetime.date(2026, 11, 20)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("advisor.ask.options.today", lambda: day)
    monkeypatch.setattr(refresh_run, "price_lists", functools.partial(price_lists, at=server.at))
    monkeypatch.setattr(refresh_run, "open_fetcher", lambda: open_fetcher(ONE_ATTEMPT))


def test_the_answer_names_every_list_and_every_refused_row(cli: Cli) -> None:
    found = cli("advisor catalog refresh --source azure,vast --region eastus --json").document()
    assert [(one["name"], one["status"]) for one in found["lists"]] == [
        ("azure-eastus", "refreshed"),
        ("vast", "refreshed"),
    ]
    assert {row["sku"] for row in found["lists"][0]["refused"]} == {
        "Standard_NC96ads_A100_v4",
        "Standard_NC40ads_H100_v5",
        "Standard_NC80adis_H100_v5",
    }
    shown = cli("advisor catalog refresh --source azure --region eastus")
    assert "more than" not in shown.err
    assert "price 0 is not positive" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100


def medians(answer: str) -> list[dict[str, Any]]:
    """Of Vast's rows: the market's, not its cheapest host's."""
    return [price for price in json.loads(answer)["prices"] if price["sku"] == "rtx-4090-median"]


def test_refreshed_prices_count_everywhere_and_user_files_win(cli: Cli, tmp_path: Path) -> None:
    before = cli("advisor catalog prices --gpu rtx-4090 --provider vast --json")
    assert cli("advisor catalog refresh --source vast").code == 0
    after = cli("advisor catalog prices --gpu rtx-4090 --provider vast --json")
    assert [p["usd_per_hour"] for p in medians(before.out)] == [0.4]
    (price,) = medians(after.out)
    assert (price["usd_per_hour"], price["age_days"]) == (0.425, 0)
    own = tmp_path / "own.csv"
    own.write_text(
        "provider,sku,region,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
        "vast,rtx-4090-median,any,rtx-4090,1,on_demand,0.3,2026-11-19\n"
    )
    shown = cli(f"advisor catalog prices --gpu rtx-4090 --provider vast --price-file {own} --json")
    (mine,) = medians(shown.out)
    assert mine["usd_per_hour"] == 0.3


def test_recommend_uses_them_and_says_their_date(cli: Cli) -> None:
    command = (
        "advisor recommend --model llama-3.1-8b --workload serve --gpu rtx-4090 --provider vast "
        "--tenancy unknown --rate 1/s"
    )
    stale = cli(f"{command} --json")
    assert json.loads(stale.out)["options"][0]["offer"]["observed_on"] == "2026-06-11"
    assert "older than 30 days" in stale.err
    cli("advisor catalog refresh --source vast")
    fresh = cli(f"{command} --offline --json")
    offer = json.loads(fresh.out)["options"][0]["offer"]
    assert offer["observed_on"] == "2026-11-20"
    assert offer["url"].endswith("/bundles/")
    assert "the newest was read on 2026-11-20" in fresh.err
    assert "older than 30 days" not in fresh.err
    assert cli("advisor catalog refresh --clear").code == 0
    assert json.loads(cli(f"{command} --json").out)["options"] == json.loads(stale.out)["options"]


def test_a_failing_list_warns_and_all_failing_is_an_error(cli: Cli, server: Server) -> None:
    server.replies.pop("/api/v0/bundles/")
    run = cli("advisor catalog refresh --source azure,vast --region eastus")
    assert run.code == 0
    assert "warning: vast was not refreshed: HTTP 404; its old prices stay" in run.err
    run = cli("advisor catalog refresh --source vast")
    assert run.code == 6
    assert "vast: HTTP 404" in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--offline", "--offline forbids it"),
        ("--source vats", "unknown source of prices 'vats'"),
        ("--as-of 2026-01-01", "cannot fetch the prices of 2026-01-01"),
    ],
)
def test_mistakes(cli: Cli, options: str, told: str) -> None:
    run = cli(f"advisor catalog refresh {options}")
    assert run.code == 2
    assert told in run.err


def test_damaged_refreshed_prices_are_told_with_the_way_out(cli: Cli, tmp_path: Path) -> None:
    cli("advisor catalog refresh --source vast")
    (tmp_path / "cache" / "prices" / "vast.csv").write_text("provider,sku\nvast,x\n")
    run = cli("advisor recommend --model llama-3.1-8b --workload serve --gpu rtx-4090")
    assert run.code == 2
    assert "refresh --clear" in run.err
    assert cli("advisor catalog refresh --clear").code == 0


def test_a_rehearsal_keeps_nothing(cli: Cli, tmp_path: Path) -> None:
    run = cli("advisor catalog refresh --source vast --dry-run")
    assert run.code == 0
    assert "would be refreshed" in run.out
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "file"))
    run = cli("advisor catalog refresh --source vast")
    assert run.code == 2
    assert "ADVISOR_CACHE_DIR" in run.err
