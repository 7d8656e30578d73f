"""Fit kernels of latent attention on own measurements: sparse, its indexer, SGLang's Triton decode.

measured_sparse_attention.csv in this folder: microseconds of one call in a captured graph on one H200 (PyTorch 2.11,
CUDA 13.0), 2 048 chosen keys at random places of 32 768. mla_sparse: sparse kernels of FlashMLA for SM90 as packed in
sgl-flash-mla 1.0.0 (bf16: flash_mla_sparse_fwd; fp8: flash_mla_with_kvcache), `heads` after padding; indexer: DeepGEMM
as packed in sgl-deep-gemm 0.1.1 (fp8_mqa_logits, fp8_paged_mqa_logits), `queries` of each of `sequences` on `cached`.

measured_triton_latent.csv: microseconds of one call of decode_attention_fwd (sglang 0.5.11) on one H100, PyTorch 2.11,
Triton 3.6, in a captured graph that runs through caches larger than the L2, with as many splits as the engine's own
rule gives; 576 elements of 16 bits per key.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    OperatorFit,
    KernelParameter,
    Predict,
    Values,
    by_system,
    fit_operators,
    read_own_measurements,
)
from advisor.simulator.device import Device
from advisor.simulator.operators.sparse_attention import (
    IndexerEfficiency,
    SparseLatentEfficiency,
    indexer_s,
    sparse_latent_s,
)
from advisor.simulator.operators.triton_latent import TritonLatentEfficiency, triton_latent_s

TOP_K = 2048
RANK = 512
ROPE = 64
INDEX_DIM = 128
SPARSE = (
    KernelParameter("launch_s", 3e-6, 2e-7, 3e-5),
    KernelParameter("peak_fraction", 0.6, 0.1, 0.95),
    KernelParameter("tile_overhead_cycles", 5e3, 1e2, 5e4),
    KernelParameter("wave_smoothing", 0.1, 1e-3, 1.0),
)
INDEXER = (
    KernelParameter("launch_s", 3e-6, 2e-7, 3e-5),
    KernelParameter("peak_fraction", 0.5, 0.1, 0.95),
    KernelParameter("bandwidth_fraction", 0.8, 0.1, 1.0),
)
TRITON = (
    KernelParameter("launch_s", 6e-6, 2e-7, 3e-5),
    KernelParameter("key_cycles", 250.0, 20.0, 2000.0),
    KernelParameter("blocks_per_sm", 2.0, 0.5, 8.0),
)


Price = Callable[[pd.DataFrame, int, Device, Values], FloatArray]


def sparse_s(rows: pd.DataFrame, heads: int, device: Device, values: Values) -> FloatArray:
    """Times of calls of the sparse kernel with `heads` heads [s]."""
    return sparse_latent_s(
        rows["queries"], heads, TOP_K, RANK, ROPE, device, SparseLatentEfficiency(**values)
    )


def scoring_s(rows: pd.DataFrame, heads: int, device: Device, values: Values) -> FloatArray:
    """Times of calls of the indexer's scoring kernel [s]."""
    calls = (rows["queries"], rows["cached"], rows["sequences"])
    return indexer_s(*calls, heads, INDEX_DIM, device, IndexerEfficiency(**values))


def triton_s(rows: pd.DataFrame, heads: int, device: Device, values: Values) -> FloatArray:
    """Times of calls of the Triton decode kernel [s]."""
    return triton_latent_s(rows["batch"], rows["context"], heads, device, TritonLatentEfficiency(**values))


def by_heads(price: Price) -> Predict:
    """Return a function for the times of rows, grouped by device and number of heads."""

    def predict(values: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
        return by_system(
            rows, ["heads"], lambda device, keys, rows: price(rows, int(keys[0]), device, values)
        )

    return predict


KERNELS = (
    (
        "mla_sparse",
        "sparse_attention",
        sparse_s,
        SPARSE,
        "FlashMLA sparse kernels (MIT)",
        "sgl-flash-mla 1.0.0, SM90",
    ),
    (
        "indexer",
        "sparse_attention",
        scoring_s,
        INDEXER,
        "DeepGEMM MQA logits (MIT)",
        "sgl-deep-gemm 0.1.1, SM90",
    ),
    (
        "mla_triton",
        "triton_latent",
        triton_s,
        TRITON,
        "PyPI sglang 0.5.11 (Apache-2.0)",
        "decode_attention.py",
    ),
)


def run(options: Options) -> None:
    """Fit the sparse kernel, the indexer and Triton's decode."""
    for operator, file, price, parameters, title, where in KERNELS:
        table = read_own_measurements(f"measured_{file}")
        if "operator" in table:
            table = table[table["operator"] == operator]
        note = f"timed on one accelerator, evidence/fit/measured_{file}.csv"
        source = {"kind": "measured", "title": title, "where": where, "accessed": "2026-11-22", "note": note}
        judged = lambda rows: np.asarray((rows["microseconds"] > 20.0) | ("operator" in rows))  # noqa: E731
        fit = OperatorFit(operator, table, by_heads(price), parameters, source, judged=judged)
        fit_operators([fit], options, "own_latent")
