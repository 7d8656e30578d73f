"""One rank of the collective measurement: sweeps over operations and sizes, launched one by one and in a graph.

Bus bandwidth follows nccl-tests: the fraction of the message that every rank must send, over the time. It is
comparable between numbers of ranks; with reduction in the switch it may exceed the link.
"""

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import torch
import torch.distributed as dist

from advisor.catalog.units import GIB, KIB, MIB, MICROSECOND_S
from advisor.kernels.timing import Call, Timing, summarize, time_once
from advisor.probes.bench import rate_measurement, time_measurement
from advisor.probes.events import claim_stdout, emit
from advisor.probes.process import take_turn
from advisor.probes.record import Measurement

OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_QUICK_SIZES: Final = (8 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 128 * MIB, 1 * GIB)
_FULL_SIZES: Final = tuple(int(4 * KIB) << shift for shift in range(0, 19, 2))
_GRAPH_LIMIT: Final = 4 * MIB
_GRAPH_CALLS: Final = 20
_NUM_SAMPLES: Final = {True: 8, False: 15}


def bus_factor(operation: str, num_ranks: int) -> float:
    """Bytes that each rank must send per byte of the message [ratio]: 2 (n − 1) / n for an all-reduce, else (n − 1) /
    n."""
    share = (num_ranks - 1) / num_ranks
    return 2 * share if operation == "all_reduce" else share


