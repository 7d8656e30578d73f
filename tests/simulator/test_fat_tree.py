"""Oversubscribed leaves: who slows, and by how much."""

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.simulator.collectives import topology_of
from advisor.simulator.collectives.topology import oversubscribe

H100 = accelerators.by_id("h100-sxm")


def rate(num_ranks: int, operation: str, factor: float, leaf: int = 32) -> float:
    group = topology_of(H100, num_ranks)
    return oversubscribe(group, operation, factor, leaf).inter_bytes_per_s / group.inter_bytes_per_s


def test_one_leaf_never_notices() -> None:
    assert rate(256, "all_to_all", 4.0) == 1.0
    assert rate(8, "all_reduce", 8.0) == 1.0


def test_rings_climb_once_and_exchanges_with_everybody() -> None:
    assert rate(512, "all_reduce", 4.0) == 1.0
    assert rate(512, "all_reduce", 4.0, leaf=2) == pytest.approx(0.5)
    assert rate(512, "all_to_all", 4.0) == pytest.approx(1 / (4 * 32 / 63))
    assert rate(4096, "all_to_all", 2.0) < rate(512, "all_to_all", 2.0)
    assert rate(512, "all_to_all", 1.0) == 1.0


def test_less_than_all_is_no_oversubscription() -> None:
    for factor in (0.5, 0.0, float("nan")):
        with pytest.raises(AdvisorError):
            rate(512, "all_reduce", factor)
