"""Radiators, machines of makers, chipsets, mends and second-hand prices, as an experienced builder judges them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.catalog import models, parts
from advisor.catalog.part_prices import price_book, price_of
from advisor.catalog.schema.part import Board, Case, Cooler, GpuCard, Psu
from advisor.workstation.assembly import SERVER, Assembly, Cards, Setting, Supplies
from advisor.workstation.hardware import Hardware
from advisor.workstation.listing import Listing, read_listing
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.plan import Question
from advisor.workstation.planned_cards import SOLD_TOGETHER
from advisor.workstation.rules_fit import THICK_RADIATOR_M, THIN_RADIATOR_M, radiator
from advisor.workstation.rules_power import card_noise_db
from advisor.workstation.valuation import hardware_of
from advisor.workstation.verdict import Verdict, judge_listing


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Listing]:
    def listing(text: str) -> Listing:
        file = tmp_path / "list.txt"
        file.write_text(text, encoding="utf-8")
        return read_listing(file, price_book())

    return listing


def judge(listing: Listing, model: str = "8b", *, better: bool = False) -> Verdict:
    question = Question(MachineLoad(models.get(model).record))
    return judge_listing(listing, question, price_book(), better=better)


def verdicts(verdict: Verdict) -> dict[str, str]:
    return {check.rule: check.verdict for check in verdict.build.checks}


SIZES = (0.24, 0.28, 0.36, 0.42)


@given(
    size=st.sampled_from(SIZES),
    clear=st.sampled_from((0.0, *SIZES)),
    front=st.sampled_from((0.0, *SIZES)),
    room_m=st.floats(0.28, 0.45),
    card_m=st.floats(0.2, 0.4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_radiator_in_the_front_takes_its_thickness_and_one_in_the_roof_nothing(
    machine: Assembly, size: float, clear: float, front: float, room_m: float, card_m: float
) -> None:
    assert machine.cards is not None
    assert machine.case is not None
    assert machine.cooler is not None
    card = machine.cards.cards[0].model_copy(update={"length_m": card_m})
    figures = {"radiator_clear_m": clear, "radiator_front_m": front, "max_gpu_m": room_m}
    built = replace(
        machine,
        cards=Cards((card,)),
        case=machine.case.model_copy(update=figures),
        cooler=machine.cooler.model_copy(update={"radiator_m": size, "height_m": None}),
    )
    check = radiator.check(built, Setting())
    assert check is not None
    if size <= clear:
        assert check.verdict == "ok"
    elif size > front:
        assert check.verdict == "broken"
    else:
        left = room_m - card_m
        wanted = "ok" if left >= THICK_RADIATOR_M else "broken" if left < THIN_RADIATOR_M else "unknown"
        assert (
            check.verdict == wanted or min(abs(left - THICK_RADIATOR_M), abs(left - THIN_RADIATOR_M)) < 1e-6
        )


def test_where_no_source_states_the_place_of_a_long_radiator_it_is_unknown() -> None:
    cases = [
        case for case in parts.planner_parts(Case) if case.radiator_clear_m is None and not case.open_frame
    ]
    cooler = next(one for one in parts.planner_parts(Cooler) if one.radiator_m == 0.36)
    assert len(cases) > 100
    for case in cases:
        check = radiator.check_parts((cooler, case, Cards(())), Setting())
        assert check is not None
        assert check.verdict == "unknown"


def test_no_listed_slot_is_faster_than_the_boards_of_its_chipset_give() -> None:
    table = parts._read_chipset_slots()
    for board in (*parts.planner_parts(Board), *parts.parts_for_lists(Board)):
        usual = parts.with_line_lanes(board)
        if board.chipset not in table or "OpenDB" not in board.source:
            continue
        of_cpu, of_chipset = table[board.chipset]
        if len(board.lane_modes) > 1:
            continue  # a source describes its slots
        assert usual.slots[0].pcie_generation <= of_cpu, board.name
        for slot, lanes in zip(usual.slots[1:], usual.lane_modes[1:], strict=False):
            assert slot.pcie_generation <= (of_cpu if lanes[-1] > 4 else of_chipset), board.name


@pytest.mark.parametrize(
    ("text", "generations"),
    [
        ("MSI B450 Tomahawk MAX\nRyzen 5 5600X\n2x RTX 3060 12GB", (3, 2)),
        ("Gigabyte B650 AORUS ELITE AX\nRyzen 7 7700X\n2x RTX 4060 Ti 16GB", (4, 4)),
        ("ASUS PRIME B550-PLUS\nRyzen 7 5700X\n2x RTX 3060 12GB", (4, 3)),
    ],
)
def test_the_slots_of_a_list_have_the_generation_of_its_chipset(
    read: Callable[[str], Listing], text: str, generations: tuple[int, int]
) -> None:
    from advisor.workstation.wiring import wire

    assert tuple(card.pcie_generation for card in wire(read(text).machine)) == generations


def test_the_supply_of_a_makers_machine_goes_with_its_own_board_alone() -> None:
    towers = [board for board in parts.planner_parts(Board) if parts.supply_and_case_of(board) is not None]
    retail = next(board for board in parts.planner_parts(Board) if SERVER not in board.flags)
    rule = next(rule for rule in SOLD_TOGETHER if "supplies" in rule.between)
    assert len(towers) > 100
    for board in towers:
        sold = parts.supply_and_case_of(board)
        assert sold is not None
        supplies = Supplies((sold[0],))
        assert rule.allows((board, supplies), Setting()), board.name
        assert not rule.allows((retail, supplies), Setting()), board.name
    bought = Supplies((next(iter(parts.planner_parts(Psu))),))
    assert not rule.allows((towers[0], bought), Setting())


@pytest.mark.parametrize("name", ["HP Z440", "Dell Precision T5820", "Lenovo ThinkStation P520", "HP Z4 G4"])
def test_a_mend_keeps_a_makers_machine_whole(read: Callable[[str], Listing], name: str) -> None:
    found = judge(
        read(f"{name}\n64GB DDR4 ECC RDIMM\n3x RTX 3090\n1TB NVMe\nXeon E5-1650 v4"), "70b", better=True
    )
    machine = found.build.machine
    assert machine is not None
    if found.repaired is not None:
        mended = found.repaired.machine
        assert mended is not None
        assert (mended.board, mended.case, mended.supplies) == (machine.board, machine.case, machine.supplies)


def test_a_supply_named_by_its_size_alone_is_that_of_the_machine(read: Callable[[str], Listing]) -> None:
    stock, other = (
        read(f"HP Z440, Xeon E5-1650 v4, 32GB DDR4 ECC, {watts}W PSU, RTX 3060 12GB").machine.supplies
        for watts in (700, 525)
    )
    assert stock is not None
    assert other is not None
    assert stock.psus[0].has_six_pin_leads
    assert stock.psus[0].sold_with == other.psus[0].sold_with == "HP Z440"
    assert not other.psus[0].has_six_pin_leads, "the plugs of another size are not known"


def test_several_inputs_of_a_board_start_several_supplies(read: Callable[[str], Listing]) -> None:
    rest = "Celeron G3930\n8GB DDR4\n6x RTX 3060 12GB\n2x EVGA 1000 GQ\n120GB ssd\nopen frame"
    for board, verdict in (("ASUS B250 Mining Expert", "ok"), ("ASRock H110 Pro BTC+", "broken")):
        assert verdicts(judge(read(f"{board}\n{rest}")))["psu-start"] == verdict
    assert verdicts(judge(read(rest)))["psu-start"] == "broken", "an unknown board has one input"


def test_a_drive_without_its_plug_is_no_fault_of_a_board_without_m2(read: Callable[[str], Listing]) -> None:
    board = "ASUS B250 Mining Expert\nCeleron G3930\n8GB DDR4\nRTX 3060 12GB\n"
    assert "m2" not in verdicts(judge(read(f"{board}240GB ssd")))
    assert verdicts(judge(read(f"{board}500GB NVMe")))["m2"] == "broken"


def test_a_mend_costs_no_more_than_the_cheapest_part_that_removes_the_fault(
    read: Callable[[str], Listing],
) -> None:
    """A radiator without a place beside the card: a cooler of $40 mends it, not another card of $2,000."""
    for case in ("Fractal Design Meshify 2 Compact", "Fractal Design North"):
        found = judge(
            read(
                f"{case}\nRyzen 9 7950X\nASUS ROG STRIX X670E-E GAMING WIFI\n2x32GB DDR5-6000\n"
                "ARCTIC Liquid Freezer III 360\nGigabyte RTX 4090 Gaming OC\nCorsair RM1000x\nSamsung 990 Pro 2TB"
            ),
            "32b",
            better=True,
        )
        assert verdicts(found)["radiator"] == "broken"
        assert found.repaired is not None
        air = [price_of(one, price_book()) for one in parts.planner_parts(Cooler) if one.radiator_m is None]
        assert found.repaired.total_usd <= min(price.usd for price in air if price is not None) + 150.0


def test_a_stronger_card_of_one_kind_of_cooler_is_louder(machine: Assembly) -> None:
    assert machine.cards is not None
    card = machine.cards.cards[0]
    levels = [
        card_noise_db(card.model_copy(update={"power_w": watts})) for watts in (150.0, 300.0, 450.0, 600.0)
    ]
    assert levels == sorted(levels)
    assert levels[0] < levels[-1]


def test_the_bridge_of_an_answer_is_worth_what_the_model_of_tensor_parallelism_says(
    read: Callable[[str], Listing],
) -> None:
    from advisor.commands.build.verdict_view import _bridge_reply

    text = "2x RTX 3090 FE\nGigabyte X570 Aorus Master\nRyzen 9 5950X\n128GB DDR4-3200\nCorsair AX1600i"
    found = judge(read(text), "70b")
    load = MachineLoad(models.get("70b").record)
    assert found.build.machine is not None
    hardware = hardware_of(found.build.machine)
    assert isinstance(hardware, Hardware)
    rates = []
    for is_bridged in (True, False):
        run = best_run(replace(hardware, bridged=is_bridged), load)
        assert run is not None
        rates.append(f"{run.output_tokens_per_s.value:.3g}")
    told = _bridge_reply(found, Question(load))
    assert f"{rates[0]} tokens/s with it and {rates[1]} without" in told
    lone = judge(read(text.replace("2x ", "")), "8b")
    assert "does not name two" in _bridge_reply(lone, Question(load))
    ada = judge(read(text.replace("3090", "4090")), "70b")
    assert "no bridge is made for rtx-4090" in _bridge_reply(ada, Question(load))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Which slots should the two cards go in?", "slots"),
        ("What PCIe slot do I use for the second card?", "slots"),
        ("Into which x16 slots do they go?", "slots"),
        ("Is an NVLink bridge worth it?", "bridge"),
        ("Does NVLink help for 70B?", "bridge"),
        ("Should I buy a bridge for the two 3090s?", "bridge"),
    ],
)
def test_questions_for_slots_and_bridges_are_understood(text: str, asked: str) -> None:
    from advisor.workstation.asked import questions_in

    assert asked in questions_in(text)


def test_a_supply_question_tells_watts_peaks_and_plugs(read: Callable[[str], Listing]) -> None:
    from advisor.commands.build.verdict_view import _supply_reply

    found = judge(read("Dell Precision 5820, Xeon W-2145, 64GB DDR4 ECC, 950W PSU, RTX 3090"), "32b")
    told = _supply_reply({check.rule: check for check in found.build.checks})
    for word in ("W under load", "peak", "advises 750 W", "8-pin plugs"):
        assert word in told
    assert "Its watts are" in told


@pytest.mark.parametrize("name", ["HP Z840", "Dell Precision T5820", "Lenovo ThinkStation P620", "HP Z440"])
def test_an_upgrade_of_a_makers_machine_stays_in_it(read: Callable[[str], Listing], name: str) -> None:
    from advisor.workstation.upgrades import best_upgrades

    found = read(f"{name}, 64GB DDR4 ECC RDIMM, Xeon E5-2690 v4, GTX 1080")
    upgrades = best_upgrades(found, Question(MachineLoad(models.get("32b").record)), price_book(), 1500.0)
    for build in upgrades.builds:
        assert build.machine is not None
        assert build.machine.board == found.machine.board
        assert build.machine.supplies == found.machine.supplies


def test_every_card_of_an_accelerator_with_a_16_pin_plug_has_it() -> None:
    table = parts._read_card_plugs()
    cards = [card for card in parts.planner_parts(GpuCard) if card.accelerator in table]
    assert len(cards) > 200
    assert all(card.num_16_pin >= table[card.accelerator] for card in cards)
