"""What-if pages of `advisor cost`: the script computes the bills that a new run computes."""

import contextlib
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.__main__ import main

ASKED: Final = (
    "advisor cost --model llama-3.1-8b --gpu h100-sxm,l40s --as-of 2026-11-20 --provider mine --storage-tb 2 "
    "--quiet"
)
OFFERS: Final = (
    ("l40s", 1, "on_demand", 0.9),
    ("l40s", 1, "spot", 0.4),
    ("l40s", 1, "reserved_1y", 0.6),
    ("h100-sxm", 1, "on_demand", 2.4),
    ("h100-sxm", 1, "reserved_1y", 1.5),
    ("h100-sxm", 8, "on_demand", 17.0),
)
PURCHASES: Final = {"l40s": 7600.0, "h100-sxm": 30000.0}
CLIPPED: Final = """[...document.querySelectorAll('#what-if-rows td')].filter((td) =>
    td.scrollWidth > td.clientWidth + 1).map((td) => td.textContent)"""
VOLUME: Final = 2000.0
LARGEST_RENT_ERROR: Final = 0.1
"""Largest error of the bill of the cheapest rented way at another volume: a new run may choose other deployments."""


def answer(command: str) -> Mapping[str, Any]:
    out = io.StringIO()
    errors = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([*command.split()[1:], "--json"])
    assert code == 0, errors.getvalue()
    found: Mapping[str, Any] = json.loads(out.getvalue())
    return found


def command_of(folder: Path, setting: Mapping[str, float], *, shape: str = "reasoning", own: str = "") -> str:
    """Return the command that asks what a setting of the page asks."""
    rents = folder / "rents.csv"
    lines = ["provider,accelerator,num_accelerators,term,usd_per_hour,observed_on,is_confirmed"]
    factor = 1.0 + setting.get("rent", 0.0) / 100.0
    lines += [f"mine,{gpu},{num},{term},{usd * factor!r},2026-11-19,yes" for gpu, num, term, usd in OFFERS]
    rents.write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = {"electricity": "electricity_usd_per_kwh", "years": "life_years"}
    figures = [f"{name} = {setting[key]!r}" for key, name in names.items() if key in setting]
    if "decay" in setting:
        figures.append(f"resale_decay_per_year = {setting['decay'] / 100.0!r}")
    bought = 1.0 + setting.get("buy", 0.0) / 100.0
    figures += ["[purchase]", *(f"{gpu} = {usd * bought!r}" for gpu, usd in PURCHASES.items())]
    assumptions = folder / "own.toml"
    assumptions.write_text("\n".join(figures) + "\n", encoding="utf-8")
    hours = int(setting.get("hours", 24))
    if hours < 24:
        day = folder / "day.toml"
        day.write_text(f"levels = {[1.0] * hours + [0.0] * (24 - hours)}\n", encoding="utf-8")
        shape = str(day)
    volume = setting.get("volume", VOLUME)
    return (
        f"{ASKED} --price-file {rents} --assumptions {assumptions} --shape {shape} "
        f"--tokens-per-day {volume}M {own}"
    )


def write_page(folder: Path, *, own: str = "") -> Path:
    file = folder / f"cost{len(own)}.html"
    command = command_of(folder, {}, own=own)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*command.split()[1:], "--what-if", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("cost"))


def bills(page: Any, setting: Mapping[str, float]) -> dict[tuple[str, str, str], float]:
    """Return dollars a month of the ways that the page shows for a setting."""
    fragment = "&".join(f"{name}={value!r}" for name, value in setting.items())
    page.evaluate(f"location.hash = '#what-if:{fragment}'")
    page.wait_for_timeout(40)
    rows = page.evaluate(
        "[...document.querySelector('#what-if-rows tbody').rows].map((tr) => [tr.cells[0].textContent, "
        "tr.cells[1].textContent, tr.cells[6].textContent, Number(tr.cells[2].dataset.key)])"
    )
    return {(way, what, how): usd for way, what, how, usd in rows}


