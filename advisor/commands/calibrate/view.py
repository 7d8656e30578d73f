"""A calibration as an answer: what every command then takes with --calibration."""

from advisor.catalog.schema import Calibration
from advisor.render import numbers
from advisor.render.answer import Answer, Paragraph, Table, columns


def calibration_answer(calibration: Calibration, inputs: dict[str, object]) -> Answer:
    """Return the answer of `advisor calibrate`: what every command then takes with --calibration."""
    rows = [("memory bandwidth", numbers.show(calibration.bandwidth_bytes_per_s, numbers.RATE))]
    rows += [
        (f"matrix rate {name}", numbers.show(rate, numbers.COMPUTE))
        for name, rate in calibration.matmul_flop_per_s.items()
    ]
    rows += [
        (f"{name} without a pause", numbers.show(rate, numbers.COMPUTE))
        for name, rate in calibration.sustained_flop_per_s.items()
    ]
    rows += [("launch in a graph", numbers.show(calibration.launch_s, numbers.TIME))]
    rows += [
        (f"{name} bus bandwidth", numbers.show(rate, numbers.RATE))
        for name, rate in calibration.collective_bus_bytes_per_s.items()
    ]
    rows += [
        (f"{name} of a small message", numbers.show(time_s, numbers.TIME))
        for name, time_s in calibration.collective_latency_s.items()
    ]
    if pairs := calibration.pair_bytes_per_s.values():
        slowest, fastest = (numbers.show(rate, numbers.RATE) for rate in (min(pairs), max(pairs)))
        rows += [("copy between two GPUs", fastest if slowest == fastest else f"{slowest} to {fastest}")]
    if len(calibration.fast_groups) > 1:
        groups = "; ".join(",".join(map(str, group)) for group in calibration.fast_groups)
        rows += [("GPUs with fast links", groups)]
    rows += [
        (
            f"at {point.limit_w:g} W: products, reads",
            f"{numbers.show(point.matmul_flop_per_s, numbers.COMPUTE)}, "
            f"{numbers.show(point.bandwidth_bytes_per_s, numbers.RATE)}",
        )
        for point in calibration.power_points
    ]
    rows += [("host to device", numbers.show(calibration.host_to_device_bytes_per_s, numbers.RATE))]
    head = f"Calibration of {calibration.num_accelerators} x {calibration.accelerator}, {calibration.measured_on}"
    table = Table(columns("quantity | measured>"), tuple(rows))
    return Answer(
        result={"kind": "calibration", "calibration": calibration},
        inputs=inputs,
        blocks=(Paragraph(head, emphasis=True), table),
    )
