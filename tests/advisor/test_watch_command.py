"""Watched plans: what moves a verdict, and plans that cannot be read, next to others that can."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Cli = Callable[[str], Any]
DAY = "2026-11-20"
ASK = "advisor recommend --model 8b --rate 5 --gpu l40s,h100-sxm --engine vllm --top 2 --fast -q"
HEADER = (
    "provider,sku,accelerator,num_accelerators,region,term,usd_per_hour,observed_on,"
    "price_kind,tenancy,is_confirmed"
)


def write_prices(path: Path, **usd: float) -> Path:
    """A market of one's own: two providers, all boards one at a time."""
    rows = [
        f"{provider},{sku}-x1,{sku},1,any,on_demand,{price},{DAY},list,dedicated,true"
        for name, price in usd.items()
        for provider, sku in [(name, "l40s" if name == "acme" else "h100-sxm")]
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plan(cli: Cli, name: str = "plan.json", **usd: float) -> None:
    write_prices(Path("then.csv"), **usd)
    run = cli(f"{ASK} --provider acme,bolt --as-of {DAY} --price-file then.csv --plan {name}")
    assert run.code == 0, run.err


def watch(cli: Cli, options: str = "", files: str = "plan.json", **usd: float) -> tuple[int, Any]:
    write_prices(Path("now.csv"), **usd)
    run = cli(f"advisor watch {files} --price-file now.csv --as-of 2026-12-01 --json {options}")
    assert run.out, run.err
    return run.code, json.loads(run.out)


THEN = {"acme": 0.9, "bolt": 3.0}


@pytest.mark.parametrize(
    ("now", "options", "findings"),
    [
        ({"acme": 0.9, "bolt": 3.0}, "", []),
        ({"acme": 0.95, "bolt": 3.0}, "", []),
        ({"acme": 0.95, "bolt": 3.0}, "--threshold 0.05", ["price_rose"]),
        ({"acme": 1.5, "bolt": 3.0}, "", ["price_rose"]),
        ({"acme": 0.9, "bolt": 0.3}, "", ["beaten"]),
        ({"acme": 1.5, "bolt": 0.3}, "", ["beaten", "price_rose"]),
        ({"acme": 0.5, "bolt": 3.0}, "", []),
        ({"bolt": 3.0}, "", ["gone"]),
    ],
)
def test_a_verdict_follows_the_prices(
    cli: Cli, now: dict[str, float], options: str, findings: list[str]
) -> None:
    plan(cli, **THEN)
    code, told = watch(cli, options, **now)
    (watched,) = told["plans"]
    assert watched["findings"] == findings
    assert code == (7 if findings else 0)
    assert watched["taken"]["accelerator"] == "l40s"
    if "price_rose" in findings:
        assert watched["price_change_fraction"] == pytest.approx(now["acme"] / THEN["acme"] - 1)
    if "beaten" in findings:
        assert watched["best"]["provider"] == "bolt"
        assert watched["saving_fraction"] > 0.1
    if "gone" in findings:
        assert watched["held"] is None
        assert watched["reason"]


def test_a_market_that_is_gone_is_told(cli: Cli) -> None:
    plan(cli, **THEN)
    code, told = watch(cli, crest=1.0)
    assert code == 7
    assert told["plans"][0]["findings"] == ["gone"]
    assert told["plans"][0]["reason"]


def test_a_price_that_grew_old_is_to_be_confirmed_and_no_sentence_contradicts_it(cli: Cli) -> None:
    """The market of the catalog: the offer that was taken is read no more, and today's safe pick costs more."""
    ask = ASK.replace("--top 2 ", "")
    assert cli(f"{ask} --as-of 2026-08-20 --plan old.json").code == 0
    told = json.loads(cli(f"advisor watch old.json --since plan --as-of {DAY} --json").out)
    (watched,) = told["plans"]
    assert watched["price_change_fraction"] == pytest.approx(0.0)
    assert watched["best"]["bill_usd"] > watched["held"]["bill_usd"]
    assert any("days old" in text for text in watched["held"]["doubts"])
    words = " ".join(cli(f"advisor watch old.json --since plan --as-of {DAY}").out.split())
    assert "stands if confirmed" in words
    assert "none costs less" not in words
    rise = watched["best"]["bill_usd"] / watched["held"]["bill_usd"] - 1.0
    assert f"safe pick is 1 x l40s from {watched['best']['provider']}" in words
    assert f"(+{100 * rise:.1f} %)" in words


def test_an_option_that_was_not_the_first_is_watched(cli: Cli) -> None:
    plan(cli, **THEN)
    code, told = watch(cli, "--option 2", **THEN)
    assert (code, told["plans"][0]["findings"]) == (7, ["beaten"])
    assert told["plans"][0]["taken"]["accelerator"] == "h100-sxm"
    assert watch(cli, "--option 9", **THEN)[1]["plans"][0]["findings"] == ["unreadable"]


def test_what_moved_since_is_what_compare_says(cli: Cli) -> None:
    plan(cli, **THEN)
    _, told = watch(cli, "--since plan", acme=1.35, bolt=3.0)
    since = told["plans"][0]["since"]
    (first,) = [each for each in since["changes"] if each["identity"] == "l40s"]
    assert first["price_factor"] == pytest.approx(1.5)
    assert first["work_factor"] == pytest.approx(1.0)
    _, told = watch(cli, f"--since {DAY}", acme=1.35, bolt=3.0)
    assert told["plans"][0]["since"]["changes"]
    assert cli("advisor watch plan.json --since soon").code == 2


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "of another schema": lambda plan: {**plan, "schema_version": 1},
    "of a later release": lambda plan: {**plan, "schema_version": 99},
    "a report": lambda plan: {**plan, "kind": "report"},
    "without options": lambda plan: {**plan, "options": []},
    "with a list for options": lambda plan: {**plan, "options": {"rank": 1}},
    "whose bill is a text": lambda plan: {**plan, "options": [{**plan["options"][0], "bill": "much"}]},
    "whose price is negative": lambda plan: {
        **plan,
        "options": [{**plan["options"][0], "offer": {**plan["options"][0]["offer"], "usd_per_hour": -1}}],
    },
    "without a machine": lambda plan: {**plan, "options": [{**plan["options"][0], "machine": None}]},
    "without inputs": lambda plan: {name: value for name, value in plan.items() if name != "inputs"},
    "of an unknown model": lambda plan: {**plan, "inputs": {**plan["inputs"], "model": 5}},
    "a list": lambda plan: [plan],
}


