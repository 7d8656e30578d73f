"""A question about images, texts or audio."""

import datetime
from dataclasses import dataclass, field

from advisor.catalog.schema import Calibration
from advisor.catalog.units import DAY_S
from advisor.decide.scenario import Constraints, ExtraItems
from advisor.simulator.workloads.services import ItemJob


@dataclass(frozen=True, slots=True)
class ItemScenario:
    """The whole question, everything resolved."""

    model: str
    job: ItemJob
    rate_per_s: float | None
    """Items per second of the whole deployment; None asks for the cheapest item, or for every load of the ladder."""
    latency_p99_s: float
    constraints: Constraints
    as_of: datetime.date
    seed: int = 0
    budget_usd_per_hour: float | None = None
    calibration: Calibration | None = None
    top: int = 5
    beside: ExtraItems = field(default_factory=ExtraItems)
    ladder_per_s: tuple[float, ...] = ()
    """Loads to answer for where none is given; the options are those of the last that anything carries."""
    num_items: float | None = None
    """Items that are there already; None if they come at a rate."""
    deadline_s: float = DAY_S
    """Time within which the items that are there are done [s]."""
