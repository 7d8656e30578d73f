"""Records as a pandas table, which a CSV or Parquet file holds."""

import importlib.util
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from advisor.catalog.errors import MissingHardwareError, install_command
from advisor.catalog.legible import as_cell
from advisor.render.document import flatten, to_json

if TYPE_CHECKING:
    import pandas


def frame_of(records: Iterable[object]) -> "pandas.DataFrame":
    """Return one flat row per record, with SI units in the column names; each field of any record has a column."""
    import pandas

    rows = [flatten(to_json(record)) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return pandas.DataFrame({name: _objects(row.get(name) for row in rows) for name in names})


def csv_text(records: Iterable[object]) -> str:
    """Return records as CSV; booleans are written `true` and `false`, and a spreadsheet takes no text as a formula."""
    frame = frame_of(records)
    for name in frame:
        frame[name] = _objects(map(_cell, frame[name]))
    return frame.rename(columns=as_cell).to_csv(index=False, lineterminator="\n")


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return as_cell(value) if isinstance(value, str) else value


def _objects(values: Iterable[object]) -> "pandas.Series[Any]":
    """Return a column of objects, so that whole numbers stay whole in a column with gaps."""
    import pandas

    return pandas.Series(list(values), dtype=object)


def parquet_bytes(records: Iterable[object]) -> bytes:
    """Return records as Parquet; a column holds one type: numbers, or else text.

    Raises: MissingHardwareError: pyarrow is not installed.
    """
    check_parquet()
    frame = frame_of(records)
    for name in frame:
        kinds = {type(value) for value in frame[name] if value is not None}
        if len(kinds) > 1:
            one = float if kinds <= {int, float} else str
            frame[name] = _objects(None if value is None else one(value) for value in frame[name])
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def check_parquet() -> None:
    """Refuse, before the work starts, if no package can write Parquet.

    Raises: MissingHardwareError: pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingHardwareError(
            "Parquet needs pyarrow",
            why="it is not installed",
            fix=f"{install_command('sweep', 'pyarrow')}, or write .csv",
        )
