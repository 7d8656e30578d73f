"""The power sweep against a recorded NVML: which limits are tried, what is concluded, and that limits come back."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.probes import power, session
from advisor.probes.power import limits_of, per_joule
from advisor.probes.process import environment
from advisor.probes.record import Gpu, ProbedMachine, Measurement
from advisor.probes.session import Session

NVML = """
import json, os
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceSetPowerManagementLimit(handle, milliwatt):
    if os.environ.get("NVML_REFUSES"): raise NVMLError("Insufficient Permissions")
    with open(os.environ["NVML_LOG"], "a") as log: log.write(json.dumps([handle, milliwatt]) + "\\n")
"""


@pytest.fixture
def recorded_nvml(tmp_path, monkeypatch):
    """A driver that writes down which limits it was told to set; returns them, as [GPU, W]."""
    (tmp_path / "pynvml.py").write_text(NVML)
    log = tmp_path / "limits"
    log.touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(power.__file__).resolve().parents[1]}")
    monkeypatch.setenv("NVML_LOG", str(log))
    return lambda: [(gpu, mw / 1000) for gpu, mw in map(json.loads, log.read_text().splitlines())]


def test_limits_lie_evenly_between_the_lowest_and_the_default():
    gpu = Gpu(index=0, power_min_w=200.0, power_default_w=700.0)
    assert limits_of(gpu) == (200.0, 300.0, 400.0, 500.0, 600.0, 700.0)
    assert limits_of(Gpu(index=0, power_default_w=700.0)) == ()
    assert limits_of(Gpu(index=0, power_min_w=150.0, power_default_w=150.0)) == ()


def point(watts, flop_per_s, read, gpu=0):
    pattern = f"at {watts} W"
    values = {"product": flop_per_s, "product_draw": 0.98 * watts, "read": read, "read_draw": 0.6 * watts}
    return [Measurement(id=f"power.{k}", gpu=gpu, pattern=pattern, value=float(v)) for k, v in values.items()]


def test_the_sweet_spot_keeps_most_of_the_rate():
    rates = {200: 250e12, 300: 430e12, 400: 560e12, 500: 620e12, 600: 660e12, 700: 676e12}
    found = per_joule([m for watts, rate in rates.items() for m in point(watts, rate, 4.2e12)])
    (best,) = (m for m in found if m.id == "power.sweet_spot")
    assert best.value == 500.0
    assert "92% of the full rate" in best.note
    decode = {m.pattern: m.value for m in found if m.id == "power.decode"}
    assert decode["at 200 W"] == pytest.approx(64 * 4.2e12 / 16e9 / 120)
    assert len(decode) == 6
    assert per_joule([]) == []


ENDINGS = {
    "return": "pass",
    "an error": "raise ValueError",
    "an exit": "sys.exit(3)",
    "no exit at all": "os._exit(9)",
    "a kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "a hang-up": "os.kill(os.getpid(), signal.SIGHUP)",
    "an interrupt of the group": "os.killpg(0, signal.SIGINT)",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_limits_come_back_on_every_ending(recorded_nvml, ending):
    script = (
        "import os, signal, sys; from advisor.probes.power import restore_limits, set_limit\n"
        f"with restore_limits({{0: 700.0, 1: 650.0}}):\n    set_limit(0, 300.0)\n    {ending}\n"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        env=environment([0, 1]),
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while len(recorded_nvml()) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert recorded_nvml() == [(0, 300.0), (0, 700.0), (1, 650.0)]


@pytest.fixture
def one_gpu(monkeypatch, recorded_nvml):
    gpu = Gpu(index=0, accelerator="h200-sxm", power_limit_w=700.0, power_default_w=700.0, power_min_w=200.0)
    machine = ProbedMachine(gpus=(gpu,), torch="2.11")
    monkeypatch.setattr(session, "identify", lambda wanted: machine)
    monkeypatch.setattr(Session, "_ask_torch", lambda self, held: held.close())
    tried = []

    def measure(self, place, *rest):
        if place.endswith("W"):
            tried.append(place)
            watts = int(place.removeprefix("gpu0-").removesuffix("W"))
            self._store(f"{place}/power", point(watts, 1e12 * watts**0.5, 4e12))

    monkeypatch.setattr(Session, "_measure_steps", measure)
    return tried


def test_a_sweep_tries_every_limit(one_gpu, recorded_nvml, monkeypatch):
    monkeypatch.setattr(session, "set_limit", lambda gpu, watts: None)
    _, found = Session(quick=True, power_sweep=True).run()
    assert len(one_gpu) == 6
    assert [m.value for m in found if m.id == "power.sweet_spot"] == [600.0]
    assert recorded_nvml() == [(0, 700.0)]


def test_a_driver_that_refuses_is_told(one_gpu, monkeypatch):
    monkeypatch.setattr(power.nvml, "library", lambda: None)
    monkeypatch.setenv("NVML_REFUSES", "1")
    _, found = Session(quick=True, power_sweep=True).run()
    (told,) = (m for m in found if m.id == "power.sweet_spot")
    assert told.status == "not_measured"
    assert "cannot be set" in told.note
