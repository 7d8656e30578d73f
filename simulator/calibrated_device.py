"""Calibrated devices: bandwidth and peaks are scaled until the model reproduces the measurements of a probe.

Only the hardware is calibrated. The efficiencies of an engine's kernels stay as fitted on many machines, so a machine
that measures the expected figures keeps its predictions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from advisor.catalog.efficiencies import efficiency
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Calibration
from advisor.catalog.units import GIB
from advisor.simulator.collectives.measured_pairs import lacks_bridges, placed_groups
from advisor.simulator.collectives.prediction import Operation, predict
from advisor.simulator.collectives.topology import topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.elementwise import MemoryReadEfficiency, memory_read_s
from advisor.simulator.operators.matmul import FORMATS, MatmulEfficiency, matmul_s

PLAUSIBLE: Final = (0.3, 1.5)
"""Plausible ratios of measured to predicted rate: outside, the cause is more likely another board, another unit or a
failed measurement than this machine."""
BANDWIDTH: Final = "bandwidth"
LINK: Final = "scale-up link"
_PROBE_SIZE: Final = 8192.0
_PROBE_SIZE_OF_SMALL_GPUS: Final = 4096.0
_LARGE_GPU_SMS: Final = 80
"""Number of SMs from which the probe multiplies the larger of its two square matrices."""
_PROBE_MESSAGE_BYTES: Final = GIB
_KERNELS: Final[Mapping[str, str]] = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "int8": "int8"}
"""Kernel format by which the model predicts the measured matmul of each number format; other formats are not
predicted."""
_SAME_LIBRARY: Final = "tensorrt-llm"
"""Level of the matmul records that were measured with the probe's own library, cuBLASLt; the mean over all levels is
used if it has none."""
_BY_WIDTH: Final = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4")
"""Number formats by width; formats with similar units are neighbours."""
_LINK_OPERATIONS: Final[tuple[Operation, ...]] = ("all_gather", "reduce_scatter", "all_to_all")
"""Operations in which a switch cannot add, so that their rate is the rate of the links."""

_MOST_STEPS: Final = 50
_CLOSE: Final = 1e-7


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One measured rate of a machine with the expected rate (SI)."""

    name: str
    """Name of the figure: bandwidth, scale-up link, or a number format."""
    measured: float
    datasheet: float
    predicted: float
    """Rate that the model predicts for the measurement's own pattern on the datasheet's hardware."""
    scale: float
    """Factor on the datasheet's figure for which the model predicts the measured rate."""

    @property
    def ratio(self) -> float:
        """Ratio of measured to predicted rate."""
        return self.measured / self.predicted


def measured_figures(device: Device, calibration: Calibration) -> tuple[MeasuredFigure, ...]:
    """Return the measured bandwidth and matmul rates of a calibration with the rates that the model expects [SI].

    Raises: AdvisorError: a figure is implausible.
    Source: own definition.
    """
    figures = []
    if calibration.bandwidth_bytes_per_s is not None:
        figures.append(_bandwidth(device, calibration.bandwidth_bytes_per_s))
    read = _scale_device(device, figures)
    figures += [
        _peak(name, rate, read)
        for name, rate in calibration.matmul_flop_per_s.items()
        if name in _KERNELS and device.peak_flop_per_s.get(name)
    ]
    return tuple(figures)


