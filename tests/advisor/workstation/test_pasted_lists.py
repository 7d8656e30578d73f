"""Laws of whole lists as people paste them: every part is read, and a fault is one that a builder would name."""

from pathlib import Path

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.knee import speed_of
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.upgrades import best_upgrades
from advisor.workstation.verdict import Verdict, judge_listing


def read(text: str) -> Listing:
    return read_listing(None, price_book(), [text])


def verdict_on(text: str, model: str = "qwen3-14b") -> Verdict:
    question = Question(MachineLoad(models.get(model).record))
    return judge_listing(read(text), question, price_book(), better=False)


def faults_in(text: str) -> dict[str, str]:
    return {check.rule: check.verdict for check in verdict_on(text).build.checks if not check.passed}


SERVER = "board cpu ram psu"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "Dell R730, 2x E5-2680 v4, 128GB DDR4 ECC, dual 1100W PSUs. 1TB SATA SSD. For 70B Q4.",
            SERVER + " storage",
        ),
        ("HP Z8 Fury G5 - Xeon w9-3475X - 256GB DDR5 (8x32) - 2x RTX 6000 Ada - 2250W PSU", SERVER + " gpu"),
        ("Dell R730XD 2x E5-2699v4 22 core 768GB (24x32GB) DDR4-2400 LRDIMM 2x750W PSU", SERVER),
        ("Dell R740XD 2x Platinum 8168, 768GB DDR4, 2x 1100W, H740P, 2x L40S", SERVER + " gpu other"),
        (
            "used Dell T3620 i7-6700 16GB, 290W PSU + Tesla M40 24GB with 3D printed fan",
            SERVER + " gpu other",
        ),
        (
            "9900X, ProArt X870E-Creator, 2 x 48 GB DDR5-6000, 1000W Gold, eine 2 TB WD SN850X",
            SERVER + " storage",
        ),
        (
            "i5-10400, H510M, 16GB DDR4 2666, 450W bronze, GTX 1650 4GB. Will my PSU handle it?",
            SERVER + " gpu",
        ),
        (
            "X11DPG-QT, Gold 6248, 12x 32G DDR4 RECC, 2000W PSU, 4x V100 SXM2 32GB 带NVLink底板",
            SERVER + " gpu bridge",
        ),
        ("EPYC 7402P, ROMED6U-2L2T, 6x32GB RDIMM, 1500W Gold, 1TB 970 EVO Plus", SERVER + " storage"),
    ],
)
def test_every_part_of_a_pasted_line_is_read(text: str, kinds: str) -> None:
    listing = read(text)
    assert {line.category for line in listing.bill} == set(kinds.split())
    assert not listing.unknown


@pytest.mark.parametrize(
    ("text", "modules", "gib"),
    [
        ("RAM: 金百达 32GB (16Gx2) DDR5 6000", 2, 16),
        ("RAM: 64GB (32GB x 2) DDR5", 2, 32),
        ("RAM: 32GB x 4 DDR4", 4, 32),
        ("RAM: 12*16G 2933 ECC", 12, 16),
    ],
)
def test_a_number_behind_a_size_counts_modules(text: str, modules: int, gib: int) -> None:
    memory = read(text).machine.memory
    assert memory is not None
    assert (memory.num_modules, memory.kit.module_bytes / 2**30) == (modules, gib)


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("2x NVIDIA DGX Spark 128GB, connected via QSFP112 DAC cable $8,000", [8000.0, 0.0]),
        ("Carte: Gainward GeForce RTX 5060 Ti 16 Go 469€95", [None]),
    ],
)
def test_a_price_behind_the_last_piece_is_that_of_the_whole(text: str, usd: list[float | None]) -> None:
    bill = read(text).bill
    assert [line.usd if line.price_basis == "user" else None for line in bill] == usd


def test_a_part_that_an_export_repeats_counts_as_often(tmp_path: Path) -> None:
    row = "**Video Card** | [PNY VCNRTX6000ADA-PB RTX 6000 Ada Generation 48 GB Video Card](x) | $6999.00\n"
    path = tmp_path / "list.md"
    path.write_text(row * 2 + "**Case** | [Phanteks Enthoo Pro 2 ATX Full Tower Case](x) | $169.99\n")
    first = read_listing(path, price_book()).bill[0]
    assert (first.quantity, first.usd) == (2, 13998.0)


