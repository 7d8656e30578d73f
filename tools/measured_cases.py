"""Cases of a measurement: each in a process of its own, so that it starts with empty memory, within a time for all."""

import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

_LONGEST_CASE_S = 120.0
_SHORTEST_CASE_S = 30.0
_SHOWN_LETTERS = 1500


def measure_each(commands: Iterable[tuple[int, Sequence[str]]], seconds: float) -> None:
    """Run the command of each numbered case, print how it ended, and stop when less than half a minute is left."""
    begun = time.monotonic()
    for number, command in commands:
        left = seconds - (time.monotonic() - begun)
        if left < _SHORTEST_CASE_S:
            print("out of time before case", number)
            break
        try:
            done = subprocess.run(
                command, timeout=min(_LONGEST_CASE_S, left), capture_output=True, check=False, text=True
            )
            said = "ok" if done.returncode == 0 else done.stderr[-_SHOWN_LETTERS:]
        except subprocess.TimeoutExpired:
            said = "timed out"
        print(number, round(time.monotonic() - begun), said, flush=True)


def append_result(file: Path, result: dict[str, object]) -> None:
    """Add the result of one case to a file, as a line of JSON."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(result) + "\n")
