"""Sweeps that are begun once and end once: what they were begun with, torn journals, values without a number."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.sweep.cluster import _check_versions
from advisor.sweep.journal import UNKNOWN, Header, Journal, read_journal
from advisor.sweep.table import read_table, with_numbers

STUDY = 'command = "simulate collective"\n[base]\ngpu = "h100"\n[grid]\nbytes = ["1MiB", "2MiB", "4MiB"]\n'
PRICES = (
    "provider,sku,region,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
    "vast,x,any,h100-sxm,1,on_demand,{},2026-01-01\n"
)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of a sweep whose last point is still missing, with refreshed prices."""
    cache = tmp_path / "cache"
    (cache / "prices").mkdir(parents=True)
    (cache / "prices" / "vast.csv").write_text(PRICES.format(2))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(cache))
    (tmp_path / "s.toml").write_text(STUDY)
    words = ["sweep", str(tmp_path / "s.toml"), "-o", str(tmp_path / "r.csv"), "--workers", "1", "-q"]
    assert main(words) == 0
    journal = tmp_path / "r.csv.journal"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    return words


def test_another_price_snapshot_is_named_and_the_old_one_can_be_pinned(
    begun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache" / "prices" / "vast.csv").write_text(PRICES.format(3))
    assert main([*begun, "--resume"]) == 2
    told = capsys.readouterr().err
    assert "another snapshot of refreshed prices" in told
    pinned = tmp_path / "r.csv.journal.prices"
    assert f"ADVISOR_CACHE_DIR={pinned} advisor sweep" in told
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(pinned))
    assert main([*begun, "--resume"]) == 0
    assert len(read_table(tmp_path / "r.csv")) == 3


def test_another_calibration_is_named(
    begun: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "r.csv.journal"
    lines = journal.read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"calibration": "abc", "calibration_file": "my cal.json"})
    journal.write_text("\n".join(lines) + "\n")
    assert main([*begun, "--resume"]) == 2
    told = capsys.readouterr().err
    assert "another calibration" in told
    assert "--calibration 'my cal.json'" in told


def test_a_journal_of_the_last_release_is_read(
    begun: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "r.csv.journal"
    lines = journal.read_text().splitlines()
    old = {
        name: value for name, value in json.loads(lines[0]).items() if not name.startswith(("prices", "cal"))
    }
    journal.write_text("\n".join([json.dumps(old), *lines[1:]]) + "\n")
    header, kept = read_journal(journal)
    assert header is not None
    assert header.prices == UNKNOWN
    assert len(kept.rows) == 2
    assert main([*begun, "--resume"]) == 0
    assert "does not say with which calibration" in capsys.readouterr().err


@pytest.mark.parametrize("torn", [b"", b"\0" * 4096, b'{"jour', b'{"journal": 1, "comm', b"\n"])
def test_a_journal_torn_at_its_beginning_is_told_and_begun_anew(
    begun: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], torn: bytes
) -> None:
    (tmp_path / "r.csv.journal").write_bytes(torn)
    assert main([*begun, "--resume"]) == 0
    assert "cut off before its first line was complete" in capsys.readouterr().err
    assert len(read_table(tmp_path / "r.csv")) == 3


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "7",
        '"complete"',
        '{"id": 1}',
        '{"id": "a", "row": 7}',
        "[" * 100_000,
        "9" * 5000,
        "\0" * 99,
        '{"id": "a", "row": {"x": NaN}}',
    ],
)
def test_a_torn_line_costs_only_its_point(begun: list[str], tmp_path: Path, line: str) -> None:
    journal = tmp_path / "r.csv.journal"
    journal.write_text(journal.read_text() + line + "\n")
    assert read_journal(journal)[1].damaged_lines == (4,)
    assert main([*begun, "--resume"]) == 0


def test_rows_may_hold_any_text(tmp_path: Path) -> None:
    header = Header("c", "1", "2", "2026-01-01", 0)
    path = tmp_path / "j"
    with Journal(path, header, keep=False) as journal:
        journal.add("a", {"status": "error", "reason": "x\u2028y\x85z\x0c"})
    assert read_journal(path)[1].rows == {"a": {"status": "error", "reason": "x\u2028y\x85z\x0c"}}


@pytest.mark.parametrize(
    "values", ["[1.0, inf]", "[nan]", "[-inf]", '["1MiB", inf]', "[1e400]", "[" + "9" * 5000 + "]"]
)
def test_values_that_are_no_number_are_refused_before_the_first_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: str
) -> None:
    (tmp_path / "s.toml").write_text(
        f'command = "simulate collective"\n[base]\ngpu = "h100"\n[grid]\nbytes = {values}\n'
    )
    assert main(["sweep", str(tmp_path / "s.toml"), "-o", str(tmp_path / "r.csv"), "-q"]) == 2
    assert "internal" not in capsys.readouterr().err
    assert not (tmp_path / "r.csv.journal").exists()


def test_text_that_reads_as_infinity_is_delivered_as_text(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY.replace('"4MiB"', '"inf", "nan", "1e999"'))
    output = tmp_path / "r.csv"
    assert main(["sweep", str(tmp_path / "s.toml"), "-o", str(output), "--workers", "1", "-q", "--json"]) == 0
    assert {row["in_bytes"] for row in read_table(output)} >= {"inf", "nan", "1e999"}
    assert with_numbers([{"in_x": "inf"}, {"in_x": "1"}]) == [{"in_x": "inf"}, {"in_x": "1"}]
    assert main(["sweep", str(output), "--pareto", "min time_s_value"]) in (0, 2)


@pytest.mark.parametrize("seed", ["-1", "1.5", "true", '"x"', "9" * 30])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, seed: str) -> None:
    (tmp_path / "s.toml").write_text(STUDY.replace("[grid]", f"[random]\npoints = 2\nseed = {seed}"))
    assert main(["sweep", str(tmp_path / "s.toml"), "-o", str(tmp_path / "r.csv"), "-q"]) == 2


def test_workers_with_other_prices_are_refused() -> None:
    from advisor.catalog.errors import MissingHardwareError

    found: dict[str, Any] = {"tcp://a": ("1", "c", "p1")}
    _check_versions(found, ("1", "c", "p1"), "x")
    with pytest.raises(MissingHardwareError) as told:
        _check_versions(found, ("1", "c", ""), "x")
    assert "bundled prices" in told.value.why
