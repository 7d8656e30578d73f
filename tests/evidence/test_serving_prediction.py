"""Cases of published serving measurements: what may be seen, what bad cells give, how each load is replayed."""

import random

import numpy as np
import pytest
from published_rows import Watched

from advisor.catalog.errors import InputFileError
from advisor.catalog.terms import terms_by_name
from advisor.evidence.prediction import Prediction
from advisor.evidence.serving.case import INPUT_COLUMNS, METRICS, ServingCase, View, parse_case
from advisor.evidence.serving.client import lengths_of
from advisor.evidence.serving.deployment import deployment_of, replica_of
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import LognormalLengths, UniformLengths

NOT_INPUTS = ("notes", "source", "source_ref", "tier", "group")
BASE = {
    "case_id": "x",
    "tier": "A1",
    "group": "g",
    "source": "book",
    "source_ref": "p1",
    "date": "2026-01-01",
    "engine": "vllm",
    "engine_version": "0.14.0",
    "model": "Qwen/Qwen3-8B",
    "gpu": "h100-sxm",
    "n_gpus": "1",
    "tp": "1",
    "mode": "agg",
    "weight_dtype": "bf16",
    "load": "closed",
    "concurrency": "4",
    "isl": "128",
    "osl": "16",
    "length_dist": "uniform:0.8",
    "num_requests": "16",
    "spec_decode": "none",
    "notes": "n",
}


def predict(**cells: str) -> Prediction:
    return predict_row(BASE | cells, 7)


def case(**cells: str) -> ServingCase:
    return parse_case(BASE | cells, 7)


def test_only_inputs_are_read() -> None:
    row = Watched(BASE | dict.fromkeys(METRICS, "1"))
    assert predict_row(row, 2).status == "ok"
    assert row.read <= set(INPUT_COLUMNS)
    assert not row.read & {*METRICS, *NOT_INPUTS}
    assert not {*METRICS, *NOT_INPUTS} & set(INPUT_COLUMNS)


@pytest.mark.parametrize("view", ["replay", "stranger"])
def test_shuffling_what_is_no_input_changes_nothing(view: View) -> None:
    """Origin and prose of rows of three benchmarks, of which InferenceX's and AIConfigurator's have recipes."""
    protocols = ({"length_dist": "uniform:0.8"}, {"length_dist": "fixed", "date": "", "num_requests": ""}, {})
    rows = [
        BASE
        | protocols[i % 3]
        | {
            "case_id": str(i),
            "concurrency": str(c),
            "notes": f"note {i}",
            "tier": f"A{i}",
            "group": f"g{i}",
            "source": ("InferenceX", "AIConfigurator silicon_sample (NVIDIA internal runs)", "Vultr")[i % 3],
            "source_ref": f"r{i}",
            **{name: str(9 * i) for name in METRICS},
        }
        for i, c in enumerate((1, 2, 4, 8))
    ]
    before = [predict_row(row, number, view=view) for number, row in enumerate(rows)]
    for column in (*NOT_INPUTS, *METRICS):
        values = [row[column] for row in rows]
        random.Random(1).shuffle(values)
        for row, value in zip(rows, values, strict=True):
            row[column] = value
    assert [predict_row(row, number, view=view) for number, row in enumerate(rows)] == before


def test_a_row_without_its_origin_is_predicted_the_same() -> None:
    bare = {name: cell for name, cell in BASE.items() if name in INPUT_COLUMNS}
    assert predict_row(bare, 7) == predict()


def test_every_metric_of_a_closed_loop_has_an_interval() -> None:
    found = predict()
    assert (found.case_id, found.status, found.basis) == ("x", "ok", "modelled")
    for name in (
        "ttft_ms_mean",
        "ttft_ms_p50",
        "ttft_ms_p99",
        "tpot_ms_mean",
        "tpot_ms_p50",
        "tpot_ms_p99",
        "output_tok_s",
        "total_tok_s",
        "req_s",
        "e2e_ms_mean",
    ):
        quantity = found.metrics[name]
        assert 0 < quantity.low < quantity.value < quantity.high
    assert set(found.metrics) <= set(METRICS)
    longer = predict(concurrency="16", num_requests="160").metrics
    p99 = longer["tpot_ms_p99"]
    p50 = longer["tpot_ms_p50"]
    assert p99.high / p99.value > p50.high / p50.value


