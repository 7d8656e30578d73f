"""Memory over a training step as a record with the fields of PyTorch's memory snapshots.

Source of the fields: `torch.cuda.memory._snapshot`, docstring, PyTorch 2.13.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from advisor.catalog.units import MICROSECOND_S
from advisor.decide.training.memory_over_step import MemoryAtTime, StepMemory

_PARTS: Final[Mapping[str, str]] = {
    "weight_bytes": "weights",
    "gradient_bytes": "gradients",
    "optimizer_bytes": "optimizer",
    "activation_bytes": "activations",
    "working_bytes": "loss, workspace and buffers",
}
_REPLACED: Final = "working_bytes"
"""Part of which a change is other tensors in the place of those before; the other parts grow and shrink."""
_FIRST_ADDRESS: Final = 1 << 32
_ALIGNMENT: Final = 512
"""Blocks begin at multiples of it, as those of PyTorch's allocator do [bytes]."""
_POOL: Final = (0, 0)


class _Recorder:
    """Blocks that live, and the events by which they came and went."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.alive: dict[str, list[tuple[int, int]]] = {name: [] for name in _PARTS}
        """Address and size of the blocks of each part, oldest first."""
        self._next_address = _FIRST_ADDRESS

    def shrink(self, name: str, size: int, at_s: float) -> None:
        """Free the oldest blocks of a part; what a block has too much stays as a block of its own."""
        while size > 0 and self.alive[name]:
            address, held = self.alive[name].pop(0)
            for action in ("free_requested", "free_completed"):
                self._record(action, name, address, held, at_s)
            if held > size:
                self.grow(name, held - size, at_s)
            size -= held

    def grow(self, name: str, size: int, at_s: float) -> None:
        """Allocate one block of a part."""
        if size <= 0:
            return
        address = self._next_address
        self._next_address += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.alive[name].append((address, size))
        self._record("alloc", name, address, size, at_s)

    def _record(self, action: str, name: str, address: int, size: int, at_s: float) -> None:
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": round(at_s / MICROSECOND_S),
                "pool_id": _POOL,
                "frames": _frames(name),
            }
        )


def snapshot_text(memory: StepMemory, about: Mapping[str, object]) -> str:
    """Return the record of a step as JSON; `about` says what was simulated.

    One block is one change of one part between two ends of passes. Totals there are those of the account;
    addresses only tell blocks apart, and there is no cache of the allocator: each block is a segment.
    """
    recorder = _Recorder()
    start = MemoryAtTime(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for before, after in pairwise((start, *memory.points)):
        changes = {name: round(getattr(after, name)) - round(getattr(before, name)) for name in _PARTS}
        # What is freed goes first, so that the sum never exceeds both ends.
        for name, change in changes.items():
            if change:
                freed = round(getattr(before, name)) if name == _REPLACED else -change
                recorder.shrink(name, freed, after.at_s)
        for name, change in changes.items():
            if change:
                more = round(getattr(after, name)) if name == _REPLACED else change
                recorder.grow(name, more, after.at_s)
    segments = [_segment(name, *block) for name, blocks in recorder.alive.items() for block in blocks]
    content = {"segments": segments, "device_traces": [recorder.events], "about": dict(about)}
    return json.dumps(content, allow_nan=False) + "\n"


def _segment(name: str, address: int, size: int) -> dict[str, Any]:
    block = {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "frames": _frames(name),
    }
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "requested_size": size,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": _POOL,
        "is_expandable": False,
        "frames": _frames(name),
        "blocks": [block],
    }


def _frames(name: str) -> list[dict[str, Any]]:
    """Return the name of a part where a snapshot has the lines of code that allocated."""
    return [{"filename": "advisor", "line": 0, "name": _PARTS[name]}]
