"""Fixtures of every test: a fixed terminal, the command line in process, golden files, large data."""

import contextlib
import datetime
import functools
import gc
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# Typer and rich decide about colour and width when they are first imported, and a CI that sets GITHUB_ACTIONS
# makes them colour a pipe: pin all of it before any test imports them.
for _name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "NO_COLOR", "TERMINAL_WIDTH"):
    os.environ.pop(_name, None)
os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"
os.environ["COLUMNS"] = "100"
# No test sees the prices that the person who runs it has refreshed, nor that person's defaults.
# No test asks the hub for a model: those about it serve their own.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["XDG_CONFIG_HOME"] = str(ROOT / "tests" / "no-own-defaults")
os.environ["ADVISOR_CACHE_DIR"] = str(ROOT / "tests" / "no-refreshed-prices")

# Each worker rewrites the assertions of 500 files and each program that a test starts reads 600: once, not each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests are 25,000 objects that live to the end; collections need not visit them again and again.
gc.set_threshold(250_000)

# Generated examples are the same in every run, and no test fails because the machine is busy.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


TODAY = datetime.date(2026, 11, 20)
"""The day on which questions of tests and pages are asked unless they name one: ages of prices depend on it."""

MOST_RUNS = 8192
"""Simulated runs that a worker remembers, of 60 kB each: those of one file of tests are up to 5,000."""


@pytest.fixture(scope="session", autouse=True)
def same_day() -> Iterator[None]:
    """No answer of a test depends on the day on which it runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("advisor.ask.options.today", lambda: TODAY)
        yield


@pytest.fixture(scope="session", autouse=True)
def same_runs_once() -> Iterator[None]:
    """Questions of different tests share their simulated runs, which follow from their inputs alone."""
    from advisor.decide import load_runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_runs, "_remembered_run", functools.lru_cache(MOST_RUNS)(load_runs._simulate))
        yield


@pytest.fixture(scope="session")
def least_cpu_s() -> Callable[..., float]:
    """The least processor time of three runs of Python with some arguments and variables [s]."""
    resource = pytest.importorskip("resource")

    def measure(*arguments: str, variables: Mapping[str, str] | None = None) -> float:
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**os.environ, **(variables or {})},
                capture_output=True,
                check=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    return measure


@dataclass(frozen=True)
class Run:
    """One run of the command line."""

    command: str
    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """Return the JSON document of a run that ended well."""
        assert self.code == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found

    def transcript(self) -> str:
        """Command, stdout, stderr and exit code as one text, without trailing blanks."""
        parts = [f"$ {self.command}"]
        if self.out:
            parts.append(self.out)
        if self.err:
            parts += ["--- stderr", self.err]
        if self.code:
            parts.append(f"--- exit {self.code}")
        return plain("\n".join(part.rstrip("\n") for part in parts))


def plain(text: str) -> str:
    """Lines without the blanks that pad a table's last column."""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have slow tests: workers share what is left, and end together."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files and documented output"
    )


@pytest.fixture(scope="session")
def ask_once() -> Callable[[str], Run]:
    """Run a command line once for all tests that only read its answer, with the usual folder and settings."""
    from advisor.__main__ import main

    @functools.cache
    def run(command: str) -> Run:
        program, *arguments = shlex.split(command)
        assert program == "advisor"
        out = io.StringIO()
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        return Run(command, code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[[str], Run]:
    """Run a command line such as `advisor catalog gpus --json` in this process."""
    from advisor.__main__ import main

    def run(command: str) -> Run:
        program, *arguments = shlex.split(command)
        assert program == "advisor"
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Run(command, code, captured.out, captured.err)

    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/<room>/golden/<name>.txt, or rewrite that file under --update-golden."""
    folder = request.path.parent / "golden"

    def check(name: str, text: str) -> None:
        file = folder / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file} is missing: run pytest with --update-golden"
        assert text == file.read_text(encoding="utf-8"), f"differs from {file}; --update-golden accepts it"

    return check


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium of this machine, driven over its DevTools protocol."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium here, so pages are not opened (Debian: apt-get install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pip install '.[test-browser]' opens pages"
    )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open pages with a fragment of their address; at the end none may have complained or asked for anything else."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_file(file: Path, fragment: str = "", width: int = 1280, scheme: str = "light") -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda each: None if each.url.startswith(("file:", "data:")) else complaints.append(each.url),
        )
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the large measured tables, which a clone does not contain."""
    folder = Path(os.environ.get("ADVISOR_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(
            "the measured tables are not beside this checkout; ADVISOR_SHARED_DATA names their folder"
        )
    return folder


def _unset_in_compose(files: Mapping[str, str]) -> list[str]:
    """Return the variables that a Compose file requires and a printed line that starts it does not set. Compose fills
    in the variables of a whole file before it selects profiles."""
    lines = re.findall(r"((?:[A-Z]+=\w+ )*)docker compose ([^`\n]*?) up --detach", files["README.md"])
    assert lines
    unset = []
    for told, words in lines:
        name = re.search(r"--file (\S+)", words)
        text = files[name[1] if name else "compose.yaml"].replace("$$", "")
        required = set(re.findall(r"\$\{(\w+):?\?", text))
        unset += sorted(required - {each.partition("=")[0] for each in told.split()})
    return unset


@pytest.fixture(scope="session")
def unset_in_compose() -> Callable[[Mapping[str, str]], list[str]]:
    return _unset_in_compose
