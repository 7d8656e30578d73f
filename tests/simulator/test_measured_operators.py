"""Operators and steps measured on one H200, which no fit has seen, against the simulator."""

import importlib.util
import json
import sys
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest

from advisor.simulator.deployment import named_deployment

ROOT = Path(__file__).resolve().parents[2]
RECORDS = sorted((ROOT / "catalog" / "data" / "measured").glob("*-operators-*.json"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The program that judges them; programs are no package."""
    folder = ROOT / "tools"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("judge_operators", folder / "judge_operators.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    document = json.loads(RECORDS[-1].read_text(encoding="utf-8"))
    assert document["kind"] == "operator_measurements"
    found: list[dict[str, Any]] = document["runs"]
    return found


def test_every_part_names_its_conditions(runs: list[dict[str, Any]]) -> None:
    assert {run["part"] for run in runs} == {
        "launch",
        "matmul",
        "decode",
        "prefill",
        "experts",
        "step",
        "all_reduce",
    }
    for run in runs:
        for name in (
            "commit",
            "measured_on",
            "gpu",
            "driver",
            "torch",
            "triton",
            "power_limit_w",
            "num_gpus",
        ):
            assert run[name], (run["part"], name)
        assert all(point["median_s"] > 0 for point in run["points"])


@pytest.mark.parametrize(
    ("operator", "instrument", "most", "bias"),
    [
        ("matmul", "torch", 0.06, 0.05),
        ("decode_step", "graph", 0.12, 0.12),
        ("prefill_step", "graph from rest", 0.06, 0.06),
        ("prefill_step", "graph", 0.18, 0.18),
        ("all_reduce", "nccl", 0.20, 0.20),
        ("experts", "triton", 0.20, 0.20),
        ("attention_decode", "triton", 0.25, 0.25),
    ],
)
def test_predictions_stay_near(
    tool: ModuleType, runs: list[dict[str, Any]], operator: str, instrument: str, most: float, bias: float
) -> None:
    plain = tool.predictor(named_deployment("8b", "h200-sxm", "vllm"))
    judged = [
        j
        for j in tool.judge(runs, plain, plain)
        if (j.point["operator"], j.point["instrument"]) == (operator, instrument)
    ]
    assert len(judged) >= 7
    assert median(abs(j.ratio - 1.0) for j in judged) < most
    assert abs(median(j.ratio for j in judged) - 1.0) < bias


def test_replaying_is_faster_than_launching_one_by_one(runs: list[dict[str, Any]]) -> None:
    times = {
        (point["instrument"], point["mode"]): point["median_s"]
        for run in runs
        for point in run["points"]
        if point["operator"] == "launch"
    }
    for instrument in ("torch", "triton"):
        assert 4 * times[(instrument, "graph")] < times[(instrument, "eager")]
