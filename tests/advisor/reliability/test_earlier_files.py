"""Files that an earlier program wrote or read: read today, or refused with the command that makes them anew.

`earlier/` was written on 2026-11-23 by the program as it stood that morning, before its rooms were rebuilt: plans, a
calibration, a probe without a seal, a journal without prices and calibration, refreshed prices without tenancy.
They stay as they are. What a later release writes differently gets a file beside them.
"""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.commands.recommend.plan_file import read_plan
from advisor.probes.document import read_probe
from advisor.sweep.journal import UNKNOWN, read_journal

EARLIER = Path(__file__).parent / "earlier"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files, but for the one that sets defaults of every command."""
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "advisor.toml").rename(tmp_path / "defaults.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("compare report.json report.json", "the same"),
        ("compare probe.json probe.json", "agree"),
        ("simulate collective --gpu h200-sxm --bytes 1GiB --calibration calibration.json", "≈"),
        (
            "simulate serve --model 8b --gpu h200-sxm --rate 1 --requests 50 --calibration calibration.json",
            "calibrated",
        ),
        ("sweep sweep.csv --pareto 'min time_s'", "3 with an answer"),
        ("build check parts.toml --as-of 2026-11-20", "list goes together"),
        ("catalog prices --gpu h100 --price-file prices.csv --provider me", "$20.00"),
        ("simulate serve --model 8b --gpu h100 --trace trace.csv", "TTFT"),
        ("recommend --model 8b --precision bf16 --provider lambda --goal goal.toml", "of 100 points"),
        ("simulate fleet fleet.toml", "replicas"),
        ("simulate serve --model config.json --gpu h100 --rate 1 --requests 50", "TTFT"),
        ("simulate trace trace.csv", "requests"),
    ],
)
def test_earlier_files_are_read(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    assert main(shlex.split(command)) == 0, capsys.readouterr().err
    told = capsys.readouterr()
    assert said in told.out + told.err


@pytest.mark.parametrize(
    ("command", "why", "anew"),
    [
        ("probe --quick --resume probe.json", "bears no seal", "advisor probe -o FILE"),
        ("replay plan-serve.json", "has schema 1", "advisor recommend --model llama-3.1-8b --workload serve"),
        ("replay plan-train.json", "has schema 1", "advisor recommend --model llama-3.1-8b --workload train"),
        ("compare plan-serve.json plan-serve.json", "options of schema 2 are composed", "advisor recommend"),
        ("recommend --workload train --from plan-train.json --gpus 16", "has schema 1", "-o plan-train.json"),
        ("simulate train plan-train.json", "has schema 1", "-o plan-train.json"),
        (
            "sweep study.toml -o sweep.csv --resume --as-of 2026-11-20",
            "another catalog",
            "advisor sweep study.toml -o sweep-anew.csv",
        ),
    ],
)
def test_what_cannot_go_on_names_the_command_that_begins_anew(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, why: str, anew: str
) -> None:
    assert main(command.split()) == 2
    told = capsys.readouterr().err
    assert why in told
    assert anew in told


def test_the_command_that_begins_a_sweep_anew_works(here: Path) -> None:
    assert main(["sweep", "study.toml", "-o", "sweep-anew.csv", "--workers", "1", "-q"]) == 0
    assert (here / "sweep-anew.csv").exists()


def test_earlier_defaults_and_refreshed_prices_count(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADVISOR_CONFIG", "defaults.toml")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", "cache")
    assert main(["catalog", "prices", "--gpu", "a100", "--provider", "vast"]) == 0
    told = capsys.readouterr()
    assert "term = on-demand,spot (from" in told.err
    assert "a100-sxm4-median" in told.out


def test_fields_that_did_not_exist_are_told_or_unknown(here: Path) -> None:
    header, kept = read_journal(here / "sweep.csv.journal")
    assert header is not None
    assert (header.prices, header.calibration, len(kept.rows)) == (UNKNOWN, UNKNOWN, 3)
    assert not read_probe(here / "probe.json").is_sealed


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("probe.json", {"benchmark_version": 99}, "advisor probe -o FILE"),
        ("plan-serve.json", {"kind": "report"}, "--plan"),
        ("calibration.json", {"kind": "probe"}, "advisor calibrate -o FILE"),
    ],
)
def test_another_kind_or_version_names_what_writes_it(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, changes: dict[str, object], said: str
) -> None:
    (here / name).write_text(json.dumps(json.loads((here / name).read_text()) | changes))
    commands = {
        "probe.json": f"calibrate {name}",
        "plan-serve.json": f"replay {name}",
        "calibration.json": f"simulate collective --gpu h200 --bytes 1B --calibration {name}",
    }
    assert main(commands[name].split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plan-serve.json", "plan-train.json"])
def test_a_plan_of_a_later_release_is_refused_by_the_field_that_it_adds(here: Path, name: str) -> None:
    plan = json.loads((here / name).read_text()) | {"schema_version": 2}
    (here / name).write_text(json.dumps(plan))
    assert read_plan(here / name)[1]["inputs"] == plan["inputs"]
    plan["inputs"]["colour"] = "green"
    (here / name).write_text(json.dumps(plan))
    assert main(["replay", name]) == 2


@pytest.mark.parametrize("command", ["compare {0} {0}", "replay {0}"])
def test_a_number_that_no_float_reaches_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = here / "plan-serve.json"
    path.write_text(path.read_text().replace('"num_accelerators": 1', f'"num_accelerators": 1{"0" * 400}'))
    assert main(command.format(path.name).split()) == 2
    assert "a number of 401 digits" in capsys.readouterr().err
