"""Fit latent attention: prefill, decode, absorbed products.

TensorRT-LLM and SGLang timed the attention core; of vLLM only whole modules are worth using, so that its level is
fitted on them with everything but the core priced by the catalog's other records.

python -m advisor.evidence.fit.latent_attention --data ../shared/data/kernels
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.evidence.fit import kernel_data, kernel_fit, latent_modules
from advisor.simulator.device import Device
from advisor.simulator.operators.latent_attention import (
    AbsorbEfficiency,
    LatentDecodeEfficiency,
    LatentPrefillEfficiency,
    absorbed_product_s,
    mla_decode_s,
    mla_prefill_s,
)

FloatArray = NDArray[np.float64]
Price = Callable[[Device, tuple[str, ...], pd.DataFrame], FloatArray]
PROGRAM = "evidence/fit/latent_attention.py"

# All measured modules are DeepSeek-V3 or share its head shape.
KV_LORA_RANK, NOPE, ROPE, V_DIM = 512, 128, 64, 128

PREFILL = (
    kernel_data.Parameter("launch_s", 1.2e-5, 1e-6, 2e-4),
    kernel_data.Parameter("peak_fraction", 0.65, 0.1, 1.0),
    kernel_data.Parameter("wide_head_slowdown", 0.1, 0.001, 10.0),
    kernel_data.Parameter("scores_per_cycle", 16.0, 2.0, 200.0),
    kernel_data.Parameter("overlap_exponent", 3.0, 1.0, 8.0),
    kernel_data.Parameter("tile_overhead_cycles", 3000.0, 100.0, 30000.0),
    kernel_data.Parameter("serial_rows", 100.0, 16.0, 256.0),
    kernel_data.Parameter("tail_exponent", 1.3, 1.0, 6.0),
    kernel_data.Parameter("query_passes", 1.0, 0.01, 8.0),
    kernel_data.Parameter("key_passes", 1.0, 0.01, 20.0),
)
DECODE = (
    kernel_data.Parameter("launch_s", 1.2e-5, 1e-6, 2e-4),
    kernel_data.Parameter("bandwidth_fraction", 0.85, 0.2, 1.0),
    kernel_data.Parameter("ramp_bytes_per_sm", 1e5, 1e3, 2e6),
    kernel_data.Parameter("ramp_half_bytes_per_sm", 2e4, 5e3, 2e6),
    kernel_data.Parameter("unit_overhead_cycles", 6000.0, 100.0, 60000.0),
    kernel_data.Parameter("overlap_exponent", 2.0, 1.0, 6.0),
    kernel_data.Parameter("stream_sms", 40.0, 1.0, 400.0),
    kernel_data.Parameter("compute_fraction", 0.6, 0.05, 2.0),
    kernel_data.Parameter("l2_fraction", 0.7, 0.05, 1.5),
    kernel_data.Parameter("l2_speedup", 3.0, 1.0, 30.0),
    kernel_data.Parameter("second_tile_share", 0.1, 0.001, 1.0),
)
ABSORB = (
    kernel_data.Parameter("launch_s", 4e-6, 1e-6, 5e-5),
    kernel_data.Parameter("bandwidth_fraction", 0.85, 0.2, 1.0),
    kernel_data.Parameter("peak_fraction", 0.6, 0.05, 2.0),
    kernel_data.Parameter("overlap_exponent", 2.0, 1.0, 6.0),
    kernel_data.Parameter("activation_passes", 1.0, 0.3, 12.0),
    kernel_data.Parameter("l2_fraction", 0.7, 0.05, 1.5),
    kernel_data.Parameter("l2_speedup", 2.0, 1.0, 10.0),
)
# vLLM 0.14 timed its core kernels outside a captured graph: most rows are host time.
_EAGER_VERSIONS = ("0.14.0",)
# vLLM's modules on B200 and GB200 differ by half, which no property of the two explains.
_MODULES_DISAGREE = ("blackwell", "blackwell-ultra")
# Rows of SGLang that say little about what engines run: prefill in the latent space, which it does only for short
# extensions; Triton kernels several times slower than the others; FlashAttention 3 on an fp8 cache, ten times slower.
_SIDE_PREFILL = ("flash_attention", "triton")
_SIDE_DECODE = (("triton", "bfloat16"), ("triton", "fp8"), ("flash_attention", "fp8"))


def core_table(data: Path, devices: dict[str, Device], table_name: str) -> pd.DataFrame:
    """Rows of the attention core, without those that time the host; vLLM's rows are its modules."""
    table = kernel_fit.kernel_table(data / "mla.parquet", devices, level=("table",))
    table = table[(table["table"] == table_name) & ~table["version"].isin(_EAGER_VERSIONS)].copy()
    table["dtype"] = table["kv_cache_dtype"].map(kernel_fit.DTYPES)
    table["beside_s"] = 0.0
    modules = latent_modules.module_table(data, devices)
    decode = table_name == "generation_mla"
    phase = "mla_generation_module" if decode else "mla_context_module"
    modules = modules[(modules["engine"] == "vllm") & (modules["table"] == phase)]
    modules = modules[~modules["architecture"].isin(_MODULES_DISAGREE)]
    # Short prefills run on vLLM's decode kernel.
    modules = modules[
        decode | ~modules["kernel_source"].isin(["FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA"])
    ]
    modules["dtype"] = modules["kv_cache_dtype" if decode else "mla_dtype"].map(kernel_fit.DTYPES)
    return pd.concat([table, modules], ignore_index=True)


