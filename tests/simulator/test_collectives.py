"""Laws and anchors of the collective time functions."""

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import models
from advisor.catalog.accelerators import by_id
from advisor.catalog.collectives import records
from advisor.catalog.units import GB, GIB, KIB, MIB
from advisor.simulator.collectives import (
    Topology,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    bus_bytes_per_s,
    moe_combine_s,
    moe_dispatch_s,
    reduce_scatter_s,
    send_recv_s,
    topology_of,
)
from advisor.simulator.collectives.expert_parallel import GroupLimit, distinct_holders, neighbouring_holders
from advisor.simulator.collectives.fabric_text import describe
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.graph.model import layers_of

SIZES = np.geomspace(256, 64 * GIB, 160)
FABRICS = {
    "nvlink2": 150e9,
    "nvlink3": 300e9,
    "nvlink4": 450e9,
    "nvlink5": 900e9,
    "pcie4-x16": 31.5e9,
    "pcie5-x16": 63e9,
    "xgmi-mi300x": 448e9,
    "ici-v5p": 600e9,
    "gaudi3-roce": 600e9,
}
MEASURED = Path(__file__).resolve().parents[2] / "evidence" / "fit" / "measured_collectives.csv"
OPERATIONS = {
    "all_reduce": all_reduce_s,
    "all_gather": all_gather_s,
    "reduce_scatter": reduce_scatter_s,
    "all_to_all": all_to_all_s,
    "broadcast": broadcast_s,
    "send_recv": send_recv_s,
}
every_operation = pytest.mark.parametrize("operation", OPERATIONS)
every_fabric = pytest.mark.parametrize("fabric", FABRICS)


def group(num_ranks: int, fabric: str = "nvlink4", in_switch: bool = False, per_node: int = 8) -> Topology:
    return Topology(num_ranks, per_node, fabric, FABRICS[fabric], 50e9, in_network_reduction=in_switch)


@every_fabric
@every_operation
def test_time_rises_with_size(operation: str, fabric: str) -> None:
    for num_ranks in [2, 3, 8, 16, 64, 1024]:
        times = OPERATIONS[operation](SIZES, group(num_ranks, fabric))
        assert np.all(times > 0)
        assert np.all(np.diff(times) >= 0)


@every_operation
def test_one_rank_and_empty_messages_take_no_time(operation: str) -> None:
    assert np.all(OPERATIONS[operation](SIZES, group(1)) == 0)
    assert np.all(OPERATIONS[operation](np.zeros(2), group(8)) == 0)


@every_operation
@pytest.mark.parametrize("num_bytes", [-1.0, float("nan"), float("inf")])
def test_sizes_must_be_finite_and_not_negative(operation: str, num_bytes: float) -> None:
    with pytest.raises(ValueError, match="num_bytes"):
        OPERATIONS[operation](num_bytes, group(8))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_ranks": 0},
        {"ranks_per_node": 0},
        {"intra_bytes_per_s": 0.0},
        {"intra_bytes_per_s": float("nan")},
        {"num_ranks": 16, "inter_bytes_per_s": 0.0},
        {"inter_latency_s": -1e-6},
    ],
)
def test_a_topology_must_be_possible(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"rank|intra|inter"):
        replace(group(8), **changes)


@every_fabric
@every_operation
def test_bus_bandwidth_stays_below_the_wire(operation: str, fabric: str) -> None:
    """Without sums in the network. Between two nodes a tree sends the buffer once, so its busbw may pass the NICs'."""
    for num_ranks in [2, 3, 8, 16, 64]:
        place = group(num_ranks, fabric)
        wire = place.intra_bytes_per_s
        pairwise = operation in ("all_to_all", "send_recv")
        if place.num_nodes > 1 and pairwise:
            wire = min(wire, place.inter_bytes_per_s)
            wire *= (num_ranks - 1) / (num_ranks - place.ranks_in_node) if operation == "all_to_all" else 1.0
        elif place.num_nodes > 2:
            wire = min(wire, place.inter_bytes_per_s * place.ranks_in_node)
        times = OPERATIONS[operation](SIZES, place)
        rates = [bus_bytes_per_s(operation, s, t, num_ranks) for s, t in zip(SIZES, times, strict=True)]
        if fabric.startswith("ici"):
            wire = place.intra_bytes_per_s
        assert max(rates) < wire


