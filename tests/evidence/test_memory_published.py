"""Peaks that were measured or printed: own steps on H200, Megatron on B200, torchtitan, torchtune, Qwen's recipes."""

import csv
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.files import DATA_DIR
from advisor.catalog.schema import Model
from advisor.catalog.units import GB, GIB
from advisor.evidence.training.prediction import predict_row
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory import MemoryColumns, peak_memory
from advisor.simulator.training.plan import PlanLattice, TrainingPlan


def cut(name: str, *counts: int) -> Model:
    """The model with so many layers of each group, as reduced runs have them."""
    model = models.get(name).record
    groups = zip(model.layers, counts, strict=True)
    layers = tuple(group.model_copy(update={"count": count}) for group, count in groups)
    return model.model_copy(update={"layers": layers, "mtp_layers": 0})


def memory(job: TrainingJob, **layout: Any) -> MemoryColumns:
    return peak_memory(job, PlanLattice.of([TrainingPlan(**layout)]))


MEGATRON = [
    # model, layers per group, tokens, tensor, pipeline, context, data, expert parallel, allocated GiB
    ("llama-3-70b", (12,), 4096, 1, 2, 1, 4, 1, 66.55),
    ("llama-3-70b", (12,), 4096, 2, 1, 1, 4, 1, 60.68),
    ("llama-3-70b", (12,), 4096, 8, 1, 1, 1, 1, 28.29),
    ("llama-3.1-405b", (4,), 4096, 1, 2, 1, 4, 1, 87.08),
    ("llama-3.1-405b", (4,), 4096, 4, 1, 1, 2, 1, 52.89),
    ("llama-3-70b", (12,), 131072, 1, 1, 8, 1, 1, 147.99),
    ("llama-3.1-405b", (4,), 32768, 2, 1, 4, 1, 1, 87.03),
    ("deepseek-v2", (1, 3), 4096, 1, 1, 1, 8, 8, 45.63),
    ("deepseek-v3", (1, 3), 4096, 1, 1, 1, 8, 8, 104.30),
    ("deepseek-v3", (1, 3), 4096, 1, 2, 1, 4, 4, 114.00),
]


@pytest.mark.parametrize(("name", "layers", "tokens", "tp", "pp", "cp", "dp", "ep", "real_gib"), MEGATRON)
def test_megatron_on_b200(
    name: str,
    layers: tuple[int, ...],
    tokens: int,
    tp: int,
    pp: int,
    cp: int,
    dp: int,
    ep: int,
    real_gib: float,
) -> None:
    """MooreThreads/SimuMax docs/b200/b200_release_v1.2_summary.md: torch.cuda.max_memory_allocated over all ranks."""
    job = TrainingJob(cut(name, *layers), tokens, 4 * dp, features=frozenset({"fused_ce"}))
    found = memory(
        job,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        context_parallel=cp,
        data_parallel=dp,
        expert_parallel=ep,
        sharding="zero1",
    )
    assert found.allocated_bytes[0] / GIB == pytest.approx(real_gib, rel=0.035)


TITAN = [
    ("llama-3.1-8b", {"data_parallel": 8, "micro_batch": 2, "recompute": "selective"}, 16, 77.0),
    ("llama-3.1-8b", {"data_parallel": 128, "micro_batch": 2, "recompute": "selective"}, 256, 62.0),
    (
        "llama-3.1-70b",
        {"data_parallel": 32, "tensor_parallel": 8, "micro_batch": 16, "recompute": "full"},
        512,
        71.9,
    ),
    (
        "llama-3.1-405b",
        {
            "data_parallel": 8,
            "tensor_parallel": 8,
            "pipeline_parallel": 8,
            "micro_batch": 4,
            "recompute": "full",
        },
        256,
        82.5,
    ),
]


