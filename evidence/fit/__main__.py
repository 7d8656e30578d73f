"""Fit one group of terms on measurements, report what is left, and with --write put it into the catalog.

python -m advisor.evidence.fit NAME [--data DIR] [--truth FILE] [--only PART] [--write]
"""

import argparse
import os
import pkgutil
from importlib import import_module
from pathlib import Path

from advisor.evidence import fit
from advisor.evidence.fit.base import REPOSITORY, Options

_SHARED = (
    "base",
    "kernels",
    "__main__",
    "engine_rows",
    "engine_solver",
    "training_parameters",
    "collective_rows",
    "collective_forms",
)
NAMES = sorted(each.name for each in pkgutil.iter_modules(fit.__path__) if each.name not in _SHARED)


def main() -> None:
    """Run one program."""
    parser = argparse.ArgumentParser(
        prog="python -m advisor.evidence.fit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = os.environ.get("ADVISOR_SHARED_DATA", REPOSITORY.parent / "shared" / "data")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--data", type=Path, default=Path(shared), help="folder with kernels/ and truth/")
    parser.add_argument("--truth", type=Path, help="a table of published runs instead of truth/'s")
    parser.add_argument(
        "--only", default="", help="architectures, an engine or engine/era to fit; default all"
    )
    parser.add_argument("--points", type=int, default=5000, help="measurements drawn per fit of kernels")
    parser.add_argument("--dump", type=Path, help="ratios of what was left out, as JSON (engines)")
    parser.add_argument("--processes", type=int, default=1, help="that run at once (engines)")
    parser.add_argument(
        "--write", action="store_true", help="replace the catalog's numbers; else only report"
    )
    given = parser.parse_args()
    program = import_module(f"advisor.evidence.fit.{given.name}")
    program.run(
        Options(given.data, given.truth, given.write, given.only, given.points, given.dump, given.processes)
    )


if __name__ == "__main__":
    main()
