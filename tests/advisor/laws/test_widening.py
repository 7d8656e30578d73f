"""Widening is never dearer: who allows more, asks for less or looks less far never pays more."""

import pytest
from asking import ask, with_option
from questions import DAYS, IS_THOROUGH, Question, Row, generate_questions
from real_questions import QUICK_PAIRS, Pair, pairs

RACE_ERROR = 0.01
"""Part of a cost by which a race may miss the cheapest option: what it leaves unresolved between close candidates."""
MARKET = (
    Row("acme", "l40s", 1, 0.95),
    Row("bolt", "l40s", 8, 6.4, DAYS[2]),
    Row("crest", "h100-sxm", 8, 17.6),
    Row("acme", "h100-sxm", 1, 2.9, DAYS[3], "tracker"),
)
SMALL = Question(MARKET, "8b", 6.0, ("l40s", "h100-sxm"), "--engine vllm").words()
OWN = "recommend --model 8b --own 4xl40s --engine vllm --levers none --precision fp8,bf16 --rate 6"

PAIRS = [
    (SMALL, "--precision bf16"),
    (SMALL, "--headroom 0.5"),
    (SMALL, "--redundancy n+1"),
    (SMALL, "--rate 9"),
    (SMALL, "--e2e-p99 10s"),
    (SMALL, "--itl-p99 30ms"),
    (SMALL, "--max-price-age 30"),
    (SMALL, "--region us --provider acme"),
    # One engine's capacity lies just below the load; those of the others must be looked at too.
    (
        "recommend --model qwen3-32b --profile code --rate 0.82 --gpu h100-sxm --engine trt-llm,vllm",
        "--engine vllm",
    ),
    # A deployment whose planning point misses an objective is bought larger for as long as nothing else costs less.
    (
        "recommend --model qwen3-32b --profile chat --rate 12.72 --gpu l40s --levers none --precision fp8 "
        "--engine vllm,sglang",
        "--engine sglang",
    ),
    # The replica that is best within the tighter limit, with the smaller chunk, is found within the looser one too.
    (
        "recommend --model 70b --gpu b200-sxm --engine vllm --rate 30 --levers none --tpot-p99 37.5ms",
        "--tpot-p99 25ms",
    ),
    # Fewer clients never need a dearer deployment, though each of their tokens may cost more.
    (
        "recommend --model qwen3-30b-a3b --gpu h100,rtx-4090 --profile chat --concurrency 5",
        "--concurrency 8",
    ),
    # The firm price of a card is the safe pick also where an older price of the same card leads the list.
    (
        "recommend --workload batch --model qwen3-32b --items 60k --gpu h100,l40s --engine vllm --deadline 8h",
        "--provider runpod,lambda",
    ),
    # A cluster that only larger orders make cheap is found however much time there is.
    ("recommend --workload train --model 8b --tokens 20B --gpu h100,mi300x", "--deadline 10d"),
    ("recommend --workload train --model 8b --tokens 20B --gpu h100,mi300x", "--gpus 64"),
    ("recommend --workload train --model qwen3-30b-a3b --tokens 5B --gpu h200,b200", "--gpus 32"),
    ("recommend --workload train --model 1b --tokens 30B --gpu h100,mi300x", "--provider hyperstack,lambda"),
    # Where a firm price stands for an older and lower one, that is a variant.
    (
        "recommend --workload speech --model whisper-large-v3 --rate 30 --gpu l40s,h100",
        "--residency eu",
    ),
    (OWN, "--power-budget 1kW"),
    (OWN, "--precision bf16"),
    (OWN, "--own 2xl40s"),
    (
        "recommend --model 8b --own 4xl40s,4xl4 --engine vllm --levers none --precision fp8 --rate 6",
        "--own 4xl40s",
    ),
]


def check(wide: str, narrow: str) -> None:
    """The wider question costs no more than the narrower one; so does its safe pick, or its bill is no higher.

    Of equal bills the simpler deployment is picked where the expected costs, which differ by errors of the model, are
    within 8 %.
    """
    more = ask(wide)
    less = ask(narrow)
    assert more.code in (0, 3), more.err
    assert less.code in (0, 3), less.err
    if less.code == 3:
        return
    assert more.code == 0, f"only the narrower question has an answer: {narrow}"
    assert more.least_expected_usd() <= (1.0 + RACE_ERROR) * less.least_expected_usd()
    if more.safe_bill_usd() > less.safe_bill_usd():
        assert more.safe_expected_usd() <= (1.0 + RACE_ERROR) * less.safe_expected_usd()


@pytest.mark.parametrize(
    "pair", QUICK_PAIRS if not IS_THOROUGH else list(pairs()), ids=lambda pair: pair.narrow
)
def test_a_real_limit_makes_no_answer_cheaper(pair: Pair) -> None:
    check_pair(pair)


def check_pair(pair: Pair) -> None:
    """Check that the wider question of a pair costs no more."""
    check(pair.wide, pair.narrow)


@pytest.mark.parametrize(("wide", "limit"), PAIRS, ids=[limit for _, limit in PAIRS])
def test_a_limit_never_makes_an_answer_cheaper(wide: str, limit: str) -> None:
    narrow = wide
    for option in [f"--{each}" for each in limit.split("--")[1:]]:
        narrow = with_option(narrow, option)
    check(wide, narrow)


@generate_questions
def test_no_generated_limit_makes_an_answer_cheaper(question: Question) -> None:
    check(question.words(), with_option(question.words(), question.narrower))


@generate_questions
def test_another_lever_makes_an_answer_no_dearer(question: Question) -> None:
    check(with_option(question.words(), "--levers kv-fp8"), question.words())


@generate_questions
def test_a_budget_makes_no_answer_cheaper(question: Question) -> None:
    wide = question.words()
    answer = ask(wide)
    if answer.code == 0:
        bound = f"{wide} --budget {question.factor * answer.first['bill']['usd_per_hour']:.2f}/h"
        check(wide, bound)
        assert question.factor < 1.01 or ask(bound).code == 0


@generate_questions
def test_an_added_offer_makes_no_answer_dearer(question: Question) -> None:
    left_out = question.rows[question.place]
    rows = tuple(row for row in question.rows if row != left_out)
    if rows:
        check(question.words(), question.with_rows(*rows).words())
