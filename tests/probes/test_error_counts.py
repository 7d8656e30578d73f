"""Error counters before and after a probe, against a driver that is a stand-in."""

import types

import pytest

from advisor.probes import error_counts, nvml
from advisor.probes.error_counts import ErrorWatch, check_errors
from advisor.probes.record import Gpu


class Driver:
    """An NVML whose counters a test sets; what it lacks the driver does not report."""

    NVMLError = RuntimeError
    NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38

    def __init__(self):
        self.replays = 4
        self.flits = 0
        self.rows = (0, 0, False, False)
        self.xids = []
        self.nvmlEventTypeXidCriticalError = 8

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetPcieReplayCounter(self, device):
        return self.replays

    def nvmlDeviceGetRemappedRows(self, device):
        return self.rows

    def nvmlDeviceGetFieldValues(self, device, fields):
        value = types.SimpleNamespace(uiVal=0, ullVal=self.flits)
        return [types.SimpleNamespace(nvmlReturn=0, valueType=3, value=value)]

    def nvmlEventSetCreate(self):
        return self.xids

    def nvmlDeviceRegisterEvents(self, device, kind, events):
        pass

    def nvmlEventSetWait_v2(self, events, timeout_ms):
        if not events:
            raise RuntimeError("Timeout")
        return types.SimpleNamespace(eventData=events.pop(0))


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(nvml, "library", lambda: found)
    return found


def judge_after(watch):
    gpu = Gpu(index=0, vendor="nvidia").model_copy(update=watch.changes(0))
    return {check.id.removeprefix("health."): check for check in check_errors([gpu])}


def test_counters_that_stand_still_pass_and_unknown_ones_stay_unknown(driver):
    checks = judge_after(ErrorWatch([0]))
    assert {name: check.status for name, check in checks.items()} == {
        "pcie_replay": "pass",
        "nvlink_errors": "pass",
        "row_remaps": "pass",
        "uncorrected_errors": "not_measured",
        "xid": "pass",
    }


@pytest.mark.parametrize(
    ("change", "check", "status", "words"),
    [
        ({"replays": 5}, "pcie_replay", "warn", "4 before, 5 after"),
        ({"replays": 90}, "pcie_replay", "fail", "4 before, 90 after"),
        ({"replays": 1}, "pcie_replay", "fail", "a count that falls"),
        ({"replays": 0}, "pcie_replay", "fail", "a count that falls"),
        ({"flits": 3}, "nvlink_errors", "fail", "0 before, 3 after"),
        ({"rows": (1, 0, False, False)}, "row_remaps", "fail", "0 before, 1 after"),
        ({"rows": None}, "row_remaps", "not_measured", "does not say"),
    ],
)
def test_what_a_counter_does_decides(driver, change, check, status, words):
    watch = ErrorWatch([0])
    for name, value in change.items():
        setattr(driver, name, value)
    found = judge_after(watch)[check]
    assert found.status == status
    assert words in found.note


@pytest.mark.parametrize(
    ("xids", "status", "value"),
    [([79], "fail", "79"), ([31, 31], "warn", "31"), ([63, 48], "fail", "48, 63")],
)
def test_errors_in_the_drivers_log_are_named(driver, xids, status, value):
    watch = ErrorWatch([0])
    driver.xids += xids
    found = judge_after(watch)["xid"]
    assert (found.status, found.value) == (status, value)


def test_a_driver_without_any_counter_gives_no_check(monkeypatch):
    monkeypatch.setattr(nvml, "library", lambda: None)
    assert judge_after(ErrorWatch([0])) == {}


def test_every_counter_is_a_field_of_the_record_and_has_words():
    for counter in error_counts.COUNTERS:
        assert counter.field in Gpu.model_fields
    pairs = dict.fromkeys((counter.field for counter in error_counts.COUNTERS), (0, 9))
    for check in check_errors([Gpu(index=0, xids=(79,), **pairs)]):
        assert check.status == "fail"
        assert all((check.title, check.purpose, check.remediation))


def test_a_gpu_that_is_not_there_reaches_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library follows a handle as an address: none at all would end the process."""

    class Driver:
        NVMLError = RuntimeError

        def nvmlDeviceGetSerial(self, device: object) -> str:
            assert device is not None
            return "1234"

    monkeypatch.setattr(nvml, "library", Driver)
    assert nvml.field("nvmlDeviceGetSerial", 7) == "1234"
    assert nvml.field("nvmlDeviceGetSerial", None) is None
