"""Hostile cases of eight kinds, made from a seed: none makes the program run, write, hide, hang or fail.

CI tries 8 of each kind, always the same. `ADVISOR_FUZZ_CASES=10000 ADVISOR_FUZZ_SEED=7` tries more, others.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "hostile" / "hostile_cases.py"
CASES = os.environ.get("ADVISOR_FUZZ_CASES", "64")
PLACES = os.environ.get("ADVISOR_FUZZ_CASES", "88")
SEED = os.environ.get("ADVISOR_FUZZ_SEED", "1")
KINDS = ("code", "path", "folder", "parsing", "failure", "counts", "leaving", "install")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--seed", SEED, *options],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_no_hostile_case_of_any_kind_succeeds() -> None:
    done = run("--cases", CASES)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    for kind in KINDS:
        assert re.search(rf"^{kind}: [\d,]+ cases, 0 failed", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_texts_of_every_input_are_data_in_every_form() -> None:
    """Every fourth text; `--kind place` without a number of cases tries all."""
    done = run("--kind", "place", "--cases", PLACES)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
