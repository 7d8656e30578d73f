"""A calibration as an answer: what every command then takes with --calibration."""

import math

from advisor.catalog.schema import Calibration
from advisor.evidence.server_calibration import FittedServer
from advisor.render import numbers
from advisor.render.answer import Answer, Block, Paragraph, Table, bullet_list, columns
from advisor.simulator.quantity import Z80

"""Number of standard deviations of a normal distribution on either side that enclose 80 %."""


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


def server_calibration_answer(
    fitted: FittedServer, title: str, inputs: dict[str, object], notes: tuple[str, ...]
) -> Answer:
    """Return the answer of `advisor calibrate` for a benchmark: how far the server is from what it should do, the
    likeliest cause, and what a calibration makes of later answers."""
    calibration = fitted.calibration
    server = calibration.server
    assert server is not None
    before = math.expm1(fitted.error_before)
    after = math.expm1(fitted.error_after)
    head = (
        f"{server.model} ({server.weight_dtype}) with {server.engine} on {calibration.num_accelerators} x "
        f"{calibration.accelerator}: predictions were {numbers.percent(before)} off in the mean over "
        f"{server.num_loads} measured loads ({title}), {numbers.percent(after)} with this calibration"
    )
    rows = (
        ("steps that only decode", f"{server.decode_scale:.2f} times the predicted time"),
        ("steps with prefill", f"{server.prefill_scale:.2f} times the predicted time"),
        ("first token, 80 % interval", f"within {numbers.percent(math.expm1(Z80 * server.ttft_sigma))}"),
        ("output token and rates", f"within {numbers.percent(math.expm1(Z80 * server.tpot_sigma))}"),
    )
    causes = list(dict.fromkeys(cause.words for one in fitted.before for cause in one.causes))
    blocks: list[Block] = [Paragraph(head, emphasis=True), Table(columns("quantity | measured"), rows)]
    warnings: tuple[str, ...] = ()
    if causes:
        blocks.append(bullet_list("What would explain the difference, likeliest first", causes[:3]))
        warnings = (f"if {causes[0]}, state it and calibrate again: a factor on times would hide it",)
    assumed = dict.fromkeys(sentence for one in fitted.before for sentence in one.assumed)
    return Answer(
        result={
            "kind": "calibration",
            "calibration": calibration,
            "error_before_fraction": before,
            "error_after_fraction": after,
            "causes": causes,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        notes=(*notes, *assumed),
        warnings=warnings,
    )