def make_call(operation: str, num_bytes: int, num_ranks: int, device: torch.device) -> Call:
    """Return a call of the operation on a message of this size in bf16, counted whole as nccl-tests do."""
    numel = max(num_ranks, num_bytes // 2 // num_ranks * num_ranks)
    whole = torch.randn(numel, device=device, dtype=torch.bfloat16)
    part = torch.empty(numel // num_ranks, device=device, dtype=torch.bfloat16)
    if operation == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if operation == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    received = torch.empty_like(whole)
    return lambda: dist.all_to_all_single(received, whole)


def time_group(call: Call, num_calls: int, num_samples: int, device: torch.device) -> Timing:
    """Time of one call on the slowest rank [s]."""

    def many() -> None:
        for _ in range(num_calls):
            call()

    call()
    torch.cuda.synchronize(device)
    samples = []
    for _ in range(num_samples):
        dist.barrier(device_ids=[device.index])
        samples.append(time_once(many, device) / num_calls)
    slowest = torch.tensor(samples, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return summarize(slowest.tolist())


def verify(device: torch.device, rank: int, num_ranks: int) -> dict[str, bool]:
    """Whether each operation gives this rank the right data, with numbers that only the right ones match.

    All numbers are whole and below 2^24, so fp32 adds them without rounding.
    """
    base = torch.arange(1 << 20, device=device, dtype=torch.float32) % 251
    added = num_ranks * (num_ranks - 1) / 2
    every_rank = torch.arange(num_ranks, device=device, dtype=torch.float32)[:, None]
    whole = (base + every_rank).flatten()
    reduced = base + rank
    gathered = torch.empty_like(whole)
    part = torch.empty_like(base)
    exchanged = torch.empty_like(whole)
    dist.all_reduce(reduced)
    dist.all_gather_into_tensor(gathered, base + rank)
    dist.reduce_scatter_tensor(part, whole + rank)
    # Rank r sends block j as base + num_ranks * r + j, so block i arrives here as base + num_ranks * i + rank.
    dist.all_to_all_single(exchanged, whole + num_ranks * rank)
    return {
        "all_reduce": torch.equal(reduced, num_ranks * base + added),
        "all_gather": torch.equal(gathered, whole),
        "reduce_scatter": torch.equal(part, num_ranks * (base + rank) + added),
        "all_to_all": torch.equal(exchanged, (base + num_ranks * every_rank + rank).flatten()),
    }


def _capture(call: Call, device: torch.device) -> Call:
    call()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_GRAPH_CALLS):
            call()
    replay: Call = graph.replay
    return replay


def describe(num_bytes: float) -> str:
    """Return a size in words, e.g. 64 KiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:g} {name}"
    return f"{num_bytes:g} B"


def measure(
    operation: str, num_bytes: int, num_ranks: int, algorithm: str, quick: bool, device: torch.device
) -> list[Measurement]:
    """Measure one operation at one size: bus bandwidth, and the time if latency dominates."""
    call = make_call(operation, num_bytes, num_ranks, device)
    num_calls = max(1, min(20, int(64 * MIB // num_bytes)))
    is_largest = num_bytes == int(GIB)
    suffix = "" if is_largest else ".sweep"
    pattern = f"{num_ranks} ranks, {algorithm}, {describe(num_bytes)}"
    timings = {"": time_group(call, num_calls, _NUM_SAMPLES[quick], device)}
    if num_bytes <= _GRAPH_LIMIT:
        replay = _capture(call, device)
        timings[", graph"] = time_group(replay, 1, _NUM_SAMPLES[quick], device).per_call(_GRAPH_CALLS)
    moved = bus_factor(operation, num_ranks) * num_bytes
    found = []
    for how, timing in timings.items():
        rate = rate_measurement(
            f"collective.{operation}{suffix}", "nccl", pattern + how, timing, moved, "bytes/s"
        )
        note = f"{timing.median_s / MICROSECOND_S:.1f} us per call"
        found.append(rate.model_copy(update={"note": note}))
        if num_bytes <= 8 * KIB:
            found.append(time_measurement(f"collective.{operation}.latency", "nccl", pattern + how, timing))
    return found


def main() -> int:
    """Run as one rank; rank 0 prints measurements as lines of JSON."""
    parser = argparse.ArgumentParser(prog="advisor.probes.collective_worker")
    parser.add_argument("--algorithm", default="ring")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--timeout-s", type=float, default=60.0)
    parser.add_argument("--turn", type=Path, default=None)
    options = parser.parse_args()
    events = claim_stdout()
    with take_turn(options.turn):
        pass  # the GPUs have no other work
    rank = int(os.environ["RANK"])
    num_ranks = int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=options.timeout_s), device_id=device)
    right = verify(device, rank, num_ranks)
    everywhere = torch.tensor([float(right[name]) for name in OPERATIONS], device=device)
    dist.all_reduce(everywhere, op=dist.ReduceOp.MIN)
    wrong = [name for name, value in zip(OPERATIONS, everywhere.tolist(), strict=True) if not value]
    _print(events, rank, judge_data(num_ranks, wrong))
    for operation in OPERATIONS:
        for num_bytes in _QUICK_SIZES if options.quick else _FULL_SIZES:
            found = measure(operation, int(num_bytes), num_ranks, options.algorithm, options.quick, device)
            _print(events, rank, found)
    dist.destroy_process_group()
    return 0


def judge_data(num_ranks: int, wrong: Sequence[str]) -> list[Measurement]:
    """Return the checks whether sums and exchanged data are right; `wrong` names the operations that are not."""
    how: dict[str, Any] = {"instrument": "nccl", "pattern": f"{num_ranks} ranks, 4 MiB fp32"}
    is_right = "all_reduce" not in wrong
    words = "right" if is_right else "wrong"
    others = [name for name in wrong if name != "all_reduce"]
    note = f"{', '.join(others)} delivered other numbers" if others else ""
    return [
        Measurement.ruled("collective.sum_is_right", words, "right", is_right, **how),
        Measurement.ruled(
            "collective.data_is_right", "wrong" if others else "right", "right", not others, note=note, **how
        ),
    ]


def _print(events: TextIO, rank: int, measurements: list[Measurement]) -> None:
    for m in measurements if rank == 0 else []:
        emit(events, m.model_dump(mode="json", exclude_defaults=True))


if __name__ == "__main__":
    sys.exit(main())
