"""Answers of `advisor kernel`, from its options."""

import re
from typing import Final

from advisor.ask.options import SharedOptions
from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.commands.kernel.options import KernelInput
from advisor.commands.kernel.view import KernelAnswer, kernel_answer
from advisor.kernels.gemm_tiles import CONFIGS, Config
from advisor.kernels.peers import PEERS, peers_of
from advisor.kernels.work import WORKS, KernelWork
from advisor.probes.kernel_process import KernelTime, local_accelerator, measure_kernel, missing_here
from advisor.render.answer import Answer
from advisor.simulator.device import device_of
from advisor.simulator.kernel_tiles import TileOccupancy, tile_occupancy
from advisor.simulator.roofline import Work
from advisor.simulator.single_operator import (
    OperatorAnalysis,
    OperatorName,
    OperatorQuestion,
    analyse_counts,
    analyse_operator,
    shape_names,
)

_MODELLED: Final[dict[str, OperatorName]] = {
    "gemm": "gemm",
    "attention": "attention",
    "rms_norm": "rmsnorm",
    "layer_norm": "layernorm",
    "softmax": "softmax",
    "gelu": "gelu",
    "swiglu": "swiglu",
    "transpose": "transpose",
}
_CAUSAL: Final = ("attention", "attention_backward", "attention_packed")
"""Kernels of attention over whole sequences, which are causal; queries of decoding see all that is cached."""
_DEFAULT_SHAPE: Final = {"gemm": "8192x8192x8192", "attention": "1x32x16384x128"}
_LARGEST_HEAD: Final = 256
_SIZE_RULES: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("attention_backward", "size"): (8, _LARGEST_HEAD),
    ("attention_packed", "size"): (8, _LARGEST_HEAD),
    ("rms_norm_backward", "columns"): (1, 16384),
    ("layer_norm_backward", "columns"): (1, 16384),
    ("rope", "size"): (2, 4096),
    ("w4a16", "columns"): (16, 2**32),
    ("w4a16", "depth"): (128, 2**20),
    ("fp8_block_gemm", "depth"): (16, 2**32),
    ("grouped_gemm", "depth"): (8, 2**32),
    ("grouped_gemm_fp8", "depth"): (16, 2**32),
    ("mxfp4", "columns"): (32, 2**32),
    ("nvfp4", "columns"): (16, 2**32),
    ("ssd", "channels"): (8, 2**32),
    ("ssd", "states"): (8, 256),
    ("gated_delta", "keys"): (8, 256),
    ("gated_delta", "values"): (8, 256),
}
"""Multiple that a dimension of a kernel must be of, and its largest size: what the kernel's `run` refuses."""
_DEFAULT_ROWS: Final = "32768x8192"
_DEFAULT_GPU: Final = "h100-sxm"
_MOST_ELEMENTS: Final = 2**32
"""Elements of the largest array [count]: 8 GiB in 16 bits."""


def kernel(asked: KernelInput, shared: SharedOptions) -> Answer:
    """Return one operator's model, with its measurement where this machine can measure it.

    Raises: AdvisorError: the shape, the format or a peer is not one of the operator's. UnknownNameError: no
        accelerator is called so. InfeasibleError: the accelerator cannot be simulated.
    """
    del shared
    shape = _shape(asked)
    peers = _peers(asked)
    _check_format(asked)
    missing = missing_here()
    here = "" if missing else local_accelerator()
    found = accelerators.get(asked.gpu or here or _DEFAULT_GPU)
    notes = [found.note] if found.note else []
    if asked.gpu is None and not here:
        notes.append(f"no GPU is known here: modelled for {_DEFAULT_GPU}; --gpu names another")
    dtype = asked.dtype or found.record.sixteen_bit_dtype
    _check_units(asked, dtype, found.record)
    is_measured = not missing and (asked.gpu is None or found.record.id == here)
    if not missing and not is_measured:
        notes.append(
            f"this machine has {here or 'another GPU'}, so {found.record.id} is modelled, not measured"
        )
    analysis = analyse_kernel(asked.name, shape, dtype, found.record)
    times: list[KernelTime] = []
    if is_measured:
        times = measure_kernel(asked.name, shape, dtype, peers, with_sweep=asked.sweep is not None)
    content = KernelAnswer(
        name=asked.name,
        dtype=_format_of(asked.name, dtype),
        accelerator=found.record,
        analysis=analysis,
        is_causal=asked.name in _CAUSAL,
        times=tuple(times),
        tiles=_tiles(asked, dtype, shape, found.record),
        needs=missing,
    )
    inputs: dict[str, object] = {
        "name": asked.name,
        "shape": list(shape),
        "dtype": dtype,
        "gpu": found.record.id,
        "against": list(peers),
        "sweep": asked.sweep,
    }
    return kernel_answer(content, inputs, tuple(notes))


