"""Reports in a real browser: they draw, sort, filter, unfold, change colours, print, and use no network."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.render.answer import (
    Answer,
    Axis,
    Chart,
    Column,
    Datum,
    Paragraph,
    Reference,
    Section,
    Series,
    Table,
)
from advisor.render.document import document
from advisor.render.html_page import as_html

MOST_BYTES = 1_200_000
ASKED = (
    "advisor recommend --model llama-3.1-8b --workload serve --gpu h100-sxm,l40s,rtx-4090 --top 2 "
    "--as-of 2026-11-20"
)


class Visit:
    """An opened page and everything that it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **context)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, condition: str) -> None:
        """Waits for a condition by asking again: the page's policy forbids waiting inside it for a string of code."""
        deadline = time.monotonic() + 10.0
        while not self.value(condition):
            assert time.monotonic() < deadline, condition
            self.page.wait_for_timeout(20)

    def column(self, table: str, number: int) -> list[str]:
        cells = self.page.locator(f"{table} > tbody > tr.row:visible > td:nth-child({number})")
        return [text.strip() for text in cells.all_inner_texts()]


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens pages; at the end none may have complained or asked for anything but itself."""
    visits: list[Visit] = []

    def open_page(file: Path, **context: Any) -> Visit:
        visits.append(Visit(browser, file, **context))
        return visits[-1]

    yield open_page
    for one in visits:
        one.context.close()
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith(("data:", "file:"))] == []
        assert len([url for url in one.requests if url.startswith("file:")]) == 1


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Path:
    """The page of a recommendation."""
    from advisor.__main__ import main

    file = tmp_path_factory.mktemp("report") / "report.html"
    assert main([*ASKED.split()[1:], "-q", "-o", str(file)]) == 0
    return file


LOAD = (
    Datum(1.0, 8.0, 6.0, 10.0, "h100"),
    Datum(2.0, 4.0, 3.0, 5.0, "h100"),
    Datum(9.0, 0.9, 0.7, 1.2, "h100"),
)
COSTS = (
    Series("input", (Datum("h100", 3.0), Datum("b200", 1.0))),
    Series("output", (Datum("h100", 5.0), Datum("b200", 2.0))),
)
EVERY_KIND = (
    Chart("line", "Lines", Axis("load", "1/s"), Axis("cost", "$/Mtok", is_log=True), (Series("a", LOAD),),
          references=(Reference("x", 4.0, "break-even"), Reference("y", 2.0, "list price"))),
    Chart("scatter", "Points", Axis("t", "ms", is_log=True), Axis("cost", "$"), (Series("a", LOAD, is_joined=True),)),
    Chart("bar", "Bars", Axis("gpu"), Axis("cost", "$"), COSTS, references=(Reference("y", 2.0, "API"),)),
    Chart("stacked", "Stacks", Axis("gpu"), Axis("cost", "$"), COSTS),
    Chart("waterfall", "Falls", Axis("part"), Axis("time", "ms"),
          (Series("step", (Datum("mlp", 3.0), Datum("overlap", -1.0))),)),
    Chart("range", "Tornado", Axis("input"), Axis("cost", "$"), (Series("", (Datum("price", 1.0, 0.5, 2.0),)),)),
)  # fmt: skip


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a chart of every kind, and a table with every kind of cell."""
    rows = (("b", "1.2 s", "$9"), ("a10", "900 ms", "-"), ("a9", "70 µs", "$10"))
    table = Table((Column("name"), Column("time", "right"), Column("cost", "right")), rows, title="Cells")
    answer = Answer(
        result={"kind": "gallery"},
        inputs={},
        blocks=(Paragraph("Every kind", emphasis=True),),
        sections=(Section("Charts", EVERY_KIND), Section("Tables", (table,))),
    )
    file = tmp_path_factory.mktemp("gallery") / "gallery.html"
    file.write_text(as_html(answer, document(answer, seed=0, shared={})), encoding="utf-8")
    return file


def test_a_report_is_small(report: Path) -> None:
    assert report.stat().st_size <= MOST_BYTES


