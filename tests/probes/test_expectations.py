"""Every published figure of a board against what the probe expects of it: it passes, or a reason says why not."""

import csv
import re
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB, GIGA, TERA
from advisor.probes.expectations import find_expectation
from advisor.probes.fabric import expected_all_reduce, expected_pair, num_links
from advisor.probes.identity_rules import check_memory, check_pcie, check_power_limit, check_sms
from advisor.probes.pci_ids import accelerator_of
from advisor.probes.record import Gpu, Measurement
from advisor.probes.verdict import judge_rate

Row = dict[str, str]
UNITS: Final = {"GB/s": GIGA, "TFLOP/s": TERA, "GiB": GIB}
RATES: Final = {
    "memory_read_gbs": "memory.read",
    "memory_copy_gbs": "memory.copy",
    "memory_triad_gbs": "memory.triad",
    "memory_bandwidth_gbs": "memory.read",
    "memory_bandwidth_floor_gbs": "memory.read",
    "h2d_gbs": "host_link.h2d",
    "d2h_gbs": "host_link.d2h",
}
ABOVE_PEAK: Final = {("rtx-4060-ti-16gb", "gemm_fp16_tflops_burst"), ("arc-b580", "memory_read_gbs")}
"""Published figures above the data sheet's peak: not believed."""
OTHERWISE: Final = re.compile("dcgm|cuBLASLt|MAMF")
"""Measured by other means than the probe's: load generators, and searches for the best shape or algorithm."""
HEALTHY: Final = ("pass", "warn", "info")


def rows_of(path: Path) -> list[Row]:
    lines = path.read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


REASONS: Final = rows_of(Path(__file__).with_name("expectation_differences.csv"))


def of_rate(row: Row, board: Accelerator) -> str:
    """Verdict on a machine that gives just this rate; unknown where the probe expects nothing."""
    check = row["check"]
    words = row["conditions"]
    is_bridged = "ridge" in words and "no NVLink bridge" not in words
    product = re.fullmatch(r"gemm_(\w+?)_tflops_(burst|sustained)", check)
    if product:
        kind = "matmul" if product[2] == "burst" else "sustained"
        found = find_expectation(board, f"compute.{kind}.{product[1]}")
    elif check in RATES:
        found = find_expectation(board, RATES[check])
    elif check == "p2p_gbs_per_pair":
        copy = Measurement(id="peer.copy", pattern="2 GPUs, 0 to 1 of 2, peer access")
        found = expected_pair(board, copy, is_bridged)
    elif check.startswith("all_reduce_busbw"):
        algorithm = check.rpartition("_")[2]
        algorithm = algorithm if algorithm in ("ring", "nvls") else ""
        found = expected_all_reduce(board, int(row["n_gpus"]), algorithm, is_bridged)
    else:
        return "unknown"
    return judge_rate(float(row["value"]) * UNITS[row["unit"]], found) if found else "unknown"


def of_identity(row: Row, board: Accelerator) -> str:
    """Verdict on a board that tells just this of itself."""
    check = row["check"]
    text = row["value"]
    same = {"index": 0, "accelerator": board.id}
    if check == "sm_count":
        found = check_sms(Gpu(**same, num_sms=int(text)), board)
    elif check == "memory_total_gib":
        ecc = True if board.memory_type.startswith("GDDR") else None
        found = check_memory(Gpu(**same, memory_bytes=float(text) * GIB, ecc_enabled=ecc), board)
    elif check in ("default_power_w", "max_power_w"):
        watts = float(text)
        found = check_power_limit(Gpu(**same, power_limit_w=watts, power_default_w=watts), board)
    elif check == "pcie_gen_width":
        generation, lanes = map(int, text.split(" x"))
        found = check_pcie(Gpu(**same, pcie_max_generation=generation, pcie_max_width=lanes), board)
    else:
        return of_number(check, text, board)
    return found.status if found else "unknown"


def of_number(check: str, text: str, board: Accelerator) -> str:
    """Return the status of a check whose figure the catalog itself states."""
    if check == "pci_device_id":
        fits = accelerator_of(text) == board.id
    elif check == "nvlink_links_active":
        fits = num_links(board) == int(text)
    elif check in ("nvlink_gbs_per_direction_total", "scaleup_gbs_per_direction") and board.scale_up:
        fits = board.scale_up.bytes_per_s == pytest.approx(float(text) * GIGA, rel=0.03)
    elif check == "pcie_gen_width_floor" and board.pcie_generation and board.pcie_lanes:
        generation, lanes = map(int, text.split(" x"))
        fits = (board.pcie_generation, board.pcie_lanes) >= (generation, lanes)
    else:
        return "unknown"
    return "pass" if fits else "fail"


def reason_of(row: Row) -> int | None:
    """Number of the first reason that speaks of this row."""
    return next(
        (
            number
            for number, why in enumerate(REASONS)
            if re.fullmatch(why["accelerator"], row["accelerator"])
            and re.fullmatch(why["check"], row["check"])
            and re.match(why["conditions"], row["conditions"])
        ),
        None,
    )


def test_published_figures_pass_or_are_known_not_to(shared_data: Path) -> None:
    rows = rows_of(shared_data / "catalog" / "board_expectations.csv")
    unexplained = []
    used = set()
    for row in rows:
        board = by_id(row["accelerator"])
        judged = of_rate(row, board)
        if judged == "unknown":
            judged = of_identity(row, board)
        if judged in HEALTHY:
            continue
        number = reason_of(row)
        used.add(number)
        if number is None:
            told = (row[name] for name in ("accelerator", "check", "value", "conditions"))
            unexplained.append(f"{judged}: {', '.join(told)}")
    assert not unexplained, "\n".join(unexplained)
    assert used == set(range(len(REASONS))), [REASONS[n] for n in set(range(len(REASONS))) - used]
    assert len(rows) > 1000


def test_a_quarter_less_than_was_measured_never_passes(shared_data: Path) -> None:
    """Nor do expectations lie so low that a fraud slips below them: products and memory of every board."""
    slack = []
    for row in rows_of(shared_data / "catalog" / "board_expectations.csv"):
        is_rate = row["check"] in RATES or "burst" in row["check"]
        if not is_rate or not row["conditions"].startswith("measured") or OTHERWISE.search(row["conditions"]):
            continue
        if (row["accelerator"], row["check"]) in ABOVE_PEAK:
            continue
        less = row | {"value": str(0.75 * float(row["value"]))}
        if of_rate(less, by_id(row["accelerator"])) == "pass":
            slack.append(f"{row['accelerator']} {row['check']} {row['value']} {row['conditions']}")
    assert not slack, "\n".join(slack)
