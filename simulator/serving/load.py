"""Loads of a fleet, drawn in advance: columns of instants, lengths, tenants, contents, and followers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.arrivals import ClosedLoop
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.policy import Slo
from advisor.simulator.serving.workload import (
    Workload,
    draw_arrival_chunks,
    draw_contents,
    draw_length_chunks,
)

_BLOCK = 8192

Arrival = tuple[int, int, int, int]
"""Arrival of a request: (instant [ps], index, input tokens, output tokens)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Tenant: the objectives promised to its requests, and their priority."""

    name: str = "all"
    slo: Slo | None = None
    priority: int = 0
    """Priority; lower values go first, if the queues are ordered by priority."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FleetLoad:
    """`N` requests by index; requests without an instant follow others."""

    instants_ps: NDArray[np.int64]
    """Instant at which each request is sent, if known in advance; -1 if it follows others."""
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    tenant_of: NDArray[np.int16] | None = None
    tenants: tuple[Tenant, ...] = (Tenant(),)
    contents: Contents | None = None
    sessions: Sequence[int] | None = None
    """Session of each request; None without sessions."""
    followers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Requests to send once this one, and every other one that they wait for, has been answered."""
    num_awaited: Mapping[int, int] = field(default_factory=dict)
    """Number of outputs that a request waits for, if more than one."""
    think_ps: Sequence[int] = ()
    """Time from the last output that a request waits for until the request is sent [ps]; by index, if there are
    followers."""

    def __len__(self) -> int:
        return len(self.instants_ps)

    @property
    def last_instant_ps(self) -> int:
        """Last instant that is known in advance [ps]."""
        return int(self.instants_ps.max())

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the requests whose instants are known in advance, in order of arrival."""
        known = np.flatnonzero(self.instants_ps >= 0)
        order = known[np.argsort(self.instants_ps[known], kind="stable")]
        return arrivals_of(self, order)


def arrivals_of(load: FleetLoad, order: NDArray[np.int64]) -> Iterator[Arrival]:
    """Yield these requests of a load, in this order.

    Source: own definition.
    """
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        yield from zip(
            load.instants_ps[block].tolist(),
            block.tolist(),
            load.input_tokens[block].tolist(),
            load.output_tokens[block].tolist(),
            strict=True,
        )


def draw_load(workload: Workload, seed: int, tenant: Tenant | None = None) -> FleetLoad:
    """Return the requests of an open-loop workload: those that `simulate` would send with this seed.

    Raises: AdvisorError: a closed loop; its clients are sessions of one turn.
    Source: own definition.
    """
    if isinstance(workload.arrivals, ClosedLoop):
        raise AdvisorError(
            "a fleet's load has no closed loop of single requests",
            why="a fleet is loaded by requests that come by themselves, or by sessions",
            fix="a rate, a trace, or sessions with users = N",
        )
    count = workload.num_requests
    instants = _first(((chunk,) for chunk in draw_arrival_chunks(workload, seed)), count)
    lengths = _first(draw_length_chunks(workload, seed), count).astype(np.int32)
    return FleetLoad(
        instants_ps=instants[0],
        input_tokens=lengths[0],
        output_tokens=lengths[1],
        tenants=(tenant or Tenant(),),
        contents=draw_contents(workload, seed),
    )


def _first(chunks: Iterable[tuple[NDArray[np.int64], ...]], count: int) -> NDArray[np.int64]:
    """Return the first rows of chunks of columns."""
    parts = []
    for chunk in chunks:
        parts.append(np.array(chunk)[:, :count])
        count -= len(chunk[0])
        if count <= 0:
            break
    return np.concatenate(parts, axis=1)


def merge_loads(loads: Sequence[FleetLoad]) -> FleetLoad:
    """Return the requests of several tenants as one load; each tenant keeps its order, its contents and its sessions.

    Source: own definition.
    """
    if len(loads) == 1:
        return loads[0]
    offsets = np.cumsum([0, *(len(load) for load in loads)]).tolist()
    followers: dict[int, tuple[int, ...]] = {}
    num_awaited: dict[int, int] = {}
    think_ps: list[int] = []
    sessions: list[int] = []
    first_session = 0
    for load, first in zip(loads, offsets, strict=False):
        followers |= {first + k: tuple(first + f for f in after) for k, after in load.followers.items()}
        num_awaited |= {first + k: number for k, number in load.num_awaited.items()}
        think_ps += load.think_ps or [0] * len(load)
        own = load.sessions if load.sessions is not None else range(len(load))
        sessions += [first_session + session for session in own]
        first_session += max(own) + 1
    return FleetLoad(
        instants_ps=np.concatenate([load.instants_ps for load in loads]),
        input_tokens=np.concatenate([load.input_tokens for load in loads]),
        output_tokens=np.concatenate([load.output_tokens for load in loads]),
        tenant_of=np.repeat(np.arange(len(loads), dtype=np.int16), [len(load) for load in loads]),
        tenants=tuple(load.tenants[0] for load in loads),
        contents=_merged_contents(loads, offsets),
        sessions=sessions if any(load.sessions is not None for load in loads) else None,
        followers=followers,
        num_awaited=num_awaited,
        think_ps=think_ps if followers else (),
    )


def _merged_contents(loads: Sequence[FleetLoad], offsets: Sequence[int]) -> Contents | None:
    """Return the tenants' trees under one root; no tenant shares a prefix with another."""
    if all(load.contents is None for load in loads):
        return None
    merged_tree = Contents.empty()
    tree = merged_tree.tree
    prompts = list(merged_tree.prompts)
    answers = dict(merged_tree.answers)
    for load, first in zip(loads, offsets, strict=False):
        contents = load.contents
        if contents is None:
            prompts += [0] * len(load)
            continue
        shift = len(tree.parents) - 1
        tree.parents += [parent + shift if parent else 0 for parent in islice(contents.tree.parents, 1, None)]
        tree.ends += contents.tree.ends[1:]
        nodes = [contents.prompts[index] for index in range(len(load))]
        prompts += [node + shift if node else 0 for node in nodes]
        answers |= {first + index: node + shift for index, node in contents.answers.items()}
    return Contents(tree, prompts, answers)


def seconds_to_ps(time_s: float) -> int:
    """Return a time in whole picoseconds.

    Source: own definition.
    """
    return round(time_s * PICOSECONDS_PER_S)
