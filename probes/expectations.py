"""Expected rates of a healthy machine: measured elsewhere with an equal pattern, or estimated from the datasheet."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from advisor.catalog.files import DATA_DIR, read_csv, read_toml
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIGA, TERA
from advisor.probes.record import Basis, Gpu

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
_KINDS: Final[Mapping[str, Basis]] = {"measured": "measured", "similar": "similar", "floor": "floor"}
_UNITS: Final[Mapping[str, float]] = {"GB/s": GIGA, "TFLOP/s": TERA, "W": 1.0}
FLOOR_FRACTION: Final = 0.95
"""Published pass mark over the expected rate. Healthy boards exceed a pass mark, so the expectation is the mark divided
by this, and the mark itself passes."""
PCIE_BYTES_PER_S_PER_LANE: Final[Mapping[int, float]] = {
    3: 8 * GIGA * 128 / 130 / 8,
    4: 16 * GIGA * 128 / 130 / 8,
    5: 32 * GIGA * 128 / 130 / 8,
    6: 64 * GIGA * 242 / 256 / 8,
}
"""Rate of one PCIe lane in one direction by generation [bytes/s], after line coding (FLIT framing from generation 6
on)."""
ESTIMATED_FRACTIONS: Final[Mapping[str, float]] = {
    "memory.read": 0.88,
    "memory.copy": 0.84,
    "memory.triad": 0.86,
    "compute.matmul": 0.74,
    "host_link.h2d": 0.85,
    "host_link.d2h": 0.85,
}
"""Fraction of the datasheet's peak that healthy boards reach; from the boards that were measured: read 83–98 %, copy
84–95 %, triad 88–96 %, matmuls 70–87 %, pinned copies 84–88 % of the PCIe link."""
AMD_FRACTIONS: Final[Mapping[str, float]] = {"memory": 0.70, "compute.matmul": 0.55}
"""Fraction of the datasheet's peak that AMD boards reach: MI300X, MI325X and MI355X reach 51–62 % of their matrix peak
and 61–79 % of their bandwidth."""
SMALL_BOARD_W: Final = 150.0
"""Power limit up to which power decides the matmul rate [W]: L4 and T4 reach 59 and 64 % of their peak."""
SMALL_BOARD_FRACTION: Final = 0.60
SUSTAINED_OF_BURST: Final = 0.85
"""Sustained over burst matmul rate: H100 86 %, H200 84 % (own measurements); boards of little power lose more."""
SUSTAINED_OF_BURST_SMALL: Final = 0.65
ECC_ON_GDDR: Final = 0.88
"""Fraction of GDDR bandwidth that error correction leaves: it takes 10 to 15 %."""
_ESTIMATED_FORMATS: Final = {
    "nvidia": ("bf16", "fp16", "tf32", "fp32", "fp8"),
    "amd": ("bf16", "fp16", "fp8"),
}
"""Formats whose rate is estimated, by vendor: int8 has no kernel in torch that nears the peak; torch computes tf32 in
fp32 on AMD boards."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected figure in SI units, and how far it can be trusted."""

    value: float
    kind: Basis
    source: str


@dataclass(frozen=True, slots=True)
class CheckText:
    """Texts for users about one check."""

    title: str
    purpose: str
    remediation: str
    command: str


@functools.cache
def _table() -> dict[tuple[str, int, str, str], Expectation]:
    table = {}
    for _, row in read_csv(DATA_DIR / "boards" / "expectations.csv", _COLUMNS):
        key = (row["accelerator"], int(row["num_gpus"]), row["check"], row["algorithm"])
        value = float(row["expected"]) * _UNITS[row["unit"]]
        kind = _KINDS[row["kind"]]
        source = f"{row['source']} ({row['note']})" if row["note"] else row["source"]
        table[key] = Expectation(value / FLOOR_FRACTION if kind == "floor" else value, kind, source)
    return table


def published_expectation(
    accelerator: Accelerator, check: str, num_gpus: int = 1, algorithm: str = ""
) -> Expectation | None:
    """Published measurement of the check on this board, or else on its fabric [SI]; None if there is none."""
    fabric = accelerator.scale_up.kind if accelerator.scale_up else ""
    table = _table()
    board = table.get((accelerator.id, num_gpus, check, algorithm))
    return board or table.get((fabric, num_gpus, check, algorithm))


