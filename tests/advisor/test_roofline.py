"""`advisor roofline`: its answer in every form, the measured roof, occupancy, and what a mistake gets."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.commands.roofline.svg import Mark, RoofLine, roofline_svg
from advisor.simulator.single_operator import OPERATOR_NAMES, OperatorName, shape_example, shape_names

Cli = Callable[[str], Any]
BASE = "advisor roofline --gpu h100-sxm --model llama-3.1-8b"
SVG = "{http://www.w3.org/2000/svg}"


def answer(cli: Cli, options: str = "") -> dict[str, Any]:
    return cli(f"{BASE} {options} --json").document()


def calibration(folder: Path) -> Path:
    path = folder / "calibration.json"
    values = {"bandwidth_bytes_per_s": 2.8e12, "matmul_flop_per_s": {"bf16": 6e14}}
    path.write_text(json.dumps({"kind": "calibration", "accelerator": "h100-sxm"} | values))
    return path


def test_the_document_has_roofs_passes_and_operators(cli: Cli) -> None:
    document = answer(cli, "--batch 8 --context 1024 --weight-dtype fp8")
    (roof,) = document["roofs"]
    assert roof["name"] == "datasheet"
    assert list(roof["peak_flop_per_s"]) == ["bf16", "fp8"]
    assert roof["ridge_flop_per_byte"]["bf16"] == pytest.approx(295, abs=1)
    assert [one["phase"] for one in document["passes"]] == ["decode", "prefill"]
    for one in document["passes"]:
        parts = [o["predicted_s"]["value"] for o in document["operators"] if o["phase"] == one["phase"]]
        assert sum(parts) == pytest.approx(one["predicted_s"]["value"])
    head = next(o for o in document["operators"] if (o["phase"], o["operator"]) == ("decode", "head"))
    assert head["intensity_flop_per_byte"] == pytest.approx(8.0)
    assert head["achieved_flop_per_s"] == pytest.approx(head["flop"] / head["predicted_s"]["value"])
    assert head["roof_fraction"] == pytest.approx(head["floor_s"] / head["predicted_s"]["value"])
    assert document["inputs"]["weight_dtype"] == "fp8"
    assert document["inputs"]["batch"] == 8


def test_the_measured_roof_stands_beside_the_datasheets(cli: Cli, tmp_path: Path) -> None:
    before = answer(cli)
    after = answer(cli, f"--calibration {calibration(tmp_path)}")
    measured = after["roofs"][1]
    assert after["roofs"][0] == before["roofs"][0]
    assert (measured["name"], measured["bandwidth_bytes_per_s"]) == ("measured", 2.8e12)
    assert measured["peak_flop_per_s"] == {"bf16": 6e14}
    assert "calibration" in after
    for first, second in zip(before["passes"], after["passes"], strict=True):
        assert second["predicted_s"]["value"] > 1.05 * first["predicted_s"]["value"]
        assert second["predicted_s"]["basis"] == "calibrated"
        assert second["floor_s"] == first["floor_s"]
    run = cli(f"{BASE} --calibration {calibration(tmp_path)}")
    assert "+ measured: 2.80 TB/s, bf16 600 TFLOP/s" in run.out
    assert "h100-sxm calibrated: bandwidth 2.80 of 3.35 TB/s" in run.err


def test_the_terminal_fits_and_its_letters_are_in_the_plot(cli: Cli) -> None:
    out = cli(BASE).out
    assert max(map(len, out.splitlines())) <= 100
    tables, _, plot = out.partition("Operators under the roof")
    letters = re.findall(r"^([a-zA-Z])  \w", tables, re.MULTILINE)
    assert letters == ["a", "b", "c", "d", "A", "B", "C", "D"]
    assert sum(letter in plot for letter in letters) >= 6  # two may share a cell


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_drawing_is_self_contained(cli: Cli, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"roofline.{suffix}"
    run = cli(f"{BASE} --calibration {calibration(tmp_path)} -o {file}")
    assert run.code == 0, run.err
    text = file.read_text(encoding="utf-8")
    drawing = text[text.index('<svg xmlns="') :].split("</svg>")[0] + "</svg>"
    root = ET.fromstring(drawing)
    circles = root.findall(f"{SVG}circle")
    assert len([each for each in circles if "aside" not in each.attrib["class"]]) == 8
    assert len(root.findall(f"{SVG}polyline")) == 2
    assert "prefers-color-scheme:dark" in drawing
    assert not re.search(r"(href|src|url\()", drawing)
    assert text.startswith("<svg" if suffix == "svg" else "<!doctype html>")
    assert "measured 2.80 TB/s" in drawing


def test_everything_drawn_lies_inside_the_drawing() -> None:
    roofs = [RoofLine("bf16 989", 3.35e12, 989e12), RoofLine("bf16 700 measured", 3e12, 700e12, True)]
    marks = [
        Mark("a", "low & <left>", "decode", 0.01, 1e9, 0.9),
        Mark("B", "high", "prefill", 1e5, 9e14, 0.0001),
    ]
    text = roofline_svg("a < b", roofs, marks)
    root = ET.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for circle in root.findall(f"{SVG}circle"):
        x, y, radius = (float(circle.attrib[name]) for name in ("cx", "cy", "r"))
        assert radius <= x <= width - radius
        assert radius <= y <= height - radius
    for line in root.findall(f"{SVG}polyline"):
        for corner in line.attrib["points"].split():
            x, y = map(float, corner.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


@pytest.mark.parametrize("intensity", [0.0, -1.0, float("inf"), float("nan")])
def test_a_drawing_of_nothing_is_refused(intensity: float) -> None:
    roofs = [RoofLine("bf16", 3e12, 1e15)]
    with pytest.raises(ValueError, match="roofline needs"):
        roofline_svg("title", roofs, [Mark("a", "x", "decode", intensity, 1e12, 0.5)])
    with pytest.raises(ValueError, match="roofline needs"):
        roofline_svg("title", roofs, [])


def test_a_model_that_does_not_fit_is_said_to_be_drawn_anyway(cli: Cli) -> None:
    run = cli("advisor roofline --gpu h100-sxm --model llama-3.1-70b --weight-dtype bf16")
    assert run.code == 0
    assert "do not fit the" in run.err


OCCUPANCY = "advisor roofline --occupancy --gpu h100-sxm"


def test_occupancy_document(cli: Cli) -> None:
    run = cli(f"{OCCUPANCY} --threads 128 --registers 37 --shared-memory 100KiB --json")
    found = json.loads(run.out)["occupancy"]
    assert (found["blocks_per_sm"], found["warps_per_sm"]) == (2, 8)
    assert found["limited_by"] == ["shared memory"]
    assert found["blocks_by_limit"]["registers"] == 12


@pytest.mark.parametrize(
    ("name", "command", "code", "told"),
    [
        (
            "occupancy",
            f"{OCCUPANCY} --threads 384 --registers 168 --shared-memory 100KiB",
            0,
            "12 of 64 warps",
        ),
        ("occupancy-amd", "advisor roofline --occupancy --gpu mi300x", 2, "no occupancy limits for gfx942"),
        ("occupancy-threads-2048", f"{OCCUPANCY} --threads 2048", 2, "2048"),
        ("occupancy-too-large", f"{OCCUPANCY} --threads 1024 --registers 128", 2, "registers"),
        ("card", "advisor roofline --gpu h100-sxm", 0, "591"),
        ("op-gemm", "advisor roofline --op gemm 4096x4096x4096 --gpu a100", 0, "1,365 flop/byte"),
        ("op-layernorm", "advisor roofline --op layernorm 4096x4096 --dtype fp16 --gpu a100", 0, "0.833"),
        ("op-conv", "advisor roofline --op conv2d 3x3 --gpu a100", 2, "the nearest that is modelled: gemm"),
        ("op-dimensions", "advisor roofline --op gemm 4096x4096 --gpu a100", 2, "3 dimensions"),
        (
            "op-order",
            "advisor roofline --op decode-attention --kv-heads 8 64x8192x64x128 --gpu a100",
            2,
            "batch=64,heads=64,context=8192,head_dim=128",
        ),
        ("op-no-shape", "advisor roofline --op softmax --gpu a100", 2, "has no shape"),
        ("op-tile-of-gelu", "advisor roofline --op gelu 64x64 --tile 8x8 --gpu a100", 2, "does not act"),
        ("op-and-model", f"{BASE} --op gemm 1x1x1", 2, "two questions"),
        ("weight-dtype-fp7", f"{BASE} --weight-dtype fp7", 2, "fp7"),
        ("batch-0", f"{BASE} --batch 0", 2, "--batch"),
    ],
)
def test_what_is_shown_to_people(
    cli: Cli, golden: Callable[[str, str], None], name: str, command: str, code: int, told: str
) -> None:
    run = cli(command)
    golden(f"roofline-{name}", run.transcript())
    assert run.code == code
    assert told in (run.err if code else run.out)


@pytest.mark.parametrize(
    ("command", "code", "what"),
    [
        ("--gpu h101 --model llama-3.1-8b", 2, "h101"),
        ("--gpu h100-sxm --model llama-9b", 2, "llama-9b"),
        ("--gpu h100-sxm --model llama-3.1-8b --context -1", 2, "--context"),
        ("--gpu h100-sxm --model llama-3.1-8b -o roofline.png", 2, "no output format"),
        ("--occupancy --gpu h100-sxm --shared-memory 100", 2, "unit is missing"),
        ("--occupancy --gpu h100-sxm --shared-memory 228KiB", 2, "out of range"),
        ("--occupancy --gpu m4-max-40-core", 2, "without compute capability"),
    ],
)
def test_a_mistake_is_told(cli: Cli, command: str, code: int, what: str) -> None:
    run = cli(f"advisor roofline {command}")
    assert run.code == code, run.err
    assert what in run.err
    assert "To fix:" in run.err or "--help" in run.err
    assert run.out == ""


def test_a_ring_of_an_all_reduce_is_no_faster_than_its_wire(cli: Cli) -> None:
    document = json.loads(cli("advisor roofline --op all-reduce 1GiB --gpu h200-sxm --gpus 8 --json").out)
    assert document["ring_floor_s"] == pytest.approx(2 * 7 / 8 * 2**30 / 450e9)


def test_a_card_has_a_ridge_for_every_format_and_what_the_probe_measured(cli: Cli) -> None:
    document = json.loads(cli("advisor roofline --gpu h200-sxm --json").out)
    assert document["ridge_flop_per_byte"]["bf16"] == pytest.approx(206, abs=1)
    assert document["ridge_flop_per_byte"]["fp8"] == pytest.approx(412, abs=1)
    latencies = {row["name"]: row["latency_s"] for row in document["levels"]}
    known = [seconds for seconds in latencies.values() if seconds]
    assert known[:3] == sorted(known[:3])  # each level farther away answers later
    assert latencies["device memory"] == pytest.approx(344e-9, rel=0.1)
    assert "h200-sxm-x1" in document["measured_by"]


@pytest.mark.parametrize("operator", OPERATOR_NAMES)
def test_sizes_by_name_answer_as_in_order_and_are_named_in_the_answer(
    cli: Cli, operator: OperatorName
) -> None:
    names = shape_names(operator)
    sizes = shape_example(operator).split("x")
    named = ",".join(f"{name}={size}" for name, size in sorted(zip(names, sizes, strict=True)))
    asked = f"advisor roofline --gpu h100-sxm --op {operator}"
    in_order = cli(f"{asked} {'x'.join(sizes)}")
    by_name = cli(f"{asked} {named}")
    assert (by_name.code, by_name.out) == (0, in_order.out)
    headline = " ".join(in_order.out.split())
    assert all(f"{name} {int(size):,}" in headline for name, size in zip(names, sizes, strict=True))
