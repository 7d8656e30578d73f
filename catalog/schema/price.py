"""Dated prices of rented accelerators."""

import datetime
from typing import Literal

from pydantic import Field

from advisor.catalog.schema.record import Record


class Price(Record):
    """One observation of one offer. Rows are appended, never edited; validity is half-open [valid_from, valid_to)."""

    provider: str
    sku: str
    region: str
    accelerator: str
    num_accelerators: int = Field(ge=1, le=100_000)
    term: Literal["on_demand", "spot", "reserved_1y", "reserved_3y", "community"]
    usd_per_hour: float = Field(gt=0, lt=1e6)
    """Of the whole SKU."""
    observed_on: datetime.date
    valid_from: datetime.date
    valid_to: datetime.date | None = None
    url: str = ""
    """Page or file where it was read."""
    vcpus: int | None = None
    ram_bytes: float | None = None

    @property
    def usd_per_accelerator_hour(self) -> float:
        return self.usd_per_hour / self.num_accelerators
