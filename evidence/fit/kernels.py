"""Common parts of kernel fits: measured systems, tables, one robust fit, left-out accelerators, files of records."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import ANY_ENGINE
from advisor.catalog.files import DATA_DIR
from advisor.catalog.units import MICROSECOND_S, MILLISECOND_S
from advisor.evidence.fit.base import FloatArray, Options
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.matmul import peak_flop_per_s
from advisor.simulator.operators.triton_latent import KERNELS

EFFICIENCY_DIR = DATA_DIR / "efficiency"

# Systems of the measurements: accelerator id and architecture.
SYSTEMS = {
    "a100_sxm": ("a100-sxm-80gb", "ampere"),
    "l40s": ("l40s", "ada"),
    "h100_sxm": ("h100-sxm", "hopper"),
    "h200_sxm": ("h200-sxm", "hopper"),
    "b200_sxm": ("b200-sxm", "blackwell"),
    "gb200": ("gb200", "blackwell"),
    "b300_sxm": ("b300-sxm", "blackwell-ultra"),
    "gb300": ("gb300", "blackwell-ultra"),
    "rtx_pro_6000_server": ("rtx-pro-6000-server", "blackwell-geforce"),
    "b60": ("arc-pro-b60", "xe2"),
}
SGLANG_TRITON = KERNELS
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", SGLANG_TRITON: SGLANG_TRITON}
DTYPES = {"bfloat16": "bf16", "fp8": "fp8"}
MOST_JUDGED = 15000

Values = dict[str, float]
Predict = Callable[[Values, pd.DataFrame, str], FloatArray]
"""Function (parameters, measurements, format) -> seconds."""


@dataclass(frozen=True)
class KernelParameter:
    """Positive parameter of a fit: its start and the bounds of the search, in its own unit."""

    name: str
    start: float
    low: float
    high: float


def none_known(rows: pd.DataFrame, dtype: str) -> Values:
    """Return no known parameters: all are searched for."""
    return {}


def even(rows: pd.DataFrame) -> FloatArray:
    """Return equal weights for all rows."""
    return np.ones(len(rows))


def every(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask by which every row is judged."""
    return np.ones(len(rows), dtype=np.bool_)


@dataclass(frozen=True)
class OperatorFit:
    """One operator to fit: its measurements, time function and parameters, and the rows by which it is judged."""

    operator: str
    table: pd.DataFrame
    """Measurements with system, engine, accelerator, architecture, dtype and time_s, see `convert_table`."""
    predict: Predict
    parameters: tuple[KernelParameter, ...]
    source: Mapping[str, str]
    weight: Callable[[pd.DataFrame], FloatArray] = even
    judged: Callable[[pd.DataFrame], NDArray[np.bool_]] = every
    known: Callable[[pd.DataFrame, str], Values] = none_known
    """Function that returns the parameters that are not searched for."""
    drawn_by_weight: bool = False
    not_for_any: tuple[str, ...] = ()
    """Engines whose rows say nothing about an engine that was not measured."""


def source_of(where: str, note: str = "", title: str = "kernel measurements") -> dict[str, str]:
    """Return the source of records that rest on AIConfigurator's tables."""
    title = f"ai-dynamo/aiconfigurator {title} (Apache-2.0)"
    return {"kind": "measured", "title": title, "where": where, "accessed": "2026-11-20", "note": note}


@cache
def devices() -> Mapping[str, Device]:
    """Return the devices of the measured systems."""
    return {system: device_of(by_id(accelerator)) for system, (accelerator, _) in SYSTEMS.items()}


def convert_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return measurements in seconds with the catalog's names of engine, accelerator and architecture."""
    table = table[table["latency"] > 0].copy()
    table["time_s"] = table.pop("latency").astype(float) * MILLISECOND_S
    table["engine"] = table["backend"].map(ENGINES)
    for column, place in (("accelerator", 0), ("architecture", 1)):
        table[column] = table["system"].map({name: ids[place] for name, ids in SYSTEMS.items()})
    return table


