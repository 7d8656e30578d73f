"""Traces of a profiler: kernels and copies of GPUs with times, from PyTorch's JSON or an SQLite export of nsys."""

import gzip
import io
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.units import GIGA, MICROSECOND_S
from advisor.simulator.roofline import Work

_MOST_BYTES: Final = 4e9
_SQLITE_HEAD: Final = b"SQLite format 3\x00"
_GZIP_HEAD: Final = b"\x1f\x8b"
_GPU_CATEGORIES: Final = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
_ELEMENT_BYTES: Final = {
    "float": 4.0,
    "c10::Half": 2.0,
    "c10::BFloat16": 2.0,
    "double": 8.0,
    "c10::Float8_e4m3fn": 1.0,
    "signed char": 1.0,
    "unsigned char": 1.0,
    "int": 4.0,
    "long int": 8.0,
}
_FORMATS: Final = {
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "signed char": "int8",
}
_ATTENTION: Final = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_flash_attention_forward",
)
"""Forward attention; all but the last have heads before tokens."""
_PASSES: Final = (
    "aten::add",
    "aten::add_",
    "aten::sub",
    "aten::mul",
    "aten::mul_",
    "aten::div",
    "aten::silu",
    "aten::gelu",
    "aten::relu",
    "aten::sigmoid",
    "aten::copy_",
    "aten::cat",
    "aten::native_layer_norm",
    "aten::native_group_norm",
    "aten::rms_norm",
    "aten::_fused_rms_norm",
    "aten::_softmax",
)
"""Operators that read their tensors and write one as large as the largest of them."""
_MATMULS: Final = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_scaled_mm", "aten::linear")


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """One kernel, copy or fill on one GPU."""

    name: str
    device: int
    stream: int
    start_s: float
    end_s: float
    work: Work | None = None
    """Work of the operator that launched it, where the profiler recorded shapes; None otherwise."""
    dtype: str = ""
    """Number format of its first input; empty if not recorded."""


