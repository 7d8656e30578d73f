"""Host memory that a machine is taken to have for each of its accelerators, unless it is stated."""

from functools import cache
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_csv
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB

BUNDLED_PRICES: Final = "bundled prices"
"""Source of a row that is the median over the price rows of the catalog."""
_FILE: Final = DATA_DIR / "host_memory.csv"
_OF_DEVICE_MEMORY: Final = 1.25
"""Host memory over the memory of the accelerator, of those that have no row. Own assumption: of the accelerators with a
row, half of those with 48 GB or more lie between 1.2 and 2.8, and RTX PRO 6000 and B300 near 1."""
_LEAST_BYTES: Final = 32.0 * GIB
"""Host memory of a machine with one small accelerator. Own assumption: the usual size of a desktop's memory."""


@cache
def _rows() -> dict[str, tuple[float, str]]:
    found = {}
    for line, cells in read_csv(_FILE, ("accelerator", "gib", "source")):
        try:
            found[cells["accelerator"]] = (float(cells["gib"]) * GIB, cells["source"])
        except ValueError:
            raise InputFileError(f"{_FILE}: line {line}: {cells['gib']!r} is not a number") from None
    return found


def usual_host_bytes(accelerator: Accelerator) -> float:
    """Return the host memory for one accelerator of a usual rented machine [bytes]; 0 where accelerator and processor
    share their memory.

    Assumes: 1.25 times the accelerator's own memory where no machine's is known, and 32 GiB at least.
    Raises: InputFileError: the bundled file is damaged.
    Source: data/host_memory.csv.
    """
    if accelerator.unified_memory:
        return 0.0
    known, _ = _rows().get(accelerator.id, (0.0, ""))
    return known or max(_LEAST_BYTES, _OF_DEVICE_MEMORY * (accelerator.memory_bytes or 0.0))
