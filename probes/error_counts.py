"""Error counters of a GPU before and after the measurements, and what their change says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from advisor.probes import nvml
from advisor.probes.machine import UNCORRECTED, VOLATILE
from advisor.probes.record import Gpu, Measurement, Status
from advisor.probes.verdict import with_text

_NVLINK_FIELDS: Final = (
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
)
_MAX_XIDS: Final = 100
LINK_ERRORS_ALLOWED: Final = 2
"""Number of link errors during a probe that a healthy link may show. PCIe and NVLink allow one wrong bit in 10^12 (PCI
Express Base Specification, bit error rate), and a probe moves some 3 · 10^11 bits over a link: three errors have a
probability of 0.4 %."""
WARNING_XIDS: Final = (13, 31, 43, 45, 63, 119, 120, 143)
"""Errors of the driver's log that warn: faults of a program (13, 31, 43, 45), a row that was replaced (63), a hang of
the GPU's own processor (119, 120, 143). All others fail. Source: NVIDIA, "XID Errors", list of codes."""


@dataclass(frozen=True, slots=True)
class ErrorCounter:
    """A counter of errors, and how many more of them a healthy GPU may count during a probe."""

    field: str
    """Field of the GPU's record with the counts before and after."""
    check: str
    noun: str
    num_allowed: int


COUNTERS: Final = (
    ErrorCounter("pcie_replays", "health.pcie_replay", "packets repeated over PCIe", LINK_ERRORS_ALLOWED),
    ErrorCounter("nvlink_errors", "health.nvlink_errors", "errors on NVLinks", LINK_ERRORS_ALLOWED),
    ErrorCounter("remapped_rows", "health.row_remaps", "rows of memory replaced", 0),
    ErrorCounter("uncorrected_errors", "health.uncorrected_errors", "uncorrectable memory errors", 0),
)


class ErrorWatch:
    """Counters of GPUs as they were at the start, and the driver's errors (XID) since then."""

    def __init__(self, gpus: Iterable[int]) -> None:
        self._before = {gpu: read_counts(gpu) for gpu in gpus}
        self._events = {gpu: _listen(gpu) for gpu in self._before}

    def changes(self, gpu: int) -> dict[str, Any]:
        """Return the fields of the GPU's record: pairs of counts before and after, None where the driver is silent."""
        after = read_counts(gpu)
        before = self._before.get(gpu, {})
        pairs = {
            name: None if before.get(name) is None or count is None else (before[name], count)
            for name, count in after.items()
        }
        return {**pairs, "xids": _collect(self._events.get(gpu))}


def read_counts(gpu: int) -> dict[str, int | None]:
    """Return the counters of a GPU by the field of its record; None for a counter that the driver does not report."""
    device = nvml.handle(gpu)
    remapped = nvml.field("nvmlDeviceGetRemappedRows", device)
    links = [count for name in _NVLINK_FIELDS if (count := nvml.field_value(device, name)) is not None]
    return {
        "pcie_replays": nvml.field("nvmlDeviceGetPcieReplayCounter", device),
        "nvlink_errors": sum(links) if links else None,
        "remapped_rows": remapped[0] + remapped[1] if remapped else None,
        "uncorrected_errors": nvml.field("nvmlDeviceGetTotalEccErrors", device, UNCORRECTED, VOLATILE),
    }


def _listen(gpu: int) -> Any:
    """Return a set of the driver's events that collects errors of this GPU; None if the driver offers none."""
    kind = getattr(nvml.library(), "nvmlEventTypeXidCriticalError", None)
    events = nvml.field("nvmlEventSetCreate") if kind is not None else None
    if events is None:
        return None
    try:
        nvml.library().nvmlDeviceRegisterEvents(nvml.handle(gpu), kind, events)
    except Exception:  # the binding's errors are known only where it is installed
        return None
    return events


def _collect(events: Any) -> tuple[int, ...] | None:
    """Return the errors that were collected, and end the collection; None if nothing could be collected."""
    if events is None:
        return None
    found: list[int] = []
    while len(found) < _MAX_XIDS and (event := nvml.field("nvmlEventSetWait_v2", events, 0)) is not None:
        found.append(int(event.eventData))
    nvml.field("nvmlEventSetFree", events)
    return tuple(found)


def check_errors(gpus: Sequence[Gpu]) -> list[Measurement]:
    """Check what every counter did during the measurements; a GPU without any report of them gives no check."""
    found = []
    for gpu in gpus:
        pairs = {counter: getattr(gpu, counter.field) for counter in COUNTERS}
        if gpu.xids is None and all(pair is None for pair in pairs.values()):
            continue
        found += [_check_counter(gpu, counter, pair) for counter, pair in pairs.items()]
        found.append(_check_xids(gpu))
    return [with_text(check) for check in found]


def _check_counter(gpu: Gpu, counter: ErrorCounter, pair: tuple[int, int] | None) -> Measurement:
    how: dict[str, Any] = {"id": counter.check, "gpu": gpu.index, "instrument": "nvml", "source": "rule"}
    if pair is None:
        return Measurement(status="not_measured", note="the driver does not say", **how)
    before, after = pair
    rise = after - before
    status: Status = "pass" if rise == 0 else "warn" if 0 < rise <= counter.num_allowed else "fail"
    note = f"{before} before, {after} after" if after else ""
    if rise < 0:
        note += ": a count that falls was reset under the probe, or is of another card"
    limits: dict[str, Any] = {"expected": 0.0, "required": float(counter.num_allowed), "operator": "<="}
    return Measurement(value=float(rise), unit=counter.noun, status=status, note=note, **how, **limits)


def _check_xids(gpu: Gpu) -> Measurement:
    how: dict[str, Any] = {"id": "health.xid", "gpu": gpu.index, "instrument": "nvml"}
    if gpu.xids is None:
        return Measurement(status="not_measured", note="the driver does not say", source="rule", **how)
    kinds = sorted(set(gpu.xids))
    harmful = [kind for kind in kinds if kind not in WARNING_XIDS]
    how["status"] = "fail" if harmful else "warn" if kinds else "pass"
    how["wanted"] = "none"
    return Measurement.ruled(value=", ".join(map(str, kinds)) or "none", **how)
