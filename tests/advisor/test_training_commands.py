"""`advisor recommend` and `advisor simulate train` for training: contract, options, plan files, bad input."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]

OPTION_FIELDS = {
    "machine": ("accelerator", "num_accelerators", "accelerators_per_node", "num_nodes"),
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
    "bill": ("usd", "lines", "unknown"),
    "performance": (
        "step_time_s",
        "tokens_per_s_per_accelerator",
        "mfu_fraction",
        "hfu_fraction",
        "peak_memory_bytes",
        "days",
        "goodput_fraction",
        "breakdown_s",
        "memory_by_stage",
        "failures",
        "energy_kwh",
        "carbon_kg_co2e",
    ),
    "launch": ("flags",),
}
PLAN_FIELDS = (
    "tp",
    "sp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "sharding",
    "micro_batch",
    "recompute",
    "schedule",
)
QUICK = "advisor recommend --model 8b --workload train --tokens 100B --gpu h100,a100 --as-of 2026-11-20"


@pytest.fixture(scope="module")
def document(ask_once: Cli) -> dict[str, Any]:
    """One answer as JSON, for the tests that only read it."""
    found: dict[str, Any] = ask_once(f"{QUICK} --json").document()
    return found


def test_options_have_the_contracts_fields(document: dict[str, Any]) -> None:
    assert document["kind"] == "plan"
    for option in document["options"]:
        for name, fields in OPTION_FIELDS.items():
            assert set(fields) <= set(option[name]), name
        assert set(PLAN_FIELDS) <= set(option["plan"])
        plan = option["plan"]
        assert option["machine"]["num_accelerators"] == plan["tp"] * plan["pp"] * plan["cp"] * plan["dp"]
        shown = option["performance"]
        bill = option["bill"]
        figures = [shown[name] for name in ("step_time_s", "days", "mfu_fraction", "peak_memory_bytes")]
        for figure in (bill["usd"], *figures):
            assert set(figure) == {"value", "low", "high", "basis"}
        assert sum(line["usd"] for line in bill["lines"]) == pytest.approx(bill["usd"]["value"])
        assert "data_loading" not in shown["breakdown_s"]  # no model of it
        assert sum(option["performance"]["breakdown_s"].values()) == pytest.approx(
            option["performance"]["step_time_s"]["value"]
        )
        assert (
            option["performance"]["peak_memory_bytes"]["value"] <= option["performance"]["memory_limit_bytes"]
        )
        assert option["performance"]["days"]["value"] <= 30
    search = document["counts"]
    assert 0 < search["num_evaluated"] <= search["num_candidates"]
    assert search["num_feasible"] <= search["num_evaluated"]
    assert search["wall_s"] > 0


def test_options_are_ranked_by_dollars_and_the_others_have_reasons(document: dict[str, Any]) -> None:
    dollars = [option["bill"]["usd"]["value"] for option in document["options"]]
    assert dollars == sorted(dollars)
    shown = {option["machine"]["accelerator"] for option in document["options"]}
    rejected = {entry["accelerator"]: entry["text"] for entry in document["rejected"]}
    assert shown | set(rejected) == {"h100-sxm", "a100-sxm-80gb"}
    assert document["compute"]["flop"] == pytest.approx(6 * 7.5e9 * 1e11, rel=0.01)


def test_defaults_are_resolved_and_echoed(document: dict[str, Any]) -> None:
    task = document["inputs"]["task"]
    limits = document["inputs"]["limits"]
    assert (task["sequence_tokens"], task["global_batch"], task["tokens"]) == (8192, 512, 1e11)
    assert limits["deadline_s"] == 30 * 86400
    assert document["inputs"]["reliability"]["accelerator_mtbf_s"] == 50_000 * 3600


def test_the_terminal_shows_cluster_step_memory_and_bill(cli: Cli) -> None:
    run = cli(f"{QUICK} --explain")
    assert run.code == 0
    words = " ".join(run.out.split())
    for part in (
        "Best clusters",
        "One step of option 1",
        "Memory",
        "The same run at every term",
        "Failures: one every",
        "Energy:",
        "Launch options by framework",
        "# megatron-lm",
        "Asked: train, 100 B tokens in steps of 512 x 8192",
    ):
        assert part in words, part
    table = run.out.split("Launch options by framework")[0]
    assert max(len(line) for line in table.splitlines()) <= 100


def test_a_plan_is_replayed_and_laid_out_for_another_cluster(cli: Cli, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert cli(f"{QUICK} --gpus 64 --plan {plan}").code == 0
    again = cli(f"advisor replay {plan} --plan {tmp_path / 'again.json'}")
    assert "the same answer" in again.err
    assert plan.read_bytes() == (tmp_path / "again.json").read_bytes()
    other = json.loads(cli(f"advisor recommend --from {plan} --gpus 256 --json").out)
    assert {option["machine"]["num_accelerators"] for option in other["options"]} == {256}
    assert other["inputs"]["task"]["tokens"] == 1e11
    step = json.loads(cli(f"advisor simulate train {plan} --json").out)
    first = json.loads(plan.read_text())["options"][0]
    assert step["plan"]["words"] == first["plan"]["words"]
    assert step["step_time_s"]["value"] == pytest.approx(first["performance"]["step_time_s"]["value"])


@pytest.mark.parametrize("software", ["peft", "axolotl", "deepspeed"])
def test_a_saved_plan_is_the_plan_and_none_of_its_launch_commands(
    cli: Cli, tmp_path: Path, software: str
) -> None:
    plan = tmp_path / "plan.json"
    asked = (
        f"advisor recommend --model 8b --workload finetune --method lora --own 2xh100 --framework {software}"
    )
    assert cli(f"{asked} --plan {plan}").code == 0
    found = json.loads(cli(f"advisor simulate train {plan} --json").out)
    first = json.loads(plan.read_text())["options"][0]
    assert found["plan"]["words"] == first["plan"]["words"]
    assert found["step_time_s"]["value"] == pytest.approx(first["performance"]["step_time_s"]["value"])


@pytest.mark.parametrize("sold", ["", " --tokens 1B"])
def test_a_stated_plan_is_started_with_the_release_and_the_steps(cli: Cli, sold: str) -> None:
    """Source: Megatron-LM has no default of --train-iters."""
    asked = f"advisor simulate train --model 8b --gpus 8 --global-batch 64 --sequence 8192{sold}"
    shown = cli(asked).out
    found = json.loads(cli(f"{asked} --json").out)
    steps = "1908" if sold else '"$STEPS"'
    assert f" --train-iters {steps}" in found["launch_flags"]["megatron-lm"]
    assert ("$STEPS" in found["launch_placeholders"]["megatron-lm"]) == (not sold)
    assert found["launch_releases"].keys() == found["launch_flags"].keys()
    assert all(
        f"# {name}, options of {release}" in shown for name, release in found["launch_releases"].items()
    )


@pytest.mark.parametrize("model", ["falcon-mamba-7b", "rwkv7-2.9b"])
def test_a_refused_framework_is_offered_no_plan_of_it_that_fails(cli: Cli, model: str) -> None:
    """Source: Megatron-Core 0.16.0 has attention, Mamba-2 and gated delta rules as layers."""
    refused = cli(f"advisor simulate train --model {model} --gpus 8 --framework megatron --global-batch 64")
    assert refused.code != 0
    assert "that megatron runs" not in refused.err
    taken = cli(f"advisor recommend --model {model} --workload train --tokens 1B --own 8xh100-sxm")
    assert taken.code == 0
    assert "pretrain_" not in taken.out


@pytest.mark.parametrize("method", ["full", "lora", "qlora", "dora"])
def test_fine_tuning_answers_for_every_method(cli: Cli, method: str) -> None:
    found = json.loads(
        cli(
            f"advisor recommend --model 8b --workload finetune --method {method} --gpu h100 --tokens 10M --json"
        ).out
    )
    option = found["options"][0]
    assert option["performance"]["days"]["value"] < 1.0
    assert "trl" in option["launch"]["flags"] or method == "full"


def test_a_model_that_is_tuned_in_4_bits_is_whole_on_one_card_while_it_loads(cli: Cli) -> None:
    """Source: transformers 5.24.0, quantizers/quantizer_bnb_4bit.py, update_device_map; experts keep 16 bits."""
    command = "advisor recommend --workload finetune --method qlora --sequence 1024 --tokens 1M --json --framework trl"
    for model, own, fits in (
        ("32b", "2xrtx-4090", True),
        ("70b", "2xrtx-4090", False),
        ("70b", "2xl40s", True),
        ("mixtral-8x7b", "4xl40s", False),
    ):
        run = cli(f"{command} --model {model} --own {own}")
        assert (run.code == 0) is fits
        if fits:
            option = json.loads(run.out)["options"][0]
            assert (
                option["performance"]["peak_memory_bytes"]["value"]
                < option["performance"]["memory_limit_bytes"]
            )


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "ppo", "dpo", "kto", "orpo", "reward"])
def test_reinforcement_learning_tells_its_loop(cli: Cli, algorithm: str) -> None:
    command = (
        f"advisor recommend --model qwen2.5-7b --workload rl --algorithm {algorithm} --gpu h100 --gpus 16"
    )
    is_given = algorithm in ("dpo", "kto", "orpo", "reward")
    generated = "" if is_given else "--samples 8 --off-policy 1"
    found = json.loads(cli(f"{command} --prompts 64 {generated} --json").out)
    option = found["options"][0]
    loop = option["performance"]["reinforcement"]
    parts = sum(loop[f"{name}_s"] for name in ("rollout", "reward", "logprob", "training", "weight_sync"))
    assert loop["step_s"] <= parts * (1 + 1e-9)
    assert loop["rollout_fraction"] == pytest.approx(loop["rollout_s"] / parts)
    assert (loop["rollout_s"] > 0) == (not is_given)
    assert (loop["logprob_s"] > 0) == (algorithm not in ("orpo", "reward"))
    if is_given:
        assert option["plan"]["micro_batch"] >= 2
    if loop["placement"] == "disaggregated":
        assert loop["num_rollout_accelerators"] + loop["num_training_accelerators"] == 16
    assert option["machine"]["num_accelerators"] == 16
    held = option["performance"]["memory_bytes"]
    assert ("critic" in held) == (algorithm == "ppo")
    assert ("reference" in held) == (algorithm not in ("orpo", "reward"))
    assert sum(held.values()) == pytest.approx(option["performance"]["peak_memory_bytes"]["value"], rel=1e-6)
    assert option["performance"]["days"]["value"] == pytest.approx(
        500 * loop["step_s"] / option["performance"]["goodput_fraction"] / 86400, rel=1e-6
    )


@pytest.mark.parametrize(
    ("typed", "why", "fix"),
    [
        ("--gpu h100 --gpus 64 --algorithm grpo", "with its reference, it has", "--gpus "),
        ("--gpu h100 --gpus 256 --algorithm ppo", "with its critic and reference, it has", "--gpus "),
        ("--own 64xh100-sxm --algorithm grpo", "with its reference, it has", "--method lora"),
        (
            "--gpu h100 --gpus 256 --algorithm grpo --placement disaggregated",
            "no framework that runs grpo",
            "--placement colocated",
        ),
    ],
)
def test_a_loop_that_no_machine_holds_is_told_what_it_holds(cli: Cli, typed: str, why: str, fix: str) -> None:
    told = cli(f"advisor recommend --model deepseek-v3 --workload rl {typed}")
    assert told.code == 3
    assert why in told.err
    assert f"To fix: {fix}" in told.err or fix in told.err.split("To fix:")[1]


def test_compute_optimal_takes_twenty_tokens_a_parameter(cli: Cli) -> None:
    command = "advisor recommend --model llama-2-70b --workload train --compute-optimal --gpu h100 --gpus 1024 --json"
    found = json.loads(cli(command).out)
    assert found["compute"]["tokens_per_parameter"] == pytest.approx(20.0)
    assert found["compute"]["flop"] == pytest.approx(5.9e23, rel=0.04)


def test_a_stated_plan_is_simulated(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    drawing = tmp_path / "plan.svg"
    file.write_text(
        'model = "gpt-3-175b"\ngpu = "a100-sxm-80gb"\ntp = 8\npp = 8\ngpus = 1024\nglobal_batch = 1536\n'
    )
    run = cli(f"advisor simulate train {file} --schedule zb_h1 --recompute selective -o {drawing}")
    assert run.code == 0
    for part in ("The pipeline (zb_h1), 16 of 96 micro-batches", "Memory by pipeline stage", "MFU", "total"):
        assert part in run.out
    assert drawing.read_text().startswith("<svg")
    found = json.loads(cli(f"advisor simulate train {file} --vpp 4 --json").out)
    assert found["plan"]["schedule"] == "interleaved"
    assert found["plan"]["dp"] == 16
    assert len(found["memory_by_stage"]) == 8
    assert 7 / 4 / (96 + 7 / 4) <= found["pipeline"]["bubble_fraction"] < 0.05


def test_a_plan_that_does_not_fit_says_so_and_names_one_that_does(cli: Cli) -> None:
    run = cli("advisor simulate train --model 8b --gpus 8 --sharding none --global-batch 64 --json")
    assert run.code == 0
    assert json.loads(run.out)["fits"] is False
    assert "the fastest plan that fits" in run.err


def test_chips_before_bf16_train_in_fp16(cli: Cli) -> None:
    found = json.loads(cli("advisor simulate train --model 1b --gpu v100 --sequence 512 --json").out)
    assert found["plan"]["compute_dtype"] == "fp16"


BAD = (
    "simulate train --model 8b --tp 3",
    "simulate train --model 8b --tp 16 --gpus 16",
    "simulate train --model 8b --pp 64 --gpus 64",
    "simulate train --model 8b --dp 7 --global-batch 512",
    "simulate train --model 8b --micro-batch 3 --dp 8",
    "simulate train --model 8b --ep 4 --gpus 8",
    "simulate train --model mixtral-8x7b --ep 3 --gpus 24 --global-batch 24",
    "simulate train --model 8b --gpu a100 --precision fp8",
    "simulate train --model 8b --gpu v100 --precision bf16",
    "simulate train --model 8b --tp 4 --gpus 10",
    "simulate train --model 70b --tp 8 --gpus 44",
    "simulate train --model 8b --tp 2 --dp 4 --gpus 16",
    "simulate train --model 8b --cp 3 --dp 1",
    "simulate train --model 8b --pp 4 --vpp 9 --gpus 8",
    "simulate train --model 8b --framework fsdp --tp 2 --dp 4",
    "simulate train --model 8b --framework torchtitan --sharding zero1 --dp 8",
    "simulate train --model 8b --framework megatron --schedule dualpipe --pp 2 --dp 4",
    "simulate collective --op all_reduce --gpu h100 --gpus 16 --network helloworld",
    "recommend --model 8b --workload train --tokens 1e22",
    "recommend --model 405b --workload train --tokens 900T --gpu h100 --gpus 512",
    "simulate train --model 8b --schedule dualpipe --pp 4 --gpus 4 --global-batch 4",
    "simulate train",
    "simulate train --model 8b --framework megatronn",
    "simulate train --model 8b --framework-version yesterday",
    "simulate train --model 8b --gpu b200 --gpus 8 --precision nvfp4 --framework-version 25.04",
    "simulate train --model 8b --gpus 16 --cp 2 --framework-version 2022-06",
    "simulate train --model 8b --gpus 1 --framework deepspeed --offload-optimizer --host-memory 64GB",
    "simulate train --model 8b --gpus 1 --framework deepspeed --offload-optimizer --host-memory 9000GB",
    "simulate train --model 8b --power-cap-w 5000",
    "simulate train --model 8b --power-cap-w 10",
    "simulate train --model 8b --gpus 8 --vpp 2",
    "simulate train --model 8b --gpus 8 --schedule zbv",
    "simulate train --model 8b --tp 8 --gpus 8 --etp 4",
    "simulate train --model 8b --gpus 8 --framework torchtitan --framework-version 2023",
    "simulate train --model 8b --gpus 8 --framework torchtitan --features act_offload",
    "simulate train --model 8b --gpus 64 --framework deepspeed --cp 64 --sequence 262144",
    "recommend --model 8b --workload train --tokens 1T --gpu h100,a100 --power-cap-w 900",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --schedule zbv --pp 1",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --vpp 4 --pp 1",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --etp 8",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --framework nemo --framework-version 2018-01",
    "recommend --model 8b --workload train --tokens 1T --gpu h800 --gpus 64",
    "recommend --model 70b --workload train --tokens 1T --gpu h100 --gpus 512 --mtbf-hours 50",
    "recommend --model 70b --workload train --tokens 1T --gpu h100 --gpus 512 --mtbf-hours 20 --elastic",
    "recommend --model 7b --workload finetune --method lora --lora-rank 1024 --own 1xrtx-4090",
    "recommend --model 8b --workload rl --algorithm rloo --samples 1",
    "recommend --model 8b --workload finetune --method lora --gpu tpu-v5e --gpus 8",
    "recommend --model 8b --workload finetune --method lora --own 1xm3-ultra-512gb --sequence 2048",
    "recommend --model 8b --workload train",
    "recommend --workload train --tokens 1T",
    "recommend --model 8b --workload train --tokens 1T --compute-optimal",
    "recommend --model 8b --workload train --tokens nan",
    "recommend --model 8b --workload train --tokens -5",
    "recommend --model 8b --workload train --tokens 1T --deadline soon",
    "recommend --model 8b --workload train --tokens 1T --budget -1",
    "recommend --model 8b --workload train --tokens 1T --method lora",
    "recommend --model 8b --workload train --tokens 1T --rate 5",
    "recommend --model 8b --workload train --tokens 1T --precision fp7",
    "recommend --model 8b --workload train --tokens 1T --precision fp8 --gpu a100",
    "recommend --model 8b --workload train --tokens 1T --gpu rtx-4090 --gpus 1024",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 100",
    "recommend --model 8b --workload train --tokens 1T --framework jax",
    "recommend --model 8b --workload train --tokens 1T --mtbf-hours 0",
    "recommend --model 8b --workload rl --tokens 1T",
    "recommend --model 8b --workload distill --gpu h100",
    "recommend --model 8b --workload finetune --teacher 70b --gpu h100",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 200000",
    "recommend --model 32b --workload finetune --gpu h100 --gpus 1",
    "recommend --model 8b --workload train --tokens 1T --optimizer lion --gpu h100 --gpus 8",
    "recommend --model 8b --workload train --tokens 1T --precision mxfp8 --gpu h100 --gpus 64",
    "simulate train --model 8b --precision nvfp4 --gpu mi355x",
    "simulate train --model 8b --framework megatron --offload-parameters --gpus 8",
    "simulate train --model 8b --framework torchtitan --offload-optimizer --sharding zero3 --gpus 8",
    "recommend --model 8b --workload train --tokens 10B --gpu h100 --gpus 64 --term reserved-1y",
    "recommend --model 405b --workload train --tokens 1T --gpu h100 --gpus 16384 --term spot",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --tp 5",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --tp 16",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --tp 8 --pp 3",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --tp 2 --pp 2 --cp 1 --dp 4",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --micro-batch 3",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --ep 8",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --pp 33",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --framework fsdp --tp 2",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --framework-version 2023-06",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --framework megatron --framework-version soon",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --framework megatron "
    "--framework-version 2023-06 --cp 2",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --network helloworld",
    "recommend --model 8b --workload finetune --gpu rtx-4090 --gpus 1 --host-memory 64GB",
    "recommend --model 8b --workload finetune --gpu rtx-4090 --gpus 1 --host-memory 9TB",
    "recommend --model 8b --workload finetune --gpu rtx-4090 --gpus 1 --host-memory 64",
    "recommend --model 70b --workload train --tokens 100B --gpu h100 --budget 2000",
    "recommend --model 8b --workload train --tokens 1T --gpu h100 --mtbf-hours 20",
    "recommend --model 8b --workload train --tokens 1T --own 512xh100 --deadline 1d",
    "recommend --model 8b --workload rl --gpu h100 --gpus 8 --tp 2",
    "simulate train --model 8b --gpu tpu-v5p --gpus 256 --global-batch 64 --framework maxtext --dp 256",
    "simulate train --model 8b --gpus 64 --network 'RoCE 8x400Gb' --network-gbps 400",
    "recommend --from nowhere.json --gpus 8",
    "simulate train --model 8b --gpus 64 --beside hello --between-gbps 100",
    "simulate train --model 8b --gpus 64 --beside 64xa100",
    "simulate train --model 8b --gpus 64 --across dp",
    "simulate train --model 8b --gpus 64 --beside 64xa100 --between-gbps 100 --sites 2",
    "simulate train --model 8b --gpus 64 --beside 64xa100 --between-gbps 100 --precision fp8",
    "simulate train --model 8b --gpus 64 --tp 8 --pp 2 --beside 60xa100 --between-gbps 100",
    "simulate train --model 8b --gpus 64 --tp 8 --beside 64xa100 --between-gbps 100 --across pp",
)


@pytest.mark.parametrize("command", BAD)
def test_a_mistake_is_told_with_a_way_out(
    cli: Cli, golden: Golden, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = cli(f"advisor {command} --as-of 2026-11-20 -o out.json")
    assert run.code in (2, 3)
    assert "Traceback" not in run.err
    assert run.out == ""
    assert not (tmp_path / "out.json").exists()
    name = "training-" + re.sub(r"[^a-z0-9.]+", "-", command.lower()).strip("-")
    golden(name, run.transcript())


@pytest.mark.parametrize(
    "options",
    ["train --tokens 1T --gpu h101", "train --tokens 1T --region narnia", "rl --reward-model nobody"],
)
def test_an_unknown_name_gets_near_misses(cli: Cli, options: str) -> None:
    run = cli(f"advisor recommend --model 8b --workload {options}")
    assert run.code == 2
    assert "unknown" in run.err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("modle = '8b'", "modle"),
        ("model = '8b'\ntp = 'two'", "field tp"),
        ("model = '8b'\ntp = 0", "field tp"),
        ("model = '8b'\nschedule = 'zigzag'", "zigzag"),
        ("model = '8b'\nsequence_parallel = 1", "sequence_parallel"),
        ("model =", "plan.toml"),
    ],
)
def test_a_plan_file_is_checked_field_by_field(cli: Cli, tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    run = cli(f"advisor simulate train {file}")
    assert run.code == 2
    assert part in run.err


def test_a_serving_plan_is_not_laid_out_again(cli: Cli, tmp_path: Path) -> None:
    plan = tmp_path / "serve.json"
    cli(f"advisor recommend --model 8b --gpu l40s --plan {plan}")
    run = cli(f"advisor recommend --from {plan} --gpus 8")
    assert run.code == 2
    assert "serving" in run.err
    assert cli(f"advisor simulate train {plan}").code == 2


def test_reports_are_written_in_every_format(cli: Cli, tmp_path: Path) -> None:
    for suffix in ("json", "csv", "md", "html"):
        file = tmp_path / f"train.{suffix}"
        assert cli(f"{QUICK} --gpus 8 -q -o {file}").code == 0
        assert "h100" in file.read_text()


def test_states_in_host_memory_are_named_where_nothing_fits_without(cli: Cli) -> None:
    job = "--model 70b --gpu h100-sxm --gpus 8 --framework deepspeed --sequence 8192 --global-batch 16"
    base = f"advisor simulate train {job}"
    told = cli(f"{base} --sharding zero3").err
    assert "--offload-optimizer" in told.partition("the fastest plan that fits")[2]
    fitting = cli(f"{base} --sharding zero3 --micro-batch 2 --recompute full --offload-optimizer")
    assert "does not fit" not in fitting.err + fitting.out
    assert "optimizer in host memory" in cli(base).err  # no layout is stated: the same plan is taken


def test_without_a_layout_the_fastest_that_fits_is_taken(cli: Cli) -> None:
    run = cli("advisor simulate train --model 70b --gpu h100-sxm --gpus 64 --json")
    found = json.loads(run.out)
    assert "no layout is stated" in run.err
    assert found["peak_memory_bytes"]["value"] < found["memory_limit_bytes"]
    stated = cli("advisor simulate train --model 70b --gpu h100-sxm --gpus 64 --tp 8 --json")
    assert json.loads(stated.out)["plan"]["tp"] == 8
    assert "no layout is stated" not in stated.err


def test_a_teacher_writes_and_a_student_learns(cli: Cli) -> None:
    asked = "--items 10k --input-tokens 512 --output-tokens 1536 --gpu h100"
    run = cli(f"advisor recommend --model 8b --workload distill --teacher 70b {asked} --json")
    found = json.loads(run.out)
    teacher, student = (found["parts"][name]["options"][0] for name in ("teacher", "student"))
    assert found["usd"] == pytest.approx(teacher["bill"]["usd"]["value"] + student["bill"]["usd"]["value"])
    assert found["inputs"]["student"]["task"]["tokens"] == 10_000 * (512 + 1536)
    assert found["teacher"] == "llama-3.1-70b"
    assert student["launch"]["flags"]
    thrice = cli(
        f"advisor recommend --model 8b --workload distill --teacher 70b {asked} --tokens 61440k --json"
    )
    longer = json.loads(thrice.out)["parts"]["student"]["options"][0]
    assert longer["performance"]["num_steps"] == pytest.approx(
        3 * student["performance"]["num_steps"], rel=0.05
    )


def test_padding_costs_time_and_is_in_the_command(cli: Cli) -> None:
    asked = "advisor recommend --model 8b --workload finetune --method lora --gpu h100 --gpus 8 --tokens 20M --json"
    packed, padded = (
        json.loads(cli(f"{asked}{more}").out)["options"][0] for more in ("", " --mean-length 300")
    )
    assert padded["performance"]["days"]["value"] > 1.5 * packed["performance"]["days"]["value"]
    assert "--packing" in packed["launch"]["flags"]["trl"]
    assert "--packing" not in padded["launch"]["flags"]["trl"]


def test_a_cluster_that_nobody_sells_is_said_of_a_simulated_plan(cli: Cli) -> None:
    run = cli("advisor simulate train --model 8b --gpu rtx-4090 --gpus 1024 --cp 2 --global-batch 1024")
    assert run.code == 0
    assert "no provider sells 1,024 x rtx-4090 as one cluster; 8 can be had" in run.err


def test_a_plan_with_host_memory_is_simulated_again(cli: Cli, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = "--model qwen2.5-14b --workload finetune --gpu h100 --gpus 1 --tokens 10M"
    option = json.loads(cli(f"advisor recommend {asked} --plan {plan} --json").out)["options"][0]
    again = json.loads(cli(f"advisor simulate train {plan} --json").out)
    assert again["plan"]["offload"] == option["plan"]["offload"] == "optimizer"
    assert again["step_time_s"]["value"] == pytest.approx(option["performance"]["step_time_s"]["value"])
    moved = cli("advisor simulate train --model 8b --gpus 8 --offload-activations --offload-optimizer --json")
    assert json.loads(moved.out)["plan"]["offload"] == "optimizer, activations"


def test_one_accelerator_shards_nothing(cli: Cli) -> None:
    """Published: LoRA of an 8B on a card of 24 GB ran with 2 048 tokens, not with 8 192, by a loss of whole logits."""
    asked = "--model 8b --gpu rtx-4090 --gpus 1 --framework peft --framework-version 2025-06"
    asked += " --method lora --lora-rank 8 --recompute full"
    found = {
        tokens: json.loads(
            cli(f"advisor simulate train {asked} --global-batch 64 --sequence {tokens} --json").out
        )
        for tokens in (2048, 8192)
    }
    assert found[2048]["plan"]["sharding"] == "none"
    assert (found[2048]["fits"], found[2048]["memory_verdict"]) == (True, "tight")
    assert (found[8192]["fits"], found[8192]["memory_verdict"]) == (False, "does not fit")


def test_what_is_assumed_of_host_and_network_is_said(cli: Cli) -> None:
    run = cli(
        "advisor simulate train --model 8b --gpus 8 --framework deepspeed --sharding zero3 --offload-optimizer"
    )
    assert "GB in host memory for each accelerator, of 242 GB assumed (--host-memory)" in run.err
    wide = cli("advisor simulate train --model 8b --gpu gh200 --gpus 64")
    assert "network between nodes: 400 Gb/s for each accelerator, assumed" in wide.err
    assert "--network says another" in wide.err
    stated = cli("advisor simulate train --model 8b --gpu gh200 --gpus 64 --network-gbps 200")
    assert "is assumed" not in stated.err
    for network, is_open in (("Ethernet 1x100Gb", True), ("TCP 100Gb", False), ("RoCE 8x400Gb", False)):
        told = cli(f"advisor simulate train --model 8b --gpus 64 --network '{network}'")
        assert ("over TCP sockets NCCL reaches less" in told.err) == is_open
    old = cli(
        "advisor simulate train --model 8b --method lora --framework axolotl --framework-version 2025-06"
    )
    assert "settings and habits are those of axolotl" in old.err


def test_the_split_of_memory_is_told_without_stages(cli: Cli) -> None:
    asked = "advisor simulate train --model qwen2-7b --method lora --gpu a800 --gpus 8 --framework peft"
    run = cli(f"{asked} --framework-version 2025-06 --dp 8 --sequence 32768 --recompute full")
    assert re.search(r"\(logits\s+and\s+loss\s+\d+", run.out)


def test_a_variant_of_an_accelerator_acts(cli: Cli) -> None:
    """The H100s of torchtitan's runs have 96 GB at 2.4 TB/s, held to 500 W."""
    asked = (
        "advisor simulate train --model 8b --gpus 8 --framework torchtitan --micro-batch 2 --global-batch 16 "
        "--recompute selective --json"
    )
    usual, wider, slower, capped = (
        json.loads(cli(f"{asked} {more}").out)
        for more in ("", "--gpu-memory 96GB", "--gpu-bandwidth-tb-s 2.4", "--power-cap-w 500")
    )
    assert usual["memory_verdict"] == "does not fit"
    assert wider["memory_limit_bytes"] == 96e9
    assert wider["memory_verdict"] != "does not fit"
    assert wider["step_time_s"] == usual["step_time_s"]
    for other in (slower, capped):
        assert other["step_time_s"]["value"] > usual["step_time_s"]["value"]


