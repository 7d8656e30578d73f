"""One pass of all layers: categories, shares of ranks and stages, formats, what decode leaves out."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import accelerators, engines, models
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.device import device_of
from advisor.simulator.graph.forward_pass import (
    CATEGORIES,
    TokenCosts,
    decode_lines,
    head_s,
    prefill_lines,
    token_costs,
)
from advisor.simulator.graph.model import window_of
from advisor.simulator.operator_library import OperatorLibrary, matmul_key
from advisor.simulator.operators.matmul import MatmulEfficiency

TOKENS = np.array([1.0, 8.0, 64.0, 512.0, 4096.0])


def deployment(model: str, gpu: str = "h100-sxm", dtype: str = "bf16", **layout: int) -> Deployment:
    accelerator = accelerators.by_id(gpu)
    return Deployment(
        models.by_id(model),
        accelerator,
        engines.by_id("vllm"),
        weight_dtype=dtype,
        activation_dtype=activation_dtype_for(dtype, accelerator),
        **layout,
    )


def library(layout: Deployment) -> OperatorLibrary:
    return OperatorLibrary(device_of(layout.accelerator), "vllm")


def costs(layout: Deployment, *, decode: bool = True) -> TokenCosts:
    return token_costs(layout, library(layout), TOKENS, decode=decode)


def test_categories_add_up() -> None:
    found = costs(deployment("qwen3-next-80b-a3b", tensor_parallel=2))
    assert set(found.seconds) == set(CATEGORIES)
    assert found.total_s == pytest.approx(sum(found.seconds.values()))
    assert (found.total_s > 0).all()


@pytest.mark.parametrize(
    ("model", "layout", "present"),
    [
        ("llama-3.1-8b", {}, {"attention_projections", "feed_forward", "small_operators"}),
        (
            "llama-3.1-8b",
            {"tensor_parallel": 2},
            {"attention_projections", "feed_forward", "small_operators", "collectives"},
        ),
        ("qwen3-30b-a3b", {}, {"attention_projections", "feed_forward", "experts", "small_operators"}),
        (
            "qwen3-next-80b-a3b",
            {"tensor_parallel": 2},
            {
                "attention_projections",
                "feed_forward",
                "experts",
                "state_space",
                "small_operators",
                "collectives",
            },
        ),
    ],
)
def test_only_what_a_model_has_costs_time(model: str, layout: dict[str, int], present: set[str]) -> None:
    found = costs(deployment(model, **layout))
    assert {name for name, seconds in found.seconds.items() if seconds.any()} == present


def test_stages_hold_equal_shares_of_the_layers() -> None:
    whole, half = (
        costs(deployment("llama-3.1-70b", dtype="fp8", pipeline_parallel=pp)).total_s for pp in (1, 2)
    )
    assert half == pytest.approx(whole / 2.0)


def test_attention_ranks_share_tokens_and_meet_at_the_experts() -> None:
    alone = costs(deployment("deepseek-r1", "h200-sxm", "fp8", expert_parallel=1))
    spread = costs(deployment("deepseek-r1", "h200-sxm", "fp8", data_parallel=8, expert_parallel=8))
    # A rank of eight multiplies an eighth of the tokens: 4096 cost it what 512 cost one alone.
    name = "attention_projections"
    assert spread.seconds[name][-1] == pytest.approx(alone.seconds[name][-2])
    assert alone.seconds["collectives"].sum() == 0.0
    assert (spread.seconds["exchange"] > 0).all()
    assert (spread.seconds["experts"] < alone.seconds["experts"]).all()


def test_latent_attention_decodes_without_its_up_projection() -> None:
    layout = deployment("deepseek-r1", "h200-sxm", "fp8", tensor_parallel=8)
    decode = costs(layout, decode=True)
    prefill = costs(layout, decode=False)
    name = "attention_projections"
    assert decode.seconds[name][0] != prefill.seconds[name][0]
    assert decode.seconds["experts"] == pytest.approx(prefill.seconds["experts"])


def test_fewer_bits_take_less_time_where_weights_are_read() -> None:
    wide, narrow = (costs(deployment("llama-3.1-8b", dtype=dtype)).total_s for dtype in ("bf16", "fp8"))
    assert narrow[0] < 0.7 * wide[0]
    assert narrow[-1] < wide[-1]


def test_four_bit_experts_leave_attention_in_16_bits() -> None:
    name = "attention_projections"
    bf16, nvfp4 = (costs(deployment("deepseek-r1", "b200-sxm", d)).seconds for d in ("bf16", "nvfp4"))
    assert nvfp4[name] == pytest.approx(bf16[name])
    assert nvfp4["experts"][2] < 0.5 * bf16["experts"][2]


def test_other_matrices_use_the_format_that_the_model_names() -> None:
    """DeepSeek V4 has fp8 beside mxfp4 experts: its attention costs what it would in fp8."""
    name = "attention_projections"
    mixed = costs(deployment("deepseek-v4-flash", "b200-sxm", "mxfp4")).seconds
    fp8 = costs(deployment("deepseek-v4-flash", "b200-sxm", "fp8")).seconds
    bf16 = costs(deployment("deepseek-v4-flash", "b200-sxm", "bf16")).seconds
    assert mixed[name] == pytest.approx(fp8[name])
    assert mixed[name][-1] < bf16[name][-1]  # few tokens wait for launches, whatever the format


@pytest.mark.parametrize(
    ("weights", "activations", "block", "key"),
    [
        ("bf16", "bf16", False, "bf16"),
        ("fp16", "bf16", False, "bf16"),
        ("fp8", "fp8", False, "fp8"),
        ("fp8", "fp8", True, "fp8_block"),
        ("fp8", "bf16", True, "int8_wo"),
        ("int4", "bf16", False, "int4_wo"),
        ("nvfp4", "nvfp4", True, "nvfp4"),
        ("nvfp4", "bf16", False, "int4_wo"),
        ("mxfp4", "fp8", False, "w4a8_mxfp4"),
        ("mxfp4", "bf16", False, "mxfp4_wo"),
        ("q4_k_m", "bf16", False, "int4_wo"),
        ("int8", "int8", False, "int8"),
    ],
)
def test_kernel_family_of_two_formats(weights: str, activations: str, block: bool, key: str) -> None:
    assert matmul_key(weights, activations, block_scaled=block) == key


def test_head_reads_the_vocabulary_once() -> None:
    layout = deployment("llama-3.1-8b")
    seconds = head_s(layout, library(layout), np.array([1.0, 64.0]))
    read_s = 128256 * 4096 * 2.0 / 3.35e12
    assert 1.0 < seconds[0] / read_s < 1.4
    assert seconds[1] > seconds[0]
    halves = deployment("llama-3.1-8b", tensor_parallel=2)
    assert head_s(halves, library(halves), np.array([1.0]))[0] < seconds[0]


def test_the_head_counts_the_sequences_of_a_data_parallel_rank() -> None:
    one = deployment("deepseek-r1", "h200-sxm", "fp8", tensor_parallel=2)
    four = replace(one, data_parallel=4, expert_parallel=8)
    counts = np.array([64.0, 256.0])
    np.testing.assert_array_equal(
        head_s(four, library(four), 4.0 * counts), head_s(one, library(one), counts)
    )


def test_decode_attention_is_divided_among_ranks() -> None:
    batch = np.array([8.0, 64.0])
    one, four = (
        decode_lines(layout, library(layout), batch, 1000.0, 3000.0)
        for layout in (deployment("llama-3.1-70b", tensor_parallel=tp) for tp in (1, 4))
    )
    assert four.slope_s == pytest.approx(one.slope_s / 4, rel=0.15)
    assert one.window_tokens is None
    # Ranks of data parallelism hold a share of the summed context each.
    spread = deployment("deepseek-r1", "h200-sxm", data_parallel=8)
    single = deployment("deepseek-r1", "h200-sxm")
    slopes = [
        decode_lines(d, library(d), np.array([n]), 1e3, 3e3).slope_s[0]
        for d, n in ((spread, 64.0), (single, 8.0))
    ]
    assert slopes[0] == pytest.approx(slopes[1] / 8)


def test_a_narrow_cache_is_read_faster() -> None:
    wide = deployment("llama-3.1-8b")
    narrow = Deployment(wide.model, wide.accelerator, wide.engine, kv_dtype="fp8")
    batch = np.array([32.0])
    slopes = [decode_lines(d, library(d), batch, 4e3, 12e3).slope_s[0] for d in (wide, narrow)]
    assert slopes[1] < 0.8 * slopes[0]


def test_windows_and_sparse_attention_count_as_windows() -> None:
    assert window_of(models.by_id("gemma-3-27b")) == 1024
    assert window_of(models.by_id("gpt-oss-120b")) == 128
    assert window_of(models.by_id("deepseek-v3.2")) == 2048
    assert window_of(models.by_id("llama-3.1-8b")) is None
    gemma = deployment("gemma-3-27b")
    lines = prefill_lines(gemma, library(gemma), 2048.0, 4096.0)
    assert lines.window_pair_s > lines.pair_s > 0
    state_only = prefill_lines(
        deployment("qwen3-next-80b-a3b"), library(deployment("qwen3-next-80b-a3b")), 2048.0, 4096.0
    )
    dense = prefill_lines(deployment("qwen3-30b-a3b"), library(gemma), 2048.0, 4096.0)
    assert 0 < state_only.pair_s < dense.pair_s  # twelve layers of 48 attend


def test_products_that_are_asked_for_again_are_those_of_what_is_assumed_now():
    layout = deployment("llama-3.1-8b")
    kernels = library(layout)
    whole = kernels.matmul_s(TOKENS, 4096, 4096, "bf16")
    assert (kernels.matmul_s(TOKENS[:2], 4096, 4096, "bf16") == whole[:2]).all()
    assert (kernels.matmul_s(TOKENS[1:], 4096, 4096, "bf16") == whole[1:]).all()
    parameters = kernels.parameters(MatmulEfficiency, "matmul", "bf16")
    kernels.assume("matmul", "bf16", replace(parameters, launch_s=parameters.launch_s + 1e-3))
    assert kernels.matmul_s(TOKENS[1:], 4096, 4096, "bf16") == pytest.approx(whole[1:] + 1e-3)


def test_a_compiler_quantises_where_norms_and_activations_write():
    """fp8 inputs cost nothing of their own but behind attention; other formats and 16 bits are as they were."""
    layout = deployment("llama-3.1-8b", "h200-sxm", "fp8")
    alone = library(layout)
    fused = replace(alone, fused_quantisation=True)
    tokens = np.array([2048.0])
    saved_s = alone.matmul_s(tokens, 4096, 4096, "fp8") - fused.matmul_s(tokens, 4096, 4096, "fp8")
    assert 10e-6 < float(saved_s[0]) < 40e-6
    behind = {"behind_kernel": False}
    assert fused.matmul_s(tokens, 4096, 4096, "fp8", **behind) == alone.matmul_s(tokens, 4096, 4096, "fp8")
    for dtype in ("bf16", "fp8_block"):
        assert fused.matmul_s(tokens, 4096, 4096, dtype) == alone.matmul_s(tokens, 4096, 4096, dtype)
    first, last = (token_costs(layout, kernels, tokens, decode=False).total_s for kernels in (alone, fused))
    assert 1.05 < float(first[0] / last[0]) < 1.3
