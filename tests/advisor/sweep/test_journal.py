"""The journal: what is written stays, whatever ends the sweep."""

from pathlib import Path

import pytest

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.sweep.journal import Header, Journal, read_journal

HEADER = Header("simulate serve", "1", "abc", "2026-11-20", 0)


def test_rows_come_back_in_any_later_process(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok", "x": 1.5, "word": "µ"})
    with Journal(path, HEADER, keep=True) as journal:
        journal.add("b", {"status": "ok", "x": 2})
        journal.complete()
    header, kept = read_journal(path)
    assert header == HEADER
    assert kept.rows == {"a": {"status": "ok", "x": 1.5, "word": "µ"}, "b": {"status": "ok", "x": 2}}
    assert kept.complete


def test_a_torn_line_costs_only_its_point(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok", "x": 1})
        journal.add("b", {"status": "ok", "x": 2})
    path.write_bytes(path.read_bytes()[:-9])
    _, kept = read_journal(path)
    assert kept.rows == {"a": {"status": "ok", "x": 1}}
    assert kept.damaged_lines == (3,)
    with Journal(path, HEADER, keep=True) as journal:
        journal.add("b", {"status": "ok", "x": 2})
    _, kept = read_journal(path)
    assert kept.rows == {"a": {"status": "ok", "x": 1}, "b": {"status": "ok", "x": 2}}


def test_the_first_row_of_a_point_counts(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.journal"
    with Journal(path, HEADER, keep=False) as journal:
        journal.add("a", {"status": "ok", "x": 1})
        journal.add("a", {"status": "ok", "x": 2})
    assert read_journal(path)[1].rows == {"a": {"status": "ok", "x": 1}}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.journal"
    with Journal(path, HEADER, keep=False) as first:
        first.add("a", {"status": "ok"})
        with pytest.raises(AdvisorError, match="another sweep"):
            Journal(path, HEADER, keep=False)
    assert read_journal(path)[1].rows == {"a": {"status": "ok"}}


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.journal"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputFileError, match="line 1"):
        read_journal(path)
    assert read_journal(tmp_path / "none")[0] is None
