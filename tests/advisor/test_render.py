"""Records become JSON, CSV, Markdown and HTML without losing or inventing anything."""

import csv
import datetime
import enum
import io
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Source
from advisor.render import numbers
from advisor.render.answer import Answer, Column, Figure, Paragraph, Table
from advisor.render.document import catalog_version, document, dump, flatten, to_json
from advisor.render.files import as_csv, as_html, as_markdown, writer_for
from advisor.simulator.quantity import Quantity

LATENCY = Quantity(0.00495, 0.0044, 0.0056, "calibrated")


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Option:
    rank: int
    tpot_s: Quantity
    engines: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (datetime.date(2026, 11, 20), "2026-11-20"),
        (Path("a/b.csv"), "a/b.csv"),
        (Colour.RED, "red"),
        ({"b", "a"}, ["a", "b"]),
        ((1, None, "x"), [1, None, "x"]),
        (LATENCY, {"value": 0.00495, "low": 0.0044, "high": 0.0056, "basis": "calibrated"}),
    ],
)
def test_to_json(value: object, expected: Any) -> None:
    found = to_json(value)
    assert found == expected
    assert type(found) is type(expected)


def test_to_json_of_a_catalog_record_has_every_field() -> None:
    source = Source(kind="measured", title="t", accessed="2026-11-20")
    assert to_json(source) == source.model_dump()


@pytest.mark.parametrize("bad", [math.nan, math.inf, np.float64("nan")])
def test_numbers_that_json_does_not_have_are_refused_with_their_place(bad: float) -> None:
    with pytest.raises(ValueError, match=r"\$\.options\[1\]\.ttft_s is (nan|inf)"):
        to_json({"options": [{}, {"ttft_s": bad}]})


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON form of object"):
        to_json({"x": object()})


def test_flatten_names_a_quantity_after_its_field() -> None:
    assert flatten(to_json(Option(1, LATENCY, ("vllm", "sglang")))) == {
        "rank": 1,
        "tpot_s": 0.00495,
        "tpot_s_low": 0.0044,
        "tpot_s_high": 0.0056,
        "tpot_s_basis": "calibrated",
        "engines": "vllm sglang",
    }


def answer(**changes: Any) -> Answer:
    table = Table((Column("name"), Column("ms", "right")), (("a|b <i>", "4.95"),), title="Options")
    fields: dict[str, Any] = {
        "result": {"options": [Option(1, LATENCY, ()), Option(2, LATENCY, ())]},
        "inputs": {"model": "70b"},
        "blocks": (Paragraph("take a & b", emphasis=True), table, Figure("x <- y", title="Plot")),
        "records": "options",
        "warnings": ("prices are 40 days old",),
    }
    return Answer(**(fields | changes))


def test_document_has_envelope_then_result() -> None:
    content = document(answer(), seed=3, shared={"as_of": datetime.date(2026, 11, 20)})
    assert list(content) == [
        "schema_version",
        "tool_version",
        "catalog_version",
        "seed",
        "inputs",
        "warnings",
        "options",
    ]
    assert content["inputs"] == {"model": "70b", "as_of": "2026-11-20"}
    assert content["warnings"] == ["prices are 40 days old"]


def test_a_result_cannot_hide_the_envelope() -> None:
    with pytest.raises(ValueError, match="seed"):
        document(answer(result={"seed": 1, "options": []}), seed=3, shared={})


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(answer(), {}))))
    assert [row["rank"] for row in rows] == ["1", "2"]
    assert float(rows[0]["tpot_s_high"]) == LATENCY.high


def test_csv_of_an_answer_without_list_says_what_to_do() -> None:
    with pytest.raises(AdvisorError, match="no table") as raised:
        as_csv(answer(records=""), {})
    assert ".json" in raised.value.fix


def test_markdown_escapes_cell_borders() -> None:
    text = as_markdown(answer(), document(answer(), seed=0, shared={}))
    assert r"| a\|b &lt;i&gt; | 4.95 |" in text
    assert "**take a & b**" in text
    assert "```\nx <- y\n```" in text


