"""What-if pages of `advisor build`: the script computes what a new run with another use computes."""

import contextlib
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.__main__ import main
from advisor.catalog.schema import Price
from advisor.workstation import rents

ASKED: Final = "build --model 8b --budget 3000 --top 3 --as-of 2026-11-20 -q"
DECAY: Final = 28.2
"""Loss of value a year of the catalog [%]."""


CLIPPED: Final = """[...document.querySelectorAll('#what-if-rows td')].filter((td) =>
    td.scrollWidth > td.clientWidth + 1).map((td) => td.textContent)"""
NEVER: Final = -1.0
"""A placeholder for a figure that does not exist."""


def run(command: str) -> str:
    out = io.StringIO()
    errors = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(command.split())
    assert code == 0, errors.getvalue()
    return out.getvalue()


def write_page(folder: Path, options: str = "") -> Path:
    file = folder / "build.html"
    run(f"{ASKED} {options} --what-if -o {file}")
    return file


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("build"))


def read_figures(page: Any, setting: Mapping[str, float]) -> dict[str, list[float]]:
    """Return own and rent $/h, own and rent $/Mtok, and days until it pays off, by machine, for a setting."""
    fragment = "&".join(f"{name}={value!r}" for name, value in setting.items())
    page.evaluate(f"location.hash = '#what-if:{fragment}'")
    page.wait_for_timeout(40)
    rows = page.evaluate(
        "[...document.querySelector('#what-if-rows tbody').rows].map((tr) => [tr.cells[1].textContent, "
        "[4, 5, 6, 7, 8].map((i) => tr.cells[i].dataset.key === undefined ? -1 : Number(tr.cells[i].dataset.key))])"
    )
    return dict(rows)


def ask_figures(options: str) -> dict[str, list[float]]:
    """Return the same figures of a new run."""
    found = {}
    for build in json.loads(run(f"{ASKED} {options} --json"))["builds"]:
        costs = build["economics"]
        figures = (
            costs["own_usd_per_hour"],
            costs["rent"] and costs["rent"]["usd_per_hour"],
            costs["own_usd_per_million_tokens"],
            costs["rent_usd_per_million_tokens"],
            costs["break_even_days"],
        )
        found[build["name"]] = [NEVER if each is None else each for each in figures]
    return found


def settings() -> list[dict[str, float]]:
    draw = random.Random(43)
    return [
        {
            "hours": round(draw.uniform(0.5, 24.0), 1),
            "years": draw.choice((0.5, 1.0, 2.0, 5.0, 8.0)),
            "electricity": round(draw.uniform(0.0, 0.9), 3),
            "decay": draw.choice((DECAY, DECAY, 10.0, 55.5)),
            "rent": float(draw.choice((0, -50, 80))),
        }
        for _ in range(3)
    ]


@pytest.mark.slow
def test_another_use_costs_what_a_new_run_says(
    open_page: Callable[..., Any], page_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three settings of all controls at once: dollars an hour and per million tokens, and days until it pays off."""
    page = open_page(page_file)
    listed = rents.prices_as_of
    for setting in settings():
        factor = 1.0 + setting["rent"] / 100.0

        def scale_prices(*given: Any, factor: float = factor, **named: Any) -> list[Price]:
            return [
                price.model_copy(update={"usd_per_hour": price.usd_per_hour * factor})
                for price in listed(*given, **named)
            ]

        monkeypatch.setattr(rents, "prices_as_of", scale_prices)
        left = (1.0 - setting["decay"] / 100.0) ** setting["years"]
        options = (
            f"--hours-per-day {setting['hours']} --years {setting['years']} --electricity {setting['electricity']} "
            f"--resale {left!r}"
        )
        expected = ask_figures(options)
        found = read_figures(page, setting)
        assert found.keys() == expected.keys()
        for name, figures in expected.items():
            assert found[name] == pytest.approx(figures, rel=1e-9), (setting, name)
        owned = [figures[2] for figures in found.values()]
        assert owned == sorted(owned)


def test_a_typed_resale_value_is_a_control(open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, "--resale 0.5"))
    found = read_figures(page, {"resale": 20.0, "years": 5.0})
    expected = ask_figures("--resale 0.2 --years 5")
    for name, figures in expected.items():
        assert found[name] == pytest.approx(figures, rel=1e-9)


def test_controls_work_with_the_keyboard_and_keep_a_link(
    open_page: Callable[..., Any], page_file: Path
) -> None:
    page = open_page(page_file, "#what-if:hours=1e999&years=<b>&rent=NaN", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CLIPPED) == []
    page.focus("#w-years")
    page.keyboard.press("ArrowUp")
    assert float(page.input_value("#w-years")) > 3.0
    link = page.evaluate("location.hash")
    again = open_page(page_file, link)
    assert again.inner_text("#what-if-answer") == page.inner_text("#what-if-answer")
    again.click("#what-if-reset")
    assert again.evaluate("location.hash") == ""
