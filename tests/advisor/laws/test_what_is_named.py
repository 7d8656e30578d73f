"""Whatever was typed, paid or planned has its name in an answer: terms, regions, accelerators, providers, engines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import TODAY, ask
from hypothesis import given
from hypothesis import strategies as st
from questions import DAYS, Question, Row

from advisor.ask.options import Where
from advisor.ask.scenario import constraints_of
from advisor.catalog import engines, models
from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.prices import bundled_prices
from advisor.catalog.regions import regions_of_places
from advisor.catalog.units import plain_number
from advisor.decide.candidates import usable_precisions
from advisor.decide.offers import is_in_region
from advisor.decide.option import with_terms

MARKET = (
    Row("acme", "l40s", 1, 0.95, term="spot"),
    Row("bolt", "l40s", 8, 9.4, DAYS[2], region=1),
    Row("crest", "h100-sxm", 8, 27.6, term="reserved_1y"),
    Row("delta", "b200-sxm", 8, 99.0),
)
TERMS = "--term on-demand,spot,reserved-1y,reserved-3y"
ASKED = Question(
    MARKET, "8b", 6.0, ("l40s", "h100-sxm", "b200-sxm", "t4"), f"--engine vllm,llama.cpp {TERMS}"
)


@pytest.mark.parametrize(("command", "more"), [("recommend", ""), ("cost", "--api none")])
def test_an_answer_names_terms_and_all_that_was_typed(
    command: str, more: str, cli: Callable[[str], Any], tmp_path: Path
) -> None:
    words = f"{ASKED.words(command)} {more}".replace("--top 20", "--top 2")
    cli(f"advisor {words} --as-of {TODAY} -o {tmp_path / 'answer.md'}")
    text = (tmp_path / "answer.md").read_text(encoding="utf-8").replace("\\", "")
    found = ask(words)
    taken = set()
    for option in found.options:
        offer = option["offer"]
        assert with_terms(offer["provider"], offer["region"], offer["term"]) in text
        taken |= {option["machine"]["accelerator"], offer["provider"], option["layout"]["engine"]}
    reasons = found.document["rejected"] + found.document["not_taken"]
    named = {each.get("accelerator") or each["name"]: each["text"] for each in reasons}
    left = {*ASKED.accelerators, *ASKED.providers, "vllm", "llama.cpp"} - taken
    assert left <= named.keys()
    assert {name for name in left if f"{name}: {named[name]}" not in text} == set()


def test_owned_boards_carry_the_same_at_any_volume() -> None:
    plain = "cost --model 8b --gpu h100-sxm --engine vllm --levers none --api none --tokens-per-day"
    owned = [ask(f"{plain} {volume}").document["owned"][0] for volume in ("4B", "9B")]
    carried = [row["tokens_per_day"] / row["load_fraction"] / row["tco"]["num_accelerators"] for row in owned]
    assert carried[0] == pytest.approx(carried[1], rel=0.07)  # capacities err by 1 to 7 % between seeds


def test_no_weights_are_in_a_16_bit_format_without_units() -> None:
    model = models.get("8b").record
    for chip in all_accelerators():
        for engine in engines.all_engines():
            formats = usable_precisions(model, chip, engine, ())
            assert not ({"bf16", "fp16"} & set(formats)) - {chip.sixteen_bit_dtype}, (chip.id, engine.id)


def test_weights_of_eight_bits_are_considered_unasked_wherever_an_engine_is_known_to_serve_them() -> None:
    """A question that allows more formats never costs more than one that names some of them."""
    model = models.get("8b").record
    for chip in all_accelerators():
        for engine in engines.all_engines():
            is_served = engines.support(engine.id, chip.architecture, "fp8").is_usable
            asked = usable_precisions(model, chip, engine, ("fp8",))
            assert not is_served or set(asked) <= set(usable_precisions(model, chip, engine, ())), chip.id


def test_a_place_that_people_name_has_the_offers_there() -> None:
    prices = bundled_prices()
    sold = {place for price in prices for place in (price.region.lower(), price.country.lower()) if place}
    for name, places in regions_of_places().items():
        (limits, _) = constraints_of(Where(region=name.replace(",", " ")))
        for place in sold.intersection(places):
            there = next(each for each in prices if place in (each.region.lower(), each.country.lower()))
            assert name in sold or any(is_in_region(there, each) for each in limits.regions), name
    named = {place for places in regions_of_places().values() for place in places}
    unnamed = {each.region for each in prices if not {each.region.lower(), each.country.lower()} & named}
    assert unnamed <= {"any", "North-America"}


@given(st.floats(1e-9, 1e12), st.integers(1, 6))
def test_no_number_is_written_in_exponents(value: float, significant: int) -> None:
    text = plain_number(value, significant)
    assert "e" not in text.lower()
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - significant))
