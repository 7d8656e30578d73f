"""One offer as a seller's document states it, before anybody has checked it."""

import csv
import datetime
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.catalog.schema.price import PriceKind, Tenancy, Term

MOST_QUOTES: Final = 200_000
"""Of one list: the largest has a few thousand."""
_MOST_JSON_PARTS: Final = 2_000_000
"""Brackets and commas of a document: each may cost a hundred bytes once it is read; a page has some 20 000."""
_LONGEST_NAME: Final = 500


class FeedError(Exception):
    """A document that is not what its seller documents: nothing of it may be used."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What a document says, in its own words and units where the fields allow."""

    provider: str
    sku: str
    region: str
    term: Term
    usd_per_hour: float
    """Of the whole SKU; NaN where the document has no number there."""
    url: str
    observed_on: datetime.date
    valid_from: datetime.date | None = None
    """Since when the seller asks this price, where the document says so."""
    gpu: str = ""
    """The accelerator as the document calls it."""
    num_accelerators: float | None = None
    memory_bytes: float | None = None
    """Of one accelerator, where the document says so."""
    vcpus: int | None = None
    ram_bytes: float | None = None
    currency: str = "USD"
    tenancy: Tenancy = "dedicated"
    price_kind: PriceKind = "list"

    @property
    def is_legible(self) -> bool:
        """Whether its names are what a table and a terminal can show: short, and no control characters."""
        names = (self.sku, self.region, self.url, self.gpu, self.currency)
        return all(name.isprintable() and len(name) <= _LONGEST_NAME for name in names)


def read_document(text: str) -> Any:
    """The content of a document that is JSON.

    Raises: FeedError: it is none, nests too deep, or holds more than a page of prices can.
    """
    if sum(map(text.count, "[{,")) > _MOST_JSON_PARTS:
        raise FeedError(f"more than {_MOST_JSON_PARTS} entries")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FeedError(f"not JSON: {error}") from None
    except (RecursionError, ValueError) as error:  # nested without end, an integer of thousands of digits
        raise FeedError(f"not JSON that can be read: {error}") from None


def number(value: object) -> float:
    """A number of a document; NaN where there is none, which a check then refuses."""
    if isinstance(value, bool) or value is None:
        return math.nan
    try:
        return float(str(value).strip())
    except (ValueError, RecursionError):
        return math.nan


def whole(value: object) -> int | None:
    """A count of a document; None where there is none."""
    found = number(value)
    return int(found) if math.isfinite(found) and found == int(found) else None


def required(record: Mapping[str, Any], *names: str) -> None:
    """Refuse a document whose records lack a documented field.

    Raises: FeedError: a field is missing.
    """
    missing = [name for name in names if name not in record]
    if missing:
        raise FeedError(f"a record has no field {', '.join(missing)}")


def read_rows(text: str, *names: str) -> Iterator[dict[str, str]]:
    """The rows of a document that is CSV with these columns.

    Raises: FeedError: it is none, a column is missing, or a row is not as long as the header.
    """
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        required(dict.fromkeys(rows.fieldnames or ()), *names)
        for row in rows:
            if None in row.values() or None in row:
                raise FeedError(f"row {rows.line_num} has another number of cells than the header")
            yield row
    except csv.Error as error:
        raise FeedError(f"not CSV: {error}") from None


def day(value: object) -> datetime.date | None:
    """The day of a time as a document writes it; None where it is none."""
    try:
        return datetime.datetime.fromisoformat(str(value)).date()
    except ValueError:
        return None
