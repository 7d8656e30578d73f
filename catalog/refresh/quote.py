"""Offer as a provider's document states it, before any check."""

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
"""Maximum number of quotes of one list; the largest has a few thousand."""
_MOST_JSON_PARTS: Final = 2_000_000
"""Maximum number of brackets and commas of a document: each may cost a hundred bytes once it is read; a page has about
20 000."""
_LONGEST_NAME: Final = 500


class FeedError(Exception):
    """Document that does not follow its provider's documentation; none of it may be used."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Content of a document, in its own words and units if the fields allow."""

    provider: str
    sku: str
    region: str
    term: Term
    usd_per_hour: float
    """Price of the whole SKU [USD/h]; NaN if the document has no number there."""
    url: str
    observed_on: datetime.date
    valid_from: datetime.date | None = None
    """First day of this price; None if the document does not state it."""
    gpu: str = ""
    """Name of the accelerator in the document."""
    num_accelerators: float | None = None
    memory_bytes: float | None = None
    """Memory of one accelerator [bytes]; None if the document does not state it."""
    vcpus: int | None = None
    ram_bytes: float | None = None
    currency: str = "USD"
    tenancy: Tenancy = "dedicated"
    price_kind: PriceKind = "list"

    @property
    def is_legible(self) -> bool:
        """Whether its names can be shown in a table and a terminal: short, and without control characters."""
        names = (self.sku, self.region, self.url, self.gpu, self.currency)
        return all(name.isprintable() and len(name) <= _LONGEST_NAME for name in names)


def read_document(text: str) -> Any:
    """Return the content of a document that is JSON.

    Raises: FeedError: the text is not JSON, nests too deeply, or holds more than a page of prices can.
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
    """Return a number of a document; NaN if there is none, which a check then refuses."""
    if isinstance(value, bool) or value is None:
        return math.nan
    try:
        return float(str(value).strip())
    except (ValueError, RecursionError):
        return math.nan


def whole(value: object) -> int | None:
    """Return a count of a document; None if there is none."""
    found = number(value)
    return int(found) if math.isfinite(found) and found == int(found) else None


def require_fields(record: Mapping[str, Any], *names: str) -> None:
    """Refuse a document whose records lack a documented field.

    Raises: FeedError: a field is missing.
    """
    missing = [name for name in names if name not in record]
    if missing:
        raise FeedError(f"a record has no field {', '.join(missing)}")


def read_rows(text: str, *names: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a document that is CSV with these columns.

    Raises: FeedError: the text is not CSV, a column is missing, or a row is not as long as the header.
    """
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        require_fields(dict.fromkeys(rows.fieldnames or ()), *names)
        for row in rows:
            if None in row.values() or None in row:
                raise FeedError(f"row {rows.line_num} has another number of cells than the header")
            yield row
    except csv.Error as error:
        raise FeedError(f"not CSV: {error}") from None


def day(value: object) -> datetime.date | None:
    """Return the day of a time as a document writes it; None if it is not a time."""
    try:
        return datetime.datetime.fromisoformat(str(value)).date()
    except ValueError:
        return None
