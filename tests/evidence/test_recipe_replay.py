"""Published runs are replayed as their benchmark started the engine, and only they."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.client import client_lengths
from advisor.evidence.serving.deployment import deployment_of, replica_of
from advisor.evidence.serving.prediction import predict_row
from advisor.evidence.serving.recipe import (
    as_laid_out,
    as_started,
    gathering_wait_steps,
    polling_wait_steps,
    recipe_for,
    with_recipe,
)
from advisor.simulator.replica_model import EngineSettings

ROW = {
    "case_id": "x",
    "engine": "sglang",
    "engine_version": "0.5.9",
    "date": "2026-03-24",
    "model": "Qwen/Qwen3.5-397B-A17B",
    "gpu": "b200-sxm",
    "n_gpus": "8",
    "tp": "8",
    "mode": "agg",
    "weight_dtype": "fp8",
    "load": "closed",
    "concurrency": "16",
    "isl": "1024",
    "osl": "1024",
    "length_dist": "uniform:0.8",
    "num_requests": "160",
    "spec_decode": "none",
}


def case(**changes: str) -> ServingCase:
    return parse_case({**ROW, **changes}, 2)


def settings_of(asked: ServingCase, settings: EngineSettings | None = None) -> EngineSettings:
    deployment = deployment_of(asked)
    return with_recipe(settings or EngineSettings(), asked, deployment, recipe_for(asked, deployment))


def test_a_recipe_sets_the_budget() -> None:
    assert settings_of(case()).max_num_batched_tokens == 32_768
    assert settings_of(case()).graphs_for_all_batches


def test_what_a_row_states_wins() -> None:
    assert settings_of(case(), EngineSettings(max_num_batched_tokens=4096)).max_num_batched_tokens == 4096


@pytest.mark.parametrize(
    "changes", [{"length_dist": "fixed"}, {"num_requests": "100"}, {"length_dist": "uniform:0.5"}]
)
def test_another_protocol_gets_no_recipe(changes: dict[str, str]) -> None:
    assert settings_of(case(**changes)) == EngineSettings()


def test_budget_of_a_prompt_and_the_batch() -> None:
    found = settings_of(case(engine="tensorrt-llm", model="deepseek-ai/DeepSeek-R1", date="2025-11-02"))
    assert found.max_num_batched_tokens == 1152  # 16 + 1024 + 64, in steps of 64
    later = settings_of(case(engine="tensorrt-llm", model="deepseek-ai/DeepSeek-R1", date="2026-02-03"))
    assert later.max_num_batched_tokens == 8192


def test_a_budget_below_the_usual_number_of_sequences_is_run_as_it_is() -> None:
    """InferenceX's scripts of 2025 let an iteration of TensorRT-LLM compute one prompt of 1,024 tokens."""
    row = {"engine": "tensorrt-llm", "model": "deepseek-ai/DeepSeek-R1", "engine_version": "1.1.0rc2.post2"}
    early, later = (replica_of(case(**row, date=date)).policy for date in ("2025-12-15", "2026-02-03"))
    assert (early.max_num_batched_tokens, later.max_num_batched_tokens) == (1152, 8192)


def test_every_rank_has_the_budget_of_its_models_script() -> None:
    row = {"engine": "tensorrt-llm", "model": "openai/gpt-oss-120b", "weight_dtype": "mxfp4", "n_gpus": "2"}
    found = settings_of(case(**row, engine_version="1.2.0rc2", date="2026-01-07", tp="1", dp="2", ep="2"))
    assert found.max_num_batched_tokens == 2 * 20_000


def test_requests_are_taken_in_by_as_many_processes_as_a_script_starts() -> None:
    six, one = (replica_of(case(num_requests=each)).policy.intake_ps for each in ("160", "100"))
    assert 6 * six == pytest.approx(one, rel=1e-6)


