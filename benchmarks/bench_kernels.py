"""Every kernel at the sizes of docs/kernels.md beside its peers: the whole table, from one command.

    python benchmarks/bench_kernels.py                          every row, in about five minutes on an H100
    python benchmarks/bench_kernels.py --only ssd,rope          some kernels
    python benchmarks/bench_kernels.py --csv rows.csv           also the figures, one line per instrument

Each time is the median of three bursts from rest, in one process; each error is against fp64 at the same operands.
Needs an NVIDIA GPU with torch, Triton and nvidia-ml-py. Peers whose library is not installed are named as such.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import torch

from advisor.catalog import accelerators
from advisor.catalog.schema import Accelerator
from advisor.commands.kernel.run import analyse_kernel
from advisor.kernels.timing import synchronize
from advisor.probes.bench import Bench
from advisor.probes.devices import open_device
from advisor.probes.kernel_bench import make_case, measure
from advisor.probes.kernel_cases import KernelCase, attention_backward_case
from advisor.probes.kernel_process import local_accelerator

REST_S: Final = 0.15
"""Pause before each burst [s]: the board's power recovers within a tenth of a second."""


ARRAYS: Final = {"rms_norm": 4, "layer_norm": 2, "softmax": 2}
"""Arrays that these kernels read and write; the simulator's usual kernels move others (no residual, a row twice)."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One kernel at one size, as the table has it."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "bf16"
    num_kv_heads: int | None = None
    """Heads of keys and values of a backward pass; None for as many as of queries."""


ROWS: Final = (
    TableRow("attention", (1, 32, 16384, 128)),
    TableRow("attention_backward", (1, 32, 16384, 128)),
    TableRow("attention_backward", (1, 32, 16384, 128), num_kv_heads=8),
    TableRow("attention_backward", (4, 32, 4096, 128)),
    TableRow("attention_backward", (1, 32, 16384, 64)),
    TableRow("ssd", (8, 4096, 80, 64, 128)),
    TableRow("ssd", (8, 4096, 80, 64, 64)),
    TableRow("ssd", (1, 16384, 80, 64, 128)),
    TableRow("gated_delta", (8, 4096, 32, 128, 128)),
    TableRow("causal_conv1d", (8, 8192, 5120)),
    TableRow("rms_norm", (32768, 8192)),
    TableRow("rms_norm_backward", (32768, 8192)),
    TableRow("layer_norm", (32768, 8192)),
    TableRow("layer_norm_backward", (32768, 8192)),
    TableRow("softmax", (32768, 8192)),
    TableRow("softmax_backward", (32768, 8192)),
    TableRow("gelu_backward", (32768, 8192)),
    TableRow("swiglu_backward", (16384, 14336)),
    TableRow("rope", (65536, 40, 128)),
    TableRow("w4a16", (1, 57344, 8192)),
    TableRow("w4a16", (1, 4096, 4096)),
    TableRow("w4a16", (1, 10240, 8192)),
    TableRow("w4a16", (16, 57344, 8192)),
    TableRow("w4a16", (32, 28672, 4096)),
    TableRow("grouped_gemm", (16384, 8, 14336, 4096)),
    TableRow("grouped_gemm", (512, 128, 1536, 4096)),
    TableRow("grouped_gemm_fp8", (16384, 8, 14336, 4096)),
    TableRow("fp8_block_gemm", (8192, 8192, 8192)),
    TableRow("fp8_block_gemm", (4096, 7168, 2048)),
    TableRow("w8a8", (8192, 8192, 8192)),
    TableRow("attention_packed", (4, 32, 8192, 128, 1024)),
    TableRow("attention_packed", (4, 32, 8192, 128, 8192)),
    TableRow("decode_attention", (32, 8, 4096, 128)),
    TableRow("decode_attention_fp8", (32, 8, 4096, 128)),
    TableRow("mla_decode", (64, 128, 8192)),
    TableRow("mla_decode", (64, 16, 8192)),
    TableRow("linear_gelu_backward", (8192, 8192, 8192)),
    TableRow("linear_cross_entropy", (8192, 4096, 128256)),
    TableRow("linear_cross_entropy_backward", (8192, 4096, 128256)),
    TableRow("gemm_layouts", (8192, 8192, 8192)),
    TableRow("mxfp4", (28672, 8192)),
    TableRow("nvfp4", (28672, 8192)),
)


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One instrument of one row: its time, rate and share of the datasheet's roof."""

    kernel: str
    size: str
    instrument: str
    time_s: float | None
    rate: float | None
    unit: str
    roof_fraction: float | None
    error: float | None
    reason: str = ""


