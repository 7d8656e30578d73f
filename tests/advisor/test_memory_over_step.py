"""Memory over a training step: it peaks at the plan's account, rises in forward passes and falls in backward passes."""

import contextlib
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.commands.simulate_train import view
from advisor.decide.training.memory_over_step import StepMemory, memory_over_step
from advisor.simulator.training.memory import stage_memory

PLANS = (
    "--model 8b --gpus 8",
    "--model 8b --gpus 8 --sharding zero3 --recompute full --global-batch 8",
    "--model 8b --gpus 8 --method qlora",
    "--model 70b --gpus 64 --tp 8 --pp 4",
    "--model 70b --gpus 64 --tp 8 --pp 4 --vpp 2 --schedule interleaved",
    "--model 70b --gpus 64 --tp 8 --pp 4 --schedule zb_h1",
    "--model 70b --gpus 64 --tp 8 --pp 4 --schedule gpipe",
    "--model 70b --gpus 64 --tp 8 --pp 4 --schedule zbv",
    "--model 70b --gpus 64 --tp 8 --pp 4 --schedule dualpipe",
)


@pytest.fixture(params=PLANS)
def drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, StepMemory]:
    kept: list[Any] = []

    def keep(found: Any) -> StepMemory:
        kept.append(found)
        return memory_over_step(found)

    monkeypatch.setattr(view, "memory_over_step", keep)
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main(["simulate", "train", "--gpu", "h100-sxm", "--json", *request.param.split()])
    assert code in (0, 3), errors.getvalue()
    return kept[0], memory_over_step(kept[0])


def test_the_peak_is_that_of_the_account(drawn: tuple[Any, StepMemory]) -> None:
    found, memory = drawn
    fullest = max(each.fullest.allocated_bytes for each in stage_memory(found.job, found.plan))
    assert max(each.total_bytes for each in memory.points) == pytest.approx(fullest, rel=1e-6)


def test_activations_rise_from_nothing_and_end_at_nothing(drawn: tuple[Any, StepMemory]) -> None:
    _, memory = drawn
    points = memory.points
    assert points[0].activation_bytes == 0.0
    assert points[-1].activation_bytes == 0.0
    assert points[0].at_s == 0.0
    assert all(later.at_s >= earlier.at_s - 1e-12 for earlier, later in pairwise(points))
    assert max(each.activation_bytes for each in points) > 0.0
    assert all(each.activation_bytes >= 0.0 for each in points)
    assert 1 <= memory.num_shown <= memory.num_micro_batches


def test_a_step_without_a_pipeline_is_as_long_as_predicted(drawn: tuple[Any, StepMemory]) -> None:
    found, memory = drawn
    if found.run is None and memory.num_shown == memory.num_micro_batches:
        assert memory.points[-1].at_s == pytest.approx(found.step_s)


def test_a_page_has_the_chart(tmp_path: Path, cli: Any) -> None:
    file = tmp_path / "train.html"
    assert cli(f"advisor simulate train --model 8b --gpu h100-sxm --gpus 8 -q -o {file}").code == 0
    assert "Memory over a step" in file.read_text(encoding="utf-8")