def test_an_old_release_and_a_power_limit_are_slower(cli: Cli) -> None:
    asked = "advisor simulate train --model 8b --gpu a100-sxm-80gb --gpus 8 --tp 2 --global-batch 64 --json"
    usual, old, capped = (
        json.loads(cli(f"{asked} {more}").out)["step_time_s"]["value"]
        for more in ("", "--framework-version 2022-06", "--power-cap-w 250")
    )
    assert old > usual
    assert capped > usual


@pytest.mark.parametrize("name", ["verl", "OpenRLHF"])
def test_frameworks_of_loops_are_taken_for_loops_and_refused_elsewhere(cli: Cli, name: str) -> None:
    rest = "--gpu h100-sxm --gpus 8 --as-of 2026-11-20 --top 1"
    taken = cli(f"advisor recommend --model 8b --workload rl --framework {name} {rest} --json")
    assert taken.code == 0
    assert name.casefold() in json.loads(taken.out)["options"][0]["launch"]["flags"]
    refused = cli(f"advisor recommend --model 8b --workload train --tokens 1B --framework {name} {rest}")
    assert refused.code != 0
    assert "--workload rl" in refused.err


@pytest.mark.parametrize(
    ("method", "tokens_per_s", "reserved_gib"), [("lora", 3597.0, 29.0), ("qlora", 3428.0, 19.5)]
)
def test_adapters_of_a_7b_on_one_a100_take_what_was_measured(
    cli: Cli, method: str, tokens_per_s: float, reserved_gib: float
) -> None:
    """Mistral-7B in micro-batches of four; the public runs state no length, 4,096 tokens are assumed: shorter sequences
    take 5 % less for attention. Predicted 18 % slow: the values that a processor casts a cycle were counted on an H200.
    """
    plan = "--gpu a100-sxm-80gb --gpus 1 --micro-batch 4 --global-batch 4 --sequence 4096 --recompute full"
    software = f"--framework peft --framework-version 2024-06 --method {method} --lora-rank 16"
    found = json.loads(cli(f"advisor simulate train --model mistral-7b {plan} {software} --json").out)
    assert found["tokens_per_s_per_accelerator"]["value"] == pytest.approx(tokens_per_s, rel=0.18)
    assert found["reserved_memory_bytes"] == pytest.approx(reserved_gib * 2**30, rel=0.17)


