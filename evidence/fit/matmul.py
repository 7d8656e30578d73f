"""Fit the matrix multiplication model on measured kernels and write the catalog's records.

python -m advisor.evidence.fit.matmul --data ../shared/data/kernels
"""

from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.device import Device
from advisor.simulator.operators.matmul import FORMATS, MatmulEfficiency, matmul_s

DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_wo",
    "int4_wo": "int4_wo",
    "sq": "int8",
}
_WARM_ROWS = 512
# These sweeps timed a TensorRT engine: the smallest shapes take 8 to 10 us where the bf16 kernels of the same
# machine take 2.5 to 3.3. The difference is the engine's start, not the kernel's.
TIMED_IN_AN_ENGINE = ("int8", "int8_wo", "int4_wo")
ENGINE_START_S = 6e-6
Devices = dict[str, Device]
QUANTISED = {"fp8", "fp8_block", "nvfp4", "int8"}

PARAMETERS = (
    kernel_data.Parameter("launch_s", 3e-6, 1.5e-6, 6e-5),
    kernel_data.Parameter("compute_fraction", 0.85, 0.3, 1.0),
    kernel_data.Parameter("memory_fraction", 0.85, 0.3, 1.0),
    kernel_data.Parameter("tile_half", 10.0, 0.1, 200.0),
    kernel_data.Parameter("ramp_depth", 200.0, 5.0, 3000.0),
    kernel_data.Parameter("wave_smoothing", 0.5, 0.02, 1.0),
    kernel_data.Parameter("depth_cycles", 2.0, 0.2, 6.0),
    kernel_data.Parameter("split_cycles", 4000.0, 200.0, 200000.0),
    kernel_data.Parameter("overlap_norm", 3.0, 1.0, 12.0),
    kernel_data.Parameter("quantize_bytes", 1.0, 0.001, 20.0),
    kernel_data.Parameter("quantize_row_cycles", 100.0, 0.1, 10000.0),
    kernel_data.Parameter("throttle", 0.2, 0.001, 1.0),
    kernel_data.Parameter("throttle_flop", 3e9, 1e8, 1e11),
)
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator GEMM measurements (Apache-2.0)",
    "where": "systems data, gemm tables of vLLM, SGLang and TensorRT-LLM",
    "accessed": "2026-11-20",
    "note": "parameters fitted by evidence/fit/matmul.py",
}


def load(data: Path, devices: Devices) -> pd.DataFrame:
    """Measured multiplications, in seconds, without what is not a kernel time."""
    table = pd.read_parquet(
        data / "gemm.parquet", columns=["system", "backend", "gemm_dtype", "m", "n", "k", "latency"]
    )
    table["dtype"] = table.pop("gemm_dtype").map(DTYPES)
    table["seconds"] = table.pop("latency").astype(float) * MILLISECOND_S
    in_engine = table.dtype.isin(TIMED_IN_AN_ENGINE)
    table.loc[in_engine, "seconds"] -= ENGINE_START_S
    # vLLM's fp8_block sweep was not captured in a graph: below ~0.1 ms it times the host.
    host_bound = (table.backend == "vllm") & (table.dtype == "fp8_block")
    return table[~host_bound & ~_warm(table, devices) & (table.seconds > 0)]


def _warm(table: pd.DataFrame, devices: Devices) -> pd.Series:
    """Rows whose weights stay in a large L2 between repetitions; in serving every layer's weights are cold.

    Only where the L2 is many times faster than the memory (GDDR) does it show. vLLM's sweep rotates six matrices.
    """
    gddr = table.system.isin(["l40s", "rtx_pro_6000_server"])
    matrices = np.where((table.backend == "vllm") & table.dtype.isin(["bf16", "fp8"]), 6.0, 1.0)
    num_bytes = matrices * table.n * table.k * table.dtype.map(lambda dtype: FORMATS[dtype].weight_bytes)
    l2_bytes = table.system.map({system: device.l2_bytes for system, device in devices.items()})
    return gddr & (table.m <= _WARM_ROWS) & (num_bytes < l2_bytes)


def weights(table: pd.DataFrame) -> np.ndarray:
    """Shapes that language models run count fully, the rest a little."""
    usual = table.n.between(512, 65536) & table.k.between(512, 16384) & (table.m <= 16384)
    return np.where(usual, 1.0, 0.15) * np.where(table.seconds > 5e-6, 1.0, 0.5)


def predict(table: pd.DataFrame, devices: Devices, dtype: str, parameters: dict[str, float]) -> np.ndarray:
    """Predicted seconds of every row."""
    efficiency = MatmulEfficiency(dtype=dtype, **parameters)
    out = np.empty(len(table))
    for system in table.system.unique():
        mine = (table.system == system).to_numpy()
        m, n, k = (table[c].to_numpy(dtype=float)[mine] for c in "mnk")
        for start in range(0, len(m), 5000):
            part = slice(start, start + 5000)
            index = np.flatnonzero(mine)[part]
            out[index] = matmul_s(m[part], n[part], k[part], devices[system], efficiency)
    return out


def fit(table: pd.DataFrame, devices: Devices, dtype: str, points: int) -> dict[str, float]:
    """Parameters of one group of measurements."""
    weight = weights(table)
    rng = np.random.default_rng(0)
    if len(table) > points:
        pick = rng.choice(len(table), points, replace=False, p=weight / weight.sum())
        table, weight = table.iloc[pick], np.ones(points)
    fixed = {} if dtype in QUANTISED else {"quantize_bytes": 0.0, "quantize_row_cycles": 0.0}
    rate = {"sm_flop_per_cycle": kernel_data.sm_flop_per_cycle(table, devices, dtype)}
    free = tuple(p for p in PARAMETERS if p.name not in fixed)
    found = kernel_data.fit_log_ratio(
        free,
        lambda values: predict(table, devices, dtype, {**values, **fixed, **rate}),
        table.seconds.to_numpy(),
        weight,
    )
    return {p.name: {**found, **fixed}[p.name] for p in PARAMETERS} | rate


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    operator = kernel_data.Operator(
        name="matmul",
        program="evidence/fit/matmul.py",
        source=SOURCE,
        fit=lambda table, dtype: fit(table, devices, dtype, options.points),
        predict=lambda table, dtype, parameters: predict(table, devices, dtype, parameters),
        judged=lambda table: table[weights(table) == 1.0],
    )
    kernel_data.fit_operator(operator, load(options.data, devices), options.only, options.dry_run)


if __name__ == "__main__":
    main()
