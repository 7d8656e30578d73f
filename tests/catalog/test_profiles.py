"""Kinds of traffic: published lengths whose tail is that of the source."""

import math
import re

import pytest

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.profiles import Profile, all_profiles, get

TAIL_TOLERANCE = 0.35
"""Of a lognormal's 99th percentile against the source's: real lengths are cut off and lumpy."""


def test_the_kinds_that_people_can_name() -> None:
    assert set(all_profiles()) == {"chat", "code", "rag", "agent", "batch", "reasoning"}
    assert get("chat").mean_input_tokens == 1155
    assert get("chat").mean_output_tokens == 211


@pytest.mark.parametrize("name", sorted(all_profiles()))
def test_every_profile_is_cited_and_spread(name: str) -> None:
    profile = all_profiles()[name]
    assert isinstance(profile, Profile)
    assert re.search(r"trace|set|dataset", profile.source)
    assert "p99" in profile.source
    assert profile.input_sigma > 0
    assert profile.output_sigma > 0


@pytest.mark.parametrize("name", sorted(all_profiles()))
def test_mean_and_sigma_give_the_published_tail(name: str) -> None:
    profile = all_profiles()[name]
    published = re.search(r"p99 (\d+) in, (\d+) out", profile.source)
    assert published is not None
    for mean, sigma, tail in (
        (profile.mean_input_tokens, profile.input_sigma, published.group(1)),
        (profile.mean_output_tokens, profile.output_sigma, published.group(2)),
    ):
        p99 = mean * math.exp(2.326 * sigma - sigma**2 / 2.0)
        assert p99 == pytest.approx(float(tail), rel=TAIL_TOLERANCE)


def test_an_unknown_profile_names_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        get("chatt")
    assert "chat" in caught.value.fix + caught.value.hint
