"""Lists within sentences, carts and files of other programs: each names its parts, and nothing else becomes one."""

import json
from pathlib import Path

import pytest

from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listing, read_listings

BOOK = price_book()


def read(text: str, folder: Path, name: str = "list.txt") -> Listing:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_listing(path, BOOK)


def parts_of(listing: Listing) -> list[tuple[str, int]]:
    return [(line.category, line.quantity) for line in listing.bill]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # A price in a sentence is that of the part before it.
        (
            "HP Z840 (bought for $320 with dual E5-2680 v4 and 128GB ECC)\n3x Tesla P100 16GB PCIe, $90 each\n",
            [("board", 1), ("cpu", 2), ("ram", 1), ("gpu", 3)],
        ),
        # Words behind a card's number are its edition, whatever else bears them.
        ("EVGA RTX 3090 FTW3 Ultra\nRyzen 7 5700X\n", [("gpu", 1), ("cpu", 1)]),
        # Carts write the number before the price of each.
        (
            "RTX 5070 Ti 16GB OC    2 x 879,00 €\nAMD Ryzen 9 9900X    1 x 379,00 €\n",
            [("gpu", 2), ("cpu", 1)],
        ),
        (
            "EPYC 9135*2, 24*48G DDR5 6400, 4090 24G, 1600W",
            [("cpu", 2), ("ram", 1), ("gpu", 1), ("psu", 1)],
        ),
        ("4x5060ti16gb, 128gb ecc ddr4, mining frame", [("gpu", 4), ("ram", 1), ("case", 1)]),
        (
            "epyc 7302p + 5x 3090 + 2x evga 1300 gt in open frame. all cards at 270W",
            [("cpu", 1), ("gpu", 5), ("psu", 2), ("case", 1)],
        ),
        # A language model ahead of a part is none, and hides no count.
        (
            "Is it possible to run deepseek r1 671b q4 on dual EPYC 9124 with 768GB DDR5-4800?",
            [("cpu", 2), ("ram", 1)],
        ),
        (
            "2x RTX 3090\nThreadripper 3970X\nThe GPUs are in the third and fourth slots, which on this board are x8.",
            [("gpu", 2), ("cpu", 1)],
        ),
        (
            "EPYC 7F52 - 16c/32t ($210)\n4 x MI50 32GB\nNext step is trying vLLM with the gfx906 fork.",
            [("cpu", 1), ("gpu", 4)],
        ),
        ("**Parts so far**\n- [x] Ryzen 9 7900 ~~7950X~~\n- [x] Lancool 216\n", [("cpu", 1), ("case", 1)]),
        ("显卡：2080Ti 22G ×4（涡轮）\n机架：开放式矿架\n", [("gpu", 4), ("case", 1)]),
        (
            "5900X/X570 Unify/64GB/HX1000i/3090",
            [("cpu", 1), ("board", 1), ("ram", 1), ("psu", 1), ("gpu", 1)],
        ),
        ("9950X, 2x48 G.Skill 6400, RM1000x", [("cpu", 1), ("ram", 1), ("psu", 1)]),
        ("Keep the i5-13600K, drop the 3070, and put in two 5060 Ti 16GB.", [("cpu", 1), ("gpu", 2)]),
        (
            "4x Titan Xp, E5-2699 v3, EVGA 1600 P2. All 4 cards water cooled.",
            [("gpu", 4), ("cpu", 1), ("psu", 1)],
        ),
        ("CPU\t1\tEPYC 9655P\t$5,500\nRAM\t8\t96GB DDR5-6400 RDIMM\t$550\n", [("cpu", 1), ("ram", 8)]),
        (
            "Ktransformers says one 4090 is enough. Was thinking dual Xeon Gold 6430 + 4090 24GB",
            [("cpu", 2), ("gpu", 1)],
        ),
        (
            "4x 3060 12gb, 1950X, open rig with risers",
            [("gpu", 4), ("cpu", 1), ("case", 1), ("riser", 4)],
        ),
        ("i7 7700k\n500gb 860 evo\n", [("cpu", 1), ("storage", 1)]),
        ("sold my 4080, now have a 5090 FE + 9950X3D + Hyte Y70", [("gpu", 1), ("cpu", 1), ("case", 1)]),
        ("my brother has a dgx spark and is happy. i have a 7950x3d and a 4090", [("cpu", 1), ("gpu", 1)]),
    ],
)
def test_a_list_names_its_parts_and_nothing_else(
    text: str, parts: list[tuple[str, int]], tmp_path: Path
) -> None:
    listing = read(text, tmp_path)
    assert parts_of(listing) == parts
    assert not listing.unknown


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("4x 2080 Ti 22GB, i9-10900X. Thinking of replacing two of the 2080 Tis with a 5090.", {"gpu": 3}),
        ("8x Tesla T4 in a Gigabyte G292-Z20. Thinking about swapping the T4s for 4x A6000", {"gpu": 4}),
        ("8x Tesla T4 in a Gigabyte G292-Z20. Thinking about swapping one T4 for an A6000", {"gpu": 8}),
        ("2x E5-2680 v4, 8x P40. planning to swap P40s for 3090 turbos", {"gpu": 8}),
    ],
)
def test_a_swap_takes_as_many_cards_as_it_says(text: str, parts: dict[str, int], tmp_path: Path) -> None:
    listing = read(text, tmp_path)
    assert sum(line.quantity for line in listing.bill if line.category == "gpu") == parts["gpu"]


