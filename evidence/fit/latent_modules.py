"""Whole measured MLA modules: what they spend beside the attention core, and whether the parts explain the whole.

python -m advisor.evidence.fit.latent_modules --data ../shared/data/kernels

Prints the median of predicted / measured − 1 per engine, phase and architecture; writes nothing.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.efficiencies import efficiency
from advisor.evidence.fit import kernel_data, kernel_fit
from advisor.simulator.device import Device
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s
from advisor.simulator.operators.latent_attention import (
    AbsorbEfficiency,
    LatentDecodeEfficiency,
    LatentPrefillEfficiency,
    mla_absorb_s,
    mla_decode_s,
    mla_prefill_s,
)
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s

FloatArray = NDArray[np.float64]

# DeepSeek-V3: config.json of deepseek-ai/DeepSeek-V3.
HIDDEN, Q_RANK, KV_RANK, NOPE, ROPE, V_DIM = 7168, 1536, 512, 128, 64, 128
GEMM_DTYPES = {"bfloat16": "bf16", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}


@cache
def matmul_of(architecture: str, dtype: str, engine: str) -> MatmulEfficiency:
    return MatmulEfficiency.from_record(efficiency(architecture, "matmul", dtype, engine).record)


def projections(heads: int, *, decode: bool) -> tuple[tuple[int, int], ...]:
    """Columns and depth of the projections of one rank."""
    expand = () if decode else ((heads * (NOPE + V_DIM), KV_RANK),)
    return (
        (Q_RANK + KV_RANK + ROPE, HIDDEN),
        (heads * (NOPE + ROPE), Q_RANK),
        *expand,
        (HIDDEN, heads * V_DIM),
    )


def module_table(data: Path, devices: dict[str, Device]) -> pd.DataFrame:
    """Measured DeepSeek-V3 modules of a first chunk or a decode step, with the time of all but the core."""
    table = kernel_fit.kernel_table(data / "mla.parquet", devices, level=("table",))
    table = table[table["table"].str.endswith("module") & (table["model"] == "deepseek-ai/DeepSeek-V3")]
    # Later chunks add the expansion of cached latents; Triton's MLA decode is a fallback without CUDA graphs.
    table = table[(table["table"] == "mla_generation_module") | (table["step"] <= 1)]
    table = table[table["kernel_source"] != "TRITON_MLA"].reset_index(drop=True)
    table["beside_s"] = 0.0
    for values, rows in table.groupby(["system", "engine", "num_heads", "gemm_type", "table"]):
        system, engine, heads, gemm, name = (str(value) for value in values)
        decode = name == "mla_generation_module"
        seconds = beside_core_s(
            tokens_of(rows, decode=decode), devices[system], engine, int(heads), gemm, decode
        )
        table.loc[rows.index, "beside_s"] = seconds
    return table


def tokens_of(rows: pd.DataFrame, *, decode: bool) -> FloatArray:
    """New tokens of a call."""
    batch = rows["batch_size"].to_numpy(float)
    return batch if decode else batch * rows["isl"].to_numpy(float)


def beside_core_s(
    tokens: FloatArray, device: Device, engine: str, heads: int, gemm: str, decode: bool
) -> FloatArray:
    """Projections, norms, rotary embedding with cache write, and in decode the absorbed products [s]."""
    architecture = device.architecture
    matmul = matmul_of(architecture, GEMM_DTYPES[gemm], engine)
    small = ElementwiseEfficiency.from_record(efficiency(architecture, "elementwise", "bf16", engine).record)
    seconds = np.zeros_like(tokens)
    for columns, depth in projections(heads, decode=decode):
        seconds = seconds + matmul_s(tokens, columns, depth, device, matmul)
    for width in (Q_RANK, KV_RANK, heads * ROPE + KV_RANK):
        seconds = seconds + elementwise_s(tokens * 4.0 * width, device, small)
    if decode:
        absorb = AbsorbEfficiency.from_record(efficiency(architecture, "mla_absorb", "bf16", engine).record)
        seconds = seconds + mla_absorb_s(tokens, heads, KV_RANK, NOPE, V_DIM, device, absorb)
    return seconds


def core_s(rows: pd.DataFrame, device: Device, engine: str, decode: bool, dtype: str) -> FloatArray:
    """Attention core of modules that share device, engine and format, by the catalog's records [s]."""
    operator = "mla_decode" if decode else "mla_prefill"
    record = efficiency(device.architecture, operator, dtype, engine).record
    if decode:
        return mla_decode_s(
            rows["batch_size"],
            rows["isl"] + rows["step"],
            rows["num_heads"],
            KV_RANK,
            ROPE,
            device,
            LatentDecodeEfficiency.from_record(record),
            kv_bytes_per_element=1.0 if dtype == "fp8" else 2.0,
            warm_l2=True,
        )
    return mla_prefill_s(
        rows["isl"],
        0.0,
        rows["batch_size"],
        rows["num_heads"],
        NOPE,
        ROPE,
        V_DIM,
        KV_RANK,
        device,
        LatentPrefillEfficiency.from_record(record),
    )


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    table = module_table(options.data, devices)
    table["core_s"] = 0.0
    keys = ["system", "engine", "table", "mla_dtype", "kv_cache_dtype"]
    for values, rows in table.groupby(keys):
        system, engine, name, compute, cache_dtype = (str(value) for value in values)
        decode = name == "mla_generation_module"
        dtype = kernel_fit.DTYPES[cache_dtype if decode else compute]
        table.loc[rows.index, "core_s"] = core_s(rows, devices[system], engine, decode, dtype)
    table["error"] = (table["beside_s"] + table["core_s"]) / table["time_s"] - 1.0
    for values, rows in table.groupby(["table", "architecture", "engine", "kv_cache_dtype"]):
        long = rows[rows["time_s"] > 2e-4]
        print(
            *values,
            f"n {len(rows)} bias {rows['error'].median():+.3f} median {rows['error'].abs().median():.3f}"
            f" | above 0.2 ms: bias {long['error'].median():+.3f} median {long['error'].abs().median():.3f}"
            f" p90 {long['error'].abs().quantile(0.9):.3f}",
        )


if __name__ == "__main__":
    main()
