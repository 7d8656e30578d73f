"""Price of a machine in a list of other people, and the accelerator of the catalog that its name means."""

import datetime
import math
import re
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.price import Term
from advisor.catalog.units import with_decimal_point

_MEMORY_TOLERANCE: Final = 0.15
"""Tolerance between two statements of an accelerator's memory, as for refreshed lists."""


@dataclass(frozen=True, slots=True)
class CataloguePrice:
    """One priced machine of another catalogue."""

    row: int
    provider: str
    """Provider that the row states; empty for most catalogues."""
    sku: str
    region: str
    term: Term
    usd_per_hour: str
    num_accelerators: str
    """Number of accelerators; empty if only the name of the machine says it."""
    gpu: str
    """Name of the accelerator in the catalogue; empty if only the name of the machine says it."""
    memory_bytes: float | None
    """Memory of one accelerator [bytes]; None if the row does not state it."""
    currency: str = ""
    """Currency that the row states."""
    is_each: bool = False
    """Whether the price is that of one accelerator."""
    period_hours: float = 1.0
    """Hours that the price in the catalogue pays for."""
    smallest_order: int | None = None
    """Number of accelerators of the smallest order; None if the row does not state it."""
    is_lower_bound: bool = False
    """Whether the row states the lowest of several prices: "from $2"."""
    is_seller_titled: bool = False
    """Whether the title of a column is the provider, or a tier of providers."""
    day: datetime.date | None = None
    """Day on which the price was read; None if the row does not state it."""
    described: str = ""
    """Words of a row that names neither an accelerator nor a machine."""
    unpriced: str = ""
    """Words of a row in place of a price: `on request`, 0.00."""
    lacks_host: bool = False
    """Whether the price is that of accelerators alone, which are rented with a machine that has a row of its own."""


def accelerator_of(price: CataloguePrice) -> tuple[Accelerator | None, bool]:
    """Return the accelerator that a row names, and whether the name says it alone.

    A name that stands for several boards (H100, A100-80GB) gives the one that the catalog takes for it, unless the
    row's memory belongs to another or the name of its machine states another socket; None for a name that the catalog
    does not have.
    """
    words = re.sub(r"\b(?:nvidia|amd|intel|geforce|tesla|instinct|mega|plus|nvlink)\b", "", price.gpu.lower())
    spelt = re.sub(r"[\s_]+", "-", words.strip())
    for name in (spelt, spelt.replace("rtx", "rtx-", 1), spelt.replace("-", "")):
        record = accelerators.find(name)
        if record is None:
            continue
        known = record.memory_bytes
        if (
            price.memory_bytes
            and known
            and all(abs(size - known) > _MEMORY_TOLERANCE * known for size in _sizes_of_one(price))
        ):
            continue
        socket = _SOCKET.search(f"{price.sku} {price.described}".lower())
        if socket and (board := _board_in_socket(record, name, socket[1], price)) is not None:
            return board, True
        letters = record.id.replace("-", "")
        return record, spelt.replace("-", "") == letters
    boards = (_board_with_memory(spelt, size) for size in _sizes_of_one(price))
    return next(filter(None, boards), None), False


_SOCKET: Final = re.compile(r"(?<![a-z])(pcie|sxm|nvl)(?![a-z])")
"""Socket in the name of a machine: gpu_1x_h100_pcie, 8x_A100-80GB-SXM."""


def _board_in_socket(usual: Accelerator, name: str, socket: str, price: CataloguePrice) -> Accelerator | None:
    """Return the board of a name in the socket that its machine states, of the memory that the row states or else the
    usual one's; None if no board of that name has the socket."""
    if socket in usual.id:
        return usual
    family = name.partition("-")[0]
    boards = [
        accelerators.by_id(each)
        for each in accelerators.all_ids()
        if each.startswith(f"{family}-") and socket in each
    ]
    sizes = _sizes_of_one(price) or [usual.memory_bytes or 0.0]
    able = [
        board
        for board in boards
        if (known := board.memory_bytes)
        and any(abs(size - known) <= _MEMORY_TOLERANCE * known for size in sizes)
    ]
    left = able or boards
    return left[0] if len(left) == 1 else None


def _sizes_of_one(price: CataloguePrice) -> list[float]:
    """Return what the memory of a row may be of one accelerator: itself, or that of all divided by their number."""
    count = number_of(price.num_accelerators) or 1.0
    memory = price.memory_bytes
    return [memory, memory / count] if memory and count > 1.0 else [memory] if memory else []


def _board_with_memory(name: str, memory_bytes: float) -> Accelerator | None:
    """Return the board with this memory of those that share a name, in its own socket first; None if none has."""
    boards = (accelerators.by_id(each) for each in accelerators.all_ids() if each.startswith(f"{name}-"))
    able = [
        board
        for board in boards
        if board.memory_bytes
        and abs(memory_bytes - board.memory_bytes) <= _MEMORY_TOLERANCE * board.memory_bytes
    ]
    return max(able, key=lambda board: "sxm" in board.id, default=None)


def is_accelerator(name: str) -> bool:
    return bool(name) and accelerator_of(_row_of(name))[0] is not None


def _row_of(name: str) -> CataloguePrice:
    bare = re.sub(r"\s*[()]\s*", " ", name).strip()
    return CataloguePrice(0, "", "", "", "on_demand", "", "1", bare, None)


def whole_count(text: str, where: str) -> int:
    """Return a number of accelerators. Raises: InputFileError: it is no whole number of at least 1."""
    found = number_of(text)
    if found is None or found < 1 or found != round(found):
        raise InputFileError(
            f"{where}: {text!r} accelerators",
            why="not a whole number of at least 1",
            fix="correct it or leave the row out",
        )
    return round(found)


def number_of(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


_LONG_PERIOD_HOURS: Final = 24.0
"""Shortest period whose prices are sums of dollars and cents; those of an hour have more decimals."""
_THREE_DECIMALS: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}")


def dollars_of(text: str, period_hours: float = 1.0) -> float | None:
    """Return the dollars for a period, however their thousands and decimals are divided; None if the text is no number.

    A point before three digits divides thousands in the sum of a day or longer: sums have two decimals.
    """
    found = number_of(with_decimal_point(text))
    is_sum = period_hours >= _LONG_PERIOD_HOURS and _THREE_DECIMALS.fullmatch(text.strip())
    return found * 1000.0 if found is not None and is_sum else found
