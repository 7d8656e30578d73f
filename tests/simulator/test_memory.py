"""What fits: cache sizes that vLLM printed, shares of ranks, formats, refusals."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.parameters import parameter_count
from advisor.catalog.units import GB
from advisor.simulator.deployment import Deployment
from advisor.simulator.memory import MemoryPlan, activation_bytes, kv_share, plan_memory, weight_bytes

PRINTED_TOLERANCE = 0.01
"""Of the cache sizes that vLLM 0.20.2 printed on one H200 at a memory fraction of 0.9."""


def deployment(model: str = "llama-3.1-8b", gpu: str = "h200-sxm", **layout: object) -> Deployment:
    engine = engines.by_id(str(layout.pop("engine", "vllm")))
    return dataclasses.replace(Deployment(models.by_id(model), accelerators.by_id(gpu), engine), **layout)  # type: ignore[arg-type]


def plan(layout: Deployment, **options: float) -> MemoryPlan:
    settings_ = {"num_batched_tokens": 8192, "num_seqs": 256, "memory_fraction": 0.9} | options
    return plan_memory(layout, **settings_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "num_seqs", "num_batched_tokens", "printed_tokens"),
    [("llama-3.1-8b", 128, 2048, 890_496), ("qwen3-30b-a3b", 256, 8192, 732_496)],
)
def test_cache_is_what_vllm_prints(
    model: str, num_seqs: int, num_batched_tokens: int, printed_tokens: int
) -> None:
    found = plan(deployment(model), num_seqs=num_seqs, num_batched_tokens=num_batched_tokens)
    assert found.kv_capacity_tokens == pytest.approx(printed_tokens, rel=PRINTED_TOLERANCE)


@pytest.mark.parametrize(
    "model_id",
    ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-r1", "gemma-3-27b", "qwen3-0.6b", "nemotron-3-nano-30b-a3b"],
)
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_ranks_hold_the_model_at_least_once(model_id: str, tp: int) -> None:
    model = models.by_id(model_id)
    counted = parameter_count(model)
    whole = (counted.total + counted.vision) * bytes_per_element("bf16")
    held = tp * weight_bytes(deployment(model_id, tensor_parallel=tp))
    # Routers, latent down-projections and repeated key-value heads are held on every rank.
    assert 0.99 * whole <= held <= 1.05 * whole


def test_two_ranks_halve_the_weights() -> None:
    one, two = (weight_bytes(deployment("llama-3.1-70b", tensor_parallel=tp)) for tp in (1, 2))
    assert two == pytest.approx(one / 2.0, rel=1e-3)


def test_stages_share_the_layers_and_the_tables() -> None:
    one, two, four = (weight_bytes(deployment("llama-3.1-70b", pipeline_parallel=pp)) for pp in (1, 2, 4))
    table = 128256 * 8192 * 2.0
    layers = one - 2.0 * table
    assert two == pytest.approx(layers / 2.0 + table)
    assert four == pytest.approx(layers / 4.0 + table)


def test_experts_are_shared_by_all_ranks_of_a_stage() -> None:
    # Eight attention data-parallel ranks repeat the attention, not the experts.
    spread = weight_bytes(deployment("deepseek-r1", data_parallel=8, expert_parallel=8, weight_dtype="fp8"))
    tensor = weight_bytes(deployment("deepseek-r1", tensor_parallel=8, expert_parallel=8, weight_dtype="fp8"))
    assert tensor < spread < tensor + 25 * GB


def test_eight_bits_fit_where_sixteen_do_not() -> None:
    with pytest.raises(InfeasibleError) as caught:
        plan(deployment("llama-3.1-70b", "h100-sxm"))
    assert "llama-3.1-70b (bf16) does not fit 1 × h100-sxm" in caught.value.what
    assert "GB per accelerator" in caught.value.why
    assert "more accelerators per replica" in caught.value.fix
    assert plan(deployment("llama-3.1-70b", "h200-sxm", weight_dtype="fp8")).kv_capacity_tokens > 0
    # The reason says by how much: with that much more memory it would fit.
    short_gb = float(caught.value.why.rsplit("by ", 1)[1].removesuffix(" GB"))
    h100 = accelerators.by_id("h100-sxm")
    assert h100.memory_bytes is not None
    larger = h100.model_copy(update={"memory_bytes": h100.memory_bytes + (short_gb + 0.2) / 0.9 * GB})
    assert plan(dataclasses.replace(deployment("llama-3.1-70b"), accelerator=larger)).kv_bytes < 0.5 * GB


def test_unknown_memory_is_refused() -> None:
    unknown = accelerators.by_id("h100-sxm").model_copy(update={"memory_bytes": None})
    with pytest.raises(InfeasibleError, match="memory size has no source"):
        plan(dataclasses.replace(deployment(), accelerator=unknown))


def test_parts_add_up_to_the_fraction() -> None:
    found = plan(deployment())
    used = found.weight_bytes + found.activation_bytes + found.runtime_bytes + found.kv_bytes
    assert used == pytest.approx(0.9 * found.total_bytes)


def test_fraction_of_what_is_left_after_weights() -> None:
    found = plan(deployment(engine="tensorrt-llm"))
    beside = found.weight_bytes + found.activation_bytes + found.runtime_bytes
    assert found.kv_bytes == pytest.approx(0.9 * (found.total_bytes - beside))


@settings(max_examples=25, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 4]),
    num_seqs=st.integers(1, 1024),
    tokens=st.integers(1024, 16384),
    fraction=st.floats(0.6, 0.95),
)
def test_laws_of_the_cache(tp: int, num_seqs: int, tokens: int, fraction: float) -> None:
    base = plan(
        deployment(tensor_parallel=tp), num_seqs=num_seqs, num_batched_tokens=tokens, memory_fraction=fraction
    )
    options = {"num_seqs": num_seqs, "num_batched_tokens": tokens, "memory_fraction": fraction}
    lighter = plan(deployment(tensor_parallel=tp, weight_dtype="fp8"), **options)
    narrower = plan(deployment(tensor_parallel=tp, kv_dtype="fp8"), **options)
    wider = plan(deployment(tensor_parallel=2 * tp), **options)
    assert lighter.kv_capacity_tokens > base.kv_capacity_tokens
    assert narrower.kv_capacity_tokens == pytest.approx(2 * base.kv_capacity_tokens, abs=2)
    # Twice the accelerators hold more than twice the tokens: the weights are divided as well.
    assert wider.kv_capacity_tokens > 2 * base.kv_capacity_tokens
    more = plan(deployment(tensor_parallel=tp), **(options | {"memory_fraction": fraction + 0.04}))
    assert more.kv_capacity_tokens > base.kv_capacity_tokens


def test_share_of_the_cache_with_repeated_heads() -> None:
    qwen = models.by_id("qwen3-30b-a3b")  # 4 key-value heads
    assert [kv_share(qwen, tp) for tp in (1, 2, 4, 8)] == [1.0, 0.5, 0.25, 0.25]
    assert [kv_share(models.by_id("deepseek-r1"), tp) for tp in (1, 8)] == [1.0, 1.0]
    # Gemma 3: windowed and full layers have the same heads.
    assert kv_share(models.by_id("gemma-3-27b"), 2) == 0.5


def test_data_parallel_ranks_add_their_caches() -> None:
    spread = plan(deployment("deepseek-r1", data_parallel=8, expert_parallel=8, weight_dtype="fp8"))
    tensor = plan(deployment("deepseek-r1", tensor_parallel=8, expert_parallel=8, weight_dtype="fp8"))
    # Latent vectors are repeated under tensor parallelism, so data parallelism holds several times as many.
    assert 4 < spread.kv_capacity_tokens / tensor.kv_capacity_tokens < 8


def test_windows_and_states_take_less_of_long_sequences() -> None:
    gemma = deployment("gemma-3-27b", tensor_parallel=2)
    short, long = (plan(gemma, mean_context_tokens=tokens) for tokens in (1024.0, 65536.0))
    assert long.kv_capacity_tokens > 3 * short.kv_capacity_tokens
    hybrid = deployment("qwen3-next-80b-a3b", tensor_parallel=2)
    few, many = (plan(hybrid, mean_context_tokens=tokens) for tokens in (256.0, 65536.0))
    assert few.state_bytes_per_sequence > 0
    assert many.kv_capacity_tokens > few.kv_capacity_tokens


def test_activations_grow_with_budget_and_sequences() -> None:
    layout = deployment()
    assert activation_bytes(layout, 16384, 1) == pytest.approx(2.0 * activation_bytes(layout, 8192, 1))
    assert activation_bytes(layout, 1, 1024) == pytest.approx(1024 * 128256 * 14.0)
    # Attention data-parallel ranks share tokens and sequences.
    spread = deployment("deepseek-r1", data_parallel=8, expert_parallel=8)
    alone = deployment("deepseek-r1")
    assert activation_bytes(spread, 8192, 8) == pytest.approx(activation_bytes(alone, 1024, 1))
