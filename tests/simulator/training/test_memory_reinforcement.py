"""Model copies of DPO, PPO and GRPO, and generation on the machines that train."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import models
from advisor.simulator.graph.training import model_shape
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import (
    Algorithm,
    Companions,
    Generation,
    companion_bytes,
    companion_parts,
    companion_stages,
    loop_memory,
    preference_job,
)

POLICY = TrainingJob(models.get("llama-2-7b").record, 2048, 64, framework="deepspeed")
PLAN = TrainingPlan(data_parallel=8, sharding="zero3", recompute="full")
PARAMETERS = model_shape(POLICY.model).total


def held_bytes(companions: Companions, job: TrainingJob = POLICY, plan: TrainingPlan = PLAN) -> float:
    return float(companion_bytes(job, PlanLattice.of([plan]), companions)[0])


def test_grpo_keeps_a_reference_and_ppo_a_critic_too() -> None:
    assert held_bytes(Companions("grpo")) == pytest.approx(2 * PARAMETERS / 8, rel=1e-3)
    # A critic has one output in place of a head.
    critic = PARAMETERS - POLICY.model.vocab_size * POLICY.model.hidden_size
    assert held_bytes(Companions("ppo")) == pytest.approx((2 * PARAMETERS + 16 * critic) / 8, rel=1e-3)
    assert held_bytes(Companions("grpo", has_reference=False)) == 0.0


@pytest.mark.parametrize("algorithm", ["grpo", "ppo", "dpo", "orpo"])
def test_stages_hold_what_their_fullest_holds_of_the_other_models(algorithm: Algorithm) -> None:
    plan = TrainingPlan(tensor_parallel=2, pipeline_parallel=4, sharding="zero1")
    job = replace(POLICY, framework="megatron")
    companions = Companions(algorithm)
    whole = companion_parts(job, PlanLattice.of([plan]), companions)
    stages = companion_stages(job, plan, companions)
    assert len(stages) == 4
    for name, size in whole.items():
        assert max(stage[name] for stage in stages) >= float(size[0]) * (1 - 1e-9)
        assert sum(stage[name] for stage in stages) <= 4.01 * float(size[0])
    assert all(stage.keys() == whole.keys() for stage in stages)


def test_adapters_need_no_reference() -> None:
    assert held_bytes(Companions("grpo"), replace(POLICY, method="lora", lora_rank=16)) == 0.0


def test_a_reward_model_adds_its_weights_or_waits_on_the_host() -> None:
    judge = models.get("llama-2-13b").record
    with_judge = Companions("grpo", reward_model=judge)
    assert held_bytes(with_judge) - held_bytes(Companions("grpo")) == pytest.approx(
        2 * model_shape(judge).total / 8, rel=1e-3
    )
    assert held_bytes(replace(with_judge, frozen_on_host=True)) == 0.0


def test_dpo_runs_two_answers_at_once() -> None:
    assert preference_job(POLICY, "dpo").sequence_tokens == 4096
    single, pair = (loop_memory(POLICY, PLAN, Companions(name))[-1] for name in ("grpo", "dpo"))
    assert pair.policy_bytes > single.policy_bytes
    assert [phase.name for phase in loop_memory(POLICY, PLAN, Companions("dpo"), Generation(1, 1000))] == [
        "log-probabilities",
        "training",
    ]


def test_generation_beside_training_states_needs_more_than_without() -> None:
    """Llama-2-7B: 0.5 MiB of keys and values per token, 13.5 GB of weights on one accelerator."""
    away = loop_memory(POLICY, PLAN, Companions("grpo"), Generation(1, 64 * 2048))[0]
    beside = loop_memory(POLICY, PLAN, Companions("grpo"), Generation(1, 64 * 2048, training_on_host=False))[
        0
    ]
    assert away.name == "generation"
    assert away.kv_bytes == pytest.approx(64 * 2048 * 2**19)
    assert beside.peak_bytes - away.peak_bytes == pytest.approx(16 * PARAMETERS / 8, rel=1e-3)


@settings(deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 10**6))
def test_tensor_parallel_generation_divides_weights_and_cache(tensor: int, tokens: int) -> None:
    one = loop_memory(POLICY, PLAN, Companions("grpo"), Generation(1, tokens))[0]
    more = loop_memory(POLICY, PLAN, Companions("grpo"), Generation(tensor, tokens))[0]
    assert more.kv_bytes == pytest.approx(one.kv_bytes / tensor)
    assert more.engine_bytes <= one.engine_bytes
