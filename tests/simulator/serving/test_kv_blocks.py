"""Counting cache blocks and iterations without looping over sequences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.simulator.serving.batch import (
    descending_weights,
    iterations_until,
    iterations_until_full,
    num_blocks,
    run_ps,
)

BATCHES = st.tuples(
    st.integers(1, 20), st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(0, 500)
)


def blocks_of(contexts, block):
    return sum(-(-context // block) for context in contexts)


def phases(contexts, block, tick):
    counts = [0] * block
    for context in contexts:
        counts[(context - tick) % block] += 1
    return counts


@given(BATCHES)
def test_blocks_follow_from_the_sum_and_the_phases(batch):
    block, contexts, tick = batch
    counted = num_blocks(sum(contexts), phases(contexts, block, tick), tick, descending_weights(block))
    assert counted == blocks_of(contexts, block)


@given(BATCHES, st.integers(1, 60), st.integers(0, 40))
def test_iterations_until_full_is_the_last_one_that_fits(batch, most, spare):
    block, contexts, tick = batch
    capacity = blocks_of(contexts, block) + spare
    found = iterations_until_full(
        sum(contexts),
        len(contexts),
        phases(contexts, block, tick),
        tick,
        descending_weights(block),
        capacity,
        most,
    )
    fitting = [n for n in range(1, most + 1) if blocks_of([c + n - 1 for c in contexts], block) <= capacity]
    assert found == max(fitting)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(1, 10**15))
def test_iterations_until_is_the_first_that_reaches_the_target(first, slope, target):
    number = iterations_until(first, slope, target)
    assert run_ps(first, slope, number) >= target
    assert number == 1 or run_ps(first, slope, number - 1) < target


@pytest.mark.parametrize(("first", "slope", "number"), [(7, 0, 5), (7, 3, 5), (1, 100, 2)])
def test_a_run_is_the_sum_of_its_iterations(first, slope, number):
    assert run_ps(first, slope, number) == sum(first + slope * i for i in range(number))
    assert iterations_until(first, slope, run_ps(first, slope, number)) == number
    assert iterations_until(first, slope, run_ps(first, slope, number) + 1) == number + 1
