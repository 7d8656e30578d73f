"""Attention and feed-forward parts apart, as an answer."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import LEGEND, TIME, TOKEN_RATE, digits, show, show_quantity
from advisor.simulator.attention_experts import SplitDecode, SplitPlan, TogetherDecode, as_predicted

_BOUNDS: Final = {
    "attention": "attention",
    "experts": "the experts",
    "dispatch": "the way to the experts",
    "combine": "the way back",
    "too few micro-batches": "too few micro-batches to hide the others behind one part",
}
"""Words for the part that the others wait for."""


def afd_answer(
    plan: SplitPlan,
    split: SplitDecode,
    together: TogetherDecode | None,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return rates of both arrangements, and the time of each part of a layer."""
    deployment = plan.model
    rate = as_predicted(split.tokens_per_s, deployment)
    where = f"{plan.num_attention} x {deployment.accelerator.id} for attention"
    headline = (
        f"{deployment.model.id} ({deployment.weight_dtype}), {inputs['context_tokens']:,} tokens, on {where} and "
        f"{plan.num_experts} x {plan.expert_accelerator.id} for experts: {show_quantity(rate, TOKEN_RATE)} each at "
        f"{show(split.tpot_s, TIME)} per token"
    )
    rows = tuple(
        (name, show(seconds, TIME))
        for name, seconds in (
            ("attention", split.attention_s),
            ("to the experts", split.dispatch_s),
            ("experts", split.experts_s),
            ("back", split.combine_s),
            ("between two micro-batches", split.period_s),
        )
    )
    beside = "With both parts on every accelerator, no batch fits the memory and keeps the limit."
    if together is not None:
        same = f"{together.num_accelerators} x {deployment.accelerator.id}"
        if together.num_accelerators < split.num_accelerators:
            same += f" (the experts do not divide among {split.num_accelerators})"
        beside = (
            f"Both parts on every one of {same}: {show(together.tokens_per_s, TOKEN_RATE)} each with "
            f"{together.num_sequences:,} sequences; apart is {digits(split.tokens_per_s / together.tokens_per_s)} "
            "times that."
        )
    turns = f"{split.num_micro_batches} micro-batches of {split.tokens_per_micro_batch:,} tokens take turns"
    if split.num_micro_batches == 1:
        turns = f"One micro-batch of {split.tokens_per_micro_batch:,} tokens passes both sides"
    text = (
        f"{turns}, limited by {_BOUNDS[split.bound]}. {beside} "
        "Expert kernels are the engine's; no measured run of this kind was fitted.\n"
        f"{LEGEND}"
    )
    result = {
        "tokens_per_s_per_accelerator": rate,
        "split": asdict(split) | {"period_s": split.period_s, "tpot_s": split.tpot_s, "bound": split.bound},
        "together": together,
    }
    return Answer(
        result=result,
        inputs=inputs,
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("in one layer | time>"), rows),
            Paragraph(text),
        ),
        notes=notes,
    )
