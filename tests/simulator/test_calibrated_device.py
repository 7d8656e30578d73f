"""Measured figures of a machine replace the datasheet's: the model predicts the measurement, the rest follows."""

from dataclasses import asdict, replace

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Calibration
from advisor.catalog.units import GIB
from advisor.simulator import step_cost
from advisor.simulator.calibrated_device import (
    BANDWIDTH,
    LINK,
    accelerator_figures,
    calibrated_accelerator,
    calibrated_deployment,
    measured_figures,
)
from advisor.simulator.collectives import topology_of
from advisor.simulator.collectives.prediction import predict
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of, power_limit
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s

FORMATS = ("bf16", "fp16", "fp8", "int8")


def device(gpu, calibration=None):
    return device_of(calibrated_accelerator(accelerators.by_id(gpu), calibration))


def as_expected(gpu, **changes):
    """A calibration that holds what the model expects of the board."""
    probe = Calibration(
        accelerator=gpu,
        bandwidth_bytes_per_s=device(gpu).bandwidth_bytes_per_s * 0.9,
        matmul_flop_per_s={
            name: 0.7 * peak for name, peak in device(gpu).peak_flop_per_s.items() if name in FORMATS
        },
    )
    found = {figure.name: figure.predicted for figure in measured_figures(device(gpu), probe)}
    own = Calibration(accelerator=gpu, bandwidth_bytes_per_s=found[BANDWIDTH])
    peaks = {
        figure.name: figure.predicted
        for figure in measured_figures(
            device(gpu),
            own.model_copy(update={"matmul_flop_per_s": probe.matmul_flop_per_s}),
        )
        if figure.name != BANDWIDTH
    }
    return own.model_copy(update={"matmul_flop_per_s": peaks, **changes})


def scale_calibration(calibration, *, bandwidth=1.0, compute=1.0):
    return calibration.model_copy(
        update={
            "bandwidth_bytes_per_s": bandwidth * calibration.bandwidth_bytes_per_s,
            "matmul_flop_per_s": {
                name: compute * rate for name, rate in calibration.matmul_flop_per_s.items()
            },
        }
    )


def replica(calibration=None, gpu="h100-sxm") -> ReplicaModel:
    return model_replica(
        named_deployment("llama-3.1-8b", gpu),
        mean_input_tokens=2000,
        mean_output_tokens=200,
        calibration=calibration,
    )


def decode_s(found: ReplicaModel) -> float:
    return decode_iteration_s(found.surface, 8, 8 * 4000)


def prefill_s(found: ReplicaModel) -> float:
    return prefill_iteration_s(found.surface, 8192)


@pytest.mark.parametrize(
    "gpu", ["h100-sxm", "h200-sxm", "a100-sxm-80gb", "b200-sxm", "rtx-4090", "mi300x", "m4-max-40-core"]
)
def test_what_the_model_expects_changes_nothing(gpu):
    before = device(gpu)
    after = device(gpu, as_expected(gpu))
    assert after.bandwidth_bytes_per_s == pytest.approx(before.bandwidth_bytes_per_s, rel=1e-6)
    assert after.peak_flop_per_s == pytest.approx(before.peak_flop_per_s, rel=1e-6)
    scaled_fields = {"bandwidth_bytes_per_s": 1.0, "peak_flop_per_s": {}, "peak_scale": {}}
    assert replace(after, **scaled_fields) == replace(before, **scaled_fields)


def test_predictions_of_a_machine_as_expected_stay():
    before = replica()
    after = replica(as_expected("h100-sxm"))
    assert decode_s(after) == pytest.approx(decode_s(before), rel=0.01)
    assert prefill_s(after) == pytest.approx(prefill_s(before), rel=0.01)