def link_figure(accelerator: Accelerator, calibration: Calibration) -> MeasuredFigure | None:
    """Return the measured and the predicted bus bandwidth of large messages [bytes/s], or None if none was measured.

    Of several operations the one that comes nearest to the model counts: links are at least that fast, and what
    holds another one back is the library.

    Assumes: all accelerators of the machine took part, with the messages of 1 GiB that a probe ends with; links
    over PCIe keep their nominal rate.
    Raises: AdvisorError: the figure is implausible.
    Source: simulator.collectives.prediction.
    """
    accelerator = _as_joined(accelerator, calibration)
    count = calibration.num_accelerators
    scale_up = accelerator.scale_up
    if count < 2 or scale_up is None:
        return None
    group = topology_of(accelerator, count)
    if group.intra_fabric != scale_up.kind or group.num_nodes > 1:
        return None

    def bus_bytes_per_s(operation: Operation, factor: float) -> float:
        slowed = replace(group, intra_bytes_per_s=factor * group.intra_bytes_per_s)
        found = predict(operation, _PROBE_MESSAGE_BYTES, slowed, algorithm="nccl")
        return found.bus_bytes_per_s.value

    rates = calibration.collective_bus_bytes_per_s
    known = [name for name in _LINK_OPERATIONS if name in rates]
    if not known:
        return None
    best = max(known, key=lambda name: rates[name] / bus_bytes_per_s(name, 1.0))
    return _figure(LINK, rates[best], scale_up.bytes_per_s, partial(bus_bytes_per_s, best))


def accelerator_figures(accelerator: Accelerator, calibration: Calibration) -> tuple[MeasuredFigure, ...]:
    """Return all figures of a calibration that predictions for this accelerator use; empty if it is of other hardware.

    Raises: AdvisorError: a figure is implausible. InfeasibleError: the accelerator cannot be simulated.
    Source: own definition.
    """
    if calibration.accelerator != accelerator.id:
        return ()
    link = link_figure(accelerator, calibration)
    return (*measured_figures(device_of(accelerator), calibration), *((link,) if link else ()))


def calibrated_accelerator(accelerator: Accelerator, calibration: Calibration | None) -> Accelerator:
    """Return the accelerator's record scaled to the figures of one measured machine [record].

    Each figure is scaled until the model predicts the measurement: one pass of reading for the bandwidth, the probe's
    square matmul for each format. A format that was not measured takes the factor of the nearest measured format. The
    record is unchanged without a calibration, or with a calibration of other hardware.

    Assumes: the time of an empty kernel, host links and small messages stay as fitted: the model has no such
        figure of its own to scale, engines do not send small messages through the vendor's library, and what a launch
        costs inside a step is part of every kernel's fit.
    Raises: AdvisorError: a figure is implausible. InfeasibleError: the accelerator cannot be simulated.
    Source: own definition; operators.memory_read, operators.matmul; link_figure.
    """
    if calibration is None or calibration.accelerator != accelerator.id:
        return accelerator
    figures = accelerator_figures(accelerator, calibration)
    joined = _as_joined(accelerator, calibration)
    sustained = calibration.sustained_flop_per_s
    if not figures and joined == accelerator and not calibration.power_points and not sustained:
        return accelerator
    device = _scale_device(device_of(accelerator), figures)
    scale_up = joined.scale_up
    if scale_up is not None:
        factor = next((figure.scale for figure in figures if figure.name == LINK), 1.0)
        scale_up = scale_up.model_copy(update={"bytes_per_s": scale_up.bytes_per_s * factor})
    return accelerator.model_copy(
        update={
            "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
            "peak_flop_per_s": {name: device.peak_flop_per_s[name] for name in accelerator.peak_flop_per_s},
            "peak_scale": dict(device.peak_scale),
            "group_fraction": joined.group_fraction,
            "sustained_flop_per_s": sustained,
            "power_points": calibration.power_points,
            "scale_up": scale_up,
        }
    )


def calibrated_deployment(deployment: Deployment, calibration: Calibration | None) -> Deployment:
    """Return the deployment on the measured machine; unchanged without a calibration of its accelerator.

    Raises: AdvisorError: as calibrated_accelerator.
    Source: own definition.
    """
    accelerator = calibrated_accelerator(deployment.accelerator, calibration)
    if accelerator is deployment.accelerator:
        return deployment
    return replace(deployment, accelerator=accelerator, is_calibrated=True)


def _as_joined(accelerator: Accelerator, calibration: Calibration) -> Accelerator:
    """Return the accelerator with its links as measured: slower groups, and no bridge where no pair copies at its
    rate."""
    if lacks_bridges(accelerator, calibration):
        return accelerator.model_copy(update={"scale_up": None})
    groups = placed_groups(accelerator, calibration)
    slower = {size: group.fraction for size, group in groups.items() if group.fraction < 1.0}
    return accelerator.model_copy(update={"group_fraction": slower}) if slower else accelerator


