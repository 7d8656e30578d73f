"""Words around a part, or of an invoice, that are no parts, counts or prices; and figures that no list loses."""

import re
from pathlib import Path

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.card_names import find_card_name
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.verdict import Verdict, judge_listing

BOOK = price_book()


def read(text: str, folder: Path) -> Listing:
    path = folder / "list.txt"
    path.write_text(text)
    return read_listing(path, BOOK)


def kinds_of(listing: Listing) -> list[tuple[str, int]]:
    return [(line.category, line.quantity) for line in listing.bill]


def verdict_on(listing: Listing) -> Verdict:
    return judge_listing(listing, Question(MachineLoad(models.get("8b").record)), BOOK, better=False)


@pytest.mark.parametrize("words", ["{}", "{} Workstation Edition", "NVIDIA {} Workstation Edition 96GB"])
@pytest.mark.parametrize("edition", ["Max-Q", "Max Q", "MaxQ"])
def test_words_of_an_edition_around_max_q_hide_no_card(words: str, edition: str) -> None:
    found = find_card_name(words.format(f"RTX PRO 6000 Blackwell {edition}"))
    assert found is not None
    assert found.accelerators == ("rtx-pro-6000-maxq",)


@pytest.mark.parametrize(
    ("text", "accelerators"),
    [
        ("RTX 5080 SFF OC 16GB", ("rtx-5080",)),
        ("Gigabyte RTX 4070 SUPER EAGLE SFF", ("rtx-4070-super",)),
        ("RTX 4000 SFF Ada", ("rtx-4000-sff-ada",)),
        ("RTX 4000 Ada SFF Edition", ("rtx-4000-sff-ada",)),
        ("RTX 5080 Laptop SFF", ()),
        ("RTX PRO 4500 Max-Q Edition", ()),
    ],
)
def test_a_short_form_names_another_card_only_where_its_maker_sells_one(
    text: str, accelerators: tuple[str, ...]
) -> None:
    found = find_card_name(text)
    assert found is not None
    assert found.accelerators == accelerators


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("CPU: AMD EPYC 9654 2.4GHz 96 Core 360W   x1", "cpu"),
        ("AMD Ryzen Threadripper 7980X 350W", "cpu"),
        ("GPU: NVIDIA RTX 6000 Ada 48GB 300W   x4", "gpu"),
        ("3x RTX A6000 48GB 300W", "gpu"),
        ("Graphics: GeForce RTX 5090 32GB 575W x2", "gpu"),
    ],
)
def test_watts_beside_a_part_are_its_power(row: str, kind: str, tmp_path: Path) -> None:
    listing = read(f"{row}\nPower Supply: Corsair AX1600i\n", tmp_path)
    assert [one for one, _ in kinds_of(listing)] == [kind, "psu"]
    counts = {"x4": 4, "3x": 3, "x2": 2}
    assert listing.bill[0].quantity == next((num for sign, num in counts.items() if sign in row), 1)


@pytest.mark.parametrize(
    "text",
    ["i7-8700 16GB RTX 3060 12GB 650W", "RTX 3090, 850W", "RTX 3090 1000W", "Ryzen 5 5600 and 550W psu"],
)
def test_watts_behind_a_sign_or_beside_several_kinds_are_a_supply(text: str, tmp_path: Path) -> None:
    assert "psu" in dict(kinds_of(read(text, tmp_path)))


@pytest.mark.parametrize(
    "row",
    [
        "AMD Ryzen 9 9950X, 16-Core   QTY: 1   $539.00",
        "Intel Xeon w7-2495X, 24-Core Qty: 1 $539.00",
        "AMD Ryzen 9 9950X, 170 W, 16-Core $539.00",
    ],
)
def test_a_figure_behind_a_comma_takes_no_price(row: str, tmp_path: Path) -> None:
    listing = read(f"{row}\nRTX 3090 $700\n", tmp_path)
    assert kinds_of(listing) == [("cpu", 1), ("gpu", 1)]
    assert listing.bill[0].unit_price_usd == 539.0


@pytest.mark.parametrize("name", ["Kingston FURY Renegade Pro", "Kingston FURY Renegade"])
def test_modules_of_a_line_that_drives_have_too_are_memory(name: str, tmp_path: Path) -> None:
    listing = read(f"{name} 64GB (2x32GB) DDR5-6000 $250\nRTX 3090 $700\n", tmp_path)
    assert kinds_of(listing) == [("ram", 1), ("gpu", 1)]
    assert listing.bill[0].unit_price_usd == 250.0
    drive = read("Kingston FURY Renegade 2TB NVMe, 64GB DDR5-6000", tmp_path)
    assert [kind for kind, _ in kinds_of(drive)] == ["storage", "ram"]


