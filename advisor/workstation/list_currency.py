"""Currency of a list of parts, as its shops, its signs and its language tell it, and its amounts in one form."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.workstation.foreign_words import regex, word_table, write_in_one_form
from advisor.workstation.mentions import mentions_in

_DOLLARS: Final = frozenset(("CAD", "AUD", "NZD", "SGD", "HKD", "MXN", "TWD"))
"""Currencies whose amounts bear the sign of the dollar."""
_PLACE: Final = "\ue000"
"""Character that stands in the place of an amount while the words around it are read."""


@dataclass(frozen=True, slots=True)
class Money:
    """Currency of a list whose amounts are written as those in US dollars while it is read."""

    code: str | None = None
    """Code of the currency; empty if the list does not tell it, None for US dollars."""
    unit: int = 1
    """Power of ten of the currency that is about as much as a dollar or a few, in which its amounts are written, so
    that limits in dollars hold for them too."""

    def words(self, amount: float) -> str:
        """Return an amount of the reader's unit as the list would write it."""
        number = f"{amount * self.unit:,.2f}"
        is_small = self.unit >= _LEAST_WITHOUT_CENTS
        return f"{number.removesuffix('.00') if is_small else number} {self.code}".rstrip()

    def write_back(self, text: str) -> str:
        """Return a message on a list with its amounts in its own currency."""
        if self.code is None:
            return text
        return regex("line.written_amount").sub(
            lambda found: self.words(float(found[1].replace(",", ""))).replace(".00", ""), text
        )


US_DOLLARS: Final = Money()
_LEAST_WITHOUT_CENTS: Final = 100
"""Unit from which lists write no hundredths of a currency: yen, roubles, rupees."""


def write_amounts(text: str) -> tuple[str, Money, tuple[str, ...]]:
    """Return a list with all its amounts written as `$420.00`, the currency in which they are, and notes on those in
    other currencies, which are left out.

    Source: words.toml of the catalog.
    """
    currency = currency_of(text)
    text = write_currency(text, currency)
    codes = Counter(code_of(found.group()) for found in regex("line.foreign_price").finditer(text))
    has_dollars = (
        re.search(r"\$\s?\d|\d\s?(?:\$|USD\b)", regex("line.foreign_price").sub(" ", text)) is not None
    )
    if not codes:
        return text, US_DOLLARS, ()
    named = Counter({code: num for code, num in codes.items() if code})
    code = None if has_dollars else next(iter(named.most_common(1)), (currency, 0))[0]
    code = _yen_or_yuan(text) if code == _YEN_SIGN else code
    money = Money(
        code, int(next((ten for ten, own in word_table("currency_units").items() if code in own), "1"))
    )
    if regex("line.plain_thousands").search(text) is not None:
        text = regex("line.blank_thousands").sub("  ", text)
    rows = text.split("\n")
    left_out: list[str] = []
    for place, row in enumerate(rows):
        found = [one.group() for one in regex("line.foreign_price").finditer(row)]
        if not found:
            continue
        count = _count_ahead(found)
        row = regex("line.foreign_price").sub(_PLACE, row)
        if count:  # the number of pieces of a row of an invoice, which stands ahead of its two prices
            row = row.replace(_PLACE, f"{count} {_PLACE}", 1)
            found[0] = found[0].strip().removeprefix(count).strip()
        # An amount of another currency beside one that counts says the same again.
        others = [one for one in found if code is None or code_of(one) not in ("", _YEN_SIGN, code)]
        if others and "$" not in row and len(others) == len(found):
            left_out.append(f"row {place + 1} {others[0].strip()!r}")
        row = write_in_one_form(row, "amounts")
        for one in found:
            ahead, _, behind = row.partition(_PLACE)
            written = "" if one in others else f"${_number_in(one) / money.unit:.2f}"
            space = " " if ahead[-1:].isalnum() else ""
            row = f"{ahead}{space}{written}{' ' if behind[:1].isalnum() else ''}{behind}"
        rows[place] = row.rstrip()
    of_what = "US dollars" if code is None else code
    amounts = ", ".join(left_out)
    note = f"prices are in {of_what}, those in other currencies are left out: {amounts}; convert them to count them"
    return "\n".join(rows), money, (note,) if left_out else ()


_YEN_SIGN: Final = "¥"
"""Sign of the yen and the yuan."""


def _yen_or_yuan(text: str) -> str:
    """Return the currency that the sign of the yen means by the script of a list; the sign if that tells none."""
    return (
        "JPY"
        if re.search(r"[\u3040-\u30ff]", text)
        else "CNY"
        if re.search(r"[\u4e00-\u9fff]", text)
        else _YEN_SIGN
    )


def _count_ahead(amounts: Sequence[str]) -> str:
    """Return the number of pieces that looks like the thousands of the first of two prices (`1 539,00 € 539,00 €`);
    empty if the prices are not those of one and of all pieces without it."""
    found = re.match(r"\s*(\d{1,2})\s+(?=\d{3}(?!\d))", amounts[0])
    if found is None or len(amounts) != 2:
        return ""
    one = _number_in(amounts[0][found.end() :])
    whole = _number_in(amounts[1])
    return found[1] if abs(int(found[1]) * one - whole) < 0.01 * whole else ""


def _number_in(amount: str) -> float:
    """Return the number of an amount, as shops of any country write it (`1 199€95`, `1.449,00 €`, `3万元`)."""
    found = re.search(r"\d[\d .,'’\u202f\u00a0]*(?:€\d\d(?!\d))?", amount)
    digits = (
        re.sub(r"[^\d.,]", "", found.group().replace("€", ",")).rstrip(".,") if found is not None else "0"
    )
    cents = re.search(r"[.,](\d\d?)$", digits)
    whole = re.sub(r"\D", "", digits[: cents.start()] if cents is not None else digits)
    number = float(f"{whole or 0}.{cents[1] if cents is not None else 0}")
    return number * (10_000 if "万" in amount else 1_000 if re.search(r"\dk\b|\dk(?=\s*\W)", amount) else 1)


def currency_of(text: str) -> str:
    """Return the currency of the amounts of a list that name none, if it is not the US dollar: that of its shops, its
    taxes, its other amounts or the words of its language; empty for US dollars, and where the list tells several.

    Source: words.toml of the catalog.
    """
    if regex("line.us_dollars").search(text):
        return ""
    by_marks = {code for code, marks in _marks("currencies") if marks.search(text)}
    by_signs = {code_of(amount.group()) for amount in regex("line.foreign_price").finditer(text)}
    found = by_marks | (by_signs - {""}) or (set() if "$" in text else _by_language(text))
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
    is_sum = regex("row.sum_words").match(found["row"]) or regex("row.of_a_sale").match(found["row"])
    if is_sum:
        return f"{found['row']}{found['sign']}${found['number']}"
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
    sign = re.sub(r"[\d\s.,'’-]|k\b|万", "", amount.lower())
    names = word_table("currency_signs")
    found = (code for code, signs in names.items() if sign in signs or sign.strip("$") in signs)
    return next(found, sign.strip("$").upper())


@functools.cache
def _marks(table: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the currencies of a table of words.toml, with the pattern of what tells each."""
    return tuple(
        (code, re.compile(rf"(?<!\w)(?:{'|'.join(marks)})(?!\w)", re.IGNORECASE))
        for code, marks in word_table(table).items()
    )