@pytest.mark.parametrize(
    ("clients", "tp", "lengths", "layout"),
    [
        (32, 8, (8192, 1024), (8, 1, 1)),
        (64, 8, (8192, 1024), (1, 8, 8)),
        (8, 8, (1024, 1024), (8, 1, 1)),
        (16, 8, (1024, 1024), (8, 1, 8)),
        (64, 4, (1024, 8192), (4, 1, 4)),
        (256, 4, (1024, 8192), (1, 4, 4)),
    ],
)
def test_scripts_chose_the_layout_that_early_results_do_not_tell(
    clients: int, tp: int, lengths: tuple[int, int], layout: tuple[int, int, int]
) -> None:
    early = case(
        engine="tensorrt-llm",
        model="deepseek-ai/DeepSeek-R1",
        weight_dtype="nvfp4",
        date="2025-11-02",
        engine_version="",
        tp=str(tp),
        n_gpus=str(tp),
        isl=str(lengths[0]),
        osl=str(lengths[1]),
        concurrency=str(clients),
        num_requests=str(10 * clients),
    )
    found = as_laid_out(early)
    assert (found.tp, found.dp, found.ep) == layout
    assert as_laid_out(found) == found


def test_a_stated_or_later_layout_stays() -> None:
    row = {
        "engine": "tensorrt-llm",
        "model": "openai/gpt-oss-120b",
        "gpu": "h200-sxm",
        "weight_dtype": "mxfp4",
    }
    later = case(**row, date="2025-12-15")
    assert as_laid_out(later) == later
    other = case(**row, date="2025-11-02", num_requests="100")
    assert as_laid_out(other) == other
    assert as_laid_out(case(**row, date="2025-11-02")).ep == 8


@pytest.mark.parametrize(
    ("cells", "layout"),
    [
        ({}, (4, 1, 1)),
        ({"date": "2026-02-08"}, (1, 4, 4)),
        ({"prefill_tp": "4"}, (1, 4, 4)),
        (
            {"n_gpus": "36", "decode_gpus": "32", "num_decode_workers": "1", "ep": "32", "dp": "32"},
            (1, 32, 32),
        ),
        ({"num_requests": "50"}, (1, 4, 4)),
    ],
)
def test_small_decode_workers_of_early_pools_are_tensor_parallel(
    cells: dict[str, str], layout: tuple[int, int, int]
) -> None:
    pools = {"prefill_gpus": "4", "num_prefill_workers": "1", "decode_gpus": "16", "num_decode_workers": "4"}
    degrees = {"tp": "1", "ep": "4", "dp": "4", "n_gpus": "20"}
    early = {"date": "2025-12-21", "model": "deepseek-ai/DeepSeek-R1", "gpu": "gb200", "mode": "disagg"}
    found = as_laid_out(case(**{**early, **degrees, **pools, "engine_version": "", **cells}))
    assert (found.tp, found.dp, found.ep) == layout


def test_attention_in_parallel_keeps_caches_that_fit() -> None:
    """256 clients of 8 192 tokens: eight ranks that each held all caches would let them queue for minutes."""
    row = {
        **ROW,
        "engine": "tensorrt-llm",
        "model": "deepseek-ai/DeepSeek-R1",
        "weight_dtype": "nvfp4",
        "engine_version": "",
        "isl": "8192",
        "concurrency": "256",
        "num_requests": "2560",
        "kv_dtype": "bf16",
    }
    early, stated = (predict_row({**row, "date": date}, 2).metrics for date in ("2025-11-02", "2025-12-15"))
    assert early["ttft_ms_mean"].value < 0.5 * stated["ttft_ms_mean"].value
    assert early["tpot_ms_mean"].value < stated["tpot_ms_mean"].value


def test_polling_delays_first_tokens() -> None:
    """Thirty steps between two looks at the queue cost a request about fifteen steps."""
    often = predict_row({**ROW, "concurrency": "8", "num_requests": "80"}, 2).metrics
    rarely = predict_row(ROW, 2).metrics
    steps = (rarely["ttft_ms_mean"].value - often["ttft_ms_mean"].value) / rarely["tpot_ms_mean"].value
    assert 7.0 < steps < 16.0


def test_a_run_without_prefix_cache_overlaps_its_prompts() -> None:
    """Neighbours wait less for the prompts of a hybrid model than where its prefixes are kept."""
    kept, off = (predict_row({**ROW, "prefix_cache": cell}, 2).metrics for cell in ("", "0"))
    assert kept["tpot_ms_mean"].value > 1.01 * off["tpot_ms_mean"].value


EQUAL = {
    **ROW,
    "engine": "vllm",
    "engine_version": "0.12.0",
    "date": "",
    "model": "meta-llama/Llama-3.1-8B",
    "gpu": "h200-sxm",
    "n_gpus": "1",
    "tp": "1",
    "isl": "2000",
    "osl": "100",
    "concurrency": "64",
    "length_dist": "fixed",
    "num_requests": "",
    "script": "aiconfigurator",
}


