"""Summary of a profile: time by kind of operator against its roof, gaps, overlap, and what to look at first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from advisor.catalog.units import MICROSECOND_S
from advisor.commands.roofline.trace_file import GpuActivity
from advisor.simulator.device import Device
from advisor.simulator.operators.matmul import FORMATS, peak_flop_per_s
from advisor.simulator.roofline import floor_s

COLLECTIVE: Final = "collective"
_KINDS: Final = (
    (
        COLLECTIVE,
        r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|deepep|nvshmem|multimem|one_shot|two_shot",
    ),
    ("captured graph", r"^captured graph$"),
    ("copy", r"^memcpy|^memset|\bmemcpy\b|\bmemset\b"),
    ("attention", r"flash|fmha|attention|attn|paged|mla_|decode_kernel"),
    ("experts", r"moe|grouped|expert"),
    ("matmul", r"gemm|gemv|cutlass|cublas|nvjet|xmma|wgmma|matmul|splitk|marlin|machete|s\d+_\w*_tn|_mma"),
    ("norm", r"norm"),
    ("softmax", r"softmax"),
    ("sampling", r"top_?k|top_?p|sampl|sort|radix|scan|argmax|cumsum"),
    ("quantisation", r"quant|scaled_fp8|dequant"),
    ("embedding and gather", r"embedding|gather|scatter|index|rotary|rope|cache_kernel|reshape_and_cache"),
    (
        "elementwise",
        r"elementwise|vectorized|unrolled|silu|gelu|relu|add|mul|copy|cat|fill|triton_poi|triton_per|triton_red",
    ),
)
"""Kinds of kernels by words of their names, the first that fits."""
_PATTERNS: Final = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _KINDS)
_GAP_S: Final = 1.0 * MICROSECOND_S
"""Shortest time without work that counts as a gap: kernels in a graph follow each other within it."""
_MUCH_IDLE: Final = 0.15
_MUCH_EXPOSED: Final = 0.1


@dataclass(frozen=True, slots=True)
class KindTime:
    """Time of one kind of operator on one GPU."""

    kind: str
    num_calls: int
    time_s: float
    share_fraction: float
    """Fraction of the time of all kernels, each counted whole."""
    floor_s: float | None
    """Least time of the calls whose shapes were recorded [s]; None if of no call."""
    known_s: float
    """Time of these calls [s]."""
    longest: str
    """Name of the kernel that took most time."""

    @property
    def roof_fraction(self) -> float | None:
        """Floor over time of the calls whose work is known; None if of none."""
        return self.floor_s / self.known_s if self.floor_s is not None and self.known_s else None


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Summary of one GPU's part of a trace."""

    device: int
    span_s: float
    busy_s: float
    """Time with at least one kernel or copy [s]."""
    overlapped_s: float
    """Time with two or more [s]."""
    num_gaps: int
    longest_gap_s: float
    collective_s: float
    exposed_collective_s: float
    """Time of collectives while nothing else ran [s]."""
    kinds: tuple[KindTime, ...]

    @property
    def idle_fraction(self) -> float:
        """Fraction of the span without work."""
        return 1.0 - self.busy_s / self.span_s if self.span_s else 0.0

    @property
    def advice(self) -> str:
        """Advice on the largest loss of time, in one sentence."""
        if self.idle_fraction > _MUCH_IDLE:
            return (
                "Look first at the gaps: the GPU waits for the host. CUDA graphs, larger batches or fewer small "
                "kernels close them."
            )
        if self.exposed_collective_s > _MUCH_EXPOSED * self.span_s:
            return (
                "Look first at collectives that nothing hides: overlap them, or share the work out otherwise."
            )
        lost = [
            (kind.known_s - kind.floor_s, kind)
            for kind in self.kinds
            if kind.floor_s is not None and kind.known_s
        ]
        if lost:
            seconds, kind = max(lost, key=lambda pair: pair[0])
            if seconds > _MUCH_EXPOSED * self.span_s:
                times = kind.known_s / (kind.floor_s or kind.known_s)
                return f"Look first at {kind.kind}: its kernels take {times:.1f} times as long as their roof allows."
        first = self.kinds[0]
        return f"Look first at {first.kind}, which takes most of the time: {first.longest}."


def kind_of(name: str) -> str:
    """Return the kind of operator that a kernel's name stands for; other if no word of it is known."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "other")


def summarise(activities: Sequence[GpuActivity], roof: Device) -> TraceSummary:
    """Return the summary of the GPU with the most work.

    Assumes: kernels whose work is known read and write their tensors once, from main memory: what a kernel before left
    in the L2 can beat that roof.
    Source: own definition; roofs of `simulator.roofline`.
    """
    totals: dict[int, float] = {}
    for activity in activities:
        totals[activity.device] = totals.get(activity.device, 0.0) + activity.end_s - activity.start_s
    device = max(totals, key=lambda name: (totals[name], -name))
    own = [activity for activity in activities if activity.device == device]
    depth = _depths(own)
    span_s = max(a.end_s for a in own) - min(a.start_s for a in own)
    gaps = [end - start for start, end, running, _ in depth if running == 0 and end - start > _GAP_S]
    return TraceSummary(
        device,
        span_s,
        sum(end - start for start, end, running, _ in depth if running),
        sum(end - start for start, end, running, _ in depth if running > 1),
        len(gaps),
        max(gaps, default=0.0),
        sum(end - start for start, end, _, collectives in depth if collectives),
        sum(
            end - start
            for start, end, running, collectives in depth
            if collectives and running == collectives
        ),
        _by_kind(own, totals[device], roof),
    )


def _depths(activities: Sequence[GpuActivity]) -> list[tuple[float, float, int, int]]:
    """Return intervals of time with the numbers of running activities and of running collectives."""
    changes = []
    for activity in activities:
        is_collective = int(kind_of(activity.name) == COLLECTIVE)
        changes += [(activity.start_s, 1, is_collective), (activity.end_s, -1, -is_collective)]
    changes.sort()
    found = []
    running = collectives = 0
    for (start, step, joint), (end, _, _) in pairwise(changes):
        running += step
        collectives += joint
        if end > start:
            found.append((start, end, running, collectives))
    return found


def _by_kind(activities: Sequence[GpuActivity], total_s: float, roof: Device) -> tuple[KindTime, ...]:
    grouped: dict[str, list[GpuActivity]] = {}
    for activity in activities:
        grouped.setdefault(kind_of(activity.name), []).append(activity)
    rows = [_kind_time(kind, own, total_s, roof) for kind, own in grouped.items()]
    return tuple(sorted(rows, key=lambda row: -row.time_s))


def _kind_time(kind: str, activities: Sequence[GpuActivity], total_s: float, roof: Device) -> KindTime:
    by_name: dict[str, float] = {}
    floor = known_s = time_s = 0.0
    for activity in activities:
        seconds = activity.end_s - activity.start_s
        time_s += seconds
        by_name[activity.name] = by_name.get(activity.name, 0.0) + seconds
        if activity.work is not None:
            dtype = activity.dtype if activity.dtype in FORMATS else "bf16"
            known_s += seconds
            floor += floor_s(activity.work, peak_flop_per_s(dtype, roof), roof.bandwidth_bytes_per_s)
    return KindTime(
        kind,
        len(activities),
        time_s,
        time_s / total_s if total_s else 0.0,
        floor if known_s else None,
        known_s,
        max(by_name, key=lambda name: by_name[name]),
    )
