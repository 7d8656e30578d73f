"""Texts of files that a person names, or of standard input."""

import re
import sys
from pathlib import Path
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import MOST_DOCUMENT_BYTES, read_text, too_large
from advisor.catalog.formats.machine_listing import ListedMachine, read_machine

STDIN: Final = Path("-")


_SUMMARY: Final = "summary.json"
"""File in which a sweep repeats the results of its other files."""


def text_of(path: Path) -> str:
    """Return the text of a file, of standard input, or of all JSON files in a folder, one a line, as sweeps leave them.

    Raises: InputFileError: it cannot be read.
    """
    if path == STDIN:
        return _read_standard_input()
    files = sorted(one for one in path.rglob("*.json") if one.name != _SUMMARY) if path.is_dir() else []
    return "\n".join(" ".join(read_text(one).split("\n")) for one in files) if files else read_text(path)


_COUNTED: Final = re.compile(r"(\d{1,3})\s*[x×]\s*(\S.*)", re.IGNORECASE)


def listed_machine(typed: str, option: str) -> ListedMachine | None:
    """Return the machine of a listing that is typed, pasted as it is or as the name of a file with it (`-` is standard
    input), with a sentence that says what was read; or of one number with a name. None for any other words.

    Raises: InputFileError: the file cannot be read, or the listing names no accelerator.
    """
    if "\n" in typed.strip():
        text = typed
        name = f"the text behind {option}"
    elif typed == str(STDIN) or _is_file(typed):
        text = text_of(Path(typed))
        name = typed
    else:
        counted = _COUNTED.fullmatch(typed.strip()) if option == "--gpu" else None
        board = accelerators.find(counted[2]) if counted else None
        return ListedMachine(((int(counted[1]), board.id),), ()) if counted and board else None
    from advisor.catalog.prices import rented_machines

    rented = {sku.lower(): (count, id_) for (_, sku), (id_, count) in rented_machines().items()}
    try:
        found = read_machine(text, name, rented)
    except InputFileError as error:
        # The reader names the option of searches; another command takes the same value behind its own.
        fix = error.fix.replace("--own ", f"{option} ")
        raise InputFileError(error.what, why=error.why, fix=fix, hint=error.hint) from None
    words = ", ".join(f"{count} x {id_}" for count, id_ in found.counts)
    return ListedMachine(found.counts, (f"{name} lists {words}", *found.notes))


def _is_file(typed: str) -> bool:
    try:
        return Path(typed).is_file()
    except (OSError, ValueError):  # a name that no system allows
        return False


def _read_standard_input() -> str:
    """Return standard input, as far as a document may reach. Raises: InputFileError: it is longer."""
    text = sys.stdin.read(MOST_DOCUMENT_BYTES + 1)
    if len(text) > MOST_DOCUMENT_BYTES:
        raise too_large("standard input", MOST_DOCUMENT_BYTES)
    return text
