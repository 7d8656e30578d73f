"""Lists as forums, shops and programs print them: marks, tables and reports change nothing about the parts."""

from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listing
from advisor.workstation.pasted_text import plain_rows
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.typed_line import read_line
from advisor.workstation.verdict import judge_listing

PARTS: Final = {
    "CPU": "AMD Ryzen 9 9950X",
    "Motherboard": "Asus ProArt X870E-CREATOR WIFI",
    "Memory": "96GB (2x48GB) DDR5-6000",
    "Video Card": "RTX 4090",
    "Power Supply": "Corsair RM1000e",
}
PRICES: Final = (500, 450, 800, 2000, 150)
FORMS: Final = {
    "plain": ("", "{kind}: {part} ${usd}", ""),
    "markdown": ("## My build\n**Specs:**\n", "- **{kind}:** {part} - ${usd}", "**Total:** $3900"),
    "bbcode": (
        "[b]List[/b]:\n",
        "[b]{kind}:[/b] [url=https://x.y/z]{part}[/url] (${usd}.00 @ Shop)",
        "[i]Total[/i]: $3900",
    ),
    "html": ("<table>", "<tr><td>{kind}</td><td>{part}</td><td>${usd}</td></tr>", "</table>"),
    "one row": ("", "<tr><td>{kind}</td><td>{part}</td><td>${usd}</td></tr>", ""),
    "invoice": (
        "Invoice of a workstation\nQty  Description           Unit price   Amount\n",
        "1    {part}        ${usd}.00     ${usd}.00",
        "     Total    $3900.00",
    ),
    "page": ("", "{kind}\n{part}\n${usd}.00", "Total:\n$3900.00"),
    "prompt": ("me@box:~$ cat list.txt\n", "{kind} = {part} ${usd}", ""),
}


def read_text(folder: Path, text: str, name: str = "list.txt") -> Listing:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_listing(file, price_book())


def bill(listing: Listing) -> list[tuple[str, int, str, float]]:
    return [(line.category, line.quantity, line.name, line.usd) for line in listing.bill]


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_list_changes_nothing(form: str, tmp_path: Path) -> None:
    head, row, tail = FORMS[form]
    joint = "" if form == "one row" else "\n"
    rows = [
        row.format(kind=kind, part=part, usd=usd)
        for (kind, part), usd in zip(PARTS.items(), PRICES, strict=True)
    ]
    listing = read_text(tmp_path, f"{head}{joint.join(rows)}\n{tail}\n")
    plain = read_text(
        tmp_path, "\n".join(f"{part} ${usd}" for part, usd in zip(PARTS.values(), PRICES, strict=True))
    )
    assert not listing.unknown
    assert bill(listing) == bill(plain)
    assert listing.total_usd == sum(PRICES)


REPORTS: Final = {
    "lspci": (
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
        "01:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev a1)\n"
        "02:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n"
        "41:00.0 3D controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
        "Model name:          AMD EPYC 7302 16-Core Processor\nSocket(s):  1\n"
    ),
    "lshw": (
        "H/W path     Device  Class       Description\n"
        "/0                   bus         ROMED8-2T\n"
        "/0/9                 processor   AMD EPYC 7302 16-Core Processor\n"
        "/0/f                 memory      64GiB System Memory\n"
        "/0/f/0               memory      32GiB DIMM DDR4 Synchronous Registered (Buffered) 3200 MHz\n"
        "/0/f/1               memory      32GiB DIMM DDR4 Synchronous Registered (Buffered) 3200 MHz\n"
        "/0/1/0               display     GA102 [GeForce RTX 3090]\n"
        "/0/2/0               display     GA102 [GeForce RTX 3090]\n"
        "/0/3/0               display     ASPEED Graphics Family\n"
    ),
    "inxi": (
        "System:\n  Host: box Kernel: 6.8.0\nMachine:\n  Type: Server Mobo: ASRockRack model: ROMED8-2T serial: x\n"
        "CPU:\n  Info: 16-core model: AMD EPYC 7302 bits: 64\n"
        "Graphics:\n  Device-1: NVIDIA GA102 [GeForce RTX 3090] driver: nvidia\n"
        "  Device-2: NVIDIA GA102 [GeForce RTX 3090] driver: nvidia\n"
        "Memory:\n  System RAM: total: 64 GiB available: 62.7 GiB\n"
    ),
    "nvidia-smi": (
        "| NVIDIA-SMI 565.57.01    Driver Version: 565.57.01    CUDA Version: 12.7 |\n"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "|   0  NVIDIA GeForce RTX 3090        On  |   00000000:01:00.0 Off |                  N/A |\n"
        "| 30%   41C    P8             22W /  280W |       2MiB /  24576MiB |      0%      Default |\n"
        "|   1  NVIDIA GeForce RTX 3090        On  |   00000000:41:00.0 Off |                  N/A |\n"
        "EPYC 7302\n"
    ),
    "neofetch": (
        "me@box\n------\nOS: Ubuntu 24.04\nKernel: 6.8.0\nUptime: 3 days\nHost: ROMED8-2T\n"
        "CPU: AMD EPYC 7302 (32) @ 3.000GHz\nGPU: NVIDIA GeForce RTX 3090\nGPU: NVIDIA GeForce RTX 3090\n"
        "Memory: 8123MiB / 64250MiB\n"
    ),
}


