"""Fit attention in one kernel for prompts and decodes on the project's own measurements, and write its record."""

import json

import numpy as np
import pandas as pd

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import ANY_ENGINE
from advisor.catalog.files import DATA_DIR, read_text
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    KernelParameter,
    Values,
    convert_table,
    fit_log_ratio,
    groups,
    record_of,
    residual,
    write_records,
)
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.unified_attention import (
    TILE_ROWS,
    UnifiedAttentionEfficiency,
    unified_decode_s,
    unified_prefill_s,
)

MEASURED = "h200-sxm-unified-attention-2026-11-22.json"
PARAMETERS = (
    KernelParameter("launch_s", 4e-6, 1e-6, 2e-5),
    KernelParameter("tile_cycles", 1500.0, 10.0, 30000.0),
    KernelParameter("key_cycles", 8.0, 0.5, 60.0),
    KernelParameter("key_dim_cycles", 0.15, 0.01, 2.0),
    KernelParameter("chain_cycles", 60.0, 2.0, 400.0),
    KernelParameter("chain_dim_cycles", 0.3, 0.01, 4.0),
    KernelParameter("bandwidth_fraction", 0.85, 0.4, 1.0),
    KernelParameter("overlap_norm", 2.0, 1.0, 8.0),
)
_LONG_S = 5e-5
SOURCE = {
    "kind": "measured",
    "title": "own measurements of vLLM 0.11's unified_attention on one H200",
    "where": f"catalog/data/measured/{MEASURED}",
    "accessed": "2026-11-22",
    "note": "left out: an L40S, newer kernel, cache in fp8 (ai-dynamo/aiconfigurator, Apache-2.0)",
}


def other_architecture(options: Options, phase: str) -> pd.DataFrame:
    """Return a later version of the kernel on an L40S, with a cache in fp8; it judges the record's transfer."""
    file = {"prefill": "attention_context", "decode": "attention_generation"}[phase]
    filters = [("system", "==", "l40s"), ("kernel_source", "==", "vllm_triton_attn")]
    table = convert_table(pd.read_parquet(options.kernels(file), filters=filters))
    names = {"num_key_value_heads": "num_kv_heads", "step": "cached_tokens", "window_size": "window_tokens"}
    table = table.rename(columns=names).assign(phase=phase)
    table["new_tokens"] = table["isl"] if phase == "prefill" else 1
    usual = table["num_heads"] <= TILE_ROWS * table["num_kv_heads"]
    return table[usual & (table["time_s"] > _LONG_S) & (table["window_tokens"] == 0)]


def predict(parameters: Values, table: pd.DataFrame, device: Device, kv_bytes: float = 2.0) -> FloatArray:
    """Times of the rows [s]."""
    efficiency = UnifiedAttentionEfficiency(**parameters)
    out = np.empty(len(table))
    for (phase, window), rows in groups(table.reset_index(drop=True), ["phase", "window_tokens"]):
        heads = (rows["num_heads"], rows["num_kv_heads"], rows["head_dim"])
        tokens = int(window) or None
        if phase == "prefill":
            calls = (rows["new_tokens"], rows["cached_tokens"], rows["batch_size"])
            seconds = unified_prefill_s(*calls, *heads, device, efficiency, window_tokens=tokens)
        else:
            seconds = unified_decode_s(
                rows["batch_size"],
                rows["cached_tokens"] + 1,
                *heads,
                device,
                efficiency,
                window_tokens=tokens,
                kv_bytes_per_element=kv_bytes,
            )
        out[rows.index.to_numpy()] = seconds
    return out


def lent_errors(parameters: Values, options: Options) -> FloatArray:
    """Return |predicted / measured - 1| on the other architecture."""
    errors = []
    for phase in ("prefill", "decode"):
        rows = other_architecture(options, phase)
        ratios = predict(parameters, rows, device_of(by_id("l40s")), 1.0) / rows["time_s"].to_numpy()
        errors.append(np.abs(ratios - 1.0))
        print(phase, "on l40s", float(np.median(ratios)))
    return np.concatenate(errors)


def run(options: Options) -> None:
    """Fit the kernel as vLLM 0.11 calls it, on one H200."""
    document = json.loads(read_text(DATA_DIR / "measured" / MEASURED))
    table = pd.DataFrame(document["rows"], columns=document["columns"])
    device = device_of(by_id("h200-sxm"))
    measured = table["time_s"].to_numpy()
    weights = np.where(measured > _LONG_S, 2.0, 1.0)
    found = fit_log_ratio(PARAMETERS, lambda values: predict(values, table, device), measured, weights)
    left = residual(predict(found, table, device), measured)
    left["left_out_median_abs_error"] = round(float(np.median(lent_errors(found, options))), 4)
    records = [record_of("bf16", ANY_ENGINE, [device.id], found, left)]
    write_records("unified_attention", "hopper", records, SOURCE, "unified_attention", options)
