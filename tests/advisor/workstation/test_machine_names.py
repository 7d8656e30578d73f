"""Names of whole machines and of CPUs: every record is read by its name, and numbers are those of their family."""

import csv
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import cpu_by_number, find_cpu
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import Cpu
from advisor.workstation.assembly import Setting
from advisor.workstation.card_names import find_card_name
from advisor.workstation.listing import read_listing, read_listings
from advisor.workstation.part_names import board_by_chipset, kind_in, server_in
from advisor.workstation.rules_power import psu_headroom, two_supplies

CPUS: Final = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
TABLE: Final = parts.FOLDER / "machines.csv"
MACHINES: Final = [
    row["name"]
    for row in csv.DictReader(
        line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")
    )
]


def test_every_whole_machine_is_read_by_its_name() -> None:
    for name in MACHINES:
        found = server_in(name)
        assert found is not None
        assert found.name == name
        assert kind_in(name) == "board"


def test_every_series_has_a_cpu_by_which_others_are_judged() -> None:
    held = {cpu.series.id for cpu in CPUS}
    assert set(parts.cpu_series()) <= held


def test_numbers_of_a_series_are_those_of_its_cpus_alone() -> None:
    for cpu in CPUS:
        by_number = cpu_by_number(cpu.name)
        assert by_number is None or by_number.series.socket == cpu.series.socket, cpu.name


def test_numbers_of_cards_are_those_of_no_cpu() -> None:
    cards = [record for record in accelerators.all_accelerators() if find_card_name(record.name) is not None]
    assert not [record.name for record in cards if cpu_by_number(record.name) is not None]


@pytest.mark.parametrize("family", ["i5-", "i7-", "OptiPlex ", "Precision ", "Ryzen 7 "])
def test_a_number_behind_another_family_is_no_card(family: str) -> None:
    numbers = {record.name.split()[-1] for record in accelerators.all_accelerators()}
    bare = sorted(number for number in numbers if number.isdecimal() and len(number) == 4)
    assert bare
    assert [number for number in bare if find_card_name(f"{family}{number}") is not None] == []


@pytest.mark.parametrize("words", ["5th gen ", "Turin ", "5th generation "])
def test_generations_between_family_and_number_change_no_cpu(words: str) -> None:
    assert find_cpu("EPYC 9355P") is not None
    found = cpu_by_number(f"EPYC {words}9135") or find_cpu(f"EPYC {words}9135")
    assert found is not None
    assert found.series.id == "epyc-sp5-turin"


def test_a_mini_pc_has_its_own_cpu() -> None:
    machine = read_listing(None, price_book(), ["Minisforum UM890 Pro", "64GB DDR5"]).machine
    assert machine.cpu is not None
    assert machine.cpu.name == "AMD Ryzen 9 8945HS"


@pytest.mark.parametrize("name", ["2x RTX 3090", "RTX 4090", "4x MI50 32GB"])
@pytest.mark.parametrize("behind", ["via USB4 eGPU", "over OCuLink", "in a dock on Thunderbolt"])
def test_a_card_that_a_question_adds_to_a_whole_machine_is_read(name: str, behind: str) -> None:
    listing = read_listing(None, price_book(), [f"Can I add {name} {behind} to my Framework Desktop 128GB?"])
    assert listing.system is not None
    assert listing.machine.cards is not None
    assert listing.machine.cards.num == (int(name[0]) if name[1] == "x" else 1)


@pytest.mark.parametrize("num", [3, 5, 6])
def test_supplies_beside_an_open_frame_have_room(num: int) -> None:
    machine = read_listing(
        None, price_book(), ["6x RTX 3090", "6 GPU mining frame", f"{num}x 850W Gold PSU"]
    ).machine
    check = two_supplies.check(machine, Setting())
    assert check is not None
    assert "holds" not in check.why


