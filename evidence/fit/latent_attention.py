"""Fit latent attention: prefill, decode, absorbed matmuls.

TensorRT-LLM and SGLang timed the attention core. Of vLLM only whole modules are worth using, so its level is fitted on
them, with everything but the core priced by the catalog's other records.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.efficiencies import efficiency
from advisor.catalog.schema import EfficiencyRecord
from advisor.evidence.fit.attention import PREFILL
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    DTYPES,
    OperatorFit,
    KernelParameter,
    Values,
    by_system,
    devices,
    fit_operators,
    groups,
    newest,
    source_of,
)
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s
from advisor.simulator.operators.latent_attention import (
    AbsorbEfficiency,
    LatentDecodeEfficiency,
    absorbed_product_s,
    mla_absorb_s,
    mla_decode_s,
    mla_prefill_s,
)
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s

# DeepSeek-V3: config.json of deepseek-ai/DeepSeek-V3. All measured modules share its head shape.
HIDDEN = 7168
Q_RANK = 1536
KV_LORA_RANK = 512
NOPE = 128
ROPE = 64
V_DIM = 128
GEMM_DTYPES = {"bfloat16": "bf16", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}

DECODE = (
    KernelParameter("launch_s", 1.2e-5, 1e-6, 2e-4),
    KernelParameter("bandwidth_fraction", 0.85, 0.2, 1.0),
    KernelParameter("ramp_bytes_per_sm", 1e5, 1e3, 2e6),
    KernelParameter("ramp_half_bytes_per_sm", 2e4, 5e3, 2e6),
    KernelParameter("unit_overhead_cycles", 6000.0, 100.0, 60000.0),
    KernelParameter("overlap_exponent", 2.0, 1.0, 6.0),
    KernelParameter("stream_sms", 40.0, 1.0, 400.0),
    KernelParameter("compute_fraction", 0.6, 0.05, 2.0),
    KernelParameter("l2_fraction", 0.7, 0.05, 1.5),
    KernelParameter("l2_speedup", 3.0, 1.0, 30.0),
    KernelParameter("second_tile_share", 0.1, 0.001, 1.0),
)
ABSORB = (
    KernelParameter("launch_s", 4e-6, 1e-6, 5e-5),
    KernelParameter("bandwidth_fraction", 0.85, 0.2, 1.0),
    KernelParameter("peak_fraction", 0.6, 0.05, 2.0),
    KernelParameter("overlap_exponent", 2.0, 1.0, 6.0),
    KernelParameter("activation_passes", 1.0, 0.3, 12.0),
    KernelParameter("l2_fraction", 0.7, 0.05, 1.5),
    KernelParameter("l2_speedup", 2.0, 1.0, 10.0),
)
# vLLM 0.14 timed its core kernels outside a captured graph: most rows are host time.
_EAGER_VERSIONS = ("0.14.0",)
# vLLM's modules on B200 and GB200 differ by half, which no property of the two explains.
_MODULES_DISAGREE = ("blackwell", "blackwell-ultra")
# Rows of SGLang that say little about what engines run: prefill in the latent space, which it does only for short
# extensions; Triton kernels several times slower than the others; FlashAttention 3 on an fp8 cache, ten times slower.
_SIDE_PREFILL = ("flash_attention", "triton")
_SIDE_DECODE = (("triton", "bfloat16"), ("triton", "fp8"), ("flash_attention", "fp8"))


def projections(heads: int, *, decode: bool) -> tuple[tuple[int, int], ...]:
    """Return columns and depth of the projections of one rank."""
    expand = () if decode else ((heads * (NOPE + V_DIM), KV_LORA_RANK),)
    return (
        (Q_RANK + KV_LORA_RANK + ROPE, HIDDEN),
        (heads * (NOPE + ROPE), Q_RANK),
        *expand,
        (HIDDEN, heads * V_DIM),
    )


def module_table(options: Options, decode: bool) -> pd.DataFrame:
    """Return measured DeepSeek-V3 modules of a first chunk or of a decode step, with the time of all but the core."""
    table = newest(options.kernels("mla"), level=("table",))
    name = "mla_generation_module" if decode else "mla_context_module"
    table = table[(table["table"] == name) & (table["model"] == "deepseek-ai/DeepSeek-V3")]
    # Later chunks add the expansion of cached latents; Triton's MLA decode is a fallback without CUDA graphs.
    table = table[(table["step"] <= 1) | decode]
    table = table[table["kernel_source"] != "TRITON_MLA"].reset_index(drop=True)
    beside_s = np.zeros(len(table))
    for (system, engine, heads, gemm), rows in groups(table, ["system", "engine", "num_heads", "gemm_type"]):
        tokens = rows["batch_size"].to_numpy(float) * (1.0 if decode else rows["isl"].to_numpy(float))
        beside_s[rows.index] = beside_core_s(tokens, devices()[system], engine, int(heads), gemm, decode)
    return table.assign(beside_s=beside_s)


def beside_core_s(
    tokens: FloatArray, device: Device, engine: str, heads: int, gemm: str, decode: bool
) -> FloatArray:
    """Time of projections, norms, rotary embedding with cache write, and in decode the absorbed matmuls [s]."""

    def stored_record(operator: str, dtype: str = "bf16") -> EfficiencyRecord:
        return efficiency(device.architecture, operator, dtype, engine).record

    matmul = MatmulEfficiency.from_record(stored_record("matmul", GEMM_DTYPES[gemm]))
    small = ElementwiseEfficiency.from_record(stored_record("elementwise"))
    seconds = np.zeros_like(tokens)
    for columns, depth in projections(heads, decode=decode):
        seconds = seconds + matmul_s(tokens, columns, depth, device, matmul)
    for width in (Q_RANK, KV_LORA_RANK, heads * ROPE + KV_LORA_RANK):
        seconds = seconds + elementwise_s(tokens * 4.0 * width, device, small)
    if decode:
        absorb = AbsorbEfficiency.from_record(stored_record("mla_absorb"))
        seconds = seconds + mla_absorb_s(tokens, heads, KV_LORA_RANK, NOPE, V_DIM, device, absorb)
    return seconds


def core_table(options: Options, decode: bool) -> pd.DataFrame:
    """Return rows of the attention core, without those that time the host; vLLM's rows are its modules."""
    table = newest(options.kernels("mla"), level=("table",))
    name = "generation_mla" if decode else "context_mla"
    table = table[(table["table"] == name) & ~table["version"].isin(_EAGER_VERSIONS)]
    table = table.assign(beside_s=0.0, dtype=table["kv_cache_dtype"].map(DTYPES))
    modules = module_table(options, decode)
    modules = modules[(modules["engine"] == "vllm") & ~modules["architecture"].isin(_MODULES_DISAGREE)]
    # Short prefills run on vLLM's decode kernel.
    of_decode = modules["kernel_source"].isin(["FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA"])
    modules = modules[decode | ~of_decode]
    dtype = modules["kv_cache_dtype" if decode else "mla_dtype"].map(DTYPES)
    return pd.concat([table, modules.assign(dtype=dtype)], ignore_index=True)


