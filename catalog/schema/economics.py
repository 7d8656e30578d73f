"""What money and carbon rest on: list prices of tokens, costs of owning, grids, daily load."""

import datetime
from typing import Literal

from pydantic import Field, field_validator, model_validator

from advisor.catalog.schema.record import Provenance, Record


class ApiPrice(Record):
    """What a provider asks for a model's tokens on its public price list."""

    provider: str
    model: str
    """Catalog id, or the provider's own name where the model's weights are closed."""
    usd_per_million_input: float = Field(ge=0, lt=1e5)
    usd_per_million_cached_input: float | None = Field(default=None, ge=0, lt=1e5)
    """Prompt tokens found in the provider's cache; None where it gives no discount."""
    usd_per_million_output: float = Field(ge=0, lt=1e5)
    observed_on: datetime.date
    url: str = ""
    source: str = ""
    """Title of the same, where it is a table of many providers."""
    note: str = ""


class Assumption(Record):
    """A figure of ownership that a person may replace, with the range that its sources span."""

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
    """What one accelerator costs to buy, without the machine around it unless `is_system`."""

    accelerator: str
    usd: float = Field(gt=0, lt=1e7)
    low: float = Field(gt=0, lt=1e7)
    high: float = Field(gt=0, lt=1e7)
    is_system: bool = False
    """The price includes the whole machine (a Mac, a DGX Spark)."""
    kind: Provenance
    condition: Literal["new", "used"] = "new"
    observed_on: datetime.date
    is_dated: bool = True
    """False: the source bears no date, and observed_on is the earliest that it can have."""
    source: str
    url: str = ""

    @model_validator(mode="after")
    def _range_holds_value(self) -> "PurchasePrice":
        if not self.low <= self.usd <= self.high:
            raise ValueError(f"the range {self.low} to {self.high} does not hold {self.usd}")
        return self


class Region(Record):
    """A place with a grid: how much CO2e a kilowatt-hour carries, and what it costs there where that is known."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    """Region names of clouds that lie there."""
    kg_co2e_per_kwh: float = Field(ge=0, le=2)
    carbon_year: int = Field(ge=2019, le=2100)
    carbon_source: str
    electricity_usd_per_kwh: float | None = Field(default=None, gt=0, lt=5)
    electricity_observed_on: datetime.date | None = None
    electricity_source: str = ""


class LoadShape(Record):
    """How a day's load is spread: levels over equal parts of a day, of which the mean is 1 after reading."""

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
        """The levels over their mean."""
        mean = sum(self.levels) / len(self.levels)
        return tuple(level / mean for level in self.levels)
