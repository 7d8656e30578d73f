"""Copies from every GPU to every other: pairs with a fast path, and pairs that go through the host."""

from typing import Any, Final

import torch

from advisor.catalog.units import MIB
from advisor.kernels.timing import Call, summarize, time_once
from advisor.probes.bench import rate_measurement
from advisor.probes.record import Measurement

_BYTES: Final = int(256 * MIB)
_NUM_SAMPLES: Final = 20
"""Number of samples of 0.7 ms each over NVLink; with five, one pair of twelve in a healthy machine
appeared 3 % slow.
"""


def peer(num_gpus: int, quick: bool) -> list[Measurement]:
    """Measure one-way copies of all pairs; in full mode also both ways at once."""
    buffers = [torch.full((_BYTES,), gpu, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(num_gpus)]
    pairs = [(source, target) for source in range(num_gpus) for target in range(num_gpus) if source != target]
    found = [_one_way(buffers, source, target) for source, target in pairs]
    if not quick:
        found += [_both_ways(buffers, 0, target) for target in range(1, num_gpus)]
    return found


def _rate(check: str, pattern: str, call: Call, device: torch.device, num_bytes: float) -> Measurement:
    timing = summarize([time_once(call, device) for _ in range(_NUM_SAMPLES + 1)][1:])
    return rate_measurement(check, "torch", pattern, timing, num_bytes, "bytes/s")


def _one_way(buffers: list[torch.Tensor], source: int, target: int) -> Measurement:
    out = torch.empty_like(buffers[target])
    has_access = torch.cuda.can_device_access_peer(source, target)
    path = "peer access" if has_access else "through the host"
    pattern = f"2 GPUs, {source} to {target} of {len(buffers)}, {path}"
    call = lambda: out.copy_(buffers[source], non_blocking=True)  # noqa: E731
    found = _rate("peer.copy", pattern, call, buffers[source].device, float(_BYTES))
    torch.cuda.synchronize(target)
    if not bool((out[::4096] == source).all()):
        return found.model_copy(update={"status": "fail", "note": "the copy arrived altered"})
    return found


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
