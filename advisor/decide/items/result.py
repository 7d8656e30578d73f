"""A question about images, texts or audio, and the ranked answer to it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.catalog.schema import Calibration
from advisor.decide.decision import Rejected
from advisor.decide.option import Bill, Role
from advisor.decide.scenario import Beside, Constraints
from advisor.simulator.quantity import Quantity
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
    beside: Beside = field(default_factory=Beside)
    ladder_per_s: tuple[float, ...] = ()
    """Loads to answer for where none is given; the options are those of the last that anything carries."""


@dataclass(frozen=True, slots=True)
class ItemOption:
    """One fleet that serves the items, with what it costs and how it behaves."""

    rank: int
    accelerator: str
    accelerator_name: str
    num_accelerators: int
    num_replicas: int
    accelerators_per_replica: int
    split: str
    """How one batch is divided over the accelerators of a replica; empty for one."""
    max_batch: int
    weight_dtype: str
    runtime: str
    provider: str
    sku: str
    region: str
    term: str
    price_kind: str
    """list, quote, from, tracker or marketplace."""
    price_tenancy: str
    price_observed_on: str
    price_age_days: int
    usd_per_hour: float
    bill: Bill
    usd_per_thousand_items: Quantity
    items_per_s: Quantity
    """Served; at most the rate asked for."""
    latency_s: Mapping[str, Quantity]
    meets_slo: bool
    slo_confidence: str
    """Whether the whole interval of the p99 latency meets the promise: sure, likely or marginal."""
    busy_fraction: float
    mean_batch: float
    parts_s: Mapping[str, float]
    """Time of a batch of one, by part."""
    basis_notes: tuple[str, ...]
    role: Role = "other"
    """safe_pick, cheapest_if_it_holds or other."""


@dataclass(frozen=True, slots=True)
class ItemRung:
    """One load of a ladder and what to take for it; None where nothing carries it."""

    rate_per_s: float
    pick: ItemOption | None


@dataclass(frozen=True, slots=True)
class ItemSearch:
    """What the search did."""

    num_candidates: int
    num_simulated: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class ItemRecommendation:
    """The ranked answer."""

    kind: str
    model: str
    workload: str
    unit: str
    headline: str
    options: tuple[ItemOption, ...]
    rejected: tuple[Rejected, ...]
    search: ItemSearch
    warnings: tuple[str, ...] = ()
    ladder: tuple[ItemRung, ...] = ()
