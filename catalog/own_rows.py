"""Rows of a person's own price file: what is wrong with one that its record does not tell."""

import datetime
from collections.abc import Hashable

from advisor.catalog.errors import InputFileError


def check_currency(values: dict[str, object], where: str) -> None:
    """Take a column `currency` out of a row, and refuse another one than dollars.

    Raises: InputFileError: it says another currency.
    """
    currency = str(values.pop("currency", "USD") or "USD").strip().upper()
    if currency != "USD":
        raise InputFileError(
            f"{where}: field currency: {currency!r}", why="prices are in USD", fix="convert the price to USD"
        )


def check_day(observed_on: datetime.date, latest: datetime.date, where: str) -> None:
    """Refuse a price that was read after the latest day that it can have.

    Raises: InputFileError: it was.
    """
    if observed_on > latest:
        raise InputFileError(
            f"{where}: field observed_on: {observed_on}",
            why="that day is in the future",
            fix="write the day on which the price was read",
        )


def check_repeat(seen: dict[Hashable, int], key: Hashable, number: int, place: str, *, fix: str) -> None:
    """Note the row of a price, and refuse the same one twice.

    Raises: InputFileError: an earlier row has it.
    """
    if key in seen:
        raise InputFileError(
            f"{place}: row {number} repeats row {seen[key]}",
            why="both are the price of the same thing on the same day",
            fix=fix,
        )
    seen[key] = number
