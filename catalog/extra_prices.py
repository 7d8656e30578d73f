"""Prices of storage and egress, which providers charge in addition to machines."""

import datetime
import functools
import itertools
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import ConfigDict, Field

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, check_record, read_csv
from advisor.catalog.schema.price import Price
from advisor.catalog.schema.record import Record
from advisor.catalog.units import GB, GIB, HOURS_PER_MONTH

ExtraItem = Literal["storage", "egress"]
_COLUMNS: Final = ("provider", "item", "above", "usd", "unit", "per", "observed_on", "url", "note")
_UNIT_BYTES: Final = {"GB": GB, "GiB": GIB}


class ExtraRate(Record):
    """Price of storage or egress of one provider, from an amount on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    item: ExtraItem
    above: float = Field(ge=0)
    """Amount from which on the price holds [units]."""
    usd: float = Field(ge=0, lt=10)
    """Price of a unit: of egress once, of storage for a month or an hour [USD]."""
    unit: Literal["GB", "GiB"]
    per: Literal["", "hour", "month"] = ""
    """Time for which a unit of storage is paid; empty for egress."""
    observed_on: datetime.date | None = None
    """Day on which the price was read; None where the source bears no date."""
    url: str
    note: str

    @property
    def usd_per_gb_month(self) -> float:
        """Price of egress, or of storage for a month [USD/GB]."""
        return self.usd * (HOURS_PER_MONTH if self.per == "hour" else 1.0) * GB / _UNIT_BYTES[self.unit]

    @property
    def above_gb(self) -> float:
        """Amount from which on the price holds [GB]."""
        return self.above * _UNIT_BYTES[self.unit] / GB


Tiers = tuple[tuple[float, float], ...]
"""Amounts from which on prices hold [GB], and these prices, of storage for a month [USD/GB]; the least amount is 0."""


@functools.cache
def extra_rates() -> tuple[ExtraRate, ...]:
    """Return every bundled price of storage and egress.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = DATA_DIR / "extra_prices.csv"
    return tuple(
        check_record(ExtraRate, {name: cell for name, cell in cells.items() if cell}, f"{path}: row {number}")
        for number, cells in read_csv(path, _COLUMNS)
    )


@functools.cache
def _tiers_of_providers() -> Mapping[tuple[str, str], Tiers]:
    """Return the prices of each provider and item.

    Raises: InputFileError: the tiers of one do not begin at 0 and rise.
    """
    found: dict[tuple[str, str], Tiers] = {}
    for key, rows in itertools.groupby(extra_rates(), key=lambda row: (row.provider, row.item)):
        tiers = tuple((row.above_gb, row.usd_per_gb_month) for row in rows)
        starts = [start for start, _ in tiers]
        if key in found or starts[0] != 0.0 or starts != sorted(set(starts)):
            raise InputFileError(f"extra_prices.csv: {key[0]} {key[1]}: its rows do not rise from 0")
        found[key] = tiers
    return found


def extra_tiers(price: Price, item: ExtraItem) -> Tiers:
    """Return what an offer's storage or egress costs: the offer's own price, else its provider's; empty if neither is
    known."""
    if item == "storage" and price.storage_usd_per_gb_hour is not None:
        return ((0.0, price.storage_usd_per_gb_hour * HOURS_PER_MONTH),)
    if item == "egress" and price.egress_usd_per_gb is not None:
        return ((0.0, price.egress_usd_per_gb),)
    return _tiers_of_providers().get((price.provider, item), ())


def usd_of_tiers(tiers: Tiers, size_gb: float) -> float:
    """Cost of an amount in a month [USD]: each part of it at the price of its tier.

    >>> usd_of_tiers(((0.0, 0.0), (100.0, 0.09)), 1100.0)
    90.0
    """
    ends = [start for start, _ in tiers[1:]] + [size_gb]
    parts = zip(tiers, ends, strict=True)
    return sum(usd * max(0.0, min(size_gb, end) - start) for (start, usd), end in parts)
