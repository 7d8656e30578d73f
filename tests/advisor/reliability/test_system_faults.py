"""Full disks, closed folders, wrong clocks, strange terminals, killed workers: told with the reason, or survived."""

import contextlib
import datetime
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.ask import options
from advisor.catalog import files
from advisor.catalog.errors import InputFileError
from advisor.refresh.price_cache import PriceCache

ROOT = Path(__file__).resolve().parents[3]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits and rights as Linux has them")
Ask = Callable[..., subprocess.CompletedProcess[str]]
COLLECTIVE = "simulate collective --gpu h100 --bytes 1MiB"
SERVE = "simulate serve --model 8b --gpu h100 --rate 1 --requests 500"


def run(words: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "advisor", *words.split()],
        cwd=folder,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
    )


SMALL_DISK = {"RLIMIT_FSIZE": 1000}
"""Writing more than a kilobyte to one file fails, as on a disk that is full."""
STUDY = 'command = "simulate collective"\n[base]\ngpu = "h100"\n[grid]\nbytes = ["1MiB", "2MiB", "4MiB"]\n'


@LINUX
@pytest.mark.parametrize(
    ("words", "output"),
    [
        *((f"catalog gpus -q -o a.{form}", f"a.{form}") for form in ("json", "csv", "md", "html")),
        (f"{SERVE} -q --records records.csv", "records.csv"),
        ("recommend --model 8b --gpu l4 --rate 1 --provider aws --fast -q --plan plan.json", "plan.json"),
        ("probe --quick -q -o probe.json", "probe.json"),
        ("probe --quick -q --report report.html", "report.html"),
        ("sweep study.toml -q --workers 1 -o r.csv", "r.csv.journal"),
    ],
)
def test_a_full_disk_is_told_and_leaves_what_was_there(
    ask_apart: Ask, tmp_path: Path, words: str, output: str
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    if "journal" not in output:
        (tmp_path / output).write_text("before")
    before = set(tmp_path.iterdir()) | {tmp_path / "r.csv.journal"}
    done = ask_apart(words, tmp_path, limits=SMALL_DISK)
    assert done.returncode == 2, done.stderr
    assert f"cannot write {output}" in done.stderr
    assert "File too large" in done.stderr
    assert "To fix: free space" in done.stderr
    assert set(tmp_path.iterdir()) <= before
    if "journal" not in output:
        assert (tmp_path / output).read_text() == "before"
    else:
        assert ask_apart(f"{words} --resume", tmp_path).returncode == 0


@LINUX
def test_a_full_disk_leaves_the_kept_prices(tmp_path: Path) -> None:
    cache = PriceCache(tmp_path)
    cache.replace("vast", (), (), "one")
    kept = (tmp_path / "prices" / "vast.csv").read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            cache.replace("vast", (), (), "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "prices" / "vast.csv").read_bytes() == kept
    assert cache.etag("vast") == "one"
    assert len(list(tmp_path.rglob("*.tmp"))) == 0


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder of files and folders that this user may not use."""
    for folder in ("closed", "read_only", "cache/prices"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "closed.json",
        "read_only.json",
        "advisor_closed.toml",
        "cache/prices/vast.csv",
        "r.csv.journal",
    ):
        (tmp_path / name).write_text("{}")
        (tmp_path / name).chmod(0o444 if "read_only" in name else 0o000)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "closed").chmod(0o000)
    (tmp_path / "read_only").chmod(0o555)
    yield tmp_path
    for folder in ("closed", "read_only"):
        (tmp_path / folder).chmod(0o755)


@LINUX
@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("catalog gpus -q -o read_only/a.json", "read_only/a.json"),
        ("catalog gpus -q -o read_only.json", "read_only.json"),
        ("catalog gpus -q -o closed/a.json", "closed/a.json"),
        ("catalog prices --gpu h100 --price-file closed.json", "closed.json"),
        ("catalog prices --gpu h100 --price-file closed/x.csv", "closed/x.csv"),
        ("catalog prices --gpu h100 ADVISOR_CACHE_DIR=cache", "cache/prices/vast.csv"),
        ("catalog prices --gpu h100 ADVISOR_CACHE_DIR=closed", "closed/prices"),
        ("catalog gpus ADVISOR_CONFIG=advisor_closed.toml", "advisor_closed.toml"),
        ("simulate serve --model closed --gpu h100 --rate 1", "closed/config.json"),
        ("simulate serve --model closed.json --gpu h100 --rate 1", "closed.json"),
        ("simulate fleet closed.json", "closed.json"),
        *(
            (f"{command} closed.json", "closed.json")
            for command in (
                "calibrate",
                "replay",
                "build check",
                "sweep",
                "validate serving",
                "validate nccl-tests",
                "compare read_only.json",
                "probe --resume",
                "recommend --model 8b --goal",
                "simulate trace",
                "simulate collective --gpu h100 --bytes 1B --calibration",
            )
        ),
        ("sweep study.toml -q -o read_only/x.csv", "read_only/x.csv"),
        ("sweep study.toml -q -o r.csv", "r.csv.journal"),
        ("sweep study.toml -q -o r.csv --resume", "r.csv.journal"),
        ("probe --quick -q -o read_only/p.json", "read_only/p.json"),
        ("recommend --model 8b --emit docker --emit-dir read_only/new/files", "read_only/new"),
        ("recommend --model 8b --emit docker --emit-dir closed/new", "closed/new"),
        ("recommend --model 8b --plan read_only/p.json", "read_only/p.json"),
        ("simulate serve --model 8b --gpu l4 --rate 1 --records read_only/r.csv", "read_only/r.csv"),
    ],
)
def test_missing_rights_are_told_with_the_path_before_the_work(
    ask_apart: Ask, closed: Path, words: str, path: str
) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may read everything, and setpriv is not here to give that up")
    env = dict(word.split("=") for word in words.split() if "ADVISOR_" in word)
    words = " ".join(word for word in words.split() if "ADVISOR_" not in word)
    began_s = time.monotonic()
    done = ask_apart(words, closed, env=env)
    assert done.returncode == 2, done.stderr
    assert path in done.stderr
    assert any(word in done.stderr.lower() for word in ("permission denied", "not readable"))
    assert "To fix" in done.stderr
    assert not done.stdout
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize("width", ["0", "1", "7", "-3", "x", "", "99999999999"])
def test_an_answer_is_shown_however_narrow_the_terminal_says_it_is(
    ask_apart: Ask, tmp_path: Path, width: str
) -> None:
    for words in (COLLECTIVE, "recommend --help"):
        done = ask_apart(words, tmp_path, env={"COLUMNS": width})
        assert done.returncode == 0
        assert len(done.stdout) > 900
        assert max(map(len, done.stdout.splitlines()[:5])) > 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LC_ALL", "C"),
        ("LC_ALL", "tr_TR.UTF-8"),
        ("LC_ALL", "nonsense"),
        ("PYTHONIOENCODING", "ascii"),
        ("PYTHONIOENCODING", "utf-16"),
        ("PYTHONUTF8", "0"),
        ("TZ", "nonsense"),
        ("TERM", "dumb"),
        ("TMPDIR", "/none"),
        ("HOME", "/none"),
        ("NO_COLOR", "1"),
        ("PYTHONOPTIMIZE", "2"),
    ],
)
def test_answers_do_not_depend_on_the_environment(tmp_path: Path, name: str, value: str) -> None:
    done = run(f"{COLLECTIVE} -o answer.json", tmp_path, **{"LC_ALL": "C", name: value})
    assert done.returncode == 0, done.stderr
    assert "all_reduce" in done.stdout.replace("\0", "")
    assert json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["schema_version"] == 2


class Calendar:
    """The module datetime on a computer whose clock is wrong."""

    def __init__(self, day: datetime.date) -> None:
        self.date = self
        self.datetime = datetime.datetime
        self.today = lambda: day


@pytest.mark.parametrize("year", [1970, 2025])
def test_a_clock_that_was_never_set_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], year: int
) -> None:
    calendar = Calendar(datetime.date(year, 1, 1))
    monkeypatch.setattr(options, "datetime", calendar)
    monkeypatch.setattr(options, "today", calendar.today)
    assert main(["catalog", "prices", "--gpu", "h100"]) in (0, 3)
    assert f"clock says {year}-01-01" in capsys.readouterr().err
    assert main(["catalog", "prices", "--gpu", "h100", "--as-of", "2026-11-20"]) == 0
    assert "clock says" not in capsys.readouterr().err


def test_a_journal_survives_a_clock_that_jumps_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    ticks = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(ticks)))
    words = ["sweep", str(tmp_path / "study.toml"), "-o", str(tmp_path / "r.csv"), "--workers", "1", "-q"]
    assert main(words) == 0
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("day", ["0001-01-01", "1970-01-01", "2999-01-01", "9999-12-31"])
@pytest.mark.parametrize(
    "words",
    [
        "recommend --model 8b --gpu l4 --rate 1 --provider aws --fast",
        "cost --model 8b --gpu l4 --rate 1",
        "catalog prices --gpu h100",
        "catalog parts",
    ],
)
def test_any_day_can_be_asked_for(words: str, day: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*words.split(), "--as-of", day])
    told = capsys.readouterr().err
    assert code == (0 if day > "2026" or "parts" in words else 3)
    assert "error: internal" not in told
    if code == 0:
        assert "days" in told or "have no price" in told


@LINUX
def test_a_worker_that_is_killed_costs_no_point(tmp_path: Path) -> None:
    rates = ",".join(map(str, range(1, 25)))
    (tmp_path / "study.toml").write_text(
        f'command = "simulate serve"\n[base]\nmodel = "8b"\ngpu = "h100"\nrequests = 2000\n[grid]\nrate = [{rates}]\n'
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "advisor", "sweep", "study.toml", "-o", "r.csv", "--workers", "2", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
    journal = tmp_path / "r.csv.journal"
    until_s = time.monotonic() + 90
    while time.monotonic() < until_s and not (journal.exists() and journal.read_bytes().count(b"\n") > 2):
        time.sleep(0.05)
    for worker in workers_of(running.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    _, told = running.communicate(timeout=90)
    if running.returncode:
        assert running.returncode == 2, told
        assert run("sweep study.toml -o r.csv --workers 1 -q --resume", tmp_path).returncode == 0
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 25


def workers_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ppid = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if ppid == parent and b"LokyProcess" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


LITTLE_MEMORY = {"RLIMIT_AS": 4_000_000_000}


@LINUX
@pytest.mark.parametrize(
    "words",
    [
        "catalog show /dev/zero",
        "catalog prices --price-file /dev/zero",
        "simulate trace /dev/zero",
        "simulate fleet /dev/zero",
        "build check /dev/zero",
        "replay /dev/zero",
        "compare /dev/zero /dev/zero",
        "simulate collective --gpu h100 --bytes 1B --calibration /dev/zero",
        "validate serving /dev/zero",
        "validate nccl-tests /dev/zero",
        "sweep zero.toml -o r.csv",
        "sweep zero.csv --pareto time_s",
        "recommend --model /dev/zero",
        "probe --resume /dev/zero",
    ],
)
def test_a_file_without_end_is_refused_soon_and_small(ask_apart: Ask, tmp_path: Path, words: str) -> None:
    for name in ("zero.toml", "zero.csv"):
        (tmp_path / name).symlink_to("/dev/zero")
    done = ask_apart(words, tmp_path, limits=LITTLE_MEMORY)
    assert done.returncode == 2, done.stderr
    assert "is too large" in done.stderr


def test_what_is_typed_without_end_is_refused(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "advisor", "validate", "nccl-tests", "-"],
            cwd=tmp_path,
            stdin=zeros,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert b"standard input: is too large" in done.stderr


def test_lines_are_read_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("\ufeffa,b\r\n1,2\r3,\u00e9".encode())
    assert list(files.read_lines(path)) == ["a,b\n", "1,2\n", "3,é"]
    assert files.content_hash(path) == files.content_hash(path)
    for name, most in (("MOST_FILE_BYTES", 8), ("MOST_DOCUMENT_BYTES", 3)):
        with monkeypatch.context() as patched:
            patched.setattr(files, name, most)
            with pytest.raises(InputFileError, match="too large"):
                list(files.read_lines(path))


READ_TRACE = """
import resource, sys, time
from pathlib import Path
from advisor.simulator.serving.trace_files import read_trace
def memory(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, began_s = memory(), time.process_time()
read_trace(Path(sys.argv[1]))
print((memory() - before) / 1e6, time.process_time() - began_s)
"""


@LINUX
def test_traces_are_read_in_pieces(tmp_path: Path) -> None:
    """Two million rows in 15 s and 500 MB: a twentieth of them here, in a twentieth of that and what a start takes."""
    path = tmp_path / "trace.csv"
    with path.open("w") as file:
        file.write("arrived_at_s,input_tokens,output_tokens\n")
        file.writelines(f"{0.1 * i:.1f},{100 + i % 7},{10 + i % 5}\n" for i in range(100_000))
    done = subprocess.run(
        [sys.executable, "-c", READ_TRACE, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    megabytes, cpu_s = map(float, done.stdout.split())
    assert megabytes < 50
    assert cpu_s < 4
