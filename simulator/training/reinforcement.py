"""Learning from preferences and rewards: time of one step of the loop, and memory of its phases on one accelerator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Accelerator, Model
from advisor.catalog.training import allocator
from advisor.catalog.units import GIB
from advisor.simulator.graph.model import kv_bytes_per_token, kv_share, parameter_count
from advisor.simulator.training.cluster import host_copy_bytes_per_s
from advisor.simulator.training.framework_costs import common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.instants import Bytes, Held
from advisor.simulator.training.memory.peak import communicators, peak_memory, stage_memory
from advisor.simulator.training.plan import FloatArray, PlanLattice, TrainingPlan
from advisor.simulator.training.step_host import host_bytes

GENERATION_MEMORY_FRACTION: Final = 0.85
"""Fraction of an accelerator's memory that an engine gets while it generates: own choice, below vLLM's default of 0.9,
for the driver's context and the trainer's communicators."""

Algorithm = Literal["grpo", "rloo", "ppo", "dpo", "kto", "orpo", "reward"]
_FORWARD_PARTS: Final = ("forward",)
_SHARED_PARTS: Final = (
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "pipeline",
    "bubble",
    "host",
    "data_loading",
    "straggler",
    "offload",
)
_FORWARD_SHARE: Final = 1.0 / 3.0
"""Fraction of a training step's work that is the forward pass; applies to the parts that forward and backward passes
share."""
_16_BIT_BYTES: Final = 2.0

_ENGINE_BYTES: Final = 1.5 * GIB
"""Memory of captured graphs and workspaces of the generating engine, as in serving [bytes]."""
_LOGPROB_BYTES: Final = 6.0
"""Bytes per logit of a forward pass that keeps nothing: 16-bit logits and their fp32 log-softmax."""


@dataclass(frozen=True, slots=True)
class LoopRules:
    """Work of one step of an algorithm beside the training of the policy itself."""

    num_forwards: int
    """Forward passes over the batch that nothing learns from."""
    given_answers: int = 0
    """Outputs of a prompt in the data set; 0 if the policy generates them."""
    num_trained: int = 1
    """Models that learn, each of the policy's size."""
    has_reference: bool = True
    """Whether a frozen copy of the starting policy takes part."""
    compares_answers: bool = False
    """Whether an output is judged against the others of its prompt, so that one alone teaches nothing."""


RULES: Final[Mapping[Algorithm, LoopRules]] = {
    "grpo": LoopRules(2, compares_answers=True),
    "rloo": LoopRules(2, compares_answers=True),
    "ppo": LoopRules(3, num_trained=2),
    "dpo": LoopRules(1, given_answers=2),
    "kto": LoopRules(3, given_answers=1),
    "orpo": LoopRules(0, given_answers=2, has_reference=False),
    "reward": LoopRules(0, given_answers=2, has_reference=False),
}
"""Algorithms of preferences and rewards. GRPO (arXiv:2402.03300) and RLOO (arXiv:2402.14740) ask the policy that
generated and a frozen reference; PPO (arXiv:1707.06347) a critic too, which learns. DPO (arXiv:2305.18290) asks the
reference alone, KTO (arXiv:2402.01306) the reference, and both again on outputs of other prompts for its estimate of
the KL term. ORPO (arXiv:2403.07691) and a reward model on pairs (arXiv:2203.02155, section 3.5) ask no other model."""


