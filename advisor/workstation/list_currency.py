"""Currency of a list of parts, as its shops, its signs and its language tell it."""

import functools
import re
from typing import Final

from advisor.workstation.foreign_words import regex, word_table
from advisor.workstation.mentions import mentions_in

_DOLLARS: Final = frozenset(("CAD", "AUD", "NZD", "SGD", "HKD", "MXN", "TWD"))
"""Currencies whose amounts bear the sign of the dollar."""


def currency_of(text: str) -> str:
    """Return the currency of the amounts of a list that name none, if it is not the US dollar: that of its shops, its
    taxes, its other amounts or the words of its language; empty for US dollars, and where the list tells several.

    Source: words.toml of the catalog.
    """
    if regex("line.us_dollars").search(text):
        return ""
    by_marks = {code for code, marks in _marks("currencies") if marks.search(text)}
    by_signs = {code_of(amount.group()) for amount in regex("line.foreign_price").finditer(text)}
    found = by_marks | by_signs or (set() if "$" in text else _by_language(text))
    return next(iter(found)) if len(found) == 1 and found != {_SEVERAL} else ""


def write_currency(text: str, currency: str) -> str:
    """Return a list with the currency behind each of its amounts that names none; `currency` is empty for US dollars,
    which amounts behind a dash are then taken to be."""
    if not currency:
        is_priced = "$" in text or sum("-" in one["sign"] for one in _bare(text)) < _LEAST_AMOUNTS
        return text if is_priced else regex("line.bare_last").sub(_with_dollars, text)
    if currency in _DOLLARS:
        text = regex("line.plain_dollars").sub(
            lambda amount: f"{amount.group().removesuffix('$').rstrip()} {currency}", text
        )
    are_amounts = len(_bare(text)) >= _LEAST_AMOUNTS

    def add_currency(found: re.Match[str]) -> str:
        # One number behind a space alone may be that of a model; a row whose amount bears a sign has its price.
        is_told = bool(found["sign"].strip()) or are_amounts
        has_price = regex("line.foreign_price").search(found.group()) is not None
        return _with_currency(found, currency) if is_told and not has_price else found.group()

    return regex("line.bare_last").sub(add_currency, text)


def assumption(text: str) -> str:
    """Return a note on the currency that is assumed for the prices of a list that does not say which it is; empty if
    there is no doubt."""
    currency = currency_of(text)
    if currency and not _tells_currency(text):
        return (
            f"prices are taken as {currency} by the language of the list: write the currency if it is another"
        )
    if currency or regex("line.us_dollars").search(text):
        return ""
    if "$" not in text and "＄" not in text:
        return "prices that name no currency are taken as US dollars: write the currency if it is another"
    if _by_language(text) or _tells_currency(text):
        return "amounts with $ are taken as US dollars, though the list may be of another country: write the currency"
    return ""


def _bare(text: str) -> list[re.Match[str]]:
    return list(regex("line.bare_last").finditer(text))


def _with_dollars(found: re.Match[str]) -> str:
    return _with_currency(found, "USD") if "-" in found["sign"] else found.group()


_LEAST_AMOUNTS: Final = 2
"""Number of rows that end in a bare number from which those are prices. Own choice: one can be a name."""
_SEVERAL: Final = "several"
"""Key of the words of languages that are spoken in countries with several currencies."""


def _tells_currency(text: str) -> bool:
    """Whether a list tells its currency by a shop, a tax or an amount, and not by its language alone."""
    is_marked = any(marks.search(text) for _, marks in _marks("currencies"))
    return is_marked or regex("line.foreign_price").search(text) is not None


def _by_language(text: str) -> set[str]:
    """Return the currencies of the countries whose language has words of a list."""
    return {code for code, marks in _marks("currency_words") if len(set(_words(marks, text))) >= _LEAST_WORDS}


_LEAST_WORDS: Final = 2
"""Number of different words of a language from which a list is in it. Own choice: one can be a name."""


def _words(marks: re.Pattern[str], text: str) -> list[str]:
    return [found.group().lower() for found in marks.finditer(text)]


def _with_currency(found: re.Match[str], currency: str) -> str:
    """Return a row with the currency behind the number that ends it, if that is no part of a name."""
    row = found["row"]
    number = found["number"]
    behind_sign = found["sign"].strip()
    mentions = mentions_in(f"{row} {number}")
    if any(one.end > len(row) for one in mentions) or not (mentions or behind_sign):
        return found.group()
    return f"{row}{found['sign'] if behind_sign else ' = '}{number} {currency}"


def code_of(amount: str) -> str:
    """Return the currency of an amount by its sign or its name."""
    sign = re.sub(r"[\d\s.,'’-]", "", amount).lower()
    names = word_table("currency_signs")
    return next((code for code, signs in names.items() if sign in signs), sign.upper())


@functools.cache
def _marks(table: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the currencies of a table of words.toml, with the pattern of what tells each."""
    return tuple(
        (code, re.compile(rf"(?<!\w)(?:{'|'.join(marks)})(?!\w)", re.IGNORECASE))
        for code, marks in word_table(table).items()
    )
