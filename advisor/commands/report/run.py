"""Answer of `advisor report`, from saved documents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import InputFileError
from advisor.commands.report.options import CollectInput
from advisor.commands.report.view import collection_answer
from advisor.render.answer import Answer
from advisor.render.html_what_if import what_if_html
from advisor.render.saved import read_document


def report(asked: CollectInput, shared: SharedOptions) -> Answer:
    """Return saved answers side by side.

    Raises: InputFileError: a file cannot be read, is no answer of this program, or has no list of options.
    """
    files = tuple(dict.fromkeys(asked.files))
    documents = [read_document(path) for path in files]
    for path, document in zip(files, documents, strict=True):
        if not isinstance(document.get("options"), list):
            raise InputFileError(
                f"{path}: has no options",
                why=f"it is a {document.get('kind') or 'document without a kind'}",
                fix="name answers of advisor recommend or advisor cost",
            )
        _check_controls(path, document)
    return collection_answer(files, documents)


def _check_controls(path: Path, document: Mapping[str, Any]) -> None:
    """Refuse a document whose what-if data would make no controls.

    Raises: InputFileError: a field is missing, or of another kind.
    """
    data = document.get("what_if")
    if data is None:
        return
    try:
        what_if_html(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputFileError(
            f"{path}: what_if is not complete",
            why=f"{type(error).__name__}: {error}",
            fix="name a file that advisor recommend --what-if -o FILE.json wrote, or remove the field",
        ) from None
