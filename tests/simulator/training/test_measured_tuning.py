"""Steps of TRL measured on one H200 (tools/measure_tuning.py): memory as allocated, parameters that learn, time."""

import csv
import statistics
from dataclasses import replace
from functools import cache

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.files import DATA_DIR
from advisor.catalog.schema import GroupedQueryAttention
from advisor.decide.training.space import training_job
from advisor.simulator.graph.model import layers_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import adapter_input_bytes, adapter_parameters
from advisor.simulator.training.memory.formats import formats_of
from advisor.simulator.training.memory.peak import peak_memory
from advisor.simulator.training.plan import PlanLattice, TrainingPlan

ROWS = tuple(
    csv.DictReader((DATA_DIR / "training" / "measured-tuning-h200-2026-11-30.csv").read_text().splitlines())
)
WITHOUT_LIGER = tuple(row for row in ROWS if row["liger"] == "0")


def job_of(row: dict[str, str]) -> TrainingJob:
    batch = int(row["micro_batch"]) * int(row["grad_accum"])
    return training_job(
        *(models.by_id(row["model"]), int(row["sequence"]), batch, "bf16", "peft"),
        method=row["method"],  # type: ignore[arg-type]
        lora_rank=int(row["lora_rank"]),
        architecture=accelerators.by_id("h200-sxm").architecture,
    )


@cache
def allocated_gb() -> tuple[float, ...]:
    found = []
    for row in WITHOUT_LIGER:
        plan = TrainingPlan(micro_batch=int(row["micro_batch"]), recompute=row["recompute"])  # type: ignore[arg-type]
        found.append(float(peak_memory(job_of(row), PlanLattice.of([plan])).allocated_bytes[0]) / 1e9)
    return tuple(found)


def test_peaks_are_met() -> None:
    errors = [
        abs(predicted / float(row["peak_allocated_gb"]) - 1)
        for row, predicted in zip(WITHOUT_LIGER, allocated_gb(), strict=True)
    ]
    assert max(errors) < 0.045
    assert statistics.median(errors) < 0.015


@pytest.mark.parametrize(
    "row", [row for row in WITHOUT_LIGER if row["method"] != "full"], ids=lambda row: row["model"]
)
def test_as_many_parameters_learn_as_peft_counts(row: dict[str, str]) -> None:
    job = job_of(row)
    formats = formats_of(job)
    learned = sum(layer.count * adapter_parameters(layer, job, formats) for layer in layers_of(job.model))
    assert learned == int(row["trainable_parameters"])


def test_norms_of_queries_and_keys_take_memory() -> None:
    plan = PlanLattice.of([TrainingPlan()])
    job = job_of(next(row for row in ROWS if row["model"] == "qwen3-8b" and row["recompute"] == "none"))
    (group,) = job.model.layers
    assert isinstance(group.mixer, GroupedQueryAttention)
    mixer = group.mixer.model_copy(update={"query_key_norm": "none"})
    group = group.model_copy(update={"mixer": mixer})
    plain = replace(job, model=job.model.model_copy(update={"layers": (group,)}))
    normed, without = (peak_memory(each, plan).activation_bytes[0] for each in (job, plain))
    # In fp32, for 5 120 values a token and layer.
    assert normed - without == pytest.approx(4 * (32 + 8) * 128 * 36 * job.sequence_tokens)


def test_autocast_halves_what_adapters_keep() -> None:
    """A trainer casts the input of each matrix back to 16 bits; PEFT's comparison of its methods keeps it in fp32."""
    trainer = job_of(ROWS[0])
    layer = layers_of(trainer.model)[0]
    kept = adapter_input_bytes(layer, trainer, formats_of(trainer))
    comparison = replace(trainer, software="transformers+peft")
    assert adapter_input_bytes(layer, comparison, formats_of(comparison)) == pytest.approx(2.0 * kept)