def find_expectation(
    accelerator: Accelerator | None, check: str, num_gpus: int = 1, algorithm: str = ""
) -> Expectation | None:
    """Expected result of the check on this board [SI]; None if neither a figure nor a datasheet peak is known."""
    if accelerator is None:
        return None
    return published_expectation(accelerator, check, num_gpus, algorithm) or _estimate(accelerator, check)


def as_found(accelerator: Accelerator, gpu: Gpu | None) -> Accelerator:
    """Return the board at its settings: error correction takes a share of GDDR's bandwidth."""
    peak = accelerator.bandwidth_bytes_per_s
    if gpu is None or not gpu.ecc_enabled or peak is None or not accelerator.memory_type.startswith("GDDR"):
        return accelerator
    return accelerator.model_copy(update={"bandwidth_bytes_per_s": ECC_ON_GDDR * peak})


def pcie_bytes_per_s(accelerator: Accelerator) -> float | None:
    """Rate of the board's PCIe link in one direction [bytes/s]; None if its generation or width is unknown."""
    lane = PCIE_BYTES_PER_S_PER_LANE.get(accelerator.pcie_generation or 0)
    return lane * accelerator.pcie_lanes if lane and accelerator.pcie_lanes else None


def _estimate(accelerator: Accelerator, check: str) -> Expectation | None:
    is_small = (accelerator.tdp_w or SMALL_BOARD_W + 1) <= SMALL_BOARD_W
    if check.startswith("compute.sustained."):
        burst = find_expectation(accelerator, check.replace("sustained", "matmul"))
        fraction = SUSTAINED_OF_BURST_SMALL if is_small else SUSTAINED_OF_BURST
        source = f"estimate: {fraction:.0%} of the burst rate"
        return burst and Expectation(fraction * burst.value, "estimate", f"{source} ({burst.source})")
    keys = [key for key in ESTIMATED_FRACTIONS if check == key or check.startswith(f"{key}.")]
    peak = _datasheet_peak(accelerator, check) if keys else None
    if peak is None:
        return None
    fraction = ESTIMATED_FRACTIONS[keys[0]]
    if accelerator.vendor == "amd":
        fraction = next((f for prefix, f in AMD_FRACTIONS.items() if check.startswith(prefix)), fraction)
    elif is_small and check.startswith("compute."):
        fraction = SMALL_BOARD_FRACTION
    if check.startswith("compute."):
        fraction = min(fraction, _lowest_published_fraction(accelerator))
    return Expectation(fraction * peak, "estimate", f"estimate: {fraction:.0%} of the datasheet's peak")


def _lowest_published_fraction(accelerator: Accelerator) -> float:
    """Lowest fraction of the peak that a board held by its power reaches in other formats; 1 if none was published."""
    known = {
        name: published_expectation(accelerator, f"compute.matmul.{name}")
        for name in accelerator.peak_flop_per_s
    }
    shares = [found.value / accelerator.peak_flop_per_s[name] for name, found in known.items() if found]
    return min(shares, default=1.0)


def _datasheet_peak(accelerator: Accelerator, check: str) -> float | None:
    if check.startswith("memory."):
        return accelerator.bandwidth_bytes_per_s
    if check.startswith("compute.matmul."):
        name = check.rpartition(".")[2]
        known = name in _ESTIMATED_FORMATS.get(accelerator.vendor, ())
        return accelerator.peak_flop_per_s.get(name) if known else None
    return pcie_bytes_per_s(accelerator)


@functools.cache
def _texts() -> dict[str, CheckText]:
    texts = read_toml(Path(__file__).parent / "checks.toml")
    return {key: CheckText(**values) for key, values in texts.items()}


def text_of(check: str) -> CheckText:
    """Return the text of the longest key that is a prefix of the check's id; an empty text if there is none."""
    keys = [key for key in _texts() if check == key or check.startswith(f"{key}.")]
    return _texts()[max(keys, key=len)] if keys else CheckText(check, "", "", "")
