"""Pages: what is in them, that nothing of an answer can break out of its place, and that all text can be read."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from advisor.render.answer import (
    Answer,
    Axis,
    Chart,
    Column,
    Datum,
    Figure,
    Paragraph,
    Section,
    Series,
    Table,
    Tile,
)
from advisor.render.document import document
from advisor.render.html_blocks import is_missing, sort_key
from advisor.render.html_chart import chart_data, describe
from advisor.render.html_page import BUNDLE, as_html, asset

CHART = Chart(
    "bar",
    "Cost </script><script>alert(1)</script>",
    Axis("gpu"),
    Axis("cost", "$/Mtok"),
    (Series("", (Datum("h100", 2.0), Datum("b200", 1.0))),),
)
ANSWER = Answer(
    result={"kind": "plan"},
    inputs={"model": "70b", "traffic": {"rate_per_s": 5.0}},
    blocks=(
        Paragraph("take a & b", emphasis=True),
        Paragraph("see https://example.org/a.\n- one\n- two"),
        CHART,
    ),
    warnings=("prices are <old>",),
    notes=("model taken as llama",),
)


class Page(HTMLParser):
    """Elements with their attributes, open elements checked on the way."""

    VOID = ("meta", "link", "br", "input", "rect", "path", "circle")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def page_of(answer: Answer) -> str:
    return as_html(answer, document(answer, seed=3, shared={}))


def test_every_page_has_answer_warnings_inputs_and_provenance() -> None:
    text = page_of(ANSWER)
    page = Page(text)
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", text)
    assert headings == ["Result", "Inputs", "Provenance"]
    assert "<h1>take a &amp; b</h1>" in text
    assert "prices are &lt;old&gt;" in text
    assert ">traffic_rate_per_s</td>" in text
    assert "seed 3" in text
    assert [a["href"] for a in page.all("a") if (a["href"] or "").startswith("http")] == [
        "https://example.org/a"
    ]
    assert text.count("<li>one</li><li>two</li>") == 1


def test_sections_replace_the_blocks_and_tiles_lead() -> None:
    section = Section("Costs", (Table((Column("a"),), (("1",),)),))
    text = page_of(replace(ANSWER, sections=(section,), tiles=(Tile("$0.42", "per token", "0.3 to 0.5"),)))
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == ["Costs", "Inputs", "Provenance"]
    assert '<dd class="value">$0.42</dd>' in text
    assert "one</li>" not in text


def test_nothing_leaves_the_page() -> None:
    page = Page(page_of(ANSWER))
    assert not [a for tag, a in page.found if tag in ("script", "img", "iframe") and "src" in a]
    links = [a["href"] or "" for a in page.all("link")]
    assert all(link.startswith("data:") for link in links)
    (policy,) = (a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert "default-src 'none'" in (policy or "")


def test_data_of_a_chart_cannot_end_its_script() -> None:
    text = page_of(ANSWER)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data)["title"] == CHART.title
    assert "alert(1)</script>" not in text.replace("alert(1)&lt;/script&gt;", "")


def test_the_library_is_in_pages_with_charts_only_and_carries_its_licences() -> None:
    text = page_of(ANSWER)
    assert asset(BUNDLE) in text
    assert "Apache License" in text
    assert "BSD 3-Clause" in text
    plain = page_of(replace(ANSWER, blocks=ANSWER.blocks[:2]))
    assert len(plain) < 60_000 < len(text) < 1_200_000


def test_a_chart_is_described_in_words_and_numbers() -> None:
    text = page_of(ANSWER)
    assert describe(CHART) == "bar chart of cost, $/Mtok over gpu. from $1/Mtok (b200) to $2/Mtok (h100)."
    assert "<summary>Numbers" in text
    assert '<td class="r" data-key="2">2</td>' in text


def test_sums_are_those_of_the_parts() -> None:
    series = (Series("in", (Datum("h100", 3.0),)), Series("out", (Datum("h100", 5.0), Datum("b200", 2.0))))
    data = chart_data(replace(CHART, kind="stacked", series=series))
    assert data["sums"] == {"h100": "$8/Mtok", "b200": "$2/Mtok"}
    data = chart_data(
        replace(CHART, kind="waterfall", series=(Series("", (Datum("a", 3.0), Datum("b", -1.0))),))
    )
    assert data["total"]["words"] == "$2/Mtok"


def test_details_belong_to_their_row_and_ids_are_unique() -> None:
    rows = (("1", "x"), ("2", "y"))
    details: Any = ((Paragraph("more of x"), CHART), (Figure("run y"),))
    text = page_of(
        replace(ANSWER, blocks=(Table((Column("#", "right"), Column("name")), rows, details=details),) * 2)
    )
    page = Page(text)
    ids = [a["id"] for _, a in page.found if "id" in a]
    assert len(ids) == len(set(ids))
    controls = [a["aria-controls"] for a in page.all("button") if "aria-controls" in a]
    assert len(controls) == 4
    assert set(controls) <= set(ids)
    assert text.index("more of x") < text.index("run y")


@pytest.mark.parametrize(
    ("cell", "key"),
    [
        ("$1,234.50", 1234.5),
        ("$0.059 (0.036-0.15) ?", 0.059),
        ("4.95 ms (4.4-5.5) ≈", 0.00495),
        ("12 %", 0.12),
        ("80.9 requests/s", 80.9),
        ("1.26 s", 1.26),
        ("309 GB", 309e9),
        ("-3", -3.0),
        ("17,080 tokens/s", 17080.0),
        ("8 x mi355x", None),
        ("2026-05-12", None),
        ("-", None),
        ("", None),
        ("vllm fp8", None),
        ("5.2", 5.2),
        ("3 replicas of 8", None),
        ("$2.25/h", 2.25),
        ("4.80 TB/s", 4.8e12),
        ("70b", None),
    ],
)
def test_cells_sort_by_the_number_that_they_show(cell: str, key: float | None) -> None:
    assert sort_key(cell) == (None if key is None else pytest.approx(key))
    assert is_missing(cell) == (cell in ("", "-"))


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_text_and_drawings_have_enough_contrast(theme: int) -> None:
    """WCAG 2.2: 4.5 for text, 3 for parts of drawings."""
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", asset("report.css"))
    colours = {name: values[theme] for name, *values in pairs}
    for text in ("ink", "soft", "faint", "accent"):
        for ground in ("card", "page", "sunken"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["warn"], colours["warn-soft"]) >= 4.5
    for i in range(1, 9):
        assert contrast(colours[f"c{i}"], colours["card"]) >= 3, i
