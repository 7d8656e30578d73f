"""Lists as people type them in forums: no part is dropped, taken for another, or counted wrongly."""

from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.part_prices import price_book
from advisor.catalog.units import GIB
from advisor.workstation.listing import Listing, read_listing, read_listings
from advisor.workstation.part_names import UnknownPartError
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.plan import Build, Question
from advisor.workstation.planner import plan
from advisor.workstation.rents import RentMarket
from advisor.workstation.valuation import WORST_LINK, hardware_of, known_host_bytes_per_s
from advisor.workstation.verdict import judge_listing

Bill = list[tuple[str, int, str]]
"""Category, number and a part of the name of each line of a bill."""

LINES: Final[dict[str, Bill]] = {
    "Video cards: 6 x 3090 (used, 650 bucks each)": [("gpu", 6, "RTX 3090")],
    "GPU: (4x) RTX 3090 24GB @ $700": [("gpu", 4, "RTX 3090")],
    "NVIDIA RTX 6000 Ada 48 GB - two of them": [("gpu", 2, "RTX 6000 Ada")],
    "Tesla P40 x 3 with blowers": [("gpu", 3, "Tesla P40")],
    "Dual RTX A6000 with NVLink": [("gpu", 2, "RTX A6000"), ("bridge", 1, "NVLink")],
    "Mobo: ASRock Rack ROMED8-2T": [("board", 1, "ROMED8-2T")],
    "Motherboard - Supermicro H12SSL-i": [("board", 1, "H12SSL-i")],
    "CPUs: 2x E5-2680v4": [("cpu", 2, "E5-2680 v4")],
    "cpu: dual Intel Xeon Platinum 8480+": [("cpu", 2, "8480+")],
    "EPYC 7F52": [("cpu", 1, "EPYC 7F52")],
    "Threadripper PRO 5975WX": [("cpu", 1, "5975WX")],
    "Intel Celeron G5905": [("cpu", 1, "G5905")],
    "64 gigs of ddr5": [("ram", 1, "2 x 32 GB DDR5")],
    "RAM: 8 x 32GB DDR4 3200 RDIMM": [("ram", 8, "32 GB DDR4 ECC RDIMM")],
    "32GB DDR5-5600 (2x16GB)": [("ram", 1, "2 x 16 GB DDR5")],
    "650W Gold": [("psu", 1, "650W")],
    "1000W": [("psu", 1, "1000W")],
    "PSU: 2x EVGA 1600W T2": [("psu", 2, "1600 T2")],
    "3x HP 1200W server psu w/ breakout": [("psu", 3, "HP 1200W")],
    "Case: open air mining frame": [("case", 1, "Open frame for 8")],
    "Risers: 4x LINKUP PCIe 4.0": [("riser", 4, "LINKUP")],
    "Framework Desktop 128GB $1,999": [("system", 1, "Framework Desktop")],
    "GMKtec EVO-X2 128GB $1,800": [("system", 1, "Ryzen AI Max+ 395")],
    "RTX 3080 10GB, i7-12700K, Z690, 32 GB DDR4 3600, 750W": [
        ("gpu", 1, "RTX 3080"),
        ("cpu", 1, "12700K"),
        ("board", 1, "Z690"),
        ("ram", 1, "2 x 16 GB DDR4"),
        ("psu", 1, "750W"),
    ],
    "2x 3090 NVLinked; 5900X; X570 Taichi; 64GB DDR4 3600MHz; RM1000x": [
        ("gpu", 2, "RTX 3090"),
        ("bridge", 1, "NVLink"),
        ("cpu", 1, "5900X"),
        ("board", 1, "X570 Taichi"),
        ("ram", 1, "2 x 32 GB DDR4"),
        ("psu", 1, "RM1000x"),
    ],
    "Dell R7525, 2x EPYC 7763, 512GB, 3x A100 40GB PCIe": [
        ("board", 1, "Dell PowerEdge R7525"),
        ("cpu", 2, "EPYC 7763"),
        ("ram", 1, "16 x 32 GB DDR4"),  # a module on each channel of both CPUs
        ("gpu", 3, "A100 PCIe 40 GB"),
    ],
    "Samsung 990 Pro, 2TB": [("storage", 1, "990 Pro")],
    "4x RTX 3090 FE (used, ~$700 each)": [("gpu", 4, "Founders Edition")],
    "PSU: EVGA 1600W T2 + Corsair RM1000x w/ Add2PSU": [
        ("psu", 1, "1600 T2"),
        ("psu", 1, "RM1000x"),
        ("link", 1, "second supply"),
    ],
    "Case: Veddha V3D 8 GPU mining frame": [("case", 1, "Open frame for 8")],
    "128GB (4x32) Corsair Vengeance LPX 3200": [("ram", 1, "4 x 32 GB DDR")],
    "64 GB kit (2x32) G.Skill Trident Z5 Neo 6000": [("ram", 1, "2 x 32 GB DDR5")],
    "Two sticks of 32GB DDR5 6000 CL30": [("ram", 2, "1 x 32 GB DDR5")],
    "16x 32gb 3200 reg ecc": [("ram", 16, "1 x 32 GB")],
    "NVLink 4-slot bridge": [("bridge", 1, "4 slots")],
    "2 x A6000 (NVLink)": [("gpu", 2, "RTX A6000"), ("bridge", 1, "NVLink")],
    "4x V100 SXM2 32GB with NVLink": [("gpu", 4, "V100 SXM2 32 GB"), ("bridge", 1, "carrier board")],
    "Dual 1100W PSUs": [("psu", 2, "1100W")],
    "850 watt gold": [("psu", 1, "850W")],
    "1600W Super Flower Leadex Titanium": [("psu", 1, "Leadex Titanium")],
    "Huananzhi X99-F8D Plus": [("board", 1, "X99-F8D")],
    "i9-10900X": [("cpu", 1, "10900X")],
    "Celeron G3930": [("cpu", 1, "G3930")],
    "Noctua NH-U14S DX-4677": [("cooler", 1, "NH-U14S")],
    "Phanteks Enthoo Pro II Server Edition": [("case", 1, "Enthoo Pro 2 Server Edition")],
    "RTX 3090 Ti + RTX 4090 + 3090": [
        ("gpu", 1, "RTX 3090 Ti"),
        ("gpu", 1, "RTX 4090"),
        ("gpu", 1, "RTX 3090"),
    ],
    "Minisforum UM790 Pro (Ryzen 9 7940HS, 64GB DDR5)": [
        ("board", 1, "UM790"),
        ("cpu", 1, "7940HS"),
        ("ram", 1, "2 x 32 GB DDR5"),
    ],
    "Framework Desktop (Ryzen AI Max+ 395, 128GB) $2,300": [("system", 1, "Framework Desktop")],
    "Mac Studio M1 Ultra 128GB $2,400 used": [("system", 1, "M1 Ultra, 128 GB")],
    "2x DGX Spark 128GB": [("system", 2, "DGX Spark")],
    "Dell PowerEdge R730": [("board", 1, "R730")],
    "Supermicro AS-4124GS-TNR": [("board", 1, "4124GS")],
    "RX 7900 XTX x 2 + Ryzen 7600 + B650E Aorus Master + 64GB + 1200W": [
        ("gpu", 2, "7900 XTX"),
        ("cpu", 1, "7600"),
        ("board", 1, "B650E"),
        ("ram", 1, "2 x 32 GB DDR5"),
        ("psu", 1, "1200W"),
    ],
    "EPYC 9654, 384GB DDR5, no GPU": [("cpu", 1, "9654"), ("ram", 1, "DDR5")],
    "10x P102-100 10GB mining cards": [("gpu", 10, "P102-100")],
    # A machine and its parts without commas between them.
    "Dell PowerEdge R730 2x Xeon E5-2690 v4, 256GB DDR4-2400 (16x16GB) $450": [
        ("board", 1, "R730"),
        ("cpu", 2, "E5-2690 v4"),
        ("ram", 1, "16 x 16 GB"),
    ],
    "Supermicro AS-4124GS-TNR with 2x EPYC 7742 512GB RAM": [
        ("board", 1, "4124GS"),
        ("cpu", 2, "7742"),
        ("ram", 1, "DDR4"),
    ],
    "HP Z440 Workstation Xeon E5-1650 v4 3.6GHz 64GB DDR4 ECC 700W PSU - $220": [
        ("board", 1, "HP Z440"),
        ("cpu", 1, "E5-1650 v4"),
        ("ram", 1, "DDR4"),
        ("psu", 1, "700W"),
    ],
    "Dell PowerEdge R740 2x Gold 6138 384GB RAM": [
        ("board", 1, "R740"),
        ("cpu", 2, "6138"),
        ("ram", 1, "DDR4"),
    ],
    "EPYC 9354P on Supermicro H13SSL-N": [("cpu", 1, "9354P"), ("board", 1, "H13SSL-N")],
    "EPYC 9554ES": [("cpu", 1, "EPYC 9554")],
    "NVIDIA Tesla P40 24GB GDDR5 Graphics Card | Lot of 2 $540": [("gpu", 2, "P40")],
    "8x AMD Instinct MI50 32GB": [("gpu", 8, "MI50 32 GB")],
    "2x RTX 4090 48GB blower (modded)": [("gpu", 2, "4090 48 GB")],
    "2080 Ti 22GB": [("gpu", 1, "2080 Ti 22 GB")],
    "Super Flower Leadex 2200W": [("psu", 1, "2200W")],
    "Samsung 870 EVO 1TB SATA": [("storage", 1, "870 EVO")],
    "Mac mini M4 Pro 64GB $1,999": [("system", 1, "M4 Pro, 64 GB")],
    "MacBook Pro M1 Max 64GB": [("system", 1, "M1 Max, 64 GB")],
    "i5-13600K, 4 x 32GB Kingston Fury 5200": [("cpu", 1, "13600K"), ("ram", 4, "32 GB DDR5")],
}


