"""Device memory: whether all of it holds data, its speed by access pattern, and size and speed of the caches."""

import time
from functools import partial
from typing import Final

import torch

from advisor.catalog.units import GIB, KIB, MIB
from advisor.kernels.timing import ColdCache, time_calls
from advisor.probes.bench import Bench
from advisor.probes.record import Measurement, Status
from advisor.probes.telemetry import Sampler

TOUCH_FRACTION: Final = 0.95
_SLICE: Final = 16 * 1024 * 1024
"""Number of words that are written and compared at a time: 64 MiB."""
_RESERVE_BYTES: Final = 768 * MIB
_RESERVE_FRACTION: Final = 0.02
"""Memory left free for the driver: the smaller of 768 MiB and 2 % of the total."""
_CLEARING_S: Final = 1.5
_MULTIPLIER: Final = -1640531535
"""Multiplier 2³² ÷ golden ratio as a signed number (Knuth), which gives neighbouring addresses different patterns."""
LARGEST_BUFFER_BYTES: Final = 4 * GIB
_CACHE_SIZES_MIB: Final = (4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 256)
_LATENCY_SIZES: Final = (16 * KIB, 128 * KIB, 1 * MIB, 8 * MIB, 32 * MIB, 256 * MIB, 4 * GIB)
_NUM_HOPS: Final = 4096
_CACHED_BYTES: Final = 100 * MIB
"""Array size below which repeated walks stay in a cache [bytes]; above, the caches are cleared before each walk."""
_STRIDES: Final = (1, 2, 4, 8, 16, 32)


def touch(bench: Bench) -> list[Measurement]:
    """Fill nearly all memory with a pattern that depends on the address and read all of it back, then with the
    pattern's complement, so that every bit holds both values.
    """
    if bench.device.type != "cuda":
        return [bench.skip("memory.touch", "memory is shared with the CPU: not filled")]
    total = float(torch.cuda.get_device_properties(bench.device).total_memory)
    expected = torch.empty(_SLICE, dtype=torch.int32, device=bench.device)
    differs = torch.empty(_SLICE, dtype=torch.bool, device=bench.device)
    _count_wrong(
        expected.clone(), expected, differs, 0, True
    )  # loads every kernel while there is room for it
    torch.cuda.empty_cache()
    chunks = _allocate(bench, min(_RESERVE_BYTES, _RESERVE_FRACTION * total))
    with Sampler(bench.gpu) as sampler:
        wrong = 0
        for is_complement in (False, True):
            for number, chunk in enumerate(chunks):
                for first in range(0, chunk.numel(), _SLICE):
                    part = chunk[first : first + _SLICE]
                    _write_pattern(part, first, bench.seed + number, is_complement)
            wrong += sum(
                _count_wrong(chunk, expected, differs, bench.seed + number, is_complement)
                for number, chunk in enumerate(chunks)
            )
    fraction = (sum(chunk.numel() for chunk in chunks) + _SLICE) * 4.0 / total
    del chunks, expected, differs
    torch.cuda.empty_cache()
    # The driver clears freed memory in the background, which slows the next measurement (12 % on an H200).
    time.sleep(_CLEARING_S)
    status: Status = "fail" if wrong else "pass" if fraction >= TOUCH_FRACTION else "warn"
    return [
        Measurement(
            id="memory.touch",
            gpu=bench.gpu,
            instrument="torch",
            pattern="a pattern and its complement, written and read back",
            value=fraction,
            unit="fraction of the memory",
            expected=1.0,
            required=TOUCH_FRACTION,
            operator=">=",
            source="rule",
            status=status,
            note=f"{wrong} words came back wrong" if wrong else "",
            conditions=sampler.conditions(),
        )
    ]


def _allocate(bench: Bench, reserve_bytes: float) -> list[torch.Tensor]:
    """Allocate all the memory but a reserve, in chunks of 1 GiB and then smaller ones, because
    launches need some room.
    """
    chunks: list[torch.Tensor] = []
    num_elements = int(GIB) // 4
    while num_elements >= _SLICE:
        if bench.free_bytes() < reserve_bytes + 4 * num_elements:
            num_elements //= 2
            continue
        try:
            chunks.append(torch.empty(num_elements, dtype=torch.int32, device=bench.device))
        except torch.OutOfMemoryError:
            num_elements //= 2
    return chunks


def _write_pattern(part: torch.Tensor, first: int, seed: int, is_complement: bool) -> None:
    torch.arange(first, first + part.numel(), dtype=torch.int32, device=part.device, out=part)
    part.mul_(_MULTIPLIER).add_(seed)
    if is_complement:
        part.bitwise_not_()