def _shape(asked: KernelInput) -> tuple[int, ...]:
    """Return the typed shape, or a usual one.

    Raises: AdvisorError: it has the wrong number of sizes, or one that no kernel takes.
    """
    counted = WORKS.get(asked.name)
    example = _DEFAULT_SHAPE.get(asked.name, _DEFAULT_ROWS)
    if counted is not None:
        example = "x".join(map(str, counted.example))
    text = asked.shape or example
    names = counted.dimensions if counted is not None else shape_names(_MODELLED[asked.name])
    parts = [part.strip() for part in re.split(r"[x×,]", text.lower())]
    sizes = tuple(int(part) for part in parts if re.fullmatch(r"\d{1,12}", part))
    if len(sizes) != len(parts) or len(sizes) != len(names) or min(sizes) < 1:
        raise AdvisorError(
            f"--shape {text} is no shape of {asked.name}",
            why=f"{asked.name} has {' x '.join(names)}, each a whole number from 1",
            fix=f"e.g. --shape {example}",
        )
    largest = max(a * b for a in sizes for b in sizes)
    if counted is not None:
        largest = counted.largest(sizes)
        _check_sizes(asked.name, counted, sizes, example)
    if asked.name == "attention":
        largest = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    if largest > _MOST_ELEMENTS:
        raise AdvisorError(
            f"--shape {text} is too large",
            why=f"an array would have {largest:,} elements, the limit is {_MOST_ELEMENTS:,}",
            fix=f"e.g. --shape {example}",
        )
    if asked.name == "attention" and (sizes[3] % 8 or sizes[3] > _LARGEST_HEAD):
        raise AdvisorError(
            f"--shape {text}: a head size of {sizes[3]}",
            why="the kernel takes multiples of 8 up to 256",
            fix=f"e.g. --shape {example}",
        )
    return sizes


def _check_sizes(name: str, work: KernelWork, sizes: tuple[int, ...], example: str) -> None:
    """Refuse sizes that the kernel refuses, before a process is started for them.

    Raises: AdvisorError: a size is not a multiple of what the kernel takes, or it is too large.
    """
    for dimension, size in zip(work.dimensions, sizes, strict=True):
        multiple, most = _SIZE_RULES.get((name, dimension), (1, _MOST_ELEMENTS))
        if size % multiple or size > most:
            limit = "" if most == _MOST_ELEMENTS else f" up to {most:,}"
            raise AdvisorError(
                f"--shape {'x'.join(map(str, sizes))}: {size:,} {dimension}",
                why=f"the kernel takes multiples of {multiple}{limit}",
                fix=f"e.g. --shape {example}",
            )


def _peers(asked: KernelInput) -> tuple[str, ...]:
    names = tuple(part.strip() for part in asked.against.split(",") if part.strip())
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise AdvisorError(
            f"--against {asked.against}: no peer is called {unknown[0] if unknown else 'so'}",
            why="a peer runs in the same process, so that both take turns on one GPU",
            fix=f"--against {','.join(PEERS)}",
        )
    known = peers_of(asked.name)
    absent = [name for name in names if name not in known]
    if absent:
        raise AdvisorError(
            f"--against {absent[0]} does not act for {asked.name}",
            why=f"{absent[0]} computes {', '.join(sorted(PEERS[absent[0]].kernels))}",
            fix=f"--against {','.join(known)}",
        )
    return names


