"""Files that a disk, a mail program or a person has damaged a little: every reader ends in a documented code.

Each case takes a file that is right and changes it: bits, lengths, lines, numbers, kinds of values. CI tries 100,
always the same; `ADVISOR_FUZZ_CASES` and `ADVISOR_FUZZ_SEED` try more, others.
"""

import json
import os
import random
import re
import resource
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EARLIER = Path(__file__).parent / "earlier"
CASES = int(os.environ.get("ADVISOR_FUZZ_CASES", "100"))
SEED = int(os.environ.get("ADVISOR_FUZZ_SEED", "1"))
MOST_BYTES = 2_000_000_000
READERS = {
    "calibration.json": (
        "simulate collective --gpu h200-sxm --bytes 1GiB --calibration {}",
        "simulate serve --model 8b --gpu h200-sxm --rate 1 --requests 20 --calibration {}",
    ),
    "plan-serve.json": ("compare {} {}", "replay {}"),
    "plan-train.json": ("simulate train {}", "recommend --workload train --from {} --gpus 8"),
    "report.json": ("compare {} {}",),
    "probe.json": ("compare {} {}", "calibrate {}"),
    "sweep.csv": ("sweep {} --pareto min:time_s",),
    "parts.toml": ("build check {}",),
    "prices.csv": ("catalog prices --gpu h100 --price-file {}", "catalog parts --price-file {}"),
    "trace.csv": ("simulate serve --model 8b --gpu h100-sxm --trace {}", "simulate trace {}"),
    "goal.toml": ("recommend --model 8b --gpu l4 --rate 1 --fast --goal {}",),
    "fleet.toml": ("simulate fleet {} --show", "simulate fleet {}"),
    "config.json": (
        "simulate serve --model {} --gpu h100-sxm --rate 1 --requests 20",
        "catalog show {}",
        "roofline --model {} --gpu l4",
    ),
    "study.toml": ("sweep {} -o out.csv --workers 1 -q",),
    "sweep.csv.journal": ("sweep study.toml -o sweep.csv --workers 1 -q --resume",),
    "advisor.toml": ("catalog gpus", "catalog prices --gpu h100"),
    "cache/prices/vast.csv": ("catalog prices --gpu a100",),
}
SLOW = ("replay", "recommend", "build", "simulate fleet")
VALUES = (
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "-0",
    "9" * 400,
    "null",
    "true",
    "[]",
    "{}",
    '""',
    "1e-300",
    "0.5",
    "8",
    "\u0662",
)
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b",",
    b'"',
    b"[[",
    b"}",
    b"\x1b[2J",
    "\u202e".encode(),
    b"=",
    b"9" * 5000,
    b"#",
    b"\r",
)
Ask = Callable[[list[str]], tuple[int, str, str]]


def damage(content: bytes, draw: random.Random) -> bytes:
    """The content with one to four changes of one kind or another."""
    for _ in range(draw.choice([1, 1, 2, 4])):
        content = draw.choice([_bytes, _bytes, _cut, _number, _number, _number, _lines, _tree, _tree])(
            content, draw
        )
    return content


def _bytes(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return (
        content[:at]
        + draw.choice([*WORDS, bytes([draw.randrange(256)])])
        + content[at + draw.choice([0, 0, 1, 5]) :]
    )


def _cut(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return draw.choice([content[:at], content[at:], content + content[at:], b""])


def _number(content: bytes, draw: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d[\d.eE+]*", content))
    if not found:
        return content
    one = draw.choice(found)
    return content[: one.start()] + draw.choice(VALUES).encode() + content[one.end() :]


def _lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        at = draw.randrange(len(lines))
        lines[at : at + 1] = draw.choice([[], [lines[at]] * 2, [lines[at]] * 300, [draw.choice(lines)]])
    return b"".join(lines)


def _tree(content: bytes, draw: random.Random) -> bytes:
    """A field of a JSON document left out, or of another kind."""
    try:
        root = json.loads(content)
    except ValueError:
        return content
    at: Any = root
    while isinstance(at, dict | list) and at:
        key = draw.choice(list(at)) if isinstance(at, dict) else draw.randrange(len(at))
        if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.3:
            if draw.random() < 0.3:
                del at[key]
            else:
                at[key] = draw.choice(
                    [None, -1, 0, 1e300, "x", "\x1b[2J", [], {}, True, [[1]], {"a": 1}, 10**400]
                )
            break
        at = at[key]
    return json.dumps(root).encode()


def test_damaged_files_end_in_a_documented_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    done: Counter[int] = Counter()
    at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    monkeypatch.chdir(tmp_path)
    for number in range(CASES):
        draw = random.Random(SEED * 1_000_000 + number)
        done[one_case(tmp_path, draw, monkeypatch, ask)] += 1
    assert done[0]
    assert done[2]
    # Tests before this one may have filled the process's memory.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - at_first < MOST_BYTES


def one_case(folder: Path, draw: random.Random, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> int:
    """The exit code of a reader of a damaged file."""
    name = draw.choice(list(READERS))
    command = draw.choice(READERS[name])
    if command.startswith(SLOW) and draw.random() < 0.8:
        name = "calibration.json"
        command = READERS["calibration.json"][0]
    shutil.rmtree(folder / "cache", ignore_errors=True)
    shutil.copytree(EARLIER, folder, dirs_exist_ok=True)
    if name != "advisor.toml":
        (folder / "advisor.toml").unlink()
    monkeypatch.setenv("ADVISOR_CACHE_DIR", "cache" if name.startswith("cache") else "none")
    (folder / name).write_bytes(damage((EARLIER / name).read_bytes(), draw))
    arguments = command.format(*[name] * 2).replace("min:", "min\0").split()
    code = ask([word.replace("\0", " ") for word in arguments])[0]
    for left in (*folder.glob("out.csv*"), folder / "advisor.toml"):
        if left.is_file():
            left.unlink()
    return code
