"""Reports of NVIDIA's driver, field by field; a field that the driver refuses is None, never an error."""

import functools
from collections.abc import Callable
from typing import Any, Final

MEGAHERTZ: Final = 1e6
MILLIWATT: Final = 1e-3
MAX_NVLINKS: Final = 18
IDLE: Final = "gpu_idle"
THROTTLE_BITS: Final[dict[int, str]] = {
    0x001: IDLE,
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clock",
}
_UNSIGNED_INT: Final = 1
_VALUE_NAMES: Final[dict[int, str]] = {
    0: "dVal",
    _UNSIGNED_INT: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
}
"""Member of a field's value by its type (nvmlValueType_t)."""
VIRTUALIZATION: Final[dict[int, str]] = {
    0: "none",
    1: "passthrough",
    2: "vgpu",
    3: "host_vgpu",
    4: "host_vsga",
}


@functools.cache
def library() -> Any:
    """Return the NVML binding, initialised; None without the package, the driver or an NVIDIA GPU."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def ask(call: Callable[..., Any] | None, *arguments: object) -> Any:
    """Return the result of one NVML call; None if the driver does not support it, the library lacks it, or an argument
    is None, such as the handle of a GPU that is not there: the library would follow it as an address."""
    nvml = library()
    if nvml is None or call is None or any(argument is None for argument in arguments):
        return None
    try:
        return call(*arguments)
    except (nvml.NVMLError, TypeError, ValueError):
        return None


def field(name: str, *arguments: object) -> Any:
    """Return the result of the NVML function with this name, e.g. `nvmlDeviceGetSerial`; None if there is none."""
    return ask(getattr(library(), name, None), *arguments)


def text(value: object) -> str:
    """Return a string that older bindings return as bytes; empty for None."""
    if value is None:
        return ""
    return value.decode() if isinstance(value, bytes) else str(value)


def count() -> int:
    """Number of GPUs that the driver shows [count]; 0 without a driver."""
    return int(field("nvmlDeviceGetCount") or 0)


def handle(index: int) -> Any:
    """Return NVML's handle of a GPU by index; None if there is no such GPU."""
    return field("nvmlDeviceGetHandleByIndex", index)


def throttle_reasons(device: Any) -> tuple[str, ...]:
    """Return the names of the reasons why clocks are below their maximum right now."""
    bits = field("nvmlDeviceGetCurrentClocksEventReasons", device)
    if bits is None:
        bits = field("nvmlDeviceGetCurrentClocksThrottleReasons", device)
    return tuple(name for bit, name in THROTTLE_BITS.items() if (bits or 0) & bit)


def num_nvlinks(device: Any) -> int | None:
    """Number of NVLinks that are up [count]; None if the driver does not report it, as in most virtual machines."""
    states = [field("nvmlDeviceGetNvLinkState", device, link) for link in range(MAX_NVLINKS)]
    known = [state for state in states if state is not None]
    return sum(known) if known else None


def field_value(device: Any, name: str) -> int | None:
    """Return a whole number by the name of its field, e.g. NVML_FI_DEV_MEMORY_TEMP; None if the driver refuses it."""
    identifier = getattr(library(), name, None)
    values = field("nvmlDeviceGetFieldValues", device, [identifier]) if identifier is not None else None
    if not values or values[0].nvmlReturn != 0:
        return None
    kind = getattr(values[0], "valueType", _UNSIGNED_INT)
    return int(getattr(values[0].value, _VALUE_NAMES.get(kind, _VALUE_NAMES[_UNSIGNED_INT])))


def memory_temperature_c(device: Any) -> float | None:
    """Temperature of the memory [°C]; None if the board has no such sensor."""
    return float(field_value(device, "NVML_FI_DEV_MEMORY_TEMP") or 0) or None