def generates(algorithm: Algorithm) -> bool:
    """Whether the policy generates the outputs that it learns from. Source: RULES."""
    return not RULES[algorithm].given_answers


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Times of the parts of one step of a loop [s]."""

    rollout_s: float
    reward_s: float
    logprob_s: float
    training_s: float
    weight_sync_s: float

    @property
    def work_s(self) -> float:
        """Sum of all parts, one after another [s]."""
        return self.rollout_s + self.reward_s + self.logprob_s + self.training_s + self.weight_sync_s

    def step_s(self, *, apart: bool, steps_off_policy: int) -> float:
        """Time of one step of the loop [s].

        Together, or strictly on policy, parts follow each other. Apart and with outputs that may lag, generation of one
        step runs at the same time as training on the one before it: the longer side decides.
        """
        if not apart or steps_off_policy == 0:
            return self.work_s
        learning_s = self.logprob_s + self.training_s
        return max(self.rollout_s + self.reward_s, learning_s) + self.weight_sync_s


def forward_s(breakdown_s: Mapping[str, float]) -> float:
    """Time of a forward pass over the batch of a training step, as for log-probabilities [s].

    Source: parts of the step; a forward pass is a third of forward and backward (Kaplan et al. 2020, arXiv:2001.08361).
    """
    own = sum(breakdown_s.get(name, 0.0) for name in _FORWARD_PARTS)
    return own + _FORWARD_SHARE * sum(breakdown_s.get(name, 0.0) for name in _SHARED_PARTS)


def num_forwards(algorithm: Algorithm) -> int:
    """Number of forward passes in addition to training. Source: RULES."""
    return RULES[algorithm].num_forwards


def num_trained_models(algorithm: Algorithm) -> int:
    """Number of models that learn in each step: PPO also trains a critic of the policy's size. Source: RULES."""
    return RULES[algorithm].num_trained


def judge_s(reward_model: Model, tokens: float, num_accelerators: int, peak_flop_per_s: float) -> float:
    """Time of a reward model's forward pass over all samples [s]: 2 N tokens over accelerators · peak · utilisation.

    Source: Kaplan et al. 2020, arXiv:2001.08361; the utilisation is an assumption.
    """
    active = parameter_count(reward_model).active
    return 2.0 * active * tokens / (num_accelerators * peak_flop_per_s * common_term("judge_utilisation"))


def colocated_sync_s(
    model: Model, accelerator: Accelerator, rollout_tensor_parallel: int, state_bytes: float
) -> float:
    """Time to hand new weights to an engine on the same accelerators [s].

    Each accelerator gathers its part of the engine's weights over the scale-up fabric or network, and the training
    state goes to host memory and comes back: 2 · state / host link.

    Assumes: training states and the engine's cache do not fit side by side.
    Source: verl's hybrid engine (arXiv:2409.19256, section 5.2); own composition.
    """
    share = parameter_count(model).total * _16_BIT_BYTES / rollout_tensor_parallel
    rate = accelerator.scale_up.bytes_per_s if accelerator.scale_up else host_copy_bytes_per_s(accelerator)
    return share / rate + 2.0 * state_bytes / host_copy_bytes_per_s(accelerator) + common_term("reload_s")


def disaggregated_sync_s(
    model: Model, accelerator: Accelerator, rollout_tensor_parallel: int, num_training: int
) -> float:
    """Time to send new weights from the training to the generating accelerators [s].

    Every generating accelerator receives its part over its own network; the trainers send all copies between them,
    each once: the slower side decides, a broadcast tree lets receivers forward.

    Source: own composition; network rate of the catalog's record, as far as sends reach it.
    """
    total = parameter_count(model).total * _16_BIT_BYTES
    rate = (accelerator.scale_out_bytes_per_s or host_copy_bytes_per_s(accelerator)) * common_term(
        "network_fraction"
    )
    receive_s = total / rollout_tensor_parallel / rate
    send_s = total / num_training / rate
    return max(receive_s, send_s) + common_term("reload_s")


@dataclass(frozen=True, slots=True)
class Companions:
    """Models of a loop in addition to the policy."""

    algorithm: Algorithm
    has_reference: bool = True
    """Whether the loop has a frozen copy of the starting policy, for the KL term; adapters need none: they are switched
    off."""
    critic: Model | None = None
    """Value model of PPO; None is one of the policy's shape."""
    reward_model: Model | None = None
    """Reward model; None if rewards come from rules or another machine."""
    frozen_on_host: bool = False
    """Whether reference and reward model wait in host memory between their passes."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Rollout engine on the training machines."""

    tensor_parallel: int
    kv_tokens: int
    """Number of tokens in the cache of one replica at once."""
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    training_on_host: bool = True
    """Whether weights, gradients and optimizer of training move to the host while the engine generates."""


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """Memory of one phase of a loop on the fullest accelerator [bytes]."""

    name: str
    policy_bytes: float
    """Memory of the policy's weights, gradients, optimizer, and while it trains of its activations and buffers
    [bytes]."""
    critic_bytes: float
    frozen_bytes: float
    """Memory of the reference and reward model [bytes]."""
    engine_bytes: float
    """Memory of weights and workspaces of the generating engine [bytes]."""
    kv_bytes: float
    working_bytes: float
    """Memory of the logits of the log-probability pass [bytes]."""
    outside_bytes: float
    """Memory of driver context and communicators [bytes]."""

    @property
    def peak_bytes(self) -> float:
        """Memory that the accelerator must have [bytes]."""
        return (
            self.policy_bytes
            + self.critic_bytes
            + self.frozen_bytes
            + self.engine_bytes
            + self.kv_bytes
            + self.working_bytes
            + self.outside_bytes
        )


