"""Data files in the field's customary units: readers, and errors that name the fault."""

import codecs
import contextlib
import csv
import datetime
import functools
import hashlib
import io
import itertools
import json
import re
import tomllib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.catalog.errors import InputFileError
from advisor.catalog.units import MB

DATA_DIR: Final = Path(__file__).parent / "data"
MOST_FILE_BYTES: Final = 512_000_000
"""Largest file that is read line by line [bytes]: traces, results of sweeps."""
MOST_PRICES_BYTES: Final = 60_000_000
"""Largest file of prices [bytes]: a page or a document of all its rows takes ten times its size in memory."""
MOST_PRICES: Final = 100_000
"""Maximum number of rows of a file of prices: no market is that large."""
MOST_DOCUMENT_BYTES: Final = 20_000_000
"""Largest file that is parsed as a whole [bytes]: a parsed JSON document takes up to 30 times its size in memory."""
MOST_TOML_BYTES: Final = 1_000_000
"""Largest TOML file [bytes]: a megabyte of the costliest keys takes 1 s and 200 MB to parse."""
_SNIFFED_BYTES: Final = 65_536
"""First bytes of a file of lines by which its encoding is told."""
_NOT_WINDOWS_1252: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
_MOST_KEY_PARTS: Final = 16
"""Maximum number of parts of a dotted key: time and memory of the parser grow with their square."""
_KEY_PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)"""
"""Pattern of one part of a key. No alternative is tried twice, so the time grows with the length: an open quotation
ends with its line."""
_NO_KEY: Final = (
    r"""#[^\n]*+|"{3}(?:[^"\\]|\\[\s\S]|"{1,2}+(?!"))*+(?:"{3,5}+)?|'{3}(?:[^']|'{1,2}+(?!'))*+(?:'{3,5}+)?"""
)
"""Pattern of comments and of texts of several lines. Without a closing quotation it reaches to the end of the file."""
_DOTTED_KEY: Final = re.compile(rf"{_NO_KEY}|(?P<key>{_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART})*+)")
_MOST_SHOWN: Final = 60
"""Number of characters of a text that an error shows."""
_BLOCK_BYTES: Final = 1_000_000
_MOST_DIGITS: Final = 300
_MOST_BITS: Final = 1000
"""Largest whole number of a TOML file [bits]: hexadecimal digits are read without any limit."""
_ALIASES: Final = re.compile(r'(?:^aliases *=|"aliases":) *\[([^]]*)\]', re.MULTILINE)
_QUOTED: Final = re.compile(r'"([^"]*)"')
RecordT = TypeVar("RecordT", bound=BaseModel)


def read_text(path: Path, most_bytes: int = MOST_DOCUMENT_BYTES) -> str:
    """Return the whole text of a file, with lines ending in a line feed.

    Raises: InputFileError: the file is missing, a folder, too large, unreadable or in another encoding.
    """
    with _translate_errors(path), path.open("rb") as file:
        content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise too_large(str(path), most_bytes)
        return content.decode(_encoding_of(content)).replace("\r\n", "\n").replace("\r", "\n")