@pytest.mark.parametrize("factor", [0.4, 0.7, 1.3])
def test_the_model_then_predicts_the_measurement(factor):
    measured = scale_calibration(as_expected("h100-sxm"), bandwidth=factor, compute=factor)
    again = measured_figures(device("h100-sxm", measured), measured)
    assert [figure.ratio for figure in again] == pytest.approx([1.0] * len(again), rel=1e-6)


def test_half_the_bandwidth_halves_decode_and_leaves_prefill():
    before = replica()
    after = replica(scale_calibration(as_expected("h100-sxm"), bandwidth=0.5))
    assert 1.7 < decode_s(after) / decode_s(before) < 2.05
    # Norms and activations between the products of a prompt wait for memory: a tenth of its time.
    assert 1.0 <= prefill_s(after) / prefill_s(before) < 1.15


def test_half_the_matrix_rate_halves_prefill_and_leaves_decode():
    before = replica()
    after = replica(scale_calibration(as_expected("h100-sxm"), compute=0.5))
    assert 1.6 < prefill_s(after) / prefill_s(before) < 2.05
    assert decode_s(after) == pytest.approx(decode_s(before), rel=0.1)


def test_a_format_that_was_not_measured_takes_the_nearest_ones_factor():
    own = as_expected("h100-sxm").matmul_flop_per_s
    measured = Calibration(
        accelerator="h100-sxm", matmul_flop_per_s={"bf16": 0.6 * own["bf16"], "int8": 0.8 * own["int8"]}
    )
    before = device("h100-sxm")
    after = device("h100-sxm", measured)
    factor = {name: after.peak_flop_per_s[name] / peak for name, peak in before.peak_flop_per_s.items()}
    assert factor["fp16"] == factor["tf32"] == factor["bf16"] < 0.65
    assert factor["fp8"] == factor["int8"] == pytest.approx(0.8, abs=0.03)
    assert after.bandwidth_bytes_per_s == before.bandwidth_bytes_per_s


def test_a_calibration_of_other_hardware_changes_nothing():
    other = scale_calibration(as_expected("h200-sxm"), bandwidth=0.5)
    record = accelerators.by_id("h100-sxm")
    assert calibrated_accelerator(record, other) is record
    assert accelerator_figures(record, other) == ()
    assert asdict(replica(other).surface) == asdict(replica().surface)
    assert replica(other).basis == "modelled"


def test_a_calibration_without_figures_changes_nothing():
    deployment = named_deployment("llama-3.1-8b", "h100-sxm")
    assert calibrated_deployment(deployment, Calibration(accelerator="h100-sxm", launch_s=1e-6)) is deployment


def test_the_basis_becomes_calibrated_unless_kernels_are_borrowed():
    assert replica(as_expected("h100-sxm")).basis == "calibrated"
    assert replica(as_expected("mi300x"), "mi300x").basis == replica(gpu="mi300x").basis == "assumed"


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"bandwidth_bytes_per_s": 3350.0}, "bandwidth"),  # GB/s
        ({"bandwidth_bytes_per_s": 0.9e12}, "bandwidth"),
        ({"bandwidth_bytes_per_s": 5.0e12}, "bandwidth"),
        ({"matmul_flop_per_s": {"bf16": 790.0}}, "bf16"),  # Tflop/s
        ({"matmul_flop_per_s": {"bf16": 790e12, "fp8": 9e15}}, "fp8"),
        ({"matmul_flop_per_s": {"fp16": -1.0}}, "fp16"),
        (
            {"num_accelerators": 8, "collective_bus_bytes_per_s": {"all_gather": 30e9}},
            "scale-up link",
        ),
    ],
)
def test_an_implausible_figure_is_named(changes, figure):
    with pytest.raises(AdvisorError) as error:
        replica(Calibration(accelerator="h100-sxm", **changes))
    assert f"the calibration's {figure} is implausible" in error.value.what
    assert "times what the model expects" in error.value.why
    assert "probe again" in error.value.fix


