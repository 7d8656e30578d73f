"""Every way in which a machine is not what was sold, on altered copies of a real recording."""

import pytest

from advisor.catalog.accelerators import by_id
from advisor.probes.identity_rules import check_conditions, check_machine
from advisor.probes.record import Conditions, Measurement


def status_of(checks, name):
    found = [check for check in checks if check.id == name]
    assert found, f"{name} was not checked: {sorted({check.id for check in checks})}"
    return found[0].status


def test_the_recorded_machine_passes(recording, h200):
    checks = check_machine(recording.machine, h200, 1)
    assert {check.status for check in checks} == {"pass"}
    names = {check.id.removeprefix("identity.") for check in checks}
    assert names >= {"sku", "sms", "memory", "bandwidth_peak", "power_limit", "pcie", "ecc", "mig", "shared"}


@pytest.mark.parametrize(
    ("check", "fields", "status"),
    [
        ("sku", {"accelerator": "h100-sxm", "pci_device_id": "10de:2330"}, "fail"),
        ("sku", {"accelerator": "", "pci_device_id": "10de:ffff"}, "warn"),
        ("sms", {"num_sms": 66}, "fail"),
        ("memory", {"memory_bytes": 75e9}, "fail"),
        ("bandwidth_peak", {"bus_width_bits": 5120, "max_memory_clock_hz": 2619e6}, "fail"),
        ("power_limit", {"power_limit_w": 500.0}, "fail"),
        ("pcie", {"pcie_max_width": 8}, "fail"),
        ("pcie", {"pcie_max_generation": 4}, "fail"),
        ("ecc", {"ecc_enabled": False}, "fail"),
        ("ecc_errors", {"ecc_uncorrected": 3}, "fail"),
        ("row_repair", {"rows_remap_pending": True}, "fail"),
        ("row_repair", {"rows_remap_failed": True}, "fail"),
        ("mig", {"mig_enabled": True}, "fail"),
        ("virtualization", {"virtualization": "vgpu"}, "fail"),
        ("shared", {"memory_used_bytes": 40e9}, "warn"),
        ("shared", {"utilization_fraction": 0.9}, "warn"),
        ("shared", {"num_other_processes": 1}, "warn"),
    ],
)
def test_each_defect_is_recognised(altered, h200, check, fields, status):
    checks = check_machine(altered(**fields).machine, h200, 1)
    assert status_of(checks, f"identity.{check}") == status
    others = [c for c in checks if c.id != f"identity.{check}" and c.status in ("fail", "warn")]
    assert others == []
    if status in ("fail", "warn"):
        wrong = next(c for c in checks if c.id == f"identity.{check}")
        assert wrong.remediation
        assert wrong.purpose
        assert wrong.expected is not None


def test_a_field_that_the_driver_hides_is_not_judged(altered, h200):
    hidden = altered(
        num_sms=None, power_limit_w=None, ecc_enabled=None, mig_enabled=None, bus_width_bits=None
    )
    names = {check.id for check in check_machine(hidden.machine, h200, 1)}
    assert not names & {f"identity.{n}" for n in ("sms", "power_limit", "ecc", "mig", "bandwidth_peak")}


def test_ecc_off_is_usual_on_gddr(altered):
    board = by_id("l40s")
    gpu = altered(ecc_enabled=False, accelerator="l40s").machine
    assert status_of(check_machine(gpu, board, 1), "identity.ecc") == "info"


@pytest.mark.parametrize(
    ("number", "ordered", "status"), [(8, 8, "pass"), (7, 8, "fail"), (7, None, "warn"), (4, None, "pass")]
)
def test_a_missing_gpu_is_noticed(recording, h200, number, ordered, status):
    gpu = recording.machine.gpus[0]
    gpus = tuple(gpu.model_copy(update={"index": index}) for index in range(number))
    machine = recording.machine.model_copy(update={"gpus": gpus})
    assert status_of(check_machine(machine, h200, ordered), "identity.count") == status


@pytest.mark.parametrize(("links", "status"), [(18, "pass"), (0, "fail"), (None, "not_measured")])
def test_missing_nvlink_is_noticed(recording, h200, links, status):
    gpus = tuple(
        recording.machine.gpus[0].model_copy(update={"index": i, "num_nvlinks": links}) for i in range(2)
    )
    machine = recording.machine.model_copy(update={"gpus": gpus})
    assert status_of(check_machine(machine, h200), "identity.nvlink") == status


def measurements_under(**conditions):
    return [
        Measurement(
            id="compute.sustained.bf16", gpu=0, value=1.0, conditions=Conditions(num_samples=9, **conditions)
        )
    ]


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ((), "pass"),
        (("sw_power_cap",), "pass"),
        (("hw_thermal",), "fail"),
        (("hw_slowdown", "sw_power_cap"), "fail"),
    ],
)
def test_throttling_by_hardware_fails_a_software_power_cap_does_not(recording, reasons, status):
    checks = check_conditions(measurements_under(throttle_reasons=reasons), recording.machine.gpus)
    assert status_of(checks, "health.throttle") == status


@pytest.mark.parametrize(("hottest", "status"), [(64.0, "pass"), (86.0, "warn"), (96.0, "fail")])
def test_heat(recording, hottest, status):
    checks = check_conditions(measurements_under(temperature_c=(40.0, hottest)), recording.machine.gpus)
    assert status_of(checks, "health.temperature") == status
    memory = check_conditions(
        measurements_under(temperature_c=(40.0, 50.0), memory_temperature_c=(40.0, hottest)),
        recording.machine.gpus,
    )
    assert status_of(memory, "health.temperature") == status


@pytest.mark.parametrize(
    ("generation", "width", "status"), [(5, 16, "pass"), (1, 16, "fail"), (5, 4, "fail")]
)
def test_a_link_that_does_not_train_up_is_noticed(recording, generation, width, status):
    seen = measurements_under(pcie_generation=generation, pcie_width=width)
    assert status_of(check_conditions(seen, recording.machine.gpus), "identity.pcie_under_load") == status
