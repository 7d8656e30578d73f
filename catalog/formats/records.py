"""Records of named fields in any container: CSV, Markdown, aligned or boxed tables, JSON, YAML and XML of any depth,
`name: value`.

A record is a mapping from the name of a field, with the names above it, to its cell. What names mean is not known here
(`meanings.py`).
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from advisor.catalog.dtypes import DTYPES
from advisor.catalog.files import parsed_json
from advisor.catalog.formats.accelerator_names import accelerator_named
from advisor.catalog.formats.documents import document_of
from advisor.catalog.formats.launcher_lines import without_prefixes

Record = Mapping[str, Any]
MOST_RECORDS: Final = 100_000
"""Maximum number of records of one text: no sweep and no list of prices has more."""
_LONGEST_PAIR: Final = 400
"""Characters of the longest line of one name and its value."""
_LONGEST_HEADING: Final = 80
"""Characters of the longest line that is a heading and no sentence."""
_NANO: Final = 1e-9
_MOST_BEFORE_A_HEADER: Final = 60
"""Lines of other kinds behind which no table is looked for any more."""
_DEEPEST: Final = 12
_RULE: Final = re.compile(r"^[\s|+:=\-─━═┼╪┌┐└┘├┤┬┴╞╡╭╮╰╯╒╤╕╘╧╛┏┓┗┛┡┩╇╋┠┨┳┻]+$")
_BARS: Final = re.compile(r"[|│┃║]")
_GAP: Final = re.compile(r"\s{2,}|\t")
_PAIR: Final = re.compile(
    r"^\s*(?:[-*•+>]\s+)?([^\W\d_][^:=→]*?|\d+(?:th|%)[^:=→]*?|[pP]\d\d[^:=→]*?)\s*(?:\.{2,}\s*[:=]?|[-=]>|→|[:=]|\s{3,}|\t)\s*(\S.*?)\s*$"
)
_STATISTIC: Final = re.compile(
    r"^(?:mean|avg|average|median|lowest|highest|min(?:imum)?|max(?:imum)?|std\w*|stddev|count|sum|total|[pP]?\d{1,3}(?:\.\d+)?(?:th|%)?"
    r"|percentile.?\d*|values?|units?)$",
    re.IGNORECASE,
)
_MEASURE: Final = re.compile(
    r"(?:[a-z]+ )?(?:metrics?|parameters?)|(?:settings?|statistics?|measure(?:ment)?s?|step|phase|stage"
    r"|figures?|propert(?:y|ies)|fields?|)",
    re.IGNORECASE,
)
"""Titles of a first column that names what the other columns of its row hold."""
_LOAD: Final = re.compile(r"([A-Za-z]+)[ =_-]*(\d+)|(\d+) ?([A-Za-z]+)", re.IGNORECASE)
"""Title of a column that states a load, `c=8` or `8 users`, in a table whose rows are figures."""
_HEADERS: Final = ("columns", "header", "headers", "fields")
_ROWS: Final = ("data", "rows", "values", "records")
"""Keys of a table in JSON: the names of its columns, and its rows as lists."""
_UNIT: Final = re.compile(r"units?", re.IGNORECASE)
_VALUE: Final = re.compile(r"values?|results?", re.IGNORECASE)
_PARTS: Final = {
    "measure": re.compile(r"metric(?:[ _]?name)?|measure(?:ment)?", re.IGNORECASE),
    "statistic": re.compile(r"stat(?:istic)?|aggregation|percentile|quantile", re.IGNORECASE),
    "value": _VALUE,
    "unit": _UNIT,
}
"""Titles of the columns of a table that has one measure in each row."""
_ROW_OF_HTML: Final = re.compile(r"<tr\b[^>]*>", re.IGNORECASE)
_CELL_OF_HTML: Final = re.compile(r"<t[dh]\b[^>]*>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^>]*>")
_ROW_OF_LATEX: Final = re.compile(r"^[^\n&\\]*&[^\n]*\\\\$", re.MULTILINE)
_RUNS: Final = re.compile(r"^ *[-=]{2,}(?: +[-=]{2,})+ *$")
"""A rule under the titles of a table whose runs show where its columns lie."""
_RECORD_MARK: Final = re.compile(r"^(?:-\[ RECORD \d+ \][-+]*|\*{5,} \d+\. row \*{5,})$", re.MULTILINE)
"""Lines before each record as psql and MySQL print them one field a line."""
_PATH: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_RATE: Final = re.compile(r"/(?:s|sec|second|min|minute|h|hour|user|gpu|request|token|tok)\b", re.IGNORECASE)
_SETTING: Final = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)=(?:\"([^\"]*)\"|([^\s,;\"]+))")
TIME_AHEAD: Final = re.compile(
    r"\W{0,2}(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)(?=\W|$)"
)
"""Time before the fields of a line."""
_OF_STATISTIC: Final = re.compile(r"(?<!\w)([A-Za-z]\w*)\s*[ =:]\s*([\d.,]*\d\s*[a-zµ/]*)")
_QUALIFIED: Final = re.compile(r"\d\D*(\([A-Za-z][A-Za-z ,]*\))$")
"""Words in brackets behind a figure, which say which figure it is: `121 [ms] (mean, across all requests)`."""
_NUMBERED: Final = re.compile(r"^([A-Za-z_ =-]*?)[ _=-]*(\d+)$")


_ARGUMENTS: Final = re.compile(r"^[^\n(|]{0,80}\b[A-Za-z_]\w*\(\w+=[^\n]*\)[ \t]*$", re.MULTILINE)
"""Line in which a program prints its arguments, `Namespace(seed=0, ...)`: settings, and no record of figures."""


class FieldsAround(dict[str, Any]):
    """Fields of the lines around the tables of a text: what was run, and figures that no table has."""


def read_records(text: str, *, around: bool = False) -> list[Record]:
    """Return the records of a text, those of its largest container first; none if it has no named fields.

    With `around`, the lines around the tables follow as `FieldsAround`.
    """
    return _join_measures(_records(text, around=around))


def _records(text: str, *, around: bool) -> list[Record]:
    if (document := document_of(text)) is not None:
        return list(_expand(document, "", {}, _DEEPEST))[:MOST_RECORDS]
    text = _ARGUMENTS.sub("", _with_bars(text.lstrip("\ufeff")))
    if found := _of_tables(
        _of_delimited, [line for line in text.splitlines() if not line.startswith("#")], around=around
    ):
        return found  # a prefix of a launcher may be the first cell of a row
    raw = text.splitlines()
    bars = {line.count("|") for line in raw if line.strip()}
    # The first cell of a table is no prefix of a launcher.
    is_table = any("|" in line and _RULE.match(line) for line in raw) or (len(bars) == 1 and min(bars) > 1)
    lines = [line for line in (raw if is_table else without_prefixes(text)) if not line.startswith("#")]
    lines = [one for line in lines for one in _one_statistic_each(line)]
    if found := list(_of_settings(raw)) or list(_of_settings(lines)):
        return found[:MOST_RECORDS]
    if found := list(_of_inline_pairs(lines)):
        return found[:MOST_RECORDS]
    for read in (_of_bars, _of_delimited, _of_columns, _of_ruled):
        if found := _of_tables(read, lines, around=around):
            return found
    return list(_of_pairs(lines))


_STATED: Final = r"[\d.,]*\d\s*[a-zµ/]*"
_IN_BRACKETS: Final = re.compile(
    rf"^(\s*[A-Za-z][\w /-]*?)\s*[:=]\s*({_STATED})\s*\(((?:\s*[A-Za-z][\w.]*\s*[:=]\s*{_STATED},?)+)\)\s*$"
)
"""Value with its statistics in brackets: `TTFT: 98 ms (p50: 94 ms, p99: 220 ms)`."""


def _one_statistic_each(line: str) -> list[str]:
    """Return a line as it is, or one line for each of the statistics that it has."""
    found = _IN_BRACKETS.match(line)
    if found is None:
        return [line]
    others = (re.split(r"\s*[:=]\s*", part.strip(), maxsplit=1) for part in re.split(r",\s", found[3]))
    return [f"{found[1]}: {found[2]}", *(f"{found[1]} {name}: {value}" for name, value in others)]


_Tables = Callable[[Sequence[str], set[int]], Iterator[Record]]
"""Reader of tables, which adds the numbers of the lines that it reads to a set."""


def _of_tables(read: _Tables, lines: Sequence[str], *, around: bool) -> list[Record]:
    """Return the rows of tables and, if wanted, the fields of the lines around them."""
    used: set[int] = set()
    found = list(read(lines, used))[:MOST_RECORDS]
    if found and around:
        rest = ["" if number in used or _RULE.match(line) else line for number, line in enumerate(lines)]
        found += map(FieldsAround, _of_pairs([part for line in rest for part in _told_apart(line)]))
    return found


def _told_apart(line: str) -> list[str]:
    """Return the parts of a line that tells several conditions, `Model: x, 1x H100 SXM, vLLM 0.10.1, ISL=1000 OSL=300`,
    as a line each, those without a name behind the name of what they are."""
    parts = re.split(r"[,;|]\s+", line)
    if len(parts) < 2 or not re.search(r"[:=]", line):
        return [line]
    found = []
    for part in parts:
        inline = re.findall(r"(?<!\S)([A-Za-z_]+)\s*=\s*([\w.]+)", part)
        software = re.fullmatch(r"\s*([A-Za-z][\w. -]*?)\s+v?(\d+\.[\w.]+)\s*", part)
        if inline:
            found += [f"{name}: {value}" for name, value in inline]
        elif ":" not in part and software is not None:
            found += [f"engine: {software[1]}", f"engine version: {software[2]}"]
        elif ":" not in part and accelerator_named(part) is not None:
            found.append(f"gpu: {part.strip()}")
        elif ":" not in part and part.strip().lower() in DTYPES:
            found.append(f"precision: {part.strip()}")
        else:
            found.append(part)
    return found


def _with_bars(text: str) -> str:
    """Return a text whose tables of HTML or LaTeX are divided by bars, and whose records of psql are pairs."""
    if _RECORD_MARK.search(text):
        lines = (re.sub(r"^([^|]*\S) *\| ", r"\1: ", line) for line in text.splitlines())
        return "\n".join("" if _RECORD_MARK.match(line) else line for line in lines)
    if _ROW_OF_HTML.search(text):
        rows = (_CELL_OF_HTML.split(row)[1:] for row in _ROW_OF_HTML.split(text)[1:])
        grid = [[" ".join(_TAG.sub(" ", cell).split()) for cell in row] for row in rows]
    elif _ROW_OF_LATEX.search(text):
        grid = [row[:-2].split("&") for row in text.splitlines() if _ROW_OF_LATEX.match(row)]
    else:
        return text
    return "\n".join("|".join(cell.strip() for cell in row) for row in grid)


def _join_measures(records: list[Record]) -> list[Record]:
    """Return the records, those joined that hold one measure each, its name and its value in fields of their own:
    `metric=ttft, statistic=p99, value=400, unit=ms`."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        parts = {kind: next(filter(form.fullmatch, record), "") for kind, form in _PARTS.items()}
        if not (parts["measure"] and parts["value"]):
            return records
        rest = {name: cell for name, cell in record.items() if name not in parts.values()}
        name = f"{record[parts['measure']]} {record.get(parts['statistic'], '')}".strip()
        unit = record.get(parts["unit"])
        joined = found.setdefault(tuple(map(str, rest.values())), rest)
        joined[f"{name} ({unit})" if unit else name] = record[parts["value"]]
    return list(found.values())