def over_rows(rows: pd.DataFrame, devices: dict[str, Device], price: Price) -> FloatArray:
    """Times of rows of equal device and format, with what modules spend beside the core [s]."""
    core_s = kernel_fit.by_system(rows, devices, ["dtype"], price)
    return np.asarray(core_s + rows["beside_s"].to_numpy())


def judged_from(core_s: float, module_s: float) -> Callable[[pd.DataFrame], NDArray[np.bool_]]:
    """Rows of 128 tokens or more that last; modules must last longer."""

    def judged(rows: pd.DataFrame) -> NDArray[np.bool_]:
        least_s = np.where(rows["beside_s"] > 0, module_s, core_s)
        return np.asarray((rows["time_s"] > least_s) & (rows["isl"] + rows["step"] >= 128))

    return judged


def prefill_fit(data: Path, devices: dict[str, Device]) -> kernel_fit.OperatorFit:
    table = core_table(data, devices, "context_mla")
    table = table[~table["kernel_source"].isin(_SIDE_PREFILL)].copy()

    def predict(parameters: dict[str, float], rows: pd.DataFrame) -> FloatArray:
        def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
            efficiency = LatentPrefillEfficiency(**parameters, compute_dtype=keys[0])
            return mla_prefill_s(
                rows["isl"],
                rows["step"],
                rows["batch_size"],
                rows["num_heads"],
                NOPE,
                ROPE,
                V_DIM,
                KV_LORA_RANK,
                device,
                efficiency,
            )

        return over_rows(rows, devices, price)

    return kernel_fit.OperatorFit(
        "mla_prefill",
        table,
        predict,
        PREFILL,
        lambda rows: np.ones(len(rows)),
        judged_from(5e-5, 2e-4),
        "systems data, context MLA tables of SGLang and TensorRT-LLM, MLA module table of vLLM",
        "residual over calls above 50 us (vLLM: modules above 200 us) with 128 tokens or more",
        not_for_any=("vllm",),
    )


def decode_fit(data: Path, devices: dict[str, Device]) -> kernel_fit.OperatorFit:
    table = core_table(data, devices, "generation_mla")
    for kernel, cache in _SIDE_DECODE:
        table = table[(table["kernel_source"] != kernel) | (table["kv_cache_dtype"] != cache)].copy()

    def predict(parameters: dict[str, float], rows: pd.DataFrame) -> FloatArray:
        def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
            return mla_decode_s(
                rows["batch_size"],
                rows["isl"] + rows["step"],
                rows["num_heads"],
                KV_LORA_RANK,
                ROPE,
                device,
                LatentDecodeEfficiency(**parameters),
                kv_bytes_per_element=1.0 if keys[0] == "fp8" else 2.0,
                warm_l2=True,
            )

        return over_rows(rows, devices, price)

    return kernel_fit.OperatorFit(
        "mla_decode",
        table,
        predict,
        DECODE,
        lambda rows: np.ones(len(rows)),
        judged_from(1e-5, 1e-4),
        "systems data, generation MLA tables of SGLang and TensorRT-LLM, MLA module table of vLLM",
        "residual over calls above 10 us (vLLM: modules above 100 us) with 128 tokens or more",
        not_for_any=("vllm",),
    )


def absorb_fit(data: Path, devices: dict[str, Device]) -> kernel_fit.OperatorFit:
    table = kernel_fit.kernel_table(data / "mla_bmm.parquet", devices)
    table["dtype"] = table["bmm_dtype"].map(kernel_fit.DTYPES)

    def predict(parameters: dict[str, float], rows: pd.DataFrame) -> FloatArray:
        def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
            depth, columns = (NOPE, KV_LORA_RANK) if keys[1] == "mla_gen_pre" else (KV_LORA_RANK, V_DIM)
            efficiency = AbsorbEfficiency(**parameters, weight_bytes=1.0 if keys[0] == "fp8" else 2.0)
            return absorbed_product_s(
                rows["num_tokens"], rows["num_heads"], depth, columns, device, efficiency, warm_l2=True
            )

        return kernel_fit.by_system(rows, devices, ["dtype", "op_name"], price)

    return kernel_fit.OperatorFit(
        "mla_absorb",
        table,
        predict,
        ABSORB,
        lambda rows: np.ones(len(rows)),
        lambda rows: np.asarray(rows["time_s"] > 5e-6),
        "systems data, MLA batched GEMM tables of vLLM, SGLang and TensorRT-LLM",
        "residual over calls above 5 us",
    )


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    for build in (prefill_fit, decode_fit, absorb_fit):
        fit = build(options.data, devices)
        kernel_fit.run(fit, options.points, options.only, dry_run=options.dry_run, program=PROGRAM)


if __name__ == "__main__":
    main()