def _count_wrong(
    chunk: torch.Tensor, expected: torch.Tensor, differs: torch.Tensor, seed: int, is_complement: bool
) -> int:
    wrong = 0
    for first in range(0, chunk.numel(), _SLICE):
        part = chunk[first : first + _SLICE]
        _write_pattern(expected[: part.numel()], first, seed, is_complement)
        torch.ne(part, expected[: part.numel()], out=differs[: part.numel()])
        wrong += int(torch.count_nonzero(differs[: part.numel()]))
    return wrong


def _buffer_elements(bench: Bench) -> int:
    """Elements of each of three fp32 arrays [count]: 4 GiB if there is room, else an eighth of the free memory."""
    num_bytes = min(LARGEST_BUFFER_BYTES, bench.free_bytes() / 8)
    return int(num_bytes // 4 // 4096 * 4096)


def bandwidth(bench: Bench) -> list[Measurement]:
    """Measure read, copy and triad over arrays that exceed every cache, with two instruments."""
    numel = _buffer_elements(bench)
    num_samples = 20 if bench.quick else 50
    generator = torch.Generator(device=bench.device).manual_seed(bench.seed)
    x = torch.randn(numel, generator=generator, device=bench.device)
    y = torch.randn(numel, generator=generator, device=bench.device)
    out = torch.empty_like(x)
    total = torch.empty((), device=bench.device)
    size = f"{numel * 4 / GIB:.3g} GiB fp32"
    calls = {
        "read": (lambda: torch.sum(x, dim=0, out=total), 1),
        "copy": (lambda: out.copy_(x), 2),
        "triad": (lambda: torch.add(x, y, alpha=0.5, out=out), 3),
    }
    found = [
        bench.time_rate(
            f"memory.{name}", "torch", size, call, arrays * 4.0 * numel, "bytes/s", num_samples=num_samples
        )
        for name, (call, arrays) in calls.items()
    ]
    if bench.device.type == "cuda":
        found += _triton_bandwidth(bench, x, y, out, size, num_samples)
    return found


def _triton_bandwidth(
    bench: Bench, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, size: str, num_samples: int
) -> list[Measurement]:
    from advisor.kernels import copy

    sums = torch.empty(x.numel() // 1024 + 1, device=bench.device)
    patterns: tuple[copy.Pattern, ...] = ("read", "copy", "triad")
    return [
        bench.time_rate(
            f"memory.{pattern}",
            "triton",
            size,
            partial(copy.run, pattern, x, y, sums if pattern == "read" else out),
            float(copy.bytes(pattern, x.numel(), 4)),
            "bytes/s",
            num_samples=num_samples,
        )
        for pattern in patterns
    ]


def cache_curve(bench: Bench) -> list[Measurement]:
    """Measure read bandwidth by array size: the plateau is the L2's bandwidth, the cliff its size."""
    from advisor.kernels import copy

    found = []
    for size_mib in _CACHE_SIZES_MIB:
        numel = int(size_mib * MIB // 4)
        x = torch.randn(numel, device=bench.device)
        passes = max(4, int(2 * GIB // (4 * numel)))
        timing = time_calls(partial(copy.run_repeated_read, x, passes), bench.device, num_samples=5)
        amount = 4.0 * numel * passes
        found.append(
            bench.rate("memory.cache_read", "triton", f"{size_mib} MiB repeatedly", timing, amount, "bytes/s")
        )
    return found


def latency(bench: Bench) -> list[Measurement]:
    """Measure the time of one dependent load by array size: caches first, then device memory."""
    from advisor.kernels import pointer_chase

    cold = ColdCache(bench.device)
    found = []
    for num_bytes in _LATENCY_SIZES:
        (chain,) = pointer_chase.make_inputs(int(num_bytes), bench.seed, bench.device)
        call = partial(pointer_chase.run, chain, _NUM_HOPS)
        flush = cold if num_bytes > _CACHED_BYTES else None
        timing = time_calls(call, bench.device, num_warmup=2, num_samples=5, flush=flush)
        pattern = f"pointer chase over {num_bytes / MIB:g} MiB"
        found.append(bench.duration("memory.latency", "triton", pattern, timing.per_call(_NUM_HOPS)))
    return found


def stride_curve(bench: Bench) -> list[Measurement]:
    """Measure the useful bandwidth of reading every n-th fp32 element: a healthy curve falls as 1/n down to one sector
    each."""
    from advisor.kernels import gather

    numel = _buffer_elements(bench)
    x = torch.randn(numel, device=bench.device)
    sums = torch.empty(numel // 2048 + 1, device=bench.device)
    return [
        bench.time_rate(
            "memory.strided_read",
            "triton",
            f"stride {stride}, useful bytes",
            partial(gather.run_strided, x, stride, sums),
            4.0 * (numel // stride),
            "bytes/s",
            num_samples=5,
        )
        for stride in _STRIDES
    ]
