"""Options: what an answer offers to take, composed of the same records for every kind of work and every command.

All figures are in SI units. A figure stands in one record only. `None` says that something is not modelled, unknown or
does not apply; it never stands for zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from advisor.catalog.published import ServedCheckpoint
from advisor.decide.reason import Reason
from advisor.simulator.quantity import Basis, Quantity

Stated = TypeVar("Stated")

Role = Literal["safe_pick", "cheapest_if_it_holds", "other"]
"""Role that distinguishes an option among those of its answer."""
Share = Literal["prefill", "decode", "short", "long", "replica", "kind"]
"""Work of one part of a deployment: prompts or output tokens, short or long prompts, or everything."""
_SHARE_WORDS: Final[Mapping[str, str]] = {
    "prefill": "prompts",
    "decode": "answers",
    "short": "prompts up to {:,} tokens",
    "long": "longer prompts",
    "replica": "conversations",
    "kind": "{:.0%} of the requests",
}
Holds = Literal["likely", "marginal"]
"""likely: the capacity covers the load, within the objectives, with a probability of 75 % or more."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The accelerators that a deployment or a job occupies, and the nodes that they stand in."""

    accelerator: str
    """Id in the catalog; ids of several kinds, as in a fleet for several models, are joined with `+`."""
    num_accelerators: int
    accelerators_per_node: int
    num_nodes: int
    power_limit_w: float | None = None
    """Power limit of each board [W]; None where boards run at their rated power."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an engine runs one replica, and how many replicas there are."""

    engine: str
    engine_version: str | None
    weight_dtype: str
    kv_dtype: str | None
    """Number format of the KV cache; None for models without one."""
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    data_parallel: int
    context_parallel: int
    num_replicas: int
    max_num_seqs: int
    """Requests that one replica runs at once; for images, texts and audio the largest batch."""
    max_num_batched_tokens: int | None
    max_model_len: int | None
    """Longest request that a replica accepts [tokens]."""

    @property
    def accelerators_per_replica(self) -> int:
        """Accelerators of one replica; experts are divided among those of tensor and data parallelism."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel * self.context_parallel


@dataclass(frozen=True, slots=True)
class Offer:
    """One provider's price for one SKU, region and term."""

    provider: str
    sku: str
    region: str
    country: str
    """ISO 3166 code; empty where the source names none."""
    term: str
    kind: str
    """list, quote, from, tracker or marketplace."""
    tenancy: str
    usd_per_hour: float
    """Price of one unit, which holds `accelerators_per_unit` accelerators [USD/h]."""
    accelerators_per_unit: int
    observed_on: str
    """Day on which the price was read, as ISO 8601; empty where its source bears no date."""
    age_days: int | None
    """Age of the price on the day of the question [days]; None where its source bears no date."""
    url: str
    min_quantity: int | None = None
    """Least order [accelerators]; None where the provider states none."""
    max_quantity: int | None = None
    """Largest order [accelerators]; None where the provider states none."""
    storage_usd_per_gb_hour: float | None = None
    """Price of storage [USD/(GB·h)]; None where the offer states none and the bill takes the provider's."""
    egress_usd_per_gb: float | None = None
    """Price of egress [USD/GB]; None where the offer states none and the bill takes the provider's."""

    @property
    def price_words(self) -> str:
        """How old the price is: `price of 2026-11-13`, or `undated price`."""
        return f"price of {self.observed_on}" if self.observed_on else "undated price"

    @property
    def source_line(self) -> str:
        """Address where the price was read, with the day and the age."""
        if not self.observed_on:
            return f"Undated price: {self.url}"
        return f"Price read on {self.observed_on} ({self.age_days} days ago): {self.url}"

    @property
    def read_words(self) -> str:
        """Day on which the price was read, or `undated`."""
        return self.observed_on or "undated"

    @property
    def is_listed(self) -> bool:
        """Whether the provider itself lists or quotes the price."""
        return self.kind in ("list", "quote")

    @property
    def source_words(self) -> str:
        """Provider with region and term: `gcp (us-east4, spot)`."""
        return with_terms(self.provider, self.region, self.term)


def with_terms(provider: str, region: str, term: str, *more: str) -> str:
    """Return a provider with region, term and more words about its price: `gcp (us-east4, spot)`.

    A price without a region is asked in all of the provider's, one without a term is on demand.
    """
    marks = ("" if region == "any" else region, "" if term == "on_demand" else term.replace("_", "-"), *more)
    told = ", ".join(filter(None, marks))
    return f"{provider} ({told})" if told else provider


