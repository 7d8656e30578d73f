"""Decode of one model with attention and feed-forward parts apart, and together."""

from advisor.ask.deployment import check_engine, deployment_of
from advisor.ask.measures import parse_seconds
from advisor.ask.options import SharedOptions
from advisor.catalog import accelerators
from advisor.commands.simulate_afd.options import AfdInput
from advisor.commands.simulate_afd.view import afd_answer
from advisor.render.answer import Answer
from advisor.simulator.attention_experts import SplitPlan, best_split, best_together
from advisor.simulator.operators.grouped_matmul import TYPICAL_SKEW


def afd(asked: AfdInput, shared: SharedOptions) -> Answer:
    """Return the fastest decode with both parts apart whose time per token keeps the limit.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the model has no routed experts, a side
        does not fit, or no batch keeps the limit.
    """
    deployment, notes = deployment_of(asked.model, asked.gpu, asked.layout)
    chip = deployment.accelerator
    if asked.expert_gpu is not None:
        named = accelerators.get(asked.expert_gpu)
        chip = named.record
        notes = (*notes, named.note) if named.note else notes
        check_engine(deployment.engine, chip, deployment.weight_dtype, deployment.kv_dtype)
    skew = 0.0 if asked.balanced else TYPICAL_SKEW
    plan = SplitPlan(deployment, asked.attention_gpus, asked.expert_gpus, chip, skew)
    limit_s = parse_seconds(asked.tpot, "--tpot")
    split = best_split(plan, asked.context, limit_s, asked.micro_batches)
    together = best_together(plan, asked.context, limit_s)
    inputs = {
        "model": deployment.model.id,
        "gpu": deployment.accelerator.id,
        "expert_gpu": chip.id,
        "attention_gpus": asked.attention_gpus,
        "expert_gpus": asked.expert_gpus,
        "context_tokens": asked.context,
        "tpot_limit_s": limit_s,
        "micro_batches": asked.micro_batches,
        "expert_skew": skew,
        "engine": deployment.engine.id,
        "weight_dtype": deployment.weight_dtype,
        "kv_dtype": deployment.kv_dtype,
    }
    return afd_answer(plan, split, together, inputs, notes)
