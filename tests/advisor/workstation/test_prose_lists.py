"""Lists in prose, shop carts, invoices and captions: each part is read once, whatever words stand around it."""

from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.assembly import TOWER
from advisor.workstation.listing import Listing, read_listing
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.verdict import judge_listing


def read_text(folder: Path, text: str, name: str = "list.txt") -> Listing:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_listing(path, price_book())


def read(*texts: str) -> Listing:
    return read_listing(None, price_book(), texts)


def verdicts(listing: Listing) -> dict[str, str]:
    question = Question(MachineLoad(models.get("8b").record))
    checks = judge_listing(listing, question, price_book(), better=False).build.checks
    return {check.rule: check.verdict for check in checks}


PARTS: Final = {
    "board": ("Supermicro H12SSL-i", "ASUS TUF GAMING B650-PLUS WIFI", "Gigabyte MZ32-AR0"),
    "psu": ("Seasonic PX-1600", "EVGA SuperNOVA 1200 P2", "Corsair AX1500i"),
    "case": ("Fractal Design Torrent", "Phanteks Enthoo Pro 2 Server Edition"),
    "cooler": ("Noctua NH-D15", "Arctic Freezer 4U-M"),
}
AHEAD: Final = ("Power comes from a", "[Photo 3] Everything sits in a", "Last is my", "[x]")


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in PARTS.items() for name in names])
def test_words_ahead_of_a_maker_change_no_part(ahead: str, kind: str, name: str) -> None:
    plain = read("RTX 3090", name).bill[1]
    assert plain.category == kind
    assert [line.name for line in read("RTX 3090", f"{ahead} {name}").bill][1:] == [plain.name]


@pytest.mark.parametrize("word", ["Dual LGA2011-3 Motherboard", "dual socket mainboard", "LGA 2011-3"])
def test_the_socket_behind_a_board_is_no_part_of_its_name(word: str) -> None:
    (line,) = read(f"Supermicro X10DRG-Q {word}").bill
    assert line.name == "Supermicro X10DRG-Q"


@pytest.mark.parametrize("word", ["under", "cooled by", "with", "in", "and"])
def test_a_part_with_an_article_is_one_of_its_own_even_if_no_record_holds_it(word: str) -> None:
    listing = read(f"EVGA SuperNOVA 1200 P2 {word} a Quarble Gnat 17")
    assert [line.category for line in listing.bill] == ["psu", "unknown"]


def test_a_board_of_a_smaller_form_is_never_meant_by_the_larger_ones_name() -> None:
    assert "B850M-P" in read("MSI PRO B850M-P WIFI").bill[0].name
    listing = read("RTX 3090", "MSI PRO B850-P WIFI")
    assert "B850M" not in listing.bill[1].name


@pytest.mark.parametrize("name", ["Thermaltake Core X71", "NZXT Kraken X63"])
def test_a_model_with_a_capital_x_is_no_number_of_pieces(name: str) -> None:
    assert all(line.quantity == 1 for line in read("RTX 3090", name).bill)


@pytest.mark.parametrize(
    ("text", "modules", "size"),
    [("8x16gb Corsair LPX 3000", 8, 16), ("2x48 6000", 2, 48), ("4 x 32GB Samsung 2666", 4, 32)],
)
def test_sizes_with_a_transfer_rate_are_memory(text: str, modules: int, size: int) -> None:
    memory = read("Ryzen 9 7950X", text).machine.memory
    assert memory is not None
    assert (memory.num_modules, memory.kit.module_bytes / 2**30) == (modules, size)


CART: Final = """Your cart (3 items)
ZOTAC GeForce RTX 5060 Ti 16GB
Qty: {num}
$429.99
Ryzen 7 9700X
Qty: 1
$299.00
Subtotal: ${total}
"""


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("is_each", [True, False])
def test_the_sum_tells_whether_prices_are_of_each(num: int, is_each: bool, tmp_path: Path) -> None:
    total = 429.99 * (num if is_each else 1) + 299.0
    listing = read_text(tmp_path, CART.format(num=num, total=f"{total:,.2f}"))
    assert [(line.category, line.quantity) for line in listing.bill] == [("gpu", num), ("cpu", 1)]
    assert listing.total_usd == pytest.approx(total)


