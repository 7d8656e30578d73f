"""`advisor validate`: predictions depend on inputs alone, bad rows stop nothing, files are whole or absent."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
HEADER = "case_id,source,source_ref,gpu,n_gpus,nodes,fabric,nvls,collective,msg_bytes,time_us,algbw_gbs,busbw_gbs,notes"
GOOD = "a,book,p1,h100-sxm,8,1,NVLink4 NVSwitch,,all_reduce,1073741824,4050,265,464,"
UNKNOWN_GPU = "b,book,p2,h1000,8,1,NVLink4,,all_reduce,1024,10,,,"
BAD_NUMBER = "c,book,p3,h100-sxm,eight,1,NVLink4,,all_reduce,1024,10,,,"
RAGGED = "d,book,p4,h100-sxm"


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "cases.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_row_gets_one_prediction_with_its_interval(
    cli: Cli, table: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "predictions.csv"
    run = cli(
        f"advisor validate collectives {table(GOOD, UNKNOWN_GPU, BAD_NUMBER, RAGGED)} --predictions {out} --json"
    )
    assert run.code == 0
    rows = read(out)
    assert [(row["case_id"], row["status"]) for row in rows] == [
        ("a", "ok"),
        ("b", "unsupported"),
        ("c", "error"),
        ("d", "error"),
    ]
    good = {name: float(rows[0][name]) for name in ("low_time_us", "pred_time_us", "high_time_us")}
    assert good["low_time_us"] < good["pred_time_us"] < good["high_time_us"]
    assert all(rows[3][name] == "" for name in good)
    assert "row 4" in rows[2]["reason"]
    assert "row 5" in rows[3]["reason"]
    document = json.loads(run.out)
    assert document["num_cases"] == 4
    assert document["coverage"] == 0.25
    assert document["statuses"] == {"ok": 1, "unsupported": 1, "error": 2}


def test_scores_are_errors_of_the_predictions_in_the_file(
    cli: Cli, table: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "predictions.csv"
    document = json.loads(cli(f"advisor validate collectives {table(GOOD)} --predictions {out} --json").out)
    error = float(read(out)[0]["pred_time_us"]) / 4050.0 - 1.0
    score = document["metrics"]["time_us"]["overall"]
    assert score["n"] == 1
    assert score["bias"] == pytest.approx(error)
    assert score["mape"] == pytest.approx(abs(error))
    assert document["metrics"]["time_us"]["by"]["gpu"]["h100-sxm"]["n"] == 1


def test_bad_rows_are_named_on_stderr(cli: Cli, table: Callable[..., Path]) -> None:
    run = cli(f"advisor validate collectives {table(GOOD, BAD_NUMBER, RAGGED)}")
    assert run.code == 0
    assert "warning: row 3: n_gpus" in run.err
    assert "warning: row 4: 4 cells under 14 columns" in run.err


@pytest.mark.parametrize(
    "columns", [("time_us", "algbw_gbs", "busbw_gbs"), ("source", "source_ref", "notes")]
)
def test_what_was_measured_and_remarked_is_never_an_input(
    cli: Cli, shared_data: Path, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    rows = read(shared_data / "truth" / "collectives.csv")
    outputs = []
    for shuffled in (False, True):
        for column in columns if shuffled else ():
            values = [row[column] for row in rows]
            random.Random(1).shuffle(values)
            for row, value in zip(rows, values, strict=True):
                row[column] = value
        cases = tmp_path / "cases.csv"
        with cases.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        out = tmp_path / f"predictions-{shuffled}.csv"
        assert cli(f"advisor validate collectives {cases} --predictions {out} -q").code == 0
        outputs.append(out.read_text())
    assert outputs[0] == outputs[1]


def test_a_table_without_measurements_is_predicted_all_the_same(cli: Cli, table: Callable[..., Path]) -> None:
    path = table("h100-sxm,8,all_gather,1024", header="gpu,n_gpus,collective,msg_bytes")
    run = cli(f"advisor validate collectives {path}")
    assert run.code == 0
    assert "nothing to compare with" in run.out
    assert json.loads(cli(f"advisor validate collectives {path} --json").out)["metrics"] == {}


@pytest.mark.parametrize(
    ("header", "rows", "what"),
    [
        (HEADER, [], "holds no cases"),
        ("case_id,gpu", ["a,h100-sxm"], "lacks column collective"),
        ("", [], "lacks column"),
        (HEADER, ['a,"b'], "is not CSV"),
    ],
)
def test_a_bad_table_is_refused(
    cli: Cli, table: Callable[..., Path], tmp_path: Path, header: str, rows: list[str], what: str
) -> None:
    out = tmp_path / "predictions.csv"
    run = cli(f"advisor validate collectives {table(*rows, header=header)} --predictions {out}")
    assert run.code == 2
    assert what in run.err
    assert run.out == ""
    assert not out.exists()


def test_a_missing_table_and_an_unwritable_output_are_refused(
    cli: Cli, table: Callable[..., Path], tmp_path: Path
) -> None:
    missing = cli(f"advisor validate collectives {tmp_path / 'none.csv'}")
    assert missing.code == 2
    assert "no such file" in missing.err
    assert cli(f"advisor validate collectives {tmp_path}").code == 2
    unwritable = cli(
        f"advisor validate collectives {table(GOOD)} --predictions {tmp_path / 'no' / 'out.csv'}"
    )
    assert unwritable.code == 2
    assert "there is no folder" in unwritable.err
    assert unwritable.out == ""


SERVING_HEADER = (
    "case_id,engine,engine_version,model,gpu,tp,mode,spec_decode,weight_dtype,load,concurrency,num_requests,isl,osl,"
    "tier,group,tpot_ms_mean,output_tok_s"
)
SERVED = "a,vllm,0.20.2,llama-3.1-8b,h200-sxm,1,agg,none,bf16,closed,8,24,1024,256,{tier},one,5.0,1500"


def test_published_runs_that_state_their_tier_are_shown_as_the_documented_accuracy(
    cli: Cli, table: Callable[..., Path]
) -> None:
    path = table(SERVED.format(tier="A1"), SERVED.format(tier="B1"), header=SERVING_HEADER)
    run = cli(f"advisor validate serving {path}")
    assert run.code == 0
    assert "Core rows" in run.out
    assert "Core by accelerator (median)" in run.out
    assert "offline, highest throughput (TensorRT-LLM): throughput" in run.out
    accuracy = json.loads(cli(f"advisor validate serving {path} --json").out)["accuracy"]
    assert accuracy["num_core_rows"]["engine"] == {"vllm": 1}
    assert accuracy["core"]["tpot_ms_mean"]["overall"]["n"] == 1
    assert accuracy["other_loads"]["B1"]["output_tok_s"]["n"] == 1


def test_runs_without_a_tier_are_shown_by_group(cli: Cli, table: Callable[..., Path]) -> None:
    path = table(SERVED.format(tier=""), header=SERVING_HEADER)
    run = cli(f"advisor validate serving {path}")
    assert "tpot_ms_mean by gpu" in run.out
    assert "Core rows" not in run.out
    assert "accuracy" not in json.loads(cli(f"advisor validate serving {path} --json").out)


def test_serving_is_scored_as_its_scripts_say_and_as_a_strangers_server(cli: Cli, tmp_path: Path) -> None:
    """InferenceX's scripts give SGLang on B200s 32 768 tokens per step and let it look at its queue every 30 steps."""
    cases = tmp_path / "cases.csv"
    files = {}
    cases.write_text(
        "case_id,tier,group,engine,engine_version,date,model,gpu,n_gpus,tp,weight_dtype,load,concurrency,isl,osl,"
        "length_dist,num_requests,ttft_ms_mean\n"
        "a,A1,g,sglang,0.5.9,2026-03-24,Qwen/Qwen3.5-397B-A17B,b200-sxm,8,8,fp8,closed,16,1024,64,uniform:0.8,160,250\n"
    )
    for options in ("", "--view replay", "--view stranger"):
        out = tmp_path / "predictions.csv"
        run = cli(f"advisor validate serving {cases} --predictions {out} {options} --json")
        assert run.code == 0
        files[options] = read(out)[0]["pred_ttft_ms_mean"]
        document = json.loads(run.out)
        medians = [
            document[name]["ttft_ms_mean"]["overall"]["median_ape"]
            for name in ("metrics", "metrics_stranger")
        ]
        assert medians == [
            document[name]["core"]["ttft_ms_mean"]["overall"]["median_ape"]
            for name in ("accuracy", "accuracy_stranger")
        ]
        assert medians[0] != medians[1]
    assert files[""] == files["--view replay"] != files["--view stranger"]
    assert "as a stranger's server" in cli(f"advisor validate serving {cases}").out
