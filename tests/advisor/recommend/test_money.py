"""Amounts add up to the cent, whatever they are and in whatever order."""

import datetime
from decimal import ROUND_HALF_EVEN, Decimal

from hypothesis import given
from hypothesis import strategies as st

from advisor.recommend.ownership import Line, rounded, total, whole_cents

AMOUNTS = st.floats(min_value=-1e9, max_value=1e9)


def line(usd: float) -> Line:
    return Line("part", rounded(usd), "measured", datetime.date(2026, 1, 1), "here")


@given(st.lists(AMOUNTS, max_size=30))
def test_a_total_is_the_sum_of_its_lines_to_the_cent(amounts: list[float]) -> None:
    lines = [line(usd) for usd in amounts]
    exact = sum((Decimal(str(part.usd)) for part in lines), Decimal(0))
    assert Decimal(str(total(lines))).quantize(Decimal("0.01"), ROUND_HALF_EVEN) == exact.quantize(
        Decimal("0.01")
    )


@given(st.lists(AMOUNTS, max_size=10))
def test_the_order_of_lines_does_not_matter(amounts: list[float]) -> None:
    lines = [line(usd) for usd in amounts]
    assert total(lines) == total(reversed(lines))


@given(AMOUNTS)
def test_rounding_moves_an_amount_by_half_a_cent_at_most(usd: float) -> None:
    assert abs(whole_cents(usd) / 100 - usd) <= 0.005 + 1e-6
