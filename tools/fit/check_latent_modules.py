"""Check that projections, absorbed products and attention core explain whole measured MLA modules.

python tools/fit/check_latent_modules.py --data ../shared/data/kernels

Prints the median of predicted / measured − 1 per engine, phase and architecture; writes nothing.
"""

from functools import cache
from pathlib import Path

import common
import kernel_fit
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.efficiencies import efficiency
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


def module_parts(rows: pd.DataFrame, device: Device, keys: tuple[str, ...]) -> dict[str, FloatArray]:
    """Times of the parts of the modules in `rows`, which share device, engine, heads and formats [s]."""
    engine, heads, gemm, compute, cache_dtype, table = keys
    decode, num_heads = table == "mla_generation_module", int(heads)
    batch = rows["batch_size"].to_numpy(float)
    tokens = batch if decode else batch * rows["isl"].to_numpy(float)
    matmul = matmul_of(device.architecture, GEMM_DTYPES[gemm], engine)
    small = ElementwiseEfficiency.from_record(
        efficiency(device.architecture, "elementwise", "bf16", engine).record
    )
    parts = {
        "projections": sum(
            matmul_s(tokens, columns, depth, device, matmul)
            for columns, depth in projections(num_heads, decode=decode)
        ),
        # Two norms, rotary embedding with cache write.
        "small": sum(
            elementwise_s(tokens * 4.0 * width, device, small)
            for width in (Q_RANK, KV_RANK, num_heads * ROPE + KV_RANK)
        ),
    }
    dtype = kernel_fit.DTYPES[cache_dtype]
    if decode:
        core = LatentDecodeEfficiency.from_record(
            efficiency(device.architecture, "mla_decode", dtype, engine).record
        )
        absorb = AbsorbEfficiency.from_record(
            efficiency(device.architecture, "mla_absorb", "bf16", engine).record
        )
        context = rows["isl"].to_numpy(float) + rows["step"].to_numpy(float)
        parts["core"] = mla_decode_s(
            batch, context, num_heads, KV_RANK, ROPE, device, core,
            kv_bytes_per_element=1.0 if dtype == "fp8" else 2.0, warm_l2=True,
        )  # fmt: skip
        parts["absorb"] = mla_absorb_s(batch, num_heads, KV_RANK, NOPE, V_DIM, device, absorb)
    else:
        prefill = LatentPrefillEfficiency.from_record(
            efficiency(device.architecture, "mla_prefill", kernel_fit.DTYPES[compute], engine).record
        )
        parts["core"] = mla_prefill_s(
            rows["isl"].to_numpy(float), rows["step"].to_numpy(float), batch, num_heads,
            NOPE, ROPE, V_DIM, KV_RANK, device, prefill,
        )  # fmt: skip
    return parts


def main() -> None:
    options = common.arguments(__doc__ or "").parse_args()
    devices = common.devices()
    table = kernel_fit.kernel_table(Path(options.data) / "mla.parquet", devices, level=("table",))
    table = table[table["table"].str.endswith("module") & (table["model"] == "deepseek-ai/DeepSeek-V3")]
    # A first chunk on an empty cache: later chunks add the expansion of cached latents.
    table = table[(table["table"] == "mla_generation_module") | (table["step"] <= 1)]
    table = table.sample(min(len(table), 20 * options.points), random_state=0).reset_index(drop=True)
    keys = ["engine", "num_heads", "gemm_type", "mla_dtype", "kv_cache_dtype", "table"]
    for name in ("projections", "small", "core", "absorb"):
        table[name] = 0.0
    for values, rows in table.groupby(["system", *keys]):
        texts = tuple(str(value) for value in values)
        for name, seconds in module_parts(rows, devices[texts[0]], texts[1:]).items():
            table.loc[rows.index, name] = np.asarray(seconds)
    table["predicted_s"] = table[["projections", "small", "core", "absorb"]].sum(axis=1)
    table["error"] = table["predicted_s"] / table["time_s"] - 1.0
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