def test_a_report_of_a_recommendation_has_its_parts(report: Path, visit: Callable[..., Visit]) -> None:
    page = visit(report).page
    headings = page.locator("h2").all_inner_texts()
    assert headings == [
        "What to take",
        "Cost and latency",
        "Time and memory",
        "What would change it",
        "What would make it cheaper or faster",
        "Rejected accelerators",
        "Prices",
        "Inputs",
        "Provenance",
    ]
    names = [name.split(":")[0] for name in page.locator("section > figure.chart .name").all_inner_texts()]
    assert names == [
        "Cost against latency",
        "Cost against load",
        "One step of option 1",
        "Memory of one accelerator",
    ]
    assert page.locator("section > figure.chart svg").count() == 4
    assert page.locator(".tile").count() == 6
    assert page.locator("section > figure.chart svg path").count() > 40


COMMANDS = (
    "advisor catalog gpus --family hopper",
    "advisor roofline --gpu h100-sxm --model llama-3.1-8b",
    "advisor simulate serve --model llama-3.1-8b --gpu l40s --rate 1/s --requests 50",
    "advisor cost --model llama-3.1-8b --gpu l40s,rtx-4090",
    "advisor build --model 8b --budget 2000 --top 2",
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.split()[1:3]))
def test_every_command_writes_a_page_that_works(
    visit: Callable[..., Visit], cli: Callable[[str], Any], tmp_path: Path, command: str
) -> None:
    file = tmp_path / "page.html"
    assert cli(f"{command} --as-of 2026-11-20 -o {file}").code == 0
    found = visit(file)
    assert found.page.locator("h1").count() == 1
    assert found.page.locator("h1").inner_text().strip() not in ("", "Answer")
    assert found.page.locator("section").count() >= 3
    assert found.value(UNDRAWN) == []
    assert found.value(NAMELESS) == []


UNDRAWN = """[...document.querySelectorAll('figure.chart:not([data-drawn])')].filter((one) => one.offsetParent)
    .map((one) => one.textContent)"""
NAMELESS = """[...document.querySelectorAll('button, input, [role=img], [role=region], nav, table, a')].filter((node) =>
    !(node.getAttribute('aria-label') || node.textContent || '').trim()).map((node) => node.outerHTML)"""


def test_every_kind_of_chart_draws_its_data(gallery: Path, visit: Callable[..., Visit]) -> None:
    found = visit(gallery)
    assert found.page.locator("figure.chart[data-drawn]").count() == len(EVERY_KIND)
    texts = found.value("[...document.querySelectorAll('.plot')].map((p) => p.textContent)")
    for text, expected in zip(
        texts,
        (
            ("break-even", "list price", "load, 1/s"),
            ("t, ms", "h100"),
            ("API", "$5"),
            ("$8", "$3"),
            ("total", "2 ms"),
            ("$0.500", "$2"),
        ),
        strict=True,
    ):
        assert all(word in text for word in expected), (text, expected)


def test_everything_has_an_accessible_name(report: Path, visit: Callable[..., Visit]) -> None:
    found = visit(report)
    assert found.value(NAMELESS) == []
    for label in found.value(
        "[...document.querySelectorAll('.plot')].map((p) => p.getAttribute('aria-label'))"
    ):
        assert "chart of" in label
    tree = found.page.locator("main").aria_snapshot()
    assert "heading" in tree
    assert 'button "Zoom in"' in tree
    assert found.page.locator("figure.chart details.numbers table").count() >= 4


def test_a_click_on_a_header_sorts_by_number_and_back(gallery: Path, visit: Callable[..., Visit]) -> None:
    found = visit(gallery)
    table = "table[aria-label=Cells]"
    time = found.page.locator(f"{table} th", has_text="time")
    time.locator("button").click()
    assert found.column(table, 1) == ["a9", "a10", "b"]
    assert time.get_attribute("aria-sort") == "ascending"
    time.locator("button").press("Enter")
    assert found.column(table, 1) == ["b", "a10", "a9"]
    assert time.get_attribute("aria-sort") == "descending"
    found.page.locator(f"{table} th button", has_text="cost").click()
    assert found.column(table, 3) == ["$9", "$10", "-"]
    found.page.locator(f"{table} th button", has_text="cost").click()
    assert found.column(table, 3) == ["$10", "$9", "-"]
    assert time.get_attribute("aria-sort") == "none"
    found.page.locator(f"{table} th button", has_text="name").click()
    assert found.column(table, 1) == ["a9", "a10", "b"]


def test_rows_are_filtered_by_all_words(report: Path, visit: Callable[..., Visit]) -> None:
    found = visit(report)
    section = "section:has(h2:text('Inputs'))"
    before = len(found.column(f"{section} table", 1))
    found.page.fill(f"{section} input", "TRAFFIC tokens")
    shown = found.column(f"{section} table", 1)
    assert 0 < len(shown) < before
    assert all("traffic" in name and "tokens" in name for name in shown)
    assert found.page.inner_text(f"{section} [role=status]") == f"{len(shown)} of {before} rows"


