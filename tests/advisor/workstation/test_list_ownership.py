"""Ownership, shared numbers and rows without a part: parts that a list says its writer has cost nothing."""

import itertools

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listings

HOSTS = (
    "Dell PowerEdge T630, 2x E5-2695 v4, 256GB DDR4, 2x 1100W PSU, $900 shipped",
    "Lenovo P520, W-2145, 64GB DDR4 ECC, 900W PSU, $350",
)
CARDS = ("2x RTX 3090", "an RTX 3090 FE", "two Tesla P40s")
WORDS = (
    "I already have {}.",
    "I already own {}",
    "We still already have {}",
    "I own {}",
    "Ich habe schon {}",
    "J'ai déjà {}",
    "Ya tengo {}",
    "I already have {} and a 3-slot NVLink bridge",
)


def read(text: str) -> Listing:
    return read_listings(None, price_book(), (), text)[0][1]


@pytest.mark.parametrize(("words", "host"), [*itertools.product(WORDS, HOSTS)])
def test_parts_of_a_sentence_of_having_cost_nothing(words: str, host: str) -> None:
    plain = read(host)
    for card in CARDS:
        listing = read(f"{host}\n{words.format(card)}")
        cards = [line for line in listing.bill if line.category == "gpu"]
        assert cards, words
        assert all(line.usd == 0.0 for line in cards)
        assert listing.total_usd == plain.total_usd


def test_parts_of_a_sentence_of_buying_cost_their_price() -> None:
    listing = read(f"{HOSTS[0]}\nI want to buy 2x RTX 3090 for $700 each")
    assert listing.total_usd == 900 + 1400


@pytest.mark.parametrize("head", ["My box:", "My rig:", "My home server:", "My AI workstation:"])
def test_parts_below_a_machine_of_the_writer_are_owned(head: str) -> None:
    listing = read(f"{head}\n* EPYC 7302P\n* Supermicro H12SSL-i\n* 8x 64GB DDR4-3200 RDIMM\n* RTX 3090")
    assert all(line.usd == 0.0 for line in listing.bill)
    assert not any("each" in note for note in listing.notes)


@pytest.mark.parametrize(
    ("beside", "socket", "is_named"),
    [
        ("ASUS Prime X299-A, 64GB DDR4", "LGA2066", False),
        ("Gigabyte TRX50 AERO D, 128GB DDR5 RDIMM", "sTR5", False),
        ("64GB DDR4", "LGA2066", True),
        ("128GB DDR5", "sTR5", True),
        ("128GB", "sTR5", True),
    ],
)
def test_a_number_of_two_cpus_is_read_by_board_memory_and_age(
    beside: str, socket: str, is_named: bool
) -> None:
    listing = read(f"7960X, {beside}, RTX 3090, 1000W PSU")
    assert listing.machine.cpu is not None
    assert listing.machine.cpu.series.socket == socket
    assert any("name the board or the family" in note for note in listing.notes) is is_named


@pytest.mark.parametrize("family", ["Core i9-7960X", "Threadripper 7960X"])
def test_a_family_tells_which_cpu_a_number_means(family: str) -> None:
    listing = read(f"{family}, RTX 3090, 1000W PSU")
    assert listing.machine.cpu is not None
    assert family.split("-")[0].split()[0] in listing.machine.cpu.name
    assert not any("name the board or the family" in note for note in listing.notes)


@pytest.mark.parametrize(
    "row",
    [
        "For DeepSeek V3.1 Q4, one user",
        "Goal: Qwen3-32B and gpt-oss-20b for two people",
        "Want to run Llama 3.3 70B on it",
        "Für Llama 3.3 70B, zwei Nutzer",
    ],
)
def test_a_row_that_says_what_a_machine_is_for_names_no_part(row: str) -> None:
    plain = "RTX 3090\nRyzen 9 5950X\nMSI B550-A PRO\n64GB DDR4"
    names = [line.name for line in read(plain).bill]
    assert [line.name for line in read(f"{plain}\n{row}").bill] == names
    assert not read(f"{plain}\n{row}").unknown


@pytest.mark.parametrize("kind", ["4x32", "2x48", "8 x 16"])
def test_modules_behind_their_label_need_no_unit(kind: str) -> None:
    memory = read(f"RAM: {kind} Corsair 3200\nRyzen 9 5950X").machine.memory
    assert memory is not None
    num, size = map(int, kind.split("x"))
    assert memory.capacity_bytes == num * size * 2**30


@pytest.mark.parametrize(
    "count", ["RX 7900 XTX Sapphire Pulse x2", "RTX 3090 $700 x2", "2*3090 24GB", "8*2080ti 22G"]
)
def test_a_number_of_pieces_is_read_wherever_it_stands(count: str) -> None:
    cards = read(f"{count}\nRyzen 9 5950X").machine.cards
    assert cards is not None
    assert cards.num == (8 if count.startswith("8") else 2)


OWNED_LABELS = (
    "Currently own",
    "Currently have",
    "What I have now",
    "What I already have",
    "Was ich schon habe",
    "Ce que j'ai",
    "Lo que tengo",
    "Quello che ho",
    "已有",
)


@pytest.mark.parametrize("label", OWNED_LABELS)
@pytest.mark.parametrize("joint", [" ", "\n"])
def test_what_stands_behind_a_label_of_having_costs_nothing(label: str, joint: str) -> None:
    parts = ", ".join(("Ryzen 9 9950X3D", "RTX 3090 Ti FE", "Corsair HX1500i"))
    listing = read(f"{label}:{joint}{parts}\nAdding: RTX 5090")
    cards = [line for line in listing.bill if line.category == "gpu"]
    assert all(line.usd == 0.0 for line in listing.bill if line.category != "gpu")
    assert [line.usd == 0.0 for line in cards] == [True, False]


COUNTS = ("x2块", "x2枚", "×2個", "x2 шт", "x2개", "x2 Stk", "x2 pcs", "2颗", "x2")
DRIVES = ("SATAx4", "SATAx4块", "SATA x4", "SSDx4", "NVMex4")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["RTX 3090", "Xeon Platinum 8168"])
def test_a_number_of_pieces_counts_with_the_word_for_pieces_of_any_language(count: str, name: str) -> None:
    listing = read(f"{name} {count}\n64GB DDR4")
    cards = sum(line.quantity for line in listing.bill if line.category == "gpu")
    assert max(cards, listing.num_cpus) == 2


@pytest.mark.parametrize("word", DRIVES)
def test_a_number_of_pieces_glued_to_a_word_counts(word: str) -> None:
    assert read(f"RTX 3090\nSamsung 870 EVO 4TB {word}").bill[1].quantity == 4


@pytest.mark.parametrize("each", ["1枚", "1個", "1台", "1 Stück", "1 pc", "each"])
def test_a_number_of_pieces_and_the_price_of_one_stand_in_one_row(each: str) -> None:
    line = read(f"GPU: RTX 5090 ×2 {each} $2,800").bill[0]
    assert (line.quantity, line.usd) == (2, 5_600.0)
