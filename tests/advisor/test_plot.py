"""Points land where their logarithm says, and the first of two in one cell is the one that is seen."""

import pytest

from advisor.render.plot import PlotAxis, PlotPoint, scatter

X = PlotAxis("ms", 0.001)
Y = PlotAxis("$")


def test_cheaper_is_lower_and_faster_is_further_left() -> None:
    text = scatter([PlotPoint(0.01, 1.0, "1"), PlotPoint(0.1, 4.0, "2")], X, Y)
    lines = text.splitlines()
    row = {mark: next(i for i, line in enumerate(lines[1:-2]) if mark in line.split("|")[1]) for mark in "12"}
    column = {mark: lines[1 + row[mark]].split("|")[1].index(mark) for mark in "12"}
    assert row["1"] > row["2"]
    assert column["1"] < column["2"]


def test_equal_ratios_are_equal_distances() -> None:
    points = [PlotPoint(1.0, 1.0, "a"), PlotPoint(10.0, 1.0, "b"), PlotPoint(100.0, 1.0, "c")]
    line = next(line for line in scatter(points, X, Y, width=73).splitlines() if "a" in line)
    a, b, c = (line.index(mark) for mark in "abc")
    assert abs((b - a) - (c - b)) <= 1


def test_the_first_of_two_points_in_a_cell_is_seen() -> None:
    assert (
        "1"
        in scatter([PlotPoint(1.0, 1.0, "1"), PlotPoint(1.0, 1.0, "2")], X, Y)
        .split("+--")[0]
        .split("\n", 1)[1]
    )


def test_lines_fit_a_hundred_columns() -> None:
    text = scatter([PlotPoint(1e-6, 12345.0, "1"), PlotPoint(1e3, 0.00012, "2")], X, Y)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_what_has_no_logarithm_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="logarithmic"):
        scatter([PlotPoint(bad, 1.0, "1")], X, Y)


def test_nothing_to_show_is_nothing() -> None:
    assert scatter([], X, Y) == ""
