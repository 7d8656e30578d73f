"""Host measurements: memory bandwidth and arithmetic of the CPU, and storage speed under the working folder."""

import contextlib
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from advisor.catalog.units import GIB, MIB
from advisor.probes.record import Measurement

_ARRAY_BYTES: Final = int(256 * MIB)
_MATRIX: Final = 2048
_FILE_BYTES: Final = {True: int(256 * MIB), False: int(2 * GIB)}
_BLOCK_BYTES: Final = int(8 * MIB)


def _best_s(call: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        started_at_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - started_at_s)
    return min(times)


def processor(quick: bool) -> list[Measurement]:
    """Measure copy bandwidth and fp32 matmul rate of the CPU with NumPy."""
    source = np.ones(_ARRAY_BYTES // 8)
    target = np.empty_like(source)
    size = _MATRIX // 2 if quick else _MATRIX
    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    copy_s = _best_s(lambda: np.copyto(target, source))
    product_s = _best_s(lambda: a @ a, 3)
    rates = (
        ("memory_copy", "256 MiB, one thread, read plus write", 2.0 * _ARRAY_BYTES / copy_s, "bytes/s"),
        ("matmul.fp32", f"{size} x {size} x {size}", 2.0 * size**3 / product_s, "flop/s"),
    )
    return [
        Measurement(id=f"host.{name}", instrument="numpy", pattern=pattern, value=value, unit=unit)
        for name, pattern, value, unit in rates
    ]


def storage(quick: bool, folder: Path | None = None) -> list[Measurement]:
    """Measure sequential write to storage (synced) and read past the page cache, in the temporary folder."""
    num_bytes = _FILE_BYTES[quick]
    pattern = f"{num_bytes / MIB:g} MiB, sequential, {_BLOCK_BYTES / MIB:g} MiB blocks"
    block = np.random.default_rng(0).integers(0, 256, _BLOCK_BYTES, dtype=np.uint8).tobytes()
    try:
        handle, name = tempfile.mkstemp(prefix="advisor-probe-", dir=folder)
    except OSError as error:
        return [Measurement(id="host.storage_write", status="not_measured", note=str(error))]
    try:
        written_s = _write(handle, block, num_bytes)
        read_s, is_direct = _read(Path(name), num_bytes)
    except OSError as error:
        return [Measurement(id="host.storage_write", status="not_measured", note=str(error))]
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            Path(name).unlink()
    note = "" if is_direct else "through the page cache: an upper bound"
    how = {"instrument": "os", "pattern": pattern, "unit": "bytes/s"}
    return [
        Measurement(id="host.storage_write", value=num_bytes / written_s, **how),
        Measurement(id="host.storage_read", value=num_bytes / read_s, note=note, **how),
    ]


def _write(handle: int, block: bytes, num_bytes: int) -> float:
    started_at_s = time.perf_counter()
    for _ in range(num_bytes // len(block)):
        os.write(handle, block)
    os.fsync(handle)
    return time.perf_counter() - started_at_s


def _read(path: Path, num_bytes: int) -> tuple[float, bool]:
    """Return the seconds of reading the file, and whether the read went past the page cache."""
    direct = getattr(os, "O_DIRECT", 0)
    try:
        handle = os.open(path, os.O_RDONLY | direct)
    except OSError:
        direct = 0
        handle = os.open(path, os.O_RDONLY)
    # An anonymous map is aligned to a page, as direct reading demands.
    buffer = mmap.mmap(-1, _BLOCK_BYTES)
    try:
        started_at_s = time.perf_counter()
        while os.readv(handle, [buffer]) > 0:
            pass
        return time.perf_counter() - started_at_s, bool(direct)
    finally:
        os.close(handle)
        buffer.close()
