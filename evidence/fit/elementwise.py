"""Fit the elementwise model on measured activation quantisation and write the catalog's records.

A static quantisation kernel reads 16 bits and writes 8 per element without any reduction: it stands for the
norms, activations and residual sums of a layer (record `bf16`). Record `fp8` is the whole dynamic
quantisation.
"""

import pandas as pd

from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    OperatorFit,
    KernelParameter,
    Values,
    by_system,
    fit_operators,
    source_of,
    convert_table,
)
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s

PARAMETERS = (
    KernelParameter("launch_s", 2e-6, 2e-7, 6e-5),
    KernelParameter("memory_fraction", 0.8, 0.1, 0.98),
    KernelParameter("l2_bytes_per_cycle", 30.0, 2.0, 128.0),
    KernelParameter("l2_share", 0.7, 0.1, 1.5),
)
_BYTES_PER_ELEMENT = 3.0


def load(options: Options) -> pd.DataFrame:
    """Return seconds per (system, backend, rows, columns) of the static kernel (bf16) and of all kernels (fp8)."""
    # SGLang's table times one old kernel at a tenth of the bandwidth, far above what its fp8 GEMM calls take.
    table = convert_table(pd.read_parquet(options.kernels("quantize"), filters=[("backend", "!=", "sglang")]))
    keys = ["system", "backend", "engine", "accelerator", "architecture", "m", "k"]
    wide = table.pivot_table(index=keys, columns="op_name", values="time_s", aggfunc="min").reset_index()
    wide["bytes"] = wide["m"] * wide["k"] * _BYTES_PER_ELEMENT
    static = wide.assign(dtype="bf16", time_s=wide["scale_matrix"])
    dynamic = wide.assign(dtype="fp8", time_s=wide["scale_matrix"] + wide["compute_scale"].fillna(0.0))
    both = pd.concat([static, dynamic])
    return both[both["k"].between(512, 20000) & (both["time_s"] > 0)]


def predict(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Predicted times of every row [s]."""
    efficiency = ElementwiseEfficiency(dtype=dtype, **parameters)
    return by_system(
        rows, [], lambda device, _, rows: elementwise_s(rows["bytes"].to_numpy(float), device, efficiency)
    )


def operator(options: Options) -> OperatorFit:
    """Return the operator with its measurements."""
    where = "systems data, computescale and scale_matrix tables"
    source = source_of(where, title="activation quantisation measurements")
    return OperatorFit("elementwise", load(options), predict, PARAMETERS, source)


def run(options: Options) -> None:
    """Fit elementwise operators."""
    fit_operators([operator(options)], options, "elementwise")