def test_plans_that_cannot_be_read_are_told_and_the_others_watched(cli: Cli) -> None:
    plan(cli, **THEN)
    whole = Path("plan.json").read_text()
    files = ["half.json", "missing.json"]
    Path("half.json").write_text(whole[: len(whole) // 2])
    for number, change in enumerate(BROKEN.values()):
        Path(f"broken-{number}.json").write_text(json.dumps(change(json.loads(whole))))
        files.append(f"broken-{number}.json")
    code, told = watch(cli, files=" ".join([*files, "plan.json"]), acme=1.5, bolt=3.0)
    assert cli("advisor watch half.json -q").err.startswith("error: half.json")
    assert code == 2
    *broken, last = told["plans"]
    for watched, name in zip(broken, ["half", "missing", *BROKEN], strict=True):
        assert watched["findings"] == ["unreadable"], name
        assert watched["reason"], name
        assert watched["fix"], name
    assert last["findings"] == ["price_rose"]
    assert Path("plan.json").read_text() == whole


def test_a_training_plan_is_watched(cli: Cli) -> None:
    ask = "advisor recommend --model 8b --workload train --tokens 10B --gpu h100-sxm --gpus 8 -q"
    assert cli(f"{ask} --as-of {DAY} --plan train.json").code == 0
    run = cli(f"advisor watch train.json --as-of {DAY} --json")
    (watched,) = json.loads(run.out)["plans"]
    assert (run.code, watched["findings"]) == (0, [])
    assert watched["held"]["bill_usd"] == pytest.approx(watched["taken"]["bill_usd"])


def test_the_job_of_the_page_is_one(cli: Cli) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "watch.md").read_text(encoding="utf-8")
    job = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])
    lines = [step["run"] for step in job["jobs"]["watch"]["steps"] if "run" in step]
    (line,) = [line for line in lines if line.startswith("advisor watch")]
    plan(cli, **THEN)
    run = cli(line.replace("plans/*.json", "plan.json"))
    assert run.code in (0, 7)
    assert Path("watch.md").read_text().startswith("**")
    assert any(shlex.split(line)[:3] == ["gh", "pr", "comment"] for line in lines)