@every_operation
@given(factor=st.floats(1.01, 4.0), size=st.floats(1.0, 1e11), ranks=st.sampled_from([2, 8, 16, 128]))
def test_faster_links_and_shorter_steps_are_never_slower(
    operation: str, factor: float, size: float, ranks: int
) -> None:
    place = group(ranks, "nvlink4", in_switch=True)
    time = float(OPERATIONS[operation](size, place))
    for better in (
        replace(place, intra_bytes_per_s=place.intra_bytes_per_s * factor),
        replace(place, inter_bytes_per_s=place.inter_bytes_per_s * factor),
        replace(place, inter_latency_s=place.inter_latency_s / factor),
    ):
        assert float(OPERATIONS[operation](size, better)) <= time * (1 + 1e-12)


@every_fabric
def test_an_all_reduce_costs_at_least_its_reduce_scatter(fabric: str) -> None:
    for num_ranks in (2, 4, 8, 64):
        place = group(num_ranks, fabric)
        large = SIZES[SIZES > 16 * MIB]
        whole = all_reduce_s(large, place, algorithm="nccl")
        assert np.all(whole >= reduce_scatter_s(large, place))


@every_operation
def test_a_network_as_good_as_the_node_tends_to_the_single_node(operation: str) -> None:
    """Large messages: a network that is no bottleneck leaves the scale-up link as the limit."""
    one = replace(group(16, per_node=16), inter_bytes_per_s=0.0)
    two = replace(group(16), inter_bytes_per_s=1e13, inter_latency_s=0.0)
    if operation in ("send_recv", "all_to_all"):
        pytest.skip("pairs over the network do not use the scale-up link")
    ratio = OPERATIONS[operation](64 * GIB, two) / OPERATIONS[operation](64 * GIB, one)
    assert 0.8 < float(ratio) < 1.1


def test_more_ranks_wait_longer_for_a_small_sum() -> None:
    times = [float(all_reduce_s(4096.0, group(n), algorithm="nccl")) for n in (2, 4, 8, 16, 64, 512)]
    assert times == sorted(times)


def test_engines_are_never_slower_than_the_library() -> None:
    for fabric in FABRICS:
        for num_ranks in (2, 4, 8):
            place = group(num_ranks, fabric)
            library = all_reduce_s(SIZES, place, algorithm="nccl")
            for engine in ("engine", "vllm", "sglang", "sglang-0.5.14", "tensorrt-llm"):
                assert np.all(all_reduce_s(SIZES, place, algorithm=engine) <= library)


# Published bus bandwidths, GB/s: (ranks, fabric, sums in the switch, size, value, tolerance).
# NVSwitch and xGMI: stas00/ml-engineering network; A100: NVIDIA/nccl issue 1048; RTX 4090: P2P unlock write-up.
ANCHORS = [
    (8, "nvlink4", True, 16 * GIB, 482.0, 0.05),
    (8, "nvlink4", False, 8 * GIB, 365.6, 0.05),
    (5, "nvlink4", True, 8 * GIB, 414.2, 0.05),
    (4, "nvlink4", True, 8 * GIB, 363.3, 0.05),
    (8, "nvlink5", False, 8 * GIB, 682.2, 0.06),
    (8, "nvlink5", True, 2 * GIB, 735.0, 0.05),
    (8, "nvlink5", True, 16 * GIB, 845.7, 0.13),
    (8, "nvlink3", False, 4 * GIB, 232.5, 0.05),
    (8, "pcie4-x16", False, 128 * MIB, 20.6, 0.15),
]


