"""Occupancy: how many blocks of a kernel an SM holds, limited by threads, registers, shared memory or block slots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import KIB

WARP_THREADS: Final = 32
_MAX_THREADS_PER_BLOCK: Final = 1024
_MAX_REGISTERS_PER_THREAD: Final = 255
_REGISTERS_PER_SM: Final = 65536
_REGISTER_UNIT: Final = 256
"""Granularity of the registers allocated to a warp."""
_PARTITIONS: Final = 4
"""Number of partitions of an SM, each with its own registers and warps."""


@dataclass(frozen=True, slots=True)
class SmLimits:
    """Resources of one SM of a compute capability."""

    max_threads: int
    max_blocks: int
    shared_bytes: int
    max_shared_bytes_per_block: int
    reserved_shared_bytes: int
    """Shared memory that the driver takes for each block [bytes]."""
    shared_unit_bytes: int

    @property
    def max_warps(self) -> int:
        return self.max_threads // WARP_THREADS


def _limits(threads: int, blocks: int, shared_kib: int, block_kib: int) -> SmLimits:
    since_ampere = block_kib < shared_kib
    return SmLimits(
        threads,
        blocks,
        int(shared_kib * KIB),
        int(block_kib * KIB),
        int(KIB) if since_ampere else 0,
        128 if since_ampere else 256,
    )


LIMITS: Final[Mapping[str, SmLimits]] = {
    "7.0": _limits(2048, 32, 96, 96),
    "7.5": _limits(1024, 16, 64, 64),
    "8.0": _limits(2048, 32, 164, 163),
    "8.6": _limits(1536, 16, 100, 99),
    "8.7": _limits(1536, 16, 164, 163),
    "8.9": _limits(1536, 24, 100, 99),
    "9.0": _limits(2048, 32, 228, 227),
    "10.0": _limits(2048, 32, 228, 227),
    "10.3": _limits(2048, 32, 228, 227),
    "11.0": _limits(1536, 24, 228, 227),
    "12.0": _limits(1536, 24, 100, 99),
    "12.1": _limits(1536, 24, 100, 99),
}
"""Limits by compute capability. Source: NVIDIA, CUDA C++ Programming Guide, technical specifications per compute
capability."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of an SM by a kernel."""

    blocks_per_sm: int
    warps_per_sm: int
    max_warps_per_sm: int
    blocks_by_limit: Mapping[str, int]
    """Number of blocks that each resource alone would allow."""
    shared_bytes_left: int
    """Shared memory of the SM that its blocks leave free [bytes]."""

    @property
    def fraction(self) -> float:
        """Resident warps as a fraction of the maximum."""
        return self.warps_per_sm / self.max_warps_per_sm

    @property
    def limits(self) -> tuple[str, ...]:
        """Resources that limit the number of blocks."""
        return tuple(name for name, count in self.blocks_by_limit.items() if count == self.blocks_per_sm)


def limits_of(compute_capability: str) -> SmLimits:
    """Return the limits of an NVIDIA compute capability.

    Raises: AdvisorError: it is none, or its limits are not known.
    Source: NVIDIA, CUDA C++ Programming Guide.
    """
    if compute_capability not in LIMITS:
        raise AdvisorError(
            f"no occupancy limits for {compute_capability or 'an accelerator without compute capability'}",
            why=f"limits are known for CUDA compute capabilities {', '.join(LIMITS)}",
            fix="choose a GPU of NVIDIA",
        )
    return LIMITS[compute_capability]


def occupancy(
    limits: SmLimits, threads_per_block: int, registers_per_thread: int, shared_bytes_per_block: int = 0
) -> Occupancy:
    """Return the blocks and warps of a kernel that one SM holds at once.

    The least of: block slots; thread slots; registers, whole units per warp and whole warps per quarter of the SM;
    shared memory, whole units per block and the driver's part.

    Raises: AdvisorError: not even one block can be launched.
    Source: NVIDIA, CUDA C++ Best Practices Guide, "Calculating Occupancy"; Nsight Compute's occupancy calculator.
    """
    _check(limits, threads_per_block, registers_per_thread, shared_bytes_per_block)
    warps = -(-threads_per_block // WARP_THREADS)
    registers_per_warp = _round_up(registers_per_thread * WARP_THREADS, _REGISTER_UNIT)
    warps_by_registers = _PARTITIONS * (_REGISTERS_PER_SM // _PARTITIONS // registers_per_warp)
    shared = _round_up(shared_bytes_per_block + limits.reserved_shared_bytes, limits.shared_unit_bytes)
    by_limit = {
        "block slots": limits.max_blocks,
        "threads": limits.max_warps // warps,
        "registers": warps_by_registers // warps,
    }
    if shared:
        by_limit["shared memory"] = limits.shared_bytes // shared
    blocks = min(by_limit.values())
    if not blocks:
        raise AdvisorError(
            f"a block of {threads_per_block} threads with {registers_per_thread} registers each does not fit an SM",
            why=f"registers of {warps_by_registers} warps fit, the block has {warps}",
            fix="fewer threads per block or registers per thread",
        )
    return Occupancy(
        blocks, blocks * warps, limits.max_warps, by_limit, limits.shared_bytes - blocks * shared
    )


def _check(limits: SmLimits, threads: int, registers: int, shared: int) -> None:
    ranges = (
        ("threads per block", threads, 1, _MAX_THREADS_PER_BLOCK),
        ("registers per thread", registers, 1, _MAX_REGISTERS_PER_THREAD),
        ("bytes of shared memory per block", shared, 0, limits.max_shared_bytes_per_block),
    )
    for name, value, least, most in ranges:
        if not least <= value <= most:
            raise AdvisorError(
                f"{value} {name}: out of range", why=f"from {least} to {most}", fix="correct that number"
            )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
