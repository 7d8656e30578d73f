"""6ND and Chinchilla: worked question 23."""

import pytest

from advisor.catalog import models
from advisor.catalog.units import TERA
from advisor.simulator.training.flop import (
    CHINCHILLA,
    compute_optimal_tokens,
    training_days,
    training_flop,
)


def test_question_23() -> None:
    model = models.get("llama-2-70b").record
    flop = training_flop(model, 1.4 * TERA)
    assert flop == pytest.approx(5.9e23, rel=0.03)
    assert training_days(6 * 70e9 * 1.4e12, 1024, 989e12, 0.40) == pytest.approx(16.8, abs=0.05)
    assert compute_optimal_tokens(model) == pytest.approx(1.4 * TERA, rel=0.03)


def test_mixtures_count_their_active_parameters() -> None:
    mixtral = models.get("mixtral-8x7b").record
    assert training_flop(mixtral, 1.0) == pytest.approx(6 * 12.9e9, rel=0.02)


def test_the_loss_law_is_least_where_it_says() -> None:
    budget = 5.88e23
    tokens = CHINCHILLA.best_tokens(budget)
    best = CHINCHILLA.loss(budget / 6 / tokens, tokens)
    for factor in (0.5, 0.9, 1.1, 2.0):
        other = factor * tokens
        assert CHINCHILLA.loss(budget / 6 / other, other) > best
    assert 15 < tokens / (budget / 6 / tokens) < 30
