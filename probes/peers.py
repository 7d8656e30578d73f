"""Copies from every GPU to every other: pairs with a fast path, and pairs that go through the host."""

from collections.abc import Sequence
from typing import Any, Final

import torch

from advisor.catalog.units import MIB
from advisor.kernels.timing import Call, summarize, time_once
from advisor.probes.bench import rate_measurement
from advisor.probes.host_link import digest
from advisor.probes.record import Measurement

_BYTES: Final = int(256 * MIB)
_NUM_SAMPLES: Final = 20
"""Number of samples of 0.7 ms each over NVLink; with five, one pair of twelve in a healthy machine
appeared 3 % slow.
"""


def peer(num_gpus: int, quick: bool) -> list[Measurement]:
    """Measure one-way copies of all pairs and whether they arrive as sent; in full mode also both ways at once, and
    every GPU to the next at once.
    """
    buffers = [_random_words(gpu) for gpu in range(num_gpus)]
    sent = [digest(buffer) for buffer in buffers]
    altered: list[str] = []
    found: list[Measurement] = []
    for source in range(num_gpus):
        for target in range(num_gpus):
            if source != target:
                out = torch.empty_like(buffers[target])
                found.append(_one_way(buffers, source, target, out))
                torch.cuda.synchronize(target)
                altered += [f"{source} to {target}"] if digest(out) != sent[source] else []
    found.append(judge_copies(altered, num_gpus))
    if not quick:
        found += [_both_ways(buffers, 0, target) for target in range(1, num_gpus)]
        found.append(_all_at_once(buffers))
    return found


def _random_words(gpu: int) -> torch.Tensor:
    """Return random words on a GPU, other words on every GPU."""
    device = torch.device("cuda", gpu)
    generator = torch.Generator(device=device).manual_seed(gpu)
    words = torch.empty(_BYTES // 8, dtype=torch.int64, device=device)
    return words.random_(generator=generator).view(torch.uint8)


def judge_copies(altered: Sequence[str], num_gpus: int) -> Measurement:
    """Return the check whether all copies between GPUs arrived as they were sent; `altered` names the pairs."""
    how = {"instrument": "torch", "pattern": f"{num_gpus} GPUs, random words, all pairs"}
    how["note"] = f"words changed on the way {', '.join(altered)}" if altered else ""
    words = "altered" if altered else "intact"
    return Measurement.ruled("peer.intact", words, "intact", not altered, **how)


def _rate(check: str, pattern: str, call: Call, device: torch.device, num_bytes: float) -> Measurement:
    timing = summarize([time_once(call, device) for _ in range(_NUM_SAMPLES + 1)][1:])
    return rate_measurement(check, "torch", pattern, timing, num_bytes, "bytes/s")


def _one_way(buffers: list[torch.Tensor], source: int, target: int, out: torch.Tensor) -> Measurement:
    has_access = torch.cuda.can_device_access_peer(source, target)
    path = "peer access" if has_access else "through the host"
    pattern = f"2 GPUs, {source} to {target} of {len(buffers)}, {path}"
    call = lambda: out.copy_(buffers[source], non_blocking=True)  # noqa: E731
    return _rate("peer.copy", pattern, call, buffers[source].device, float(_BYTES))


def _both_ways(buffers: list[torch.Tensor], first: int, second: int) -> Measurement:
    to_second = torch.empty_like(buffers[second])
    to_first = torch.empty_like(buffers[first])
    new_event: Any = torch.cuda.Event

    def call() -> None:
        begun = new_event()
        done = new_event()
        begun.record()
        to_second.copy_(buffers[first], non_blocking=True)
        with torch.cuda.device(second):
            torch.cuda.current_stream().wait_event(begun)
            to_first.copy_(buffers[second], non_blocking=True)
            done.record()
        torch.cuda.current_stream().wait_event(done)

    pattern = f"2 GPUs, {first} and {second} of {len(buffers)}, both ways, bytes of both"
    return _rate("peer.both", pattern, call, buffers[first].device, 2.0 * _BYTES)


def _all_at_once(buffers: list[torch.Tensor]) -> Measurement:
    """Measure copies of every GPU to the next one, all at once: links that share a switch or a host bridge show it."""
    number = len(buffers)
    targets = [torch.empty_like(buffers[(source + 1) % number]) for source in range(number)]
    new_event: Any = torch.cuda.Event

    def call() -> None:
        begun = new_event()
        begun.record()
        ends = []
        for source, target in enumerate(targets):
            with torch.cuda.device(source):
                torch.cuda.current_stream().wait_event(begun)
                target.copy_(buffers[source], non_blocking=True)
                end = new_event()
                end.record()
                ends.append(end)
        for end in ends:
            torch.cuda.current_stream().wait_event(end)

    pattern = f"{number} GPUs, each to the next at once, bytes of all"
    return _rate("peer.at_once", pattern, call, buffers[0].device, float(number) * _BYTES)
