"""The instruments for Apple's GPUs against an MLX that NumPy plays: the contract, never the hardware."""

import sys
from types import ModuleType

import numpy as np
import pytest

from advisor.probes import apple, session, worker
from advisor.probes.assess import assess
from advisor.probes.calibrate import slowest_gpu
from advisor.probes.record import ProbedMachine
from advisor.probes.steps import STEPS, plan
from advisor.probes.verdict import verdict

EVALUATED = []


class Lazy:
    """An array that is computed when it is evaluated, as MLX's are."""

    def __init__(self, make):
        self.make = make

    def __add__(self, number):
        return Lazy(lambda: self.make() + number)


def fake_mlx():
    core = ModuleType("mlx.core")
    core.float32 = np.float32
    core.float16 = np.float16
    core.bfloat16 = np.float32
    core.random = ModuleType("random")

    def normal(shape, dtype):
        values = np.ones(shape, dtype=dtype)
        return Lazy(lambda: values)

    def evaluate(*arrays):
        EVALUATED.extend(array.make().shape for array in arrays)

    core.random.normal = normal
    core.sum = lambda x: Lazy(lambda: x.make().sum())
    core.matmul = lambda a, b: Lazy(lambda: a.make() @ b.make())
    core.eval = evaluate
    return core


@pytest.fixture
def measured(monkeypatch):
    EVALUATED.clear()
    monkeypatch.setitem(sys.modules, "mlx", ModuleType("mlx"))
    monkeypatch.setitem(sys.modules, "mlx.core", fake_mlx())
    monkeypatch.setattr(apple, "_ARRAY_BYTES", 4 * 1024)
    monkeypatch.setattr(apple, "_SIZE", 16)
    step = next(step for step in STEPS if step.place == "apple")
    return worker._run(step, worker_options())


def worker_options():
    options = worker.argparse.Namespace()
    options.quick = True
    options.gpu = -1
    options.num_gpus = 0
    options.seed = 0
    return options


def test_bandwidth_and_products_are_measured(measured):
    assert [m.id for m in measured] == [
        "memory.read",
        "memory.copy",
        "compute.matmul.bf16",
        "compute.matmul.fp16",
        "compute.matmul.fp32",
    ]
    assert all(m.value > 0 and m.p5 <= m.value <= m.p95 and m.num_samples == 10 for m in measured)
    assert {m.instrument for m in measured} == {"mlx"}
    assert {m.unit for m in measured} == {"bytes/s", "flop/s"}
    assert slowest_gpu(measured, "memory.read") == measured[0].value


def test_every_call_is_evaluated(measured):
    """Without it, MLX would only note what is to be done: inputs once, each call in warm-up and samples."""
    assert len(EVALUATED) == 1 + 6 + 5 * 13


def test_it_is_no_verdict(measured):
    assert verdict(assess(ProbedMachine(torch="2.11"), measured)) != "pass"


@pytest.mark.parametrize(
    ("platform", "is_there", "number"), [("darwin", True, 1), ("darwin", False, 0), ("linux", True, 0)]
)
def test_it_runs_on_a_mac_with_mlx_alone(monkeypatch, platform, is_there, number):
    monkeypatch.setattr(session.sys, "platform", platform)
    monkeypatch.setattr(session, "find_spec", lambda name: object() if is_there else None)
    assert len(session._apple_steps(True)) == number
    assert plan(True, "apple")
