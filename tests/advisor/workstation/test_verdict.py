"""Lists of parts judged: the published one for $8,600, and ones that name what there is not."""

import re
from functools import cache
from pathlib import Path

import pytest

from advisor.catalog import accelerators, models, parts
from advisor.catalog.errors import InputFileError
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import Board
from advisor.workstation.assembly import Circuit, Setting
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.plan import Question
from advisor.workstation.rule_book import judge, violations
from advisor.workstation.valuation import best_use, hardware_of
from advisor.workstation.verdict import Verdict, bound_checks, judge_listing, missing_checks, missing_places

PUBLISHED = """
parts = [
  "2 x RTX 5090 $4 000–5 000",
  'Threadripper 7960X ("8-channel", 88 lanes) $1 400',
  "sTR5 WRX90 board $900",
  "128 GB ECC $800",
  "NVMe $500",
  "1600 W PSU $400",
  "case $300",
  "cooling $300",
]
"""


def listing(tmp_path: Path, text: str) -> Listing:
    file = tmp_path / "mybuild.toml"
    file.write_text(text, encoding="utf-8")
    return read_listing(file, price_book())


@cache
def judge_published(folder: Path) -> tuple[Listing, Verdict]:
    import datetime

    found = listing(folder, PUBLISHED)
    question = Question(MachineLoad(models.get("70b").record), as_of=datetime.date(2026, 11, 20))
    return found, judge_listing(found, question, price_book(), better=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists")


def test_the_published_list_is_understood(folder: Path) -> None:
    found, _ = judge_published(folder)
    machine = found.machine
    assert machine.cards is not None
    assert machine.cpu is not None
    assert machine.board is not None
    assert machine.memory is not None
    assert machine.cards.accelerators == ("rtx-5090",)
    assert machine.cards.num == 2
    assert machine.cpu.name == "AMD Ryzen Threadripper 7960X"
    assert machine.board.chipset == "WRX90"
    assert machine.memory.capacity_bytes == 128 * 2**30
    assert machine.memory.kit.ecc
    assert found.total_usd == 9100
    assert found.unjudged == ("NVMe", "case", "cooling")


def test_what_is_wrong_with_the_published_list_is_found(folder: Path) -> None:
    _, verdict = judge_published(folder)
    assert {check.rule for check in verdict.broken} == {"socket", "psu-headroom", "claim-channels"}
    failed = {check.rule: check for check in verdict.build.checks if not check.passed}
    assert "PRO" in failed["socket"].why
    assert (failed["claim-channels"].actual, failed["claim-channels"].limit) == (8, 4)
    assert (failed["claim-lanes"].actual, failed["claim-lanes"].limit) == (88, 48)
    assert failed["psu-headroom"].actual > 1600 * 0.9
    assert failed["circuit"].actual > failed["circuit"].limit
    assert failed["circuit"].verdict == "advice"
    assert "assumed" in failed["circuit"].why


def test_its_prices_are_not_those_of_today(folder: Path) -> None:
    _, verdict = judge_published(folder)
    low = [check for check in verdict.build.checks if check.rule == "price" and not check.passed]
    assert any("5090" in check.why for check in low)
    assert verdict.catalog_total_usd > 1.2 * verdict.build.total_usd


def test_what_mends_a_list_keeps_its_cards_and_breaks_no_rule(folder: Path) -> None:
    found, verdict = judge_published(folder)
    repaired = verdict.repaired
    assert repaired is not None
    assert repaired.machine is not None
    assert repaired.machine.cards is not None
    assert found.machine.cards is not None
    assert repaired.machine.cards.num == found.machine.cards.num
    assert repaired.machine.cards.accelerators == found.machine.cards.accelerators
    assert not violations(repaired.machine, Question(MachineLoad(models.get("70b").record)).setting)
    assert 0.0 < repaired.total_usd < verdict.catalog_total_usd
    assert all(line.unit_price_usd == 0.0 for line in repaired.parts if line.category == "gpu")


@pytest.mark.parametrize("model", ["8b", "qwen3-235b-a22b", "deepseek-v3", "flux.1-dev"])
@pytest.mark.parametrize(
    "text",
    [
        "RTX 3060 12GB, Ryzen 5 5600, B550 Tomahawk, 32GB DDR4-3200, 650W gold",
        "Ryzen 9 9950X, X870E board, 192GB DDR5",
        "RTX 3090",
        "Mac mini M4 Pro 48GB",
    ],
)
def test_one_check_says_whether_the_model_runs(text: str, model: str) -> None:
    record = models.get(model).record
    load = MachineLoad(record, workload="images" if record.workload == "diffusion" else "serve")
    build = judge_listing(
        read_listing(None, price_book(), text.split(", ")), Question(load), price_book(), better=False
    ).build
    (check,) = (one for one in build.checks if one.rule == "model-memory")
    assert check.passed == (build.performance is not None)
    assert (build.economics is None) or check.passed
    assert "ram-loading" not in {one.rule for one in build.checks if not one.passed} or check.passed


def test_a_supply_of_no_record_leaves_the_power_to_judge() -> None:
    lines = ["4x RTX 3090", "Ryzen 5 5600", "HP Server PSU"]
    build = judge_listing(
        read_listing(None, price_book(), lines),
        Question(MachineLoad(models.get("70b").record)),
        price_book(),
        better=False,
    ).build
    failed = {check.rule: check for check in build.checks if not check.passed}
    assert failed["psu-headroom"].verdict == "unknown"
    assert "1800 W of supply" in failed["psu-headroom"].remedy
    assert "circuit" in failed


def test_a_better_machine_is_offered_for_the_money(folder: Path) -> None:
    _, verdict = judge_published(folder)
    better = verdict.better
    assert better is not None
    assert better.machine is not None
    assert better.performance is not None
    assert better.total_usd <= verdict.build.total_usd
    assert not [check for check in better.checks if not check.passed and check.severity == "hard"]
    assert better.performance.decode_tokens_per_s.value > 20


def test_parts_add_up_to_the_total(folder: Path) -> None:
    _, verdict = judge_published(folder)
    for build in (verdict.build, verdict.repaired, verdict.better):
        assert build is not None
        assert round(sum(line.usd for line in build.parts), 2) == round(build.total_usd, 2)


def test_unlike_cards_run_as_the_slowest_with_the_least_memory(tmp_path: Path) -> None:
    machine = listing(tmp_path, 'parts = ["RTX 3090", "RTX 5080"]').machine
    hardware = hardware_of(machine)
    assert hardware is not None
    record = hardware.record()
    assert record.bandwidth_bytes_per_s == accelerators.by_id("rtx-3090").bandwidth_bytes_per_s
    assert record.memory_bytes == accelerators.by_id("rtx-5080").memory_bytes


@pytest.mark.parametrize("model", ["8b", "70b"])
def test_a_further_card_never_makes_the_best_use_of_unlike_cards_slower(model: str) -> None:
    question = Question(MachineLoad(models.get(model).record))
    speeds = []
    for names in (("RTX 4090", "RTX 3090"), ("RTX 4090", "RTX 3090", "RTX 3060 12GB")):
        hardware, load, _ = best_use(read_listing(None, price_book(), names).machine, question)
        run = best_run(hardware, load) if hardware is not None else None
        assert run is not None
        speeds.append(run.request_tokens_per_s)
    assert speeds[1] >= 0.95 * speeds[0]  # a third card may leave the others fewer lanes


def test_a_power_limit_that_mends_a_list_is_the_one_that_its_remedy_names() -> None:
    texts = [*{**DESKTOP, "gpu": "2x RTX 3090 Turbo blower 2 slot", "psu": "Corsair RM850x"}.values()]
    question = Question(MachineLoad(models.get("70b").record))
    verdict = judge_listing(read_listing(None, price_book(), texts), question, price_book(), better=True)
    named = re.findall(r"held to (\d+) W", " ".join(check.remedy for check in verdict.build.checks))
    assert named
    cards = verdict.repaired.machine.cards if verdict.repaired and verdict.repaired.machine else None
    assert cards is not None
    assert cards.power_fraction == 1.0 or str(round(cards.cards[0].power_w * cards.power_fraction)) in named


@pytest.mark.parametrize(
    ("name", "has_radiator"),
    [
        ("MSI RTX 4090 Suprim X", False),
        ("MSI RTX 4090 Suprim Liquid X", True),
        ("EVGA RTX 3090 FTW3 Ultra", False),
        ("EVGA RTX 3090 FTW3 Ultra Hybrid", True),
        ("Asus ROG Strix RTX 4090 OC", False),
    ],
)
def test_a_card_with_a_radiator_is_taken_only_where_its_name_says_so(name: str, has_radiator: bool) -> None:
    cards = read_listing(None, price_book(), [name]).machine.cards
    assert cards is not None
    assert (cards.cards[0].cooling == "liquid") == has_radiator


def test_a_laptop_lacks_none_of_the_parts_that_its_list_leaves_out() -> None:
    text = "Lenovo ThinkPad T14 Gen 3 (i7-1260P, 32GB DDR4), Razer Core X eGPU with RTX 3090. Will a 32b run?"
    _, found = read_listings(None, price_book(), pasted=text)[0]
    assert all(check.passed for check in missing_checks(found))


def test_tables_say_what_free_text_says(tmp_path: Path) -> None:
    table = listing(
        tmp_path,
        '[[part]]\ncategory = "gpu"\nname = "RTX 5090"\nquantity = 2\nprice_usd = 4500\n'
        '[[part]]\nname = "AMD Ryzen 9 9950X"\n',
    )
    text = listing(tmp_path, 'parts = ["2x RTX 5090 $4500", "AMD Ryzen 9 9950X"]')
    assert table.machine == text.machine
    assert table.total_usd == text.total_usd
    assert table.bill[1].price_basis == "quote"


def test_a_supply_and_a_kit_follow_what_is_said(tmp_path: Path) -> None:
    found = listing(
        tmp_path, 'parts = ["4x32GB DDR5 RDIMM", "2x 1200W titanium PSU", "ROMED8-2T board", "EPYC 7313P"]'
    )
    assert found.machine.memory is not None
    assert (found.machine.memory.kit.modules, found.machine.memory.kit.registered) == (4, True)
    assert found.machine.supplies is not None
    assert len(found.machine.supplies.psus) == 2
    assert found.machine.board is not None
    assert found.machine.board.name == "ASRock Rack ROMED8-2T"


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('parts = ["2x RTX 5099 $4500"]', "part 1: unknown card 'RTX 5099'", "rtx-5090"),
        ('parts = ["warp coil"]', "part 1: unknown part 'warp coil'", ""),
        ('parts = ["16100 W PSU"]', "part 1: supply '16100 W PSU'", ""),
        ("parts = 3", "parts is no list", ""),
        ("", "lists no parts", ""),
        ('[[part]]\nnam = "RTX 5090"', "[[part]] 1: field nam", "name"),
        ('[[part]]\nname = "RTX 5090"\ncategory = "gpuu"', "field category: 'gpuu'", "gpu"),
        ('[[part]]\nname = "RTX 5090"\nquantity = -2', "field quantity: -2", ""),
        ('[[part]]\nname = "RTX 5090"\nprice_usd = -5', "price '-5'", ""),
        ("[[part]]\nquantity = 2", "field name: missing", ""),
        ('parts = ["RTX 5090"', "not valid TOML", ""),
    ],
)
def test_a_list_that_cannot_be_read_is_told(tmp_path: Path, text: str, says: str, hint: str) -> None:
    with pytest.raises(InputFileError) as raised:
        listing(tmp_path, text)
    assert says in raised.value.what
    assert hint in raised.value.hint
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(("cpu", "num"), [("Ryzen 9 5950X", 3), ("EPYC 7532", 4), ("Ryzen 9 9950X", 2)])
def test_an_unknown_board_is_judged_by_the_worst_known_of_its_socket(cpu: str, num: int) -> None:
    found = read_listing(None, price_book(), [f"{num}x RTX 3090", cpu, "64GB RAM", "1600W gold"])
    checks = bound_checks(found, Setting())
    lanes = next(check for check in checks if check.rule == "pcie-lanes")
    assert found.machine.cpu is not None
    assert found.machine.cards is not None
    known = [
        min(board.lane_modes[num - 1])
        for board in parts.planner_parts(Board)
        if board.socket == found.machine.cpu.series.socket and board.max_cards >= num
    ]
    assert lanes.actual <= min(known)
    assert lanes.verdict == ("ok" if lanes.actual >= 4 else "unknown")


