"""Verdict from measurements: pure rules over recordings, so that fixtures can test every rule.

No GPU fails by a single rate: two instruments must agree, and identity, capacity and health are judged apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from advisor.catalog.schema import Accelerator
from advisor.probes.expectations import Expectation, as_found, find_expectation, text_of
from advisor.probes.fabric import expected_all_reduce, expected_pair, linked_pairs, pair_of
from advisor.probes.record import Basis, Measurement, ProbedMachine, Status

PASS_FRACTION: Final[dict[Basis, float]] = {
    "measured": 0.95,
    "floor": 0.95,
    "similar": 0.90,
    "estimate": 0.90,
    "host": 0.70,
}
"""Fraction of the expected rate from which on a board passes, by basis; between it and FAIL_FRACTION it warns."""
FAIL_FRACTION: Final[dict[Basis, float]] = {
    "measured": 0.90,
    "floor": 0.90,
    "similar": 0.80,
    "estimate": 0.75,
    "host": 0.40,
}
"""Fraction of the expected rate below which a board fails, by basis. Below 0.90 of what others measured a board is
defective (gpu-fryer's rule); other measurements and estimates get more room, and paths on which the host decides the
most."""
MIN_TOUCHED_FRACTION: Final = 0.95
"""Fraction of the memory that must be written and read back without an error."""
PEER_WARN: Final = 0.05
PEER_FAIL: Final = 0.10
"""Fractions below the best GPU of a machine from which on a GPU warns (0.05) and fails (0.10); `_compare_group` states
the source."""
HOST_LINK: Final = "host_link."
SHAPE_SWEEP: Final = "compute.matmul_shape."
PEER_LIMITS: Final[dict[str, tuple[float, float]]] = {HOST_LINK: (0.10, 0.20), SHAPE_SWEEP: (0.07, 0.14)}
"""PEER_WARN and PEER_FAIL by the beginning of the check, where honest GPUs
differ by more than 5 %: on two H100s of one machine host-to-device copies by 9 % and one product shape by 5.6 %."""
HOST_LINK_PASS: Final = 0.90
HOST_LINK_FAIL: Final = 0.80
"""Fraction of the expected rate of a pinned copy that passes, and below which it fails: honest links of one board
differ by 10 %, and a link at half its width or generation loses 50 %."""
NO_PEERS: Final = ("memory.cache_read", "host_link.h2d_pageable")
"""Checks that are not compared between GPUs: the place of a buffer in the L2 or on the host decides, by up to 16 % on
healthy H200s."""
RATE_UNITS: Final = ("bytes/s", "flop/s")
WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "pass")


def bands_of(check: str, kind: Basis) -> tuple[float, float]:
    """Return the fractions of the expected rate from which on a check passes, and below which it fails."""
    passes = PASS_FRACTION[kind]
    fails = FAIL_FRACTION[kind]
    if check.startswith(HOST_LINK):
        return min(passes, HOST_LINK_PASS), min(fails, HOST_LINK_FAIL)
    return passes, fails


def judge_rate(value: float, expectation: Expectation, check: str = "") -> Status:
    """Return pass, warn or fail of a rate against its expectation."""
    passes, fails = bands_of(check, expectation.kind)
    ratio = value / expectation.value
    if ratio >= passes:
        return "pass"
    return "warn" if ratio >= fails else "fail"


def with_text(measurement: Measurement) -> Measurement:
    """Return the measurement with title, purpose and, if something is wrong, remediation."""
    text = text_of(measurement.id)
    wrong = measurement.status in ("warn", "fail")
    return measurement.model_copy(
        update={
            "title": measurement.title or text.title,
            "purpose": measurement.purpose or text.purpose,
            "remediation": measurement.remediation or (text.remediation if wrong else ""),
        }
    )


def judge(
    measurements: Iterable[Measurement], accelerator: Accelerator | None, machine: ProbedMachine | None = None
) -> list[Measurement]:
    """Return every measurement with its expectation and status, and the comparisons between GPUs.

    Measurements that were judged already (identity, health) keep their status. `machine`: known facts of the GPUs
    (error correction, links that are up); without it, boards are judged as they are sold.
    """
    measurements = list(measurements)
    bridged = linked_pairs(measurements, accelerator, machine) if accelerator else set()
    judged = [_judge_measurement(m, accelerator, machine, bridged) for m in measurements]
    judged = _agree(judged)
    return [with_text(m) for m in judged + compare_peers(judged)]


def remove_verdict(measurement: Measurement) -> Measurement:
    """Return the measurement as its step delivered it, so that it can be judged again; verdicts of rules stay."""
    if measurement.unit not in RATE_UNITS or measurement.source == "rule" or measurement.expected is None:
        return measurement
    blank = {"expected": None, "required": None, "operator": "", "source": "", "status": "info", "basis": ""}
    return measurement.model_copy(update={**blank, "note": "", "remediation": ""})


def _judge_measurement(
    measurement: Measurement,
    accelerator: Accelerator | None,
    machine: ProbedMachine | None,
    bridged: set[tuple[int, int]],
) -> Measurement:
    if measurement.id == "memory.touch" and isinstance(measurement.value, float):
        whole = measurement.value >= MIN_TOUCHED_FRACTION and "wrong" not in measurement.note
        return measurement.model_copy(update={"status": "pass" if whole else "fail"})
    if measurement.id.startswith("truth.") and isinstance(measurement.value, float):
        is_right = measurement.value <= float(measurement.required or 0.0)
        return measurement.model_copy(update={"status": "pass" if is_right else "fail"})
    if measurement.status != "info" or not isinstance(measurement.value, float) or accelerator is None:
        return measurement
    if measurement.unit not in RATE_UNITS or measurement.operator:
        return measurement
    found = _expectation(measurement, accelerator, machine, bridged)
    if found is None:
        return measurement
    status = judge_rate(measurement.value, found, measurement.id)
    required = bands_of(measurement.id, found.kind)[1] * found.value
    note = measurement.note
    ring = _ring(measurement, accelerator, bridged)
    if ring is not None and ring.value < found.value:
        required = bands_of(measurement.id, ring.kind)[1] * ring.value
        if status == "fail" and measurement.value >= required:
            status = "warn"
            note = "as fast as a ring: the links are fine, NVLS (sums in the switch) seems off"
    if status == "pass" and _takes_detour(measurement, accelerator):
        status = "warn"
        note = "peer access is off: every copy goes through the host"
    return measurement.model_copy(
        update={
            "expected": found.value,
            "required": required,
            "operator": ">=",
            "source": found.source,
            "basis": found.kind,
            "status": status,
            "note": note,
        }
    )


def _expectation(
    measurement: Measurement,
    accelerator: Accelerator,
    machine: ProbedMachine | None,
    bridged: set[tuple[int, int]],
) -> Expectation | None:
    if measurement.id == "peer.copy":
        return expected_pair(accelerator, measurement, pair_of(measurement) in bridged)
    if measurement.id == "collective.all_reduce":
        ranks, algorithm = _group(measurement)
        return expected_all_reduce(accelerator, ranks, algorithm, ranks == 2 and (0, 1) in bridged)
    gpus = {gpu.index: gpu for gpu in machine.gpus} if machine is not None else {}
    gpu = None if measurement.gpu is None else gpus.get(measurement.gpu)
    return find_expectation(as_found(accelerator, gpu), measurement.id)


def _ring(
    measurement: Measurement, accelerator: Accelerator, bridged: set[tuple[int, int]]
) -> Expectation | None:
    """Return what an all-reduce reaches in a ring, which NCCL takes where the switch does not add; None for others.

    Virtual machines and hosts without multicast have no NVLS, and neither a text nor NCCL says which was taken.
    Source: NVIDIA/nccl-tests issues 212 (370 GB/s in a ring, 480 with NVLink SHARP) and 309 (369 without NVLS).
    """
    if measurement.id != "collective.all_reduce":
        return None
    ranks, algorithm = _group(measurement)
    if algorithm == "ring":
        return None
    return expected_all_reduce(accelerator, ranks, "ring", ranks == 2 and (0, 1) in bridged)


def _takes_detour(measurement: Measurement, accelerator: Accelerator) -> bool:
    """Whether GPUs that can reach each other do not; consumer boards cannot, nor can all pairs of a V100 cube."""
    through_host = measurement.id == "peer.copy" and "through the host" in measurement.pattern
    return through_host and accelerator.pcie_peer_to_peer and accelerator.architecture != "volta"


def _group(measurement: Measurement) -> tuple[int, str]:
    """Return ranks and algorithm of a collective from its pattern, e.g. "8 ranks, ring, 1 GiB"."""
    parts = [part.strip() for part in measurement.pattern.split(",")]
    first = parts[0].split(" ", 1)[0]
    return int(first) if first.isdigit() else 1, parts[1] if len(parts) > 1 else ""


def _agree(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the measurements with slow instruments excused: if one instrument reaches the expectation, a slower one
    shows slow software, not slow hardware."""
    best: dict[tuple[str, int | None, str], Measurement] = {}
    for m in measurements:
        if m.status in ("pass", "warn", "fail") and m.unit in RATE_UNITS and isinstance(m.value, float):
            key = (m.id, m.gpu, m.pattern)
            if key not in best or m.value > float(best[key].value or 0.0):
                best[key] = m
    settled = []
    for m in measurements:
        other = best.get((m.id, m.gpu, m.pattern))
        if (
            m.status in ("warn", "fail")
            and other is not None
            and WORST_FIRST.index(other.status) > WORST_FIRST.index(m.status)
        ):
            share = float(m.value or 0.0) / float(other.value or 1.0)
            note = f"{share:.0%} of what {other.instrument} reaches: the software is slow, not the GPU"
            m = m.model_copy(
                update={"status": "info" if other.status == "pass" else other.status, "note": note}
            )
        settled.append(m)
    return settled


def compare_peers(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Compare, for every rate of several GPUs, the slowest with the best, each with its better instrument."""
    groups: dict[tuple[str, str], dict[int, Measurement]] = defaultdict(dict)
    for m in measurements:
        if m.gpu is None or m.id in NO_PEERS:
            continue
        if m.unit in RATE_UNITS and isinstance(m.value, float) and m.value > 0:
            members = groups[(m.id, m.pattern)]
            if m.gpu not in members or m.value > _value(members[m.gpu]):
                members[m.gpu] = m
    return [
        _compare_group(check, list(members.values()))
        for (check, _), members in groups.items()
        if len(members) > 1
    ]


def _value(measurement: Measurement) -> float:
    return float(measurement.value or 0.0)


def _compare_group(check: str, members: Sequence[Measurement]) -> Measurement:
    """Judge the slowest GPU of a machine by its distance from the best one."""
    slowest = min(members, key=_value)
    lag = 1.0 - _value(slowest) / max(_value(m) for m in members)
    limits = (bounds for start, bounds in PEER_LIMITS.items() if check.startswith(start))
    warns, fails = next(limits, (PEER_WARN, PEER_FAIL))
    return Measurement(
        id=f"health.peers.{check}",
        gpu=slowest.gpu,
        instrument=slowest.instrument,
        pattern=slowest.pattern,
        value=lag,
        unit="fraction below the best GPU",
        expected=0.0,
        required=fails,
        operator="<=",
        source=f"spread on one machine: {warns:.0%} is normal (stas00/ml-engineering@744d01e, own measurements)",
        status="fail" if lag > fails else "warn" if lag > warns else "pass",
    )


def verdict(measurements: Iterable[Measurement]) -> Status:
    """Return the worst status of all that were judged; not_measured if none was."""
    seen = {m.status for m in measurements}
    return next((status for status in WORST_FIRST if status in seen), "not_measured")
