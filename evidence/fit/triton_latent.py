"""Fit SGLang's Triton decode of latent attention on own measurements; write the catalog's record.

python -m advisor.evidence.fit.triton_latent

measured_triton_latent.csv beside this file: microseconds of one call of decode_attention_fwd (sglang 0.5.11) on one
H100, PyTorch 2.11, Triton 3.6, in a captured graph that runs through caches larger than the L2, with as many splits as
the engine's own rule gives; 576 elements of 16 bits per key.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.units import MICROSECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.operators.triton_latent import TritonLatentEfficiency, triton_latent_s

MEASURED = Path(__file__).parent / "measured_triton_latent.csv"
PARAMETERS = (
    kernel_data.Parameter("launch_s", 6e-6, 2e-7, 3e-5),
    kernel_data.Parameter("key_cycles", 250.0, 20.0, 2000.0),
    kernel_data.Parameter("blocks_per_sm", 2.0, 0.5, 8.0),
)


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    device = kernel_data.devices()["h100_sxm"]
    table = pd.read_csv(MEASURED)
    table["seconds"] = table.microseconds * MICROSECOND_S

    def predict(rows: pd.DataFrame, dtype: str, values: dict[str, float]) -> np.ndarray:
        efficiency = TritonLatentEfficiency(**values)
        times = [
            triton_latent_s(row.batch, row.context, int(row.heads), device, efficiency)
            for row in rows.itertuples()
        ]
        return np.array(times, dtype=np.float64)

    def fit(rows: pd.DataFrame, dtype: str) -> dict[str, float]:
        return kernel_data.fit_log_ratio(
            PARAMETERS,
            lambda values: predict(rows, dtype, values),
            rows.seconds.to_numpy(),
            np.ones(len(rows)),
        )

    source = {
        "kind": "measured",
        "title": "PyPI sglang 0.5.11 (Apache-2.0): triton_ops/decode_attention.py",
        "where": "timed on one H100, evidence/fit/measured_triton_latent.csv",
        "accessed": "2026-11-22",
        "note": "parameters fitted by evidence/fit/triton_latent.py",
    }
    operator = kernel_data.Operator(
        name="mla_triton",
        program="evidence/fit/triton_latent.py",
        source=source,
        fit=fit,
        predict=predict,
        judged=lambda rows: rows[rows.microseconds > 20.0],
    )
    kernel_data.fit_operator(operator, table, options.only, options.dry_run)


if __name__ == "__main__":
    main()