def read(*texts: str) -> Listing:
    return read_listing(None, price_book(), texts)


@pytest.mark.parametrize("text", LINES)
def test_a_line_is_read_as_its_writer_means_it(text: str) -> None:
    bill = read(text, "case $100").bill[:-1]
    expected = LINES[text]
    assert [(line.category, line.quantity) for line in bill] == [(kind, num) for kind, num, _ in expected]
    for line, (_, _, name) in zip(bill, expected, strict=True):
        assert name.lower() in line.name.lower()


def test_rows_of_a_table_between_bars_are_read(tmp_path: Path) -> None:
    file = tmp_path / "list.md"
    file.write_text(
        "| Component | Choice | Approx cost |\n|---|---|---|\n| CPU | AMD Ryzen 9 7950X | $500 |\n"
        "| GPU | 2 x RTX 4090 | $3,600 |\n| PSU | 1600W | $350 |\n",
        encoding="utf-8",
    )
    bill = read_listing(file, price_book()).bill
    assert [(line.category, line.quantity, line.usd) for line in bill] == [
        ("cpu", 1, 500.0),
        ("gpu", 2, 3600.0),
        ("psu", 1, 350.0),
    ]


def test_two_sockets_read_one_copy_of_the_weights_at_the_bandwidth_of_one() -> None:
    one = read("EPYC 7763", "Supermicro H12DSi-N6", "16x 32GB DDR4-3200 RDIMM").machine
    two = read("2x EPYC 7763", "Supermicro H12DSi-N6", "16x 32GB DDR4-3200 RDIMM").machine
    assert two.cpu is not None
    assert two.cpu.series.num_cpus == 2
    # One CPU runs two modules a channel, a little slower than one a channel.
    assert known_host_bytes_per_s(one) <= known_host_bytes_per_s(two) < 1.2 * known_host_bytes_per_s(one)


