"""Dated prices of rented accelerators."""

import datetime
from typing import Literal

from pydantic import Field, model_validator

from advisor.catalog.schema.record import Record

Term = Literal["on_demand", "spot", "reserved_1y", "reserved_3y", "community"]


class Price(Record):
    """One observation of one offer. Rows are appended, never edited; validity is half-open [valid_from, valid_to)."""

    provider: str
    sku: str
    region: str
    accelerator: str
    num_accelerators: int = Field(ge=1, le=100_000)
    term: Term
    usd_per_hour: float = Field(gt=0, lt=1e6)
    """Of the whole SKU."""
    observed_on: datetime.date
    valid_from: datetime.date
    valid_to: datetime.date | None = None
    url: str = ""
    """Page or file where it was read."""
    vcpus: int | None = None
    ram_bytes: float | None = None

    @model_validator(mode="after")
    def _interval_is_not_empty(self) -> "Price":
        if self.valid_to is not None and self.valid_to <= self.valid_from:
            raise ValueError(f"valid_to {self.valid_to} is not after valid_from {self.valid_from}")
        return self

    @property
    def usd_per_accelerator_hour(self) -> float:
        return self.usd_per_hour / self.num_accelerators
