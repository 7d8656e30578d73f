"""Fit prefill and decode attention per architecture, format and engine, and write the catalog's records."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    DTYPES,
    SGLANG_TRITON,
    OperatorFit,
    KernelParameter,
    Values,
    by_system,
    fit_operators,
    newest,
    source_of,
)
from advisor.simulator.device import Device
from advisor.simulator.operators.attention import attention_decode_s, attention_encoder_s, attention_prefill_s
from advisor.simulator.operators.attention_kernels import DecodeEfficiency, PrefillEfficiency

PREFILL = (
    KernelParameter("launch_s", 1e-5, 1e-6, 2e-4),
    KernelParameter("peak_fraction", 0.65, 0.1, 1.0),
    KernelParameter("wide_head_slowdown", 0.1, 0.001, 10.0),
    KernelParameter("scores_per_cycle", 16.0, 2.0, 200.0),
    KernelParameter("overlap_exponent", 3.0, 1.0, 8.0),
    KernelParameter("tile_overhead_cycles", 3000.0, 100.0, 30000.0),
    KernelParameter("serial_rows", 100.0, 16.0, 256.0),
    KernelParameter("tail_exponent", 1.3, 1.0, 6.0),
    KernelParameter("query_passes", 1.0, 0.01, 8.0),
    KernelParameter("key_passes", 1.0, 0.01, 20.0),
)
DECODE = (
    KernelParameter("launch_s", 9e-6, 1e-6, 2e-4),
    KernelParameter("bandwidth_fraction", 0.85, 0.2, 1.0),
    KernelParameter("ramp_bytes_per_sm", 1e5, 1e3, 2e6),
    KernelParameter("ramp_half_bytes_per_sm", 2e4, 5e3, 2e6),
    KernelParameter("unit_overhead_cycles", 4000.0, 100.0, 30000.0),
    KernelParameter("overlap_exponent", 1.5, 1.0, 6.0),
    KernelParameter("stream_sms", 40.0, 1.0, 400.0),
    KernelParameter("compute_fraction", 0.6, 0.05, 1.0),
    KernelParameter("l2_fraction", 0.7, 0.05, 1.5),
    KernelParameter("l2_speedup", 3.0, 1.0, 30.0),
)


def predict_decode(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Decode times of table rows, on a cache that the benchmark has warmed [s]."""
    efficiency = DecodeEfficiency(**parameters)

    def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        return attention_decode_s(
            rows["batch_size"],
            rows["isl"] + rows["step"],
            rows["num_heads"],
            rows["num_key_value_heads"],
            rows["head_dim"],
            device,
            efficiency,
            window_tokens=int(keys[0]) or None,
            kv_bytes_per_element=1.0 if keys[1] == "fp8" else 2.0,
            warm_l2=True,
        )

    return by_system(rows, ["window_size", "kv_cache_dtype"], price)