def preference_job(job: TrainingJob, algorithm: Algorithm) -> TrainingJob:
    """Return the job whose step memory is that of the algorithm: of pairs a chosen and a rejected output run through
    the policy together.

    Assumes: both outputs have the job's sequence length and go through in one pass, as a packed pair.
    Source: Rafailov et al. 2023 (arXiv:2305.18290), equation 7.
    """
    pairs = RULES[algorithm].given_answers == 2
    return replace(job, sequence_tokens=2 * job.sequence_tokens) if pairs else job


def companion_bytes(job: TrainingJob, lattice: PlanLattice, companions: Companions) -> FloatArray:
    """Memory of the other models on each accelerator while the policy trains [bytes], for each plan.

    A reference or reward model is 16-bit weights, divided as the plan divides weights; PPO's critic has weights,
    gradients and optimizer of its own.

    Source: PPO with language models (Ouyang et al. 2022, arXiv:2203.02155): four models; GRPO (arXiv:2402.03300)
    drops the critic; DPO (arXiv:2305.18290) keeps the reference.
    """
    return np.asarray(sum(companion_parts(job, lattice, companions).values(), np.zeros(len(lattice))))


def companion_parts(job: TrainingJob, lattice: PlanLattice, companions: Companions) -> dict[str, FloatArray]:
    """Memory of each other model on each accelerator while the policy trains [bytes], for each plan; without those
    that a loop does not have.

    Source: as `companion_bytes`.
    """
    return {
        name: _states_of(peak_memory(other, lattice), learns=name == "critic")
        for name, other in _companion_jobs(job, companions)
    }


def companion_host_bytes(job: TrainingJob, lattice: PlanLattice, companions: Companions) -> FloatArray:
    """Host memory of the other models for each accelerator [bytes], for each plan: they lie where the policy does.

    Source: TRL 1.16.0, trl/models/utils.py, prepare_deepspeed: the reference has the configuration of the policy.
    """
    held = (host_bytes(other, lattice) for _, other in _companion_jobs(job, companions))
    return np.asarray(sum(held, np.zeros(len(lattice))))


def companion_stages(
    job: TrainingJob, plan: TrainingPlan, companions: Companions
) -> tuple[dict[str, float], ...]:
    """Memory of each other model on an accelerator of each pipeline stage [bytes]. Source: as `companion_bytes`."""
    held: tuple[dict[str, float], ...] = tuple({} for _ in range(plan.pipeline_parallel))
    for name, other in _companion_jobs(job, companions):
        for parts, stage in zip(held, stage_memory(other, plan), strict=True):
            parts[name] = _states_of(stage.fullest, learns=name == "critic")
    return held


def _companion_jobs(job: TrainingJob, companions: Companions) -> Iterator[tuple[str, TrainingJob]]:
    """Yield name and job of each other model that is on the accelerators while the policy trains."""
    if companions.algorithm == "ppo":
        yield "critic", _critic_job(job, companions)
    if companions.frozen_on_host:
        return
    if has_reference(job, companions):
        yield "reference", _frozen_job(job, job.model)
    if companions.reward_model is not None:
        yield "reward_model", _frozen_job(job, companions.reward_model)


def _states_of(held: Held[Bytes], *, learns: bool) -> Bytes:
    """Return the weights of a model, of one that learns its gradients and optimizer states too [bytes]."""
    return held.weight_bytes + held.gradient_bytes + held.optimizer_bytes if learns else held.weight_bytes


