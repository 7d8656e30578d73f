"""Loops of generation and training, rollouts on the serving simulator, streamed weights, launch options."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.graph.training import attention_flop_per_token
from advisor.simulator.serving import ServingResult, simulate
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.flop import hardware_flop_per_token, model_flop_per_token
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_flags import (
    launch_flags,
    megatron_flags,
    nemo_flags,
    torchtitan_flags,
)
from advisor.simulator.training.launch_loops import LoopShape, verl_flags
from advisor.simulator.training.launch_tuning import trl_flags
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import (
    LoopTimes,
    colocated_sync_s,
    disaggregated_sync_s,
    forward_s,
    judge_s,
    num_forwards,
    num_trained_models,
)
from advisor.simulator.training.rollout import RolloutLoad, rollout
from advisor.simulator.training.step_host import exposed_stream_s

H100 = accelerators.by_id("h100-sxm")
QWEN = models.get("qwen2.5-7b").record
LLAMA = models.get("llama-3.1-8b").record
LOAD = RolloutLoad(512, 256, 512, 0.5)


def test_a_loop_adds_up_together_and_overlaps_apart() -> None:
    times = LoopTimes(100.0, 5.0, 20.0, 60.0, 3.0)
    assert times.step_s(apart=False, steps_off_policy=4) == times.work_s == 188.0
    assert times.step_s(apart=True, steps_off_policy=0) == times.work_s
    assert times.step_s(apart=True, steps_off_policy=1) == 108.0
    assert LoopTimes(10, 0, 20, 60, 3).step_s(apart=True, steps_off_policy=1) == 83.0


def test_a_forward_pass_is_about_a_third_of_a_step() -> None:
    assert forward_s({"forward": 10.0, "backward": 20.0, "bubble": 3.0, "optimizer": 5.0}) == pytest.approx(
        11.0
    )
    assert [num_forwards(name) for name in ("grpo", "ppo", "dpo")] == [2, 3, 1]  # type: ignore[arg-type]
    assert [num_trained_models(name) for name in ("grpo", "ppo", "dpo")] == [1, 2, 1]  # type: ignore[arg-type]


def test_rollouts_follow_the_serving_simulator() -> None:
    one = rollout(QWEN, H100, 2, LOAD)
    assert one.output_tokens_per_s == pytest.approx(512 * 512 / one.time_s, rel=0.1)
    more = rollout(QWEN, H100, 4, LOAD)
    assert more.time_s < one.time_s
    assert 0.0 < one.tail_fraction < 1.0
    even = rollout(QWEN, H100, 2, replace(LOAD, response_sigma=0.0))
    assert even.time_s < one.time_s
    assert rollout(QWEN, H100, 2, LOAD) == one


def test_equal_shares_of_a_step_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def count(*given: Any, **options: Any) -> ServingResult:
        asked.append(given[2].num_requests)
        return simulate(*given, **options)

    monkeypatch.setattr("advisor.simulator.training.rollout.simulate", count)
    monkeypatch.setattr("advisor.simulator.training.rollout.WIDEST_TENSOR_PARALLEL", 1)
    load = RolloutLoad(96, 64, 32, 0.25)
    few = rollout(QWEN, H100, 1, load)
    many = rollout(QWEN, H100, 8, replace(load, num_samples=8 * 96))
    assert asked == [96]
    assert many.time_s == few.time_s
    assert many.output_tokens_per_s == 8 * few.output_tokens_per_s


def test_samples_of_one_prompt_share_it() -> None:
    load = RolloutLoad(512, 4096, 128, 0.3)
    apart = rollout(QWEN, H100, 1, load)
    shared = rollout(QWEN, H100, 1, replace(load, samples_per_prompt=16))
    assert shared.time_s < 0.5 * apart.time_s
    assert load.contents(4) is None


def test_many_samples_are_continued_at_the_steady_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    load = replace(LOAD, num_samples=6000)
    monkeypatch.setattr("advisor.simulator.training.rollout._MOST_SIMULATED", 6000)
    whole = rollout(QWEN, H100, 1, replace(load, response_tokens=128))
    monkeypatch.setattr("advisor.simulator.training.rollout._MOST_SIMULATED", 3000)
    short = rollout(QWEN, H100, 1, replace(load, response_tokens=128))
    assert short.time_s == pytest.approx(whole.time_s, rel=0.05)


def test_rollouts_that_cannot_be_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="cannot generate"):
        rollout(models.get("llama-3.1-405b").record, H100, 2, LOAD)
    with pytest.raises(InfeasibleError):
        rollout(QWEN, accelerators.by_id("m3-ultra"), 1, LOAD)


def test_handing_over_weights() -> None:
    assert disaggregated_sync_s(QWEN, H100, 2, 8) < disaggregated_sync_s(QWEN, H100, 1, 8)
    assert colocated_sync_s(QWEN, H100, 1, 60e9) - colocated_sync_s(QWEN, H100, 1, 0.0) == pytest.approx(
        2 * 60e9 / (63e9 * 0.83), rel=0.01
    )
    assert judge_s(QWEN, 1e6, 8, 989e12) == pytest.approx(2 * 7.07e9 * 1e6 / (8 * 989e12 * 0.4), rel=0.02)


def test_model_flop() -> None:
    job = TrainingJob(LLAMA, 8192, 64)
    attention = attention_flop_per_token(LLAMA, 8192)
    assert attention == 32 * 32 * 4 * 128 * 4096
    assert model_flop_per_token(job) == pytest.approx(6 * 7.5e9 + 3 * attention, rel=0.01)
    assert model_flop_per_token(replace(job, method="lora", lora_rank=8)) < model_flop_per_token(job)
    none, selective, full = (
        hardware_flop_per_token(job, TrainingPlan(recompute=name))
        for name in ("none", "selective", "full")  # type: ignore[arg-type]
    )
    assert none == model_flop_per_token(job)
    assert selective == none + attention
    assert full > 1.3 * none - attention
    half = hardware_flop_per_token(job, TrainingPlan(recompute="full", recompute_layers=16))
    assert half - none == pytest.approx((full - none) / 2)


def test_streamed_weights_wait_where_computation_is_short() -> None:
    job = TrainingJob(LLAMA, 1024, 8, method="qlora", lora_rank=16, framework="peft")
    cluster = TrainingCluster(accelerators.by_id("rtx-4090"))
    lattice = PlanLattice.of([TrainingPlan(), TrainingPlan(offload_parameters=True)])
    short = exposed_stream_s(job, lattice, cluster, np.array([8.0, 8.0]), np.array([0.5, 0.5]))
    assert short[0] == 0.0
    assert short[1] > 0.5
    assert exposed_stream_s(job, lattice, cluster, np.array([8.0, 8.0]), np.array([1e3, 1e3])).max() == 0.0


PLAN = TrainingPlan(8, 4, 2, data_parallel=8, sharding="zero1", recompute="selective", schedule="interleaved")


def test_flags_say_what_the_plan_says() -> None:
    job = TrainingJob(models.get("mixtral-8x7b").record, 4096, 256, "fp8")
    plan = replace(PLAN, expert_parallel=8, expert_tensor_parallel=1, context_parallel=2)
    text = megatron_flags(job, plan)
    for part in (
        "--tensor-model-parallel-size 8",
        "--pipeline-model-parallel-size 4",
        "--fp8-format hybrid",
        "--num-virtual-stages-per-pipeline-rank 2",
        "--expert-tensor-parallel-size 1",
        "--context-parallel-size 2",
        "--expert-model-parallel-size 8",
        "--use-distributed-optimizer",
        "--recompute-granularity selective",
        "--sequence-parallel",
    ):
        assert part in text
    assert "model.virtual_pipeline_model_parallel_size=2" in nemo_flags(job, plan)
    qwen = replace(job, model=models.get("qwen3-30b-a3b").record)
    assert "pipeline_parallel_schedule Interleaved1F1B" in torchtitan_flags(qwen, plan)
    uneven = replace(
        plan,
        virtual_stages=1,
        first_stage_layers=7,
        last_stage_layers=7,
        recompute="full",
        recompute_layers=3,
    )
    assert "--decoder-first-pipeline-num-layers 7" in megatron_flags(job, uneven)
    assert "--recompute-method block --recompute-num-layers 3" in megatron_flags(job, uneven)


def test_uneven_stages_are_written_out() -> None:
    job = TrainingJob(models.get("deepseek-v3").record, 4096, 256)
    plan = TrainingPlan(1, 4, data_parallel=8, sharding="zero1")
    assert '--pipeline-model-parallel-layout "Et*15|t*15|t*16|t*15L"' in megatron_flags(job, plan)
    assert "pipeline_model_parallel_layout='Et*15|" in nemo_flags(job, plan)
    assert "layout" not in megatron_flags(TrainingJob(LLAMA, 4096, 256), plan)


def test_each_framework_is_offered_only_what_it_runs() -> None:
    job = TrainingJob(LLAMA, 4096, 256)
    assert set(launch_flags(job, PLAN)) == {"megatron-lm", "nemo"}  # torchtitan has no ZeRO-1
    titan = replace(PLAN, schedule="zbv", virtual_stages=2, sharding="zero3")
    assert set(launch_flags(job, titan)) == {"torchtitan"}
    assert launch_flags(job, replace(PLAN, schedule="zb_h1", virtual_stages=1)) == {}
    alone = TrainingPlan(data_parallel=8, sharding="zero3")
    assert "--fsdp_version 2" in launch_flags(job, alone)["trl"]
    assert "--use-megatron-fsdp" in launch_flags(job, alone)["megatron-lm"]
    adapters = replace(job, method="qlora", lora_rank=16, framework="peft", optimizer="adamw_8bit")
    assert "--load_in_4bit" in trl_flags(adapters, alone)
    assert set(launch_flags(adapters, alone)) == {"trl"}
    loop = verl_flags(job, alone, LoopShape("grpo", 512, 16, (512, 8192), 2, 16, 8))
    assert "trainer.nnodes=2" in loop
    assert "rollout.n=16" in loop
