"""What the fits of matrix and elementwise kernels share: devices, robust fits, residuals, record files."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from advisor.catalog.accelerators import by_id
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.matmul import peak_flop_per_s
from advisor.simulator.operators.triton_latent import KERNELS as SGLANG_TRITON

FloatArray = NDArray[np.float64]

REPOSITORY = Path(__file__).resolve().parents[2]
EFFICIENCY_DIR = REPOSITORY / "catalog" / "data" / "efficiency"
DEFAULT_DATA = REPOSITORY.parent / "shared" / "data" / "kernels"

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
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm", SGLANG_TRITON: SGLANG_TRITON}
ANY_ENGINE = "any"
OTHER_VENDOR_ERROR = 0.3
"""Median error of a record that crosses vendors: 25 to 32 % on Arc Pro B60; see also the anchored rates."""


@dataclass(frozen=True)
class Parameter:
    """A positive parameter of a fit: where to start and between which bounds to search, in its own unit."""

    name: str
    start: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Fitted parameters with what is left."""

    parameters: dict[str, float]
    residual: dict[str, float]


def devices() -> dict[str, Device]:
    """Devices of the measured systems."""
    return {system: device_of(by_id(accelerator)) for system, (accelerator, _) in SYSTEMS.items()}


def fit_log_ratio(
    parameters: tuple[Parameter, ...],
    predict: Callable[[dict[str, float]], FloatArray],
    measured: FloatArray,
    weights: FloatArray,
    max_evaluations: int = 60,
) -> dict[str, float]:
    """Parameters that minimise a robust loss of log(predicted / measured)."""
    low = np.log([p.low for p in parameters])
    high = np.log([p.high for p in parameters])
    start = np.clip(np.log([p.start for p in parameters]), low + 1e-6, high - 1e-6)
    root = np.sqrt(weights / weights.mean())

    def values(logs: FloatArray) -> dict[str, float]:
        return {p.name: float(np.exp(x)) for p, x in zip(parameters, logs, strict=True)}

    def loss(logs: FloatArray) -> FloatArray:
        return np.asarray(np.log(predict(values(logs)) / measured) * root)

    found = least_squares(
        loss, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=1e-3, max_nfev=max_evaluations
    )
    return values(found.x)


def sm_flop_per_cycle(table: pd.DataFrame, devices: Mapping[str, Device], dtype: str) -> float:
    """Dense rate of one SM of the measured devices, in the middle [flop per cycle]."""
    rates = []
    for system in table.system.unique():
        device = devices[system]
        rates.append(peak_flop_per_s(dtype, device) / (device.num_sms * device.clock_hz))
    return float(np.median(rates))


def residual(predicted: FloatArray, measured: FloatArray) -> dict[str, float]:
    """Residual fields of a record."""
    ratio = predicted / measured - 1.0
    return {
        "num_points": len(measured),
        "median_abs_error": round(float(np.median(np.abs(ratio))), 4),
        "p90_abs_error": round(float(np.quantile(np.abs(ratio), 0.9)), 4),
        "bias": round(float(np.median(ratio)), 4),
    }


def write_records(
    operator: str,
    architecture: str,
    records: list[Mapping[str, object]],
    source: Mapping[str, str],
    program: str,
) -> Path:
    """Write the records of one operator and architecture."""
    lines = [f"# Written by {program}; run it again rather than edit.", "", "[source]"]
    lines += [f"{key} = {_toml(value)}" for key, value in source.items()]
    for record in records:
        lines += ["", "[[records]]"] + [f"{key} = {_toml(value)}" for key, value in record.items()]
    path = EFFICIENCY_DIR / operator / f"{architecture}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


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


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every fitting program has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, help="folder of the measured kernel tables"
    )
    parser.add_argument("--points", type=int, default=5000, help="measurements drawn per fit")
    parser.add_argument("--only", default="", help="architectures to fit, separated by commas; default all")
    parser.add_argument("--dry-run", action="store_true", help="report, write nothing")
    return parser


def by_engine(
    table: pd.DataFrame, not_for_any: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(format, engine, measurements): all engines but those together, then each alone where there are several."""
    for dtype, of_dtype in table.groupby("dtype"):
        yield str(dtype), ANY_ENGINE, of_dtype[~of_dtype.backend.isin(not_for_any)]
        engines = list(of_dtype.groupby("backend"))
        if len(engines) > 1:
            for backend, of_engine in engines:
                yield str(dtype), ENGINES[str(backend)], of_engine


@dataclass(frozen=True)
class Operator:
    """What a fitting program knows about its operator."""

    name: str
    program: str
    source: Mapping[str, str]
    fit: Callable[[pd.DataFrame, str], dict[str, float]]
    """(measurements, format) -> parameters."""
    predict: Callable[[pd.DataFrame, str, dict[str, float]], FloatArray]
    """(measurements, format, parameters) -> seconds."""
    judged: Callable[[pd.DataFrame], pd.DataFrame]
    """The measurements on which errors are reported."""
    not_for_any: tuple[str, ...] = ()
    """Engines, as the tables name them, that the record for any engine leaves out."""


def fit_operator(operator: Operator, table: pd.DataFrame, only: str, dry_run: bool) -> None:
    """Fit every architecture, format and engine of a table; print each record and write the files."""
    for architecture in dict.fromkeys(architecture for _, architecture in SYSTEMS.values()):
        systems = [system for system, (_, its) in SYSTEMS.items() if its == architecture]
        mine = table[table.system.isin(systems)]
        if mine.empty or (only and architecture not in only.split(",")):
            continue
        records = [_record(operator, *group) for group in by_engine(mine, operator.not_for_any)]
        for entry in records:
            numbers = f"{_toml(entry['residual'])} {_toml(entry['parameters'])}"
            print(architecture, entry["dtype"], entry["engine"], numbers, flush=True)
        if not dry_run:
            write_records(operator.name, architecture, records, operator.source, operator.program)


def _record(operator: Operator, dtype: str, engine: str, measured: pd.DataFrame) -> dict[str, object]:
    parameters = operator.fit(measured, dtype)
    left = _residual(operator, operator.judged(measured), dtype, parameters)
    first, *others = [system for system in SYSTEMS if (measured.system == system).any()]
    if others:
        known = measured[measured.system == first]
        left_out = operator.judged(measured[measured.system != first])
        blind = _residual(operator, left_out, dtype, operator.fit(known, dtype))
        left["left_out_median_abs_error"] = blind["median_abs_error"]
    fitted_on = [SYSTEMS[system][0] for system in (first, *others)]
    return {
        "dtype": dtype,
        "engine": engine,
        "fitted_on": fitted_on,
        "parameters": parameters,
        "residual": left,
    }


def _residual(
    operator: Operator, judged: pd.DataFrame, dtype: str, parameters: dict[str, float]
) -> dict[str, float]:
    judged = judged.sample(min(len(judged), 15000), random_state=1)
    return residual(operator.predict(judged, dtype, parameters), judged.seconds.to_numpy())