@pytest.mark.parametrize("program", REPORTS)
def test_what_a_program_prints_is_read_as_its_parts(program: str, tmp_path: Path) -> None:
    listing = read_text(tmp_path, REPORTS[program])
    machine = listing.machine
    assert machine.cpu is not None
    assert "7302" in machine.cpu.name
    assert machine.cards is not None
    assert [card.accelerator for card in machine.cards.cards] == ["rtx-3090", "rtx-3090"]
    names = {line.name for line in listing.bill if line.category not in ("gpu", "cpu", "board", "ram")}
    assert not names
    if machine.memory is not None:
        assert machine.memory.capacity_bytes == 64 * 2**30
    checks = judge_listing(
        listing, Question(MachineLoad(models.get("8b").record)), price_book(), better=False
    ).build.checks
    assert next(check for check in checks if check.rule == "complete").verdict == "unknown"


@pytest.mark.parametrize(
    "price", ["899,00 €", "£700", "CA$900", "¥38,000", "8500元", "39,800円", "1.450 € VB", "650 EUR"]
)
def test_a_price_in_another_currency_is_named_and_does_not_count(price: str, tmp_path: Path) -> None:
    listing = read_text(tmp_path, f"Ryzen 5 5600 $100\nGPU: RTX 3090 {price}\n")
    assert [(line.category, line.quantity) for line in listing.bill] == [("cpu", 1), ("gpu", 1)]
    assert listing.foreign_total or any("row 2" in note for note in listing.notes)
    assert listing.bill[1].price_basis != "user"
    table = read_text(tmp_path, f'name,price\nRyzen 5 5600,100\nRTX 3090,"{price}"\n', "list.csv")
    assert table.bill[1].price_basis != "user"
    assert table.foreign_total


@pytest.mark.parametrize(
    ("text", "what", "quantity"),
    [
        ("DDR5-5600 32GB×2", "DDR5-5600 32GB", 2),
        ("RTX 3090 24GB x4", "RTX 3090 24GB", 4),
        ("32G×16 RECC DDR4 3200", "32GB ECC RDIMM DDR4 3200", 16),
        ("64GB (2x32GB) DDR5", "64GB 2x32GB DDR5", 1),
        ("2*16GB DDR4-3200", "2x16GB DDR4-3200", 1),
        ("8x Samsung 32GB 2Rx4 PC4-3200AA-RB2-12", "Samsung 32GB 2Rx4 DDR4-3200 ECC RDIMM", 8),
        ("16GB PC3L-12800R", "16GB DDR3-1600 ECC RDIMM", 1),
        ("1 Gigabyte G292-Z20", "Gigabyte G292-Z20", 1),
        ("64 gigabyte of DDR4", "64GB of DDR4", 1),
        ("Ryzen 7 8700G", "Ryzen 7 8700G", 1),
        (
            "1 Samsung 990 PRO 2TB, M.2 2280 / PCIe 4.0 x4 (MZ-V9P2T0BW)",
            "Samsung 990 PRO 2TB M.2 2280 / PCIe 4.0 x4",
            1,
        ),
    ],
)
def test_sizes_and_numbers_of_pieces_are_told_apart(text: str, what: str, quantity: int) -> None:
    line = read_line(text, "here")
    assert (line.what, line.quantity) == (what, quantity)


