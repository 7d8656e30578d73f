"""The answer, whole and frozen: the only thing that renderers and files see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from advisor.catalog.published import ServedCheckpoint
from advisor.decide.purchase import MonthlyBill
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class OfferedPrice:
    """How good a price is."""

    kind: str
    tenancy: str
    age_days: int | None
    """None where its source bears no date."""
    min_quantity: int | None
    max_quantity: int | None
    commitment_usd: float | None
    """What is owed whole where the term is a commitment, of the whole deployment; None where nothing is."""
    storage_usd_per_gb_hour: float | None
    """None where the seller states none."""
    egress_usd_per_gb: float | None


Share = Literal["prefill", "decode", "short", "long", "replica"]
"""Of the work of two pools: prompts and answers, or requests with short and with long prompts; or all of it."""
_SHARE_WORDS: Final[Mapping[str, str]] = {
    "prefill": "prompts", "decode": "answers", "short": "prompts up to {:,} tokens", "long": "longer prompts",
    "replica": "conversations",
}  # fmt: skip


class Pulled:
    """What has levers."""

    __slots__ = ()
    levers: Mapping[str, object]

    @property
    def power_limit_w(self) -> float | None:
        """To which each of its boards is held; None where it is held to none."""
        limit_w = self.levers.get("power_limit_w")
        return limit_w if isinstance(limit_w, float) else None


@dataclass(frozen=True, slots=True)
class OptionPart(Pulled):
    """Equal replicas that do one share of the work of an option; fields as in the option."""

    share: Share
    accelerator: str
    accelerator_name: str
    num_accelerators: int
    """Bought for it; of one machine that holds all parts, those that it uses."""
    num_replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    data_parallel: int
    weight_dtype: str
    kv_dtype: str
    engine: str
    provider: str
    sku: str
    region: str
    term: str
    usd_per_hour: float
    accelerators_per_unit: int
    max_num_seqs: int
    max_num_batched_tokens: int
    checkpoint: ServedCheckpoint
    memory: Mapping[str, float]
    levers: Mapping[str, object]
    launch_command: str
    launch_argv: tuple[str, ...]
    launch_config: Mapping[str, object]
    max_prompt_tokens: int | None = None
    """Longest prompt that the router sends it; None where it sends any."""

    @property
    def words(self) -> str:
        """What it is for."""
        return _SHARE_WORDS[self.share].format(self.max_prompt_tokens)

    @property
    def work(self) -> str:
        """How many replicas do what."""
        if self.share in ("prefill", "decode"):
            return f"{self.num_replicas} {self.share} workers"
        return f"{self.num_replicas} replica{'s' if self.num_replicas > 1 else ''} for {self.words}"


@dataclass(frozen=True, slots=True)
class Option(Pulled):
    """One deployment that answers, with what it costs and how it behaves."""

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
    kv_dtype: str
    engine: str
    provider: str
    provider_class: str
    sku: str
    region: str
    term: str
    price_observed_on: str
    price_age_days: int
    price_url: str
    usd_per_hour: float
    usd_per_million_tokens: Quantity
    usd_per_million_output_tokens: Quantity
    ttft_s: Mapping[str, Quantity]
    tpot_s: Mapping[str, Quantity]
    e2e_s: Mapping[str, Quantity]
    itl_s: Mapping[str, Quantity]
    output_tokens_per_s: Quantity
    total_tokens_per_s: Quantity
    requests_per_s: Quantity
    utilisation_fraction: float
    mean_batch: float
    meets_slo: bool
    slo_confidence: str
    """Whether the whole 80 % interval of every objective meets it: sure, likely or marginal."""
    bottleneck: str
    binding_objective: str
    step_breakdown: Mapping[str, float]
    memory: Mapping[str, float]
    kv_capacity_tokens: int
    power_w: float
    energy_j_per_token: float
    quality_note: str
    launch_command: str
    holds: str
    """Whether the objectives will really be kept at this load, given the model's error: likely or marginal."""
    chance_of_holding: float
    headroom_fraction: float
    """Of the confirmed capacity of the replicas, what this load leaves free."""
    expected_usd_per_million_tokens: float
    """Mean over the errors of model and price: what options are ranked by."""
    usd_per_month: float
    bill: MonthlyBill
    price: OfferedPrice
    checkpoint: ServedCheckpoint
    redundancy: str
    max_num_seqs: int
    max_num_batched_tokens: int
    role: str = "other"
    """safe_pick, cheapest_if_it_holds or other."""
    tie_with: tuple[int, ...] = ()
    """Ranks of options that may be as cheap; of a variant the rank of its option, where it may."""
    levers: Mapping[str, object] = field(default_factory=dict)
    """What is pulled beside hardware and layout: prefix_caching, kv_dtype, speculation, adapters."""
    launch_argv: tuple[str, ...] = ()
    """The words of the command."""
    launch_config: Mapping[str, object] = field(default_factory=dict)
    """Options that it reads from a file."""
    accelerators_per_unit: int = 1
    """In one machine, or what is bought as one."""
    simulate_args: tuple[str, ...] = ()
    """Options of `advisor simulate serve` that show this point again."""
    basis_notes: tuple[str, ...] = ()
    parts: tuple[OptionPart, ...] = ()
    """Of a fleet of unlike replicas; the other fields are those of the whole, or of the part that answers."""
    variants: tuple["Option", ...] = ()


