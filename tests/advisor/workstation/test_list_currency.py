"""Currencies of lists: that of the shops, of other amounts or of the language, and never US dollars in silence."""

from pathlib import Path

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listings

BARE = """CPU: Ryzen 7 7700{first}
GPU: RTX 5070 Ti - 1,099
RAM: 64GB DDR5-6000 - 380
Motherboard: B650 Tomahawk - 169
PSU: Corsair RM850x - 119
"""


def read(text: str) -> Listing:
    return read_listings(None, price_book(), (), text)[0][1]


def names(listing: Listing) -> list[str]:
    return [line.name for line in listing.bill]


@pytest.mark.parametrize(
    ("sign", "code"),
    [
        (" - £199", "GBP"),
        (" - 199 €", "EUR"),
        (" - 199 CHF", "CHF"),
        (" - 899 zł", "PLN"),
        (" - C$249", "CAD"),
    ],
)
def test_amounts_beside_one_with_a_currency_are_in_that_currency(sign: str, code: str) -> None:
    listing = read(BARE.format(first=sign))
    assert not any(line.usd for line in listing.lines)
    assert listing.foreign_total.endswith(f" {code}")


def test_a_bare_amount_changes_no_part() -> None:
    plain = BARE.replace(" - 1,099", "").replace(" - 380", "").replace(" - 169", "").replace(" - 119", "")
    for sign in (" - £199", " - 199 €", " - 199"):
        assert names(read(BARE.format(first=sign))) == names(read(plain.format(first="")))


def test_bare_amounts_of_a_list_without_any_currency_are_said_to_be_us_dollars() -> None:
    listing = read(BARE.format(first=" - 199"))
    assert listing.total_usd == 199 + 1099 + 380 + 169 + 119
    assert any("taken as US dollars" in note for note in listing.notes)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "Grafikkarte: RTX 3090 - 750\nNetzteil: Corsair HX1200 - 189\nProzessor: Ryzen 9 5950X - 289",
            "EUR",
        ),
        (
            "Karta graficzna: RTX 3090 - 3200\nZasilacz: Corsair HX1200 - 849\nProcesor: Ryzen 9 5950X - 999",
            "PLN",
        ),
        (
            "Carte graphique: RTX 3090 - 750\nAlimentation: Corsair HX1200 - 189\nProcesseur: Ryzen 9 5950X - 289",
            "EUR",
        ),
    ],
)
def test_bare_amounts_of_a_language_of_one_currency_are_in_it_and_said_so(text: str, code: str) -> None:
    listing = read(text)
    assert listing.foreign_total.endswith(f" {code}")
    assert any(f"taken as {code} by the language" in note for note in listing.notes)


def test_dollars_of_a_list_in_another_language_are_a_stated_assumption() -> None:
    spanish = (
        "Procesador Ryzen 7 7700 $5,299\nTarjeta de video RTX 5070 Ti $18,999\nFuente Corsair RM850x $2,499"
    )
    assert any("though the list may be of another country" in note for note in read(spanish).notes)
    english = "CPU Ryzen 7 7700 $299\nRTX 5070 Ti $999\nCorsair RM850x $149"
    assert not any("US dollars" in note for note in read(english).notes)


def test_a_list_that_names_us_dollars_is_in_them(tmp_path: Path) -> None:
    text = "Netzteil Corsair HX1200 189 USD\nGrafikkarte RTX 3090 750 USD\nProzessor Ryzen 9 5950X 289 USD"
    listing = read(text)
    assert listing.total_usd == 189 + 750 + 289
    assert not listing.foreign_total