@pytest.mark.parametrize("cpu", ["Core i7-13700K", "Ryzen 9 9950X", "Core Ultra 7 265K"])
@pytest.mark.parametrize("threads", [16, 24, 32])
def test_the_number_of_threads_is_no_number_of_cpus(cpu: str, threads: int) -> None:
    listing = read_listing(None, price_book(), [f"{threads} × {cpu}", "64GB RAM", "RTX 3090"])
    assert listing.num_cpus == 1
    assert listing.notes


REPORT: Final = """Processors: 16 × {cpu}
Memory: 62.5 GiB of RAM
Graphics Processor: {card}/PCIe/SSE2
VRAM: 16GiB
Manufacturer: ASUS
"""


@pytest.mark.parametrize("card", ["NVIDIA GeForce RTX 4060 Ti", "NVIDIA GeForce RTX 5060 Ti"])
def test_a_report_of_a_desktop_names_cpu_memory_and_the_card_with_its_memory(
    card: str, tmp_path: Path
) -> None:
    path = tmp_path / "list.txt"
    path.write_text(REPORT.format(cpu="Intel® Core™ i7-13700K", card=card), encoding="utf-8")
    listing = read_listing(path, price_book())
    assert [(line.category, line.quantity) for line in listing.bill] == [("cpu", 1), ("ram", 1), ("gpu", 1)]
    assert not listing.unknown
    assert listing.machine.cards is not None
    assert listing.machine.cards.accelerators[0].endswith("16gb")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Mac Studio M3 Ultra 256GB or 4x RTX 3090 on a ROMED8-2T with EPYC 7302, two 1200W PSUs?",
            ["Mac Studio M3 Ultra 256GB", "4x RTX 3090 on a ROMED8-2T with EPYC 7302, two 1200W"],
        ),
        (
            "DGX Spark vs a PC with Ryzen 9 7900X, 64GB DDR5-6000, RTX 4090 for gpt-oss-120b",
            ["DGX Spark", "Ryzen 9 7900X, 64GB DDR5-6000, RTX 4090"],
        ),
    ],
)
def test_the_parts_behind_the_last_choice_are_its_own(text: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(text)
    found = read_listings(path, price_book())
    assert [name for name, _ in found] == names
    assert found[0][1].system is not None
    assert found[0][1].machine.cards is None
    assert found[1][1].machine.cards is not None


def test_a_whole_machine_without_cards_is_never_short_of_its_own_supply() -> None:
    for name in MACHINES:
        machine = read_listing(None, price_book(), [name, "64GB RAM", "Xeon E5-2690 v4"]).machine
        if machine.supplies is not None:
            check = psu_headroom.check(machine, Setting())
            assert check is None or check.passed, name


@pytest.mark.parametrize("question", ["Will a 1000W PSU be enough for", "Is a 1000W supply ok for"])
@pytest.mark.parametrize("num", [2, 3])
def test_a_question_whether_a_supply_is_enough_names_both_sides(question: str, num: int) -> None:
    machine = read_listing(None, price_book(), [f"{question} {num}x RTX 4090?", "Ryzen 9 7950X"]).machine
    assert machine.supplies is not None
    assert machine.supplies.power_w == 1000.0
    assert machine.cards is not None
    assert machine.cards.num == num


@pytest.mark.parametrize("name", ["SYS-421GE-TNRT", "Dell PowerEdge R750xa", "Supermicro AS-4124GS-TNR"])
def test_a_chassis_that_is_a_server_is_the_machine(name: str) -> None:
    listing = read_listing(
        None, price_book(), [f"Chassis: {name}", "Motherboard: Quarble X17", "4x L40S", "512GB DDR5"]
    )
    assert listing.machine.board is not None
    assert server_in(name) == server_in(listing.machine.board.name)
    assert not listing.unknown


def test_a_chipset_alone_is_never_a_machine_that_is_sold_whole() -> None:
    for chipset in sorted({c for s in parts.cpu_series().values() for c in s.chipsets}):
        board = board_by_chipset(f"{chipset} motherboard")
        assert board is None or "server" not in board.flags
