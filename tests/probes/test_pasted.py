"""`advisor probe read`: pasted reports of one machine in the layouts of their programs, and edits that must not pass.

The texts in `pasted/` are composed: eight H100s with figures that others published for such a node.
"""

import csv
import itertools
import json
import re
from pathlib import Path

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.units import MIB
from advisor.probes.fabric import expected_all_reduce
from advisor.probes.pasted import assess_proof, read_proof
from advisor.probes.pci_ids import accelerator_of

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
    assert command.get(left_out, left_out) in coverage["note"]
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
        ("", "", "pasted.coverage", "warn"),
        ("H100 80GB HBM3", "Graphics Device", "identity.sku", "fail"),
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
    """The driver's own name of the ordered board is no finding; that its PCI id was not shown is one."""
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


NETWORK_TEST = """\
                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.00             {rate}             0.747
"""


def topology(num_gpus=8, num_nics=4, link="NV18", nic_rows=False, separator="\t", prompt=""):
    """Return a link matrix; `nic_rows`: whether the rows of the network cards were copied too."""
    gpus = [f"GPU{i}" for i in range(num_gpus)]
    names = gpus + [f"NIC{i}" for i in range(num_nics)]
    lines = [prompt, separator.join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name in names if nic_rows else gpus:
        cells = ["X" if name == other else link if other in gpus else "SYS" for other in names]
        lines.append(separator.join([name, *cells, "0-51", "0", "N/A"]))
    return "\n".join(line for line in lines if line)


def nccl(rates, num_hosts=1, each=8, header=True, mean=None, program="all_reduce_perf", before=""):
    """Return an output of nccl-tests: the bus bandwidth of messages that double, the last of 8 GiB [GB/s]."""
    ranks = num_hosts * each
    sizes = [(8 << 30) >> (len(rates) - 1 - i) for i in range(len(rates))]
    lines = [before, f"# Collective test starting: {program}"]
    lines.append(
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: 5"
    )
    if header:
        lines += [
            f"#  Rank {i} Group 0 Pid {9 + i} on node{i // each} device {i % each} [0x18] NVIDIA H100 80GB HBM3"
            for i in range(ranks)
        ]
    lines.append("#       size         count      type   redop    root     time   algbw   busbw #wrong")
    share = 2 * (ranks - 1) / ranks if program == "all_reduce_perf" else (ranks - 1) / ranks
    for size, rate in zip(sizes, rates, strict=True):
        timing = f"{size / rate * share / 1e3:.1f} {rate / share:.2f} {rate:.2f} 0"
        redop = "sum -1" if program == "all_reduce_perf" else "none -1"
        lines.append(f"{size} {size // 4} float {redop} {timing} {timing}")
    stated = sum(rates) / len(rates) if mean is None else mean
    return "\n".join([*lines, f"# Avg bus bandwidth    : {stated:.4f}", ""])


def judge_texts(texts, order=("h100-sxm", 8), network=""):
    """Return the checks of pasted texts by id, and the proof."""
    proof = read_proof([(f"{i}.txt", text) for i, text in enumerate(texts)])
    board = accelerators.get(order[0]).record if order else None
    _, _, checks = assess_proof(proof, board, order[1] if order else None, network)
    found = {}
    for check in checks:
        found.setdefault(check.id, []).append(check)
    return proof, found


OUTPUTS = {
    **{name: (PASTED / file).read_text() for name, file in FILES.items()},
    "table": TABLE,
    "lspci": LSPCI.format(kind="Infiniband"),
    "gpus_only": topology(),
    "one_gpu": topology(1),
    "spaces": topology(separator=" ", link="SYS"),
    "two_hosts": nccl([300.0, 380.0], 2),
    "gathered": nccl([340.0], program="all_gather_perf"),
    "port": NETWORK_TEST.format(rate="391.50"),
}


@pytest.mark.parametrize("network", ["", "InfiniBand 8x400Gb"])
@pytest.mark.parametrize("order", [None, ("h100-sxm", 8), ("h100-sxm", None), ("l40s", 8)])
@pytest.mark.parametrize("names", [*((name,) for name in OUTPUTS), *itertools.combinations(OUTPUTS, 2)])
def test_what_is_read_is_judged_or_said_to_be_unjudged_and_never_missing(names, order, network):
    proof, found = judge_texts([OUTPUTS[name] for name in names], order, network)
    read = {title for source in proof.sources for title in source["formats"].split(", ")}
    (coverage,) = found["pasted.coverage"]
    missing = coverage.note.removeprefix("without ").split(", ")
    assert not read & {name.partition(" (")[0] for name in missing}
    unjudged = {str(check.value).partition(" (")[0] for check in found.get("pasted.unjudged", ())}
    assert all(check.note for check in found.get("pasted.unjudged", ()))
    by = {
        "ibstat": "identity.network",
        "ib_write_bw": "network.rate",
        "nvidia-smi topo -m": "identity.nvlink",
        "dcgmi diag": "dcgm.",
        "nvbandwidth": "host_link.",
    }
    statuses = [(check.id, check.status) for checks in found.values() for check in checks]
    for title in read & set(by):
        is_judged = any(
            name.startswith(by[title]) and status in ("pass", "warn", "fail") for name, status in statuses
        )
        assert is_judged != (title in unjudged), title


@pytest.mark.parametrize("separator", ["\t", " ", "    "])
@pytest.mark.parametrize("prompt", ["", "root@node01:~# nvidia-smi topo -m"])
@pytest.mark.parametrize(("num_gpus", "num_nics"), [(2, 1), (4, 0), (8, 2), (8, 12)])
def test_a_matrix_is_judged_alike_with_and_without_rows_of_network_cards(
    separator, prompt, num_gpus, num_nics
):
    for link, status in (("NV18", "pass"), ("NV14", "fail"), ("SYS", "fail"), ("PHB", "fail")):
        for nic_rows in (True, False):
            text = topology(num_gpus, num_nics, link, nic_rows, separator, prompt)
            _, found = judge_texts([text], ("h100-sxm", num_gpus))
            assert {check.status for check in found["identity.nvlink"]} == {status}
            assert found["identity.count"][0].status == "pass"


def test_a_matrix_whose_rows_were_cut_is_refused() -> None:
    lines = topology().splitlines()
    with pytest.raises(InputFileError, match="fewer cells"):
        read_proof([("topo.txt", "\n".join([lines[0], *(line[:30] for line in lines[1:])]))])


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    ("num_hosts", "each", "network", "line_rate"),
    [
        (2, 8, "InfiniBand 8x400Gb", 400.0),
        (4, 8, "RoCE 8x200Gb", 200.0),
        (2, 4, "InfiniBand 4x200Gb", 100.0),
        (3, 8, "InfiniBand HDR", 25.0),
        (16, 8, "Ethernet 2x100Gb", 25.0),
    ],
)
def test_sums_across_hosts_are_held_against_the_ordered_network(header, num_hosts, each, network, line_rate):
    for share, status in ((0.93, "pass"), (0.85, "pass"), (0.72, "warn"), (0.5, "fail"), (0.03, "fail")):
        if not header and share * line_rate < 1.0:
            continue  # the ranks cannot be read from figures of two decimals: such a text is refused
        text = nccl([share * line_rate] * 4, num_hosts, each, header)
        _, found = judge_texts([text], ("h100-sxm", each), network)
        (rate,) = found["network.rate"]
        assert (rate.status, "hosts" in rate.pattern) == (status, True)
        assert "collective.all_reduce" not in found
        if header:
            assert found["identity.count"][0].status == "pass"


