"""Sites joined by a slow network: limits of both ways to train over them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.simulator.training.sites import Sites, exchange_s, local_step_s, synchronous_step_s

TWO = Sites(2, 12.5e9)


def test_two_sites_send_everything_once_each_way() -> None:
    assert exchange_s(TWO, 140e9) == pytest.approx(140e9 / 12.5e9 + 2 * 0.03)
    assert exchange_s(Sites(1, 12.5e9), 140e9) == 0.0
    with pytest.raises(ValueError, match="bytes_per_s"):
        exchange_s(Sites(2, 0.0), 1.0)
    with pytest.raises(ValueError, match="inner_steps"):
        local_step_s(TWO, 1.0, 0, 1.0)


@given(st.integers(1, 1000), st.floats(0.1, 100.0), st.floats(1e6, 1e12))
def test_rarer_exchanges_are_never_slower(inner: int, step_s: float, num_bytes: float) -> None:
    once = local_step_s(TWO, step_s, inner, num_bytes)
    assert local_step_s(TWO, step_s, inner + 1, num_bytes) <= once
    assert step_s <= local_step_s(TWO, step_s, inner, num_bytes, overlapped=True) <= once


def test_one_inner_step_is_synchronous_training_without_overlap() -> None:
    assert local_step_s(TWO, 5.0, 1, 1e10) == pytest.approx(synchronous_step_s(TWO, 5.0, 0.0, 1e10))
    assert synchronous_step_s(TWO, 5.0, 10.0, 1e10) == 5.0
