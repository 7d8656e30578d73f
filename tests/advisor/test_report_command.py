"""`advisor report`: saved answers on one page, and documents that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
DAY = "--as-of 2026-11-20 -q"
ASK = f"advisor recommend --model 8b --gpu l40s,h100-sxm --engine vllm --top 2 --fast {DAY}"


@pytest.fixture
def saved(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers of serving and one of training in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    for name, rate in (("one", 5), ("two", 20)):
        assert cli(f"{ASK} --rate {rate} -o {name}.json").code == 0
    train = f"advisor recommend --model 8b --workload train --tokens 10B --gpu h100-sxm --gpus 8 {DAY}"
    assert cli(f"{train} -o train.json").code == 0


@pytest.mark.usefixtures("saved")
def test_answers_stand_side_by_side(cli: Cli) -> None:
    told = json.loads(cli("advisor report one.json two.json train.json --json").out)
    one = json.loads(Path("one.json").read_text())
    assert [each["file"] for each in told["answers"]] == ["one.json", "two.json", "train.json"]
    assert told["answers"][0]["first"]["bill"] == one["options"][0]["bill"]
    assert told["answers"][0]["headline"] == one["headline"]
    shown = cli("advisor report one.json two.json").out
    assert "one.json against two.json" in shown
    assert "20.0" in shown
    assert cli("advisor report one.json two.json train.json -q -o all.html").code == 0
    page = Path("all.html").read_text()
    assert all(f"{name}.json</h2>" in page for name in ("one", "two", "train"))
    assert 'data-kind="bar"' not in page  # a service and a job have no cost in common
    assert cli("advisor report one.json two.json -q -o all.html").code == 0
    assert 'data-kind="bar"' in Path("all.html").read_text()


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "JSON"),
        ("[]", "schema_version"),
        ('{"schema_version": 1, "kind": "plan", "options": []}', "schema 1"),
        ('{"schema_version": 2, "kind": "plan"}', "has no options"),
        ('{"schema_version": 2, "kind": "probe", "measurements": []}', "has no options"),
        ('{"schema_version": 2, "kind": "plan", "options": {}}', "has no options"),
    ],
)
def test_what_is_no_answer_is_refused_by_name(cli: Cli, text: str, why: str) -> None:
    Path("bad.json").write_text(text)
    run = cli("advisor report one.json bad.json")
    assert run.code == 2
    assert "bad.json" in run.err
    assert why in run.err
    assert cli("advisor report one.json missing.json").code == 2


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    "options",
    [
        [],
        [None, 5, "x"],
        [{}],
        [{"machine": 5}],
        [{"machine": {"accelerator": None}, "bill": {"usd_per_hour": "much"}}],
    ],
)
def test_odd_options_are_dashes(cli: Cli, options: list[Any]) -> None:
    Path("odd.json").write_text(json.dumps({"schema_version": 2, "kind": "plan", "options": options}))
    run = cli("advisor report one.json odd.json -o page.html")
    assert run.code == 0, run.err


@pytest.mark.usefixtures("saved")
def test_hostile_words_of_a_document_stay_words(cli: Cli) -> None:
    document = json.loads(Path("one.json").read_text())
    evil = "<script>alert(1)</script>"
    document["headline"] = document["options"][0]["machine"]["accelerator"] = evil
    document["warnings"] = [evil]
    Path("evil.json").write_text(json.dumps(document))
    assert cli("advisor report evil.json one.json -q -o page.html").code == 0
    assert "alert(1)</script>" not in Path("page.html").read_text()
    for data in ({"surface": evil}, {"surface": {}}, 5, [evil]):
        Path("evil.json").write_text(json.dumps({**document, "what_if": data}))
        run = cli("advisor report evil.json one.json -q -o page.html")
        assert run.code == 2
        assert "what_if is not complete" in run.err
