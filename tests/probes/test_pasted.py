"""`advisor probe read`: pasted reports of one machine in the layouts of their programs, and edits that must not pass.

The texts in `pasted/` are composed: eight H100s with figures that others published for such a node.
"""

import csv
import json
import re
from pathlib import Path

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.units import MIB
from advisor.probes.machine import accelerator_of
from advisor.probes.pasted import assess_proof, read_proof

FILES = {
    name: f"{name}.txt" for name in ("nvidia_smi_q", "topo", "nvbandwidth", "nccl_tests", "dcgmi", "ibstat")
}
PASTED = Path(__file__).parent / "pasted"
FULL = "nvidia_smi_q topo nvbandwidth nccl_tests dcgmi"


@pytest.fixture
def read(cli, tmp_path):
    """Judge the pasted texts of these names after edits `name: (pattern, replacement)`."""

    def judge(names=FULL, order="8xh100-sxm", more="", **edits):
        paths = []
        for name in names.split():
            text = (PASTED / FILES[name]).read_text()
            if name in edits:
                pattern, replacement, *count = edits[name]
                changed = re.sub(pattern, replacement, text, count=count[0] if count else 0)
                assert changed != text, f"{pattern} is not in {name}"
                text = changed
            path = tmp_path / FILES[name]
            path.write_text(text)
            paths.append(str(path))
        expect = f"--expect {order}" if order else ""
        run = cli(f"advisor probe read {' '.join(paths)} {expect} {more} --json")
        found = json.loads(run.out) if run.out else {}
        wrong = [
            (m["id"], m["status"]) for m in found.get("measurements", ()) if m["status"] in ("warn", "fail")
        ]
        return run, found, wrong

    return judge


@pytest.mark.parametrize("order", ["8xh100-sxm", "h100-sxm", ""])
def test_an_honest_node_passes_with_its_uncertainty_said(read, order):
    run, found, wrong = read(order=order)
    assert wrong == []
    assert (run.code, found["verdict"], found["kind"]) == (0, "pass", "pasted_proof")
    assert "less certain than a probe" in found["certainty"]
    assert {source["formats"] for source in found["sources"]} >= {"nvidia-smi -q", "dcgmi diag"}
    assert "GPU-00000000" not in run.out
    assert "165302400" not in run.out


