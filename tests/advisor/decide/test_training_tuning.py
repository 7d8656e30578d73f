"""Fine-tuning: states in host memory as a last resort, optimizers by framework, plans that have commands."""

import datetime
import re
from dataclasses import replace

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.host_memory import usual_host_bytes
from advisor.catalog.schema import Price
from advisor.decide.reason import FailsTooOften, NotWorthCommitting
from advisor.decide.training.money import ClusterOffer, unsold
from advisor.decide.training.recommend import compute_of, recommend_training
from advisor.decide.training.result import TrainingOption
from advisor.decide.training.runs import TrainingRun, run_of, trained_parameters
from advisor.decide.training.scenario import (
    Placement,
    Reliability,
    RolloutTask,
    TrainingLimits,
    TrainingScenario,
    TrainingTask,
)
from advisor.decide.training.search import Tally, best_of_lattice, best_plans, evaluate_plan
from advisor.decide.training.space import (
    COMPUTE_DTYPES,
    Variant,
    host_layouts,
    limits_of,
    peak_flop_per_s,
    training_job,
    variants_of,
)
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.flop import model_flop_per_token
from advisor.simulator.training.job import Method, TrainingJob
from advisor.simulator.training.lattice import enumerate_lattice
from advisor.simulator.training.launch_flags import launch_flags
from advisor.simulator.training.plan import RECOMPUTES, PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import RULES, Algorithm, generates
from advisor.simulator.training.step_host import host_bytes

DAY = datetime.date(2026, 11, 20)
TASK = TrainingTask(tokens=1e7, sequence_tokens=4096, global_batch=64, may_offload=True)
H100 = accelerators.by_id("h100-sxm")


def first_option(model: str, count: int, **changes: object) -> TrainingOption:
    question = TrainingScenario(
        model=model,
        workload="finetune",
        task=TASK.model_copy(update=changes),
        as_of=DAY,
        limits=TrainingLimits(accelerators=("h100-sxm",), num_accelerators=count),
    )
    return recommend_training(question).options[0]


def test_14b_is_tuned_on_one_card_with_its_optimizer_in_host_memory() -> None:
    option = first_option("qwen2.5-14b", 1)
    assert option.plan.offload == "optimizer"
    assert option.plan.framework == "deepspeed"
    assert '"offload_optimizer": {"device": "cpu"}' in option.launch.flags["deepspeed"]
    assert "--offload_optimizer_device cpu" in option.launch.flags["trl"]
    assert option.performance.peak_memory_bytes.value < (option.performance.memory_limit_bytes or 0.0)
    with pytest.raises(InfeasibleError, match="nothing trains"):
        first_option("qwen2.5-14b", 1, may_offload=False)


def test_host_memory_is_only_used_where_nothing_else_fits() -> None:
    assert first_option("llama-3.1-8b", 8).plan.offload == ""
    assert first_option("mixtral-8x7b", 8).plan.offload == "optimizer"


def test_what_the_host_does_not_hold_is_refused_with_the_nearest_that_works() -> None:
    with pytest.raises(InfeasibleError) as error:
        first_option("qwen3-32b", 1)
    assert "host memory" in error.value.why
    count = int(error.value.hint.split(": ")[1].split(" x ")[0])
    variants, _ = variants_of(H100, models.get("qwen3-32b").record, TASK)
    assert best_plans(variants, count, Tally())


def test_host_bytes_are_those_of_zero_offload() -> None:
    """Master, two moments and gradients in fp32: 16 bytes a parameter, and 2 of the weights."""
    variants, _ = variants_of(H100, models.get("qwen2.5-14b").record, TASK)
    job = next(each.job for each in variants if each.job.framework == "deepspeed")
    plan = TrainingPlan(recompute="full", offload_optimizer=True)
    states, everything = (
        float(host_bytes(job, PlanLattice.of([each]))[0])
        for each in (plan, replace(plan, offload_parameters=True))
    )
    assert states == pytest.approx(16 * 14.77e9, rel=0.01)
    assert everything - states == pytest.approx(2 * 14.77e9, rel=0.01)
    assert states < usual_host_bytes(H100) < everything


def test_gradients_that_ranks_divide_follow_the_optimizer_to_the_host() -> None:
    variants, _ = variants_of(H100, models.get("mixtral-8x7b").record, TASK)
    one = next(each for each in variants if each.job.framework == "deepspeed")
    stays, goes = (
        evaluate_plan(
            one.job, one.cluster, TrainingPlan(data_parallel=8, sharding=sharding, offload_optimizer=True)
        ).memory_bytes["gradient"]
        for sharding in ("zero1", "zero2")
    )
    assert goes == 0.0
    assert stays == pytest.approx(2 * 46.7e9, rel=0.01)