@pytest.mark.parametrize("lead", ["Add2PSU", "ADD2PSU", "dual-PSU"])
def test_a_lead_that_a_supply_names_starts_the_second(lead: str, tmp_path: Path) -> None:
    listing = read(f"4x RTX 3090\nEVGA 1600 P2 + Corsair HX1000i ({lead})\nopen frame\n", tmp_path)
    supplies = listing.machine.supplies
    assert supplies is not None
    assert len(supplies.psus) == 2
    assert supplies.link is not None
    without = read("4x RTX 3090\nEVGA 1600 P2 + Corsair HX1000i\nopen frame\n", tmp_path)
    assert without.machine.supplies is not None
    assert without.machine.supplies.link is None


@pytest.mark.parametrize(
    ("risers", "num"),
    [("PCIe 4.0 risers x16", 6), ("SlimSAS risers x8", 6), ("risers x4", 4), ("8x risers", 8)],
)
def test_more_risers_than_cards_are_lanes(risers: str, num: int, tmp_path: Path) -> None:
    listing = read(f"6x RTX 3090\nEPYC 7302\n{risers}\n", tmp_path)
    assert dict(kinds_of(listing))["riser"] == num


@pytest.mark.parametrize(
    "row",
    [
        "Cant. Descripción   P. unit.   Importe",
        "Qté   Désignation   Prix unitaire   Montant",
        "Menge   Bezeichnung   Einzelpreis   Gesamtpreis",
        "Base imponible   1.533,81 €",
        "Nettobetrag   900,00 €",
        "Warranty: 3 Year Parts",
        "5 years parts and labor",
        "Bonjour à tous,",
        "Hallo zusammen",
        "Hola a todos",
        "L'alimentation suffit-elle pour les deux cartes ? Merci d'avance",
    ],
)
def test_words_of_an_invoice_or_a_letter_are_no_parts(row: str, tmp_path: Path) -> None:
    listing = read(f"{row}\nRyzen 5 5600 $100\nRTX 3090 $700\nRM1000x $150\n", tmp_path)
    named = [kind for kind, _ in kinds_of(listing) if kind != "other"]
    assert named == ["cpu", "gpu", "psu"]
    assert not listing.unknown


@pytest.mark.parametrize(
    "work", ["Montaje y testeo del equipo", "Zusammenbau und Test", "Montage et installation"]
)
def test_work_of_a_shop_is_known_and_keeps_its_price(work: str, tmp_path: Path) -> None:
    listing = read(f"Ryzen 5 5600 $100\nRTX 3090 $700\n{work} $40\n", tmp_path)
    assert not listing.unknown
    assert listing.total_usd == 840.0


def test_a_medium_of_software_is_no_part(tmp_path: Path) -> None:
    listing = read(
        "Operating System: Windows 11 Home - DVD 64-bit ($120.00 @ Amazon)\nRTX 3090 $700\n", tmp_path
    )
    assert kinds_of(listing) == [("other", 1), ("gpu", 1)]
    assert not listing.unknown


@pytest.mark.parametrize("text", ["{} $1,999 plus an RTX 3090", "{} for $1,999 and an RTX 3090"])
def test_a_price_behind_the_drive_of_a_machine_is_the_machines(text: str, tmp_path: Path) -> None:
    listing = read(text.format("GMKtec EVO-X2 (Ryzen AI Max+ 395, 128GB LPDDR5X, 2TB)"), tmp_path)
    assert listing.bill[0].category == "system"
    assert listing.bill[0].unit_price_usd == 1999.0


@pytest.mark.parametrize("price", ["£1,650", "1.900 €", "CHF 1500"])
def test_a_sum_in_another_currency_is_the_price_of_the_list(price: str, tmp_path: Path) -> None:
    listing = read(f"For sale, {price} for the lot:\nRyzen 5 5600\nRTX 3090\nRM1000x\n", tmp_path)
    assert re.sub(r"\D", "", listing.foreign_total.partition(".")[0]) == re.sub(r"\D", "", price)
    assert listing.total_usd != 0


def test_owning_costs_nothing_known_while_a_card_has_no_price(tmp_path: Path) -> None:
    rest = "Ryzen 7 7800X3D $300\nB650 Tomahawk $200\n64GB DDR5 $200\nRM1000x $150\n"
    assert verdict_on(read(f"RTX 3090 $700\n{rest}", tmp_path)).build.economics is not None
    unpriced = verdict_on(read(f"NVIDIA Tesla T4\n{rest}", tmp_path)).build
    assert unpriced.performance is not None
    assert unpriced.economics is None


