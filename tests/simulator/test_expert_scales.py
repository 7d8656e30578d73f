"""Routed experts and launches in an engine, against the same kernels measured alone."""

import dataclasses

import numpy as np
import pytest

from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.engine_costs import default_costs
from advisor.simulator.engine_costs import operator_library as library
from advisor.simulator.operators.grouped_matmul import GroupedMatmulEfficiency, busiest_rank_surplus
from advisor.simulator.operators.matmul import MatmulEfficiency
from advisor.simulator.surface import decode_breakdown_s

COSTS = default_costs()


def deployment(model: str, gpu: str, dtype: str = "bf16", **layout: int) -> Deployment:
    return named_deployment(model, gpu, weight_dtype=dtype, **layout)


@pytest.mark.parametrize(
    ("model", "dtype", "scale"),
    [("mixtral-8x7b", "bf16", 0.882), ("gpt-oss-120b", "mxfp4", 0.5), ("gpt-oss-120b", "bf16", 0.875)],
)
def test_routing_spares_experts_that_have_few_rows(model: str, dtype: str, scale: float) -> None:
    """A quarter of what it spares of narrow formats where experts are multiplied in 16 bits, and less where there are
    few of them, as each has four rows of sixteen sequences."""
    chosen = deployment(model, "h200-sxm", dtype)
    all_read, spared = (
        decode_breakdown_s(
            chosen, library(chosen), dataclasses.replace(COSTS, expert_scale=value), 16, 500.0
        )["experts"]
        for value in (1.0, 0.5)
    )
    assert spared == pytest.approx(scale * all_read, rel=0.01)


def test_what_the_busiest_rank_has_beyond_the_mean_is_not_spared() -> None:
    """Of 16 sequences times 8 experts, the busiest of 8 ranks gets some 1.5 times the mean of all."""

    def saving(ranks: int) -> float:
        chosen = deployment("qwen3-235b-a22b", "h100-sxm", "fp8", tensor_parallel=8, expert_parallel=ranks)
        costs = [dataclasses.replace(COSTS, expert_scale=scale) for scale in (1.0, 0.8)]
        whole, less = (decode_breakdown_s(chosen, library(chosen), of, 16, 500.0)["experts"] for of in costs)
        return 1.0 - less / whole

    surplus = float(busiest_rank_surplus(np.array([16.0 * 8.0]), 128, 8)[0])
    assert 1.4 < surplus < 1.9
    assert saving(8) == pytest.approx(saving(1) / surplus, rel=1e-6)
    assert float(busiest_rank_surplus(np.array([128.0]), 128, 1)[0]) == 1.0


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm"])
def test_an_engine_scales_the_launches_of_all_operators(gpu: str) -> None:
    found = library(deployment("qwen3-30b-a3b", gpu))
    less = found.with_launch_scale(0.5)
    for kind, operator, dtype in (
        (MatmulEfficiency, "matmul", "bf16"),
        (MatmulEfficiency, "matmul", "fp8_block"),
        (GroupedMatmulEfficiency, "grouped_matmul", "bf16"),
        (GroupedMatmulEfficiency, "grouped_matmul", "fp8_block"),
    ):
        alone_s = found.parameters(kind, operator, dtype).launch_s
        assert less.parameters(kind, operator, dtype).launch_s == pytest.approx(0.5 * alone_s)


def test_large_batches_spare_no_experts() -> None:
    chosen = deployment("gpt-oss-120b", "h200-sxm", "mxfp4")

    def time_s(scale: float, batch: int) -> float:
        costs = dataclasses.replace(COSTS, expert_scale=scale)
        return decode_breakdown_s(chosen, library(chosen), costs, batch, 500.0)["experts"]

    spared = [1.0 - time_s(0.5, batch) / time_s(1.0, batch) for batch in (1, 64, 256, 1024)]
    assert spared == sorted(spared, reverse=True)
    assert spared[0] == pytest.approx(0.5, abs=1e-3)
    assert spared[-1] < 0.11
