"""Published collective results as questions: what the columns mean, and what must not reach a prediction."""

import csv
import os
from pathlib import Path

import pytest

from advisor.catalog.accelerators import by_id
from advisor.evidence.collectives.case import METRICS
from advisor.evidence.collectives.prediction import predict_row, predict_rows
from advisor.simulator.collectives.fabric_text import describe

SHARED = Path(os.environ.get("ADVISOR_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
TRUTH = SHARED / "truth" / "collectives.csv"
ROW = {
    "case_id": "a",
    "gpu": "h100-sxm",
    "n_gpus": "16",
    "nodes": "2",
    "fabric": "NVLink4 + EFA 32x100Gb/s",
    "nvls": "",
    "collective": "all_reduce",
    "msg_bytes": str(2**30),
}


@pytest.mark.parametrize(
    ("gpu", "fabric", "ranks", "nodes", "in_node", "port_gbit"),
    [
        ("h100-sxm", "NVLink4 + EFA 32x100Gb/s", 16, 2, 8, 400 * 0.96),
        ("a100-sxm-40gb", "NVLink3 + 4x HDR200", 24, 3, 8, 100),
        ("h100-sxm", "NVLink4 + IB NDR 8x400 SHARP/CollNet", 64, 8, 8, 400),
        ("gb300", "IB NDR inter-rack only 4x400Gb/s per node", 16, 4, 4, 400),
        ("gb10", "200Gb QSFP RoCE", 4, 4, 1, 200),
        ("gb200", "NVLink5 MNNVL + IB, 20 racks", 1440, 360, 72, 400),
        ("a100-sxm-40gb", "NVLink3 + RoCE 16x100Gb (SR-IOV)", 16, 2, 8, 200),
        ("h100-sxm", "NVLink4, InfiniBand NDR (8 x 400 Gb/s)", 16, 2, 8, 400),
        ("h100-sxm", "NVLink4 + 400G x8 RoCE", 16, 2, 8, 400),
        ("a100-sxm-80gb", "NVLink3 + 8x HDR IB", 32, 4, 8, 200),
        ("h100-sxm", "NVLink4 + EFA 3200 Gbps", 16, 2, 8, 400 * 0.96),
        ("h100-sxm", "NVLink4 + IB NDR", 16, 2, 8, 400),
        ("h100-sxm", "GPUDirect-TCPX 4x200Gbps", 16, 2, 8, 100),
        ("l40s", "PCIe Gen4 + 100GbE", 16, 2, 8, 12.5),
    ],
)
def test_networks_are_read_from_words(
    gpu: str, fabric: str, ranks: int, nodes: int, in_node: int, port_gbit: float
) -> None:
    topology, _ = describe(by_id(gpu), fabric, ranks, nodes)
    assert topology.ranks_in_node == in_node
    assert topology.inter_bytes_per_s * 8e-9 == pytest.approx(port_gbit)
    assert topology.network_reduction is ("SHARP" in fabric)


def test_what_the_text_says_of_the_node_is_heard() -> None:
    def place(gpu: str, fabric: str, nvls: str = "") -> object:
        return describe(by_id(gpu), fabric, 8, 1, nvls)[0]

    assert place("h200-sxm", "NVLink4 NVSwitch").in_network_reduction
    assert not place("h200-sxm", "NVLink4 Ring (NVLS off)").in_network_reduction
    assert not place("h200-sxm", "NVLink4 NVSwitch", "0").in_network_reduction
    assert place("rtx-4090", "PCIe Gen4, stock driver (no P2P)").fit_fabric == "pcie4-x16-host"
    assert place("rtx-4090", "PCIe Gen4, tinygrad P2P driver").fit_fabric == "pcie4-x16"


def test_slots_are_heard_too() -> None:
    assert describe(by_id("h100-pcie"), "PCIe Gen5", 2, 1)[0].intra_fabric == "pcie5-x16"
    assert describe(by_id("h100-pcie"), "NVLink bridge", 2, 1)[0].intra_fabric == "nvlink4-bridge"
    assert describe(by_id("rtx-4090"), "PCIe Gen3", 2, 1)[0].intra_fabric.startswith("pcie3-x16")


def test_missing_counts_are_assumed_aloud() -> None:
    answer = predict_row({**ROW, "n_gpus": "", "nodes": ""}, 2)
    assert (answer.status, answer.basis) == ("ok", "assumed")
    assert "ranks" in answer.reason
    assert predict_row(ROW, 2).basis == "modelled"


def test_a_peak_statement_gets_bandwidth_but_no_time() -> None:
    answer = predict_row({**ROW, "msg_bytes": ""}, 2)
    assert set(answer.metrics) == {"algbw_gbs", "busbw_gbs"}
    assert set(predict_row(ROW, 2).metrics) == set(METRICS)


def test_a_bad_row_does_not_stop_the_others() -> None:
    rows = [
        {**ROW, "msg_bytes": "-5"},
        {**ROW, "collective": "gossip"},
        {**ROW, "n_gpus": "many"},
        {**ROW, "nodes": "32"},
        {**ROW, "gpu": "h101"},
        {**ROW, "gpu": ""},
        {**ROW, "n_gpus": "1", "nodes": "1"},
        ROW,
    ]
    answers = predict_rows(rows)
    assert [answer.status for answer in answers] == ["error"] * 4 + ["unsupported"] * 3 + ["ok"]
    assert "row 2" in answers[0].reason
    assert all(answer.reason for answer in answers[:-1])


def test_expert_exchange_at_its_best_runs_links_like_an_all_to_all() -> None:
    # DeepEP README: 61 GB/s over four nodes of H100, 726 to 740 in one node of B200; local copies are counted.
    across = {**ROW, "collective": "ep_dispatch", "n_gpus": "32", "nodes": "4", "fabric": "NVLink + CX7 RDMA"}
    inside = {
        **ROW,
        "collective": "ep_combine",
        "gpu": "b200-sxm",
        "n_gpus": "8",
        "nodes": "1",
        "fabric": "NVLink",
    }
    assert predict_row(across, 2).metrics["busbw_gbs"].value == pytest.approx(61, rel=0.1)
    assert predict_row(inside, 2).metrics["busbw_gbs"].value == pytest.approx(735, rel=0.15)


@pytest.mark.skipif(not TRUTH.is_file(), reason="published measurements are not beside the repository")
def test_published_collectives_are_predicted_within_the_stated_error() -> None:
    with TRUTH.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "NOT A SINGLE" not in row["notes"]]
    errors = []
    held = []
    blind = [{**row, **dict.fromkeys((*METRICS, "notes", "source", "source_ref"), "")} for row in rows]
    for row, answer in zip(rows, predict_rows(blind), strict=True):
        metric = "time_us" if row["time_us"] and row["msg_bytes"] else "busbw_gbs"
        if answer.status != "ok" or float(row["msg_bytes"] or 2**33) <= 65536 or not row[metric]:
            continue
        quantity = answer.metrics[metric]
        measured = float(row[metric])
        errors.append(abs(quantity.value / measured - 1))
        held.append(quantity.low <= measured <= quantity.high)
    assert len(errors) > 300
    assert sorted(errors)[len(errors) // 2] < 0.06
    assert 0.72 < sum(held) / len(held) < 0.95
