"""`advisor simulate serve`: the contract of its answer, and what a mistake gets."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
BASE = "advisor simulate serve --model llama-3.1-8b --gpu h100-sxm --precision fp8 --requests 400"


def answer(cli: Cli, options: str) -> dict[str, Any]:
    return cli(f"{BASE} {options} --json").document()


_READ = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from advisor.__main__ import main
code = main(sys.argv[1:])
data = sorted({path.split("/data/")[1] for path in opened if "/catalog/data/" in path.replace("\\\\", "/")})
print(code, len(data), *data, *sys.modules, file=sys.stderr)
"""


def test_a_run_reads_and_imports_only_what_it_is_about() -> None:
    command = "simulate serve --model llama-3.1-8b --gpu h200-sxm --concurrency 4 --requests 20"
    done = subprocess.run(
        [sys.executable, "-c", _READ, *command.split()], cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, number, *names = done.stderr.split()
    assert (code, int(number) <= 21) == ("0", True), done.stderr
    assert "accelerators/h200-sxm.toml" in names
    assert not {
        "pandas",
        "simpy",
        "scipy",
        "torch",
        "advisor.catalog.prices",
        "advisor.decide.load_runs",
        "advisor.simulator.disaggregation",
        "advisor.simulator.speculation",
        "advisor.simulator.workloads.lora",
        "advisor.simulator.serving.trace_files",
        "advisor.simulator.training",
        "advisor.evidence",
    } & set(names)


def test_answer_has_the_contract(cli: Cli) -> None:
    document = answer(cli, "--rate 10 --ttft 500ms --tpot 20ms")
    metrics = document["metrics"]
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        assert list(metrics[name]) == ["mean", "p50", "p90", "p95", "p99"]
        for quantity in metrics[name].values():
            assert quantity["low"] < quantity["value"] < quantity["high"]
    assert metrics["ttft_s"]["p50"]["value"] <= metrics["ttft_s"]["p99"]["value"]
    assert 0 <= metrics["goodput_fraction"] <= 1
    assert document["simulation"]["num_requests"] == 400
    assert document["simulation"]["num_events"] <= document["simulation"]["num_iterations"]
    assert document["inputs"]["traffic"]["rate_per_s"] == 10.0
    assert document["inputs"]["weight_dtype"] == "fp8"


def test_stepping_gives_the_same_answer_with_more_events(cli: Cli, tmp_path: Path) -> None:
    jumping = tmp_path / "jump.csv"
    stepping = tmp_path / "step.csv"
    jumped = answer(cli, f"--concurrency 16 --records {jumping}")
    stepped = answer(cli, f"--concurrency 16 --records {stepping} --step-by-step")
    assert jumped["metrics"] == stepped["metrics"]
    assert jumping.read_text() == stepping.read_text()
    assert stepped["simulation"]["num_events"] >= stepped["simulation"]["num_iterations"]
    assert jumped["simulation"]["num_events"] < stepped["simulation"]["num_events"]


def test_records_agree_with_the_metrics(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    metrics = answer(cli, f"--rate 5 --records {path}")["metrics"]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 400
    ttft = [float(row["ttft_s"]) for row in rows]
    assert sum(ttft) / len(ttft) == pytest.approx(metrics["ttft_s"]["mean"]["value"], rel=1e-9)


def test_same_seed_same_answer_and_another_seed_another(cli: Cli) -> None:
    first, again, other = (answer(cli, f"--rate 10 --seed {seed}")["metrics"] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_replicas_share_the_load_behind_a_router(cli: Cli) -> None:
    alone = answer(cli, "--rate 40")["metrics"]
    shared = answer(cli, "--rate 40 --replicas 2")["metrics"]
    by_turns = answer(cli, "--rate 40 --replicas 2 --router round_robin")["metrics"]
    assert shared["tpot_s"]["mean"]["value"] < alone["tpot_s"]["mean"]["value"]
    assert shared["requests_per_s"]["value"] >= alone["requests_per_s"]["value"]
    assert by_turns["ttft_s"] != shared["ttft_s"]


def test_a_trace_is_replayed(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    out = tmp_path / "records.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n100,500,20\n101,600,30\n103,700,40\n")
    run = cli(
        f"advisor simulate serve --model llama-3.1-8b --gpu h100-sxm --trace {path} --records {out} --json"
    )
    assert run.code == 0, run.err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["input_tokens"]) for row in rows] == [500, 600, 700]
    assert [float(row["arrived_at_s"]) for row in rows] == pytest.approx([0.0, 1.0, 3.0], abs=0.1)


@pytest.mark.parametrize(
    ("options", "inputs", "outputs"),
    [("fixed", {1000}, {50}), ("uniform:0.9", set(range(900, 1001)), set(range(45, 51)))],
)
def test_lengths_follow_the_distribution(
    cli: Cli, tmp_path: Path, options: str, inputs: set[int], outputs: set[int]
) -> None:
    path = tmp_path / "records.csv"
    answer(cli, f"--rate 5 --input-tokens 1000 --output-tokens 50 --length-dist {options} --records {path}")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["input_tokens"]) for row in rows} <= inputs
    assert {int(row["output_tokens"]) for row in rows} <= outputs


