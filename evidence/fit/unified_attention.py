"""Fit attention in one kernel for prompts and decodes on the project's own measurements, and write its record.

python -m advisor.evidence.fit.unified_attention --data ../shared/data/kernels
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.accelerators import by_id
from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.unified_attention import (
    TILE_ROWS,
    UnifiedAttentionEfficiency,
    unified_decode_s,
    unified_prefill_s,
)

FloatArray = NDArray[np.float64]
PROGRAM = "evidence/fit/unified_attention.py"
MEASURED = (
    kernel_data.REPOSITORY / "catalog" / "data" / "measured" / "h200-sxm-unified-attention-2026-11-22.json"
)
PARAMETERS = (
    kernel_data.Parameter("launch_s", 4e-6, 1e-6, 2e-5),
    kernel_data.Parameter("tile_cycles", 1500.0, 10.0, 30000.0),
    kernel_data.Parameter("key_cycles", 8.0, 0.5, 60.0),
    kernel_data.Parameter("key_dim_cycles", 0.15, 0.01, 2.0),
    kernel_data.Parameter("chain_cycles", 60.0, 2.0, 400.0),
    kernel_data.Parameter("chain_dim_cycles", 0.3, 0.01, 4.0),
    kernel_data.Parameter("bandwidth_fraction", 0.85, 0.4, 1.0),
    kernel_data.Parameter("overlap_norm", 2.0, 1.0, 8.0),
)
_LONG_S = 5e-5


def own_measurements() -> pd.DataFrame:
    """The kernel as vLLM 0.11 calls it, on one H200."""
    document = json.loads(MEASURED.read_text(encoding="utf-8"))
    return pd.DataFrame(document["rows"], columns=document["columns"])


def other_architecture(data: Path, phase: str) -> pd.DataFrame:
    """A later version of the kernel on an L40S, with a cache in fp8: what the record lends is judged by it."""
    file = {"prefill": "attention_context.parquet", "decode": "attention_generation.parquet"}[phase]
    filters = [("system", "==", "l40s"), ("kernel_source", "==", "vllm_triton_attn")]
    table = pd.read_parquet(data / file, filters=filters)
    table["time_s"] = table.pop("latency").astype(float) * MILLISECOND_S
    names = {"num_key_value_heads": "num_kv_heads", "step": "cached_tokens", "window_size": "window_tokens"}
    table = table.rename(columns=names).assign(phase=phase)
    table["new_tokens"] = table["isl"] if phase == "prefill" else 1
    usual = table["num_heads"] <= TILE_ROWS * table["num_kv_heads"]
    return table[usual & (table["time_s"] > _LONG_S) & (table["window_tokens"] == 0)]


def predict(
    parameters: dict[str, float], table: pd.DataFrame, device: Device, kv_bytes_per_element: float = 2.0
) -> FloatArray:
    """Times of the rows [s]."""
    efficiency = UnifiedAttentionEfficiency(**parameters)
    out = np.empty(len(table))
    for (phase, window), rows in table.reset_index(drop=True).groupby(["phase", "window_tokens"]):
        heads = (rows["num_heads"], rows["num_kv_heads"], rows["head_dim"], device, efficiency)
        if phase == "prefill":
            seconds = unified_prefill_s(
                rows["new_tokens"], rows["cached_tokens"], rows["batch_size"], *heads,
                window_tokens=int(window) or None,
            )  # fmt: skip
        else:
            seconds = unified_decode_s(
                rows["batch_size"], rows["cached_tokens"] + 1, *heads,
                window_tokens=int(window) or None, kv_bytes_per_element=kv_bytes_per_element,
            )  # fmt: skip
        out[rows.index.to_numpy()] = seconds
    return out


def lent_errors(parameters: dict[str, float], data: Path) -> FloatArray:
    """|predicted / measured - 1| on the other architecture."""
    device = device_of(by_id("l40s"))
    errors = []
    for phase in ("prefill", "decode"):
        rows = other_architecture(data, phase)
        predicted = predict(parameters, rows, device, kv_bytes_per_element=1.0)
        errors.append(np.abs(predicted / rows["time_s"].to_numpy() - 1.0))
        print(phase, "on l40s", float(np.median(predicted / rows["time_s"].to_numpy())))
    return np.concatenate(errors)


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    table, device = own_measurements(), device_of(by_id("h200-sxm"))
    measured = table["time_s"].to_numpy()
    weights = np.where(measured > _LONG_S, 2.0, 1.0)
    found = kernel_data.fit_log_ratio(
        PARAMETERS, lambda values: predict(values, table, device), measured, weights
    )
    residual = kernel_data.residual(predict(found, table, device), measured)
    residual["left_out_median_abs_error"] = round(float(np.median(lent_errors(found, options.data))), 4)
    record = {
        "dtype": "bf16",
        "engine": kernel_data.ANY_ENGINE,
        "fitted_on": [device.id],
        "parameters": {name: float(f"{value:.4g}") for name, value in found.items()},
        "residual": residual,
    }
    print(record)
    if not options.dry_run:
        source = {
            "kind": "measured",
            "title": "own measurements of vLLM 0.11's unified_attention on one H200",
            "where": "catalog/data/measured/h200-sxm-unified-attention-2026-11-22.json",
            "accessed": "2026-11-22",
            "note": "left out: an L40S, newer kernel, cache in fp8 (ai-dynamo/aiconfigurator, Apache-2.0)",
        }
        kernel_data.write_records("unified_attention", "hopper", [record], source, PROGRAM)


if __name__ == "__main__":
    main()
