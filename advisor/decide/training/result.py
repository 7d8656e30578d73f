"""The answer to a question about training, whole and frozen: the only thing that renderers and files see."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.decide.decision import Rejected
from advisor.decide.option import Bill, Role
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class PlanColumns:
    """A layout under the names of the contract."""

    tp: int
    sp: bool
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    dp: int
    sharding: str
    shard_group: int
    micro_batch: int
    num_micro_batches: int
    recompute: str
    recompute_layers: int
    schedule: str
    offload: str
    first_stage_layers: int
    last_stage_layers: int
    framework: str
    compute_dtype: str
    words: str


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Memory of one pipeline stage's accelerators [bytes]."""

    stage: int
    peak_bytes: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TermCost:
    """The same run at one term."""

    term: str
    provider: str
    sku: str
    usd_per_accelerator_hour: float
    days: float
    goodput_fraction: float
    usd: float
    feasible: bool = True
    """Whether failures leave half of the time."""


@dataclass(frozen=True, slots=True)
class Failures:
    """What failures leave, and where the rest of the time goes."""

    goodput_fraction: float
    checkpoint_fraction: float
    replay_fraction: float
    restart_fraction: float
    lost_capacity_fraction: float
    cluster_mtbf_s: float
    interruptions_per_day: float
    checkpoint_bytes: float
    checkpoint_stall_s: float
    checkpoint_write_s: float
    checkpoint_interval_s: float


@dataclass(frozen=True, slots=True)
class Reinforcement:
    """One step of reinforcement learning and where its time goes."""

    algorithm: str
    placement: str
    """colocated, or disaggregated: generation and training on accelerators of their own."""
    num_rollout_accelerators: int
    num_training_accelerators: int
    steps_off_policy: int
    rollout_s: float
    reward_s: float
    logprob_s: float
    training_s: float
    weight_sync_s: float
    step_s: float
    """Of the whole loop: the sum, or the longest part where they overlap."""
    rollout_fraction: float
    """Of the step, where nothing overlaps; else of the sum of the parts."""
    rollout_tail_fraction: float
    rollout_tensor_parallel: int
    rollout_output_tokens_per_s: float
    samples_per_s: float


@dataclass(frozen=True, slots=True)
class TrainingOption:
    """One plan on one cluster at one offer."""

    rank: int
    accelerator: str
    accelerator_name: str
    num_accelerators: int
    plan: PlanColumns
    step_time_s: Quantity
    tokens_per_s_per_accelerator: Quantity
    mfu_fraction: Quantity
    hfu_fraction: Quantity
    peak_memory_bytes: Quantity
    memory_limit_bytes: float
    memory: Mapping[str, float]
    memory_by_stage: tuple[StageMemory, ...]
    num_steps: int
    days: Quantity
    usd: Quantity
    goodput_fraction: float
    failures: Failures
    breakdown: Mapping[str, float]
    bubble_fraction: float
    provider: str
    sku: str
    region: str
    term: str
    price_kind: str
    """list, quote, from, tracker or marketplace."""
    price_tenancy: str
    price_observed_on: str
    price_age_days: int
    price_url: str
    usd_per_hour: float
    usd_per_accelerator_hour: float
    bill: Bill
    """Of this offer, with what the whole run costs."""
    bills: tuple[TermCost, ...]
    power_w: float
    energy_kwh: float
    carbon_kg_co2e: float
    carbon_region: str
    launch_flags: Mapping[str, str]
    bottleneck: str
    reinforcement: Reinforcement | None = None
    notes: tuple[str, ...] = ()
    role: Role = "other"
    """safe_pick, cheapest_if_it_holds or other."""
    variants: tuple["TrainingOption", ...] = ()


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A cluster that no other beats in both days and dollars."""

    accelerator: str
    num_accelerators: int
    days: float
    usd: float
    plan: str


@dataclass(frozen=True, slots=True)
class TrainingSearch:
    """What the search looked at."""

    num_considered: int
    num_evaluated: int
    """Plans whose memory and time were computed."""
    num_feasible: int
    num_simulated: int
    num_clusters: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class TrainingRecommendation:
    """The ranked answer to a training scenario."""

    kind: str
    model: str
    workload: str
    headline: str
    options: tuple[TrainingOption, ...]
    pareto: tuple[ParetoPoint, ...]
    rejected: tuple[Rejected, ...]
    what_would_change: tuple[str, ...]
    compute: Mapping[str, float]
    """6ND and what it rests on."""
    search: TrainingSearch
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