@pytest.mark.parametrize(
    ("cpu", "is_missing"),
    [
        ("Ryzen 7 7700, boxed", False),
        ("Ryzen 9 9950X, boxed", True),
        ("Ryzen 7 7700", False),
        ("Ryzen 7 7700 tray", True),
        ("Ryzen 7 7700X", True),
        ("Ryzen 5 9600", False),
        ("Ryzen 5 5600X", False),
        ("Ryzen 7 5700X", True),
        ("Ryzen 7 5700X3D", True),
        ("Ryzen 9 9900X", True),
        ("i5-12400F", False),
        ("i7-14700", False),
        ("i7-14700K", True),
        ("i7-14700KF", True),
        ("i5-13500 OEM", True),
        ("Core Ultra 7 265", False),
        ("Core Ultra 7 265K", True),
        ("Threadripper 7960X", True),
    ],
)
def test_a_cpu_that_is_sold_with_a_cooler_has_one(cpu: str, is_missing: bool, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"{cpu}\nB650 Eagle AX\n2x32GB DDR5\nRTX 3090\n850W gold\n")
    found = read_listing(tmp_path / "list.txt", price_book())
    assert ("cooler" in missing_places(found)) == is_missing


DESKTOP = {
    "cpu": "AMD Ryzen 9 9900X",
    "board": "ASUS ProArt X870E-Creator WiFi",
    "ram": "2x32GB DDR5-6000",
    "gpu": "2x RTX 3090 Turbo blower 2 slot",
    "psu": "Seasonic Prime TX-1300",
    "case": "Fractal Design Define 7 XL",
    "cooler": "Thermalright Phantom Spirit 120 SE",
    "storage": "Samsung 990 Pro 2TB",
}
SERVER = {
    "cpu": "AMD EPYC 7443P",
    "board": "Supermicro H12SSL-i",
    "ram": "8x32GB DDR4-3200 RDIMM",
    "gpu": "2x RTX A6000",
    "psu": "Seasonic Prime TX-1300",
    "case": "Phanteks Enthoo Pro 2",
    "cooler": "Noctua NH-U14S TR4-SP3",
    "storage": "Samsung 990 Pro 2TB",
}


