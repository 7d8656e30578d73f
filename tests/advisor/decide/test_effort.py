"""An answer ends at a stated amount of simulated work, the same everywhere, and says what it left out."""

import datetime

import pytest

from advisor.catalog import models as model_catalog
from advisor.catalog.errors import InfeasibleError
from advisor.decide import recommend as recommending
from advisor.decide.decision import Decision
from advisor.decide.effort import CHANGE_WORK, ENDED_EARLY, NOT_SETTLED, is_spent, limit_effort, spend
from advisor.decide.nearest import nearest_question
from advisor.decide.reason import NotTried
from advisor.decide.recommend import engines_for, recommend
from advisor.decide.scenario import Constraints, Scenario, Traffic

GPUS = ("l4", "l40s", "h100-sxm")
ASKED = Scenario(
    model="llama-3.1-8b",
    traffic=Traffic(mean_input_tokens=300, mean_output_tokens=50, rate_per_s=20.0),
    constraints=Constraints(accelerators=GPUS, engines=("vllm",)),
    as_of=datetime.date(2026, 11, 20),
    top=3,
)


@pytest.fixture(scope="module")
def whole() -> Decision:
    return recommend(ASKED)


def test_a_usual_question_ends_before_the_limit(whole: Decision) -> None:
    assert not {ENDED_EARLY, NOT_SETTLED} & set(whole.notes)
    assert len(whole.options) == 3
    assert NotTried() not in {each.reason for each in whole.rejected}


@pytest.mark.parametrize("most", [500, 1_000])
def test_a_search_that_ends_early_says_so_and_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch, whole: Decision, most: int
) -> None:
    monkeypatch.setattr(recommending, "SEARCH_WORK", most)
    cut = recommend(ASKED)
    again = recommend(ASKED)
    assert ENDED_EARLY in cut.notes
    assert cut.counts.num_simulated_requests < whole.counts.num_simulated_requests
    told = {each.accelerator: each.reason for each in cut.rejected}
    assert {option.machine.accelerator for option in cut.options} | set(told) == set(GPUS)
    assert NotTried() in told.values()
    assert [each.machine.accelerator for each in cut.options] == [
        each.machine.accelerator for each in again.options
    ]
    assert cut.rejected == again.rejected


def test_where_nothing_may_be_simulated_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "SEARCH_WORK", 0)
    monkeypatch.setattr(recommending, "SHOW_WORK", 0)
    with pytest.raises(InfeasibleError) as caught:
        recommend(ASKED)
    assert NotTried().text in (caught.value.why or "")


def test_what_cannot_be_settled_any_more_is_shown_as_it_was_searched(
    monkeypatch: pytest.MonkeyPatch, whole: Decision
) -> None:
    monkeypatch.setattr(recommending, "SHOW_WORK", 1000)
    answer = recommend(ASKED)
    assert NOT_SETTLED in answer.notes
    assert {each.machine.accelerator for each in answer.options} == {
        each.machine.accelerator for each in whole.options
    }


def test_work_inside_an_inner_limit_counts_for_both() -> None:
    assert not is_spent()
    with limit_effort(10) as outer:
        with limit_effort(5):
            spend(7)
            assert is_spent()
        assert outer.left == 3
        with limit_effort(5) as inner:
            assert inner.left == 3
        assert not is_spent()
        spend(3)
        assert outer.is_spent
    assert not is_spent()


def test_questions_near_one_without_an_answer_take_little_work() -> None:
    asked = []

    def ask(scenario: Scenario) -> None:
        asked.append(scenario)
        while not is_spent():
            spend(50_000)

    model, _ = model_catalog.get(ASKED.model)
    with limit_effort(10_000_000) as effort:
        assert nearest_question(ASKED, model, engines_for(ASKED), ask, lambda one: True) == ""
    assert asked
    assert 10_000_000 - effort.left == len(asked) * CHANGE_WORK


def test_where_the_longest_limits_do_not_help_no_shorter_ones_are_asked() -> None:
    asked: list[float | None] = []
    model, _ = model_catalog.get(ASKED.model)
    assert (
        nearest_question(
            ASKED,
            model,
            engines_for(ASKED),
            lambda each: asked.append(each.objectives.tpot_p99_s),
            lambda each: True,
        )
        == ""
    )  # type: ignore[func-returns-value]
    assert max(limit for limit in asked if limit is not None) == 256.0 * (ASKED.objectives.tpot_p99_s or 0.0)
    assert len([limit for limit in asked if limit != ASKED.objectives.tpot_p99_s]) == 1
