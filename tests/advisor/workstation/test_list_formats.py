"""Lists in other languages and as tables: the machine is that of the same list in English, one part a line."""

import itertools
import json
import re
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_toml
from advisor.catalog.part_prices import price_book
from advisor.catalog.parts import FOLDER
from advisor.workstation import asked, foreign_words, mentions
from advisor.workstation.asked import questions_in
from advisor.workstation.foreign_words import regex, write_in_english
from advisor.workstation.hardware import Hardware
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.plan import Question
from advisor.workstation.planner import plan
from advisor.workstation.rents import RentMarket
from advisor.workstation.valuation import hardware_of
from advisor.workstation.verdict import judge_listing

ENGLISH: Final = """GPU: two RTX 4090
CPU: Ryzen 9 7950X
Motherboard: ASUS ProArt X670E-CREATOR WIFI
RAM: 96 GB DDR5-6000 (2x48 GB)
PSU: 1600 W Platinum
Case: Fractal Design Torrent
Cooler: Noctua NH-D15
Storage: 2 TB NVMe
"""
TRANSLATIONS: Final = {
    "de": "Grafikkarte: zwei RTX 4090|Prozessor:|Mainboard:|Arbeitsspeicher:|Netzteil:|Gehäuse:|CPU-Kühler:|"
    "Festplatte:",
    "de in ASCII": "Grafikkarten: zwei RTX 4090|Prozessor:|Hauptplatine:|Arbeitsspeicher:|Netzteil:|Gehaeuse:|Kuehler:|"
    "Festplatte:",
    "fr": "Carte graphique : deux RTX 4090|Processeur :|Carte mère :|Mémoire vive :|Alimentation :|Boîtier :|"
    "Ventirad :|Stockage :",
    "es": "Tarjeta gráfica: dos RTX 4090|Procesador:|Placa base:|Memoria RAM:|Fuente de alimentación:|Caja:|"
    "Disipador:|"
    "Almacenamiento:",
    "it": "Scheda video: due RTX 4090|Processore:|Scheda madre:|Memoria:|Alimentatore:|Case:|Dissipatore:|"
    "Archiviazione:",
    "zh": "显卡：2x RTX 4090|处理器：|主板：|内存：|电源：|机箱：|散热器：|固态硬盘：",
}
"""First line of the list, and the labels of the others, by language."""


def read(*texts: str) -> Listing:
    return read_listing(None, price_book(), texts)


def read_file(folder: Path, name: str, text: str) -> Listing:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_listing(path, price_book())


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_a_list_in_another_language_is_the_same_machine(language: str, tmp_path: Path) -> None:
    english = read_file(tmp_path, "en.txt", ENGLISH)
    first, *labels = TRANSLATIONS[language].split("|")
    rest = (line.partition(": ")[2] for line in ENGLISH.splitlines()[1:])
    rows = [first, *(f"{label} {what}" for label, what in zip(labels, rest, strict=True))]
    other = read_file(tmp_path, "other.txt", "\n".join(rows))
    assert other.machine == english.machine
    assert not other.unknown


def test_no_word_of_the_table_is_english_or_changes_twice() -> None:
    tables = read_toml(FOLDER / "words.toml")
    for word, foreign in (*tables["words"].items(), *tables["numbers"].items()):
        for each in foreign:
            found = write_in_english(f"{each} RTX 3090")
            assert found.lower().strip().startswith(word.lower()) or word.lower() in found.lower().split()[0]
            assert write_in_english(found) == found


@pytest.mark.parametrize(
    "text", ["2x RTX 3090 gebraucht, je 650 $", "2x RTX 3090 je 650 USD", "2 Stk. RTX 3090 650 $ pro Stück"]
)
def test_a_price_of_each_piece_is_read_in_other_languages(text: str) -> None:
    listing = read(text)
    assert listing.machine.cards is not None
    assert (listing.machine.cards.num, listing.total_usd) == (2, 1300.0)


@pytest.mark.parametrize("unit", ["96 Go DDR5-6000", "96GB DDR5-6000", "96GB ddr5 6000"])
def test_the_rate_of_modules_is_no_number_of_a_card(unit: str) -> None:
    for label in ("", "RAM: ", "Speicher: "):
        cards = read(f"{label}{unit}", "B650 board").machine.cards
        assert cards is None or not cards.cards