@pytest.mark.parametrize(("ranks", "fabric", "in_switch", "size", "published", "tolerance"), ANCHORS)
def test_published_bus_bandwidth(
    ranks: int, fabric: str, in_switch: bool, size: float, published: float, tolerance: float
) -> None:
    time = float(all_reduce_s(size, group(ranks, fabric, in_switch), algorithm="nccl"))
    assert bus_bytes_per_s("all_reduce", size, time, ranks) / GB == pytest.approx(published, rel=tolerance)


def test_host_staged_pcie_is_slower_than_peer_to_peer() -> None:
    peer = group(8, "pcie4-x16")
    staged = replace(peer, peer_to_peer=False)
    time = float(all_reduce_s(128 * MIB, staged))
    assert time > float(all_reduce_s(128 * MIB, peer))
    # Stock driver, 8 x RTX 4090: 14.45 GB/s.
    assert bus_bytes_per_s("all_reduce", 128 * MIB, time, 8) / GB == pytest.approx(14.45, rel=0.1)


def test_a_mesh_gives_two_gpus_one_link() -> None:
    # MI300X: 47.7 GB/s between two, 312.9 over eight (stas00/ml-engineering, network).
    for num_ranks, published in ((2, 47.7), (8, 312.9)):
        place = topology_of(by_id("mi300x"), num_ranks)
        time = float(all_reduce_s(4 * GIB, place, algorithm="nccl"))
        assert bus_bytes_per_s("all_reduce", 4 * GIB, time, num_ranks) / GB == pytest.approx(
            published, rel=0.1
        )


def test_two_nodes_of_h100_over_infiniband_reach_the_switch_rate() -> None:
    # p5.48xlarge, two nodes: 487 GB/s at 16 GiB (AWS nccl-tests sample); rings alone would stop at the NICs' 400.
    place = group(16, in_switch=True)
    time = float(all_reduce_s(16 * GIB, place))
    assert bus_bytes_per_s("all_reduce", 16 * GIB, time, 16) / GB == pytest.approx(487, rel=0.06)


def test_many_nodes_stop_at_the_network() -> None:
    # 16 nodes of H200 over 400 GB/s of EFA each: 369.9 GB/s at 16 GiB (AWS topology-aware sample).
    place = group(128, in_switch=True)
    time = float(all_reduce_s(16 * GIB, place))
    assert bus_bytes_per_s("all_reduce", 16 * GIB, time, 128) / GB == pytest.approx(370, rel=0.06)


def least_outbound_bytes(operation: str, size: float, nodes: int, ranks: int) -> float:
    """Bytes that some node must send to the others, whatever the algorithm (switches that do not reduce)."""
    away = (nodes - 1) / nodes
    return (
        size
        * {
            "all_reduce": 2
            * away,  # its part of the sums goes out, the parts of others that it has summed too
            "all_gather": away,
            "reduce_scatter": away,
            "all_to_all": ranks * away,  # each of its ranks sends what is not for its own node
        }[operation]
    )


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("fabric", ["nvlink4", "nvlink5", "pcie4-x16", "xgmi-mi300x"])
def test_bytes_leave_a_node_no_faster_than_its_ports(operation: str, fabric: str) -> None:
    """However fast the links inside: each rank has one port; pairwise messages get no more than its PCIe slot."""
    for ranks in (1, 2, 4, 8):
        for nodes in (2, 4, 16):
            for port in (3.125e9, 12.5e9, 50e9, 200e9):
                place = replace(group(ranks * nodes, fabric, per_node=ranks), inter_bytes_per_s=port)
                behind_slot = fabric.startswith("pcie") and operation == "all_to_all"
                rate = ranks * (min(port, FABRICS[fabric]) if behind_slot else port)
                outbound = least_outbound_bytes(operation, 1.0, nodes, ranks)
                assert np.all(OPERATIONS[operation](SIZES, place) >= SIZES * outbound / rate)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize(
    "network", ["InfiniBand 4x400Gb", "RoCE 8x400Gb", "EFA 32x100Gb", "800Gb per GPU", "TCP 200Gb"]
)
@pytest.mark.parametrize("chip", ["h100-sxm", "a100-sxm-80gb", "v100-pcie-32gb", "l40s", "mi300x", "t4"])
def test_bytes_leave_a_node_no_faster_than_its_gpus_reach_the_ports(
    operation: str, network: str, chip: str
) -> None:
    """A node with fewer GPUs than ports: each GPU sends over its own PCIe link."""
    record = by_id(chip)
    assert record.pcie_generation is not None
    assert record.pcie_lanes is not None
    link = PCIE_LANE_BYTES_PER_S[record.pcie_generation] * record.pcie_lanes
    for ranks in (1, 2, 4):
        for nodes in (2, 4):
            place, _ = describe(record, network, ranks * nodes, nodes)
            outbound = least_outbound_bytes(operation, 1.0, nodes, ranks)
            assert np.all(OPERATIONS[operation](SIZES, place) >= SIZES * outbound / (ranks * link))


