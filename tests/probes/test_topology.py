"""Links as the drivers' tools print them, and as they are read."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.accelerators import by_id
from advisor.commands.probe.view import blocks_of
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.probes.fabric import fast_groups, linked_pairs
from advisor.probes.identity_rules import check_nvlink
from advisor.probes.record import Gpu, Measurement, ProbedMachine
from advisor.probes.topology import parse, picture
from advisor.render.answer import Figure

NVIDIA = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tSYS\tPXB\tSYS\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV12\tSYS\tPXB\t32-63,96-127\t1\t\tN/A
GPU3\tSYS\tSYS\tNV12\t X \tSYS\tPXB\t32-63,96-127\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tPXB\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
AMD = """\
================================ Weight between two GPUs =================================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
"""


def test_bridged_pairs_under_two_processors():
    found = parse(NVIDIA)
    assert found.nvlinked_pairs() == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert found.numa_nodes == ("0", "0", "1", "1")
    drawn = picture(found, {(0, 1): 250e9, (2, 3): 251e9, (0, 2): 20e9})
    assert (
        drawn
        == """\
NUMA node 0, CPUs 0-31,64-95
  ├─ GPU0 ── NIC0 (mlx5_0) PXB
  └─ GPU1 ── NIC0 (mlx5_0) PXB
NUMA node 1, CPUs 32-63,96-127
  ├─ GPU2 ── NIC1 (mlx5_1) PXB
  └─ GPU3 ── NIC1 (mlx5_1) PXB
NV12: 0-1 2-3, 250 to 251 GB/s
SYS: 0-2 0-3 1-2 1-3, 20 to 20 GB/s"""
    )


def test_amd_links():
    found = parse(AMD)
    assert found.nvlinked_pairs() == {(0, 1), (1, 0)}
    assert found.numa_nodes == ("0", "1")
    assert picture(found).endswith("XGMI: all GPUs with each other")


@pytest.mark.parametrize("text", ["", "No devices were found", NVIDIA[:220], AMD[:300]])
def test_what_cannot_be_read_is_no_topology(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    ("rates", "groups"),
    [
        (
            {(0, 1): 250.0, (2, 3): 250.0, (0, 2): 20.0, (0, 3): 20.0, (1, 2): 20.0, (1, 3): 20.0},
            ((0, 1), (2, 3)),
        ),
        ({(0, 1): 387.0, (0, 2): 380.0, (1, 2): 385.0}, ((0, 1, 2),)),
        ({}, ()),
    ],
)
def test_fast_groups(rates, groups):
    assert fast_groups(rates) == groups


def test_bridges_are_found_among_the_gpus_that_were_measured():
    board = by_id("rtx-a6000")
    machine = ProbedMachine(gpus=tuple(Gpu(index=i) for i in (1, 2, 3)), topology=parse(NVIDIA))
    assert linked_pairs([], board, machine) == {(1, 2), (2, 1)}
    untold = machine.model_copy(update={"topology": None})
    copies = [
        Measurement(
            id="peer.copy", pattern=f"2 GPUs, {i} to {j} of 3, peer access", value=rate, unit="bytes/s"
        )
        for i, j, rate in [(0, 1, 20e9), (0, 2, 19e9), (1, 2, 48e9), (1, 0, 20e9), (2, 1, 48e9), (2, 0, 19e9)]
    ]
    assert linked_pairs(copies, board, untold) == {(1, 2), (2, 1)}


def test_links_are_counted_by_the_matrix_where_the_driver_tells_none():
    text = NVIDIA.replace("SYS", "NV18").replace("NV12", "NV18")
    switched = ProbedMachine(gpus=tuple(Gpu(index=i) for i in range(4)), topology=parse(text))
    assert {m.status for m in check_nvlink(switched, by_id("h100-sxm"))} == {"pass"}
    halved = switched.model_copy(update={"topology": parse(text.replace("NV18", "NV9"))})
    assert {m.status for m in check_nvlink(halved, by_id("h100-sxm"))} == {"fail"}


def test_the_report_draws_it_and_the_calibration_knows_the_fast_pairs(recording):
    machine = recording.machine.model_copy(update={"topology": parse(NVIDIA)})
    drawn = [block for block in blocks_of(replace(recording, machine=machine)) if isinstance(block, Figure)]
    assert "NUMA node 1" in drawn[-1].text
    found = calibration_of(read_probe(Path("h200-sxm-x4")))
    assert found.fast_groups == ((0, 1, 2, 3),)
    assert found.pair_bytes_per_s["0-3"] > 3.7e11
