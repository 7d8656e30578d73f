"""The wheel holds one clean tree: a distribution must never install top-level packages such as kernels."""

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.command import commands
from advisor.probes.document import recordings

ROOT = Path(__file__).resolve().parent.parent
DATA = "advisor/catalog/data"
LEFT_OUT = re.compile(
    r"evidence/fit/|catalog/data/measured/(?!.*(-x\d-|-iterations-))|.*/h200-sxm-x1-2026-11-20[.]json"
    r"|catalog/data/training/measured-"
)
"""Programs over data that only a checkout has; recordings that no command reads, and one that a newer one hides."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout by the installed hatchling, without network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def joined(wheel: Path) -> dict[str, str]:
    """JSON by name of the TOML files of the catalog that the wheel holds as one file."""
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"{DATA}/tables.jsonl").decode().split("\n")[:-1]
    return dict(line.split("\t") for line in lines)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python away from the checkout, with the unpacked wheel first on its path."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_build_with_the_variable_compiles_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    hook = importlib.import_module("wheel_hook")
    compile_loop = importlib.import_module("compile_loop")
    monkeypatch.setattr(compile_loop, "compile_package", lambda folder: [Path("advisor/loop.so")])
    monkeypatch.setenv("ADVISOR_COMPILE", "1")
    wheel = hook.Wheel(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    built: dict[str, Any] = {"force_include": {}}
    wheel.initialize("standard", built)
    wheel.finalize("standard", built, "")
    assert "advisor/loop.so" in built["force_include"].values()
    assert built["infer_tag"]
    assert not built["pure_python"]


def test_only_one_top_level_package(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert tops == {"advisor", "ai_hardware_advisor-0.1.0.dist-info"}


def test_every_tracked_file_of_the_rooms_is_in_it(names: list[str], joined: dict[str, str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "advisor", "catalog", "simulator", "evidence", "probes", "kernels"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    links = {f"advisor/{room}" for room in ("catalog", "simulator", "evidence", "probes", "kernels")}
    tracked = {f for f in listed.stdout.split("\0") if f and f not in links and (ROOT / f).is_file()}
    tracked = {f for f in tracked if not LEFT_OUT.match(f)}
    expected = {f if f.startswith("advisor/") else f"advisor/{f}" for f in tracked}
    tables = {f"{DATA}/{name}" for name in joined}
    assert not tables & set(names)
    assert expected - set(names) - tables == set()
    assert "advisor/py.typed" in names


def test_joined_tables_are_those_of_the_files(joined: dict[str, str]) -> None:
    assert len(joined) > 400
    for name, tables in joined.items():
        assert json.loads(tables) == tomllib.loads((ROOT / "catalog" / "data" / name).read_text()), name


def test_nothing_else_is_in_it(names: list[str]) -> None:
    kinds = {Path(name).suffix for name in names if ".dist-info/" not in name}
    code = {".py", ".pyi", ".typed", ".js", ".css"}
    data = {".toml", ".csv", ".json", ".jsonl", ".md", ".txt", ""}
    assert kinds <= code | data
    assert [name for name in names if not Path(name).suffix and ".dist-info/" not in name] == [
        f"{DATA}/version"
    ]
    assert not [name for name in names if "test" in Path(name).parts or "__pycache__" in name]


def test_it_carries_licence_and_entry_point(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = "ai_hardware_advisor-0.1.0.dist-info"
        assert "advisor = advisor.__main__:main" in archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()


def test_rooms_are_importable_from_it(installed: Path) -> None:
    code = "import advisor.catalog, advisor.simulator, advisor.probes; print(advisor.catalog.__file__)"
    done = run_python(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment into which pip installed the wheel; dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    found = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A path that stands in a .pth file is searched, but its own .pth files are not read: no editable checkout.
    shared = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "dependencies.pth").write_text("\n".join(shared) + "\n")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "--python", str(found), "install", *options, "--force-reinstall"]
    done = subprocess.run([*command, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return found


def ask_corpus(python: str | Path, folder: Path, *options: str) -> None:
    """Ask the questions of tools/corpus_installed.txt in one process."""
    corpus = ROOT / "tools" / "corpus.py"
    file = ROOT / "tools" / "corpus_installed.txt"
    command = [
        str(python),
        str(corpus),
        "record",
        str(folder),
        "--questions",
        str(file),
        "--jobs",
        "0",
        *options,
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_installed_is_the_wheel(python: Path, tmp_path: Path) -> None:
    code = "import advisor.catalog.files; print(advisor.catalog.files.DATA_DIR)"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    data = Path(done.stdout.strip())
    assert data.is_relative_to(python.parents[1])
    assert (data / "tables.jsonl").is_file()
    assert not (data / "training_intervals.toml").exists()


@pytest.mark.slow
def test_it_answers_as_the_checkout_does(python: Path, tmp_path: Path) -> None:
    """Questions to every command: the JSON document, stderr and the exit code are equal to the last digit."""
    folders = tmp_path / "checkout", tmp_path / "installed"
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(ask_corpus, sys.executable, folders[0]),
            pool.submit(ask_corpus, python, folders[1], "--installed"),
        ]
        for each in asked:
            each.result()
    corpus = [sys.executable, str(ROOT / "tools" / "corpus.py"), "compare", *map(str, folders)]
    done = subprocess.run([*corpus, "--relative", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    names = [{path.name for path in (folder / "files").rglob("*")} for folder in folders]
    assert names[0] == names[1]


def test_every_command_is_among_the_questions() -> None:
    lines = (ROOT / "tools" / "corpus_installed.txt").read_text(encoding="utf-8").splitlines()
    asked = {max((n for n in commands() if line.startswith(n)), key=len, default="") for line in lines}
    assert set(commands()) - asked == {"probe", "catalog refresh"}  # measures; needs a network


def test_every_recording_can_be_calibrated_from_and_aliases_resolve(installed: Path) -> None:
    calibrate_all = (
        "import sys; from advisor.__main__ import main;"
        "sys.exit(any([main(['calibrate', name, '--json']) for name in sys.argv[1:]]))"
    )
    calibrated = run_python(installed, "-c", calibrate_all, *recordings())
    assert calibrated.returncode == 0, calibrated.stderr
    shown = [
        json.loads(run_python(package, "-m", "advisor", "catalog", "show", "h200", "--json").stdout)
        for package in (installed, ROOT)
    ]
    assert shown[0]["record"]["id"] == "h200-sxm"
    assert shown[0]["catalog_version"] == shown[1]["catalog_version"]
