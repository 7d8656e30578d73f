"""Wires bound sums: no collective moves more than its links do, and cards of one socket meet where they are said to."""

import numpy as np
import pytest

from advisor.catalog import accelerators
from advisor.simulator.collectives import all_gather_s, all_reduce_s, bus_bytes_per_s, topology_of
from advisor.simulator.collectives.fabric_text import describe
from advisor.simulator.collectives.operations import all_to_all_s
from advisor.simulator.collectives.topology import Topology

SIZES = np.array([1e3, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10])


def rate_of(place: Topology) -> float:
    """Rate at which one rank sends: its link, or where the group spans nodes the node's ports beside it [bytes/s]."""
    if place.num_nodes == 1:
        return place.intra_bytes_per_s
    return min(place.intra_bytes_per_s, place.inter_bytes_per_s * place.ranks_in_node)


def test_no_sum_is_faster_than_its_wires() -> None:
    """A switch that reduces sends every byte once, as each of two nodes does; a ring almost twice."""
    for ranks in [2, 4, 8, 16]:
        for chip in accelerators.all_ids():
            place = topology_of(accelerators.by_id(chip), ranks)
            for operation, time_s in (("all_reduce", all_reduce_s), ("all_gather", all_gather_s)):
                sends_once = place.num_nodes > 1 or (operation == "all_reduce" and place.in_network_reduction)
                bound = (2.0 if sends_once else 1.0) * rate_of(place)
                for size, seconds in zip(SIZES, time_s(SIZES, place), strict=True):
                    assert bus_bytes_per_s(operation, size, seconds, ranks) <= 1.001 * bound
            if place.num_nodes == 1:
                sent = SIZES * (ranks - 1) / ranks / all_to_all_s(SIZES, place)
                assert np.all(sent <= 1.001 * place.intra_bytes_per_s)


def test_cards_of_one_socket_sum_faster_than_behind_a_switch_or_across_sockets() -> None:
    """Four RTX PRO 6000: 46 GB/s straight to one socket at 16 MiB, 31 behind one switch at 32; eight over two: 24."""
    card = accelerators.by_id("rtx-pro-6000-server")
    texts = ("PCIe 5.0 x16 direct to one socket", "PCIe 5.0, one PCIe switch")
    rates = [
        bus_bytes_per_s("all_reduce", 2.0**25, float(all_reduce_s(2.0**25, describe(card, text, 4, 1)[0])), 4)
        for text in texts
    ]
    assert rates[0] == pytest.approx(47e9, rel=0.05)
    assert rates[1] == pytest.approx(31e9, rel=0.05)
    across = bus_bytes_per_s("all_reduce", 2.0**25, float(all_reduce_s(2.0**25, topology_of(card, 8))), 8)
    assert across < rates[1]
    assert topology_of(card, 4).fit_fabric == "pcie5-root"
    assert topology_of(card, 8).fit_fabric == "pcie5-x16"


@pytest.mark.parametrize("kind", ["GbE", "Gb Ethernet", "Gb RoCE", "Gb InfiniBand", "Gb"])
def test_a_rate_is_a_nodes_or_an_accelerators_and_both_can_be_said(kind: str) -> None:
    """Ethernet without a number of ports is the node's one port, other networks have a port for each accelerator. What
    is not said is told; counts of ports leave nothing open."""
    chip = accelerators.by_id("a100-sxm-80gb")

    def gbit(text: str) -> tuple[float, bool]:
        group, assumed = describe(chip, text, 16, 2)
        return round(group.inter_bytes_per_s * 8e-9, 6), bool(assumed)

    for text in (f"100{kind} per node", f"100{kind}/node", f"1x100{kind}"):
        assert gbit(text) == (12.5, False)
    for text in (f"100{kind} per GPU", f"100{kind}/accelerator", f"8x100{kind}"):
        assert gbit(text) == (100.0, False)
    assert gbit(f"100{kind}") == (12.5 if kind in ("GbE", "Gb Ethernet") else 100.0, True)


@pytest.mark.parametrize(("gpu", "reached"), [("h100-sxm", 52.3e9), ("a100-sxm-80gb", 26.2e9)])
@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_a_rank_sends_no_more_than_its_own_link_carries(gpu: str, ranks: int, reached: float) -> None:
    """One GPU in each of two nodes reached 41 GB/s over four ports of 400 Gb/s (NVIDIA/nccl-tests issue 232)."""
    card = accelerators.by_id(gpu)
    rates = [
        describe(card, f"InfiniBand {ports}x400Gb", ranks, 2)[0].inter_bytes_per_s for ports in (1, 4, 64)
    ]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(reached, rel=0.01)
    said = describe(card, "InfiniBand 64x400Gb", ranks, 2)[1]
    assert any("what its PCIe" in words for words in said)
