"""Speculative decoding: expected tokens against enumeration, costs against the plain surface, published acceptance."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.speculation import speculation_methods, usual_acceptance
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.deployment import named_deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload, simulate
from advisor.simulator.speculation import (
    NAMES,
    Speculation,
    chosen_speculation,
    crossover_batch,
    expected_tokens,
    speculative_replica,
    speed_up,
    widen_by_factors,
)
from advisor.simulator.step_cost import decode_iteration_s

DRAFT = named_deployment("llama-3.2-3b", "h100-sxm")
CONTEXT = 1280.0


@pytest.fixture(scope="module")
def replica() -> ReplicaModel:
    layout = named_deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4)
    return model_replica(
        layout, mean_input_tokens=1024, mean_output_tokens=512, settings=EngineSettings(max_num_seqs=192)
    )


def with_speculation(replica: ReplicaModel, speculation: Speculation) -> ReplicaModel:
    return speculative_replica(replica, speculation, mean_input_tokens=1024, mean_output_tokens=512)


def gains(replica: ReplicaModel, speculation: Speculation, *batches: int) -> list[float]:
    surface = with_speculation(replica, speculation).surface
    return [speed_up(replica.surface, surface, batch, CONTEXT) for batch in batches]


def test_four_guesses_at_eighty_percent_yield_3_36_tokens() -> None:
    assert expected_tokens(0.8, 4) == pytest.approx(3.3616)
    assert expected_tokens(0.0, 4) == 1.0
    assert expected_tokens(1.0, 4) == 5.0


@given(st.floats(0.0, 1.0), st.integers(1, 6))
def test_expected_tokens_equal_the_sum_over_all_outcomes(acceptance: float, draft_tokens: int) -> None:
    total = 0.0
    for outcome in product((True, False), repeat=draft_tokens):
        chance = 1.0
        for accepted in outcome:
            chance *= acceptance if accepted else 1.0 - acceptance
        leading = next((i for i, accepted in enumerate(outcome) if not accepted), draft_tokens)
        total += chance * (leading + 1)
    assert expected_tokens(acceptance, draft_tokens) == pytest.approx(total)


def test_branches_of_a_tree_hold_more_often_and_cost_more_to_verify() -> None:
    chain = Speculation("eagle", 4, 0.6)
    tree = Speculation("eagle", 4, 0.6, branches=3)
    assert tree.tokens_per_step == pytest.approx(sum(0.936**i for i in range(5)))
    assert (chain.verified_tokens, tree.verified_tokens) == (5, 13)


def test_guesses_never_accepted_only_cost(replica: ReplicaModel) -> None:
    assert gains(replica, Speculation("draft_model", 4, 0.0, DRAFT), 1)[0] < 0.7
    assert gains(replica, Speculation("eagle", 4, 0.0), 1)[0] < 1.0


def test_a_draft_model_pays_for_few_sequences_and_costs_for_many(replica: ReplicaModel) -> None:
    speculation = Speculation("draft_model", 4, 0.8, DRAFT)
    few, some, many = gains(replica, speculation, 1, 32, 192)
    assert 3.36 > few > 1.4 > 1.0 > many
    assert few > some > many
    surface = with_speculation(replica, speculation).surface
    batch = crossover_batch(replica.surface, surface, CONTEXT)
    assert batch is not None
    assert speed_up(replica.surface, surface, batch - 1, CONTEXT) >= 1.0
    assert speed_up(replica.surface, surface, batch, CONTEXT) < 1.0


def test_cheap_guesses_pay_longer_than_a_draft_model(replica: ReplicaModel) -> None:
    drafted, headed = (
        gains(replica, speculation, 1, 64)
        for speculation in (Speculation("draft_model", 4, 0.8, DRAFT), Speculation("eagle", 4, 0.8))
    )
    assert all(head > draft for head, draft in zip(headed, drafted, strict=True))


def test_caches_are_read_once_for_all_guesses(replica: ReplicaModel) -> None:
    surface = with_speculation(replica, Speculation("ngram", 4, 0.8)).surface
    long, short = (decode_iteration_s(surface, 8, context) for context in (8192.0, 1024.0))
    plain_long, plain_short = (
        decode_iteration_s(replica.surface, 8, context) for context in (8192.0, 1024.0)
    )
    assert long - short == pytest.approx((plain_long - plain_short) / expected_tokens(0.8, 4), rel=1e-3)


def test_the_simulator_runs_on_the_mean_field(replica: ReplicaModel) -> None:
    fast = with_speculation(replica, Speculation("mtp", 1, 0.85))
    load = Workload(ClosedLoop(8), FixedLengths(1024, 256), 32)
    plain, guessed = (simulate(each.surface, each.policy, load).tpot.mean_s for each in (replica, fast))
    assert 1.4 < plain / guessed < 1.85


def test_drafts_take_memory_from_the_cache(replica: ReplicaModel) -> None:
    blocks = replica.policy.kv_capacity_blocks
    drafted = with_speculation(replica, Speculation("draft_model", 4, 0.8, DRAFT)).policy.kv_capacity_blocks
    looked_up = with_speculation(replica, Speculation("ngram", 4, 0.8)).policy.kv_capacity_blocks
    assert blocks is not None
    assert drafted is not None
    assert looked_up == blocks
    assert 0.5 * blocks < drafted < 0.9 * blocks
    tight = replace(replica, policy=replace(replica.policy, kv_capacity_blocks=110))
    with pytest.raises(InfeasibleError, match="leaves no room"):
        with_speculation(tight, Speculation("draft_model", 4, 0.8, DRAFT))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"method": "oracle"}, "not known"),
        ({"draft_tokens": 0}, "at least one token"),
        ({"acceptance": 1.2}, "between 0 and 1"),
        ({"method": "draft_model"}, "draft model"),
        ({"draft": DRAFT}, "draft model"),
        ({"branches": 0}, "at least one branch"),
    ],
)
def test_implausible_speculation_is_refused(values: dict[str, object], words: str) -> None:
    settings: dict[str, object] = {"method": "eagle", "draft_tokens": 4, "acceptance": 0.8} | values
    with pytest.raises(AdvisorError, match=words):
        Speculation(**settings)  # type: ignore[arg-type]


TARGET = named_deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4)
R1 = named_deployment("deepseek-r1", "h200-sxm", weight_dtype="fp8", tensor_parallel=8)
ROW = {
    "case_id": "x",
    "engine": "tensorrt-llm",
    "date": "2026-02-06",
    "model": "deepseek-ai/DeepSeek-R1",
    "gpu": "b200-sxm",
    "n_gpus": "8",
    "tp": "8",
    "weight_dtype": "nvfp4",
    "load": "closed",
    "concurrency": "8",
    "isl": "1024",
    "osl": "1024",
    "length_dist": "uniform:0.8",
    "num_requests": "80",
}


def test_every_method_has_a_usual_number_of_guesses_and_sourced_acceptance() -> None:
    assert set(speculation_methods()) == {*NAMES, "draft_model"}
    for method in speculation_methods().values():
        for entry in method.acceptance:
            assert 0 < entry.low <= entry.value <= entry.high < 1
            assert "arXiv" in entry.source.title


def test_published_acceptance_where_none_is_given() -> None:
    chosen = chosen_speculation("mtp", R1)
    assert (chosen.speculation.draft_tokens, chosen.speculation.acceptance) == (1, 0.87)
    assert "2412.19437" in chosen.source
    longer = chosen_speculation("mtp", R1, draft_tokens=3)
    assert (
        longer.speculation.acceptance < chosen.speculation.acceptance
    )  # one module that guesses three times
    low, high = longer.time_factors
    yielded = longer.speculation.tokens_per_step
    assert low == pytest.approx(yielded / expected_tokens(0.85, 3))
    assert high == pytest.approx(yielded / expected_tokens(0.60, 3))


def test_given_acceptance_is_exact() -> None:
    chosen = chosen_speculation("ngram", TARGET, acceptance=0.4)
    assert chosen.time_factors == (1.0, 1.0)
    assert chosen.source == ""
    assert chosen_speculation("lookahead", TARGET, acceptance=0.0).speculation.method == "ngram"


def test_a_draft_model_takes_as_many_accelerators_as_its_heads_divide_among() -> None:
    draft = chosen_speculation("draft:llama-3.2-3b", TARGET).speculation.draft
    assert draft is not None
    assert draft.model.id == "llama-3.2-3b"
    assert (draft.tensor_parallel, draft.weight_dtype) == (4, "bf16")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("oracle", "not known"),
        ("draft", "not known"),
        ("eagle:llama-3.2-1b", "not known"),
        ("mtp", "no module for multi-token prediction"),
        ("ngram", "is accepted is not known"),
        ("draft:qwen3-0.6b", "vocabularies differ"),
        ("draft:llama-3.1-70b", "reads fewer weights"),
        ("draft:llama-3.1-405b", "reads fewer weights"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str, words: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        chosen_speculation(name, TARGET)
    assert words in f"{refused.value.what} {refused.value.why}"
    assert refused.value.fix


def test_no_usual_acceptance_beyond_the_guesses_that_were_published() -> None:
    assert usual_acceptance("eagle", 8) is not None
    assert usual_acceptance("eagle", 9) is None


def test_a_further_error_widens_in_squares_and_moves_nothing() -> None:
    plain = Quantity(10.0, 8.0, 12.0, "modelled")
    assert widen_by_factors(plain, (1.0, 1.0)).low == pytest.approx(8.0)
    wide = widen_by_factors(plain, (0.8, 1.25))
    assert wide.value == 10.0
    assert wide.low < 8.0
    assert wide.high > 12.0
    assert wide.low > 10.0 * 0.8 * 0.8


def test_a_row_that_names_a_method_is_predicted_with_a_wider_range() -> None:
    plain, guessed = (
        predict_row({**ROW, "spec_decode": name}, 2).metrics["tpot_ms_mean"] for name in ("none", "mtp")
    )
    assert 1.4 < plain.value / guessed.value < 2.2
    assert guessed.high / guessed.low > plain.high / plain.low
    first = [
        predict_row({**ROW, "spec_decode": name}, 2).metrics["ttft_ms_mean"]
        for name in ("mtp", "mtp3", "mtp:3")
    ]
    assert first[0] == first[1] == first[2]  # this benchmark guesses three tokens
    assert predict_row({**ROW, "spec_decode": "mtp1"}, 2).metrics["tpot_ms_mean"].value > guessed.value


def test_a_row_that_names_none_of_them_stays_unsupported() -> None:
    assert predict_row({**ROW, "spec_decode": "unknown"}, 2).status == "unsupported"
    assert predict_row({**ROW, "spec_decode": "ngram"}, 2).status == "unsupported"


@pytest.mark.parametrize(
    ("engine", "name", "turns"),
    [
        ("vllm", "ngram", True),
        ("vllm", "draft:llama-3.2-1b", True),
        ("vllm", "eagle", False),
        ("sglang", "ngram", False),
    ],
)
def test_vllm_composes_no_batch_ahead_where_the_host_needs_the_last_tokens(
    engine: str, name: str, turns: bool
) -> None:
    plain = model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm", engine=engine),
        mean_input_tokens=1024,
        mean_output_tokens=512,
    )
    chosen = chosen_speculation(name, plain.deployment, draft_tokens=4, acceptance=0.0)
    guessing = with_speculation(plain, chosen.speculation)
    assert plain.policy.overlap_scheduling
    assert guessing.policy.overlap_scheduling != turns
    # Nothing is accepted, so what a prompt's iteration takes longer is the host alone.
    longer_ps = guessing.surface.mixed_base_ps[1024] - plain.surface.mixed_base_ps[1024]
    assert (longer_ps > 0) == (turns or chosen.speculation.draft is not None)
