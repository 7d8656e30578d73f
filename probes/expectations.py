"""What a healthy machine achieves: measured elsewhere with the same pattern, or estimated from the datasheet."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from advisor.catalog.files import read_csv, read_toml
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIGA, KILO, MICROSECOND_S, TERA

Kind = Literal["measured", "floor", "estimate"]
_FOLDER: Final = Path(__file__).parent
_COLUMNS: Final = (
    "accelerator",
    "num_gpus",
    "check",
    "algorithm",
    "expected",
    "unit",
    "kind",
    "source",
    "note",
)
_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "GB/s": ("bytes/s", GIGA),
    "TFLOP/s": ("flop/s", TERA),
    "us": ("s", MICROSECOND_S),
    "ns": ("s", MICROSECOND_S / KILO),
}
PCIE_BYTES_PER_S_PER_LANE: Final[Mapping[int, float]] = {
    3: 8 * GIGA * 128 / 130 / 8,
    4: 16 * GIGA * 128 / 130 / 8,
    5: 32 * GIGA * 128 / 130 / 8,
    6: 64 * GIGA * 242 / 256 / 8,
}
"""One direction, after line coding (FLIT framing from generation 6 on)."""
ESTIMATED_FRACTIONS: Final[Mapping[str, float]] = {
    "memory.read": 0.88,
    "memory.copy": 0.84,
    "memory.triad": 0.86,
    "compute.matmul": 0.74,
    "host_link.h2d": 0.85,
    "host_link.d2h": 0.85,
}
"""Share of the datasheet's peak that healthy boards reach; from the boards that were measured: read 83–98 %,
copy 84–95 %, triad 88–96 %, matrix products 70–87 %, pinned copies 84–88 % of the PCIe link."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An achieved figure in SI units and how much it may be trusted."""

    value: float
    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class CheckText:
    """Words for people about one check."""

    title: str
    purpose: str
    remediation: str
    command: str


@functools.cache
def _table() -> dict[tuple[str, int, str, str], Expectation]:
    table = {}
    for _, row in read_csv(_FOLDER / "expectations.csv", _COLUMNS):
        key = (row["accelerator"], int(row["num_gpus"]), row["check"], row["algorithm"])
        value = float(row["expected"]) * _UNITS[row["unit"]][1]
        source = f"{row['source']} ({row['note']})" if row["note"] else row["source"]
        table[key] = Expectation(value, "floor" if row["kind"] == "floor" else "measured", source)
    return table


def expected(
    accelerator: Accelerator | None, check: str, num_gpus: int = 1, algorithm: str = ""
) -> Expectation | None:
    """What the check should give on this board [SI]; None if neither a figure nor a datasheet peak is known."""
    if accelerator is None:
        return None
    found = _table().get((accelerator.id, num_gpus, check, algorithm))
    return found or _estimate(accelerator, check)


def _estimate(accelerator: Accelerator, check: str) -> Expectation | None:
    for prefix, fraction in ESTIMATED_FRACTIONS.items():
        if check == prefix or check.startswith(f"{prefix}."):
            peak = _datasheet_peak(accelerator, check)
            if peak is None:
                return None
            source = f"estimate: {fraction:.0%} of the datasheet's peak"
            return Expectation(fraction * peak, "estimate", source)
    return None


def _datasheet_peak(accelerator: Accelerator, check: str) -> float | None:
    if check.startswith("memory."):
        return accelerator.bandwidth_bytes_per_s
    if check.startswith("compute.matmul."):
        return accelerator.peak_flop_per_s.get(check.rpartition(".")[2])
    lane = PCIE_BYTES_PER_S_PER_LANE.get(accelerator.pcie_generation or 0)
    return lane * accelerator.pcie_lanes if lane and accelerator.pcie_lanes else None


@functools.cache
def _texts() -> dict[str, CheckText]:
    return {key: CheckText(**values) for key, values in read_toml(_FOLDER / "checks.toml").items()}


def text_of(check: str) -> CheckText:
    """The words of the longest key that is a prefix of the check's id; empty ones if there is none."""
    keys = [key for key in _texts() if check == key or check.startswith(f"{key}.")]
    return _texts()[max(keys, key=len)] if keys else CheckText(check, "", "", "")
