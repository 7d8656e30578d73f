"""Measured pairs: the accelerators of a machine that a group takes and the rate of its slowest link, from copies
between pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Calibration

ALIKE: Final = 0.9
"""Rates count as equal above this ratio: healthy pairs of one fabric differ by 3 % (recordings of four and eight
H200s)."""
_BRIDGED_RATE_FRACTION: Final = 0.5
"""Fraction of a bridge's rate above which a pair counts as bridged: bridged pairs copy at 84 % of it (RTX A6000), PCIe
5 at a tenth."""
_MOST: Final = 16
"""Highest number of accelerators of one machine; all groups among them are tried."""


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """Best placement of a group of one size on the measured machine."""

    members: tuple[int, ...]
    slowest_bytes_per_s: float
    """Copy rate between the two members that are farthest apart [bytes/s]."""
    fraction: float
    """Ratio of the slowest pair's rate to the fastest pair's over equal links; 1 if they are equal."""


def placed_groups(accelerator: Accelerator, calibration: Calibration) -> dict[int, PlacedGroup]:
    """Return, by number of ranks, the members whose slowest pair is fastest, and its rate [bytes/s, fraction].

    Among cards joined by bridges, groups within a bridge are compared with the fastest pair; larger ones, which go over
    PCIe, with the fastest pair without a bridge. Empty if no pairs were measured.

    Assumes: a group has its best members to itself; two groups at once on one machine may have to share the others.
    Every two members exchange, so the slowest link between any two of them sets the pace.
    Raises: AdvisorError: a pair is not written as two numbers, or its rate is not positive.
    Source: own definition.
    """
    rates = _rates(calibration.pair_bytes_per_s)
    gpus = sorted({gpu for pair in rates for gpu in pair})
    if len(gpus) < 2 or len(gpus) > _MOST or len(rates) < len(gpus) * (len(gpus) - 1) // 2:
        return {}
    fastest = max(rates.values())
    without_bridge = max((rate for rate in rates.values() if rate < ALIKE * fastest), default=fastest)
    found = {}
    for size in range(2, len(gpus) + 1):
        slowest, members = max(
            (min(rates[pair] for pair in combinations(group, 2)), tuple(-gpu for gpu in group))
            for group in combinations(gpus, size)
        )
        over_pcie = _is_bridged(accelerator) and size > accelerator.scale_up_domain
        share = slowest / (without_bridge if over_pcie else fastest)
        found[size] = PlacedGroup(tuple(-gpu for gpu in members), slowest, 1.0 if share >= ALIKE else share)
    return found


def lacks_bridges(accelerator: Accelerator, calibration: Calibration) -> bool:
    """Whether cards that bridges can join copy no faster than PCIe would on the measured machine [yes or no].

    Source: own definition.
    """
    rates = _rates(calibration.pair_bytes_per_s)
    scale_up = accelerator.scale_up
    if scale_up is None or not rates or not _is_bridged(accelerator):
        return False
    return max(rates.values()) < _BRIDGED_RATE_FRACTION * scale_up.bytes_per_s


def _is_bridged(accelerator: Accelerator) -> bool:
    return accelerator.scale_up is not None and accelerator.scale_up.is_bridge


def _rates(pairs: Mapping[str, float]) -> dict[tuple[int, int], float]:
    found = {}
    for name, rate in pairs.items():
        ends = name.split("-")
        if len(ends) != 2 or not all(end.isdecimal() and len(end) < 4 for end in ends) or not rate > 0:
            raise AdvisorError(
                f"the calibration's pair {name!r}: {rate:g} is no copy between two accelerators",
                why='a pair is written "0-1", its rate in bytes/s is positive',
                fix="correct pair_bytes_per_s in the file, or probe again",
            )
        first, second = sorted(map(int, ends))
        found[first, second] = rate
    return found
