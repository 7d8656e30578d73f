"""The answer to a question about training, whole and frozen: the only thing that renderers and files see."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.decide.decision import Counts, Rejected
from advisor.decide.option import Bill, Machine, Offer, Role
from advisor.decide.reason import Reason
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.memory import MemoryVerdict


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
    """The cost of one run at one term."""

    term: str
    provider: str
    sku: str
    usd_per_accelerator_hour: float
    days: float | None
    """Duration of the run [days]; None where it is not feasible."""
    goodput_fraction: float
    usd: float | None
    """Cost of the run [USD]; None where it is not feasible."""
    feasible: bool = True
    """Whether failures leave half of the time."""
    mtbf_s: float | None = None
    """Mean time between failures of the cluster, machines that are taken back included [s]; None if owned."""


@dataclass(frozen=True, slots=True)
class FailureEffect:
    """The effect of failures on the run, and where the rest of the time goes."""

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
    """Time of one step of the whole loop [s]: the sum of its parts, or the longest part where they overlap."""
    rollout_fraction: float
    """Rollouts as a fraction of the step, if nothing overlaps; else of the sum of the parts."""
    rollout_tail_fraction: float
    rollout_tensor_parallel: int
    rollout_output_tokens_per_s: float
    samples_per_s: float


@dataclass(frozen=True, slots=True)
class TrainingPerformance:
    """How fast a plan trains, what it needs, and how long the whole run takes."""

    step_time_s: Quantity
    tokens_per_s_per_accelerator: Quantity
    mfu_fraction: Quantity
    hfu_fraction: Quantity
    """Like `mfu_fraction`, with recomputed FLOPs counted."""
    peak_memory_bytes: Quantity
    """Peak memory of the fullest accelerator."""
    memory_limit_bytes: float | None
    """Memory of one accelerator; None where no source states it."""
    memory_verdict: MemoryVerdict
    """Whether the interval of the peak is within the memory."""
    allocated_memory_bytes: float
    """Memory in tensors at the peak."""
    reserved_memory_bytes: float
    """Memory that the caching allocator holds at the peak."""
    host_memory_bytes: float | None
    """Host memory that the plan takes for each accelerator; None where nothing lives there."""
    memory_bytes: Mapping[str, float]
    memory_by_stage: tuple[StageMemory, ...]
    num_steps: int
    days: Quantity
    """Duration of the whole run, failures included."""
    goodput_fraction: float
    failures: FailureEffect
    breakdown_s: Mapping[str, float]
    """Time of one step by modelled part [s]; the parts add up to the step."""
    bubble_fraction: float
    bottleneck: str
    power_w: float | None
    """Power of the cluster at work, hosts and cooling included; None where no source states the board power."""
    energy_kwh: float | None
    carbon_kg_co2e: float | None
    carbon_region: str
    """Region whose grid counts."""
    basis: Basis
    holds: str | None = None
    """sure, likely or marginal: whether the interval of `days` lies within the deadline; None without a deadline."""
    reinforcement: Reinforcement | None = None
    """One step of a reinforcement learning loop; None for other work."""


@dataclass(frozen=True, slots=True)
class TrainingLaunch:
    """Commands that start a plan, by training framework."""

    flags: Mapping[str, str]
    placeholders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Meaning of each word of a command that its user fills in, by framework."""
    releases: Mapping[str, str] = field(default_factory=dict)
    """Release whose options they are, by framework."""
    simulate_args: tuple[str, ...] = ()
    """Options by which `advisor simulate train` shows step and memory of the plan again; empty for a loop of
    generation and training."""


@dataclass(frozen=True, slots=True)
class TrainingOption:
    """One plan on one cluster at one offer."""

    rank: int
    role: Role
    """Role that distinguishes the option among those of its answer."""
    machine: Machine
    plan: PlanColumns
    offer: Offer | None
    """None for hardware that is already there."""
    bill: Bill
    """Bill of this offer; `usd` is what the whole run costs."""
    performance: TrainingPerformance
    launch: TrainingLaunch
    bills: tuple[TermCost, ...]
    """Cost of the run at every term."""
    parts: tuple["TrainingOption", ...] = ()
    """Parts on unlike clusters; empty, as each job runs on one cluster."""
    reasons: tuple[Reason, ...] = ()
    """Why this option is not the safe pick."""
    notes: tuple[str, ...] = ()
    variants: tuple["TrainingOption", ...] = ()

    @property
    def usd(self) -> Quantity:
        """Total cost of the run [USD]."""
        assert self.bill.usd is not None
        return self.bill.usd

    @property
    def usd_per_accelerator_hour(self) -> float:
        """Price of one accelerator [USD/h]."""
        return self.bill.machines_usd_per_hour / self.machine.num_accelerators


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A cluster that no other beats in both days and dollars."""

    accelerator: str
    num_accelerators: int
    days: float
    usd: float
    plan: str


@dataclass(frozen=True, slots=True)
class TrainingRecommendation:
    """The ranked answer to a training scenario."""

    kind: str
    model: str
    workload: str
    headline: str
    options: tuple[TrainingOption, ...]
    safe_pick: TrainingOption | None
    """The option with the role `safe_pick`; None where there is none."""
    pareto: tuple[ParetoPoint, ...]
    rejected: tuple[Rejected, ...]
    what_would_change: tuple[str, ...]
    compute: Mapping[str, float]
    """6ND and what it rests on."""
    counts: Counts
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
