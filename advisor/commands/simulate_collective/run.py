"""Predict one collective of a group of accelerators."""

from dataclasses import replace

from advisor.ask.measures import parse_bytes
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.topology import group_of
from advisor.catalog import accelerators
from advisor.commands.simulate_collective.options import CollectiveInput
from advisor.commands.simulate_collective.view import collective_answer
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.simulator.collectives.topology import NODES_PER_LEAF, UsualNetwork, oversubscribe, usual_network


def collective(asked: CollectiveInput, shared: SharedOptions) -> Answer:
    """Return time, algorithm, bus bandwidth, and where another algorithm takes over.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the group does not fit its nodes.
    """
    calibration = given_calibration(shared.calibration)
    gpu, group, note = group_of(asked.gpu, asked.gpus, asked.nodes, calibration, asked.network)
    behind = oversubscribe(group, asked.op, asked.oversubscription)
    idle = _explain_idle(asked, group.num_nodes) if behind == group else ""
    group = behind
    size = parse_bytes(asked.size, "--bytes")
    network = None if asked.network else usual_network(accelerators.by_id(gpu), group)
    if asked.network and group.num_nodes > 1:
        network = UsualNetwork(group.inter_bytes_per_s, True, f"as described: {asked.network}")
    answer = collective_answer(asked.op, size, group, asked.algorithm, gpu=gpu, note=note, network=network)
    answer = replace(answer, notes=(*answer.notes, *filter(None, (idle,))))
    return with_calibration(answer, calibration, (gpu,))


def _explain_idle(asked: CollectiveInput, num_nodes: int) -> str:
    """Return why an oversubscription that was typed changes nothing; empty if none was."""
    if asked.oversubscription == 1.0:
        return ""
    if num_nodes <= NODES_PER_LEAF:
        why = f"one leaf joins up to {NODES_PER_LEAF} nodes, and {num_nodes} are asked: no traffic takes an uplink"
    else:
        why = f"{asked.op} takes the uplinks of a leaf once, which its {NODES_PER_LEAF} nodes share"
    return f"--oversubscription {asked.oversubscription:g} changes nothing: {why}"
