"""Conditions of machines that a user states for a training run."""

import pytest

from advisor.catalog import accelerators
from advisor.decide.training.conditions import cluster_of
from advisor.decide.training.scenario import MachineConditions


@pytest.mark.parametrize("name", ["gh200-96gb", "h100-sxm", "mi300x"])
@pytest.mark.parametrize("node_size", [2, 4, 8])
def test_ports_of_a_stated_network_are_shared_by_the_stated_node(name: str, node_size: int) -> None:
    """Four ports of 200 Gb/s are as much of each accelerator as the node is small, whatever is usual for it."""
    stated = MachineConditions(network="InfiniBand 4x200Gb")
    cluster = cluster_of(accelerators.by_id(name), stated, node_size)
    assert cluster.node_size == node_size
    assert cluster.network is not None
    assert cluster.network.bytes_per_s == pytest.approx(4 * 200e9 / 8 / node_size)
