"""Single operators without a model: work, launches, tiles and waves, floor and predicted time, and what fusing saves.

A person names an operator and a shape; `analyse_operator` returns every usual way to run it, so that fused and separate
kernels are compared. Counts are those of `simulator.roofline`, times those of the fitted operators.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from advisor.catalog.dtypes import DTYPES, FILE_DTYPES, bytes_per_element
from advisor.catalog.efficiencies import efficiency
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import GB
from advisor.simulator.device import Device
from advisor.simulator.operator_library import OperatorLibrary, matmul_key
from advisor.simulator.operators.attention import (
    attention_decode_s,
    attention_encoder_s,
    attention_prefill_s,
)
from advisor.simulator.operators.attention_kernels import (
    QUERY_TILE_ROWS,
    DecodeEfficiency,
    PrefillEfficiency,
)
from advisor.simulator.operators.matmul import (
    DTYPE_ALIASES,
    FORMATS,
    MatmulEfficiency,
    choose_kernel,
    peak_flop_per_s,
)
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.roofline import Work, attention_decode_work, attention_prefill_work, score_matrix_bytes

OperatorName = Literal[
    "gemm",
    "attention",
    "decode-attention",
    "layernorm",
    "rmsnorm",
    "softmax",
    "gelu",
    "silu",
    "swiglu",
    "transpose",
    "embedding",
    "mlp",
]
OPERATOR_NAMES: Final[tuple[OperatorName, ...]] = get_args(OperatorName)
_RESULT_BYTES: Final = 2.0
"""Bytes of a result of a matmul in a narrow format: engines write 16 bits."""
_SECTOR_BYTES: Final = 32.0
"""Smallest piece that memory moves. Source: NVIDIA, CUDA C++ Best Practices Guide, coalesced access."""
_EIGHTY_OVER_MEDIAN: Final = 1.9
"""Ratio of the half-width that holds 80 % of normal errors to the one that holds half: 1.2816 / 0.6745."""
_TILES_SHOWN: Final = ((256, 128), (128, 256), (128, 128), (64, 128), (64, 64))


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Tiles of one kernel over the SMs: each takes a tile at a time, and the last round may leave some idle."""

    tile_rows: int
    tile_columns: int
    split: int
    """Number of pieces that the depth is cut into, each with a tile of its own."""
    num_tiles: int
    num_sms: int

    @property
    def waves(self) -> float:
        """Tiles over SMs [rounds]."""
        return self.num_tiles / self.num_sms

    @property
    def paid_waves(self) -> int:
        """Rounds that the kernel takes if every tile takes as long."""
        return math.ceil(self.waves)

    @property
    def wave_fraction(self) -> float:
        """Fraction of the SMs' time that has a tile: waves over paid waves."""
        return self.waves / self.paid_waves


@dataclass(frozen=True, slots=True)
class OperatorKernels:
    """One way to run an operator: its kernels, their traffic and their time."""

    name: str
    launches: int
    work: Work
    peak_flop_per_s: float
    """Peak of the unit that does the arithmetic [flop/s]."""
    floor_s: float
    predicted_s: Quantity | None
    """Predicted time of all kernels [s]; None if no kernel of the kind was fitted."""

    def bound(self, bandwidth_bytes_per_s: float) -> str:
        """Limit by the roof: memory or compute."""
        ridge = self.peak_flop_per_s / bandwidth_bytes_per_s
        return "compute" if self.work.intensity_flop_per_byte > ridge else "memory"