@pytest.mark.parametrize(("num_hosts", "each"), [(1, 4), (1, 2), (2, 1), (4, 4)])
def test_ranks_of_a_run_are_the_least_number_of_gpus(num_hosts, each):
    """A run may use some of the GPUs; a list of them that is short, or more ranks than were ordered, is no doubt."""
    text = nccl([40.0], num_hosts, each)
    _, found = judge_texts([text], ("h100-sxm", 8), "InfiniBand 8x400Gb")
    assert found["identity.count"][0].status == "warn"
    _, found = judge_texts([text, topology(each)], ("h100-sxm", 8))
    assert found["identity.count"][0].status == "fail"
    _, found = judge_texts([nccl([40.0], 2, 8)], ("h100-sxm", 4))
    assert found["identity.count"][0].status == "fail"


def test_one_rank_a_host_is_not_held_against_all_ports() -> None:
    _, found = judge_texts([nccl([46.0], 2, 1)], ("h100-sxm", None), "InfiniBand 8x400Gb")
    assert found["network.rate"][0].status == "pass"


@pytest.mark.parametrize(("rate", "status"), [("391.50", "pass"), ("330.00", "warn"), ("94.00", "fail")])
def test_a_test_of_a_port_is_held_against_the_ordered_rate(rate, status):
    _, found = judge_texts([NETWORK_TEST.format(rate=rate)], ("h100-sxm", 8), "InfiniBand 8x400Gb")
    assert [check.status for check in found["network.rate"]] == [status]


