"""Faults of the system during a run: full and closed streams, strange paths, signals, encodings. As true processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.cli.notes import implausible
from advisor.probes.assess import assess
from advisor.probes.record import Gpu, ProbedMachine, without_traces
from advisor.probes.verdict import verdict

ROOT = Path(__file__).resolve().parents[3]
QUICK = "catalog gpus --family hopper"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="devices and signals as Linux has them")


def run(arguments: str | list[str], folder: Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    words = arguments.split() if isinstance(arguments, str) else arguments
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.run(
        [sys.executable, "-m", "advisor", *words],
        cwd=folder,
        env=env,
        timeout=60,
        check=False,
        **{**streams, **more},
    )


@LINUX
def test_a_full_stdout_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        for words in (QUICK, f"{QUICK} --json"):
            done = run(words, tmp_path, stdout=full)
            assert done.returncode == 2
            assert b"No space left on device" in done.stderr


@LINUX
def test_a_full_stderr_does_not_cost_the_answer(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run("simulate collective --gpu h100 --bytes 1MiB", tmp_path, stderr=full)
    assert done.returncode == 0
    assert b"all_reduce" in done.stdout


@LINUX
def test_closed_streams(tmp_path: Path) -> None:
    shell = f"{sys.executable} -m advisor {QUICK}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for redirected, code in ((">&-", 2), ("-q -o a.json >&- 2>&-", 0), ("2>&- >/dev/null", 0)):
        done = subprocess.run(
            ["sh", "-c", f"{shell} {redirected}"], cwd=tmp_path, env=env, capture_output=True, check=False
        )
        assert done.returncode == code, redirected
    assert json.loads((tmp_path / "a.json").read_text())["accelerators"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_json_is_utf8_whatever_the_encoding_of_the_stream(tmp_path: Path, encoding: str) -> None:
    words = "simulate collective --gpu h100 --bytes 1MiB --json"
    done = run(words, tmp_path, env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0
    json.loads(done.stdout.decode("utf-8"))


def test_output_paths_are_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "dir.json").mkdir()
    names = ["loop.json", "dir.json", "x" * 300 + ".json", "no/such.json", "nul\0.json", "."]
    for name in names:
        assert main([*QUICK.split(), "-o", str(tmp_path / name)]) == 2, name
        told = capsys.readouterr().err
        assert told.startswith("error: "), told
        assert len(told) < 4000
    assert main([*QUICK.split(), "-o", ""]) == 2
    assert main([*QUICK.split(), "-q", "-o", str(tmp_path / ("y" * 250 + ".json"))]) == 0


PRICES = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\nme,h100-sxm,8,on_demand,20,2026-01-01\n"


def test_outputs_never_overwrite_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "p.csv"
    prices.write_text(PRICES)
    (tmp_path / "link.csv").symlink_to("p.csv")
    os.link(prices, tmp_path / "hard.csv")
    for name in ("p.csv", "link.csv", "hard.csv"):
        words = ["catalog", "prices", "--price-file", str(prices), "-o", str(tmp_path / name)]
        assert main(words) == 2
        assert "--price-file" in capsys.readouterr().err
    both = tmp_path / "x.json"
    assert main(["recommend", "--model", "8b", "--plan", str(both), "-o", str(both)]) == 2
    assert prices.read_text() == PRICES


def test_a_study_does_not_overwrite_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(PRICES)
    study = tmp_path / "s.toml"
    study.write_text(
        'command = "recommend"\n[base]\nmodel = "8b"\nprice_file = "p.csv"\n[grid]\nrate = [1]\n'
    )
    assert main(["sweep", str(study), "-o", str(tmp_path / "p.csv"), "-q"]) == 2
    assert (tmp_path / "p.csv").read_text() == PRICES


def hears_ctrl_c() -> None:
    """A suite that runs in the background ignores SIGINT, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@LINUX
def test_ctrl_c_exits_130_from_the_first_line_on(tmp_path: Path) -> None:
    codes = []
    for wait_s in (0.15, 0.3, 0.5, 0.8):
        running = subprocess.Popen(
            [sys.executable, "-m", "advisor", "recommend", "--model", "70b", "--gpu", "h100", "--rate", "5"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=hears_ctrl_c,  # noqa: PLW1509
        )
        time.sleep(wait_s)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
        codes.append(running.returncode)
        assert b"internal error" not in told
    assert set(codes) <= {130, 0, -signal.SIGINT}  # the last: before Python has read our first line
    assert 130 in codes


@LINUX
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        'command = "simulate serve"\n[base]\nmodel = "8b"\ngpu = "h100"\nrequests = 20000\n'
        "[grid]\nrate = [" + ",".join(str(i) for i in range(1, 60)) + "]\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "advisor", "sweep", "s.toml", "-o", "r.csv", "--workers", "2", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    journal = tmp_path / "r.csv.journal"
    for _ in range(400):
        if journal.exists() and journal.read_bytes().count(b"\n") > 1:
            break
        time.sleep(0.1)
    children = children_of(running.pid)
    assert children
    running.kill()
    running.wait()
    for _ in range(100):
        alive = [pid for pid in children if is_python(pid)]
        if not alive:
            return
        time.sleep(0.1)
    pytest.fail(f"{alive} outlived their parent")


def children_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                ppid = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if ppid == parent and b"LokyProcess" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def is_python(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    code = (
        "import os, sys, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)\n"
        "from advisor.__main__ import main\n"
        f"sys.exit(main({QUICK.split()!r}))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ADVISOR_PROVIDER": "aws"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert b"internal error" not in done.stderr


def test_notes_of_crashed_workers_name_nobody() -> None:
    machine = ProbedMachine(
        host_name="build-17", gpus=(Gpu(index=0, name="x", serial="1654321987", uuid="GPU-1"),)
    )
    told = (
        "build-17: ended with code -6: /"
        "home/ada/x.py 10.1.2.3:29500 fe80::1:2ff:fe3 1654321987 "
        "GPU-6f1c8a0e-1111-2222-3333-444455556666"
    )
    found = without_traces(told, machine)
    for secret in ("build-17", "ada", "10.1.2.3", "1654321987", "6f1c8a0e", "fe80::1"):
        assert secret not in found, found


def test_a_probe_without_torch_does_not_pass() -> None:
    machine = ProbedMachine(gpus=(Gpu(index=0, name="NVIDIA H100 80GB HBM3", accelerator="h100-sxm"),))
    assert verdict(assess(machine, ())) != "pass"


def test_answers_that_nobody_can_buy_say_so() -> None:
    assert implausible({"options": [{"num_accelerators": 36_000_000_000}]})[0].startswith("36,000,000,000 ")
    assert implausible({"options": [{"num_accelerators": 1000}]}) == ()
    words = ["simulate", "collective", "--gpu", "h100", "--nodes", "2", "--bytes", "1MiB", "-q"]
    assert main([*words, "--gpus", "1000000"]) == 2
    assert main([*words, "--gpus", "2147483648"]) == 2
