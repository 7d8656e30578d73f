"""Event stream with one line of JSON per event, separate from what libraries print to standard output."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO


def claim_stdout() -> TextIO:
    """Return the real standard output for events alone; other output to it, C libraries included, goes to stderr."""
    sys.stdout.flush()
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def emit(stream: TextIO, event: Mapping[str, object]) -> None:
    """Write one event."""
    stream.write(json.dumps(event, allow_nan=False) + "\n")
    stream.flush()


def parse(line: str) -> dict[str, Any] | None:
    """Return the event of a line; None if the line is not an event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
