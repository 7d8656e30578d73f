"""Lines of parts lists as people write them: which part, how many, at what price."""

from pathlib import Path

import pytest

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.part_prices import price_book
from advisor.workstation.assembly import Assembly
from advisor.workstation.card_names import find_card_name
from advisor.workstation.list_currency import write_amounts
from advisor.workstation.listing import Listing, read_listing
from advisor.workstation.part_names import kind_in
from advisor.workstation.typed_line import read_line


def read(*texts: str) -> Listing:
    return read_listing(None, price_book(), texts)


def card_of(machine: Assembly) -> tuple[int, str]:
    assert machine.cards is not None
    (accelerator,) = machine.cards.accelerators
    return machine.cards.num, accelerator


@pytest.mark.parametrize(
    ("text", "num", "accelerator"),
    [
        ("2x RTX 3090", 2, "rtx-3090"),
        ("2 x RTX 3090 24GB", 2, "rtx-3090"),
        ("4 RTX 3090", 4, "rtx-3090"),
        ("RTX 3090 (x4)", 4, "rtx-3090"),
        ("RTX 3090 [4x]", 4, "rtx-3090"),
        ("RTX 3090 x4", 4, "rtx-3090"),
        ("RTX 3090, qty: 3", 3, "rtx-3090"),
        ("Tesla P100 16GB PCIe x3 lot", 3, "p100-pcie-16gb"),
        ("RTX 3090 - 3 pcs", 3, "rtx-3090"),
        ("Dual RTX A6000", 2, "rtx-a6000"),
        ("two RTX 3090", 2, "rtx-3090"),
        ("a pair of 3090s", 2, "rtx-3090"),
        ("quad RTX 4090", 4, "rtx-4090"),
        ("- 2x used RTX3090", 2, "rtx-3090"),
        ("3. RTX 4070 Ti SUPER 16GB", 1, "rtx-4070-ti-super"),
        ("ASUS Dual GeForce RTX 4070 OC 12GB", 1, "rtx-4070"),
        ("3090Ti", 1, "rtx-3090-ti"),
        ("RTX 3060 Ti", 1, "rtx-3060-ti"),
        ("RTX 3060", 1, "rtx-3060-12gb"),
        ("RTX 4060 Ti 16GB", 1, "rtx-4060-ti-16gb"),
        ("RTX 4060 Ti 8 GB", 1, "rtx-4060-ti-8gb"),
        ("RTX 4090 D", 1, "rtx-4090-d"),
        ("RTX 5090", 1, "rtx-5090"),
        ("A100 80GB PCIe", 1, "a100-pcie-80gb"),
        ("4x L40S", 4, "l40s"),
        ("RTX PRO 6000 Max-Q", 1, "rtx-pro-6000-maxq"),
        ("RTX 6000 Pro Blackwell Workstation", 1, "rtx-pro-6000-ws"),
        ("NVIDIA RTX 6000 Ada Generation", 1, "rtx-6000-ada"),
        ("Radeon RX 7900XTX", 1, "rx-7900-xtx"),
        ("Tesla V100 32GB", 1, "v100-pcie-32gb"),
        ("RTX A5000", 1, "rtx-a5000"),
        ("4x RTX PRO 6000 96GB", 4, "rtx-pro-6000-ws"),
    ],
)
def test_cards_are_read_with_their_number(text: str, num: int, accelerator: str) -> None:
    assert card_of(read(text).machine) == (num, accelerator)


@pytest.mark.parametrize(
    "text",
    [
        "RTX 3060 8GB",
        "8x RTX 4090 D 96GB",
        "RTX 4090 32GB",
        "MI50",
        "RX 7650 GRE",
        "Radeon RX 6550 XT",
        "RTX A6000 Ada",
        "RTX 2070 Laptop",
        "GTX 950",
        "A100",
        "H100 SXM",
    ],
)
def test_a_card_that_is_not_exactly_known_is_named_and_never_another(text: str) -> None:
    listing = read(text, "B650 board")
    assert listing.machine.cards is None
    assert len(listing.unknown) == 1
    assert listing.unknown[0].why or listing.unknown[0].hint


@pytest.mark.parametrize("suffix", ["Ti", "SUPER", "D", "XT", "Ada", "Max-Q", "Laptop", "48GB", "SXM"])
@pytest.mark.parametrize("number", ["RTX 3090", "RTX 4090", "RTX A6000", "RX 7900 XTX", "L40S"])
def test_a_suffix_is_never_dropped(number: str, suffix: str) -> None:
    plain = find_card_name(number)
    suffixed = find_card_name(f"{number} {suffix}")
    assert plain is not None
    assert suffixed is None or set(plain.accelerators).isdisjoint(suffixed.accelerators) or suffix == "48GB"


