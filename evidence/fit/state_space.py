"""Fit mixers with a constant state (gated delta net, Kimi delta attention, Mamba-2), and write the records.

python -m advisor.evidence.fit.state_space --data ../shared/data/kernels
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog.schema import GatedDeltaNet, Mamba2
from advisor.evidence.fit import kernel_data, kernel_fit
from advisor.simulator.device import Device
from advisor.simulator.graph.mixers.gdn import delta_net_shape
from advisor.simulator.graph.mixers.mamba2 import mamba2_shape
from advisor.simulator.operators.state_space import (
    RecurrenceEfficiency,
    RecurrenceShape,
    chunked_s,
    convolution_s,
    convolution_step_s,
    recurrent_step_s,
)

FloatArray = NDArray[np.float64]
PROGRAM = "evidence/fit/state_space.py"
FIELDS = tuple(field.name for field in fields(RecurrenceEfficiency))
Price = Callable[[pd.DataFrame, RecurrenceShape, Device, RecurrenceEfficiency], FloatArray]


@dataclass(frozen=True)
class Stage:
    """One kernel of a mixer: which rows time it, and which parameters they fix."""

    kernels: tuple[str, ...]
    phase: str
    price: Price
    parameters: tuple[kernel_data.Parameter, ...]


STAGES = (
    Stage(
        (
            "chunk_gated_delta_rule",
            "chunk_gated_delta_rule_flashinfer",
            "chunk_gated_delta_rule_triton",
            "chunk_kda",
            "chunk_kda_with_fused_gate",
            "flashkda_fwd",
            "mamba_chunk_scan_combined",
        ),
        "context",
        lambda rows, shape, device, e: chunked_s(rows["num_tokens"], rows["batch_size"], shape, device, e),
        (
            kernel_data.Parameter("chunk_launch_s", 2e-5, 1e-6, 2e-3),
            kernel_data.Parameter("chunk_peak_fraction", 0.4, 0.005, 1.0),
            kernel_data.Parameter("chunk_stream_cycles", 5000.0, 10.0, 1e6),
            kernel_data.Parameter("chunk_serial_share", 0.5, 0.01, 2.0),
            kernel_data.Parameter("chunk_token_passes", 2.0, 0.05, 60.0),
            kernel_data.Parameter("chunk_l2_fraction", 0.5, 0.02, 2.0),
            kernel_data.Parameter("chunk_l2_speedup", 2.0, 1.0, 30.0),
        ),
    ),
    Stage(
        (
            "fused_recurrent_gated_delta_rule",
            "fused_recurrent_gated_delta_rule_packed_decode",
            "fused_recurrent_kda_packed_decode",
        ),
        "generation",
        lambda rows, shape, device, e: recurrent_step_s(rows["batch_size"], shape, device, e, warm_l2=True),
        (
            kernel_data.Parameter("step_launch_s", 5e-6, 1e-6, 2e-4),
            kernel_data.Parameter("step_bandwidth_fraction", 0.8, 0.1, 1.0),
            kernel_data.Parameter("step_l2_fraction", 0.7, 0.05, 1.5),
            kernel_data.Parameter("step_l2_speedup", 2.0, 1.0, 30.0),
        ),
    ),
    Stage(
        ("causal_conv1d_fn", "causal_conv1d_fn_qkv3"),
        "context",
        lambda rows, shape, device, e: convolution_s(
            rows["num_tokens"], rows["batch_size"], shape, device, e
        ),
        (
            kernel_data.Parameter("conv_launch_s", 4e-6, 1e-6, 2e-4),
            kernel_data.Parameter("conv_passes", 2.0, 0.3, 30.0),
            kernel_data.Parameter("conv_l2_fraction", 0.7, 0.02, 2.0),
            kernel_data.Parameter("conv_l2_speedup", 2.0, 1.0, 30.0),
            kernel_data.Parameter("conv_stream_cycles", 3.0, 0.01, 2000.0),
        ),
    ),
    Stage(
        ("causal_conv1d_update",),
        "generation",
        lambda rows, shape, device, e: convolution_step_s(rows["batch_size"], shape, device, e),
        (
            kernel_data.Parameter("conv_step_launch_s", 3e-6, 5e-7, 2e-4),
            kernel_data.Parameter("conv_step_passes", 1.0, 0.05, 30.0),
        ),
    ),
)
# SGLang's sweep of H200 shared the GPU with something else: long calls jitter by a factor of five.
_DISTURBED = ("h200_sxm", "sglang")
# vLLM's Kimi convolution ran outside a captured graph: 0.8 ms of host time.
_EAGER = ("vllm", "causal_conv1d_fn_qkv3")


def delta_net(rows: pd.DataFrame) -> RecurrenceShape:
    first = rows.iloc[0]
    mixer = GatedDeltaNet(
        num_key_heads=int(first["num_k_heads"]),
        num_value_heads=int(first["num_v_heads"]),
        key_head_dim=int(first["head_k_dim"]),
        value_head_dim=int(first["head_v_dim"]),
    )
    return delta_net_shape(mixer)


def scan(rows: pd.DataFrame) -> RecurrenceShape:
    first = rows.iloc[0]
    mixer = Mamba2(
        num_heads=int(first["nheads"]),
        head_dim=int(first["head_dim"]),
        state_dim=int(first["d_state"]),
        num_groups=int(first["n_groups"]),
    )
    return mamba2_shape(mixer)


def read(data: Path, name: str, devices: dict[str, Device]) -> pd.DataFrame:
    """One table with a key per shape; Mamba-2 keeps every version, only one of them holds the scan."""
    level = ("version",) if name == "mamba2" else ()
    table = kernel_fit.kernel_table(data / f"{name}.parquet", devices, level=level)
    disturbed = (table["system"] == _DISTURBED[0]) & (table["backend"] == _DISTURBED[1]) & (name == "gdn")
    eager = (table["backend"] == _EAGER[0]) & (table["kernel_source"] == _EAGER[1])
    table = table[~disturbed & ~eager].copy()
    columns = ["nheads", "d_state", "n_groups"] if name == "mamba2" else ["num_k_heads", "num_v_heads"]
    table["shape"] = table[columns].astype(str).agg("-".join, axis=1)
    table["dtype"] = "bf16"
    return table


def stage_fit(
    name: str, stage: Stage, rows: pd.DataFrame, devices: dict[str, Device]
) -> kernel_fit.OperatorFit:
    shape_of = scan if name == "mamba2" else delta_net

    def predict(parameters: dict[str, float], table: pd.DataFrame) -> FloatArray:
        efficiency = RecurrenceEfficiency(**(dict.fromkeys(FIELDS, 1.0) | parameters))

        def price(device: Device, keys: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
            return stage.price(rows, shape_of(rows), device, efficiency)

        return kernel_fit.by_system(table, devices, ["shape"], price)

    return kernel_fit.OperatorFit(
        name,
        rows,
        predict,
        stage.parameters,
        lambda rows: np.ones(len(rows)),
        lambda rows: np.asarray(
            (rows["time_s"] > 1e-5) & ((rows["phase"] != "context") | (rows["seq_len"] >= 64))
        ),
        f"systems data, {name} tables of vLLM, SGLang and TensorRT-LLM",
        "",
    )


def fit_mixer(name: str, table: pd.DataFrame, devices: dict[str, Device], points: int) -> dict[str, object]:
    """Parameters of all stages, and the residual over all judged rows of all stages."""
    parameters: dict[str, float] = {}
    predicted, measured, left_out = [], [], []
    for stage in STAGES:
        rows = table[table["kernel_source"].isin(stage.kernels) & (table["phase"] == stage.phase)]
        if rows.empty:
            continue
        rows = rows.sample(min(len(rows), points), random_state=0)
        fit = stage_fit(name, stage, rows, devices)
        found = kernel_fit.fitted(fit, rows)
        seen = rows[fit.judged(rows)]
        if len(seen):
            predicted.append(fit.predict(found, seen))
            measured.append(seen["time_s"].to_numpy())
            print("   ", stage.kernels[0], kernel_data.residual(predicted[-1], measured[-1]), flush=True)
        unseen = kernel_fit.left_out_errors(fit, rows)
        left_out += [] if unseen is None else [unseen]
        parameters |= found
    residual = kernel_data.residual(np.concatenate(predicted), np.concatenate(measured))
    if left_out:
        residual["left_out_median_abs_error"] = round(float(np.median(np.concatenate(left_out))), 4)
    return {"parameters": parameters, "residual": residual}


def fit_engines(
    name: str, group: pd.DataFrame, devices: dict[str, Device], points: int
) -> dict[str, dict[str, object]]:
    """Parameters and residual over all engines and of each engine; a stage an engine lacks is that of all."""
    engines = sorted(group["engine"].unique())
    found: dict[str, dict[str, object]] = {}
    for engine in [kernel_data.ANY_ENGINE, *(engines if len(engines) > 1 else [])]:
        rows = group if engine == kernel_data.ANY_ENGINE else group[group["engine"] == engine]
        fit = fit_mixer(name, rows, devices, points)
        if engine != kernel_data.ANY_ENGINE:
            fit["parameters"] = {**_parameters(found[kernel_data.ANY_ENGINE]), **_parameters(fit)}
        found[engine] = {
            "dtype": "bf16",
            "engine": engine,
            "fitted_on": sorted(rows["accelerator"].unique()),
            **fit,
        }
        print(name, group["architecture"].iloc[0], engine, found[engine], flush=True)
    return found


def complete_scan(
    scans: dict[str, dict[str, dict[str, object]]], nets: dict[str, dict[str, dict[str, object]]]
) -> None:
    """Adds to Mamba-2 what was not measured: its scan ran on one architecture, its decode step nowhere.

    The step moves a state as the delta net's does. The scan elsewhere keeps its ratio to the chunked delta rule of
    the same engine, whose Triton kernels have the same structure.
    """
    engine = "tensorrt-llm"
    scanned = next(
        name
        for name, found in scans.items()
        if "chunk_launch_s" in _parameters(found[kernel_data.ANY_ENGINE])
    )
    for architecture, found in scans.items():
        net, reference = (_parameters(nets[name][engine]) for name in (architecture, scanned))
        chunk = {
            key: value
            for key, value in _parameters(scans[scanned][kernel_data.ANY_ENGINE]).items()
            if "chunk" in key
        }
        chunk["chunk_peak_fraction"] *= net["chunk_peak_fraction"] / reference["chunk_peak_fraction"]
        any_engine = _parameters(nets[architecture][kernel_data.ANY_ENGINE])
        step = {key: value for key, value in any_engine.items() if key.startswith("step")}
        for record in found.values():
            record["parameters"] = {**chunk, **step, **_parameters(record)}


def _parameters(record: dict[str, object]) -> dict[str, float]:
    values = record["parameters"]
    assert isinstance(values, dict)
    return values


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    fits: dict[str, dict[str, dict[str, dict[str, object]]]] = {}
    for name in ("gdn", "kda", "mamba2"):
        table = read(options.data, name, devices)
        fits[name] = {
            str(architecture): fit_engines(name, group, devices, options.points)
            for architecture, group in table.groupby("architecture")
            if not options.only or architecture in options.only.split(",")
        }
    complete_scan(fits["mamba2"], fits["gdn"])
    for name, by_architecture in fits.items():
        for architecture, found in by_architecture.items():
            records = [each for each in found.values() if set(FIELDS) == set(_parameters(each))]
            if records and not options.dry_run:
                source = {**SOURCE, "note": NOTES[name]}
                kernel_data.write_records(name, architecture, records, source, PROGRAM)


_JUDGED = "residual over calls above 10 us, in prefill with 64 tokens or more"
NOTES = {
    "gdn": _JUDGED,
    "kda": _JUDGED,
    "mamba2": _JUDGED
    + "; the scan was measured on Blackwell only and scaled elsewhere as the chunked delta rule "
    "of the same engine; the decode step is the delta net's",
}
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator kernel measurements (Apache-2.0)",
    "where": "systems data, gdn, kda and mamba2 tables of vLLM, SGLang and TensorRT-LLM",
    "accessed": "2026-11-20",
}

if __name__ == "__main__":
    main()
