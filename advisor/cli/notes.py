"""What goes to stderr beside the answer: notes and warnings that a log can hold, and progress for people only."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 1.0
"""Shorter work shows nothing."""


def note(*texts: str) -> None:
    for text in texts:
        sys.stderr.write(f"note: {text}\n")


def warn(*texts: str) -> None:
    for text in texts:
        sys.stderr.write(f"warning: {text}\n")


class Progress:
    """Shows messages on a terminal once the work has taken longer than a moment."""

    def __init__(self, *, visible: bool) -> None:
        self._visible = visible
        self._started_s = time.monotonic()
        self._shown = False

    def __call__(self, message: str) -> None:
        """Replace the line by a new message."""
        if self._visible and time.monotonic() - self._started_s > PATIENCE_S:
            sys.stderr.write(f"\r\x1b[K{message}")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """A progress line for the time of a block; invisible in a pipe and with --quiet."""
    line = Progress(visible=not quiet and sys.stderr.isatty())
    try:
        yield line
    finally:
        line.clear()
