"""Dated prices of rented accelerators."""

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from advisor.catalog.schema.record import Record

Term = Literal[
    "on_demand",
    "spot",
    "reserved_1m",
    "reserved_3m",
    "reserved_1y",
    "reserved_3y",
    "reserved_unspecified",
    "community",
]
Tenancy = Literal["dedicated", "shared", "unknown"]
"""dedicated: one renter alone uses the accelerator; shared: oversubscribed or serverless; unknown:
a marketplace host.
"""
PriceKind = Literal["list", "quote", "from", "tracker", "marketplace_median", "marketplace_min"]
"""list: the provider's own price list, also when transcribed; quote: made to the person who gives it; from: "starting
at"; tracker: a third party's figure; marketplace_median and marketplace_min: over the offers of many hosts."""


_NAMED: Final[Mapping[str, str]] = {
    "us": "US",
    "usa": "US",
    "jp": "JP",
    "japan": "JP",
    "canada": "CA",
    "fin": "FI",
    "finland": "FI",
    "uk": "GB",
    "germany": "DE",
    "france": "FR",
    "norway": "NO",
    "sweden": "SE",
    "iceland": "IS",
    "india": "IN",
}
"""Countries by the first word of a region's name, as providers write it that do not state the country."""


def country_of_region(region: str) -> str:
    """Return the country that a region's name states; empty where it names none: `any`, `north-america`."""
    return _NAMED.get(re.split(r"[-_ ,]", region.strip().lower(), maxsplit=1)[0], "")


class Price(Record):
    """Observation of one offer. Rows are appended, never edited; validity is half-open [valid_from, valid_to)."""

    provider: str
    sku: str
    region: str
    accelerator: str
    num_accelerators: int = Field(ge=1, le=100_000)
    term: Term
    usd_per_hour: float = Field(gt=0, lt=1e6)
    """Price of the whole SKU [USD/h]."""
    observed_on: datetime.date
    valid_from: datetime.date
    valid_to: datetime.date | None = None
    url: str = ""
    """Page or file where the price was read."""
    source: str = ""
    """Title of the page or file."""
    is_dated: bool = True
    """False if the source bears no date; observed_on is then the earliest possible day."""
    is_confirmed: bool = Field(default=False, exclude=True)
    """Whether the person whose file has the row insists on a price far below those of others."""
    tenancy: Tenancy = "dedicated"
    price_kind: PriceKind = "list"
    country: str = ""
    """ISO 3166 code: what the source states, else what the region's name says; empty if neither names one country."""
    min_quantity: int | None = Field(default=None, ge=1)
    """Number of accelerators of the smallest order at this price; None means the SKU's."""
    max_quantity: int | None = Field(default=None, ge=1)
    """Number of accelerators of the largest order at this price; None if no source states a limit."""
    vcpus: int | None = Field(default=None, ge=0, le=1_000_000)
    ram_bytes: float | None = Field(default=None, ge=0, lt=1e18)
    storage_usd_per_gb_hour: float | None = Field(default=None, ge=0, lt=1)
    """Storage price on top of usd_per_hour [USD per GB and hour]; None if the provider does not state it."""
    egress_usd_per_gb: float | None = Field(default=None, ge=0, lt=10)

    @property
    def read_words(self) -> str:
        """Day on which the price was read, as ISO 8601; `undated` if the source bears no date."""
        return self.observed_on.isoformat() if self.is_dated else "undated"

    @model_validator(mode="before")
    @classmethod
    def _country_of_region(cls, values: Any) -> Any:
        if (
            isinstance(values, Mapping)
            and not values.get("country")
            and isinstance(values.get("region"), str)
        ):
            return {**values, "country": country_of_region(values["region"])}
        return values

    @model_validator(mode="after")
    def _interval_is_not_empty(self) -> "Price":
        if self.valid_to is not None and self.valid_to <= self.valid_from:
            raise ValueError(f"valid_to {self.valid_to} is not after valid_from {self.valid_from}")
        if self.min_quantity and self.max_quantity and self.max_quantity < self.min_quantity:
            raise ValueError(f"max_quantity {self.max_quantity} is below min_quantity {self.min_quantity}")
        return self

    @property
    def offer(self) -> tuple[str, str, str, str]:
        """Provider, SKU, region and term that identify the offer."""
        return self.provider, self.sku, self.region, self.term

    @property
    def usd_per_accelerator_hour(self) -> float:
        return self.usd_per_hour / self.num_accelerators