@pytest.mark.parametrize(
    ("text", "modules", "gib", "kind", "mts"),
    [
        ("RAM 32GB DDR4-3600 (2x16) $58", 2, 32, "DDR4", 3600),
        ("96GB DDR5-5600 (2x48GB)", 2, 96, "DDR5", 5600),
        ("4x48GB DDR5-5600", 4, 192, "DDR5", 5600),
        ("8x 64 GB DDR5-5600 ECC RDIMM (512 GB total) $2,500", 8, 512, "DDR5", 5600),
        ("Crucial Pro 128GB Kit (2x64GB) DDR5-5600", 2, 128, "DDR5", 5600),
        ("Kingston FURY Beast DDR5 5600 32GB", 2, 32, "DDR5", 5600),
        ("64GB DDR5-5600", 2, 64, "DDR5", 5600),
        ("32GB DDR4-3600 CL16", 2, 32, "DDR4", 3600),
        ("2 x 32 GB DDR5 6000 memory", 2, 64, "DDR5", 6000),
    ],
)
def test_memory_is_memory_whatever_its_speed_reads_like(
    text: str, modules: int, gib: int, kind: str, mts: int
) -> None:
    machine = read(text, "RTX 3090").machine
    assert machine.cpu is None
    memory = machine.memory
    assert memory is not None
    assert (memory.num_modules, round(memory.capacity_bytes / 2**30)) == (modules, gib)
    assert (memory.kit.ram_type, memory.kit.speed_mts) == (kind, mts)


@pytest.mark.parametrize(
    ("text", "cards", "bridges"),
    [
        ("2x NVIDIA RTX 3090 24GB, NVLink bridged", (2, "rtx-3090"), 1),
        ("2x RTX 3090 with NVLink", (2, "rtx-3090"), 1),
        ("2x used A6000 + NVLink", (2, "rtx-a6000"), 1),
        ("4x RTX 3090 + 2 NVLink bridges", (4, "rtx-3090"), 2),
        ("4x RTX 3090 (NVLinked in pairs)", (4, "rtx-3090"), 2),
        ("2x RTX 3090 without NVLink", (2, "rtx-3090"), 0),
    ],
)
def test_a_bridge_joins_cards_that_stay(text: str, cards: tuple[int, str], bridges: int) -> None:
    machine = read(text).machine
    assert card_of(machine) == cards
    assert len(machine.bridges) == bridges


def test_a_bridge_alone_is_a_bridge() -> None:
    machine = read("NVLink bridge for RTX 3090", "2x RTX 3090").machine
    assert card_of(machine) == (2, "rtx-3090")
    assert len(machine.bridges) == 1


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("4x RTX 3090 $750 each", 3000),
        ("4x RTX 3090 @ $750", 3000),
        ("4x RTX 3090 $750/ea", 3000),
        ("4x RTX 3090 750 USD each", 3000),
        ("4x RTX 3090 $3000", 3000),
        ("4x RTX 3090 $3000 total", 3000),
        ("4x RTX 3090 $750", 3000),
        ("4x RTX 3090 $750 total", 750),
    ],
)
def test_a_price_is_of_all_or_of_each_as_the_line_says(text: str, usd: float) -> None:
    assert read(text).total_usd == pytest.approx(usd)


def test_a_price_that_only_fits_one_card_is_told() -> None:
    assert any("$750 each" in note for note in read("4x RTX 3090 $750").notes)


def test_parts_joined_in_a_line_share_its_price() -> None:
    listing = read("Ryzen 7 5700X + 64GB DDR4 $420", "RTX 3090 $700")
    assert listing.machine.cpu is not None
    assert listing.machine.memory is not None
    assert listing.total_usd == pytest.approx(1120)


@pytest.mark.parametrize(
    "text",
    [
        "2x RTX 3090 (x4)",
        "-3x RTX 3090",
        "0x RTX 3090",
        "100000x RTX 3090",
    ],
)
def test_a_line_that_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(InputFileError):
        read(text)


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("DGX Spark", "dgx-spark"),
        ("NVIDIA DGX Spark 128GB $4,699", "dgx-spark"),
        ("Framework Desktop 128GB", "framework-desktop-128gb"),
        ("Mac Studio M3 Ultra 512GB", "mac-studio-m3-ultra-512gb"),
        ("GMKtec EVO-X2 128GB", "strix-halo-mini-pc"),
    ],
)
def test_a_complete_machine_is_read_by_its_name(text: str, system: str) -> None:
    found = read(text).system
    assert found is not None
    assert found.id == system


@pytest.mark.parametrize("text", ["Mac Studio M3 Ultra", "Mac Studio M3 Ultra 192GB"])
def test_a_machine_of_another_size_is_not_taken(text: str) -> None:
    with pytest.raises(AdvisorError):
        read(text)