PARTS: Final = (
    ("CPU", "AMD Ryzen 7 7700X", 1, 279.0),
    ("Motherboard", "MSI PRO B650-P WIFI", 1, 169.0),
    ("Memory", "G.Skill Flare X5 64 GB (2 x 32 GB) DDR5-6000 CL30", 1, 320.0),
    ("Video Card", "Gigabyte WINDFORCE GeForce RTX 4070 Ti SUPER 16 GB", 2, 1560.0),
    ("Power Supply", "Corsair RM850x 850 W 80+ Gold", 1, 140.0),
)


def test_a_table_of_any_kind_is_the_same_list(tmp_path: Path) -> None:
    texts = {
        "list.txt": [f"{kind}: {num}x {name} (${usd})" for kind, name, num, usd in PARTS],
        "comma.csv": ["Component,Selection,Qty,Price", *(f'{k},"{n}",{q},"${p}"' for k, n, q, p in PARTS)],
        "semicolon.csv": ["Kategorie;Artikel;Anzahl;Gesamt", *(f"{k};{n};{q};{p}" for k, n, q, p in PARTS)],
        "each.csv": ["type,name,quantity,unit price", *(f"{k},{n},{q},{p / q}" for k, n, q, p in PARTS)],
    }
    found = {name: read_file(tmp_path, name, "\n".join(rows)) for name, rows in texts.items()}
    kinds = {
        "CPU": "cpu",
        "Motherboard": "board",
        "Memory": "ram",
        "Video Card": "gpu",
        "Power Supply": "psu",
    }
    entries = [{"category": kinds[k], "name": n, "quantity": q, "price_usd": p} for k, n, q, p in PARTS]
    for name, content in (
        ("list.json", entries),
        ("named.json", {"parts": entries}),
        ("part.json", {"part": entries}),
    ):
        found[name] = read_file(tmp_path, name, json.dumps(content))
    first = found["list.txt"]
    for name, listing in found.items():
        assert listing.machine == first.machine, name
        assert listing.total_usd == pytest.approx(first.total_usd), name


def test_the_bill_of_a_plan_is_a_list(tmp_path: Path) -> None:
    book = price_book()
    question = Question(MachineLoad(models.get("32b").record), budget_usd=3000.0, systems=False, top=2)
    build, other = plan(question, book, RentMarket(())).builds
    rows = ["build,category,name,quantity,unit_price_usd,usd"]
    bill = [
        f'{build.name},{p.category},"{p.name}",{p.quantity},{p.unit_price_usd},{p.usd}' for p in build.parts
    ]
    listing = read_file(tmp_path, "bill.csv", "\n".join([*rows, *bill]))
    assert not listing.unknown
    assert listing.total_usd == pytest.approx(build.total_usd)
    checked = judge_listing(listing, question, book, better=False)
    assert not checked.broken
    with pytest.raises(InputFileError, match="2 machines"):
        read_file(tmp_path, "two.csv", "\n".join([*rows, *bill, f'"{other.name}",gpu,RTX 3090,1,800,800']))


def test_the_bill_of_a_used_machine_is_a_list(tmp_path: Path) -> None:
    book = price_book()
    question = Question(MachineLoad(models.get("qwen3-14b").record), budget_usd=800.0, systems=False, top=1)
    (build,) = plan(question, book, RentMarket(())).builds
    header = "category,name,quantity,unit_price_usd,usd"
    bill = [f'{p.category},"{p.name}",{p.quantity},{p.unit_price_usd},{p.usd}' for p in build.parts]
    listing = read_file(tmp_path, "bill.csv", "\n".join([header, *bill]))
    assert listing.total_usd == pytest.approx(build.total_usd)
    assert listing.machine.board is not None
    checked = judge_listing(listing, question, book, better=False)
    assert not checked.broken
    assert checked.build.performance is not None
    assert build.performance is not None
    listed = checked.build.performance.decode_tokens_per_s.value
    assert listed == pytest.approx(build.performance.decode_tokens_per_s.value, rel=0.02)


@pytest.mark.parametrize("price", ["-$50", "abc", "$1.2.3"])
def test_a_price_that_is_none_is_refused_with_its_row(price: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="row 3"):
        read_file(tmp_path, "list.csv", f'name,price\nRyzen 5 5600,100\nRTX 3090,"{price}"\n')