def test_predictions_are_of_the_whole_deployment_in_the_tables_units() -> None:
    found = predict(length_dist="fixed").metrics
    assert found["output_tok_s"].value == pytest.approx(16 * found["req_s"].value)
    assert found["total_tok_s"].value == pytest.approx(144 * found["req_s"].value)
    # Little's law: four clients over the requests per second are the seconds that a request takes.
    assert found["e2e_ms_mean"].value == pytest.approx(4000.0 / found["req_s"].value, rel=0.05)
    expected = found["ttft_ms_mean"].value + 15 * found["tpot_ms_mean"].value
    assert found["e2e_ms_mean"].value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"tp": "two"}, "tp is 'two', not a number"),
        ({"tp": "1.5"}, "tp is 1.5, not a whole number"),
        ({"tp": "0"}, "tp is 0, not at least 1"),
        ({"ep": "-1"}, "ep is -1, not a finite number"),
        ({"isl": "nan"}, "isl is nan, not a finite number"),
        ({"osl": "inf"}, "osl is inf, not a finite number"),
        ({"concurrency": "many"}, "concurrency is 'many'"),
        ({"request_rate": "-3"}, "request_rate is -3"),
        ({"num_requests": "1e400"}, "num_requests is 1e400"),
        ({"load": "bursty"}, "load 'bursty' is not known"),
        ({"load": ""}, "load is blank"),
        ({"model": "  "}, "model is blank"),
        ({"gpu": ""}, "gpu is blank"),
        ({"engine": ""}, "engine is blank"),
        ({"length_dist": "zipf"}, "length_dist 'zipf' is not known"),
        ({"length_dist": "uniform:lots"}, "length_dist 'uniform:lots' has no spread"),
        ({"length_dist": "lognormal:600/200,"}, "has no spread"),
        ({"length_dist": "uniform:1.5"}, "between 0 and 1"),
    ],
)
def test_bad_cells_are_errors_that_name_row_and_field(cells: dict[str, str], words: str) -> None:
    found = predict(**cells)
    assert (found.status, found.metrics) == ("error", {})
    assert found.reason.startswith("row 7: ")
    assert words in found.reason


def test_a_bad_row_still_has_an_id() -> None:
    row = BASE | {"tp": "x"}
    assert predict_row(row, 7).case_id == "x"
    assert predict_row(row | {"case_id": ""}, 7).case_id == "row-7"
    assert predict_row({}, 3).status == "error"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"model": "no/such-model"}, "no/such-model"),
        ({"gpu": "h1000"}, "h1000"),
        ({"engine": "pytorch"}, "pytorch"),
        ({"mode": "disagg"}, "decode accelerators"),
        ({"spec_decode": "unknown"}, "speculative decoding (unknown)"),
        ({"weight_dtype": "exl3-4.0bpw"}, "weight format exl3-4.0bpw is not read by vllm"),
        ({"weight_dtype": "exl3-4.2bpw"}, "weight format exl3-4.2bpw is not modelled"),
        ({"kv_dtype": "turboquant_4bit_nc"}, "cache format turboquant_4bit_nc"),
        ({"isl": "0"}, "at least 1 token"),
    ],
)
def test_what_is_not_modelled_is_unsupported_with_its_reason(cells: dict[str, str], words: str) -> None:
    found = predict(**cells)
    assert (found.status, found.metrics) == ("unsupported", {})
    assert words in found.reason


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"model": "meta-llama/Llama-3.1-70B"}, "exceed"),
        ({"tp": "3", "n_gpus": "3"}, "32 heads do not divide"),
        ({"gpu": "l4", "isl": "120000"}, "the longest request has"),
        ({"gpu": "wse3"}, ""),
    ],
)
def test_what_does_not_fit_is_infeasible_with_its_reason(cells: dict[str, str], words: str) -> None:
    found = predict(**cells)
    assert found.status == "infeasible"
    assert found.reason
    assert words in found.reason