@pytest.mark.parametrize(
    ("words", "watts"),
    [
        ("not more than 1 kW from the wall", 1000.0),
        ("max 900W at the wall please", 900.0),
        ("It must stay under 1.2 kW at the outlet.", 1200.0),
        ("I want at most 1,500 watts from the socket", 1500.0),
        ("the wall is white", None),
    ],
)
def test_a_limit_at_the_wall_is_read(words: str, watts: float | None, tmp_path: Path) -> None:
    listing = read(f"2x RTX 3090\nRyzen 5 5600\nRM1000x\n{words}\n", tmp_path)
    assert listing.wall_limit_w == watts
    assert {kind for kind, _ in kinds_of(listing)} == {"gpu", "cpu", "psu"}


@pytest.mark.parametrize(
    "text",
    [
        "Does an RM850e carry two RTX 4070 with a Ryzen 7 7800X3D on a B650 Tomahawk?",
        "Basta uma Corsair RM850e para uma RTX 4070 com um Ryzen 7 7800X3D numa B650 Tomahawk?",
        "The box is built around a Threadripper 3970X on an MSI TRX40 PRO 10G with 256GB of DDR4 and two 3090s.",
    ],
)
def test_what_a_question_or_a_description_leaves_out_is_not_missing(text: str) -> None:
    ((_, listing),) = read_listings(None, BOOK, (), text)
    complete = next(check for check in verdict_on(listing).build.checks if check.rule == "complete")
    assert complete.verdict != "broken"


def test_a_list_without_memory_is_broken_still(tmp_path: Path) -> None:
    listing = read("Ryzen 7 7800X3D\nB650 Tomahawk\nRTX 3090\nRM1000x\n", tmp_path)
    complete = next(check for check in verdict_on(listing).build.checks if check.rule == "complete")
    assert complete.verdict == "broken"


def test_cards_that_a_question_speaks_of_are_those_of_the_list(tmp_path: Path) -> None:
    listing = read("RTX 3090, RTX 3060 12GB, Ryzen 5 5600. Would the two cards run a 32B together?", tmp_path)
    assert kinds_of(listing) == [("gpu", 1), ("gpu", 1), ("cpu", 1)]


@pytest.mark.parametrize(
    "note",
    [
        " (8 slots, no risers needed)",
        " (no risers needed)",
        ", no NVLink bridge required",
        " (comes without case)",
        " (without PSU included)",
        ", cooler not included",
        " (doesn't need risers)",
    ],
)
@pytest.mark.parametrize(("name", "kind"), [("ASRock X670E Taichi", "board"), ("Fractal Meshify C", "case")])
def test_a_part_that_a_note_says_is_not_there_decides_no_kind(note: str, name: str, kind: str) -> None:
    (_, plain), *_ = read_listings(None, price_book(), (), f"Ryzen 9 7950X\nRTX 4090\n{name}")
    (_, noted), *_ = read_listings(None, price_book(), (), f"Ryzen 9 7950X\nRTX 4090\n{name}{note}")
    assert [(line.category, line.name) for line in noted.bill if line.category == kind] == [
        (line.category, line.name) for line in plain.bill if line.category == kind
    ]
    assert len(noted.bill) == len(plain.bill)
    assert not noted.unknown


@pytest.mark.parametrize(
    ("card", "maker"),
    [
        ("6x RTX 3070 8GB", "Gigabyte Eagle"),
        ("2x RTX 4070 Ti Super", "Gigabyte Windforce"),
        ("RTX 3090", "Zotac Trinity"),
        ("RTX 3060 12GB", "Asus Dual"),
    ],
)
def test_a_product_line_in_brackets_is_that_of_the_card_before_it(card: str, maker: str) -> None:
    (_, found), *_ = read_listings(None, price_book(), (), f"{card} ({maker})\nRyzen 5 5600")
    cards = [line for line in found.bill if line.category == "gpu"]
    assert len(cards) == 1
    assert maker.split()[-1].lower() in cards[0].name.lower()
    assert not found.unknown


@pytest.mark.parametrize(
    "title",
    [
        "Keep it for LLMs or sell it all and buy one used 3090?",
        "Should I keep the rig or sell everything and get a 4090?",
        "Old rig. Run 32B on it, or sell the lot and buy a 5090?",
    ],
)
def test_a_card_for_which_all_would_be_sold_is_no_part_of_the_machine(title: str) -> None:
    found = read_listings(
        None, price_book(), (), f"{title}\nRyzen 5 5600\nB550 Tomahawk\n32GB DDR4\n2x RTX 3070 8GB"
    )
    cards = [one.machine.cards.accelerators for _, one in found if one.machine.cards is not None]
    assert ("rtx-3070",) in cards
    assert all(len(each) == 1 for each in cards)
    assert len(cards) == 2