def test_a_table_with_tabs_is_a_table(tmp_path: Path) -> None:
    rows = [
        "Qty\tPart\tPrice",
        "2\tRTX 4090 24GB\t$3,600.00",
        "2\t48GB DDR5-5600 UDIMM\t$1,000.00",
        "1\t1600W PSU\t$400.00",
    ]
    listing = read_file(tmp_path, "list.txt", "\n".join(rows))
    assert [(line.category, line.quantity) for line in listing.bill] == [("gpu", 2), ("ram", 2), ("psu", 1)]
    assert listing.total_usd == 5000.0


def test_a_title_is_no_part_and_a_bare_size_is_memory(tmp_path: Path) -> None:
    listing = read_file(tmp_path, "list.txt", "My server:\nRTX 3090\nThreadripper 3960X\n128GB\n")
    assert not listing.unknown
    assert listing.machine.memory is not None
    assert listing.machine.memory.capacity_bytes == 128 * 2**30


def test_nvlink_that_changes_no_speed_is_told() -> None:
    for text in ("2x Tesla P100 PCIe 16GB with NVLink", "2x RTX 4090 with NVLink"):
        assert any("NVLink" in note and "no speed" in note for note in read(text, "case").notes)


@pytest.mark.parametrize(
    "card", ["RTX 3090", "RTX 3090 Ti", "RTX 2080 Ti 22GB", "Quadro RTX 8000", "RTX A5500"]
)
def test_a_bridge_is_that_of_the_cards_and_shortens_their_sums(card: str) -> None:
    listing = read(f"2x {card} with NVLink", "case")
    assert not any("no speed" in note for note in listing.notes)
    (bridge,) = listing.machine.bridges
    assert listing.machine.cards is not None
    assert set(listing.machine.cards.accelerators) <= set(bridge.accelerators)
    (accelerator,) = listing.machine.cards.accelerators
    apart = Hardware(accelerator, 2).record()
    assert apart.scale_up is None
    joined = Hardware(accelerator, 2, bridged=True).record()
    assert joined.scale_up is not None
    assert joined.scale_up.max_domain == 2


@pytest.mark.parametrize(
    ("text", "category", "name"),
    [
        ("Corsair 5000D", "case", "5000D"),
        ("Corsair 4000D Airflow", "case", "4000D"),
        ("Cooler Master HAF 700", "case", "HAF 700"),
        ("HP 1200W server PSU with breakout board", "psu", "HP 1200W"),
        ("Parallel Miner 1600W", "psu", "1600W"),
        ("Xeon E5-2680 v4", "cpu", "v4"),
        ("Xeon E5-2680", "cpu", "Intel Xeon E5-2680"),
        ("ASUS TUF Gaming B650-Plus WiFi", "board", "B650-PLUS"),
        ("Gigabyte TRX50 AERO D", "board", "TRX50 AERO D"),
        ("ASUS WS X299 SAGE/10G", "board", "SAGE/10G"),
        ("Radeon VII", "gpu", "Radeon VII"),
        ("32GB DDR5 6800", "ram", "16 GB DDR5"),
    ],
)
def test_words_that_several_kinds_share_name_the_part_that_they_stand_beside(
    text: str, category: str, name: str
) -> None:
    (line,) = read(text).bill
    assert line.category == category
    assert name.lower() in line.name.lower()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Finally done! 4x MI50 32GB", {"gpu": 4}),
        ("6 GPU mining frame", {"case": 1}),
        ("2x Xeon Gold 6248 and 12x 32GB", {"cpu": 2, "ram": 12}),
    ],
)
def test_a_number_counts_the_part_that_follows_it(text: str, counts: dict[str, int]) -> None:
    assert {line.category: line.quantity for line in read(text).bill} == counts


def test_memory_of_the_list_tells_boards_of_one_name_apart() -> None:
    for kind in ("DDR4", "DDR5"):
        board = read("MSI Pro Z790-P", f"64GB {kind}").machine.board
        assert board is not None
        assert board.ram_type == kind


def test_cards_on_narrow_risers_want_as_many_lanes_as_those_carry() -> None:
    lines = ("8x P104-100", "Celeron G3930", "8x USB risers", "8GB DDR4", "mining frame")
    question = Question(MachineLoad(models.get("8b").record))
    checks = judge_listing(read(*lines), question, price_book(), better=False).build.checks
    assert not any(check.rule == "cpu-lanes" and not check.passed for check in checks)
    assert next(check.verdict for check in checks if check.rule == "cpu-cores") == "advice"


