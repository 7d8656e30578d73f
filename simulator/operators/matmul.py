"""Matmul: y[m, n] = x[m, k] w[k, n] with m tokens, as a kernel library would run it.

The library picks, for every shape, the best of a few tile sizes and K splits. Each candidate pays for whole
tiles and whole waves of tiles over the SMs, for filling its pipeline along K, for feeding small tiles, and
for the bytes it moves with as many SMs as it keeps busy; the fastest candidate is the answer.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import FILE_DTYPES, bytes_per_element
from advisor.catalog.schema.efficiency import EfficiencyRecord
from advisor.simulator.device import Device

FloatArray = NDArray[np.float64]

_OUTPUT_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class MatmulFormat:
    """Number format of a matmul: its peaks and its bytes per activation."""

    peak: tuple[str, ...]
    """Keys of the device's peak table, best first: a unit without the format multiplies in the next one."""
    weight_bytes: float
    activation_bytes: float
    """Bytes per activation element as the multiplication reads it."""
    is_sparse: bool = False
    """Whether the unit reads weights with their gaps as they are stored."""

    @property
    def is_unpacked(self) -> bool:
        """Whether a kernel unpacks weights on their way to a matmul in 16 bits."""
        return not self.is_sparse and self.weight_bytes < self.activation_bytes == _OUTPUT_BYTES


# 4-bit formats carry scales: an fp8 per 16 elements (nvfp4), an e8m0 per 32 (mxfp4), an fp16 per 128 (int4).
FORMATS: Final[dict[str, MatmulFormat]] = {
    "fp32": MatmulFormat(("fp32", "bf16", "fp16"), 4.0, 4.0),
    "tf32": MatmulFormat(("tf32", "fp32", "bf16", "fp16"), 4.0, 4.0),
    "bf16": MatmulFormat(("bf16", "fp16"), 2.0, 2.0),
    "fp8": MatmulFormat(("fp8", "bf16", "fp16"), 1.0, 1.0),
    "fp8_block": MatmulFormat(("fp8", "bf16", "fp16"), 1.0, 1.0),
    "int8": MatmulFormat(("int8", "fp8", "bf16", "fp16"), 1.0, 1.0),
    "nvfp4": MatmulFormat(("fp4", "fp8", "bf16", "fp16"), 0.5625, 0.5625),
    "mxfp4": MatmulFormat(("fp4", "fp8", "bf16", "fp16"), 0.53125, 0.53125),
    "w4a8_mxfp4": MatmulFormat(("fp8", "bf16", "fp16"), 0.53125, 1.0),
    "mxfp4_wo": MatmulFormat(("bf16", "fp16"), 0.53125, 2.0),
    "int8_wo": MatmulFormat(("bf16", "fp16"), 1.0, 2.0),
    "int4_wo": MatmulFormat(("bf16", "fp16"), 0.515625, 2.0),
    "w4a8": MatmulFormat(("fp8", "int8", "bf16", "fp16"), bytes_per_element("w4a8"), 1.0),
    "codebook_wo": MatmulFormat(("bf16", "fp16"), bytes_per_element("aqlm-2bit"), 2.0),
    "sparse24": MatmulFormat(("bf16", "fp16"), bytes_per_element("sparse24"), 2.0, is_sparse=True),
    # bitsandbytes writes the weights out in 16 bits and multiplies with the copy.
    "nf4": MatmulFormat(("bf16", "fp16"), bytes_per_element("nf4") + 4.0, 2.0),
    "fp6": MatmulFormat(("fp6", "fp8", "bf16", "fp16"), 0.75, 1.0),
    **{name: MatmulFormat(("bf16", "fp16"), bytes_per_element(name), 2.0) for name in FILE_DTYPES},
}
DTYPE_ALIASES: Final[dict[str, str]] = {
    "fp16": "bf16",
    "int4": "int4_wo",
    "w4a16": "int4_wo",
    "aqlm-2bit": "codebook_wo",
    "quip-2bit": "codebook_wo",
}
SPARSE: Final = "sparse24"
"""Format of weights of which two of four neighbours are zero."""
SPARSE_UNITS: Final = (
    "ampere",
    "ampere-geforce",
    "ada",
    "hopper",
    "blackwell",
    "blackwell-ultra",
    "blackwell-geforce",
)
"""Architectures whose matrix units skip those zeros, at twice the rate (NVIDIA A100 whitepaper and its successors)."""
_LEAST_RELATIVE_RATE: Final = 0.25
"""Least rate of an SM over the measured one for which feed and fill shrink. Own assumption: no slower SM was
measured."""
_PARTIAL_SUM_BYTES: Final = 4.0