def test_the_only_price_in_a_title_is_that_of_all_parts(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(
        "Selling: AI rig, $2,900 OBO\nEPYC 7402P\nROMED6U-2L2T\n6x 32GB RDIMM\n3x RTX 3090\nHX1500i\n"
    )
    assert read_listing(path, price_book()).total_usd == 2900.0


def test_a_row_that_names_a_part_by_its_kind_alone_keeps_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("Component,Model,Qty,Cost\nGPU,RTX 3090,2,$1300\nAdd2PSU,,1,$10\n")
    bill = read_listing(path, price_book()).bill
    assert [(line.category, line.usd) for line in bill] == [("gpu", 1300.0), ("link", 10.0)]


def test_each_machine_of_a_choice_has_the_parts_ahead_of_the_question() -> None:
    host = "HP Z440, E5-2697 v3, 128GB ECC, 700W."
    text = f"{host} Which is better, a used 3090 for $750 or 2x 5060 Ti 16GB at $430 each?"
    listings = [listing for _, listing in read_listings(None, price_book(), [text])]
    assert [listing.machine.board is not None for listing in listings] == [True, True]
    assert [one.usd for listing in listings for one in listing.bill if one.category == "gpu"] == [
        750.0,
        860.0,
    ]


@pytest.mark.parametrize(
    ("question", "usd"),
    [
        ("What should I buy next for $1,200?", 1200.0),
        ("What should I upgrade first? Budget $900", 900.0),
        ("What is the best upgrade for under $1500?", 1500.0),
        ("What should I upgrade first?", 0.0),
        ("Will it run a 70B?", None),
    ],
)
def test_a_question_for_the_next_part_states_its_sum(question: str, usd: float | None) -> None:
    assert read(f"Ryzen 9 7950X, RTX 4090, 96GB DDR5, 1000W Gold. {question}").upgrade_usd == usd


def test_next_parts_make_the_machine_faster_for_no_more_than_the_sum() -> None:
    listing = read("Ryzen 7 5800X, B550 Tomahawk, 32GB DDR4-3200, RTX 3060 12GB, 750W Gold")
    question = Question(MachineLoad(models.get("qwen3-32b").record))
    upgrades = best_upgrades(listing, question, price_book(), 900.0)
    present = judge_listing(listing, question, price_book(), better=False).build
    assert upgrades.builds
    for build in upgrades.builds:
        assert build.total_usd <= 900.0
        assert speed_of(build) > speed_of(present)


@pytest.mark.parametrize(
    "purse",
    [
        ". $450 to spend, want to go beyond 14B models",
        " and $450",
        " and about $450 to spend",
        ", $450 left",
        ". I've got $450 saved up",
        ". I can spend up to $450 on upgrades",
        ". I have another $450 to invest",
        "\n$450 available",
    ],
)
@pytest.mark.parametrize(
    "wish", ["What first?", "What should I upgrade first?", "Where do I start?", "What's the best upgrade?"]
)
@pytest.mark.parametrize("price", ["", " $200, Corsair 4000D"])
def test_money_to_spend_is_the_price_of_no_part(purse: str, wish: str, price: str) -> None:
    parts = f"i5-12400F, B660M Pro RS, 16GB DDR4, 550W PSU, RTX 3060 12GB{price}"
    listing = read(f"{parts}{purse}. {wish}")
    assert listing.upgrade_usd == 450.0
    stated = sum(line.unit_price_usd or 0.0 for line in listing.bill if line.price_basis == "user")
    assert stated == (200.0 if price else 0.0)
    assert not listing.unknown


@pytest.mark.parametrize(
    "parts",
    [
        "Ryzen 5 5600 and 2x RTX 3090 $1400",
        "Ryzen 5 5600, 2x RTX 3090 for $700 and $700",
        "Ryzen 5 5600, RTX 3090 $1400",
    ],
)
def test_a_price_behind_a_part_stays_its_price(parts: str) -> None:
    listing = read(f"{parts}. What should I upgrade first?")
    assert listing.upgrade_usd == 0.0
    assert listing.total_usd > 0.0


@pytest.mark.parametrize(
    ("text", "model", "usd"),
    [
        ("i5-6600K, 32GB DDR4, GTX 1080, 850W Gold", "qwen3-14b", 500.0),
        ("i5-13600K, 32GB DDR5, RTX 4070 Super, 750W gold", "qwen3-32b", 800.0),
        ("RTX 3090, Ryzen 5 5600, B550 board, 32GB DDR4, 850W gold", "70b", 1200.0),
    ],
)
def test_the_next_part_for_a_model_that_exceeds_the_card_is_a_card(text: str, model: str, usd: float) -> None:
    question = Question(MachineLoad(models.get(model).record))
    best = best_upgrades(read(text), question, price_book(), usd).builds[0]
    bought = {line.category for line in best.parts if line.unit_price_usd}
    assert "gpu" in bought
    assert bought <= {"gpu", "bridge", "psu"}


def test_a_better_machine_is_faster_than_a_list_that_works() -> None:
    text = "i7-9700K, Z390 Aorus Pro, 32GB DDR4-3000, RTX 3090, EVGA 850 G3"
    question = Question(MachineLoad(models.get("70b").record))
    verdict = judge_listing(read(text), question, price_book(), better=True)
    assert verdict.better is None or speed_of(verdict.better) > speed_of(verdict.build)
    assert verdict.better is not None or verdict.why_no_better


@pytest.mark.parametrize("more", ["RTX 3060 12GB", "RTX 5080", "RX 7900 XTX"])
def test_another_card_never_makes_a_machine_slower(more: str) -> None:
    host = "Ryzen 9 5900X, B550 board, 64GB DDR4, 1600W Gold, 2x RTX 3090"
    alone, both = (verdict_on(text, "qwen3-32b").build.performance for text in (host, f"{host}, {more}"))
    assert alone is not None
    assert both is not None
    assert both.decode_tokens_per_s.value >= 0.99 * alone.decode_tokens_per_s.value


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        # 590 W behind 650 W that stand peaks: builders run it.
        (
            "i7-12700K, Z690 DDR4 board, 64gb ddr4 3200, 2x rtx 3060 12gb, 650w gold",
            {"psu-headroom": "advice"},
        ),
        # Risers of one lane work, and load slowly.
        (
            "B250 Mining Expert, i3-7100, 2x8GB DDR4-2400, 6x RTX 3060 12GB, 6x USB risers, 1600W, open frame",
            {"riser-lanes": "advice"},
        ),
        (
            "CSE-745 case, X11DPi-N, Xeon Gold 6230, 192GB RDIMM, 2x Tesla T4, 750W",
            {"card-cooling": "unknown"},
        ),
        ("Mac mini M4 16GB + Razer Core X Chroma + RTX 4090", {"external-card": "broken"}),
    ],
)
def test_a_fault_is_as_grave_as_a_builder_takes_it(text: str, verdicts: dict[str, str]) -> None:
    found = faults_in(text)
    assert verdicts.items() <= found.items()
    assert {rule for rule, verdict in found.items() if verdict == "broken"} <= set(verdicts)


