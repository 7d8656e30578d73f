"""Intervals of whole requests: they end where those of the first token and of the tokens after it end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.simulator.quantity import Quantity
from advisor.simulator.serving_prediction import end_to_end

FACTORS = st.tuples(st.floats(0.3, 1.0), st.floats(1.0, 3.0))


def spread(value: float, factors: tuple[float, float]) -> Quantity:
    return Quantity(value, value * factors[0], value * factors[1], "modelled")


@given(
    first_s=st.floats(1e-3, 10.0),
    token_s=st.floats(1e-3, 0.2),
    num_tokens=st.integers(2, 4000),
    ttft=FACTORS,
    tpot=FACTORS,
)
def test_a_whole_request_ends_where_its_parts_end(
    first_s: float, token_s: float, num_tokens: int, ttft: tuple[float, float], tpot: tuple[float, float]
) -> None:
    rest = num_tokens - 1
    first = spread(first_s, ttft)
    token = spread(token_s, tpot)
    whole = end_to_end({"p99": first_s + rest * token_s}, {"p99": first}, {"p99": token})["p99"]
    assert whole.low == pytest.approx(first.low + rest * token.low)
    assert whole.high == pytest.approx(first.high + rest * token.high)


@given(whole_s=st.floats(1e-3, 60.0), first_s=st.floats(1e-3, 60.0), ttft=FACTORS, tpot=FACTORS)
def test_a_whole_request_errs_no_more_than_its_worse_part(
    whole_s: float, first_s: float, ttft: tuple[float, float], tpot: tuple[float, float]
) -> None:
    found = end_to_end({"p50": whole_s}, {"p50": spread(first_s, ttft)}, {"p50": spread(0.01, tpot)})["p50"]
    assert found.low >= whole_s * min(ttft[0], tpot[0]) * (1 - 1e-9)
    assert found.high <= whole_s * max(ttft[1], tpot[1]) * (1 + 1e-9)


def test_an_output_of_one_token_errs_as_its_first_token() -> None:
    found = end_to_end({"mean": 0.5}, {"mean": spread(0.5, (0.8, 1.5))}, {})["mean"]
    assert (found.low, found.high) == pytest.approx((0.4, 0.75))