@pytest.mark.parametrize("count", range(1, 9))
def test_an_invoice_states_the_price_of_one_and_of_all(count: int) -> None:
    line = read_line(f"{count}    RTX 3090 24GB      $700.00     ${700 * count:,}.00", "here")
    assert (line.quantity, line.usd) == (count, 700 * count)


@pytest.mark.parametrize(
    ("text", "board"),
    [
        ("Dell Precision 7910 Tower", "Dell Precision T7910"),
        ("Dell T7910 workstation, used", "Dell Precision T7910"),
        ("HPE ProLiant DL380 G9 server", "HPE ProLiant DL380 Gen9"),
        ("DL380 Gen10 8SFF", "HPE ProLiant DL380 Gen10"),
        ("Supermicro 4028GR-TRT barebone", "Supermicro SYS-4028GR-TRT"),
        ("Gigabyte G292-Z20 GPU server (Rev. 100)", "Gigabyte G292-Z20"),
    ],
)
def test_a_machine_sold_whole_is_known_by_its_number(text: str, board: str) -> None:
    listing = read_listing(None, price_book(), [text, "2x Tesla P40"])
    assert listing.machine.board is not None
    assert listing.machine.board.name == board


@pytest.mark.parametrize(
    ("text", "series"),
    [
        ("Xeon E5-2643 v4", "lga2011-3"),
        ("Xeon Gold 6271", "lga3647"),
        ("EPYC 7D12", "epyc-sp3"),
        ("EPYC 7V13", "epyc-sp3"),
        ("EPYC 9V74", "epyc-sp5"),
    ],
)
def test_a_server_cpu_without_a_record_has_the_socket_of_its_number(text: str, series: str) -> None:
    cpu = read_listing(None, price_book(), [text, "RTX 3090"]).machine.cpu
    assert cpu is not None
    assert cpu.series.id == series


def test_a_stated_power_limit_is_that_of_the_cards() -> None:
    cards = read_listing(None, price_book(), ["2x RTX 3090 (power limited to 280W)"]).machine.cards
    assert cards is not None
    assert cards.power_w == pytest.approx(560)


def test_a_cooler_for_one_socket_is_none_for_another() -> None:
    listing = read_listing(None, price_book(), ["EPYC 9354P", "Arctic Freezer 4U-SP5"])
    assert listing.machine.cooler is not None
    assert listing.machine.cooler.sockets == ("SP5",)