def test_an_8b_with_adapters_fits_24_gb_at_short_sequences_alone(cli: Cli) -> None:
    """One RTX 4090, whole logits in memory as before chunked losses: 2,048 ran, 8,192 did not."""
    base = "advisor simulate train --model llama-3-8b --gpu rtx-4090 --gpus 1 --framework peft --method lora"
    plan = (
        "--lora-rank 8 --micro-batch 1 --global-batch 64 --recompute full --framework-version 2024-06 --json"
    )
    fits = [json.loads(cli(f"{base} {plan} --sequence {length}").out)["fits"] for length in (2048, 8192)]
    assert fits == [True, False]


def test_a_4_bit_model_that_no_card_can_load_is_tuned_where_ranks_read_parts_of_it(cli: Cli) -> None:
    """70B by QLoRA on two 24 GB cards is the example of the guides of FSDP-QLoRA (bitsandbytes, Axolotl)."""
    asked = "advisor recommend --model llama-3.1-70b --workload finetune --method qlora --tokens 10M --sequence 1024"
    answer = cli(f"{asked} --own 2xrtx-4090")
    assert answer.code == 0
    assert "axolotl train" in answer.out
    assert "cpu_ram_efficient_loading: true" in answer.out
    refused = cli(f"{asked} --own 2xrtx-4090 --framework trl")
    assert refused.code != 0
    assert "loads the whole 4-bit model on each accelerator" in refused.err