def newest(path: Path, *, level: Sequence[str] = ()) -> pd.DataFrame:
    """Return a kernel table with only the newest version of each system, backend and `level`."""
    table = pd.read_parquet(path)
    latest = table.groupby(["system", "backend", *level], dropna=False)["version"].transform("max")
    return convert_table(table[table["version"] == latest])


def read_own_measurements(name: str) -> pd.DataFrame:
    """Return own measurements from a file in this folder, in microseconds."""
    table = pd.read_csv(Path(__file__).with_name(f"{name}.csv"))
    return convert_table(table.assign(latency=table["microseconds"] * MICROSECOND_S / MILLISECOND_S))


def groups(table: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Yield rows that are equal in some columns, with their values there."""
    for values, rows in table.groupby(list(keys), dropna=False, observed=True):
        yield tuple(str(value) for value in values), rows


def by_system(
    table: pd.DataFrame,
    keys: Sequence[str],
    price: Callable[[Device, tuple[str, ...], pd.DataFrame], FloatArray],
) -> FloatArray:
    """Times of groups of equal system and keys, in the order of the table's rows [s]."""
    out = np.empty(len(table))
    for names, rows in groups(table.reset_index(drop=True), ["system", *keys]):
        out[rows.index.to_numpy()] = price(devices()[names[0]], names[1:], rows)
    return out


def fit_log_ratio(
    parameters: tuple[KernelParameter, ...],
    predict: Callable[[Values], FloatArray],
    measured: FloatArray,
    weights: FloatArray,
) -> Values:
    """Return the parameters that minimise a robust loss of log(predicted / measured)."""
    low = np.log([p.low for p in parameters])
    high = np.log([p.high for p in parameters])
    start = np.clip(np.log([p.start for p in parameters]), low + 1e-6, high - 1e-6)
    root = np.sqrt(weights / weights.mean())

    def values(logs: FloatArray) -> Values:
        return {p.name: float(np.exp(x)) for p, x in zip(parameters, logs, strict=True)}

    def loss(logs: FloatArray) -> FloatArray:
        return np.asarray(np.log(predict(values(logs)) / measured) * root)

    found = least_squares(
        loss, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=1e-3, max_nfev=60
    )
    return values(found.x)


def measured_devices(rows: pd.DataFrame) -> list[Device]:
    """Return the devices on which rows were measured."""
    return [devices()[system] for system in rows["system"].unique()]


def sm_flop_per_cycle(measured: Sequence[Device], dtype: str) -> Values:
    """Dense rate of one SM of these devices, their median [flop per cycle]."""
    rates = [peak_flop_per_s(dtype, device) / (device.num_sms * device.clock_hz) for device in measured]
    return {"sm_flop_per_cycle": float(np.median(rates))}


def residual(predicted: FloatArray, measured: FloatArray) -> Values:
    """Return the residual fields of a record."""
    ratio = predicted / measured - 1.0
    return {
        "num_points": len(measured),
        "median_abs_error": round(float(np.median(np.abs(ratio))), 4),
        "p90_abs_error": round(float(np.quantile(np.abs(ratio), 0.9)), 4),
        "bias": round(float(np.median(ratio)), 4),
    }


def fit_parameters(fit: OperatorFit, rows: pd.DataFrame, dtype: str) -> Values:
    """Return the parameters that fit all rows best."""
    known = fit.known(rows, dtype)
    found = fit_log_ratio(
        tuple(p for p in fit.parameters if p.name not in known),
        lambda values: fit.predict(values | known, rows, dtype),
        rows["time_s"].to_numpy(),
        rows["weight"].to_numpy(),
    )
    names = dict.fromkeys((*(p.name for p in fit.parameters), *known))
    return {name: (found | known)[name] for name in names}


def draw_rows(fit: OperatorFit, rows: pd.DataFrame, points: int) -> pd.DataFrame:
    """Return some of the rows, at random, with their weights; rows drawn by weight count the same."""
    rows = rows.assign(weight=fit.weight(rows))
    if len(rows) <= points:
        return rows
    if not fit.drawn_by_weight:
        return rows.sample(points, random_state=0)
    share = rows["weight"].to_numpy() / rows["weight"].sum()
    return rows.iloc[np.random.default_rng(0).choice(len(rows), points, replace=False, p=share)].assign(
        weight=1.0
    )


def left_out_errors(fit: OperatorFit, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Errors on each accelerator when only the others are fitted; none if there is only one."""
    systems = rows["system"].unique()
    errors = [np.empty(0)]
    for system in systems if len(systems) > 1 else ():
        out = (rows["system"] == system).to_numpy()
        unseen = rows[out & fit.judged(rows)]
        found = fit_parameters(fit, rows[~out], dtype)
        errors.append(np.abs(fit.predict(found, unseen, dtype) / unseen["time_s"].to_numpy() - 1.0))
    return np.concatenate(errors)


def record(fit: OperatorFit, rows: pd.DataFrame, dtype: str, engine: str, points: int) -> dict[str, object]:
    """Return the record of one format and engine."""
    chosen = draw_rows(fit, rows, points)
    found = fit_parameters(fit, chosen, dtype)
    judged = rows[fit.judged(rows)]
    judged = judged.sample(min(len(judged), MOST_JUDGED), random_state=1)
    left = residual(fit.predict(found, judged, dtype), judged["time_s"].to_numpy())
    unseen = left_out_errors(fit, chosen, dtype)
    if len(unseen):
        left["left_out_median_abs_error"] = round(float(np.median(unseen)), 4)
    return record_of(dtype, engine, sorted(rows["accelerator"].unique()), found, left)


def record_of(
    dtype: str, engine: str, fitted_on: Sequence[str], parameters: Values, left: Values
) -> dict[str, object]:
    """Return the fields of a record."""
    return {
        "dtype": dtype,
        "engine": engine,
        "fitted_on": list(fitted_on),
        "parameters": parameters,
        "residual": left,
    }


def by_engine(
    table: pd.DataFrame, not_for_any: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield (format, engine, measurements): first all engines except those of `not_for_any`, then each alone if there
    are several. If one engine was measured, its kernels stand for every engine."""
    for (dtype,), of_dtype in groups(table, ["dtype"]):
        common = of_dtype[~of_dtype["engine"].isin(not_for_any)]
        if len(common):
            yield dtype, ANY_ENGINE, common
        of_engines = list(groups(of_dtype, ["engine"]))
        for (engine,), of_engine in of_engines if len(of_engines) > 1 else ():
            yield dtype, engine, of_engine


def fit_operators(fits: Iterable[OperatorFit], options: Options, program: str) -> None:
    """Fit every architecture, format and engine of some operators; print each record and write the files."""
    for fit in fits:
        for (architecture,), of_it in groups(fit.table, ["architecture"]):
            if not options.wants(architecture):
                continue
            records = [
                record(fit, rows, dtype, engine, options.points)
                for dtype, engine, rows in by_engine(of_it, fit.not_for_any)
            ]
            write_records(fit.operator, architecture, records, fit.source, program, options)


def write_records(
    operator: str,
    architecture: str,
    records: Sequence[Mapping[str, object]],
    source: Mapping[str, str],
    program: str,
    options: Options,
) -> None:
    """Print the records of one operator and architecture, and write them if that was requested."""
    lines = [f"# Written by evidence/fit/{program}.py; run it again rather than edit.", "", "[source]"]
    lines += [f"{key} = {_toml(value)}" for key, value in source.items()]
    for each in records:
        print(operator, architecture, *(f"{key} {_toml(value)}" for key, value in each.items()), flush=True)
        lines += ["", "[[records]]"] + [f"{key} = {_toml(value)}" for key, value in each.items()]
    if options.write:
        path = EFFICIENCY_DIR / operator / f"{architecture}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float):
        return repr(float(f"{value:.4g}"))
    return str(value)
