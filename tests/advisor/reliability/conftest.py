"""A command in this process, within limits of time, and what must hold of every answer."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main

LIMIT_S = 60
CODES = {0, 2, 3, 6}
Answer = tuple[int, str, str]


class TookTooLongError(BaseException):
    """A command exceeded its limit; no handler of the program may take it for its own."""


def outcome(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process, within the limit of time."""

    def stop(number: int, frame: object) -> None:
        raise TookTooLongError(f"more than {LIMIT_S} s: {arguments}")

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    out.seek(0)
    err.seek(0)
    return code, out.read(), err.read()


def check(arguments: list[str], code: int, out: str, err: str) -> None:
    assert code in CODES, (arguments, code, err[-2000:])
    for text in (out, err):
        assert not [letter for letter in text if letter not in "\n\t" and not letter.isprintable()], (
            arguments,
            text[:500],
        )
    if code in (2, 6):
        assert err.startswith(("error:", "note:", "warning:")) or "error: " in err, (arguments, err)
    if code == 0 and "--json" in arguments and out.strip():
        json.loads(out, parse_constant=lambda name: pytest.fail(f"{arguments}: {name}"))


@pytest.fixture(scope="session", name="check")
def _check() -> Callable[[list[str], int, str, str], None]:
    """Rules that must hold of arguments, exit code, stdout and stderr of any command."""
    return check


@pytest.fixture(scope="session")
def ask() -> Callable[[list[str]], Answer]:
    """Exit code, stdout and stderr of a command in this process; whatever it is, they are as documented."""

    def ask_command(arguments: list[str]) -> Answer:
        found = outcome(arguments)
        check(arguments, *found)
        return found

    return ask_command


WITHOUT_ROOT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
"""Root may read and write everything: these rights are given up where tests run as root."""
PATIENCE_S = 120
"""Time after which a command in a process of its own is killed [s]."""


@pytest.fixture(scope="session")
def ask_apart() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Ask a command in a process of its own, within limits on its resources, without importing the program again.

    The process has the environment of the tests: what Python or a library reads when it starts needs a new one.
    """
    program = Path(__file__).with_name("answer_in_children.py")
    before = WITHOUT_ROOT if os.geteuid() == 0 and shutil.which("setpriv") else ()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    with subprocess.Popen(
        [*before, sys.executable, str(program)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        streams = parent.stdin, parent.stdout

        def ask(words: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
            question = {
                "words": words.split(),
                "folder": str(folder),
                "env": options.get("env", {}),
                "limits": options.get("limits", {}),
                "patience_s": PATIENCE_S,
            }
            streams[0].write(json.dumps(question) + "\n")
            return subprocess.CompletedProcess(words, *json.loads(streams[1].readline()))

        yield ask
        parent.stdin.close()