class BriefBench(Bench):
    """Bench whose rests are as long as one kernel's burst needs."""

    def rest(self) -> None:
        synchronize(self.device)
        time.sleep(REST_S)


def case_of(row: TableRow, device: torch.device) -> KernelCase:
    """Return the calls of a row."""
    if row.num_kv_heads is not None:
        return attention_backward_case(row.shape, torch.bfloat16, device, row.num_kv_heads)
    return make_case(row.name, row.shape, row.dtype, device)


def measure_row(row: TableRow, bench: Bench, record: Accelerator) -> Iterator[MeasuredRow]:
    """Yield this project's instruments and the peers of one row."""
    analysis = analyse_kernel(row.name, row.shape, row.dtype, record)
    usual = analysis.usual
    is_compute = usual.bound(analysis.bandwidth_bytes_per_s) == "compute"
    amount = usual.work.flop if is_compute else usual.work.num_bytes
    floor_s = usual.floor_s
    if row.name in ARRAYS:
        amount = 2.0 * ARRAYS[row.name] * row.shape[0] * row.shape[1]
        floor_s = amount / analysis.bandwidth_bytes_per_s
    size = " x ".join(map(str, row.shape)) + (f", {row.num_kv_heads} kv heads" if row.num_kv_heads else "")
    make = partial(MeasuredRow, row.name, size)
    unit = "flop/s" if is_compute else "bytes/s"
    case = case_of(row, bench.device)
    for name in case.calls:
        found = measure(name, case, bench)
        seconds = found.get("time_s")
        if seconds is None:
            yield make(name, None, None, unit, None, None, str(found.get("reason", "")))
        else:
            yield make(name, seconds, amount / seconds, unit, floor_s / seconds, found["error"])


def markdown(rows: Sequence[MeasuredRow]) -> Iterator[str]:
    """Yield the lines of the table: one per kernel and size, the best instrument of this project and each peer."""
    yield "| kernel | size | time | reached | of the roof | error | peers |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for key in dict.fromkeys((row.kernel, row.size) for row in rows):
        some = [row for row in rows if (row.kernel, row.size) == key]
        own = [row for row in some if row.instrument.startswith("advisor") and row.time_s]
        if not own:
            yield f"| {key[0]} | {key[1]} | - | - | - | - | {some[0].reason} |"
            continue
        best = min(own, key=lambda row: row.time_s or 0.0)
        assert best.time_s is not None
        assert best.rate is not None
        rate = f"{best.rate / 1e12:.{0 if best.unit == 'flop/s' else 2}f} T{best.unit.replace('bytes', 'B')}"
        peers = "; ".join(
            f"{row.instrument} {row.time_s * 1e3:.3g} ms: {row.time_s / best.time_s:.0%}"
            if row.time_s
            else f"{row.instrument}: {row.reason[:60]}"
            for row in some
            if not row.instrument.startswith("advisor")
        )
        yield (
            f"| {key[0]} | {key[1]} | {best.time_s * 1e3:.3g} ms | {rate} | {best.roof_fraction:.0%} | "
            f"{best.error:.1e} | {peers} |"
        )


def main() -> None:
    """Measure the rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="kernels, separated by commas")
    parser.add_argument("--csv", type=Path, help="file of the figures")
    parser.add_argument("--gpu", default="", help="catalog id, where this machine's is not known")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no NVIDIA GPU here: the table cannot be measured")
    chosen = set(filter(None, options.only.split(",")))
    record = accelerators.get(options.gpu or local_accelerator() or "h100-sxm").record
    bench = BriefBench(open_device(), 0, quick=True)
    found: list[MeasuredRow] = []
    sink: TextIO | None = options.csv.open("w") if options.csv else None
    writer = csv.writer(sink) if sink else None
    if writer:
        writer.writerow([field.name for field in fields(MeasuredRow)])
    for row in ROWS:
        if chosen and row.name not in chosen:
            continue
        for one in measure_row(row, bench, record):
            found.append(one)
            if writer and sink:
                writer.writerow([getattr(one, field.name) for field in fields(MeasuredRow)])
                sink.flush()
        torch.cuda.empty_cache()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("\n".join(markdown(found)))


if __name__ == "__main__":
    main()
