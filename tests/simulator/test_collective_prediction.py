"""A predicted collective: the winner is the fastest, ranges hold the value, crossovers are where winners change."""

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.units import GB, GIB, KIB, MIB
from advisor.simulator.collectives import Topology, all_reduce_s, topology_of
from advisor.simulator.collectives.prediction import OPERATIONS, candidates_s, crossovers, predict


def group(accelerator: str, num_ranks: int) -> Topology:
    return topology_of(by_id(accelerator), num_ranks)


@pytest.mark.parametrize(
    "accelerator", ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "rtx-4090", "tpu-v5e", "l40s"]
)
@pytest.mark.parametrize("num_ranks", [1, 2, 8, 64])
def test_every_operation_has_a_prediction_everywhere(accelerator: str, num_ranks: int) -> None:
    for operation in OPERATIONS:
        point = predict(operation, 16 * MIB, group(accelerator, num_ranks))
        assert point.time_s.low <= point.time_s.value <= point.time_s.high
        assert (point.time_s.value == 0) is (num_ranks == 1)


@pytest.mark.parametrize("num_bytes", [KIB, MIB, 64 * MIB, GIB])
def test_the_winner_is_the_time_that_the_cost_model_uses(num_bytes: float) -> None:
    for ranks in (2, 8, 16):
        topology = group("h100-sxm", ranks)
        predicted = predict("all_reduce", num_bytes, topology).time_s.value
        assert predicted == pytest.approx(float(all_reduce_s(num_bytes, topology)), rel=1e-12)


def test_crossovers_are_where_the_winner_changes() -> None:
    topology = group("h100-sxm", 8)
    changes = crossovers("all_reduce", topology)
    assert changes
    for change in changes:
        assert predict("all_reduce", change.num_bytes * 0.99, topology).algorithm == change.slower
        assert predict("all_reduce", change.num_bytes * 1.01, topology).algorithm == change.faster


def test_one_algorithm_never_crosses_over() -> None:
    assert crossovers("all_gather", group("h100-sxm", 8)) == ()


def test_nccl_alone_leaves_the_engines_kernels_out() -> None:
    topology = group("h100-sxm", 8)
    assert predict("all_reduce", 64 * KIB, topology).algorithm.startswith("custom")
    assert not predict("all_reduce", 64 * KIB, topology, algorithm="nccl").algorithm.startswith("custom")


def test_what_was_not_measured_has_a_wider_range_and_says_so() -> None:
    measured = predict("all_reduce", 64 * KIB, group("h100-sxm", 8))
    transferred = predict("all_reduce", 64 * KIB, group("mi300x", 8))
    assert measured.algorithm == transferred.algorithm == "custom-any"
    assert measured.time_s.basis == "calibrated"
    assert transferred.time_s.basis == "modelled"
    spread = [q.high / q.low for q in (measured.time_s, transferred.time_s)]
    assert spread[1] > spread[0]


def test_one_gibibyte_on_eight_h200_reaches_the_published_bus_bandwidth() -> None:
    # nccl-tests on HGX H200: about 480 GB/s with NVLS.
    point = predict("all_reduce", GIB, group("h200-sxm", 8), algorithm="nccl")
    assert point.algorithm == "nvls"
    assert point.bus_bytes_per_s.low <= 480 * GB <= point.bus_bytes_per_s.high
    wire_floor_s = 2 * 7 / 8 * GIB / (450 * GB)
    ring = float(candidates_s("all_reduce", np.asarray([GIB]), group("h200-sxm", 8), "nccl")["ring"][0])
    assert ring > wire_floor_s


@pytest.mark.parametrize("num_bytes", [0.0, -1.0, float("nan")])
def test_a_message_has_a_size(num_bytes: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        predict("all_reduce", num_bytes, group("h100-sxm", 8))
