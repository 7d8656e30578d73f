"""Remarks of lists: swaps, names that all cards share, the circuit, sums and columns."""

from pathlib import Path

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.assembly import Circuit, Setting
from advisor.workstation.card_names import find_card_name
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.verdict import judge_listing

BOOK = price_book()
REST = "Ryzen 5 5600, B550 Tomahawk, 32GB DDR4 3600, RM750x"


def read(text: str, folder: Path, name: str = "list.txt") -> Listing:
    path = folder / name
    path.write_text(text)
    return read_listing(path, BOOK)


def accelerators_of(listing: Listing) -> tuple[str, ...]:
    assert listing.machine.cards is not None
    return tuple(sorted(card.accelerator for card in listing.machine.cards.cards))


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (
            "Thinking about swapping the 3060 for a 3090 in my current PC: {rest}, RTX 3060 12GB",
            ("rtx-3090",),
        ),
        ("Planning to go from a 3060 to 2x 5070 Ti. Current rig: {rest}, RTX 3060", ("rtx-5070-ti",) * 2),
        ("I replaced my 3060 with two 3090s: {rest}", ("rtx-3090",) * 2),
        ("Swap the CX550 for a RM750e and add a 3060 12GB? {rest}", ("rtx-3060-12gb",)),
    ],
)
def test_a_swap_is_judged_after_it(words: str, after: tuple[str, ...], tmp_path: Path) -> None:
    listing = read(words.format(rest=REST), tmp_path)
    assert accelerators_of(listing) == after
    assert listing.machine.cpu is not None
    assert listing.machine.cpu.name == "AMD Ryzen 5 5600"
    assert not listing.unknown
    assert any("in place of" in note for note in listing.notes)


@pytest.mark.parametrize("old", ["Quadro M4000", "FirePro W7100", "Matrox G200", "RTX 2070"])
@pytest.mark.parametrize(
    ("new", "usd"),
    [
        ("an EVGA RTX 3090 Ti FTW3 Ultra ($700 used)", 700.0),
        ("an MSI RTX 4060 Ti 16GB Gaming X ($430)", 430.0),
        ("a used RTX 3090 at $800", 800.0),
    ],
)
def test_a_replaced_card_leaves_the_list_whether_a_record_has_it_or_not(
    old: str, new: str, usd: float, tmp_path: Path
) -> None:
    listing = read(f"{REST} - $400\nReplacing the {old} with {new}.\nHow fast is qwen3-32b?", tmp_path)
    assert len(accelerators_of(listing)) == 1
    assert not listing.unknown
    assert [line.unit_price_usd for line in listing.bill if line.category == "gpu"] == [usd]
    assert listing.total_usd == 400.0 + usd


@pytest.mark.parametrize("remark", ["(all 3090)", "- all 3090s", "(both are 3090)"])
def test_a_name_that_all_cards_share_is_that_of_each(remark: str, tmp_path: Path) -> None:
    listing = read(f"2x Founders Edition + 1x Zotac Trinity {remark}\nRyzen 9 5950X\n", tmp_path)
    assert accelerators_of(listing) == ("rtx-3090",) * 3
    assert not listing.unknown


def test_a_circuit_in_the_list_counts_unless_the_question_states_one(tmp_path: Path) -> None:
    listing = read("4x RTX 3090, EPYC 7532, ROMED8-2T, 1600W gold. Runs on 208v 30A\n", tmp_path)
    assert listing.circuit == Circuit(208.0, 30.0)
    assert not listing.unknown
    load = MachineLoad(models.get("8b").record)

    def verdict_of_circuit(setting: Setting) -> str:
        checks = judge_listing(listing, Question(load, setting=setting), BOOK, better=False).build.checks
        return next(check.verdict for check in checks if check.rule == "circuit")

    assert verdict_of_circuit(Setting()) == "ok"
    assert verdict_of_circuit(Setting(circuit=Circuit(120.0, 12.0))) == "broken"


@pytest.mark.parametrize(
    ("place", "setting", "expected"),
    [
        ("", Setting(), "advice"),
        ("", Setting(circuit=Circuit(120.0, 15.0)), "broken"),
        ("", Setting(circuit=Circuit(230.0, 16.0)), "ok"),
        (" Plugged into a 120V 15A outlet", Setting(), "broken"),
    ],
)
def test_only_a_circuit_that_is_stated_breaks_a_list(
    place: str, setting: Setting, expected: str, tmp_path: Path
) -> None:
    listing = read(f"4x RTX 3090, EPYC 7532, ROMED8-2T, 2000W platinum PSU.{place}\n", tmp_path)
    question = Question(MachineLoad(models.get("8b").record), setting=setting)
    checks = judge_listing(listing, question, BOOK, better=False).build.checks
    circuit = next(check for check in checks if check.rule == "circuit")
    assert circuit.verdict == expected
    assert ("assumed" in circuit.why) == (expected == "advice")