@pytest.mark.parametrize("model", ["gpt-oss-120b", "qwen3-30b-a3b", "qwen3-32b"])
@pytest.mark.parametrize("cpu", ["EPYC 7763", "EPYC 7313", "Xeon Gold 6248"])
def test_two_cpus_gain_little_over_one_and_many_small_operations_cost_them_most(model: str, cpu: str) -> None:
    """A mixture reads little for each of many operations, after which threads of both sockets wait for each other."""

    def decode_s(*parts: str, model: str = model) -> float:
        hardware = hardware_of(read(*parts).machine)
        assert hardware is not None
        run = best_run(
            hardware, MachineLoad(models.get(model).record, precision="q4_k_m", engine="llama.cpp")
        )
        assert run is not None
        return 1.0 / run.output_tokens_per_s.value

    one = (cpu, "8x 32GB DDR4-3200 RDIMM")
    two = (f"2x {cpu}", "16x 32GB DDR4-3200 RDIMM")
    assert decode_s(*two) >= 0.9 * decode_s(*one)
    lost = {
        name: decode_s(*two, model=name) / decode_s(*one, model=name) for name in ("qwen3-30b-a3b", "70b")
    }
    assert lost["qwen3-30b-a3b"] > lost["70b"]


def test_an_unknown_board_is_never_better_than_the_worst_known() -> None:
    for cards in ("4x RTX 3090", "6x RTX 3090"):
        unknown = hardware_of(read(cards, "ASRock H510 Pro BTC+", "Celeron G5905").machine)
        assert unknown is not None
        assert (unknown.pcie_generation, unknown.pcie_lanes) == WORST_LINK


