"""The session with stand-ins for its processes: what is kept when one fails, hangs or is interrupted."""

import sys
import time

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.probes import process, session
from advisor.probes.process import Process, algorithm_of, environment, run_collective
from advisor.probes.record import Gpu, Machine, Measurement
from advisor.probes.session import Session, resumed, visible
from advisor.probes.steps import STEPS, plan, timeout_s
from advisor.probes.verdict import verdict


@pytest.fixture
def two_gpus(monkeypatch):
    gpus = tuple(Gpu(index=i, accelerator="h200-sxm", name="NVIDIA H200") for i in range(2))
    machine = Machine(gpus=gpus, torch="2.11")
    monkeypatch.setattr(session, "identify", lambda wanted: machine)
    monkeypatch.setattr(Session, "_with_torch_facts", lambda self, machine: machine)
    monkeypatch.setattr(session, "run_collective", lambda ranks, quick, limit: [])
    return machine


def stand_in(script):
    """A worker that runs this Python text instead; it sees the real arguments."""

    def make(command, env):
        return Process([sys.executable, "-c", script, *command[3:]], env)

    return make


WORKER = """
import json, sys, os, time
a = sys.argv; steps = a[a.index("--steps") + 1].split(","); gpu = int(a[a.index("--gpu") + 1])
def emit(**e): print(json.dumps(e), flush=True)
for s in steps:
    emit(event="start", step=s)
    if s == "{bad}" and gpu == 1:
        {action}
    emit(event="done", step=s, measurements=[{{"id": "x." + s, "gpu": gpu, "value": 1.0}}])
"""


def run_with(monkeypatch, bad, action):
    monkeypatch.setattr(session, "Process", stand_in(WORKER.format(bad=bad, action=action)))
    saved = []
    probe = Session(quick=True)
    probe.save = lambda machine, found: saved.append(len(found))
    _, found = probe.run()
    return found, saved


def test_every_gpu_runs_every_step(two_gpus, monkeypatch):
    found, saved = run_with(monkeypatch, "none", "pass")
    names = {step.name for step in plan(True, "gpu")}
    for gpu in (0, 1):
        assert {m.id.removeprefix("x.") for m in found if m.gpu == gpu and m.id.startswith("x.")} >= names
    assert saved == sorted(saved)
    assert len(saved) > len(names)


@pytest.mark.parametrize("action", ["os._exit(3)", "sys.stderr.write('segfault'); sys.exit(1)"])
def test_a_crash_loses_only_its_step(two_gpus, monkeypatch, action):
    found, _ = run_with(monkeypatch, "matmul", action)
    lost = [m for m in found if m.id == "step.matmul"]
    assert [(m.gpu, m.status) for m in lost] == [(1, "not_measured")]
    assert "ended with code" in lost[0].note
    assert {m.gpu for m in found if m.id == "x.sustained"} == {0, 1}


def test_a_failure_is_told_and_the_rest_goes_on(two_gpus, monkeypatch):
    action = 'emit(event="failed", step=s, reason="CUDA error: poisoned"); sys.exit(1)'
    found, _ = run_with(monkeypatch, "bandwidth", action)
    (lost,) = (m for m in found if m.id.startswith("step."))
    assert (lost.id, lost.note) == ("step.bandwidth", "CUDA error: poisoned")
    assert {m.gpu for m in found if m.id == "x.matmul"} == {0, 1}


def test_a_hang_is_stopped(two_gpus, monkeypatch):
    monkeypatch.setattr(session, "timeout_s", lambda step, quick: 1.0)
    monkeypatch.setattr(session, "START_S", 20.0)
    started = time.monotonic()
    found, _ = run_with(monkeypatch, "launch", "time.sleep(600)")
    assert time.monotonic() - started < 60
    (lost,) = (m for m in found if m.id.startswith("step."))
    assert "stopped" in lost.note
    assert {m.gpu for m in found if m.id == "x.sustained"} == {0, 1}