def frauds() -> list[dict[str, str]]:
    lines = (Path(__file__).parent / "pasted_frauds.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("fraud", frauds(), ids=[fraud["name"] for fraud in frauds()])
def test_what_contradicts_the_order_is_named(read, fraud):
    check = fraud["check"]
    edit = (fraud["pattern"], fraud["replacement"], int(fraud["number"]))
    run, found, wrong = read(**{fraud["file"]: edit})
    assert (check, fraud["status"]) in wrong, run.err
    assert run.code == (4 if found["verdict"] == "fail" else 0)
    telling = [m for m in found["measurements"] if m["id"] == check and m["status"] == fraud["status"]]
    assert all(m["title"] and m["purpose"] and m["remediation"] for m in telling)


@pytest.mark.parametrize(("ids", "count"), [("2330,2330", "pass"), ("2330", "fail"), (None, None)])
def test_a_diagnostic_alone_is_judged_by_the_gpus_that_it_states(read, ids, count):
    row = "" if ids is None else f"| GPU Device IDs Detected   | {ids:<46} |\n"
    run, found, _ = read("dcgmi", order="2xh100-sxm", dcgmi=(r"\| GPU Device IDs.*\n", row))
    counts = [m["status"] for m in found["measurements"] if m["id"] == "identity.count"]
    assert counts == ([] if count is None else [count])
    assert found["verdict"] == ("fail" if count == "fail" else "warn"), run.err


@pytest.mark.parametrize("left_out", FULL.split())
def test_what_was_not_pasted_warns_by_the_name_of_its_command(read, left_out):
    names = " ".join(name for name in FULL.split() if name != left_out)
    _, found, wrong = read(names)
    assert found["verdict"] == "warn", wrong
    (coverage,) = (m for m in found["measurements"] if m["id"] == "pasted.coverage")
    command = {
        "nvidia_smi_q": "nvidia-smi -q",
        "topo": "topo -m",
        "nccl_tests": "nccl-tests",
        "dcgmi": "dcgmi",
    }
    assert command.get(left_out, left_out) in coverage["value"]
    assert read(names, more="--strict")[0].code == 5


NETWORK = [
    ("InfiniBand 8x400Gb", None, "pass"),
    ("InfiniBand NDR 8x400Gb", ("Link layer: InfiniBand", "Link layer: Ethernet"), "fail"),
    ("IB 8x400G", ("Link layer: InfiniBand", "Link layer: Ethernet", 1), "fail"),
    ("InfiniBand 8x400Gb", ("Rate: 400", "Rate: 100"), "fail"),
    ("InfiniBand 8x400Gb", ("State: Active", "State: Down"), "fail"),
    ("InfiniBand 8x200Gb", None, "pass"),
    ("RoCE 8x400Gb", ("Link layer: InfiniBand", "Link layer: Ethernet"), "pass"),
    ("RoCE 8x400Gb", None, "fail"),
]


@pytest.mark.parametrize(("order", "edit", "status"), NETWORK)
def test_a_false_claim_of_a_network_fails(read, order, edit, status):
    edits = {"ibstat": edit} if edit else {}
    run, found, _ = read(f"{FULL} ibstat", more=f"--network '{order}'", **edits)
    (check,) = (m for m in found["measurements"] if m["id"] == "identity.network")
    assert check["status"] == status
    assert found["verdict"] == ("fail" if status == "fail" else "warn")  # no rate between hosts was measured
    assert run.code == (4 if status == "fail" else 0)


def test_an_ordered_network_that_was_not_pasted_warns(read):
    _, _, wrong = read(more="--network 'InfiniBand 8x400Gb'")
    assert wrong == [("identity.network", "warn"), ("network.rate", "warn")]


@pytest.mark.parametrize(
    ("after", "status", "words"),
    [(0, "pass", ""), (2, "warn", "0 before, 2 after"), (99, "fail", "99 after")],
)
def test_two_reports_show_what_counters_did(read, cli, tmp_path, after, status, words):
    text = (PASTED / FILES["nvidia_smi_q"]).read_text()
    later = text.replace("10:00:00", "11:30:00").replace(
        "Since Reset               : 0", f"Since Reset    : {after}"
    )
    for order in ((text, later), (later, text)):
        path = tmp_path / "both.txt"
        path.write_text("".join(order))
        found = json.loads(cli(f"advisor probe read {path} --json").out)
        replays = [m for m in found["measurements"] if m["id"] == "health.pcie_replay"]
        assert {m["status"] for m in replays} == {status}
        assert words in replays[0]["note"] or after == 0


def test_a_count_that_falls_between_reports_fails(cli, tmp_path):
    text = (PASTED / FILES["nvidia_smi_q"]).read_text()
    before = text.replace("Since Reset               : 0", "Since Reset               : 70")
    (tmp_path / "both.txt").write_text(before + text.replace("10:00:00", "11:30:00"))
    found = json.loads(cli(f"advisor probe read {tmp_path}/both.txt --json").out)
    assert any(m["id"] == "health.pcie_replay" and m["status"] == "fail" for m in found["measurements"])


def test_one_text_may_hold_several_outputs_with_prefixes(cli, tmp_path):
    text = "".join((PASTED / FILES[name]).read_text() for name in FULL.split())
    (tmp_path / "all.txt").write_text("".join(f"[1,0]<stdout>: {line}\n" for line in text.splitlines()))
    found = json.loads(cli(f"advisor probe read {tmp_path}/all.txt --expect 8xh100-sxm --json").out)
    assert found["verdict"] == "pass"
    assert found["sources"][0]["formats"].count(",") == 4


TABLE = (PASTED / "nvidia_smi.txt").read_text()


@pytest.mark.parametrize(
    ("pattern", "replacement", "check", "status"),
    [
        ("", "", "identity.sku", "warn"),
        ("H100 80GB HBM3", "A100-SXM4-80GB", "identity.sku", "fail"),
        ("H100 80GB HBM3", "H100 PCIe", "identity.sku", "fail"),
        ("H100 80GB HBM3", "H100 NVL", "identity.sku", "fail"),
        ("81559MiB", "40960MiB", "identity.memory", "fail"),
        ("/  700W", "/  400W", "identity.power_limit", "fail"),
        ("Disabled", "Enabled ", "identity.mig", "fail"),
        ("Off |                    0", "Off |                    3", "identity.ecc_errors", "fail"),
        ("31C", "97C", "health.temperature", "fail"),
    ],
)
def test_the_table_of_nvidia_smi_shows_names_but_no_pci_ids(
    cli, tmp_path, pattern, replacement, check, status
):
    (tmp_path / "smi.txt").write_text(TABLE.replace(pattern, replacement) if pattern else TABLE)
    found = json.loads(cli(f"advisor probe read {tmp_path}/smi.txt --expect 2xh100-sxm --json").out)
    assert found["verdict"] == status
    assert (check, status) in {(m["id"], m["status"]) for m in found["measurements"]}


DRIVER_NAMES = """\
1db1 Tesla V100-SXM2-16GB
1db4 Tesla V100-PCIE-16GB
1db5 Tesla V100-SXM2-32GB
1db6 Tesla V100-PCIE-32GB
1eb8 Tesla T4
20b0 NVIDIA A100-SXM4-40GB
20b2 NVIDIA A100-SXM4-80GB
20b5 NVIDIA A100 80GB PCIe
20b7 NVIDIA A30
20f1 NVIDIA A100-PCIE-40GB
20f3 NVIDIA A800-SXM4-80GB
2204 NVIDIA GeForce RTX 3090
2230 NVIDIA RTX A6000
2235 NVIDIA A40
2236 NVIDIA A10
2237 NVIDIA A10G
2321 NVIDIA H100 NVL
2324 NVIDIA H800
2329 NVIDIA H20
2330 NVIDIA H100 80GB HBM3
2331 NVIDIA H100 PCIe
2335 NVIDIA H200
233b NVIDIA H200 NVL
2342 NVIDIA GH200 120GB
2342 NVIDIA GH200 480GB
2348 NVIDIA GH200 144G HBM3e
2684 NVIDIA GeForce RTX 4090
2685 NVIDIA GeForce RTX 4090 D
26b1 NVIDIA RTX 6000 Ada Generation
26b5 NVIDIA L40
26b9 NVIDIA L40S
2702 NVIDIA GeForce RTX 4080 SUPER
27b8 NVIDIA L4
"""
"""PCI ids and the names that NVIDIA's driver has for them (Linux driver README, appendix A, supported GPUs)."""


@pytest.mark.parametrize("row", DRIVER_NAMES.splitlines())
def test_a_name_of_the_driver_means_the_board_of_its_pci_id(row):
    pci_id, name = row.split(" ", 1)
    assert accelerators.get(name).record.id == accelerator_of(f"10de:{pci_id}")


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM2e", "NVIDIA H800 PCIe", "NVIDIA A100 96GB PCIe"])
def test_a_name_with_another_memory_or_form_means_no_board(name):
    with pytest.raises(UnknownNameError):
        accelerators.get(name)


LSPCI = """\
18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
2a:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
29:00.0 {kind} controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
"""


@pytest.mark.parametrize(("kind", "status"), [("Infiniband", "pass"), ("Ethernet", "fail")])
def test_a_list_of_pci_devices_shows_boards_and_kinds_of_cards(cli, tmp_path, kind, status):
    (tmp_path / "lspci.txt").write_text(LSPCI.format(kind=kind))
    order = "--expect 2xh100-sxm --network 'InfiniBand 400Gb'"
    found = json.loads(cli(f"advisor probe read {tmp_path}/lspci.txt {order} --json").out)
    statuses = {m["id"]: m["status"] for m in found["measurements"]}
    assert (statuses["identity.count"], statuses["identity.sku"]) == ("pass", "pass")
    assert statuses["identity.network"] == status


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("hello\n", "it begins with 'hello'"),
        (
            "| NVIDIA-SMI 570.124.06   Driver Version: 570.124.06   CUDA Version: 12.8 |\n",
            "has no GPU",
        ),
        (
            "==============NVSMI LOG==============\nAttached GPUs : 1\nGPU 00000000:18:00.0\n    Product Name : X\n",
            "was cut",
        ),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-3\n", "lacks the rows"),
    ],
)
def test_a_text_that_holds_no_proof_says_what_to_paste(cli, tmp_path, text, words):
    (tmp_path / "x.txt").write_text(text)
    run = cli(f"advisor probe read {tmp_path}/x.txt")
    assert run.code == 2
    assert words in run.err
    assert "To fix:" in run.err


def test_the_answer_for_people_says_how_sure_it_is(cli):
    run = cli(f"advisor probe read {PASTED}/topo.txt {PASTED}/nvbandwidth.txt --expect 8xh100-sxm")
    assert run.out.startswith("By pasted text, 8 x h100-sxm: WARN")
    assert "whoever sends it can edit it" in run.out


def test_the_csv_of_a_query_is_the_list_of_its_boards() -> None:
    text = (
        "index, name, uuid, memory.total [MiB], driver_version\n"
        "0, NVIDIA RTX A6000, GPU-1, 49140 MiB, 550.54.15\n1, NVIDIA RTX A6000, GPU-2, 49140 MiB, 550.54.15\n"
    )
    proof = read_proof([("q.csv", text)])
    machine, board, _ = assess_proof(proof, None, None, "")
    assert board is not None
    assert (board.id, len(machine.gpus), machine.driver) == ("rtx-a6000", 2, "550.54.15")
    assert machine.gpus[0].memory_bytes == 49140 * MIB
