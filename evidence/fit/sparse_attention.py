"""Fit the sparse latent kernel and the indexer's scoring kernel on own measurements; write the catalog's records.

python -m advisor.evidence.fit.sparse_attention

measured_sparse_attention.csv beside this file: microseconds of one call in a captured graph on one H200 (PyTorch 2.11,
CUDA 13.0), 2 048 chosen keys at random places of 32 768. mla_sparse: sparse kernels of FlashMLA for SM90 as packed in
sgl-flash-mla 1.0.0 (bf16: flash_mla_sparse_fwd; fp8: flash_mla_with_kvcache), `heads` after padding; indexer: DeepGEMM
as packed in sgl-deep-gemm 0.1.1 (fp8_mqa_logits, fp8_paged_mqa_logits), `queries` of each of `sequences` on `cached`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.units import MICROSECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.device import Device
from advisor.simulator.operators.sparse_attention import (
    IndexerEfficiency,
    SparseLatentEfficiency,
    indexer_s,
    sparse_latent_s,
)

MEASURED = Path(__file__).parent / "measured_sparse_attention.csv"
TOP_K, RANK, ROPE, INDEX_DIM = 2048, 512, 64, 128
SPARSE = (
    kernel_data.Parameter("launch_s", 3e-6, 2e-7, 3e-5),
    kernel_data.Parameter("peak_fraction", 0.6, 0.1, 0.95),
    kernel_data.Parameter("tile_overhead_cycles", 5e3, 1e2, 5e4),
    kernel_data.Parameter("wave_smoothing", 0.1, 1e-3, 1.0),
)
INDEXER = (
    kernel_data.Parameter("launch_s", 3e-6, 2e-7, 3e-5),
    kernel_data.Parameter("peak_fraction", 0.5, 0.1, 0.95),
    kernel_data.Parameter("bandwidth_fraction", 0.8, 0.1, 1.0),
)
Predict = Callable[[pd.DataFrame, dict[str, float]], np.ndarray]


def _source(title: str, where: str) -> dict[str, str]:
    return {
        "kind": "measured",
        "title": title,
        "where": where,
        "accessed": "2026-11-22",
        "note": "timed on one H200, evidence/fit/measured_sparse_attention.csv; fitted by sparse_attention.py",
    }


def predict_sparse(table: pd.DataFrame, devices: dict[str, Device], values: dict[str, float]) -> np.ndarray:
    """Seconds of every call of the sparse kernel."""
    efficiency, at = SparseLatentEfficiency(**values), devices["h200_sxm"]
    calls = zip(table.queries, table.heads, strict=True)
    return np.array([float(sparse_latent_s(n, h, TOP_K, RANK, ROPE, at, efficiency)) for n, h in calls])


def predict_indexer(table: pd.DataFrame, devices: dict[str, Device], values: dict[str, float]) -> np.ndarray:
    """Seconds of every call of the scoring kernel."""
    efficiency, at = IndexerEfficiency(**values), devices["h200_sxm"]
    heads = int(table.heads.iloc[0])
    return indexer_s(table.queries, table.cached, table.sequences, heads, INDEX_DIM, at, efficiency)


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    table = pd.read_csv(MEASURED)
    table["seconds"] = table.microseconds * MICROSECOND_S
    for name, parameters, predict, title, where in (
        ("mla_sparse", SPARSE, predict_sparse, "FlashMLA sparse kernels (MIT)", "sgl-flash-mla 1.0.0, SM90"),
        ("indexer", INDEXER, predict_indexer, "DeepGEMM MQA logits (MIT)", "sgl-deep-gemm 0.1.1, SM90"),
    ):

        def run(
            rows: pd.DataFrame, values: dict[str, float], one: Callable[..., np.ndarray] = predict
        ) -> np.ndarray:
            return np.asarray(one(rows, devices, values))

        def fit(
            rows: pd.DataFrame,
            dtype: str,
            run: Predict = run,
            parameters: tuple[kernel_data.Parameter, ...] = parameters,
        ) -> dict[str, float]:
            seconds = rows.seconds.to_numpy()
            return kernel_data.fit_log_ratio(parameters, lambda v: run(rows, v), seconds, np.ones(len(rows)))

        operator = kernel_data.Operator(
            name=name,
            program="evidence/fit/sparse_attention.py",
            source=_source(title, where),
            fit=fit,
            predict=lambda rows, dtype, values, run=run: run(rows, values),
            judged=lambda rows: rows,
        )
        kernel_data.fit_operator(operator, table[table.operator == name], options.only, options.dry_run)


if __name__ == "__main__":
    main()
