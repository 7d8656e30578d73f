"""`advisor validate training`: published runs in, predictions with intervals and scores by group out."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
POINTS = Path(__file__).resolve().parents[1] / "published" / "training_points.csv"
METRICS = (
    "tokens_per_s_per_gpu",
    "tflops_per_gpu",
    "mfu",
    "step_time_s",
    "time_to_train_min",
    "peak_mem_gb",
    "oom",
)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_published_runs_are_predicted_and_scored(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    run = cli(f"advisor validate training {POINTS} --predictions {out} --json")
    assert run.code == 0
    rows = read(out)
    columns = {f"{part}_{name}" for name in METRICS for part in ("pred", "low", "high")}
    assert set(rows[0]) == {"case_id", "status", "reason", "basis"} | columns
    assert [row["case_id"] for row in rows] == [row["case_id"] for row in read(POINTS)]
    document = json.loads(run.out)
    assert document["coverage"] == 1.0
    scores = document["metrics"]["tokens_per_s_per_gpu"]
    assert scores["overall"]["n"] == len(rows)
    assert scores["overall"]["median_ape"] < 0.10
    assert {"gpu", "framework", "model", "precision", "finetune", "source"} == scores["by"].keys()


@pytest.mark.parametrize("bad", ["n_gpus", "seq_len"])
def test_a_bad_row_is_named_and_the_others_are_predicted(cli: Cli, tmp_path: Path, bad: str) -> None:
    rows = read(POINTS)[:3]
    rows[1][bad] = "several"
    cases = tmp_path / "cases.csv"
    out = tmp_path / "predictions.csv"
    with cases.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    run = cli(f"advisor validate training {cases} --predictions {out}")
    assert run.code == 0
    assert [row["status"] for row in read(out)] == ["ok", "error", "ok"]
    assert f"row 3: {bad}" in run.err


def test_a_table_without_its_columns_is_refused_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    out = tmp_path / "predictions.csv"
    cases.write_text("model,seq_len\nllama,1\n")
    run = cli(f"advisor validate training {cases} --predictions {out}")
    assert run.code == 2
    assert "gpu" in run.err
    assert not out.exists()