def _encoding_of(start: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-8, UTF-16 with its mark, or Windows-1252, in which Excel
    saves a CSV.

    Bytes that are no UTF-8 are Windows-1252 where none of them is a control character or undefined there.
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "utf-8-sig" if _NOT_WINDOWS_1252.search(start) else "cp1252"
    return "utf-8-sig"


def read_lines(path: Path, most_bytes: int | None = None) -> Iterator[str]:
    """Yield the lines of a file. Each ends in a line feed, except the last line of a file without one at its end.

    Raises: InputFileError: see `read_text`; or a line is longer than a document may be.
    """
    most_bytes = MOST_FILE_BYTES if most_bytes is None else most_bytes
    with _translate_errors(path), path.open("rb") as raw:
        encoding = _encoding_of(raw.read(_SNIFFED_BYTES))
    with _translate_errors(path), path.open(encoding=encoding) as file:
        num_read = 0
        while line := file.readline(MOST_DOCUMENT_BYTES):
            num_read += len(line)
            if num_read > most_bytes or len(line) == MOST_DOCUMENT_BYTES:
                raise too_large(str(path), most_bytes)
            yield line


def content_hash(path: Path) -> str:
    """Return a hash of the content of a file.

    Raises: InputFileError: see `read_text`.
    """
    digest = hashlib.sha256()
    num_read = 0
    with _translate_errors(path), path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            num_read += len(block)
            if num_read > MOST_FILE_BYTES:
                raise too_large(str(path), MOST_FILE_BYTES)
            digest.update(block)
    return digest.hexdigest()


def too_large(name: str, most_bytes: int) -> InputFileError:
    """Return the error for an input that is larger than it may be."""
    return InputFileError(
        f"{name}: is too large",
        why=f"more than {most_bytes / MB:g} MB",
        fix="split it, or leave out what is not needed",
    )


def check_link(path: Path, folder: Path | None = None) -> None:
    """Refuse to write through a link that leads out of the named folder; devices under /dev are allowed.

    Raises: InputFileError: the path leads elsewhere. OSError, RuntimeError: the system cannot follow it.
    """
    real = path.resolve()
    within = (folder or path.parent).resolve()
    if not real.is_relative_to(within) and path.absolute().parts[:2] != ("/", "dev"):
        raise InputFileError(
            f"cannot write {path}: it leads to {real}",
            why=f"a link leads out of {folder or path.parent}, which is what was named",
            fix="name the place itself, or remove the link",
        )


def too_many(path: Path, most: int, what: str) -> InputFileError:
    """Return the error for a file with more entries than are kept in memory; `what` names them."""
    return InputFileError(
        f"{path}: has more than {most:,} {what}",
        why="they would not fit into the memory and time that one input may take",
        fix="split it, or leave out what is not needed",
    )


@contextlib.contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors about a file into user errors."""
    try:
        yield
    except FileNotFoundError:
        if path.is_relative_to(DATA_DIR):
            raise _absent(path.relative_to(DATA_DIR).as_posix()) from None
        raise InputFileError(f"{path}: no such file", fix="check the path") from None
    except IsADirectoryError:
        raise InputFileError(f"{path}: is a folder, not a file", fix="name a file in it") from None
    except UnicodeDecodeError:
        raise InputFileError(
            f"{path}: not a text file that is read",
            why="it is neither UTF-8, UTF-16 with a byte-order mark nor Windows-1252",
            fix="save it as UTF-8 text",
        ) from None
    except (OSError, ValueError) as error:  # a null byte in the name
        why = getattr(error, "strerror", None) or str(error)
        raise InputFileError(
            f"{path}: cannot be read", why=why, fix="check the path and its rights"
        ) from None


def _absent(name: str) -> InputFileError:
    """Return the error for a data file that the catalog lacks; the program never answers without it."""
    return InputFileError(
        f"{name}: missing from the data of the catalog",
        why="every file of the catalog is part of the program",
        fix="install advisor again",
    )


@functools.cache
def _joined_tables() -> dict[str, str]:
    """Return the tables of the data's TOML files as JSON, by file name below `DATA_DIR`. Empty in a checkout.

    An installed package holds them in one file (tools/wheel_hook.py); a checkout holds the TOML files themselves.
    """
    path = DATA_DIR / "tables.jsonl"
    lines = read_text(path).split("\n")[:-1] if path.exists() else []
    return dict(line.split("\t", 1) for line in lines)


def data_files(pattern: str) -> tuple[Path, ...]:
    """Return the files of the data whose name below `DATA_DIR` matches a pattern, sorted; for TOML files use
    `toml_names`.

    Raises: InputFileError: no file matches.
    """
    found = tuple(sorted(DATA_DIR.glob(pattern)))
    if not found:
        raise _absent(pattern)
    return found


def stated_version() -> str | None:
    """Return the version of the data that an installed package states (tools/wheel_hook.py); None in a checkout."""
    path = DATA_DIR / "version"
    return read_text(path) if path.exists() else None


def _text_in_wheel(path: Path) -> str | None:
    return (
        _joined_tables().get(path.relative_to(DATA_DIR).as_posix()) if path.is_relative_to(DATA_DIR) else None
    )


def toml_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the TOML files below a folder of the data, relative to the folder and without suffix, sorted.

    Raises: InputFileError: the folder has no TOML file.
    """
    start = f"{folder.relative_to(DATA_DIR).as_posix()}/"
    found = [name.removeprefix(start) for name in _joined_tables() if name.startswith(start)]
    found = found or [path.relative_to(folder).as_posix() for path in folder.rglob("*.toml")]
    if not found:
        raise _absent(f"{start}*.toml")
    return tuple(sorted(name.removesuffix(".toml") for name in found))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises: InputFileError: the file cannot be read or is not TOML (the message has line and column), or a text of a
      user's file has several lines.
    """
    if (joined := _text_in_wheel(path)) is not None:
        return dict(json.loads(joined))
    text = read_text(path, MOST_TOML_BYTES)
    check_keys(text, path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputFileError(f"{path}: not valid TOML", why=str(error), fix="correct that line") from None
    except (RecursionError, ValueError) as error:  # nested without end, a number of thousands of digits
        raise InputFileError(f"{path}: cannot be read", why=str(error), fix="simplify it") from None
    if not path.is_relative_to(DATA_DIR):
        _check_values(tables, path)
    return tables


def _check_values(tables: dict[str, Any], path: Path) -> None:
    """Refuse names and texts of several lines, of which one could pass for a message of this program, and numbers that
    no float holds.

    Raises: InputFileError: a key or a text has a line break, or a whole number has hundreds of digits.
    """
    waiting: list[Any] = [tables]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise InputFileError(
                f"{path}: holds a whole number of {value.bit_length():,} bits",
                why="no amount is that large",
                fix="correct it",
            )
        elif isinstance(value, str) and ("\n" in value or "\r" in value):
            raise InputFileError(
                f"{path}: {value[:_MOST_SHOWN]!r} has several lines",
                why="a name or a text is one line, so that none passes for a message of this program",
                fix="write it on one line",
            )


def check_keys(text: str, path: Path) -> None:
    """Refuse dotted keys longer than any table has, before the parser spends memory on them.

    Raises: InputFileError: a key has too many parts.
    """
    for found in _DOTTED_KEY.finditer(text):
        key = found["key"] or ""
        if key.count(".") >= _MOST_KEY_PARTS and len(re.findall(_KEY_PART, key)) > _MOST_KEY_PARTS:
            line = text.count("\n", 0, found.start()) + 1
            raise InputFileError(
                f"{path}: line {line} has a dotted key of more than {_MOST_KEY_PARTS} parts",
                why="no table of this program is nested so deeply",
                fix="correct that line",
            )


def stated_aliases(folder: Path) -> dict[str, str]:
    """Return id by alias for the records `<id>.toml` in a folder; only their list of aliases is read.

    Raises: InputFileError: a file cannot be read.
    """
    found: dict[str, str] = {}
    for name in toml_names(folder):
        path = folder / f"{name}.toml"
        stated = _ALIASES.search(_text_in_wheel(path) or read_text(path))
        if stated is not None:
            found |= dict.fromkeys(_QUOTED.findall(stated[1]), name)
    return found


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises: ValueError: the text is not JSON, or holds a whole number larger than a float can hold.
    """
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def read_json(path: Path, fix: str, most_bytes: int = MOST_DOCUMENT_BYTES) -> Any:
    """Return the content of a JSON file; `fix` says what to do if the file is not JSON.

    Raises: InputFileError: the file is missing, too large, is not text or is not JSON.
    """
    try:
        return parsed_json(read_text(path, most_bytes))
    except json.JSONDecodeError as error:
        raise InputFileError(f"{path}: not valid JSON", why=str(error), fix=fix) from None
    except (RecursionError, ValueError) as error:
        raise InputFileError(f"{path}: cannot be read", why=str(error), fix="simplify it") from None


_DECIMAL_COMMA: Final = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")
_POINT_THOUSANDS: Final = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
_ROWS_OF_STYLE: Final = 1000
"""Rows of a table in which a decimal comma is looked for."""


def with_commas(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table divided by commas; semicolons or tabs, as spreadsheets of other languages write them,
    become commas, and decimal commas points. A table in Markdown is read as well.

    Assumes: the first line that is no comment is the header; what it is divided by divides all lines. Points divide
        thousands in a table that has a decimal comma in its first 1,000 rows.
    """
    rows = iter(lines)
    for line in rows:
        if line.startswith("#") or not line.strip():
            yield line
            continue
        divider = next((each for each in ";\t" if each in line and "," not in line), "")
        rest: Iterable[str] = itertools.chain([line], rows)
        if line.startswith("|"):
            divider = "|"
            rest = (
                re.sub(r"\s*\|\s*", "|", row.strip().strip("|").strip())
                for row in rest
                if set(row) - set("|-: \n")
            )
        yield from _divided_anew(rest, divider) if divider else rest
        return


def _divided_anew(lines: Iterable[str], divider: str) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = csv.reader(lines, delimiter=divider)
    first = list(itertools.islice(rows, _ROWS_OF_STYLE))
    has_comma = any(_DECIMAL_COMMA.fullmatch(cell.strip()) for cells in first for cell in cells)
    for cells in itertools.chain(first, rows):
        writer.writerow(map(_with_point, cells) if has_comma else cells)
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def _with_point(cell: str) -> str:
    """Return a cell of a table with decimal commas with a decimal point and nothing between thousands."""
    plain = cell.strip()
    is_number = _DECIMAL_COMMA.fullmatch(plain) or _POINT_THOUSANDS.fullmatch(plain)
    return plain.replace(".", "").replace(",", ".") if is_number else cell


def read_csv(
    path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file as (line number in the file, cells by column); lines that start with # are comments.

    Raises: InputFileError: the file cannot be read or is not CSV, a column is missing or unknown, a row has too many or
        too few cells, a cell has several lines, or there are more rows than any market has prices.
    """
    number = 1
    text: list[str] = []

    def lines() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(text, 1):  # noqa: B007
            if line.strip() and not line.startswith("#"):
                yield line

    rows = csv.reader(lines(), strict=True)
    try:
        # Read whole: a reader that gives up half-way would leave the file open until it is collected.
        text += with_commas(read_lines(path, MOST_PRICES_BYTES))
        header = next(rows, [])
        _check_header(path, header, required, optional)
        for count, cells in enumerate(rows, 1):
            if count > MOST_PRICES:
                raise too_many(path, MOST_PRICES, "rows")
            if len(cells) != len(header):
                raise InputFileError(
                    f"{path}: row {number} has {len(cells)} cells, the header has {len(header)}",
                    fix="check for a missing or extra comma; quote a cell that contains one",
                )
            if any("\n" in cell or "\r" in cell for cell in cells):
                raise InputFileError(
                    f"{path}: row {number} has a cell of several lines",
                    why="a name is one line, so that none passes for a message of this program",
                    fix="write the cell on one line; check for a quotation mark too many",
                )
            yield number, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {number} is not CSV", why=str(error), fix="correct its quotes"
        ) from None


def _check_header(
    path: Path, header: list[str], required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    missing = [column for column in required if column not in header]
    unknown = [column for column in header if column not in required and column not in optional]
    if missing:
        raise InputFileError(
            f"{path}: row 1 lacks column {', '.join(missing)}",
            fix=f"the header is {','.join((*required, *optional))}",
        )
    if unknown or len(set(header)) != len(header):
        raise InputFileError(
            f"{path}: row 1 has unknown or repeated columns: {', '.join(unknown or header)}",
            fix=f"the header is {','.join((*required, *optional))}",
        )


def check_record(record_type: type[RecordT], values: Mapping[str, Any], where: str) -> RecordT:
    """Return the record made of `values`; `where` names file and row in the message.

    Raises: InputFileError: a field is missing, unknown, of the wrong type or out of bounds.
    """
    try:
        return record_type.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        if renamed := _misspelt(details, record_type):
            wrong, right = renamed
            raise InputFileError(
                f"{where}: field {wrong}: unknown",
                why=f"the field is called {right}",
                fix=f"rename it {right}",
            ) from None
        problems = [_problem(detail) for detail in details]
        field, value, rule = problems[0]
        more = "; ".join(f"field {f}: {v}: {r}" for f, v, r in problems[1:])
        raise InputFileError(
            f"{where}: field {field}: {value}",
            why=rule,
            fix=f"correct {field}",
            hint=f"also {more}" if more else "",
        ) from None


def named_records(record_type: type[RecordT], file: str, table: str = "") -> dict[str, RecordT]:
    """Return the tables of a data file, or of one table in it, as records by name. The name is the record's id if its
    type has one.

    Raises: InputFileError: see `read_toml` and `check_record`.
    """
    found = read_toml(DATA_DIR / file)
    has_id = "id" in record_type.model_fields
    return {
        name: check_record(record_type, {"id": name, **entry} if has_id else entry, f"{file}: {name}")
        for name, entry in (found[table] if table else found).items()
    }


def _misspelt(details: Sequence[Any], record_type: type[BaseModel]) -> tuple[str, str] | None:
    """Return the first unknown field of which the spelling is near that of a known one, and that one; None without."""
    for detail in details:
        if detail["type"] != "extra_forbidden":
            continue
        *above, name = detail["loc"]
        beside = [
            one["loc"][-1] for one in details if one["type"] == "missing" and [*one["loc"][:-1]] == above
        ]
        known = [*beside, *(() if above else record_type.model_fields)]
        if near := get_close_matches(str(name), map(str, known), 1):
            return ".".join(map(str, detail["loc"])), near[0]
    return None


def _problem(detail: Any) -> tuple[str, str, str]:
    field = ".".join(str(part) for part in detail["loc"]) or "record"
    value = "missing" if detail["type"] == "missing" else repr(detail["input"])
    return field, value if len(value) <= 60 else f"{value[:57]}...", detail["msg"]


def read_cited_tables(path: Path, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of an array of tables as (where, values), with the names in `sources` replaced by the sources.

    Long lists share few sources: the file states each once under [sources.NAME].

    Raises: InputFileError: the file is not TOML, has no such table, or an entry names a source that the file lacks.
    """
    data = read_toml(path)
    sources = data.get("sources", {})
    entries = data.get(table)
    if not isinstance(entries, list):
        raise InputFileError(f"{path}: no [[{table}]]", fix=f"write each entry under [[{table}]]")
    for number, entry in enumerate(entries, 1):
        where = f"{path}: {table} {number}"
        missing = [name for name in entry.get("sources", ()) if name not in sources]
        if missing:
            raise InputFileError(
                f"{where}: field sources: {missing[0]!r}",
                why="no such source in the file",
                fix="add it to [sources]",
            )
        yield where, {**entry, "sources": [sources[name] for name in entry.get("sources", ())]}


def check_currency(values: dict[str, object], where: str) -> None:
    """Remove the column `currency` from a row, and refuse any currency but USD.

    Raises: InputFileError: the row has another currency.
    """
    currency = str(values.pop("currency", "USD") or "USD").strip().upper()
    if currency != "USD":
        raise InputFileError(
            f"{where}: field currency: {currency!r}", why="prices are in USD", fix="convert the price to USD"
        )


def check_day(observed_on: datetime.date, latest: datetime.date, where: str) -> None:
    """Refuse a price whose day is after the latest possible day.

    Raises: InputFileError: the day is later.
    """
    if observed_on > latest:
        raise InputFileError(
            f"{where}: field observed_on: {observed_on}",
            why="that day is in the future",
            fix="write the day on which the price was read",
        )


def check_repeat(seen: dict[Hashable, int], key: Hashable, number: int, place: str, *, fix: str) -> None:
    """Note the row of a price, and refuse a repeated one.

    Raises: InputFileError: an earlier row has the price.
    """
    if key in seen:
        raise InputFileError(
            f"{place}: row {number} repeats row {seen[key]}",
            why="both are the price of the same thing on the same day",
            fix=fix,
        )
    seen[key] = number
