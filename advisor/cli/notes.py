"""Output to stderr in addition to the answer: notes and warnings that a log can hold, and progress for people only;
and JSON to stdout."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Final, TextIO

from advisor.catalog.legible import on_one_line

PATIENCE_S: Final = 1.0
"""Shorter work shows nothing."""
LARGEST_SITE: Final = 200_000
"""Accelerators of the largest single systems that are known (xAI Colossus, 2025)."""
_COUNTS: Final = ("num_accelerators", "num_gpus", "num_ranks")
_DEPTH: Final = 3
_MOST_RECORDS: Final = 200


def note(*texts: str) -> None:
    for text in texts:
        tell(f"note: {text}")


def warn(*texts: str) -> None:
    for text in texts:
        tell(f"warning: {text}")


_INTERRUPTIONS: Final[list[str]] = []
"""Words of the commands about the interruption that ends this run."""


def tell_interrupted(words: str) -> None:
    """Tell that Ctrl-C ends a command, and what is kept of it."""
    _INTERRUPTIONS.append(words)
    tell(f"note: interrupted; {words}")


def end_interrupted() -> None:
    """Tell of an interruption that no command has told of."""
    if not _INTERRUPTIONS:
        tell_interrupted("nothing was saved")
    _INTERRUPTIONS.clear()


def tell(text: str) -> None:
    """Write a line to stderr; if that is full or closed, the answer goes on without it."""
    _write(on_one_line(text) + "\n")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        lose(sys.stderr)


def lose(stream: TextIO) -> None:
    """Redirect a stream without readers to the null device, so that the end of the interpreter succeeds."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


_LISTENERS: Final[list[Callable[[str], None]]] = []
"""Functions that are told of progress, whether or not a terminal shows it."""


@contextmanager
def use_listener(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell a function of all progress for the time of a block."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


class ProgressMessages:
    """Progress messages, shown on a terminal once the work has taken longer than a moment."""

    def __init__(self, *, visible: bool) -> None:
        self._visible = visible
        self._started_s = time.monotonic()
        self._shown = False

    def __call__(self, message: str) -> None:
        """Replace the line by a new message."""
        for listener in _LISTENERS:
            listener(message)
        if self._visible and time.monotonic() - self._started_s > PATIENCE_S:
            _write(f"\r\x1b[K{on_one_line(message)}")
            self._shown = True

    def clear(self) -> None:
        """Remove the progress line."""
        if self._shown:
            _write("\r\x1b[K")


@contextmanager
def progress(*, quiet: bool) -> Iterator[ProgressMessages]:
    """Yield a progress line for the time of a block; invisible in a pipe and with --quiet."""
    line = ProgressMessages(visible=not quiet and sys.stderr.isatty())
    try:
        yield line
    finally:
        line.clear()


def implausible(result: Mapping[str, object]) -> tuple[str, ...]:
    """Return a warning where an answer takes more accelerators than any site has; none otherwise."""
    most = max(_counts(result, _DEPTH), default=0)
    if most <= LARGEST_SITE:
        return ()
    return (
        f"{most:,} accelerators are more than any site has (about {LARGEST_SITE:,}): check the load that was asked; "
        "prices, power and networks of this size are not modelled",
    )


def _counts(value: object, depth: int) -> Iterator[float]:
    for name, item in _items(value):
        if name in _COUNTS and isinstance(item, int | float) and not isinstance(item, bool):
            yield item
        elif depth and not isinstance(item, str | int | float):
            yield from _counts(item, depth - 1)


def _items(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        yield from (("", item) for item in value[:_MOST_RECORDS])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    else:
        names = getattr(type(value), "model_fields", ())
        yield from ((name, getattr(value, name)) for name in names)


def write_json(text: str) -> None:
    """Write JSON as UTF-8, whatever the terminal's encoding is."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    binary.write(text.encode("utf-8"))
