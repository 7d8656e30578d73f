"""Ten lists as PCPartPicker writes them, each with the verdict that a builder would give."""

import json
from datetime import date
from pathlib import Path
from typing import Final

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.part_prices import price_book
from advisor.workstation.listing import Listing, read_listing
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.verdict import judge_listing

FOLDER: Final = Path(__file__).parent / "lists"
VERDICTS: Final[dict[str, tuple[set[str], set[str]]]] = {
    # Nothing to object: one card on a desktop board, and two narrow cards on a board that splits its lanes.
    "single-4090-sound.txt": (set(), set()),
    "dual-3090-sound.txt": (set(), set()),
    # 900 W behind a supply of 1000 W, whose plugs are those of its product line.
    "dual-3090-small-supply.txt": ({"psu-headroom"}, set()),
    "5090-on-750w.txt": ({"psu-headroom"}, set()),
    "ddr4-on-am5.txt": ({"memory-kind"}, set()),
    # A Threadripper that is no PRO does not start on WRX90; the cards find slots far enough apart.
    "threadripper-on-wrx90.txt": ({"socket"}, set()),
    # Engines map the files: memory smaller than the model is slow to start, and works.
    "too-little-memory.txt": (set(), set()),
    "two-cards-on-mini-itx.txt": ({"slots", "pcie-lanes", "psu-headroom"}, set()),
    # Four cards at full power want a second supply; the circuit is assumed, and so no fault.
    "quad-3090-one-supply.txt": ({"psu-headroom"}, {"psu-transient"}),
    "unknown-parts.md": (set(), {"part-known", "model-memory"}),
}


def question() -> Question:
    return Question(MachineLoad(models.get("70b").record), as_of=date(2026, 11, 20))


@pytest.mark.parametrize("name", VERDICTS)
def test_a_list_gets_the_verdict_of_a_builder(name: str) -> None:
    broken, unknown = VERDICTS[name]
    listing = read_listing(FOLDER / name, price_book())
    verdict = judge_listing(listing, question(), price_book(), better=False)
    assert {check.rule for check in verdict.broken} == broken
    assert {check.rule for check in verdict.build.unknown} == unknown


def test_every_list_has_a_verdict() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(VERDICTS)


def test_no_row_is_dropped() -> None:
    for file in FOLDER.iterdir():
        rows = [row for row in file.read_text(encoding="utf-8").splitlines() if ": " in row or "**" in row]
        parts = [row for row in rows if not row.startswith(("PCPartPicker", "Total", "|", "["))]
        listing = read_listing(file, price_book())
        repeated = {"dual": 1, "quad": 3, "thre": 1, "too-": 1, "two-": 1}.get(file.name[:4], 0)
        assert len(listing.bill) == len(parts) - repeated, file.name


def test_what_is_in_no_record_is_named_by_file_and_row() -> None:
    listing = read_listing(FOLDER / "unknown-parts.md", price_book())
    told = {error.what for error in listing.unknown}
    assert len(told) == 4
    assert any("unknown-parts.md: row 5: unknown CPU 'AMD Threadripper PRO 5999WX" in what for what in told)
    assert any("row 9: drive 'Samsung 990 Pro" in what and "several" in what for what in told)
    assert listing.total_usd == pytest.approx(7096.92, abs=1)


def of(text: str) -> Listing:
    return read_listing(None, price_book(), [text, "RTX 3090"])


@pytest.mark.parametrize(
    ("text", "category", "name"),
    [
        ("MSI B650 TOMAHAWK", "board", "MSI MAG B650 TOMAHAWK WIFI"),
        ("ROG Crosshair VIII Dark Hero", "board", "ASUS X570 ROG CROSSHAIR VIII DARK HERO"),
        ("Corsair RM1000x", "psu", "Corsair RM1000x"),
        ("Samsung 990 Pro 2TB", "storage", "Samsung 990 Pro 2TB"),
        ("Noctua NH-D15", "cooler", "Noctua NH-D15"),
        ("Seasonic Vertex 1200 W", "psu", "SeaSonic VERTEX"),
        ("B650 board", "board", "B650"),
    ],
)
def test_common_names_are_read(text: str, category: str, name: str) -> None:
    line = of(text).bill[0]
    assert line.category == category
    assert name in line.name
    assert "not judged" not in line.flags