def test_a_sustained_rate_says_what_the_power_limit_leaves():
    """The measured one, in other formats what it is of the usual one; nothing where neither is known."""
    board = accelerators.by_id("h100-sxm")
    usual = power_limit(board)
    assert 0.6e15 < usual.flop_per_s["bf16"] < 0.7e15
    own = Calibration(accelerator="h100-sxm", sustained_flop_per_s={"bf16": 0.9 * usual.flop_per_s["bf16"]})
    found = power_limit(calibrated_accelerator(board, own))
    assert found.flop_per_s == pytest.approx({name: 0.9 * rate for name, rate in usual.flop_per_s.items()})
    assert (found.full_clock_s, found.other_draw) == (usual.full_clock_s, usual.other_draw)
    for name, watts in (("h100-nvl", 400), ("h100-pcie", 350), ("gh200-96gb", 700)):
        kept = power_limit(accelerators.by_id(name)).flop_per_s["bf16"] / usual.flop_per_s["bf16"]
        assert kept == pytest.approx((watts / 700) ** (1 / 3))
    b200 = accelerators.by_id("b200-sxm")
    assert power_limit(b200) is None
    measured = Calibration(accelerator="b200-sxm", sustained_flop_per_s={"bf16": 1.3e15})
    assert power_limit(calibrated_accelerator(b200, measured)).flop_per_s == {"bf16": 1.3e15}


@pytest.mark.parametrize("share", [0.5, 0.8, 2.0])
def test_long_prompts_keep_to_the_sustained_rate_and_short_ones_do_not(share):
    """Prompts for seconds are as slow as products without a pause; decodes, and 50 ms of prompts, stay as they are."""
    rate = power_limit(accelerators.by_id("h100-sxm")).flop_per_s["bf16"]
    machine = Calibration(accelerator="h100-sxm", sustained_flop_per_s={"bf16": share * rate})
    usual, own = (
        model_replica(
            named_deployment("8b", "h100-sxm"),
            mean_input_tokens=4000,
            mean_output_tokens=10,
            calibration=calibration,
        ).surface
        for calibration in (None, machine)
    )
    assert decode_iteration_s(own, 32, 1000) == decode_iteration_s(usual, 32, 1000)
    assert step_cost.prefill_s(own, 1000, 2048) == step_cost.prefill_s(usual, 1000, 2048)
    long_s, usual_s = (step_cost.prefill_s(surface, 60_000, 4096) for surface in (own, usual))
    assert (long_s > 1.02 * usual_s) == (share < 1)
    assert (long_s < 0.98 * usual_s) == (share > 1)
    # Weights but those of the head, at the rate that is kept, are most of the time.
    least_s = 2 * 60_000 * 6.98e9 / (share * rate)
    assert long_s > 0.95 * min(least_s, step_cost.prefill_s(replace(usual, limited_scale=1.0), 60_000, 4096))


def test_slow_links_slow_large_messages_of_every_group():
    record = accelerators.by_id("h100-sxm")

    def bus(accelerator, ranks):
        return predict(
            "all_gather", GIB, topology_of(accelerator, ranks), algorithm="nccl"
        ).bus_bytes_per_s.value

    slow = Calibration(
        accelerator="h100-sxm",
        num_accelerators=8,
        collective_bus_bytes_per_s={
            "all_gather": 0.6 * bus(record, 8),
            "reduce_scatter": 0.4 * bus(record, 8),  # held back by its library, not by the links
            "all_reduce": 1.0,
        },
    )
    after = calibrated_accelerator(record, slow)
    assert [figure.name for figure in accelerator_figures(record, slow)] == [LINK]
    assert bus(after, 8) == pytest.approx(0.6 * bus(record, 8), rel=0.01)
    assert bus(after, 4) == pytest.approx(0.6 * bus(record, 4), rel=0.01)
    assert after.bandwidth_bytes_per_s == record.bandwidth_bytes_per_s
    alone = slow.model_copy(update={"num_accelerators": 1})
    assert calibrated_accelerator(record, alone) is record