_TILES: Final = ((16, 64), (16, 128), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
_SPLITS: Final = (1, 2, 4, 8, 16)
_MIN_SPLIT_DEPTH: Final = 256
"""Smallest depth of a K split: no library splits K into pieces shorter than a few pipeline stages."""
_CANDIDATES: Final = np.array([(*tile, split) for tile in _TILES for split in _SPLITS], dtype=np.float64)

_WARPGROUP_UNITS: Final = ("hopper", "blackwell", "blackwell-ultra", "rubin")
_ONE_WARP: Final = 0.629
"""Fraction of the peak that instructions of one warp reach, see `of_one_warp`."""
_HOPPER_SM_FLOP_PER_CYCLE: Final = 4096.0
"""Dense 16-bit rate of one SM of an H100: 989.4 TFLOP/s over 132 SMs at 1.83 GHz."""

_CLUSTER_ROWS: Final = 2.0
_SMALL_ROWS: Final = 64.0
_MEDIUM_ROWS: Final = 128.0
_LARGE_ROWS: Final = 8192.0
_LARGE_DEPTH: Final = 6144.0
"""Depth from which on CUTLASS matmuls of engines take tiles of 256 rows."""


@dataclass(frozen=True, slots=True)
class ProductEfficiency:
    """Fitted parameters of matmuls on one (architecture, format, engine)."""

    dtype: str
    launch_s: float
    """Launch time of all kernels of one call inside a captured graph [s]."""
    compute_fraction: float
    """Fraction of the dense peak, reached by an endless big tile."""
    memory_fraction: float
    """Fraction of the bandwidth, reached when every SM streams."""
    tile_half: float
    """Tile side at which feeding the tile costs as much as multiplying it [elements]."""
    ramp_depth: float
    """Depth of K that costs as much as filling and draining one tile's pipeline [elements]."""
    wave_smoothing: float
    """0: every wave of tiles is paid in full; 1: tiles spread over the SMs without remainder."""
    depth_cycles: float
    """Minimum time of one step of depth in a tile's loop, however small the tile: load latency [cycles]."""
    overlap_norm: float
    """Exponent p of the norm that joins compute and memory time; infinite = perfect overlap."""
    sm_flop_per_cycle: float
    """Dense rate of one SM of the measured devices [flop per cycle]."""

    @classmethod
    def from_record(cls, record: EfficiencyRecord, dtype: str = "") -> Self:
        """Return the parameters of a catalog record, used for `dtype` (default: the format it was fitted for).

        Assumes: a record of a related format may stand in for an unmeasured one, with the bytes and the peak
        of the format that is asked for.
        Raises: KeyError: a parameter is missing or the format unknown.
        """
        used = dtype or record.dtype
        used = DTYPE_ALIASES.get(used, used)
        if used not in FORMATS:
            raise KeyError(f"no matmul format {used!r}; known: {', '.join(FORMATS)}")
        values: dict[str, Any] = record.parameters | {"dtype": used}
        return cls(**{name: values[name] for name in cls.__match_args__})


@dataclass(frozen=True, slots=True)
class MatmulEfficiency(ProductEfficiency):
    """Fitted parameters of one multiplication; its launch time includes the kernels of quantisation."""

    split_cycles: float
    """Fixed cost of summing the parts of a split K [cycles]."""
    quantize_bytes: float
    """Additional traffic of quantisation in front of the multiplication, per activation element [bytes]."""
    quantize_row_cycles: float
    """Time of one SM per activation row of that quantisation, however short the row [cycles]."""
    throttle: float
    """Slow-down of calls so large that power, not the matrix unit, limits them."""
    throttle_flop: float
    """Work of a call per SM at which half of that slow-down is reached [flop]."""
    partial_tiles: float
    """Additional time of tiles without any row in kernels of fixed tiles: empty tiles are not free."""
    narrow_rows: float
    """Number of rows up to which such a kernel has an equally narrow tile; 0 if a library picks the best of several
    kernels."""


def matmul_s(
    num_rows: FloatArray | float,
    num_columns: FloatArray | float,
    depth: FloatArray | float,
    device: Device,
    efficiency: MatmulEfficiency,
) -> FloatArray:
    """Time of y[rows, columns] = x[rows, depth] w[depth, columns] [s].

    t = launch + quantise + min over (tile, split) of (compute^p + memory^p)^(1/p)

    Assumes: weights are read from main memory (a layer's weights are cold when its turn comes again); one
    launch inside a captured graph; activations arrive in 16 bits.
    Raises: KeyError: the device has no 16-bit peak.
    Error: `residual` of the catalog record, measured by evidence/fit/matmul.py.
    Source: own model, fitted to GEMM measurements of ai-dynamo/aiconfigurator (Apache-2.0).
    """
    # Values common to all shapes stay scalars: most of the work is per shape and candidate.
    rows, columns, inner = (
        np.atleast_1d(np.asarray(size, dtype=np.float64)) for size in (num_rows, num_columns, depth)
    )
    bandwidth = device.bandwidth_bytes_per_s * efficiency.memory_fraction
    quantize_s = rows * inner * efficiency.quantize_bytes / bandwidth
    quantize_s += rows * efficiency.quantize_row_cycles / (device.num_sms * device.clock_hz)
    kernel_s = _candidates_s(rows, columns, inner, device, efficiency).min(axis=0)
    return np.asarray(efficiency.launch_s + quantize_s + kernel_s)


def choose_kernel(
    num_rows: float, num_columns: float, depth: float, device: Device, efficiency: MatmulEfficiency
) -> tuple[int, int, int]:
    """Return tile rows, tile columns and K splits of the kernel that `matmul_s` prices: the fastest candidate.

    Raises: KeyError: the device has no 16-bit peak.
    Source: as `matmul_s`.
    """
    rows, columns, inner = (np.array([size], dtype=np.float64) for size in (num_rows, num_columns, depth))
    kernels = _kernels(rows, inner, efficiency)
    best = int(_candidates_s(rows, columns, inner, device, efficiency)[:, 0].argmin())
    sizes = (kernels.tile_rows, kernels.tile_columns, kernels.split)
    first, second, third = (int(size[best, 0]) for size in sizes)
    return first, second, third


def of_one_warp(device: Device) -> Device:
    """Return the device as seen by kernels with matrix instructions of one warp, Ampere's: later data-centre units
    reach their rate only with instructions of several warps.

    Assumes: units that came after Hopper's behave as Hopper's.
    Source: Luo and others, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking (arXiv
    2402.13499): 62.9 % of the peak on average.
    """
    if device.architecture not in _WARPGROUP_UNITS:
        return device
    rates = {name: _ONE_WARP * rate for name, rate in device.peak_flop_per_s.items()}
    return replace(device, peak_flop_per_s=rates)


def with_one_warp_limit(device: Device) -> Device:
    """Return the device as seen by attention kernels with matrix instructions of one warp: an SM keeps no more than
    62.9 % of a full Hopper SM's rate, so that one whose rate is cut below that keeps all.

    Source: as `of_one_warp`; FlashAttention-2 on H100, arXiv:2407.08608, section 1 (35 % of the peak).
    """
    if device.architecture not in _WARPGROUP_UNITS:
        return device
    most = _ONE_WARP * _HOPPER_SM_FLOP_PER_CYCLE * device.num_sms * device.clock_hz
    rates = dict(device.peak_flop_per_s)
    for name in ("bf16", "fp16"):
        rates[name] = min(rates[name], most)
    return replace(device, peak_flop_per_s=rates)


def peak_flop_per_s(dtype: str, device: Device) -> float:
    """Dense rate at which the device multiplies a format, falling back to wider ones [flop/s].

    Assumes: a unit without the format converts on load and multiplies in the next wider format.
    Raises: KeyError: the device has no 16-bit peak.
    Source: own definition.
    """
    skipping = 2.0 if dtype == SPARSE and device.architecture in SPARSE_UNITS else 1.0
    return skipping * device.peak_flop_per_s[_peak_key(dtype, device)]


def datasheet_peak_flop_per_s(dtype: str, device: Device) -> float:
    """Dense rate of a format before any calibration: how fast the unit is built, not how fast this one runs [flop/s].

    Raises: KeyError: the device has no 16-bit peak.
    Source: own definition.
    """
    key = _peak_key(dtype, device)
    return device.peak_flop_per_s[key] / device.peak_scale.get(key, 1.0)


def _peak_key(dtype: str, device: Device) -> str:
    for key in FORMATS[dtype].peak:
        if device.peak_flop_per_s.get(key):
            return key
    raise KeyError(f"{device.id} has no peak for {dtype}")


def relative_sm_rate(peak: float, device: Device, measured_flop_per_cycle: float) -> float:
    """Rate of one SM relative to the measured one, at most 1 [ratio].

    Operand feed, pipeline fill and power were fitted on SMs of some rate. An SM of the same family with half the
    matrix rate (GeForce boards, FP32 accumulation) waits half as long for them. A faster SM is taken to come
    with the feed it needs.

    Assumes: same clock domain for matrix unit and feed.
    Source: own model.
    """
    flop_per_cycle = peak / (device.num_sms * device.clock_hz)
    return min(1.0, max(_LEAST_RELATIVE_RATE, flop_per_cycle / measured_flop_per_cycle))


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Kernels that may run each shape [candidate, shape]."""

    tile_rows: FloatArray
    tile_columns: FloatArray
    split: FloatArray
    cluster_rows: FloatArray
    """Number of tiles below each other that run together."""


def _kernels(rows: FloatArray, depth: FloatArray, e: MatmulEfficiency) -> _Kernels:
    """Return the kernels for y = x w: the best of a library's, or one kernel per range of rows, in clusters of tiles
    along them.

    Source: vLLM, csrc/quantization/w8a8/cutlass/c3x/scaled_mm_sm90_fp8_dispatch.cuh (Apache-2.0): tiles of 64×64 up to
    64 rows (16 wide up to 16 of them), of 64×128 in clusters of two up to 128, then of 128×128 in clusters of two, of
    256×128 for the largest. SGLang's sweep behaves alike but narrow tiles hold 32 rows.
    """
    if not e.narrow_rows:
        tile_rows, tile_columns, split = (column[:, None] for column in _CANDIDATES.T)
        return _Kernels(tile_rows, tile_columns, split, cluster_rows=tile_rows)
    large = (rows >= _LARGE_ROWS) & (depth >= _LARGE_DEPTH)
    tile_rows = np.where(rows <= _MEDIUM_ROWS, 64.0, np.where(large, 256.0, 128.0))
    single = rows <= _SMALL_ROWS
    columns = np.where(single, 64.0, 128.0)
    together = np.where(single, 1.0, _CLUSTER_ROWS)
    return _Kernels(tile_rows[None], columns[None], np.ones((1, len(rows))), (tile_rows * together)[None])


def _candidates_s(
    rows: FloatArray, columns: FloatArray, depth: FloatArray, device: Device, e: MatmulEfficiency
) -> FloatArray:
    """Time of every candidate kernel without launch [candidate, shape]."""
    kernels = _kernels(rows, depth, e)
    split = kernels.split
    paid_rows = np.ceil(rows / kernels.cluster_rows) * kernels.cluster_rows
    num_tiles = paid_rows / kernels.tile_rows * np.ceil(columns / kernels.tile_columns) * split
    compute_s = _compute_s(kernels, num_tiles, rows * columns * depth, depth, device, e)
    memory_s = _memory_s(rows, columns, depth, split, device, e)
    latency_s = depth / split * e.depth_cycles / device.clock_hz
    joined = overlapped_s(np.maximum(compute_s, latency_s), memory_s, e.overlap_norm)
    joined += e.split_cycles / device.clock_hz * (split > 1.0)
    if e.partial_tiles:
        empty = np.where(rows <= e.narrow_rows, 0.0, 1.0 - rows / paid_rows)
        joined *= 1.0 + e.partial_tiles * empty
    too_fine = (split > 1.0) & (depth < _MIN_SPLIT_DEPTH * split)
    return np.where(too_fine, np.inf, joined)


def _compute_s(
    kernels: _Kernels,
    num_tiles: FloatArray,
    volume: FloatArray,
    depth: FloatArray,
    device: Device,
    e: MatmulEfficiency,
) -> FloatArray:
    peak = peak_flop_per_s(e.dtype, device)
    relative = relative_sm_rate(datasheet_peak_flop_per_s(e.dtype, device), device, e.sm_flop_per_cycle)
    waves = paid_waves(num_tiles, device.num_sms, e.wave_smoothing)
    shape = kernels.tile_rows, kernels.tile_columns, depth / kernels.split
    work = tile_flop(*shape, e.ramp_depth * relative, e.tile_half * relative)
    measured = tile_flop(*shape, e.ramp_depth, e.tile_half)
    flop_per_sm = 2.0 * volume / device.num_sms
    most = max(0.0, (1.0 + e.throttle) * relative - 1.0)
    slow = 1.0 + most * flop_per_sm / (flop_per_sm + e.throttle_flop)
    fraction = e.compute_fraction
    if FORMATS[e.dtype].is_unpacked:
        # Other instructions of the SM unpack the weights; a slower matrix unit waits a smaller part of its time.
        fraction = 1.0 / (1.0 + (1.0 / fraction - 1.0) * relative)
    # A slower unit takes no less time than the measured one.
    each = np.maximum(work / fraction, relative * measured / e.compute_fraction)
    return np.asarray(waves * each * device.num_sms / peak * slow)


def _memory_s(
    rows: FloatArray,
    columns: FloatArray,
    depth: FloatArray,
    split: FloatArray,
    device: Device,
    e: MatmulEfficiency,
) -> FloatArray:
    form = FORMATS[e.dtype]
    partial_sums = _PARTIAL_SUM_BYTES * split * (split > 1.0)
    traffic = (
        form.weight_bytes * columns * depth
        + form.activation_bytes * rows * depth
        + rows * columns * (_OUTPUT_BYTES + partial_sums)
    )
    return np.asarray(traffic / (device.bandwidth_bytes_per_s * e.memory_fraction))


def paid_waves(num_tiles: FloatArray, num_sms: int, smoothing: float) -> FloatArray:
    """Number of rounds of tiles that the kernel's time pays for [rounds].

    (1 - smoothing) ceil(tiles / SMs) + smoothing max(tiles / SMs, 1)

    Assumes: equal tiles, one at a time per SM; `smoothing` stands for the effects that spread a partial last round
    (several small tiles per SM, splits along K, tiles of unequal size).
    Source: NVIDIA, Matrix Multiplication Background User's Guide, "Wave quantization".
    """
    waves = num_tiles / num_sms
    return np.asarray(smoothing * np.maximum(waves, 1.0) + (1.0 - smoothing) * np.ceil(waves))


def tile_flop(
    tile_rows: FloatArray | float,
    tile_columns: FloatArray | float,
    depth: FloatArray | float,
    ramp_depth: float,
    tile_half: float,
) -> FloatArray:
    """Work of one tile, as the flop that an endless big tile does in the same time [flop].

    2 rows columns (depth + ramp_depth) (1 + tile_half (1 / rows + 1 / columns) / 2)

    Assumes: the last factor is operand feed: bytes per flop grow as the tile shrinks.
    Source: own model; the feed term is the arithmetic intensity of a tile.
    """
    feed = 1.0 + tile_half * (1.0 / tile_rows + 1.0 / tile_columns) / 2.0
    return np.asarray(2.0 * tile_rows * tile_columns * (depth + ramp_depth) * feed)


def overlapped_s(first_s: FloatArray, second_s: FloatArray, norm: float) -> FloatArray:
    """Time of two overlapping activities, (a^p + b^p)^(1/p) [s].

    Assumes: p = 1 is no overlap, p = infinity is perfect overlap.
    Source: own definition.
    """
    longer = np.maximum(first_s, second_s)
    return np.asarray(longer * (1.0 + (np.minimum(first_s, second_s) / longer) ** norm) ** (1.0 / norm))
