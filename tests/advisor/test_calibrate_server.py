"""`advisor calibrate` from a benchmark of one's own server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
FORMATS: Final = Path(__file__).parents[1] / "catalog" / "formats"
LOAD: Final = "--input-tokens 1000 --output-tokens 200 --length-dist fixed --requests 100 --json"
SERVE: Final = f"advisor simulate serve --model llama-3.1-8b --gpu h100-sxm {LOAD}"


def benchmark(cli: Cli, folder: Path, slowness: float, clients: int = 16) -> Path:
    """Write the result of a server that is slower than predicted by one factor in all its times."""
    metrics = json.loads(cli(f"{SERVE} --concurrency {clients}").out)["metrics"]
    rate = metrics["output_tokens_per_s"]["value"] / slowness
    found = json.loads((FORMATS / "vllm_bench.json").read_text()) | {
        "date": "",
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "max_concurrency": clients,
        "completed": 100,
        "input_lens": [1000] * 100,
        "output_lens": [200] * 100,
        "total_input_tokens": 100_000,
        "total_output_tokens": 20_000,
        "output_throughput": rate,
        "total_token_throughput": 6 * rate,
        "request_throughput": rate / 200,
    }
    for statistic, name in (("mean", "mean"), ("p50", "median"), ("p99", "p99")):
        for metric in ("ttft", "tpot"):
            found[f"{name}_{metric}_ms"] = 1000 * slowness * metrics[f"{metric}_s"][statistic]["value"]
    path = folder / "bench.json"
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize("slowness", [0.9, 1.15, 1.4])
def test_a_calibration_finds_how_much_slower_a_server_is_and_later_answers_follow(
    cli: Cli, tmp_path: Path, slowness: float
) -> None:
    file = benchmark(cli, tmp_path, slowness)
    calibration = tmp_path / "calibration.json"
    found = cli(f"advisor calibrate {file} --gpu h100-sxm -o {calibration} --json").document()
    server = found["calibration"]["server"]
    assert server["decode_scale"] == pytest.approx(slowness, rel=0.1)
    assert found["error_after_fraction"] < found["error_before_fraction"]
    # a load that the calibration did not see
    plain = json.loads(cli(f"{SERVE} --concurrency 4").out)["metrics"]["tpot_s"]["mean"]
    told = json.loads(cli(f"{SERVE} --concurrency 4 --calibration {calibration}").out)["metrics"]["tpot_s"][
        "mean"
    ]
    assert told["value"] / plain["value"] == pytest.approx(slowness, rel=0.1)
    assert told["basis"] == "calibrated"
    assert told["high"] / told["low"] < plain["high"] / plain["low"]


def test_other_deployments_are_as_predicted(cli: Cli, tmp_path: Path) -> None:
    calibration = tmp_path / "calibration.json"
    cli(f"advisor calibrate {benchmark(cli, tmp_path, 1.3)} --gpu h100-sxm -o {calibration}")
    other = f"advisor simulate serve --model qwen3-32b --gpu h100-sxm --concurrency 4 {LOAD}"
    plain, told = (
        json.loads(cli(f"{other}{more}").out)["metrics"] for more in ("", f" --calibration {calibration}")
    )
    assert told["tpot_s"] == plain["tpot_s"]


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("vllm_bench.json", "", "which accelerator"),
        ("vllm.log", "--gpu h100-sxm", "holds no times"),
        ("nccl_tests.txt", "", "holds no times"),
        ("prometheus.txt", "--gpu h100-sxm", "how requests were sent"),
    ],
)
def test_what_does_not_calibrate_is_refused(cli: Cli, name: str, options: str, what: str) -> None:
    run = cli(f"advisor calibrate {FORMATS / name} {options}")
    assert run.code == 2
    assert what in run.err


def test_a_factor_that_no_server_has_is_refused(cli: Cli, tmp_path: Path) -> None:
    run = cli(f"advisor calibrate {benchmark(cli, tmp_path, 30.0)} --gpu h100-sxm")
    assert run.code == 2
    assert "times as long as predicted" in run.err
    assert "validate file" in run.err


def test_conditions_of_a_server_are_refused_with_a_probe(cli: Cli) -> None:
    assert "belongs to a benchmark" in cli("advisor calibrate h200-sxm-x1 --gpu h100-sxm").err
