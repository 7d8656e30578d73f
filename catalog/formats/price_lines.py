"""Prices in lines of prose that name an accelerator and an amount of dollars."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.formats.accelerator_names import accelerator_named, boards_in
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
    with_minutes,
)
from advisor.catalog.schema.price import Term

_IN_LINE: Final = re.compile(
    r"(?:\bUS|(?<![A-Za-z]))\$\s*([\d,]*\.?\d+)"
    rf"((?:[\s/-]*\b(?:{'|'.join(sorted(UNIT_WORDS, key=len, reverse=True))})\b)*)",
    re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"(?<![\w.,$])(\d[\d.,]*\d|\d)\s?(?:USD|US dollars?)\b|\bUSD\s?(?=\d)", re.IGNORECASE
)
"""Amount with the code of dollars behind or in front of it."""
_MARKS: Final = re.compile(r"^\s*[-*•]\s+|\*\*|`")
"""Bullets and emphasis of Markdown."""
_BEFORE_PRICE: Final = re.compile(
    r"(?:[\s:–—=@-]|\b(?:at|for|from|only|is|are|costs?|starting)\b)+$", re.IGNORECASE
)
"""Words between an accelerator and its price."""
_LONGEST_LINE: Final = 1000
"""Characters of a line with a price that are read."""
_CLAUSES: Final = re.compile(
    r"[.;!?](?=\s|$)|,?\s(?:and|while|but|whereas|versus|vs\.?|or)\s|,\s(?!\d)", re.IGNORECASE
)
_LINE_DIVIDERS: Final = re.compile(r"[;|]|,(?!\d{3})|\s{2,}|\t|\s/\s")


def priced_lines(text: str) -> Iterator[CataloguePrice]:
    """Yield the prices of lines and parts of sentences that name an accelerator and an amount of dollars."""
    above: tuple[int, str] | None = None
    for number, line in enumerate(with_minutes(text).splitlines(), 1):
        line = _CODE.sub(lambda found: f"${found[1] or ''}", _MARKS.sub("", line[:_LONGEST_LINE]))
        amounts = list(_IN_LINE.finditer(line))
        if not amounts:
            above = accelerator_named(line) or above
            continue
        named = _named_before(line[: amounts[0].start()], line[amounts[-1].end() :])
        prices = list(_of_sentences(line, number))
        if len({one.gpu for one in prices}) > 1 or named is above is None:
            yield from prices
        elif (board := named or above) is not None:
            yield from _of_part(line, number, amounts, board)
        above = None


def _named_before(before: str, behind: str) -> tuple[int, str] | None:
    """Return the accelerator of a line by the text before its first price and behind its last, with its number."""
    before = re.sub("|".join(_sellers()), "", _BEFORE_PRICE.sub("", before)).strip(" :,-–—")
    whole = MACHINE.search(before)
    before = MACHINE.sub("", before).rstrip(" ,:-–—")
    counted = re.search(r"(?<!\S)\d{1,3}\s*[x×]\s*\S.*", before)  # behind the name of an instance
    parts = (
        before,
        conditions_of(before).rest,
        re.split(r"\s[-–—]\s|[:|(,]", before)[0],
        counted[0] if counted else "",
        behind,
    )
    named = next(filter(None, map(accelerator_named, parts)), None)
    return (int(whole[1]), named[1]) if named and whole and named[0] == 1 else named


def _of_sentences(line: str, number: int) -> Iterator[CataloguePrice]:
    """Yield the prices of the parts of sentences, each of the accelerator that it or the part before it names."""
    named: tuple[int, str] | None = None
    for part in _CLAUSES.split(line):
        boards = list(boards_in(part, counts_short_names=bool(_IN_LINE.search(part))))
        if len({id_ for id_, _ in boards}) > 1:
            named = None
            continue
        if boards:
            whole = MACHINE.search(part)
            named = (int(whole[1] if whole else boards[0][1] or 1), boards[0][0])
        if named and (amounts := list(_IN_LINE.finditer(part))):
            yield from _of_part(part, number, amounts, named)


@cache
def _sellers() -> Mapping[str, str]:
    """Return ids of providers by their names as sentences write them, with capital letters: many are ordinary words."""
    named = {str(entry["name"]): id_ for id_, entry in read_toml(DATA_DIR / "providers.toml").items()}
    short = {name.removesuffix(".ai").removesuffix(" AI"): id_ for name, id_ in named.items()}
    return {
        re.escape(name): id_ for name, id_ in ({"AWS": "aws", "GCP": "gcp", "Azure": "azure"} | short).items()
    }


def _of_part(
    line: str, number: int, amounts: Sequence[re.Match[str]], named: tuple[int, str]
) -> Iterator[CataloguePrice]:
    """Yield the prices of one accelerator in a line of a number, one for each term, of the seller that it names."""
    found: dict[Term, CataloguePrice] = {}
    seller = next((id_ for name, id_ in _sellers().items() if re.search(rf"\b{name}\b", line)), "")
    periods = [period_hours(re.findall(r"[a-z]+", one[2].lower())) or 1.0 for one in amounts]
    for amount, period in zip(amounts, periods, strict=True):
        if period != 1.0 and 1.0 in periods:
            continue
        part = _part_around(amount.start(), line) if len(amounts) > 1 else line
        stated = conditions_of(part)
        words = plain_words(part)
        row = CataloguePrice(
            row=number,
            provider=seller,
            sku="",
            region="",
            term=term_of(words) or term_in(period, "on_demand"),
            usd_per_hour=repr((dollars_of(amount[1], period) or 0.0) / period),
            num_accelerators=str(named[0]),
            gpu=named[1],
            memory_bytes=None,
            is_each=bool(set(re.findall(r"[a-z]+", amount[2].lower())) & ONE_ACCELERATOR)
            or "per gpu" in words,
            period_hours=period,
            smallest_order=stated.smallest_order,
            is_lower_bound=stated.is_lower_bound,
        )
        found.setdefault(row.term, row)
    yield from found.values()


def _part_around(place: int, line: str) -> str:
    """Return the part of a line between the dividers around a place."""
    bounds = [(one.start(), one.end()) for one in _LINE_DIVIDERS.finditer(line)]
    start = max((end for _, end in bounds if end <= place), default=0)
    return line[start : min((begun for begun, _ in bounds if begun > place), default=len(line))]