def _bandwidth(device: Device, measured: float) -> MeasuredFigure:
    found = efficiency(device.architecture, "memory_read", "bf16").record
    fitted = MemoryReadEfficiency.from_record(found)

    def read_bytes_per_s(factor: float) -> float:
        faster = replace(device, bandwidth_bytes_per_s=factor * device.bandwidth_bytes_per_s)
        return 1.0 / memory_read_s(1.0, faster, fitted)

    return _figure(BANDWIDTH, measured, device.bandwidth_bytes_per_s, read_bytes_per_s)


def _peak(name: str, measured: float, device: Device) -> MeasuredFigure:
    return _figure(name, measured, device.peak_flop_per_s[name], partial(_product_flop_per_s, name, device))


def _figure(
    name: str, measured: float, datasheet: float, predict_scaled: Callable[[float], float]
) -> MeasuredFigure:
    """Return a figure with its factor, found by iteration: a prediction is not quite proportional to the hardware's
    rate."""
    predicted = predict_scaled(1.0)
    _check(name, measured, predicted)
    scale = measured / predicted
    for _ in range(_MOST_STEPS):
        step = measured / predict_scaled(scale)
        scale *= step
        if abs(step - 1.0) < _CLOSE:
            break
    return MeasuredFigure(name, measured, datasheet, predicted, scale)


def _product_flop_per_s(name: str, device: Device, factor: float) -> float:
    """Rate of the probe's matmul at `factor` times the peak [flop/s]; its inputs are already in their format."""
    kernel = _KERNELS[name]
    record = efficiency(device.architecture, "matmul", kernel, _SAME_LIBRARY).record
    fitted = MatmulEfficiency.from_record(record, kernel)
    fitted = replace(fitted, quantize_bytes=0.0, quantize_row_cycles=0.0)
    key = FORMATS[kernel].peak[0]
    scaled = replace(
        device,
        peak_flop_per_s={key: factor * device.peak_flop_per_s[name]},
        peak_scale={key: factor * device.peak_scale.get(name, 1.0)},
    )
    size = _PROBE_SIZE if device.num_sms >= _LARGE_GPU_SMS else _PROBE_SIZE_OF_SMALL_GPUS
    seconds = matmul_s(size, size, size, scaled, fitted)
    return float(2.0 * size**3 / seconds[0])


def _scale_device(device: Device, figures: Sequence[MeasuredFigure]) -> Device:
    factors = {figure.name: figure.scale for figure in figures}
    scales = {name: _nearest(name, factors) for name in device.peak_flop_per_s}
    return replace(
        device,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * factors.get(BANDWIDTH, 1.0),
        peak_flop_per_s={name: peak * scales[name] for name, peak in device.peak_flop_per_s.items()},
        peak_scale={name: device.peak_scale.get(name, 1.0) * scale for name, scale in scales.items()},
    )


def _nearest(name: str, scales: Mapping[str, float]) -> float:
    """Return the factor of a format, or of the measured format nearest in width; of two equally near, the wider."""
    measured = [known for known in _BY_WIDTH if known in scales]
    if name in scales or not measured or name not in _BY_WIDTH:
        return scales.get(name, 1.0)
    place = _BY_WIDTH.index(name)
    return scales[min(measured, key=lambda known: abs(_BY_WIDTH.index(known) - place))]


def _check(name: str, measured: float, predicted: float) -> None:
    ratio = measured / predicted
    if not PLAUSIBLE[0] <= ratio <= PLAUSIBLE[1]:
        raise AdvisorError(
            f"the calibration's {name} is implausible: {measured:.4g} measured, {predicted:.4g} expected",
            why=f"it is {ratio:.2g} times what the model expects of this board; "
            f"machines lie between {PLAUSIBLE[0]} and {PLAUSIBLE[1]}",
            fix="check the unit (SI: bytes/s, flop/s) and the accelerator in the file, or probe again",
        )
