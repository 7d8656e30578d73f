"""The event loop of serving as machine code: the same modules, compiled by mypyc; and the hook of the wheel.

    ADVISOR_COMPILE=1 pip install .              with the compiled loop; needs a C compiler, a minute of CPU time
    python tools/compile_loop.py FOLDER          a copy of the package in FOLDER with it, for measuring and testing

Without the variable nothing is compiled and nothing more is installed. Records are the same, bit by bit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    "batch", "cache", "caching_replica", "content", "disaggregated", "fleet_loop", "fleet_simulation", "loop",
    "ordered_queue", "pipeline", "replica", "router", "simulation", "workload",
)  # fmt: skip
"""Of simulator/serving: a compiled class has compiled subclasses only, so that each is here with all of its own."""
SUFFIX = EXTENSION_SUFFIXES[0]
NEEDS = ("mypy>=2.4", "setuptools")
_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(
    name="compiled",
    ext_modules=mypycify(
        ["--ignore-missing-imports", "--follow-imports=silent", *sys.argv[2:]],
        opt_level=sys.argv[1],
        debug_level="0",
        group_name="advisor_loop",
    ),
    script_args=["build_ext", "--inplace"],
)
"""


def compiled(folder: Path, opt_level: str = "3") -> list[Path]:
    """Copy the package into a folder and compile its event loop there; the libraries, relative to the folder."""
    shutil.copytree(ROOT / "advisor", folder / "advisor", ignore=shutil.ignore_patterns("__pycache__"))
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


class CompiledLoop(BuildHookInterface[Any]):
    """Puts the compiled event loop beside its source into the wheel, where ADVISOR_COMPILE says so."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What a build needs beyond hatchling."""
        return list(NEEDS) if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is made; an editable install stays as it is."""
        if not _is_wanted() or version == "editable":
            return
        self.folder = Path(tempfile.mkdtemp())
        for library in compiled(self.folder):
            build_data["force_include"][str(self.folder / library)] = str(library)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


def _is_wanted() -> bool:
    return os.environ.get("ADVISOR_COMPILE", "") not in ("", "0")


if __name__ == "__main__":
    for library in compiled(Path(sys.argv[1]), *sys.argv[2:]):
        print(library)
