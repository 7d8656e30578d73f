"""`advisor validate nccl-tests`: is my bus bandwidth normal? And networks in words for `simulate collective`."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
HEADER = "\n".join(f"#  Rank {i} Group 0 Pid 1 on node-0 device {i} [0x18] NVIDIA H200" for i in range(8))
SLOW = "8589934592 2147483648 float sum -1 41118 208.9 365.6 0 41100 209.0 365.8 N/A"
FINE = "8589934592 2147483648 float sum -1 31800 270.1 472.7 0 31750 270.5 473.4 N/A"


def write_pasted(folder: Path, *rows: str) -> Path:
    file = folder / "out.txt"
    file.write_text("\n".join((HEADER, *rows)))
    return file


def test_a_slow_run_is_explained(cli: Cli, tmp_path: Path) -> None:
    file = write_pasted(tmp_path, SLOW)
    run = cli(f"advisor validate nccl-tests {file}")
    assert run.code == 0
    assert "slower than expected" in run.out
    assert "sums in the switch are off" in run.out
    found = json.loads(cli(f"advisor validate nccl-tests {file} --json").out)
    assert found["verdict"] == "slow"
    assert found["accelerator"] == "h200-sxm"
    band = found["sizes"][0]["expected_bus_bytes_per_s"]
    assert found["sizes"][0]["measured_bus_bytes_per_s"] < band["low"]


def test_a_normal_run_is_normal_and_may_come_through_a_pipe(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is as expected" in cli(f"advisor validate nccl-tests {write_pasted(tmp_path, FINE)}").out
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{HEADER}\n{FINE}\n"))
    assert "is as expected" in cli("advisor validate nccl-tests -").out


def test_the_network_can_be_said(cli: Cli, tmp_path: Path) -> None:
    header = "\n".join(
        f"#  Rank {i} Group 0 Pid 1 on node-{i // 8} device {i % 8} [0x18] NVIDIA H100 80GB HBM3"
        for i in range(16)
    )
    file = tmp_path / "out.txt"
    file.write_text(
        f"{header}\n1073741824 268435456 float none -1 9000 119.3 111.8 0 9000 119.3 111.8 0\nalltoall_perf"
    )
    fast, slow = (
        json.loads(cli(f"advisor validate nccl-tests {file} --gpu h100 --network '{text}' --json").out)
        for text in ("RoCE 8x400Gb", "Ethernet 8x100Gb")
    )
    bands = [found["sizes"][0]["expected_bus_bytes_per_s"]["value"] for found in (fast, slow)]
    assert bands[0] > 2 * bands[1]


@pytest.mark.parametrize("text", ["", "hello", "#  Rank 0 Group 0"])
def test_what_is_no_output_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "out.txt"
    file.write_text(text)
    run = cli(f"advisor validate nccl-tests {file}")
    assert run.code == 2
    assert "To fix" in run.err


def test_collectives_take_networks_in_words_and_oversubscribed_trees(cli: Cli) -> None:
    def seconds(options: str) -> float:
        found = json.loads(cli(f"advisor simulate collective --gpu h200 --json {options}").out)
        return float(found["time_s"]["value"])

    many = "--op all_to_all --gpus 512"
    assert seconds(f"{many} --oversubscription 4") > 1.5 * seconds(many)
    assert seconds("--gpus 16 --nodes 2 --network 'EFA 16x200Gb'") != seconds("--gpus 16 --nodes 2")
    assert cli("advisor simulate collective --oversubscription 0.5").code == 2