@pytest.mark.parametrize("board", ["h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm-80gb"])
def test_a_sum_fails_only_below_what_every_algorithm_gives(board):
    """Sources: NVIDIA/nccl-tests issues 212 and 309: 369 GB/s in a ring and 480 with NVLS on healthy H100s."""
    accelerator = accelerators.get(board).record
    ring = expected_all_reduce(accelerator, 8, "ring", False).value / 1e9
    most = expected_all_reduce(accelerator, 8, "nvls", False).value / 1e9
    ladder = [0.5 * ring, 0.99 * ring, 0.5 * (0.99 * ring + most), most]
    texts = [nccl([rate]).replace("NVIDIA H100 80GB HBM3", accelerator.name) for rate in ladder]
    found = [judge_texts([text], (board, 8))[1]["collective.all_reduce"][0] for text in texts]
    assert [check.status for check in (found[0], found[-1])] == ["fail", "pass"]
    assert all(check.status != "fail" for check in found[1:])
    if ring < 0.8 * most:
        assert (found[1].status, "NVLS" in found[1].note) == ("warn", True)
    for before in ("NCCL_ALGO=Ring", "NCCL_NVLS_ENABLE=0"):
        (check,) = judge_texts([nccl([0.99 * ring], before=before)], (board, 8))[1]["collective.all_reduce"]
        assert (check.status, "ring" in check.pattern) == ("pass", True)


@pytest.mark.parametrize(
    ("now", "load", "status"), [(16, 0, "pass"), (8, 0, "warn"), (8, 100, "fail"), (1, 0, "warn")]
)
def test_fewer_lanes_than_possible_are_told_from_an_idle_generation(now, load, status):
    text = (PASTED / FILES["nvidia_smi_q"]).read_text()
    text = re.sub(r"(Link Width\n +Max +: 16x\n +Current +: )\d+x", rf"\g<1>{now}x", text)
    text = re.sub(r"(PCIe Generation\n +Max +: 5\n +Current +: )\d", r"\g<1>1", text)
    text = re.sub(r"(Utilization\n +G[Pp][Uu] +: )\d+", rf"\g<1>{load}", text)
    _, found = judge_texts([text])
    assert {check.status for check in found["identity.pcie"]} == {status}


@pytest.mark.parametrize("rates", [[21.0] * 5, [160.0, 320.0, 478.0], [5.0, 8.0, 11.5]])
def test_a_stated_mean_is_that_of_its_rows(rates):
    mean = sum(rates) / len(rates)
    for stated, status in ((mean, "pass"), (mean * 1.002, "pass"), (mean * 1.5, "fail"), (451.2, "fail")):
        assert judge_texts([nccl(rates, mean=stated)])[1]["pasted.mean"][0].status == status
    cut = nccl(rates, mean=mean * 1.5).splitlines()
    rows = [place for place, line in enumerate(cut) if line[:1].isdigit()]
    del cut[rows[0]]
    assert judge_texts(["\n".join(cut)])[1]["pasted.mean"][0].status == "warn"


def test_equal_findings_of_all_gpus_are_one_row(cli):
    run = cli(f"advisor probe read {PASTED}/nvidia_smi_q.txt {PASTED}/topo.txt --expect 8xh200-sxm")
    rows = [line for line in run.out.splitlines() if line.startswith(("FAIL", "WARN", "pass"))]
    assert sum("identity.sku" in row for row in rows) == 1
    assert sum("GPU 0-7 identity.nvlink" in row for row in rows) == 1


def test_the_memory_of_another_board_was_not_modified() -> None:
    text = TABLE.replace("H100 80GB HBM3", "H20           ").replace("81559MiB", "97871MiB")
    _, found = judge_texts([text])
    assert {check.status for check in found["identity.sku"]} == {"fail"}
    assert {(check.status, check.note) for check in found["identity.memory"]} == {("info", "another board's")}