def test_html_escapes_and_needs_no_network() -> None:
    text = as_html(answer(), document(answer(), seed=0, shared={}))
    assert "a|b &lt;i&gt;" in text
    assert "take a &amp; b" in text
    assert "src=" not in text
    assert "connect-src" not in text
    assert "default-src 'none'" in text
    assert catalog_version() in text


def test_a_row_must_fit_its_table() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table((Column("a"), Column("b")), (("x",),))


def test_dump_ends_with_a_newline_and_keeps_unicode() -> None:
    assert dump({"unit": "µs"}) == '{\n  "unit": "µs"\n}\n'


@pytest.mark.parametrize("name", ["a.JSON", "b.csv", "c.md", "d.html"])
def test_suffix_chooses_the_writer(name: str) -> None:
    assert callable(writer_for(Path(name)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234567.0, "1,234,567"),
        (999.6, "1,000"),
        (80.0, "80"),
        (4.9, "4.90"),
        (0.00421, "0.00421"),
        (-3.14159, "-3.14"),
        (85.52, "85.5"),
    ],
)
def test_digits(value: float, text: str) -> None:
    assert numbers.digits(value) == text


@pytest.mark.parametrize(
    ("value", "ladder", "text"),
    [
        (0.00495, numbers.TIME, "4.95 ms"),
        (7e-7, numbers.TIME, "0.700 µs"),
        (90.0, numbers.TIME, "1.50 min"),
        (141e9, numbers.SIZE, "141 GB"),
        (3.35e12, numbers.RATE, "3.35 TB/s"),
        (70.6e9, numbers.COUNT, "70.6 B"),
        (None, numbers.SIZE, "-"),
    ],
)
def test_show(value: float | None, ladder: numbers.Ladder, text: str) -> None:
    assert numbers.show(value, ladder) == text


def test_a_quantity_shows_its_range_in_the_unit_of_its_value() -> None:
    wide = Quantity(1.2, 0.9, 1.6, "modelled")
    assert numbers.show_quantity(LATENCY, numbers.TIME) == "4.95 ms (4.4-5.6) ≈"
    assert numbers.show_quantity(wide, numbers.TIME) == "1.20 s (0.90-1.6) ·"
    assert numbers.usd_quantity(Quantity(0.42, 0.37, 0.49, "assumed")) == "$0.42 (0.37-0.49) ?"


def test_a_tight_range_gets_a_third_digit() -> None:
    assert numbers.range_words(4.01, 4.09) == "4.01-4.09"
    assert numbers.range_words(4.01, 4.9) == "4-4.9"


def test_a_layout_in_words() -> None:
    def degrees(tp: int, pp: int, dp: int, ep: int) -> SimpleNamespace:
        return SimpleNamespace(tensor_parallel=tp, pipeline_parallel=pp, data_parallel=dp, expert_parallel=ep)

    assert numbers.layout_words(degrees(1, 1, 1, 1), "h100-sxm", 1) == "1 x h100-sxm"
    assert numbers.layout_words(degrees(4, 2, 1, 1), "h100-sxm", 1) == "8 x h100-sxm (TP4 PP2)"
    assert numbers.layout_words(degrees(8, 1, 1, 8), "h100-sxm", 5) == "40 x h100-sxm = 5 x (TP8 EP8)"
    assert numbers.layout_words(degrees(1, 1, 1, 1), "l40s", 3) == "3 x l40s = 3 replicas"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0042, "$0.0042"), (3.5, "$3.50"), (99.999, "$100.00"), (12345.6, "$12,346"), (None, "-")],
)
def test_usd(value: float | None, text: str) -> None:
    assert numbers.usd(value) == text


def test_every_basis_has_a_glyph_in_the_legend() -> None:
    assert all(glyph in numbers.LEGEND for glyph in numbers.GLYPHS.values())
