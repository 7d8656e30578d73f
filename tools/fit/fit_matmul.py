"""Fit the matrix multiplication model on measured kernels and write the catalog's records.

python tools/fit/fit_matmul.py --data ../shared/data/kernels
"""

from pathlib import Path

import common
import numpy as np
import pandas as pd

from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s

DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_wo",
    "int4_wo": "int4_wo",
    "sq": "int8",
}
QUANTISED = {"fp8", "fp8_block", "nvfp4", "int8"}

PARAMETERS = (
    common.Parameter("launch_s", 3e-6, 5e-7, 6e-5),
    common.Parameter("compute_fraction", 0.85, 0.3, 1.0),
    common.Parameter("memory_fraction", 0.85, 0.3, 1.0),
    common.Parameter("tile_half", 10.0, 0.1, 200.0),
    common.Parameter("ramp_depth", 200.0, 5.0, 3000.0),
    common.Parameter("wave_smoothing", 0.5, 0.02, 1.0),
    common.Parameter("sm_reach", 2.0, 0.5, 8.0),
    common.Parameter("split_cost", 0.3, 0.02, 3.0),
    common.Parameter("overlap_norm", 3.0, 1.0, 12.0),
    common.Parameter("quantize_bytes", 1.0, 0.001, 8.0),
    common.Parameter("throttle", 0.2, 0.001, 1.0),
    common.Parameter("throttle_flop", 3e9, 1e8, 1e11),
)
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator GEMM measurements (Apache-2.0)",
    "where": "systems data, gemm tables of vLLM, SGLang and TensorRT-LLM",
    "accessed": "2026-11-20",
    "note": "parameters fitted by tools/fit/fit_matmul.py",
}


def load(data: Path) -> pd.DataFrame:
    """Measured multiplications, in seconds, without what is not a kernel time."""
    table = pd.read_parquet(
        data / "gemm.parquet", columns=["system", "backend", "gemm_dtype", "m", "n", "k", "latency"]
    )
    table["dtype"] = table.pop("gemm_dtype").map(DTYPES)
    table["seconds"] = table.pop("latency").astype(float) * 1e-3
    # vLLM's fp8_block sweep was not captured in a graph: below ~0.1 ms it times the host.
    host_bound = (table.backend == "vllm") & (table.dtype == "fp8_block")
    return table[~host_bound & (table.seconds > 0)]


def weights(table: pd.DataFrame) -> np.ndarray:
    """Shapes that language models run count fully, the rest a little."""
    usual = table.n.between(512, 65536) & table.k.between(512, 16384) & (table.m <= 16384)
    return np.where(usual, 1.0, 0.15) * np.where(table.seconds > 5e-6, 1.0, 0.5)


def predict(table: pd.DataFrame, devices: dict, dtype: str, parameters: dict[str, float]) -> np.ndarray:
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


def fit(table: pd.DataFrame, devices: dict, dtype: str, points: int) -> dict[str, float]:
    """Parameters of one group of measurements."""
    weight = weights(table)
    rng = np.random.default_rng(0)
    if len(table) > points:
        pick = rng.choice(len(table), points, replace=False, p=weight / weight.sum())
        table, weight = table.iloc[pick], np.ones(points)
    fixed = {} if dtype in QUANTISED else {"quantize_bytes": 0.0}
    free = tuple(p for p in PARAMETERS if p.name not in fixed)
    found = common.fit_log_ratio(
        free,
        lambda values: predict(table, devices, dtype, {**values, **fixed}),
        table.seconds.to_numpy(),
        weight,
    )
    return {p.name: {**found, **fixed}[p.name] for p in PARAMETERS}


def usual(table: pd.DataFrame) -> pd.DataFrame:
    """The shapes on which errors are reported: LLM projections above 5 us."""
    return table[weights(table) == 1.0]


def main() -> None:
    options = common.arguments(__doc__ or "").parse_args()
    devices = common.devices(options.data)
    table = load(options.data)
    for architecture in dict.fromkeys(architecture for _, architecture in common.SYSTEMS.values()):
        if options.only and architecture not in options.only.split(","):
            continue
        systems = [s for s, (_, a) in common.SYSTEMS.items() if a == architecture]
        records = []
        for (dtype, engine), measured in common.by_engine(table[table.system.isin(systems)], "dtype"):
            parameters = fit(measured, devices, dtype, options.points)
            judged = usual(measured)
            judged = judged.sample(min(len(judged), 20000), random_state=1)
            left = common.residual(predict(judged, devices, dtype, parameters), judged.seconds.to_numpy())
            records.append(common.record(dtype, engine, measured, parameters, left))
            common.report(architecture, records[-1])
        if not options.dry_run:
            common.write_records("matmul", architecture, records, SOURCE, "tools/fit/fit_matmul.py")


if __name__ == "__main__":
    main()
