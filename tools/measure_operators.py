"""Measure operators and whole steps on GPUs: what published measurements cannot tell apart.

    python tools/measure_operators.py --out one.json --commit $(git rev-parse --short HEAD)
    python tools/measure_operators.py --parts all_reduce --ranks 2 4 --out four.json
    python tools/measure_operators.py --parts parallel_step --ranks 2 4 --out step.json
    python tools/measure_operators.py --parts short_decode sustained --out more.json
    python tools/measure_operators.py --merge one.json four.json --out catalog/data/measured/NAME.json

Inputs and weights are random, nothing is loaded. Needs torch, Triton and the GPUs; `tools/judge_operators.py` holds
the result against the simulator.
"""

import argparse
import csv
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KIND = "operator_measurements"
ALL_REDUCE_BYTES = tuple(2**exponent for exponent in range(13, 27))
"""8 KiB to 64 MiB."""
PARTS = ("launch", "matmul", "decode", "prefill", "experts", "step")
OTHER_PARTS = ("all_reduce", "parallel_step", "short_decode", "sustained")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=[*PARTS, *OTHER_PARTS])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--commit", default="")
    parser.add_argument("--merge", type=Path, nargs="+")
    options = parser.parse_args()
    if options.merge:
        runs = [run for path in options.merge for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
        write(options.out, runs)
        return
    runs = []
    for part in options.parts:
        runs.append(measure_part(part, options.ranks, options.commit))
        write(options.out, [run for run in runs if run["points"]])  # after each part: a later one may fail


def write(path: Path, runs: list[dict[str, object]]) -> None:
    """One point per line, so that two measurements can be compared as text."""
    lines = []
    for run in runs:
        points = run["points"]
        assert isinstance(points, list)
        head = json.dumps({name: value for name, value in run.items() if name != "points"})
        body = ",\n".join("   " + json.dumps(point) for point in points)
        lines.append(f'  {head[:-1]}, "points": [\n{body}\n  ]}}')
    text = ",\n".join(lines)
    path.write_text(
        f'{{\n "kind": "{KIND}",\n "schema_version": 1,\n "runs": [\n{text}\n ]\n}}\n', encoding="utf-8"
    )


def measure_part(part: str, ranks: list[int], commit: str) -> dict[str, object]:
    """One part with the conditions under which it ran."""
    begun_s = time.monotonic()
    over_ranks = {"all_reduce": all_reduce, "parallel_step": parallel_step}
    points, state = over_ranks[part](ranks) if part in over_ranks else on_one_gpu(part)
    print(part, len(points), "points", round(time.monotonic() - begun_s), "s", flush=True)
    return {"part": part, "commit": commit, **conditions(), **state, "points": points}


def on_one_gpu(part: str) -> tuple[list[dict[str, object]], dict[str, object]]:
    """A part's points, with clocks, power and temperature while they were measured."""
    import operator_cases as cases
    import torch

    from advisor.probes.telemetry import Sampler

    make = {
        "launch": cases.launch_points,
        "matmul": cases.matmul_points,
        "decode": cases.decode_points,
        "prefill": cases.prefill_points,
        "experts": cases.expert_points,
        "step": cases.step_points,
        "short_decode": cases.short_decode_points,
        "sustained": cases.sustained_points,
    }[part]
    points: list[dict[str, object]] = []
    with Sampler(0) as sampler:
        try:
            points.extend(make(torch.device("cuda", 0)))
        except Exception as error:  # what was measured so far is kept, and the other parts go on
            print(part, "stopped:", repr(error)[:500], flush=True)
    torch.cuda.empty_cache()
    return points, sampler.conditions().model_dump(mode="json", exclude_none=True)


def all_reduce(ranks: list[int]) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Sums over all ranks by NCCL from captured graphs."""
    program = Path(__file__).resolve().parents[1] / "benchmarks" / "measure_collectives.py"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "all_reduce.csv"
        wanted = ["--operations", "all_reduce", "--ranks", *map(str, ranks)]
        on_ranks(max(ranks), program, out, *wanted, "--sizes", *map(str, ALL_REDUCE_BYTES))
        with out.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    points: list[dict[str, object]] = [
        {
            "operator": row["operation"],
            "instrument": "nccl",
            "ranks": int(row["num_ranks"]),
            "bytes": int(row["num_bytes"]),
            "median_s": float(row["time_s"]),
        }
        for row in rows
    ]
    return points, {"nccl": rows[0]["nccl"]}


def parallel_step(ranks: list[int]) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Decode steps divided over several GPUs, with and without their sums, and the sums alone."""
    import torch

    program = Path(__file__).resolve().with_name("parallel_step.py")
    points: list[dict[str, object]] = []
    for num_ranks in ranks:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "points.json"
            on_ranks(num_ranks, program, out)
            points += json.loads(out.read_text(encoding="utf-8"))
    return points, {"nccl": ".".join(map(str, torch.cuda.nccl.version()))}


def on_ranks(num_ranks: int, program: Path, out: Path, *arguments: str) -> None:
    """Run a program with one process for each GPU."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(num_ranks), str(program), "--out", str(out)]
    subprocess.run([*command, *arguments], check=True, timeout=240)


def conditions() -> dict[str, object]:
    """Return the conditions of a measurement: board, driver, libraries, power limit, date."""
    import torch
    import triton

    fields = "driver_version,power.limit,clocks.max.sm"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    driver, limit, clock = (value.strip() for value in lines[0].split(","))
    return {
        "measured_on": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "num_gpus": len(lines),
        "driver": driver,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "power_limit_w": float(limit),
        "max_sm_clock_hz": 1e6 * float(clock),
    }


if __name__ == "__main__":
    main()
