"""Parts and their prices: enough of them, plausible, cited, and a user's prices above all."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from advisor.catalog import accelerators, part_prices, parts
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.part import Board, Case, Cooler, Cpu, GpuCard, Part, Psu, board_tier

FOLDER = DATA_DIR / "parts"
LISTED = ("gpu_cards", "cpus", "boards", "ram", "psus", "cases", "coolers", "storage")


def test_there_are_more_than_500_parts_of_every_kind() -> None:
    found = parts.all_parts()
    assert sum(map(len, found.values())) >= 500
    assert all(found.values())


def test_ids_are_unique_in_every_category() -> None:
    for category, found in parts.all_parts().items():
        ids = [part.id for part in found]
        assert len(ids) == len(set(ids)), category


@pytest.mark.parametrize("name", LISTED)
def test_rows_of_opendb_bear_its_notice(name: str) -> None:
    first = (FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "OpenDB" in first
    assert "ODC-By" in first


def test_every_card_has_an_accelerator_and_can_be_fed() -> None:
    for card in parts.planner_parts(GpuCard):
        accelerators.by_id(card.accelerator)
        assert (
            75 + 150 * card.num_8_pin + 75 * card.num_6_pin + 600 * card.num_16_pin >= 0.97 * card.power_w
        ), card.name


def test_cards_draw_about_what_their_accelerator_is_rated_for() -> None:
    for card in parts.planner_parts(GpuCard):
        rated = accelerators.by_id(card.accelerator).tdp_w
        assert rated is None or 0.6 < card.power_w / rated < 1.8, card.name


def test_no_row_with_a_doubtful_figure_is_shipped() -> None:
    suspect = {
        "pcie_gen_suspect",
        "connector_zero_suspect",
        "slot_width_suspect",
        "eps_zero_suspect",
        "tdp_missing",
        "ram_max_unit_suspect",
        "pcie_zero_suspect",
    }
    for found in parts.all_parts().values():
        assert not suspect & {flag for part in found for flag in part.flags}


def test_lanes_of_several_cards_come_from_a_source_or_are_not_known() -> None:
    for board in parts.planner_parts(Board):
        assert all(len(mode) == number for number, mode in enumerate(board.lane_modes, 1)), board.name
        assert len(board.slots) >= board.max_cards
        if board.max_cards > 1:
            assert board.source != "OpenDB", f"{board.name}: OpenDB does not know electrical lanes"


def test_every_board_that_was_reviewed_is_in_the_list() -> None:
    reviewed = [
        entry.get("opendb", entry.get("id")) for entry in read_toml(FOLDER / "boards_reviewed.toml")["board"]
    ]
    assert set(reviewed) <= {board.id for board in parts.planner_parts(Board)}


def test_threadrippers_are_told_apart() -> None:
    by_name = {cpu.name: cpu.series for cpu in parts.planner_parts(Cpu)}
    plain = by_name["AMD Ryzen Threadripper 7960X"]
    pro = by_name["AMD Ryzen Threadripper PRO 7975WX"]
    assert (plain.channels, plain.slot_lanes, plain.chipsets) == (4, 48, ("TRX50",))
    assert (pro.channels, pro.slot_lanes) == (8, 128)
    assert "WRX90" in pro.chipsets


def test_estimates_are_medians_of_classes_not_listings() -> None:
    with (FOLDER / "price_estimates.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert rows
    names = {part.name for found in parts.all_parts().values() for part in found}
    for row in rows:
        assert int(row["num_listings"]) >= 3
        assert float(row["usd_low"]) <= float(row["usd"]) <= float(row["usd_high"])
        assert row["class"] not in names


def test_every_price_has_a_day_a_basis_and_a_source() -> None:
    for price in part_prices.bundled_part_prices().values():
        assert price.basis in ("quote", "estimate")
        assert price.source.title


def test_every_power_floor_is_of_a_card_and_cited() -> None:
    carded = {card.accelerator for card in parts.planner_parts(GpuCard)}
    for accelerator, floor in parts.power_floors().items():
        assert accelerator in carded
        assert floor.source


def test_every_room_for_cards_is_of_a_server_and_cited() -> None:
    servers = {board.name for board in parts.planner_parts(Board) if "server" in board.flags}
    assert set(parts.card_rooms()) <= servers
    for room in parts.card_rooms().values():
        assert ("unverified" in room.source) == (room.basis == "estimate")


def test_every_advice_on_supplies_is_of_a_card_and_cited() -> None:
    carded = {card.accelerator for card in parts.planner_parts(GpuCard)}
    assert set(parts.supply_advice()) <= carded
    assert all(advice.source for advice in parts.supply_advice().values())


def test_a_quote_wins_over_an_estimate_and_an_estimate_over_a_launch_price() -> None:
    book = part_prices.price_book()
    assert book["gpu/rtx-5090"].basis == "quote"
    assert book["gpu/rtx-5080"].num_listings >= 3
    assert book["gpu/rtx-3090"].condition == "used"


def test_used_parts_are_taken_where_they_are_asked_for() -> None:
    new = part_prices.price_book()
    used = part_prices.price_book(used=True)
    assert new["gpu/rtx-4090"].condition == "new"
    assert used["gpu/rtx-4090"].condition == "used"
    assert used["gpu/rtx-4090"].usd < new["gpu/rtx-4090"].usd
    assert used["gpu/rtx-5090"] == new["gpu/rtx-5090"]


def card(accelerator: str) -> GpuCard:
    return next(card for card in parts.planner_parts(GpuCard) if card.accelerator == accelerator)


def test_a_users_price_wins_by_class_name_or_alias(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "part,usd,observed_on\nrtx 5090,2500,2026-11-01\nSupermicro H12SSL-i,1,2026-11-01\n"
        "eb447551-72da-489f-b40e-a915c034112a,700,2026-11-01\n",
        encoding="utf-8",
    )
    book = part_prices.price_book(file)
    found = part_prices.price_of(card("rtx-5090"), book)
    assert found is not None
    assert (found.usd, found.basis) == (2500.0, "user")
    board = next(b for b in parts.planner_parts(Board) if b.name == "Supermicro H12SSL-i")
    assert part_prices.price_of(board, part_prices.price_book()) is None
    own = part_prices.price_of(board, book)
    assert own is not None
    assert own.usd == 1.0
    assert book["eb447551"].usd == 700.0  # an id as OpenDB writes it


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("part,usd,observed_on\nrtx 5909,2500,2026-11-01\n", "row 2: field part: 'rtx 5909'"),
        ("part,usd,observed_on\nrtx 5090,-2500,2026-11-01\n", "row 2: field usd: '-2500'"),
        ("part,usd,observed_on\nrtx 5090,25OO,2026-11-01\n", "row 2: field usd: '25OO'"),
        ("part,usd,observed_on\nrtx 5090,,2026-11-01\n", "row 2: field usd: missing"),
        ("part,usd,observed_on\nrtx 5090,nan,2026-11-01\n", "row 2: field usd: 'nan'"),
        ("part,usd,observed_on\nrtx 5090,2500,2026-02-30\n", "row 2: field observed_on: '2026-02-30'"),
        ("part,price,observed_on\nrtx 5090,2500,2026-11-01\n", "row 1 lacks column usd"),
        ("part,usd,observed_on\nrtx 5090,2500\n", "row 2 has 2 cells, the header has 3"),
        ('part,usd,observed_on\nrtx 5090,"$2,500",2026-11-01\n', "row 2: field usd: '$2,500'"),
        ("part,usd,observed_on,currency\nrtx 5090,2500,2026-11-01,EUR\n", "row 2: field currency: 'EUR'"),
        ("part,usd,observed_on\nrtx 5090,2500,2126-11-01\n", "row 2: field observed_on: 2126-11-01"),
        ("part,usd,observed_on\nrtx 5090,1,2026-11-01\nrtx-5090,2,2026-11-01\n", "row 3 repeats row 2"),
    ],
)
def test_a_bad_price_row_is_told_with_row_and_field(tmp_path: Path, rows: str, says: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(rows, encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        part_prices.price_book(file)
    assert says in raised.value.what
    assert raised.value.exit_code == 2


def test_a_typo_gets_near_misses(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("part,usd,observed_on\nrtx 5909,2500,2026-11-01\n", encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        part_prices.price_book(file)
    assert "rtx-5090" in raised.value.hint


def test_boards_that_take_registered_modules_are_those_of_servers_and_workstations() -> None:
    registered: set[str] = {board.socket for board in parts.planner_parts(Board) if board.registered}
    servers = {"SP3", "SP5", "SP6", "LGA2011", "LGA2011-3", "LGA3647", "LGA4189", "LGA4677"}
    assert registered == servers | {"sTR5", "sWRX8", "LGA2066", "LGA1366"}
    assert all(isinstance(board, Board) for board in parts.planner_parts(Board))


def test_boards_of_dear_lines_are_not_priced_like_their_chipset() -> None:
    book = part_prices.price_book()
    by_tier = {name: book[f"board/X870E/{name}"].usd for name in ("ordinary", "upper", "flagship")}
    assert by_tier["ordinary"] < by_tier["upper"] < by_tier["flagship"]
    board = next(board for board in parts.planner_parts(Board) if "X870E AORUS XTREME" in board.name)
    found = part_prices.price_of(board, book)
    assert found is not None
    assert found.usd == by_tier["flagship"]


def test_a_users_price_of_a_wide_class_wins_over_a_bundled_one_of_a_narrow_class(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("part,usd,observed_on\nboard/X870E,333,2026-11-01\n", encoding="utf-8")
    board = next(board for board in parts.planner_parts(Board) if "X870E AORUS XTREME" in board.name)
    found = part_prices.price_of(board, part_prices.price_book(file))
    assert found is not None
    assert (found.usd, found.basis) == (333, "user")


def test_a_flagship_is_not_priced_like_the_middle_of_its_chipset() -> None:
    book = part_prices.price_book()
    board = next(
        board
        for board in parts.planner_parts(Board)
        if board.name.startswith("ASUS X670E ROG CROSSHAIR HERO")
    )
    assert part_prices.price_of(board, book) is None
    ordinary = next(
        b
        for b in parts.planner_parts(Board)
        if b.chipset == board.chipset and board_tier(b.name) == "ordinary"
    )
    assert part_prices.price_of(ordinary, book) is not None


def test_named_parts_are_read_and_are_not_those_that_the_planner_takes() -> None:
    for category in ("board", "psu", "case", "cooler", "storage"):
        named = parts.named_parts(category)
        planned = parts.all_parts()[category]
        assert len(named) > 500
        assert not {part.name for part in named} & {part.name for part in planned}
    assert parts.named_parts("gpu") == ()


def test_slots_of_boards_are_cited_and_their_lanes_are_those_of_a_cpu() -> None:
    wired = [
        board for board in (*parts.planner_parts(Board), *parts.parts_for_lists(Board)) if board.max_cards > 1
    ]
    assert len(wired) >= 25
    for board in wired:
        assert board.slots_known
        assert ":" in board.source or ";" in board.source or "," in board.source, board.name
        assert len(board.slots) >= board.max_cards
        assert [len(mode) for mode in board.lane_modes] == list(range(1, board.max_cards + 1))
        assert all(lanes in (1, 2, 4, 8, 16) for mode in board.lane_modes for lanes in mode)


@pytest.mark.parametrize("kind", [GpuCard, Cpu, Psu, Case, Cooler])
def test_no_part_is_listed_under_two_spellings(kind: type[Part]) -> None:
    spellings = Counter(
        " ".join(sorted(re.findall(r"[a-z0-9.+]+", part.name.lower()))) for part in parts.planner_parts(kind)
    )
    assert [name for name, num in spellings.items() if num > 1] == []
