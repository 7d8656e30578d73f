"""What goes to stderr beside the answer: notes and warnings that a log can hold, and progress for people only."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from advisor.render.legible import legible

PATIENCE_S: Final = 1.0
"""Shorter work shows nothing."""


def note(*texts: str) -> None:
    for text in texts:
        tell(f"note: {text}")


def warn(*texts: str) -> None:
    for text in texts:
        tell(f"warning: {text}")


def tell(text: str) -> None:
    """A line on stderr; where that is full or closed, the answer goes on without it."""
    _write(legible(text) + "\n")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        lose(sys.stderr)


def lose(stream: TextIO) -> None:
    """Nobody reads a stream any more: let what is left in it go nowhere, so that the interpreter's end succeeds."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Progress:
    """Shows messages on a terminal once the work has taken longer than a moment."""

    def __init__(self, *, visible: bool) -> None:
        self._visible = visible
        self._started_s = time.monotonic()
        self._shown = False

    def __call__(self, message: str) -> None:
        """Replace the line by a new message."""
        if self._visible and time.monotonic() - self._started_s > PATIENCE_S:
            _write(f"\r\x1b[K{legible(message)}")
            self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            _write("\r\x1b[K")


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """A progress line for the time of a block; invisible in a pipe and with --quiet."""
    line = Progress(visible=not quiet and sys.stderr.isatty())
    try:
        yield line
    finally:
        line.clear()
