"""Laws of invoices, quotes and advertisements: every row is one part, every sum is that of the list, and the words of
the seller or of a question name nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.assembly import Setting
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import IN_ANOTHER, WITH_OTHERS, Question
from advisor.workstation.rule_book import judge
from advisor.workstation.upgrades import with_unnamed_rest
from advisor.workstation.verdict import judge_listing

HOST = "Ryzen 7 7700X\nMSI B650 Tomahawk\n2x16GB DDR5\n"


def read(text: str) -> Listing:
    return read_listings(None, price_book(), (), text)[0][1]


def parts_of(text: str) -> str:
    """Return number and kind of each line that is read."""
    found = read(text)
    assert not found.unknown
    return " ".join(f"{line.quantity}{line.category}" for line in found.bill)


INVOICES = {
    "cells between blanks": """
Pos  Menge  Artikel                                            Einzelpreis      Gesamt
1    1x     AMD Ryzen 9 9950X 16x 4.30GHz So.AM5 WOF             539,00 €      539,00 €
2    2x     24GB Gainward GeForce RTX 4090 Phantom Aktiv       1.599,00 €    3.198,00 €
3    1x     MSI PRO B650-P WIFI AMD B650 So.AM5 Dual Channel DDR5 ATX 139,00 €      139,00 €
4    1x     64GB (2x 32768MB) Kingston FURY DDR5-5600 DIMM Dual Kit 549,00 €      549,00 €
5    1x     1500 Watt be quiet! Dark Power Pro 13 80+ Titanium   359,00 €      359,00 €
6    1x     be quiet! Pure Base 500DX Midi Tower ohne Netzteil    99,90 €       99,90 €
                                                   Gesamtsumme:  4.883,90 €""",
    "rows without titles": """
1x AMD Ryzen 9 9950X 16x 4.30GHz So.AM5 WOF   539,00 €
2x 24GB Gainward GeForce RTX 4090 Phantom Aktiv PCIe 4.0 x16   3.198,00 €
1x ASUS TUF GAMING B650-PLUS WIFI AMD B650 So.AM5 DDR5 ATX Retail   169,00 €
1x 64GB (2x 32768MB) G.Skill Flare X5 DDR5-6000 DIMM CL30 Dual Kit   499,00 €
1x 1500 Watt be quiet! Dark Power Pro 13 Modular 80+ Titanium   359,00 €
1x Fractal Design Torrent Midi Tower without PSU   189,00 €""",
    "numbered rows": """
Pos. Anz. Bezeichnung                                   Preis
1    1    AMD Ryzen 9 9950X 16x 4.30GHz So.AM5 WOF     539,00 €
2    2    24GB Gainward GeForce RTX 4090 Phantom     3.198,00 €
3    1    Gigabyte B650M DS3H AMD B650 So.AM5 mATX      89,00 €
4    1    64GB (2x 32768MB) Crucial DDR5-5600 DIMM     489,00 €
5    1    1500 Watt be quiet! Dark Power Pro 13        359,00 €
6    1    Lian Li Lancool 216 ohne Netzteil             95,00 €""",
    "count behind the name": """
Pos. Artikel                                            Menge   Einzelpreis   Gesamtpreis
1    AMD Ryzen 9 9950X 16x 4.30GHz So.AM5 WOF           1        539,00 €       539,00 €
2    24GB ASUS TUF Gaming GeForce RTX 4090 OC           2      1.599,00 €     3.198,00 €
3    Gigabyte B650M DS3H AMD B650 So.AM5 mATX           1         89,00 €        89,00 €
4    64GB (2x 32GB) Crucial DDR5-5600 DIMM              1        489,00 €       489,00 €
5    be quiet! Dark Power Pro 13 1500W                  1        359,00 €       359,00 €
6    Lian Li Lancool 216 ohne Netzteil                  1         95,00 €        95,00 €""",
    "bars without titles": """
1 | AMD Ryzen 9 9950X | 1 | 539,00 €
2 | MSI RTX 4090 Gaming X Trio | 2 | 3 198,00 €
3 | Gigabyte B650M DS3H | 1 | 89,00 €
4 | Crucial DDR5-5600 64GB (2x32GB) | 1 | 489,00 €
5 | be quiet! Dark Power Pro 13 1500W | 1 | 359,00 €
6 | Fractal Design Define 7 | 1 | 95,00 €""",
    "one blank between cells": """
