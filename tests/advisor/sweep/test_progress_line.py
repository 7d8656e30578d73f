"""Progress line of a running sweep: how far, and how long it will still take."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.commands.sweep import run as sweep_run


def test_progress_counts_points_and_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Line:
        def __call__(self, message: str) -> None:
            told.append(message)

        def clear(self) -> None:
            pass

    @contextmanager
    def listening(*, quiet: bool) -> Iterator[Any]:
        yield Line()

    monkeypatch.setattr(sweep_run, "progress", listening)
    study = tmp_path / "study.toml"
    study.write_text(
        'command = "simulate collective"\n[grid]\ngpus = [2, 4, 8]\nbytes = ["1MiB", "1GiB"]\n',
        encoding="utf-8",
    )
    assert main(["sweep", str(study), "--workers", "1", "-o", str(tmp_path / "r.csv")]) == 0
    assert [message.split(",")[0] for message in told] == [f"{n} of 6 points" for n in range(1, 7)]
    assert all(message.endswith(" left") for message in told)
    assert told[-1].endswith(", 0 µs left")
