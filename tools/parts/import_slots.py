"""Write catalog/data/parts/board_slots.csv from a table with one row per slot.

    python tools/parts/import_slots.py ../shared/data/catalog/board_slots.csv

Only boards that the parts list holds are kept, and of their slots those that take an x16 card. Two slots of the CPU
that share its 16 lanes run x16, or x8 and x8; a slot of the chipset keeps its own lanes. Rows that say that a figure
is doubtful are left out with their board.
"""

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from advisor.catalog.parts import cpu_series, planner_parts, parts_for_lists
from advisor.catalog.schema.part import Board

OUT: Final = Path(__file__).resolve().parents[2] / "catalog" / "data" / "parts" / "board_slots.csv"
COLUMNS: Final = ("name", "slots", "lane_modes", "flags", "basis", "source", "url")
HEAD: Final = """\
# Lanes of the slots that take an x16 card. slots: position.generation in the order of plugging; positions are brackets
# where the source has them, else assumed (layout_assumed). lane_modes: lanes of each card with one card, with two, ...
# Firmware slot tables (SMBIOS type 9) of real boards are from linuxhw/DMI, CC BY 4.0; makers wrote them.
"""
USUAL_POSITIONS: Final = {1: (1,), 2: (1, 4), 3: (1, 4, 7), 4: (1, 3, 5, 7)}
DOUBT: Final = re.compile(r"firmware prints|firmware name|prints bus", re.IGNORECASE)
Row = dict[str, str]


def words(name: str) -> frozenset[str]:
    """Words of a board's name, without those that say what it is."""
    noise = {
        "atx",
        "eatx",
        "ddr5",
        "ddr4",
        "am4",
        "am5",
        "lga1700",
        "amd",
        "motherboard",
        "sata",
        "6gb",
        "s",
        "pro",
    }
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - noise


def board_of(name: str, known: list[Board]) -> Board | None:
    """The board of the parts list that is called so: in full, or the only one with the same words."""
    exact = [board for board in known if board.name.lower() == name.lower()]
    alike = exact or [board for board in known if words(board.name) == words(name)]
    return alike[0] if len(alike) == 1 or exact else None


def layout(rows: list[Row], board: Board) -> tuple[str, str, str] | None:
    """slots, lane_modes and flags; None where a slot that takes a card is not described in full."""
    if any(DOUBT.search(f"{row['shares_with']} {row['slot_position']}") for row in rows):
        return None
    usable = [
        row
        for row in rows
        if row["physical_size"] in ("", "x16") and row["electrical_lanes"] not in ("", "x1")
    ]
    partly = ["bracket" in row["slot_position"] for row in usable]
    if any(row["physical_size"] == "x16" and not row["electrical_lanes"] for row in rows) or any(
        partly
    ) != all(partly):
        return None
    lanes = [int(row["electrical_lanes"].removeprefix("x")) for row in usable]
    if not lanes or max(lanes) < 16:
        return None
    largest = next(
        series.pcie_generation for series in cpu_series().values() if board.chipset in series.chipsets
    )
    generations = [int(float(row["generation"])) if row["generation"] else min(largest, 4) for row in usable]
    order = sorted(range(len(usable)), key=lambda i: (usable[i]["cpu_or_chipset"] == "chipset", i))
    shared = [i for i in order if "x8/x8" in usable[i]["shares_with"]]
    first = max(order, key=lambda i: lanes[i])
    order = [first, *(i for i in order if i != first)]
    modes = []
    for num in range(1, len(order) + 1):
        taken = order[:num]
        split = len(shared) == 2 and set(shared) <= set(taken)
        modes.append(" ".join(str(8 if split and i in shared else lanes[i]) for i in taken))
    brackets = [re.match(r"bracket (\d) of", row["slot_position"]) for row in usable]
    if all(brackets):
        positions = [int(match.group(1)) for match in brackets if match]
        flags = ""
    elif len(order) in USUAL_POSITIONS:
        positions = [0] * len(order)
        for place, i in enumerate(sorted(order)):
            positions[i] = USUAL_POSITIONS[len(order)][place]
        flags = "layout_assumed"
    else:
        positions = list(range(1, len(order) + 1))
        flags = "layout_assumed"
    return " ".join(f"{positions[i]}.{generations[i]}" for i in order), "; ".join(modes), flags


def main(source: Path) -> None:
    by_board: dict[str, list[Row]] = defaultdict(list)
    with source.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            by_board[row["board"]].append(row)
    known = [*planner_parts(Board), *parts_for_lists(Board)]
    kept = []
    for name, rows in by_board.items():
        board = board_of(name, known)
        found = layout(rows, board) if board is not None and not rows[0]["socket"].startswith("2x") else None
        if board is not None and found is not None:
            cited = (rows[0]["basis"], rows[0]["source_title"], rows[0]["source_url"])
            kept.append(dict(zip(COLUMNS, (board.name, *found, *cited), strict=True)))
    with OUT.open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept, key=lambda row: row["name"]))
    print(f"{len(kept)} of {len(by_board)} boards")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
