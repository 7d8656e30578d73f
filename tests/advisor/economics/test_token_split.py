"""Three prices whose sum is the bill, read off a surface that the simulator agrees with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide.load_runs import run_at
from advisor.decide.scenario import Traffic
from advisor.economics.row import split_prices, tokens_of
from advisor.economics.token_split import (
    RequestTokens,
    UsedSeconds,
    request_tokens,
    token_prices,
    used_seconds,
)
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.step_cost import StepSurface

PS = 1_000_000_000_000


def surface(window: int | None = None) -> StepSurface:
    """A made-up replica: 10 ms a decode step, 1 ns per context token, 10 µs per prompt token."""
    sequences = range(65)
    tokens = range(4097)
    return StepSurface(
        decode_base_ps=[0, *(PS // 100 for _ in sequences[1:])],
        decode_context_ps=[PS // 10**9] * 65,
        mixed_base_ps=[PS // 100 + n * PS // 10**5 for n in tokens],
        prefill_pair_ps=PS / 10**10,
        window_tokens=window,
        decode_window_ps=[PS // 10**9] * 65 if window else (),
        prefill_window_pair_ps=PS / 10**10 if window else 0.0,
    )


def seconds_of(
    tokens: RequestTokens, batch: float = 32.0, window: int | None = None, full: bool = False
) -> UsedSeconds:
    return used_seconds(
        surface(window), tokens, batch, rides_along=True, max_batched_tokens=4096, cache_is_full=full
    )


@given(
    usd=st.floats(1e-9, 1e3),
    inputs=st.integers(1, 50_000),
    outputs=st.integers(1, 20_000),
    cached=st.floats(0.0, 0.99),
    variation=st.floats(0.0, 5.0),
    batch=st.floats(0.1, 500.0),
    window=st.sampled_from([None, 128, 4096]),
    full=st.booleans(),
    requests=st.integers(1, 10**9),
)
def test_prices_times_tokens_are_the_bill_to_a_cent(
    usd: float,
    inputs: int,
    outputs: int,
    cached: float,
    variation: float,
    batch: float,
    window: int | None,
    full: bool,
    requests: int,
) -> None:
    tokens = request_tokens(
        inputs, outputs, input_variation=variation, output_variation=variation, cached_fraction=cached
    )
    prices = token_prices(usd, seconds_of(tokens, batch, window, full), tokens)
    per_million = (
        tokens.new_input * prices.usd_per_million_input
        + tokens.cached_input * prices.usd_per_million_cached
        + tokens.output * prices.usd_per_million_output
    )
    bill = requests * per_million / 1e6
    assert bill == pytest.approx(usd * requests, abs=0.005, rel=1e-12)
    assert sum(prices.share.values()) == pytest.approx(1.0)


@given(st.floats(0.01, 100.0), st.floats(1.0, 1000.0))
def test_prices_are_linear_in_what_a_request_costs(usd: float, factor: float) -> None:
    tokens = request_tokens(1000, 200)
    once, more = (token_prices(amount, seconds_of(tokens), tokens) for amount in (usd, usd * factor))
    assert more.usd_per_million_output == pytest.approx(factor * once.usd_per_million_output)
    assert more.usd_per_million_input == pytest.approx(factor * once.usd_per_million_input)


def test_a_cached_token_is_cheaper_than_a_new_one_and_dearer_than_nothing() -> None:
    tokens = request_tokens(2000, 200, cached_fraction=0.5)
    prices = token_prices(0.01, seconds_of(tokens), tokens)
    assert 0 < prices.usd_per_million_cached < prices.usd_per_million_input


def test_a_token_that_is_not_cached_yet_is_quoted_at_what_the_first_would_cost() -> None:
    none, few = (request_tokens(2000, 200, cached_fraction=part) for part in (0.0, 1e-6))
    quoted, real = (token_prices(0.01, seconds_of(tokens), tokens) for tokens in (none, few))
    assert quoted.usd_per_million_cached == pytest.approx(real.usd_per_million_cached, rel=1e-3)


def test_the_shares_by_hand() -> None:
    """1 000 in, 101 out, 10 sequences: 100 steps of 1 ms each, 0.1 ms of context reading, 10 ms of prefill.

    The iteration that carries the prompt also holds the ten sequences: 1 010 tokens.
    """
    tokens = request_tokens(1000, 101)
    split = used_seconds(surface(), tokens, 10, rides_along=True, max_batched_tokens=4096)
    assert split.decode_s == pytest.approx(100 * 0.010 / 10)
    assert split.input_residency_s == pytest.approx(100 * 1000 * 1e-9)
    assert split.output_residency_s == pytest.approx(101**2 / 2 * 1e-9)
    assert split.prefill_s == pytest.approx(1010 * 1e-5 + 1000**2 / 2 * 1e-10)


def test_alone_a_prompt_pays_for_its_whole_iteration() -> None:
    tokens = request_tokens(1000, 101)
    beside, alone = (
        used_seconds(surface(), tokens, 10, rides_along=rides, max_batched_tokens=4096).prefill_s
        for rides in (True, False)
    )
    assert alone - beside == pytest.approx(0.010 - 10 * 1e-5)


def test_a_larger_batch_makes_answers_cheaper_against_prompts() -> None:
    tokens = request_tokens(1000, 200)
    small, large = (token_prices(0.01, seconds_of(tokens, batch), tokens) for batch in (4, 64))
    assert large.usd_per_million_output < small.usd_per_million_output
    assert large.usd_per_million_input > small.usd_per_million_input


def test_with_a_full_cache_prompts_pay_for_the_room_that_they_take() -> None:
    tokens = request_tokens(4000, 200)
    free, full = (token_prices(0.01, seconds_of(tokens, full=is_full), tokens) for is_full in (False, True))
    assert full.usd_per_million_input > free.usd_per_million_input
    assert full.share["decode"] == 0.0


@pytest.fixture(scope="module")
def replica() -> ReplicaModel:
    return model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"), mean_input_tokens=1024, mean_output_tokens=256
    )


@pytest.mark.parametrize("clients", [8, 32, 128])
def test_the_split_accounts_for_the_simulated_time(replica: ReplicaModel, clients: int) -> None:
    """The time that all requests use, by the split, is the time in which the simulated replica was busy."""
    lengths = {"mean_input_tokens": 1024, "mean_output_tokens": 256}
    traffic = Traffic(**lengths, input_sigma=0.3, output_sigma=0.3, concurrency=clients)
    result = run_at(replica, traffic, clients, 10 * clients, seed=0)
    rate = result.steady_requests_per_s or result.requests_per_s
    batch = rate * (result.e2e.mean_s - result.ttft.mean_s)
    split = used_seconds(
        replica.surface,
        tokens_of(traffic),
        batch,
        rides_along=replica.policy.kind == "mixed",
        max_batched_tokens=replica.policy.max_num_batched_tokens,
    )
    assert rate * split.total_s == pytest.approx(result.busy_fraction, rel=0.12)


def test_answers_cost_more_than_prompts_on_a_real_surface(replica: ReplicaModel) -> None:
    traffic = Traffic(mean_input_tokens=1024, mean_output_tokens=256, concurrency=64)
    result = run_at(replica, traffic, 64, 640, seed=0)
    prices = split_prices(replica, result, result.requests_per_s, 1e-4, tokens_of(traffic))
    assert prices.usd_per_million_cached < prices.usd_per_million_input < prices.usd_per_million_output