@pytest.mark.parametrize(
    "text", ["MSI B650 NOSUCHBOARD", "Gigabyte MZ39-AR0", "RTX 509O", "Threadripper PRO 5999WX"]
)
def test_an_unknown_part_is_no_other_part(text: str) -> None:
    found = of(text)
    assert len(found.unknown) == 1
    assert found.bill[0].name == text
    assert found.machine.board is None


def test_equal_rows_are_one_part_twice() -> None:
    listing = read_listing(FOLDER / "dual-3090-sound.txt", price_book())
    (cards,) = [line for line in listing.bill if line.category == "gpu"]
    assert (cards.quantity, cards.usd) == (2, 1600)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("Video Card: NVIDIA GeForce RTX 3090 24 GB Video Card  ($-700.00 @ Amazon)", "row 3: price"),
        ("Video Card:   ($700.00 @ Amazon)", "row 3"),
    ],
)
def test_a_bad_row_is_told_with_file_and_row(tmp_path: Path, row: str, says: str) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(f"PCPartPicker Part List: https://pcpartpicker.com/list/x\n\n{row}\n", encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        read_listing(file, price_book())
    assert str(file) in raised.value.what
    assert says in raised.value.what


def test_a_list_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputFileError):
        read_listing(file, price_book())
    with pytest.raises(InputFileError):
        read_listing(tmp_path / "missing.txt", price_book())


@pytest.mark.parametrize(
    "lines", [["99 RTX 5090", "1 RTX 5090"], ["21x RTX 3090"], ["RTX 4090 x11", "RTX 3090 x10"]]
)
def test_more_cards_than_any_machine_takes_are_refused(lines: list[str]) -> None:
    with pytest.raises(InputFileError, match="cards") as raised:
        read_listing(None, price_book(), lines)
    assert raised.value.fix


@pytest.mark.parametrize("text", [" " * 40_000 + "x", "((((" * 20_000, "RTX 5090 " * 5_000, ",-" * 30_000])
@pytest.mark.parametrize("form", ["part", "txt", "toml", "table"])
def test_a_line_without_end_is_refused_by_its_length(tmp_path: Path, form: str, text: str) -> None:
    """Patterns that look for counts and prices take time with the square of a line."""
    file = tmp_path / f"list.{'txt' if form == 'txt' else 'toml'}"
    line = f"RTX 5090 {text} 64 GB"
    if form == "toml":
        file.write_text(f"parts = [{json.dumps(line)}]\n", encoding="utf-8")
    elif form == "table":
        file.write_text(f"[[part]]\nname = {json.dumps(line)}\n", encoding="utf-8")
    else:
        file.write_text(line, encoding="utf-8")
    with pytest.raises(InputFileError, match="characters"):
        read_listing(None if form == "part" else file, price_book(), [line] if form == "part" else [])


@pytest.mark.parametrize(
    ("words", "name", "slots", "num_8_pin"),
    [
        ("RTX 3090 (EVGA FTW3 Ultra, 300mm 2.75 slot)", "EVGA GeForce RTX 3090 FTW3 ULTRA", 2.75, 3),
        ("EVGA RTX 3080 XC3 Ultra 10GB", "EVGA XC3 ULTRA", None, 2),
        ("RTX 3090 Gigabyte Turbo (blower)", "Gigabyte TURBO", 2, 2),
        ("ASUS Turbo RTX 3070", "Asus Turbo", 2, 2),
    ],
)
def test_words_of_the_series_decide_which_card_is_meant(
    words: str, name: str, slots: float | None, num_8_pin: int, tmp_path: Path
) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{words}\nRyzen 9 5900X\n")
    cards = read_listing(path, price_book()).machine.cards
    assert cards is not None
    card = cards.cards[0]
    assert card.name.startswith(name)
    assert slots is None or card.slots == slots
    assert card.num_8_pin == num_8_pin