@dataclass(frozen=True, slots=True)
class Rung:
    """One load of a ladder and what to take for it; None where nothing carries it."""

    rate_per_s: float
    """Of clients, at which their pick serves them; zero where there is none."""
    pick: Option | None
    clients: int | None = None
    """Where the loads are numbers of clients."""


@dataclass(frozen=True, slots=True)
class ContextTier:
    """A context window and what to take for it."""

    max_context_tokens: int
    verdict: Literal["native", "with scaling", "refused"]
    """with scaling: beyond the configured window, within what the publisher states for the model's own scaling."""
    pick: Option | None
    reason: str = ""
    """Why there is none."""
    requests_at_once: int | None = None
    """Of that length, that the caches of all replicas hold together."""
    first_token_s: float | None = None
    """Of one such prompt on an idle replica."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An accelerator that is not among the answers, and why."""

    accelerator: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How sure the first option is cheaper than another: errors that both predictions share cancel."""

    rank: int
    """Of the other option."""
    accelerator: str
    pair_class: str
    """What the two differ in, by which published pairs erred."""
    usd_ratio: Quantity
    """Its cost over the first option's, with the 80 % interval of the ratio."""
    chance_first_is_cheaper: float


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A figure without and with a lever."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before > 0 else 1.0


@dataclass(frozen=True, slots=True)
class LeverTrial:
    """A lever pulled on one of the options, simulated at the same demand."""

    lever: str
    words: str
    rank: int
    """Of the option; 0 for the pick of a ladder's smallest load."""
    accelerator: str
    verdict: Literal["pulled", "cheaper", "faster", "no gain", "refused"]
    """pulled: the option has it, and is compared with itself without."""
    costs_quality: bool
    note: str
    """What it asks beside money, or why it was refused."""
    usd_per_million_tokens: BeforeAfter | None = None
    usd_per_hour: BeforeAfter | None = None
    ttft_p99_s: BeforeAfter | None = None
    tpot_p99_s: BeforeAfter | None = None

    @property
    def gain(self) -> tuple[float, float]:
        """By what trials are ordered, the best first."""
        cost, time = self.usd_per_million_tokens, self.tpot_p99_s
        return (cost.ratio if cost else 1.0, time.ratio if time else 1.0)


@dataclass(frozen=True, slots=True)
class SearchStatistics:
    num_candidates: int
    num_modelled: int
    """Candidates whose step-cost surface was built."""
    num_simulated: int
    num_simulated_requests: int
    screen_wall_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The ranked answer to a scenario."""

    kind: str
    model: str
    workload: str
    headline: str
    options: tuple[Option, ...]
    ladder: tuple[Rung, ...]
    rejected: tuple[Rejected, ...]
    what_would_change: tuple[str, ...]
    search: SearchStatistics
    comparisons: tuple[Comparison, ...] = ()
    levers_tried: tuple[LeverTrial, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    contexts: tuple[ContextTier, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