def test_a_card_in_a_dock_beside_a_laptop_counts() -> None:
    laptop = "Razer Blade 16 (RTX 4090 laptop 16GB, 64GB RAM)"
    build = verdict_on(f"{laptop} + Razer Core X with RTX 3090", "qwen3-32b").build
    assert build.performance is not None


def test_a_laptop_runs_on_its_cpu_what_its_card_does_not_hold() -> None:
    build = verdict_on("Legion 5 Pro: Ryzen 7 5800H, RTX 3070 8GB, 32GB DDR4-3200").build
    assert build.performance is not None
    assert "CPU" in build.performance.run.split


PARTS_OF_A_CART = """AMD Ryzen 9 9900X 12-Core Processor $379.00
MSI MAG X870 Tomahawk WiFi $279.99
Corsair Vengeance 64GB (2x32GB) DDR5-6000 $189.99
ASUS TUF Gaming GeForce RTX 5090 32GB $2,599.00
Corsair RM1200x Shift $229.99"""


@pytest.mark.parametrize(
    "row",
    [
        "Bekijk collectie",
        "Order # 112-4839201-8837261",
        "Besteld op 12 november 2026",
        "Add to wishlist",
        "Voir plus d'articles similaires",
        "Lagernd, Lieferzeit 1-3 Tage",
        "Delivered 14/11/2026 at 10:32 pm",
        "4.6 out of 5 stars",
        "Récapitulatif de la commande n° 20261112-99231",
    ],
)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_row_of_a_shop_that_names_no_part_is_no_fault_and_has_no_price(row: str, place: int) -> None:
    rows = PARTS_OF_A_CART.splitlines()
    pasted = "\n".join((*rows[:place], row, *rows[place:]))
    (_, listing), *others = read_listings(None, price_book(), (), pasted)
    (_, bare), *_ = read_listings(None, price_book(), (), PARTS_OF_A_CART)
    assert not others
    assert not listing.unknown
    assert [(line.name, line.usd) for line in listing.bill] == [(line.name, line.usd) for line in bare.bill]