def test_budget_of_a_prompt_the_batch_and_what_is_spare() -> None:
    assert settings_of(parse_case(EQUAL, 2)).max_num_batched_tokens == 64 + 2000 + 1500


def test_a_client_of_a_hundred_prompts_finds_most_of_them_cached() -> None:
    """64 clients send 1 280 requests: nine in ten prompts came before."""
    repeated = predict_row(EQUAL, 2).metrics
    anew = predict_row({**EQUAL, "prefix_cache": "0"}, 2).metrics
    assert repeated["ttft_ms_mean"].value < 0.55 * anew["ttft_ms_mean"].value
    assert repeated["tpot_ms_mean"].value < 0.6 * anew["tpot_ms_mean"].value


def test_four_clients_never_send_a_prompt_twice() -> None:
    few = {**EQUAL, "concurrency": "4"}
    once, anew = (predict_row(row, 2).metrics["ttft_ms_mean"] for row in (few, {**few, "prefix_cache": "0"}))
    assert once.value == pytest.approx(anew.value, rel=0.15)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("osl", "steps"), [("50", 2.5), ("100", 5.0), ("500", 5.0), ("2000", 5.0)])
def test_clients_fall_out_of_step_by_steps_not_by_a_share_of_the_answer(
    engine: str, osl: str, steps: float
) -> None:
    asked = parse_case({**EQUAL, "engine": engine, "osl": osl}, 2)
    lengths = client_lengths(asked, recipe_for(asked, deployment_of(asked)))
    assert lengths is not None
    inputs, outputs = next(lengths.chunks(np.random.default_rng(0), np.random.default_rng(1)))
    assert np.std(inputs) == 0.0
    assert np.std(outputs) == pytest.approx(steps, rel=0.1)


def test_a_client_that_is_not_known_has_no_jitter_of_its_own() -> None:
    asked = parse_case({**EQUAL, "engine": "tensorrt-llm", "engine_version": "1.0.0rc3"}, 2)
    found = recipe_for(asked, deployment_of(asked))
    assert found is not None
    assert client_lengths(asked, found) is None
    assert client_lengths(asked, None) is None


def test_long_answers_leave_first_tokens_to_wait_for_each_other() -> None:
    """Measured: 1 050 and 1 086 ms, AIConfigurator's own runs of Qwen3-235B on two H200s; predicted 17 % less."""
    row = {
        **EQUAL,
        "model": "Qwen/Qwen3-235B-A22B",
        "gpu": "h200-sxm",
        "n_gpus": "2",
        "tp": "2",
        "isl": "8000",
        "engine_version": "0.12.0",
        "weight_dtype": "fp8",
    }
    for osl, clients, measured_ms in (("1000", "9", 1050.0), ("2000", "10", 1086.0)):
        found = predict_row({**row, "osl": osl, "concurrency": clients}, 2).metrics["ttft_ms_mean"]
        assert found.value == pytest.approx(measured_ms, rel=0.2)


def test_prompts_ride_in_decode_batches_where_the_recipe_says_so() -> None:
    sglang = {**EQUAL, "engine": "sglang", "engine_version": "0.5.6.post2"}
    for row, kind in ((sglang, "mixed"), ({**sglang, "script": ""}, "prefill_first")):
        asked = parse_case(row, 2)
        deployment = deployment_of(asked)
        assert as_started(deployment, recipe_for(asked, deployment)).engine.scheduler == kind


def test_what_a_row_leaves_blank_tells_no_script() -> None:
    """So blank were the runs of one archive: no date, no requests, no word on the cache."""
    asked = parse_case({**EQUAL, "script": ""}, 2)
    assert recipe_for(asked, deployment_of(asked)) is None


def test_a_script_that_nobody_published_is_refused() -> None:
    assert predict_row({**EQUAL, "script": "mlperf"}, 7).reason == "row 7: script 'mlperf' is not known"


def test_a_strangers_server_has_none() -> None:
    for row in (ROW, EQUAL):
        asked = parse_case(row, 2, "stranger")
        assert recipe_for(asked, deployment_of(asked)) is None


@given(st.integers(1, 64))
def test_polling_wait_is_half_the_interval(interval: int) -> None:
    assert polling_wait_steps(interval) == (interval - 1) / 2