@pytest.mark.parametrize(
    "optimizer", ["adamw", "adamw_bf16", "adamw_8bit", "adafactor", "lion", "muon", "sgd"]
)
def test_every_optimizer_is_tuned_by_a_framework_that_has_it(optimizer: str) -> None:
    option = first_option("llama-3.1-8b", 8, optimizer=optimizer)
    assert option.launch.flags
    assert option.usd.value > 0


def test_smaller_states_take_less_memory() -> None:
    peaks = [
        first_option("llama-3.1-8b", 8, optimizer=name, frameworks=("deepspeed",)).performance.memory_bytes[
            "optimizer"
        ]
        for name in ("adamw", "lion", "adamw_8bit", "adafactor")
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 4


@pytest.mark.parametrize(
    ("gpu", "model", "changes"),
    [
        ("h100-sxm", "llama-3.1-8b", {}),
        ("h100-sxm", "mixtral-8x7b", {"compute_dtypes": ("fp8",)}),
        ("h100-sxm", "llama-3.1-8b", {"method": "qlora", "lora_rank": 16}),
        ("b200-sxm", "llama-3.1-8b", {"compute_dtypes": ("mxfp8", "nvfp4")}),
        ("v100-sxm2-16gb", "llama-3.2-3b", {}),
        ("tpu-v5p", "llama-3.1-8b", {}),
        ("mi300x", "llama-3.1-8b", {}),
    ],
)
def test_every_plan_that_is_considered_has_a_command(
    gpu: str, model: str, changes: dict[str, object]
) -> None:
    task = TASK.model_copy(update=changes)
    variants, reason = variants_of(accelerators.by_id(gpu), models.get(model).record, task)
    assert variants, reason
    without = set()
    for variant in variants:
        lattice = enumerate_lattice(variant.job, 8, variant.limits)
        for row in range(0, len(lattice), max(1, len(lattice) // 150)):
            if not launch_flags(variant.job, lattice.plan(row), as_priced=True):
                without.add((variant.job.framework, variant.job.compute_dtype, lattice.plan(row)))
    assert not without, sorted(map(str, without))[:5]


def test_v100s_train_in_fp16() -> None:
    variants, _ = variants_of(accelerators.by_id("v100-sxm2-16gb"), models.get("llama-3.2-3b").record, TASK)
    assert {variant.job.compute_dtype for variant in variants} == {"fp16"}


def test_an_optimizer_that_no_framework_has_is_refused_by_name() -> None:
    task = TASK.model_copy(update={"optimizer": "adafactor", "may_offload": False})
    variants, reason = variants_of(H100, models.get("llama-3.1-8b").record, task)
    assert not variants
    assert "adafactor" in str(reason)


def test_clusters_that_nobody_sells_are_said() -> None:
    assert "131,072 can be had" in unsold(H100, 262_144, DAY)
    assert unsold(H100, 1024, DAY) == ""
    assert "8 can be had" in unsold(accelerators.by_id("rtx-4090"), 1024, DAY)


@pytest.mark.parametrize(
    ("gpu", "formats"),
    [
        ("h100-sxm", {"bf16", "fp16", "fp8"}),
        ("b200-sxm", {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}),
        ("mi355x", {"bf16", "fp16", "fp8", "mxfp8"}),
        ("a100-sxm-80gb", {"bf16", "fp16"}),
    ],
)
def test_block_scaled_formats_need_units_that_scale(gpu: str, formats: set[str]) -> None:
    chip = accelerators.by_id(gpu)
    assert {name for name in COMPUTE_DTYPES if peak_flop_per_s(chip, name)} == formats


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "ppo", "dpo", "kto", "reward"])
@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_every_loop_has_a_command(algorithm: Algorithm, placement: Placement) -> None:
    rollout = RolloutTask(algorithm=algorithm, placement=placement, prompts=64, num_steps=10)
    task = TASK.model_copy(update={"loop": algorithm, "global_batch": 64 * 16, "sequence_tokens": 2560})
    question = TrainingScenario(
        model="qwen2.5-7b",
        workload="rl",
        task=task,
        as_of=DAY,
        rollout=rollout,
        limits=TrainingLimits(accelerators=("h100-sxm",), num_accelerators=8),
    )
    if (placement, algorithm) == ("disaggregated", "ppo"):
        with pytest.raises(InfeasibleError, match="nothing trains") as refused:
            recommend_training(question)
        assert "--off-policy 1" in refused.value.why
        late = rollout.model_copy(update={"steps_off_policy": 1})
        question = question.model_copy(update={"rollout": late})
    flags = recommend_training(question).options[0].launch.flags
    apart = placement == "disaggregated" and generates(algorithm)
    assert ({"openrlhf"} if apart else {"verl"} if generates(algorithm) else {"trl"}) <= set(flags)
    if not generates(algorithm):
        assert f"--module trl.scripts.{algorithm} " in flags["trl"]
        batch, accumulated, ranks = (
            int(re.search(rf"--{name} (\d+)", flags["trl"])[1])  # type: ignore[index]
            for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "num_processes")
        )
        assert batch * accumulated * ranks == 64 * 16 // RULES[algorithm].given_answers