@pytest.mark.parametrize(
    "last", ["$2,900 takes it all", "Total: $2,900", "Asking price: $2,900", "$2900 obo"]
)
def test_one_price_of_a_list_without_others_is_that_of_all_parts(last: str, tmp_path: Path) -> None:
    text = f"Selling my machine\n3 x RTX 3090\nRyzen 9 5950X\nCorsair AX1600i\n{last}\n"
    listing = read_text(tmp_path, text)
    assert [line.category for line in listing.bill] == ["gpu", "cpu", "psu"]
    assert listing.total_usd == pytest.approx(2900.0)


INVOICE: Final = """Rechnung Nr. 2025-1187
Pos. Menge Artikel Einzelpreis Gesamtpreis
1 1 AMD Ryzen 9 7900 Tray 329,00 € 329,00 €
2 1 ASUS TUF GAMING B650-PLUS WIFI 169,90 € 169,90 €
3 2 Kingston FURY Beast 32GB DDR5-5600 CL36 89,90 € 179,80 €
Zwischensumme netto 570,34 €
MwSt. 19% 108,36 €
Rechnungsbetrag 678,70 €
"""


@pytest.mark.parametrize("currency", ["€", "£", "CHF", "zł"])
def test_rows_of_an_invoice_have_a_number_a_count_and_two_prices(currency: str, tmp_path: Path) -> None:
    listing = read_text(tmp_path, INVOICE.replace("€", currency))
    assert [(line.category, line.quantity) for line in listing.bill] == [("cpu", 1), ("board", 1), ("ram", 2)]
    assert listing.unknown == ()


COLUMNS: Final = """FACTURE N° 2026-11-0417                              Date : 18/11/2026
Réf.   Désignation                                              Qté   P.U. TTC     Total TTC
1      Processeur AMD Ryzen Threadripper 9960X                   1     1 449,00 €   1 449,00 €
2      Carte mère ASUS Pro WS TRX50-SAGE WIFI                    1       829,00 €     829,00 €
3      Mémoire Kingston FURY Beast DDR5-5600 32 Go (UDIMM)       4       329,00 €   1 316,00 €
4      Carte graphique NVIDIA RTX PRO 6000 Blackwell 96 Go       1     8 990,00 €   8 990,00 €
                                                        Total TTC               13 740,00 €
"""


@pytest.mark.parametrize("title", ["Réf.   Désignation", "Pos.   Bezeichnung", "Ref    Descripción"])
@pytest.mark.parametrize("count", ["Qté", "Menge", "Cantidad"])
def test_the_titles_of_columns_between_blanks_tell_row_numbers_from_counts(
    title: str, count: str, tmp_path: Path
) -> None:
    listing = read_text(tmp_path, COLUMNS.replace("Réf.   Désignation", title).replace("Qté", count))
    found = [(line.category, line.quantity) for line in listing.bill]
    assert found == [("cpu", 1), ("board", 1), ("ram", 4), ("gpu", 1)]
    assert listing.unknown == ()


def test_a_table_without_a_header_is_read_by_its_kinds(tmp_path: Path) -> None:
    text = "GPU,NVIDIA H100 NVL 94GB,2\nNVLink,NVLink bridge for H100 NVL,3\nCPU,AMD EPYC 9354,1\n"
    for name in ("list.txt", "list.csv"):
        listing = read_text(tmp_path, text, name)
        assert [(line.category, line.quantity) for line in listing.bill] == [
            ("gpu", 2),
            ("bridge", 3),
            ("cpu", 1),
        ]
        assert verdicts(listing)["nvlink"] == "ok"


@pytest.mark.parametrize("currency", ["(USD)", "[USD]", "($)", "USD"])
def test_a_currency_belongs_to_no_name_of_a_column(currency: str, tmp_path: Path) -> None:
    text = f"Component;Model;Qty;Unit price {currency};Total {currency}\nGPU;RTX 4090;2;1,800;3,600\n"
    assert read_text(tmp_path, text, "list.csv").total_usd == pytest.approx(3600.0)


