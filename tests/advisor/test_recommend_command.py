"""`advisor recommend`: the contract of its answer, its question, and what a mistake gets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.commands.recommend import serving
from advisor.decide.scenario import Scenario

Cli = Callable[[str], Any]
QUICK = (
    "advisor recommend --model llama-3.1-8b --workload serve --gpu h100-sxm,l40s,rtx-4090 --as-of 2026-11-20"
)
NARROW = "advisor recommend --model llama-3.1-8b --gpu rtx-4090 --engine vllm --as-of 2026-11-20"
OPTION_FIELDS = {
    "machine": ("accelerator", "num_accelerators", "accelerators_per_node", "num_nodes"),
    "layout": (
        "engine",
        "engine_version",
        "weight_dtype",
        "kv_dtype",
        "tensor_parallel",
        "pipeline_parallel",
        "expert_parallel",
        "data_parallel",
        "context_parallel",
        "num_replicas",
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
    ),
    "offer": (
        "provider",
        "sku",
        "region",
        "term",
        "kind",
        "tenancy",
        "usd_per_hour",
        "observed_on",
        "age_days",
        "url",
    ),
    "bill": ("usd_per_hour", "usd_per_month", "lines", "unknown"),
    "performance": (
        "requests_per_s",
        "output_tokens_per_s",
        "usd_per_million_tokens",
        "usd_per_million_output_tokens",
        "ttft_s",
        "tpot_s",
        "itl_s",
        "e2e_s",
        "utilization_fraction",
        "holds",
        "basis",
    ),
    "launch": ("command", "checkpoint", "simulate_args"),
}


@pytest.fixture(scope="module")
def document(ask_once: Cli) -> dict[str, Any]:
    """One answer as JSON, for the tests that only read it."""
    found: dict[str, Any] = ask_once(f"{QUICK} --json").document()
    return found


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return {}


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]) -> None:
    """A question is searched once for all tests that look at how its answer is shown."""
    ask = serving.recommend

    def recommend(scenario: Scenario, **others: Any) -> Any:
        key = scenario.model_dump_json()
        if key not in known:
            known[key] = ask(scenario, **others)
        return known[key]

    monkeypatch.setattr(serving, "recommend", recommend)


def test_options_have_the_contracts_fields(document: dict[str, Any]) -> None:
    assert document["options"]
    for option in document["options"]:
        assert {"rank", "role", "levers", "parts", "variants", "reasons"} <= set(option)
        for name, fields in OPTION_FIELDS.items():
            assert set(fields) <= set(option[name]), name
        assert option["machine"]["num_accelerators"] % option["layout"]["num_replicas"] == 0
        cost = option["performance"]["usd_per_million_tokens"]
        assert cost["low"] < cost["value"] < cost["high"]
        assert {"mean", "p50", "p99"} <= set(option["performance"]["ttft_s"])
    assert set(document["counts"]) >= {"num_candidates", "num_simulated", "wall_s"}


def test_options_are_ranked_by_expected_cost_after_a_safe_one_per_accelerator(
    document: dict[str, Any],
) -> None:
    options = document["options"]
    costs = [option["performance"]["expected_usd_per_million_tokens"] for option in options]
    assert costs[1:] == sorted(costs[1:])
    assert costs[0] == min(costs) or options[0]["performance"]["usd_per_million_tokens"]["basis"] != "assumed"
    assert [option["rank"] for option in options] == list(range(1, len(options) + 1))
    names = [option["machine"]["accelerator"] for option in options]
    assert len(set(names)) == len(names)
    for option in options:
        assert all(
            variant["machine"]["accelerator"] == option["machine"]["accelerator"]
            for variant in option["variants"]
        )


def test_every_accelerator_asked_for_is_an_option_or_has_a_reason(document: dict[str, Any]) -> None:
    shown = {option["machine"]["accelerator"] for option in document["options"]}
    rejected = {entry["accelerator"]: entry["text"] for entry in document["rejected"]}
    assert shown | set(rejected) == {"h100-sxm", "l40s", "rtx-4090"}
    assert all(rejected.values())


def test_the_objectives_are_met(document: dict[str, Any]) -> None:
    goals = document["inputs"]["objectives"]
    for option in document["options"]:
        assert option["performance"]["ttft_s"]["p99"]["value"] <= goals["ttft_p99_s"]
        assert option["performance"]["tpot_s"]["p99"]["value"] <= goals["tpot_p99_s"]


def test_defaults_are_resolved_and_echoed(document: dict[str, Any]) -> None:
    inputs = document["inputs"]
    assert inputs["traffic"]["profile"] == "chat"
    assert inputs["objectives"]["ttft_p99_s"] == 2.0
    assert inputs["constraints"]["accelerators"] == ["h100-sxm", "l40s", "rtx-4090"]
    assert inputs["as_of"] == "2026-11-20"


@pytest.mark.usefixtures("once")
def test_the_terminal_tells_the_question_the_answer_and_how_to_start_it(cli: Cli) -> None:
    run = cli(QUICK)
    assert run.code == 0
    words = " ".join(run.out.split())
    for part in (
        "requests/s rent",
        "Start each of",
        "Asked: 1155 tokens in, 211 out (chat)",
    ):
        assert part in words
    assert max(len(line) for line in run.out.split("Start each of")[0].splitlines()) <= 100


@pytest.mark.usefixtures("once")
def test_explain_shows_the_arithmetic(cli: Cli) -> None:
    run = cli(f"{QUICK} --explain")
    for part in (
        "Cost against latency",
        "part of one step",
        "memory of one accelerator",
        "TTFT mean",
        "Price read on",
    ):
        assert part in run.out


@pytest.mark.parametrize(
    ("options", "words", "is_said"),
    [
        ("--model 8b --rate 6 --gpu l40s --redundancy n+1", "headroom and a spare replica (n+1)", True),
        ("--model 8b --rate 6 --gpu l40s", "spare replica", False),
        (
            "--models 8b@5,qwen3-4b@1 --gpu h100-sxm --redundancy n+1",
            "headroom and a spare replica (n+1)",
            True,
        ),
        ("--model 70b --rate 1 --gpu h100-sxm --precision nvfp4 --explain", "nvfp4 is weight-only", True),
        ("--model 8b --rate 1 --gpu a100-sxm-80gb --precision fp8 --explain", "fp8 is weight-only", True),
        ("--model 70b --rate 1 --gpu b200-sxm --precision nvfp4 --explain", "weight-only", False),
        ("--model kimi-k2 --rate 5 --gpu h200-sxm", "memory of option 1 is tight", True),
        ("--model 8b --rate 1 --gpu h100-sxm", "is tight", False),
    ],
)
def test_what_an_answer_rests_on_is_said(cli: Cli, options: str, words: str, is_said: bool) -> None:
    run = cli(f"advisor recommend {options} --top 1 --fast")
    assert run.code == 0, run.err
    assert (words in " ".join(f"{run.out} {run.err}".split())) == is_said


@pytest.mark.usefixtures("once")
def test_the_file_formats_hold_the_same_options(cli: Cli, tmp_path: Path, document: dict[str, Any]) -> None:
    for suffix in ("json", "csv", "md", "html"):
        file = tmp_path / f"plan.{suffix}"
        assert cli(f"{QUICK} -q -o {file}").code == 0
        text = file.read_text(encoding="utf-8")
        assert all(option["machine"]["accelerator"] in text for option in document["options"])


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        ("--model 70x", 2, "70x"),
        ("", 2, "--model"),
        ("--model 8b --gpu h101", 2, "h101"),
        ("--model 8b --gpu ,", 2, "empty name"),
        ("--model 8b --provider nobody", 2, "nobody"),
        ("--model 8b --provider ,", 2, "empty name"),
        ("--model 8b --rate 0", 2, "out of range"),
        ("--model 8b --rate inf", 2, "out of range"),
        ("--model 8b --rate fast", 2, "not a rate"),
        ("--model 8b --budget -5", 2, "--budget"),
        ("--model 8b --budget nan", 2, "--budget"),
        ("--model 8b --ttft-p99 1", 2, "unit is missing"),
        ("--model 8b --tpot-p99 -1ms", 2, "out of range"),
        ("--model 8b --top 0", 2, "--top"),
        ("--model 8b --workload knit", 2, "--workload"),
        ("--model 8b --trace none.csv", 2, "no such file"),
        ("--model 8b --price-file none.csv", 2, "no such file"),
        ("--model 8b --own 0xh100", 2, "none of them"),
        ("--model 8b --gpu h100 --tpot-p99 1us", 3, "nothing serves llama-3.1-8b"),
        ("--model llama-3.1-405b --gpu rtx-4090 --engine vllm", 3, "nothing serves llama-3.1-405b"),
        ("--model 8b --gpu h100 --as-of 2020-01-01", 3, "nothing serves"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing(
    cli: Cli, tmp_path: Path, options: str, code: int, what: str
) -> None:
    run = cli(f"advisor recommend {options} -o {tmp_path / 'plan.json'}")
    assert run.code == code, run.err
    assert what in run.err
    assert "To fix:" in run.err
    assert "Traceback" not in run.err
    assert run.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_config_json_without_layers_is_refused(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096}')
    run = cli(f"advisor recommend --model {config}")
    assert run.code == 2
    assert str(config) in run.err
    assert run.out == ""


def test_neither_torch_nor_pandas_is_imported() -> None:
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[2]
    code = (
        "import sys; from advisor.__main__ import main;"
        f"main({[*NARROW.split()[1:], '-q']!r});"
        "heavy = {'torch', 'triton', 'pandas', 'scipy'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plan_replays_byte_for_byte(cli: Cli, tmp_path: Path) -> None:
    first = tmp_path / "plan.json"
    second = tmp_path / "again.json"
    assert cli(f"{NARROW} --seed 5 --plan {first}").code == 0
    run = cli(f"advisor replay {first} --plan {second}")
    assert run.code == 0
    assert f"note: the same answer as in {first}" in run.err
    assert second.read_bytes() == first.read_bytes()
    assert json.loads(first.read_text())["seed"] == 5


@pytest.mark.parametrize(
    "question", [NARROW, "advisor recommend --model 8b --workload train --tokens 10B --gpu h100 --top 1"]
)
def test_an_answer_that_was_written_as_json_is_a_plan(cli: Cli, tmp_path: Path, question: str) -> None:
    file = tmp_path / "answer.json"
    assert cli(f"{question} --offline -q -o {file}").code == 0
    assert f"note: the same answer as in {file}" in cli(f"advisor replay {file}").err
    assert cli(f"advisor watch {file}").code == 0


def test_a_replay_says_what_has_changed(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    cli(f"{NARROW} --plan {file} -q")
    plan = json.loads(file.read_text())
    plan["catalog_version"] = "000000000000"
    plan["options"][0]["bill"]["usd_per_hour"] += 1.0
    file.write_text(json.dumps(plan))
    run = cli(f"advisor replay {file} --json")
    warnings = json.loads(run.out)["warnings"]
    assert any("the catalog has changed" in text for text in warnings)
    assert any("differs from the plan's in options" in text for text in warnings)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "no such file"),
        ("{", "not valid JSON"),
        ("[]", "is no plan"),
        ('{"kind": "probe", "inputs": {}}', "is no plan"),
        ('{"kind": "plan", "schema_version": 2, "inputs": {"model": "70b"}}', "field"),
        (
            '{"kind": "plan", "schema_version": 1, "inputs": {"model": "70b"}}',
            "advisor recommend --model 70b",
        ),
    ],
)
def test_what_is_no_plan_is_refused(cli: Cli, tmp_path: Path, text: str | None, what: str) -> None:
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text)
    run = cli(f"advisor replay {file}")
    assert run.code == 2
    assert what in run.err
    assert str(file) in run.err
    assert run.out == ""


@pytest.mark.parametrize(("count", "gpu"), [(2, "l4"), (8, "h200-sxm"), (1, "rtx-4090")])
def test_a_limited_number_of_boards_leaves_out_the_loads_that_it_does_not_carry(
    cli: Callable[[str], Any], count: int, gpu: str
) -> None:
    asked = f"--gpu {count}x{gpu} --rate 0.2,1,10,50,200"
    run = cli(f"advisor recommend --model 8b {asked} --as-of 2026-12-01 --json")
    answer = json.loads(run.out)
    rates = [rung["rate_per_s"] for rung in answer["ladder"]]
    assert rates == answer["inputs"]["ladder_per_s"]
    assert all(rung["option"] for rung in answer["ladder"][-1:])
    assert ("carries the usual loads up to" in run.err) is (rates[-1] < 200.0)
    assert all(
        rung["option"]["machine"]["num_accelerators"] <= count for rung in answer["ladder"] if rung["option"]
    )


@pytest.mark.parametrize("quiet_first", [True, False])
def test_what_is_planned_for_a_day_with_quiet_hours_holds_all_of_it(
    cli: Callable[[str], Any], tmp_path: Path, quiet_first: bool
) -> None:
    """Whatever hour a record begins in."""
    gaps = [6.0] * 2_000 + [0.75] * 6_000
    at_s = 0.0
    rows = []
    for gap_s in gaps if quiet_first else reversed(gaps):
        at_s += gap_s
        rows.append(f"{at_s:.3f},1000,200")
    trace = tmp_path / "day.csv"
    trace.write_text("\n".join(["arrived_at_s,input_tokens,output_tokens", *rows]) + "\n")
    asked = f"--model 8b --trace {trace} --gpu l40s --engine vllm --precision bf16"
    run = cli(f"advisor recommend {asked} --as-of 2026-11-20 --json")
    assert run.code == 0, run.err
    option = json.loads(run.out)["options"][0]
    assert option["performance"]["ttft_s"]["p99"]["value"] < 2.0
    whole = cli(f"advisor simulate serve {asked} --replicas {option['layout']['num_replicas']} --json")
    assert json.loads(whole.out)["metrics"]["ttft_s"]["p99"]["value"] < 2.0


@pytest.mark.parametrize(
    "typed",
    [
        "--own 8xgaudi3 --rate 5",
        "--own 8xmi300x --rate 10",
        "--own 8xh100 --rate 20",
        "--own 4xl40s --rate 1",
        "--own 4xl40s --concurrency 1",  # one client keeps one replica busy, however many there are
    ],
)
def test_boards_that_are_there_are_used_until_a_plan_is_likely_to_hold(
    cli: Callable[[str], Any], typed: str
) -> None:
    """A marginal plan leaves no board idle that would make it likely, and has no unlike parts that save electricity."""
    asked = f"advisor recommend --model llama-3.1-70b --as-of 2026-12-01 {typed} --json"
    option = json.loads(cli(asked).out)["options"][0]
    assert option["performance"]["holds"] == "likely" or not option["parts"]
    if "gaudi3" in typed:  # three boards would be marginal, and five stay idle
        assert option["performance"]["holds"] == "likely"


@pytest.mark.parametrize(
    ("limits", "named", "absent"),
    [
        ("--gpu h100 --tpot-p99 1us", ["--tpot-p99 above"], ["--budget", "--provider", "--gpu"]),
        (
            "--gpu l4 --model llama-3.1-405b --ttft-p99 50ms",
            ["--gpu"],
            ["--budget", "--provider", "--precision"],
        ),
    ],
)
def test_a_refusal_names_limits_that_the_question_has(
    cli: Cli, limits: str, named: list[str], absent: list[str]
) -> None:
    model = "" if "--model" in limits else "--model 8b"
    fix = cli(f"advisor recommend {model} --rate 1 {limits}").err.partition("To fix:")[2]
    assert all(each in fix for each in named)
    assert not any(each in fix for each in absent)


@pytest.mark.parametrize(("gpu", "package"), [("gaudi3", "vllm-gaudi"), ("trainium2", "vllm-neuron")])
def test_a_start_command_names_the_plug_in_that_it_needs(cli: Cli, gpu: str, package: str) -> None:
    run = cli(f"advisor recommend --model 8b --own 2x{gpu} --rate 0.5 --fast --engine vllm")
    assert f"# once: install {package}" in run.out


def test_parts_that_send_caches_to_each_other_are_told_to_need_a_router(cli: Cli) -> None:
    run = cli(
        "advisor recommend --model qwen3-32b --rate 5 --profile rag --tpot-p99 40ms --gpu h100-sxm --engine vllm "
        "--levers pools"
    )
    start = run.out.partition("Start its parts with")[2]
    assert "NixlConnector" in start
    assert "--emit command" in start