CARDS: Final = ("RTX 3090", "RTX A6000", "V100 SXM2 16GB", "RTX 5060 Ti 16GB", "Tesla P40")
COUNTED: Final = (
    "{} (pair)",
    "{} (2)",
    "{} (two)",
    "pair of {}",
    "a pair of {}",
    "2 Stk. {}",
    "2 pcs {}",
    "Frobnicator F9 with 2x {}",
    "Frobnicator F9 with two {}, 64GB DDR4",
    "Frobnicator F9 with EPYC 7302 and dual {}",
    "2x {} in eGPU docks",
    "2x {} water cooled",
    "zwei {}",
    "deux {}",
)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("text", COUNTED)
def test_a_number_of_cards_is_never_lost(card: str, text: str) -> None:
    machine = read(text.format(card), "case $100").machine
    assert machine.cards is not None
    assert machine.cards.num == 2


@pytest.mark.parametrize(
    "text", ["no PSU yet", "PSU: none", "PSU: TBD", "without a power supply", "PSU: not yet", "kein Netzteil"]
)
def test_a_supply_that_is_not_there_is_missing(text: str, tmp_path: Path) -> None:
    rows = ["RTX 4090", "Ryzen 7 5800X", "B550 board", "64GB DDR4", "2TB NVMe", text]
    listing = read_file(tmp_path, "list.txt", "\n".join(rows))
    build = judge_listing(
        listing, Question(MachineLoad(models.get("8b").record)), price_book(), better=False
    ).build
    complete = next(check for check in build.checks if check.rule == "complete")
    assert complete.verdict == "broken"
    assert "power supply" in complete.why


def test_modules_named_by_a_maker_keep_the_kind_that_the_line_states() -> None:
    for maker in ("Samsung", "Corsair", "G.Skill", "Micron"):
        memory = read(f"256GB (8x32GB) {maker} DDR4-3200 ECC RDIMM", "EPYC 7532").machine.memory
        assert memory is not None
        assert memory.kit.registered, maker


@pytest.mark.parametrize(
    "text", ["Two RTX 6000 Ada, one RTX A6000", "2x RTX 6000 Ada; RTX A6000", "2x 6000 Ada / 1x A6000"]
)
def test_unlike_cards_in_one_line_are_all_read(text: str) -> None:
    cards = read(text, "case $100").machine.cards
    assert cards is not None
    assert sorted(cards.accelerators) == ["rtx-6000-ada", "rtx-a6000"]
    assert cards.num == 3


def test_a_cable_of_a_dock_is_no_dock() -> None:
    assert [line.category for line in read("Mac Studio M3 Ultra 512GB", "Thunderbolt 5 cable").bill] == [
        "system",
        "other",
    ]


def test_a_price_behind_a_cable_is_not_that_of_the_machine() -> None:
    listing = read("2x NVIDIA DGX Spark 128GB, ConnectX-7 200G DAC cable $80")
    assert [line.category for line in listing.bill] == ["system", "other"]
    assert listing.bill[1].usd == 80.0
    assert listing.bill[0].usd > 5000.0


@pytest.mark.parametrize(
    "name", ["Corsair HX1500i", "SilverStone HELA 2050R", "Corsair SF1000L", "MSI MEG Ai1300P 1300W"]
)
def test_a_supply_has_the_rating_of_its_number(name: str) -> None:
    watts = float("".join(c for c in name.split()[-1] if c.isdigit()))
    supplies = read(name, "case").machine.supplies
    assert supplies is not None
    assert supplies.power_w == watts


@pytest.mark.parametrize(
    "text", ["Corsair 1000D", "Corsair 5000D Airflow", "Fractal Design Focus 2", "Antec P120"]
)
def test_a_case_with_a_number_is_no_supply(text: str) -> None:
    assert read(text, "B650 board").machine.supplies is None


def test_plugs_that_a_line_states_count() -> None:
    lines = ("2x RTX 5090 FE", "Ryzen 9 9950X3D", "X870E board", "96GB DDR5")
    question = Question(MachineLoad(models.get("70b").record))
    verdicts = []
    for supply in ("ACME 2000W platinum PSU", "ACME 2000W platinum PSU with two native 12VHPWR"):
        listing = read(*lines, supply)
        checks = judge_listing(listing, question, price_book(), better=False).build.checks
        verdicts.append(next(check.verdict for check in checks if check.rule == "psu-plugs"))
    assert verdicts == ["unknown", "ok"]