@given(st.floats(1e-3, 10.0), st.floats(1.0, 100.0), st.integers(0, 100))
def test_gathering_waits_at_most_its_window(rate: float, enough: float, most: int) -> None:
    wait = gathering_wait_steps(rate, enough, most)
    assert 0.0 <= wait <= most
    assert wait <= gathering_wait_steps(rate, enough, most + 10) + 1e-9


def test_gathering_between_one_and_many() -> None:
    assert gathering_wait_steps(1e-9, 8.0, 60) == pytest.approx(60.0, rel=1e-4)  # alone: the whole window
    assert gathering_wait_steps(100.0, 201.0, 60) == pytest.approx(
        1.0, rel=0.02
    )  # a crowd: half of two steps


VULTR = {
    "case_id": "x",
    "engine": "vllm",
    "engine_version": "0.16.0",
    "date": "2026-03-11",
    "model": "Qwen/Qwen3-8B",
    "gpu": "b200-sxm",
    "n_gpus": "1",
    "tp": "1",
    "mode": "agg",
    "weight_dtype": "fp8",
    "load": "closed",
    "concurrency": "512",
    "isl": "2048",
    "osl": "512",
    "length_dist": "fixed",
    "script": "vultr",
}


def test_a_client_with_fewer_requests_than_streams_sends_one_burst() -> None:
    times = {
        clients: predict_row({**VULTR, "concurrency": clients}, 2).metrics["ttft_ms_mean"].value
        for clients in ("64", "512", "1024")
    }
    assert times["1024"] == pytest.approx(times["512"], rel=0.02)
    assert times["64"] < times["512"] / 2


def test_some_of_vultrs_models_got_four_requests_for_each_client() -> None:
    found = parse_case({**VULTR, "model": "deepseek-ai/DeepSeek-V3.2", "tp": "8", "n_gpus": "8"}, 2)
    recipe = recipe_for(found, deployment_of(found))
    assert recipe is not None
    assert (recipe.num_requests, recipe.requests_per_client) == (None, 4)


LMDEPLOY = {
    **VULTR,
    "engine": "lmdeploy",
    "engine_version": "0.2.0",
    "date": "2024",
    "model": "meta-llama/Llama-2-7b-hf",
    "gpu": "a100-sxm-80gb",
    "weight_dtype": "fp16",
    "concurrency": "16",
    "isl": "128",
    "osl": "128",
    "script": "lmdeploy",
}


def test_lmdeploys_script_keeps_its_threads_in_step_and_has_no_server() -> None:
    """All prompts of a round wait for each other: 129 ms were published. One token alone took
    11 ms."""
    assert predict_row(LMDEPLOY, 2).metrics["ttft_ms_mean"].value == pytest.approx(129.0, rel=0.25)
    alone = predict_row({**LMDEPLOY, "load": "batch1", "concurrency": "1", "isl": "1"}, 2)
    assert alone.metrics["ttft_ms_mean"].value == pytest.approx(11.0, rel=0.25)
    unknown = predict_row({**LMDEPLOY, "script": ""}, 2)
    assert unknown.metrics["ttft_ms_mean"].value != pytest.approx(129.0, rel=0.25)


def test_equal_answers_stay_in_step_where_prompts_go_first() -> None:
    """128 streams of SGLang that end together wait for each other's prompts; under vLLM their prompts ride along."""
    row = {
        "model": "Qwen/Qwen3-32B",
        "gpu": "h100-sxm",
        "n_gpus": "8",
        "tp": "8",
        "weight_dtype": "bf16",
        "load": "closed",
        "concurrency": "128",
        "isl": "1024",
        "osl": "256",
        "engine": "sglang",
        "engine_version": "0.5.1.post1",
    }
    in_step = predict_row(row | {"length_dist": "fixed"}, 2).metrics
    apart = predict_row(row, 2).metrics  # a row that does not say how its lengths are spread
    assert in_step["ttft_ms_mean"].value == pytest.approx(1615.4, rel=0.15)  # measured
    assert in_step["tpot_ms_mean"].value == pytest.approx(16.2, rel=0.15)
    assert in_step["ttft_ms_mean"].value > 2.5 * apart["ttft_ms_mean"].value
    mixed = row | {"engine": "vllm", "engine_version": "0.20.2"}
    first, second = (predict_row(mixed | {"length_dist": kind}, 2).metrics for kind in ("fixed", ""))
    assert first["ttft_ms_mean"] == second["ttft_ms_mean"]