@pytest.mark.parametrize("row", ["Aorus Foo X9000", "XR-500 Zeta", "Warp drive MK7"])
def test_a_row_with_the_number_of_a_model_is_named_as_unknown(row: str) -> None:
    (_, listing), *_ = read_listings(None, price_book(), (), f"{PARTS_OF_A_CART}\n{row}")
    assert listing.unknown or any(row in one for one in listing.unjudged)


@pytest.mark.parametrize(
    "headings",
    [("Option A:", "Option B:"), ("Build 1 -", "Build 2 -"), ("## Rig #1\n", "## Rig #2\n"), ("A)", "B)")],
)
@pytest.mark.parametrize("between", ["\n\n", "\n"])
def test_each_list_of_a_text_with_headings_is_read_as_its_own(
    headings: tuple[str, str], between: str
) -> None:
    first = "2x RTX 3090, Ryzen 9 5900X, B550 board, 64GB DDR4, 1200W PSU"
    second = "RTX 5090, Ryzen 9 9900X, X870 board, 64GB DDR5, 1000W PSU"
    pasted = f"{headings[0]} {first}{between}{headings[1]} {second}\nWhich one for 70B?"
    found = read_listings(None, price_book(), (), pasted)
    alone = [read_listings(None, price_book(), (), text)[0][1] for text in (first, second)]
    assert [name for name, _ in found] == [heading.strip("#:-) \n").strip() for heading in headings]
    assert [one.machine for _, one in found] == [one.machine for one in alone]


def test_a_numbered_list_of_parts_is_one_machine() -> None:
    pasted = "1) RTX 3090\n2) Ryzen 9 5900X\n3) 64GB DDR4\n4) 1000W PSU\nGPU 1: RTX 3090\nStorage 1: 2TB NVMe"
    assert len(read_listings(None, price_book(), (), pasted)) == 1


@pytest.mark.parametrize("num", [2, 4, 8])
@pytest.mark.parametrize("each", ["$95 ea", "$95 each", "@ $95", "$95/ea", "$95 apiece"])
def test_a_price_of_each_of_a_kit_of_modules_is_that_of_one_module(num: int, each: str) -> None:
    (line,) = read(f"{num}x32GB DDR4-3200 RDIMM - {each}").bill
    assert line.usd == 95 * num
    (line,) = read(f"{num} x 32GB DDR4-3200 RDIMM {each}").bill
    assert line.usd == 95 * num


def test_a_price_of_several_kits_is_of_a_kit_if_it_is_of_each() -> None:
    (line,) = read("2x 64GB (2x32GB) DDR5-6000 $300 each").bill
    assert line.usd == 600