def ways_of(report: Mapping[str, Any]) -> dict[tuple[str, str, str], float]:
    """Return dollars a month of the ways of a report that its page would show."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for way in report["ways"]:
        kinds.setdefault(way["way"], []).append(way)
    shown = [way for kind, ways in kinds.items() for way in (ways if kind == "own" else ways[:6])]
    return {(way["way"], way["what"], way["note"]): way["usd_per_month"] for way in shown}


def crossings(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('#what-if-crossings li')].map((li) => li.textContent)"
    )
    return found


def money_setting(draw: random.Random) -> dict[str, float]:
    setting: dict[str, float] = {}
    if draw.random() < 0.7:
        setting["rent"] = float(draw.choice((-60, -25, 40, 120)))
    if draw.random() < 0.7:
        setting["electricity"] = round(draw.uniform(0.0, 0.6), 3)
    if draw.random() < 0.7:
        setting["years"] = draw.choice((1.0, 2.5, 3.0, 7.0, 10.0))
    if draw.random() < 0.7:
        setting["decay"] = round(draw.uniform(0.0, 60.0), 1)
    if draw.random() < 0.7:
        setting["buy"] = float(draw.choice((-50, -10, 25, 80)))
    return setting


@pytest.mark.slow
def test_prices_and_years_give_the_bill_of_a_new_run_to_the_cent(
    open_page: Callable[..., Any], page_file: Path, tmp_path: Path
) -> None:
    """Eight settings: every way and every break-even is that of a new run with these prices."""
    page = open_page(page_file)
    draw = random.Random(43)
    for _ in range(8):
        setting = money_setting(draw)
        report = answer(command_of(tmp_path, setting))
        found = bills(page, setting)
        expected = ways_of(report)
        assert found == {key: pytest.approx(usd, abs=0.005) for key, usd in expected.items()}, setting
        assert crossings(page) == [each["sentence"] for each in report["break_even"]], setting


@pytest.mark.slow
def test_volumes_and_hours_rent_for_what_a_new_run_says(
    open_page: Callable[..., Any], page_file: Path, tmp_path: Path
) -> None:
    """The cheapest rented way costs within a tenth of that of a new run, which may choose other deployments."""
    page = open_page(page_file)
    draw = random.Random(44)
    for _ in range(4):
        setting = {"volume": round(VOLUME * 10.0 ** draw.uniform(-0.9, 0.9), 1)}
        if draw.random() < 0.5:
            setting["hours"] = draw.choice((4, 8, 12, 20))
        report = answer(command_of(tmp_path, setting))
        found = min(usd for (way, *_), usd in bills(page, setting).items() if way == "rent")
        expected = min(way["usd_per_month"] for way in report["ways"] if way["way"] == "rent")
        assert found == pytest.approx(expected, rel=LARGEST_RENT_ERROR), setting


def test_named_hardware_costs_what_a_new_run_says(open_page: Callable[..., Any], tmp_path: Path) -> None:
    own = "--own 8xl40s"
    page = open_page(write_page(tmp_path, own=own))
    for setting in ({}, {"years": 3.0, "electricity": 0.3}, {"decay": 10.0, "buy": 25.0}):
        expected = ways_of(answer(command_of(tmp_path, setting, own=own)))
        assert bills(page, setting) == {key: pytest.approx(usd, abs=0.005) for key, usd in expected.items()}
    owned = [key for key in bills(page, {"volume": 9 * VOLUME}) if key[0] == "own"]
    assert owned == []


def test_controls_work_with_the_keyboard_and_keep_a_link(
    open_page: Callable[..., Any], page_file: Path
) -> None:
    page = open_page(page_file, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CLIPPED) == []
    page.focus("#w-volume-slider")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert float(page.input_value("#w-volume")) > VOLUME
    link = page.evaluate("location.hash")
    again = open_page(page_file, link)
    assert again.inner_text("#what-if-answer") == page.inner_text("#what-if-answer")
    again.click("#what-if-reset")
    assert again.evaluate("location.hash") == ""
    controls = "[...document.querySelectorAll('#what-if input, #what-if select')]"
    assert page.evaluate(f"{controls}.filter((each) => !each.labels.length && !each.ariaLabel).length") == 0
    assert len(page_file.read_bytes()) < 1_500_000


@pytest.mark.parametrize(
    "fragment",
    ["#what-if:volume=NaN&hours=-3&years=1e999", "#what-if:__proto__=1&rent=%3Cscript%3E", "#what-if:%%%"],
)
def test_a_link_from_a_mail_executes_nothing(
    open_page: Callable[..., Any], page_file: Path, fragment: str
) -> None:
    page = open_page(page_file, fragment)
    assert page.inner_text("#what-if-answer").startswith("At ")


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ("", "--tokens-per-day"),
        ("--concurrency 8", "--tokens-per-day"),
        ("--rate 2 --budget 20/h", "--budget"),
    ],
)
def test_questions_without_a_volume_are_refused(cli: Any, options: str, fix: str) -> None:
    run = cli(f"advisor cost --model 8b --gpu l40s --what-if {options}")
    assert run.code == 2
    assert fix in run.err
