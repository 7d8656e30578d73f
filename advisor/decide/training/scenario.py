"""A question about training, whole: pre-training, fine-tuning or reinforcement learning, with everything resolved."""

import datetime
import math
from typing import Final, Literal

from pydantic import Field, model_validator

from advisor.catalog.schema import Calibration
from advisor.catalog.schema.record import Record
from advisor.catalog.units import GB, HOUR_S
from advisor.decide.scenario import ExtraItems, Market
from advisor.simulator.training.goodput import (
    ACCELERATOR_MTBF_S,
    RESTART_S,
    SPOT_INTERRUPTIONS_PER_NODE_S,
    STORAGE_BYTES_PER_S_PER_NODE,
)
from advisor.simulator.training.job import Method, Optimizer
from advisor.simulator.training.plan import Recompute, Schedule, Sharding
from advisor.simulator.training.reinforcement import Algorithm

LARGEST_STORAGE_BYTES_PER_S: Final = 2000.0 * GB
"""Write bandwidth of a very large file system for all nodes [bytes/s] (Llama Team 2024, arXiv:2407.21783, section
3.3.1)."""
DEFAULT_LORA_RANK: Final = 16
"""Rank of adapters where none is stated. Own choice: half of it takes 2 % less memory of an 8B."""
Workload = Literal["train", "finetune", "rl"]
Placement = Literal["colocated", "disaggregated", "both"]


LAYOUT_OPTIONS: Final = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "virtual_stages": "vpp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
    "data_parallel": "dp",
}
"""Options of the degrees of a plan, by field; the options of its other fields have the names of the fields."""


class FixedLayout(Record):
    """The parts of a plan that the user fixes; None leaves a part to the search."""

    tensor_parallel: int | None = Field(default=None, ge=1, le=100_000)
    pipeline_parallel: int | None = Field(default=None, ge=1, le=100_000)
    virtual_stages: int | None = Field(default=None, ge=1, le=100_000)
    context_parallel: int | None = Field(default=None, ge=1, le=100_000)
    expert_parallel: int | None = Field(default=None, ge=1, le=100_000)
    expert_tensor_parallel: int | None = Field(default=None, ge=1, le=100_000)
    data_parallel: int | None = Field(default=None, ge=1, le=1_000_000)
    micro_batch: int | None = Field(default=None, ge=1, le=1_000_000)
    sharding: Sharding | None = None
    recompute: Recompute | None = None
    schedule: Schedule | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing is fixed."""
        return all(getattr(self, name) is None for name in type(self).model_fields)

    @property
    def replica_ranks(self) -> int:
        """Accelerators of one replica, as far as they are fixed: TP × PP × CP."""
        fixed = (self.tensor_parallel, self.pipeline_parallel, self.context_parallel)
        return math.prod(degree or 1 for degree in fixed)


class MachineConditions(Record):
    """The conditions of machines that the user states; the rest is as the catalog has it."""

    network: str = ""
    """Network between nodes in words (`RoCE 8x400Gb`); empty: the catalog's rate of each accelerator."""
    host_bytes: float | None = Field(default=None, gt=0)
    """Host memory for each accelerator [bytes]; None: what a machine of eight H100s has."""
    power_cap_w: float | None = Field(default=None, gt=0)
    """Power limit of an accelerator [W]; None: its rated power."""


