"""Drawings of nodes: links carry the groups that cross them, and labels overlap on neither a phone nor a desk."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.legible import legible
from advisor.render.answer import Answer, Paragraph
from advisor.render.document import document
from advisor.render.html_page import as_html
from advisor.render.topology import RankGroups, carried_between, carried_inside, topology_svg

LAYOUTS = (
    (8, 8, (8, 1, 1)),
    (64, 8, (8, 2, 4)),
    (64, 8, (2, 4, 8)),
    (16, 8, (16, 1, 1)),
    (16, 4, (1, 16, 1)),
    (131072, 8, (8, 1024, 16)),
    (144, 72, (8, 9, 2)),
    (2, 8, (1, 2, 1)),
)
"""Accelerators, accelerators of a node, and the degrees TP, DP, PP."""
BOXES = """[...document.querySelectorAll('.drawing svg text')].map((text) => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.top, box.right, box.bottom];
})"""


def exchanges_of(degrees: tuple[int, int, int]) -> tuple[RankGroups, ...]:
    tensor, data, pipeline = degrees
    return (
        RankGroups("TP", tensor, 1),
        RankGroups("DP", data, tensor),
        RankGroups("PP", pipeline, tensor * data),
    )


@pytest.mark.parametrize(("count", "node", "degrees"), LAYOUTS)
def test_links_carry_the_groups_that_cross_them(count: int, node: int, degrees: tuple[int, int, int]) -> None:
    """The first group of each kind, rank by rank: several ranks in a node, and ranks in several nodes."""
    exchanges = exchanges_of(degrees)
    for each in exchanges:
        nodes = [place * each.stride // node for place in range(each.num_ranks)]
        shares = each.num_ranks > 1 and len(set(nodes)) < len(nodes)
        assert (each in carried_inside(exchanges, node)) == shares, each
        assert (each in carried_between(exchanges, node)) == (len(set(nodes)) > 1), each
    drawing = topology_svg("h100-sxm", count, node, exchanges)
    assert drawing.count("network between nodes") == (1 if count > node else 0)


def test_names_are_text() -> None:
    drawing = topology_svg("<script>", 16, 8, exchanges_of((8, 2, 1)))
    assert "<script>" not in drawing


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page with a drawing, which tests replace."""
    drawing = topology_svg("h100-sxm", 16, 8, exchanges_of((8, 2, 1)))
    answer = Answer(result={"kind": "x"}, inputs={}, blocks=(Paragraph("Page", emphasis=True),), svg=drawing)
    file = tmp_path_factory.mktemp("drawing") / "page.html"
    file.write_text(as_html(answer, document(answer, seed=0, shared={})), encoding="utf-8")
    opened = browser.new_page()
    opened.goto(file.as_uri())
    opened.wait_for_selector("html[data-ready]")
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("count", "node", "degrees"), LAYOUTS)
def test_labels_do_not_overlap(
    page: Any, count: int, node: int, degrees: tuple[int, int, int], width: int
) -> None:
    drawing = legible(topology_svg("rtx-pro-6000-blackwell", count, node, exchanges_of(degrees)))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("(drawing) => { document.querySelector('.drawing svg').outerHTML = drawing; }", drawing)
    boxes = page.evaluate(BOXES)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(boxes) > 2
    for text, left, _, right, _ in boxes:
        assert 0 <= left < right <= width, text
    for (first, *one), (second, *other) in combinations(boxes, 2):
        apart = (
            one[2] <= other[0] + 1
            or other[2] <= one[0] + 1
            or one[3] <= other[1] + 3
            or other[3] <= one[1] + 3
        )
        assert apart, (first, second)


def test_a_plan_for_training_has_its_drawing(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "nodes.html"
    run = cli(
        "advisor recommend --model 8b --workload train --tokens 20B --gpus 16 --gpu h100-sxm --as-of 2026-11-20 "
        f"-q -o {file}"
    )
    assert run.code == 0, run.err
    drawing = file.read_text(encoding="utf-8")
    assert "16 x h100-sxm in 2 nodes" in drawing
    assert re.search(r"DP \d+.*: between nodes", drawing)


def test_a_replica_over_several_nodes_has_its_drawing(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "replica.html"
    run = cli(
        "advisor recommend --model deepseek-v3 --rate 4 --gpu h100-sxm --precision bf16 --as-of 2026-11-20 --fast "
        f"-q -o {file}"
    )
    assert run.code == 0, run.err
    drawing = file.read_text(encoding="utf-8")
    assert re.search(r"One replica: \d+ x h100-sxm in \d+ nodes", drawing)
    assert "network between nodes: " in drawing


@pytest.mark.parametrize("gpu", ["l40s", "h100-sxm"])
def test_a_replica_in_one_node_has_none(cli: Any, tmp_path: Path, gpu: str) -> None:
    file = tmp_path / "replica.html"
    assert (
        cli(f"advisor recommend --model 8b --rate 4 --gpu {gpu} --as-of 2026-11-20 --fast -q -o {file}").code
        == 0
    )
    assert "One replica: " not in file.read_text(encoding="utf-8")
