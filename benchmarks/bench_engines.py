"""One replica under a closed loop of 64, as commands that people run: requests per second of CPU, start-up included.

    python benchmarks/bench_engines.py                                   this checkout
    python benchmarks/bench_engines.py --python VENV/bin/python          and an installed advisor, say a compiled one
    python benchmarks/bench_engines.py --aisimulate VENV/bin/aisimulate  and NVIDIA's AISimulate, asked for the same

Commands take turns, after one run of each that does not count; bytecode is kept, as an installer keeps it, whatever
the environment says. Each runs twice, with all requests and with a tenth of them: the difference is what the engine
takes without start-up. AISimulate's requests all have 512 tokens in and 256 out, ours 0.8 to 1 of that, which is more
work: clients whose requests are equal move in step.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = (
    "simulate serve --model 8b --gpu h200 --concurrency 64 --input-tokens 512 --output-tokens 256"
    " --length-dist uniform:0.8 --requests"
)
THEIRS = """
traffic:
  source: {{type: synthetic, input_tokens: 512, output_tokens: 256}}
  load: {{type: concurrency, concurrency: 64}}
  stop: {{requests: {requests}}}
engine:
  mode: aggregated
  model: meta-llama/Meta-Llama-3.1-8B
  hardware: h200_sxm
  backend: vllm
  workers: {{aggregated: {{}}}}
"""


def cpu_s(command: list[str], folder: Path, **more: str) -> float:
    """CPU time of a command and its children, its answer thrown away."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")} | more
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--aisimulate", type=Path, help="its executable")
    parser.add_argument("--python", type=Path, help="of an environment with an installed advisor")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def ours(python: Path, requests: int, **more: str) -> float:
            return cpu_s([str(python), "-m", "advisor", *OURS.split(), str(requests)], folder, **more)

        def theirs(requests: int) -> float:
            config = folder / "predict.yaml"
            config.write_text(THEIRS.format(requests=requests))
            asked = ["predict", "-c", str(config), "--output-dir", str(folder / "out"), "--overwrite"]
            return cpu_s([str(options.aisimulate), *asked], folder)

        commands = {"this checkout": lambda n: ours(Path(sys.executable), n, PYTHONPATH=str(ROOT))}
        if options.python:
            commands["installed"] = lambda n: ours(options.python, n)
        if options.aisimulate:
            commands["AISimulate"] = theirs
        few = options.requests // 10
        for run in commands.values():
            run(few)
        times: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
        for _ in range(options.runs):
            for what, run in commands.items():
                times[what].append((run(few), run(options.requests)))
    print(
        "| what | requests | CPU, median [s] | requests/s of CPU | without start-up |\n|---|---:|---:|---:|---:|"
    )
    for what, pairs in times.items():
        short_s, long_s = (statistics.median(column) for column in zip(*pairs, strict=True))
        engine_per_s = (options.requests - few) / (long_s - short_s)
        whole_per_s = options.requests / long_s
        print(f"| {what} | {options.requests:,} | {long_s:.2f} | {whole_per_s:,.0f} | {engine_per_s:,.0f} |")


if __name__ == "__main__":
    main()
