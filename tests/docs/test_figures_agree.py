"""Figures that two pages state are the same on both."""

import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHOLE_PERCENT = re.compile(r"(\d+(?:\.\d+)?) %")


def row_of(page: str, name: str) -> list[int]:
    """Return the number of rows and the errors [%, whole numbers] of the first table row whose first cell begins so."""
    rows = (line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("| "))
    of_name = (row.strip("|").split("|") for row in rows if row.startswith(f"| {name}"))
    cells = next(cells for cells in of_name if re.fullmatch(r" [\d,]+ ", cells[1]))
    count = int(cells[1].replace(",", ""))
    return [
        count,
        *(math.floor(float(found) + 0.5) for cell in cells[2:] for found in WHOLE_PERCENT.findall(cell)),
    ]


def test_the_front_page_has_the_errors_of_the_accuracy_page() -> None:
    assert row_of("README.md", "published serving runs") == row_of("docs/accuracy.md", "all |")
    assert row_of("README.md", "the same, mean over campaigns") == row_of("docs/accuracy.md", "all, mean")
    shipped_and_left_out = row_of("docs/accuracy.md", "core")
    assert (
        row_of("README.md", "blind round 1, as shipped")
        == shipped_and_left_out[:1] + shipped_and_left_out[1::2]
    )
    assert row_of("README.md", "blind round 1, its") == shipped_and_left_out[:1] + shipped_and_left_out[2::2]
