"""Groups of ranks that cross a link between two unlike clusters."""

import numpy as np
import pytest

from advisor.catalog import accelerators
from advisor.simulator.training.cluster import Groups, Link, TrainingCluster

H100 = accelerators.by_id("h100-sxm")
ONE_GB = np.array([1e9])


def _summed_s(link_gbps: float, num_ranks: int, *, across: bool = True) -> float:
    link = Link(link_gbps * 1e9 / 8.0, 64, 32)
    groups = Groups(
        TrainingCluster(H100, link=link), np.array([num_ranks]), np.array([8]), np.array([across])
    )
    return float(groups.all_reduce_s(ONE_GB)[0])


@pytest.mark.parametrize("link_gbps", [10.0, 100.0, 400.0])
def test_a_group_has_its_share_of_the_link(link_gbps: float) -> None:
    # Eight groups of eight ranks cross at once; each ring carries 2 · 7/8 GB over an eighth of the link.
    wire_s = 2.0 * 7.0 / 8.0 * 1e9 / (link_gbps * 1e9 / 8.0 / 8.0)
    assert wire_s < _summed_s(link_gbps, 8) < 1.4 * wire_s


def test_a_link_as_wide_as_the_network_changes_nothing_and_inner_groups_never_see_it() -> None:
    alone = Groups(TrainingCluster(H100), np.array([8]), np.array([8])).all_reduce_s(ONE_GB)[0]
    assert _summed_s(64 * 400.0, 8) == pytest.approx(alone)
    assert _summed_s(1.0, 8, across=False) == pytest.approx(alone)


def test_ranks_of_one_machine_lie_on_both_sides_of_the_link() -> None:
    # Two ranks, one in each part, are no neighbours on NVLink whatever the stride says.
    link = Link(1e9, 2, 1)
    groups = Groups(TrainingCluster(H100, link=link), np.array([2]), np.array([1]), np.array([True]))
    assert not groups.inside[0]
    assert groups.all_reduce_s(ONE_GB)[0] > 1.0
