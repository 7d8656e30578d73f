"""Derive records for architectures of which only the best published rates are known.

The record over all engines of a relative is the start; its compute and memory fractions are scaled so that the largest
multiplications and reads reach the published rates. Everything else stays a transfer, and so does the error. Decode of
latent attention on CDNA3 and routed experts on TPUs are scaled to published serving.

Matmuls in 16 bits and in fp8 are fitted on CDNA4, and CDNA3 takes these records as its start.
measured_tuned_products.csv in this folder holds the times of the fastest kernel of each shape that AMD's tuner found
(ROCm/aiter@e404860, MIT): 2,138 and 1,371 shapes on an MI355X, and 222 and 1,529 on a CDNA3 board of 80 compute units
(gfx942), on which no record is fitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import ANY_ENGINE, OTHER_VENDOR_ERROR, efficiency
from advisor.catalog.units import MICROSECOND_S, TERA
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import Values, fit_log_ratio, record_of, residual, write_records
from advisor.evidence.fit.matmul import PARAMETERS, usual, weight
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s, peak_flop_per_s

DTYPES = ("bf16", "fp8", "fp8_block", "mxfp4_wo", "int4_wo")
_SQUARES = (4096, 8192, 12288)


@dataclass(frozen=True)
class Anchor:
    """Best bf16 rates of accelerators of one architecture, and the read rate relative to the relative's."""

    architecture: str
    relative: str
    best_bf16_tflops: dict[str, float]
    memory_ratio: float
    title: str
    where: str
    operators: tuple[str, ...] = ("matmul", "grouped_matmul")
    dtypes: tuple[str, ...] = DTYPES
    accessed: str = "2026-11-20"
    holds_its_clock: bool = False
    """Whether large multiplications run at one rate: the relative's power limit then does not carry over."""
    tuned: bool = False
    """Whether matmuls in 16 bits and fp8 start from the times of AMD's tuner instead of the relative."""


ANCHORS = (
    Anchor(
        "cdna3",
        "hopper",
        {"mi300x": 668.4, "mi325x": 784.9},
        # 4199 of 5300 GB/s against 2906 of 3350 on H100, best copies of either.
        (4199 / 5300) / (2906 / 3350),
        "stas00/ml-engineering@744d01e; ProjectPhysX/OpenCL-Benchmark@4694a5b",
        "maximum achievable matmul FLOPS, random data; coalesced read",
        tuned=True,
    ),
    Anchor(
        "cdna4",
        "blackwell",
        {"mi355x": 1565.0},
        1.0,
        "stas00/ml-engineering@744d01e",
        "maximum achievable matmul FLOPS, random data",
        tuned=True,
    ),
    Anchor(
        "tpu-v7",
        "hopper",
        # 1,101 TFLOP/s in the median of 12 shapes from 8192 on, device time of one of a chip's two chiplets.
        {"tpu-v7": 2.0 * 1101.3},
        1.0,
        "yangwhale/gpu-tpu-pedia@48b7543",
        "tpu/v7_perf/chay_gemm_benchmark_simple/results_v7_trace.csv",
        ("matmul",),
        ("bf16",),
        "2026-11-28",
        holds_its_clock=True,
    ),
)

TUNED = "mi355x"
"""Accelerator of the tuner's times on which the record of CDNA4 is fitted."""
TUNED_DTYPES = ("bf16", "fp8")
TUNED_SOURCE = (
    "ROCm/aiter@e404860 (MIT)",
    "aiter/configs, bf16_tuned_gemm.csv and a8w8_bpreshuffle_tuned_gemm.csv with those of single models: fastest "
    "kernel of each shape",
)

LATENT_SHARES = {"bf16": 0.6, "fp8": 0.3}
"""Efficiency of decode of latent attention on CDNA3 over that on Hopper, both as fractions of the data sheet.
Published runs of DeepSeek-R1 under SGLang 0.5.9 and 0.5.12 on eight MI300Xs, whose caches are fp8: their time per token
grows three times as much from contexts of 1 500 to 8 700 tokens as with Hopper's efficiency. A key of 16 bits is taken
to cost as much as one of 8."""


COMPILED_COMPUTE_SHARE = 0.33
COMPILED_LAUNCH_SHARE = 0.25
"""Efficiency of routed experts on TPUs, and the time to start them, over Hopper's. Published runs of Qwen3.5-397B
under vLLM on eight TPU v7s: the first token of 8 192 takes 1.4 times as long as with Hopper's efficiency, and with four
clients a token takes 1 ms less than with its launches, which one compiled program does not have."""


