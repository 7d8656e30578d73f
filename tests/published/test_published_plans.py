"""The plans of published runs, as their reports state them, fit and reach the rate that was measured."""

from typing import Any

import pytest

from advisor.catalog import accelerators, models
from advisor.decide.training.scenario import TrainingTask
from advisor.decide.training.search import Tally, best_plans, does_fit, evaluate_plan
from advisor.decide.training.space import variants_of
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

NVIDIA = TrainingPlan(8, 8, 8, 2, data_parallel=4, sharding="zero1", schedule="interleaved")
META = TrainingPlan(
    8,
    16,
    4,
    data_parallel=128,
    sharding="zero2",
    schedule="interleaved",
    first_stage_layers=7,
    last_stage_layers=7,
)
DEEPSEEK = TrainingPlan(
    1, 16, expert_parallel=64, data_parallel=128, sharding="zero1", schedule="dualpipe", recompute="modules"
)
GRADIENTS = frozenset({"bf16_grad_reduce"})
WEIGHTS = frozenset({"fp8_allgather"})
RUNS = [
    # dgxc-benchmarking v25.04: 19.8 and 12.4 s a step of 256 sequences on 512 GPUs.
    ("llama-3.1-405b", "h100-sxm", (8192, 256), NVIDIA, {"features": GRADIENTS}, 207, 0.09),
    (
        "llama-3.1-405b",
        "h100-sxm",
        (8192, 256),
        NVIDIA,
        {"compute_dtype": "fp8", "features": GRADIENTS | WEIGHTS},
        330,
        0.09,
    ),
    # arXiv:2407.21783, table 4: 400 TFLOP/s per GPU.
    ("llama-3.1-405b", "h100-sxm", (8192, 2048), META, {}, 158, 0.09),
    # arXiv:2412.19437: 14.8 T tokens in 2.664 M H800-hours.
    (
        "deepseek-v3",
        "h800-sxm",
        (4096, 15360),
        DEEPSEEK,
        {"compute_dtype": "fp8", "optimizer": "adamw_bf16", "features": WEIGHTS | {"later_tokens"}},
        1543,
        0.09,
    ),
]


@pytest.mark.parametrize(
    ("model", "gpu", "batch", "plan", "more", "measured", "within"),
    RUNS,
    ids=["NVIDIA", "fp8", "Meta", "DeepSeek"],
)
def test_a_published_plan_fits_and_reaches_its_rate(
    model: str,
    gpu: str,
    batch: tuple[int, int],
    plan: TrainingPlan,
    more: dict[str, Any],
    measured: float,
    within: float,
) -> None:
    job = TrainingJob(models.get(model).record, *batch, **more)
    found = evaluate_plan(job, TrainingCluster(accelerators.by_id(gpu)), plan)
    rate = job.tokens_per_step / found.num_accelerators / found.step_s
    assert does_fit(found)
    assert rate == pytest.approx(measured, rel=within)


def test_cards_on_pcie_are_not_laid_out_in_tensor_parallel() -> None:
    """70B on 64 L40S: sums along PCIe cost more than they divide."""
    task = TrainingTask(tokens=1e12, sequence_tokens=8192, global_batch=512)
    variants, _ = variants_of(accelerators.by_id("l40s"), models.get("llama-3.1-70b").record, task)
    plan = best_plans(variants, 64, Tally(), keep=1)[0].plan
    assert plan.tensor_parallel < 8
