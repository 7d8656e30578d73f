"""Workers that die, here and on a cluster: the result is complete and without doubles."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.sweep.execution import Workers, outcomes
from advisor.sweep.points import SweepPoint

pytest.importorskip("joblib", reason="the extra sweep is not installed")

STUDY = """
command = "simulate serve"
[base]
model = "8b"
requests = {requests}
[grid]
gpu = ["h100", "l40s"]
rate = {rates}
"""
MANY = STUDY.format(requests=2000, rates=list(range(1, 13)))


def survey(ask: Callable[[Any], Any], count: int = 12) -> list[tuple[str, Any]]:
    points = [SweepPoint(f"p{number}", {"number": number}) for number in range(count)]
    return list(outcomes(ask, points, Workers(2)))


def test_what_a_dead_process_had_in_hand_is_asked_again(tmp_path: Path) -> None:
    marker = str(tmp_path / "died")

    def ask(options: Any) -> dict[str, Any]:
        if options["number"] == 5 and not os.path.exists(marker):  # noqa: PTH110 (runs in another process)
            open(marker, "w").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        return {"square": options["number"] ** 2}

    found = survey(ask)
    assert len(found) == 12
    assert dict(found) == {f"p{n}": {"square": n * n} for n in range(12)}
    assert os.path.exists(marker)  # noqa: PTH110


def test_a_point_that_always_kills_its_worker_is_told_and_the_others_survive() -> None:
    def ask(options: Any) -> dict[str, Any]:
        if options["number"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"status": "ok"}

    found = survey(ask)
    assert len(found) == 12
    rows = dict(found)
    assert rows.pop("p3")["status"] == "failed"
    assert all(row == {"status": "ok"} for row in rows.values())


def test_a_cluster_that_loses_a_worker_half_way_finishes_without_doubles(
    programs: Any, dask_cluster: Any, tmp_path: Path
) -> None:
    """The file is the one that one process gives."""
    (tmp_path / "study.toml").write_text(MANY)
    address, workers = dask_cluster(2)
    program = programs.sweep("--cluster", address, "-o", "r.csv")
    programs.wait_until(lambda: programs.num_finished("r.csv") >= 4 or program.poll() is not None)
    assert programs.num_finished("r.csv") < 20, "the worker must die half-way"
    workers[0].kill()
    assert program.wait(60) == 0, program.stderr.read()
    lines = (tmp_path / "r.csv").read_text().splitlines()[1:]
    ids = [line.split(",")[0] for line in lines]
    assert len(ids) == len(set(ids)) == 24
    assert all(",ok," in line for line in lines)
    assert programs.num_finished("r.csv") == 24
    here = programs.sweep("--workers", "1", "-o", "here.csv")
    assert here.wait(60) == 0
    assert (tmp_path / "r.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_a_cluster_that_does_not_answer_is_told_with_its_own_exit_code(programs: Any, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra sweep is not installed")
    (tmp_path / "study.toml").write_text(STUDY.format(requests=50, rates=[1, 2]))
    program = programs.sweep("--cluster", "tcp://127.0.0.1:9", "-o", "r.csv")
    assert program.wait(60) == 6
    told = program.stderr.read()
    assert "no cluster answers at tcp://127.0.0.1:9" in told
    assert "Traceback" not in told
    assert not (tmp_path / "r.csv").exists()


def test_a_cluster_that_goes_away_keeps_what_is_finished(
    programs: Any, dask_cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(MANY.replace("requests = 2000", "requests = 15000"))
    address, _ = dask_cluster(1)
    program = programs.sweep("--cluster", address, "-o", "r.csv")
    programs.wait_until(lambda: programs.num_finished("r.csv") >= 2 or program.poll() is not None)
    programs.running[0].kill()  # the scheduler
    assert program.wait(60) == 6
    told = program.stderr.read()
    assert "the cluster stopped answering" in told
    assert "--resume" in told
    assert "Traceback" not in told
    assert 2 <= programs.num_finished("r.csv") < 24
