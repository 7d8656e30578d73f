"""Requests of SGLang's benchmark client: known from their means, with the prompts that earlier runs left cached."""

import pytest

from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.prediction import predict_row
from advisor.evidence.serving.sglang_client import replayed_requests
from advisor.simulator.serving import ClosedLoop, EmpiricalLengths, SchedulerPolicy, Workload, simulate
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.step_cost import StepSurface

ROW = {
    "engine": "sglang", "model": "meta-llama/Llama-3.1-8B", "gpu": "h200-sxm", "n_gpus": "1", "tp": "1",
    "load": "closed", "length_dist": "mean", "concurrency": "16", "num_requests": "80", "isl": "496", "osl": "510",
}  # fmt: skip


def case(**changes: str) -> ServingCase:
    return parse_case(ROW | changes, 2)


def test_means_of_a_draw_with_the_default_seed_tell_every_request() -> None:
    found = replayed_requests(case())
    assert found is not None
    lengths, contents = found
    inputs, outputs = zip(*lengths.pairs, strict=True)
    assert (len(inputs), max(inputs) <= 1000, max(outputs) <= 1000) == (80, True, True)
    assert (sum(inputs) / 80, sum(outputs) / 80) == pytest.approx((495.85, 510.06), abs=0.01)
    assert [contents.tree.ends[node] for node in contents.prompts] == list(inputs)


def test_a_longer_run_begins_with_the_requests_of_a_shorter_one() -> None:
    few = replayed_requests(case(concurrency="1", num_requests="10", isl="610", osl="422", load="batch1"))
    many = replayed_requests(case())
    assert few is not None
    assert many is not None
    assert [pair[0] for pair in few[0].pairs] == [pair[0] for pair in many[0].pairs[:10]]


@pytest.mark.parametrize(
    ("changes", "num_kept"),
    [
        ({"concurrency": "1", "num_requests": "10", "isl": "610", "osl": "422"}, 1),
        ({}, 10),
        ({"concurrency": "100", "num_requests": "500", "isl": "500", "osl": "505"}, 80),
        ({"osl": "3979"}, 80),
        ({"concurrency": "64", "num_requests": "320", "isl": "3981", "osl": "531"}, 80),
        ({"concurrency": "256", "num_requests": "4096", "isl": "508", "osl": "510"}, 1),
    ],
)
def test_what_runs_before_have_left_in_the_cache(changes: dict[str, str], num_kept: int) -> None:
    found = replayed_requests(case(**changes))
    assert found is not None
    assert list(found[1].kept) == list(found[1].prompts)[:num_kept]


@pytest.mark.parametrize(
    "changes", [{"isl": "450"}, {"engine": "vllm"}, {"length_dist": "fixed"}, {"num_requests": ""}]
)
def test_other_means_clients_and_lengths_are_no_such_draw(changes: dict[str, str]) -> None:
    assert replayed_requests(case(**changes)) is None


def test_the_end_of_a_run_is_that_of_its_own_longest_answers() -> None:
    """Five requests per client: while the last ones end, clients idle longer than in another draw."""
    found = predict_row(ROW, 2).metrics
    drawn_anew = predict_row(ROW | {"isl": "490"}, 2).metrics
    assert found["output_tok_s"].value < 0.97 * drawn_anew["output_tok_s"].value


def test_single_requests_are_sent_one_after_the_other() -> None:
    row = ROW | {"load": "batch1", "concurrency": "1", "num_requests": "10", "isl": "4194", "osl": "422"}
    alone, equal = predict_row(row, 2).metrics, predict_row(row | {"isl": "4100"}, 2).metrics
    assert alone["tpot_ms_mean"].value == pytest.approx(equal["tpot_ms_mean"].value, rel=0.03)
    assert alone["req_s"].value == pytest.approx(equal["req_s"].value, rel=0.03)


def test_kept_prompts_are_not_computed_again() -> None:
    surface = StepSurface([0, 1], [0, 0], [0, *range(10, 1010, 10)], prefill_pair_ps=0.0)
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=100, block_tokens=1, prefix_caching=True)
    tree = ContentTree()
    prompts = [tree.add(ROOT, 50), tree.add(ROOT, 50)]

    def first_token_ps(*kept: int) -> float:
        lengths = EmpiricalLengths([(50, 1), (50, 1)], in_order=True)
        workload = Workload(ClosedLoop(1), lengths, 2, Contents(tree, prompts, kept=kept))
        result = simulate(surface, policy, workload)
        return round(result.ttft.mean_s * 1e12)

    assert [first_token_ps(), first_token_ps(prompts[0]), first_token_ps(*prompts)] == [500, 255, 10]
