"""Fit SGLang's Triton decode of latent attention on own measurements; write the catalog's record.

python tools/fit/fit_triton_latent.py

measured_triton_latent.csv beside this file: microseconds of one call of decode_attention_fwd (sglang 0.5.11) on one
H100, PyTorch 2.11, Triton 3.6, in a captured graph that runs through caches larger than the L2, with as many splits as
the engine's own rule gives; 576 elements of 16 bits per key.
"""

from pathlib import Path

import common
import numpy as np
import pandas as pd

from advisor.catalog.units import MICROSECOND_S
from advisor.simulator.operators.triton_latent import TritonLatentEfficiency, triton_latent_s

MEASURED = Path(__file__).parent / "measured_triton_latent.csv"
PARAMETERS = (
    common.Parameter("launch_s", 6e-6, 2e-7, 3e-5),
    common.Parameter("key_cycles", 250.0, 20.0, 2000.0),
    common.Parameter("blocks_per_sm", 2.0, 0.5, 8.0),
)


def main() -> None:
    options = common.arguments(__doc__ or "").parse_args()
    device = common.devices()["h100_sxm"]
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
        return common.fit_log_ratio(
            PARAMETERS,
            lambda values: predict(rows, dtype, values),
            rows.seconds.to_numpy(),
            np.ones(len(rows)),
        )

    source = {
        "kind": "measured",
        "title": "PyPI sglang 0.5.11 (Apache-2.0): triton_ops/decode_attention.py",
        "where": "timed on one H100, tools/fit/measured_triton_latent.csv",
        "accessed": "2026-11-22",
        "note": "parameters fitted by tools/fit/fit_triton_latent.py",
    }
    operator = common.Operator(
        name="mla_triton",
        program="tools/fit/fit_triton_latent.py",
        source=source,
        fit=fit,
        predict=predict,
        judged=lambda rows: rows[rows.microseconds > 20.0],
    )
    common.fit_operator(operator, table, options.only, options.dry_run)


if __name__ == "__main__":
    main()
