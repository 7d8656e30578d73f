"""The plan that the search picks, against the throughput that people reached by tuning the same job by hand."""

import csv
from pathlib import Path

import pytest

from advisor.catalog import accelerators, models
from advisor.decide.training.scenario import TrainingTask
from advisor.decide.training.search import Tally, best_plans, simulate_pipeline
from advisor.decide.training.space import variants_of


def published_rates(table: Path) -> dict[tuple[str, int], float]:
    """Tokens per second and GPU of the dgxc benchmarks in bf16, by model and GPUs."""
    best: dict[tuple[str, int], float] = {}
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"] == "dgxc-25.04" and row["precision"] == "bf16" and row["tokens_per_s_per_gpu"]:
                key = (row["model"], int(float(row["n_gpus"])))
                best[key] = max(best.get(key, 0.0), float(row["tokens_per_s_per_gpu"]))
    return best


@pytest.mark.parametrize(
    ("model", "count", "sequence", "batch"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", 64, 8192, 1024),
        ("Nemotron4 15b", 64, 4096, 256),
        ("meta-llama/Meta-Llama-3.1-70B", 256, 8192, 512),
        ("Nemotron4 340b", 256, 4096, 64),
        ("meta-llama/Meta-Llama-3.1-405B", 512, 8192, 256),
    ],
)
def test_the_search_reaches_what_tuning_reached(
    shared_data: Path, model: str, count: int, sequence: int, batch: int
) -> None:
    """Within a quarter: lower would mean a missed layout, higher an optimum that exists in the model alone."""
    measured = published_rates(shared_data / "truth" / "training.csv")[model, count]
    task = TrainingTask(tokens=1e12, sequence_tokens=sequence, global_batch=batch)
    variants, _ = variants_of(accelerators.by_id("h100-sxm"), models.get(model).record, task)
    plan = simulate_pipeline(best_plans(variants, count, Tally(), keep=1)[0])
    predicted = batch * sequence / plan.step_s / count
    assert 0.8 < predicted / measured < 1.25
