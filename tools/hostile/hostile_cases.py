"""Ten thousand hostile cases of eight kinds, each made from a seed and judged.

    python tools/hostile/hostile_cases.py --cases 10000              all kinds in turn; 20 minutes on one core
    python tools/hostile/hostile_cases.py --kind code --first 4711 --cases 1     one case again
    python tools/hostile/hostile_cases.py --kind place               every text of every input once

A case is a folder of files, a command in this process and what must hold afterwards. The program is imported once; a
child is forked and asks many cases, and another one takes over where one hangs or dies. The cases that failed are
printed, and per kind their number with the largest processor time and memory.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]
os.environ["ADVISOR_CACHE_DIR"] = str(ROOT / "tests" / "no-refreshed-prices")

from hostile_judges import Sandbox
from hostile_kinds import EVERY_PLACE, KINDS, Case, every_place, place_holds_data

from advisor.__main__ import main as advisor

MOST_CPU_S: Final = 30.0
"""Most processor time of a case [s]: what no allowed input may exceed."""
MOST_BYTES: Final = 1_000_000_000
"""Most memory of the process [bytes]: what no allowed input may exceed."""
MOST_WAIT_S: Final = 180.0
"""Time after which a case that says nothing counts as hanging [s]."""


class Result(NamedTuple):
    """Outcome of a case; `fault` is empty if all held."""

    number: int
    kind: str
    fault: str
    cpu_s: float
    memory_bytes: int


class TookTooLongError(BaseException):
    """A case used up its processor time; no handler of the program may take it for its own."""


def answer_of(arguments: list[str]) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command in this process."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = advisor(arguments)
    out.seek(0)
    err.seek(0)
    return code, out.read(), err.read()


def try_case(number: int, seed: int, kind: str, sandbox: Sandbox) -> Result:
    """Return the result of one case, made and asked in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="case"))
    environ = dict(os.environ)
    fault = ""
    began_s = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    os.chdir(folder)
    try:
        draw = random.Random(f"{seed} {kind} {number}")
        KINDS.get(kind, place_holds_data)(Case(draw, folder, sandbox, answer_of, number))
        assert not list(folder.rglob("pwned*")), "a text was executed"
    except (Exception, TookTooLongError):
        fault = traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir("/")
        os.environ.clear()
        os.environ.update(environ)
        shutil.rmtree(folder, ignore_errors=True)
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Result(number, kind, fault, time.process_time() - began_s, memory_bytes)


def _stop(number: int, frame: object) -> None:
    raise TookTooLongError(f"more than {MOST_CPU_S:g} s of a processor")


def _work(cases: Sequence[tuple[int, str]], seed: int, pipe: int) -> None:
    """Try cases and write each result as a line; a case that is begun is named first."""
    signal.signal(signal.SIGPROF, _stop)
    sys.stdin = io.StringIO("")
    work = Path(tempfile.mkdtemp(prefix="hostile"))
    tempfile.tempdir = str(work)
    with os.fdopen(pipe, "w") as told:
        sandbox = Sandbox(work / "sandbox")
        for number, kind in cases:
            told.write(json.dumps(try_case(number, seed, kind, sandbox)) + "\n")
            told.flush()
    shutil.rmtree(work, ignore_errors=True)


def results(cases: Sequence[tuple[int, str]], seed: int) -> Iterator[Result]:
    """Yield the result of each case."""
    rest = list(cases)
    while rest:
        reader, writer = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                _work(rest, seed, writer)
            finally:
                os._exit(0)
        os.close(writer)
        has_ended = False
        with os.fdopen(reader) as told:
            while select.select([told], [], [], MOST_WAIT_S)[0]:
                line = told.readline()
                if not line:
                    has_ended = True
                    break
                result = Result(*json.loads(line))
                rest = rest[1:]
                yield result
        if not has_ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not rest or os.WIFEXITED(status):
            return
        yield Result(*rest[0], f"hangs, or killed the process (status {status})", MOST_WAIT_S, 0)
        rest = rest[1:]


def cases_of(first: int, num_cases: int, kind: str = "") -> list[tuple[int, str]]:
    """Return numbers and kinds of cases, all kinds in turn or one of them; few cases of places are spread over all."""
    if kind == EVERY_PLACE:
        num_places = len(every_place())
        return [(number, kind) for number in range(first, num_places, max(1, num_places // num_cases))]
    names = [kind] if kind else list(KINDS)
    return [(number, names[number % len(names)]) for number in range(first, first + num_cases)]


def faults_of(result: Result) -> str:
    """Return what a result did wrong, limits of time and memory included; empty if nothing."""
    if result.memory_bytes > MOST_BYTES and not result.fault:
        return f"{result.memory_bytes / 1e6:.0f} MB"
    return result.fault


def main() -> int:
    """Try the cases that the command line asks for and return 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=[*KINDS, EVERY_PLACE], default="")
    asked = parser.parse_args()
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    memory_bytes = 0
    for result in results(cases_of(asked.first, asked.cases, asked.kind), asked.seed):
        done[result.kind] += 1
        slowest[result.kind] = max(slowest.get(result.kind, 0.0), result.cpu_s)
        memory_bytes = max(memory_bytes, result.memory_bytes)
        if fault := faults_of(result):
            failed[result.kind] += 1
            print(f"--- case {result.number} of {result.kind}, seed {asked.seed}, {result.cpu_s:.1f} s")
            print(fault, flush=True)
        if not done.total() % 1000:
            print(f"{done.total():,} cases, {failed.total()} failed", flush=True)
    for kind, count in done.items():
        print(f"{kind}: {count:,} cases, {failed[kind]} failed, slowest {slowest[kind]:.1f} s of a processor")
    print(f"memory at most {memory_bytes / 1e6:.0f} MB")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
