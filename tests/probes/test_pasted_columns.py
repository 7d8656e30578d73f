"""`advisor probe read`: the CSV of nvidia-smi column by column, chosen sections of its report, and pairs of GPUs."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.probes import expectations
from advisor.probes.pasted import assess_proof, read_proof
from advisor.probes.pasted_csv import is_smi_csv, read_smi_csv

PASTED = Path(__file__).parent / "pasted"
QUERY = (PASTED / "nvidia_smi_q.txt").read_text()
TOPO = (PASTED / "topo.txt").read_text()
COMMANDS = [
    row["command"]
    for row in tomllib.loads((Path(expectations.__file__).parent / "checks.toml").read_text()).values()
]
SOUND = {
    "index": "{i}",
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-00000000-0000-4000-8000-00000000000{i}",
    "pci.device_id": "0x233010DE",
    "memory.total [MiB]": "81559 MiB",
    "memory.used [MiB]": "1 MiB",
    "power.limit [W]": "700.00 W",
    "power.default_limit [W]": "700.00 W",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "retired_pages.pending": "[N/A]",
    "mig.mode.current": "Disabled",
    "pcie.link.gen.max": "5",
    "pcie.link.width.max": "16",
    "pcie.link.width.current": "16",
    "temperature.gpu": "31",
    "utilization.gpu [%]": "0 %",
    "clocks_event_reasons.active": "0x0000000000000001",
}


def csv_of(rows, titles=None):
    """Return the CSV of nvidia-smi with these rows of cells by title."""
    titles = titles or list(rows[0])
    return "\n".join([", ".join(titles), *(", ".join(row[title] for title in titles) for row in rows)]) + "\n"


def sound(num_gpus=2, **changes):
    rows = [{title: cell.format(i=i) for title, cell in SOUND.items()} for i in range(num_gpus)]
    rows[0] |= changes
    return rows


def judge(*texts, order="h100-sxm", number=2):
    proof = read_proof([(f"{i}.txt", text) for i, text in enumerate(texts)])
    board = accelerators.get(order).record if order else None
    machine, _, checks = assess_proof(proof, board, number, "")
    return machine, checks


def wrong(checks):
    return {(c.id, c.gpu, c.status) for c in checks if c.status in ("warn", "fail")} - {
        ("pasted.coverage", None, "warn")
    }


@pytest.mark.parametrize("titles", [list(SOUND), *([title] for title in SOUND if title != "index")])
def test_sound_columns_warn_of_nothing_but_what_they_do_not_show(titles):
    _, checks = judge(csv_of(sound(), titles))
    shown = {"name", "pci.device_id"} & set(titles)
    assert {check for check, _, _ in wrong(checks)} == (set() if shown else {"identity.sku"})


FAULTS = [
    ("power.limit [W]", "500.00 W", "identity.power_limit", "fail"),
    ("memory.total [MiB]", "40960 MiB", "identity.memory", "fail"),
    ("memory.used [MiB]", "70000 MiB", "identity.shared", "warn"),
    ("ecc.mode.current", "Disabled", "identity.ecc", "fail"),
    ("ecc.errors.uncorrected.volatile.total", "12", "identity.ecc_errors", "fail"),
    ("retired_pages.pending", "Yes", "identity.row_repair", "fail"),
    ("mig.mode.current", "Enabled", "identity.mig", "fail"),
    ("pcie.link.gen.max", "4", "identity.pcie", "fail"),
    ("pcie.link.width.max", "8", "identity.pcie", "fail"),
    ("pcie.link.width.current", "8", "identity.pcie", "warn"),
    ("temperature.gpu", "97", "health.temperature", "fail"),
    ("utilization.gpu [%]", "98 %", "identity.shared", "warn"),
    ("clocks_event_reasons.active", "0x0000000000000048", "health.throttle", "fail"),
    ("pci.device_id", "0x233110DE", "identity.sku", "fail"),
]


@pytest.mark.parametrize(("title", "cell", "check", "status"), FAULTS)
@pytest.mark.parametrize("beside", ["", QUERY], ids=["alone", "beside a full report"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_fault_in_any_column_is_a_finding_about_its_gpu(title, cell, check, status, beside, is_whole):
    rows = sound(8, **{title: cell})
    titles = (
        list(SOUND) if is_whole else ["index", title, *(["memory.used [MiB]"] if "utiliz" in title else [])]
    )
    _, checks = judge(csv_of(rows, list(dict.fromkeys(titles))), *filter(None, [beside]), number=8)
    found = wrong(checks)
    if beside and title == "pcie.link.width.current":
        assert not found  # an idle link has fewer lanes: the best that was seen counts
        return
    # A setting that a full report states otherwise is a contradiction, what happened meanwhile is not.
    assert (check, 0, status) in found or (beside and ("pasted.consistent", None, "fail") in found), found


MORE = [
    ("ecc.errors.uncorrected.volatile.dram", "3", "identity.ecc_errors"),
    ("remapped_rows.failure", "Yes", "identity.row_repair"),
    ("remapped_rows.pending", "1", "identity.row_repair"),
    ("retired_pages.double_bit.count", "64", "identity.ecc_errors"),
    ("clocks_throttle_reasons.hw_thermal_slowdown", "Active", "health.throttle"),
    ("clocks_event_reasons.hw_power_brake_slowdown", "Active", "health.throttle"),
    ("enforced.power.limit [W]", "450.00 W", "identity.power_limit"),
    ("temperature.memory", "99", "health.temperature"),
]


@pytest.mark.parametrize(("title", "cell", "check"), MORE)
def test_columns_of_other_queries_are_judged_too(title, cell, check):
    text = f"index, {title}\n0, {cell}\n1, [N/A]\n"
    assert (check, 0, "fail") in wrong(judge(text)[1])


def test_a_column_on_which_nothing_rests_is_named():
    _, checks = judge(
        "index, name, pstate, clocks.sm [MHz], fan.speed [%]\n0, NVIDIA L40S, P8, 210 MHz, 30 %\n"
    )
    told = {str(c.value): c.note for c in checks if c.id == "pasted.unjudged"}
    assert any("pstate, fan.speed" in words and "no check" in note for words, note in told.items())
    assert any("clocks.sm" in words and "utilization.gpu" in note for words, note in told.items())


def test_a_loop_shows_the_best_of_its_samples_under_load():
    head = (
        "index, utilization.gpu [%], clocks.current.sm [MHz], clocks.max.sm [MHz], pcie.link.width.current\n"
    )
    rest = "0, 0 %, 210 MHz, 1980 MHz, 8\n"
    for clock, status in ((1900, "pass"), (1300, "fail")):
        machine, checks = judge(head + rest + f"0, 99 %, {clock} MHz, 1980 MHz, 16\n" + rest, number=1)
        (found,) = (c.status for c in checks if c.id == "health.sm_clock")
        assert (found, len(machine.gpus), machine.gpus[0].pcie_width) == (status, 1, 16)


@pytest.mark.parametrize("command", [c for c in COMMANDS if "--query-" in c])
@pytest.mark.parametrize("form", ["csv", "csv,noheader", "csv,noheader,nounits"])
def test_the_output_of_every_printed_query_is_read_and_every_column_used(command, form):
    names = re.search(r"--query-[a-z-]+=([\w.,]+)", command)[1].split(",")
    cells = {
        "name": "NVIDIA H100 80GB HBM3",
        "gpu_uuid": "GPU-1",
        "index": "0",
        "pci.device_id": "0x233010DE",
    }
    row = ", ".join(cells.get(name, "0") for name in names)
    text = f"$ {command.replace('csv', form)}\n"
    text += (", ".join(names) + "\n" if "noheader" not in form else "") + row + "\n"
    assert is_smi_csv(text)
    found = read_smi_csv(text)
    assert found.gpus or found.processes
    assert found.unused == ()


PARTS = {
    "ECC": "    ECC Errors\n        Volatile\n            SRAM Uncorrectable : {ecc}\n"
    "            DRAM Uncorrectable : 0\n",
    "POWER": "    GPU Power Readings\n        Current Power Limit : {power} W\n"
    "        Default Power Limit : 700.00 W\n",
    "ROW_REMAPPER": "    Remapped Rows\n        Correctable Error : 0\n        Uncorrectable Error : 0\n"
    "        Pending : {pending}\n        Remapping Failure Occurred : No\n",
    "TEMPERATURE": "    Temperature\n        GPU Current Temp : {heat} C\n",
}
STATES = [
    ("identity.ecc_errors", {"ecc": 5}),
    ("identity.power_limit", {"power": "500.00"}),
    ("identity.row_repair", {"pending": "Yes"}),
    ("health.temperature", {"heat": 96}),
]


@pytest.mark.parametrize(("check", "state"), STATES)
def test_chosen_sections_of_the_report_are_judged(check, state):
    """Layout of `nvidia-smi -q -d ECC`: a head, then of each GPU the chosen section alone."""
    values = {"ecc": 0, "power": "700.00", "pending": "No", "heat": 31}
    for told, is_wrong in ((values, False), (values | state, True)):
        head = "==============NVSMI LOG==============\n\nTimestamp : x\nAttached GPUs : 1\nGPU 00000000:18:00.0\n"
        text = head + "".join(part.format(**told) for part in PARTS.values())
        assert ((check, 0, "fail") in wrong(judge(text, number=1)[1])) == is_wrong


def test_processes_are_counted_on_their_gpu():
    gpus = csv_of(sound(), ["index", "name", "uuid"])
    one = SOUND["uuid"].format(i=1)
    listed = f"gpu_uuid, pid, used_gpu_memory [MiB]\n{one}, 4711, 20000 MiB\n{one}, 4712, 300 MiB\n"
    machine, checks = judge(gpus, listed)
    assert [gpu.num_other_processes for gpu in machine.gpus] == [0, 2]
    assert ("identity.shared", 1, "warn") in wrong(checks)
    other = "gpu_uuid, pid\nGPU-00000000-0000-4000-8000-00000000ffff, 4711\n"
    assert ("pasted.consistent", None, "fail") in wrong(judge(gpus, other)[1])
    assert wrong(judge(gpus, "gpu_uuid, pid, used_gpu_memory [MiB]\n")[1]) == set()


@pytest.mark.parametrize("field", ["power_limit", "ecc", "pcie"])
def test_texts_that_state_two_settings_of_one_gpu_are_not_of_one_machine(field):
    edits = {
        "power_limit": ("power.limit [W]", "500.00 W"),
        "ecc": ("ecc.mode.current", "Disabled"),
        "pcie": ("pcie.link.width.max", "8"),
    }
    _, checks = judge(QUERY, csv_of(sound(8, **dict([edits[field]]))), number=8)
    (found,) = (c for c in checks if c.id == "pasted.consistent")
    assert (found.status, "GPU 0" in found.note) == ("fail", True)


def matrix(fewer, link="NV12"):
    """Return the matrix of the eight GPUs with other links between these pairs."""
    lines = TOPO.splitlines()
    for i, j in fewer:
        for row, column in ((i, j), (j, i)):
            cells = lines[row + 1].split("\t")
            cells[column + 1] = link
            lines[row + 1] = "\t".join(cells)
    return "\n".join(lines)


@pytest.mark.parametrize("link", ["NV12", "NV1", "SYS", "PHB"])
@pytest.mark.parametrize(
    "pairs", [[(6, 7)], [(0, 1), (2, 3)], [(i, j) for i in range(4) for j in range(4, 8)]], ids=len
)
def test_a_pair_with_fewer_links_than_its_gpus_have_fails(pairs, link):
    _, checks = judge(matrix(pairs, link), number=8)
    (found,) = (c for c in checks if c.id == "identity.nvlink_pairs")
    assert (found.status, found.value) == ("fail", f"{28 - len(pairs)} of 28 pairs")
    assert all(f"{i}-{j} {link}" in found.note for i, j in pairs)
    assert not any(c.id == "identity.nvlink_pairs" for c in judge(TOPO, number=8)[1])


@pytest.mark.parametrize(
    ("name", "memory", "order", "status"),
    [
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-sxm-80gb", "fail"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm-80gb", "pass"),
        ("Tesla V100-SXM2-16GB", 16160, "v100-sxm2-32gb", "fail"),
        ("NVIDIA A100-PCIE-40GB", 40960, "a100-pcie-80gb", "fail"),
        ("NVIDIA H20", 97871, "h20-141gb", "fail"),
        ("NVIDIA GeForce RTX 3080", 10240, "rtx-3080-12gb", "fail"),
        ("NVIDIA GeForce RTX 3080", 12288, "rtx-3080", "fail"),
        ("NVIDIA L4", 23034, "l40", "fail"),
    ],
)
def test_the_product_of_another_memory_is_another_board_in_one_finding(name, memory, order, status):
    text = f"index, name, memory.total [MiB]\n0, {name}, {memory} MiB\n"
    _, checks = judge(text, order=order, number=1)
    (sku,) = (c for c in checks if c.id == "identity.sku")
    assert sku.status == status
    if status == "fail":
        assert "the board that was ordered" in sku.remediation
        assert [c.status for c in checks if c.id == "identity.memory"] in (["info"], ["pass"])


def test_half_the_memory_of_a_board_by_its_name_is_no_product():
    _, checks = judge(
        "name, memory.total [MiB]\nNVIDIA A100-SXM4-80GB, 40960 MiB\n", order="a100-sxm-80gb", number=1
    )
    assert ("identity.memory", 0, "fail") in wrong(checks)


def nccl(out, place, footer):
    rows = [
        f"{size} {size // 4} float sum -1 491.4 273.1 478.0 {out if size == 1 << 30 else 0} 491 273.1 478.0 {place}"
        for size in (1 << 28, 1 << 29, 1 << 30)
    ]
    head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    return "\n".join(["# all_reduce_perf", head, *rows, footer])


FOOTERS = ["", "# Out of bounds values : 0 OK", "# Out of bounds values : 6 FAILED"]


@pytest.mark.parametrize("footer", FOOTERS)
@pytest.mark.parametrize(
    ("out", "place", "is_wrong"),
    [
        ("0", "0", False),
        ("4", "0", True),
        ("0", "2", True),
        ("N/A", "N/A", False),
        ("1.23457e+06", "0", True),
        ("3", "N/A", True),
        ("0e+00", "4e-07", False),
        ("nan", "0", True),
    ],
)
def test_wrong_sums_of_any_row_and_column_fail_whatever_the_last_line_says(footer, out, place, is_wrong):
    """Source: NVIDIA/nccl-tests src/common.cu prints the count with %6g, N/A where results are not checked."""
    _, checks = judge(nccl(out, place, footer), number=8)
    found = [(c.status, c.note) for c in checks if c.id == "collective.sum_is_right"]
    if is_wrong or "FAILED" in footer:
        assert [status for status, _ in found] == ["fail"]
        assert ("edited" in found[0][1]) == ("0 OK" in footer)
    else:
        assert [status for status, _ in found] == ["pass"]


def test_unchecked_sums_without_a_last_line_are_no_right_sums():
    text = re.sub(
        r"\b0 491|\b0$", lambda found: found[0].replace("0", "N/A", 1), nccl("N/A", "N/A", ""), flags=re.M
    )
    assert not any(c.id == "collective.sum_is_right" for c in judge(text, number=8)[1])


def test_a_saved_verdict_is_shown_again_and_is_no_probe(cli, tmp_path):
    (tmp_path / "q.txt").write_text(QUERY)
    saved = tmp_path / "verdict.json"
    page = tmp_path / "page.md"
    first = cli(f"advisor probe read {tmp_path}/q.txt --expect h100-sxm -o {saved} --report {page}")
    again = cli(f"advisor probe show {saved}")
    assert (again.code, again.out) == (first.code, first.out)
    assert "identity.sku" in page.read_text()
    assert json.loads(cli(f"advisor probe show {saved} --json").out)["kind"] == "pasted_proof"
    refused = cli(f"advisor calibrate {saved}")
    assert refused.code == 2
    assert "advisor probe show" in refused.err
    assert "advisor replay" not in refused.err


def test_a_csv_without_rows_is_refused():
    with pytest.raises(InputFileError, match="has no GPU"):
        read_proof([("x.txt", "index, power.limit [W]\n")])


def test_a_row_to_be_replaced_is_a_check_of_its_own():
    text = QUERY.replace(
        "Pending                           : No", "Pending                           : Yes", 1
    )
    _, checks = judge(text, number=8)
    found = [(c.id, c.gpu, c.value, c.expected) for c in checks if c.status == "fail"]
    assert found == [("identity.row_repair", 0, "pending", "none")]


def test_counts_of_the_past_are_shown_and_not_judged():
    _, checks = judge(
        QUERY.replace("Since Reset               : 0", "Since Reset               : 418"), number=8
    )
    told = {
        (c.id, c.value, c.status)
        for c in checks
        if c.id in ("identity.lifetime_errors", "identity.pcie_replays")
    }
    assert told == {("identity.lifetime_errors", 2.0, "info"), ("identity.pcie_replays", 418.0, "info")}
