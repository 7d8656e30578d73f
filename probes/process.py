"""Child processes that measure: their environment, their time limits, and ranks that work together."""

import contextlib
import fcntl
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import advisor
from advisor.catalog.errors import AdvisorError
from advisor.probes.events import parse
from advisor.probes.record import Measurement

LOCK_FOLDER: Final = Path(tempfile.gettempdir())
POLL_S: Final = 0.2
START_S: Final = 120.0
"""Time for importing torch and opening the device [s], apart from the step, once per process."""
GRACE_S: Final = 2.0
"""Time in which a child may end by itself after its output is no longer read [s]."""
_STDERR_TAIL: Final = 400
ANY: Final = "nvls or ring"
"""Algorithm of a collective whose text does not state it."""
_NVLS_RANKS: Final = 5
"""Number of GPUs from which on NCCL reduces in the NVSwitch on an HGX H100 or H200, unless NVLS is switched off."""


def environment(gpus: Sequence[int]) -> dict[str, str]:
    """Return the environment of a worker that sees these GPUs alone, by the driver's order, and finds this package."""
    root = str(Path(advisor.__file__).parent.parent)
    # This variable makes the vendor's library round fp32 products to tf32, whatever a program asks for.
    kept = {name: value for name, value in os.environ.items() if name != "NVIDIA_TF32_OVERRIDE"}
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {
        **kept,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",  # a file of the working directory must not be imported
        "PYTHONUNBUFFERED": "1",
    }


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the machine for one probe, because two at once halve each other's rates.

    Raises: AdvisorError: another probe of this machine is running.
    """
    path = LOCK_FOLDER / "advisor-probe.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise AdvisorError(
            f"cannot open {path}, which keeps probes apart",
            why=error.strerror or str(error),
            fix="remove it, or set TMPDIR to a folder of your own",
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise AdvisorError(
            "another probe of this machine is running",
            why=f"it holds {path}; two at once would halve each other's rates",
            fix="wait until it has ended, or end it",
        ) from None
    try:
        yield
    finally:
        os.close(handle)


class Process:
    """Child process whose lines can be awaited with a time limit."""

    def __init__(self, command: Sequence[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self.timed_out = False
        sinks = ((self._process.stdout, self._lines.put), (self._process.stderr, self._errors.append))
        self._pumps = [threading.Thread(target=_pump, args=pair, daemon=True) for pair in sinks]
        for pump in self._pumps:
            pump.start()

    def next_line(self, timeout_s: float) -> str | None:
        """Return the next line; None at the end, or after `timeout_s` without a line (then `timed_out` is set)."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            try:
                return self._lines.get(timeout=POLL_S)
            except queue.Empty:
                continue
        self.timed_out = True
        return None

    def stop(self) -> None:
        """End the child if it still runs."""
        if self._process.poll() is None:
            try:
                self._process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pump in self._pumps:
            pump.join(timeout=GRACE_S)

    def kill(self) -> None:
        """End the child at once."""
        self._process.kill()

    def last_words(self) -> str:
        """Return exit code and the end of stderr, on one line."""
        told = " ".join(line.strip() for line in self._errors if line and line.strip())
        return f"ended with code {self._process.returncode}: {told[-_STDERR_TAIL:]}"


def _pump(stream: IO[str], sink: Callable[[Any], object]) -> None:
    with stream:
        for line in stream:
            sink(line)
    sink(None)


def algorithm_of(num_ranks: int, env: Mapping[str, str], default: str = "nvls") -> str:
    """Return NCCL's algorithm among `num_ranks` GPUs of one NVSwitch board: in the switch (nvls) or in a ring.

    `default`: what many GPUs are taken to use if no variable says it.
    """
    switch = env.get("NCCL_NVLS_ENABLE", "")
    algorithm = env.get("NCCL_ALGO", "").lower()
    if num_ranks < _NVLS_RANKS or switch == "0" or algorithm.startswith(("ring", "tree")):
        return "ring"
    return "nvls" if algorithm.startswith("nvls") else default


def start_ranks(gpus: Sequence[int], quick: bool, limit_s: float, turn: Path | None = None) -> list[Process]:
    """Start the processes that measure collectives among these GPUs; they touch no GPU while `turn` is locked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = environment(gpus)
    command = [sys.executable, "-m", "advisor.probes.collective_worker", "--timeout-s", f"{limit_s:g}"]
    command += ["--algorithm", algorithm_of(len(gpus), env)] + (["--quick"] if quick else [])
    command += ["--turn", str(turn)] if turn else []
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(len(gpus))}
    return [Process(command, env | {"RANK": str(rank)}) for rank in range(len(gpus))]


def read_ranks(ranks: Sequence[Process], limit_s: float) -> list[Measurement]:
    """Return what the ranks of one group measure, and end them; results before a hang or crash are kept."""
    found = []
    deadline_s = time.monotonic() + START_S + limit_s
    try:
        while (line := ranks[0].next_line(max(1.0, deadline_s - time.monotonic()))) is not None:
            if event := parse(line):
                found.append(Measurement.model_validate(event))
    finally:
        for rank in ranks:
            rank.stop()
    if len(found) < 2 or ranks[0].timed_out:
        hung = f"hung for {limit_s:.0f} s and was stopped" if ranks[0].timed_out else ranks[0].last_words()
        found.append(
            Measurement(
                id="collective",
                pattern=f"{len(ranks)} ranks",
                status="fail",
                value="did not finish",
                note=hung,
                instrument="nccl",
            )
        )
    return found


@contextlib.contextmanager
def take_turn(lock: Path | None) -> Iterator[None]:
    """Wait until no other process holds the lock; None means no waiting."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