def has_reference(job: TrainingJob, companions: Companions) -> bool:
    """Whether a frozen copy of the starting policy is held: adapters are switched off instead. Source: Companions."""
    return companions.has_reference and RULES[companions.algorithm].has_reference and job.method == "full"


def loop_memory(
    job: TrainingJob, plan: TrainingPlan, companions: Companions, generation: Generation | None = None
) -> tuple[PhaseMemory, ...]:
    """Return the memory of the phases of one loop on the fullest accelerator of training [bytes].

    The phases are generation, log-probabilities and training. The peak is the largest of them, not their sum.

    `generation` is None if other machines generate; algorithms on given outputs do not.

    Assumes: parameters of training and of the engine are separate copies; the engine's cache is freed before training.
    Raises: InfeasibleError: more pipeline stages than layers.
    Source: HybridFlow (arXiv:2409.19256) sections 5 and 8; vLLM sleep mode.
    """
    lattice = PlanLattice.of([plan])
    whole = peak_memory(preference_job(job, companions.algorithm), lattice)
    states = float((whole.weight_bytes + whole.gradient_bytes + whole.optimizer_bytes)[0])
    frozen = float(_frozen_bytes(job, lattice, companions)[0])
    waiting = 0.0 if companions.frozen_on_host else frozen
    critic = float(_critic_bytes(job, lattice, companions)[0])
    memory = allocator()
    outside = memory.context_bytes + memory.communicator_bytes * float(communicators(lattice)[0])
    phases: list[PhaseMemory] = []
    if generation is not None and generates(companions.algorithm):
        resident = 0.0 if generation.training_on_host else 1.0
        phases.append(
            PhaseMemory(
                "generation",
                policy_bytes=resident * states,
                critic_bytes=resident * critic,
                frozen_bytes=waiting,
                engine_bytes=_engine_bytes(job.model, generation),
                kv_bytes=_kv_bytes(job.model, generation),
                working_bytes=0.0,
                outside_bytes=outside,
            )
        )
    logits = plan.micro_batch * job.sequence_tokens / plan.context_parallel * job.model.vocab_size
    working = _LOGPROB_BYTES * logits / plan.tensor_parallel
    phases.append(PhaseMemory("log-probabilities", states, critic, frozen, 0.0, 0.0, working, outside))
    reserved = float(whole.reserved_bytes[0])
    phases.append(PhaseMemory("training", reserved, critic, waiting, 0.0, 0.0, 0.0, outside))
    return tuple(phases)


def _frozen_bytes(job: TrainingJob, lattice: PlanLattice, companions: Companions) -> FloatArray:
    held = np.zeros(len(lattice))
    if has_reference(job, companions):
        held = held + _weights_only(job, job.model, lattice)
    if companions.reward_model is not None:
        held = held + _weights_only(job, companions.reward_model, lattice)
    return held


def _critic_bytes(job: TrainingJob, lattice: PlanLattice, companions: Companions) -> FloatArray:
    if companions.algorithm != "ppo":
        return np.zeros(len(lattice))
    return _states_of(peak_memory(_critic_job(job, companions), lattice), learns=True)


def _critic_job(job: TrainingJob, companions: Companions) -> TrainingJob:
    """Return the job of a critic: a model of the policy's shape, or its own, whose head has one output."""
    return replace(job, model=companions.critic or job.model, features=job.features | {"scalar_head"})


def _weights_only(job: TrainingJob, model: Model, lattice: PlanLattice) -> FloatArray:
    """Memory of the 16-bit weights of a model that does not learn [bytes]: those of a base without adapters."""
    return peak_memory(_frozen_job(job, model), lattice).weight_bytes


def _frozen_job(job: TrainingJob, model: Model) -> TrainingJob:
    return replace(job, model=model, method="lora", lora_rank=0, trainable_parameters=0.0)


def _engine_bytes(model: Model, generation: Generation) -> float:
    weights = parameter_count(model).total * bytes_per_element(generation.weight_dtype)
    return weights / generation.tensor_parallel + _ENGINE_BYTES


def _kv_bytes(model: Model, generation: Generation) -> float:
    footprint = kv_bytes_per_token(model, generation.kv_dtype)
    return footprint.bytes_of(generation.kv_tokens) * kv_share(model, generation.tensor_parallel)