@pytest.mark.parametrize(
    ("machine", "other", "rules"),
    [
        (DESKTOP, {}, set()),
        (SERVER, {}, set()),
        (DESKTOP, {"psu": "Corsair RM750x"}, {"psu-headroom", "psu-plugs", "psu-transient"}),
        (DESKTOP, {"ram": "2x32GB DDR4-3600"}, {"memory-kind"}),
        (DESKTOP, {"ram": "8x32GB DDR5-6000"}, {"memory-slots", "memory-size"}),
        (DESKTOP, {"board": "MSI MAG Z790 Tomahawk WiFi"}, {"socket"}),
        (DESKTOP, {"cpu": "Intel Core i9-14900K", "cooler": "Noctua NH-D15"}, {"socket"}),
        (DESKTOP, {"case": "Fractal Design Terra"}, {"card-length", "slots", "board-fits", "cooler-height"}),
        (DESKTOP, {"cooler": "Noctua NH-U14S TR4-SP3"}, {"cooler-socket"}),
        (DESKTOP, {"psu": "2x Corsair RM850x"}, {"dual-psu", "psu-start"}),
        (DESKTOP, {"storage": "64GB SSD"}, {"storage"}),
        (
            DESKTOP,
            {"gpu": "4x RTX 3090 Turbo blower 2 slot"},
            {"psu-headroom", "psu-plugs", "pcie-lanes", "slots"},
        ),
        (SERVER, {"ram": "8x32GB DDR4-3200 UDIMM"}, {"memory-kind"}),
        (SERVER, {"ram": "8x32GB DDR5-4800 RDIMM"}, {"memory-kind"}),
        (SERVER, {"cpu": "2x AMD EPYC 7443"}, {"cpu-count"}),
        (SERVER, {"gpu": "2x Tesla P40"}, {"card-cooling"}),
        (SERVER, {"board": "Supermicro X11SPL-F"}, {"socket"}),
    ],
    ids=lambda value: "; ".join(value.values()) if isinstance(value, dict) and len(value) < 3 else "",
)
def test_a_planted_fault_is_found_and_is_the_only_one(
    machine: dict[str, str], other: dict[str, str], rules: set[str]
) -> None:
    parts_of_list = machine | other
    found = read_listing(None, price_book(), [f"{kind}: {name}" for kind, name in parts_of_list.items()])
    question = Question(MachineLoad(models.get("qwen3-32b").record))
    verdict = judge_listing(found, question, price_book(), better=False)
    broken = {check.rule for check in verdict.broken}
    assert broken <= rules
    assert bool(broken) == bool(rules)


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ({"cpu": "Ryzen 9 5950X"}, {"cpu", "cooler"}),
        ({"psu": "Corsair CX550 550W"}, {"psu"}),
        ({"cooler": "Noctua NH-U14S TR4-SP3"}, {"cooler"}),
    ],
)
def test_a_mend_buys_only_in_place_of_parts_of_a_broken_rule(fault: dict[str, str], kinds: set[str]) -> None:
    one_card = {**DESKTOP, "gpu": "RTX 3090 Turbo blower 2 slot", **fault}
    found = read_listing(None, price_book(), list(one_card.values()))
    question = Question(MachineLoad(models.get("32b").record))
    repaired = judge_listing(found, question, price_book(), better=True).repaired
    assert repaired is not None
    assert {line.category for line in repaired.parts if line.unit_price_usd} <= kinds
    assert repaired.machine is not None
    assert repaired.machine.supplies is not None
    assert repaired.machine.supplies.power_w >= parts.supply_advice()["rtx-3090"].watts