SENTENCES: Final = {
    "I have a Ryzen 7 5700X with 64GB of DDR4-3200 on an MSI B550 Tomahawk. I want to run two 3090s. PSU is a Corsair "
    "RM850x. The case is a Fractal Define 7.": [
        ("cpu", 1),
        ("ram", 1),
        ("board", 1),
        ("gpu", 2),
        ("psu", 1),
        ("case", 1),
    ],
    "Bought an HP Z6 G4 for $380: Xeon Silver 4114, 96GB (6x16GB), 1000W PSU. Adding two RTX 3060 12GB ($210 each).": [
        ("board", 1),
        ("cpu", 1),
        ("ram", 1),
        ("psu", 1),
        ("gpu", 2),
    ],
    "Lenovo ThinkStation P620 - Threadripper Pro 3945WX - 64GB (4x16) ECC - RTX A4000 16GB x 3 - 1000W": [
        ("board", 1),
        ("cpu", 1),
        ("ram", 1),
        ("gpu", 3),
        ("psu", 1),
    ],
    "Threadripper 3960X | ASRock TRX40 Creator | 256GB DDR4-3200 ECC UDIMM (8x32) | 2x RTX 3090 FE (NVLink)": [
        ("cpu", 1),
        ("board", 1),
        ("ram", 1),
        ("gpu", 2),
        ("bridge", 1),
    ],
    "EPYC 7532 + H12SSL-i combo + 256GB (8x32) DDR4 3200 - $1,150": [("cpu", 1), ("board", 1), ("ram", 1)],
    "Mac Studio M2 Ultra 24-core CPU, 76-core GPU, 192GB unified memory, 2TB SSD $4,200": [("system", 1)],
    "构建：2080Ti 22G ×2，i5-12400F，DDR4 3200 16G×4，1000W": [
        ("gpu", 2),
        ("cpu", 1),
        ("ram", 4),
        ("psu", 1),
    ],
    "64GB 6000": [("ram", 1)],
    "2x32 6000 CL30": [("ram", 1)],
    "1TB (16x64GB) 3200": [("ram", 1)],
    "8 × Samsung M393A4K40DB3-CWE 32GB": [("ram", 8)],
    "3x RTX 4090 (2 on risers)": [("gpu", 3)],
    "RTX 3090 x 2 NVLink'd": [("gpu", 2), ("bridge", 1)],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_one_line_names_its_parts_as_a_reader_counts_them(text: str) -> None:
    listing = read_listing(None, price_book(), [text])
    assert [(line.category, line.quantity) for line in listing.bill] == SENTENCES[text]


def test_a_cpu_is_of_the_family_that_its_line_states() -> None:
    for text, name in (("Threadripper 9960X", "Threadripper"), ("i9-9960X", "Core i9")):
        cpu = read_listing(None, price_book(), [text, "RTX 3090"]).machine.cpu
        assert cpu is not None
        assert name in cpu.name


def test_one_chip_of_several_cards_is_named_and_not_taken(tmp_path: Path) -> None:
    row = "03:00.0 VGA compatible controller: AMD Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE] (rev c8)"
    listing = read_text(tmp_path, f"{row}\nModel name: AMD Ryzen 9 5900X 12-Core Processor\n")
    assert listing.machine.cards is None
    assert "can mean several" in listing.unknown[0].what


def test_a_title_above_labelled_rows_names_no_part(tmp_path: Path) -> None:
    rows = [
        "My dual 3090 build for 70B (total ~$2,600)",
        "CPU: Ryzen 7 5700X",
        "RAM: 2x32GB DDR4-3200",
        "GPU: 2x RTX 3090",
    ]
    listing = read_text(tmp_path, "\n".join(rows))
    assert [(line.category, line.quantity) for line in listing.bill] == [("cpu", 1), ("ram", 1), ("gpu", 2)]


def test_more_memory_than_an_old_record_states_is_unknown() -> None:
    """Desktop boards of DDR5 take modules of 48 and 64 GB since later firmware."""
    question = Question(MachineLoad(models.get("8b").record))
    for memory, verdict in (("4x48GB DDR5-5200", "unknown"), ("4x16GB DDR5-5200", "ok")):
        parts = ["Ryzen 9 7950X3D", "Asus ROG Strix X670E-E", memory, "RTX 4090"]
        listing = read_listing(None, price_book(), parts)
        checks = judge_listing(listing, question, price_book(), better=False).build.checks
        found = next(check for check in checks if check.rule == "memory-size")
        assert found.is_unknown == (verdict == "unknown")
        assert found.passed == (verdict == "ok")


def test_dots_divide_a_list_of_one_line() -> None:
    rows = [row for _, row, _ in plain_rows("2x RTX 3090 · 1000W Platinum PSU · 64GB DDR5\n")]
    assert rows == ["2x RTX 3090", "1000W Platinum PSU", "64GB DDR5"]


@pytest.mark.parametrize(
    "stamp",
    [
        "Tue Jul 28 16:27:22 2026",
        "Mon Nov 30 19:01:52 UTC 2026",
        "Di 28. Jul 16:27:22 CEST 2026",
        "mar. 28 juil. 2026 16:27:22",
        "2026-07-28T16:27:22+02:00",
        "Timestamp : Tue Jul 28 16:27:22 2026",
        "July 28, 2026",
    ],
)
def test_a_date_above_a_report_is_no_part(stamp: str) -> None:
    assert [row for _, row, _ in plain_rows(f"{stamp}\nRTX 2070")] == ["RTX 2070"]


@pytest.mark.parametrize(
    "row",
    [
        "Mem:              62           4          50           0           8          57",
        "Mem:           64263        4211       50000           1        8000       57000",
        "Mem:        65806392     4312345    50312345        1234     8312345    57312345",
        "Mem:            62Gi       4.1Gi        50Gi       1.0Mi       8.0Gi        57Gi",
        "Mem:           62,8G        4,1G       50,0G        1,0M        8,0G       57,2G",
    ],
)
def test_free_tells_the_memory_in_any_unit(row: str) -> None:
    text = f"        total   used   free  shared  buff/cache   available\n{row}\nSwap:  7  0  7\n"
    assert [each[1] for each in plain_rows(text)] == ["RAM: 64GB"]
