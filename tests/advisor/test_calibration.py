"""`--calibration`: a measured machine changes the predictions for its accelerator, and every answer says so."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
SERVE = "advisor simulate serve --model llama-3.1-8b --gpu h100-sxm --rate 5 --requests 200"
COLLECTIVE = "advisor simulate collective --op all_gather --gpu h100-sxm --gpus 8 --bytes 1GiB"
RECOMMEND = (
    "advisor recommend --model llama-3.1-8b --gpu h100-sxm,l40s --precision bf16 --engine vllm "
    "--as-of 2026-11-20"
)
VALIDATE = ("advisor validate serving cases.csv", "advisor validate collectives cases.csv")
NOTE = (
    "note: h100-sxm calibrated: bandwidth 1.63 of 3.35 TB/s (x 0.50 of the model's); "
    "≈ stands for figures that rest on them\n"
)


def calibration(folder: Path, **fields: object) -> Path:
    """A file of one machine whose memory is half as fast as it should be, or of other figures."""
    values: dict[str, object] = {"kind": "calibration", "accelerator": "h100-sxm"}
    path = folder / "calibration.json"
    path.write_text(json.dumps(values | (fields or {"bandwidth_bytes_per_s": 1.633e12})))
    return path


def answer(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"{command} --json").document()


def test_serving_before_and_after(cli: Cli, tmp_path: Path) -> None:
    before = answer(cli, SERVE)
    after = answer(cli, f"{SERVE} --calibration {calibration(tmp_path)}")
    first, then = (found["metrics"]["tpot_s"]["mean"] for found in (before, after))
    assert 1.5 < then["value"] / first["value"] < 2.2
    assert (first["basis"], then["basis"]) == ("modelled", "calibrated")
    assert then["high"] / then["value"] == pytest.approx(first["high"] / first["value"], rel=0.05)
    assert "calibration" not in before
    assert list(after["calibration"]) == ["bandwidth_bytes_per_s"]
    found = after["calibration"]["bandwidth_bytes_per_s"]
    assert found == {
        "measured": 1.633e12,
        "predicted": pytest.approx(3.35e12 * 0.975),
        "datasheet": 3.35e12,
        "scale": pytest.approx(0.5, abs=0.001),
    }
    assert after["warnings"] == before["warnings"]
    assert (before["inputs"]["is_calibrated"], after["inputs"]["is_calibrated"]) == (False, True)


def test_the_terminal_says_what_was_replaced(cli: Cli, tmp_path: Path) -> None:
    run = cli(f"{SERVE} --calibration {calibration(tmp_path)}")
    assert run.err == NOTE
    assert " ≈" in run.out


def test_a_machine_that_keeps_less_without_a_pause_has_longer_queues_of_prompts(
    cli: Cli, tmp_path: Path
) -> None:
    """Prompts one after the other wait longer, single ones and decodes do not."""
    command = SERVE.replace("--rate 5", "--precision bf16 --input-tokens 1000 --output-tokens 20 --rate {}")
    slow = calibration(tmp_path, sustained_flop_per_s={"bf16": 4e14})
    for rate, waits in ((0.2, False), (25, True)):
        before = answer(cli, command.format(rate))
        after = answer(cli, f"{command.format(rate)} --calibration {slow}")
        first, then = (found["metrics"]["ttft_s"]["p50"]["value"] for found in (before, after))
        assert (then > 1.2 * first) == waits, (first, then)
        assert then == pytest.approx(first, rel=0.03) or waits
    run = cli(f"{command.format(25)} --calibration {slow}")
    assert "h100-sxm without a pause: products of prompts in bf16 at 400 TFLOP/s" in run.err


def test_a_collective_before_and_after(
    cli: Cli, golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calibration(tmp_path, num_accelerators=8, collective_bus_bytes_per_s={"all_gather": 250e9})
    plain, measured = (answer(cli, f"{COLLECTIVE}{more}") for more in ("", " --calibration calibration.json"))
    slower = measured["time_s"]["value"] / plain["time_s"]["value"]
    assert slower == pytest.approx(plain["bus_bytes_per_s"]["value"] / measured["bus_bytes_per_s"]["value"])
    assert slower > 1.2
    runs = [cli(COLLECTIVE), cli(f"{COLLECTIVE} --calibration calibration.json")]
    golden("calibration-collective", "\n".join(run.transcript() for run in runs))


def test_the_search_slows_the_accelerator_that_was_measured(cli: Cli, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    before = answer(cli, RECOMMEND)
    after = answer(cli, f"{RECOMMEND} --calibration {calibration(tmp_path)} --plan {plan}")

    def cost(found: dict[str, Any], gpu: str) -> Any:
        return next(o for o in found["options"] if o["machine"]["accelerator"] == gpu)["performance"][
            "usd_per_million_tokens"
        ]

    assert cost(after, "h100-sxm")["value"] > 1.3 * cost(before, "h100-sxm")["value"]
    assert cost(after, "l40s") == cost(before, "l40s")
    assert [cost(after, gpu)["basis"] for gpu in ("h100-sxm", "l40s")] == ["calibrated", "modelled"]
    (tmp_path / "calibration.json").unlink()
    run = cli(f"advisor replay {plan}")
    assert run.code == 0
    assert NOTE in run.err
    assert "the same answer" in run.err


def test_validated_rows_of_the_accelerator_use_it(cli: Cli, tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text(
        "case_id,engine,model,gpu,load,tp,isl,osl,concurrency,weight_dtype\n"
        "a,vllm,llama-3.1-8b,h100-sxm,closed,1,500,100,8,bf16\n"
        "b,vllm,llama-3.1-8b,l40s,closed,1,500,100,8,bf16\n"
    )

    def tpot(options: str) -> dict[str, tuple[str, float]]:
        out = tmp_path / "out.csv"
        run = cli(f"advisor validate serving {cases} --predictions {out} {options}")
        assert run.code == 0, run.err
        assert ("calibrated" in run.err) is bool(options)
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        column = next(name for name in rows[0] if name.startswith("pred_tpot"))
        return {row["case_id"]: (row["basis"], float(row[column])) for row in rows}

    before = tpot("")
    after = tpot(f"--calibration {calibration(tmp_path)}")
    assert after["b"] == before["b"]
    assert after["a"][0] == "calibrated"
    assert after["a"][1] > 1.5 * before["a"][1]


def test_validated_collectives_of_the_accelerator_use_its_links(cli: Cli, tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text(
        "case_id,gpu,n_gpus,nodes,fabric,collective,msg_bytes\n"
        "a,h100-sxm,8,1,NVLink4,all_gather,1073741824\n"
        "b,a100-sxm-80gb,8,1,NVLink3,all_gather,1073741824\n"
    )

    def time_us(options: str) -> dict[str, float]:
        out = tmp_path / "out.csv"
        run = cli(f"advisor validate collectives {cases} --predictions {out} {options}")
        assert run.code == 0, run.err
        assert ("scale-up link 250 GB/s" in run.err or "calibrated: scale-up link" in run.err) is bool(
            options
        )
        with out.open(newline="") as file:
            return {row["case_id"]: float(row["pred_time_us"]) for row in csv.DictReader(file)}

    slow = calibration(tmp_path, num_accelerators=8, collective_bus_bytes_per_s={"all_gather": 200e9})
    before = time_us("")
    after = time_us(f"--calibration {slow}")
    assert after["b"] == before["b"]
    assert after["a"] == pytest.approx(2**30 * 7 / 8 / 200e9 * 1e6, rel=0.001)
    assert after["a"] > 1.3 * before["a"]


@pytest.mark.parametrize("command", [SERVE, COLLECTIVE, RECOMMEND])
def test_a_calibration_of_other_hardware_is_said_to_be_unused(cli: Cli, tmp_path: Path, command: str) -> None:
    other = calibration(tmp_path, accelerator="h200-sxm", bandwidth_bytes_per_s=2e12)
    before = answer(cli, command)
    after = answer(cli, f"{command} --calibration {other}")
    assert any(
        "the calibration is not used: it is of h200-sxm, this answer is about h100-sxm" in warning
        for warning in after["warnings"]
    )
    for name in ("metrics", "time_s", "options"):
        assert after.get(name) == before.get(name)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"accelerator": "h101"}, "h101"),
        ({"bandwidth_bytes_per_s": 3350}, "the calibration's bandwidth is implausible"),
        ({"matmul_flop_per_s": {"fp8": 1e16}}, "the calibration's fp8 is implausible"),
        (
            {"num_accelerators": 8, "collective_bus_bytes_per_s": {"all_gather": 250}},
            "the calibration's scale-up link is implausible",
        ),
    ],
)
@pytest.mark.parametrize("command", [SERVE, COLLECTIVE, RECOMMEND, *VALIDATE])
def test_a_calibration_that_cannot_be_is_refused(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    fields: dict[str, object],
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = cli(f"{command} --calibration {calibration(tmp_path, **fields)}")
    assert run.code == 2
    assert what in run.err
    assert "To fix:" in run.err
    assert run.out == ""


def test_a_calibration_without_a_figure_that_counts_says_so(cli: Cli, tmp_path: Path) -> None:
    empty = calibration(tmp_path, launch_s=1e-6)
    warnings = answer(cli, f"{SERVE} --calibration {empty}")["warnings"]
    assert any("neither a bandwidth nor a rate" in warning for warning in warnings)
