"""Tiles of a kernel on a GPU: waves over the SMs, and how many programs an SM holds at once."""

import math
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.simulator.occupancy import LIMITS, occupancy

_OTHER_REGISTERS: Final = 40
"""Registers of a thread apart from its accumulators [count]: addresses, masks and loop counters. Own assumption; with
24 or 56 no tile shape of the matmul kernel fits more often on an SM of Hopper."""
_MOST_REGISTERS: Final = 255


@dataclass(frozen=True, slots=True)
class TileOccupancy:
    """One tile shape of one product on one GPU."""

    tile_rows: int
    tile_columns: int
    num_tiles: int
    num_sms: int | None
    """None if the catalog does not have the number of SMs."""
    programs_per_sm: int | None
    """Programs that an SM holds at once; None if its limits are not known, 0 if not even one fits."""
    limited_by: str
    """Resource that allows no further program, e.g. shared memory."""
    relative_time: float | None
    """Waves × tile size ÷ measured rate of the tile shape, in tiles of 128 x 256 at the fastest rate."""

    @property
    def waves(self) -> float | None:
        return self.num_tiles / self.num_sms if self.num_sms else None

    @property
    def busy_fraction(self) -> float | None:
        """Fraction of the SMs' time that has a tile."""
        return self.waves / math.ceil(self.waves) if self.waves else None


def tile_occupancy(
    accelerator: Accelerator,
    *,
    num_tiles: int,
    tile: tuple[int, int],
    num_threads: int,
    shared_bytes: int,
    rate: float,
) -> TileOccupancy:
    """Return waves and occupancy of a tile shape whose programs walk over tiles, one program per SM at a time.

    Assumes: accumulators of fp32 lie in registers, spread evenly over the threads.
    Error: registers apart from the accumulators are assumed.
    Source: `simulator.occupancy`.
    """
    accumulators = tile[0] * tile[1] // num_threads
    registers = min(_MOST_REGISTERS, accumulators + _OTHER_REGISTERS)
    limits = LIMITS.get(accelerator.compute_capability)
    programs: int | None = None
    limited_by = ""
    if limits is not None:
        try:
            found = occupancy(limits, num_threads, registers, shared_bytes)
        except AdvisorError as error:
            programs = 0
            limited_by = error.what
        else:
            programs = found.blocks_per_sm
            tight = [name for name, blocks in found.blocks_by_limit.items() if blocks == programs]
            limited_by = ", ".join(tight)
    num_sms = accelerator.num_sms
    waves = math.ceil(num_tiles / num_sms) if num_sms else None
    relative = waves * tile[0] * tile[1] / rate / (128 * 256) if waves else None
    return TileOccupancy(tile[0], tile[1], num_tiles, num_sms, programs, limited_by, relative)
