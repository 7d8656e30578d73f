"""Predict one collective of a group of accelerators."""

from advisor.ask.measures import parse_bytes
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.topology import group_of
from advisor.catalog import accelerators
from advisor.commands.simulate_collective.options import CollectiveInput
from advisor.commands.simulate_collective.view import collective_answer
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.simulator.collectives.topology import UsualNetwork, oversubscribe, usual_network


def collective(asked: CollectiveInput, shared: SharedOptions) -> Answer:
    """Return time, algorithm, bus bandwidth, and where another algorithm takes over.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the group does not fit its nodes.
    """
    calibration = given_calibration(shared.calibration)
    gpu, group, note = group_of(asked.gpu, asked.gpus, asked.nodes, calibration, asked.network)
    group = oversubscribe(group, asked.op, asked.oversubscription)
    size = parse_bytes(asked.size, "--bytes")
    network = None if asked.network else usual_network(accelerators.by_id(gpu), group)
    if asked.network and group.num_nodes > 1:
        network = UsualNetwork(group.inter_bytes_per_s, True, f"as described: {asked.network}")
    answer = collective_answer(asked.op, size, group, asked.algorithm, gpu=gpu, note=note, network=network)
    return with_calibration(answer, calibration, (gpu,))
