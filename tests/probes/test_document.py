import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR
from advisor.probes.calibrate import calibration_of, slowest_gpu
from advisor.probes.compare import compare
from advisor.probes.document import find_recording, content_of, read_probe
from advisor.probes.record import Gpu, ProbedMachine, Measurement, redact
from advisor.render.document import to_json


def write(tmp_path, content):
    file = tmp_path / "probe.json"
    file.write_text(json.dumps(content))
    return file


def test_survives_a_round_trip(recording, tmp_path):
    again = read_probe(write(tmp_path, to_json(content_of(recording))))
    assert again.measurements == recording.measurements
    assert again.machine == recording.machine
    assert again.verdict == recording.verdict == "pass"


def test_names_of_the_owner_are_redacted():
    gpus = tuple(Gpu(index=i, serial=f"16539240{i}", uuid=f"GPU-bc9{i}") for i in range(2))
    machine = redact(ProbedMachine(host_name="node-17.example.com", gpus=gpus))
    text = machine.model_dump_json()
    assert "example" not in text
    assert "1653924" not in text
    assert "bc9" not in text
    assert machine.gpus[0].serial != machine.gpus[1].serial


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content["measurements"][20].update(status="pass", value=9e12),
        lambda content: content["machine"]["gpus"][0].update(power_limit_w=700.5),
        lambda content: content["measurements"].pop(),
        lambda content: content.update(accelerator="h100-sxm"),
    ],
    ids=["a value", "the machine", "a row", "the board"],
)
def test_a_file_that_was_edited_is_refused(recording, tmp_path, edit):
    content = to_json(content_of(recording))
    edit(content)
    with pytest.raises(InputFileError, match="does not hold what was measured"):
        read_probe(write(tmp_path, content))


def test_the_seal_of_a_large_machine_survives(recording, tmp_path):
    gpu = recording.machine.gpus[0]
    gpus = tuple(gpu.model_copy(update={"index": i, "serial": f"16539{i:03}"}) for i in range(16))
    probe = replace(recording, machine=recording.machine.model_copy(update={"gpus": gpus}))
    assert read_probe(write(tmp_path, to_json(content_of(probe)))).is_sealed


def test_a_file_of_an_older_version_bears_no_seal(recording, tmp_path):
    content = to_json(content_of(recording))
    assert read_probe(write(tmp_path, content)).is_sealed
    del content["seal"]
    assert not read_probe(write(tmp_path, content)).is_sealed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json", "not valid JSON"),
        ({"kind": "plan"}, "is no probe"),
        ([1, 2], "is no probe"),
        ({"kind": "probe", "benchmark_version": 99}, "another version"),
        ({"kind": "probe", "benchmark_version": 1, "machine": {}}, "measurements is missing"),
        ({"kind": "probe", "benchmark_version": 1, "machine": [], "measurements": []}, "machine is missing"),
        (
            {"kind": "probe", "benchmark_version": 1, "machine": {}, "measurements": [{"gpu": 0}]},
            "measurements",
        ),
    ],
)
def test_foreign_files_are_refused_in_words(tmp_path, content, words):
    file = tmp_path / "probe.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputFileError, match=words):
        read_probe(file)


def test_calibration_holds_what_was_measured(recording):
    found = calibration_of(recording)
    assert found.accelerator == "h200-sxm"
    assert 4.2e12 < found.bandwidth_bytes_per_s < 4.81e12
    assert found.matmul_flop_per_s["fp8"] > found.matmul_flop_per_s["bf16"] > 6e14
    assert 1e-7 < found.launch_s < 1e-5
    assert found.host_to_device_bytes_per_s > 4e10
    assert found.collective_bus_bytes_per_s == {}


def test_the_slowest_gpu_with_its_better_instrument_counts(recording):
    read = next(m for m in recording.measurements if m.id == "memory.read")
    rows = [
        read.model_copy(update={"gpu": gpu, "instrument": instrument, "value": value})
        for gpu, instrument, value in [(0, "a", 5.0), (0, "b", 9.0), (1, "a", 7.0), (1, "b", 6.0)]
    ]
    assert slowest_gpu(rows, "memory.read") == 7.0
    assert slowest_gpu(rows, "memory.copy") is None


def product(gpu, instrument, rate):
    return Measurement(id="compute.matmul.bf16", gpu=gpu, instrument=instrument, value=rate, unit="flop/s")


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"torch": (700e12, 690e12), "triton": (720e12, 730e12)}, 690e12),
        ({"torch": (400e12, 690e12), "triton": (720e12, 710e12)}, 710e12),
        ({"triton": (720e12, 710e12)}, 710e12),
    ],
    ids=["library", "slow library", "no library"],
)
def test_products_are_calibrated_by_the_library_unless_it_is_slow(recording, rates, expected):
    rows = tuple(
        product(gpu, name, rate) for name, values in rates.items() for gpu, rate in enumerate(values)
    )
    found = calibration_of(replace(recording, measurements=rows))
    assert found.matmul_flop_per_s == {"bf16": expected}


def test_a_probe_without_a_board_cannot_calibrate(recording):
    with pytest.raises(InputFileError, match="names no accelerator"):
        calibration_of(replace(recording, accelerator=""))
    with pytest.raises(InputFileError, match="nothing to calibrate"):
        calibration_of(replace(recording, measurements=()))


def test_comparison_finds_what_changed(recording):
    changed = tuple(
        m.model_copy(update={"value": 0.66 * m.value})
        if m.id == "memory.copy" and m.instrument == "triton"
        else m
        for m in recording.measurements
    )
    found = compare(recording, replace(recording, measurements=changed))
    assert found[0].id == "memory.copy"
    assert found[0].change_fraction == pytest.approx(-0.34)
    assert [d.is_alike for d in found[:2]] == [False, True]


def test_bundled_recordings_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_recording(Path("h200-sxm-x8")).name.startswith("h200-sxm-x8-2026")
    assert find_recording(Path("h200-sxm-x3")) == Path("h200-sxm-x3")
    (tmp_path / "h200-sxm-x8").write_text("mine")
    assert find_recording(Path("h200-sxm-x8")) == Path("h200-sxm-x8")
    with pytest.raises(InputFileError, match="no such file"):
        read_probe(Path("h200-sxm-x3"))


def test_bundled_recordings_hold_a_measurement_a_line():
    texts = {path: path.read_text() for path in (DATA_DIR / "measured").glob("*.json")}
    probes = [path for path, text in texts.items() if json.loads(text)["kind"] == "probe"]
    assert len(probes) >= 6
    for path in probes:
        probe = read_probe(path)
        assert probe.is_sealed
        assert len(texts[path].splitlines()) < len(probe.measurements) + 60
