"""Questions about money: what `recommend` is asked, the shape of the day, and what the answer is compared with."""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from advisor.catalog.schema.economics import LoadShape
from advisor.catalog.schema.record import Record
from advisor.catalog.units import DAY_S
from advisor.decide.power import NAME as POWER
from advisor.decide.scenario import Constraints, Scenario

_OF_RENT: Final = ("providers", "regions", "countries", "terms", "tenancies", "max_price_age_days")
"""Limits on what is rented that say nothing of machines that are bought."""


class CostQuestion(Record):
    """One question about cost, with everything resolved."""

    scenario: Scenario
    """Scenario for `recommend`. The rate is that of the busiest part of the day; owned hardware is in the
    constraints. Without a load, `recommend` returns what full units carry."""
    shape: LoadShape
    tokens_per_day: float | None = Field(default=None, gt=0)
    """Prompt and output tokens of a mean day, where the load was given so."""
    apis: tuple[str, ...] | None = None
    """API providers to compare with; None is all that list the model, empty is none."""
    api_price_file: Path | None = None
    assumptions_file: Path | None = None
    purchase_usd: float | None = Field(default=None, gt=0)
    """The user's own price of one accelerator of the hardware to own."""
    years: float | None = Field(default=None, gt=0)
    """Years until owned hardware is sold, as the user says; None for the catalog's."""
    electricity_usd_per_kwh: float | None = Field(default=None, ge=0)
    """Tariff where owned hardware stands [USD/kWh], as the user says; None for the catalog's for the place."""

    @model_validator(mode="after")
    def _is_about_one_load(self) -> Self:
        if self.scenario.ladder_per_s or self.scenario.ladder_clients or self.scenario.max_contexts:
            raise ValueError("a question about cost is about one load and one context window")
        return self

    @property
    def own(self) -> tuple[int, str] | None:
        """Hardware to own: a number of accelerators and their id; None picks among those with a purchase price."""
        own = self.scenario.constraints.own
        return own[0] if own else None

    @property
    def rented(self) -> Scenario:
        """The question that `recommend` is asked about hardware for rent."""
        levers = tuple(name for name in self.scenario.levers if not name.startswith(POWER)) or ("auto",)
        rented = self.scenario.with_limits(own=(), power_budget_w=None)
        return rented.model_copy(update={"levers": levers})

    @property
    def anywhere(self) -> Scenario | None:
        """The question about hardware for rent without limits on who rents it out, where and how; None if it has no
        such limit."""
        usual = Constraints()
        limits = {name: getattr(usual, name) for name in _OF_RENT}
        rented = self.rented
        found = rented.with_limits(**limits)
        return None if found.constraints == rented.constraints else found

    def within_window(self, searched: Scenario) -> "CostQuestion":
        """Return the question with its requests as a search took them: within the model's window."""
        scenario = self.scenario.model_copy(update={"traffic": searched.traffic})
        return self.model_copy(update={"scenario": scenario})

    @property
    def power_cap(self) -> str:
        """The lever that limits the power of boards of one's own; empty where none is named."""
        return next((name for name in self.scenario.levers if name.startswith(POWER)), "")

    @property
    def tokens_per_request(self) -> int:
        """Prompt and output tokens of the mean request."""
        return self.scenario.traffic.tokens_per_request

    @property
    def mean_over_peak(self) -> float:
        """Mean request rate of the day over that of its busiest part."""
        return 1.0 / max(self.shape.relative)

    @property
    def mean_rate_per_s(self) -> float | None:
        """Requests per second, mean of the day; None where no rate is given."""
        peak = self.scenario.traffic.rate_per_s
        return None if peak is None else peak * self.mean_over_peak

    @property
    def volume(self) -> float | None:
        """Prompt and output tokens of a mean day; None where no rate is given."""
        mean = self.mean_rate_per_s
        if mean is None:
            return None
        return self.tokens_per_day or mean * DAY_S * self.tokens_per_request