def test_the_sum_of_a_question_is_no_price_of_a_part(tmp_path: Path) -> None:
    listing = read(
        "7950X3D and a 4090, what's the best upgrade for under $2500 to run glm 4.5 air?", tmp_path
    )
    assert listing.upgrade_usd == 2500.0
    assert not any(line.usd for line in listing.bill)


def test_pasted_text_is_read_as_a_file_of_it(tmp_path: Path) -> None:
    text = "GPU 1\tRTX 3090\t$650\nGPU 2\tRTX 3090\t$650\nCPU\tRyzen 7 5700X\t$130\nTotal\t\t$1,430\n"
    ((_, pasted),) = read_listings(None, BOOK, pasted=text)
    assert pasted.bill == read(text, tmp_path).bill


@pytest.mark.parametrize(
    "names", [("type", "name", "qty", "price"), ("category", "product", "quantity", "price_usd")]
)
def test_fields_of_json_bear_the_names_of_columns(names: tuple[str, ...], tmp_path: Path) -> None:
    parts = [("GPU", "RTX 5070 Ti", 2, 1500), ("Motherboard", "ASUS ProArt X870E-Creator", 1, 479)]
    rows = [dict(zip(names, part, strict=True)) for part in parts]
    listing = read(json.dumps({"parts": rows}), tmp_path, "list.json")
    assert parts_of(listing) == [("gpu", 2), ("board", 1)]
    assert listing.total_usd == 1979.0


def test_the_memory_of_a_laptop_is_in_its_price_and_holds_layers(tmp_path: Path) -> None:
    listing = read("Lenovo Legion Pro 7i, i9-14900HX, RTX 4090 Laptop 16GB, 32GB DDR5-5600", tmp_path)
    assert listing.system is not None
    assert listing.machine.memory is not None
    assert {line.category: line.unit_price_usd for line in listing.bill} == {
        "cpu": 0.0,
        "system": None,
        "ram": 0.0,
    }


@pytest.mark.parametrize("circuit", ["120V 20A", "20A 120V", "20 amp 120 V"])
def test_a_circuit_is_read_in_either_order(circuit: str, tmp_path: Path) -> None:
    listing = read(f"2x RTX 5090, 9950X, plugged into a {circuit} circuit", tmp_path)
    assert listing.circuit is not None
    assert (listing.circuit.volts, listing.circuit.amps) == (120.0, 20.0)
    assert not listing.unknown


ASIDE = (
    "Die Anschaffungskosten für die gebrauchte Hardware betragen in Summe 1550 €.",
    'Con Flux.1 dev en ComfyUI me sale "CUDA out of memory".',
    "¿Qué cambio primero con 800 €: la RAM o la tarjeta?",
    "Does gpt-oss-120b fit with 128K context?",
    "64 Xeon-Kerne, 32 cores.",
)


@pytest.mark.parametrize("text", ASIDE)
def test_a_sentence_that_names_no_part_adds_none(text: str, tmp_path: Path) -> None:
    plain = "RTX 3060 12GB, 32 GB DDR4-3600, placa B550, 2 redundante 2 kW-Netzteile."
    listing = read(f"{plain} {text}", tmp_path)
    assert parts_of(listing) == [("gpu", 1), ("ram", 1), ("board", 1), ("psu", 2)]
    assert not listing.unknown


def test_the_price_of_a_machine_before_a_question_is_kept(tmp_path: Path) -> None:
    text = "We paid $2,300 for a 96 GB GMKtec EVO-X2. Does gpt-oss-120b fit with 128K context?"
    assert read(text, tmp_path).total_usd == 2300.0
