"""How fast training plans are enumerated, their memory and time computed, and a whole question answered.

OMP_NUM_THREADS=1 python benchmarks/bench_training.py [--json FILE]
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from advisor.catalog import accelerators, models
from advisor.decide.training.scenario import TrainingTask
from advisor.decide.training.search import Tally, best_plans
from advisor.decide.training.space import variants_of
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice
from advisor.simulator.training.memory import peak_memory
from advisor.simulator.training.plan import SCHEDULES
from advisor.simulator.training.step import step_time

CASES = (
    ("gpt-3-175b", "a100-sxm-80gb", 1024, 1536, 2048),
    ("llama-3.1-70b", "h100-sxm", 1024, 512, 8192),
    ("deepseek-v3", "h100-sxm", 2048, 4096, 4096),
)


def best_of(repeats: int, run: Callable[[], object]) -> tuple[float, float]:
    """Shortest CPU time and shortest wall time of so many runs [s]; they differ where the machine is shared."""
    cpu_s = []
    wall_s = []
    for _ in range(repeats):
        cpu = time.process_time()
        wall = time.perf_counter()
        run()
        cpu_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
    return min(cpu_s), min(wall_s)


def measure_plans(name: str, gpu: str, count: int, batch: int, tokens: int) -> dict[str, object]:
    """Plans per second with memory and time computed for every plan of the widest lattice, and the pruned search."""
    task = TrainingTask(tokens=1e12, sequence_tokens=tokens, global_batch=batch)
    variants, _ = variants_of(accelerators.by_id(gpu), models.get(name).record, task)
    job = variants[0].job
    cluster = variants[0].cluster
    wide = LatticeLimits(cluster.domain, recompute_shares=(0.25, 0.5, 0.75, 1.0), schedules=SCHEDULES)
    lattice = enumerate_lattice(job, count, wide)

    def everything() -> None:
        found = enumerate_lattice(job, count, wide)
        peak_memory(job, found)
        step_time(job, found, cluster)

    whole_s, whole_wall_s = best_of(3, everything)
    wide_variants = [
        replace(v, limits=replace(v.limits, recompute_shares=wide.recompute_shares)) for v in variants
    ]
    effort = Tally()
    best_plans(wide_variants, count, effort)
    search_s, search_wall_s = best_of(5, lambda: best_plans(wide_variants, count, Tally()))
    return {
        "model": name,
        "gpu": gpu,
        "accelerators": count,
        "plans": len(lattice),
        "memory_and_time_of_all_s": whole_s,
        "memory_and_time_of_all_wall_s": whole_wall_s,
        "plans_per_s": len(lattice) / whole_s,
        "search_s": search_s,
        "search_wall_s": search_wall_s,
        "search_considered": effort.num_considered,
        "search_evaluated": effort.num_evaluated,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    path = parser.parse_args().json
    rows = [measure_plans(*case) for case in CASES]
    for row in rows:
        print(
            f"{row['model']:14} on {row['accelerators']} x {row['gpu']}: {row['plans']:,} plans, memory and time of "
            f"all in {row['memory_and_time_of_all_s']:.2f} s of CPU, {row['memory_and_time_of_all_wall_s']:.2f} s "
            f"wall, {row['plans_per_s']:,.0f} plans/s; pruned search over {row['search_considered']:,} in "
            f"{row['search_s']:.2f} s ({row['search_wall_s']:.2f} s wall)"
        )
    if path is not None:
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