def test_risers_of_one_lane_narrow_every_link() -> None:
    wide = hardware_of(read("4x RTX 3090", "ROMED8-2T", "EPYC 7313P", "risers: PCIe 4.0").machine)
    narrow = hardware_of(read("4x RTX 3090", "ROMED8-2T", "EPYC 7313P", "x1 usb risers").machine)
    assert wide is not None
    assert narrow is not None
    assert (wide.pcie_lanes, narrow.pcie_lanes) == (16, 1)


def test_a_list_without_cards_is_a_cpu_alone() -> None:
    machine = read("EPYC 9354", "Supermicro H13SSL-N", "12x 64GB DDR5-4800 RDIMM").machine
    hardware = hardware_of(machine)
    assert hardware is not None
    assert hardware.num == 0
    assert hardware.host_bytes_per_s == 12 * 8 * 4800e6
    assert hardware_of(read("warp coil", "EPYC 9354", "12x 64GB DDR5-4800 RDIMM").machine) is None


AM4: Final = ("Ryzen 7 5800X", "MSI X570 MEG UNIFY", "64GB DDR4-3600 (2x32GB)")
REST: Final = ("Fractal Design Meshify 2", "Noctua NH-U12S", "2TB NVMe")
SOUND: Final = (
    ("8b", ("RTX 5070", *AM4, "650W Gold", *REST)),
    ("gpt-oss-120b", ("RTX 3090", *AM4, "850W Gold", *REST)),
)


@pytest.mark.parametrize(("model", "texts"), SOUND)
def test_no_typed_list_for_the_money_is_faster_than_the_plan(model: str, texts: tuple[str, ...]) -> None:
    """The law of the planner, for lists that break no rule and whose parts all have a price."""
    book = price_book()
    load = MachineLoad(models.get(model).record)
    build = judge_listing(read_listing(None, book, texts), Question(load), book, better=False).build
    assert build.performance is not None
    builds = plan(Question(load, budget_usd=build.total_usd), book, RentMarket(())).builds
    best = max(one.performance.decode_tokens_per_s.value for one in builds if one.performance)
    assert build.performance.decode_tokens_per_s.value <= 1.03 * best


def test_a_server_holds_its_case_and_as_many_cards_as_its_maker_allows() -> None:
    server = ("Dell R740", "2x Xeon Gold 6248", "384GB DDR4 (12x32GB)")
    for num, is_kept in ((3, True), (4, False)):
        listing = read(*server, f"{num}x Tesla T4")
        question = Question(MachineLoad(models.get("8b").record))
        checks = judge_listing(listing, question, price_book(), better=False).build.checks
        kept = {check.rule: check.passed for check in checks}
        assert kept["pcie-lanes"] == is_kept
        assert "case" not in next(check.why for check in checks if check.rule == "complete")


