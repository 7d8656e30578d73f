"""`advisor compare` of plans and reports: the question, the figures, the parts of each cost, and the reasons."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.render.document_comparison import compare_documents

Cli = Callable[[str], Any]


def quantity(value: float, spread: float = 0.1) -> dict[str, Any]:
    return {"value": value, "low": value * (1 - spread), "high": value * (1 + spread), "basis": "calibrated"}


def option(
    accelerator: str, cost: float, hourly: float, provider: str = "lambda", spread: float = 0.1, **layout: Any
) -> dict[str, Any]:
    return {
        "machine": {"accelerator": accelerator, "num_accelerators": 8},
        "layout": {"tensor_parallel": 4, **layout},
        "offer": {"provider": provider, "observed_on": "2026-08-18"},
        "bill": {"usd_per_hour": hourly},
        "performance": {
            "usd_per_million_tokens": quantity(cost, spread),
            "tpot_s": {"p99": quantity(0.05)},
            "basis": "calibrated",
        },
        "launch": {"command": "run"},
    }


def plan(*options: dict[str, Any], **fields: Any) -> dict[str, Any]:
    base = {
        "schema_version": 2,
        "tool_version": "0.1.0",
        "catalog_version": "aaa",
        "kind": "plan",
        "inputs": {"model": "m", "traffic": {"mean_input_tokens": 1000}, "objectives": {"ttft_p99_s": 2.0}},
        "options": list(options),
        "rejected": [{"accelerator": "b200-sxm", "code": "over_budget", "text": "too dear"}],
    }
    return copy.deepcopy(base | fields)


def test_the_same_is_the_same() -> None:
    assert compare_documents(plan(option("h100-sxm", 0.2, 24.0)), plan(option("h100-sxm", 0.2, 24.0))).is_same


def test_inputs_and_versions_are_told_by_name_and_meaning() -> None:
    second = plan(option("h100-sxm", 0.2, 24.0), catalog_version="bbb")
    second["inputs"]["traffic"]["mean_input_tokens"] = 4000
    second["inputs"]["objectives"] = {"ttft_p99_s": 1.0}
    found = compare_documents(plan(option("h100-sxm", 0.2, 24.0)), second)
    assert [(c.name, c.meaning, c.first, c.second) for c in found.inputs] == [
        ("traffic.mean_input_tokens", "traffic", 1000, 4000),
        ("objectives.ttft_p99_s", "objectives", 2.0, 1.0),
    ]
    assert [(c.name, c.first, c.second) for c in found.versions] == [("catalog_version", "aaa", "bbb")]
    assert not found.is_same


def test_the_change_of_a_cost_is_the_product_of_price_and_work() -> None:
    first = option("h100-sxm", 0.20, 24.0)
    second = option("h100-sxm", 0.33, 36.0, provider="aws")
    (record,) = compare_documents(plan(first), plan(second)).records
    assert record.price_factor == pytest.approx(1.5)
    assert record.price_factor * record.work_factor == pytest.approx(0.33 / 0.20)  # type: ignore[operator]
    cost = next(figure for figure in record.figures if figure.name == "performance.usd_per_million_tokens")
    assert cost.change_fraction == pytest.approx(0.65)
    assert cost.is_within_error is False
    assert ("offer_provider", "lambda", "aws") in record.texts


def training_option(count: int, usd: float, days: float) -> dict[str, Any]:
    machine = {"accelerator": "h100-sxm", "num_accelerators": count}
    return {"machine": machine, "bill": {"usd": usd}, "performance": {"days": quantity(days)}}


def test_the_hours_of_a_training_run_are_its_work() -> None:
    first = training_option(100, 48_000.0, 10.0)
    second = training_option(200, 60_000.0, 6.0)
    (record,) = compare_documents(plan(first), plan(second)).records
    assert record.work_factor == pytest.approx(1.2)
    assert record.price_factor == pytest.approx(1.25 / 1.2)


def test_small_moves_inside_the_intervals_are_within_the_error() -> None:
    found = compare_documents(plan(option("h100-sxm", 0.2, 24.0)), plan(option("h100-sxm", 0.21, 24.0)))
    assert found.records[0].figures[0].is_within_error is True


LAYOUT: dict[str, Any] = {
    "engine": "vllm",
    "weight_dtype": "bf16",
    "kv_dtype": "bf16",
    "tensor_parallel": 4,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "expert_parallel": 1,
}


def within_error(second_cost: float, traffic: int = 1000, **changes: Any) -> bool | None:
    """Documents with a cost of 0.2 that becomes another, in plans whose own intervals are wide."""
    first = option("h100-sxm", 0.2, 24.0, spread=0.9, **LAYOUT)
    second = plan(option("h100-sxm", second_cost, 24.0, spread=0.9, **{**LAYOUT, **changes}))
    second["inputs"]["traffic"]["mean_input_tokens"] = traffic
    return compare_documents(plan(first), second).records[0].figures[0].is_within_error


def test_errors_that_both_plans_share_cancel() -> None:
    """Wide intervals overlap, and yet a change is told from the model's error where both err alike."""
    assert within_error(0.22) is False  # the same deployment: its price moved
    assert within_error(0.22, weight_dtype="fp8") is True
    assert within_error(0.30, weight_dtype="fp8") is False
    assert within_error(0.30, engine="sglang") is True  # engines err apart
    assert (
        within_error(0.30, weight_dtype="fp8", traffic=4000) is True
    )  # another load: nothing cancels for sure


