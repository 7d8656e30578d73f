"""Figures by product line: plugs, lanes and boards that no record states."""

from dataclasses import replace

import pytest

from advisor.catalog import accelerators, parts
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import (
    LANES_USUAL,
    PLUGS_OF_LINE,
    PLUGS_UNKNOWN,
    Board,
    Case,
    Cooler,
    GpuCard,
    Psu,
)
from advisor.workstation.assembly import TYPICAL, Assembly, Cards, Memory, Setting, Supplies
from advisor.workstation.listing import read_listing
from advisor.workstation.part_names import board_by_number, by_words, num_extra_words, other_series
from advisor.workstation.rules_fit import memory_speed, slots
from advisor.workstation.rules_links import lanes_of_cards
from advisor.workstation.rules_power import PLUGS_FRACTION, eps_plugs, psu_plugs
from advisor.workstation.typed_line import read_line

SETTING = Setting()
SUPPLIES = (*parts.planner_parts(Psu), *parts.parts_for_lists(Psu))
BOARDS = (*parts.planner_parts(Board), *parts.parts_for_lists(Board))
COUNTED = tuple(psu for psu in SUPPLIES if PLUGS_UNKNOWN not in psu.flags and psu.power_w >= 450)


def unknown_supply(power_w: float) -> Psu:
    return Psu(name="supply", power_w=power_w, grade="gold", num_eps=0, flags=(PLUGS_UNKNOWN,))


def cards_with_plugs(num: int) -> Cards:
    card = parts.planner_parts(GpuCard)[0].model_copy(
        update={"num_8_pin": 1, "num_16_pin": 0, "num_6_pin": 0}
    )
    return Cards((card,) * num)


def test_nearly_every_counted_supply_has_the_fewest_plugs_of_its_size() -> None:
    able = [
        psu
        for psu in COUNTED
        if psu.num_8_pin + 2 * psu.num_16_pin >= int(PLUGS_FRACTION * psu.power_w / 150)
    ]
    assert len(able) >= 0.95 * len(COUNTED)


@pytest.mark.parametrize("power_w", [550.0, 750.0, 1000.0, 1600.0, 2400.0])
def test_a_supply_without_a_record_passes_up_to_its_fewest_plugs_and_is_unknown_beyond(
    power_w: float,
) -> None:
    verdicts = []
    for num in range(1, 13):
        check = psu_plugs.check_parts((cards_with_plugs(num), Supplies((unknown_supply(power_w),))), SETTING)
        assert check is not None
        verdicts.append(check.verdict)
    fewest = int(PLUGS_FRACTION * power_w / 150)
    assert verdicts == ["ok"] * fewest + ["unknown"] * (12 - fewest)


def test_a_larger_supply_without_a_record_never_has_fewer_cpu_plugs(machine: Assembly) -> None:
    assert machine.cpu is not None
    assert machine.board is not None
    cpu = machine.cpu.model_copy(update={"power_w": 400.0})
    board = machine.board.model_copy(update={"num_eps": 2})
    passed = []
    for power_w in range(500, 2001, 50):
        check = eps_plugs.check_parts((board, cpu, Supplies((unknown_supply(power_w),))), SETTING)
        assert check is not None
        passed.append(check.passed)
    assert passed == sorted(passed)
    assert passed[-1]
    assert not passed[0]


def test_a_product_line_changes_no_figure_that_a_record_states() -> None:
    stated = [psu for psu in SUPPLIES if not {PLUGS_UNKNOWN, "grade_unknown"} & set(psu.flags)]
    assert all(parts.with_line_figures(psu) is psu for psu in stated)


@pytest.mark.parametrize(
    ("name", "power_w", "grade", "plugs"),
    [
        ("Corsair RM850x Black", 850, "gold", (0, 6)),
        ("be quiet! Dark Power 13 1000W ATX 3.0", 1000, "titanium", (1, 4)),
        ("Corsair RM1000x (2024)", 1000, "gold", (1, 6)),
    ],
)
def test_a_supply_without_a_record_has_the_plugs_and_the_grade_of_its_line(
    name: str, power_w: float, grade: str, plugs: tuple[int, int]
) -> None:
    psu = Psu(name=name, power_w=power_w, grade="bronze", num_eps=0, flags=(PLUGS_UNKNOWN, "grade_unknown"))
    found = parts.with_line_figures(psu)
    assert (found.grade, (found.num_16_pin, found.num_8_pin), found.flags) == (grade, plugs, (PLUGS_OF_LINE,))


def test_usual_lanes_are_of_boards_whose_slots_no_source_describes_and_of_no_other() -> None:
    for board in BOARDS:
        found = parts.with_line_lanes(board)
        if board.slots_known or board.max_cards > 1:
            assert found is board
        elif found is not board:
            assert LANES_USUAL in found.flags
            assert found.lane_modes[0] == (16,)
            assert all(len(mode) == num for num, mode in enumerate(found.lane_modes, 1))
            assert len(found.slots) >= found.max_cards
            assert found.slots[0].pcie_generation == board.slots[0].pcie_generation


def test_usual_lanes_break_no_list() -> None:
    board = next(found for board in BOARDS if LANES_USUAL in (found := parts.with_line_lanes(board)).flags)
    check = lanes_of_cards.check_parts((cards_with_plugs(2), board), replace(SETTING, min_lanes=16))
    assert check is not None
    assert check.verdict == "unknown"


