"""The time of one iteration read from a surface, against the simulator that reads the same surface."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import named_deployment
from advisor.simulator.serving import ClosedLoop, FixedLengths, SchedulerPolicy, Workload, simulate
from advisor.simulator.step_cost import (
    StepSurface,
    decode_iteration_s,
    prefill_iteration_s,
    prefill_s,
    steadily_s,
)


def plain() -> StepSurface:
    return StepSurface([0, 7000, 7100], [0, 3, 3], [0, *range(9000, 9999)], 1.5, 40)


def window_surface() -> StepSurface:
    return StepSurface([0, 7000, 7100], [0, 3, 3], [0, *range(9000, 9999)], 1.5, 40, 64, [0, 2, 2], 0.5)


def stage_surface() -> StepSurface:
    return StepSurface(
        [0, 7000, 7100], [0, 3, 3], [0, *range(9000, 9999)], 1.5, 40, num_stages=4, stage_transfer_ps=11
    )


@pytest.mark.parametrize("surface", [plain, window_surface, stage_surface])
@pytest.mark.parametrize(("chunk", "prompt"), [(512, 300), (100, 300)])
def test_one_request_alone_takes_its_iterations(
    surface: Callable[[], StepSurface], chunk: int, prompt: int
) -> None:
    table = surface()
    answers = 5
    policy = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=chunk)
    result = simulate(table, policy, Workload(ClosedLoop(1), FixedLengths(prompt, answers), 1))
    starts = range(0, prompt, chunk)
    prefill_s = sum(prefill_iteration_s(table, min(chunk, prompt - start), start) for start in starts)
    decode_s = sum(decode_iteration_s(table, 1, prompt + i) for i in range(1, answers))
    rounding_s = 4 / PICOSECONDS_PER_S * table.num_stages
    assert result.ttft.mean_s == pytest.approx(prefill_s, abs=rounding_s)
    assert result.e2e.mean_s == pytest.approx(prefill_s + decode_s, abs=rounding_s)


def limit_surface(full_clock_ps: int = 20_000, clock_recovery: float = 0.5) -> StepSurface:
    """A board whose clock falls within two iterations of a prompt."""
    return replace(
        plain(),
        full_clock_ps=full_clock_ps,
        limited_scale=1.25,
        clock_recovery=clock_recovery,
        reading_ps=7000,
    )


@pytest.mark.parametrize("prompt", [100, 300, 900])
def test_a_long_prompt_meets_the_power_limit_as_the_simulator_says(prompt: int) -> None:
    policy = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=100)
    for table in (plain(), limit_surface()):
        result = simulate(table, policy, Workload(ClosedLoop(1), FixedLengths(prompt, 1), 1))
        alone_s = prefill_s(table, prompt, 100)
        assert result.ttft.mean_s == pytest.approx(alone_s, abs=20 / PICOSECONDS_PER_S)
    assert (prefill_s(limit_surface(), prompt, 100) > prefill_s(plain(), prompt, 100)) == (prompt > 100)


@pytest.mark.parametrize("recovery", [0.0, 0.1, 0.2, 2.0])
def test_in_the_long_run_the_clock_regains_what_decodes_leave_it(recovery: float) -> None:
    """Prompts in turns with decodes: work beyond what was regained takes a quarter longer."""
    table = limit_surface(400_000, recovery)
    count = 2000
    answers = 6
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=900)
    result = simulate(table, policy, Workload(ClosedLoop(1), FixedLengths(600, answers), count))
    decode_s = sum(decode_iteration_s(table, 1, 600 + i) for i in range(1, answers))
    alone_s = prefill_iteration_s(table, 600)
    reading_s = table.reading_ps / PICOSECONDS_PER_S
    work_s = alone_s - reading_s
    expected_s = reading_s + steadily_s(table, work_s, decode_s) + decode_s
    assert result.e2e.mean_s == pytest.approx(expected_s, rel=1e-3)
    assert steadily_s(table, work_s, decode_s) <= 1.25 * work_s * (1 + 1e-9)


def test_a_decode_iteration_grows_with_context_until_the_window_is_full() -> None:
    table = window_surface()
    steps = [decode_iteration_s(table, 2, tokens) for tokens in (32, 64, 128, 192)]
    assert steps[1] - steps[0] == pytest.approx((3 + 2) * 2 * 32 / PICOSECONDS_PER_S)
    assert steps[3] - steps[2] == pytest.approx(3 * 2 * 64 / PICOSECONDS_PER_S)


def test_a_deployment_is_named_as_people_type() -> None:
    found = named_deployment("8b", "h100", weight_dtype="fp8", tensor_parallel=2)
    assert (found.model.id, found.accelerator.id, found.engine.id) == ("llama-3.1-8b", "h100-sxm", "vllm")
    assert (found.weight_dtype, found.activation_dtype, found.tensor_parallel) == ("fp8", "fp8", 2)
    assert named_deployment("gpt-oss-120b", "a100").activation_dtype == "bf16"
    assert named_deployment("8b", "h100", "sglang", kv_dtype="fp8").kv_dtype == "fp8"
