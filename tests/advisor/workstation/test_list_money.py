"""Amounts of a list: what holds for dollars holds for each currency, and the price of a whole list is never lost."""

import itertools
import random
import re
import time
from collections.abc import Collection, Sequence

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.list_currency import write_amounts
from advisor.workstation.listing import Listing, read_listings
from advisor.workstation.verdict import price_checks

PARTS = (
    ("gpu", "RTX 3090 FE", 2, 750),
    ("cpu", "Ryzen 7 5800X", 1, 160),
    ("board", "MSI B550-A PRO", 1, 120),
    ("ram", "64GB (2x32GB) DDR4-3600", 1, 150),
    ("psu", "Corsair HX1200i", 1, 200),
)
TOTAL = 2 * 750 + 160 + 120 + 150 + 200
FORMS = {
    "${:,.2f}": "",
    "{:.0f} €": "EUR",
    "{:.0f},00 €": "EUR",
    "€{:,.2f}": "EUR",
    "{:.0f} EUR": "EUR",
    "£{:,.0f}": "GBP",
    "{:.0f} zł": "PLN",
    "CHF {:.0f}": "CHF",
    "C${:,.2f}": "CAD",
    "{:.0f} грн": "UAH",
    "{:.0f} ₽": "RUB",
    "{:.0f}円": "JPY",
    "₹{:,.0f}": "INR",
    "{:.0f} Kč": "CZK",
    "{:.0f}元": "CNY",
}
"""Ways to write an amount of money, with the currency."""


def read(text: str) -> Listing:
    return read_listings(None, price_book(), (), text)[0][1]


def total_of(listing: Listing) -> float:
    """Price of a list, in its own currency."""
    if not listing.foreign_total:
        return listing.total_usd
    return float(listing.foreign_total.partition(" ")[0].replace(",", ""))


def kinds_of(listing: Listing) -> list[tuple[str, int]]:
    return sorted((line.category, line.quantity) for line in listing.bill)


KINDS = sorted((kind, num) for kind, _, num, _ in PARTS)


SIGNS = (" - ", ": ", " ", " | ", "\t", " (")
EACH = ("{} each", "each {}", "je {}", "{} pro Stück", "à {}", "по {}", "{} cada una", "@ {}")