def test_a_part_that_is_owned_is_not_counted_at_the_price_of_the_catalog() -> None:
    named = [f"{name} $0" if kind in ("cpu", "cooler") else name for kind, name in DESKTOP.items()]
    question = Question(MachineLoad(models.get("32b").record))
    totals = [
        judge_listing(read_listing(None, price_book(), lines), question, price_book(), better=False)
        for lines in (named, list(DESKTOP.values()))
    ]
    owned, bought = totals
    assert owned.catalog_total_usd < bought.catalog_total_usd
    assert owned.catalog_total_usd == pytest.approx(owned.build.total_usd)
    assert "price" not in {check.rule for check in owned.build.checks}


@pytest.mark.parametrize("cooler", ["Noctua NH-U12S", "Noctua NH-D15", "be quiet! Dark Rock 4"])
@pytest.mark.parametrize(
    ("cpu", "board"),
    [("Core i7-10700K", "Z490-A PRO"), ("Core i9-9900K", "Z390-A"), ("Xeon E5-2680 v4", "X99")],
)
def test_a_cooler_of_all_desktop_sockets_mounts_on_the_older_ones_too(
    cooler: str, cpu: str, board: str
) -> None:
    found = read_listing(None, price_book(), [cpu, board, "RTX 3090", f"cooler: {cooler}"])
    assert found.machine.cooler is not None
    assert "cooler-socket" not in {check.rule for check in violations(found.machine, Setting())}