@pytest.mark.parametrize(
    ("text", "is_module"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("H200 141GB HBM3e", True),
        ("NVIDIA H100 80GB HBM2e", False),
        ("A100 80GB HBM2e", False),
        ("NVIDIA H100 NVL 94GB HBM3", False),
        ("RTX 3090 24GB GDDR6", False),
    ],
)
def test_a_kind_of_memory_that_no_card_has_means_the_module(text: str, is_module: bool) -> None:
    found = find_card_name(text)
    assert found is not None
    assert found.is_module == is_module
    assert bool(found.accelerators) != is_module


@pytest.mark.parametrize("last", ["$24,995", "All in about $24,995", "Asking $24,995", "Total: $24,995"])
def test_the_only_price_at_the_end_is_that_of_all_parts(last: str, tmp_path: Path) -> None:
    rows = ("2x RTX 6000 Ada", "Threadripper PRO 7965WX", "256GB DDR5 ECC (8x32GB)", "1500W PSU", last)
    listing = read("\n".join(rows), tmp_path)
    assert listing.total_usd == 24_995
    assert not listing.unknown
    assert listing.bill[0].usd == 24_995


@pytest.mark.parametrize(
    ("text", "category", "name"),
    [
        ("2x 7742 / 1TB 3200 / ROMED8-2T", "ram", "64 GB DDR4"),
        ("TR Pro 3995WX, 8x64GB, 2x RTX A6000", "ram", "8 x 64 GB"),
        ("Z10PE-D16 WS, dual 2697v3, 128GB", "cpu", "E5-2697 v3"),
        ("8x RTX 3090\nFrame: custom 2020 extrusion", "case", "frame for 8"),
        ("MI50 32GB x4, EPYC 7532, open rig", "case", "Open frame"),
    ],
)
def test_parts_by_their_figures_alone_are_read(text: str, category: str, name: str, tmp_path: Path) -> None:
    listing = read(text, tmp_path)
    assert any(line.category == category and name in line.name for line in listing.bill)


def test_a_power_limit_behind_a_comma_is_that_of_the_cards(tmp_path: Path) -> None:
    listing = read("3x RTX 3090, power limited to 250w, EPYC 7402, H12SSL-NT, 1500W gold", tmp_path)
    assert listing.machine.cards is not None
    assert listing.machine.cards.power_fraction == pytest.approx(250 / 350, abs=0.03)
    assert [line.category for line in listing.bill].count("psu") == 1


def test_a_column_of_prices_is_of_each_if_one_row_is_only_so_plausible(tmp_path: Path) -> None:
    rows = "Part,Model,Qty,Price\nGPU,RTX 3090,4,700\nRAM,32GB DDR4-2666 RDIMM,8,60\nCPU,EPYC 7302P,1,120\n"
    assert read(rows, tmp_path, "list.csv").total_usd == 4 * 700 + 8 * 60 + 120
    rows = rows.replace("4,700", "4,2800").replace("8,60", "8,480")
    assert read(rows, tmp_path, "list.csv").total_usd == 4 * 700 + 8 * 60 + 120


def test_a_row_without_the_first_columns_is_read_under_the_others(tmp_path: Path) -> None:
    rows = "Type,Part,Qty,Price\nCPU,Ryzen 9 5950X,1,275\nSamsung 990 Pro 2TB,2,300\nGPU,RTX 3090,1,700\n"
    listing = read(rows, tmp_path, "list.csv")
    assert [(line.category, line.quantity) for line in listing.bill] == [
        ("cpu", 1),
        ("storage", 2),
        ("gpu", 1),
    ]
    assert listing.total_usd == 1_275


def test_a_row_of_a_quote_has_the_number_and_the_price_of_all_pieces(tmp_path: Path) -> None:
    listing = read(
        "Qty Description Unit Ext\n24 64GB DDR5-5600 ECC RDIMM 410.00 9,840.00\n2 AMD EPYC 9355 3,400.00 6,800.00\n",
        tmp_path,
    )
    assert [(line.quantity, line.usd) for line in listing.bill] == [(24, 9_840), (2, 6_800)]


