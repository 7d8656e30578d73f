"""Ask a few hundred questions of the checkout that this file lies in, keep the answers, and tell what changed.

    python tools/corpus.py record FOLDER [--questions FILE] [--only WORD] [--jobs 2] [--installed]
    python tools/corpus.py compare BEFORE AFTER [--relative 1e-9]

The questions are the lines of `tools/corpus.txt` or of another file. An answer is the exit code, what stderr said and
the JSON document; fields ending in `wall_s` and the versions of program and catalog are left out. A change of
structure must not change an answer; a change of a model changes those that it should. With `--installed`, the package
that this Python has installed is asked instead of the checkout (tests/test_packaging.py).
"""

import argparse
import io
import json
import math
import multiprocessing
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = tuple(ROOT / name for name in ("tests/probes/pasted", "tests/published", "tools/corpus_files"))
"""Folders of the files that questions name, the last first where names are equal; each recording works on copies."""
QUESTIONS = Path(__file__).with_suffix(".txt")
TODAY = "2026-11-20"
"""The day on which questions are asked that name none: prices and their age depend on it."""
IGNORED = re.compile(r"(wall_s|_version)$")


def questions(file: Path, only: str) -> list[str]:
    """The lines of a file of questions that hold a word; `#` begins a comment."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#") and only in line]


def answer(question: str) -> dict[str, Any]:
    """Exit code, stderr and JSON document of one question."""
    from advisor.__main__ import main

    dated = "" if "--as-of" in question else f" --as-of {TODAY}"
    sys.argv = ["advisor", *shlex.split(f"{question} --json --offline{dated}")]
    out = io.StringIO()
    err = io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    text = out.getvalue()
    document = json.loads(text) if text.strip().startswith("{") else text
    return {"question": question, "exit_code": code, "stderr": err.getvalue(), "document": document}


def copy_files(folder: Path) -> None:
    """Copy the files that questions name into a folder."""
    for each in FOLDERS:
        shutil.copytree(
            each, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True
        )


def record(folder: Path, asked: list[str], jobs: int) -> None:
    """Ask the questions and write their answers into `folder`.

    Each question has a process of its own; with no jobs, this process asks them all, which takes less time.
    """
    os.environ.update(NO_COLOR="1", COLUMNS="100", XDG_CONFIG_HOME=str(folder), XDG_CACHE_HOME=str(folder))
    copy_files(folder / "files")
    os.chdir(folder / "files")
    with (folder / "answers.jsonl").open("w") as file:
        for number, found in enumerate(_answer_all(asked, jobs), start=1):
            file.write(json.dumps(found) + "\n")
            print(f"{number}/{len(asked)} exit {found['exit_code']} {found['question']}", flush=True)


def _answer_all(asked: list[str], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 0:
        yield from map(answer, asked)
        return
    import numpy  # noqa: F401  (loaded once, before processes are made)
    import pandas  # noqa: F401

    import advisor.__main__  # noqa: F401

    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap(answer, asked, chunksize=1)


def differences(before: Any, after: Any, relative: float, path: str = "") -> Iterator[str]:
    """Yield the places where two answers differ by more than a relative tolerance, as `path: before -> after`."""
    if IGNORED.search(path):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(k for k in after if k not in before)]:
            if key not in before or key not in after:
                if not IGNORED.search(key):
                    yield f"{path}.{key}: {'gone' if key in before else 'new'}"
                continue
            yield from differences(before[key], after[key], relative, f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path}: {len(before)} -> {len(after)} entries"
        for number, (left, right) in enumerate(zip(before, after, strict=False)):
            yield from differences(left, right, relative, f"{path}[{number}]")
    elif isinstance(before, float) and isinstance(after, int | float):
        if not math.isclose(before, after, rel_tol=relative, abs_tol=1e-300):
            yield f"{path}: {before!r} -> {after!r}"
    elif before != after:
        yield f"{path}: {before!r} -> {after!r}"


def compare(before: Path, after: Path, relative: float) -> int:
    """Print what differs between two recordings; the number of answers that do."""
    kept = [_answers(folder) for folder in (before, after)]
    changed = 0
    for question in kept[1]:
        if question not in kept[0]:
            print(f"new question: {question}")
            continue
        found = list(differences(kept[0][question], kept[1][question], relative))
        if found:
            changed += 1
            print(f"{question}\n  " + "\n  ".join(line[:300] for line in found[:6]))
            if len(found) > 6:
                print(f"  and {len(found) - 6} more")
    print(f"{len(kept[1])} answers, {changed} differ by more than {relative:g}")
    return changed


def _answers(folder: Path) -> dict[str, Any]:
    lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return {found["question"]: found for found in map(json.loads, lines)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("folder", type=Path)
    recorder.add_argument("--only", default="")
    recorder.add_argument("--questions", type=Path, default=QUESTIONS)
    recorder.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="0: all in one process")
    recorder.add_argument("--installed", action="store_true", help="ask the installed package")
    comparer = commands.add_parser("compare")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    comparer.add_argument("--relative", type=float, default=1e-9)
    given = parser.parse_args()
    if given.command == "record":
        if not given.installed:
            sys.path.insert(0, str(ROOT))
        record(given.folder.resolve(), questions(given.questions, given.only), given.jobs)
        return 0
    return min(1, compare(given.before, given.after, given.relative))


if __name__ == "__main__":
    sys.exit(main())