def test_passive_cards_want_fans_of_their_own_in_a_tower() -> None:
    tower = ("Dell Precision T5820", "Xeon W-2135", "64GB ECC")
    assert verdicts(read("2x Tesla P40", *tower))["card-cooling"] == "broken"
    assert "card-cooling" not in verdicts(read("2x Tesla P40 with 3D printed fan shrouds", *tower))
    assert "card-cooling" not in verdicts(read("2x Tesla P40", "Dell PowerEdge R730", "2x E5-2680 v4"))
    assert TOWER in read(*tower).machine.board.flags  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("server", "card", "verdict"),
    [
        ("Dell PowerEdge R740xd", "2x RTX 3090 Founders Edition", "broken"),
        ("Dell PowerEdge R730", "RTX 3090 Ti Founders Edition", "broken"),
        ("HP DL380 Gen10", "RTX 4090", "broken"),
        ("Lenovo SR650 V2", "Gigabyte RTX 3090 Turbo limited to 280W", "ok"),
        ("Dell PowerEdge R740", "Gigabyte RTX 3090 Turbo", "broken"),
        ("HPE ProLiant DL385 Gen10 Plus", "Gigabyte RTX 3090 Turbo", "unknown"),
        ("Cisco UCS C240 M5", "2x Tesla P40", "ok"),
        ("Lenovo ThinkSystem SR665", "2x RTX A6000", "ok"),
        ("Supermicro SYS-4029GP-TRT", "4x RTX 3090 Founders Edition", "unknown"),
    ],
)
def test_a_rack_server_takes_cards_of_the_width_and_the_power_of_its_risers(
    server: str, card: str, verdict: str
) -> None:
    assert verdicts(read(card, server))["card-room"] == verdict


@pytest.mark.parametrize("tower", ["Dell Precision T5820", "HP Z440", "Lenovo ThinkStation P620"])
def test_a_tower_has_no_risers_of_a_rack(tower: str) -> None:
    assert "card-room" not in verdicts(read("RTX 3090 Founders Edition", tower))


def test_parts_in_brackets_behind_a_machine_are_all_read() -> None:
    listing = read(
        "I've got an old HP Z840 (dual E5-2697 v3, 256GB, 1125W PSU) and I'm dropping in two RTX 3060 12GBs"
    )
    found = [(line.category, line.quantity) for line in listing.bill]
    assert found == [("board", 1), ("cpu", 2), ("ram", 1), ("psu", 1), ("gpu", 2)]


PROSE: Final = (
    "hey all, first build. so far i've bought: two 7900xt reference cards, a 7950x, the x670e taichi and 2 sticks of "
    "48gb ddr5 (6400). for psu i was thinking the corsair hx1000i. everything goes in a meshify 2 xl with a peerless "
    "assassin"
)


@pytest.mark.parametrize("change", [str, str.upper, str.capitalize])
def test_prose_is_read_in_any_case_of_letters(change: object) -> None:
    bill = read(change(PROSE)).bill  # type: ignore[operator]
    assert [line.category for line in bill] == ["gpu", "cpu", "board", "ram", "psu", "case", "cooler"]
    assert [line.quantity for line in bill] == [2, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "label", ["grafické karty", "grafikkort", "ekran kartı", "kort graficzna", "graphics: used", "그래픽카드"]
)
def test_a_number_of_cards_behind_a_word_of_any_language_counts(label: str) -> None:
    (line,) = read(f"{label} 4x RTX A4000 16GB").bill
    assert (line.category, line.quantity) == ("gpu", 4)


@pytest.mark.parametrize("mark", ["+", "-", "*", "1 of:", "•"])
def test_marks_ahead_of_a_row_change_nothing(mark: str) -> None:
    (line,) = read(f"{mark} 2x RTX 3090 Turbo" if "of" not in mark else "2 of: RTX 3090 Turbo").bill
    assert (line.category, line.quantity) == ("gpu", 2)


def test_plus_signs_join_a_list_with_a_server_in_any_place() -> None:
    parts = ("8x RTX 4090 48GB (blower)", "ASUS ESC8000A-E11", "2x EPYC 7763", "1TB DDR4-3200 RDIMM (16x64)")
    for turn in range(len(parts)):
        bill = read(" + ".join((*parts[turn:], *parts[:turn]))).bill
        assert {(line.category, line.quantity) for line in bill} == {
            ("gpu", 8),
            ("board", 1),
            ("cpu", 2),
            ("ram", 1),
        }


def test_a_budget_is_the_price_of_no_part() -> None:
    bill = read(
        "Just GPUs so far: RTX 5070 Ti x2, RTX 5060 Ti 16GB x1. Everything else TBD. Budget left is $900"
    ).bill
    assert [(line.quantity, line.price_basis) for line in bill] == [(2, "quote"), (1, "quote")]