def test_a_gpu_that_keeps_hanging_is_given_up_and_never_passes(two_gpus, monkeypatch):
    monkeypatch.setattr(session, "timeout_s", lambda step, quick: 0.5)
    monkeypatch.setattr(session, "START_S", 0.5)
    worker = stand_in("import sys, time; time.sleep(600)")
    monkeypatch.setattr(session, "Process", worker)
    started = time.monotonic()
    _, found = Session(quick=True).run()
    assert time.monotonic() - started < 60
    lost = [m for m in found if m.id.startswith("step.") and m.gpu == 1]
    assert len(lost) == len(plan(True, "gpu"))
    assert sum("given up" in m.note for m in lost) == len(lost) - 2
    assert {m.status for m in found if m.id == "health.coverage" and m.gpu is not None} == {"fail"}


def test_two_probes_at_once_are_refused(two_gpus, monkeypatch):
    monkeypatch.setattr(session, "Process", stand_in(WORKER.format(bad="none", action="pass")))
    with process.alone(), pytest.raises(AdvisorError, match="another probe"):
        Session(quick=True).run()
    Session(quick=True).run()


def test_without_torch_nothing_passes(two_gpus, monkeypatch):
    machine = two_gpus.model_copy(update={"torch": ""})
    monkeypatch.setattr(session, "identify", lambda wanted: machine)
    monkeypatch.setattr(session, "Process", stand_in(WORKER.format(bad="none", action="pass")))
    _, found = Session(quick=True).run()
    assert verdict(found) == "warn"


def test_an_interruption_keeps_what_was_saved_and_can_be_resumed(two_gpus, monkeypatch):
    monkeypatch.setattr(session, "Process", stand_in(WORKER.format(bad="none", action="pass")))
    probe = Session(quick=True)
    kept = []

    def save(machine, found):
        kept[:] = found
        if any(m.step == "gpu0/matmul" for m in found):
            raise KeyboardInterrupt

    probe.save = save
    monkeypatch.setattr(session.threading, "excepthook", lambda args: None)
    with pytest.raises(KeyboardInterrupt):
        probe.run()
    done = resumed(kept)
    assert "gpu0/matmul" in done
    again = Session(quick=True, done=done)
    _, found = again.run()
    assert len([m for m in found if m.id == "x.matmul"]) == 2


def test_lost_steps_are_measured_again_on_resume():
    rows = [
        Measurement(id="memory.read", step="gpu0/bandwidth", value=1.0),
        Measurement(id="step.matmul", step="gpu0/matmul", status="not_measured"),
        Measurement(id="identity.ecc", value="on"),
    ]
    assert set(resumed(rows)) == {"gpu0/bandwidth"}


def test_only_visible_gpus_are_measured(two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.index for gpu in visible(two_gpus).gpus] == [1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(visible(two_gpus).gpus) == 2


def test_a_worker_sees_its_gpu_alone(monkeypatch):
    env = environment([3])
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_collective_that_hangs_is_reported(monkeypatch):
    monkeypatch.setattr(process, "START_S", 0.5)

    class Hanging(Process):
        def __init__(self, command, env):
            super().__init__([sys.executable, "-c", "import time; time.sleep(600)"], env)

    monkeypatch.setattr(process, "Process", Hanging)
    found = run_collective([0, 1], True, 0.5)
    assert [(m.id, m.status) for m in found] == [("collective", "fail")]
    assert "hung" in found[0].note


@pytest.mark.parametrize(
    ("num_ranks", "env", "algorithm"),
    [
        (8, {}, "nvls"),
        (4, {}, "ring"),
        (8, {"NCCL_NVLS_ENABLE": "0"}, "ring"),
        (8, {"NCCL_ALGO": "Ring"}, "ring"),
    ],
)
def test_the_algorithm_follows_from_ranks_and_settings(num_ranks, env, algorithm):
    assert algorithm_of(num_ranks, env) == algorithm


def test_steps_have_times_and_existing_functions():
    from pathlib import Path

    folder = Path(session.__file__).parent
    for step in STEPS:
        module, _, name = step.function.partition(":")
        text = (folder / f"{module}.py").read_text()
        assert not name or f"def {name}(" in text
        assert timeout_s(step, True) >= 60
    assert sum(step.quick_s for step in plan(True, "gpu")) < 60
    assert sum(step.full_s for step in plan(False, "gpu")) < 360