def flat_fields(row: Mapping[str, Any]) -> Record:
    """Return the fields of an object, those of objects within it by their names joined with dots."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = _parse(value) if isinstance(value, str) and value[:1] == "{" else value
        if isinstance(inner, Mapping):
            found |= {f"{name}.{key}": cell for key, cell in flat_fields(inner).items()}
        else:
            found[str(name)] = inner
    return found


def _expand(value: Any, path: str, above: Record, depth: int) -> Iterator[Record]:
    """Yield the records of a JSON value: fields of an object and of those within it, and one for each of a list."""
    if (rows := rows_of_table(value)) is not None:
        value = rows
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _expand(one, path, above, depth)
        return
    fields = dict(above)
    lists: list[tuple[str, list[Any]]] = []
    _flatten(value, path, fields, lists, depth)
    many = [(name, inner) for name, inner in lists if len(inner) > 1]
    for name, inner in lists:
        if len(inner) == 1:
            _flatten(inner[0], name, fields, many, depth)
    if not many:
        yield fields
    for name, inner in many:
        yield from _expand(inner, name, fields, depth - 1)


def rows_of_table(value: Any) -> list[Any] | None:
    """Return the rows of a table in JSON: a list of lists below their header, columns beside their data, or one list
    for each column; None for any other value."""
    titles: Any
    rows: Any
    if isinstance(value, list):
        titles, rows = (value[0], value[1:]) if value else ([], [])
    elif isinstance(value, dict):
        titles = next((value[key] for key in _HEADERS if key in value), None)
        rows = next((value[key] for key in _ROWS if key in value), None)
        if titles is None and len(value) > 1 and all(isinstance(one, list) for one in value.values()):
            titles = list(value)
            rows = [list(row) for row in zip(*value.values(), strict=False)]
            if any(len(one) != len(rows) or any(map(_is_nested, one)) for one in value.values()):
                return None
    else:
        return None
    if not isinstance(titles, list) or not isinstance(rows, list) or not titles:
        return None
    titles = [
        one.get("name") if isinstance(one, dict) else one for one in titles
    ]  # with types, as Kusto lists them
    if not all(isinstance(title, str) for title in titles):
        return None
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    return [dict(zip(titles, row, strict=True)) for row in rows] if widths == {len(titles)} else None


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _flatten(
    value: Mapping[str, Any],
    path: str,
    fields: dict[str, Any],
    lists: list[tuple[str, list[Any]]],
    depth: int,
) -> None:
    listed = _rows_by_key(value)
    if listed is not None and depth:
        lists.append((path, listed))
        return
    rows = _numbered_rows(value) if depth else {}
    lists += [(path, list(rows.values()))] if rows else []
    for key, inner in value.items():
        if key in rows:
            continue
        own = str(key)
        if _PATH.fullmatch(own) and not isinstance(inner, str) and not _RATE.search(own):
            own = own.replace("/", ".")  # names above a name, as trackers of experiments join them
        name = f"{path}.{own}" if path else own
        if isinstance(inner, str) and inner[:1] == "{":
            inner = _parse(inner)
        if isinstance(inner, dict) and inner.keys() >= {"units", "nanos"}:  # google.type.Money
            fields[name] = float(inner["units"] or 0) + float(inner["nanos"] or 0) * _NANO
            fields[f"{name}.currency"] = inner.get("currencyCode", "")
        elif isinstance(inner, dict) and depth:
            _flatten(inner, name, fields, lists, depth - 1)
        elif isinstance(inner, list):
            parsed = [_parse(one) if isinstance(one, str) and one[:1] == "{" else one for one in inner]
            objects = [one for one in parsed if isinstance(one, dict)]
            if objects:
                lists.append((name, objects))
            elif inner and all(isinstance(one, str) for one in inner):
                fields[name] = ", ".join(inner)
        else:
            fields[name] = inner


def _parse(text: str) -> Any:
    """Return the object of a text that is JSON, as AWS nests it; else the text."""
    try:
        return parsed_json(text)
    except (ValueError, RecursionError):
        return text


def _rows_by_key(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the objects of an object that is a list by name, each with its key; None for any other object.

    Keys that are statistics, or objects of statistics alone, are fields of one record: {"ttft": {"mean": 1, "p99": 2}}.
    """
    inner = list(value.values())
    is_numbered = len(_numbered_rows(value)) == len(inner)
    if not inner or not all(isinstance(one, dict) for one in inner):
        return None
    keys = [str(key) for key in value]
    if all(_STATISTIC.match(key) for key in keys if not key.isdigit()) and not all(map(str.isdigit, keys)):
        return None
    shared = set.intersection(*(set(one) for one in inner))
    has_words = any(
        isinstance(cell, dict | list) or (isinstance(cell, str) and not _is_number(cell))
        for one in inner
        for cell in one.values()
    )
    are_statistics = all(_STATISTIC.match(re.split(r"[_\s(]", str(key))[0]) for key in shared)
    if (
        len(inner) > 1
        and (has_words or not (are_statistics or is_numbered))
        and len(shared) >= 0.5 * max(len(one) for one in inner)
        and len(shared) > 1
    ):
        return [{"key": key, **one} for key, one in value.items()]
    return None


