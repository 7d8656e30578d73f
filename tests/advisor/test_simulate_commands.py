"""`advisor simulate`: answers, and what a mistake gets."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]


def test_collective_json_has_the_contract(cli: Cli) -> None:
    run = cli(
        "advisor simulate collective --op all_reduce --bytes 1GiB --gpu h200 --gpus 64 --nodes 8 --json"
    )
    document = json.loads(run.out)
    assert document["inputs"]["gpu"] == "h200-sxm"
    assert document["inputs"]["nodes"] == 8
    assert document["num_bytes"] == 2**30
    assert set(document["time_s"]) == {"value", "low", "high", "basis"}
    expected = 2 * 63 / 64 * 2**30 / document["time_s"]["value"]
    assert document["bus_bytes_per_s"]["value"] == pytest.approx(expected)
    assert document["algorithm"] in {point["algorithm"] for point in document["curve"]}
    assert all(change["slower"] != change["faster"] for change in document["crossover"])


def test_an_unknown_gpu_gets_near_misses(cli: Cli) -> None:
    run = cli("advisor simulate collective --gpu h1000")
    assert run.code == 2
    assert "did you mean: h100-sxm" in run.err
    assert run.out == ""


SERVE = "simulate serve --gpu h100-sxm --rate 1"


@pytest.mark.parametrize(
    ("command", "code", "fix"),
    [
        ("simulate collective --gpu h200 --gpus 64 --nodes 7", 2, "--gpus 63 or --nodes 1"),
        ("simulate collective --op allprod", 2, "advisor simulate collective --help"),
        ("simulate collective --bytes 1G", 2, "e.g. --bytes 80GB"),
        ("simulate collective --bytes -1GB", 2, "e.g. --bytes 80GB"),
        ("simulate collective --gpus 1", 2, "advisor simulate collective --help"),
        (f"{SERVE} --model 70b --tp 3", 3, "--tp 2"),
        (f"{SERVE} --model 8b --tp 2 --ep 2", 3, "--ep 1"),
        (f"{SERVE} --model deepseek-r1 --tp 8 --ep 3", 3, "--ep 2"),
        (f"{SERVE} --model 8b --pp 64", 3, "--pp 32"),
        (f"{SERVE} --model 8b --engine tensorrt-llm --precision nvfp4", 3, "--precision int4"),
        (f"{SERVE} --model 8b --kv-precision nvfp4", 3, "--kv-precision fp8"),
        (f"{SERVE} --model 70b --tp 2 --input-tokens 60000 --output-tokens 1000", 3, "--tp 4"),
        (f"{SERVE} --model deepseek-r1 --tp 8", 3, "--tp 8 --pp 2"),
        (f"{SERVE} --model 8b --prefill-workers 2", 3, "--decode-workers 1"),
        (f"{SERVE} --model 8b --decode-workers 2", 3, "--prefill-workers 1"),
    ],
)
def test_a_mistake_gets_a_fix_and_no_answer(
    cli: Cli, golden: Golden, command: str, code: int, fix: str
) -> None:
    run = cli(f"advisor {command}")
    assert (run.code, run.out) == (code, "")
    assert f"To fix: {fix}" in run.err
    golden(command.replace("--", "").replace(" ", "-"), run.transcript())