def test_a_published_run_that_does_not_fit_an_optional_fraction_of_memory_was_given_more() -> None:
    cells = {"engine": "mindie", "engine_version": "", "gpu": "ascend-910b", "model": "Qwen/Qwen3-30B-A3B"}
    assert predict(**cells).status == "ok"
    # SGLang computes its fraction, so there is none to raise.
    assert (
        predict(engine="sglang", engine_version="0.5.9", model="Qwen/Qwen3-32B", gpu="l40s").status
        == "infeasible"
    )


def test_blanks_take_what_is_usual() -> None:
    found = case(tp="", mode="", weight_dtype="", length_dist="", num_requests="", spec_decode="", date="")
    assert (found.tp, found.pp, found.dp, found.ep, found.num_gpus) == (1, 1, 1, 1, 1)
    assert (found.mode, found.weight_dtype, found.kv_dtype, found.length_dist) == (
        "agg",
        "bf16",
        "auto",
        "fixed",
    )
    assert (found.num_requests, found.length_spread, found.spec_decode) == (None, None, "none")
    assert case(moe_ep="4", ep="2").ep == 4
    assert case(isl="1155.4").isl == 1155
    assert case(length_dist="uniform:0.5").length_spread == 0.5
    clipped = case(length_dist="lognormal:600/200,0.8 clipped 16-6000/4-1500")
    assert (clipped.length_dist, clipped.length_spread) == ("lognormal", 0.8)
    assert (clipped.longest, case(length_dist="lognormal:600/200,0.8").longest) == ((6000, 1500), None)
    lengths = lengths_of(
        case(isl="800", osl="270", length_dist="lognormal:600/200,0.8 clipped 16-6000/4-1500")
    )
    assert isinstance(lengths, LognormalLengths)
    assert (lengths.max_input_tokens, lengths.max_output_tokens) == (6000, 1500)


def test_unknown_needs_raise_with_row_and_field() -> None:
    with pytest.raises(InputFileError, match="row 7: concurrency"):
        case(concurrency="x")


def replica(**cells: str) -> ReplicaModel:
    return replica_of(case(**cells))


def test_settings_of_the_row_reach_the_engine() -> None:
    found = replica(max_num_seqs="16", max_num_batched_tokens="1024")
    assert (found.policy.max_num_seqs, found.policy.max_num_batched_tokens) == (16, 1024)
    # Benchmarks give the engine room for their concurrency.
    assert replica(concurrency="600", gpu="l4").policy.max_num_seqs == 600
    assert replica(kv_dtype="fp8").memory.kv_capacity_tokens > 1.9 * replica().memory.kv_capacity_tokens


def test_expert_parallelism_of_dense_models_is_ignored() -> None:
    assert deployment_of(case(ep="4", tp="4")).expert_parallel == 1
    experts = deployment_of(case(model="Qwen/Qwen3-30B-A3B", ep="4", tp="4"))
    assert experts.expert_parallel == 4
    uneven = deployment_of(case(model="Qwen/Qwen3-30B-A3B", ep="3", tp="4"))
    assert uneven.expert_parallel == 1


def test_lengths_are_drawn_as_the_client_drew_them() -> None:
    """Uniform lengths from half the nominal one average three quarters of it."""
    full, half = (predict(length_dist=f"uniform:{low}", num_requests="200").metrics for low in ("1.0", "0.5"))
    tokens = [found["output_tok_s"].value / found["req_s"].value for found in (full, half)]
    assert tokens[0] == pytest.approx(16.0)
    assert tokens[1] == pytest.approx(12.0, rel=0.05)


def test_open_loops_and_offline_runs() -> None:
    poisson = predict(load="poisson", request_rate="2", concurrency="", num_requests="60")
    assert poisson.metrics["req_s"].value == pytest.approx(2.0, rel=0.4)
    # Where their number is not stated there are enough for a stable load's throughput to be what was offered.
    unstated = predict(load="poisson", request_rate="2", concurrency="", num_requests="")
    assert unstated.metrics["req_s"].value == pytest.approx(2.0, rel=0.04)
    other = "tensorrt-llm"  # a new server of vLLM's compiles in its first burst
    offline = predict(engine=other, load="offline", concurrency="", num_requests="200")
    assert {"output_tok_s", "total_tok_s", "req_s", "ttft_ms_mean", "tpot_ms_mean"} <= set(offline.metrics)
    assert offline.metrics["req_s"].value > predict(engine=other).metrics["req_s"].value


