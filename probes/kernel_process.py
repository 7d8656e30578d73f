"""Start of the process that measures one kernel, and what this machine lacks for it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.probes import nvml
from advisor.probes.events import parse
from advisor.probes.machine import identify
from advisor.probes.process import START_S, Process, alone, environment

_LIMIT_S: Final = 120.0
"""Time in which one instrument must be measured [s]: a kernel's first call may compile for a minute."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Measured time of one instrument, or the reason why there is none."""

    instrument: str
    time_s: float | None = None
    error: float | None = None
    """Root of the mean square deviation from fp64, over that of the right values [ratio]."""
    clock_hz: float | None = None
    """Highest clock of the multiprocessors that was seen."""
    tile: tuple[int, int] | None = None
    """Rows and columns of a tile, in a sweep."""
    reason: str = ""


def missing_here() -> tuple[str, ...]:
    """Return what a measurement needs and this machine lacks, in words; empty if a kernel can be measured."""
    if not nvml.count():
        return ("an NVIDIA GPU with its driver, and torch, Triton and nvidia-ml-py",)
    return tuple(name for name in ("torch", "triton") if find_spec(name) is None)


def local_accelerator() -> str:
    """Return the catalog id of the first GPU of this machine; empty if there is none, or an unknown one."""
    gpus = identify([0]).gpus if nvml.count() else ()
    return gpus[0].accelerator if gpus else ""


def measure_kernel(
    name: str, shape: Sequence[int], dtype: str, against: Sequence[str], *, with_sweep: bool
) -> list[KernelTime]:
    """Measure a kernel and its peers in a process of its own, on the first GPU.

    Raises: AdvisorError: the process ended before it measured anything, or a probe is running.
    """
    command = [sys.executable, "-m", "advisor.probes.kernel_bench", name]
    command += ["--shape", "x".join(map(str, shape)), "--dtype", dtype, "--against", ",".join(against)]
    command += ["--sweep"] if with_sweep else []
    found = []
    with alone():
        worker = Process(command, environment([0]))
        try:
            while (line := worker.next_line(START_S + _LIMIT_S)) is not None:
                if event := parse(line):
                    found.append(_time_of(event))
        finally:
            worker.kill() if worker.timed_out else worker.stop()
    if not found:
        raise AdvisorError(
            f"{name} could not be measured",
            why=worker.last_words() if not worker.timed_out else "it hung and was stopped",
            fix="try a smaller --shape, or another --dtype",
        )
    return found


def _time_of(event: dict[str, object]) -> KernelTime:
    tile = event.pop("tile", None)
    known = {name: value for name, value in event.items() if name in KernelTime.__dataclass_fields__}
    rows_columns = (int(tile[0]), int(tile[1])) if isinstance(tile, list) else None
    return KernelTime(**known, tile=rows_columns)  # type: ignore[arg-type]
