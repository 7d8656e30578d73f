"""Records behind costs and carbon: token list prices, ownership assumptions, grids and daily load."""

import datetime
from typing import Literal

from pydantic import Field, field_validator, model_validator

from advisor.catalog.schema.record import Provenance, Record


class ApiPrice(Record):
    """Price of a model's tokens on a provider's public price list."""

    provider: str
    model: str
    """Catalog id, or the provider's own name if the model's weights are closed."""
    usd_per_million_input: float = Field(ge=0, lt=1e5)
    usd_per_million_cached_input: float | None = Field(default=None, ge=0, lt=1e5)
    """Price of prompt tokens found in the provider's cache [USD per million]; None if the provider
    gives no discount.
    """
    usd_per_million_output: float = Field(ge=0, lt=1e5)
    observed_on: datetime.date
    url: str = ""
    source: str = ""
    """Title of the source behind `url` if it is a table of many providers."""
    note: str = ""


class ApiEnding(Record):
    """End of a provider's service, or of one model there: its listed prices buy nothing from that day on."""

    provider: str
    model: str = ""
    """Catalog id; empty where the whole service ended."""
    ended_on: datetime.date
    """First day without the service."""
    url: str
    read_on: datetime.date

    def rules_out(self, price: ApiPrice, day: datetime.date) -> bool:
        """Whether a price of the list can no longer be had on a day."""
        is_of_it = price.provider == self.provider and self.model in ("", price.model)
        return is_of_it and self.ended_on <= day


class Assumption(Record):
    """Ownership figure that a user may replace, with the range that its sources span."""

    value: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)
    unit: str
    kind: Provenance
    observed_on: datetime.date
    source: str
    url: str = ""

    @model_validator(mode="after")
    def _range_holds_value(self) -> "Assumption":
        if not self.low <= self.value <= self.high:
            raise ValueError(f"the range {self.low} to {self.high} does not hold {self.value}")
        return self


class PurchasePrice(Record):
    """Purchase price of one accelerator, without the machine around it unless `is_system`."""

    accelerator: str
    usd: float = Field(gt=0, lt=1e7)
    low: float = Field(gt=0, lt=1e7)
    high: float = Field(gt=0, lt=1e7)
    is_system: bool = False
    """Whether the price includes the whole machine (a Mac, a DGX Spark)."""
    kind: Provenance
    condition: Literal["new", "used"] = "new"
    observed_on: datetime.date
    is_dated: bool = True
    """False if the source bears no date; observed_on is then the earliest possible day."""
    source: str
    url: str = ""

    @model_validator(mode="after")
    def _range_holds_value(self) -> "PurchasePrice":
        if not self.low <= self.usd <= self.high:
            raise ValueError(f"the range {self.low} to {self.high} does not hold {self.usd}")
        return self


class Region(Record):
    """Place with an electricity grid: CO2e per kilowatt-hour, and the tariff where it is known."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    """Cloud region names that lie there."""
    kg_co2e_per_kwh: float = Field(ge=0, le=2)
    carbon_year: int = Field(ge=2019, le=2100)
    carbon_source: str
    electricity_usd_per_kwh: float | None = Field(default=None, gt=0, lt=5)
    electricity_observed_on: datetime.date | None = None
    electricity_source: str = ""


class LoadShape(Record):
    """Distribution of load over the day: levels over equal parts of a day; `relative` has a mean of 1."""

    id: str
    levels: tuple[float, ...] = Field(min_length=1, max_length=168)
    source: str

    @field_validator("levels")
    @classmethod
    def _is_a_load(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        if min(levels) < 0 or sum(levels) <= 0:
            raise ValueError("levels must not be negative, and one must be positive")
        return levels

    @property
    def relative(self) -> tuple[float, ...]:
        """Levels divided by their mean."""
        mean = sum(self.levels) / len(self.levels)
        return tuple(level / mean for level in self.levels)
