"""A card without a model: its ridge in every format, and every level of its memory with what a probe measured there."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIGA, KIB, MICROSECOND_S, TERA
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import BINARY_SIZE, MISSING, RATE, SIZE, TIME, digits, show
from advisor.simulator.collectives.prediction import predict
from advisor.simulator.collectives.topology import (
    INFINIBAND_HOP_S,
    PCIE_LANE_BYTES_PER_S,
    topology_of,
    usual_network,
)
from advisor.simulator.occupancy import LIMITS
from advisor.simulator.roofline import ridge_flop_per_byte

_REGISTER_BYTES_PER_SM: Final = 256 * KIB
_BYTES_PER_FMA_FLOP: Final = 8.0
"""Register traffic of a fused multiply-add in fp32: three operands and a result of 4 bytes for 2 flop [bytes/flop]."""
_SHARED_BYTES_PER_CYCLE: Final = 128.0
"""Rate of one SM's shared memory: 32 banks of 4 bytes. Source: NVIDIA, CUDA C++ Programming Guide, shared memory."""
_FIBRE_S_PER_KM: Final = 4.9 * MICROSECOND_S
"""Delay of light in fibre, one way: refractive index 1.468 (ITU-T G.652 fibre at 1550 nm)."""
_FAR_KM: Final = 1000.0
_SMALL_BYTES: Final = 8.0
_BEST_OF: Final = ("l2_rate", "read", "host")
"""Rates of which the best instrument counts; of others the median of all runs."""
_WITHIN_L1_MIB: Final = 0.02
_WITHIN_L2_MIB: Final = (0.5, 40.0)
_BEYOND_L2_MIB: Final = 1000.0


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One level that data may come from, registers first; rates and sizes are of one accelerator."""

    name: str
    size_bytes: float | None
    bytes_per_s: float | None
    """Bandwidth in one direction by datasheet or arithmetic; None if no source states it [bytes/s]."""
    measured_bytes_per_s: float | None = None
    """Bandwidth that the bundled probe of this accelerator measured [bytes/s]; None if there is none."""
    latency_s: float | None = None
    latency_is_measured: bool = False


def card_answer(record: Accelerator, notes: tuple[str, ...]) -> Answer:
    """Return ridges by format and levels of memory of one accelerator."""
    bandwidth = record.bandwidth_bytes_per_s
    ridges = (
        {name: ridge_flop_per_byte(peak, bandwidth) for name, peak in record.peak_flop_per_s.items()}
        if bandwidth
        else {}
    )
    levels, probe = memory_levels(record)
    first = next((name for name in ("bf16", "fp16", "fp32") if name in ridges), "")
    headline = (
        f"{record.name}: {show(bandwidth, RATE)}, ridge of dense {first} {digits(ridges[first])} flop/byte"
        if first
        else f"{record.name}: no ridge, as {'a peak' if bandwidth else 'the bandwidth'} has no source"
    )
    ridge_rows = tuple(
        (
            name,
            digits(peak / TERA),
            digits(ridges[name]) if name in ridges else MISSING,
            _per_watt(record, peak),
        )
        for name, peak in record.peak_flop_per_s.items()
    )
    measured = (
        f"Measured: the bundled probe {probe}."
        if probe
        else "No probe of this accelerator comes with the program: `advisor probe --full` measures yours."
    )
    explained = (
        f"{measured} Registers: {_BYTES_PER_FMA_FLOP:g} bytes per flop of a fused multiply-add in fp32. Shared memory: "
        f"{_SHARED_BYTES_PER_CYCLE:g} bytes per cycle and SM. Another site: light in {_FAR_KM:g} km of fibre; the rate "
        "is what is rented. * modelled, not measured."
    )
    return Answer(
        result={
            "accelerator": record.id,
            "bandwidth_bytes_per_s": bandwidth,
            "peak_flop_per_s": record.peak_flop_per_s,
            "ridge_flop_per_byte": ridges,
            "levels": levels,
            "measured_by": probe,
        },
        inputs={"gpu": record.id},
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(
                columns("format | TFLOP/s> | ridge flop/byte> | TFLOP/s per W>"),
                ridge_rows,
                title="Ridges, dense",
            ),
            Table(
                columns("level | size> | one way> | measured> | latency>"),
                tuple(_level_row(level) for level in levels),
                title="Levels of memory, of one accelerator",
            ),
            Paragraph(explained),
        ),
        records="levels",
        notes=notes,
    )


def _per_watt(record: Accelerator, peak: float) -> str:
    return digits(peak / TERA / record.tdp_w) if record.tdp_w else MISSING


def _level_row(level: MemoryLevel) -> tuple[str, ...]:
    latency = MISSING
    if level.latency_s is not None:
        nanoseconds = level.latency_s < MICROSECOND_S
        latency = f"{digits(level.latency_s * GIGA)} ns" if nanoseconds else show(level.latency_s, TIME)
        latency += "" if level.latency_is_measured else " *"
    return (
        level.name,
        MISSING
        if level.size_bytes is None
        else show(level.size_bytes, BINARY_SIZE if level.size_bytes < 4e9 else SIZE),
        show(level.bytes_per_s, RATE),
        show(level.measured_bytes_per_s, RATE),
        latency,
    )


def memory_levels(record: Accelerator) -> tuple[tuple[MemoryLevel, ...], str]:
    """Return the levels of one accelerator, nearest first, and the name of the recording that measured some of them;
    empty if none did.

    Assumes: an L2 holds working sets of 0.5 to 40 MiB; the chain of loads of the probe waits for each other.
    Source: the catalog; NVIDIA, CUDA C++ Programming Guide; bundled probes.
    """
    measured, probe = _read_measurements(record.id)
    limits = LIMITS.get(record.compute_capability)
    levels = []
    if limits is not None and record.num_sms:
        vector = record.peak_flop_per_s.get("fp32")
        levels.append(
            MemoryLevel(
                "registers",
                record.num_sms * _REGISTER_BYTES_PER_SM,
                vector * _BYTES_PER_FMA_FLOP if vector else None,
            )
        )
        shared = record.num_sms * _SHARED_BYTES_PER_CYCLE * record.clock_hz if record.clock_hz else None
        levels.append(
            MemoryLevel(
                "shared memory and L1",
                record.num_sms * float(limits.shared_bytes),
                shared,
                latency_s=measured.get("l1"),
                latency_is_measured=True,
            )
        )
    if record.l2_bytes:
        levels.append(
            MemoryLevel("L2", record.l2_bytes, None, measured.get("l2_rate"), measured.get("l2"), True)
        )
    levels.append(
        MemoryLevel(
            "device memory",
            record.memory_bytes,
            record.bandwidth_bytes_per_s,
            measured.get("read"),
            measured.get("memory"),
            True,
        )
    )
    levels += _links(record, measured)
    return tuple(levels), probe


def _links(record: Accelerator, measured: dict[str, float]) -> list[MemoryLevel]:
    """Return the levels beyond the accelerator: a peer, the host, another node, another site."""
    levels = []
    if record.scale_up is not None:
        pair = topology_of(record, 2)
        small = predict("send_recv", _SMALL_BYTES, pair).time_s.value
        levels.append(
            MemoryLevel(
                f"another accelerator, {record.scale_up.kind}",
                None,
                record.scale_up.bytes_per_s,
                measured.get("peer"),
                small,
            )
        )
    lane = PCIE_LANE_BYTES_PER_S.get(record.pcie_generation or 0)
    if lane and record.pcie_lanes:
        name = f"host memory, PCIe {record.pcie_generation} x{record.pcie_lanes}"
        levels.append(MemoryLevel(name, None, lane * record.pcie_lanes, measured.get("host")))
    group = topology_of(record, 2 * record.fast_group_size)
    network = usual_network(record, group)
    rate = network.bytes_per_s if network is not None else record.scale_out_bytes_per_s
    if rate:
        levels.append(MemoryLevel("another node, its network", None, rate, None, INFINIBAND_HOP_S))
    levels.append(MemoryLevel(f"another site, {_FAR_KM:g} km", None, None, None, _FAR_KM * _FIBRE_S_PER_KM))
    return levels


def _read_measurements(accelerator: str) -> tuple[dict[str, float], str]:
    """Return what bundled probes of an accelerator measured, by level, and their name; empty without any."""
    from advisor.probes.document import read_probe, recordings

    names = [name for name in recordings() if name.rpartition("-x")[0] == accelerator]
    found: dict[str, list[float]] = {}
    for name in names:
        for row in read_probe(Path(name)).measurements:
            if isinstance(row.value, float | int) and (key := _level_of(row.id, row.pattern)):
                found.setdefault(key, []).append(float(row.value))
    levels = {
        key: max(values) if key in _BEST_OF else statistics.median(values) for key, values in found.items()
    }
    return levels, ", ".join(names)


def _level_of(check: str, pattern: str) -> str:
    """Return the key of the level that a measurement is of; empty if of none."""
    if check == "memory.latency":
        size = float(pattern.rpartition(" MiB")[0].rpartition(" ")[2])
        if size <= _WITHIN_L1_MIB:
            return "l1"
        if _WITHIN_L2_MIB[0] <= size <= _WITHIN_L2_MIB[1]:
            return "l2"
        return "memory" if size >= _BEYOND_L2_MIB else ""
    if check == "memory.cache_read":
        return "l2_rate" if pattern.startswith("24 MiB") else ""
    plain = {"memory.read": "read", "host_link.h2d": "host", "peer.copy": "peer"}
    return plain.get(check, "")
