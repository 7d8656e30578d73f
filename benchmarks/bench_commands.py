"""How long the command line takes and how much memory: start-up, and the headline question over the whole market.

    python benchmarks/bench_commands.py            the table of benchmarks/README.md
    python benchmarks/bench_commands.py --runs 1   a quick look

Each command runs in a process of its own. The least of several wall times is what the machine can do; the median of the
CPU times does not depend on what else it does.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from advisor.catalog.units import KIB, MB

COMMANDS = (
    ("--help", 0.3, None),
    ("catalog gpus", None, None),
    ("recommend --model 70b --workload serve", 6.0, 300.0),
    ("recommend --model 70b --workload serve --fast", 3.0, 300.0),
    ("cost --model 70b", 5.0, 300.0),
    ("simulate serve --model 70b --gpu h100 --tp 4 --precision fp8 --rate 5", None, None),
)
"""Arguments, and the bounds [s, MB] that the command is held to, where there are any."""


@dataclass(frozen=True)
class ProcessRun:
    """Time and memory of one process."""

    wall_s: float
    cpu_s: float
    memory_mb: float


def run(arguments: str) -> ProcessRun:
    """Run `python -m advisor` once, its answer thrown away."""
    command = [sys.executable, "-m", "advisor", *arguments.split()]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return ProcessRun(wall_s, usage.ru_utime + usage.ru_stime, _memory_mb(usage))


def _memory_mb(usage: resource.struct_rusage) -> float:
    """Largest resident memory: Linux counts it in KiB, macOS in bytes."""
    return usage.ru_maxrss * (1.0 if sys.platform == "darwin" else KIB) / MB


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each command")
    runs = parser.parse_args().runs
    print("| command | wall, least [s] | CPU, median [s] | memory [MB] | held to |")
    print("|---|---:|---:|---:|---|")
    for arguments, seconds, megabytes in COMMANDS:
        found = [run(arguments) for _ in range(runs)]
        wall_s = min(r.wall_s for r in found)
        cpu_s = statistics.median(r.cpu_s for r in found)
        bounds = [f"{seconds:g} s" if seconds else "", f"{megabytes:g} MB" if megabytes else ""]
        print(
            f"| `advisor {arguments}` | {wall_s:.2f} | {cpu_s:.2f} | {max(r.memory_mb for r in found):.0f} | "
            f"{', '.join(filter(None, bounds))} |"
        )


if __name__ == "__main__":
    main()
