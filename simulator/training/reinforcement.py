"""One step of reinforcement learning: generate, judge, log-probabilities, train, hand over weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from advisor.catalog.schema import Accelerator, Model
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.terms import Case, value

Algorithm = Literal["grpo", "ppo", "dpo"]
_FORWARD_PARTS: Final = ("forward",)
_SHARED_PARTS: Final = (
    "tensor_parallel", "context_parallel", "expert_parallel", "pipeline", "bubble", "host", "data_loading", "straggler",
)  # fmt: skip
_FORWARD_SHARE: Final = 1.0 / 3.0
"""Of what forward and backward passes share: a forward pass is a third of a training step's work."""
_16_BIT_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Parts of one step [s]."""

    rollout_s: float
    reward_s: float
    logprob_s: float
    training_s: float
    weight_sync_s: float

    @property
    def work_s(self) -> float:
        """All parts one after another [s]."""
        return self.rollout_s + self.reward_s + self.logprob_s + self.training_s + self.weight_sync_s

    def step_s(self, *, apart: bool, steps_off_policy: int) -> float:
        """Time of one step of the loop [s].

        Together, or strictly on policy, parts follow each other. Apart and with answers that may lag, generation of one
        step runs beside training on the one before it: the longer side decides.
        """
        if not apart or steps_off_policy == 0:
            return self.work_s
        learning_s = self.logprob_s + self.training_s
        return max(self.rollout_s + self.reward_s, learning_s) + self.weight_sync_s


def _term(name: str) -> float:
    return value("framework", name, Case())


def forward_s(breakdown_s: Mapping[str, float]) -> float:
    """A forward pass over the batch of a training step, as for log-probabilities [s].

    Source: parts of the step; a forward pass is a third of forward and backward (Kaplan et al. 2020, arXiv:2001.08361).
    """
    own = sum(breakdown_s.get(name, 0.0) for name in _FORWARD_PARTS)
    return own + _FORWARD_SHARE * sum(breakdown_s.get(name, 0.0) for name in _SHARED_PARTS)


def num_forwards(algorithm: Algorithm) -> int:
    """Forward passes beside training: GRPO asks the policy that generated and a frozen reference; PPO a critic too;
    DPO the reference only.

    Source: Shao et al. 2024, arXiv:2402.03300; Schulman et al. 2017, arXiv:1707.06347; Rafailov et al. 2023,
        arXiv:2305.18290.
    """
    return {"grpo": 2, "ppo": 3, "dpo": 1}[algorithm]


def num_trained_models(algorithm: Algorithm) -> int:
    """Models that learn in each step: PPO trains a critic of the policy's size beside it.

    Source: as num_forwards.
    """
    return 2 if algorithm == "ppo" else 1


def judge_s(reward_model: Model, tokens: float, num_accelerators: int, peak_flop_per_s: float) -> float:
    """A reward model's forward pass over all samples [s]: 2 N tokens over accelerators · peak · utilisation.

    Source: Kaplan et al. 2020, arXiv:2001.08361; the utilisation is an assumption.
    """
    active = parameter_count(reward_model).active
    return 2.0 * active * tokens / (num_accelerators * peak_flop_per_s * _term("judge_utilisation"))


def host_link_bytes_per_s(accelerator: Accelerator) -> float:
    """What one accelerator exchanges with host memory [bytes/s]: its PCIe link, as far as copies reach it.

    Source: PCI-SIG rates; the share as host copies reach it.
    """
    generation = min(max(accelerator.pcie_generation or 4, 3), 6)
    return PCIE_LANE_BYTES_PER_S[generation] * (accelerator.pcie_lanes or 16) * _term("host_link_fraction")


def colocated_sync_s(
    model: Model, accelerator: Accelerator, rollout_tensor_parallel: int, state_bytes: float
) -> float:
    """Handing new weights to an engine on the same accelerators [s].

    Each accelerator gathers its part of the engine's weights over the scale-up fabric or network, and what training
    holds goes to host memory and comes back: 2 · state / host link.

    Assumes: training states and the engine's cache do not fit side by side.
    Source: verl's hybrid engine (arXiv:2409.19256, section 5.2); own composition.
    """
    share = parameter_count(model).total * _16_BIT_BYTES / rollout_tensor_parallel
    rate = accelerator.scale_up.bytes_per_s if accelerator.scale_up else host_link_bytes_per_s(accelerator)
    return share / rate + 2.0 * state_bytes / host_link_bytes_per_s(accelerator) + _term("reload_s")


def disaggregated_sync_s(
    model: Model, accelerator: Accelerator, rollout_tensor_parallel: int, num_training: int
) -> float:
    """Sending new weights from the training to the generating accelerators [s].

    Every generating accelerator receives its part over its own network; the trainers send all copies between them,
    each once: the slower side decides, a broadcast tree lets receivers forward.

    Source: own composition; network rate of the catalog's record, as far as sends reach it.
    """
    total = parameter_count(model).total * _16_BIT_BYTES
    rate = (accelerator.scale_out_bytes_per_s or host_link_bytes_per_s(accelerator)) * _term(
        "network_fraction"
    )
    receive_s = total / rollout_tensor_parallel / rate
    send_s = total / num_training / rate
    return max(receive_s, send_s) + _term("reload_s")