def test_an_unread_line_may_be_the_part_that_is_missing() -> None:
    listing = read("RTX 3090", "Ryzen 7 5800X", "64GB DDR4", "850W gold", "2TB NVMe", "Frobnicator 9000X")
    question = Question(MachineLoad(models.get("8b").record))
    checks = judge_listing(listing, question, price_book(), better=False).build.checks
    assert next(check for check in checks if check.rule == "complete").verdict == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "Dell PowerEdge R730 2x Xeon E5-2690 v4, 256GB DDR4-2400 (16x16GB) $450",
        "HP Z440 Workstation Xeon E5-1650 v4 64GB DDR4 ECC 700W PSU - $450",
        "Dell PowerEdge R740 2x Gold 6138 384GB RAM $450",
    ],
)
def test_one_price_of_a_machine_with_its_parts_is_that_of_all(text: str) -> None:
    bill = read(text, "case $100").bill
    assert bill[0].usd == 450.0
    assert sum(line.usd or 0.0 for line in bill) == 550.0


def test_a_price_in_thousands_is_read() -> None:
    assert read("H100 80GB PCIe $22k", "case").bill[0].usd == 22_000.0
    assert read("2x RTX 6000 Ada @ $5.5k", "case").bill[0].usd == 11_000.0


@pytest.mark.parametrize("name", ["RTX 4090", "RTX 4090 D", "RTX 2080 Ti", "RTX 4080 Super"])
def test_a_card_whose_memory_was_changed_is_meant_only_by_its_size(name: str) -> None:
    (plain,) = read(name, "case").machine.cards.cards  # type: ignore[union-attr]
    assert "modified" not in plain.name
    record = accelerators.by_id(plain.accelerator)
    size = round((record.memory_bytes or 0.0) / GIB)
    (sized,) = read(f"{name} {size}GB", "case").machine.cards.cards  # type: ignore[union-attr]
    assert sized.accelerator == plain.accelerator


@pytest.mark.parametrize("watts", [850, 1600, 2000, 2200])
@pytest.mark.parametrize("grade", ["gold", "platinum", "titanium"])
def test_a_supply_has_the_grade_that_the_line_states(watts: int, grade: str) -> None:
    supplies = read(f"{watts}W {grade}", "case").machine.supplies
    assert supplies is not None
    assert {psu.grade for psu in supplies.psus} == {grade}


def test_a_memory_that_no_machine_of_a_line_can_have_is_refused() -> None:
    for name in (
        "Mac mini M4 Pro 128GB",
        "Mac mini M4 Pro 32GB",
        "DGX Spark 256GB",
        "Framework Desktop 256GB",
    ):
        with pytest.raises(UnknownPartError):
            read(name)


def _judge(listing: Listing, model: str) -> Build:
    question = Question(MachineLoad(models.get(model).record))
    return judge_listing(listing, question, price_book(), better=False).build


def test_joined_machines_run_what_one_cannot_and_machines_without_a_network_are_one() -> None:
    large = "qwen3-235b-a22b"
    assert _judge(read("DGX Spark"), large).performance is None
    both = _judge(read("2x DGX Spark"), large)
    assert both.performance is not None
    one = _judge(read("DGX Spark"), "gpt-oss-120b").performance
    two = _judge(read("2x DGX Spark"), "gpt-oss-120b").performance
    assert one is not None
    assert two is not None
    assert two.decode_tokens_per_s.value >= one.decode_tokens_per_s.value


@pytest.mark.parametrize(
    ("machine", "small", "large"),
    [
        ("Mac mini M4 Pro 48GB", "32b", "70b"),
        ("Framework Desktop 128GB", "gpt-oss-120b", "qwen3-235b-a22b"),
        ("Mac Studio M3 Ultra 96GB", "70b", "qwen3-235b-a22b"),
    ],
)
def test_machines_that_no_record_joins_add_memory_and_no_speed(machine: str, small: str, large: str) -> None:
    alone = _judge(read(machine), small).performance
    assert _judge(read(f"2x {machine}"), small).performance == alone
    assert _judge(read(machine), large).performance is None
    both = _judge(read(f"2x {machine}"), large)
    assert both.performance is not None
    assert both.performance.num_machines == 2
    assert both.performance.run.engine == "llama.cpp"
    assert both.performance.decode_tokens_per_s.basis == "assumed"
    assert "llama.cpp RPC" in both.note


def test_a_card_beside_a_complete_machine_is_named_and_leaves_its_speed() -> None:
    alone = _judge(read("Framework Desktop 128GB"), "gpt-oss-120b")
    found = read("Framework Desktop 128GB", "RTX 3090 in an OCuLink eGPU dock", "Corsair RM850x")
    assert _judge(found, "gpt-oss-120b").performance == alone.performance
    assert any("not judged" in note for note in found.notes)