@pytest.mark.parametrize("title", ["My Frankenstein", "自作AIマシン", "Old faithful"])
def test_a_first_row_without_a_part_above_labels_is_a_title(title: str, tmp_path: Path) -> None:
    listing = read_text(tmp_path, f"{title}\nCPU: Ryzen 9 7950X\nGPU: RTX 3090\nPSU: Corsair RM1000e\n")
    assert [line.category for line in listing.bill] == ["cpu", "gpu", "psu"]


@pytest.mark.parametrize("code", ["AUD", "CAD", "NZD"])
def test_dollars_of_another_country_are_no_part_of_a_name(code: str) -> None:
    (line,) = read(f"1 × RTX 5080 $1,899 {code}").bill
    assert (line.category, line.price_basis) == ("gpu", "estimate")


@pytest.mark.parametrize("name", ["X10SRL-F", "H11DSi-NT", "ROMED8-2T/BCM", "EPYCD8-2T"])
def test_the_number_of_a_servers_board_is_a_board_without_its_maker(name: str) -> None:
    assert read("RTX 3090", name).bill[1].category == "board"


@pytest.mark.parametrize(
    "words", ["with fans", "(passive, with 40mm server fans zip-tied on)", "(blower mod)"]
)
def test_fans_that_a_builder_adds_cool_passive_cards(words: str) -> None:
    listing = read(f"MI100 32GB x2 {words}", "Ryzen 7 5700X", "Fractal Meshify 2")
    assert listing.bill[0].quantity == 2
    assert "card-cooling" not in verdicts(listing)


@pytest.mark.parametrize("card", ["RTX 3090", "DGX Spark"])
def test_a_price_near_that_of_one_piece_is_of_each(card: str) -> None:
    (single,) = read(f"1x {card}").bill
    assert single.unit_price_usd
    (line,) = read(f"2x {card} ${0.9 * single.unit_price_usd:.0f}").bill
    assert line.unit_price_usd == pytest.approx(0.9 * single.unit_price_usd, rel=0.01)


SEVERAL: Final = {
    "HP DL580 G9, 4x E7-8890 v4, 512GB, 4x Tesla M40 24GB": {"cpu": 4, "gpu": 4, "ram": 1, "unknown": 1},
    "Minisforum MS-A9 with 9955HX, 96GB, RTX 2000 Ada 16GB": {"unknown": 1, "cpu": 1, "ram": 1, "gpu": 1},
    "TRX40 Designare + 3960X + 4x RTX A4500 (two NVLink bridges)": {
        "board": 1,
        "cpu": 1,
        "gpu": 4,
        "bridge": 2,
    },
    "Dell R750xa, 2x Gold 6338, 2x H100 PCIe 80GB (NVLink bridges x3)": {
        "board": 1,
        "cpu": 2,
        "gpu": 2,
        "bridge": 1,
    },
    '"AI Server Gigabyte G482-Z54 8x A100 40GB PCIe 2x EPYC 7742 1TB RAM"': {
        "board": 1,
        "gpu": 8,
        "cpu": 2,
        "ram": 1,
    },
    "Видеокарты: две Tesla P100 16 ГБ и одна RTX 3060 12 ГБ": {"gpu": 3},
    'eBay: "Pair Intel Xeon Gold 6138" $70': {"cpu": 2},
    'eBay: "ASUS ESC8000 G4 barebone w/ 3x1600W" $1,400': {"board": 1, "psu": 3},
    "ryzen 9 3900x, two 3080 10gb, evga 1000 g6, in a h710i": {"cpu": 1, "gpu": 2, "psu": 1, "case": 1},
}


@pytest.mark.parametrize("text", SEVERAL)
def test_no_part_of_a_line_is_lost(text: str) -> None:
    counts: dict[str, int] = {}
    for line in read(text).bill:
        counts[line.category] = counts.get(line.category, 0) + line.quantity
    assert counts == SEVERAL[text]


@pytest.mark.parametrize("text", ["4 sticks of 32", "4 планки по 32 ГБ", "4 modules of 32GB"])
def test_modules_counted_in_words_have_their_size(text: str) -> None:
    memory = read("RAM: DDR5 128GB" if not text else f"RAM: {text} DDR5", "Ryzen 9 9950X").machine.memory
    assert memory is not None
    assert (memory.num_modules, memory.kit.module_bytes / 2**30) == (4, 32)


