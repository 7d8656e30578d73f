"""Texts of files that a person names, or of standard input."""

import sys
from pathlib import Path
from typing import Final

from advisor.catalog.files import MOST_DOCUMENT_BYTES, read_text, too_large

STDIN: Final = Path("-")


def text_of(path: Path) -> str:
    """Return the text of a file or of standard input. Raises: InputFileError: it cannot be read."""
    return _read_standard_input() if path == STDIN else read_text(path)


def _read_standard_input() -> str:
    """Return standard input, as far as a document may reach. Raises: InputFileError: it is longer."""
    text = sys.stdin.read(MOST_DOCUMENT_BYTES + 1)
    if len(text) > MOST_DOCUMENT_BYTES:
        raise too_large("standard input", MOST_DOCUMENT_BYTES)
    return text