def test_details_unfold_with_their_charts_and_stay_with_their_row(
    report: Path, visit: Callable[..., Visit]
) -> None:
    found = visit(report)
    page = found.page
    button = page.locator("button.more").first
    assert page.locator("tr.detail:visible").count() == 0
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    detail = page.locator("tr.detail:visible")
    assert detail.count() == 1
    assert detail.locator("figure.chart[data-drawn] svg").count() == 2
    page.locator("table:has(button.more) > thead th button", has_text="#").dblclick()
    rows = found.value(
        "[...document.querySelector('table:has(button.more)').tBodies[0].rows].map((row) => row.className)"
    )
    assert rows[-2:] == ["row", "detail open"]  # the first option, sorted to the end


def test_colours_follow_the_system_until_somebody_chooses(gallery: Path, visit: Callable[..., Visit]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    bar = "getComputedStyle(document.querySelector('figure[data-kind=bar] svg path[fill^=var]')).fill"
    light = visit(gallery, color_scheme="light")
    dark = visit(gallery, color_scheme="dark")
    assert light.value(ground) != dark.value(ground)
    assert light.value(bar) != dark.value(bar)
    expected = dark.value(ground), dark.value(bar)
    switch = light.page.locator("button.switch")
    assert switch.get_attribute("aria-label") == "Switch to dark colours"
    switch.click()
    assert (light.value(ground), light.value(bar)) == expected
    light.page.reload()
    light.requests.pop()
    assert light.value(ground) == expected[0]
    light.page.emulate_media(media="print")
    assert light.value(bar) != expected[1]


def test_legends_hide_series(gallery: Path, visit: Callable[..., Visit]) -> None:
    found = visit(gallery)
    figure = found.page.locator("figure[data-kind=stacked]")
    segments = "document.querySelectorAll('figure[data-kind=stacked] svg path[fill=\"var(--c2)\"]').length"
    assert found.value(segments) == 2
    button = figure.locator(".legend button", has_text="output")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    found.until(f"{segments} === 0")
    button.click()
    found.until(f"{segments} === 2")


def test_pointing_shows_numbers_with_their_interval(gallery: Path, visit: Callable[..., Visit]) -> None:
    page = visit(gallery).page
    plot = page.locator("figure[data-kind=line] .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.26, box["y"] + box["height"] * 0.5)
    page.wait_for_selector("figure[data-kind=line] .tip", timeout=5000)
    tip = page.inner_text("figure[data-kind=line] .tip")
    assert "h100" in tip
    assert "$4/Mtok" in tip
    assert "80 % interval: $3-5/Mtok" in tip


def test_lines_across_lie_at_their_values(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    """A line of a small value goes through the point that has the value."""
    points = tuple(Datum(x, y) for x, y in ((1.0, 0.1), (2.0, 0.1284), (3.0, 0.15)))
    chart = Chart(
        "line",
        "Small",
        Axis("x"),
        Axis("y"),
        (Series("a", points),),
        references=(Reference("y", 0.1284, "line"),),
    )
    answer = Answer({"kind": "gallery"}, {}, blocks=(), sections=(Section("Charts", (chart,)),))
    file = tmp_path / "lines.html"
    file.write_text(as_html(answer, document(answer, seed=0, shared={})), encoding="utf-8")
    across, markers = visit(file).value(
        """(() => {
          const every = [...document.querySelectorAll(".plot svg path")];
          const paths = every.map((one) => [one, one.getBoundingClientRect()]);
          const middle = ([, box]) => box.top + box.height / 2;
          const isLine = ([one, box]) => one.getAttribute("stroke-dasharray") && box.width > 200 && box.height < 3;
          const isMarker = ([, { width, height }]) => Math.abs(width - height) < 1 && width > 3 && width < 8;
          return [paths.filter(isLine).map(middle), paths.filter(isMarker).map(middle)];
        })()"""
    )
    assert len(across) == 1
    assert len(markers) == len(points)
    assert min(abs(across[0] - marker) for marker in markers) < 1.0


def test_zoom_changes_the_ticks_and_resets(gallery: Path, visit: Callable[..., Visit]) -> None:
    found = visit(gallery)
    ticks = "document.querySelector('figure[data-kind=line] .plot svg').textContent"
    figure = found.page.locator("figure[data-kind=line]")
    before = found.value(ticks)
    figure.get_by_role("button", name="Zoom in").click()
    found.until(f"{ticks} !== {before!r}")
    assert found.value(ticks) != before
    figure.get_by_role("button", name="Reset the zoom").click()
    found.until(f"{ticks} === {before!r}")
    assert found.value(ticks) == before


@pytest.mark.parametrize("width", [390, 768])
def test_narrow_windows_do_not_scroll_sideways(report: Path, visit: Callable[..., Visit], width: int) -> None:
    found = visit(report)
    found.page.set_viewport_size({"width": width, "height": 844})
    found.page.wait_for_timeout(300)
    assert found.value("document.documentElement.scrollWidth") <= width
    assert (
        found.value("Math.max(...[...document.querySelectorAll('.plot svg')].map((s) => s.clientWidth))")
        <= width
    )


def test_on_a_telephone_names_of_points_lie_over_nothing(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    best = ((44.0, 0.208), (62.5, 0.12), (47.0, 0.226), (47.4, 0.233), (57.8, 0.17))
    others = ((45.6, 0.218), (45.8, 0.142), (51.2, 0.167), (52.4, 0.26), (54.0, 0.12), (60.0, 0.197))
    named = tuple(Datum(x, y, label=f"{30 + i} x accelerator") for i, (x, y) in enumerate(best))
    named += tuple(Datum(50.0, y, label=f"1 x accelerator {'with a long name ' * 3}") for y in (0.15, 0.151))
    plain = tuple(Datum(x, y, label="other", mark=".") for x, y in others)
    axes = Axis("TPOT", "ms"), Axis("cost", "$", is_log=True)
    chart = Chart("scatter", "Crowded", *axes, (Series("best", named), Series("others", plain)))
    answer = Answer({"kind": "gallery"}, {}, blocks=(), sections=(Section("Charts", (chart,)),))
    file = tmp_path / "crowded.html"
    file.write_text(as_html(answer, document(answer, seed=0, shared={})), encoding="utf-8")
    found = visit(file)
    found.page.set_viewport_size({"width": 390, "height": 844})
    found.page.wait_for_timeout(300)
    names, markers, covered = found.value(
        """(() => {
          const boxes = (kind) =>
            [...document.querySelectorAll(`.plot svg ${kind}`)].map((one) => [one, one.getBoundingClientRect()]);
          const names = boxes("text").filter(([one]) => / x /.test(one.textContent));
          const isMarker = ({ width, height }) => Math.abs(width - 11) < 1 && Math.abs(height - 11) < 1;
          const markers = boxes("path").filter(([, box]) => isMarker(box));
          const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top < a.bottom - 3;
          const covers = ([one, a]) => [...markers, ...names].some(([other, b]) => one !== other && meet(a, b));
          return [names.length, markers.length, names.filter(covers).length];
        })()"""
    )
    assert names >= 4
    assert markers == len(named) + len(others)
    assert covered == 0


def test_on_a_telephone_each_row_is_a_card_that_names_its_figures(
    report: Path, visit: Callable[..., Visit]
) -> None:
    found = visit(report)
    found.page.set_viewport_size({"width": 390, "height": 844})
    wide = "[...document.querySelectorAll('section .scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1).length"
    assert found.value(wide) == 0
    cell = "document.querySelector('table.stacks > tbody > tr.row > td:nth-child(4)')"
    named = found.value(f"getComputedStyle({cell}, '::before').content")
    heads = found.value("document.querySelectorAll('table.stacks > thead th')[3].textContent")
    assert named.strip('"') == heads.strip()
    assert found.value(f"{cell}.getBoundingClientRect().width") > 250
    before = found.page.locator("tr.detail:visible").count()
    found.page.locator("table.stacks button.more").first.click()
    assert found.page.locator("tr.detail:visible").count() == before + 1


def test_paper_shows_whole_drawings_and_no_controls(report: Path, visit: Callable[..., Visit]) -> None:
    page = visit(report).page
    page.evaluate(
        "addEventListener('beforeprint', () => (window.box = document.querySelector('.plot svg').outerHTML))"
    )
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert "viewBox" in page.evaluate("window.box")
    page.emulate_media(media="print")
    assert page.locator(".bar:visible, .filter:visible, button.more:visible, .tools:visible").count() == 0
    assert page.locator("section:visible").count() == 9
