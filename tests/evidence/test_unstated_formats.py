"""Formats and dates that published tables leave out."""

import dataclasses

import pytest

from advisor.catalog import models
from advisor.catalog.dtypes import DTYPES
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.published import served_model
from advisor.catalog.schema import GatedDeltaNet
from advisor.evidence.serving.case import ServingCase, as_published, parse_case, with_date
from advisor.evidence.serving.deployment import by_its_publisher, deployment_of, replica_of
from advisor.evidence.serving.disaggregated import disaggregated_model
from advisor.evidence.serving.prediction import predict_case
from advisor.evidence.serving.recipe import costs_as_started, recipe_for
from advisor.evidence.serving.scripts import PublishedRun, all_formats, first_of
from advisor.simulator.deployment import cache_dtype_of
from advisor.simulator.engine_costs import default_costs, engine_costs
from advisor.simulator.step_cost import decode_iteration_s

ROW = {
    "case_id": "x",
    "engine": "sglang",
    "engine_version": "0.5.8",
    "date": "2026-03-04",
    "model": "Qwen/Qwen3.5-397B-A17B",
    "gpu": "h200-sxm",
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
VLLM_70B = {"engine": "vllm", "engine_version": "", "model": "meta-llama/Llama-3.1-70B", "date": "2025-10-29"}


def case(**changes: str) -> ServingCase:
    return parse_case({**ROW, **changes}, 2)


def test_formats_are_known_to_the_catalog() -> None:
    for formats in all_formats():
        assert formats.kv_dtype in DTYPES
        assert formats.state_dtype in ("", *DTYPES)
        assert set(formats.weight_dtypes) <= set(DTYPES)


def test_a_benchmarks_scripts_choose_first_of_cache_and_states() -> None:
    found = deployment_of(case())
    assert found.kv_dtype == "fp8"
    states = {g.mixer.state_dtype for g in found.model.layers if isinstance(g.mixer, GatedDeltaNet)}
    assert states == {"bf16"}


@pytest.mark.parametrize(
    "changes",
    [
        {"kv_dtype": "bf16"},
        {"length_dist": "fixed"},
        {"num_requests": "100"},
        {"gpu": "b200-sxm", "weight_dtype": "bf16"},
    ],
)
def test_what_a_row_states_and_other_protocols_stay(changes: dict[str, str]) -> None:
    found = deployment_of(case(**changes))
    assert found.kv_dtype == "bf16"
    states = {g.mixer.state_dtype for g in found.model.layers if isinstance(g.mixer, GatedDeltaNet)}
    assert states == {"fp32"}


def test_scripts_changed_on_a_day() -> None:
    def finds_format(date: str) -> bool:
        run = PublishedRun("inferencex", "vllm", "kimi-k2.5", "blackwell", "nvfp4", date)
        return first_of(all_formats(), run) is not None

    assert not finds_format("2026-03-27")
    assert finds_format("2026-04-20")
    assert not finds_format("")


@pytest.mark.parametrize(
    ("model", "stated", "loaded"),
    [
        ("deepseek-ai/DeepSeek-Math-V2", "bf16", "fp8"),
        ("mistralai/Ministral-3-14B-Instruct-2512", "bf16", "fp8"),
        ("mistralai/Ministral-3-14B-Base-2512", "bf16", "bf16"),
        ("meta-llama/Llama-2-7b-hf", "fp16", "fp16"),
        ("nvidia/MiniMax-M2.5-NVFP4", "bf16", "nvfp4"),
        ("Qwen/Qwen3.5-397B-A17B", "fp8", "fp8"),
        ("somebody/Ministral-3-14B-Instruct-2512-BF16", "bf16", "bf16"),
    ],
)
def test_engines_load_checkpoints_as_published(model: str, stated: str, loaded: str) -> None:
    assert as_published(case(model=model, weight_dtype=stated)).weight_dtype == loaded


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm", "mi300x"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-70B", "moonshotai/Kimi-K2.5", "Qwen/Qwen3-32B"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
def test_a_cache_without_a_stated_format_is_the_one_that_a_plan_of_the_same_checkpoint_has(
    weights: str, model: str, engine: str, gpu: str
) -> None:
    """A row's server and a plan's are the same program with the same files, the publisher's own if there are."""
    try:
        found = deployment_of(
            case(model=model, weight_dtype=weights, engine=engine, gpu=gpu, length_dist="mean")
        )
    except AdvisorError:
        return
    record = models.by_id(models.get(model).record.id)
    served = served_model(
        by_its_publisher(record, found.engine, weights), found.engine, weights, found.accelerator
    )
    assert found.kv_dtype == cache_dtype_of(served, found.engine, found.accelerator)
    assert deployment_of(case(model=model, weight_dtype=weights, kv_dtype="bf16")).kv_dtype == "bf16"


@pytest.mark.parametrize(
    ("model", "weights", "cache"),
    [
        ("Qwen/Qwen3-32B", "fp8", "bf16"),
        ("Qwen/Qwen3-235B-A22B", "fp8", "bf16"),
        ("Qwen/Qwen3-235B-A22B", "nvfp4", "fp8"),
        ("meta-llama/Llama-3.1-405B", "fp8", "fp8"),
        ("deepseek-ai/DeepSeek-R1", "nvfp4", "fp8"),
    ],
)
def test_a_checkpoint_of_the_models_publisher_comes_before_a_vendors(
    model: str, weights: str, cache: str
) -> None:
    """Qwen's own files in fp8 declare no format of the cache, NVIDIA's do; only NVIDIA has some in nvfp4, and
    TensorRT-LLM does not load Meta's in fp8."""
    row = {"engine": "tensorrt-llm", "engine_version": "1.2.0rc1", "gpu": "b200-sxm", "length_dist": "fixed"}
    assert deployment_of(case(**row, model=model, weight_dtype=weights, num_requests="")).kv_dtype == cache


def test_nvidias_published_70b_in_8_bits_keeps_an_8_bit_cache() -> None:
    """NVIDIA's NIM documentation, Llama-3.1-70B in fp8 on two H100s: some 100 of 250 clients with 5 000 tokens are
    served at once, the others wait for 88.6 s; a cache of 16 bits would hold half as many."""
    row = VLLM_70B | {"engine": "tensorrt-llm", "gpu": "h100-sxm", "n_gpus": "2", "tp": "2"}
    load = {"concurrency": "250", "isl": "5000", "osl": "500", "length_dist": "fixed", "num_requests": ""}
    found = predict_case(case(**row, **load)).metrics
    assert found["ttft_ms_mean"].value == pytest.approx(88_605, rel=0.1)
    assert found["tpot_ms_mean"].value == pytest.approx(93.2, rel=0.05)


def test_a_run_whose_weights_fit_only_as_published_is_predicted() -> None:
    """Eight B200s served DeepSeek-Math-V2 to one client with 18.0 ms per token; its table says bf16."""
    row = {
        "model": "deepseek-ai/DeepSeek-Math-V2",
        "gpu": "b200-sxm",
        "weight_dtype": "bf16",
        "ep": "8",
        "date": "",
    }
    lengths = {"isl": "197", "osl": "278", "length_dist": "mean", "concurrency": "1", "num_requests": "10"}
    found = predict_case(case(**row, **lengths))
    assert found.metrics["tpot_ms_mean"].value == pytest.approx(18.0, rel=0.2)


def test_weights_of_an_unstated_format_that_would_not_fit_have_8_bits() -> None:
    """GLM-4.5-Air, 107 billion parameters on two H100s: a run was measured, so that 16 bits cannot have been meant."""
    air = {"model": "zai-org/GLM-4.5-Air", "gpu": "h100-sxm", "n_gpus": "2", "tp": "2"}
    assert replica_of(case(**air, weight_dtype="")).deployment.weight_dtype == "fp8"
    with pytest.raises(InfeasibleError):
        replica_of(case(**air, weight_dtype="bf16"))


def test_a_published_run_whose_weights_fill_the_memory_raised_its_share() -> None:
    """DeepSeek-R1 in 8 bits on four B200s, under an engine whose share follows from what it reserves."""
    tight = {"model": "deepseek-ai/DeepSeek-R1", "gpu": "b200-sxm", "n_gpus": "4", "tp": "4"}
    assert replica_of(case(**tight)).memory.kv_bytes > 0
    with pytest.raises(InfeasibleError):
        replica_of(parse_case({**ROW, **tight}, 2, view="stranger"))


def test_workers_of_unstated_degrees_split_their_accelerators() -> None:
    row = {
        "model": "deepseek-ai/DeepSeek-R1",
        "gpu": "mi355x",
        "n_gpus": "24",
        "tp": "",
        "ep": "8",
        "mode": "disagg",
    }
    pools = {"prefill_gpus": "8", "decode_gpus": "16", "num_prefill_workers": "1", "num_decode_workers": "2"}
    stated = case(**row, **pools, weight_dtype="mxfp4")
    found = disaggregated_model(stated, deployment_of(stated))
    workers = (found.prefill_worker, found.decode_worker)
    assert [each.deployment.tensor_parallel for each in workers] == [8, 8]


@pytest.mark.parametrize(("dp", "ep", "experts"), [("1", "1", 1), ("1", "8", 8), ("8", "8", 8)])
def test_prompts_have_the_experts_of_the_engines_default_where_none_are_stated(
    dp: str, ep: str, experts: int
) -> None:
    row = {"model": "Qwen/Qwen3-235B-A22B", "gpu": "h200-sxm", "n_gpus": "16", "mode": "disagg", "tp": "8"}
    row |= {"tp": "1"} if dp != "1" else {}
    pools = {"prefill_gpus": "8", "decode_gpus": "8", "num_prefill_workers": "1", "num_decode_workers": "1"}
    stated = case(**row, **pools, dp=dp, ep=ep, weight_dtype="fp8", prefill_tp=row["tp"], prefill_dp=dp)
    found = disaggregated_model(stated, deployment_of(stated))
    assert found.prefill_worker.deployment.expert_parallel == experts


def test_two_pools_store_what_one_does() -> None:
    pools = case(engine="tensorrt-llm", model="deepseek-ai/DeepSeek-R1", mode="disagg", date="2026-01-29")
    assert deployment_of(pools).kv_dtype == "fp8"


def test_a_smaller_cache_holds_more_and_is_read_faster() -> None:
    small, wide = (
        replica_of(
            case(
                engine="atom", engine_version="", model="deepseek-ai/DeepSeek-R1", gpu="mi355x", kv_dtype=cell
            )
        )
        for cell in ("", "bf16")
    )
    times_s = [decode_iteration_s(found.surface, 64, 8000.0) for found in (small, wide)]
    assert times_s[0] < 0.95 * times_s[1]
    assert small.memory.kv_capacity_tokens > 1.9 * wide.memory.kv_capacity_tokens


@pytest.mark.parametrize(
    ("date", "model", "expected"),
    [
        ("2025-2026", "Qwen/Qwen3.5-9B", "2026-02-01"),
        ("2025-2026", "Qwen/Qwen3-8B", "2026-01-01"),
        ("2025", "Qwen/Qwen3.5-9B", "2026-02-01"),
        ("2025-10-29", "Qwen/Qwen3.5-9B", "2025-10-29"),
        ("", "Qwen/Qwen3.5-9B", ""),
        ("2025-2026", "nobody/Nothing-7B", "2026-01-01"),
    ],
)
def test_no_run_took_place_before_its_model_was_released(date: str, model: str, expected: str) -> None:
    assert with_date(case(date=date, model=model)).date == expected


def test_a_script_may_ask_for_steps_prepared_ahead() -> None:
    asked = case(**VLLM_70B)
    recipe = recipe_for(asked, deployment_of(asked))
    assert recipe is not None
    assert recipe.async_scheduling
    own = engine_costs(deployment_of(asked).engine, date=asked.date)
    started = costs_as_started(own, recipe)
    assert (started.step_s, started.sequence_s) == (default_costs().step_s, default_costs().sequence_s)
    assert own.step_s > started.step_s
    assert costs_as_started(own, None) == own
    assert costs_as_started(started, recipe) == started


def test_several_tokens_a_message_cost_one_message() -> None:
    row = {"engine": "tensorrt-llm", "engine_version": "", "gpu": "b200-sxm", "date": "2025-11-02"}
    asked = case(**row, model="openai/gpt-oss-120b", weight_dtype="mxfp4")
    own = engine_costs(deployment_of(asked).engine, date=asked.date)
    started = costs_as_started(own, recipe_for(asked, deployment_of(asked)))
    assert own.message_s == pytest.approx(65e-6)
    assert started.message_s == pytest.approx(own.message_s / 20)
    assert started.delivery_s == own.delivery_s
    replica = replica_of(asked)
    assert replica.policy.delivery_ps == pytest.approx(1e12 * (own.delivery_s + own.message_s / 20), abs=1.0)


def test_a_server_that_sends_every_token_alone_keeps_first_tokens_waiting() -> None:
    """Llama-3.1-8B on two H100s, 128 clients, 512 tokens out: 1 106 ms to the first token, 11.75 between tokens."""
    row = {
        **ROW,
        "engine": "tensorrt-llm",
        "engine_version": "1.0.0rc3",
        "date": "",
        "gpu": "h100-sxm",
        "n_gpus": "2",
        "tp": "2",
        "model": "meta-llama/Llama-3.1-8B",
        "weight_dtype": "bf16",
        "osl": "512",
        "concurrency": "128",
        "length_dist": "fixed",
        "num_requests": "",
    }
    alone = parse_case(row, 2)
    found = predict_case(alone).metrics["ttft_ms_mean"].value
    costs = dataclasses.replace(engine_costs(deployment_of(alone).engine, version="1.0.0rc3"), message_s=0.0)
    together = predict_case(alone, costs=costs).metrics["ttft_ms_mean"].value
    assert together < 300.0 < found < 2000.0