UNTUNED_SHARES = {"grouped_matmul": 0.42, "matmul": 0.25}
"""Efficiency of Triton's untuned kernels on RDNA 4 over Ada's, both as fractions of the data sheet: of routed experts
in any format, and of matmuls that widen four bits. Published runs under vLLM on one and two R9700: a token of
Qwen3-30B-A3B in int4 takes 45 to 52 ms where Ada's fractions make 20, of gpt-oss-20b 55 to 61 where they make 16, and a
dense model in int4 is 2.4 to 5 times as slow; dense models in 16 and 8 bits are not."""
UNTUNED_DTYPES = {
    "grouped_matmul": ("bf16", "fp8", "fp8_block", "mxfp4_wo", "int4_wo"),
    "matmul": ("int4_wo",),
}


def untuned_records(operator: str) -> list[dict[str, object]]:
    """Return records of RDNA 4 for formats whose kernels are untuned, from vLLM's on Ada."""
    derived: list[dict[str, object]] = []
    for dtype in UNTUNED_DTYPES[operator]:
        parameters = dict(efficiency("ada", operator, dtype, "vllm").record.parameters)
        for name in ("compute_fraction", "memory_fraction"):
            parameters[name] *= UNTUNED_SHARES[operator]
        derived.append(_record(dtype, ["r9700"], parameters))
    return derived


def tuned_products(system: str, dtype: str) -> pd.DataFrame:
    """Return the tuner's times of one system and format: rows, columns and depth of each product, and its time [s]."""
    table = pd.read_csv(Path(__file__).with_name("measured_tuned_products.csv"))
    table["time_s"] = table.pop("microseconds") * MICROSECOND_S
    return table[(table["system"] == system) & (table["dtype"] == dtype)]


def products_s(table: pd.DataFrame, device: Device, values: Mapping[str, float], dtype: str) -> FloatArray:
    """Times of products on a device [s]."""
    m, n, k = (table[name].to_numpy(float) for name in "mnk")
    return matmul_s(m, n, k, device, MatmulEfficiency(dtype=dtype, **values))


@cache
def tuned_parameters(dtype: str) -> Values:
    """Return the parameters that fit the tuner's times on CDNA4 best; the tuner times no quantisation."""
    device = device_of(by_id(TUNED))
    table = tuned_products(TUNED, dtype)
    rate = peak_flop_per_s(dtype, device) / (device.num_sms * device.clock_hz)
    known = dict.fromkeys(("quantize_bytes", "quantize_row_cycles", "partial_tiles", "narrow_rows"), 0.0)
    known["sm_flop_per_cycle"] = rate
    searched = tuple(each for each in PARAMETERS if each.name not in known)
    found = fit_log_ratio(
        searched,
        lambda values: products_s(table, device, values | known, dtype),
        table["time_s"].to_numpy(),
        weight(table),
    )
    return found | known


def with_quantisation(parameters: Values, relative: str, dtype: str) -> Values:
    """Return parameters with the quantisation of a relative in front of the product, if the format has one: its
    traffic, its rows, and the launch by which the relative's format exceeds 16 bits."""
    quantised, plain = (
        efficiency(relative, "matmul", each).record.parameters for each in (dtype, TUNED_DTYPES[0])
    )
    launch_s = parameters["launch_s"] + max(0.0, quantised["launch_s"] - plain["launch_s"])
    kept = {name: quantised[name] for name in ("quantize_bytes", "quantize_row_cycles")}
    return parameters | kept | {"launch_s": launch_s}


def tuned_record(anchor: Anchor, dtype: str) -> dict[str, object]:
    """Return the record of a format from the tuner's times, scaled to the published rates of another architecture."""
    parameters = tuned_parameters(dtype)
    complete = with_quantisation(parameters, anchor.relative, dtype)
    if TUNED not in anchor.best_bf16_tflops:
        wide = MatmulEfficiency(dtype=TUNED_DTYPES[0], **tuned_parameters(TUNED_DTYPES[0]))
        complete["compute_fraction"] *= rate_ratio(anchor, wide)
        return _record(dtype, list(anchor.best_bf16_tflops), complete)
    table = tuned_products(TUNED, dtype)
    judged = table[usual(table)]
    predicted = products_s(judged, device_of(by_id(TUNED)), parameters, dtype)
    return record_of(dtype, ANY_ENGINE, [TUNED], complete, residual(predicted, judged["time_s"].to_numpy()))


def compute_ratio(anchor: Anchor) -> float:
    """Published rate over the rate that the relative's record predicts, median over accelerators."""
    record = efficiency(anchor.relative, "matmul", "bf16").record
    return rate_ratio(anchor, MatmulEfficiency.from_record(record))


def rate_ratio(anchor: Anchor, parameters: MatmulEfficiency) -> float:
    """Published rate over the rate that these parameters predict, median over accelerators."""
    if anchor.holds_its_clock:
        parameters = replace(parameters, throttle=0.0)
    ratios = []
    for accelerator, tflops in anchor.best_bf16_tflops.items():
        device = device_of(by_id(accelerator))
        best = max(2.0 * n**3 / matmul_s(n, n, n, device, parameters)[0] for n in _SQUARES)
        ratios.append(tflops * TERA / best)
    return float(np.median(ratios))


