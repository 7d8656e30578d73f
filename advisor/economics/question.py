"""What is asked about money: a serving scenario, a day's volume and shape, and what to compare it with."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from advisor.catalog.schema.economics import LoadShape
from advisor.catalog.schema.record import Record
from advisor.catalog.units import DAY_S
from advisor.decide.scenario import Scenario


class CostQuestion(Record):
    """One question about cost, with everything resolved."""

    scenario: Scenario
    """Without a rate: the load is in `tokens_per_day` or `requests_per_s`, or the highest within the objectives."""
    tokens_per_day: float | None = Field(default=None, gt=0)
    """Prompt and answer tokens together, mean of the days."""
    requests_per_s: float | None = Field(default=None, gt=0)
    """Mean over the day."""
    shape: LoadShape
    apis: tuple[str, ...] | None = None
    """API providers to compare with; None is all that list the model, empty is none."""
    api_price_file: Path | None = None
    assumptions_file: Path | None = None
    region: str | None = None
    """Where owned machines would stand, and whose grid counts."""
    purchase_usd: float | None = Field(default=None, gt=0)
    """A person's own price of one accelerator of `own`."""
    power_cap: str = ""
    """The lever by which boards of one's own are held to less power; empty: each limit that was measured."""
    own: tuple[int, str] | None = None
    """Hardware to own: a number of accelerators and their id; None picks among those with a purchase price."""

    @model_validator(mode="after")
    def _one_volume(self) -> Self:
        if self.tokens_per_day is not None and self.requests_per_s is not None:
            raise ValueError("give tokens per day or a rate, not both")
        if self.scenario.traffic.rate_per_s is not None:
            raise ValueError("the rate belongs into the question, the scenario asks for the highest load")
        return self

    @property
    def tokens_per_request(self) -> int:
        traffic = self.scenario.traffic
        return traffic.mean_input_tokens + traffic.mean_output_tokens

    @property
    def mean_rate_per_s(self) -> float | None:
        """Requests per second, mean of the day; None asks for the highest load."""
        if self.tokens_per_day is not None:
            return self.tokens_per_day / DAY_S / self.tokens_per_request
        return self.requests_per_s

    @property
    def peak_rate_per_s(self) -> float | None:
        """Requests per second in the busiest part of the day."""
        mean = self.mean_rate_per_s
        return None if mean is None else mean * max(self.shape.relative)
