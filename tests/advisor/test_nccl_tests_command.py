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


@pytest.mark.parametrize(
    "said", ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree", "NCCL_ALGO=^NVLS", "NCCL_NVLS_ENABLE=0"]
)
def test_a_run_without_sums_in_the_switch_that_its_command_turns_off_is_normal(
    cli: Cli, tmp_path: Path, said: str
) -> None:
    file = write_pasted(tmp_path, SLOW)
    file.write_text(f"mpirun -np 8 -x {said} ./all_reduce_perf -b 8M -e 8G\n{file.read_text()}")
    run = cli(f"advisor validate nccl-tests {file}")
    assert "is as expected" in run.out
    assert f"the text sets {said}" in run.err


def test_variables_that_leave_the_sums_on_change_nothing(cli: Cli, tmp_path: Path) -> None:
    file = write_pasted(tmp_path, SLOW)
    file.write_text(f"NCCL_ALGO=NVLS NCCL_DEBUG=WARN ./all_reduce_perf\n{file.read_text()}")
    assert "slower than expected" in cli(f"advisor validate nccl-tests {file}").out


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


@pytest.mark.parametrize("op", ["all_reduce", "all_to_all", "send_recv"])
@pytest.mark.parametrize("gpus", [8, 256, 512])
def test_an_oversubscription_changes_the_time_or_a_note_says_why_not(cli: Cli, op: str, gpus: int) -> None:
    asked = f"advisor simulate collective --gpu h200 --op {op} --gpus {gpus}"
    plain, typed = (cli(f"{asked} {more} --json") for more in ("", "--oversubscription 4"))
    is_idle = json.loads(typed.out)["time_s"] == json.loads(plain.out)["time_s"]
    assert is_idle == ("--oversubscription 4 changes nothing" in typed.err)


def two_nodes(rate: float, device: str = "NVIDIA GB10") -> str:
    ranks = "\n".join(
        f"#  Rank {i} Group 0 Pid 1 on spark-{i} device 0 [000f:01:00] {device}" for i in range(2)
    )
    time_us = 17179869184 / (2 * rate * 1e3)
    timing = f"{time_us:.0f} {2 * rate:.2f} {rate:.2f} 0"
    row = f"17179869184 2147483648 float none -1 {timing} {timing}"
    return f"# Collective test starting: all_gather_perf\n{ranks}\n{row}\n"


def test_sockets_instead_of_rdma_are_named(cli: Cli, tmp_path: Path) -> None:
    """Two DGX Sparks: 3 GB/s over the wrong interface, 20 GB/s at best."""
    file = tmp_path / "out.txt"
    file.write_text(two_nodes(3.0))
    assert "sockets" in cli(f"advisor validate nccl-tests {file}").out
    file.write_text(two_nodes(24.0))
    assert "sockets" not in cli(f"advisor validate nccl-tests {file}").out


@pytest.mark.parametrize(("gpu", "ranks", "nodes"), [("h100-sxm", 32, 4), ("mi300x", 8, 1)])
def test_a_table_without_its_header_is_of_as_few_nodes_as_the_fabric_allows(
    cli: Cli, tmp_path: Path, gpu: str, ranks: int, nodes: int
) -> None:
    """The ratio of the rates alone tells the ranks: 2 (n - 1) / n in an all-reduce."""
    ratio = 2 * (ranks - 1) / ranks
    timing = f"10000 {1717.987 / ratio / 10:.3f} {1717.987 / 10:.3f} 0"
    file = tmp_path / "out.txt"
    file.write_text(f"# all_reduce_perf\n1717986918 429496729 float sum -1 {timing} {timing}\n")
    done = cli(f"advisor validate file {file} --gpu {gpu}")
    assert f"on {ranks} x {gpu}" in done.out
    assert (f"{nodes} nodes are taken" in done.err) == (nodes > 1)


def test_the_network_that_is_expected_is_said(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text(two_nodes(20.0))
    assert (
        "network between nodes: 200 Gb/s for each accelerator"
        in cli(f"advisor validate nccl-tests {file}").err
    )
    assert (
        "network between nodes" not in cli(f'advisor validate nccl-tests {file} --network "RoCE 1x100Gb"').err
    )


@pytest.mark.parametrize(
    ("gpu", "rate", "is_stated"),
    [("h100-sxm", 50e9, True), ("h20", 12.5e9, False), ("gh200-96gb", 50e9, False)],
)
def test_a_collective_over_nodes_says_its_network_and_whether_it_is_assumed(
    cli: Cli, gpu: str, rate: float, is_stated: bool
) -> None:
    found = json.loads(cli(f"advisor simulate collective --gpu {gpu} --gpus 16 --nodes 2 --json").out)[
        "network"
    ]
    assert (found["bytes_per_s"], found["is_stated"]) == (rate, is_stated)
    assert found["source"]
    alone = json.loads(cli(f"advisor simulate collective --gpu {gpu} --gpus 2 --nodes 1 --json").out)
    assert alone["network"] is None
