"""Time decode steps of a dense model divided over several GPUs, with their all-reduces, without, and the sums alone.

    torchrun --standalone --nproc-per-node 4 tools/parallel_step.py --out parallel.json

What the sums cost inside a step against sums back to back: ranks that do not arrive together, kernels that find other
kernels' traces in caches and clocks. Everything replays from captured graphs; times are those of the slowest rank.
NCCL's ring and the two kernels over peers' memory that engines use are timed one after the other.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from llama_step import Llama, Shape

Point = dict[str, object]
Sum = Callable[[torch.Tensor], torch.Tensor]
SHAPES = {
    "8b": Shape(layers=32, vocab=32_000),
    "70b": Shape(layers=16, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32_000),
}
BATCHES = (1, 4, 16, 64, 256)
CONTEXT = 1024
REPLAYS = 15
SUMS = 64
"""All-reduces of the graph that holds nothing else."""


class ParallelLlama(Llama):
    """One rank's part of a model: heads and intermediate columns divided, two sums per layer."""

    def __init__(self, shape: Shape, num_ranks: int) -> None:
        divided = Shape(
            shape.layers,
            shape.hidden,
            shape.heads // num_ranks,
            max(1, shape.kv_heads // num_ranks),
            shape.head_dim,
            shape.ffn // num_ranks,
            shape.vocab,
        )
        super().__init__(torch.device("cuda", torch.cuda.current_device()), divided)
        self.buffer: torch.Tensor | None = None
        self.sum: Sum | None = None

    def partial_product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if self.buffer is None or self.sum is None:
            return x @ weight.T
        return self.sum(torch.mm(x, weight.T, out=self.buffer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    points = [point for name in options.shapes for point in measure_shape(name, dist.group.WORLD)]
    if dist.get_rank() == 0:
        options.out.write_text(json.dumps(points), encoding="utf-8")
    dist.destroy_process_group()


def measure_shape(name: str, group: dist.ProcessGroup) -> Iterator[Point]:
    """Points of one shape: the step without sums, and for each way to sum the step with them and the sums alone."""
    shape = SHAPES[name]
    num_ranks = dist.get_world_size()
    model = ParallelLlama(shape, num_ranks)
    for batch in BATCHES:
        model.prepare_decode(batch, CONTEXT)
        model.buffer = model.sum = None
        at = {
            "shape": name,
            "layers": shape.layers,
            "hidden": shape.hidden,
            "ranks": num_ranks,
            "batch": batch,
        }
        yield {"operator": "parallel_step", "instrument": "none", **at, **slowest(model.decode, 1, group)}
        for instrument, (buffer, sum_) in ways_to_sum(batch, shape.hidden, group).items():
            model.buffer = buffer
            model.sum = sum_
            yield {
                "operator": "parallel_step",
                "instrument": instrument,
                **at,
                **slowest(model.decode, 1, group),
            }

            def sums(buffer: torch.Tensor = buffer, sum_: Sum = sum_) -> None:
                for _ in range(SUMS):
                    sum_(buffer)

            yield {"operator": "all_reduce", "instrument": instrument, **at, **slowest(sums, SUMS, group)}


def ways_to_sum(batch: int, hidden: int, group: dist.ProcessGroup) -> dict[str, tuple[torch.Tensor, Sum]]:
    """Buffers and what sums them: NCCL, and one-shot and two-shot kernels over symmetric memory."""
    plain = torch.zeros((batch, hidden), device="cuda", dtype=torch.bfloat16)

    def by_nccl(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x, group=group)
        return x

    ways: dict[str, tuple[torch.Tensor, Sum]] = {"nccl": (plain, by_nccl)}
    from torch.distributed import _symmetric_memory as symmetric

    shared = symmetric.empty((batch, hidden), device=plain.device, dtype=torch.bfloat16)
    symmetric.rendezvous(shared, group)
    shared.zero_()
    name = group.group_name
    operators = torch.ops.symm_mem
    ways["one_shot"] = (shared, lambda x: operators.one_shot_all_reduce(x, "sum", name))
    ways["two_shot"] = (shared, lambda x: operators.two_shot_all_reduce_(x, "sum", name))
    return ways


def slowest(call: Callable[[], object], calls: int, group: dist.ProcessGroup) -> Point:
    """Median over replays of the time of a call, the largest over ranks, and the spread over ranks [s]."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(REPLAYS + 3):
        dist.barrier(group)
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        graph.replay()  # a pass that nobody times lets the ranks meet
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / calls)
    kept = sorted(times[3:])
    largest = torch.tensor(kept[len(kept) // 2], device="cuda", dtype=torch.float64)
    least = largest.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    dist.all_reduce(least, op=dist.ReduceOp.MIN, group=group)
    return {
        "median_s": float(f"{float(largest):.5g}"),
        "fastest_rank_s": float(f"{float(least):.5g}"),
        "num_samples": REPLAYS,
    }


if __name__ == "__main__":
    main()