BESIDE: Final = ("storage", "egress")
"""Items of a bill that are not machines."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """One item of a bill: rent, electricity, capital, upkeep, storage or egress."""

    what: str
    usd_per_month: float
    usd: float | None = None
    """The item for the whole of a job [USD]; None for services."""


@dataclass(frozen=True, slots=True)
class UnknownCost:
    """An item that a bill cannot price, and why."""

    what: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a purchase by item, for a month and, for a job, in total."""

    usd_per_hour: float
    """All known items [USD/h]; a month has 730.5 hours."""
    usd_per_month: float
    lines: tuple[BillLine, ...]
    """Known items, which add up to `usd_per_month`."""
    unknown: tuple[UnknownCost, ...] = ()
    commitment_usd: float | None = None
    """Total of the committed term, used or not [USD]; 0 without a commitment, None if its length is not stated."""
    usd: Quantity | None = None
    """The whole of a job that ends: the hours used or committed, with storage and egress as long; None for services."""

    @property
    def machines_usd_per_hour(self) -> float:
        """Rent, or what owning costs, without storage and egress [USD/h]."""
        beside = sum(line.usd_per_month for line in self.lines if line.what in BESIDE)
        return self.usd_per_hour * (1.0 - beside / self.usd_per_month) if self.usd_per_month else 0.0


@dataclass(frozen=True, slots=True)
class Performance:
    """How a served deployment behaves at its planning point, and what its tokens cost."""

    requests_per_s: Quantity
    output_tokens_per_s: Quantity
    total_tokens_per_s: Quantity
    """Prompt and output tokens [tokens/s]."""
    usd_per_million_tokens: Quantity
    """Cost of a million prompt and output tokens [USD]; machines alone, without storage and egress."""
    usd_per_million_output_tokens: Quantity
    expected_usd_per_million_tokens: float
    """Mean cost over the errors of model and price [USD]; options are ranked by it."""
    ttft_s: Mapping[str, Quantity]
    """Time to first token by statistic (`mean`, `p50`, `p90`, `p95`, `p99`, and each percentile that was asked) [s]."""
    tpot_s: Mapping[str, Quantity]
    """Mean time per output token of a request, by statistic [s]; empty where every output has one token."""
    itl_s: Mapping[str, Quantity]
    """Interval between two tokens, by statistic [s]; its residuals are those of `tpot_s`."""
    e2e_s: Mapping[str, Quantity]
    """Time of a whole request, by statistic [s]; its ends are those of the first token and of the tokens after it."""
    utilization_fraction: float
    """Part of the time in which a replica computes."""
    mean_batch: float
    headroom_fraction: float
    """Part of the capacity of the replicas that the load leaves free."""
    chance: float
    """Probability that the capacity covers the load within the objectives, given the errors of the model."""
    holds: Holds
    """Verdict over all objectives together."""
    basis: Basis
    power_w: Quantity | None
    """Mean power of the accelerators together [W]."""
    energy_j_per_token: Quantity | None


@dataclass(frozen=True, slots=True)
class JobPerformance:
    """How long a batch of requests takes, and what its tokens cost; the bill has the whole job."""

    usd_per_million_tokens: Quantity
    """Cost of a million prompt and output tokens [USD]; machines alone, without storage and egress."""
    duration_s: Quantity
    requests_per_s: Quantity
    output_tokens_per_s: Quantity
    mean_batch: float
    holds: str
    """sure, likely or marginal: whether the interval of the duration lies within the deadline."""
    basis: Basis


@dataclass(frozen=True, slots=True)
class ItemPerformance:
    """How a fleet behaves that serves images, texts or audio."""

    items_per_s: Quantity
    usd_per_thousand_items: Quantity
    latency_s: Mapping[str, Quantity]
    holds: str
    """sure, likely or marginal: whether the interval of the p99 latency lies within its objective."""
    utilization_fraction: float
    mean_batch: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class SharedPerformance:
    """The cost of machines that several models share, and whether all models meet their objectives."""

    usd_per_hour: Quantity
    expected_usd_per_hour: float
    """Mean cost over the errors of model and price [USD/h]; options are ranked by it."""
    chance: float
    """Probability that all models hold, if the errors of their predictions have nothing in common: at least."""
    holds: Holds
    """Verdict of the weakest model."""
    basis: Basis


@dataclass(frozen=True, slots=True)
class SharedMachines:
    """Equal nodes of one purchase, and the replicas of each model that stand on every one of them."""

    count: int
    num_accelerators: int
    num_used: int
    num_replicas: Mapping[str, int]
    """Replicas on each node, by model."""


@dataclass(frozen=True, slots=True)
class SharedPurchase:
    """Units of one offer, and what stands on them where several models share machines."""

    machine: Machine
    num_idle: int
    """Accelerators that no replica uses."""
    offer: Offer | None
    """None for hardware that is already there."""
    usd_per_hour: float
    """Price of the machines [USD/h]; the bill of the option has the sum, with storage and egress."""
    machines: tuple[SharedMachines, ...]

    @property
    def shares_machines(self) -> bool:
        """Whether replicas of several models stand on one node."""
        return any(sum(map(bool, each.num_replicas.values())) > 1 for each in self.machines)


