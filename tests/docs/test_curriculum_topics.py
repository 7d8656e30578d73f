"""Commands of the table of topics run as they stand, and each topic has a command or says that it is described."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "curriculum.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Topics")[2].partition("\n## ")[0]
ROWS = [
    line.split("|") for line in TABLE.splitlines() if line.startswith("| ") and "topic | command" not in line
]
COMMANDS = tuple(dict.fromkeys(re.findall(r"`(advisor [^`]+)`", TABLE)))
LEAST_BY_COMMAND = 36


@pytest.mark.parametrize("command", [each for each in COMMANDS if "FILE" not in each and "probe" not in each])
def test_a_command_of_the_table_runs(
    cli: Callable[[str], Any], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = cli(f"{command} --quiet --as-of 2026-11-20")
    assert run.code == 0, run.err
    assert run.out.strip()


def test_most_topics_have_a_command() -> None:
    by_command = [row for row in ROWS if "✓" in row[3]]
    assert len(by_command) >= LEAST_BY_COMMAND
    assert all("described" in row[3] for row in ROWS if row not in by_command)