def test_a_highest_throughput_is_not_bound_by_streaming_to_clients() -> None:
    """Without a number of requests it is of the engine's own benchmark: no server, nothing to deliver."""
    small = {"engine": "tensorrt-llm", "engine_version": "1.1.0", "concurrency": "", "isl": "32", "osl": "64"}
    behind, own = (
        predict(**small, load="offline", num_requests=each).metrics["output_tok_s"].value
        for each in ("4000", "")
    )
    (message,) = [term.value for term in terms_by_name()["engine", "message_s"]]
    assert behind < 1.0 / message < own


def test_requests_sent_to_a_server_at_once_are_taken_in_one_by_one() -> None:
    """1,000 answers of one token take no less than the server needs to take in 1,000 requests."""
    (intake,) = [term.value for term in terms_by_name()["engine", "intake_s"]]
    tiny = {"concurrency": "", "isl": "32", "osl": "2", "length_dist": "fixed", "load": "offline"}
    behind, own = (predict(**tiny, num_requests=each).metrics["req_s"].value for each in ("1000", ""))
    assert behind < 1.0 / intake < own


def test_more_clients_serve_more_and_wait_longer() -> None:
    few, many = (predict(concurrency=str(c), num_requests="64").metrics for c in (1, 32))
    assert many["output_tok_s"].value > 5 * few["output_tok_s"].value
    assert many["tpot_ms_mean"].value > few["tpot_ms_mean"].value
    assert many["ttft_ms_mean"].value > few["ttft_ms_mean"].value


def test_same_seed_same_prediction() -> None:
    assert predict() == predict()
    other = predict_row(BASE, 7, seed=1)
    assert other.metrics["ttft_ms_mean"].value != predict().metrics["ttft_ms_mean"].value


def test_transferred_kernels_are_assumed_and_wider() -> None:
    known = predict()
    foreign = predict(gpu="gaudi3")
    assert (known.basis, foreign.basis) == ("modelled", "assumed")
    for name in ("ttft_ms_mean", "tpot_ms_mean", "req_s"):
        near = known.metrics[name]
        far = foreign.metrics[name]
        assert far.high / far.low > near.high / near.low


def test_a_throughput_without_clients_or_rate_is_the_highest() -> None:
    offline = predict(load="offline", num_requests="").metrics
    for cells in ({"concurrency": ""}, {"load": "poisson", "request_rate": ""}):
        found = predict(**cells, num_requests="").metrics
        assert set(found) == {"output_tok_s", "total_tok_s", "req_s"}
        assert found["output_tok_s"] == offline["output_tok_s"]


def test_requests_given_all_at_once_wait_in_line() -> None:
    few, many = (
        predict(engine="tensorrt-llm", load="offline", num_requests=number).metrics
        for number in ("64", "4096")
    )
    assert many["ttft_ms_mean"].value > 4 * few["ttft_ms_mean"].value
    assert many["tpot_ms_mean"].value > 0


def test_published_means_become_the_lengths_that_clients_send() -> None:
    conversations = lengths_of(case(length_dist="mean", isl="220", osl="200"))
    assert isinstance(conversations, LognormalLengths)
    prompts, answers = next(conversations.chunks(*map(np.random.default_rng, (0, 1))))
    assert (prompts.mean(), answers.mean()) == pytest.approx((220, 200), rel=0.05)
    assert (prompts.max(), answers.max()) == (1024, 1500)
    assert np.quantile(answers, 0.1) < 20
    # A client that drops no long prompts has the same answers; longer ones are of other conversations.
    undropped = lengths_of(case(length_dist="mean", isl="302", osl="188"))
    assert next(undropped.chunks(*map(np.random.default_rng, (0, 1))))[1].max() == 1500
    longer = lengths_of(case(length_dist="mean", isl="340", osl="280"))
    assert next(longer.chunks(*map(np.random.default_rng, (0, 1))))[1].max() == 4096
    # SGLang's client draws random prompts from 1 to the nominal length; others send equal ones.
    assert lengths_of(case(length_dist="mean", engine="sglang", isl="500", osl="505")) == UniformLengths(
        1000, 1010, low_fraction=0.0
    )
    for isl, osl in (("32000", "98"), ("128", "4")):
        found = lengths_of(case(length_dist="mean", isl=isl, osl=osl))
        assert isinstance(found, LognormalLengths)
        assert found.sigma < 0.1
    stated = lengths_of(case(length_dist="lognormal:600/200,0.8"))
    assert isinstance(stated, LognormalLengths)
    assert stated.sigma == 0.8