@pytest.mark.parametrize(
    "typed", ["--tokens 2M", "--tokens 20M --gpu h100-sxm", "--tokens 2M --own 1xrtx-3090"]
)
def test_hours_begun_are_billed_and_said(cli: Cli, typed: str) -> None:
    asked = f"advisor recommend --workload finetune --method lora --model 8b --top 1 {typed}"
    option = json.loads(cli(f"{asked} --json").out)["options"][0]
    said = re.search(r"Hours begun are billed: (\d+) h for", cli(asked).out)
    assert (said is None) is (option["offer"] is None or option["performance"]["days"]["value"] * 24 >= 100)
    if said is not None:
        hourly = option["bill"]["usd_per_hour"]
        assert option["bill"]["usd"]["value"] == pytest.approx(int(said[1]) * hourly, rel=1e-3)


@pytest.mark.parametrize(
    ("question", "smaller"),
    [
        ("--model llama-3-8b --method lora --own 1xrtx-3060-12gb", "qlora"),
        ("--model llama-3-8b --method full --own 1xrtx-4090 --host-memory 192GB", "lora"),
        ("--model qwen2.5-14b --method dora --own 1xrtx-3090", "qlora"),
    ],
)
def test_a_plan_with_states_in_host_memory_names_the_method_that_needs_none(
    cli: Cli, question: str, smaller: str
) -> None:
    command = f"advisor recommend --workload finetune --tokens 5M {question}"
    run = cli(command)
    assert "in host memory" in run.out
    assert f"--method {smaller} keeps all on 1 × " in run.err
    named = cli(f"{command} --method {smaller}")
    assert "weights in host memory" not in named.out
    assert "keeps all on" not in named.err


@pytest.mark.parametrize(("count", "nearest"), [(60, 64), (40, 32), (48, 32), (20, 32), (70, 64)])
def test_the_fix_of_a_count_is_the_nearest_that_the_degrees_divide(
    cli: Cli, count: int, nearest: int
) -> None:
    job = "--model llama-3.1-70b --gpu h100 --tp 8 --pp 4 --micro-batch 1 --global-batch 512 --sequence 8192"
    assert f"To fix: --gpus {nearest}" in cli(f"advisor simulate train {job} --gpus {count}").err


def test_a_step_that_waits_for_launches_of_experts_says_why_its_interval_is_wide(cli: Cli) -> None:
    bare = "advisor simulate train --model qwen3-30b-a3b --gpu h100-sxm --gpus 16 --framework megatron --pp 2 --ep 8"
    told = "how long a host launches experts in 16 bits was not measured"
    assert told in cli(f"{bare} --global-batch 512 --sequence 4096 --micro-batch 1").err
    for quiet in ("--micro-batch 1 --precision fp8", "--micro-batch 4 --recompute full"):
        assert told not in cli(f"{bare} --global-batch 512 --sequence 4096 {quiet}").err
