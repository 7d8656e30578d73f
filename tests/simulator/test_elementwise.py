"""Laws of the model of small memory-bound operators."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency
from advisor.catalog.units import MIB
from advisor.simulator.device import device_of
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s, quantize_s

ACCELERATORS = ("a100-sxm-80gb", "l40s", "h100-sxm", "h200-sxm", "b200-sxm", "rtx-4090", "mi300x")


def bound(accelerator, dtype="bf16"):
    device = device_of(by_id(accelerator))
    return device, ElementwiseEfficiency.from_record(
        efficiency(device.architecture, "elementwise", dtype).record
    )


@given(st.sampled_from(ACCELERATORS), st.floats(1.0, 1e11), st.floats(1.0, 8.0))
@settings(max_examples=200, deadline=None)
def test_more_bandwidth_is_never_slower(accelerator, num_bytes, factor):
    device, parameters = bound(accelerator)
    faster = replace(device, bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * factor)
    before = elementwise_s(num_bytes, device, parameters)[0]
    assert 0.0 < elementwise_s(num_bytes, faster, parameters)[0] <= before * (1 + 1e-12)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_more_bytes_take_longer_and_few_bytes_cost_the_launch(accelerator):
    device, parameters = bound(accelerator)
    seconds = elementwise_s(np.geomspace(1.0, 1e11, 200), device, parameters)
    assert (np.diff(seconds) > 0.0).all()
    assert seconds[0] == pytest.approx(parameters.launch_s, rel=0.01)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_large_tensors_move_at_most_of_the_bandwidth(accelerator):
    device, parameters = bound(accelerator)
    achieved = 1e11 / elementwise_s(1e11, device, parameters)[0]
    assert 0.55 <= achieved / device.bandwidth_bytes_per_s <= 0.95


@pytest.mark.parametrize("accelerator", ["l40s", "h200-sxm", "rtx-pro-6000-server"])
def test_tensors_that_stay_in_the_l2_move_faster_than_memory(accelerator):
    device, parameters = bound(accelerator)
    small = 8 * MIB
    achieved = small / (elementwise_s(small, device, parameters)[0] - parameters.launch_s)
    assert achieved > device.bandwidth_bytes_per_s


def test_quantisation_counts_what_it_reads_and_writes():
    device, parameters = bound("h200-sxm", "fp8")
    rows = np.array([1.0, 4096.0])
    assert quantize_s(rows, 8192, "fp8", device, parameters) == pytest.approx(
        elementwise_s(rows * 8192 * 3.0, device, parameters)
    )