@pytest.mark.parametrize(
    ("text", "bought"),
    [
        # A slight limit mends what another supply would, and costs nothing.
        ("4x P102-100 10GB/ASUS B250 Mining Expert/Celeron G3930/HP 1200W server psu", set()),
        # The circuit of the question allows no more than the limit that the supply allows already.
        ("4x RTX 3090/ASRock H110 Pro BTC+/Celeron G3930/1200W PSU/open frame", set()),
        # One part is all that the fault asks for, whatever platform the cards stand on.
        ("2x RTX 3090/ASUS B250 Mining Expert/Pentium G4560/HX750", {"psu"}),
        ("3x RX 7900 XTX/ASRock H110 Pro BTC+/i3-7100/Corsair HX1000", {"psu"}),
    ],
)
def test_a_mend_is_a_limit_or_one_part_before_it_is_another_machine(text: str, bought: set[str]) -> None:
    lines = [*text.split("/"), "8GB DDR4", "USB x1 risers"]
    question = Question(MachineLoad(models.get("32b").record))
    verdict = judge_listing(read_listing(None, price_book(), lines), question, price_book(), better=True)
    assert "psu-headroom" in {check.rule for check in verdict.broken}
    mended = verdict.repaired
    assert mended is not None
    assert {line.category for line in mended.parts if line.unit_price_usd} == bought
    assert bought or "held to" in mended.note


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        ({"cooler": "Noctua NH-D15"}, "cooler-socket"),
        ({"cooler": "Noctua NH-D15", "case": "Fractal Define 7 XL"}, "cooler-socket"),
        ({"ram": "4x 32GB DDR5-6000 UDIMM", "cooler": "ARCTIC Freezer 4U-M"}, "memory-kind"),
    ],
)
def test_a_slight_limit_costs_nothing_beside_another_broken_rule(other: dict[str, str], rule: str) -> None:
    parts_of_list = {
        "gpu": "4x ASRock Radeon AI PRO R9700 Creator 32GB",
        "cpu": "Threadripper 9960X",
        "board": "ASUS Pro WS TRX50-SAGE WIFI",
        "ram": "4x 32GB DDR5-6400 ECC RDIMM",
        "psu": "Seasonic PRIME PX-1600 ATX 3.1",
        "case": "Phanteks Enthoo Pro II Server Edition",
        "storage": "Samsung 9100 Pro 4TB",
        **other,
    }
    setting = Setting(circuit=Circuit(120.0, 20.0))
    question = Question(MachineLoad(models.get("gpt-oss-120b").record), setting=setting)
    found = read_listing(None, price_book(), [f"{kind}: {name}" for kind, name in parts_of_list.items()])
    verdict = judge_listing(found, question, price_book(), better=True)
    assert {check.rule for check in verdict.broken} == {"psu-headroom", rule}
    mended = verdict.repaired
    assert mended is not None
    assert {line.category for line in mended.parts if line.unit_price_usd} == {next(iter(other))}
    assert "held to" in mended.note


