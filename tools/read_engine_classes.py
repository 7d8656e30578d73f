"""Read from wheels of vLLM and SGLang between which of their releases a class of models came, into the cited table.

    python tools/read_engine_classes.py FOLDER

FOLDER holds unpacked wheels, vllm-RELEASE and sglang-RELEASE. Nothing of them is imported or run: vLLM's registry and
the entry classes of SGLang's models are read as syntax trees. A row of engine_models.csv that names releases between
which its class came is narrowed, never widened.
"""

import argparse
import ast
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.releases import version_key

TABLE: Final = SUPPORT_FOLDER / "engine_models.csv"
_PLACES: Final = {"vllm": "vllm/model_executor/models/registry.py", "sglang": "sglang/srt/models/*.py"}


def read_classes(folder: Path, engine: str) -> set[str]:
    """Return the classes that a release registers."""
    return {
        name
        for path in folder.glob(_PLACES[engine])
        for name in _names_in(ast.parse(path.read_text("utf-8-sig")))
    }


def _names_in(tree: ast.Module) -> Iterator[str]:
    """Yield the keys of vLLM's tables of classes, and the names that SGLang's models give as EntryClass."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        name = getattr(targets[0], "id", "") if targets else ""
        value = getattr(node, "value", None)
        if name.endswith("_MODELS") and isinstance(value, ast.Dict):
            yield from (key.value for key in value.keys if isinstance(key, ast.Constant))
        elif name == "EntryClass" and value is not None:
            yield from (each.id for each in ast.walk(value) if isinstance(each, ast.Name))


def narrow_releases(since: str, architecture: str, releases: Mapping[str, set[str]]) -> str:
    """Return the releases between which a class came, as `after 0.16.0, by 0.20.2`, narrowed by those that were
    read."""
    lacking, _, having = since.removeprefix("after ").rpartition("by ")
    lacking = lacking.rstrip(", ") or ("" if having else since.removeprefix("after "))
    # A class that is now one of Transformers may have been the engine's own before.
    later = [each for each in releases if not lacking or version_key(each) > version_key(lacking)]
    has = [release for release in later if architecture in releases[release]]
    first = min([*has, *([having] if having else [])], key=version_key, default="")
    before = [release for release in later if first and version_key(release) < version_key(first)]
    last = max([*before, *([lacking] if lacking else [])], key=version_key, default="")
    return ", ".join(f"{word} {release}" for word, release in (("after", last), ("by", first)) if release)


def main() -> None:
    """Narrow the table's rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    releases = {
        engine: {
            place.name.partition("-")[2]: read_classes(place, engine) for place in folder.glob(f"{engine}-*")
        }
        for engine in _PLACES
    }
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        is_had = row["support"] in ("native", "transformers")
        if row["engine"] in releases and not row["hardware"] and is_had:
            row["since"] = narrow_releases(row["since"], row["architecture"], releases[row["engine"]])
    with TABLE.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
