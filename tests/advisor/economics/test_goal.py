"""Scores under a goal: means of facts, weighted sums, and weights that a team may set as it likes."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import models
from advisor.catalog.platforms import Platform, all_described, all_platforms
from advisor.economics.described import memory_bound, sketches
from advisor.economics.goal import Goal, Needs, Team, Weights
from advisor.economics.goal_facts import Deal, PlatformFacts
from advisor.economics.goal_scores import PlatformScore, rank_platforms

NAMES = ("fit", "cost", "ecosystem", "team")
WEIGHTS = st.fixed_dictionaries({name: st.floats(0.0, 100.0) for name in NAMES}).filter(
    lambda weights: sum(weights.values()) > 0.01
)


def platform(name: str) -> Platform:
    return next(entry for entry in all_platforms() if entry.id == name)


def deal(usd: float) -> Deal:
    return Deal(
        "8 x something", "something", usd, usd * 0.8, usd * 1.3, "modelled", "2026-06-01", "somewhere"
    )


def facts(
    name: str, usd: float | None, *, reason: str = "no price within the constraints", is_unpriced: bool = True
) -> PlatformFacts:
    found = deal(usd) if usd is not None else None
    return PlatformFacts(
        platform(name),
        found,
        "" if found else reason,
        found is None and is_unpriced,
        True,
        ("vllm", "sglang"),
        ("aws", "gcp"),
    )


SOME = (facts("nvidia", 0.10), facts("tpu", 0.30), facts("trainium", None), facts("groq", 0.60))


def score_of(options: tuple[PlatformScore, ...], name: str) -> PlatformScore:
    return next(option for option in options if option.platform == name)


@given(WEIGHTS, st.floats(0.001, 9.0))
def test_only_the_ratios_of_weights_count(weights: dict[str, float], factor: float) -> None:
    once = rank_platforms(SOME, Goal(weights=Weights(**weights)))
    more = rank_platforms(
        SOME, Goal(weights=Weights(**{name: factor * value for name, value in weights.items()}))
    )
    assert [option.platform for option in once] == [option.platform for option in more]
    for one, other in zip(once, more, strict=True):
        assert one.score == pytest.approx(other.score)


@given(WEIGHTS)
def test_a_score_is_the_weighted_mean_of_the_means_of_its_facts(weights: dict[str, float]) -> None:
    for option in rank_platforms(SOME, Goal(weights=Weights(**weights))):
        assert sum(score.weight for score in option.scores) == pytest.approx(1.0)
        assert option.score == pytest.approx(sum(score.weight * score.low for score in option.scores))
        for score in option.scores:
            known = [fact.points or 0.0 for fact in score.facts]
            assert score.low == pytest.approx(sum(known) / len(known))
            assert 0.0 <= score.low <= score.high <= 1.0
            assert all(fact.text and fact.source for fact in score.facts)
        assert option.score <= option.score_at_best + 1e-12


def test_families_come_in_the_order_of_their_points() -> None:
    options = rank_platforms(SOME, Goal())
    assert [option.rank for option in options] == [1, 2, 3, 4]
    points = [option.score for option in options]
    assert points == sorted(points, reverse=True)


def test_with_cost_alone_the_cheapest_is_first_and_half_the_price_is_twice_the_points() -> None:
    options = rank_platforms(SOME, Goal(weights=Weights(fit=0, ecosystem=0, team=0)))
    assert options[0].platform == "nvidia"
    assert options[0].score == 1.0
    assert score_of(options, "tpu").score == pytest.approx(1 / 3)


def test_what_is_not_known_leaves_a_range_and_what_fails_does_not() -> None:
    unpriced = score_of(rank_platforms(SOME, Goal()), "trainium")
    assert unpriced.score_at_best > unpriced.score
    failing = facts(
        "trainium", None, reason="even its datasheet limits miss the latency objectives", is_unpriced=False
    )
    assert (
        score_of(rank_platforms((*SOME[:2], failing), Goal()), "trainium").score_at_best
        < unpriced.score_at_best
    )


@pytest.mark.parametrize(
    ("frameworks", "better"),
    [(("jax",), ("tpu", "trainium")), (("pytorch",), ("nvidia", "tpu")), (("cuda",), ("nvidia", "tpu"))],
)
def test_a_team_is_worth_what_it_knows(frameworks: tuple[str, ...], better: tuple[str, str]) -> None:
    goal = Goal(weights=Weights(fit=0, cost=0, ecosystem=0), team=Team(frameworks=frameworks))
    options = rank_platforms(SOME, goal)
    assert score_of(options, better[0]).score > score_of(options, better[1]).score


def test_more_knowledge_never_hurts() -> None:
    one, both = (
        rank_platforms(SOME, Goal(team=Team(frameworks=known)))
        for known in (("pytorch",), ("pytorch", "jax"))
    )
    for option in one:
        assert score_of(both, option.platform).score >= option.score


def test_a_service_suits_anybody_who_needs_neither_training_nor_weights_of_their_own() -> None:
    goal = Goal(weights=Weights(fit=0, cost=0, ecosystem=0), needs=Needs(own_weights=False))
    assert score_of(rank_platforms(SOME, goal), "groq").score == 1.0
    assert score_of(rank_platforms(SOME, goal.model_copy(update={"needs": Needs()})), "groq").score == 0.0


def test_needs_count_in_the_fit() -> None:
    goal = Goal(weights=Weights(cost=0, ecosystem=0, team=0), needs=Needs(training=True))
    options = rank_platforms((*SOME, facts("apple", 0.2)), goal)
    assert score_of(options, "nvidia").score == 1.0
    assert score_of(options, "apple").score == pytest.approx(2 / 3)
    assert score_of(options, "groq").score == pytest.approx(0.5)


def test_every_family_says_where_its_facts_are_from() -> None:
    assert {"nvidia", "amd", "tpu", "trainium", "gaudi", "groq", "cerebras", "apple"} == {
        entry.id for entry in all_platforms()
    }
    for entry in all_platforms():
        assert entry.weights_source
        assert entry.frameworks
        assert all(support.source for support in entry.frameworks.values())
        for result in (entry.inference, entry.training):
            assert result.source
            assert datetime.date(2024, 1, 1) < result.date <= datetime.date(2026, 11, 20)


def test_other_hardware_is_described_with_what_its_memory_allows() -> None:
    assert {entry.id for entry in all_described()} == {"jetson", "phone", "fpga", "small-asic"}
    large, small = (sketches(models.get(name)[0]) for name in ("llama-3.1-70b", "llama-3.2-1b"))
    phone = {
        size: next(s for s in found if "Phone" in s.name) for size, found in (("70b", large), ("1b", small))
    }
    assert "does not fit" in phone["70b"].bound
    assert "at most" in phone["1b"].bound
    assert all(sketch.source for sketch in large)


def test_the_bound_of_one_user_by_hand() -> None:
    """A token reads 7.50 of 8.03 B parameters (no embedding), 4.22 GB at 4.5 bits: 546 GB/s do that 129 times."""
    assert (
        memory_bound(models.get("llama-3.1-8b")[0], 64e9, 546e9) == "fits; at most 129 tokens/s for one user"
    )
    assert memory_bound(models.get("llama-3.1-8b")[0], 4e9, 546e9).startswith("does not fit (5 GB")