@pytest.mark.parametrize(
    ("card", "model"),
    [("RTX 5070 Ti", "mistral-small-24b"), ("RTX 3090", "qwen3-32b"), ("RTX 5060 Ti 16GB", "qwen3-14b")],
)
def test_an_assumed_speed_beats_no_surer_one(card: str, model: str) -> None:
    lines = [
        card,
        "Ryzen 7 7700",
        "MSI B650 GAMING PLUS WIFI",
        "2x16GB DDR5-6000",
        "Corsair RM850e",
        "Pop Air",
    ]
    question = Question(MachineLoad(models.get(model).record))
    verdict = judge_listing(read_listing(None, price_book(), lines), question, price_book(), better=True)
    listed = verdict.build.performance
    better = verdict.better.performance if verdict.better is not None else None
    if listed is None or better is None or listed.decode_tokens_per_s.basis == "assumed":
        return
    runs = [better.run, *better.other_runs]
    surer = [one.request_tokens_per_s for one in runs if one.output_tokens_per_s.basis != "assumed"]
    least = 0.8 if verdict.broken else 1.0
    assert max(surer, default=better.run.request_tokens_per_s) > least * listed.run.request_tokens_per_s


def test_a_circuit_of_the_question_is_mended_by_a_limit() -> None:
    lines = ["4x RTX 3090", "EPYC 7302", "ROMED8-2T", "8x16GB DDR4", "2x Corsair HX1200", "dual PSU adapter"]
    question = Question(MachineLoad(models.get("70b").record), setting=Setting(circuit=Circuit(120.0, 15.0)))
    verdict = judge_listing(read_listing(None, price_book(), lines), question, price_book(), better=True)
    assert "circuit" in {check.rule for check in verdict.broken}
    assert verdict.repaired is not None
    assert "held to" in verdict.repaired.note


