"""Host link measurements: pinned copies each way, both ways at once, and copies hidden behind computation."""

import os
from pathlib import Path
from typing import Any, Final

import torch

from advisor.catalog.units import MIB
from advisor.kernels.timing import Call, synchronize, time_calls
from advisor.probes import nvml
from advisor.probes.bench import Bench
from advisor.probes.record import Measurement

_BYTES: Final = int(512 * MIB)
_PATTERN: Final = "512 MiB pinned"
_MATRIX: Final = 4096
NUM_PARTS: Final = 64
"""Number of parts of a buffer that are compared separately, so that a difference has a place."""


def host_link(bench: Bench) -> list[Measurement]:
    """Measure pinned copies to the device, from it, and both at once; in full mode also pageable
    and overlapped ones.
    """
    if bench.device.type != "cuda":
        return [bench.skip("host_link.h2d", "host and device share their memory")]
    host = (
        torch.empty(_BYTES // 8, dtype=torch.int64).random_().view(torch.uint8).pin_memory()
    )  # one draw fills 8 bytes
    other = torch.empty(_BYTES, dtype=torch.uint8, pin_memory=True)
    device = host.to(bench.device)
    back = torch.empty_like(device)
    num_samples = 20
    amount = float(_BYTES)
    calls: dict[str, tuple[Call, float]] = {
        "host_link.h2d": (lambda: device.copy_(host, non_blocking=True), amount),
        "host_link.d2h": (lambda: other.copy_(device, non_blocking=True), amount),
        "host_link.both": (_both_ways(bench, host, device, back, other), 2 * amount),
    }
    found = [
        bench.time_rate(check, "torch", _PATTERN, call, total, "bytes/s", num_samples=num_samples)
        for check, (call, total) in calls.items()
    ]
    synchronize(bench.device)
    found.append(_intact(bench, host, {"device": device, "both": back}, other))
    found.append(_affinity(bench))
    if not bench.quick:
        pageable = torch.empty(_BYTES, dtype=torch.uint8)
        copy = lambda: device.copy_(pageable)  # noqa: E731
        what = ("host_link.h2d_pageable", "torch", "512 MiB pageable")
        found.append(bench.time_rate(*what, copy, amount, "bytes/s", num_samples=5))
        found.append(_overlap(bench, host, device))
    return found


def _intact(
    bench: Bench, host: torch.Tensor, arrived: dict[str, torch.Tensor], returned: torch.Tensor
) -> Measurement:
    """Compare every copy with the bytes that were sent: on the device by digests, on the host byte by byte."""
    sent = digest(host)
    altered = [f"to the device ({name})" for name, copy in arrived.items() if digest(copy) != sent]
    if not torch.equal(returned, host):
        altered.append("back to the host")
    how = {"gpu": bench.gpu, "instrument": "torch", "pattern": "random bytes there and back, also at once"}
    how["note"] = f"bytes changed on the way {' and '.join(altered)}" if altered else ""
    words = "altered" if altered else "intact"
    return Measurement.ruled("host_link.intact", words, "intact", not altered, **how)


def digest(buffer: torch.Tensor) -> list[int]:
    """Return sums of the words of each part of a buffer, each word times an odd number that depends on its place.

    A changed word changes its part's sum, because odd numbers have an inverse modulo 2^64; so do words that swapped.
    """
    words = buffer.view(torch.int64).reshape(NUM_PARTS, -1)
    odd = torch.arange(1, 2 * words.shape[1], 2, dtype=torch.int64, device=buffer.device)
    return [int(total) for total in (words * odd).sum(1).tolist()]


def _stream(bench: Bench) -> Any:
    make: Any = torch.cuda.Stream
    return make(bench.device)


def _both_ways(
    bench: Bench, host: torch.Tensor, device: torch.Tensor, back: torch.Tensor, other: torch.Tensor
) -> Call:
    down = _stream(bench)
    up = _stream(bench)

    def call() -> None:
        current = torch.cuda.current_stream(bench.device)
        down.wait_stream(current)
        up.wait_stream(current)
        with torch.cuda.stream(down):
            back.copy_(host, non_blocking=True)
        with torch.cuda.stream(up):
            other.copy_(device, non_blocking=True)
        current.wait_stream(down)
        current.wait_stream(up)

    return call


def _overlap(bench: Bench, host: torch.Tensor, device: torch.Tensor) -> Measurement:
    """Measure the fraction of the shorter of copy and computation that is hidden when both run at once."""
    a = torch.randn((_MATRIX, _MATRIX), device=bench.device, dtype=torch.bfloat16)
    side = _stream(bench)

    def copy() -> None:
        device.copy_(host, non_blocking=True)

    def compute() -> None:
        for _ in range(40):
            torch.mm(a, a)

    def together() -> None:
        current = torch.cuda.current_stream(bench.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            copy()
        compute()
        current.wait_stream(side)

    copy_s, compute_s, both_s = (
        time_calls(call, bench.device, num_warmup=2, num_samples=8).median_s
        for call in (copy, compute, together)
    )
    hidden = (copy_s + compute_s - both_s) / min(copy_s, compute_s)
    return Measurement(
        id="host_link.overlap",
        gpu=bench.gpu,
        instrument="torch",
        pattern=f"{_PATTERN} copy beside bf16 products of {_MATRIX}",
        value=max(0.0, min(1.0, hidden)),
        unit="fraction of the shorter hidden",
    )


def _affinity(bench: Bench) -> Measurement:
    """Compare the NUMA node of the GPU with the CPUs that this process may use."""
    node = _gpu_node(bench.gpu)
    nodes = sorted({n for n in (_cpu_node(cpu) for cpu in os.sched_getaffinity(0)) if n is not None})
    known = node is not None and bool(nodes)
    return Measurement(
        id="host_link.numa",
        gpu=bench.gpu,
        instrument="sysfs",
        value=f"GPU on node {node}, CPUs on {', '.join(map(str, nodes))}" if known else None,
        status="info" if known else "not_measured",
        note="" if not known or node in nodes else "copies cross the link between the processors",
    )


def _gpu_node(index: int) -> int | None:
    pci = nvml.field("nvmlDeviceGetPciInfo", nvml.handle(index))
    if pci is None:
        return None
    bus_id = nvml.text(pci.busId).lower()[-12:]
    try:
        node = int(Path(f"/sys/bus/pci/devices/{bus_id}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return max(node, 0)


def _cpu_node(cpu: int) -> int | None:
    found = list(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(found[0].name[4:]) if found else None