def test_the_terminal_shows_the_same_numbers(cli: Cli) -> None:
    run = cli(f"{BASE} --rate 10")
    assert run.code == 0
    assert run.out.startswith(
        "llama-3.1-8b (fp8) on 1 x h100-sxm, vllm, 10 requests/s of 1155 in, 211 out on average\n"
    )
    shown = re.search(r"TTFT\s+([\d.]+) ms", run.out)
    assert shown is not None
    assert float(shown.group(1)) == pytest.approx(
        1e3 * answer(cli, "--rate 10")["metrics"]["ttft_s"]["mean"]["value"], rel=0.01
    )


@pytest.mark.parametrize(
    ("command", "code", "what"),
    [
        ("--model llama-3.1-8b --gpu h100-sxm", 2, "no load is given"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate -1", 2, "out of range"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate nan", 2, "out of range"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --concurrency 2", 2, "exclude each other"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --router random", 2, "--router"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --length-dist normal:1", 2, "not a distribution"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --length-dist uniform:2", 2, "not a distribution"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --trace none.csv", 2, "no such file"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --ttft 1", 2, "unit is missing"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --records no/r.csv", 2, "there is no folder"),
        ("--model llama-9b --gpu h100-sxm --rate 1", 2, "llama-9b"),
        ("--model llama-3.1-8b --gpu h101 --rate 1", 2, "h101"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --engine vlm", 2, "vlm"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --precision fp7", 2, "fp7"),
        (
            "--model llama-3.1-8b --gpu h100-sxm --rate 1 --engine vllm --precision q4_k_m",
            3,
            "does not serve q4_k_m",
        ),
        ("--model llama-3.1-8b --gpu rtx-4090 --rate 1 --engine mlx", 3, "does not run on"),
        (
            "--model llama-3.1-8b --gpu rtx-3090 --rate 1 --engine exl3",
            3,
            "nothing is planned with ExLlamaV3",
        ),
        ("--model llama-3.1-70b --gpu h100-sxm --rate 1", 3, "does not fit"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --tp 3", 3, "do not divide"),
        ("--model llama-3.1-8b --gpu h100-sxm --rate 1 --ep 2 --tp 2", 3, "no experts"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing(cli: Cli, command: str, code: int, what: str) -> None:
    run = cli(f"advisor simulate serve {command}")
    assert run.code == code, run.err
    assert what in run.err
    assert "To fix:" in run.err
    assert run.out == ""


def test_guessing_ahead_is_faster_and_says_from_where_on_it_is_not(cli: Cli) -> None:
    plain = answer(cli, "--concurrency 8")
    fast = answer(cli, "--concurrency 8 --speculative eagle --draft-tokens 3 --acceptance 0.7")
    tpot = [document["metrics"]["tpot_s"]["mean"] for document in (plain, fast)]
    assert 1.3 < tpot[0]["value"] / tpot[1]["value"] < 2.53
    gain = fast["speculation"]
    assert gain["tokens_per_step"] == pytest.approx(1 + 0.7 + 0.49 + 0.343)
    assert 1 <= gain["largest_batch_that_pays"] <= gain["num_slots"]
    assert fast["metrics"]["kv_tokens"]["capacity"] < plain["metrics"]["kv_tokens"]["capacity"]
    assert "speculation" not in plain
    shown = cli(f"{BASE} --concurrency 8 --speculative eagle").out
    assert "0.64 to 0.79 published" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_published_acceptance_widens_the_range_and_a_given_one_does_not(cli: Cli) -> None:
    def width(options: str) -> float:
        quantity = answer(cli, f"--concurrency 8 {options}")["metrics"]["tpot_s"]["mean"]
        return float(quantity["high"] / quantity["low"])

    assert width("--speculative eagle") > 1.02 * width("--speculative eagle --acceptance 0.7")
    assert width("--speculative eagle --acceptance 0.7") == pytest.approx(width(""))


def test_runs_of_replicas_that_guess_are_jumped_exactly(cli: Cli) -> None:
    options = "--concurrency 16 --speculative draft:llama-3.2-1b"
    assert answer(cli, options)["metrics"] == answer(cli, f"{options} --step-by-step")["metrics"]


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        ("--speculative mtp", 3, "no module for multi-token prediction"),
        ("--speculative oracle", 2, "not known"),
        ("--speculative ngram", 2, "is accepted is not known"),
        ("--draft-tokens 3", 2, "need a method"),
        ("--speculative eagle --acceptance 1.5", 2, "--acceptance"),
        ("--speculative draft:qwen3-8b", 3, "vocabularies differ"),
    ],
)
def test_speculation_that_cannot_be_is_told(cli: Cli, options: str, code: int, what: str) -> None:
    run = cli(f"{BASE} --rate 5 {options}")
    assert run.code == code, run.err
    assert what in run.err
    assert "To fix:" in run.err


@pytest.mark.parametrize(
    "options",
    [
        "--model llama-3.1-8b --gpu h100-sxm --draft-tokens 4",
        "--model llama-3.1-8b --gpu l40s --acceptance 0.5 --draft-branches 2",
        "--model deepseek-v3 --gpu h200-sxm --tp 8 --draft-tokens 2",
        "--model llama-3.1-8b --gpu rtx-3090 --precision q4_k_m --engine llama.cpp --draft-tokens 4",
    ],
)
def test_parts_of_guessing_alone_name_a_method_that_works(cli: Cli, options: str) -> None:
    command = f"advisor simulate serve {options} --requests 20 --concurrency 1"
    told = re.search(r"To fix: (.*?),? ?(?:or )?drop them", cli(command).err)
    assert told
    assert not told[1] or cli(f"{command} {told[1]}").code == 0
    assert ("llama.cpp" in options) == (not told[1])


POOLS = (
    "advisor simulate serve --model 70b --gpu a100-sxm-80gb --tp 4 --concurrency 32 --requests 128 "
    "--output-tokens 128"
)


def test_two_pools_are_simulated_on_unlike_hardware(cli: Cli) -> None:
    slow, fast = (
        json.loads(cli(f"{POOLS} --prefill-workers 1 --decode-workers 1 {gpu} --json").out)["metrics"]
        for gpu in ("", "--prefill-gpu h100-sxm")
    )
    assert fast["ttft_s"]["mean"]["value"] < 0.7 * slow["ttft_s"]["mean"]["value"]
    # Decoding never stops for prompts: gaps between tokens stay near their mean.
    assert fast["itl_s"]["p99"]["value"] < 1.5 * fast["itl_s"]["mean"]["value"]
    shown = cli(f"{POOLS} --prefill-workers 2 --decode-workers 1 --prefill-gpu h100-sxm").out
    assert "8 x h100-sxm = 2 x (TP4) for prompts, 4 x a100-sxm-80gb (TP4) for answers" in " ".join(
        shown.split()
    )


def test_decode_workers_of_a_pool_may_guess_ahead(cli: Cli) -> None:
    options = f"{POOLS} --prefill-workers 2 --decode-workers 1 --json"
    plain, fast = (json.loads(cli(f"{options} {more}").out) for more in ("", "--speculative eagle"))
    assert fast["metrics"]["tpot_s"]["mean"]["value"] < plain["metrics"]["tpot_s"]["mean"]["value"]
    assert fast["speculation"]["speed_up"] > 1


@pytest.mark.parametrize(
    ("options", "code", "what", "fix"),
    [
        ("--prefill-workers 2", 3, "without decode workers answers no request", "--decode-workers 1"),
        ("--decode-workers 2", 3, "without prefill workers answers no request", "--prefill-workers 1"),
        (
            "--prefill-workers 1 --decode-workers 1 --replicas 2",
            2,
            "exclude each other",
            "--decode-workers 2",
        ),
        ("--prefill-workers 1 --decode-workers 1 --prefill-tp 3", 3, "do not divide", "--prefill-tp 2"),
        ("--prefill-workers 1 --decode-workers 1 --step-by-step", 2, "are for one pool", "drop them"),
        (
            "--prefill-workers 1 --decode-workers 1 --prefill-gpu m4-max-40-core",
            3,
            "does not run on",
            "--engine",
        ),
    ],
)
def test_pools_that_cannot_be_are_told(cli: Cli, options: str, code: int, what: str, fix: str) -> None:
    run = cli(f"{POOLS} {options}")
    assert run.code == code, run.err
    assert what in run.err
    assert f"To fix: {fix}" in run.err
    assert run.out == ""


def test_experts_that_do_not_divide_among_wide_ranks_have_copies(cli: Cli) -> None:
    words = "advisor simulate serve --model deepseek-v3 --gpu h200-sxm --dp 48 --ep 48 --rate 5 --requests 20"
    run = cli(words)
    assert run.code == 0, run.err
    assert "32 experts have a copy, so that all divide among 48 ranks" in run.err