@dataclass(frozen=True, slots=True)
class OperatorAnalysis:
    """One operator of one shape on one device, in every usual way to run it."""

    operator: str
    """Name of the operator: one that the simulator has kernels of, or one whose counts a caller gave."""
    shape: Mapping[str, int]
    dtype: str
    bandwidth_bytes_per_s: float
    ways: tuple[OperatorKernels, ...]
    """Ways to run it; the first is the usual one."""
    chosen: TileGrid | None = None
    """Tiles of the kernel that the prediction rests on; None for operators that are not tiled."""
    grids: tuple[TileGrid, ...] = ()
    """Other tile sizes of the operator, for comparison."""
    remarks: tuple[str, ...] = ()
    matrix_flop_per_s: float = 0.0
    """Peak of the matrix unit in 16 bits, which operators that are no matmul leave idle [flop/s]."""

    @property
    def usual(self) -> OperatorKernels:
        """Way to run it that libraries take."""
        return self.ways[0]

    @property
    def saved_bytes(self) -> float:
        """Traffic that the way with the least traffic saves over the one with the most [bytes]."""
        moved = [way.work.num_bytes for way in self.ways]
        return max(moved) - min(moved)


@dataclass(frozen=True, slots=True)
class OperatorQuestion:
    """Operator, shape and number format as asked."""

    operator: OperatorName
    shape: tuple[int, ...]
    dtype: str = "bf16"
    kv_heads: int | None = None
    """Number of heads of keys and values; None: as many as of queries."""
    is_causal: bool = True
    tile: tuple[int, int] | None = None
    """Tile to lay over the result of a gemm; None: the sizes that libraries have."""


_DIMENSIONS: Final[Mapping[OperatorName, tuple[str, ...]]] = {
    "gemm": ("rows", "columns", "depth"),
    "attention": ("batch", "heads", "tokens", "head_dim"),
    "decode-attention": ("batch", "heads", "context", "head_dim"),
    "mlp": ("tokens", "hidden", "inner"),
    "embedding": ("tokens", "hidden"),
}
_SAMPLE: Final[Mapping[str, str]] = {
    "gemm": "4096x4096x4096",
    "attention": "1x32x8192x128",
    "decode-attention": "64x32x8192x128",
    "mlp": "1024x4096x16384",
}


_MOST: Final[Mapping[OperatorName, Mapping[str, int]]] = {
    "attention": {"heads": 1024, "head_dim": 1024},
    "decode-attention": {"heads": 1024, "head_dim": 1024},
    "mlp": {"hidden": 65_536},
    "embedding": {"hidden": 65_536},
}
"""Sizes above which a dimension is taken as another one, typed in its place. Source: own choice; twice or more the
largest of the catalog's models, which `test_no_model_is_larger_than_a_dimension_may_be` holds."""


def misplaced_dimension(operator: OperatorName, shape: Sequence[int]) -> str:
    """Return the dimension of a shape that is larger than any model has it; empty if there is none.

    Source: own choice: twice the largest of the catalog's models.
    """
    most = _MOST.get(operator, {})
    sizes = zip(shape_names(operator), shape, strict=True)
    return next((name for name, size in sizes if size > most.get(name, size)), "")


def most_of(operator: OperatorName, dimension: str) -> int:
    """Return the largest size of a dimension that `misplaced_dimension` takes as meant."""
    return _MOST[operator][dimension]


