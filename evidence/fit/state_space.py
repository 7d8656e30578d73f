"""Fit mixers with a constant state (gated delta net, Kimi delta attention, Mamba-2), and write the records."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from advisor.catalog.efficiencies import ANY_ENGINE
from advisor.catalog.schema import GatedDeltaNet, Mamba2
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    KernelParameter,
    OperatorFit,
    Values,
    by_engine,
    by_system,
    draw_rows,
    fit_parameters,
    groups,
    left_out_errors,
    newest,
    record_of,
    residual,
    source_of,
    write_records,
)
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

FIELDS = tuple(field.name for field in fields(RecurrenceEfficiency))
Price = Callable[[pd.DataFrame, RecurrenceShape, Device, RecurrenceEfficiency], FloatArray]
Fits = dict[str, dict[str, object]]
"""Records by engine."""


@dataclass(frozen=True)
class Stage:
    """One kernel of a mixer: the rows that time it, and the parameters that they fix."""

    kernels: tuple[str, ...]
    phase: str
    price: Price
    parameters: tuple[KernelParameter, ...]


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
            KernelParameter("chunk_launch_s", 2e-5, 1e-6, 2e-3),
            KernelParameter("chunk_peak_fraction", 0.4, 0.005, 1.0),
            KernelParameter("chunk_stream_cycles", 5000.0, 10.0, 1e6),
            KernelParameter("chunk_serial_share", 0.5, 0.01, 2.0),
            KernelParameter("chunk_token_passes", 2.0, 0.05, 60.0),
            KernelParameter("chunk_l2_fraction", 0.5, 0.02, 2.0),
            KernelParameter("chunk_l2_speedup", 2.0, 1.0, 30.0),
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
            KernelParameter("step_launch_s", 5e-6, 1e-6, 2e-4),
            KernelParameter("step_bandwidth_fraction", 0.8, 0.1, 1.0),
            KernelParameter("step_l2_fraction", 0.7, 0.05, 1.5),
            KernelParameter("step_l2_speedup", 2.0, 1.0, 30.0),
        ),
    ),
    Stage(
        ("causal_conv1d_fn", "causal_conv1d_fn_qkv3"),
        "context",
        lambda rows, shape, device, e: convolution_s(
            rows["num_tokens"], rows["batch_size"], shape, device, e
        ),
        (
            KernelParameter("conv_launch_s", 4e-6, 1e-6, 2e-4),
            KernelParameter("conv_passes", 2.0, 0.3, 30.0),
            KernelParameter("conv_l2_fraction", 0.7, 0.02, 2.0),
            KernelParameter("conv_l2_speedup", 2.0, 1.0, 30.0),
            KernelParameter("conv_stream_cycles", 3.0, 0.01, 2000.0),
        ),
    ),
    Stage(
        ("causal_conv1d_update",),
        "generation",
        lambda rows, shape, device, e: convolution_step_s(rows["batch_size"], shape, device, e),
        (
            KernelParameter("conv_step_launch_s", 3e-6, 5e-7, 2e-4),
            KernelParameter("conv_step_passes", 1.0, 0.05, 30.0),
        ),
    ),
)
# SGLang's sweep of H200 shared the GPU with something else: long calls jitter by a factor of five.
_DISTURBED = ("h200_sxm", "sglang")
# vLLM's Kimi convolution ran outside a captured graph: 0.8 ms of host time.
_EAGER = ("vllm", "causal_conv1d_fn_qkv3")


def shape_of(rows: pd.DataFrame) -> RecurrenceShape:
    """Return the shape that all rows share."""
    first = rows.iloc[0]
    if "nheads" in rows:
        mamba = Mamba2(
            num_heads=int(first["nheads"]),
            head_dim=int(first["head_dim"]),
            state_dim=int(first["d_state"]),
            num_groups=int(first["n_groups"]),
        )
        return mamba2_shape(mamba)
    net = GatedDeltaNet(
        num_key_heads=int(first["num_k_heads"]),
        num_value_heads=int(first["num_v_heads"]),
        key_head_dim=int(first["head_k_dim"]),
        value_head_dim=int(first["head_v_dim"]),
    )
    return delta_net_shape(net)


def read(options: Options, name: str) -> pd.DataFrame:
    """Return one table with a key per shape; Mamba-2 keeps every version, only one of them holds the scan."""
    level = ("version",) if name == "mamba2" else ()
    table = newest(options.kernels(name), level=level)
    disturbed = (table["system"] == _DISTURBED[0]) & (table["backend"] == _DISTURBED[1]) & (name == "gdn")
    eager = (table["backend"] == _EAGER[0]) & (table["kernel_source"] == _EAGER[1])
    table = table[~disturbed & ~eager]
    columns = ["nheads", "d_state", "n_groups"] if name == "mamba2" else ["num_k_heads", "num_v_heads"]
    return table.assign(shape=table[columns].astype(str).agg("-".join, axis=1), dtype="bf16")


def stage_fit(name: str, stage: Stage, rows: pd.DataFrame) -> OperatorFit:
    """Return one kernel of a mixer as a fit of its own."""

    def predict(parameters: Values, table: pd.DataFrame, dtype: str) -> FloatArray:
        efficiency = RecurrenceEfficiency(**(dict.fromkeys(FIELDS, 1.0) | parameters))

        def price(device: Device, _: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
            return stage.price(rows, shape_of(rows), device, efficiency)

        return by_system(table, ["shape"], price)

    def is_judged(rows: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        long = (rows["phase"] != "context") | (rows["seq_len"] >= 64)
        return np.asarray((rows["time_s"] > 1e-5) & long)

    return OperatorFit(name, rows, predict, stage.parameters, SOURCE, judged=is_judged)


def fit_mixer(name: str, table: pd.DataFrame, engine: str, points: int) -> dict[str, object]:
    """Return the record of a mixer: parameters of all stages, and the residual over all judged rows of all stages."""
    parameters: Values = {}
    predicted = []
    measured = []
    left_out = [np.empty(0)]
    for stage in STAGES:
        rows = table[table["kernel_source"].isin(stage.kernels) & (table["phase"] == stage.phase)]
        if rows.empty:
            continue
        fit = stage_fit(name, stage, rows)
        rows = draw_rows(fit, rows, points)
        found = fit_parameters(fit, rows, "bf16")
        seen = rows[fit.judged(rows)]
        if len(seen):
            predicted.append(fit.predict(found, seen, "bf16"))
            measured.append(seen["time_s"].to_numpy())
            print("   ", stage.kernels[0], residual(predicted[-1], measured[-1]), flush=True)
        left_out.append(left_out_errors(fit, rows, "bf16"))
        parameters |= found
    left = residual(np.concatenate(predicted), np.concatenate(measured))
    unseen = np.concatenate(left_out)
    if len(unseen):
        left["left_out_median_abs_error"] = round(float(np.median(unseen)), 4)
    return record_of("bf16", engine, sorted(table["accelerator"].unique()), parameters, left)


def fit_engines(name: str, table: pd.DataFrame, points: int) -> Fits:
    """Return records over all engines and of each engine; a stage that an engine lacks is that of all."""
    found: Fits = {}
    for _, engine, rows in by_engine(table):
        found[engine] = fit_mixer(name, rows, engine, points)
        found[engine]["parameters"] = {**_parameters(found[ANY_ENGINE]), **_parameters(found[engine])}
    return found


def complete_scan(scans: dict[str, Fits], nets: dict[str, Fits]) -> None:
    """Add to Mamba-2 the kernels that were not measured: its scan ran on one architecture, its decode step on none.

    The step moves a state as the delta net's does. The scan elsewhere keeps its ratio to the chunked delta rule of
    the same engine, whose Triton kernels have the same structure.
    """
    engine = "tensorrt-llm"
    scanned = next(
        name for name, found in scans.items() if "chunk_launch_s" in _parameters(found[ANY_ENGINE])
    )
    for architecture, found in scans.items():
        net, reference = (_parameters(nets[name][engine]) for name in (architecture, scanned))
        chunk = {
            key: value for key, value in _parameters(scans[scanned][ANY_ENGINE]).items() if "chunk" in key
        }
        chunk["chunk_peak_fraction"] *= net["chunk_peak_fraction"] / reference["chunk_peak_fraction"]
        any_engine = _parameters(nets[architecture][ANY_ENGINE])
        step = {key: value for key, value in any_engine.items() if key.startswith("step")}
        for record in found.values():
            record["parameters"] = {**chunk, **step, **_parameters(record)}


def _parameters(record: dict[str, object]) -> dict[str, float]:
    values = record["parameters"]
    assert isinstance(values, dict)
    return values


_JUDGED = "residual over calls above 10 us, in prefill with 64 tokens or more"
_SCALED = (
    "the scan was measured on Blackwell only and scaled elsewhere as the chunked delta rule of the same engine; the "
    "decode step is the delta net's"
)
NOTES = {"gdn": _JUDGED, "kda": _JUDGED, "mamba2": f"{_JUDGED}; {_SCALED}"}
SOURCE = source_of("systems data, gdn, kda and mamba2 tables of vLLM, SGLang and TensorRT-LLM")


def run(options: Options) -> None:
    """Fit all three mixers."""
    fits: dict[str, dict[str, Fits]] = {}
    for name in NOTES:
        fits[name] = {
            architecture: fit_engines(name, of_it, options.points)
            for (architecture,), of_it in groups(read(options, name), ["architecture"])
            if options.wants(architecture)
        }
    if not options.only:
        complete_scan(fits["mamba2"], fits["gdn"])
    for name, by_architecture in fits.items():
        for architecture, found in by_architecture.items():
            records = [each for each in found.values() if set(FIELDS) == set(_parameters(each))]
            if records:
                source = {**SOURCE, "note": NOTES[name]}
                write_records(name, architecture, records, source, "state_space", options)
