"""Time NCCL collectives from captured CUDA graphs, as engines run them, for groups of several sizes.

    torchrun --standalone --nproc-per-node 8 benchmarks/measure_collectives.py --out collectives.csv

Each row is the slowest rank's time of one operation in a replayed graph of repeated operations; message sizes follow
the nccl-tests convention. Needs torch with CUDA; nothing of the advisor.
"""

import argparse
import csv
import os
from collections.abc import Callable

import torch
import torch.distributed as dist

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
FIELDS = ("operation", "num_ranks", "num_bytes", "time_s", "nccl", "device")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="collectives.csv")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 6, 8])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**i for i in range(12, 31, 2)])
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    arguments = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    rows = []
    for num_ranks in (n for n in arguments.ranks if n <= dist.get_world_size()):
        group = dist.new_group(list(range(num_ranks)))
        if dist.get_rank() < num_ranks:
            rows += measure_group(group, num_ranks, arguments.sizes, arguments.operations)
        dist.barrier()
    if dist.get_rank() == 0:
        with open(arguments.out, "w", newline="", encoding="utf-8") as file:  # noqa: PTH123
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    dist.destroy_process_group()


def measure_group(
    group: dist.ProcessGroup, num_ranks: int, sizes: list[int], operations: list[str]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for operation in operations:
        if operation == "send_recv" and num_ranks > 2:
            continue
        for size in sizes:
            time_s = slowest_s(work(operation, size, num_ranks, group), size, group)
            rows.append(
                {
                    "operation": operation,
                    "num_ranks": num_ranks,
                    "num_bytes": size,
                    "time_s": f"{time_s:.4g}",
                    "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                    "device": torch.cuda.get_device_name(),
                }
            )
    return rows


def work(operation: str, num_bytes: int, num_ranks: int, group: dist.ProcessGroup) -> Callable[[], None]:
    """One operation on random bf16 buffers of this size."""
    count = num_bytes // 2 // num_ranks * num_ranks
    whole = torch.randn(count, device="cuda", dtype=torch.bfloat16)
    other = torch.empty_like(whole)
    share = torch.randn(count // num_ranks, device="cuda", dtype=torch.bfloat16)
    first = dist.get_rank(group) == 0

    def send_or_receive() -> None:
        pair = dist.P2POp(dist.isend, whole, 1, group) if first else dist.P2POp(dist.irecv, whole, 0, group)
        for request in dist.batch_isend_irecv([pair]):
            request.wait()

    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, share, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(share, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "send_recv": send_or_receive,
    }
    call = calls[operation]
    return lambda: call() and None


def slowest_s(call: Callable[[], None], num_bytes: int, group: dist.ProcessGroup) -> float:
    """Median over replays of the time of one call [s], the largest over ranks."""
    repeats, replays = (20, 7) if num_bytes < 2**24 else (5, 5)
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    times = []
    for _ in range(replays + 2):
        dist.barrier(group)
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / repeats)
    median = torch.tensor(sorted(times[2:])[replays // 2], device="cuda", dtype=torch.float64)
    dist.all_reduce(median, op=dist.ReduceOp.MAX, group=group)
    return float(median)


if __name__ == "__main__":
    main()
