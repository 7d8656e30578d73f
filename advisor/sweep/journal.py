"""Journal of a sweep: its finished points, line by line, in a file next to its output. A kill loses only the points in
flight."""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import check_link, too_large, too_many
from advisor.catalog.legible import escape_json

Row = Mapping[str, Any]
VERSION: Final = 1
UNKNOWN: Final = "unknown"
"""Value of fields that journals of older releases do not contain."""
MOST_JOURNAL_BYTES: Final = 256_000_000
"""Largest journal that is read [bytes]: with as many cells as are kept, it takes less than 1 GB of memory."""
MOST_CELLS: Final = 8_000_000
"""Maximum number of cells of a journal that are kept; a row counts for itself as well."""
_CELLS_OF_A_ROW: Final = 8
"""Number of cells whose memory the row and its name take."""
_MOST_DAMAGED: Final = 1_000_000
"""Maximum number of damaged lines that are listed: as many as a study has points."""
_MOST_LINE_CHARACTERS: Final = 10_000_000
"""Longest line that is parsed [characters]: parsed JSON takes up to 30 times its size in memory."""
_BLOCK_CHARACTERS: Final = 1_000_000
_BEGINNING: Final = '{"journal": '
_SYNC_S: Final = 1.0
"""Interval between writes to the disk, which survive a power cut [s]; the system gets every line at once, which
survives a kill."""


@dataclass(frozen=True, slots=True)
class Header:
    """Versions that all rows of a journal share; rows of another program or catalog must not mix with them."""

    command: str
    tool_version: str
    catalog_version: str
    as_of: str
    seed: int
    prices: str = UNKNOWN
    """Hash of the refreshed prices in use; empty if only bundled prices are used."""
    calibration: str = UNKNOWN
    """Hash of the calibration; empty if there is none."""
    calibration_file: str = ""


@dataclass(slots=True)
class JournalContent:
    """Content of a journal when it was opened."""

    rows: dict[str, Row] = field(default_factory=dict)
    complete: bool = False
    damaged_lines: tuple[int, ...] = ()
    """Numbers of lines that a power cut damaged; their points are asked again."""


def journal_path(output: Path) -> Path:
    """Return the path of an output file's journal, in the same folder."""
    return output.with_name(output.name + ".journal")


