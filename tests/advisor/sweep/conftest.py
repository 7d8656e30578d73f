"""Sweeps as a person runs them: programs of their own, which can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0

DAY = "2026-11-20"
"""The day on which the tests ask, also in programs of their own."""


def wait_until(happened: Callable[[], object]) -> None:
    """Look again and again, for a minute at most."""
    end_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end_s, "it did not happen within a minute"
        time.sleep(0.01)


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Children heed SIGINT as in a terminal, though a shell that started the suite in the background ignores it.

    A program begins with signals ignored that its parent ignores, and with the default for those that it handles.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Programs:
    """Starts programs of this checkout in a folder and ends them when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.wait_until = wait_until

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A Python program: `-m module options`."""
        with heeding_interrupts():
            program = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.running.append(program)
        return program

    def sweep(self, *options: str) -> subprocess.Popen[str]:
        return self.start("-m", "advisor", "sweep", "study.toml", "--as-of", DAY, *options)

    def num_finished(self, output: str) -> int:
        """Whole rows in the journal of an output."""
        journal = self.folder / f"{output}.journal"
        return journal.read_text().count('"id"') if journal.exists() else 0

    def end(self) -> None:
        for program in self.running:
            if program.poll() is None:
                program.kill()
            program.communicate()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    found = Programs(tmp_path)
    yield found
    found.end()


@pytest.fixture
def dask_cluster(
    programs: Programs, tmp_path: Path
) -> Callable[[int], tuple[str, list[subprocess.Popen[str]]]]:
    """A real scheduler and workers on loopback; without nannies, so that a dead worker stays dead."""
    pytest.importorskip("distributed", reason="the extra sweep is not installed")

    def start(num_workers: int) -> tuple[str, list[subprocess.Popen[str]]]:
        file = tmp_path / "scheduler.json"
        programs.start(
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(file),
        )
        wait_until(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        address = json.loads(file.read_text())["address"]
        workers = [
            programs.start(
                "-m",
                "distributed.cli.dask_worker",
                address,
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
            )
            for _ in range(num_workers)
        ]
        return address, workers

    return start
