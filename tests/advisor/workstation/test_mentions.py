"""Mentions of parts: found in any text, with their role, their number and their price."""

import json
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.mentions import mentions_in

BOOK: Final = price_book()


def read_text(folder: Path, text: str, name: str = "list.txt") -> Listing:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_listing(path, BOOK)


def cards_of(listing: Listing) -> list[str]:
    cards = listing.machine.cards
    return sorted(card.accelerator for card in cards.cards) if cards is not None else []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2x used 3090 @ 650 each and a 7900 XTX", [("gpu", "3090"), ("gpu", "7900 XTX")]),
        (
            "Ryzen 9 5950X on an ASUS Pro WS X570-ACE",
            [("cpu", "Ryzen 9 5950X"), ("board", "ASUS Pro WS X570-ACE")],
        ),
        (
            "64GB (2x32GB) DDR5-6000, 2 TB NVMe",
            [("ram", "64GB (2x32GB) DDR5-6000"), ("storage", "2 TB NVMe")],
        ),
        ("Crucial P5 Plus 2TB", [("storage", "Crucial P5 Plus 2TB")]),
        ("i7-6700 16GB", [("cpu", "i7-6700"), ("ram", "16GB")]),
        ("cards limited to 280W on a 1600W supply", [("psu", "1600W")]),
        ("total $3,090 for a GMKtec EVO-X2", [("system", "GMKtec EVO-X2")]),
        ("OptiPlex 3060 with a 970 EVO", [("board", "OptiPlex 3060"), ("storage", "970 EVO")]),
        ("It is loud but fast, and cost me 2 weekends", []),
    ],
)
def test_a_text_names_parts_by_names_and_figures(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.kind, text[one.start : one.end]) for one in mentions_in(text)] == found


REST: Final = "Ryzen 9 5950X, X570 Taichi, 64GB DDR4, RM1000x, RTX 3090."