def pairs_of(first: Collection[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Return each of the first with two of the second, so that every one of these comes up."""
    return [
        (one, second[(place * step + step) % len(second)])
        for place, one in enumerate(first)
        for step in (1, 3)
    ]


@pytest.mark.parametrize(("form", "sign"), pairs_of(FORMS, SIGNS))
def test_a_list_of_prices_has_their_sum_in_its_currency(form: str, sign: str) -> None:
    chance = random.Random(form + sign)
    close = ")" if "(" in sign else ""
    rows = [
        f"{num}x {name}{sign}{form.format(num * usd)}{close}{' total' if num > 1 else ''}"
        for _, name, num, usd in chance.sample(PARTS, len(PARTS))
    ]
    listing = read("\n".join(rows))
    assert kinds_of(listing) == KINDS
    assert total_of(listing) == TOTAL, listing.notes
    assert listing.foreign_total.endswith(FORMS[form])


@pytest.mark.parametrize(("form", "each"), pairs_of(FORMS, EACH))
def test_the_price_of_each_piece_counts_for_all(form: str, each: str) -> None:
    rows = [
        f"{num}x {name} {each.format(form.format(usd)) if num > 1 else form.format(usd)}"
        for _, name, num, usd in PARTS
    ]
    listing = read("\n".join(rows))
    assert kinds_of(listing) == KINDS
    assert total_of(listing) == TOTAL, listing.notes


WHOLE = (
    "{} for everything",
    "{} obo",
    "{} ono",
    "Price: {}",
    "Preis: {} VB",
    "Prix : {}",
    "Total: {}",
    "Asking {} for the lot",
    "{} collected from a university clear-out",
    "US-wide shipping, all in {}",
    "Buy It Now: {}",
    "{}",
)
HOSTS = (
    "Dell PowerEdge R730\n2x E5-2680 v4\n8x 32GB DDR4-2400 RDIMM\n2x Tesla P40",
    "HP Z840 Workstation\n2x E5-2680 v4\n128GB DDR4\n2x GTX 1080 Ti\n1125W PSU",
    "Ryzen 9 5950X\nMSI B550-A PRO\n64GB DDR4\nRTX 3090\nCorsair RM850x",
)


@pytest.mark.parametrize(("form", "whole"), pairs_of(FORMS, WHOLE))
def test_the_only_price_of_a_list_is_that_of_all_its_parts(form: str, whole: str) -> None:
    host = HOSTS[len(form + whole) % len(HOSTS)]
    row = whole.format(form.format(2450))
    for text in (f"{host}\n{row}", f"{row}\n{host}"):
        listing = read(text)
        assert total_of(listing) == 2450, (text, listing.notes)
        assert kinds_of(listing) == kinds_of(read(host)), text


@pytest.mark.parametrize(
    "row",
    [
        "Electricity is $0.30 per kWh",
        "I have $450 to spend",
        "Budget: $900",
        "A new one is worth $3,000",
        "Newegg took $100 off",
        "Logitech MX Keys - $90",
        "TP-Link USB adapter $15",
    ],
)
def test_other_amounts_are_no_price_of_the_list(row: str) -> None:
    priced = "RTX 3090 $700\nRyzen 9 5950X $300\n64GB DDR4 $120\nMSI B550-A PRO $110"
    assert total_of(read(priced)) <= total_of(read(f"{priced}\n{row}")) <= total_of(read(priced)) + 90
    bare = "RTX 3090\nRyzen 9 5950X\n64GB DDR4\nMSI B550-A PRO"
    assert not any(line.source.startswith("in the price") for line in read(f"{bare}\n{row}").bill)


def test_german_amounts_without_a_currency_are_read_in_columns() -> None:
    text = (
        "Grafikkarte  : 2 x RTX 4060 Ti 16GB  (je 419,-)\nProzessor    : Ryzen 5 7600 (boxed)  (185,-)\n"
        "Board        : B650M Pro RS          (119,-)\nNetzteil     : 650W Pure Power 12 M  (89,-)"
    )
    assert read(text).foreign_total == "1,231.00 EUR"


def test_a_size_with_a_price_is_memory_beside_a_cpu() -> None:
    for form in ("${}", "{}€"):
        rows = (("5950X", 280), ("B550", 100), ("64GB", 120), ("RTX 3090", 700))
        listing = read(", ".join(f"{name} {form.format(usd)}" for name, usd in rows))
        assert listing.machine.memory is not None
        assert total_of(listing) == 1200


def test_the_sum_in_the_row_of_the_parts_is_no_part() -> None:
    text = "Config: Ryzen 9 3900X 150€, RTX 4090 1700€, boîtier Fractal Define 7 110€. Total 1960€"
    listing = read(text)
    assert total_of(listing) == 1960
    assert [line.category for line in listing.bill] == ["cpu", "gpu", "case"]
    # A list that writes thousands without a blank means a number of a name ahead of hundreds.
    assert total_of(read("Ryzen 9 5950X 1280€, boîtier Fractal Define 7 110€")) == 1390


def test_amounts_in_a_second_currency_are_named_and_left_out() -> None:
    listing = read("RTX 3090 $700 (about 650 €)\nRyzen 5 5600 $90\n64GB DDR4 110 €")
    assert [line.usd for line in listing.lines] == [700, 90, None]
    assert not listing.foreign_total
    (note,) = [one for one in listing.notes if "other currencies" in one]
    assert "row 3" in note
    assert "row 1" not in note


def test_a_paid_column_counts_ahead_of_the_price() -> None:
    text = (
        "| Component | Selection | Price | Purchased For |\n|---|---|---|---|\n"
        "| CPU | AMD Ryzen 7 5800X | $180 | $120 |\n| GPU | RTX 3090 FE | - | $700 |\n"
        "| PSU | Corsair RM850x | $130 | |\n"
        "| Total | | | $950 |"
    )
    assert [line.usd for line in read(text).lines] == [120, 700, 130]


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        *itertools.product(
            (
                "(no case)",
                "(no GPU, no drive)",
                "(used, no heatsink)",
                "(comes without PSU)",
                "(no risers needed)",
            ),
            ("MSI B550-A PRO", "Corsair HX1200i", "RTX 3090 FE", "Ryzen 7 5800X"),
        )
    ],
)
def test_a_note_on_what_is_not_there_changes_no_part(note: str, kind: str) -> None:
    rest = "\n64GB DDR4\n1TB SSD"
    plain = [line.name for line in read(kind + rest).bill]
    assert [line.name for line in read(f"{kind} {note}{rest}").bill] == plain


def test_the_price_of_several_parts_is_compared_with_that_of_all() -> None:
    assert not price_checks(read("5950X + MSI B550-A PRO + 64GB DDR4 $900"))
    (check,) = price_checks(read("5950X + MSI B550-A PRO + 64GB DDR4 $300"))
    assert "with what its price includes" in check.why


@pytest.mark.parametrize(
    "piece",
    ["1 234,00 € ", "€ 99 ", "$", "1.234.567 ", "for all ", "- 12 ", "(no case) ", "64GB DDR4 ", "za "],
)
def test_the_time_of_a_long_row_grows_no_faster_than_its_square(piece: str) -> None:
    def seconds(times: int) -> float:
        begin = time.process_time()
        write_amounts("\n".join(["RTX 3090 700 €", piece * times]))
        return time.process_time() - begin

    seconds(10)
    num = 1_900 // len(piece)
    assert seconds(num) < 2.0, re.escape(piece)
