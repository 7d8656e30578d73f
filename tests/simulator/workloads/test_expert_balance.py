"""Routed experts over ranks: laws of balance, and layouts that were published."""

from itertools import pairwise

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.workloads.expert_balance import balance_experts, popularity


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 2.0])
def test_shares_add_up_and_fall(skew: float) -> None:
    shares = popularity(256, skew)
    assert shares.sum() == pytest.approx(1.0)
    assert np.all(np.diff(shares) <= 0.0)
    assert shares[0] / shares[1] == pytest.approx(2.0**skew)


def test_even_popularity_is_balanced_without_copies() -> None:
    found = balance_experts(256, 32, skew=0.0)
    assert found.as_numbered == pytest.approx(1.0)
    assert found.with_copies == pytest.approx(1.0)


@pytest.mark.parametrize("skew", [0.3, 0.6, 1.0])
def test_packing_and_copies_never_load_the_fullest_rank_more(skew: float) -> None:
    loads = [balance_experts(256, 32, skew=skew, num_copies=copies) for copies in (0, 32, 64, 128)]
    assert loads[0].with_copies <= loads[0].as_numbered
    # Packing is greedy: more copies may cost it a tenth of a percent.
    for fewer, more in pairwise(loads):
        assert more.with_copies <= 1.001 * fewer.with_copies
    assert all(found.with_copies >= 1.0 - 1e-9 for found in loads)
    # A rank cannot have less than the most loaded copy.
    assert loads[0].with_copies >= loads[0].hottest_share * 32


def test_layouts_of_deepseek_v3() -> None:
    # DeepSeek-V3, arXiv:2412.19437, section 3.4.1: 32 redundant experts on 32 GPUs for prefill, where each GPU hosts
    # one more beside its original eight; section 3.4.2: one expert each on 320 GPUs, 64 for redundant and shared ones.
    assert balance_experts(256, 32, skew=0.5, num_copies=32).slots_per_rank == 8 + 1
    assert balance_experts(256, 256, skew=0.5).slots_per_rank == 1


def test_experts_that_do_not_divide_are_refused() -> None:
    with pytest.raises(AdvisorError, match="do not divide") as told:
        balance_experts(256, 32, skew=0.5, num_copies=10)
    assert "--redundant 32" in told.value.fix
    with pytest.raises(AdvisorError, match="do not divide"):
        balance_experts(100, 32, skew=0.5)
