"""`advisor probe`, `calibrate` and `compare` on the command line, over recordings and without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.commands.probe import run as probe_run
from advisor.probes.document import read_probe
from advisor.probes.record import Measurement, ProbedMachine
from advisor.probes.session import Session

MEASURED = Path(__file__).resolve().parents[2] / "catalog" / "data" / "measured"


def list_recordings(num_gpus):
    return sorted(MEASURED.glob(f"h200-sxm-x{num_gpus}-*.json"))[-1]


def store_right_results(session, place, steps, gpu, folder):
    """A worker for recordings from before results were checked: it measures nothing else."""
    assert [step.name for step in steps] == ["truth"]
    right = {"required": 1.0, "operator": "<=", "source": "rule", "gpu": gpu}
    found = [Measurement(id="truth.product.bf16", value=0.4, **right)]
    found += [Measurement.ruled(f"truth.{name}", "right", "right", True, gpu=gpu) for name in ("sum", "copy")]
    session._store(f"{place}/truth", found)


@pytest.fixture
def replayed(monkeypatch):
    """A session that answers with a recording instead of measuring."""

    def use(num_gpus, **gpu_fields):
        probe = read_probe(list_recordings(num_gpus))
        gpus = tuple(gpu.model_copy(update=gpu_fields) for gpu in probe.machine.gpus)
        machine = probe.machine.model_copy(update={"gpus": gpus})
        monkeypatch.setattr("advisor.probes.session.identify", lambda wanted: machine)
        monkeypatch.setattr(Session, "_ask_torch", lambda self, held: held.close())
        steps = {}
        for m in probe.measurements:
            if m.step:
                steps.setdefault(m.step, []).append(m)
        monkeypatch.setattr(Session, "_run_worker", store_right_results)
        resume = list_recordings(num_gpus)
        return f"advisor probe {'--quick' if probe.mode == 'quick' else '--full'} --resume {resume}"

    return use


def test_a_healthy_machine_passes(cli, replayed, tmp_path):
    out = tmp_path / "probe.json"
    report = tmp_path / "report.html"
    run = cli(f"{replayed(8)} --expect 8xh200-sxm -o {out} --report {report}")
    assert run.code == 0, run.err
    assert run.out.startswith("8 x h200-sxm: PASS")
    document = json.loads(out.read_text())
    assert document["kind"] == "probe"
    assert document["verdict"] == "pass"
    assert document["is_complete"]
    assert document["measurements"][0].keys() >= {
        "id",
        "instrument",
        "pattern",
        "value",
        "p5",
        "p95",
        "unit",
        "expected",
        "required",
        "source",
        "status",
    }
    assert "<table " in report.read_text()


def test_another_board_than_ordered_fails_with_advice_and_commands(cli, replayed, tmp_path):
    report = tmp_path / "report.md"
    run = cli(f"{replayed(8, accelerator='h100-sxm')} --expect h200 --report {report}")
    assert run.code == 4
    assert "FAIL" in run.out
    text = report.read_text()
    assert "identity.sku" in text
    assert "nvidia-smi" in text


def test_a_warning_is_an_error_under_strict_alone(cli, replayed):
    command = replayed(8, utilization_fraction=0.5)
    assert cli(command).code == 0
    assert cli(f"{command} --strict").code == 5


def test_one_of_eight_missing_is_noticed(cli, replayed):
    assert cli(f"{replayed(8)} --expect 9xh200-sxm").code == 4


def test_json_alone_is_on_stdout(cli, replayed):
    run = cli(f"{replayed(1)} --json")
    assert json.loads(run.out)["accelerator"] == "h200-sxm"


def test_without_a_gpu_it_measures_the_host_and_says_what_is_missing(cli, monkeypatch):
    monkeypatch.setattr(
        "advisor.probes.session.identify", lambda wanted: ProbedMachine(missing=("no GPU driver answers",))
    )
    host = [Measurement(id="host.memory_copy", value=1e10, unit="bytes/s")]
    monkeypatch.setattr(
        Session,
        "_measure_steps",
        lambda self, place, *rest: self._store(f"{place}/x", host),
    )
    run = cli("advisor probe")
    assert run.code == 6
    assert "host.memory_copy" in run.out
    assert "no GPU driver answers" in run.err


def test_interruption_saves_and_says_how_to_go_on(cli, monkeypatch, tmp_path):
    out = tmp_path / "probe.json"
    machine = read_probe(list_recordings(1)).machine

    def stop(self):
        self.save(machine, [Measurement(id="memory.read", gpu=0, value=1.0, step="gpu0/bandwidth")])
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", stop)
    run = cli(f"advisor probe -o {out}")
    assert run.code == 130
    assert f"--resume {out}" in run.err
    kept = read_probe(out)
    assert not kept.is_complete
    assert kept.measurements[0].step == "gpu0/bandwidth"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("advisor probe --expect h1000", "h1000"),
        ("advisor probe --expect 0xh100-sxm", "0 GPUs"),
        ("advisor probe --gpus one", "no list of GPUs"),
        ("advisor probe --resume missing.json", "no such file"),
        ("advisor probe --report nowhere/report.md", "no folder"),
        ("advisor calibrate missing.json", "no such file"),
        ("advisor calibrate h200-sxm-x3", "h200-sxm-x4"),
        ("advisor compare missing.json other.json", "no such file"),
        (
            "advisor roofline --gpu h200-sxm --model 8b --calibration h200-sxm-x1",
            "advisor calibrate h200-sxm-x1 -o",
        ),
    ],
)
def test_bad_input_is_told_in_words(cli, command, words):
    run = cli(command)
    assert run.code == 2
    assert words in run.err
    assert "To fix" in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": ()}, "GPU 0 was NVIDIA H200, here it is none"),
        ({"cpu": "Another CPU"}, "here it is Another CPU"),
    ],
)
def test_a_probe_of_another_machine_is_not_resumed(cli, replayed, monkeypatch, changes, words):
    command = replayed(1)
    elsewhere = read_probe(list_recordings(1)).machine.model_copy(update=changes)
    monkeypatch.setattr("advisor.probes.session.identify", lambda wanted: elsewhere)
    run = cli(command)
    assert run.code == 2
    assert "on another machine" in run.err
    assert words in run.err
    assert "PASS" not in run.out


def test_a_verdict_does_not_rest_on_a_file_without_a_seal(cli, replayed, tmp_path):
    command = replayed(1)
    old = tmp_path / "old.json"
    content = json.loads(list_recordings(1).read_text())
    del content["seal"]
    old.write_text(json.dumps(content))
    run = cli(f"{command.partition('--resume')[0]} --resume {old}")
    assert run.code == 2
    assert "bears no seal" in run.err
    assert "PASS" not in run.out


def test_a_probe_that_was_cut_off_is_told_from_a_typing_error(cli, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text(list_recordings(1).read_text()[:2000])
    run = cli(f"advisor calibrate {cut}")
    assert run.code == 2
    assert "cut off" in run.err


def test_a_gpu_that_does_not_exist(cli, replayed, monkeypatch):
    monkeypatch.setattr("advisor.probes.session.identify", lambda wanted: ProbedMachine())
    monkeypatch.setattr(Session, "_measure_steps", lambda self, *arguments: None)
    run = cli("advisor probe --gpus 5")
    assert run.code == 6
    assert "only 0 of them answer" in run.err


def test_a_calibration_is_made_and_understood(cli, tmp_path):
    file = tmp_path / "calibration.json"
    run = cli(f"advisor calibrate {list_recordings(8)} -o {file}")
    assert run.code == 0, run.err
    from advisor.ask.own_data import read_calibration

    found = read_calibration(file)
    assert found.num_accelerators == 8
    assert 3e11 < found.collective_bus_bytes_per_s["all_reduce"] < 4.5e11
    assert 1e-6 < found.collective_latency_s["all_reduce"] < 1e-4
    assert found.driver


def test_two_probes_of_one_machine_are_compared(cli):
    run = cli(f"advisor compare {list_recordings(1)} {list_recordings(8)} --json")
    document = json.loads(run.out)
    assert document["kind"] == "comparison"
    changes = {(d["id"], d["instrument"]): d["change_fraction"] for d in document["differences"]}
    assert abs(changes[("memory.read", "triton")]) < 0.03
    assert document["num_alike"] <= document["num_compared"]


def test_expectations_may_name_a_number():
    board, number, _ = probe_run.parse_expect("8xh100-sxm")
    assert (board.id, number) == ("h100-sxm", 8)
    board, number, note = probe_run.parse_expect("h200")
    assert (board.id, number) == ("h200-sxm", None)
    assert note


def test_the_command_never_loads_torch():
    code = (
        "import sys; from advisor.__main__ import main; main(['probe', '--help']); "
        "import advisor.commands.probe.run; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
