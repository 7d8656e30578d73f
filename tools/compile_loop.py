"""The event loop of serving as machine code: the same modules, compiled by mypyc.

    ADVISOR_COMPILE=1 pip install .              with the compiled loop; needs a C compiler, a minute of CPU time
    python tools/compile_loop.py FOLDER          a copy of the package in FOLDER with it, for measuring and testing

Without the variable nothing is compiled and nothing more is installed. Records are the same, bit by bit.
"""

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    "batch",
    "cache",
    "caching_replica",
    "content",
    "disaggregated",
    "fleet_loop",
    "fleet_simulation",
    "lone_replica",
    "loop",
    "ordered_queue",
    "pipeline",
    "replica",
    "router",
    "simulation",
    "workload",
)
"""Modules of simulator/serving that are compiled. A compiled class has compiled subclasses only, so that each is here
with all of its own."""
SUFFIX = EXTENSION_SUFFIXES[0]
NEEDS = ("mypy>=2.4", "setuptools")
_MYPY = """
[mypy]
ignore_missing_imports = true
follow_imports = skip

[mypy-advisor.simulator.*,advisor.catalog.errors,advisor.catalog.units]
follow_imports = silent
"""
"""Modules whose types the compiled ones use. Through `advisor`, everything that is installed would be read: 150 s."""
_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(
    name="compiled",
    ext_modules=mypycify(
        sys.argv[2:],
        opt_level=sys.argv[1],
        debug_level="0",
        group_name="advisor_loop",
    ),
    script_args=["build_ext", "--inplace"],
)
"""


def compile_package(folder: Path, opt_level: str = "3") -> list[Path]:
    """Copy the package into a folder and compile its event loop there; the libraries, relative to the folder."""
    shutil.copytree(ROOT / "advisor", folder / "advisor", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mypy.ini").write_text(_MYPY, encoding="utf-8")
    files = [f"advisor/simulator/serving/{name}.py" for name in MODULES]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, opt_level, *files],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    made = [*folder.glob(f"*{SUFFIX}"), *(folder / files[0]).parent.glob(f"*{SUFFIX}")]
    libraries = [path.relative_to(folder) for path in made]
    if done.returncode or not libraries:
        raise RuntimeError(f"the event loop was not compiled:\n{done.stdout[-2000:]}")
    return libraries


if __name__ == "__main__":
    for library in compile_package(Path(sys.argv[1]), *sys.argv[2:]):
        print(library)