@pytest.mark.parametrize(
    ("text", "accelerator"),
    [
        ("RTX 2060", "rtx-2060"),
        ("RTX 2060 12GB", "rtx-2060-12gb"),
        ("RTX 3080", "rtx-3080"),
        ("RTX PRO 5000 Blackwell", "rtx-pro-5000"),
        ("RTX 4000 Ada", "rtx-4000-ada"),
        ("RTX 4000 SFF Ada", "rtx-4000-sff-ada"),
        ("CMP 170HX", "cmp-170hx"),
        ("GTX 1660 Super", "gtx-1660-super"),
    ],
)
def test_a_plain_number_is_the_card_that_its_maker_names_without_size(text: str, accelerator: str) -> None:
    assert card_of(read(text, "B650 board").machine) == (1, accelerator)


@pytest.mark.parametrize(
    "texts",
    [
        ("Lenovo Legion Pro 7i (i9-13900HX, RTX 4090, 32GB DDR5, 2TB)",),
        ("Razer Blade 16", "RTX 4090", "64GB DDR5"),
        ("notebook with RTX 4090 mobile 16GB",),
        ("RTX4090 laptop",),
    ],
)
def test_the_card_of_a_laptop_is_never_the_desktop_card_of_its_number(texts: tuple[str, ...]) -> None:
    listing = read(*texts)
    assert listing.machine.cards is None
    assert listing.system is not None
    assert listing.system.accelerator == "rtx-4090-laptop"


def test_a_card_in_a_dock_beside_a_laptop_is_the_desktop_card() -> None:
    assert card_of(read("ThinkPad T14", "RTX 3090 in an eGPU dock").machine) == (1, "rtx-3090")


@pytest.mark.parametrize(
    ("texts", "power_w"),
    [
        (("Dell OptiPlex 7050 SFF", "i5-7500", "RTX 3060 12GB"), 180),
        (("HP EliteDesk 800 G5 Tower i7-9700", "RTX A2000 12GB"), 250),
        (("HP EliteDesk 800 G5 Tower i7-9700", "RTX A2000 12GB", "Corsair SF750 750W"), 750),
    ],
)
def test_a_machine_sold_whole_has_its_own_supply_unless_the_list_names_one(
    texts: tuple[str, ...], power_w: float
) -> None:
    machine = read(*texts).machine
    assert machine.supplies is not None
    assert machine.supplies.power_w == power_w
    assert machine.board is not None
    assert machine.case is not None
    assert machine.case.sold_with == machine.board.name


@pytest.mark.parametrize(
    "text",
    [
        "Frame — 2500 ₽",
        "Открытый стенд — 2500 ₽",
        "Рама: 3000 ₽",
        "Gestell 40 €",
        "bastidor abierto 60 €",
        "机架 200元",
        "Gehäuse - 80 €",
        "Boîtier: 90€",
        "ケース 8000円",
    ],
)
def test_a_kind_of_part_alone_is_priced_in_any_currency_and_language(text: str) -> None:
    line = read_line(write_amounts(text)[0], "row 1")
    assert (line.category or kind_in(line.what)) == "case"
    assert line.usd


@pytest.mark.parametrize("row", ["RTX 3060 (2) x4", "case -$50", "0x Noctua NH-U9", "— 40 €: 2x (3)"])
def test_a_row_that_cannot_be_read_costs_that_row_and_not_the_answer(row: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"Ryzen 9 5950X\nB550 Tomahawk\n{row}\n64GB DDR4\nRTX 3090 $700\n")
    found = read_listing(path, price_book())
    assert found.machine.cpu is not None
    assert found.machine.board is not None
    assert card_of(found.machine) == (1, "rtx-3090")
    assert any(row.partition("€")[2] in error.part for error in found.unknown)
    path.write_text(f"{row}\n")
    with pytest.raises(InputFileError):
        read_listing(path, price_book())


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("RTX 3090 24GB", 350.0),
        ("2x RTX 3090", 350.0),
        ("RTX 3090 24GB (б/у) по", 350.0),
        ("RTX 3090 Ti", 450.0),
        ("RX 9070 XT 16GB", 304.0),
        ("Radeon AI PRO R9700 32GB", 300.0),
        ("Palit RTX 3090 GameRock", 370.0),
    ],
)
def test_a_card_without_a_model_draws_the_rated_power_of_its_kind(text: str, watts: float) -> None:
    cards = read(text).machine.cards
    assert cards is not None
    assert {card.power_w for card in cards.cards} == {watts}


@pytest.mark.parametrize(
    ("title", "total"),
    [
        ("$300 ebay special, 40GB VRAM", 850.0),
        ("Budget build, 48GB VRAM for $900", 850.0),
        ("Schnäppchen, 48GB VRAM $900", 850.0),
        ("My AI server, 48 GB of VRAM in total", 850.0),
    ],
)
def test_a_title_with_the_price_of_all_parts_is_no_part(title: str, total: float, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{title}\n2x Tesla P40 $200 each\nEPYC 7302 $150\n64GB DDR4 ECC $100\nROMED8-2T $200\n")
    found = read_listing(path, price_book())
    assert found.total_usd == total
    assert not found.unknown
    assert len(found.lines) == 4
