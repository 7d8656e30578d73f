"""Fit the matrix multiplication model on measured kernels and write the catalog's records."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    OperatorFit,
    KernelParameter,
    Values,
    by_system,
    devices,
    fit_operators,
    measured_devices,
    sm_flop_per_cycle,
    source_of,
    convert_table,
)
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
TENSORRT_LLM = "trtllm"
QUANTISED = {"fp8", "fp8_block", "nvfp4", "int8"}
CUTLASS = {"hopper": {"vllm": 16.0, "sglang": 32.0}}
"""Rows of the narrowest tile, by architecture and engine, for engines whose fp8 matmuls with scales per token are
CUTLASS kernels of fixed tiles."""

PARAMETERS = (
    KernelParameter("launch_s", 3e-6, 1.5e-6, 6e-5),
    KernelParameter("compute_fraction", 0.85, 0.3, 1.0),
    KernelParameter("memory_fraction", 0.85, 0.3, 1.0),
    KernelParameter("tile_half", 10.0, 0.1, 200.0),
    KernelParameter("ramp_depth", 200.0, 5.0, 3000.0),
    KernelParameter("wave_smoothing", 0.5, 0.02, 1.0),
    KernelParameter("depth_cycles", 2.0, 0.2, 6.0),
    KernelParameter("split_cycles", 4000.0, 200.0, 200000.0),
    KernelParameter("overlap_norm", 3.0, 1.0, 12.0),
    KernelParameter("quantize_bytes", 1.0, 0.001, 20.0),
    KernelParameter("quantize_row_cycles", 100.0, 0.1, 10000.0),
    KernelParameter("throttle", 0.2, 0.001, 1.0),
    KernelParameter("throttle_flop", 3e9, 1e8, 1e11),
    KernelParameter("partial_tiles", 0.3, 0.001, 3.0),
)


def load(options: Options) -> pd.DataFrame:
    """Return measured multiplications, in seconds, without rows that are not kernel times."""
    columns = ["system", "backend", "gemm_dtype", "m", "n", "k", "latency"]
    table = convert_table(pd.read_parquet(options.kernels("gemm"), columns=columns))
    table["dtype"] = table.pop("gemm_dtype").map(DTYPES)
    table.loc[table["dtype"].isin(TIMED_IN_AN_ENGINE), "time_s"] -= ENGINE_START_S
    # vLLM's fp8_block sweep was not captured in a graph: below ~0.1 ms it times the host.
    host_bound = (table["backend"] == "vllm") & (table["dtype"] == "fp8_block")
    # TensorRT-LLM tunes its nvfp4 kernels when the engine starts (AutoTuner). Its sweep did not: up to 128 rows it
    # takes 1.7 times what the other engines' kernels take, above 512 the same.
    untuned = (table["backend"] == TENSORRT_LLM) & (table["dtype"] == "nvfp4")
    dynamic = (table["backend"] == TENSORRT_LLM) & (table["dtype"] == "fp8")
    table.loc[dynamic, "time_s"] -= _searched_scale_s(table[dynamic], options)
    return table[~host_bound & ~untuned & ~_warm(table) & (table["time_s"] > 0)]


def _searched_scale_s(rows: pd.DataFrame, options: Options) -> FloatArray:
    """Time in which TensorRT-LLM's sweep of fp8 matmuls searched the scale of its input [s].

    The engine does so for checkpoints without a scale alone; those that are published for it bring one
    (FP8QDQLinearMethod.apply in tensorrt_llm/_torch/modules/linear.py: static_quantize_e4m3_per_tensor).
    """
    table = pd.read_parquet(options.kernels("quantize"))
    chosen = (
        (table["backend"] == TENSORRT_LLM) & (table["op_name"] == "compute_scale") & (table["latency"] > 0)
    )
    found = np.zeros(len(rows))
    for system, of_system in table[chosen].groupby("system"):
        grid = of_system.pivot_table(index="m", columns="k", values="latency")
        grid = grid.interpolate(axis=1, limit_direction="both").interpolate(axis=0, limit_direction="both")
        seconds = RegularGridInterpolator(
            (np.log(grid.index), np.log(grid.columns)), grid.to_numpy(float) * MILLISECOND_S
        )
        mine = (rows["system"] == system).to_numpy()
        sizes = [
            np.clip(rows.loc[mine, name].to_numpy(float), axis.min(), axis.max())
            for name, axis in (("m", grid.index), ("k", grid.columns))
        ]
        found[mine] = seconds(np.log(np.stack(sizes, axis=1)))
    return found


def _warm(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of rows whose weights stay in a large L2 between repetitions; in serving every layer's weights are cold.

    Only where the L2 is many times faster than the memory (GDDR) does it show. vLLM's sweep rotates six matrices.
    """
    gddr = table["system"].isin(["l40s", "rtx_pro_6000_server"])
    matrices = np.where((table["backend"] == "vllm") & table["dtype"].isin(["bf16", "fp8"]), 6.0, 1.0)
    weight_bytes = table["dtype"].map({dtype: each.weight_bytes for dtype, each in FORMATS.items()})
    l2_bytes = table["system"].map({system: device.l2_bytes for system, device in devices().items()})
    warm = (table["m"] <= _WARM_ROWS) & (matrices * table["n"] * table["k"] * weight_bytes < l2_bytes)
    return np.asarray(gddr & warm)


def usual(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of shapes that language models run and whose time is above that of a launch."""
    shapes = table["n"].between(512, 65536) & table["k"].between(512, 16384) & (table["m"] <= 16384)
    return np.asarray(shapes & (table["time_s"] > 5e-6))


def weight(table: pd.DataFrame) -> FloatArray:
    """Weight of each row: shapes that language models run count fully, the rest a little."""
    shapes = table["n"].between(512, 65536) & table["k"].between(512, 16384) & (table["m"] <= 16384)
    return np.asarray(np.where(shapes, 1.0, 0.15) * np.where(table["time_s"] > 5e-6, 1.0, 0.5))


def predict(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Predicted times of every row [s]."""
    efficiency = MatmulEfficiency(dtype=dtype, **parameters)

    def price(device: Device, _: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        m, n, k = (rows[name].to_numpy(float) for name in "mnk")
        return matmul_s(m, n, k, device, efficiency)

    return by_system(rows, [], price)


def known_values(rows: pd.DataFrame, dtype: str) -> Values:
    """Return the rate of the devices, the kernels that run, and no quantisation if only weights have fewer bits."""
    fixed = {} if dtype in QUANTISED else {"quantize_bytes": 0.0, "quantize_row_cycles": 0.0}
    rate = sm_flop_per_cycle(measured_devices(rows), dtype)
    narrow = CUTLASS.get(rows["architecture"].iloc[0], {}).get(rows["engine"].iloc[0], 0.0)
    if dtype == "fp8" and narrow and rows["engine"].nunique() == 1:
        return fixed | {"split_cycles": 0.0, "narrow_rows": narrow} | rate
    return fixed | {"partial_tiles": 0.0, "narrow_rows": 0.0} | rate


def operator(options: Options) -> OperatorFit:
    """Return the operator with its measurements."""
    where = "systems data, gemm tables of vLLM, SGLang and TensorRT-LLM"
    return OperatorFit(
        "matmul",
        load(options),
        predict,
        PARAMETERS,
        source_of(where, title="GEMM measurements"),
        weight,
        usual,
        known_values,
        drawn_by_weight=True,
    )


def run(options: Options) -> None:
    """Fit matrix multiplications."""
    fit_operators([operator(options)], options, "matmul")