def read_journal(path: Path) -> tuple[Header | None, JournalContent]:
    """Return header and rows of a journal; (None, no rows) if there is no journal.

    Raises: InputFileError: the file is no journal, or too large. AdvisorError: another sweep writes to it.
    """
    if not path.exists():
        return None, JournalContent()
    check_link(path)
    if not path.is_file():
        raise InputFileError(f"{path}: is no file", fix="choose another output")
    check_free(path)
    if path.stat().st_size > MOST_JOURNAL_BYTES:
        raise too_large(str(path), MOST_JOURNAL_BYTES)
    with path.open(
        encoding="utf-8", errors="replace", newline="\n"
    ) as file:  # a row may hold other separators
        if _never_began(file):
            return None, JournalContent(damaged_lines=(1,))
        file.seek(0)
        lines = _lines(file, path)
        try:
            header = _header(json.loads(next(lines)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise InputFileError(
                f"{path}: line 1 is not the beginning of a journal",
                fix="remove the file, or choose another output",
            ) from None
        return header, _read_rows(lines, path)


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    """Yield the lines of a journal without their line feeds.

    Raises: InputFileError: a line is longer than any row.
    """
    while line := file.readline(_MOST_LINE_CHARACTERS):
        if len(line) == _MOST_LINE_CHARACTERS:
            raise too_large(f"{path}: a line of it", _MOST_LINE_CHARACTERS)
        yield line.removesuffix("\n")


def _read_rows(lines: Iterator[str], path: Path) -> JournalContent:
    """Return the rows of the lines after the header.

    Raises: InputFileError: they hold more cells than fit into memory.
    """
    kept = JournalContent()
    damaged = []
    num_cells = 0
    for number, line in enumerate(lines, 2):
        try:
            entry = json.loads(line, parse_constant=_refuse)
            if entry == {"complete": True}:
                kept.complete = True
                continue
            row = _row(entry["row"])
            kept.rows.setdefault(str(entry["id"]), row)
            kept.complete = False
            num_cells += len(row) + _CELLS_OF_A_ROW
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            damaged.append(number)
        if num_cells > MOST_CELLS:
            raise too_many(path, MOST_CELLS, "cells")
        if len(damaged) > _MOST_DAMAGED:
            raise too_many(path, _MOST_DAMAGED, "damaged lines")
    kept.damaged_lines = tuple(damaged)
    return kept


def _never_began(file: IO[str]) -> bool:
    """Whether a power cut came before the first line was complete: nothing, zeros, or the beginning of a header."""
    text = file.read(_BLOCK_CHARACTERS)
    begun = text.strip("\0\n")
    if begun:
        return (
            "\n" not in text
            and len(text) < _BLOCK_CHARACTERS
            and _BEGINNING.startswith(begun[: len(_BEGINNING)])
        )
    return not any(block.strip("\0\n") for block in iter(lambda: file.read(_BLOCK_CHARACTERS), ""))


def _header(entry: Mapping[str, Any]) -> Header:
    """Raises: KeyError, TypeError: the entry is no header of this or an earlier release."""
    known = {name: entry[name] for name in entry if name in Header.__dataclass_fields__}
    header = Header(**known)
    for name, kind in Header.__annotations__.items():
        if not isinstance(getattr(header, name), kind):
            raise TypeError(name)
    return header


def _row(entry: Mapping[str, Any]) -> Row:
    """Raises: TypeError, ValueError: the entry is no row of plain values with a status."""
    if not isinstance(entry["status"], str):
        raise TypeError("status")
    for name, value in entry.items():
        if not isinstance(value, str | int | float | None):
            raise TypeError(name)
        if isinstance(value, int | float) and not math.isfinite(value):
            raise ValueError(name)
    return {sys.intern(name): value for name, value in entry.items()}


def _refuse(constant: str) -> float:
    raise ValueError(constant)


class Journal:
    """Open journal: rows are appended, never changed; one sweep writes at a time."""

    def __init__(self, path: Path, header: Header, *, keep: bool) -> None:
        """Open the journal to append to its rows, or start an empty one if `keep` is false.

        Raises: AdvisorError: another sweep writes to it, or it cannot be written.
        """
        self.path = path
        check_link(path)
        try:
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise AdvisorError(
                f"cannot write {path}", why=error.strerror or "", fix="choose another folder"
            ) from None
        _lock(self._file, path)
        if not keep:
            self._file.truncate(0)
        if self._file.tell() == 0 or not keep:
            names = Header.__dataclass_fields__
            self._append({"journal": VERSION} | {name: getattr(header, name) for name in names})
        else:
            self._end_torn_line()
        _sync_folder(path.parent)
        self._synced_s = time.monotonic()

    def _end_torn_line(self) -> None:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                self._file.write(b"\n")

    def add(self, point_id: str, row: Row) -> None:
        """Append the row of a finished point."""
        self._append({"id": point_id, "row": row})

    def complete(self) -> None:
        """Mark the study as complete."""
        self._append({"complete": True})

    def _append(self, entry: Mapping[str, Any]) -> None:
        try:
            self._file.write(escape_json(json.dumps(entry, ensure_ascii=False)).encode() + b"\n")
            self._file.flush()
            if time.monotonic() - getattr(self, "_synced_s", 0.0) > _SYNC_S:
                os.fsync(self._file.fileno())
                self._synced_s = time.monotonic()
        except OSError as error:
            raise AdvisorError(
                f"cannot write {self.path}",
                why=f"{error.strerror}; what was finished before is kept",
                fix="free space, then run again with --resume",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # the error of a full disk was raised when the row was written
            self._file.close()


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file survive a power cut, if the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_free(path: Path) -> None:
    """Refuse a journal that another sweep is writing, before its content is shown.

    Raises: AdvisorError: another sweep writes to it.
    """
    with contextlib.suppress(OSError), path.open("rb") as file:
        _lock(file, path)


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse a second writer; the lock ends with the process, however the process ends."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise AdvisorError(
            f"another sweep is writing {path}", fix="wait for it, or choose another output"
        ) from None