def test_a_desktop_board_without_a_record_has_the_socket_of_its_chipset() -> None:
    desktops = [series for series in parts.cpu_series().values() if not series.registered]
    for chipset in sorted({chipset for series in desktops for chipset in series.chipsets}):
        board = board_by_number(f"Acme {chipset}-PLUS")
        if board is None:
            assert chipset[0] not in "ABHZ"  # chipsets of workstations are named in other ways
            continue
        able = [series for series in parts.cpu_series().values() if chipset in series.chipsets]
        assert board.socket in {series.socket for series in able}
        assert board.ram_type in {kind for series in able for kind in series.ram_types}
        small = board_by_number(f"Acme {chipset}M Pro")
        assert small is not None
        assert small.form_factor == "Micro ATX"


@pytest.mark.parametrize(
    ("name", "ram_type"),
    [
        ("Gigabyte B660M DS3H DDR4", "DDR4"),
        ("ASUS PRIME B660M-A D4", "DDR4"),
        ("MSI PRO B660M-A DDR5", "DDR5"),
    ],
)
def test_the_kind_of_module_in_a_boards_name_counts_against_the_lists_memory(
    name: str, ram_type: str
) -> None:
    for listed in ("DDR4", "DDR5"):
        board = board_by_number(name, listed)
        assert board is not None
        assert board.ram_type == ram_type


def test_cards_wider_than_the_case_break_a_list_whatever_the_spacing_of_the_slots(
    machine: Assembly,
) -> None:
    assert machine.board is not None
    assert machine.case is not None
    assert machine.cards is not None
    card = machine.cards.cards[0].model_copy(update={"slots": 4.0})
    board = machine.board.model_copy(update={"flags": ("layout_assumed",)})
    case: Case = machine.case.model_copy(update={"expansion_slots": 8, "open_frame": False})
    check = slots.check_parts((Cards((card,) * 3), board, case), SETTING)
    assert check is not None
    assert check.verdict == "broken"


@pytest.mark.parametrize("num", [2, 4])
@pytest.mark.parametrize("mts", [4800.0, 6000.0])
def test_only_two_modules_a_channel_slow_ddr5_down(num: int, mts: float, machine: Assembly) -> None:
    assert machine.cpu is not None
    assert machine.memory is not None
    cpu = machine.cpu.model_copy(update={"series": parts.cpu_series()["am5"]})
    kit = machine.memory.kit.model_copy(update={"ram_type": "DDR5", "modules": num, "speed_mts": mts})
    check = memory_speed.check_parts((Memory(kit), cpu), SETTING)
    assert (check is not None and check.verdict == "advice") == (num == 4)


@pytest.mark.parametrize("name", ["Noctua NH-U12S", "Noctua NH-D15", "Noctua NH-U14S"])
def test_a_plain_name_is_the_product_that_adds_nothing_to_it(name: str) -> None:
    cooler = by_words(name, (*parts.planner_parts(Cooler), *parts.parts_for_lists(Cooler)))
    assert cooler is not None
    assert num_extra_words(cooler, name) == 0
    assert "AM4" in cooler.sockets


CARDS = parts.planner_parts(GpuCard)
LINES = sorted(
    {
        (card.manufacturer, word.upper())
        for card in CARDS
        for word in ("suprim", "gamerock", "strix", "ventus", "trinity", "verto", "hellhound", "aorus")
        if word in card.name.lower() and card.manufacturer
    }
)
ACCELERATORS = ("rtx-3090", "rtx-4070", "rtx-5080", "rx-7900-xtx")


@pytest.mark.parametrize(("maker", "line"), LINES)
def test_a_product_line_without_a_record_is_said_and_never_taken_for_another(maker: str, line: str) -> None:
    for accelerator in ACCELERATORS:
        of_maker = [one for one in CARDS if (one.accelerator, one.manufacturer) == (accelerator, maker)]
        has_record = any(line.lower() in one.name.lower() for one in of_maker)
        if not of_maker or has_record:
            continue
        named = f"{maker} {accelerators.by_id(accelerator).name.removeprefix('NVIDIA ')} {line}"
        listing = read_listing(None, price_book(), [named])
        (bill,) = listing.bill
        assert bill.name == read_line(named, "").what
        assert TYPICAL in bill.flags
        assert listing.has_unnamed_cards
        assert any(note.startswith("no record has") for note in listing.notes)


@pytest.mark.parametrize(
    "text", ["be quiet! Pure Rock 2", "Noctua NH-U12S", "Dark Rock Pro 4", "Scythe Fuma 2"]
)
def test_a_name_of_the_catalog_is_no_longer_one(text: str) -> None:
    found = by_words(text, (*parts.planner_parts(Cooler), *parts.parts_for_lists(Cooler)), of_one_series=True)
    assert found is not None
    assert not other_series(found, text)


@pytest.mark.parametrize("chipset", ["B660", "H610", "B560", "Z690"])
def test_a_board_without_a_record_is_wired_no_faster_than_most_of_its_socket(chipset: str) -> None:
    board = board_by_number(f"MSI {chipset}M-Q DDR4")
    assert board is not None
    known = sorted(
        one.slots[0].pcie_generation
        for one in BOARDS
        if (one.socket, one.ram_type) == (board.socket, "DDR4") and one.slots and one.chipset
    )
    assert board.slots[0].pcie_generation <= known[len(known) // 2]
