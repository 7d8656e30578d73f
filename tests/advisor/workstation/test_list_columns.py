"""Columns of a list: neither their order nor their signs, their titles or rows around them change what is read."""

import random

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.list_columns import columns_of
from advisor.workstation.listing import Listing, read_listings

PARTS = (
    ("GPU", "RTX 3090 FE", 2, 750),
    ("CPU", "Ryzen 7 5800X", 1, 160),
    ("Motherboard", "MSI B550-A PRO", 1, 120),
    ("Memory", "Crucial Ballistix 16GB DDR4-3600", 4, 40),
    ("Power Supply", "Corsair HX1200i", 1, 200),
)
TITLES = ("Type", "Item", "Qty", "Unit price", "Total")
KINDS = [("board", 1), ("cpu", 1), ("gpu", 2), ("psu", 1), ("ram", 4)]


def read(text: str) -> Listing:
    return read_listings(None, price_book(), (), text)[0][1]


def rows_of(money: str = "${:.2f}") -> list[list[str]]:
    return [
        [kind, name, str(num), money.format(usd), money.format(num * usd)] for kind, name, num, usd in PARTS
    ]


def parts_and_sum(listing: Listing) -> tuple[list[tuple[str, int]], float]:
    """Return kinds and numbers of the parts, and the sum of the stated prices."""
    return sorted((line.category, line.quantity) for line in listing.bill), sum(
        line.usd or 0.0 for line in listing.lines
    )


@pytest.mark.parametrize("sign", [" | ", "\t", ";", "   "])
@pytest.mark.parametrize("has_titles", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_rows_and_columns_changes_no_part(sign: str, has_titles: bool, seed: int) -> None:
    chance = random.Random(seed)
    order = chance.sample(range(5), 5) if has_titles else [0, *chance.sample(range(1, 3), 2), 3, 4]
    rows = chance.sample(rows_of(), len(PARTS))
    text = "\n".join(sign.join(row[n] for n in order) for row in ([list(TITLES)] * has_titles + rows))
    assert parts_and_sum(read(text)) == (KINDS, 2140.0)


@pytest.mark.parametrize("sign", [" | ", "\t", "   "])
def test_a_column_that_counts_the_rows_changes_no_part(sign: str) -> None:
    rows = [[str(n), *row] for n, row in enumerate(rows_of(), 1)]
    for head in ([["Pos", *TITLES]], [["#", *TITLES]], []):
        assert parts_and_sum(read("\n".join(sign.join(row) for row in (*head, *rows)))) == (KINDS, 2140.0)


@pytest.mark.parametrize(
    "around",
    [
        "{}\nShipping | | | | $20.00\nSales tax | | | | $96.00",
        "{}\nOrder total | | | | $2,140.00",
        "Hi all, what do you think?\n\n{}\n\nThanks!",
        "{}\nInstant savings: -$50.00",
    ],
)
def test_charges_sums_and_greetings_are_no_parts(around: str) -> None:
    table = "\n".join(" | ".join(row) for row in ([*TITLES], *rows_of()))
    assert parts_and_sum(read(around.format(table))) == (KINDS, 2140.0)


@pytest.mark.parametrize("money", ["{:.2f} €", "€ {:.2f}", "{:.0f},00", "¥{:.0f}"])
def test_another_currency_changes_no_part(money: str) -> None:
    for sign in (" | ", ";"):
        text = "\n".join(sign.join(row) for row in ([*TITLES], *rows_of(money)))
        assert parts_and_sum(read(text)) == (KINDS, 0.0)


def test_cells_tell_a_column_where_titles_do_not() -> None:
    rows = rows_of()
    assert columns_of((), rows) == {"category": 0, "name": 1, "quantity": 2, "each": 3, "whole": 4}
    assert columns_of(("Component", "Modell", "Aantal", "A", "B"), rows)["name"] == 1


CARTS = (
    "{name}\nIn stock\nEligible for FREE Returns\nQty: {num}\nDelete\n{price}",
    "{name}\nItem price {price}\nQuantity {num}\nFree returns",
    "{name}\nArtikel-Nr. 74213\n{num} Stück {price}*",
    "{name}\n{num} szt. x {price}",
)


@pytest.mark.parametrize("cart", CARTS)
def test_words_of_a_shop_between_a_part_and_its_price_are_no_parts(cart: str) -> None:
    text = "\n".join(cart.format(name=name, num=num, price=f"${usd}") for _, name, num, usd in PARTS)
    assert parts_and_sum(read(f"Shopping cart\n{text}\nSubtotal: $2,140.00")) == (KINDS, 2140.0)


def test_a_part_that_is_bought_replaces_the_owned_one_of_its_kind() -> None:
    text = "Current rig (already have): Ryzen 7 3700X, MSI B450 Tomahawk Max, Corsair RM650x\nBuying: RTX 3090, RM1000x"
    listing = read(text)
    assert [psu.power_w for psu in listing.machine.supplies.psus] == [1000.0]
    assert [line.unit_price_usd for line in listing.bill if line.category == "cpu"] == [0.0]


@pytest.mark.parametrize("amount", ["¥9,480", "￥21,480", "9,480円", "9.480,00 €"])
def test_the_end_of_an_amount_is_no_card(amount: str) -> None:
    assert [line.category for line in read(f"SSD: 1TB NVMe {amount}").bill] == ["storage"]


@pytest.mark.parametrize(
    "question",
    [
        "电源够用吗?能跑 llama 3.3 70B Q4 吗?",
        "Will this speed up 32B models?",
        "Is 850 W enough?",
        "¿Basta la fuente?",
    ],
)
def test_a_question_below_a_list_is_no_part(question: str) -> None:
    text = "RTX 3090\nRyzen 7 5800X\nMSI B550-A PRO\n32GB DDR4\nCorsair RM850x"
    assert parts_and_sum(read(f"{text}\n{question}")) == parts_and_sum(read(text))
