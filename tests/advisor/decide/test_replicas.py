"""Remembered replicas: one place remembers them, and each case has its own."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import advisor
from advisor.catalog import accelerators, engines, models
from advisor.decide.replicas import ReplicaCase, plain_replica
from advisor.simulator.deployment import Deployment
from advisor.simulator.replica_model import EngineSettings


def remembering_functions() -> Iterator[tuple[str, str]]:
    """Files and names of the functions of decisions that remember replicas."""
    for path in sorted((Path(advisor.__file__).parent / "decide").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                marks = " ".join(map(ast.unparse, node.decorator_list))
                if "cache" in marks and "ReplicaModel" in ast.unparse(node.returns):
                    yield path.name, node.name


def test_one_place_remembers_replicas() -> None:
    assert list(remembering_functions()) == [("replicas.py", "plain_replica")]


@pytest.mark.parametrize(("model", "gpu"), [("llama-3.1-8b", "h100-sxm"), ("qwen3-8b", "l40s")])
def test_each_case_is_remembered_and_is_no_other(model: str, gpu: str) -> None:
    deployment = Deployment(models.by_id(model), accelerators.by_id(gpu), engines.by_id("vllm"))
    case = ReplicaCase(deployment, EngineSettings(64, 4096), 1000.0, 200.0)
    others = [
        replace(case, work="prefill"),
        replace(case, work="decode"),
        replace(case, mean_input_tokens=2000.0),
        replace(case, context_spread=0.5),
        replace(case, settings=EngineSettings(32, 4096)),
    ]
    found = [plain_replica(one) for one in (case, *others)]
    assert all(plain_replica(one) is replica for one, replica in zip((case, *others), found, strict=True))
    assert len({id(one) for one in found}) == len(found)
    assert plain_replica(replace(case, library=found[0].library)) is found[0]
