"""Names of whole machines and of CPUs: every record is read by its name, and numbers are those of their family."""

import csv
from typing import Final

import pytest

from advisor.catalog import accelerators, parts
from advisor.catalog.cpu_names import cpu_by_number, find_cpu
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import Cpu
from advisor.workstation.card_names import find_card_name
from advisor.workstation.listing import read_listing
from advisor.workstation.part_names import kind_in, server_in

CPUS: Final = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
TABLE: Final = parts.FOLDER / "machines.csv"
MACHINES: Final = [
    row["name"]
    for row in csv.DictReader(
        line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")
    )
]


@pytest.mark.parametrize("name", MACHINES)
def test_every_whole_machine_is_read_by_its_name(name: str) -> None:
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
