"""What the fits of attention and state-space kernels share: tables, rows by device, one record per level."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit import kernel_data
from advisor.simulator.device import Device

FloatArray = NDArray[np.float64]
DTYPES = {"bfloat16": "bf16", "fp8": "fp8"}
Predict = Callable[[dict[str, float], pd.DataFrame], FloatArray]


@dataclass(frozen=True)
class OperatorFit:
    """One operator to fit: its table, time function, parameters, and the rows by which it is judged."""

    operator: str
    table: pd.DataFrame
    predict: Predict
    parameters: tuple[kernel_data.Parameter, ...]
    weight: Callable[[pd.DataFrame], FloatArray]
    judged: Callable[[pd.DataFrame], NDArray[np.bool_]]
    where: str
    note: str
    not_for_any: tuple[str, ...] = ()
    """Engines whose rows say nothing about an engine that was not measured."""


def kernel_table(path: Path, devices: Mapping[str, Device], *, level: Sequence[str] = ()) -> pd.DataFrame:
    """A kernel table with seconds and ids; of each system, backend and `level` only the newest version."""
    table = pd.read_parquet(path)
    newest = table.groupby(["system", "backend", *level], dropna=False)["version"].transform("max")
    table = table[(table["version"] == newest) & (table["latency"] > 0)].copy()
    table["time_s"] = table["latency"].astype(float) * MILLISECOND_S
    table["engine"] = table["backend"].map(kernel_data.ENGINES)
    table["accelerator"] = table["system"].map({name: device.id for name, device in devices.items()})
    table["architecture"] = table["system"].map(
        {name: architecture for name, (_, architecture) in kernel_data.SYSTEMS.items()}
    )
    return table


def by_system(
    table: pd.DataFrame,
    devices: Mapping[str, Device],
    keys: Sequence[str],
    price: Callable[[Device, tuple[str, ...], pd.DataFrame], FloatArray],
) -> FloatArray:
    """Times of groups of equal system and keys, in the order of the table's rows [s]."""
    out = np.empty(len(table))
    for values, rows in table.reset_index(drop=True).groupby(["system", *keys], dropna=False):
        names = tuple(str(value) for value in values)
        out[rows.index.to_numpy()] = price(devices[names[0]], names[1:], rows)
    return out


def run(fit: OperatorFit, points: int, only: str, *, dry_run: bool, program: str) -> None:
    """Fits every (architecture, format, engine) of an operator, and writes the records."""
    for architecture, group in fit.table.groupby("architecture"):
        if only and architecture not in only.split(","):
            continue
        records: list[Mapping[str, object]] = []
        for dtype, rows in group.groupby("dtype"):
            engines = sorted(rows["engine"].unique())
            # With one engine measured its kernels are all there is to know, whatever the engine asked for.
            for engine in [kernel_data.ANY_ENGINE, *(engines if len(engines) > 1 else [])]:
                of_engine = rows[rows["engine"] == engine]
                if engine == kernel_data.ANY_ENGINE:
                    of_engine = rows[~rows["engine"].isin(fit.not_for_any)]
                if of_engine.empty:
                    continue
                kernel_data.append(_record(fit, of_engine, str(dtype), engine, points))
                print(fit.operator, architecture, dtype, engine, records[-1], flush=True)
        if not dry_run:
            source = {
                "kind": "measured",
                "title": "ai-dynamo/aiconfigurator kernel measurements (Apache-2.0)",
                "where": fit.where,
                "accessed": "2026-11-20",
                "note": fit.note,
            }
            kernel_data.write_records(fit.operator, str(architecture), records, source, program)


def _record(fit: OperatorFit, rows: pd.DataFrame, dtype: str, engine: str, points: int) -> dict[str, object]:
    drawn = rows.sample(min(len(rows), points), random_state=0)
    found = fitted(fit, drawn)
    seen = drawn[fit.judged(drawn)]
    residual = kernel_data.residual(fit.predict(found, seen), seen["time_s"].to_numpy())
    left_out = left_out_errors(fit, drawn)
    if left_out is not None:
        residual["left_out_median_abs_error"] = round(float(np.median(left_out)), 4)
    accelerators = sorted(rows["accelerator"].unique())
    return {
        "dtype": dtype,
        "engine": engine,
        "fitted_on": accelerators,
        "parameters": {name: float(f"{value:.4g}") for name, value in found.items()},
        "residual": residual,
    }


def fitted(fit: OperatorFit, rows: pd.DataFrame) -> dict[str, float]:
    """Parameters that fit all rows best."""
    return kernel_data.fit_log_ratio(
        fit.parameters, lambda values: fit.predict(values, rows), rows["time_s"].to_numpy(), fit.weight(rows)
    )


def left_out_errors(fit: OperatorFit, rows: pd.DataFrame) -> FloatArray | None:
    """Errors on each accelerator when the others alone are fitted; None where there is only one."""
    systems = rows["system"].unique()
    if len(systems) < 2:
        return None
    errors = []
    for system in systems:
        out = (rows["system"] == system).to_numpy()
        found = fitted(fit, rows[~out])
        unseen = rows[out]
        unseen = unseen[fit.judged(unseen)]
        errors.append(np.abs(fit.predict(found, unseen) / unseen["time_s"].to_numpy() - 1.0))
    return np.concatenate(errors)
