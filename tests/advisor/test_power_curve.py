"""A power sweep from the probe to the answers: the curve, hardware under a limit, and what a token costs."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.catalog import accelerators
from advisor.catalog.schema import Calibration
from advisor.catalog.schema.accelerator import PowerPoint
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.probes.record import Measurement
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.device import with_power_cap
from advisor.workstation.hardware import Hardware

DAY = "--as-of 2026-11-20"
CURVE = (
    (200, 250e12, 3.0e12),
    (300, 430e12, 4.0e12),
    (400, 560e12, 4.5e12),
    (500, 620e12, 4.6e12),
    (700, 676e12, 4.6e12),
)


def point(watts: float, flop: float, read: float) -> PowerPoint:
    return PowerPoint(
        limit_w=watts,
        matmul_flop_per_s=flop,
        matmul_w=watts,
        bandwidth_bytes_per_s=read,
        bandwidth_w=watts / 2,
    )


def points() -> tuple[PowerPoint, ...]:
    return tuple(point(*one) for one in CURVE)


def rows(gpu: int, slower: float) -> list[Measurement]:
    names = ("product", "product_draw", "read", "read_draw")
    return [
        Measurement(id=f"power.{name}", gpu=gpu, pattern=f"at {watts} W", value=value)
        for watts, flop, read in CURVE
        for name, value in zip(
            names, (flop * slower, watts * (2 - slower), read * slower, 300.0), strict=True
        )
    ]


def test_the_calibration_keeps_the_slowest_rate_and_the_highest_draw() -> None:
    probe = read_probe(Path("h200-sxm-x1"))
    swept = replace(probe, measurements=(*probe.measurements, *rows(0, 1.0), *rows(1, 0.9)))
    found = calibration_of(swept).power_points
    assert [point.limit_w for point in found] == [200, 300, 400, 500, 700]
    assert found[-1].matmul_flop_per_s == pytest.approx(0.9 * 676e12)
    assert found[-1].matmul_w == pytest.approx(1.1 * 700)
    assert calibration_of(probe).power_points == ()


def test_a_limit_that_was_cut_short_is_left_out() -> None:
    probe = read_probe(Path("h200-sxm-x1"))
    torn = replace(probe, measurements=(*probe.measurements, *rows(0, 1.0)[:-1]))
    assert [point.limit_w for point in calibration_of(torn).power_points] == [200, 300, 400, 500]


@pytest.fixture
def swept() -> Calibration:
    return Calibration(accelerator="h200-sxm", power_points=points())


@pytest.mark.parametrize(
    ("watts", "computing", "reading"),
    [
        (700, 1.0, 1.0),
        (900, 1.0, 1.0),
        (350, 495 / 676, 4.25 / 4.6),
        (200, 250 / 676, 3.0 / 4.6),
        (50, 250 / 676, 3.0 / 4.6),
    ],
)
def test_hardware_under_a_limit_follows_the_curve(
    swept: Calibration, watts: float, computing: float, reading: float
) -> None:
    record = calibrated_accelerator(accelerators.by_id("h200-sxm"), swept)
    capped = with_power_cap(record, watts)
    assert capped.peak_flop_per_s["bf16"] == pytest.approx(computing * record.peak_flop_per_s["bf16"])
    assert (capped.bandwidth_bytes_per_s or 0) == pytest.approx(reading * (record.bandwidth_bytes_per_s or 0))


def test_a_curve_of_another_board_changes_nothing(swept: Calibration) -> None:
    card = accelerators.by_id("rtx-4090")
    assert calibrated_accelerator(card, swept) is card
    assert Hardware("rtx-4090", 1, 0.7).record(swept) == Hardware("rtx-4090", 1, 0.7).record()


def ask(words: str, folder: Path, calibration: Calibration | None) -> tuple[dict[str, Any], str]:
    more = []
    if calibration is not None:
        (folder / "c.json").write_text(calibration.model_dump_json())
        more = ["--calibration", str(folder / "c.json")]
    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main([*words.split(), *DAY.split(), "--json", *more]) == 0, err.getvalue()
    found: dict[str, Any] = json.loads(out.getvalue())
    return found, err.getvalue()


def test_cost_prices_every_limit_of_ones_own_hardware(swept: Calibration, tmp_path: Path) -> None:
    words = "cost --model 8b --gpu h200 --api none --ttft-p99 5s --own 8xh200-sxm"
    found, told = ask(words, tmp_path, swept)
    limits = found["power_limits"]
    assert [row["limit_w"] for row in limits] == [200, 300, 400, 500, 700]
    rates = [row["output_tokens_per_s"] for row in limits]
    assert rates == sorted(rates)
    per_joule = {row["limit_w"]: row["output_tokens_per_joule"] for row in limits}
    assert max(per_joule, key=lambda watts: per_joule[watts]) in (300, 400)
    assert per_joule[700] < 0.8 * max(per_joule.values())
    for row in limits:
        assert row["output_tokens_per_joule"] * row["limit_w"] == pytest.approx(row["output_tokens_per_s"])
    # At the highest limit the machine is the one that is priced without any.
    priced = found["owned"][0]["usd_per_million_tokens"]["value"]
    assert limits[-1]["usd_per_million_tokens"] == pytest.approx(priced, rel=0.02)
    assert "as measured at 5 from 200 to 700 W" in told
    assert ask(words, tmp_path, None)[0]["power_limits"] == []


def test_build_takes_the_curve_for_its_power_limits(tmp_path: Path) -> None:
    flat = tuple(point(watts, 1e14, 9e11) for watts in (150, 350))
    words = "build --model 8b --gpu rtx-3090 --max-gpus 1 --budget 2500 --used --top 1"
    assumed, measured = (
        ask(words, tmp_path, calibration)[0]["builds"][0]["performance"]["power_points"]
        for calibration in (None, Calibration(accelerator="rtx-3090", power_points=flat))
    )
    speeds = [point["output_tokens_per_s"] for point in assumed]
    assert min(speeds) < 0.97 * max(speeds)
    speeds = [point["output_tokens_per_s"] for point in measured]
    assert min(speeds) == pytest.approx(max(speeds), rel=1e-6)
    assert max(point["output_tokens_per_joule"] for point in measured) > max(
        point["output_tokens_per_joule"] for point in assumed
    )


@pytest.mark.parametrize("field", ["limit_w", "matmul_flop_per_s", "bandwidth_w"])
def test_points_that_are_none_are_refused(
    swept: Calibration, tmp_path: Path, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(swept.model_dump_json())
    values["power_points"][1][field] = -1.0
    (tmp_path / "c.json").write_text(json.dumps(values))
    assert main(["cost", "--model", "8b", "--calibration", str(tmp_path / "c.json")]) == 2
    assert field in capsys.readouterr().err


def test_recommend_takes_the_limits_that_were_measured(swept: Calibration, tmp_path: Path) -> None:
    words = "recommend --model 8b --rate 4 --own 8xh200-sxm --engine vllm --precision bf16 --levers power-cap"
    option = ask(words, tmp_path, swept)[0]["options"][0]
    assert option["machine"]["power_limit_w"] in (200, 300, 400, 500)
    assert option["machine"]["power_limit_w"] < 0.7 * 700  # lower than is tried without a sweep
    args = " ".join(option["launch"]["simulate_args"])
    again = ask(f"simulate serve {args}", tmp_path, swept)[0]["metrics"]["tpot_s"]["p50"]["value"]
    assert again == pytest.approx(option["performance"]["tpot_s"]["p50"]["value"], rel=0.03)