@pytest.mark.parametrize(("name", "layout", "batch", "real_gib"), TITAN)
def test_torchtitan_on_h100(name: str, layout: dict[str, Any], batch: int, real_gib: float) -> None:
    """pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md: reserved peaks with torch.compile."""
    features = frozenset({"compile", "fp32_params", "fp32_grad_reduce"})
    job = TrainingJob(models.get(name).record, 8192, batch, framework="torchtitan", features=features)
    found = memory(job, sharding="zero3", **layout)
    assert found.reserved_bytes[0] / GIB == pytest.approx(real_gib, rel=0.12)


@pytest.mark.parametrize(
    ("features", "optimizer", "method", "layout", "real_gib"),
    [
        (("optim_in_backward", "paged_optimizer"), "adamw_8bit", "full", {"recompute": "full"}, 18.9),
        ((), "adamw", "lora", {}, 30.3),
        ((), "adamw", "qlora", {"recompute": "full", "offload_activations": True}, 7.4),
    ],
)
def test_torchtune_with_8b_on_one_device(
    features: tuple[str, ...], optimizer: Any, method: Any, layout: dict[str, Any], real_gib: float
) -> None:
    """pytorch/torchtune README.md: Llama 3.1 8B, batch 2, packed to 2 048 tokens, compiled."""
    switches = frozenset({"compile", "chunked_ce", *features})
    job = TrainingJob(
        models.get("llama-3.1-8b").record,
        2048,
        2,
        framework="fsdp",
        software="torchtune",
        method=method,
        lora_rank=8,
        optimizer=optimizer,
        features=switches,
    )
    found = memory(job, micro_batch=2, **layout)
    assert found.allocated_bytes[0] / GIB == pytest.approx(real_gib, rel=0.10)


@pytest.mark.parametrize(
    ("name", "method", "micro", "real_gb"),
    [
        ("llama-2-7b", "lora", 2, 19.77),
        ("llama-2-7b", "qlora", 2, 13.68),
        ("llama-3-8b", "lora", 1, 19.73),
        ("llama-3-8b", "qlora", 2, 17.41),
        ("llama-3.2-3b", "qlora", 2, 10.3),
        ("mistral-7b", "lora", 2, 20.66),
        ("mistral-7b", "qlora", 2, 14.29),
    ],
)
def test_litgpt_on_one_device(name: str, method: Any, micro: int, real_gb: float) -> None:
    """Lightning-AI/litgpt config_hub/finetune/README.md: rank 32 on queries and values, 512 tokens, allocated."""
    model = models.get(name).record
    job = TrainingJob(model, 512, 8, framework="fsdp", software="litgpt", method=method, lora_rank=32)
    assert memory(job, micro_batch=micro).allocated_bytes[0] / GB == pytest.approx(real_gb, rel=0.025)


@pytest.mark.parametrize(("tokens", "real_gib"), [(256, 20.1), (2048, 23.8), (8192, 36.6)])
def test_lora_of_qwen_7b_on_one_a100(tokens: int, real_gib: float) -> None:
    """QwenLM/Qwen README.md: memory shown by the device, batch 1, gradient checkpointing."""
    job = TrainingJob(
        models.get("qwen1.5-7b").record,
        tokens,
        8,
        framework="peft",
        method="lora",
        lora_rank=64,
        features=frozenset({"adapters_all_linear"}),
    )
    assert memory(job, recompute="full").peak_bytes[0] / GIB == pytest.approx(real_gib, rel=0.08)


def test_why_seven_billion_parameters_do_not_train_on_80_gb() -> None:
    job = TrainingJob(models.get("llama-2-7b").record, 4096, 8, framework="deepspeed")
    found = memory(job, recompute="full")
    assert found.peak_bytes[0] > 108 * GB


def own_rows() -> list[dict[str, str]]:
    path = DATA_DIR / "training" / "measured-h200-2026-11-20.csv"
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", own_rows(), ids=lambda row: row["case_id"])
def test_own_steps_on_h200(row: dict[str, str]) -> None:
    """One to four H200: FSDP2, DDP, autocast, bf16, compiled, recomputed, chunked, accumulated: allocated bytes."""
    found = predict_row(row, 2).metrics["peak_mem_gb"]
    assert found.value == pytest.approx(float(row["peak_mem_gb"]), rel=0.025)