def test_narrow_cables_tell_the_lanes_of_the_cards() -> None:
    lines = ["4x P102-100 10GB", "ASUS B250 Mining Expert", "Celeron G3930", "8GB DDR4", "USB x1 risers x4"]
    build = judge_listing(
        read_listing(None, price_book(), lines),
        Question(MachineLoad(models.get("32b").record)),
        price_book(),
        better=False,
    ).build
    rules = {check.rule: check for check in build.checks}
    assert "riser-lanes" in rules
    assert "pcie-lanes" not in rules
    assert rules["pcie-generation"].limit == 1.0


@pytest.mark.parametrize(
    ("host", "reaches"),
    [
        ("Ryzen 9 9900X, X670E ProArt, 192GB DDR5-5200 (4x48GB)", True),
        ("Core Ultra 7 265K, Z890 Tomahawk, 192GB DDR5-6400 (4x48GB)", True),
        ("Ryzen 9 9900X, X670E ProArt, 96GB DDR5-5200 (2x48GB)", False),
        ("Ryzen 9 5950X, B550 Tomahawk, 128GB DDR4-3200 (4x32GB)", False),
    ],
)
def test_four_modules_may_reach_the_rating_of_their_kit(host: str, reaches: bool) -> None:
    """Boards seldom train four modules of DDR5 to their rating: the range holds both, whatever the CPU reads."""
    lines = ["RTX 3090", *host.split(", ")]
    question = Question(MachineLoad(models.get("gpt-oss-120b").record))
    run = judge_listing(
        read_listing(None, price_book(), lines), question, price_book(), better=False
    ).build.performance
    assert run is not None
    assert run.run.on_cpu
    assert (run.rate_of_kit > 0.0) == reaches
    if reaches:
        rate = run.decode_tokens_per_s
        assert rate.value < run.rate_of_kit < rate.high


def test_a_card_that_shops_no_longer_have_costs_what_it_does_second_hand() -> None:
    bill = read_listing(None, price_book(), ["RTX 3090 Ti", "RTX 4090"]).bill
    assert [(line.condition, line.unit_price_usd) for line in bill] == [("used", 850.0), ("new", 1900.0)]


@pytest.mark.parametrize("cpu", ["Threadripper PRO 5955WX", "Threadripper PRO 3975WX"])
@pytest.mark.parametrize("kind", ["UDIMM", "ECC UDIMM", "non-ECC", "ECC RDIMM", ""])
@pytest.mark.parametrize("board", ["ASUS Pro WS WRX80E-SAGE SE WIFI", ""])
def test_boards_of_wrx80_take_registered_and_unbuffered_modules(cpu: str, kind: str, board: str) -> None:
    rows = f"{cpu}\n{board}\n8x16GB DDR4-3200 {kind}\nRTX 3090".replace("\n\n", "\n")
    found = read_listings(None, price_book(), (), rows)[0][1]
    checks = (*violations(found.machine, Setting()), *bound_checks(found, Setting()))
    assert not [check for check in checks if check.rule == "memory-kind" and check.verdict == "broken"]


def test_memory_without_error_correction_is_unbuffered() -> None:
    for words in ("non-ECC", "non ECC", "no ECC", "without ECC"):
        rows = f"EPYC 7302P\nSupermicro H12SSL-i\n8x16GB DDR4-3200 {words}\nRTX 3090"
        machine = read_listings(None, price_book(), (), rows)[0][1].machine
        assert machine.memory is not None
        assert not machine.memory.kit.ecc
        assert "memory-kind" in {check.rule for check in violations(machine, Setting())}


@pytest.mark.parametrize(
    ("cooler", "verdict"), [("SilverStone XE04-SP5", "ok"), ("Arctic Freezer 4U-SP5", "ok")]
)
def test_a_cooler_that_its_maker_rates_is_judged_by_the_rating(cooler: str, verdict: str) -> None:
    rows = f"EPYC 9654\nSupermicro H13SSL-N\n12x64GB DDR5-4800 RDIMM\n{cooler}\nRTX 4090"
    found = read_listings(None, price_book(), (), rows)[0][1]
    (check,) = (one for one in judge(found.machine, Setting()) if one.rule == "cooler-power")
    assert check.verdict == verdict
    assert "rated up to 400 W" in check.why