def test_an_option_that_one_lacks_comes_with_the_others_reason() -> None:
    found = compare_documents(
        plan(option("h100-sxm", 0.2, 24.0)),
        plan(option("b200-sxm", 0.1, 30.0), option("h100-sxm", 0.2, 24.0)),
    )
    assert found.only_second == (("b200-sxm", "too dear"),)
    assert (found.first_best, found.second_best) == ("h100-sxm", "b200-sxm")
    assert (found.records[0].first_place, found.records[0].second_place) == (1, 2)


def test_rows_of_a_report_are_told_apart_by_what_differs_among_them() -> None:
    rows = [
        {
            "accelerator": "h100-sxm",
            "provider": provider,
            "usd_per_hour": 3.0,
            "num_accelerators": 1,
            "usd_per_million_tokens": 0.2,
        }
        for provider in ("aws", "lambda")
    ]
    first = {"schema_version": 2, "kind": "report", "inputs": {}, "rows": rows}
    second = copy.deepcopy(first)
    second["rows"][1]["usd_per_million_tokens"] = 0.3
    found = compare_documents(first, second)
    assert [record.identity for record in found.records] == ["h100-sxm aws", "h100-sxm lambda"]
    assert [len(record.figures) for record in found.records] == [0, 1]


def write_document(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(content) if not isinstance(content, str) else content)
    return path


def test_the_command_says_what_changed_and_why(cli: Cli, tmp_path: Path) -> None:
    first = write_document(tmp_path, "a.json", plan(option("h100-sxm", 0.2, 24.0), option("l40s", 0.3, 8.0)))
    later = plan(
        option("l40s", 0.15, 4.0, provider="vast"), option("h100-sxm", 0.2, 24.0), catalog_version="bbb"
    )
    second = write_document(tmp_path, "b.json", later)
    run = cli(f"advisor compare {first} {second}")
    assert run.code == 0, run.err
    assert run.out.startswith("The first choice changed from h100-sxm to l40s\n")
    assert "catalog version: aaa became bbb" in run.out
    assert (
        "l40s: cost -50.0 %: price of an accelerator-hour -50.0 % (lambda to vast), accelerator-hours"
        in run.out
    )
    assert max(map(len, run.out.splitlines())) <= 100
    found = json.loads(cli(f"advisor compare {first} {second} --json").out)
    assert (found["kind"], found["compared"], found["is_same"]) == ("comparison", "plan", False)
    assert cli(f"advisor compare {first} {second} -o {tmp_path / 'c.html'}").code == 0
    assert 'data-kind="bar"' in (tmp_path / "c.html").read_text()
    same = cli(f"advisor compare {first} {first}")
    assert same.out == "The two answers are the same, and so were their questions\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "not valid JSON"),
        ({"a": 1}, "is no answer of advisor"),
        (plan(kind="report"), "only answers of one kind"),
        (plan(schema_version=1), "has schema 1, and this advisor reads schema 2"),
        (plan(schema_version=99), "another release of advisor wrote it"),
        (
            plan(rejected=[{"accelerator": "l4", "code": "over_bugdet", "text": ""}]),
            "unknown reason code 'over_bugdet'",
        ),
    ],
)
def test_files_that_cannot_be_compared(cli: Cli, tmp_path: Path, content: Any, told: str) -> None:
    good = write_document(tmp_path, "good.json", plan(option("h100-sxm", 0.2, 24.0)))
    bad = write_document(tmp_path, "bad.json", content)
    run = cli(f"advisor compare {good} {bad}")
    assert run.code == 2
    assert told in run.err


def test_real_plans_replay_the_same_and_differ_where_the_question_does(cli: Cli, tmp_path: Path) -> None:
    base = "advisor recommend --model llama-3.1-8b --gpu rtx-4090 --engine vllm --as-of 2026-11-20 -q"
    lengths = "--output-tokens 800 --input-tokens 1155"
    for name, extra in (("a", ""), ("b", ""), ("c", lengths), ("d", "--rate 3"), ("e", "--rate 4")):
        assert cli(f"{base} {extra} --plan {tmp_path / name}.json").code == 0
    assert "are the same" in cli(f"advisor compare {tmp_path}/a.json {tmp_path}/b.json").out
    out = cli(f"advisor compare {tmp_path}/a.json {tmp_path}/c.json").out
    assert "asked differently: traffic" in out
    assert "traffic.mean_output_tokens" in out
    assert cli(f"advisor compare {tmp_path}/d.json {tmp_path}/e.json").out.count("- asked differently") == 1
