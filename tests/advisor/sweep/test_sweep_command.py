"""`advisor sweep` on one machine: results, interruption, resumption, mistakes."""

import importlib.machinery
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from advisor.__main__ import main

SMALL = """
command = "simulate serve"
pareto = ["min metrics_ttft_s_p99", "max metrics_output_tokens_per_s"]
[base]
model = "8b"
gpu = "h100"
requests = 60
[grid]
rate = [1, 4]
tp = [1, 2]
"""
LONG = SMALL.replace("requests = 60", "requests = 2000").replace("[1, 4]", str(list(range(1, 13))))


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        file = tmp_path / "study.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of the long study, swept without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "study.toml").write_text(LONG, encoding="utf-8")
    assert (
        main(["sweep", str(folder / "study.toml"), "--workers", "1", "-q", "-o", str(folder / "r.csv")]) == 0
    )
    return (folder / "r.csv").read_bytes()


def test_results_are_a_table_that_pandas_reads(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(SMALL)
    run = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert run.code == 0, run.err
    table = pandas.read_csv("r.csv")
    assert len(table) == len(set(table["id"])) == 4
    assert list(table["in_rate"]) == [1, 1, 4, 4]
    assert list(table["in_tp"]) == [1, 2, 1, 2]
    assert (table["status"] == "ok").all()
    alone = json.loads(
        cli("advisor simulate serve --model 8b --gpu h100 --requests 60 --rate 4 --tp 2 --json").out
    )
    assert table["metrics_ttft_s_p99"][3] == alone["metrics"]["ttft_s"]["p99"]["value"]
    assert not [name for name in table if name.endswith("wall_s")]


def test_parquet_holds_the_same(study: Callable[[str], Path], cli: Callable[[str], Any]) -> None:
    pytest.importorskip("pyarrow")
    study(SMALL)
    assert cli("advisor sweep study.toml --workers 1 -o r.csv").code == 0
    assert cli("advisor sweep study.toml --workers 1 -o r.parquet").code == 0
    csv = pandas.read_csv("r.csv")
    parquet = pandas.read_parquet("r.parquet")
    assert list(csv) == list(parquet)
    for name in ("in_rate", "metrics_ttft_s_p99", "metrics_output_tokens_per_s"):
        assert list(csv[name]) == list(parquet[name])


def test_any_number_of_processes_gives_the_same_file(
    study: Callable[[str], Path], cli: Callable[[str], Any], programs: Any
) -> None:
    pytest.importorskip("joblib")
    study(SMALL)
    assert cli("advisor sweep study.toml --workers 1 -o one.csv").code == 0
    program = programs.sweep("--workers", "3", "-o", "three.csv")
    assert program.wait(60) == 0, program.stderr.read()
    assert Path("one.csv").read_bytes() == Path("three.csv").read_bytes()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_ended_sweep_goes_on_where_it_stopped(
    study: Callable[[str], Path], programs: Any, cli: Callable[[str], Any], whole: bytes, how: int, code: int
) -> None:
    study(LONG)
    program = programs.sweep("--workers", "1", "-o", "r.csv")
    programs.wait_until(lambda: programs.num_finished("r.csv") >= 3)
    program.send_signal(how)
    assert program.wait(60) == code
    told = program.stderr.read()
    assert "Traceback" not in told
    if code == 130:
        assert "--resume goes on" in told
        assert told.count("interrupted") == 1
    kept = programs.num_finished("r.csv")
    assert 3 <= kept < 24
    assert not Path("r.csv").exists()

    again = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert again.code == 2  # finished work is not thrown away silently
    assert "--resume" in again.err
    resumed = cli("advisor sweep study.toml --workers 1 -o r.csv --resume")
    assert resumed.code == 0, resumed.err
    assert f"{kept} of 24 points are kept" in resumed.err
    assert programs.num_finished("r.csv") == 24
    assert Path("r.csv").read_bytes() == whole


def test_a_longer_study_keeps_what_is_known(study: Callable[[str], Path], cli: Callable[[str], Any]) -> None:
    study(SMALL)
    assert cli("advisor sweep study.toml --workers 1 -o r.csv").code == 0
    study(SMALL.replace("[1, 4]", "[1, 2, 4]"))
    run = cli("advisor sweep study.toml --workers 1 -o r.csv --resume")
    assert "4 of 6 points are kept" in run.err
    assert list(pandas.read_csv("r.csv")["in_rate"]) == [1, 1, 2, 2, 4, 4]


def test_a_resumed_study_keeps_its_seed_and_day(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(SMALL)
    assert cli("advisor sweep study.toml --workers 1 --as-of 2026-08-01 --seed 5 -o r.csv").code == 0
    study(SMALL.replace("[1, 4]", "[1, 2, 4]"))
    run = cli("advisor sweep study.toml --workers 1 -o r.csv --resume")
    assert "seed 5 and prices of 2026-08-01" in run.err
    table = pandas.read_csv("r.csv")
    assert set(table["in_seed"]) == {5}
    assert set(table["in_as_of"]) == {"2026-08-01"}


def test_rows_of_another_catalog_do_not_mix(
    study: Callable[[str], Path], cli: Callable[[str], Any], tmp_path: Path
) -> None:
    study(SMALL)
    assert cli("advisor sweep study.toml --workers 1 -o r.csv").code == 0
    journal = tmp_path / "r.csv.journal"
    header, *rows = journal.read_text().splitlines()
    journal.write_text(
        "\n".join([json.dumps(json.loads(header) | {"catalog_version": "old"}), *rows[:2]]) + "\n"
    )
    run = cli("advisor sweep study.toml --workers 1 -o r.csv --resume")
    assert run.code == 2
    assert "another catalog" in run.err


def test_points_without_an_answer_are_rows_with_a_reason(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(SMALL.replace("tp = [1, 2]", 'gpu = ["h100", "rtx-3060", "nothing"]').replace('gpu = "h100"\n', ""))
    run = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert run.code == 0
    table = pandas.read_csv("r.csv")
    assert list(table["status"]) == ["ok", "infeasible", "error"] * 2
    assert table["reason"].notna().sum() == 4
    assert "2 points error: unknown accelerator 'nothing'" in run.err
    everything = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert everything.code == 0  # a finished sweep may be asked again


def test_nothing_answered_is_a_failure_that_keeps_the_reasons(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(SMALL.replace('"h100"', '"rtx-3060"').replace('"8b"', '"70b"'))
    run = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert run.code == 3
    assert "4 points, none with an answer" in run.out
    assert "exceed" in run.err
    assert list(pandas.read_csv("r.csv")["status"]) == ["infeasible"] * 4


def test_recommend_is_swept_by_its_best_option(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study('command = "recommend"\n[base]\nmodel = "8b"\ngpu = "l40s,h100"\n[grid]\nrate = [2, 20]\n')
    run = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert run.code == 0, run.err
    table = pandas.read_csv("r.csv")
    assert table["options_machine_accelerator"].notna().all()
    assert table["options_bill_usd_per_hour"][1] > table["options_bill_usd_per_hour"][0]


def test_a_wrong_objective_does_not_cost_the_table(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(SMALL)
    run = cli("advisor sweep study.toml --workers 1 -o r.csv --pareto 'min metrics_ttft_s_p9'")
    assert run.code == 0
    assert "no best points: the results have no column 'metrics_ttft_s_p9'" in run.err
    assert len(pandas.read_csv("r.csv")) == 4
    assert cli("advisor sweep r.csv --pareto 'min metrics_ttft_s_p9'").code == 2


def test_other_work_is_swept_without_objectives_of_its_own(
    study: Callable[[str], Path], cli: Callable[[str], Any]
) -> None:
    study(
        'command = "recommend"\n[base]\nmodel = "dit-xl-2"\nworkload = "diffusion"\ngpu = "l40s,h100"\nrate = 20\n'
        "[grid]\nsteps = [4, 8]\n"
    )
    run = cli("advisor sweep study.toml --workers 1 -o r.csv")
    assert run.code == 0, run.err
    table = pandas.read_csv("r.csv")
    assert list(table["in_steps"]) == [4, 8]
    assert (
        table["options_performance_usd_per_thousand_items"][0]
        <= table["options_performance_usd_per_thousand_items"][1]
    )


def test_results_are_summarised_again(study: Callable[[str], Path], cli: Callable[[str], Any]) -> None:
    study(SMALL)
    swept = cli("advisor sweep study.toml --workers 1 -o r.csv --json")
    ids = json.loads(swept.out)["pareto"]["ids"]
    summary = json.loads(
        cli(
            "advisor sweep r.csv --pareto 'min metrics_ttft_s_p99, max metrics_output_tokens_per_s' --json"
        ).out
    )
    assert summary["pareto"]["ids"] == ids
    assert 0 < len(ids) < 4
    default = cli("advisor sweep r.csv")
    assert "Pareto-optimal points: " in default.out


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("advisor sweep study.toml --workers 1", 2, "needs a file"),
        ("advisor sweep gone.toml -o r.csv", 2, "no such file"),
        ("advisor sweep study.toml -o gone/r.csv", 2, "there is no folder"),
        ("advisor sweep study.toml -o r.xlsx", 2, "no output format"),
        ("advisor sweep study.toml -o r.csv --cluster localhost", 2, "is not an address"),
        (
            "advisor sweep study.toml -o r.csv --cluster tcp://127.0.0.1:1 --workers 2",
            2,
            "exclude each other",
        ),
        ("advisor sweep study.csv", 2, "no such file"),
        ("advisor sweep study.txt", 2, "neither a study nor results"),
    ],
)
def test_mistakes_end_before_anything_is_lost(
    study: Callable[[str], Path], cli: Callable[[str], Any], command: str, code: int, words: str
) -> None:
    study(SMALL)
    run = cli(command)
    assert run.code == code, run.err
    assert words in run.err
    assert "Traceback" not in run.err
    assert not Path("r.csv").exists()


@pytest.mark.parametrize(
    ("package", "options", "words"),
    [
        ("joblib", "--workers 2 -o r.csv", "several processes need joblib"),
        ("distributed", "--cluster tcp://127.0.0.1:9 -o r.csv", "a Dask cluster needs distributed"),
        ("ray", "--cluster ray://127.0.0.1:9 -o r.csv", "a Ray cluster needs ray"),
        ("pyarrow", "-o r.parquet", "Parquet needs pyarrow"),
    ],
)
def test_a_missing_package_is_told_before_the_work(
    study: Callable[[str], Path],
    cli: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    options: str,
    words: str,
) -> None:
    def find_spec(name: str, *_: object) -> object:
        return None if name == package else importlib.machinery.PathFinder.find_spec(name)

    for module in ("advisor.sweep.execution", "advisor.sweep.cluster"):
        monkeypatch.setattr(f"{module}.find_spec", find_spec)
    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    study(SMALL)
    run = cli(f"advisor sweep study.toml {options}")
    assert run.code == 6, run.err
    assert words in run.err
    assert "pip install" in run.err
    assert not Path("r.csv").exists()


def test_without_the_package_for_several_processes_one_runs_all_points(
    study: Callable[[str], Path], cli: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default of an option needs no optional package."""

    def find_spec(name: str, *_: object) -> object:
        return None if name == "joblib" else importlib.machinery.PathFinder.find_spec(name)

    monkeypatch.setattr("advisor.sweep.execution.find_spec", find_spec)
    monkeypatch.setattr("advisor.sweep.execution.usable_processes", lambda: 8)
    study(SMALL)
    run = cli("advisor sweep study.toml -o r.csv")
    assert run.code == 0, run.err
    assert Path("r.csv").exists()
