"""Questions around a list: parts to add, machines to choose between, and words that name nothing."""

from pathlib import Path

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listing, read_listings

BOOK = price_book()
REST = "Ryzen 5 5600, B550 Tomahawk, 32GB DDR4 3600, RM750x"


def read(text: str, folder: Path) -> Listing:
    path = folder / "list.txt"
    path.write_text(text)
    return read_listing(path, BOOK)


def cards_of(listing: Listing) -> list[str]:
    cards = listing.machine.cards
    return sorted(card.accelerator for card in cards.cards) if cards is not None else []


@pytest.mark.parametrize(
    ("words", "cards"),
    [
        ("Can I add a second RTX 3090 to this build? {rest}, RTX 3090", ["rtx-3090"] * 2),
        ("{rest}, RTX 3090. Could I fit two more 3090s?", ["rtx-3090"] * 3),
        ("{rest}, RTX 3060 12GB. Thinking of adding another card, will it work?", ["rtx-3060-12gb"] * 2),
        ("Should I get a third 3090? {rest}, 2x RTX 3090", ["rtx-3090"] * 3),
        ("Can I add a second 3090 to my Dell T7910 with 2x E5-2690 v4?", ["rtx-3090"] * 2),
        ("{rest}, GTX 1080 Ti. Worth adding another 1080 Ti or swap for a 3090?", ["gtx-1080-ti"] * 2),
        ("{rest}\nGPU: RTX 3090\nSecond GPU: RTX 3060 12GB", ["rtx-3060-12gb", "rtx-3090"]),
    ],
)
def test_a_card_that_a_question_adds_is_judged_with_those_of_the_list(
    words: str, cards: list[str], tmp_path: Path
) -> None:
    found = read(words.format(rest=REST), tmp_path)
    assert cards_of(found) == cards
    assert not found.unknown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("DGX Spark vs. 2x RTX 3090 for gpt-oss-120b - which one?", ["DGX Spark", "2x RTX 3090"]),
        (
            "Should I buy a Mac Studio M3 Ultra 96GB or 2x RTX 5090?",
            ["Mac Studio M3 Ultra 96GB", "2x RTX 5090"],
        ),
        ("Torn between a Strix Halo 128GB and two used 3090s", ["Strix Halo 128GB", "two used 3090s"]),
        ("RTX 4090 vs 2x 3090 vs DGX Spark", ["RTX 4090", "2x 3090", "DGX Spark"]),
    ],
)
def test_machines_to_choose_between_are_lists_of_their_own(
    text: str, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{text}\n")
    found = read_listings(path, BOOK)
    assert [name for name, _ in found] == names
    assert all(len(listing.lines) == 1 for _, listing in found)


def test_the_machine_behind_a_choice_is_part_of_each(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(
        "2x RTX 5060 Ti 16GB or a single RTX 5080 for my 9700X / B850 Tomahawk / 64GB / 850W rig?\n"
    )
    found = [listing for _, listing in read_listings(path, BOOK)]
    assert [cards_of(listing) for listing in found] == [["rtx-5060-ti-16gb"] * 2, ["rtx-5080"]]
    for listing in found:
        assert listing.machine.cpu is not None
        assert listing.machine.board is not None


def test_a_machine_with_its_chip_is_one_machine(tmp_path: Path) -> None:
    found = read("ASUS ROG Flow Z13 with Ryzen AI Max+ 395, 128GB", tmp_path)
    assert found.num_systems == 1
    assert not found.unknown


def test_what_stands_beside_a_choice_is_part_of_each(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("RTX 4090 vs 2x 3090\n7950X\nX670E ProArt\n96GB DDR5\n")
    found = dict(read_listings(path, BOOK))
    assert [cards_of(listing) for listing in found.values()] == [["rtx-4090"], ["rtx-3090"] * 2]
    assert all(listing.machine.board is not None for listing in found.values())


@pytest.mark.parametrize(
    "words",
    [
        "Is this good for 32B models?",
        "Hey all,",
        "What can I run?",
        "Thanks in advance!",
        "Will it do 20 tokens?",
    ],
)
def test_questions_and_greetings_are_no_parts(words: str, tmp_path: Path) -> None:
    found = read(f"{words}\nRyzen 5 5600\nB550 Tomahawk\nRTX 3090\nRM750x\n", tmp_path)
    assert not found.unknown
    assert cards_of(found) == ["rtx-3090"]


@pytest.mark.parametrize("name", ["ESC4000A-Z99?", "Dell Optiplex 7095 SFF"])
def test_a_product_in_a_question_is_never_dropped(name: str, tmp_path: Path) -> None:
    found = read(f"i7-7700, 32GB DDR4, RTX 3060 12GB, {name}", tmp_path)
    assert len(found.unknown) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 3060 12gbs, Ryzen 5 5600, B550 Tomahawk", [("gpu", 2), ("cpu", 1), ("board", 1)]),
        (
            "cpu,Ryzen 7 5700X,140\nram,2x16GB DDR4-3200,60\ncase,Cooler Master Q300L,45",
            [("cpu", 1), ("ram", 1), ("case", 1)],
        ),
        ("gpu 1 | RTX 5090 | $2899\ngpu 2 | RTX 3090 | $700", [("gpu", 1), ("gpu", 1)]),
        ("Corsair RM850e   Menge: 2   238,00 €\nRTX 3090   Menge: 1   700,00 €", [("psu", 2), ("gpu", 1)]),
    ],
)
def test_counts_are_read_and_prices_are_no_counts(
    text: str, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    assert [(line.category, line.quantity) for line in read(text, tmp_path).bill] == expected


def test_a_sentence_about_a_used_workstation_names_each_of_its_parts(tmp_path: Path) -> None:
    found = read(
        "Hey all, I picked up a used HP Z840 with dual E5-2690 v4s and 256 gigs of ram for 500 bucks and want to drop "
        "in two Tesla P40s. Stock 1125W power supply. Anything I should know?",
        tmp_path,
    )
    assert [(line.category, line.quantity) for line in found.bill] == [
        ("board", 1),
        ("cpu", 2),
        ("ram", 1),
        ("gpu", 2),
        ("psu", 1),
    ]
    assert found.machine.memory is not None
    assert found.machine.memory.num_modules == 8


def test_blowers_are_two_slots_wide_and_risers_beside_cards_count(tmp_path: Path) -> None:
    found = read("EPYC 7532, 3x RTX 3090 blower on 3 PCIe 4.0 risers (25cm), open frame", tmp_path)
    assert found.machine.cards is not None
    assert all((card.cooling, card.slots) == ("blower", 2.0) for card in found.machine.cards.cards)
    assert found.machine.risers.num == 3
    assert found.machine.risers.riser is not None
    assert found.machine.risers.riser.length_m == 0.25


OWN = "I currently have a 3090 in my old rig (i7-8700K, Z390 Aorus Pro, 32gb ddr4, EVGA 850 G3)."


def test_a_choice_for_an_own_machine_costs_what_it_adds() -> None:
    text = f"{OWN} Thinking of getting a second 3090 or selling it and buying a used A6000 48GB ($3,000)?"
    found = dict(read_listings(None, price_book(), (), text))
    added = found["another 3090"]
    sold = found["A6000 48GB ($3,000) instead"]
    assert added.machine.cards is not None
    assert sold.machine.cards is not None
    assert added.machine.cards.accelerators == ("rtx-3090",)
    assert added.machine.cards.num == 2
    assert sold.machine.cards.accelerators == ("rtx-a6000",)
    assert (added.total_usd, sold.total_usd) == (800, 3000)


@pytest.mark.parametrize("money", ["£{}", "${}", "EUR {}", "{} zł", "{},00 €", "CHF {}.-"])
def test_the_price_of_a_whole_server_covers_its_contents_in_any_currency(money: str) -> None:
    text = (
        f"HPE ProLiant ML350 Gen9 tower, 2x E5-2650v4, 256GB RAM (16x16GB), 2x 800W PSU - {money.format(350)}"
    )
    (_, listing), *_ = read_listings(None, price_book(), (), f"{text}\nRTX 3090 {money.format(700)}")
    assert listing.total_usd == 1050 or listing.foreign_total.startswith("1,050.00 ")


def test_rows_of_whole_machines_are_choices() -> None:
    rows = "1. MacBook Pro M4 Max 64GB\n2. Razer Blade 16 RTX 5090 24GB, 64GB RAM\n3. DGX Spark"
    found = read_listings(None, price_book(), (), f"Which would be best for local LLMs:\n{rows}")
    assert len(found) == 3
    assert not any(listing.unknown for _, listing in found)
    same = read_listings(None, price_book(), (), "2x DGX Spark")
    assert len(same) == 1


@pytest.mark.parametrize(
    "machine", ["Dell Optiplex 7050 SFF (i5-7500, 16GB, 180W PSU)", "HP Z440 with 64GB RAM"]
)
def test_a_machine_ahead_of_two_cards_is_that_of_both_choices(machine: str) -> None:
    text = f"Can my {machine} take a RTX A2000 12GB or a Tesla P4?"
    found = [listing for _, listing in read_listings(None, price_book(), (), text)]
    assert len(found) == 2
    boards = {listing.machine.board.name for listing in found if listing.machine.board is not None}
    assert len(boards) == 1
    assert all(listing.machine.board is not None for listing in found)
    cards = [one.machine.cards.accelerators for one in found if one.machine.cards is not None]
    assert len(set(cards)) == 2


PAIR = "5950X, X570 Taichi, 64GB DDR4, HX1200, 2x RTX 3090."


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        (f"{PAIR} Should I buy the NVLink bridge, or swap for two RTX 6000 Ada?", (2, 2, 2)),
        (
            f"{PAIR} Is it worth buying an NVLink bridge or should I sell them and get an RTX PRO 6000?",
            (2, 1, 2),
        ),
        (f"{PAIR} Get an NVLink bridge or upgrade to a 5090?", (2, 1, 2)),
        (f"Should I buy the NVLink bridge or trade both 3090s for an RTX PRO 6000? Rig: {PAIR}", (2, 1, 2)),
        (f"Tengo un {PAIR} ¿Añado otra 3090 o mejor 2x 5060 Ti 16GB?", (3, 2, 4, 2)),
        (
            f"Ich habe einen {PAIR} Soll ich eine dritte 3090 kaufen oder lieber gegen eine 5090 tauschen?",
            (3, 1, 3, 2),
        ),
        (f"Mam {PAIR} Lepiej 4090 czy 5090?", (1, 3, 1, 3, 2)),
        ("CPU: Ryzen 7 7700\nGPU: RTX 4090 or 5090?\nBoard: X670E Taichi", (1, 1)),
        (f"{PAIR} Should I upgrade to 128GB DDR4 or get a used 3090?", (2, 3)),
    ],
)
def test_alternatives_of_a_question_never_join_one_machine(text: str, choices: tuple[int, ...]) -> None:
    found = [listing for _, listing in read_listings(None, BOOK, pasted=text)]
    assert tuple(len(cards_of(listing)) for listing in found) == choices
    assert not any(listing.unknown for listing in found)