def test_a_reward_model_has_no_vocabulary_to_predict() -> None:
    job = TrainingJob(models.get("llama-3.1-8b").record, 4096, 64, framework="fsdp")
    cluster = TrainingCluster(H100)
    plan = TrainingPlan(data_parallel=8, micro_batch=2, sharding="zero3", recompute="full")
    policy = evaluate_plan(job, cluster, plan)
    judge = evaluate_plan(replace(job, features=frozenset({"scalar_head"})), cluster, plan)
    assert judge.step_s < policy.step_s
    assert judge.memory_bytes["loss"] < 0.1 * policy.memory_bytes["loss"]


def test_ia3_trains_less_than_lora_in_less_memory() -> None:
    job = TrainingJob(
        models.get("llama-3.1-8b").record, 2048, 64, framework="peft", method="lora", lora_rank=16
    )
    job = replace(job, features=frozenset({"adapters_all_linear"}))
    few = replace(job, method="ia3", lora_rank=0)
    assert trained_parameters(few) == 32 * (2 * 1024 + 14336) < trained_parameters(job)
    lora, ia3 = (evaluate_plan(each, TrainingCluster(H100), TrainingPlan()) for each in (job, few))
    assert ia3.peak_memory_bytes < lora.peak_memory_bytes
    assert ia3.step_s < lora.step_s


def test_a_loop_in_a_framework_that_has_none_is_refused() -> None:
    task = TASK.model_copy(update={"loop": "grpo", "frameworks": ("torchtitan",)})
    variants, reason = variants_of(H100, models.get("qwen2.5-7b").record, task)
    assert not variants
    assert "megatron or fsdp" in str(reason)


def run_bought_for(term: str, hours: float, *, mtbf_s: float = 1e9) -> TrainingRun:
    """A run of so many hours on eight accelerators at a term, with failures so often."""
    one = variants_of(H100, models.get("llama-3.1-8b").record, TASK)[0]
    plan = best_plans(one, 8, Tally(), keep=1)[0]
    price = Price(
        provider="aws",
        sku="x8",
        region="",
        accelerator=H100.id,
        num_accelerators=8,
        term=term,
        usd_per_hour=80.0,
        observed_on=DAY,
        valid_from=DAY,
    )
    question = TrainingScenario(
        model="llama-3.1-8b",
        workload="train",
        as_of=DAY,
        task=TASK.model_copy(update={"tokens": hours * 3600 / plan.step_s * plan.job.tokens_per_step}),
        reliability=Reliability(accelerator_mtbf_s=mtbf_s, restart_s=1800.0),
    )
    return run_of(question, plan, ClusterOffer(price, 8, 80.0))


def test_what_fails_more_than_half_of_the_time_is_not_feasible() -> None:
    assert run_bought_for("on_demand", 100.0).infeasible is None
    failing = run_bought_for("on_demand", 100.0, mtbf_s=8 * 1800.0)
    assert failing.goodput.goodput_fraction < 0.5
    assert isinstance(failing.infeasible, FailsTooOften)


