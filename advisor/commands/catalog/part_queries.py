"""Which parts of the catalog a filter keeps, with what they cost."""

from advisor.catalog.errors import AdvisorError
from advisor.catalog.part_prices import price_book, price_of
from advisor.catalog.parts import all_parts
from advisor.catalog.schema.part import Part, PartPrice
from advisor.cli.known import known_value, nothing_left
from advisor.commands.catalog.options import PartsInput


def select_parts(wanted: PartsInput) -> list[tuple[str, Part, PartPrice | None]]:
    """Parts that pass every filter, by category and price; those without a price last.

    Raises: UnknownNameError: no such category. InfeasibleError: nothing passes. InputFileError: the price file.
    """
    found = all_parts()
    known_value(wanted.category, found, "category")
    if wanted.max_price is not None and not wanted.max_price > 0:
        raise AdvisorError(
            f"--max-price {wanted.max_price:g} is out of range", fix="a positive number of dollars"
        )
    book = price_book(wanted.price_file)
    words = (wanted.name or "").lower().split()
    rows = [
        (category, part, price_of(part, book))
        for category, listed in found.items()
        if wanted.category in (None, category)
        for part in listed
        if all(word in part.name.lower() for word in words)
    ]
    if wanted.max_price is not None:
        rows = [row for row in rows if row[2] is not None and row[2].usd <= wanted.max_price]
    if not rows:
        raise nothing_left("part")
    order = list(found)

    def rank(row: tuple[str, Part, PartPrice | None]) -> tuple[int, bool, float, str]:
        category, part, price = row
        return order.index(category), price is None, price.usd if price else 0.0, part.name

    return sorted(rows, key=rank)