@pytest.mark.parametrize(("isl", "kind"), [("32000", LognormalLengths), ("3978", UniformLengths)])
def test_means_of_whole_thousands_are_nominal_lengths(isl: str, kind: type) -> None:
    found = lengths_of(case(engine="sglang", length_dist="mean", isl=isl, osl="510", num_requests="80"))
    assert isinstance(found, kind)


def test_an_unstated_layout_is_as_many_small_replicas_as_fit() -> None:
    cells = {
        "engine_version": "0.17.0",  # earlier profile runs hold so many logits that one GPU has room for few requests
        "model": "meta-llama/Llama-3.1-70B",
        "weight_dtype": "fp8",
        "load": "offline",
        "concurrency": "",
        "num_requests": "800",
        "isl": "512",
        "osl": "128",
        "kv_dtype": "bf16",
    }
    eight = predict(**cells, tp="", n_gpus="8").metrics
    pair = predict(**(cells | {"num_requests": "200"}), tp="2", n_gpus="2").metrics
    assert eight["output_tok_s"].value == pytest.approx(4 * pair["output_tok_s"].value)
    assert eight["tpot_ms_mean"].value == pytest.approx(pair["tpot_ms_mean"].value)
    # Whoever submits such a row keeps weights in few bits with a cache of eight; it is no slower.
    submitted = predict(**(cells | {"kv_dtype": ""}), tp="", n_gpus="8").metrics
    assert submitted["output_tok_s"].value > 0.99 * eight["output_tok_s"].value
    # One accelerator holds the weights but hardly any cache; none holds them in 16 bits.
    nothing = predict(**(cells | {"weight_dtype": "bf16"}), tp="", n_gpus="1")
    assert (nothing.status, nothing.metrics) == ("infeasible", {})


ALIKE = {
    "case_id": "x",
    "engine": "vllm",
    "engine_version": "0.12.0",
    "model": "meta-llama/Llama-3.1-8B",
    "gpu": "h200-sxm",
    "n_gpus": "1",
    "tp": "1",
    "weight_dtype": "bf16",
    "load": "closed",
    "concurrency": "16",
    "isl": "6000",
    "osl": "200",
    "num_requests": "160",
}
SHARED = {"shared_prefix_len": "5000", "num_prefixes": "4"}


@pytest.mark.parametrize("load", [{}, {"load": "poisson", "request_rate": "2"}, {"load": "offline"}])
def test_prompts_that_begin_alike_are_found_in_the_cache(load: dict[str, str]) -> None:
    anew, alike, off = (
        predict_row({**ALIKE, **load, **cells}, 2).metrics
        for cells in ({}, SHARED, {**SHARED, "prefix_cache": "0"})
    )
    assert alike["ttft_ms_mean"].value < 0.7 * anew["ttft_ms_mean"].value
    assert off["ttft_ms_mean"].value == pytest.approx(anew["ttft_ms_mean"].value, rel=0.02)


def test_a_row_that_contradicts_itself_is_predicted_and_says_how() -> None:
    plain = predict_row({**ALIKE, **SHARED}, 2)
    odd = predict_row({**ALIKE, **SHARED, "isl": "1000"}, 2)
    assert (plain.reason, odd.status) == ("", "ok")
    assert "isl is taken for what comes after them" in odd.reason
    assert odd.metrics == plain.metrics
    assert "no more than these run" in predict_row({**ALIKE, "max_num_seqs": "64"}, 2).reason


def test_a_deterministic_load_has_no_sampling_error() -> None:
    found = predict_row({**ALIKE, "load": "static_batch", "concurrency": "4"}, 2).metrics
    assert found["ttft_ms_p99"].high / found["ttft_ms_p99"].value == pytest.approx(
        found["ttft_ms_mean"].high / found["ttft_ms_mean"].value
    )
