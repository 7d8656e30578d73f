"""Memory snapshots of a step: their totals are those of the account, and PyTorch's own functions read them."""

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.decide.training.memory_over_step import MemoryAtTime, StepMemory
from advisor.render.memory_snapshot import snapshot_text

Cli = Callable[[str], Any]
PLANS: Final = (
    "--model 8b --gpus 8",
    "--model 70b --gpus 64 --tp 4 --pp 4",
    "--model 1b --gpus 1",
)
ROUNDING_BYTES: Final = 8
"""Each of five parts is rounded to whole bytes at both ends of a change."""


def totals_by_time(snapshot: Mapping[str, Any]) -> dict[int, int]:
    """Return the bytes that are allocated after the events of each instant [us], checking every event."""
    alive: dict[int, int] = {}
    requested: set[int] = set()
    found = {}
    for event in snapshot["device_traces"][0]:
        address = event["addr"]
        if event["action"] == "alloc":
            assert address not in alive
            assert event["size"] > 0
            alive[address] = event["size"]
        elif event["action"] == "free_requested":
            requested.add(address)
        else:
            assert event["action"] == "free_completed"
            requested.remove(address)
            assert alive.pop(address) == event["size"]
        found[event["time_us"]] = sum(alive.values())
    assert not requested
    kept = {segment["address"]: segment["total_size"] for segment in snapshot["segments"]}
    assert kept == alive
    return found


@pytest.fixture(scope="module", params=PLANS)
def snapshot_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from advisor.__main__ import main

    file = tmp_path_factory.mktemp("snapshot") / "memory.json"
    words = f"simulate train --gpu h100-sxm {request.param} --quiet --memory-snapshot {file}"
    assert main(words.split()) == 0
    return file


def test_events_pair_up_and_leave_the_states_and_buffers(snapshot_file: Path) -> None:
    snapshot = json.loads(snapshot_file.read_text(encoding="utf-8"))
    totals = totals_by_time(snapshot)
    assert list(totals) == sorted(totals)
    names = {segment["frames"][0]["name"] for segment in snapshot["segments"]}
    assert "activations" not in names
    assert {"weights", "optimizer"} <= names
    assert max(totals.values()) > totals[max(totals)]
    assert set(snapshot["about"]) == {"model", "accelerator", "plan"}


def test_pytorch_reads_the_record(snapshot_file: Path, tmp_path: Path) -> None:
    """PyTorch reads the JSON, and the pickle that its viewer opens."""
    viewer = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    file = tmp_path / "memory.pickle"
    file.write_bytes(pickle.dumps(json.loads(snapshot_file.read_text(encoding="utf-8"))))
    snapshot = pickle.loads(file.read_bytes())
    held = sum(segment["total_size"] for segment in snapshot["segments"])
    assert f"total_allocated: {viewer.Bytes(held)}" in viewer.segsum(snapshot)
    assert f"{len(snapshot['device_traces'][0])} entries" in viewer.trace(snapshot)
    flames = viewer.memory(snapshot, format_flamegraph=lambda lines: lines)
    assert "advisor:0:weights" in flames
    assert "Active Memory Timeline" in viewer.trace_plot(snapshot)


def test_totals_at_the_ends_of_passes_are_those_of_the_account() -> None:
    points = (
        MemoryAtTime(0.0, 100.0, 10.0, 30.5, 0.0, 5.0),
        MemoryAtTime(1.0, 100.0, 10.0, 30.5, 40.2, 9.0),
        MemoryAtTime(1.0, 100.0, 10.0, 30.5, 40.2, 0.0),
        MemoryAtTime(2.0, 100.0, 10.0, 30.5, 25.0, 12.0),
        MemoryAtTime(3.0, 100.0, 60.0, 30.5, 0.0, 1.0),
        MemoryAtTime(4.0, 100.0, 60.0, 30.5, 0.0, 1.0),
    )
    totals = totals_by_time(json.loads(snapshot_text(StepMemory(0, 1, 1, points), {})))
    expected = {round(1e6 * point.at_s): point.total_bytes for point in points[:-1]}
    assert totals == {at: pytest.approx(total, abs=ROUNDING_BYTES) for at, total in expected.items()}


def test_two_clusters_are_refused(cli: Cli, tmp_path: Path) -> None:
    run = cli(
        "advisor simulate train --model 8b --gpu h100-sxm --gpus 8 --beside 8xl40s --between-gbps 400 "
        f"--memory-snapshot {tmp_path / 'm.json'}"
    )
    assert run.code == 2
    assert "--memory-snapshot is of one cluster" in run.err
    assert list(tmp_path.iterdir()) == []
