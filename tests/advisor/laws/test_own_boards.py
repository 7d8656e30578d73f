"""Boards of one's own are compared by the power that they draw, which is what their answer pays."""

import datetime
import math

import pytest
from asking import TODAY, ask, with_option

from advisor.catalog import accelerators
from advisor.decide.offers import owned_offer

OWN = [
    "recommend --model 8b --own 2xrtx-4090 --rate 2 --levers none",
    "recommend --model 70b --own 2xh100-sxm --rate 2.8 --levers none",
    "recommend --model qwen3-14b --own 4xl40s --rate 0.27 --levers none",
]
NARROWER = ("--engine vllm", "--engine sglang", "--engine trt-llm", "--precision fp8", "--precision bf16")
ROUNDING = 1e-6


def least_usd_of_tokens(words: str) -> float:
    """Lowest expected cost of a million tokens; infinite without an answer."""
    answer = ask(words)
    assert answer.code in (0, 3)
    costs = (
        take["performance"]["expected_usd_per_million_tokens"] for take in answer.takes if not answer.code
    )
    return min(costs, default=math.inf)


@pytest.mark.parametrize("words", OWN)
def test_no_engine_or_format_alone_draws_less_than_all_of_them(words: str) -> None:
    least = least_usd_of_tokens(f"{words} --top 20")
    for option in NARROWER:
        assert least <= (1.0 + ROUNDING) * least_usd_of_tokens(with_option(f"{words} --top 20", option)), (
            option
        )


@pytest.mark.parametrize("words", OWN[:2])
def test_own_boards_pay_what_they_draw(words: str) -> None:
    """The bill is the power of all boards times the price of electricity with the host and losses."""
    options = ask(words).options
    prices = {each["bill"]["usd_per_hour"] / each["performance"]["power_w"]["value"] for each in options}
    assert max(prices) <= 1.001 * min(prices)


@pytest.mark.parametrize(
    ("words", "light", "heavy"),
    [
        ("recommend --workload speech --model whisper-large-v3 --own 1xl40s --latency-p99 10s", "0.1", "1"),
        ("recommend --workload embed --model bge-m3 --own 1xl40s", "5", "100"),
    ],
)
def test_a_board_that_does_less_pays_less_and_none_more_than_its_rated_power(
    words: str, light: str, heavy: str
) -> None:
    board = accelerators.by_id("l40s")
    rated_usd = owned_offer(1, board, datetime.date.fromisoformat(TODAY)).usd_per_hour
    less, more = (ask(f"{words} --rate {rate}").first["bill"]["usd_per_hour"] for rate in (light, heavy))
    assert 0.0 < less < more <= rated_usd
