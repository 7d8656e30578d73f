"""Model flop of training: what MFU and HFU count."""

from advisor.catalog.schema import GroupedQueryAttention, LatentAttention, LayerGroup, Model
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

_FORWARD, _BACKWARD = 2.0, 4.0
_FROZEN_BACKWARD = 2.0
"""Frozen weights have no gradients of their own: only those of the inputs pass through them."""


def attention_flop_per_token(model: Model, sequence_tokens: int) -> float:
    """Scores and their product with the values in one forward pass, per token [flop]: causal, so half of the square.

    Σ layers · heads · 2 (d_qk + d_v) · s / 2; a window caps s.

    Assumes: a token attends to half of the sequence on average.
    Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B, halved for causality.
    """
    return sum(group.count * _core_flop(group, sequence_tokens) for group in model.layers)


def _core_flop(group: LayerGroup, sequence_tokens: int) -> float:
    mixer = group.mixer
    if isinstance(mixer, GroupedQueryAttention):
        seen = sequence_tokens / 2.0 if mixer.causal else float(sequence_tokens)
        if mixer.window_tokens:
            seen = min(seen, float(mixer.window_tokens))
        return 2.0 * mixer.num_heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim)) * seen
    if isinstance(mixer, LatentAttention):
        width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim
        return 2.0 * mixer.num_heads * width * sequence_tokens / 2.0
    return 0.0


def model_flop_per_token(job: TrainingJob) -> float:
    """Flop that training one token needs, whatever the layout [flop]: 6 N + attention; with adapters 4 N.

    Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B; Kaplan et al. 2020, arXiv:2001.08361.
    """
    active = parameter_count(job.model).active
    backward = _BACKWARD if job.method == "full" else _FROZEN_BACKWARD
    attention = attention_flop_per_token(job.model, job.sequence_tokens)
    return (_FORWARD + backward) * active + 3.0 * attention


def hardware_flop_per_token(job: TrainingJob, plan: TrainingPlan) -> float:
    """Flop that a plan really computes per token [flop]: recomputation counts again.

    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5.
    """
    needed = model_flop_per_token(job)
    attention = attention_flop_per_token(job.model, job.sequence_tokens)
    if plan.recompute == "selective":
        return needed + attention
    if plan.recompute != "full":
        return needed
    count = parameter_count(job.model)
    layers = sum(layer.count * layer.active for layer in count.layers)
    share = 1.0
    if plan.recompute_layers >= 0:
        per_stage = sum(group.count for group in job.model.layers) / plan.pipeline_parallel
        share = min(1.0, plan.recompute_layers / per_stage)
    return needed + share * (_FORWARD * layers + attention)
