"""Read names of 4- and 8-bit checkpoints from wheels of trainers, and add those of the catalog's models to the table.

    python tools/read_checkpoints.py FOLDER

FOLDER holds unpacked wheels, ms_swift-RELEASE and llamafactory-RELEASE, whose lists name repositories on the Hugging
Face hub. Nothing of them is imported or run. Rows that the table has are left alone; names are those of publishers, so
that other people's quantisations are left out.
"""

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from advisor.catalog import models
from advisor.catalog.engines import SUPPORT_FOLDER
from advisor.catalog.errors import AdvisorError

TABLE: Final = SUPPORT_FOLDER / "checkpoints.csv"
SOURCES: Final = SUPPORT_FOLDER / "checkpoints_sources.csv"
_FILES: Final = {"ms_swift": "swift/model/**/*.py", "llamafactory": "llamafactory/extras/constants.py"}
_NAMES: Final = {
    "ms_swift": re.compile(r"""Model\(\s*['"][^'"]+['"],\s*['"]([\w.-]+/[\w.-]+)['"]"""),
    "llamafactory": re.compile(r'DownloadSource\.DEFAULT: "([\w.-]+/[\w.-]+)"'),
}
"""Calls and keys with names on the Hugging Face hub; those of ModelScope come before or beside them."""
_FORMATS: Final = (
    (re.compile(r"-AWQ(-Int4)?$", re.IGNORECASE), "int4-awq"),
    (re.compile(r"-GPTQ-Int4$", re.IGNORECASE), "int4-gptq"),
    (re.compile(r"-GPTQ-Int8$", re.IGNORECASE), "int8-gptq"),
)


def read_names(folder: Path, package: str) -> Iterator[tuple[str, str, str]]:
    """Yield repositories whose names state a format of the table, each with the name without it, and the format."""
    for path in sorted(folder.glob(_FILES[package])):
        for name in _NAMES[package].findall(path.read_text()):
            for pattern, form in _FORMATS:
                if pattern.search(name):
                    yield name, pattern.sub("", name), form


def model_of(name: str, plain: str) -> str:
    """Return the catalog's model that lists the repository without the format in its name; empty if there is none."""
    try:
        record = models.by_id(models.get(name).record.id)
    except AdvisorError:
        return ""
    return record.id if plain.casefold() in {one.casefold() for one in record.hf_ids} else ""


def main() -> None:
    """Add the rows that the table lacks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with SOURCES.open(newline="") as file:
        titles = [row["title"] for row in csv.DictReader(file)]
    known = {row["repository"].casefold() for row in rows}
    for package in _FILES:
        place = max(folder.glob(f"{package}-*"))
        for name, plain, form in sorted(set(read_names(place, package))):
            if name.casefold() in known or not (model := model_of(name, plain)):
                continue
            known.add(name.casefold())
            title = f"PyPI {place.name.replace('-', ' ')} {_FILES[package]}"
            if title not in titles:
                titles.append(title)
            cells = (name, model, form, "official", "true", "sglang vllm", str(titles.index(title)))
            rows.append(dict(zip(rows[0], cells, strict=True)))
    for path, columns, lines in (
        (TABLE, list(rows[0]), [list(row.values()) for row in rows]),
        (SOURCES, ["source", "title"], [list(pair) for pair in enumerate(titles)]),
    ):
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *lines])


if __name__ == "__main__":
    main()