def read_trace(path: Path) -> tuple[str, list[GpuActivity]]:
    """Return the kind of a trace, and its GPU activities by start.

    Raises: InputFileError: the file cannot be read, is no such trace, or holds no GPU activity.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_HEAD))
        size = path.stat().st_size
    except OSError as error:
        raise InputFileError(
            f"{path}: cannot be read", why=error.strerror or str(error), fix="name a file"
        ) from None
    if size > _MOST_BYTES:
        raise InputFileError(f"{path}: has more than 4 GB", fix="profile fewer steps")
    if path.suffix in (".nsys-rep", ".qdrep"):
        raise InputFileError(
            f"{path}: is a report of Nsight Systems, not an export",
            why="the report's format is not published",
            fix=f"nsys export --type sqlite {path}, then --trace {path.with_suffix('.sqlite')}",
        )
    if path.suffix == ".ncu-rep":
        raise InputFileError(
            f"{path}: is a report of Nsight Compute",
            why="it has counters of single kernels, not the order of a step",
            fix="a trace of torch.profiler (export_chrome_trace) or an export of nsys",
        )
    kind, found = (
        ("nsys", _read_nsys(path)) if head == _SQLITE_HEAD else ("pytorch", _read_chrome(path, head))
    )
    if not found:
        raise InputFileError(
            f"{path}: holds no work of a GPU",
            why="the profiler recorded the CPU alone",
            fix="profile with ProfilerActivity.CUDA, or nsys profile --trace=cuda",
        )
    return kind, sorted(found, key=lambda activity: activity.start_s)


def _read_chrome(path: Path, head: bytes) -> list[GpuActivity]:
    wrong = "name a file that torch.profiler's export_chrome_trace, or nsys export --type sqlite, wrote"
    try:
        content = json.loads(_unzip(path.read_bytes()) if head.startswith(_GZIP_HEAD) else path.read_bytes())
    except (ValueError, OSError, EOFError, RecursionError) as error:
        raise InputFileError(f"{path}: is neither JSON nor SQLite", why=str(error)[:120], fix=wrong) from None
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise InputFileError(f"{path}: is no Chrome trace", why="it has no list of traceEvents", fix=wrong)
    complete = [
        event for event in events if isinstance(event, dict) and event.get("ph") == "X" and _has_times(event)
    ]
    operators = _operators_by_id(complete)
    found = [event for event in complete if event.get("cat") in _GPU_CATEGORIES]
    longest: dict[object, float] = {}
    for event in found:
        launched_by = _arguments(event).get("External id")
        longest[launched_by] = max(longest.get(launched_by, 0.0), float(event["dur"]))
    return [_activity(event, operators, longest) for event in found]


def _unzip(content: bytes) -> bytes:
    """Return the content of a gzip file, refused beyond the size that a trace may have.

    Raises: OSError: it is damaged or too large.
    """
    with gzip.open(io.BytesIO(content)) as file:
        found = file.read(round(_MOST_BYTES) + 1)
    if len(found) > _MOST_BYTES:
        raise OSError("it has more than 4 GB")
    return found


def _has_times(event: Mapping[str, Any]) -> bool:
    values = (event.get("ts"), event.get("dur"))
    return all(isinstance(value, int | float) and math.isfinite(value) and value >= 0 for value in values)


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _operators_by_id(events: Sequence[Mapping[str, Any]]) -> dict[object, Mapping[str, Any]]:
    """Return the innermost recorded operator of the CPU by its external id: the last that has shapes."""
    found: dict[object, Mapping[str, Any]] = {}
    for event in events:
        arguments = _arguments(event)
        if event.get("cat") == "cpu_op" and "External id" in arguments and arguments.get("Input Dims"):
            found[arguments["External id"]] = event
    return found


def _activity(
    event: Mapping[str, Any],
    operators: Mapping[object, Mapping[str, Any]],
    longest: dict[object, float],
) -> GpuActivity:
    """Return one activity. Of the kernels of an operator the longest has its work, the others none: a product in parts
    and the sum over the parts do it once."""
    arguments = _arguments(event)
    start_s = float(event["ts"]) * MICROSECOND_S
    operator = operators.get(arguments.get("External id"))
    work, dtype = _work_of(operator) if operator is not None else (None, "")
    launched_by = arguments.get("External id")
    if work is not None:
        if float(event["dur"]) < longest[launched_by]:
            work = Work(0.0, 0.0)
        else:
            longest[launched_by] = math.inf  # a second kernel of the same length has none
    device = arguments.get("device", 0)
    stream = arguments.get("stream", event.get("tid", 0))
    return GpuActivity(
        str(event.get("name", "")),
        device if isinstance(device, int) else 0,
        stream if isinstance(stream, int) else 0,
        start_s,
        start_s + float(event["dur"]) * MICROSECOND_S,
        work,
        dtype,
    )


def _work_of(operator: Mapping[str, Any]) -> tuple[Work | None, str]:
    """Return the work of a matmul, attention or a pass over tensors whose shapes were recorded, and its format; None
    for other operators."""
    arguments = _arguments(operator)
    dims = [size for size in arguments.get("Input Dims", []) if isinstance(size, list) and len(size) >= 2]
    types = arguments.get("Input type", [])
    name = next((str(kind) for kind in types if kind in _ELEMENT_BYTES), "c10::BFloat16")
    if operator.get("name") in _ATTENTION:
        return _attention_work(operator, dims), _FORMATS.get(name, "bf16")
    if operator.get("name") in _PASSES:
        return _pass_work(arguments.get("Input Dims", []), _ELEMENT_BYTES[name]), _FORMATS.get(name, "bf16")
    if operator.get("name") not in _MATMULS or len(dims) < 2:
        return None, ""
    first, second = dims[-2:] if operator.get("name") == "aten::addmm" else dims[:2]
    sizes = (*first, *second)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None, ""
    batch = math.prod(first[:-2]) if operator.get("name") == "aten::bmm" else 1
    rows = first[-2] if operator.get("name") == "aten::bmm" else math.prod(first[:-1])
    depth = first[-1]
    columns = second[-2] if operator.get("name") == "aten::linear" else second[-1]
    element = _ELEMENT_BYTES[name]
    moved = element * (rows * depth + depth * columns) + max(2.0, element) * rows * columns
    return Work(2.0 * rows * columns * depth, moved).times(batch), _FORMATS.get(name, "bf16")


def _attention_work(operator: Mapping[str, Any], dims: Sequence[Sequence[Any]]) -> Work | None:
    """Return the work of attention: two products of every query with its keys, half of them if a mask hides the rest;
    queries, keys, values and the output move once."""
    if len(dims) < 2 or any(len(size) != 4 for size in dims[:2]):
        return None
    query, key = (list(size) for size in dims[:2])
    if not all(isinstance(size, int) and size > 0 for size in (*query, *key)):
        return None
    if operator.get("name") == "aten::_flash_attention_forward":
        query[1:3] = query[2:0:-1]
        key[1:3] = key[2:0:-1]
    batch, heads, tokens, width = query
    pairs = batch * heads * tokens * key[2]
    is_causal = "True" in _arguments(operator).get("Concrete Inputs", [])
    moved = 2.0 * (2 * math.prod(query) + 2 * math.prod(key))
    return Work(4.0 * pairs * width * (0.5 if is_causal else 1.0), moved)


def _pass_work(dims: Any, element_bytes: float) -> Work | None:
    """Return the traffic of an operator that reads its tensors and writes one as large as the largest."""
    flat = [
        inner for size in dims if isinstance(size, list) for inner in (size if _is_nested(size) else [size])
    ]
    counts = [
        math.prod(size) for size in flat if size and all(isinstance(one, int) and one > 0 for one in size)
    ]
    return Work(0.0, element_bytes * (sum(counts) + max(counts))) if counts else None


def _is_nested(size: Sequence[Any]) -> bool:
    """Whether an entry is a list of tensors (cat) rather than one tensor's sizes."""
    return bool(size) and all(isinstance(inner, list) for inner in size)


def _read_nsys(path: Path) -> list[GpuActivity]:
    wrong = "export it again: nsys export --type sqlite REPORT"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            tables = {
                row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            found = list(_nsys_rows(database, tables))
    except sqlite3.Error as error:
        raise InputFileError(
            f"{path}: cannot be read as an export of nsys", why=str(error), fix=wrong
        ) from None
    activities = ("KERNEL", "MEMCPY", "GRAPH_TRACE")
    if not tables & {f"CUPTI_ACTIVITY_KIND_{kind}" for kind in activities}:
        raise InputFileError(
            f"{path}: holds no CUDA activity", why="it has no CUPTI_ACTIVITY_KIND_KERNEL table", fix=wrong
        )
    return found


def _nsys_rows(database: sqlite3.Connection, tables: set[str]) -> Iterator[GpuActivity]:
    queries = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "SELECT s.value, k.deviceId, k.streamId, k.start, k.end "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "SELECT 'memcpy', deviceId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET": "SELECT 'memset', deviceId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "SELECT 'captured graph', deviceId, streamId, start, end "
        "FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    }
    for table, query in queries.items():
        if table in tables:
            for name, device, stream, start, end in database.execute(query):
                yield GpuActivity(str(name), int(device), int(stream), start / GIGA, end / GIGA)