CIRCUITS = {
    "an open frame for the office (the room has one normal 120V 15A outlet):": (120.0, 15.0),
    "Schuko 16 A": (230.0, 16.0),
    "Steckdose mit 16A abgesichert": (230.0, 16.0),
    "NEMA 6-20 outlet": (240.0, 20.0),
    "the room has a 15 amp circuit": (120.0, 15.0),
    "My rig, on a 240V 15A circuit:": (240.0, 15.0),
    "a dedicated 20A circuit at 240V": (240.0, 20.0),
}


@pytest.mark.parametrize("words", CIRCUITS)
def test_a_circuit_is_read_wherever_words_state_it(words: str) -> None:
    rows = "- 2x RTX 3090\n- Ryzen 7 7700X\n- Corsair RM850x"
    for text in (f"{words}\n{rows}", f"{rows}\n{words}"):
        found = read_listings(None, price_book(), (), text)[0][1]
        assert found.circuit == Circuit(*CIRCUITS[words])
        assert len(found.bill) == 3


OUTLETS = (
    "家庭用の{volts}V {amps}Aコンセントで動きますか?",
    "{volts}V・{amps}Aのコンセント",
    "コンセントは{amps}A {volts}Vです",
    "家用插座是{volts}V {amps}A,够用吗?",
    "Reicht eine Steckdose mit {volts} V und {amps} A?",
    "Steckdose {volts} V {amps} A",
    "Steckdose {volts} Volt / {amps} Ampere",
    "une prise {volts} V {amps} A",
    "un enchufe de {volts} voltios {amps} amperios",
    "enchufe de {volts}V/{amps}A",
    "presa da {volts} V, {amps} A",
    "розетка {volts} В {amps} А",
    "розетка {volts} вольт, {amps} ампер",
    "Is a {amps}A {volts}V outlet enough?",
    "콘센트 {volts}V {amps}A",
)
VOLTS = (
    "{volts}Vのコンセントで動きますか?",
    "家庭用の{volts}V",
    "Reicht die Steckdose ({volts} V)?",
    "sur une prise {volts} V",
    "enchufe de {volts}V",
    "розетка {volts} В",
    "running on {volts} V",
    "插座{volts}V",
)
ROWS = "2x RTX 3090\nRyzen 7 7700X\nCorsair RM850x"


@pytest.mark.parametrize("words", OUTLETS)
@pytest.mark.parametrize(("volts", "amps"), [(100, 15), (110, 20), (200, 20), (220, 10), (240, 13)])
def test_an_outlet_is_read_in_any_language_and_order(words: str, volts: int, amps: int) -> None:
    remark = words.format(volts=volts, amps=amps)
    for text in (f"{ROWS}\n{remark}", f"{remark}\n{ROWS}"):
        found = read_listings(None, price_book(), (), text)[0][1]
        assert found.circuit == Circuit(volts, amps)
        assert [part.category for part in found.bill] == ["gpu", "cpu", "psu"]


@pytest.mark.parametrize("words", VOLTS)
@pytest.mark.parametrize("volts", [100, 110, 200, 230])
def test_volts_without_amperes_are_never_left_out(words: str, volts: int) -> None:
    found = read_listings(None, price_book(), (), f"{ROWS}\n{words.format(volts=volts)}")[0][1]
    assert found.circuit == Circuit(volts, 15.0 if volts < 200 else 10.0)
    assert any("the outlet is taken as" in note for note in found.notes)
    assert [part.category for part in found.bill] == ["gpu", "cpu", "psu"]


@pytest.mark.parametrize(
    "row", ["FSP 2000W 220V PSU", "Great Wall 2000W, input 200-240V", "Delta 2400W 100-240V 12A"]
)
def test_volts_of_a_supply_are_no_outlet(row: str) -> None:
    found = read_listings(None, price_book(), (), f"2x RTX 3090\nRyzen 7 7700X\n{row}")[0][1]
    assert found.circuit is None


def test_a_circuit_without_a_voltage_that_follows_is_not_guessed() -> None:
    found = read_listings(None, price_book(), (), "2x RTX 3090\nRyzen 7 7700X\non a 20A breaker")[0][1]
    assert found.circuit is None


