"""Prices in lines of prose that name an accelerator and an amount of dollars."""

import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.formats.accelerator_names import accelerator_named
from advisor.catalog.formats.catalogue_price import CataloguePrice, dollars_of
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.rental_terms import (
    MACHINE,
    ONE_ACCELERATOR,
    UNIT_WORDS,
    conditions_of,
    period_hours,
    term_in,
    term_of,
)
from advisor.catalog.schema.price import Term

_IN_LINE: Final = re.compile(
    r"(?:\bUS|(?<![A-Za-z]))\$\s*([\d,]*\.?\d+)"
    rf"((?:[\s/-]*\b(?:{'|'.join(sorted(UNIT_WORDS, key=len, reverse=True))})\b)*)",
    re.IGNORECASE,
)
_BEFORE_PRICE: Final = re.compile(
    r"(?:[\s:–—=@-]|\b(?:at|for|from|only|is|are|costs?|starting)\b)+$", re.IGNORECASE
)
"""Words between an accelerator and its price."""
_LONGEST_LINE: Final = 1000
"""Characters of a line with a price that are read."""
_LINE_DIVIDERS: Final = re.compile(r"[;|]|,(?!\d{3})|\s{2,}|\t|\s/\s")


def priced_lines(text: str) -> Iterator[CataloguePrice]:
    """Yield the prices of lines that name an accelerator and an amount of dollars, as pages of prices are pasted."""
    above: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:_LONGEST_LINE]
        amounts = list(_IN_LINE.finditer(line))
        if not amounts:
            above = accelerator_named(line) or above
            continue
        before = _BEFORE_PRICE.sub("", line[: amounts[0].start()])
        whole = MACHINE.search(before)
        before = MACHINE.sub("", before).rstrip(" ,:-–—")
        counted = re.search(r"(?<!\S)\d{1,3}\s*[x×]\s*\S.*", before)  # behind the name of an instance
        parts = (
            before,
            conditions_of(before).rest,
            re.split(r"\s[-–—]\s|[:|(,]", before)[0],
            counted[0] if counted else "",
            line[amounts[-1].end() :],
        )
        named = next(filter(None, map(accelerator_named, parts)), above)
        above = None
        if named is None:
            continue
        if whole and named[0] == 1:
            named = (int(whole[1]), named[1])
        found: dict[Term, CataloguePrice] = {}
        periods = [period_hours(re.findall(r"[a-z]+", one[2].lower())) or 1.0 for one in amounts]
        for amount, period in zip(amounts, periods, strict=True):
            if period != 1.0 and 1.0 in periods:
                continue
            part = _part_around(amount.start(), line) if len(amounts) > 1 else line
            stated = conditions_of(part)
            words = plain_words(part)
            term = term_of(words) or term_in(period, "on_demand")
            usd = dollars_of(amount[1]) / period
            is_each = (
                bool(set(re.findall(r"[a-z]+", amount[2].lower())) & ONE_ACCELERATOR) or "per gpu" in words
            )
            row = CataloguePrice(
                number,
                "",
                "",
                "",
                term,
                repr(usd),
                str(named[0]),
                named[1],
                None,
                "",
                is_each,
                period,
                stated.smallest_order,
                stated.is_lower_bound,
            )
            found.setdefault(term, row)
        yield from found.values()


def _part_around(place: int, line: str) -> str:
    """Return the part of a line between the dividers around a place."""
    bounds = [(one.start(), one.end()) for one in _LINE_DIVIDERS.finditer(line)]
    start = max((end for _, end in bounds if end <= place), default=0)
    return line[start : min((begun for begun, _ in bounds if begun > place), default=len(line))]
