"""The compiled event loop gives the records of the interpreted one, bit by bit."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import hashlib, json
from advisor.simulator.serving import (
    ClosedLoop, Gamma, LognormalLengths, Poisson, SchedulerPolicy, UniformLengths, Workload, simulate,
)
from advisor.simulator.serving import loop, replica
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.step_cost import StepSurface

def surface(**more):
    return StepSurface(
        decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, 257)],
        decode_context_ps=[27_000] * 257,
        mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, 8193)],
        prefill_pair_ps=100.0,
        prefill_sequence_ps=1_000_000,
        **more,
    )

def policy(**more):
    return SchedulerPolicy(**{"kv_capacity_blocks": 60_000, **more})

uniform, lognormal = UniformLengths(512, 256, 0.8), LognormalLengths(512, 200, 1.0)
closed, open_loop = Workload(ClosedLoop(64), uniform, 1500), Workload(Poisson(20.0), lognormal, 1500)
bursts = Workload(Gamma(20.0, 2.0), lognormal, 1500, SharedPrefixes(8, 256))
windows = {"window_tokens": 300, "decode_window_ps": [9_000] * 257, "prefill_window_pair_ps": 50.0}
cases = {
    "closed": (surface(), policy(), closed, {}),
    "stepping": (surface(), policy(), closed, {"jump": False}),
    "overlap": (surface(), policy(overlap_scheduling=True, delivery_ps=2_000_000), open_loop, {}),
    "prefill first": (surface(), policy(kind="prefill_first", api_overhead_ps=10**10), open_loop, {}),
    "static": (surface(), policy(kind="static", max_num_seqs=16), open_loop, {}),
    "preemption": (surface(), policy(kv_capacity_blocks=1500), closed, {}),
    "windows": (surface(**windows), policy(), open_loop, {}),
    "stages": (surface(num_stages=4, stage_transfer_ps=1000), policy(), open_loop, {}),
    "prefixes": (surface(), policy(prefix_caching=True, kv_capacity_blocks=3000), bursts, {}),
    "router": (surface(), policy(), open_loop, {"num_replicas": 3}),
}
found = {"file": [replica.__file__, loop.__file__]}
for name, (tables, rules, workload, options) in cases.items():
    result = simulate(tables, rules, workload, records=True, seed=3, **options)
    columns = [getattr(result.records, field).tobytes() for field in result.records.__slots__]
    found[name] = [
        hashlib.sha256(b"".join(columns)).hexdigest(), result.num_events, result.itl.sum_ps, result.itl.p99_s,
        result.ttft.p99_s, result.busy_fraction, result.mean_kv_tokens,
    ]
print(json.dumps(found))
"""


def ask_in(folder: Path) -> dict[str, list[object]]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_compiled_records_are_the_same_bit_by_bit(tmp_path: Path) -> None:
    pytest.importorskip("mypyc")
    pytest.importorskip("setuptools")
    if not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("no C compiler is here")
    command = [sys.executable, str(ROOT / "tools" / "compile_loop.py"), str(tmp_path), "0"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Python.h" in made.stderr:
        pytest.skip("no headers of Python are here")
    assert made.returncode == 0, made.stderr
    compiled = ask_in(tmp_path)
    interpreted = ask_in(ROOT)
    files = compiled.pop("file"), interpreted.pop("file")
    assert not any(str(file).endswith(".py") for file in files[0])
    assert all(str(file).endswith(".py") for file in files[1])
    assert compiled == interpreted
