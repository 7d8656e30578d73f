"""The session with stand-ins for its processes: what is kept when one fails, hangs or is interrupted."""

import fcntl
import sys
import threading
import time

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.probes import process, session, worker
from advisor.probes.process import Process, algorithm_of, environment, read_ranks, start_ranks
from advisor.probes.record import Gpu, Measurement, ProbedMachine
from advisor.probes.session import Session, finished_steps, visible
from advisor.probes.steps import STEPS, plan, timeout_s
from advisor.probes.verdict import verdict


@pytest.fixture
def two_gpus(monkeypatch):
    gpus = tuple(Gpu(index=i, accelerator="h200-sxm", name="NVIDIA H200") for i in range(2))
    machine = ProbedMachine(gpus=gpus, torch="2.11")
    monkeypatch.setattr(session, "identify", lambda wanted: machine)
    monkeypatch.setattr(Session, "_ask_torch", lambda self, held: held.close())
    monkeypatch.setattr(session, "start_ranks", lambda gpus, quick, limit_s, turn: [])
    monkeypatch.setattr(session, "read_ranks", lambda ranks, limit_s: [])
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


AHEAD = """
import json, sys, time
print("a library's chatter")
print(json.dumps({{"runtime": "cuda", "nccl": "2.28", "gpus": [{{"num_sms": 132}}, {{"num_sms": 78}}]}}), flush=True)
{then}
"""
WAITING = """
import fcntl, json, sys, time
a = sys.argv; steps = a[a.index("--steps") + 1].split(","); gpu = int(a[a.index("--gpu") + 1])
for s in steps:
    if s not in ("touch", "processor", "storage", "peer"):
        with open(a[a.index("--ahead") + 1], "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
    print(json.dumps({"event": "start", "step": s}), flush=True)
    found = [{"id": "x." + s, "gpu": gpu, "value": time.time()}]
    print(json.dumps({"event": "done", "step": s, "measurements": found}), flush=True)
"""


@pytest.fixture
def two_gpus_and_torch(monkeypatch):
    """Machine with two GPUs and a process beside the workers that does as it is told once it has told its facts."""
    ask_torch = Session._ask_torch
    yield_to = {}

    def make(command, env):
        script = AHEAD.format(then=yield_to["then"]) if command[2] == "advisor.probes.ahead" else WAITING
        return Process([sys.executable, "-c", script, *command[3:]], env)

    def prepare(then):
        yield_to["then"] = then
        monkeypatch.setattr(Session, "_ask_torch", ask_torch)
        monkeypatch.setattr(session, "Process", make)

    return prepare


def test_ranks_wait_while_gpus_are_copied_between(two_gpus, monkeypatch):
    rank = "import json, sys, time; from pathlib import Path; from advisor.probes.process import take_turn\n"
    rank += "begun = time.time()\nwith take_turn(Path(sys.argv[1])): pass\n"
    rank += "for value in (begun, time.time()): print(json.dumps({'id': 'rank', 'value': value}), flush=True)"

    def start(gpus, quick, limit_s, turn):
        return [Process([sys.executable, "-c", rank, str(turn)], environment(gpus))]

    measured = WAITING.replace("found =", "time.sleep(1.5 if s == 'peer' else 0); found =")
    monkeypatch.setattr(session, "Process", stand_in(measured))
    monkeypatch.setattr(session, "start_ranks", start)
    monkeypatch.setattr(session, "read_ranks", process.read_ranks)
    _, found = Session(quick=True).run()
    peer_s = next(m.value for m in found if m.id == "x.peer")
    begun_s, turn_s = (m.value for m in found if m.id == "rank")
    assert begun_s < peer_s < turn_s


@pytest.mark.parametrize("then", ["time.sleep(1)", "time.sleep(600)", "sys.exit(1)"])
def test_nothing_is_timed_while_kernels_compile(two_gpus_and_torch, two_gpus, monkeypatch, then):
    """Nor for ever: what hangs is given up, and the facts that it told are kept."""
    monkeypatch.setattr(session, "START_S", 2.0)
    two_gpus_and_torch(then)
    started_at_s = time.time()
    machine, found = Session(quick=True).run()
    at_s = {(m.id, m.gpu): m.value - started_at_s for m in found if m.id.startswith("x.")}
    wait_s = {"time.sleep(1)": 1.0, "time.sleep(600)": 2.0}.get(then, 0.0)
    for gpu in (0, 1):
        assert at_s["x.touch", gpu] < at_s["x.bandwidth", gpu] < 30
        assert at_s["x.bandwidth", gpu] >= wait_s
    assert [gpu.num_sms for gpu in machine.gpus] == [132, 78]
    assert (machine.runtime, machine.nccl) == ("cuda", "2.28")
    assert not [m for m in found if m.id.startswith("step.")]


def test_a_worker_fills_memory_while_kernels_compile_and_times_nothing(tmp_path, monkeypatch):
    log = []
    monkeypatch.setattr(worker, "claim_stdout", lambda: None)
    monkeypatch.setattr(worker, "emit", lambda events, event: log.append((event["event"], event["step"])))
    monkeypatch.setattr(worker, "_run", lambda step, options: [])
    with (tmp_path / "ahead").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run = threading.Thread(
            target=worker.main, args=(["--steps", "touch,bandwidth", "--ahead", str(tmp_path / "ahead")],)
        )
        run.start()
        run.join(0.5)
        assert log == [("start", "touch"), ("done", "touch")]
    run.join(10)
    assert log[2:] == [("start", "bandwidth"), ("done", "bandwidth")]


def test_facts_of_other_gpus_than_the_drivers_are_not_mixed_in(two_gpus_and_torch, two_gpus, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "AHEAD", AHEAD.replace(', {{"num_sms": 78}}', ""))
    two_gpus_and_torch("pass")
    machine, _ = Session(quick=True).run()
    assert machine.gpus == two_gpus.gpus
    assert machine.runtime == "cuda"


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
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    started = time.monotonic()
    found, _ = run_with(monkeypatch, "launch", "time.sleep(600)")
    assert time.monotonic() - started < 60
    (lost,) = (m for m in found if m.id.startswith("step."))
    assert "stopped" in lost.note
    assert {m.gpu for m in found if m.id == "x.sustained"} == {0, 1}


def test_a_gpu_that_keeps_hanging_is_given_up_and_never_passes(two_gpus, monkeypatch):
    monkeypatch.setattr(session, "timeout_s", lambda step, quick: 0.2)
    monkeypatch.setattr(session, "START_S", 0.2)
    monkeypatch.setattr(process, "GRACE_S", 0.1)
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
    done = finished_steps(kept)
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
    assert set(finished_steps(rows)) == {"gpu0/bandwidth"}


def test_only_visible_gpus_are_measured(two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.index for gpu in visible(two_gpus).gpus] == [1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(visible(two_gpus).gpus) == 2


def test_a_worker_sees_its_gpu_alone(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert "NVIDIA_TF32_OVERRIDE" not in environment([3])
    env = environment([3])
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_collective_that_hangs_is_reported(monkeypatch):
    monkeypatch.setattr(process, "START_S", 0.5)
    monkeypatch.setattr(process, "GRACE_S", 0.1)

    class Hanging(Process):
        def __init__(self, command, env):
            super().__init__([sys.executable, "-c", "import time; time.sleep(600)"], env)

    monkeypatch.setattr(process, "Process", Hanging)
    found = read_ranks(start_ranks([0, 1], True, 0.5), 0.5)
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