@pytest.mark.parametrize(
    ("spoken", "rows", "names", "usd"),
    [
        (
            "My MI50 box keeps rebooting with tensor parallel 4, what's wrong?",
            ["4x AMD Instinct MI50 32GB (ebay, $220 each)"],
            ["AMD Radeon Instinct MI50 32 GB"],
            880.0,
        ),
        (
            "Why does my 4x RTX 3090 rig shut down under load?",
            ["4x RTX 3090 Founders Edition $700 each"],
            ["NVIDIA Founders Edition GeForce RTX 3090 24GB GDDR6X"],
            2800.0,
        ),
        (
            "¿Por qué mi equipo con 4 P40 se reinicia al cargar el modelo?",
            ["2x Tesla P40 24GB $180 each", "2x Tesla P40 24GB used $150 each"],
            ["NVIDIA Tesla P40", "NVIDIA Tesla P40"],
            660.0,
        ),
        (
            "Warum stürzt meine Kiste mit zwei RTX 5090 unter Last ab?",
            ["ASUS TUF RTX 5090 $2400", "MSI RTX 5090 Ventus $2300"],
            ["ASUS TUF Gaming GeForce RTX 5090 32GB GDDR7", "MSI GeForce RTX 5090 32G VENTUS 3X GDDR7"],
            4700.0,
        ),
    ],
)
@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_row_of_the_list_tells_more_of_a_part_than_a_sentence_that_speaks_of_it(
    spoken: str, rows: list[str], names: list[str], usd: float, is_ahead: bool, tmp_path: Path
) -> None:
    """A title or a question names a part in short; number, model and price are those of the row."""
    others = ["EPYC 7302", "ROMED8-2T", "Corsair HX1200"]
    lines = [spoken, *rows, *others] if is_ahead else [*others, *rows, spoken]
    listing = read("\n".join(lines), tmp_path)
    cards = [(line.name, line.quantity, line.usd) for line in listing.bill if line.category == "gpu"]
    assert [name for name, _, _ in cards] == names
    assert sum(price for _, _, price in cards) == usd
    assert listing.machine.cards is not None
    assert listing.machine.cards.num == sum(num for _, num, _ in cards)
    assert not listing.unknown


def test_a_title_counts_the_pieces_that_a_single_row_leaves_open(tmp_path: Path) -> None:
    listing = read("My dual 3090 build for 70B\nRTX 3090\nRyzen 9 5950X\nB550 Tomahawk\n64GB DDR4", tmp_path)
    assert accelerators_of(listing) == ("rtx-3090",) * 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Why do my 2 RTX 3090 shut down under load? Ryzen 9 5950X", "RTX 3090"),
        ("Pourquoi ma RTX 4090 s'éteint toute seule?", "RTX 4090"),
        ("Why is my RTX 3090 rig on risers so slow?", "RTX 3090 rig on risers"),
    ],
)
def test_words_of_a_sentence_that_say_nothing_of_a_card_are_no_part_of_its_name(
    text: str, what: str, tmp_path: Path
) -> None:
    cards = [line.what for line in read(text, tmp_path).lines if find_card_name(line.what) is not None]
    assert cards == [what]


@pytest.mark.parametrize(
    ("text", "bought"),
    [
        (
            "Current PC: {rest}, GTX 1080 Ti\nI want to replace the 1080 Ti with an RTX 5090. What else?",
            ["rtx-5090"],
        ),
        ("My current PC: {rest}, Want to put in an RTX 3090", ["rtx-3090"]),
        (
            "Aktueller PC: {rest}\nIch möchte eine gebrauchte RTX 3090 einbauen. Reicht das Netzteil?",
            ["rtx-3090"],
        ),
        (
            "Mi PC actual: {rest}, RTX 3060 12GB\nQuiero añadir otra RTX 3060 12GB, ¿vale la pena?",
            ["rtx-3060-12gb"],
        ),
        ("Текущий ПК: {rest}\nХочу поставить RTX 3090, хватит ли БП?", ["rtx-3090"]),
        ("Can I add an RTX 3090 to my PC: {rest}?", ["rtx-3090"]),
        ("Current rig:\n- Ryzen 5 5600\n- B550 Tomahawk\n- RM750x\nI want to add an RTX 3090.", ["rtx-3090"]),
        ("Current build: {rest}, RTX 3090. Does it run 32B?", []),
    ],
)
def test_what_is_there_costs_nothing_and_what_joins_it_does(
    text: str, bought: list[str], tmp_path: Path
) -> None:
    listing = read(text.format(rest=REST), tmp_path)
    paid = [line for line in listing.bill if line.unit_price_usd]
    assert [line.category for line in paid] == ["gpu"] * len(bought)
    assert set(bought) <= set(accelerators_of(listing))
    assert not listing.unknown


def test_a_machine_that_the_plan_replaces_owns_no_part_of_the_plan(tmp_path: Path) -> None:
    text = "Upgrading from my current PC (GTX 1080 Ti). The plan:\nRTX 3090\nRyzen 9 5950X\n64GB DDR4\nRM850x"
    assert all(line.unit_price_usd for line in read(text, tmp_path).bill)