def predict_prefill(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Prefill times of table rows [s]."""
    efficiency = PrefillEfficiency(**parameters, compute_dtype=dtype)

    def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        return attention_prefill_s(
            rows["isl"],
            rows["step"],
            rows["batch_size"],
            rows["num_heads"],
            rows["num_key_value_heads"],
            rows["head_dim"],
            device,
            efficiency,
            window_tokens=int(keys[0]) or None,
            kv_bytes_per_element=1.0 if keys[1] == "fp8" else 2.0,
        )

    return by_system(rows, ["window_size", "kv_cache_dtype"], price)


def predict_encoder(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Times of a vision tower's attention, for table rows [s]."""
    efficiency = PrefillEfficiency(**parameters)  # type: ignore[arg-type]

    def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        shape = (rows["isl"], rows["batch_size"], rows["num_heads"], rows["head_dim"])
        return attention_encoder_s(*shape, device, efficiency)

    return by_system(rows, [], price)


def shape_weight(table: pd.DataFrame) -> FloatArray:
    """Weight of each row: shapes that language models run after tensor parallelism count most."""
    kv_heads = table["num_key_value_heads"]
    heads = table["num_heads"]
    weight = np.where(kv_heads <= 8, 1.0, 0.3) * np.where(heads <= 64, 1.0, 0.4)
    weight = weight * np.where((kv_heads == heads) & (heads > 8), 0.5, 1.0)
    weight = weight * np.where(heads / kv_heads > 16, 0.3, 1.0)
    return np.asarray(weight * np.where(table["head_dim"] == 128, 1.0, 0.5))


def long_first(table: pd.DataFrame) -> FloatArray:
    """Shape weight, doubled for long calls, because an iteration consists of them."""
    return np.asarray(shape_weight(table) * np.where(table["time_s"] > 5e-5, 2.0, 1.0))


def typical(table: pd.DataFrame, from_s: float, min_tokens: int) -> NDArray[np.bool_]:
    """Mask of the rows that judge a fit: not launch-bound, full attention, at most 8 KV heads."""
    tokens = table["isl"] + table["step"]
    return np.asarray(
        (table["time_s"] > from_s)
        & (table["num_key_value_heads"] <= 8)
        & (table["num_heads"] <= 64)
        & (table["num_heads"] <= 16 * table["num_key_value_heads"])
        & (table["window_size"] == 0)
        & (tokens >= min_tokens)
    )


def common_kernels(table: pd.DataFrame, side_kernels: tuple[str, ...]) -> pd.DataFrame:
    """Return rows of the kernels that engines take for ordinary shapes, without those for sinks or odd head counts.

    SGLang's Triton kernels on data-centre Blackwell are a level of their own: some models run on them.
    """
    data_centre_blackwell = table["architecture"].isin(["blackwell", "blackwell-ultra"])
    triton = (table["kernel_source"] == "triton") & (table["engine"] == "sglang")
    side = table["kernel_source"].isin(side_kernels) | (triton & ~data_centre_blackwell)
    side |= (table["kernel_source"] == "flashinfer") & data_centre_blackwell
    table = table.assign(engine=table["engine"].where(~triton, SGLANG_TRITON))
    return table[~side & (table["head_dim"] <= 256)].copy()


def prefill_fit(options: Options) -> OperatorFit:
    """Return the fit of prefill attention."""
    side = (
        "vllm_triton_attn",
        "vllm_flash_attn_fa4",
        "torch_flow_flashinfer",
        "vllm_flashinfer_trtllmdecode",
    )
    table = common_kernels(newest(options.kernels("attention_context")), side)
    # The bf16 record prices a cache in fp8 with 16-bit queries, which is read once and widened.
    table = table[(table["attn_dtype"] == "fp8") | (table["kv_cache_dtype"] == "bfloat16")].copy()
    table["dtype"] = table["attn_dtype"].map(DTYPES)
    source = source_of(
        "systems data, context attention tables of vLLM, SGLang and TensorRT-LLM",
        "residual over calls above 50 us with at most 8 KV heads and 256 tokens or more, full attention",
    )
    return OperatorFit(
        "attention_prefill",
        table,
        predict_prefill,
        PREFILL,
        source,
        long_first,
        lambda rows: typical(rows, 5e-5, 256),
        not_for_any=(SGLANG_TRITON,),
    )


def decode_fit(options: Options) -> OperatorFit:
    """Return the fit of decode attention."""
    side = ("vllm_triton_attn", "vllm_flash_attn_fa4", "torch_flow_flashinfer")
    table = common_kernels(newest(options.kernels("attention_generation")), side)
    # TensorRT-LLM's A100 rows read the cache at up to 1.6 times the memory bandwidth: not a time of this work.
    # SGLang's A100 rows are of an attention back end that it does not choose there: FlashInfer is its default below
    # Hopper (server_args.py). They reach two thirds of the bandwidth, where FlashAttention 2 reaches 85 %.
    wrong = (table["architecture"] == "ampere") & table["engine"].isin(["tensorrt-llm", "sglang"])
    table = table[~wrong].copy()
    table["dtype"] = table["kv_cache_dtype"].map(DTYPES)
    source = source_of(
        "systems data, generation attention tables of vLLM, SGLang and TensorRT-LLM",
        "residual over calls above 10 us with at most 8 KV heads and 128 tokens or more, full attention",
    )
    return OperatorFit(
        "attention_decode",
        table,
        predict_decode,
        DECODE,
        source,
        long_first,
        lambda rows: typical(rows, 1e-5, 128),
        not_for_any=(SGLANG_TRITON,),
    )


def encoder_fit(options: Options) -> OperatorFit:
    """Return the fit of attention of vision towers."""
    table = newest(options.kernels("encoder_attention"))
    # SGLang's Triton kernel for vision towers is several times slower than the others, and erratic.
    table = table[table["kernel_source"] != "triton"].assign(dtype="bf16")
    source = source_of(
        "systems data, encoder attention tables of vLLM, SGLang and TensorRT-LLM",
        "residual over calls above 50 us with 256 tokens or more; head dimensions 64, 72 and 80",
    )
    return OperatorFit(
        "attention_encoder",
        table,
        predict_encoder,
        PREFILL,
        source,
        lambda rows: np.where(rows["time_s"] > 5e-5, 2.0, 1.0),
        lambda rows: np.asarray((rows["time_s"] > 5e-5) & (rows["isl"] >= 256)),
    )


def run(options: Options) -> None:
    """Fit attention of prefill, decode and vision towers."""
    fit_operators((build(options) for build in (prefill_fit, decode_fit, encoder_fit)), options, "attention")
