"""Questions in words for a machine to buy, of which they name no part."""

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.workstation.wanted_machine import wanted_machine

SUMS = [
    ("$2500", 2500.0, "USD"),
    ("$2,500", 2500.0, "USD"),
    ("2.5k dollars", 2500.0, "USD"),
    ("2500 bucks", 2500.0, "USD"),
    ("US$ 2500", 2500.0, "USD"),
    ("€2500", 2500.0, "EUR"),
    ("2500 euros", 2500.0, "EUR"),
    ("2.500 €", 2500.0, "EUR"),
    ("2 500 EUR", 2500.0, "EUR"),
    ("£1800", 1800.0, "GBP"),
    ("1800 pounds", 1800.0, "GBP"),
    ("$2000 to $2500", 2500.0, "USD"),
]
QUESTIONS = [
    "I have {sum} and want a PC for the living room that runs Gemma 3 27B, what should I buy?",
    "What should I buy for Gemma 3 27B with {sum}?",
    "Best PC for Gemma 3 27B under {sum}",
    "Looking for a workstation for gemma-3-27b, at most {sum}",
    "Recommend me hardware for Gemma 3 27B around {sum} please.",
    "What machine for Gemma 3 27B with {sum}?",
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("typed", "amount", "currency"), SUMS)
def test_a_question_for_a_machine_states_its_model_and_its_sum(
    question: str, typed: str, amount: float, currency: str
) -> None:
    found = wanted_machine(question.format(sum=typed))
    assert found is not None
    assert found.model.lower().replace(" ", "-") == "gemma-3-27b"
    assert (found.budget_usd, found.currency) == (amount, currency)
    assert not found.is_quiet
    assert found.tokens_per_s is None


@pytest.mark.parametrize(
    "wish", ["It has to be quiet.", "Must be silent!", "It should not be too loud.", "A quiet one, please."]
)
def test_quiet_is_a_wish_and_no_maker(wish: str) -> None:
    found = wanted_machine(f"What should I buy for Gemma 3 27B with $2500? {wish}")
    assert found is not None
    assert found.is_quiet


def test_a_question_may_name_a_speed_and_second_hand_parts() -> None:
    found = wanted_machine("Which PC should I buy for a 70B at 20 tokens/s, budget 4k? Used is fine.")
    assert found is not None
    assert (found.budget_usd, found.tokens_per_s, found.is_used) == (4000.0, 20.0, True)
    without = wanted_machine("Which PC should I buy for a 70B? No used parts.")
    assert without is not None
    assert (without.budget_usd, without.is_used) == (None, False)


@pytest.mark.parametrize(
    "text",
    [
        "2x RTX 3090, Ryzen 9 5950X, 64GB DDR4: which supply should I buy for Llama 3.3 70B?",
        "Should I buy a Mac Studio M3 Ultra 96GB or 2x RTX 5090 for a 70B?",
        "What should I buy with $2500?",
        "Llama 3.3 70B",
    ],
)
def test_a_text_with_a_part_or_without_a_model_or_a_wish_is_no_such_question(text: str) -> None:
    assert wanted_machine(text) is None


def test_a_sum_far_from_dollars_is_refused_with_what_to_write() -> None:
    with pytest.raises(AdvisorError, match="300,000 ¥") as caught:
        wanted_machine("What should I buy for Gemma 3 27B with ¥300,000?")
    assert "dollars" in caught.value.fix