def reordered_shape(operator: OperatorName, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with its misplaced dimension and the nearest other one exchanged, of two as near the later; empty
    if no exchange leaves every dimension as large as models have it.

    Source: own choice.
    """
    names = shape_names(operator)
    place = names.index(misplaced_dimension(operator, shape))
    for other in sorted(set(range(len(names))) - {place}, key=lambda each: (abs(each - place), -each)):
        sizes = list(shape)
        sizes[place] = shape[other]
        sizes[other] = shape[place]
        if not misplaced_dimension(operator, sizes):
            return tuple(sizes)
    return ()


def shape_names(operator: OperatorName) -> tuple[str, ...]:
    """Return the names of an operator's dimensions, in the order in which they are typed."""
    return _DIMENSIONS.get(operator, ("rows", "columns"))


def shape_example(operator: OperatorName) -> str:
    """Return a shape as typed."""
    return _SAMPLE.get(operator, "4096x4096")


def analyse_operator(
    question: OperatorQuestion, device: Device, vector_flop_per_s: float | None
) -> OperatorAnalysis:
    """Return work, floor and predicted time of one operator on one device, in every usual way to run it.

    `vector_flop_per_s` is the peak of the unit that does what is no matmul; None takes the matrix unit's.

    Assumes: inputs come from main memory and results go there; elements of what is no matmul have the width of the
    format.
    Raises: AdvisorError: the shape has the wrong number of dimensions, or heads do not divide.
    Error: `residual` of the catalog records behind each prediction.
    Source: counts of `simulator.roofline`; kernels of `simulator.operators`.
    """
    names = shape_names(question.operator)
    if len(question.shape) != len(names):
        raise AdvisorError(
            f"{question.operator} has {len(names)} dimensions, not {len(question.shape)}",
            why=f"they are {' x '.join(names)}",
            fix=f"--op {question.operator} {shape_example(question.operator)}",
        )
    bench = _Bench(
        device, OperatorLibrary(device, "any"), vector_flop_per_s or peak_flop_per_s("bf16", device)
    )
    analyse = _ANALYSES.get(question.operator, _pass_over_tensor)
    return replace(analyse(question, bench), matrix_flop_per_s=peak_flop_per_s("bf16", device))


def analyse_counts(
    operator: str,
    shape: Mapping[str, int],
    dtype: str,
    work: Work,
    peak_of_unit: float,
    bandwidth_bytes_per_s: float,
) -> OperatorAnalysis:
    """Return the floor of an operator whose work the caller counted; no prediction, since no kernel of it was fitted.

    floor = max(flop / peak, bytes / bandwidth)

    Assumes: inputs come from main memory and results go there.
    Error: none is known; a kernel takes longer than its floor.
    Source: own definition of the roofline.
    """
    floor_s = max(work.flop / peak_of_unit, work.num_bytes / bandwidth_bytes_per_s)
    way = OperatorKernels("this project's", 1, work, peak_of_unit, floor_s, None)
    return OperatorAnalysis(operator, shape, dtype, bandwidth_bytes_per_s, (way,))


@dataclass(frozen=True, slots=True)
class _Bench:
    """Device, kernels and vector unit that an operator is analysed on."""

    device: Device
    library: OperatorLibrary
    vector_flop_per_s: float

    def way(
        self, name: str, launches: int, work: Work, peak: float, seconds: float | None, *operators: str
    ) -> OperatorKernels:
        """Return one way, with the interval of the worst of the records that its prediction rests on."""
        bandwidth = self.device.bandwidth_bytes_per_s
        floor = max(work.flop / peak, work.num_bytes / bandwidth)
        predicted = None if seconds is None else self._quantity(seconds, operators)
        return OperatorKernels(name, launches, work, peak, floor, predicted)

    def _quantity(self, seconds: float, operators: Sequence[str]) -> Quantity:
        found = [efficiency(self.device.architecture, *operator.split("/"), "any") for operator in operators]
        error = 1.0 + _EIGHTY_OVER_MEDIAN * max(each.median_abs_error for each in found)
        lent = bool(self.device.assumed) or any(each.transferred_from for each in found)
        basis: Basis = "assumed" if lent else "modelled"
        return Quantity(seconds, seconds / error, seconds * error, basis)

    def elementwise(self, name: str, work: Work, launches: int = 1) -> OperatorKernels:
        """Return a way of kernels that pass over tensors, each with an equal part of the traffic."""
        one = self.library.elementwise_s([work.num_bytes / launches])  # type: ignore[arg-type]
        return self.way(
            name, launches, work, self.vector_flop_per_s, launches * float(one[0]), "elementwise/bf16"
        )

    def matmul_s(self, rows: int, columns: int, depth: int, dtype: str) -> float:
        """Time of one matmul [s]."""
        import numpy as np

        return float(self.library.matmul_s(np.array([float(rows)]), columns, depth, dtype)[0])


def _gemm_format(dtype: str, device: Device) -> tuple[str, float, float, float]:
    """Return the kernels' format, and the bytes per weight, input and result element.

    Weights in a format that the unit lacks are unpacked and multiplied in 16 bits, as engines do.
    """
    key = DTYPE_ALIASES.get(dtype, dtype)
    if key not in FORMATS:
        raise AdvisorError(
            f"--dtype {dtype} is not multiplied by any kernel that was measured",
            why=f"matmuls are known in {', '.join(name for name in FORMATS if name not in FILE_DTYPES)}",
            fix="--dtype bf16",
        )
    if not device.peak_flop_per_s.get(FORMATS[key].peak[0]) and dtype in DTYPES:
        key = matmul_key(dtype, "bf16")
        key = DTYPE_ALIASES.get(key, key)
    form = FORMATS[key]
    return key, form.weight_bytes, form.activation_bytes, max(_RESULT_BYTES, form.activation_bytes)


def _gemm(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    rows, columns, depth = question.shape
    device = bench.device
    key, weight, inputs, result = _gemm_format(question.dtype, bench.device)
    moved = inputs * rows * depth + weight * depth * columns + result * rows * columns
    work = Work(2.0 * rows * columns * depth, moved)
    peak = peak_flop_per_s(key, device)
    operator = "sgemm" if key == "fp32" else "matmul"
    seconds = bench.matmul_s(rows, columns, depth, key)
    way = bench.way("one kernel", 1, work, peak, seconds, f"{operator}/{key}")
    parameters = bench.library.parameters(MatmulEfficiency, operator, key)
    tile_rows, tile_columns, split = choose_kernel(rows, columns, depth, device, parameters)
    tiles = (question.tile,) if question.tile else _TILES_SHOWN
    grids = tuple(_grid(rows, columns, tile, 1, device.num_sms) for tile in tiles if tile is not None)
    return OperatorAnalysis(
        "gemm",
        dict(zip(shape_names("gemm"), question.shape, strict=True)),
        question.dtype,
        device.bandwidth_bytes_per_s,
        (way,),
        _grid(rows, columns, (tile_rows, tile_columns), split, device.num_sms),
        grids,
        _format_remarks(key, device),
    )


def _format_remarks(key: str, device: Device) -> tuple[str, ...]:
    """Return what the weights are multiplied in where that is not their own format."""
    form = FORMATS[key]
    used = next((name for name in form.peak if device.peak_flop_per_s.get(name)), "")
    if form.is_unpacked or key == "nf4":
        return (f"weights are unpacked on their way and multiplied in {used}",)
    if used in ("", form.peak[0]) or {used, form.peak[0]} <= {"bf16", "fp16"}:
        return ()
    return (f"{device.id} has no {form.peak[0]} unit: it multiplies in {used}",)


def _grid(rows: int, columns: int, tile: tuple[int, int], split: int, num_sms: int) -> TileGrid:
    num_tiles = math.ceil(rows / tile[0]) * math.ceil(columns / tile[1]) * split
    return TileGrid(tile[0], tile[1], split, num_tiles, num_sms)


def _kv_heads(question: OperatorQuestion, heads: int) -> int:
    kv_heads = question.kv_heads or heads
    if kv_heads > heads or heads % kv_heads:
        raise AdvisorError(
            f"--kv-heads {kv_heads} does not divide {heads} heads",
            why="each head of keys serves as many heads of queries as the others",
            fix=f"--kv-heads {max(1, math.gcd(kv_heads, heads))}",
        )
    return kv_heads


def _attention(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    batch, heads, tokens, dim = question.shape
    device = bench.device
    kv_heads = _kv_heads(question, heads)
    one = attention_prefill_work(
        tokens, 0, heads, kv_heads, dim, kv_bytes=bytes_per_element(_cache_format(question))
    )
    if not question.is_causal:
        one = Work(4.0 * heads * dim * float(tokens) ** 2, one.num_bytes)
    fused_work = one.times(batch)
    if question.is_causal:
        parameters = bench.library.parameters(PrefillEfficiency, "attention_prefill", "bf16")
        seconds = attention_prefill_s(tokens, 0.0, batch, heads, kv_heads, dim, device, parameters)
        operator = "attention_prefill/bf16"
    else:
        parameters = bench.library.parameters(PrefillEfficiency, "attention_encoder", "bf16")
        seconds = attention_encoder_s(tokens, batch, heads, dim, device, parameters)
        operator = "attention_encoder/bf16"
    peak = peak_flop_per_s("bf16", device)
    fused = bench.way("fused", 1, fused_work, peak, float(seconds), operator)
    scores = score_matrix_bytes(heads, tokens, tokens, batch_size=batch)
    # Two products over all pairs, since a library's matmul does not skip the masked half, and a softmax between them.
    unfused_work = Work(4.0 * batch * heads * dim * float(tokens) ** 2, fused_work.num_bytes + 4.0 * scores)
    unfused = bench.way("matmul, softmax, matmul", 3, unfused_work, peak, None)
    grid = TileGrid(
        QUERY_TILE_ROWS, tokens, 1, batch * heads * math.ceil(tokens / QUERY_TILE_ROWS), device.num_sms
    )
    return OperatorAnalysis(
        "attention",
        dict(zip(shape_names("attention"), question.shape, strict=True)) | {"kv_heads": kv_heads},
        question.dtype,
        device.bandwidth_bytes_per_s,
        (fused, unfused),
        grid,
        remarks=(
            f"the score matrix has {scores / GB:,.1f} GB in 16 bits; separate kernels write it, "
            "read it for the softmax, and write and read its result",
        ),
    )


def _cache_format(question: OperatorQuestion) -> str:
    return "fp8" if question.dtype == "fp8" else "bf16"


def _decode_attention(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    batch, heads, context, dim = question.shape
    kv_heads = _kv_heads(question, heads)
    stored = _cache_format(question)
    work = attention_decode_work(batch, context, heads, kv_heads, dim, kv_bytes=bytes_per_element(stored))
    parameters = bench.library.parameters(DecodeEfficiency, "attention_decode", stored)
    seconds = attention_decode_s(
        batch,
        context,
        heads,
        kv_heads,
        dim,
        bench.device,
        parameters,
        kv_bytes_per_element=bytes_per_element(stored),
    )
    peak = peak_flop_per_s("bf16", bench.device)
    way = bench.way("fused", 1, work, peak, float(seconds), f"attention_decode/{stored}")
    return OperatorAnalysis(
        "decode-attention",
        dict(zip(shape_names("decode-attention"), question.shape, strict=True)) | {"kv_heads": kv_heads},
        question.dtype,
        bench.device.bandwidth_bytes_per_s,
        (way,),
    )


def _mlp(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    tokens, hidden, inner = question.shape
    key, weight, inputs, result = _gemm_format(question.dtype, bench.device)
    device = bench.device
    outside = inputs * tokens * hidden + weight * 2.0 * hidden * inner + result * tokens * hidden
    wide = result * tokens * inner
    flop = 4.0 * tokens * hidden * inner
    peak = peak_flop_per_s(key, device)
    up_s = bench.matmul_s(tokens, inner, hidden, key)
    down_s = bench.matmul_s(tokens, hidden, inner, key)
    activation = bench.elementwise("activation", Work(0.0, 2.0 * wide))
    assert activation.predicted_s is not None
    apart_s = up_s + down_s + activation.predicted_s.value
    records = (f"matmul/{key}", "elementwise/bf16")
    return OperatorAnalysis(
        "mlp",
        dict(zip(shape_names("mlp"), question.shape, strict=True)),
        question.dtype,
        device.bandwidth_bytes_per_s,
        (
            bench.way("activation fused", 2, Work(flop, outside + 2.0 * wide), peak, up_s + down_s, *records),
            bench.way("three kernels", 3, Work(flop, outside + 4.0 * wide), peak, apart_s, *records),
            bench.way("one kernel", 1, Work(flop, outside), peak, None),
        ),
        remarks=_format_remarks(key, device),
    )


@dataclass(frozen=True, slots=True)
class _TensorPass:
    """Ways to run an operator that passes over a tensor: FLOP per element, and reads and writes per element."""

    flop: float
    ways: tuple[tuple[str, int, float], ...]
    """Name, launches and accesses per element, the usual way first."""


_PASSES: Final[Mapping[str, _TensorPass]] = {
    # Mean, variance, scale and shift: five operations an element.
    "layernorm": _TensorPass(5.0, (("row read twice", 1, 3.0), ("row kept on the chip", 1, 2.0))),
    # Square, sum, scale and weight.
    "rmsnorm": _TensorPass(4.0, (("row kept on the chip", 1, 2.0), ("row read twice", 1, 3.0))),
    # Maximum, difference, exponential, sum and quotient.
    "softmax": _TensorPass(5.0, (("row kept on the chip", 1, 2.0), ("three passes over the row", 1, 4.0))),
    "gelu": _TensorPass(5.0, (("kernel of its own", 1, 2.0), ("in the matmul before it", 0, 0.0))),
    "silu": _TensorPass(4.0, (("kernel of its own", 1, 2.0), ("in the matmul before it", 0, 0.0))),
    # Two halves are read, one is written; columns are those of the result.
    "swiglu": _TensorPass(5.0, (("kernel of its own", 1, 3.0), ("in the matmul before it", 0, 0.0))),
    "embedding": _TensorPass(0.0, (("rows gathered", 1, 2.0),)),
}
"""Operators that pass over a tensor. Source: own counts; an exponential or a root counts as one operation."""


def _pass_over_tensor(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    rows, columns = question.shape
    elements = float(rows) * columns
    width = max(1.0, bytes_per_element(question.dtype))
    known = _PASSES[question.operator]
    ways = []
    for name, launches, accesses in known.ways:
        work = Work(elements * known.flop, elements * accesses * width)
        if launches:
            ways.append(bench.elementwise(name, work))
        else:
            ways.append(bench.way(name, 0, work, bench.vector_flop_per_s, None))
    return OperatorAnalysis(
        question.operator,
        dict(zip(shape_names(question.operator), question.shape, strict=True)),
        question.dtype,
        bench.device.bandwidth_bytes_per_s,
        tuple(ways),
    )


def _transpose(question: OperatorQuestion, bench: _Bench) -> OperatorAnalysis:
    rows, columns = question.shape
    width = max(1.0, bytes_per_element(question.dtype))
    elements = float(rows) * columns
    tiled = bench.elementwise("tiled", Work(0.0, 2.0 * elements * width))
    scattered_bytes = elements * (width + max(width, _SECTOR_BYTES))
    scattered = bench.way("element by element", 1, Work(0.0, scattered_bytes), bench.vector_flop_per_s, None)
    return OperatorAnalysis(
        "transpose",
        dict(zip(shape_names("transpose"), question.shape, strict=True)),
        question.dtype,
        bench.device.bandwidth_bytes_per_s,
        (tiled, scattered),
        remarks=(
            f"element by element, uncoalesced writes move {_SECTOR_BYTES:.0f} bytes for each of {width:g}, "
            "unless the cache joins them",
        ),
    )


_ANALYSES: Final[Mapping[str, Callable[[OperatorQuestion, _Bench], OperatorAnalysis]]] = {
    "gemm": _gemm,
    "attention": _attention,
    "decode-attention": _decode_attention,
    "mlp": _mlp,
    "transpose": _transpose,
}
