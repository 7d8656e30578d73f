"""Laws and anchors of the collective time functions."""

import numpy as np
import pytest

from advisor.simulator.collectives import (
    Topology,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    reduce_scatter_s,
    send_recv_s,
)

SIZES = np.geomspace(256, 2**34, 120)
FABRICS = {
    "nvlink3": 300e9,
    "nvlink4": 450e9,
    "nvlink5": 900e9,
    "pcie4-x16": 31.5e9,
    "pcie5-x16": 63e9,
    "xgmi-mi300x": 448e9,
    "ici-v5p": 600e9,
}
OPERATIONS = (all_reduce_s, all_gather_s, reduce_scatter_s, all_to_all_s, broadcast_s, send_recv_s)


def one_node(num_ranks: int, fabric: str = "nvlink4", **changes: object) -> Topology:
    switch = fabric in ("nvlink4", "nvlink5")
    settings = {"in_network_reduction": switch, **changes}
    return Topology(num_ranks, 8, fabric, FABRICS[fabric], 50e9, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("num_ranks", [2, 4, 8, 16, 64, 1024])
def test_time_rises_with_size_and_stays_positive(operation, fabric, num_ranks) -> None:
    times = operation(SIZES, one_node(num_ranks, fabric))
    assert np.all(times > 0)
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rank_and_empty_messages_take_no_time(operation) -> None:
    assert np.all(operation(SIZES, one_node(1)) == 0)
    assert np.all(operation(np.zeros(2), one_node(8)) == 0)
