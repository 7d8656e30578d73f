"""How fast the serving simulator is: requests, iterations and events per second, and its memory.

    python benchmarks/bench_simulator.py                     the table of benchmarks/README.md
    python benchmarks/bench_simulator.py --requests 10000    a quick look

Medians over runs of wall time and of this process's CPU time; the two differ where the machine is shared.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.catalog.units import KIB, MB, MILLISECOND_S, PICOSECONDS_PER_S
from advisor.simulator.serving import (
    ClosedLoop,
    LognormalLengths,
    Poisson,
    SchedulerPolicy,
    ServingResult,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface

MAX_SEQS = 256
MAX_TOKENS = 8192
LENGTHS = UniformLengths(512, 256, 0.8)
API_PS = round(15 * MILLISECOND_S * PICOSECONDS_PER_S)


@dataclass(frozen=True)
class TableCase:
    """One row of the table."""

    name: str
    share: float
    """Part of the requested number of requests: slow cases take fewer."""
    run: Callable[[int], ServingResult]


def surface(num_stages: int = 1) -> StepSurface:
    """A made-up machine of about the speed of Llama-3.1-8B on one H200; physics is not what is timed here."""
    return StepSurface(
        decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, MAX_SEQS + 1)],
        decode_context_ps=[27_000] * (MAX_SEQS + 1),
        mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, MAX_TOKENS + 1)],
        prefill_pair_ps=100.0,
        prefill_sequence_ps=1_000_000,
        num_stages=num_stages,
    )


def policy(
    kv_blocks: int = 60_000, api_ps: int = 0, prefill_first: bool = False, max_tokens: int = MAX_TOKENS
) -> SchedulerPolicy:
    """The mixed policy with vLLM's budget, or SGLang's order."""
    return SchedulerPolicy(
        kind="prefill_first" if prefill_first else "mixed",
        max_num_seqs=MAX_SEQS,
        max_num_batched_tokens=max_tokens,
        kv_capacity_blocks=kv_blocks,
        api_overhead_ps=api_ps,
    )


SURFACE = surface()
CLOSED = ClosedLoop(64)
CASES = (
    TableCase("closed loop 64", 1.0, lambda n: simulate(SURFACE, policy(), Workload(CLOSED, LENGTHS, n))),
    TableCase(
        "closed loop 64, stepping",
        0.2,
        lambda n: simulate(SURFACE, policy(), Workload(CLOSED, LENGTHS, n), jump=False),
    ),
    TableCase(
        "closed loop 64, 15 ms from client to scheduler",
        0.2,
        lambda n: simulate(SURFACE, policy(api_ps=API_PS), Workload(CLOSED, LENGTHS, n)),
    ),
    TableCase(
        "closed loop 8", 0.2, lambda n: simulate(SURFACE, policy(), Workload(ClosedLoop(8), LENGTHS, n))
    ),
    TableCase(
        "Poisson, 20 requests/s",
        0.2,
        lambda n: simulate(SURFACE, policy(), Workload(Poisson(20.0), LENGTHS, n)),
    ),
    TableCase(
        "Poisson, 20 requests/s, stepping",
        0.2,
        lambda n: simulate(SURFACE, policy(), Workload(Poisson(20.0), LENGTHS, n), jump=False),
    ),
    TableCase(
        "Poisson, 2 requests/s, lognormal 512/1024",
        0.1,
        lambda n: simulate(SURFACE, policy(), Workload(Poisson(2.0), LognormalLengths(512, 1024, 1.0), n)),
    ),
    TableCase(
        "closed loop 64, prefill first",
        0.2,
        lambda n: simulate(SURFACE, policy(prefill_first=True), Workload(CLOSED, LENGTHS, n)),
    ),
    TableCase(
        "closed loop 8, prompts of 100,000 in chunks of 2,048",
        0.02,
        lambda n: simulate(
            SURFACE, policy(max_tokens=2048), Workload(ClosedLoop(8), LognormalLengths(100_000, 500, 0.3), n)
        ),
    ),
    TableCase(
        "closed loop 64, cache for 35: preemption",
        0.1,
        lambda n: simulate(SURFACE, policy(kv_blocks=1500), Workload(CLOSED, LENGTHS, n)),
    ),
    TableCase(
        "closed loop 64, 4 pipeline stages",
        0.1,
        lambda n: simulate(surface(4), policy(), Workload(CLOSED, LENGTHS, n)),
    ),
    TableCase(
        "Poisson, 80 requests/s, 4 replicas",
        0.1,
        lambda n: simulate(SURFACE, policy(), Workload(Poisson(80.0), LENGTHS, n), num_replicas=4),
    ),
)


def measure(case: TableCase, num_requests: int, runs: int) -> str:
    """One row: medians over runs."""
    wall = []
    cpu = []
    for _ in range(runs):
        wall_start = time.perf_counter()
        cpu_start = time.process_time()
        result = case.run(num_requests)
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    wall_s = statistics.median(wall)
    cpu_s = statistics.median(cpu)
    cells = (
        case.name,
        f"{num_requests:,}",
        f"{num_requests / wall_s:,.0f}",
        f"{num_requests / cpu_s:,.0f}",
        f"{result.num_iterations / cpu_s:,.0f}",
        f"{result.num_events / num_requests:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str]) -> None:
    """Print the table, then the process's largest memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    print(
        "| case | requests | requests/s (wall) | requests/s (CPU) | iterations/s (CPU) | events per request |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for case in CASES:
        print(measure(case, max(1, round(options.requests * case.share)), options.runs), flush=True)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    print(f"\nLargest memory of the process: {peak_bytes / MB:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
