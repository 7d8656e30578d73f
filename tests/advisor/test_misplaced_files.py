"""A file given to a command that does not take it: the error names the one that does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
BENCH: Final = {
    "model_id": "Qwen/Qwen3-32B",
    "max_concurrency": 1,
    "completed": 100,
    "total_input_tokens": 102400,
    "total_output_tokens": 12800,
    "output_throughput": 31.2,
    "mean_ttft_ms": 129.0,
    "mean_tpot_ms": 31.0,
}
CONFIG: Final = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2}
FILES: Final = {
    "bench.json": json.dumps(BENCH),
    "config.json": json.dumps(CONFIG),
    "smi.txt": "GPU 0: NVIDIA L40S (UUID: GPU-a)\n",
    "prices.csv": "gpu,price\nH100,2.49\n",
    "trace.csv": "arrived_at_s,input_tokens,output_tokens\n0,100,10\n1,200,20\n",
    "plan.json": json.dumps(
        {"schema_version": 2, "options": [{"launch": {"flags": {"trl": "trl sft --bf16"}}}]}
    ),
    "start.sh": "vllm serve Qwen/Qwen3-32B --max-model-len 4096\n",
}
TAKEN_BY: Final = {
    "bench.json": "advisor validate file",
    "config.json": "--model",
    "smi.txt": "--own",
    "prices.csv": "--price-file",
    "trace.csv": "advisor simulate trace",
    "plan.json": "advisor replay",
    "start.sh": "advisor memory",
}


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("advisor simulate trace {file}", "bench.json"),
        ("advisor memory --gpu h100-sxm --model {file}", "bench.json"),
        ("advisor probe read {file}", "bench.json"),
        ("advisor build check {file}", "config.json"),
        ("advisor validate file {file}", "config.json"),
        ("advisor catalog prices --provider acme --price-file {file}", "smi.txt"),
        ("advisor calibrate {file}", "smi.txt"),
        ("advisor recommend --model 8b --trace {file}", "prices.csv"),
        ("advisor validate file {file}", "trace.csv"),
        ("advisor simulate trace {file}", "start.sh"),
    ],
)
def test_a_misplaced_file_is_named_with_the_command_that_takes_it(
    cli: Cli, tmp_path: Path, command: str, file: str
) -> None:
    path = tmp_path / file
    path.write_text(FILES[file])
    run = cli(command.format(file=path))
    assert run.code == 2
    assert f"{file}: " in run.err
    assert TAKEN_BY[file] in run.err.partition("Hint: ")[2]


def test_a_file_in_its_place_is_not_called_misplaced(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,-10\n")
    run = cli(f"advisor simulate trace {path}")
    assert run.code == 2
    assert "taken by" not in run.err


FLEET: Final = 'model = "8b"\n[[pools]]\nname = "a"\ngpu = "l40s"\n[[load]]\nrate = 3\n'
STUDY: Final = 'command = "recommend"\n[base]\nmodel = "8b"\ngpu = "l40s"\n[grid]\nrate = [1, 3]\n'


@pytest.mark.parametrize(
    ("command", "text", "wrong", "right"),
    [
        ("simulate fleet {file}", FLEET, "pools", "[[pool]]"),
        ("simulate fleet {file}", FLEET, "load", "[[loads]]"),
        ("sweep {file} -o r.csv", STUDY, "grid", "[grids]"),
        ("sweep {file} -o r.csv", STUDY, "base", "[options]"),
    ],
)
def test_a_file_of_its_command_with_one_table_misspelt_is_not_called_another(
    cli: Cli, tmp_path: Path, command: str, text: str, wrong: str, right: str
) -> None:
    path = tmp_path / "asked.toml"
    path.write_text(text.replace(f"[[{wrong}]]", right).replace(f"[{wrong}]", right))
    run = cli(f"advisor {command.format(file=path)}")
    assert run.code == 2
    assert "taken by" not in run.err
    assert wrong in run.err.partition("To fix: ")[2]


def test_a_fleet_and_a_study_are_told_apart(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "study.toml").write_text(STUDY)
    assert (
        "a fleet, taken by advisor simulate fleet" in cli(f"advisor sweep {tmp_path}/fleet.toml -o r.csv").err
    )
    assert "a study, taken by advisor sweep" in cli(f"advisor simulate fleet {tmp_path}/study.toml").err


@pytest.mark.parametrize(
    "rows",
    [
        "date,requests\n2026-11-01 00:00,1200\n",
        "hour,calls\n0,77\n1,50\n",
        "Timestamp,Number of queries\n7,3\n",
    ],
)
def test_requests_by_the_hour_are_led_to_the_course_of_a_day(cli: Cli, tmp_path: Path, rows: str) -> None:
    (tmp_path / "hours.csv").write_text(rows)
    run = cli(f"advisor simulate trace {tmp_path}/hours.csv")
    assert run.code == 2
    assert "not requests" in run.err
    assert "--shape FILE.toml" in run.err