def mask_from(core_s: float, module_s: float) -> Callable[[pd.DataFrame], NDArray[np.bool_]]:
    """Return a mask function for rows of 128 tokens or more that last long enough; modules must last longer."""

    def is_judged(rows: pd.DataFrame) -> NDArray[np.bool_]:
        least_s = np.where(rows["beside_s"] > 0, module_s, core_s)
        return np.asarray((rows["time_s"] > least_s) & (rows["isl"] + rows["step"] >= 128))

    return is_judged


def predict_prefill(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Times of prompts, with the time that modules spend outside the core [s]."""
    efficiency = PrefillEfficiency(**parameters, compute_dtype=dtype)

    def price(device: Device, _: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        calls = (rows["isl"], rows["step"], rows["batch_size"], rows["num_heads"])
        return mla_prefill_s(*calls, NOPE, ROPE, V_DIM, KV_LORA_RANK, device, efficiency)

    return np.asarray(by_system(rows, [], price) + rows["beside_s"].to_numpy())


def predict_decode(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Times of decode steps on a warm cache, with the time that modules spend outside the core [s]."""
    efficiency = LatentDecodeEfficiency(**parameters)
    kv_bytes = 1.0 if dtype == "fp8" else 2.0

    def price(device: Device, _: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        calls = (rows["batch_size"], rows["isl"] + rows["step"], rows["num_heads"])
        return mla_decode_s(
            *calls, KV_LORA_RANK, ROPE, device, efficiency, kv_bytes_per_element=kv_bytes, warm_l2=True
        )

    return np.asarray(by_system(rows, [], price) + rows["beside_s"].to_numpy())


def predict_absorb(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Times of absorbed matmuls [s]."""
    efficiency = AbsorbEfficiency(**parameters, weight_bytes=1.0 if dtype == "fp8" else 2.0)

    def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        depth, columns = (NOPE, KV_LORA_RANK) if keys[0] == "mla_gen_pre" else (KV_LORA_RANK, V_DIM)
        calls = (rows["num_tokens"], rows["num_heads"])
        return absorbed_product_s(*calls, depth, columns, device, efficiency, warm_l2=True)

    return by_system(rows, ["op_name"], price)


def prefill_fit(options: Options) -> OperatorFit:
    """Return the fit of the core of prompts."""
    table = core_table(options, decode=False)
    source = source_of(
        "systems data, context MLA tables of SGLang and TensorRT-LLM, MLA module table of vLLM",
        "residual over calls above 50 us (vLLM: modules above 200 us) with 128 tokens or more",
    )
    return OperatorFit(
        "mla_prefill",
        table[~table["kernel_source"].isin(_SIDE_PREFILL)],
        predict_prefill,
        PREFILL,
        source,
        judged=mask_from(5e-5, 2e-4),
        not_for_any=("vllm",),
    )


def decode_fit(options: Options) -> OperatorFit:
    """Return the fit of the core of decode steps."""
    table = core_table(options, decode=True)
    for kernel, cache in _SIDE_DECODE:
        table = table[(table["kernel_source"] != kernel) | (table["kv_cache_dtype"] != cache)]
    source = source_of(
        "systems data, generation MLA tables of SGLang and TensorRT-LLM, MLA module table of vLLM",
        "residual over calls above 10 us (vLLM: modules above 100 us) with 128 tokens or more",
    )
    return OperatorFit(
        "mla_decode",
        table,
        predict_decode,
        DECODE,
        source,
        judged=mask_from(1e-5, 1e-4),
        not_for_any=("vllm",),
    )


def absorb_fit(options: Options) -> OperatorFit:
    """Return the fit of matmuls that are absorbed into the latent space."""
    table = newest(options.kernels("mla_bmm"))
    where = "systems data, MLA batched GEMM tables of vLLM, SGLang and TensorRT-LLM"
    return OperatorFit(
        "mla_absorb",
        table.assign(dtype=table["bmm_dtype"].map(DTYPES)),
        predict_absorb,
        ABSORB,
        source_of(where, "residual over calls above 5 us"),
        judged=lambda rows: np.asarray(rows["time_s"] > 5e-6),
    )


def run(options: Options) -> None:
    """Fit prompts, decode steps and absorbed matmuls of latent attention."""
    fits = (build(options) for build in (prefill_fit, decode_fit, absorb_fit))
    fit_operators(fits, options, "latent_attention")
