"""`.ci/run` passes only if every check passes, and runs the tests in any case, last."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STUB = """#!/bin/sh
echo "ran $(basename "$0") $*"
[ -n "$FAILING" ] || exit 0
case "$(basename "$0") $*" in "$FAILING"*) exit 1;; esac
"""
MEETING = """#!/bin/sh
case "$(basename "$0") $*" in
  mypy*) for _ in $(seq 100); do [ -e "$STUB.tests" ] && exit 0; sleep 0.1; done; exit 1;;
  "python -m pytest"*) touch "$STUB.tests"; kill -INT $$; echo "deaf to Ctrl-C";;
esac
"""
"""Programs of which mypy ends well only once the tests have begun, and the tests are ended by Ctrl-C."""
MAKE_VENV = """#!/bin/sh
mkdir -p "$3/bin"
for name in python pip ruff mypy lint-imports; do cp "$STUB" "$3/bin/$name"; done
"""
README = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest\n"


def ci(
    tmp_path: Path, readme: str = README, failing: str = "", stub: str = STUB
) -> subprocess.CompletedProcess[str]:
    """Run the script in a checkout where every tool is a stub; a call that begins with `failing` fails."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "README.md").write_text(readme)
    programs = {"stub": stub, "python3": MAKE_VENV, "chromium": STUB, "apt-get": STUB}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "STUB": str(tmp_path / "stub"),
        "FAILING": failing,
    }
    command = ["bash", str(tmp_path / ".ci" / "run")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_runs_every_check_and_the_tests_of_the_readme_last(tmp_path: Path) -> None:
    done = ci(tmp_path)
    assert done.returncode == 0, done.stderr
    ran = [line.removeprefix("ran ").rstrip() for line in done.stdout.splitlines() if line.startswith("ran ")]
    assert ran == [
        "pip install -q -e .[test]",
        "pip install -q -e .[test-browser]",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        "python -m pytest",
    ]


@pytest.mark.parametrize("failing", ["ruff check", "ruff format", "mypy ", "lint-imports "])
def test_a_failing_linter_fails_it_but_the_tests_still_run(tmp_path: Path, failing: str) -> None:
    done = ci(tmp_path, failing=failing)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].rstrip() == "ran python -m pytest"
    assert f"failed: {failing.strip()}" in done.stdout


def test_linters_and_tests_run_at_the_same_time_and_the_tests_hear_ctrl_c(tmp_path: Path) -> None:
    done = ci(tmp_path, stub=MEETING)
    assert "failed: mypy" not in done.stdout
    assert "deaf" not in done.stdout
    assert done.returncode == 128 + signal.SIGINT


def test_a_machine_without_browser_driver_runs_the_tests_all_the_same(tmp_path: Path) -> None:
    done = ci(tmp_path, failing="pip install -q -e .[test-browser]")
    assert done.returncode == 0
    assert "no browser driver" in done.stdout
    assert done.stdout.splitlines()[-1].rstrip() == "ran python -m pytest"


@pytest.mark.parametrize("failing", ["pip install", "python -m pytest"])
def test_a_failing_installation_or_test_fails_it(tmp_path: Path, failing: str) -> None:
    assert ci(tmp_path, failing=failing).returncode != 0


def test_a_readme_without_test_command_fails_it(tmp_path: Path) -> None:
    assert ci(tmp_path, readme="nothing\n").returncode != 0