def test_a_part_named_by_its_class_breaks_no_rule_by_figures_that_are_a_guess() -> None:
    listing = read("4x RTX 3060 12GB", "EPYC 7302P", "B550 board", "64GB DDR4", "1000W gold")
    checks = judge_listing(
        listing, Question(MachineLoad(models.get("8b").record)), price_book(), better=False
    ).build.checks
    for rule in ("psu-plugs", "pcie-lanes"):
        assert next(check.verdict for check in checks if check.rule == rule) in ("ok", "unknown")


@pytest.mark.parametrize(
    ("text", "size"),
    [("Intel P4510 4TB U.2", 4e12), ("Optane P1600X 118GB", 118e9), ("Micron 7450 3.84TB", 3.84e12)],
)
def test_a_drive_is_read_by_its_size(text: str, size: float) -> None:
    drive = read(text, "B650 board").machine.storage
    assert drive is not None
    assert drive.capacity_bytes == pytest.approx(size)


@pytest.mark.parametrize(
    "name", ["ASRock ROMED8-2T/BCM", "ROMED8-2T rev 1.02", "Gigabyte MZ32-AR0 rev 3", "A520M", "B650I board"]
)
def test_an_edition_of_a_board_is_the_board(name: str) -> None:
    assert read(name, "case").machine.board is not None


def test_a_smaller_edition_of_a_case_is_no_other_case() -> None:
    assert read("Fractal Design Meshify C", "B650 board").machine.case is not None
    assert read("Fractal Design Meshify C Mini", "B650 board").machine.case is None


def test_a_dock_and_a_switch_narrow_the_links_as_far_as_they_do() -> None:
    host = ("EPYC 7313P", "ROMED8-2T")
    links = {}
    for text in (
        "4x RTX 3090",
        "4x RTX 3090 on a PLX PEX8749 switch board",
        "4x RTX A6000 on a PLX PEX88096 switch board",
        "RTX 3090 in an OCuLink dock",
        "RTX 3090 in a Thunderbolt 4 enclosure",
    ):
        hardware = hardware_of(read(text, *host).machine)
        assert hardware is not None
        links[text] = (hardware.pcie_generation, hardware.pcie_lanes)
    assert list(links.values()) == [(4, 16), (3, 4), (4, 16), (4, 4), (3, 4)]


def test_too_many_cards_on_a_switch_are_a_fault() -> None:
    host = ("EPYC 7313P", "ROMED8-2T", "64GB DDR4 RDIMM")
    question = Question(MachineLoad(models.get("8b").record))
    for num, verdict in ((4, "ok"), (5, "ok"), (12, "broken")):  # the fifth stands in another slot
        listing = read(f"{num}x RTX 3090 on a PCIe switch with 4 slots", *host)
        checks = judge_listing(listing, question, price_book(), better=False).build.checks
        assert next(check.verdict for check in checks if check.rule == "switch-ports") == verdict


def test_a_water_block_makes_a_card_narrow() -> None:
    (card,) = read("RTX 4090 FE with EKWB water block, single slot", "case").machine.cards.cards  # type: ignore[union-attr]
    assert (card.slots, card.cooling) == (1.0, "liquid")


@pytest.mark.parametrize("num", [2, 4])
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("board", ["with NVLink", "on an AOM-SXMV carrier board"])
def test_modules_on_a_board_with_nvlink_divide_layers_as_other_linked_cards_do(
    num: int, size: int, board: str
) -> None:
    card = f"{num}x V100 SXM2 {size}GB"
    found = []
    for text in (card, f"{card} {board}"):
        machine = read(text, "EPYC 7302P", "ROMED8-2T").machine
        hardware = hardware_of(machine)
        assert hardware is not None
        run = best_run(hardware, MachineLoad(models.get("32b").record))
        assert run is not None
        found.append((len(machine.bridges), run))
    (without, alone), (boards, joined) = found
    assert (without, boards) == (0, 1)
    assert (alone.split, joined.split) == ("layers in turn", "tensor parallel")
    assert joined.output_tokens_per_s.value > alone.output_tokens_per_s.value


