"""Compute of training: 6ND, the FLOP that MFU and HFU count for a plan, and the compute-optimal number of tokens."""

from dataclasses import dataclass
from typing import Final

from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S
from advisor.simulator.graph.model import num_layers, parameter_count
from advisor.simulator.graph.training import attention_flop_per_token, layer_flop_per_token
from advisor.simulator.training.job import Method, TrainingJob
from advisor.simulator.training.plan import TrainingPlan

FLOP_PER_PARAMETER_AND_TOKEN: Final = 6.0
"""FLOP per parameter and token: two forward, four backward; one multiplication and one addition each."""
TOKENS_PER_PARAMETER: Final = 20.0
"""Compute-optimal tokens per parameter: Hoffmann et al. 2022, arXiv:2203.15556, table 3: 70B parameters and 1.4 T
tokens."""


_FORWARD = 2.0
_BACKWARD = 4.0
_FROZEN_BACKWARD: Final = 2.0
"""FLOP per frozen weight and token in the backward pass: frozen weights have no gradients of their own, only those of
the inputs pass through them."""


@dataclass(frozen=True, slots=True)
class LossLaw:
    """L(N, D) = irreducible + a / N^alpha + b / D^beta [nats per token]."""

    irreducible: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: float, tokens: float) -> float:
        """Expected loss of a model with `parameters` parameters trained on `tokens` tokens [nats per token]."""
        return float(self.irreducible + self.a / parameters**self.alpha + self.b / tokens**self.beta)

    def best_tokens(self, training_flop: float) -> float:
        """Number of tokens with the lowest loss for a compute budget 6ND [tokens].

        D* = (C/6)^(α/(α+β)) / G with G = (αA / βB)^(1/(α+β)).
        """
        ratio = (self.alpha * self.a / (self.beta * self.b)) ** (1.0 / (self.alpha + self.beta))
        budget = training_flop / FLOP_PER_PARAMETER_AND_TOKEN
        return float(budget ** (self.alpha / (self.alpha + self.beta)) / ratio)


CHINCHILLA: Final = LossLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658)
"""Loss law refitted to Hoffmann's data: Besiroglu et al. 2024, arXiv:2404.10102 (the original fit of approach 3 does
not match the paper's own two other approaches)."""


def training_flop(model: Model, tokens: float, method: Method = "full") -> float:
    """Compute of a training run [flop]: 6 · active parameters · tokens, with adapters 4, attention scores left out.

    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1; active parameters for mixtures of experts.
    """
    return (_FORWARD + _backward_flop(method)) * parameter_count(model).active * tokens


def _backward_flop(method: Method) -> float:
    return _BACKWARD if method == "full" else _FROZEN_BACKWARD


def compute_optimal_tokens(model: Model) -> float:
    """Number of tokens for which a model of this size is the best use of the compute [tokens]: 20 per parameter.

    Assumes: for mixtures of experts the active parameters count, which underestimates their need for tokens.
    Source: Hoffmann et al. 2022, arXiv:2203.15556, table 3.
    """
    count = parameter_count(model)
    parameters = count.total if count.active > 0.9 * count.total else count.active
    return TOKENS_PER_PARAMETER * parameters


def training_days(
    flop: float,
    num_accelerators: int,
    peak_flop_per_s: float,
    mfu_fraction: float,
    goodput_fraction: float = 1.0,
) -> float:
    """Duration of a run [days]: flop over accelerators · peak · MFU · goodput.

    Source: definition of model flop utilisation, Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
    """
    return flop / (num_accelerators * peak_flop_per_s * mfu_fraction * goodput_fraction) / DAY_S


def model_flop_per_token(job: TrainingJob) -> float:
    """FLOP that training one token needs, whatever the layout [flop]: 6 N + attention; with adapters 4 N.

    A reward model has no head.

    Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B; Kaplan et al. 2020, arXiv:2001.08361.
    """
    active = parameter_count(job.model).active
    if "scalar_head" in job.features:
        active -= job.model.vocab_size * job.model.hidden_size
    attention = attention_flop_per_token(job.model, job.sequence_tokens)
    return (_FORWARD + _backward_flop(job.method)) * active + 3.0 * attention


def hardware_flop_per_token(job: TrainingJob, plan: TrainingPlan) -> float:
    """FLOP that a plan really computes per token [flop]: recomputation counts again.

    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5.
    """
    needed = model_flop_per_token(job)
    attention = attention_flop_per_token(job.model, job.sequence_tokens)
    if plan.recompute == "selective":
        return needed + attention
    if plan.recompute != "full":
        return needed
    share = 1.0
    if plan.recompute_layers >= 0:
        share = min(1.0, plan.recompute_layers / (num_layers(job.model) / plan.pipeline_parallel))
    return needed + share * (layer_flop_per_token(job.model) + attention)
