"""Laws and measured anchors of latent attention over chosen keys and of its indexer."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency, records
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.operators.latent_attention import mla_prefill_s
from advisor.simulator.operators.sparse_attention import (
    IndexerEfficiency,
    SparseLatentEfficiency,
    indexer_s,
    selection_s,
    sparse_latent_s,
)

MICRO = 1e-6
RANK = 512
ROPE = 64
TOP_K = 2048
REPOSITORY = Path(__file__).parents[2]


def device(name: str = "h200-sxm") -> Device:
    return device_of(by_id(name))


def sparse_of(dtype: str = "bf16", architecture: str = "hopper") -> SparseLatentEfficiency:
    return SparseLatentEfficiency.from_record(efficiency(architecture, "mla_sparse", dtype).record)


def indexer_of(architecture: str = "hopper") -> IndexerEfficiency:
    return IndexerEfficiency.from_record(efficiency(architecture, "indexer", "fp8").record)


def sparse_us(queries: float, heads: int, dtype: str = "bf16", **options: int) -> float:
    seconds = sparse_latent_s(queries, heads, TOP_K, RANK, ROPE, device(), sparse_of(dtype), **options)
    return float(seconds) / MICRO


@pytest.mark.parametrize(
    ("dtype", "heads", "queries", "measured_us"),
    [
        ("bf16", 64, 1, 55.06),
        ("bf16", 64, 132, 64.78),
        ("bf16", 64, 133, 120.4),
        ("bf16", 64, 8192, 4255.89),
        ("bf16", 128, 1024, 1010.36),
        ("fp8", 64, 16, 30.61),
        ("fp8", 64, 1024, 762.76),
    ],
)
def test_sparse_kernels_meet_single_measurements(
    dtype: str, heads: int, queries: int, measured_us: float
) -> None:
    """Source: evidence/fit/measured_sparse_attention.csv, FlashMLA on one H200."""
    assert sparse_us(queries, heads, dtype) == pytest.approx(measured_us, rel=0.08)


def test_published_rates_are_met() -> None:
    """Source: FlashMLA's README of 2025-09-29, H800 SXM5 with 128 heads: 640 TFLOPS in prefill, 410 in decode."""
    flop = 2.0 * 128 * TOP_K * (2 * RANK + ROPE)
    for dtype, published in (("bf16", 640e12), ("fp8", 410e12)):
        rate = 16384 * flop / (sparse_us(16384, 128, dtype) * MICRO)
        assert rate == pytest.approx(published, rel=0.10)


def test_few_heads_cost_as_many() -> None:
    assert sparse_us(4096, 16) == sparse_us(4096, 64)
    assert sparse_us(4096, 16, head_multiple=128) == sparse_us(4096, 128)


def test_short_prompts_pay_for_all_keys_that_might_be_chosen() -> None:
    """Expanded, a prompt of 1 000 tokens on 16 heads takes a fraction of that."""
    dense = PrefillEfficiency.from_record(efficiency("hopper", "mla_prefill", "bf16").record)
    expanded_s = mla_prefill_s(1000, 0, 1, 16, 128, ROPE, 128, RANK, device(), dense)
    assert sparse_us(1000, 16) * MICRO > 5 * float(expanded_s)


@pytest.mark.parametrize(
    ("new", "cached", "batch", "measured_us"),
    [(8192, 24576, 1, 3905.79), (2048, 0, 4, 148.9), (1, 8191, 64, 22.66), (1, 32767, 64, 73.4)],
)
def test_scoring_meets_single_measurements(new: int, cached: int, batch: int, measured_us: float) -> None:
    """Source: evidence/fit/measured_sparse_attention.csv, DeepGEMM on one H200."""
    predicted = indexer_s(new, cached, batch, 64, 128, device(), indexer_of())
    assert predicted / MICRO == pytest.approx(measured_us, rel=0.08)


def test_scores_grow_with_the_context_and_attention_does_not() -> None:
    at = device("b200-sxm")
    fit = indexer_of("blackwell")
    scored = indexer_s(1, np.array([4095, 65535]), 64, 64, 128, at, fit)
    assert scored[1] > 4 * scored[0] > 0
    chosen = selection_s(np.array([1e6, 2e6]), at, fit)
    assert chosen[1] == pytest.approx(2 * chosen[0])


def test_more_hardware_is_never_slower() -> None:
    at = device()
    faster = dataclasses.replace(
        at,
        bandwidth_bytes_per_s=2 * at.bandwidth_bytes_per_s,
        peak_flop_per_s={name: 2 * rate for name, rate in at.peak_flop_per_s.items()},
    )
    for queries in (1, 100, 5000):
        here = sparse_latent_s(queries, 64, TOP_K, RANK, ROPE, at, sparse_of())
        assert sparse_latent_s(queries, 64, TOP_K, RANK, ROPE, faster, sparse_of()) <= here
        here = indexer_s(queries, 4096, 2, 64, 128, at, indexer_of())
        assert indexer_s(queries, 4096, 2, 64, 128, faster, indexer_of()) <= here


def test_records_are_as_good_as_promised() -> None:
    for operator in ("mla_sparse", "indexer"):
        for record in records(operator):
            assert record.residual.median_abs_error < 0.12, record
    assert (REPOSITORY / "evidence/fit/measured_sparse_attention.csv").is_file()