def test_commitments_are_billed_whole_and_only_worth_a_tenth_of_their_time() -> None:
    year = 365 * 24
    assert isinstance(run_bought_for("reserved_1y", 0.05 * year).infeasible, NotWorthCommitting)
    long = run_bought_for("reserved_1y", 0.2 * year)
    assert long.infeasible is None
    assert long.usd == pytest.approx(80.0 * year)
    assert run_bought_for("on_demand", 0.2 * year).usd == pytest.approx(80.0 * 0.2 * year, rel=0.05)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_unsloth_packs_experts_of_gpt_oss_and_stores_no_scores(name: str) -> None:
    """Source: unsloth_zoo 2026.10.9, temporary_patches/gpt_oss.py; Unsloth publishes 14 GB for the smaller model."""
    model = models.get(name).record
    jobs = [
        training_job(model, 1024, 8, "bf16", "peft", method="qlora", lora_rank=8, software=software)
        for software in ("unsloth", "")
    ]
    own, others = (
        evaluate_plan(job, TrainingCluster(H100), TrainingPlan(recompute="full")).memory_bytes for job in jobs
    )
    assert own["weight"] < 0.4 * others["weight"]
    assert "unfused_attention" in training_job(model, 1024, 8, "bf16", "peft", architecture="ada").features
    assert "unfused_attention" not in jobs[0].features
    if name == "gpt-oss-20b":
        assert 10e9 < sum(own.values()) < 16.5e9


@pytest.mark.parametrize(("method", "factor"), [("full", 6), ("lora", 4)])
def test_the_compute_of_an_answer_is_what_its_mfu_counts(method: Method, factor: int) -> None:
    rank = 0 if method == "full" else 16
    task = TASK.model_copy(update={"method": method, "lora_rank": rank})
    question = TrainingScenario(model="qwen3-0.6b", workload="finetune", task=task, as_of=DAY)
    model = models.get("qwen3-0.6b").record
    compute = compute_of(question, model)
    job = TrainingJob(model, 4096, 64, method=method, lora_rank=rank)
    assert compute["flop"] == pytest.approx(factor * compute["active_parameters"] * 1e7)
    assert compute["flop_with_attention"] == pytest.approx(model_flop_per_token(job) * 1e7)


def test_long_sequences_are_divided_before_they_are_refused() -> None:
    """LoRA of a 70B at 65,536 tokens on one machine runs in Accelerate's context parallelism."""
    question = TrainingScenario(
        model="llama-3.1-70b",
        workload="finetune",
        task=TASK.model_copy(update={"method": "lora", "lora_rank": 16, "sequence_tokens": 65536}),
        as_of=DAY,
        limits=TrainingLimits(accelerators=("h200-sxm",), num_accelerators=8),
    )
    option = recommend_training(question).options[0]
    assert option.plan.cp > 1
    assert "--parallelism_config_cp_size" in option.launch.flags["trl"]


def test_activations_go_to_the_host_as_a_last_resort() -> None:
    """A window over the sequence keeps Accelerate from dividing it; the inputs of layers have room in host memory."""
    job = training_job(
        *(models.get("gemma-2-27b").record, 32768, 8, "bf16", "peft"), method="lora", lora_rank=16
    )
    cluster = TrainingCluster(H100)
    variants = [
        Variant(job, cluster, limits_of(job, cluster)),
        *host_layouts(job, cluster, limits_of(job, cluster)),
    ]
    assert [each.is_last_resort for each in variants] == [False, True]
    assert not any(variants[0].limits.context_parallel[1:])
    moved = enumerate_lattice(job, 8, variants[1].limits)
    assert len(moved)
    assert moved.offload_activations.all()
    assert (moved.recompute == RECOMPUTES.index("full")).all()
    assert best_of_lattice(job, cluster, moved, Tally())
    assert not best_of_lattice(job, replace(cluster, stated_host_bytes=1e9), moved, Tally())


@pytest.mark.parametrize("sequence", [1024, 2560, 4096])
def test_preferences_of_an_8b_are_learned_on_one_card_without_streaming_its_weights(sequence: int) -> None:
    """Policy, reference and gradients in 16 bits are 48 GB of an H100's 85.5; the 96 GB of AdamW's states are not.

    What is left holds a pair's activations, longer ones recomputed: weights that cross the host's link in every pass,
    with sums of gradients that come back and go again, cost more than computing a forward pass twice.
    """
    rollout = RolloutTask(algorithm="dpo", placement="colocated", prompts=512, num_steps=10)
    task = TASK.model_copy(update={"loop": "dpo", "global_batch": 1024, "sequence_tokens": sequence})
    question = TrainingScenario(
        model="llama-3.1-8b",
        workload="rl",
        task=task,
        as_of=DAY,
        rollout=rollout,
        limits=TrainingLimits(accelerators=("h100-sxm",), num_accelerators=1),
    )
    plan = recommend_training(question).options[0].plan
    assert plan.offload == "optimizer"
    assert plan.recompute == ("none" if sequence == 1024 else "full")
