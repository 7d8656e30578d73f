"""`advisor roofline --trace`: time by operator, gaps, overlap and the roof from two profilers; what is no trace."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from advisor.commands.roofline.trace_summary import kind_of

Cli = Callable[[str], Any]


def kernel(
    name: str, start_us: float, duration_us: float, stream: int = 7, external: int = 0
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "ts": start_us,
        "dur": duration_us,
        "args": {"device": 0, "stream": stream, "External id": external},
    }


def matmul(external: int, rows: int, columns: int, depth: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "ts": 0,
        "dur": 1,
        "args": {
            "External id": external,
            "Input Dims": [[rows, depth], [depth, columns]],
            "Input type": ["c10::BFloat16", "c10::BFloat16"],
        },
    }


EVENTS = [
    matmul(1, 4096, 4096, 4096),
    kernel("nvjet_tst_256x128", 0, 200, external=1),
    kernel("void at::native::vectorized_elementwise_kernel", 200, 50),
    kernel("flash_fwd_kernel", 350, 100),  # 100 µs after the one before
    kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 400, 100, stream=20),  # half beside attention
    {"ph": "M", "name": "process_name"},
    {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 0, "dur": 1},
]


def chrome(folder: Path, events: list[dict[str, Any]], *, zipped: bool = False) -> Path:
    text = json.dumps({"traceEvents": events}).encode()
    path = folder / ("trace.json.gz" if zipped else "trace.json")
    path.write_bytes(gzip.compress(text) if zipped else text)
    return path


def nsys(folder: Path) -> Path:
    path = folder / "trace.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
            " (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, demangledName INTEGER)"
        )
        for number, event in enumerate(event for event in EVENTS if event.get("cat") == "kernel"):
            database.execute("INSERT INTO StringIds VALUES (?, ?)", (number, event["name"]))
            start = event["ts"] * 1000
            row = (start, start + event["dur"] * 1000, 0, event["args"]["stream"], number)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", row)
    return path


def answer(cli: Cli, path: Path) -> dict[str, Any]:
    return cli(f"advisor roofline --trace {path} --gpu h100-sxm --json").document()


@pytest.mark.parametrize("source", ["json", "gzip", "nsys"])
def test_both_profilers_tell_the_same_times(cli: Cli, tmp_path: Path, source: str) -> None:
    path = nsys(tmp_path) if source == "nsys" else chrome(tmp_path, EVENTS, zipped=source == "gzip")
    found = answer(cli, path)
    assert found["span_s"] == pytest.approx(500e-6)
    assert found["busy_s"] == pytest.approx(400e-6)
    assert found["overlapped_s"] == pytest.approx(50e-6)
    assert (found["num_gaps"], found["longest_gap_s"]) == (1, pytest.approx(100e-6))
    assert found["collective_s"] == pytest.approx(100e-6)
    assert found["exposed_collective_s"] == pytest.approx(50e-6)
    assert {row["kind"]: row["num_calls"] for row in found["kinds"]} == {
        "matmul": 1,
        "elementwise": 1,
        "attention": 1,
        "collective": 1,
    }
    assert sum(row["share_fraction"] for row in found["kinds"]) == pytest.approx(1.0)
    assert "gaps" in found["advice"]


def test_graphs_that_were_traced_whole_count_as_work(cli: Cli, tmp_path: Path) -> None:
    path = nsys(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
            " (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, graphExecId INTEGER)"
        )
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (600000, 900000, 0, 7, 1)")
    rows = {row["kind"]: row for row in answer(cli, path)["kinds"]}
    assert rows["captured graph"]["time_s"] == pytest.approx(300e-6)


def test_a_matmul_with_shapes_is_held_against_its_roof(cli: Cli, tmp_path: Path) -> None:
    rows = {row["kind"]: row for row in answer(cli, chrome(tmp_path, EVENTS))["kinds"]}
    floor = 2 * 4096**3 / 989.4e12
    assert rows["matmul"]["floor_s"] == pytest.approx(floor)
    assert rows["matmul"]["roof_fraction"] == pytest.approx(floor / 200e-6)
    assert rows["attention"]["roof_fraction"] is None


def operator_events(
    name: str, dims: list[Any], *kernels: tuple[str, float], concrete: tuple[str, ...] = ()
) -> list[Any]:
    """Return an operator of the CPU with shapes, and the kernels that it launched, as torch.profiler writes them."""
    arguments = {
        "External id": 77,
        "Input Dims": dims,
        "Input type": ["c10::BFloat16"] * len(dims),
        "Concrete Inputs": list(concrete),
    }
    operator = {"ph": "X", "cat": "cpu_op", "name": name, "ts": 0, "dur": 5, "args": arguments}
    launched = []
    start = 10.0
    for kernel_name, micro in kernels:
        each = kernel(kernel_name, start, micro)
        launched.append({**each, "args": {**each["args"], "External id": 77}})
        start += micro
    return [operator, *launched]


@pytest.mark.parametrize(
    ("events", "kind", "floor_s"),
    [
        (
            operator_events(
                "aten::_scaled_dot_product_flash_attention",
                [[1, 32, 4096, 128]] * 3,
                ("flash_fwd_kernel", 400),
                concrete=("", "", "", "0.", "False"),
            ),
            "attention",
            4 * 32 * 4096**2 * 128 / 989.4e12,
        ),
        (
            operator_events(
                "aten::_scaled_dot_product_flash_attention",
                [[1, 32, 4096, 128]] * 3,
                ("flash_fwd_kernel", 400),
                concrete=("", "", "", "0.", "True"),
            ),
            "attention",
            2 * 32 * 4096**2 * 128 / 989.4e12,
        ),
        (
            operator_events(
                "aten::_flash_attention_forward", [[1, 4096, 32, 128]] * 3, ("flash_fwd_kernel", 400)
            ),
            "attention",
            4 * 32 * 4096**2 * 128 / 989.4e12,
        ),
        (
            operator_events("aten::silu", [[4096, 14336]], ("vectorized_elementwise_kernel", 80)),
            "elementwise",
            2 * 2 * 4096 * 14336 / 3.35e12,
        ),
        (
            operator_events("aten::cat", [[[4096, 64], [4096, 64]]], ("CatArrayBatchedCopy", 80)),
            "elementwise",
            2 * 3 * 4096 * 64 / 3.35e12,
        ),
        (
            operator_events(
                "aten::mm", [[64, 8192], [8192, 8192]], ("gemm_splitk", 60), ("splitKreduce_kernel", 5)
            ),
            "matmul",
            2 * (64 * 8192 + 8192**2 + 64 * 8192) / 3.35e12,
        ),
    ],
)
def test_an_operator_with_shapes_has_its_work_once(
    cli: Cli, tmp_path: Path, events: list[Any], kind: str, floor_s: float
) -> None:
    rows = {row["kind"]: row for row in answer(cli, chrome(tmp_path, events))["kinds"]}
    assert rows[kind]["floor_s"] == pytest.approx(floor_s, rel=0.01)
    assert rows[kind]["known_s"] == pytest.approx(rows[kind]["time_s"])


def test_exposed_collectives_are_looked_at_before_kernels(cli: Cli, tmp_path: Path) -> None:
    events = [kernel("sm90_gemm", 0, 100), kernel("ncclDevKernel_AllGather", 100, 100, stream=9)]
    assert "collectives" in answer(cli, chrome(tmp_path, events))["advice"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul"),
        ("void flash::flash_fwd_splitkv_kernel<...>", "attention"),
        ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16>", "norm"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "collective"),
        ("void vllm::moe::topkGatingSoftmax", "experts"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward", "softmax"),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
        ("mystery", "other"),
    ],
)
def test_kernels_are_told_by_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 0, "dur": 1}]}', "no work of a GPU"),
        ("a.json", b'{"kind": "plan"}', "no Chrome trace"),
        ("a.json", b"hello", "neither JSON nor SQLite"),
        ("a.sqlite", b"SQLite format 3\x00broken", "cannot be read as an export"),
        ("a.nsys-rep", b"x", "nsys export --type sqlite"),
        ("a.ncu-rep", b"x", "Nsight Compute"),
    ],
)
def test_what_is_no_trace_is_said_so(cli: Cli, tmp_path: Path, name: str, content: bytes, told: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    run = cli(f"advisor roofline --trace {path} --gpu h100-sxm")
    assert run.code == 2
    assert told in run.err
    assert "Traceback" not in run.err
