"""A command in this process, within limits of time, and what must hold of every answer."""

import contextlib
import io
import json
import signal
from collections.abc import Callable

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