def test_twenty_racks_leave_by_fewer_rings_than_they_have_ports() -> None:
    # 1440 GB200 in racks of 72: 405.7 GB/s at 16 GiB (coreweave/nccl-tests); with 72 ports NVLink would set the rate.
    place = group(1440, "nvlink5", per_node=72)
    time = float(all_reduce_s(16 * GIB, place, algorithm="nccl"))
    assert bus_bytes_per_s("all_reduce", 16 * GIB, time, 1440) / GB == pytest.approx(405.7, rel=0.08)


def test_an_exchange_across_nodes_uses_one_port_per_rank() -> None:
    place = group(64)
    size = GIB
    rate = 56 / 64 * size / float(all_to_all_s(size, place))
    assert 0.6 * place.inter_bytes_per_s < rate < place.inter_bytes_per_s


def test_a_torus_has_no_start_per_rank() -> None:
    small = [float(all_reduce_s(KIB, group(n, "ici-v5p", per_node=8192))) for n in (64, 512)]
    assert small[1] < 3 * small[0]


@pytest.mark.parametrize("mode", ["low_latency", "normal"])
@pytest.mark.parametrize("exchange", [moe_dispatch_s, moe_combine_s])
@pytest.mark.parametrize("num_ranks", [2, 8, 16, 64])
def test_expert_exchange_rises_with_tokens_and_experts(exchange, mode: str, num_ranks: int) -> None:
    tokens = np.array([0, 1, 8, 64, 512, 4096])
    times = exchange(tokens, 7168, 8, group(num_ranks), mode=mode)
    assert times[0] == 0
    assert np.all(np.diff(times) > 0)
    assert np.all(exchange(tokens, 7168, 4, group(num_ranks), mode=mode) <= times)
    assert np.all(exchange(tokens, 7168, 8, group(1), mode=mode) == 0)


def test_low_latency_dispatch_is_near_published_kernels() -> None:
    # DeepEP low latency, 128 tokens, hidden 7168, top 8 of 256 experts, 8 and 64 H100: 37 and 167 µs measured.
    for num_ranks, measured in ((8, 37e-6), (64, 167e-6)):
        time = float(moe_dispatch_s(128, 7168, 8, group(num_ranks), num_experts=256))
        assert time == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("changes", [(-1, 7168, 8), (float("nan"), 7168, 8), (1, 0, 8), (1, 7168, 0)])
def test_expert_exchange_refuses_nonsense(changes: tuple[float, int, int]) -> None:
    with pytest.raises(ValueError, match=r"num_tokens|hidden"):
        moe_dispatch_s(*changes, group(8))