def test_every_spelling_row_of_a_report_and_pattern_reads_its_example() -> None:
    reports = [row for kinds in read_toml(FOLDER / "reports.toml").values() for row in kinds.values()]
    for pattern, written, typed, read_as in itertools.chain(
        *read_toml(FOLDER / "spellings.toml").values(), *reports
    ):
        assert re.sub(foreign_words.expand(pattern, ""), written, typed, flags=re.IGNORECASE) == read_as, (
            pattern
        )
    for table, patterns in read_toml(FOLDER / "patterns.toml").items():
        for name, (_, *examples) in patterns.items():
            assert all(regex(f"{table}.{name}").search(text) for text in examples), name


def test_every_pattern_of_the_table_is_used_and_every_used_one_is_there() -> None:
    tables = read_toml(FOLDER / "patterns.toml")
    folder = Path(foreign_words.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    used = set(re.findall(r"""(?:regex|fragment)\(\s*["']([a-z_.0-9]+)["']""", code))
    used |= {f"mention.{name}" for name, *_ in mentions._FIGURES}
    for table, patterns in tables.items():
        for text, *_ in patterns.values():
            found = re.findall(r"\{((?:[a-z_]+\.)?[a-z_]+\d?)\}", text)
            used |= {
                one if "." in one else f"{table}.{one}" for one in found if not one.startswith("phrases.")
            }
    used |= {f"question.of_{name}" for name in asked._BY_WORDS}
    used |= {"weigh.own_name", "weigh.new_name"}  # of _of_no_record, by the role of a part
    computed = {f"{table}.{name}" for table in tables for name in ("counts", "long_labels")}
    assert used - computed == {f"{table}.{name}" for table, patterns in tables.items() for name in patterns}


LANGUAGES: Final = {
    "Tenho duas RTX 3090 e um Ryzen 7 5800X com 64GB DDR4. Dá para rodar Llama 3.3 70B Q4?": ("model",),
    "J'ai deux RTX 3090 avec un Ryzen 7 5800X et 64 Go DDR4. Peut-on faire tourner un 70B ?": ("model",),
    "Tengo dos RTX 3090 con un Ryzen 7 5800X y 64GB DDR4. ¿Puede ejecutar un 70B?": ("model",),
    "Ho due RTX 3090 con un Ryzen 7 5800X e 64GB DDR4. Gira un 70B?": ("model",),
    "2х RTX 3090, Ryzen 7 5800X, 64 ГБ DDR4, БП 1000Вт. Потянет 70B?": ("model",),
    "Zwei RTX 3090 mit einem Ryzen 7 5800X und 64GB DDR4. Schafft der Rechner ein 70B?": ("model",),
}


@pytest.mark.parametrize("text", LANGUAGES)
def test_counts_and_questions_in_sentences_of_other_languages_are_read(text: str) -> None:
    machine = read_listings(None, price_book(), pasted=text)[0][1].machine
    assert machine.cards is not None
    assert machine.cards.num == 2
    assert machine.cpu is not None
    assert machine.memory is not None
    assert questions_in(text) == LANGUAGES[text]


def test_a_stated_sum_that_the_parts_do_not_have_is_told() -> None:
    parts = "RTX 3090 $700\nRyzen 5 5600 $100\n"
    for usd, is_told in ((800, False), (950, True)):
        _, listing = read_listings(None, price_book(), pasted=f"{parts}Total Price: ~${usd}\n")[0]
        assert any("the price of the list" in note for note in listing.notes) == is_told
        assert listing.total_usd == 800


def test_a_price_behind_the_parts_of_a_machine_is_that_of_the_machine() -> None:
    text = "A used Dell Precision 7920 (2x Gold 6138, 192GB, 1400W) for $900 and four RTX A4000 ($550 each)"
    _, listing = read_listings(None, price_book(), pasted=text)[0]
    assert [line.unit_price_usd for line in listing.bill] == [900.0, 0.0, 0.0, 0.0, 550.0]


def test_cells_in_quotes_are_a_table_without_a_header() -> None:
    text = '"GPU","MSI RTX 3090 Suprim X","2","$1,500.00"\n"PSU","EVGA SuperNOVA 1600 P2","1","$300.00"'
    _, listing = read_listings(None, price_book(), pasted=text)[0]
    assert [(line.quantity, line.usd) for line in listing.bill] == [(2, 1500.0), (1, 300.0)]