def derived_records(anchor: Anchor, operator: str) -> list[dict[str, object]]:
    """Return one record per format, scaled from the relative's."""
    ratio = compute_ratio(anchor)
    derived: list[dict[str, object]] = []
    for dtype in anchor.dtypes:
        found = efficiency(anchor.relative, operator, dtype).record
        parameters = dict(found.parameters)
        parameters["compute_fraction"] *= ratio
        parameters["memory_fraction"] *= anchor.memory_ratio
        if anchor.holds_its_clock:
            parameters["throttle"] = 0.0
        derived.append(_record(dtype, list(anchor.best_bf16_tflops), parameters))
    if anchor.tuned and operator == "matmul":
        kept = [each for each in derived if each["dtype"] not in TUNED_DTYPES]
        derived = [tuned_record(anchor, dtype) for dtype in TUNED_DTYPES] + kept
    return derived


def compiled_records() -> list[dict[str, object]]:
    """Return routed experts of compiled programs on TPUs, one record per format, from vLLM's on Hopper."""
    derived: list[dict[str, object]] = []
    for dtype in DTYPES:
        parameters = dict(efficiency("hopper", "grouped_matmul", dtype, "vllm").record.parameters)
        parameters["compute_fraction"] *= COMPILED_COMPUTE_SHARE
        parameters["launch_s"] *= COMPILED_LAUNCH_SHARE
        derived.append(_record(dtype, ["tpu-v7"], parameters))
    return derived


def latent_record(dtype: str, share: float) -> dict[str, object]:
    """Return decode of latent attention on CDNA3, scaled from Hopper's; the fixed cost of a call stays."""
    parameters = dict(efficiency("hopper", "mla_decode", dtype, "sglang").record.parameters)
    for name in ("bandwidth_fraction", "compute_fraction", "ramp_bytes_per_sm"):
        parameters[name] *= share
    return _record(dtype, ["mi300x"], parameters)


def _record(dtype: str, accelerators: list[str], parameters: Values) -> dict[str, object]:
    errors = {"median_abs_error": OTHER_VENDOR_ERROR, "p90_abs_error": 2.0 * OTHER_VENDOR_ERROR, "bias": 0.0}
    return record_of(dtype, ANY_ENGINE, accelerators, parameters, {"num_points": len(accelerators), **errors})


def _source(title: str, where: str, accessed: str, note: str) -> dict[str, str]:
    note += "; errors are those of a transfer"
    return {"kind": "derived", "title": title, "where": where, "accessed": accessed, "note": note}


def run(options: Options) -> None:
    """Derive all records."""
    program = "anchor_published"
    for anchor in ANCHORS:
        note = f"records of {anchor.relative} scaled to published rates"
        for operator in anchor.operators:
            source = _source(anchor.title, anchor.where, anchor.accessed, note)
            if anchor.tuned and operator == "matmul":
                title, where = TUNED_SOURCE
                said = f"{note}; bf16 and fp8 from the tuner's times on an MI355X"
                source = _source(f"{anchor.title}; {title}", f"{anchor.where}; {where}", "2026-12-01", said)
            records = derived_records(anchor, operator)
            write_records(operator, anchor.architecture, records, source, program, options)
        print(anchor.architecture, f"compute x {compute_ratio(anchor):.3f}")
    source = _source(
        "published runs of DeepSeek-R1 under SGLang 0.5.9 and 0.5.12 (InferenceX)",
        "time per token of 8 MI300X at contexts of 1 500 and 8 700 tokens, 4 to 64 clients",
        "2026-11-22",
        "records of hopper at a part of their shares of the data sheet",
    )
    latent = [latent_record(dtype, share) for dtype, share in LATENT_SHARES.items()]
    write_records("mla_decode", "cdna3", latent, source, program, options)
    source = _source(
        "published runs of Qwen3.5-397B-A17B under vLLM on TPU v7",
        "first token of 8 192 and time per token of 4 to 64 clients, tensor-parallel over eight",
        "2026-11-23",
        "records of hopper with a part of their compute and launches",
    )
    write_records("grouped_matmul", "tpu", compiled_records(), source, program, options)
    source = _source(
        "published runs under vLLM on Radeon AI PRO R9700 (kyuz0/amd-r9700-vllm-toolboxes)",
        "time per token at one request a second, and throughput of a burst",
        "2026-11-26",
        "records of ada at a part of their shares of the data sheet",
    )
    for operator in UNTUNED_SHARES:
        write_records(operator, "rdna4", untuned_records(operator), source, program, options)
