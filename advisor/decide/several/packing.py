"""Replicas of several models on whole units of one offer: what each machine holds, and what all of them cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.schema import Accelerator, Price
from advisor.decide.offers import OWN, Placement, machine_of, placements


@dataclass(frozen=True, slots=True)
class Need:
    """Equal replicas of one model, and accelerators of each."""

    num_replicas: int
    size: int


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines that hold the same."""

    count: int
    num_accelerators: int
    """Number of accelerators of one machine."""
    num_replicas: tuple[int, ...]
    """Number of replicas of each model on one machine."""
    num_used: int
    """Number of accelerators in use on one machine."""


@dataclass(frozen=True, slots=True)
class UnitOrder:
    """Units of one offer with replicas of several models on them."""

    unit: Placement
    num_units: int
    machines: tuple[Machines, ...]

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.unit.usd_per_unit_hour

    @property
    def num_accelerators(self) -> int:
        return self.num_units * self.unit.accelerators_per_unit


def pack(needs: Sequence[Need], capacity: int) -> tuple[Machines, ...]:
    """Pack all replicas on the fewest machines of `capacity` accelerators; no replica is larger than a machine.

    The largest replicas come first, each on the first machine that has room.

    Source: Coffman, Garey, Johnson, Bin packing with divisible item sizes, J. Complexity 3 (1987): fewest where each
        size divides the next larger one, as powers of two do.
    """
    groups: list[Machines] = []
    for place in sorted(range(len(needs)), key=lambda each: -needs[each].size):
        left = needs[place].num_replicas
        size = needs[place].size
        filled = list[Machines]()
        empty = Machines(math.ceil(left / (capacity // size)), capacity, (0,) * len(needs), 0)
        for group in (*groups, empty):
            each = (capacity - group.num_used) // size
            whole = min(group.count, left // each) if each else 0
            rest = left - whole * each if whole < group.count and each else 0
            filled += [_with(group, place, each, size, whole), _with(group, place, rest, size, min(1, rest))]
            used = whole + min(1, rest)
            filled.append(_with(group, place, 0, size, group.count - used if group is not empty else 0))
            left -= whole * each + rest
        groups = [group for group in filled if group.count]
    return tuple(groups)


def _with(group: Machines, place: int, more: int, size: int, count: int) -> Machines:
    """Return `count` machines of a group with `more` replicas of one model added to each."""
    held = list(group.num_replicas)
    held[place] += more
    return Machines(count, group.num_accelerators, tuple(held), group.num_used + more * size)


def order_units(needs: Sequence[Need], price: Price, chip: Accelerator) -> UnitOrder | None:
    """Return the units of one offer that hold all replicas, with several models on a machine where they fit; None if
    the offer has no machine for one of them, or too few units.

    Replicas that take several machines have those for themselves. Boards of one's own are billed one by one, and stand
    in machines of their kind.
    """
    (unit,) = placements(1, (price,), chip)
    is_own = price.provider == OWN
    room = machine_of(unit, 1).accelerators_per_node if is_own else unit.accelerators_per_unit
    own = list[Machines]()
    inner = list[Need]()
    for place, need in enumerate(needs):
        inner.append(need if need.size <= room else Need(0, 1))
        if need.size > room:
            if not placements(need.size, (price,), chip):
                return None
            alone = Machines(need.num_replicas, need.size, (0,) * len(needs), 0)
            own.append(_with(alone, place, 1, need.size, need.num_replicas))
    machines = (*pack(inner, room), *own)
    num_machines = sum(each.count * math.ceil(each.num_accelerators / room) for each in machines)
    if is_own and not _are_there(machines, num_machines, room, price):
        return None
    num_units = sum(each.count * each.num_used for each in machines) if is_own else num_machines
    if unit.max_units is not None and num_units > unit.max_units:
        return None
    return UnitOrder(unit, max(num_units, unit.min_units), machines)


def _are_there(machines: Sequence[Machines], num_machines: int, room: int, price: Price) -> bool:
    """Whether boards of one's own fill these machines of `room` boards, of which the last may have fewer."""
    full, rest = divmod(price.max_quantity or price.num_accelerators, room)
    least = min((each.num_used for each in machines), default=0)
    return num_machines <= full or (num_machines == full + 1 and least <= rest)