@pytest.mark.parametrize(("each", "chosen"), [(4, 8), (16, 8), (2, 4), (8, 22), (3, 5), (32, 8)])
def test_neighbouring_experts_sit_on_few_ranks(each: int, chosen: int) -> None:
    tokens = [{(first + k) // each for k in range(chosen)} for first in range(0, chosen * each * 10, chosen)]
    assert neighbouring_holders(each, chosen) == pytest.approx(np.mean([len(held) for held in tokens]))


def test_distinct_holders_counts_balls_in_bins() -> None:
    assert distinct_holders(8, 1) == pytest.approx(1.0)
    assert distinct_holders(2, 2) == pytest.approx(1.5)
    generator = np.random.default_rng(0)
    drawn = [len(set(draw)) for draw in generator.integers(0, 8, size=(20000, 8))]
    assert distinct_holders(8, 8) == pytest.approx(np.mean(drawn), rel=0.01)


def test_topology_from_the_catalog() -> None:
    h100 = topology_of(by_id("h100-sxm"), 16)
    assert (h100.num_nodes, h100.ranks_in_node, h100.intra_fabric) == (2, 8, "nvlink4")
    assert h100.in_network_reduction
    assert h100.inter_bytes_per_s == pytest.approx(50e9)
    assert topology_of(by_id("gb200"), 72).num_nodes == 1
    pair = topology_of(by_id("h100-nvl"), 2)
    four = topology_of(by_id("h100-nvl"), 4)
    assert (pair.intra_fabric, four.intra_fabric) == ("nvlink4-bridge", "pcie5-x16")
    assert not pair.in_network_reduction
    assert topology_of(by_id("rtx-4090"), 2).fit_fabric == "pcie4-x16-host"
    with pytest.raises(ValueError, match="at least one rank"):
        topology_of(by_id("h100-sxm"), 0)


def test_bus_bandwidth_follows_nccl_tests() -> None:
    assert bus_bytes_per_s("all_reduce", 8.0, 1.0, 8) == pytest.approx(14.0)
    assert bus_bytes_per_s("all_gather", 8.0, 1.0, 8) == pytest.approx(7.0)
    assert bus_bytes_per_s("broadcast", 8.0, 1.0, 8) == pytest.approx(8.0)
    with pytest.raises(ValueError, match="unknown collective"):
        bus_bytes_per_s("gossip", 8.0, 1.0, 8)
    with pytest.raises(ValueError, match="positive"):
        bus_bytes_per_s("all_reduce", 8.0, 0.0, 8)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 6, 8])
def test_own_sums_on_h200_without_the_switch(num_ranks: int) -> None:
    """Left out of every fit; 3 and 6 ranks are sizes of group that nothing was fitted on."""
    with MEASURED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["operation"] == "all_reduce"]
    errors = [
        float(all_reduce_s(float(row["num_bytes"]), group(num_ranks), algorithm="nccl"))
        / float(row["time_s"])
        - 1
        for row in rows
        if int(row["num_ranks"]) == num_ranks and float(row["num_bytes"]) >= 16 * MIB
    ]
    assert len(errors) == 4
    assert max(map(abs, errors)) < 0.08


def test_fits_are_close_to_what_they_were_fitted_on() -> None:
    """Records of kernels and libraries; a refit that got worse must not pass unseen."""
    for record in records():
        if record.residual.num_points > 20:
            limit = 0.15 if record.operation.startswith("moe") else 0.1
            assert record.residual.median_abs_error < limit, (
                record.fabric,
                record.operation,
                record.algorithm,
            )
            assert abs(record.residual.bias) < 0.1


def test_narrow_slots_that_reach_peers_through_host_memory_are_a_fabric_of_their_own() -> None:
    card = by_id("rtx-3090")
    full, narrow, narrower = (
        topology_of(card.model_copy(update={"pcie_lanes": lanes}), 4) for lanes in (16, 4, 1)
    )
    assert (full.fit_fabric, narrow.fit_fabric) == ("pcie4-x16-host", "pcie4-x4-host")
    bus = [
        bus_bytes_per_s("all_reduce", 64e6, float(all_reduce_s(64e6, topology)), 4)
        for topology in (full, narrow, narrower)
    ]
    assert bus[0] > 4.0 * bus[1]  # worse than by its lanes alone
    assert bus[1] == pytest.approx(2.7e9, rel=0.05)  # what whole steps of four cards in one machine show
    assert bus[1] / bus[2] == pytest.approx(4.0, rel=0.05)
    small_s = [float(all_reduce_s(4096.0, topology)) for topology in (full, narrow)]
    assert small_s[0] <= small_s[1] < 1.5 * small_s[0]  # latency is that of the way, not of its width


