"""Fit the elementwise model on measured activation quantisation and write the catalog's records.

python -m advisor.evidence.fit.elementwise --data ../shared/data/kernels

A static quantisation kernel reads 16 bits and writes 8 per element without any reduction: it stands for the
norms, activations and residual sums of a layer (record `bf16`). Record `fp8` is the whole dynamic
quantisation.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.device import Device
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s

PARAMETERS = (
    kernel_data.Parameter("launch_s", 2e-6, 2e-7, 6e-5),
    kernel_data.Parameter("memory_fraction", 0.8, 0.1, 0.98),
    kernel_data.Parameter("l2_bytes_per_cycle", 30.0, 2.0, 128.0),
    kernel_data.Parameter("l2_share", 0.7, 0.1, 1.5),
)
Devices = dict[str, Device]
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator activation quantisation measurements (Apache-2.0)",
    "where": "systems data, computescale and scale_matrix tables",
    "accessed": "2026-11-20",
    "note": "parameters fitted by evidence/fit/elementwise.py",
}
_BYTES_PER_ELEMENT = 3.0


def load(data: Path) -> pd.DataFrame:
    """Seconds per (system, backend, rows, columns) of the static kernel (bf16) and of all kernels (fp8)."""
    table = pd.read_parquet(data / "quantize.parquet")
    table["seconds"] = table.latency.astype(float) * MILLISECOND_S
    keys = ["system", "backend", "m", "k"]
    wide = table.pivot_table(index=keys, columns="op_name", values="seconds", aggfunc="min").reset_index()
    wide["bytes"] = wide.m * wide.k * _BYTES_PER_ELEMENT
    # SGLang's table times one old kernel at a tenth of the bandwidth, far above what its fp8 GEMM calls take.
    wide = wide[wide.backend != "sglang"]
    static = wide.assign(dtype="bf16", seconds=lambda t: t.scale_matrix)
    dynamic = wide.assign(dtype="fp8", seconds=lambda t: t.scale_matrix + t.compute_scale.fillna(0.0))
    both = pd.concat([static, dynamic])
    return both[both.k.between(512, 20000) & (both.seconds > 0)]


def predict(table: pd.DataFrame, devices: Devices, dtype: str, parameters: dict[str, float]) -> np.ndarray:
    """Predicted seconds of every row."""
    efficiency = ElementwiseEfficiency(dtype=dtype, **parameters)
    out = np.empty(len(table))
    for system in table.system.unique():
        mine = (table.system == system).to_numpy()
        out[mine] = elementwise_s(table.bytes.to_numpy()[mine], devices[system], efficiency)
    return out


def fit(table: pd.DataFrame, devices: Devices, dtype: str, points: int) -> dict[str, float]:
    """Parameters of one group of measurements."""
    chosen = table.sample(min(points, len(table)), random_state=0)
    measured = chosen.seconds.to_numpy()
    return kernel_data.fit_log_ratio(
        PARAMETERS, lambda values: predict(chosen, devices, dtype, values), measured, np.ones(len(chosen))
    )


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    operator = kernel_data.Operator(
        name="elementwise",
        program="evidence/fit/elementwise.py",
        source=SOURCE,
        fit=lambda table, dtype: fit(table, devices, dtype, options.points),
        predict=lambda table, dtype, parameters: predict(table, devices, dtype, parameters),
        judged=lambda table: table,
    )
    kernel_data.fit_operator(operator, load(options.data), options.only, options.dry_run)


if __name__ == "__main__":
    main()