@pytest.mark.parametrize("dots", [" .... ", "........", " … … ".replace(" ", "") + " "])
def test_leading_dots_separate_a_name_from_its_price(dots: str, tmp_path: Path) -> None:
    listing = read_text(
        tmp_path, f"Receipt\n2 x ASUS Turbo RTX 3090 24GB{dots}$1,580.00\nEPYC 7543{dots}$640\n"
    )
    assert [(line.category, line.quantity) for line in listing.bill] == [("gpu", 2), ("cpu", 1)]
    assert listing.total_usd == pytest.approx(2220.0)


@pytest.mark.parametrize("number", ["MS-A9", "UM-P4", "BX-T4"])
def test_the_end_of_another_number_is_no_card(number: str) -> None:
    listing = read("RTX 3090", f"Minisforum {number}")
    assert [line.category for line in listing.bill] == ["gpu", "unknown"]


def test_a_desktop_cpu_without_a_record_has_the_platform_of_its_number() -> None:
    listing = read("2x Intel Arc A770 16GB", "i5-9600K", "32GB DDR4-2666")
    assert verdicts(listing)["resizable-bar"] == "broken"


@pytest.mark.parametrize("chipset", ["B760", "X570", "B650"])
def test_a_kind_of_modules_beside_a_chipset_is_a_boards(chipset: str) -> None:
    kind = "DDR5" if chipset == "B650" else "DDR4"
    assert read("RTX 3090", f"{chipset} {kind}").bill[1].category == "board"


@pytest.mark.parametrize("rate", [3200, 3600, 5200, 5600, 6000])
def test_a_kit_with_its_rate_alone_is_no_cpu(rate: int) -> None:
    bill = read(f"Ryzen 9 9950X, RTX 3090, 128GB (2x64) {rate}, 1000W").bill
    assert [line.category for line in bill] == ["cpu", "gpu", "ram", "psu"]


@pytest.mark.parametrize("family", ["Quadro RTX 8000 48GB", "GeForce RTX 3090", "Tesla V100 PCIe 32GB"])
def test_a_family_and_its_number_are_one_card_behind_a_machine(family: str) -> None:
    bill = read(f"HP Z8 G4 Workstation 2x Xeon Gold 6154 192GB RAM 1450W 2x {family} 1TB NVMe").bill
    assert [(line.category, line.quantity) for line in bill if line.category in ("gpu", "unknown")] == [
        ("gpu", 2)
    ]


def test_a_sentence_with_prices_is_read_part_by_part(tmp_path: Path) -> None:
    text = (
        "I bought a ROMED8-2T for $600, EPYC 7443 for $350 and 8 sticks of 32GB 3200 RDIMM for $480. "
        "GPUs are six RTX 4060 Ti 16GB at $400 each, on SlimSAS risers. Mostly Qwen 32B for coding."
    )
    listing = read_text(tmp_path, text)
    assert listing.total_usd - 6 * 50 == pytest.approx(600 + 350 + 480 + 2400, abs=1)
    assert [line.category for line in listing.bill] == ["board", "cpu", "ram", "gpu", "riser"]


@pytest.mark.parametrize("count", ["x2", "2", "2x"])
def test_a_cell_with_a_number_counts_the_part_of_its_row(count: str, tmp_path: Path) -> None:
    rows = (f"GPU\tRTX A6000 48GB\t{count}\t$3,400", "CPU\tThreadripper 3960X\t\t$550")
    listing = read_text(tmp_path, "\n".join(rows))
    assert [(line.category, line.quantity) for line in listing.bill] == [("gpu", 2), ("cpu", 1)]


def test_a_table_with_commas_is_one_in_a_text_file_too(tmp_path: Path) -> None:
    head = "Item,Link,Qty,Price Each,Subtotal"
    text = f"{head}\nRTX 3060 12GB,x.com/1,4,$210.00,$840.00\nCore i9-10920X,x.com/3,1,$185,$185\n"
    for name in ("list.txt", "list.csv"):
        listing = read_text(tmp_path, text, name)
        assert [(line.category, line.quantity) for line in listing.bill] == [("gpu", 4), ("cpu", 1)]
        assert listing.total_usd == pytest.approx(1025.0)


@pytest.mark.parametrize("words", ["for Qwen 32B", "(runs llama 70b)", "- deepseek distills"])
def test_what_a_machine_runs_hides_no_part(words: str) -> None:
    (line,) = read(f"2x RTX 3090 {words}").bill
    assert (line.category, line.quantity) == ("gpu", 2)
    assert [line.category for line in read("RTX 3090", "Ryzen 9 9950X", "Mostly Qwen 32B").bill] == [
        "gpu",
        "cpu",
    ]
