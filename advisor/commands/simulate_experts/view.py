"""Balance of routed experts as an answer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from advisor.catalog.units import GB
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import TIME, digits, percent, show
from advisor.simulator.deployment import Deployment
from advisor.simulator.workloads.expert_balance import ExpertBalance


@dataclass(frozen=True, slots=True)
class ExpertTimes:
    """Times of one layer's experts on the fullest rank [s], and the memory of copies."""

    even_s: float
    as_numbered_s: float
    with_copies_s: float
    copies_bytes: float
    """Memory that copies take on each accelerator, in all layers [bytes]."""


def experts_answer(
    deployment: Deployment,
    num_experts: int,
    balance: ExpertBalance,
    times: ExpertTimes,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return loads and times without and with copies."""
    copies = inputs["redundant_experts"]
    headline = (
        f"{deployment.model.id}: {num_experts} experts and {copies} copies on {inputs['expert_parallel']} x "
        f"{deployment.accelerator.id}, {balance.slots_per_rank} on each; the fullest has "
        f"{digits(balance.with_copies)} times the mean load"
    )
    rows = (
        ("even", "1", show(times.even_s, TIME)),
        ("as numbered, no copies", digits(balance.as_numbered), show(times.as_numbered_s, TIME)),
        (f"packed by load, {copies} copies", digits(balance.with_copies), show(times.with_copies_s, TIME)),
    )
    table = Table(columns("experts | fullest over mean> | experts of a layer>"), rows)
    text = (
        f"The most popular expert gets {percent(balance.hottest_share)} of {inputs['tokens']:,} tokens' choices; all "
        f"ranks wait for the fullest. Copies take {digits(times.copies_bytes / GB)} GB of each accelerator."
    )
    return Answer(
        result={"balance": asdict(balance), "times": asdict(times)},
        inputs=inputs,
        blocks=(Paragraph(headline, emphasis=True), table, Paragraph(text)),
        notes=notes,
    )
