"""Build hook for files that only a wheel holds: TOML files of the catalog as one file of JSON, the data's version, and
a compiled event loop where ADVISOR_COMPILE says so. An editable install stays as the checkout is.

Each accelerator and model is a file of its own for people who write them. Half a thousand small files take four times
the room of one, as each is compressed for itself, and TOML takes twenty times as long to parse as JSON."""

import importlib
import json
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOOLS = Path(__file__).resolve().parent
DATA = TOOLS.parent / "catalog" / "data"
SHOWN = DATA / "fleets"
"""Examples that people are shown as they are written; they stay files, as pyproject.toml says."""


class Wheel(BuildHookInterface[Any]):
    """Puts what was made of the checkout into the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the requirements of a build beyond hatchling."""
        return list(_compile_loop().NEEDS) if _is_compiled() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files of the wheel before it is built."""
        if version == "editable":
            return
        self.folder = Path(tempfile.mkdtemp())
        tables = self.folder / "tables.jsonl"
        tables.write_text(join_tables(), encoding="utf-8")
        stated = self.folder / "version"
        stated.write_text(_checkout_module("advisor.render.document").data_hash(DATA), encoding="utf-8")
        for made in (tables, stated):
            build_data["force_include"][str(made)] = f"advisor/catalog/data/{made.name}"
        if _is_compiled():
            for library in _compile_loop().compile_package(self.folder):
                build_data["force_include"][str(self.folder / library)] = str(library)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


def join_tables() -> str:
    """A line a TOML file of the catalog: its name, a tab and its tables as JSON."""
    files = [path for path in sorted(DATA.rglob("*.toml")) if SHOWN not in path.parents]
    return "".join(f"{path.relative_to(DATA).as_posix()}\t{_as_json(path)}\n" for path in files)


def _as_json(path: Path) -> str:
    """Raises: TypeError: a date without quotes, which JSON does not have."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return json.dumps(tables, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _is_compiled() -> bool:
    return os.environ.get("ADVISOR_COMPILE", "") not in ("", "0")


def _compile_loop() -> Any:
    return _checkout_module("compile_loop")


def _checkout_module(name: str) -> Any:
    """A module of the checkout that needs nothing but the standard library: a build has nothing else."""
    sys.path[:0] = [str(TOOLS.parent), str(TOOLS)]
    return importlib.import_module(name)
