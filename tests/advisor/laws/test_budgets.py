"""Budget and load are inverse, exactly: what a load costs buys that load, and what a budget buys costs no more."""

import pytest
from asking import ask, expected_usd
from questions import DAYS, USUAL_USD, Question, Row, generate_questions

ROUNDING = 1e-9
RACE_ERROR = 0.02
"""Part of an expected cost by which two races may differ: each measures the candidates that its own prices allow."""
MARKET = (
    Row("acme", "l40s", 1, 0.95),
    Row("bolt", "rtx-4090", 2, 1.0),
    Row("crest", "h100-sxm", 8, 20.0, DAYS[1]),
)
B200 = (Row("bolt", "b200-sxm", 2, 12.07),)
H200 = (Row("bolt", "h200-sxm", 2, 9.4),)
FIXED = [
    (Question(MARKET, "8b", 12.0, ("rtx-4090",), "--engine vllm --precision fp8"), 2.5),
    (Question(MARKET, "8b", 5.0, ("l40s", "h100-sxm"), "--engine vllm --precision fp8"), 3.0),
    (Question(MARKET, "8b", 5.0, ("l40s",), "--engine vllm --precision bf16 --redundancy n+1"), 5.0),
    (Question(MARKET, "8b", 11.0, ("l40s", "h100-sxm"), "--engine vllm"), 22.0),
    (Question(B200, "qwen3-32b", 19.77, ("b200-sxm",), "--profile code --engine trt-llm,sglang"), 24.14),
    (Question(H200, "qwen3-235b-a22b", 3.5, ("h200-sxm",), "--engine vllm --tpot-p99 60ms"), 9.41),
]
NAMES = ("two boards", "two kinds", "n+1", "a machine of eight", "pairs", "large model")


def check_load(question: Question) -> None:
    """The bill of each option, as a budget, carries the load of that option."""
    answer = ask(question.words())
    if answer.code:
        return
    usd = answer.least_bill_usd()
    bought = ask(question.words(load=f"--budget {usd!r}/h"))
    assert bought.code == 0, bought.err
    served = max(take["performance"]["requests_per_s"]["value"] for take in bought.takes)
    assert served >= (1.0 - ROUNDING) * question.rate_per_s
    assert all(take["bill"]["usd_per_hour"] <= (1.0 + ROUNDING) * usd for take in bought.takes)
    within = ask(f"{question.words()} --budget {usd!r}/h")
    assert within.code == 0, within.err


def check_budget(question: Question, usd: float, *, by_expectation: bool = False) -> None:
    """The load that a budget carries is found for no more than the budget, or where prices are old for no more than
    what the budget buys is expected to cost."""
    bought = ask(question.words(load=f"--budget {usd!r}/h"))
    if bought.code:
        assert bought.code == 3
        return
    rate = bought.first["performance"]["requests_per_s"]["value"]
    asked = ask(question.words(load=f"--rate {rate!r}"))
    assert asked.code == 0, asked.err
    is_less = asked.least_bill_usd() <= (1.0 + ROUNDING) * usd
    if by_expectation and not is_less:
        # A budget is held against prices as they were read, an answer is ranked by what they are expected to be.
        is_less = asked.least_expected_usd() <= (1.0 + RACE_ERROR) * expected_usd(bought.first)
    assert is_less
    assert ask(question.words(load=f"--rate {rate!r} --budget {usd!r}/h")).code == 0


@pytest.mark.parametrize(("question", "_"), FIXED, ids=NAMES)
def test_what_a_load_costs_buys_that_load(question: Question, _: float) -> None:
    check_load(question)


@pytest.mark.parametrize(("question", "usd"), FIXED, ids=NAMES)
def test_what_a_budget_buys_costs_no_more(question: Question, usd: float) -> None:
    check_budget(question, usd)


@generate_questions
def test_what_a_generated_load_costs_buys_that_load(question: Question) -> None:
    check_load(question)


@generate_questions
def test_what_a_generated_budget_buys_costs_no_more(question: Question) -> None:
    check_budget(question, _usd(question), by_expectation=True)


def _usd(question: Question) -> float:
    """A budget of three usual accelerators of the question, more or less [USD/h]."""
    return round(3.0 * question.factor * USUAL_USD[question.accelerators[0]], 2)


@generate_questions
def test_a_larger_budget_serves_no_less(question: Question) -> None:
    usd = _usd(question)
    less, more = (
        ask(question.words(load=f"--budget {each:.2f}/h --redundancy n+1")) for each in (usd, 1.3 * usd)
    )
    if less.code == 0:
        assert more.code == 0
        served = [
            max(take["performance"]["requests_per_s"]["value"] for take in each.takes)
            for each in (less, more)
        ]
        assert served[1] >= (1.0 - ROUNDING) * served[0]


def test_one_replica_more_is_paid_out_of_the_budget() -> None:
    """`--redundancy n+1` buys less load for the same budget."""
    words = FIXED[0][0].words(load="--budget 4/h")
    plain, spare = (
        max(take["performance"]["requests_per_s"]["value"] for take in ask(each).takes)
        for each in (words, f"{words} --redundancy n+1")
    )
    assert spare < 0.95 * plain


def test_a_budget_without_a_unit_is_asked_about() -> None:
    """Dollars an hour, a month or in all: a bare number may be any of them."""
    answer = ask("recommend --model 8b --gpu l40s --engine vllm --precision fp8 --levers none --budget 9")
    assert answer.code == 2
    assert "--budget 9/h" in answer.err