def _numbered_rows(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objects whose keys differ by a number alone, with it and the key as fields: {"concurrency_8": {}}."""
    found: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for key, inner in value.items():
        numbered = _NUMBERED.match(str(key))
        if numbered and isinstance(inner, dict) and (str(key).isdigit() or not _STATISTIC.match(str(key))):
            names.add(numbered[1])
            found[key] = {"key": str(key), numbered[1] or "number": int(numbered[2]), **inner}
    return found if len(found) > 1 and len(names) == 1 else {}


def _of_bars(lines: Sequence[str], used: set[int]) -> Iterator[Record]:
    """Yield the rows of tables in Markdown or in boxes, whose header is their first row of several cells."""
    table: list[list[str]] = []
    places: list[int] = []
    for number, line in enumerate([*lines, ""]):
        if len(_BARS.findall(line)) >= 1 and not _RULE.match(line):
            is_framed = re.match(r"\s*\|\|", line) and re.search(r"\|\|\s*$", line)
            inner = line.strip()[1:-1] if is_framed else line
            if re.match(
                r"\s*[|│┃║]", inner
            ):  # without a bar in front, one at the end stands before an empty cell
                inner = re.sub(r"^\s*[|│┃║]|[|│┃║]\s*$", "", inner)
            cells = [re.sub(r"[*`]", "", cell).strip() for cell in _BARS.split(inner)]
            places.append(number)
            if table or len(cells) > 1:
                table.append(cells)
        elif not _RULE.match(line) or not line.strip():
            used |= {*places} if len(table) > 1 else set()
            yield from _of_grid(table)
            table = []
            places = []


def _of_delimited(lines: Sequence[str], used: set[int]) -> Iterator[Record]:
    """Yield the rows of the tables divided by commas, semicolons or tabs, behind lines of other kinds."""
    place = 0
    while place < len(lines):
        line = lines[place]
        divider = next((one for one in ",;\t" if line.count(one) and _is_header(line.split(one))), "")
        rows = _rows_between(lines[place:], divider) if divider else []
        if len(rows) > 1:
            used.update(range(place, place + len(rows)))
            yield from _of_grid(rows)
        place += max(1, len(rows))
        if place > _MOST_BEFORE_A_HEADER and len(rows) < 2:
            return


def _rows_between(lines: Sequence[str], divider: str) -> list[list[str]]:
    """Return the header and the rows below it with as many cells; the first line of another width ends the table."""
    rows: list[list[str]] = []
    try:
        for cells in csv.reader(io.StringIO("\n".join(lines)), delimiter=divider, skipinitialspace=True):
            if rows and len(cells) != len(rows[0]):
                break
            rows.append([cell.strip() for cell in cells])
    except csv.Error:
        return []
    return rows


def _is_header(cells: Sequence[str]) -> bool:
    """Whether cells are names: most begin with a letter and none is a number alone."""
    bare = [cell.strip().strip('"') for cell in cells]
    named = [
        cell
        for cell in bare
        if re.match(r"[^\W\d_]|[pP]?\d+(?:th|%)", cell) and not re.search(r"[.:]\s", cell)
    ]
    return len(named) >= 2 and len(named) >= 0.7 * len(bare) and not any(_is_number(cell) for cell in bare)


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[-+$€£]?[\d.,]+(?:e[+-]?\d+)?%?", cell))


def _of_columns(lines: Sequence[str], used: set[int]) -> Iterator[Record]:
    """Yield the rows of a table aligned by two or more blanks, each with as many cells as its header."""
    table: list[list[str]] = []
    for number, line in enumerate([*lines, ""]):
        cells = [cell.strip() for cell in _GAP.split(line.strip()) if cell.strip()]
        if table and len(cells) == len(table[0]) + 1 and cells[0] == str(len(table) - 1):
            cells = cells[1:]  # the number of a row, as pandas prints it without a title
        if _RULE.match(line or " ") and line.strip():
            continue
        if (
            table
            and len(cells) == len(table[0])
            and any(_is_number(re.sub(r"[^\d.]*$", "", cell)) for cell in cells)
        ):
            table.append(cells)
            used.add(number)
            continue
        if len(table) > 1:
            yield from _of_grid(table)
        if table and len(table) == 1 and line.strip() and len(cells) != len(table[0]):
            words = line.split()
            names = " ".join(table[0]).split()
            if len(words) == len(names):
                table = [names, words]
                continue
        if line[:1].isspace() and len(cells) > 1 and all(map(_is_statistic, cells)):
            cells = ["", *cells]  # rows below are named, their names are not
        table = [cells] if len(cells) > 2 and _is_header(list(filter(None, cells))) else []
        used |= {number} if table else set()


def _of_grid(table: Sequence[Sequence[str]]) -> Iterator[Record]:
    """Yield the records of rows below their header. A table whose header holds statistics, or whose first column
    names what is measured, is one record: its fields are row and column."""
    if len(table) < 2:
        return
    names, *rows = table
    rows = [row for row in rows if len(row) == len(names)]
    statistics = [place for place, name in enumerate(names) if place and _is_statistic(name)]
    others = [place for place in range(1, len(names)) if place not in statistics]
    loads = [_LOAD.fullmatch(name) for name in names[1:]]
    if len(names) > 2 and all(loads) and not _is_all_numbers(rows):
        for place, load in enumerate(loads, 1):
            label = (load[1] or load[4] or names[0]) if load else ""
            number = (load[2] or load[3]) if load else ""
            yield {label: number, **{row[0]: row[place] for row in rows if row[place]}}
        return
    is_of_runs = bool(names[0]) and bool(_MEASURE.fullmatch(names[0])) and not statistics and len(others) > 1
    if is_of_runs and not any(_UNIT.fullmatch(name) or _VALUE.fullmatch(name) for name in names):
        for place in others:
            yield {"run": names[place], **{row[0]: row[place] for row in rows if row[place]}}
        return
    by_row = bool(_MEASURE.fullmatch(names[0])) or (not others and not _is_all_numbers(rows))
    if not by_row or not (statistics or len(names) == 2):
        yield from (dict(zip(names, row, strict=True)) for row in rows)
        return
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    label = ""
    for row in rows:
        label = row[0] or label
        conditions = {names[place]: row[place] for place in others if not _UNIT.fullmatch(names[place])}
        unit = next((f" ({row[place]})" for place in range(len(names)) if _UNIT.fullmatch(names[place])), "")
        record = found.setdefault(tuple(conditions.values()) if statistics else (), dict(conditions))
        for place in statistics or others:
            if row[place] and not _UNIT.fullmatch(names[place]):
                statistic = "" if _VALUE.fullmatch(names[place]) or not statistics else f" {names[place]}"
                record[f"{label}{statistic}{unit}"] = row[place]
    yield from found.values()


def _is_statistic(name: str) -> bool:
    return bool(_STATISTIC.match(re.sub(r"\s*\(.*", "", name)))


def _is_all_numbers(rows: Sequence[Sequence[str]]) -> bool:
    return all(_is_number(row[0]) for row in rows if row)


def _of_settings(lines: Sequence[str]) -> Iterator[Record]:
    """Yield a record of each line of `name=value`, as structured logs write their events, with the time before it."""
    found = [(line, pairs) for line in lines if len(pairs := _SETTING.findall(line)) >= 3]
    if len(found) < 0.5 * sum(bool(line.strip()) for line in lines):
        return
    for line, pairs in found:
        time = TIME_AHEAD.match(line)
        record = {"time": time[1].replace(",", ".")} if time else {}
        yield record | {name: quoted or bare for name, quoted, bare in pairs}


def _of_inline_pairs(lines: Sequence[str]) -> Iterator[Record]:
    """Yield a record of each line of `name: value` divided by bars, semicolons or commas."""
    for line in lines:
        parts = re.split(r"\s*[|;]\s*|,\s+", line.strip(" |")) if len(line) <= _LONGEST_PAIR else []
        pairs = [pair for part in parts if (pair := re.fullmatch(r"([^\W\d_][^:=|]*)\s*[:=]\s*(\S.*)", part))]
        if len(pairs) >= 3 and len(pairs) == len(parts):
            yield {pair[1].strip(): pair[2] for pair in pairs}


def _of_ruled(lines: Sequence[str], used: set[int]) -> Iterator[Record]:
    """Yield the rows of tables whose columns lie under the runs of a rule, however few blanks divide them."""
    table: list[list[str]] = []
    starts: list[int] = []
    last = ""
    for number, line in enumerate([*lines, ""]):
        if _RUNS.match(line):
            starts = [run.start() for run in re.finditer(r"[-=]+", line)]
            table = table or ([_cut(last, starts)] if last.strip() else [])
            used |= {number - 1, number}
        elif starts and line.strip():
            used.add(number)
            table.append(_cut(line, starts))
        elif table:
            yield from _of_grid(table)
            table = []
            starts = []
        last = line


def _cut(line: str, starts: Sequence[int]) -> list[str]:
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _of_pairs(lines: Sequence[str]) -> Iterator[Record]:
    """Yield a record of lines `name: value`, below the heading above them, or below all those that YAML's indents
    show; a name that comes again begins another."""
    record: dict[str, Any] = {}
    heading = ""
    above: list[tuple[int, str]] = []
    seen: set[str] = set()
    for line in (re.sub(r"\*\*|`", "", line) for line in lines):
        pair = _PAIR.match(line) if len(line) <= _LONGEST_PAIR else None
        indent = len(line) - len(line.lstrip())
        above = [(place, name) for place, name in above if place < indent] if line.strip() else above
        if pair is not None:
            name = pair[1].strip(" -*>")
            full = f"{heading}.{name}" if heading and _STATISTIC.match(name.split("(")[0].strip()) else name
            full = ".".join([*(title for _, title in above), name]) if above else full
            if qualified := _QUALIFIED.search(pair[2]):
                full = f"{full} {qualified[1]}"
            if full in seen:
                yield record
                record = {}
                seen.clear()
            seen.add(full)
            parts = [_OF_STATISTIC.fullmatch(part.strip()) for part in re.split(r"[,;|]\s", pair[2])]
            if all(part and _STATISTIC.match(part[1]) for part in parts):
                record |= {f"{full}.{part[1]}": part[2] for part in parts if part}
            else:
                record[full] = pair[2].strip("\"'")
        elif bare := line.strip(" -=*#─━:[]"):
            heading = bare if len(bare) < _LONGEST_HEADING else ""
            if line.rstrip().endswith(":") and heading and len(above) < _DEEPEST:
                above.append((indent, heading))
    if record:
        yield record