@pytest.mark.parametrize(
    ("words", "cards"),
    [
        ("My friend has a 4090 and an EPYC 7302 on a ROMED8-2T.", ["rtx-3090"]),
        ("Someone here runs four 5090s.", ["rtx-3090"]),
        ("Used to have a 2080 Ti, sold it.", ["rtx-3090"]),
        ("I don't have a 3060 anymore.", ["rtx-3090"]),
        ("The 3090 sits in the second slot.", ["rtx-3090"]),
        ("Planning to buy another 3090.", ["rtx-3090"] * 2),
        ("I might add a second 3090 later.", ["rtx-3090"]),
        ("No NVLink obviously.", ["rtx-3090"]),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_words_around_a_part_tell_its_role(
    words: str, cards: list[str], is_first: bool, tmp_path: Path
) -> None:
    is_back = words.startswith(("The ", "Or ")) and is_first
    listing = read_text(tmp_path, f"{REST} {words}" if not is_first or is_back else f"{words} {REST}")
    assert cards_of(listing) == cards
    assert not listing.unknown
    assert not listing.machine.bridges
    assert [line.category for line in listing.bill].count("cpu") == 1
    assert [line.category for line in listing.bill].count("board") == 1


@pytest.mark.parametrize(
    ("words", "weighed"),
    [
        ("Is that better than 2x RTX 4090 for 70B?", ["rtx-4090"] * 2),
        ("Or would two 5090s make more sense?", ["rtx-5090"] * 2),
        ("Replace the 3090 with a 4090?", ["rtx-4090"]),
        ("Sell it and get a 5090?", ["rtx-5090"]),
        ("Good enough, or should I just get a 5090?", ["rtx-5090"]),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_question_that_weighs_a_card_has_a_machine_for_each_choice(
    words: str, weighed: list[str], is_first: bool, tmp_path: Path
) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{words} {REST}" if is_first else f"{REST} {words}")
    machines = [listing for _, listing in read_listings(path, BOOK)]
    assert [cards_of(one) for one in machines] == [weighed, ["rtx-3090", *weighed], ["rtx-3090"]]
    for listing in machines:
        assert not listing.unknown
        assert [line.category for line in listing.bill].count("cpu") == 1
        assert [line.category for line in listing.bill].count("board") == 1


def test_a_supply_that_a_sentence_replaces_leaves(tmp_path: Path) -> None:
    listing = read_text(tmp_path, f"{REST} I will replace the PSU with a 1200W one.")
    assert listing.machine.supplies is not None
    assert [psu.power_w for psu in listing.machine.supplies.psus] == [1200.0]


@pytest.mark.parametrize(
    ("text", "each"),
    [
        ("2x used 3090 @ 650 each", 650.0),
        ("2x RTX 3090 @ 650", 650.0),
        ("two RTX 3090s at $650 a pop", 650.0),
        ("3x3060 12gb (180 each used)", 180.0),
        ("2x RTX 3090 for $1300", 650.0),
    ],
)
def test_a_price_is_read_as_its_writer_means_it(text: str, each: float, tmp_path: Path) -> None:
    (line,) = read_text(tmp_path, text).bill
    assert (line.unit_price_usd, line.price_basis) == (pytest.approx(each), "user")


def test_a_price_behind_parts_that_plus_signs_join_is_that_of_all_of_them(tmp_path: Path) -> None:
    listing = read_text(
        tmp_path, "MI50 32GB x4 ($150/ea) + EPYC 7532 + H12SSL-i combo $750, 8x16GB DDR4 RDIMM $160"
    )
    assert [(line.category, line.usd) for line in listing.bill] == [
        ("gpu", 600.0),
        ("cpu", 750.0),
        ("board", 0.0),
        ("ram", 160.0),
    ]


def test_a_price_of_one_sentence_is_none_of_the_next(tmp_path: Path) -> None:
    listing = read_text(
        tmp_path,
        "Picked up a Dell R730 (dual E5-2680 v4, 256GB DDR4, dual 1100W PSUs) for $380 shipped. "
        "Added three Tesla P40s at $150 a pop. It is loud but 72GB of VRAM for under 900 bucks.",
    )
    prices = {line.category: line.usd for line in listing.bill}
    assert (prices["board"], prices["gpu"]) == (380.0, 450.0)
    assert listing.total_usd == 830.0


def test_what_a_list_and_a_table_name_counts_once(tmp_path: Path) -> None:
    listing = read_text(
        tmp_path,
        "The machine is built around a Threadripper 3970X with 256GB of DDR4.\n\n- 2x RTX 3090, NVLink bridged\n"
        "- Threadripper 3970X, 32 cores\n\n| Part | Price | Source |\n|---|---|---|\n| 2x RTX 3090 | $2 000 | eBay |\n"
        "| Threadripper 3970X + 256GB RAM | $1 200 | used |\n| Case | $230 | new |\n",
    )
    assert [(line.category, line.quantity) for line in listing.bill] == [
        ("cpu", 1),
        ("ram", 1),
        ("gpu", 2),
        ("bridge", 1),
        ("case", 1),
    ]
    assert [line.usd for line in listing.bill if line.price_basis == "user"] == [1200.0, 0.0, 2000.0, 230.0]


def test_fields_have_the_units_of_their_names(tmp_path: Path) -> None:
    fields = {
        "cpu": "Core Ultra 7 265K",
        "gpu": ["Arc B580 12GB", "Arc B580 12GB"],
        "memory": {"capacity_gb": 64, "type": "DDR5-6400", "modules": 2},
        "psu_watts": 850,
    }
    machine = read_text(tmp_path, json.dumps(fields), "list.json").machine
    assert machine.memory is not None
    assert machine.supplies is not None
    assert (machine.memory.num_modules, machine.memory.kit.speed_mts) == (2, 6400.0)
    assert machine.supplies.power_w == 850.0


def test_a_number_of_two_cpus_is_that_of_the_boards_socket(tmp_path: Path) -> None:
    for board, name in (("ASUS Pro WS TRX50-SAGE WIFI", "Threadripper"), ("ASUS WS X299 SAGE", "Core i9")):
        cpu = read_text(tmp_path, f"RTX 3090\n7960X\n{board}\n").machine.cpu
        assert cpu is not None
        assert name in cpu.name


@pytest.mark.parametrize(
    ("row", "category"),
    [
        (
            "2    ASRock Creator Radeon AI PRO R9700 32GB GDDR6 Graphics Card R9700 CT   $1,299.99   $2,599.98",
            "gpu",
        ),
        ("1    AMD Ryzen 7 9700X - 8-Core 3.8 GHz Socket AM5 65W      $299.00      $299.00", "cpu"),
        ("1    SAMSUNG 990 EVO PLUS 2TB M.2 2280      $129.99      $129.99", "storage"),
        ("1x Kingston Fury Beast DIMM Kit 64GB (2x32GB), DDR5-5600 - $174", "ram"),
        ("Gigabyte GeForce RTX 3060 WINDFORCE OC 12GB GV-N3060WF2OC-12GD $289", "gpu"),
        ("Asus ROG STRIX GAMING OC GeForce RTX 4090 24 GB Video Card $1900", "gpu"),
        ("ASUS PRIME OC Edition GeForce RTX 5080 $1200", "gpu"),
    ],
)
def test_a_row_of_an_order_names_one_part(row: str, category: str, tmp_path: Path) -> None:
    listing = read_text(tmp_path, f"{row}\n1x Noctua NH-D15 $99\n")
    assert [line.category for line in listing.bill] == [category, "cooler"]
    assert not listing.unknown


def test_the_price_of_a_lot_stands_in_the_sentence_above_it(tmp_path: Path) -> None:
    listing = read_text(
        tmp_path, "Just picked up off ebay for $1150:\nDell PowerEdge R730\n2x Tesla P40 24GB\n"
    )
    assert listing.total_usd == 1150.0


def test_a_doubt_about_the_memory_of_a_card_is_named(tmp_path: Path) -> None:
    listing = read_text(tmp_path, "gpu: 2x 5060 Ti (not sure if theyre the 8 or 16gb ones)\nram 16\n")
    assert cards_of(listing) == ["rtx-5060-ti-8gb"] * 2
    assert any("leaves the memory open" in note for note in listing.notes)
    assert listing.machine.memory is not None
    assert listing.machine.memory.capacity_bytes == 16 * 2**30