def _format_of(name: str, dtype: str) -> str:
    """Format in which the kernel multiplies: that of the option, or the only one that the kernel has."""
    counted = WORKS.get(name)
    return counted.unit if counted is not None and counted.unit in ("fp8", "int8") else dtype


_MULTIPLIES: Final = ("gemm", "attention")
"""Modelled operators that the matrix unit computes; of counted ones their record says so."""


def _check_units(asked: KernelInput, dtype: str, record: Accelerator) -> None:
    """Refuse a product in a format that the accelerator has no units for.

    Raises: AdvisorError: the accelerator does not multiply the format.
    """
    counted = WORKS.get(asked.name)
    multiplies = asked.name in _MULTIPLIES if counted is None else counted.unit != "vector"
    wanted = _format_of(asked.name, dtype)
    peaks = record.peak_flop_per_s
    if not multiplies or peaks.get(wanted) or (wanted == "fp16" and peaks.get("bf16")):
        return
    own = record.sixteen_bit_dtype
    if asked.dtype == wanted:
        fix = f"--dtype {own}, which it multiplies"
    else:
        able = ", ".join(
            sorted(each.id for each in accelerators.all_accelerators() if each.peak_flop_per_s.get(wanted))[
                :3
            ]
        )
        fix = f"--gpu of one that has them, e.g. {able}"
    raise AdvisorError(
        f"{record.id} has no {wanted} units",
        why=f"{asked.name} multiplies {wanted}; an accelerator without such units first converts its operands to {own}",
        fix=fix,
    )


def _check_format(asked: KernelInput) -> None:
    if asked.dtype == "fp8" and asked.name != "gemm":
        raise AdvisorError(
            f"--dtype fp8 does not act for {asked.name}",
            why="gemm alone has kernels of several formats; others take 16 bits, or have their format in their name",
            fix="--dtype bf16",
        )
    if asked.sweep is not None and asked.name != "gemm":
        raise AdvisorError(
            f"--sweep tiles does not act for {asked.name}",
            why="gemm alone has tile shapes to choose from",
            fix="leave out --sweep",
        )


def analyse_kernel(name: str, shape: tuple[int, ...], dtype: str, record: Accelerator) -> OperatorAnalysis:
    """Return work and floor of a kernel at a shape, with a prediction where the simulator has fitted its operator.

    Raises: AdvisorError: the shape or the format is not one of the operator's. InfeasibleError: the accelerator cannot
        be simulated.
    """
    counted = WORKS.get(name)
    if counted is None:
        question = OperatorQuestion(_MODELLED[name], shape, dtype)
        return analyse_operator(question, device_of(record), record.peak_flop_per_s.get("fp32"))
    peaks = record.peak_flop_per_s
    matrix = peaks.get("bf16", peaks.get("fp16", 0.0))
    peak = {
        "16 bits": matrix,
        "fp8": peaks.get("fp8", matrix),
        "int8": peaks.get("int8", matrix),
        "vector": peaks.get("fp32", matrix),
    }[counted.unit]
    work = Work(float(counted.flop(shape)), float(counted.num_bytes(shape)))
    sizes = dict(zip(counted.dimensions, shape, strict=True))
    return analyse_counts(name, sizes, dtype, work, peak, device_of(record).bandwidth_bytes_per_s)


def _tiles(
    asked: KernelInput, dtype: str, shape: tuple[int, ...], record: Accelerator
) -> tuple[TileOccupancy, ...]:
    """Return waves and occupancy of the kernel's tile shapes: all with a sweep, else the first one's."""
    if asked.name != "gemm":
        return ()
    width = 1 if dtype == "fp8" else 2
    whole: list[Config] = [config for config in CONFIGS[width] if config.pieces == 1]
    chosen = whole if asked.sweep is not None else whole[:1]
    return tuple(
        tile_occupancy(
            record,
            num_tiles=config.num_tiles(shape[0], shape[1]),
            tile=(config.block_m, config.block_n),
            num_threads=config.num_threads,
            shared_bytes=config.shared_bytes(width),
            rate=config.rate,
        )
        for config in chosen
    )