@pytest.mark.parametrize(
    ("name", "num", "usd"),
    [
        ("32GB DDR5-5600 ECC RDIMM", 8, 389.0),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition 96GB", 2, 8565.0),
        ("RTX 3090", 4, 750.0),
        ("Samsung 990 PRO 4TB", 2, 379.0),
    ],
)
def test_a_quote_states_the_price_of_one_behind_a_labelled_number(name: str, num: int, usd: float) -> None:
    (line,) = read(f"{name}, qty {num}, ${usd:,.2f}").bill
    assert (line.quantity, line.usd) == (num, num * usd)
    (line,) = read(f"{name}, qty {num}, ${usd * num:,.2f} total").bill
    assert line.usd == num * usd


def test_the_price_of_a_whole_server_below_its_row_is_not_that_of_its_last_part() -> None:
    server = "Dell PowerEdge R730 | 2x Xeon E5-2690 v4 | 256GB (8x 32GB) DDR4 ECC RDIMM | 2x 750W PSU | rails"
    for price in ("US $549.00", "US $549.00 + $89.00 shipping", "$549"):
        (_, listing), *_ = read_listings(None, price_book(), (), f"{server}\n{price}\n2x Tesla P40 $260 each")
        assert listing.total_usd == 549 + 2 * 260
        assert not listing.unknown
        assert not any("left out" in note for note in listing.notes)


@pytest.mark.parametrize(
    "title", ["old rig off craigslist, $900 for the lot:", "$900 takes it all", "Total: $900"]
)
def test_the_price_of_a_lot_is_that_of_all_its_parts(title: str) -> None:
    rows = "6x RTX 3060 12GB\nCeleron G3930\n8GB DDR4\n2x EVGA 1000 GQ\nopen frame"
    (_, listing), *_ = read_listings(None, price_book(), (), f"{title}\n{rows}")
    assert listing.total_usd == 900


@pytest.mark.parametrize("shop", ["ebay", "amazon", "from ebay", "(newegg)", "fb marketplace"])
def test_a_shop_behind_a_price_is_no_part(shop: str) -> None:
    listing = read(f"EPYC 7532 (32c) - $230 {shop}")
    assert [(line.category, line.usd) for line in listing.bill] == [("cpu", 230)]


def test_models_in_a_bracket_are_those_of_the_cards_before_it() -> None:
    listing = read("4x RTX 3090 (2 FE, 1 EVGA FTW3, 1 Zotac Trinity) $750 each used")
    assert [(line.quantity, line.usd) for line in listing.bill] == [(2, 1500), (1, 750), (1, 750)]
    cards = listing.machine.cards
    assert cards is not None
    assert [card.manufacturer.upper() for card in cards.cards] == ["NVIDIA", "NVIDIA", "EVGA", "ZOTAC"]
    mixed = read("6x RTX 3060 12GB (Gigabyte Eagle and MSI Ventus mix)")
    assert [(line.category, line.quantity) for line in mixed.bill] == [("gpu", 6)]


@pytest.mark.parametrize(
    ("words", "volts", "amps"),
    [
        ("It's on a normal 15A bedroom outlet.", 120, 15),
        ("on a shared 15 amp household circuit", 120, 15),
        ("from a regular 16A wall socket", 230, 16),
    ],
)
def test_a_circuit_is_read_with_words_between_its_amperes_and_its_kind(
    words: str, volts: int, amps: int
) -> None:
    (_, listing), *_ = read_listings(
        None, price_book(), (), f"2x RTX 3090, 5950X, 64GB DDR4, 1200W PSU. {words}"
    )
    assert listing.circuit is not None
    assert (listing.circuit.volts, listing.circuit.amps) == (volts, amps)


@pytest.mark.parametrize(
    ("prices", "total"),
    [
        (("€ 279,00", "€ 1.179,90"), "1,458.90 EUR"),
        (("£279", "£1,179.90"), "1,458.90 GBP"),
        (("279€95", "1 199€95"), "1,479.90 EUR"),
    ],
)
def test_prices_in_another_currency_are_summed_and_not_converted(prices: tuple[str, str], total: str) -> None:
    pasted = f"Ryzen 5 5600 {prices[0]}\nRTX 3090 {prices[1]}"
    (_, listing), *_ = read_listings(None, price_book(), (), pasted)
    assert listing.foreign_total == total
    assert all(line.price_basis != "user" for line in listing.bill)
