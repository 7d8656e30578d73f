"""A batch of requests with a deadline, and the ranked ways to get it done."""

from dataclasses import dataclass

from advisor.decide.decision import Rejected
from advisor.decide.option import Bill, Role
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class BatchJob:
    """How many requests, until when, and how often spot machines are lost."""

    num_requests: int
    deadline_s: float
    spot_losses_per_day: float = 1.0
    """Of one machine; what it had in hand is asked again elsewhere."""


@dataclass(frozen=True, slots=True)
class BatchOption:
    """One way to get it done."""

    rank: int
    accelerator: str
    accelerator_name: str
    num_accelerators: int
    num_replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    data_parallel: int
    weight_dtype: str
    engine: str
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
    usd: Quantity
    """Of the whole job."""
    usd_per_million_tokens: Quantity
    duration_s: Quantity
    requests_per_s: Quantity
    output_tokens_per_s: Quantity
    mean_batch: float
    meets_deadline: str
    """sure, likely or marginal: whether the whole interval of the duration lies within the deadline."""
    role: Role = "other"
    """safe_pick, cheapest_if_it_holds or other."""


@dataclass(frozen=True, slots=True)
class BatchRung:
    """One deadline of a ladder and what to take for it; None where nothing is done by then."""

    deadline_s: float
    pick: BatchOption | None


@dataclass(frozen=True, slots=True)
class BatchRecommendation:
    """The ranked answer."""

    kind: str
    model: str
    workload: str
    headline: str
    options: tuple[BatchOption, ...]
    rejected: tuple[Rejected, ...]
    num_candidates: int
    num_simulated: int
    wall_s: float
    warnings: tuple[str, ...] = ()
    ladder: tuple[BatchRung, ...] = ()
    """Deadlines, where none is given; the options are those of the usual one."""
