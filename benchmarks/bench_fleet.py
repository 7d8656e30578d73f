"""How fast fleets and prefix caches are simulated: requests per second, and the memory of it.

    python benchmarks/bench_fleet.py                            the small cases of benchmarks/README.md
    python benchmarks/bench_fleet.py --large                    1 000 replicas and 10 million requests
    python benchmarks/bench_fleet.py --traces ../shared/data/traces

Wall time and CPU time of this process and its children; the two differ where the machine is shared.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.catalog.units import KIB, MB
from advisor.simulator.serving import (
    EmpiricalLengths,
    Poisson,
    SchedulerPolicy,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import SharedPrefixes, hashed_contents
from advisor.simulator.serving.fleet import Fleet, Pool, RouterRule
from advisor.simulator.serving.fleet_simulation import simulate_fleet, simulate_in_parts
from advisor.simulator.serving.load import draw_load
from advisor.simulator.step_cost import StepSurface

MAX_SEQS = 256
MAX_TOKENS = 8192
RATE_PER_REPLICA = 20.0
SURFACE = StepSurface(
    decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, MAX_SEQS + 1)],
    decode_context_ps=[27_000] * (MAX_SEQS + 1),
    mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, MAX_TOKENS + 1)],
    prefill_pair_ps=100.0,
    prefill_sequence_ps=1_000_000,
)
"""A made-up machine of about the speed of Llama-3.1-8B on one H200; physics is not what is timed here."""
LENGTHS = UniformLengths(512, 256, 0.8)


def policy(prefix_caching: bool = False, kv_blocks: int = 60_000) -> SchedulerPolicy:
    """The mixed policy with vLLM's budget."""
    return SchedulerPolicy(
        max_num_seqs=MAX_SEQS,
        max_num_batched_tokens=MAX_TOKENS,
        kv_capacity_blocks=kv_blocks,
        prefix_caching=prefix_caching,
    )


def fleet_run(
    num_replicas: int, num_requests: int, router: RouterRule, processes: int = 0, prefixes: int = 0
) -> Callable[[], object]:
    """A run of equal replicas; in so many processes where that is above 0."""

    def run() -> object:
        contents = SharedPrefixes(512, prefixes, skew=1.0) if prefixes else None
        workload = Workload(Poisson(RATE_PER_REPLICA * num_replicas), LENGTHS, num_requests, contents)
        pool = Pool(
            name="all", surface=SURFACE, policy=policy(prefix_caching=prefixes > 0), num_replicas=num_replicas
        )
        fleet = Fleet(pools=(pool,), router=router)
        load = draw_load(workload, 0)
        if processes:
            return simulate_in_parts(fleet, load, num_processes=processes)
        return simulate_fleet(fleet, load)

    return run


def trace_run(path: Path, speed: float, kv_blocks: int, copies: int) -> tuple[int, Callable[[], object]]:
    """A Mooncake trace on one replica with prefix caching and chunked prefill, `copies` times in a row."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    span_s = rows[-1]["timestamp"] / 1e3 + 10.0
    times = [(row["timestamp"] / 1e3 + copy * span_s) / speed for copy in range(copies) for row in rows]
    pairs = [(row["input_length"], row["output_length"]) for row in rows] * copies
    ids = [
        [identity + copy * 10_000_000 for identity in row["hash_ids"]]
        for copy in range(copies)
        for row in rows
    ]
    contents = hashed_contents(ids, [pair[0] for pair in pairs], 512)
    workload = Workload(TraceArrivals(times), EmpiricalLengths(pairs, in_order=True), len(pairs), contents)
    return len(pairs), lambda: simulate(SURFACE, policy(True, kv_blocks), workload)


def measure(name: str, num_requests: int, run: Callable[[], object], runs: int) -> None:
    """One row: medians over runs."""
    wall = []
    cpu = []
    for _ in range(runs):
        started = time.perf_counter()
        used = _cpu_s()
        run()
        wall.append(time.perf_counter() - started)
        cpu.append(_cpu_s() - used)
    wall_s = statistics.median(wall)
    cpu_s = statistics.median(cpu)
    cells = (
        name,
        f"{num_requests:,}",
        f"{wall_s:.1f}",
        f"{num_requests / wall_s:,.0f}",
        f"{num_requests / cpu_s:,.0f}",
    )
    print("| " + " | ".join(cells) + " |", flush=True)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main(arguments: Sequence[str]) -> None:
    """Print the table, then the largest memory of one process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--traces", type=Path)
    options = parser.parse_args(arguments)
    print("| case | requests | wall [s] | requests/s (wall) | requests/s (CPU) |")
    print("|---|---:|---:|---:|---:|")
    if options.large:
        count = 10_000_000
        measure("1 000 replicas, in turn, two processes", count, fleet_run(1000, count, "round_robin", 2), 1)
        measure("1 000 replicas, least outstanding", count, fleet_run(1000, count, "least_outstanding"), 1)
    else:
        count = 100_000
        runs = options.runs
        measure("100 replicas, in turn, one process", count, fleet_run(100, count, "round_robin", 1), runs)
        measure("100 replicas, least outstanding", count, fleet_run(100, count, "least_outstanding"), runs)
        measure(
            "100 replicas, prefix affinity", count, fleet_run(100, count, "prefix_affinity", 0, 500), runs
        )
    for path in sorted(options.traces.glob("mooncake*.jsonl")) if options.traces else ():
        for speed, blocks in ((1.0, 60_000), (0.2, 60_000), (0.2, 300_000)):
            count, run = trace_run(path, speed, blocks, copies=5)
            name = f"{path.stem} at {speed:g} times its pace, cache of {blocks:,} blocks"
            measure(name, count, run, options.runs)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"\nLargest memory of a process: {peak * KIB / MB:,.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