N° Désignation Qté P.U. Total
1 AMD Ryzen 9 9950X 1 539,00 € 539,00 €
2 MSI RTX 4090 Gaming X Trio 2 1 599,00 € 3 198,00 €
3 Gigabyte B650M DS3H 1 89,00 € 89,00 €
4 Crucial DDR5-5600 64GB (2x32GB) 1 489,00 € 489,00 €
5 be quiet! Dark Power Pro 13 1500W 1 359,00 € 359,00 €
6 Lian Li Lancool 216 1 95,00 € 95,00 €""",
}


@pytest.mark.parametrize("name", INVOICES)
def test_each_row_of_an_invoice_is_one_part(name: str) -> None:
    assert parts_of(INVOICES[name].strip()) == "1cpu 2gpu 1board 1ram 1psu 1case"
    memory = read(INVOICES[name].strip()).machine.memory
    assert memory is not None
    assert memory.num_modules == 2


@pytest.mark.parametrize("sign", [" ", ". ", ") ", " | "])
def test_numbers_that_count_the_rows_are_no_counts(sign: str) -> None:
    names = ("Ryzen 7 9700X", "MSI B650 Tomahawk", "2x16GB DDR5", "RTX 5070 Ti", "Corsair RM850x")
    text = "\n".join(f"{number}{sign}{name} $100" for number, name in enumerate(names, 1))
    assert parts_of(text) == "1cpu 1board 1ram 1gpu 1psu"


@pytest.mark.parametrize(
    "card",
    [
        "MSI RTX 3060 Ventus 2X 12GB",
        "Inno3D RTX 4060 Ti Twin X2 16GB",
        "MSI RTX 4090 Ventus 3X 24GB OC",
        "2x 16GB ASUS TUF Gaming GeForce RTX 5070 Ti OC",
        "Gigabyte RTX 4070 Windforce 2X 12GB",
    ],
)
def test_fans_and_gigabytes_of_a_card_are_no_memory(card: str) -> None:
    assert [line.category for line in read(f"{HOST}{card} ($180)").bill] == ["cpu", "board", "ram", "gpu"]


CARTS = {
    "en": ("Pre-owned", "Qty: {}", "Item subtotal", "Estimated tax"),
    "en 2": ("Seller refurbished", "Quantity {}", "Subtotal (3 items)", "Shipping"),
    "de": ("Gebraucht", "Anzahl: {}", "Zwischensumme (3 Artikel)", "Versand"),
    "fr": ("Très bon état", "Quantité : {}", "Sous-total (3 objets)", "Livraison"),
    "es": ("De segunda mano", "Cantidad: {}", "Subtotal (3 productos)", "Gastos de envío"),
    "it": ("Ricondizionato", "Quantità: {}", "Totale parziale", "Spedizione"),
    "nl": ("Tweedehands", "Aantal: {}", "Subtotaal (3 artikelen)", "Verzendkosten"),
    "pt": ("Usado", "Quantidade: {}", "Subtotal (3 itens)", "Frete"),
    "pl": ("Używany", "Ilość: {}", "Suma częściowa", "Dostawa"),
    "ru": ("Б/у", "Количество: {}", "Итого:", "Доставка:"),
    "zh": ("二手", "数量：{}", "小计", "运费"),
}


@pytest.mark.parametrize("language", CARTS)
@pytest.mark.parametrize("money", ["US ${}", "EUR {}"])
def test_rows_between_a_part_and_its_price_in_a_cart_are_no_parts(language: str, money: str) -> None:
    condition, count, total, charge = CARTS[language]
    price = [money.format(f"{usd}.00") for usd in (289, 85, 663, 12)]
    card = f"NVIDIA Tesla P40 24GB\n{condition}\n{count.format(2)}\n{price[0]}\n"
    board = f"MSI B550-A PRO\n{price[1]}\n{condition}\n{count.format(1)}\n"
    text = f"{card}\n{board}\n{total} {price[2]}\n{charge} {price[3]}\n"
    assert parts_of(text) == "2gpu 1board"
    assert [one.usd for one in read(text).bill if "$" in money] == ([578.0, 85.0] if "$" in money else [])


COUNTS = (
    "Quantité : {}",
    "Qté {}",
    "Menge: {}",
    "Cantidad: {}",
    "(qty {})",
    ", Anzahl {}",
    "{} Stk.",
    "{} uds.",
)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("num", [1, 2, 8])
@pytest.mark.parametrize(
    "name", ["MSI MAG B550 TOMAHAWK", "Noctua NH-D15", "Corsair RM1000x", "Ryzen 9 5950X"]
)
def test_a_count_behind_a_name_is_no_part_of_it(count: str, num: int, name: str) -> None:
    line, alone = (read(text).lines[0] for text in (f"{name}  {count.format(num)}", name))
    assert (line.quantity, line.what) == (num, alone.what)


@pytest.mark.parametrize("count", ["2 x ", "2x ", ""])
def test_a_label_stands_behind_the_number_of_pieces_or_in_its_own_row(count: str) -> None:
    below = "" if count else "\nQuantité : 2"
    parts_in_rows = (
        "Carte graphique : RTX 5090",
        "Processeur : AMD Ryzen 9 9950X",
        "Boîtier : Fractal Torrent",
    )
    assert parts_of("\n".join(f"{count}{row}{below}" for row in parts_in_rows)) == "2gpu 2cpu 2case"


@pytest.mark.parametrize("unit", ["ud.", "pcs", "Stk.", "je Stück", "ea."])
@pytest.mark.parametrize("price", ["459,90 €", "$459.90"])
def test_a_unit_behind_a_price_is_no_part(unit: str, price: str) -> None:
    assert parts_of(f"2x RTX 5060 Ti 16GB - {price} {unit}\nRyzen 7 9700X") == "2gpu 1cpu"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("Minisforum DEG1 OCuLink dock $99", "Mini PC + eGPU for local LLM"),
        ("AOOSTAR AG02 dock $220", "eGPU build, will the 4 lanes hurt me with Qwen3 14B?"),
        ("NVLink bridge, 2-slot $250", "48 GB of pooled GPU memory over NVLink for Llama 3.3 70B"),
        ("NVLink bridge, 3-slot $150", "Is NVLink worth it with Qwen3 32B?"),
        ("Corsair RM850x $120", "is my 850W enough?"),
    ],
)
def test_words_of_a_title_or_a_sentence_are_those_of_the_part_that_a_row_names(
    part: str, sentence: str
) -> None:
    alone = parts_of(f"{HOST}2x RTX 3090\n{part}")
    for text in (f"{sentence}\n\n{HOST}2x RTX 3090\n{part}", f"{HOST}2x RTX 3090\n{part}\n\n{sentence}"):
        assert sorted(parts_of(text).split()) == sorted(alone.split())
        assert sum(line.usd for line in read(text).bill if line.unit_price_usd) == pytest.approx(
            sum(line.usd for line in read(f"{HOST}2x RTX 3090\n{part}").bill if line.unit_price_usd)
        )


def test_two_docks_with_names_are_two() -> None:
    assert parts_of("UM790 Pro 64GB\nDEG1 dock\nTH3P4G3 dock\n2x RTX 3090").count("riser") == 2


TITLES = (
    "Ihr Warenkorb bei Mindfactory",
    "QUOTATION Q-26-1187   Titan Systems LLC",
    "Shopping cart (4 items)",
)


@pytest.mark.parametrize("title", TITLES)
def test_the_heading_of_a_cart_names_no_part(title: str) -> None:
    assert parts_of(f"{title}\n{HOST}RTX 4090") == parts_of(f"{HOST}RTX 4090")


SUMS = (
    "System total:",
    "Build total",
    "Estimated total:",
    "Quoted price",
    "Our price:",
    "Total cost",
    "Grand total:",
)


@pytest.mark.parametrize("words", SUMS)
def test_a_price_behind_words_for_a_sum_is_that_of_the_list(words: str) -> None:
    found = read(f"{HOST}RTX 4090\n850W gold\n{words} $2,900.00")
    assert found.total_usd == 2900.0
    assert [line.source for line in found.bill] == [WITH_OTHERS, *[IN_ANOTHER] * 4]


def test_a_price_of_several_lines_is_none_of_the_catalog() -> None:
    found = read(
        "Processor: AMD Ryzen Threadripper PRO 9965WX\nGPU: 2 x RTX 4090\nPower supply: 1600W\nSystem total: $9,000"
    )
    assert found.catalog_usd[0] is None
    verdict = judge_listing(found, Question(MachineLoad(models.get("8b").record)), price_book(), better=False)
    assert verdict.catalog_total_usd == pytest.approx(sum(filter(None, found.catalog_usd)))


@pytest.mark.parametrize(
    "words",
    [
        "or Best Offer",
        "Best offer accepted",
        "Buy It Now",
        "3 available",
        "12 watchers",
        "Local pickup only",
        "No returns",
        "Cash or Zelle",
        "pickup in Austin",
        "Nur Abholung",
    ],
)
def test_words_of_a_seller_name_no_part(words: str) -> None:
    assert parts_of(f"{HOST}RTX 3090\n{words}") == "1cpu 1board 1ram 1gpu"


@pytest.mark.parametrize(
    ("question", "supply"),
    [
        ("is 850W enough for this?", "Corsair RM850x (2021)"),
        ("Will a 750w psu be sufficient?", "PSU: Corsair RM750e 750W"),
        ("Reicht mein 650W Netzteil dafür?", "be quiet! Pure Power 12 M 650W"),
        ("650W ok?", "Seasonic Focus GX-650"),
        ("Is 1000W overkill for one card?", "Corsair RM1000e"),
        ("L'alimentation de 850 W suffit-elle ?", "Alimentation : Corsair RM850x 850W 80PLUS Gold"),
        ("¿Llega la fuente de 850 W para esta gráfica?", "Corsair RM850x"),
        ("Is de voeding van 750 W genoeg?", "Corsair RM750e 750W"),
        ("L'alimentatore da 850W basta?", "Corsair RM850x"),
        ("Will the 850 watt supply that I have be sufficient with that card?", "Corsair RM850x"),
    ],
)
def test_a_supply_of_a_question_is_that_of_the_list(question: str, supply: str) -> None:
    alone = read(f"{HOST}RTX 4080 Super\n{supply}").machine.supplies
    for text in (
        f"{question}\n\n{HOST}RTX 4080 Super\n{supply}",
        f"{HOST}RTX 4080 Super\n{supply}\n\n{question}",
    ):
        asked = read(text).machine.supplies
        assert alone is not None
        assert asked is not None
        assert [psu.power_w for psu in asked.psus] == [psu.power_w for psu in alone.psus]


@pytest.mark.parametrize(
    "row",
    [
        "650W ok? 5600X / B550 Tomahawk / 32GB DDR4 / RTX 3080 10GB / Seasonic Focus GX-650",
        "Is my 650W enough? 5600X, B550 Tomahawk, 32GB DDR4, RTX 3080 10GB, Seasonic Focus GX-650",
        "5600X, B550 Tomahawk, 32GB DDR4, RTX 3080 10GB, Seasonic Focus GX-650. Does 650W carry one 3080?",
    ],
)
def test_a_question_in_a_row_names_parts_of_the_row_again(row: str) -> None:
    assert sorted(parts_of(row).split()) == ["1board", "1cpu", "1gpu", "1psu", "1ram"]


@pytest.mark.parametrize(
    "drive", ["Kingston A2000 500GB NVMe", "Kingston A2000 1TB", "Samsung T7 1TB", "Crucial P5 500GB SSD"]
)
def test_the_number_of_a_drive_is_no_card(drive: str) -> None:
    assert parts_of(f"{HOST}RTX 3060 12GB\n{drive}") == "1cpu 1board 1ram 1gpu 1storage"


def test_the_same_number_without_a_maker_of_drives_is_a_card() -> None:
    assert parts_of(f"{HOST}RTX A2000 12GB") == "1cpu 1board 1ram 1gpu"


@pytest.mark.parametrize("case", ["NZXT H510", "Fractal Design Meshify 2", "Cooler Master NR200P"])
def test_the_parts_that_an_owner_does_not_name_fit_those_named(case: str) -> None:
    owned = with_unnamed_rest(
        read(f"Ryzen 5 3600\nMSI B450 TOMAHAWK MAX\n16GB (2x8GB) DDR4\nEVGA 550W\n{case}")
    )
    broken = [check.rule for check in judge(owned, Setting()) if check.verdict == "broken"]
    assert "cooler-height" not in broken


def test_a_supply_that_mends_a_list_carries_its_cards_at_full_power() -> None:
    board = "ASUS ROG Strix B550-F Gaming\n2x RTX 3090 Founders Edition\nCorsair RM750x 750W"
    text = f"Ryzen 5 5600X\n{board}\n32GB (2x16) DDR4-3200\nFractal Design Meshify 2\n1TB NVMe"
    question = Question(MachineLoad(models.get("llama-3.3-70b").record))
    mended = judge_listing(replace(read(text), is_running=True), question, price_book(), better=True).repaired
    assert mended is not None
    assert mended.machine is not None
    assert mended.machine.cards is not None
    assert mended.machine.supplies is not None
    assert mended.machine.cards.power_fraction == 1.0
    assert mended.machine.supplies.power_w > 750.0


@pytest.mark.parametrize(("watts", "verdicts"), [(750, ["advice"]), (1100, ["ok"])])
def test_a_second_supply_of_a_server_is_a_reserve_only_if_one_carries_all(
    watts: int, verdicts: list[str]
) -> None:
    server = f"Dell PowerEdge R730 2x Xeon E5-2680 v4 128GB DDR4 (8x16GB) 2x Tesla P40 24GB 2x {watts}W PSU"
    checks = judge(read(server).machine, Setting())
    assert [check.verdict for check in checks if check.rule == "psu-reserve"] == verdicts
    alone = judge(read(server.replace("2x " + str(watts), str(watts))).machine, Setting())
    assert not any(check.rule == "psu-reserve" for check in alone)


def test_a_report_of_a_program_is_that_of_a_machine_which_runs() -> None:
    cpu = "CPU:\n  Info: 8-core model: AMD Ryzen 7 5700X bits: 64"
    card = "Graphics:\n  Device-1: NVIDIA GA102 [GeForce RTX 3090] driver: nvidia"
    found = read(f"System:\n  Host: lab Kernel: 6.8\n{cpu}\n{card}")
    assert found.is_running
    verdict = judge_listing(found, Question(MachineLoad(models.get("8b").record)), price_book(), better=False)
    unknown = {check.rule: check.remedy for check in verdict.build.unknown}
    assert " W of supply" in unknown["psu-headroom"]


@pytest.mark.parametrize(
    "price", ["US $689.00\nBuy It Now", "$689\nOr Best Offer", "asking $689", "$689 OBO"]
)
@pytest.mark.parametrize(
    "remark", ["", "\nZ440 tower, two Tesla P40. No fans on the Teslas, cables included."]
)
def test_the_price_of_a_listing_is_that_of_its_machine(price: str, remark: str, tmp_path: Path) -> None:
    head = "HP Z440 Workstation Xeon E5-2690 v4 64GB DDR4 ECC + (2) Nvidia Tesla P40 24GB"
    (tmp_path / "list.txt").write_text(f"{head}\n{price}{remark}\n")
    found = read_listing(tmp_path / "list.txt", price_book())
    assert found.total_usd == 689.0
    assert [line.category for line in found.bill] == ["board", "cpu", "ram", "gpu"]
    assert found.machine.cards is not None
    assert found.machine.cards.num == 2


@pytest.mark.parametrize(
    "text",
    [
        "Already have:\n- RTX 3090\n- 64GB DDR5\n\nNeed to buy:\n- Ryzen 7 9700X",
        "RTX 3090 (already have it)\n64GB DDR5 - I already have these from my old rig\nRyzen 7 9700X",
        "I already have these:\nRTX 3090\n64GB DDR5\nStill need\nRyzen 7 9700X",
    ],
)
def test_parts_that_a_list_says_are_owned_cost_nothing(text: str) -> None:
    bill = {line.category: line.usd for line in read(text).bill}
    assert set(bill) == {"gpu", "ram", "cpu"}
    assert bill["gpu"] == bill["ram"] == 0.0
    assert bill["cpu"] > 0.0


@pytest.mark.parametrize(
    ("part", "more"),
    [
        ("Intel Core i7-11700K", "8 Core, 16 Threads"),
        ("Corsair CX550", "550W, 80 Plus Bronze"),
        ("Gigabyte B550M Aorus Elite", "AM4, DDR4"),
        ("MSI PRO B650-P WIFI", "AM5, DDR5, ATX"),
    ],
)
def test_figures_behind_commas_are_those_of_the_part(part: str, more: str) -> None:
    """In a row, and in a cart with number and price in the rows below."""
    alone = [line.name for line in read(part).bill]
    assert len(alone) == 1
    for text in (f"{part}, {more}", f"{part}, {more}\nQty: 1\n£99.00\nKingston NV3 1TB\nQty: 1\n£50.00\n"):
        found = read(text)
        assert not found.unknown
        assert [line.name for line in found.bill][:1] == alone


def test_a_card_with_a_higher_clock_has_the_size_of_the_plain_one() -> None:
    plain, clocked = (read(f"Gigabyte RTX 4090 GAMING{word} 24G").machine for word in ("", " OC"))
    assert plain.cards is not None
    assert clocked.cards is not None
    assert plain.cards.cards[0].length_m == clocked.cards.cards[0].length_m == 0.340


PARTS = (
    "Ryzen 7 9700X $549",
    "B850 Tomahawk $399",
    "64GB DDR5-6000 $499",
    "RTX 5070 Ti $1,349",
    "RM850x $229",
)


@pytest.mark.parametrize(
    ("mark", "total"),
    [
        ("https://ca.pcpartpicker.com/list/abc", "3,025.00 CAD"),
        ("from canadacomputers.ca", "3,025.00 CAD"),
        ("Prices at Memory Express", "3,025.00 CAD"),
        ("Kijiji parts", "3,025.00 CAD"),
        ("my list, all prices in AUD", "3,025.00 AUD"),
        ("Scorptec cart", "3,025.00 AUD"),
        ("umart.com.au", "3,025.00 AUD"),
        ("PB Tech cart", "3,025.00 NZD"),
        ("trademe.co.nz", "3,025.00 NZD"),
        ("Carrito Cyberpuerta", "3,025.00 MXN"),
        ("from newegg.com", ""),
        ("prices in USD, shipped from bestbuy.ca", ""),
    ],
)
def test_the_shop_tells_the_country_of_dollars(mark: str, total: str) -> None:
    found = read("\n".join((mark, *PARTS)))
    assert found.foreign_total == total
    assert found.total_usd == pytest.approx(3025.0) or total


@pytest.mark.parametrize(
    ("row", "usd", "number"),
    [
        ("6 x SlimSAS / x16 riser cables - $30 each", 180.0, 6),
        ("4 x PCIe riser / extension cable $25 each", 100.0, 4),
        ("2 x 8-pin / 6+2 pin cables - $8 each", 16.0, 2),
        ("3 x P40 shroud / fan kit - $12 each", 36.0, 3),
    ],
)
def test_two_names_of_a_part_have_one_number_and_one_price(row: str, usd: float, number: int) -> None:
    line = read(f"{HOST}2x Tesla P40 $300\n{row}").bill[-1]
    assert line.quantity * (line.unit_price_usd or 0.0) == pytest.approx(usd)
    assert line.quantity == number


def test_alike_rows_of_a_quote_have_one_reading() -> None:
    rows = "3 x NVIDIA RTX A6000 48GB $3,899\n2 x Samsung 990 Pro 2TB $199\n2 x Noctua NF-A12x25 $33\n"
    assert read(f"1 x Xeon w5-3435X $1,589\n{rows}").total_usd == 1589 + 3 * 3899 + 2 * 199 + 2 * 33
    whole = "2 x RTX 3090 $1500\n2 x WD Black SN850X 2TB $310\n1 x HX1500i $300\n"
    assert read(whole).total_usd == 2110


@pytest.mark.parametrize(
    "title",
    ["Facebook marketplace: mining rig $1100 OBO", "6 GPU mining rig - $1100", "AI rig for sale, $1,100"],
)
def test_the_price_of_a_whole_rig_in_its_title_is_that_of_all_parts(title: str) -> None:
    rows = (
        "Biostar TB360-BTC PRO 2.0",
        "i3-8100",
        "16GB DDR4 (2x8)",
        "8x RTX 3070 8GB",
        "2x HP 1200W server psu",
    )
    for body in (", ".join(rows), "\n".join(rows)):
        assert read(f"{title}\n{body}").total_usd == 1100


@pytest.mark.parametrize(
    "text",
    [
        "Lenovo P620 (TR PRO 3945WX, 8x16GB DDR4-3200 ECC RDIMM, 1000W PSU, 1TB) - from work, free\n"
        "buying 2x RTX 3090 $780 ea",
        "HP Z640, E5-2690v4, 128GB RDIMM, 925W (gifted) + 2x RTX 3090 $1560",
        "My old PC, already have: i7-8700K, Z370 Taichi, 32GB DDR4, RM650x. adding 2x RTX 3090 for $1560",
    ],
)
def test_what_is_there_costs_nothing_and_a_price_is_that_of_its_part(text: str) -> None:
    found = read(text)
    cards = next(line for line in found.bill if line.category == "gpu")
    assert (cards.quantity, cards.unit_price_usd) == (2, 780.0)
    assert found.total_usd == 1560


def test_a_row_with_a_price_ends_whatever_begins_the_next() -> None:
    found = read("""Koszyk
Lexar 1TB M.2 PCIe Gen4 NVMe NM790             1 x 429,00 zł
be quiet! Pure Power 13 M 750W 80 Plus Gold    1 x 479,00 zł
sapphire Pulse RX 7900 XTX 24GB                1 x 3 799,00 zł
""")
    assert [line.category for line in found.bill] == ["storage", "psu", "gpu"]
    assert found.bill[1].name.startswith("be quiet! Pure Power 13 M")