@dataclass(frozen=True, slots=True)
class Launch:
    """How one replica is started, and how its planning point is simulated again."""

    command: str
    argv: tuple[str, ...]
    config: Mapping[str, object]
    """Options that the engine reads from a file."""
    checkpoint: ServedCheckpoint | None
    simulate_args: tuple[str, ...] = ()
    """Options of `advisor simulate serve` that give `performance` again, to the last digit."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an option behaves as it does: the parts of a decode step, the memory, and what the prediction rests on."""

    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    """Memory of one accelerator by use [bytes]."""
    kv_capacity_tokens: int | None = None
    """Tokens that the caches of one replica hold; None where there are no caches."""
    bottleneck: str | None = None
    """Resource that limits a decode step; None for a part of a deployment."""
    binding_objective: str | None = None
    """Objective that is missed first above the capacity; None for a part."""
    step_s: Mapping[str, float] = field(default_factory=dict)
    """Time of one decode step by part, at the mean batch [s]; of images, texts and audio the time of a batch of one."""
    quality_note: str = ""
    """Loss of quality from the number formats, in words; empty if there is none."""
    basis_notes: tuple[str, ...] = ()
    """Measurements of other hardware that the prediction borrows."""


@dataclass(frozen=True, slots=True)
class Option:
    """A deployment with its offer, bill and performance, as an answer shows it."""

    rank: int
    role: Role | Share
    """Role of the option; for a part of a deployment, the work that it does."""
    machine: Machine
    layout: Layout | None
    """None where several models share machines: each of `parts` has a layout of its own."""
    offer: Offer | None
    """None for hardware that is already there. Of several purchases the first; `purchases` has all."""
    bill: Bill
    performance: Performance | JobPerformance | ItemPerformance | SharedPerformance | None
    """None for a part: latencies and rates belong to the whole deployment."""
    launch: Launch | Reason | None
    levers: Mapping[str, object] = field(default_factory=dict)
    """Levers applied besides hardware and layout: prefix_caching, sticky_router, speculation, adapters."""
    tie_with: tuple[int, ...] = ()
    """Ranks of options that may cost as little: less than 75 % sure which costs less."""
    parts: tuple["Option", ...] = ()
    """Unlike replicas that serve together, each with its own machine, layout, offer and bill."""
    max_prompt_tokens: int | None = None
    """Longest prompt that the router sends to a part; None where it sends any."""
    share_fraction: float | None = None
    """Fraction of all requests that the router sends to a part, whatever their length; None where it decides
    otherwise."""
    model: str | None = None
    """Id of the model that a part serves, where several models share machines."""
    purchases: tuple[SharedPurchase, ...] = ()
    """Machines that several models share, by offer."""
    variants: tuple["Option", ...] = ()
    """Other deployments on the same accelerator."""
    reasons: tuple[Reason, ...] = ()
    """Why this option is not the safe pick."""
    explanation: Explanation | None = None

    def _require(self, record: object, kind: type[Stated]) -> Stated:
        """Return a record that options about this work have.

        Raises: TypeError: the option is a part of a deployment, or about other work.
        """
        if not isinstance(record, kind):
            raise TypeError(f"option {self.rank} has no {kind.__name__}")
        return record

    @property
    def replica_layout(self) -> Layout:
        """Layout of the replicas, of which all are alike; raises as `_require`."""
        return self._require(self.layout, Layout)

    @property
    def served(self) -> Performance:
        """Performance of a deployment that serves requests; raises as `_require`."""
        return self._require(self.performance, Performance)

    @property
    def shared(self) -> SharedPerformance:
        """Performance of machines that several models share; raises as `_require`."""
        return self._require(self.performance, SharedPerformance)

    @property
    def batched(self) -> JobPerformance:
        """Performance of a batch of requests; raises as `_require`."""
        return self._require(self.performance, JobPerformance)

    @property
    def of_items(self) -> ItemPerformance:
        """Performance of a fleet for images, texts or audio; raises as `_require`."""
        return self._require(self.performance, ItemPerformance)

    @property
    def job_usd(self) -> Quantity:
        """Bill of the whole of a job [USD]; raises as `_require`."""
        return self._require(self.bill.usd, Quantity)

    @property
    def started(self) -> Launch:
        """Start of a replica; raises as `_require`."""
        return self._require(self.launch, Launch)

    @property
    def explained(self) -> Explanation:
        """Explanation of a whole deployment; raises as `_require`."""
        return self._require(self.explanation, Explanation)

    @property
    def share_words(self) -> str:
        """The work of a part, in words."""
        limit = self.max_prompt_tokens if self.share_fraction is None else self.share_fraction
        return _SHARE_WORDS.get(self.role, self.role).format(limit)

    @property
    def work_words(self) -> str:
        """How many replicas of a part do which work."""
        count = self.replica_layout.num_replicas
        if self.role in ("prefill", "decode"):
            return f"{count} {self.role} worker{'s' if count > 1 else ''}"
        return f"{count} replica{'s' if count > 1 else ''} for {self.share_words}"
