"""Every rule has a machine that breaks it and nothing else, and says by how much."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import parts
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import Board, GpuCard, Psu, PsuLink, Riser, Slot
from advisor.workstation.assembly import SERVER, Assembly, Cards, Circuit, Memory, Risers, Setting, Supplies
from advisor.workstation.listing import read_listings
from advisor.workstation.rule_book import judge, rules_for, violations
from advisor.workstation.rules_fit import needed_positions
from advisor.workstation.rules_power import HEADROOM, psu_plugs, supply_words
from advisor.workstation.rules_systems import judge_system

GIB = 2.0**30
Change = Callable[[Assembly], Assembly]


def part(place: str, **fields: Any) -> Change:
    return lambda m: replace(m, **{place: getattr(m, place).model_copy(update=fields)})


def cards(num: int = 2, fraction: float = 1.0, **fields: Any) -> Change:
    def change(m: Assembly) -> Assembly:
        assert m.cards is not None
        return replace(m, cards=Cards((m.cards.cards[0].model_copy(update=fields),) * num, fraction))

    return change


def kit(num: int = 1, **fields: Any) -> Change:
    def change(m: Assembly) -> Assembly:
        assert m.memory is not None
        return replace(m, memory=Memory(m.memory.kit.model_copy(update=fields), num))

    return change


def psu(num: int = 1, link: bool = False, **fields: Any) -> Change:
    def change(m: Assembly) -> Assembly:
        assert m.supplies is not None
        one: Psu = m.supplies.psus[0].model_copy(update=fields)
        return replace(m, supplies=Supplies((one,) * num, parts.planner_parts(PsuLink)[0] if link else None))

    return change


def both(*changes: Change) -> Change:
    def change(m: Assembly) -> Assembly:
        for one in changes:
            m = one(m)
        return m

    return change


def conditions(**fields: Any) -> Setting:
    return replace(Setting(), **fields)


FRAME = {"open_frame": True, "expansion_slots": 24, "form_factor": "Open frame"}

SERIES = parts.cpu_series()
WITHOUT_BAR = SERIES["epyc-sp3"].model_copy(update={"resizable_bar": False})
OTHER_SERIES = SERIES["threadripper"].model_copy(update={"socket": "SP3", "channels": 8})

DDR5_SERIES = SERIES["epyc-sp3"].model_copy(update={"ram_types": ("DDR5",), "ram_full_mts": {"DDR5": 3600}})

BREAKS: dict[str, tuple[Change, Setting]] = {
    "socket": (part("cpu", series=OTHER_SERIES), Setting()),
    "memory-kind": (kit(registered=False), Setting()),
    "memory-slots": (part("board", ram_slots=4), Setting()),
    "memory-size": (part("board", ram_max_bytes=64 * GIB), Setting()),
    "memory-channels": (kit(modules=4, module_bytes=32 * GIB), Setting()),
    "memory-speed": (
        both(
            part("cpu", series=DDR5_SERIES),
            part("board", ram_type="DDR5", ram_slots=16),
            kit(ram_type="DDR5", modules=16, speed_mts=6000),
        ),
        Setting(),
    ),
    "memory-floor": (kit(module_bytes=2 * GIB), Setting()),
    "ram-loading": (lambda m: m, conditions(ram_needed_bytes=200e9)),
    "model-memory": (lambda m: m, conditions(ram_needed_bytes=400e9)),
    "display": (
        both(
            lambda m: replace(m, cards=Cards(()), bridges=(), risers=Risers(None, 0)),
            part("cpu", series=SERIES["epyc-sp3"].model_copy(update={"without_graphics": (".",)})),
        ),
        Setting(),
    ),
    "board-fits": (part("board", form_factor="XL ATX"), Setting()),
    "slots": (part("case", expansion_slots=4), Setting()),
    "card-length": (cards(length_m=0.45), Setting()),
    "card-height": (both(part("case", max_gpu_m=0.168), cards(length_m=0.16)), Setting()),
    "card-room": (
        both(part("board", flags=(SERVER,), name="Dell PowerEdge R740"), cards(slots=3)),
        Setting(),
    ),
    "radiator": (
        both(
            part("cooler", height_m=None, radiator_m=0.36),
            part("case", radiator_clear_m=0.24, radiator_front_m=0.36, max_gpu_m=0.29),
        ),
        Setting(),
    ),
    "card-cooling": (cards(cooling="passive"), Setting()),
    "card-spacing": (cards(cooling="open", slots=3), Setting()),
    "risers": (
        both(part("case", **FRAME), lambda m: replace(m, risers=Risers(parts.planner_parts(Riser)[0], 1))),
        Setting(),
    ),
    "psu-fits": (psu(length_m=0.3), Setting()),
    "cooler-socket": (part("cooler", sockets=("AM5",)), Setting()),
    "cooler-height": (part("cooler", height_m=0.2), Setting()),
    "storage": (lambda m: m, conditions(storage_needed_bytes=3e12)),
    "m2": (part("board", m2_slots=0), Setting()),
    "ecc": (kit(ecc=False), Setting()),
    "pcie-lanes": (part("board", lane_modes=((16,), (16, 2))), Setting()),
    "cpu-lanes": (part("cpu", series=SERIES["epyc-sp3"].model_copy(update={"slot_lanes": 24})), Setting()),
    "pcie-generation": (part("board", slots=(Slot(position=1, pcie_generation=3), Slot(position=4, pcie_generation=3))),
                        Setting()),
    "riser-lanes": (lambda m: replace(m, risers=Risers(m.risers.riser.model_copy(update={"lanes": 1}), 2)),  # type: ignore[union-attr]
                    Setting()),
    "riser-length": (lambda m: replace(m, risers=Risers(m.risers.riser.model_copy(update={"length_m": 0.5}), 2))  # type: ignore[union-attr]
                     , Setting()),
    "switch-ports": (both(part("board", slots=(Slot(position=1, pcie_generation=4),), lane_modes=((16,),)),
                          lambda m: replace(m, risers=Risers(m.risers.riser.model_copy(update={"ports": 1}), 1))),  # type: ignore[union-attr]
                     Setting()),
    "resizable-bar": (both(cards(accelerator="arc-b580"), part("cpu", series=WITHOUT_BAR),
                           lambda m: replace(m, bridges=())), Setting()),
    "nvlink": (lambda m: replace(m, bridges=m.bridges * 2), Setting()),
    "peer-to-peer": (both(cards(accelerator="rtx-4090"), lambda m: replace(m, bridges=())), Setting()),
    "cpu-cores": (part("cpu", cores=3), Setting()),
    "software": (both(cards(accelerator="titan-v"), lambda m: replace(m, bridges=())), Setting()),
    "cpu-class": (part("cpu", cores=7), Setting()),
    "frame": (both(cards(num=1), part("case", **FRAME), lambda m: replace(m, bridges=())), Setting()),
    "psu-advised": (
        both(
            cards(num=1, accelerator="rtx-3090"),
            psu(power_w=740),
            lambda m: replace(m, bridges=()),
        ),
        Setting(),
    ),
    "psu-class": (psu(grade="bronze"), Setting()),
    "psu-reset": (both(psu(power_w=600), cards(fraction=0.5)), Setting()),
    "psu-headroom": (psu(power_w=850), Setting()),
    "psu-transient": (
        both(psu(power_w=1400, num_16_pin=0), cards(power_w=500)),
        conditions(max_noise_db=60.0),
    ),
    "psu-plugs": (both(psu(num_8_pin=4), cards(num_8_pin=3)), Setting()),
    "card-lead": (cards(has_eps_lead=True), Setting()),
    "server-kit": (part("board", flags=(SERVER,)), Setting()),
    "eps-plugs": (both(psu(num_eps=1), part("cpu", power_w=340.0)), Setting()),
    "dual-psu": (psu(num=2, link=True), Setting()),
    "psu-start": (both(psu(num=2), part("case", num_psus=2)), Setting()),
    "psu-reserve": (
        both(both(psu(num=2, power_w=700.0, link=True), part("case", num_psus=2)), part("board", flags=(SERVER,))),
        Setting(),
    ),
    "circuit": (lambda m: m, conditions(circuit=Circuit(120.0, 8.0))),
    "room-heat": (lambda m: m, conditions(room_cooling_w=700.0)),
    "case-airflow": (part("case", form_factor="Mini Tower"), Setting()),
    "cooler-power": (part("cooler", height_m=0.1, sockets=("SP3", "AM5")), Setting()),
    "noise": (lambda m: m, conditions(max_noise_db=45.0)),
}  # fmt: skip


IMPLIES: Final = {
    "resizable-bar": ("peer-to-peer",),
    "cpu-cores": ("cpu-class",),
    "model-memory": ("ram-loading",),
    "switch-ports": ("pcie-lanes", "slots"),
    "psu-reserve": ("server-kit",),
    "card-room": ("server-kit",),
}
"""Rules that a machine cannot keep if it breaks another."""
CHECKS_OF_LISTS: Final = {"cpu-count", "external-card"}
"""Checks that only a list needs: a machine of the planner has one CPU, and a complete one no further cards."""


def test_the_sound_machine_keeps_every_rule(machine: Assembly, setting: Setting) -> None:
    assert [check.rule for check in judge(machine, setting) if not check.passed] == []


def test_every_rule_has_a_machine_that_breaks_it() -> None:
    assert {rule.id for rule in rules_for(Setting())} == set(BREAKS)


@pytest.mark.parametrize("rule", BREAKS)
def test_a_machine_breaks_just_this_rule(machine: Assembly, rule: str) -> None:
    change, setting = BREAKS[rule]
    failed = [check for check in judge(change(machine), setting) if not check.passed]
    assert {check.rule for check in failed} == {rule, *IMPLIES.get(rule, ())}
    assert failed[0].excess > 0
    assert failed[0].why
    assert failed[0].remedy


@pytest.mark.parametrize(
    ("series", "with_graphics", "without"),
    [
        (
            "lga1700",
            ("Intel Core i5 14400", "Intel Core i9-14900KS"),
            ("Intel Core i5 14400F", "Intel Core i9-14900KF"),
        ),
        (
            "lga1851",
            ("Intel Core Ultra 5 245K",),
            ("Intel Core Ultra 5 250KF Plus", "Intel Core Ultra 7 265F"),
        ),
        (
            "am4",
            ("AMD Ryzen 5 5600G", "AMD Ryzen 5 5500GT"),
            ("AMD Ryzen 3 3100", "AMD Ryzen 7 5800XT OEM/Tray"),
        ),
        ("am5", ("AMD Ryzen 5 7600", "AMD Ryzen 9 9950X3D2"), ("AMD Ryzen 5 7500F OEM/Tray",)),
        (
            "lga1151",
            ("Intel Xeon E3-1245 v6", "Intel Xeon E-2146G"),
            ("Intel Xeon E3-1230 v5", "Intel Xeon E-2136"),
        ),
    ],
)
def test_the_name_of_a_cpu_says_whether_it_has_a_graphics_unit(
    machine: Assembly, series: str, with_graphics: tuple[str, ...], without: tuple[str, ...]
) -> None:
    assert machine.cpu is not None
    for lacks, names in ((False, with_graphics), (True, without)):
        for name in names:
            cpu = machine.cpu.model_copy(update={"name": name, "series": SERIES[series]})
            assert cpu.lacks_graphics == lacks, name


QUIET: Final = parts.systems()[0].model_copy(update={"power_w": 800.0, "noise_db": 40.0, "ecc": True})
SYSTEM_BREAKS: Final[dict[str, tuple[dict[str, Any], Setting]]] = {
    "circuit": ({}, conditions(circuit=Circuit(120.0, 8.0))),
    "room-heat": ({}, conditions(room_cooling_w=700.0)),
    "noise": ({"noise_db": 65.0}, Setting()),
    "ecc": ({"ecc": False}, conditions(needs_ecc=True)),
}


def test_the_sound_system_keeps_every_rule() -> None:
    checks = judge_system(QUIET, conditions(needs_ecc=True))
    assert {check.rule for check in checks} == set(SYSTEM_BREAKS)
    assert all(check.passed for check in checks)


@pytest.mark.parametrize("rule", SYSTEM_BREAKS)
def test_a_system_breaks_just_this_rule(rule: str) -> None:
    fields, setting = SYSTEM_BREAKS[rule]
    failed = [check for check in judge_system(QUIET.model_copy(update=fields), setting) if not check.passed]
    assert [check.rule for check in failed] == [rule]
    assert failed[0].excess > 0
    assert failed[0].severity == ("hard" if rule in ("circuit", "ecc") else "advice")
    assert failed[0].why
    assert failed[0].remedy


def test_the_noise_of_a_system_is_unknown_where_no_source_states_it_and_a_limit_is() -> None:
    silent = QUIET.model_copy(update={"noise_db": None})
    verdicts = [
        [check.verdict for check in judge_system(silent, setting) if check.rule == "noise"]
        for setting in (Setting(), conditions(max_noise_db=36.0, needs_quiet=True))
    ]
    assert verdicts == [[], ["unknown"]]


def test_the_documentation_lists_every_rule() -> None:
    text = (Path(__file__).parents[3] / "docs" / "build.md").read_text(encoding="utf-8")
    table = text.split("### Rules")[1].split("A check of a list")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`", table)) - {"--ecc", "--max-noise"} == (
        set(BREAKS) | CHECKS_OF_LISTS
    )


def test_error_correction_is_hard_where_it_is_asked_for(machine: Assembly) -> None:
    without = kit(ecc=False)(machine)
    assert not violations(without, Setting())
    assert [check.rule for check in violations(without, conditions(needs_ecc=True))] == ["ecc"]


def test_a_second_supply_needs_a_lead_and_a_place(machine: Assembly) -> None:
    roomy = part("case", num_psus=2)(machine)
    assert not violations(psu(num=2, link=True)(roomy), Setting())
    assert [c.rule for c in violations(psu(num=2)(roomy), Setting())] == ["psu-start"]


def test_what_is_not_known_is_not_judged(machine: Assembly, setting: Setting) -> None:
    partly = replace(machine, case=None, cooler=None)
    judged = {check.rule for check in judge(partly, setting)}
    assert not judged & {"slots", "card-length", "cooler-height", "board-fits"}
    assert "psu-headroom" in judged


def test_lower_power_limits_mend_the_circuit(machine: Assembly) -> None:
    setting = conditions(circuit=Circuit(120.0, 8.0))
    assert [c.rule for c in violations(machine, setting)] == ["circuit"]
    assert not violations(cards(fraction=0.6)(machine), setting)


def test_two_5090_and_a_threadripper_need_more_than_1600_watts_and_15_amperes(machine: Assembly) -> None:
    loaded = both(cards(power_w=575, num_8_pin=0, num_16_pin=1), part("cpu", power_w=350))(machine)
    failed = {check.rule: check for check in violations(loaded, Setting())}
    assert set(failed) == {"psu-headroom", "circuit"}
    assert failed["psu-headroom"].actual == pytest.approx(2 * 575 + 350 + 60)
    assert failed["circuit"].limit == pytest.approx(0.8 * 120 * 15 * 0.94)


def test_a_16_pin_card_takes_8_pin_plugs_where_the_supply_is_old(machine: Assembly) -> None:
    modern = both(cards(power_w=450, num_8_pin=0, num_16_pin=1), psu(power_w=2000, num_8_pin=0))(machine)
    assert "psu-plugs" not in {c.rule for c in violations(modern, Setting())}
    old = both(cards(power_w=450, num_8_pin=0, num_16_pin=1), psu(power_w=2000, num_16_pin=0, num_8_pin=5))(
        machine
    )
    found = next(c for c in violations(old, Setting()) if c.rule == "psu-plugs")
    assert (found.actual, found.limit) == (6, 5)


@pytest.mark.parametrize(
    ("widths", "positions", "need"),
    [
        ((2,), (1,), 2),
        ((2, 2), (1, 3), 4),
        ((4, 4), (1, 4), None),
        ((3, 4), (1, 4), 7),
        ((2, 2, 2, 2), (1, 3, 5, 7), 8),
        ((2, 2), (1,), None),
        ((1, 3), (1, 2), 4),
    ],
)
def test_cards_in_slots(widths: tuple[int, ...], positions: tuple[int, ...], need: int | None) -> None:
    assert needed_positions(widths, positions) == need


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.permutations([1, 3, 5, 7]))
def test_cards_in_slots_against_every_order(widths: list[int], positions: list[int]) -> None:
    """The shortcut (sorted cards into sorted gaps) finds what trying every order finds."""
    import itertools

    taken = sorted(positions[: len(widths)])
    best = math.inf
    for order in itertools.permutations(widths):
        pairs = list(zip(taken, order, strict=True))
        if all(a + w <= b for (a, w), (b, _) in itertools.pairwise(pairs)):
            best = min(best, pairs[-1][0] + pairs[-1][1] - 1)
    assert needed_positions(tuple(widths), tuple(positions)) == (None if best == math.inf else best)


@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_less_power_never_breaks_a_rule_on_power(a: float, b: float) -> None:
    from advisor.workstation.rules_power import circuit, noise, psu_headroom, psu_transient, room_heat

    low = min(a, b)
    high = max(a, b)
    for rule in (psu_headroom, psu_transient, circuit, room_heat, noise):
        needs = rule.needs["cards"]
        card = next(c for c in parts.planner_parts(GpuCard) if c.cooling == "open")
        assert needs(Cards((card,), low), Setting()) <= needs(Cards((card,), high), Setting()) + 1e-9


@given(st.floats(100, 600), st.floats(1.05, 2.0), st.sampled_from(["open", "blower"]))
def test_a_card_is_louder_with_more_heat_and_on_a_smaller_cooler(
    power_w: float, times: float, cooling: str
) -> None:
    from advisor.workstation.rules_power import card_noise_db

    small = parts.planner_parts(GpuCard)[0].model_copy(
        update={"cooling": cooling, "power_w": power_w, "slots": 2.0, "length_m": 0.2}
    )
    hotter = small.model_copy(update={"power_w": power_w * times})
    larger = small.model_copy(update={"length_m": 0.2 * times})
    assert card_noise_db(hotter) > card_noise_db(small) > card_noise_db(larger)
    assert card_noise_db(small) - card_noise_db(small, 0.5) == pytest.approx(8.7, abs=0.1)
    assert card_noise_db(small.model_copy(update={"cooling": "passive"})) == 0.0


@pytest.mark.parametrize(
    ("over", "verdict"), [(0.99, "ok"), (1.01, "advice"), (1.09, "advice"), (1.12, "broken")]
)
def test_an_estimate_breaks_a_list_only_beyond_its_own_error(
    machine: Assembly, over: float, verdict: str
) -> None:
    from advisor.workstation.rules_power import psu_transient

    loaded = both(psu(power_w=1400, num_16_pin=0), cards(power_w=500))(machine)
    check = psu_transient.check(loaded, Setting())
    assert check is not None
    fitting = 1400 * check.actual / check.limit
    near = psu_transient.check(psu(power_w=fitting / over, num_16_pin=0)(loaded), Setting())
    assert near is not None
    assert near.verdict == verdict


@pytest.mark.parametrize("load_w", [300.0, 535.0, 700.0, 1113.0, 3000.0])
def test_the_supply_that_is_advised_carries_the_load_and_what_the_maker_asks_for(load_w: float) -> None:
    card = next(one for one in parts.planner_parts(GpuCard) if one.accelerator == "rtx-3090")
    words = supply_words(load_w, Assembly(cards=Cards((card,))))
    advised_w = float(words.partition(" ")[0])
    assert HEADROOM * advised_w >= load_w
    assert advised_w >= parts.supply_advice()["rtx-3090"].watts


@pytest.mark.parametrize(("name", "says"), [("p40", True), ("rtx-3090", False)])
def test_a_machine_shows_a_picture_only_with_an_output(machine: Assembly, name: str, says: bool) -> None:
    card = next(one for one in parts.planner_parts(GpuCard) if one.accelerator == name)
    without_unit = SERIES["lga2011-3"]
    assert machine.cpu is not None
    xeon = machine.cpu.model_copy(update={"series": without_unit})
    checks = judge(Assembly(cards=Cards((card,)), cpu=xeon, board=machine.board), Setting())
    assert ("display" in {check.rule for check in checks if not check.passed}) == says


@pytest.mark.parametrize(
    ("names", "says"),
    [(("rtx-3090", "rtx-3090"), True), (("rtx-4090", "rtx-3090"), False), (("rtx-4090",) * 2, False)],
)
def test_a_bridge_is_advised_only_for_equal_cards_with_its_connector(
    names: tuple[str, ...], says: bool
) -> None:
    every = parts.planner_parts(GpuCard)
    cards = tuple(next(one for one in every if one.accelerator == name) for name in names)
    checks = {check.rule: check for check in judge(Assembly(cards=Cards(cards)), Setting())}
    assert ("a bridge" in checks["peer-to-peer"].remedy) == says


@pytest.mark.parametrize("chipset", ["B660", "B760", "Z690", "Z790", "B860", "Z890"])
def test_a_chipset_without_error_correction_has_no_board_that_corrects(chipset: str) -> None:
    boards = [
        one for one in (*parts.planner_parts(Board), *parts.named_parts("board")) if isinstance(one, Board)
    ]
    assert not any(board.ecc for board in boards if board.chipset == chipset)


def test_a_board_of_a_workstation_chipset_corrects_errors() -> None:
    named = "Core i5-12500, ASUS Pro WS W680-ACE, 2x32GB DDR5 ECC UDIMM, RTX 4090"
    found = read_listings(None, price_book(), (), named)[0][1].machine
    assert {check.verdict for check in judge(found, Setting(needs_ecc=True)) if check.rule == "ecc"} == {"ok"}
    other = read_listings(None, price_book(), (), named.replace("ASUS Pro WS W680-ACE", "MSI PRO B760-P"))[0][
        1
    ]
    assert {one.verdict for one in judge(other.machine, Setting(needs_ecc=True)) if one.rule == "ecc"} == {
        "broken"
    }


def test_plugs_that_no_maker_confirmed_break_no_rule_unless_the_supply_is_too_small(
    machine: Assembly, setting: Setting
) -> None:
    """A modular supply of 1,000 W may feed six plugs of 150 W, and never ten."""
    for power_w, plugs, is_unknown in ((1000.0, 3, True), (400.0, 3, False)):
        doubted = psu(power_w=power_w, num_8_pin=2, num_16_pin=0, flags=("unverified",))
        listed = both(doubted, cards(num_8_pin=plugs, num_16_pin=0))(machine)
        one = replace(listed, cards=Cards(listed.cards.cards[:1])) if listed.cards is not None else listed
        check = psu_plugs.check(one, setting)
        assert check is not None
        assert (check.passed, check.is_unknown) == (False, is_unknown)


SMALL_MACHINES = ("Dell OptiPlex 7070 SFF, i5-9500, 16GB", "HP EliteDesk 800 G4 SFF, i7-8700, 32GB")


@pytest.mark.parametrize("host", SMALL_MACHINES)
@pytest.mark.parametrize(
    ("card", "goes"),
    [
        ("RTX A2000 12GB", True),
        ("RTX 3050 6GB low profile", True),
        ("RTX 2000 Ada", True),
        ("Tesla P4", True),
        ("RTX 3060 12GB", False),
        ("RTX 3070", False),
        ("RTX 4060 Ti 16GB", False),
    ],
)
def test_a_small_machine_takes_low_profile_cards_only(host: str, card: str, goes: bool) -> None:
    (_, listing), *_ = read_listings(None, price_book(), (), f"{host}, {card}")
    broken = {check.rule: check for check in violations(listing.machine, Setting()) if not check.is_unknown}
    assert ("card-height" in broken) is not goes
    assert "card-length" not in broken
    if goes:
        assert "psu-headroom" not in broken
    else:
        assert "low-profile" in broken["card-height"].remedy


@pytest.mark.parametrize("card", ["Tesla P40", "Tesla V100 32GB PCIe", "RTX 3090 FE", "RTX A6000"])
def test_supplies_of_a_server_have_no_leads_to_count(card: str) -> None:
    text = f"Dell PowerEdge R730, 2x E5-2680 v4, 256GB, 2x {card}, 2x 1100W PSU"
    (_, listing), *_ = read_listings(None, price_book(), (), text)
    rules = {check.rule for check in judge(listing.machine, Setting()) if not check.passed}
    assert "psu-plugs" not in rules
    assert "server-kit" in rules
    assert "display" not in rules


def test_a_tower_server_has_no_risers() -> None:
    text = "Dell PowerEdge T630, 2x E5-2695 v4, 256GB, 2x RTX 3090 FE, NVLink bridge 3-slot, 2x 1100W PSU"
    (_, listing), *_ = read_listings(None, price_book(), (), text)
    told = [check for check in judge(listing.machine, Setting()) if not check.passed]
    assert not any("riser" in check.why + check.remedy for check in told)
    assert "server-kit" in {check.rule for check in told}


@pytest.mark.parametrize("card", ["RTX 3070 Ti", "RTX 3090 FE"])
def test_two_harnesses_feed_one_card(card: str) -> None:
    text = "Lenovo ThinkStation P620 3945WX 128GB 1000W"
    for num in (1, 2):
        (_, listing), *_ = read_listings(None, price_book(), (), f"{text}, {num}x {card}")
        check = next(one for one in judge(listing.machine, Setting()) if one.rule == "psu-plugs")
        assert check.passed is (num == 1)


def test_a_display_card_takes_power_and_shows_a_picture() -> None:
    for label in ("", "GPU: "):
        text = f"HP Z640\nE5-2690 v4\n64GB\n{label}Quadro K2200\n925W PSU\nTesla P40"
        (_, listing), *_ = read_listings(None, price_book(), (), text)
        assert [card.name for card in listing.machine.displays] == ["NVIDIA Quadro K2200"]
        assert listing.machine.cards is not None
        assert listing.machine.cards.accelerators == ("p40",)
        assert not listing.unknown
        load, bare = (
            next(one for one in judge(machine, Setting()) if one.rule == "psu-headroom").actual
            for machine in (listing.machine, replace(listing.machine, displays=()))
        )
        assert load - bare == listing.machine.displays[0].power_w
        assert "display" not in {one.rule for one in judge(listing.machine, Setting()) if not one.passed}


def test_every_card_of_the_catalog_is_fed_by_its_plugs() -> None:
    slot_w = six_w = 75.0
    eight_w = 150.0
    sixteen_w = 600.0
    for card in parts.planner_parts(GpuCard):
        given = slot_w + eight_w * card.num_8_pin + six_w * card.num_6_pin + sixteen_w * card.num_16_pin
        assert card.power_w <= given + 10.0, card.name  # 225 W feed the 230 of an RTX A5000
        spare = eight_w * 2 + six_w
        assert card.num_16_pin or given - card.power_w <= spare + slot_w, card.name
