"""Read from LLaMA-Factory's wheel which of its templates formats the data of which model, into the cited table.

    python tools/read_chat_templates.py FOLDER

FOLDER holds an unpacked wheel, llamafactory-RELEASE. Nothing of it is imported or run: calls of `register_model_group`
are read as syntax trees. As the release does, models that answer and models with images have the template of their
group; a base model has none.
"""

import argparse
import ast
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from advisor.catalog.files import DATA_DIR

TABLE: Final = DATA_DIR / "training" / "chat_templates.csv"
_FILE: Final = "llamafactory/extras/constants.py"
_ANSWERING: Final = ("-Chat", "-Distill", "-Instruct", "-Thinking")
"""Endings of names with a template. Source: llamafactory 0.9.5, extras/constants.py, register_model_group."""


def read_templates(source: str) -> Iterator[tuple[str, str]]:
    """Yield repositories on the Hugging Face hub with their templates."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "register_model_group":
            given: dict[str, Any] = {each.arg or "": each.value for each in node.keywords}
            template = getattr(given.get("template"), "value", None)
            has_images = getattr(given.get("multimodal"), "value", False)
            models = given["models"]
            for name, places in zip(models.keys, models.values, strict=True):
                if template and (has_images or any(ending in name.value for ending in _ANSWERING)):
                    by_source = dict(zip(map(ast.unparse, places.keys), places.values, strict=True))
                    yield by_source["DownloadSource.DEFAULT"].value, template


def main() -> None:
    """Write the table of the newest release in the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    place = max(parser.parse_args().folder.glob("llamafactory-*"))
    source = f"PyPI {place.name.replace('-', ' ')} {_FILE}"
    with TABLE.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("framework", "repository", "template", "source"))
        for repository, template in sorted(dict(read_templates((place / _FILE).read_text())).items()):
            rows.writerow(("llama-factory", repository, template, source))


if __name__ == "__main__":
    main()