def test_a_grade_that_no_source_states_is_unknown() -> None:
    lines = ["2x RTX 3090", "Ryzen 9 5950X", "B550 board", "64GB DDR4", "case", "2TB NVMe"]
    verdicts = {}
    for supply in ("Dell 1400W PSU", "Dell 1400W bronze PSU", "Dell 1400W gold PSU"):
        checks = _judge(read(*lines, supply), "32b").checks
        verdicts[supply] = next(check.verdict for check in checks if check.rule == "psu-class")
    assert list(verdicts.values()) == ["unknown", "advice", "ok"]


def test_a_drive_is_too_small_only_if_system_and_model_do_not_fit() -> None:
    lines = ["RTX 3090", "Ryzen 9 5950X", "B550 board", "64GB DDR4", "850W gold PSU", "case"]
    verdicts = []
    for drive in ("64GB SSD", "120GB SSD", "2TB NVMe"):
        checks = _judge(read(*lines, drive), "32b").checks
        verdicts.append(next(check.verdict for check in checks if check.rule == "storage"))
    assert verdicts == ["broken", "ok", "ok"]


def test_a_list_without_any_price_has_no_cost_and_no_cheaper_machine() -> None:
    asked = Question(MachineLoad(models.get("8b").record))
    verdict = judge_listing(read("MacBook Pro M1 Max 64GB"), asked, price_book(), better=True)
    assert verdict.build.performance is not None
    assert verdict.build.economics is None
    assert verdict.better is None
    assert not verdict.why_no_better


@pytest.mark.parametrize(
    ("text", "num_cards", "generation"),
    [
        ("GMKtec EVO-X2 128GB, three DEG1 docks with RTX 3090 each", 3, 4),
        ("Minisforum UM790 Pro, 64GB DDR5, 3x RTX 3090 in three OCuLink docks", 3, 4),
        ("Framework Desktop 128GB, dock 1: RTX 3090 via OCuLink, dock 2: RTX 3090 via USB4", 2, 3),
        (
            "Bosgame M5 Strix Halo, 2x RTX 3090 as eGPU via both NVMe slots (M.2 to eGPU, PCIe 4.0 x4 each)",
            2,
            4,
        ),
    ],
)
def test_every_card_of_several_docks_counts_with_the_link_that_is_stated(
    text: str, num_cards: int, generation: int
) -> None:
    listing = read_listings(None, price_book(), pasted=text)[0][1]
    machine = listing.machine
    assert machine.cards is not None
    assert machine.risers is not None
    assert machine.risers.riser is not None
    assert (machine.cards.num, machine.risers.num) == (num_cards, num_cards)
    assert machine.risers.riser.pcie_generation == generation
    assert not listing.unknown


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Bosgame M5 Strix Halo (Ryzen AI Max+ 395, 128GB)", "Mini PC with Ryzen AI Max+ 395"),
        ("Corsair RMx 850W 80+ Gold Certified Fully-Modular", "Corsair RM850x"),
        ("Noctua NH-U12DX i4", "Noctua NH-U12DXi4"),
        ("X570 Taichi", "ASRock X570 Taichi WIFI"),
        (
            "CPU Cooler Cooler Master Hyper 212 EVO 82.9 CFM Sleeve Bearing CPU Cooler $24.88 @ OutletPC",
            "Cooler Master Hyper 212 EVO",
        ),
        ("Motherboard MSI Z170A SLI ATX LGA1151 Motherboard $89.98 @ Newegg", "MSI Z170A SLI"),
    ],
)
def test_a_name_with_other_words_or_spaces_is_that_product(text: str, name: str) -> None:
    (line,) = read_listings(None, price_book(), pasted=f"{text}\nRTX 3090")[0][1].bill[:1]
    assert line.name.startswith(name)


def test_a_slash_within_a_name_divides_no_parts() -> None:
    listing = read_listings(
        None, price_book(), pasted="RTX 3090\nWi-Fi adapter TP-Link 802.11a/b/g/n $49.89"
    )[0][1]
    assert len(listing.bill) == 2
