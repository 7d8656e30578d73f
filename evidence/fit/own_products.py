"""Fit own measurements of matmuls: kernels that unpack weights of 8 or 4 bits in front of 16-bit matmuls, and those of
routers that are kept in fp32.

measured_products.csv in this folder: microseconds of one call in a captured graph that runs through weights larger than
the L2, on one H100 (PyTorch 2.11, CUDA 13.0). The kernels are those of PyPI vllm 0.20.2 (Apache-2.0): machete_mm (4 and
8 bits, scales per 128 weights), built for Hopper's matrix unit, and marlin_gemm (4 bits, scales per 128; fp8, scales
per column), whose instructions are Ampere's: its rate is a part of what such instructions reach; and sgemm, which
PyTorch takes for inputs and weights in fp32 unless the user allows less precision.
"""

import pandas as pd

from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    OperatorFit,
    Values,
    devices,
    every,
    fit_operators,
    read_own_measurements,
    sm_flop_per_cycle,
)
from advisor.evidence.fit.matmul import PARAMETERS, known_values, usual
from advisor.simulator.operator_library import MARLIN
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s, of_one_warp

SYSTEM = "h100_sxm"
SGEMM = "sgemm"
KERNELS = {
    MARLIN: "PyPI vllm 0.20.2 (Apache-2.0)",
    "machete": "PyPI vllm 0.20.2 (Apache-2.0)",
    SGEMM: "PyTorch 2.11 (cuBLAS 13)",
}


def operator(name: str) -> OperatorFit:
    """Return the fit of one kernel with its measurements."""
    device = of_one_warp(devices()[SYSTEM]) if name == MARLIN else devices()[SYSTEM]

    def predict(values: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
        m, n, k = (rows[size].to_numpy(float) for size in "mnk")
        return matmul_s(m, n, k, device, MatmulEfficiency(dtype=dtype, **values))

    def is_known(rows: pd.DataFrame, dtype: str) -> Values:
        return known_values(rows, dtype) | sm_flop_per_cycle([device], dtype)

    source = {
        "kind": "measured",
        "title": KERNELS[name],
        "where": f"{name} kernels on one H100",
        "accessed": "2026-11-24" if name == SGEMM else "2026-11-23",
        "note": "evidence/fit/measured_products.csv, fitted by evidence/fit/own_products.py",
    }
    table = read_own_measurements("measured_products")
    rows = table[table["kernel"] == name]
    # Routers are narrower than what language models multiply otherwise.
    judged = every if name == SGEMM else usual
    return OperatorFit(name, rows, predict, PARAMETERS, source, judged=judged, known=is_known)


def run(options: Options) -> None:
    """Fit all kernels."""
    fit_operators([operator(name) for name in KERNELS], options, "own_products")