class TrainingTask(Record):
    """The training task: what is trained, and on how many tokens."""

    tokens: float = Field(gt=0, lt=1e18)
    """Trained on in all; for reinforcement learning follows from steps, prompts and lengths."""
    sequence_tokens: int = Field(ge=1, le=10_000_000)
    global_batch: int = Field(ge=1, le=10_000_000)
    """Sequences of one optimizer step."""
    compute_dtypes: tuple[str, ...] = ()
    """Formats of the multiplications to consider; none: bf16."""
    method: Method = "full"
    lora_rank: int = Field(default=0, ge=0, le=65536)
    optimizer: Optimizer = "adamw"
    frameworks: tuple[str, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    """Frameworks that are named and whose commands are wanted, each after its family."""
    named: tuple[str, ...] = ()
    """Frameworks as the user names them; their commands come first."""
    compute_optimal: bool = False
    mean_sequence_tokens: float = Field(default=0.0, ge=0, le=10_000_000)
    """Real tokens of a padded sequence; 0: sequences are packed full."""
    loop: Algorithm | None = None
    """Reinforcement learning algorithm, whose frameworks train in Megatron or FSDP; None for other training."""
    may_offload: bool = False
    """States of what fits nowhere else may live in host memory."""
    layout: FixedLayout = FixedLayout()
    framework_version: str = ""
    """Release of the one framework that is named; empty: spring 2026."""


class RolloutTask(Record):
    """One step of reinforcement learning."""

    algorithm: Algorithm = "grpo"
    prompts: int = Field(default=512, ge=1, le=1_000_000)
    """Prompts of one step."""
    samples_per_prompt: int = Field(default=16, ge=1, le=10_000)
    prompt_tokens: int = Field(default=512, ge=1, le=1_000_000)
    response_tokens: int = Field(default=2048, ge=1, le=1_000_000)
    response_sigma: float = Field(default=0.6, ge=0, le=5)
    """Spread of the logarithm of response lengths: the longest decide when a rollout ends."""
    num_steps: int = Field(default=500, ge=1, le=10_000_000)
    placement: Placement = "both"
    steps_off_policy: int = Field(default=0, ge=0, le=64)
    """Number of weight versions by which rollouts may be old. Above 0, generation and training overlap on separate
    machines."""
    reward_s: float = Field(default=0.0, ge=0)
    """Time of judging one batch that nothing else hides."""
    reward_model: str = ""
    """A model that judges; empty: a rule."""
    engine: str = "vllm"


class TrainingLimits(Market):
    """The limits that an answer about training must stay within."""

    num_accelerators: int | None = Field(default=None, ge=1, le=1_000_000)
    max_accelerators: int = Field(default=16_384, ge=1, le=1_000_000)
    deadline_s: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    beside: ExtraItems = ExtraItems()
    region: str = "us"
    """Region whose grid sets the carbon, if an offer names no known region."""


class Reliability(Record):
    """The rates of failures by kind, and how the state is saved."""

    accelerator_mtbf_s: float = Field(default=ACCELERATOR_MTBF_S, gt=0)
    restart_s: float = Field(default=RESTART_S, ge=0)
    asynchronous_checkpoints: bool = True
    storage_bytes_per_s_per_node: float = Field(default=STORAGE_BYTES_PER_S_PER_NODE, gt=0)
    storage_bytes_per_s: float = Field(default=LARGEST_STORAGE_BYTES_PER_S, gt=0)
    """Rate at which the storage takes checkpoints from all nodes together [bytes/s]."""
    spot_interruptions_per_node_hour: float = Field(default=SPOT_INTERRUPTIONS_PER_NODE_S * HOUR_S, ge=0)
    elastic: bool = False
    """Training goes on without a lost data-parallel replica."""
    straggler_spread: float = Field(default=0.0, ge=0, le=1)
    """Standard deviation of the ranks' speed beyond what measured runs already hold."""


_MOST_SEARCHED_AGAIN: Final = 2
"""Accelerators that a question may name for other questions to be tried in its place: each try searches them all."""


class TrainingScenario(Record):
    """One question about training, with everything resolved."""

    model: str
    workload: Workload = "train"
    task: TrainingTask
    rollout: RolloutTask | None = None
    limits: TrainingLimits = TrainingLimits()
    reliability: Reliability = Reliability()
    conditions: MachineConditions = MachineConditions()
    as_of: datetime.date
    seed: int = 0
    calibration: Calibration | None = None
    top: int = Field(default=5, ge=1, le=100)

    @model_validator(mode="after")
    def _consistent(self) -> "TrainingScenario":
        if (self.rollout is None) == (self.workload == "rl"):
            raise ValueError("rollout belongs to the workload rl, and to it alone")
        if self.task.method in ("lora", "qlora", "dora") and not self.task.lora_rank:
            raise ValueError("an adapter method needs a lora_rank")
        return self

    def with_limits(self, **changed: object) -> "TrainingScenario":
        """Return a copy with other values of fields of its limits."""
        return self.model_copy(update={"limits": self.limits.model_copy(update=changed)})

    def with_task(self, **changed: object) -> "TrainingScenario":
        """Return a copy with other values of fields of its task."""
        return self.model_copy(update={"task": self.task.model_copy(update=changed)})

    @property
    def is_narrow(self) -> bool:
        """Whether it names so few accelerators that searching them again takes little time."""
        return len(self.limits.own or self.limits.accelerators) in range(1, _MOST_SEARCHED_AGAIN + 1)