@pytest.mark.parametrize(
    ("question", "cards"),
    [
        ("is 750W enough for a used 3090 instead?", ["rtx-3090"]),
        ("Would 750W handle a 4070 Ti Super instead?", ["rtx-4070-ti-super"]),
    ],
)
def test_a_supply_is_judged_with_the_card_of_its_question(
    question: str, cards: list[str], tmp_path: Path
) -> None:
    for sign in (" - ", ". "):
        found = read(f"{REST}, RTX 3060 12GB{sign}{question}", tmp_path)
        assert cards_of(found) == cards
        assert found.machine.supplies is not None
        assert [supply.power_w for supply in found.machine.supplies.psus] == [750]


def test_a_part_that_a_question_considers_stands_in_place_of_the_listed_one(tmp_path: Path) -> None:
    found = read(f"{REST}, 2x RTX 3090. Would an RM1000x be enough?", tmp_path)
    assert [line.name[:15] for line in found.bill if line.category == "psu"] == ["Corsair RM1000x"]
    found = read(f"{REST}, 2x RTX 3090. Can I add a second 750W PSU?", tmp_path)
    assert sum(line.quantity for line in found.bill if line.category == "psu") == 2


@pytest.mark.parametrize(
    "words",
    [
        "I want to go to 4 cards over time.",
        "We are planning to grow to six gpus later on.",
        "Will the power supply hold?",
        "One of the cards is already in the top slot.",
        "Which slots do the two cards go into and is the bottom slot a problem?",
    ],
)
def test_words_of_sentences_that_name_no_part_are_none(words: str, tmp_path: Path) -> None:
    found = read(f"{REST}, 2x RTX 3060 12GB. {words}", tmp_path)
    kinds = sorted(line.category for line in found.bill)
    assert kinds == ["board", "cpu", "gpu", "psu", "ram"]
    assert not found.unknown
