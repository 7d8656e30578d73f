"""Questions that name alternatives: each is judged, and one is recommended for a reason."""

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.choice import choose
from advisor.workstation.listing import Listing, read_listings
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Build, Question
from advisor.workstation.verdict import judge_listing

BOOK = price_book()
ASKED = Question(MachineLoad(models.get("32b").record))


def choices(text: str) -> tuple[tuple[str, Listing], ...]:
    return read_listings(None, BOOK, (), text)


def builds(text: str) -> list[Build]:
    return [judge_listing(one, ASKED, BOOK, better=False).build for _, one in choices(text)]


@pytest.mark.parametrize("word", ["or", "/", "oder", "ou"])
@pytest.mark.parametrize("mark", ["?", ""])
@pytest.mark.parametrize(
    ("first", "second", "rest", "place"),
    [
        ("750W", "1000W", "for a RTX 4090 and Ryzen 9 7950X", "supplies"),
        ("B650 Tomahawk", "X670E ProArt", "for two RTX 3090", "board"),
        ("Fractal Torrent", "Corsair 4000D", "for a RTX 5090", "case"),
        ("Ryzen 9 9950X", "Ryzen 7 9700X", "for two RTX 3090 on a X670E ProArt", "cpu"),
    ],
)
def test_parts_of_one_kind_with_or_between_them_are_a_choice(
    first: str, second: str, rest: str, place: str, word: str, mark: str
) -> None:
    found = choices(f"{first} {word} {second} {rest}{mark}")
    assert [name for name, _ in found] == [first, second]
    named = [getattr(listing.machine, place) for _, listing in found]
    assert None not in named
    assert named[0] != named[1]
    assert all(listing.machine.cards is not None for _, listing in found)


def test_of_equal_speeds_the_one_that_keeps_more_rules_is_taken_and_of_equal_ones_the_cheaper() -> None:
    supplies = builds("750W or 1000W for a RTX 4090 and Ryzen 9 7950X?")
    best = choose(supplies)
    assert best is not None
    assert best.place == 1
    assert "psu-headroom" in {check.rule for check in best.faults[0]}
    boards = builds("X670E ProArt or B650 Tomahawk for a RTX 3090?")
    cheaper = choose(boards)
    assert cheaper is not None
    assert boards[cheaper.place].total_usd == min(build.total_usd for build in boards)


def test_what_is_kept_costs_nothing() -> None:
    found = dict(choices("keep the RTX 3090 or sell it and get 2x RTX 5090?"))
    assert found["RTX 3090 as it is"].total_usd == 0.0
    assert found["2x RTX 5090 instead"].total_usd > 0.0
    names = [name for name, _ in choices("keep the Mac Studio M2 Ultra 192GB or sell it and get 2x 5090?")]
    assert names == ["2x 5090 instead", "Mac Studio M2 Ultra 192GB as it is"]


def test_lists_with_slashes_between_parts_of_several_kinds_are_no_choice() -> None:
    for text in ("9700X / B850 Tomahawk / RTX 5070 Ti", "RTX 3090 / Ryzen 9 5950X / 1000W PSU"):
        assert len(choices(text)) == 1
