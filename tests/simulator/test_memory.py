"""Memory plans against numbers that others computed or printed, and their conservation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Model
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import kv_share
from advisor.simulator.memory import MemoryPlan, plan_memory, weight_bytes
from advisor.simulator.memory_account import account_memory

VLLM = engines.get("vllm").record


def model(name: str) -> Model:
    return models.get(name).record


def deployment(name: str, gpu: str, **layout: object) -> Deployment:
    return Deployment(model(name), accelerators.by_id(gpu), VLLM, **layout)  # type: ignore[arg-type]


def plan(chosen: Deployment, **changes: float) -> MemoryPlan:
    return plan_memory(chosen, **{"num_batched_tokens": 2048, "num_seqs": 256, **changes})  # type: ignore[arg-type]


def test_llama_2_7b_in_bf16_weighs_13_5_gb() -> None:
    assert weight_bytes(deployment("llama-2-7b", "a100-sxm-80gb")) == pytest.approx(13.48e9, rel=0.002)


def test_int4_leaves_embedding_and_head_in_16_bits() -> None:
    tables = 2 * 32000 * 4096 * 2
    layers = (6.738e9 - 2 * 32000 * 4096) * 4.15625 / 8
    found = weight_bytes(deployment("llama-2-7b", "a100-sxm-80gb", weight_dtype="int4"))
    assert found == pytest.approx(tables + layers, rel=0.001)


def test_mixtral_under_expert_parallelism_8_weighs_14_5_gb() -> None:
    apart = deployment("mixtral-8x7b", "h100-sxm", data_parallel=8, expert_parallel=8)
    assert weight_bytes(apart) == pytest.approx(14.5e9, rel=0.003)
    together = deployment("mixtral-8x7b", "h100-sxm", tensor_parallel=8, expert_parallel=8)
    assert weight_bytes(together) == pytest.approx(46.7e9 * 2 / 8, rel=0.003)


def test_a_7b_with_int4_on_an_a100_holds_68_sequences_of_2k() -> None:
    found = plan(deployment("llama-2-7b", "a100-sxm-80gb", weight_dtype="int4"))
    assert found.kv_capacity_tokens // 2048 == 68
    assert found.kv_capacity_tokens // 8192 == 17


@pytest.mark.parametrize(("tp", "parts"), [(1, 1), (4, 4), (8, 8), (16, 8)])
def test_kv_heads_are_divided_until_there_is_one_each(tp: int, parts: int) -> None:
    assert kv_share(model("llama-3-70b"), tp) == pytest.approx(1 / parts)


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm", "llama.cpp", "sglang"])
@pytest.mark.parametrize("gpu", ["h100-sxm", "rtx-4090", "b200-sxm"])
def test_what_is_missing_is_the_excess_of_the_weights_and_the_cache(engine: str, gpu: str) -> None:
    """The parts of a model that does not fit are those of one that fits, so that they add up to what is missing."""
    record = engines.get(engine).record
    fitting, large = (
        account_memory(Deployment(model(name), accelerators.by_id(gpu), record), 4096, 1)
        for name in ("llama-3.1-8b", "llama-3.1-405b")
    )
    assert large.problem
    assert not fitting.problem
    assert large.runtime_bytes == fitting.runtime_bytes > 0.0
    missing = -large.free_bytes - large.cache_bytes
    assert large.problem.endswith(f"by {missing / 1e9:.1f} GB")


def test_latent_vectors_are_not_divided() -> None:
    assert kv_share(model("deepseek-v3"), 8) == 1.0


def test_a_cache_of_32k_times_8_is_21_5_gb_per_gpu_under_tp_4() -> None:
    found = plan(deployment("llama-3-70b", "h100-sxm", tensor_parallel=4))
    assert found.kv_bytes_per_token * 8 * 32768 == pytest.approx(21.47e9, rel=0.001)


def test_70b_does_not_fit_one_h100_and_says_by_how_much() -> None:
    with pytest.raises(InfeasibleError, match="does not fit 1 × h100-sxm") as error:
        plan(deployment("llama-3-70b", "h100-sxm"))
    assert error.value.why
    assert "141.1 GB" in error.value.why


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    dtype=st.sampled_from(["bf16", "fp8", "int4"]),
    tokens=st.integers(512, 16384),
    fraction=st.floats(0.7, 0.98),
)
def test_the_parts_fill_what_the_engine_may_use(tp: int, dtype: str, tokens: int, fraction: float) -> None:
    chosen = deployment("llama-3.1-8b", "h100-sxm", tensor_parallel=tp, weight_dtype=dtype)
    found = plan(chosen, num_batched_tokens=tokens, memory_fraction=fraction)
    used = found.weight_bytes + found.activation_bytes + found.runtime_bytes + found.kv_bytes
    assert used == pytest.approx(fraction * found.total_bytes)
    assert found.kv_capacity_tokens * found.kv_bytes_per_token <= found.kv_bytes


def test_a_state_takes_its_place_once_per_sequence() -> None:
    long, short = (
        plan(deployment("nemotron-h-56b", "h200-sxm", weight_dtype="fp8"), mean_context_tokens=tokens)
        for tokens in (32768.0, 1024.0)
    )
    assert short.state_bytes_per_sequence == long.state_bytes_per_sequence > 0
    assert short.kv_capacity_tokens < long.kv_capacity_tokens / 5


@pytest.mark.parametrize(
    ("name", "num_seqs", "num_batched_tokens", "printed"),
    [("llama-3.1-8b", 128, 2048, 890_496), ("qwen3-30b-a3b", 256, 8192, 732_496)],
)
def test_the_cache_is_as_large_as_vllm_prints(
    name: str, num_seqs: int, num_batched_tokens: int, printed: int
) -> None:
    """vLLM 0.20.2 on one H200, memory fraction 0.9, own runs: "GPU KV cache size: N tokens"."""
    chosen = deployment(name, "h200-sxm")
    found = plan(chosen, num_batched_tokens=num_batched_tokens, num_seqs=num_seqs, memory_fraction=0.9)
    assert found.kv_capacity_tokens == pytest.approx(printed, rel=0.01)


def test_what_left_a_window_stays_where_an_engine_keeps_it() -> None:
    """gpt-oss: half of the layers see 128 tokens. TensorRT-LLM's cache is as long in all of them, SGLang's pools hold
    0.8 times the tokens there; with whole attention all agree."""

    def bytes_per_token(engine: str, name: str, context: float) -> float:
        chosen = Deployment(model(name), accelerators.by_id("h200-sxm"), engines.by_id(engine))
        return plan(chosen, mean_context_tokens=context).kv_bytes_per_token

    whole = 24 * 2 * 8 * 64 * 2
    for engine, windowed in (("vllm", 128 / 8192), ("sglang", 0.8), ("tensorrt-llm", 1.0)):
        assert bytes_per_token(engine, "gpt-oss-20b", 8192.0) == pytest.approx(whole * (1 + windowed) / 2)
        assert bytes_per_token(engine, "gpt-oss-20b", 100.0) == pytest.approx(whole)
        assert bytes_per_token(engine, "llama-3.1-8b", 8192.0) == pytest.approx(32 * 2 * 8 * 128 * 2)


def test_llama_cpp_looks_tokens_up_in_host_memory_that_is_not_the_cards() -> None:
    """Llama-3.1-8B in 16 bits then runs on cards of 16 GiB; an Apple chip has one memory for both."""

    def weights(engine: str, gpu: str) -> float:
        chosen = Deployment(
            model("llama-3.1-8b"), accelerators.by_id(gpu), engines.by_id(engine), weight_dtype="fp16"
        )
        return weight_bytes(chosen)

    table = 128256 * 4096 * 2
    assert weights("vllm", "rtx-4080") - weights("llama.cpp", "rtx-4080") == pytest.approx(table)
    assert weights("llama.cpp", "m3-ultra") == pytest.approx(weights("vllm", "rtx-4080"))