def test_cards_on_two_sockets_stage_their_sums_in_host_memory() -> None:
    """Eight L40S reduce like RTX 4090 without peer access (nccl-tests: 1973 µs for 16 MiB), four read each other."""
    sizes = np.array([2.0**24])
    cards = {n: topology_of(by_id("l40s"), n) for n in (4, 8)}
    assert [place.fit_fabric for place in cards.values()] == ["pcie4-x16", "pcie4-x16-host"]
    assert all_reduce_s(sizes, cards[8])[0] == pytest.approx(1973e-6, rel=0.1)
    assert all_reduce_s(sizes, cards[4])[0] < 0.7 * all_reduce_s(sizes, cards[8])[0]
    assert topology_of(by_id("rtx-pro-6000-server"), 8).fit_fabric == "pcie5-x16"


@pytest.mark.parametrize(
    ("chip", "has_sums"),
    [("h100-sxm", True), ("l40s", True), ("mi300x", True), ("r9700", False), ("gaudi3", False)],
)
def test_engines_sum_themselves_only_where_they_have_kernels(chip: str, has_sums: bool) -> None:
    """vLLM has kernels for NVIDIA's accelerators and for gfx94 and gfx95 (platforms/rocm.py use_custom_allreduce)."""
    pair = topology_of(by_id(chip), 2)
    under_vllm, library = (all_reduce_s(SIZES, pair, algorithm=name) for name in ("vllm", "nccl"))
    assert pair.engine_sums == has_sums
    assert (under_vllm <= library * (1 + 1e-12)).all()
    assert (under_vllm < library).any() == has_sums


@pytest.mark.parametrize("num_holders", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "groups", [GroupLimit(1, 1), GroupLimit(4, 1), GroupLimit(4, 2), GroupLimit(4, 3), GroupLimit(4, 4)]
)
@pytest.mark.parametrize("experts_per_token", [1, 3])
def test_tokens_reach_the_holders_of_the_groups_they_choose(
    num_holders: int, groups: GroupLimit, experts_per_token: int
) -> None:
    """Counted over all choices of eight experts."""
    num_experts = 8
    size = num_experts // groups.num_groups
    reached = []
    for chosen in itertools.combinations(range(groups.num_groups), groups.chosen):
        experts = [group * size + place for group in chosen for place in range(size)]
        picked = itertools.product(experts, repeat=experts_per_token)
        reached += [len({expert * num_holders // num_experts for expert in each}) for each in picked]
    expected = sum(reached) / len(reached)
    assert distinct_holders(num_holders, experts_per_token, groups) == pytest.approx(expected)


def test_limited_routing_crosses_nodes_less_often() -> None:
    """DeepSeek-V3's tokens go to four of eight groups."""
    limits = []
    for name in ("kimi-k2", "deepseek-v3"):
        experts = [layer.experts for layer in layers_of(models.get(name).record) if layer.experts is not None]
        limits.append((experts[0].num_groups, experts[0].groups_per_token))
    assert limits == [(1, 1), (8, 4)]
    topology = topology_of(by_id("h100-sxm"), 64)
    times = [
        float(moe_dispatch_s(4096, 7168, 8, topology, mode="normal", groups=groups))
        for groups in (GroupLimit(8, 8), GroupLimit(8, 4), GroupLimit(8, 2))
    ]
    assert times == sorted(times, reverse=True)
    assert times[1] < 0.8 * times[0]
