"""Drawings of the nodes of an option: what the links of a training plan, or of one replica, carry."""

from typing import TYPE_CHECKING

from advisor.catalog import accelerators
from advisor.decide.option import Machine, Option
from advisor.render.topology import RankGroups, topology_svg

if TYPE_CHECKING:
    from advisor.decide.training.result import TrainingOption


def draw_training_nodes(option: "TrainingOption") -> str:
    """Return the drawing of the nodes of a plan; empty for one accelerator, and where some accelerators do other work
    than the plan's.

    Source: the order of ranks by which exchanges are priced: tensor, context, data, pipeline; experts over data.
    """
    plan = option.plan
    whole = plan.tp * plan.cp * plan.dp
    if whole * plan.pp != option.machine.num_accelerators:
        return ""
    exchanges = (
        RankGroups("TP", plan.tp, 1),
        RankGroups("CP", plan.cp, plan.tp),
        RankGroups("EP", plan.ep, max(1, plan.etp)),
        RankGroups("DP", plan.dp, plan.tp * plan.cp),
        RankGroups("PP", plan.pp, whole),
    )
    return _draw(option.machine, whole * plan.pp, exchanges)


def draw_replica_nodes(option: Option) -> str:
    """Return the drawing of one replica that several nodes hold; empty for a smaller one, and for unlike workers.

    Source: the order of ranks by which iterations are priced: tensor, data, pipeline; experts over tensor and data.
    """
    layout = option.replica_layout
    size = layout.accelerators_per_replica
    if option.parts or size <= option.machine.accelerators_per_node:
        return ""
    inner = layout.tensor_parallel * layout.context_parallel
    stage = inner * layout.data_parallel
    exchanges = (
        RankGroups("TP", layout.tensor_parallel, 1),
        RankGroups("CP", layout.context_parallel, layout.tensor_parallel),
        RankGroups("EP", layout.expert_parallel, max(1, stage // layout.expert_parallel)),
        RankGroups("DP", layout.data_parallel, inner),
        RankGroups("PP", layout.pipeline_parallel, stage),
    )
    return _draw(option.machine, size, exchanges, what="One replica: ")


def _draw(machine: Machine, count: int, exchanges: tuple[RankGroups, ...], *, what: str = "") -> str:
    """Return the drawing; a rack with one fabric is one node however its trays are counted."""
    if count < 2 or "+" in machine.accelerator:
        return ""
    chip = accelerators.by_id(machine.accelerator)
    is_rack = chip.scale_up_domain > chip.node_size
    size = chip.scale_up_domain if is_rack else machine.accelerators_per_node
    return topology_svg(
        machine.accelerator, count, size, exchanges, what=what, node="rack" if is_rack else "node"
    )
