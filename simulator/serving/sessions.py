"""Sessions: conversations whose context grows with every turn, and agents that delegate parts of a task."""

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.arrivals import ClosedLoop, Gamma, Poisson, TraceArrivals, VaryingRate
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.serving.lengths import Lengths
from advisor.simulator.serving.load import FleetLoad, Tenant

_ARRIVALS = 0
_INPUTS = 1
_OUTPUTS = 2
_TURNS = 20
_THINK = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """`num_sessions` conversations; each turn sends the whole conversation so far, and new tokens.

    Each begins with the shared system prompt. Turns are geometric with a mean, or fixed. The next turn is
    sent a thinking time after the output: exponential with a mean. With `branches` above 0 the output of each turn
    except the last starts as many sub-agents, whose prompts continue it by new tokens; the next turn waits for all of
    them and holds their outputs too.
    """

    arrivals: Poisson | Gamma | VaryingRate | TraceArrivals | ClosedLoop
    """Arrivals of sessions. In a closed loop each user begins the next session after the last one."""
    lengths: Lengths
    """New tokens of a turn, and output tokens."""
    num_sessions: int
    mean_turns: float = 5.0
    fixed_turns: bool = False
    think_s: float = 10.0
    system_tokens: int = 0
    max_context_tokens: int = 131_072
    """Longest context [tokens]: a session ends before a turn that would exceed it."""
    branches: int = 0

    def __post_init__(self) -> None:
        if (
            self.num_sessions < 1
            or self.system_tokens < 0
            or self.branches < 0
            or self.max_context_tokens < 1
        ):
            raise AdvisorError("sessions need at least one session, and counts of at least 0")
        if not (math.isfinite(self.mean_turns) and self.mean_turns >= 1.0):
            raise AdvisorError(f"a session has at least one turn on average, not {self.mean_turns}")
        if self.fixed_turns and self.mean_turns != int(self.mean_turns):
            raise AdvisorError(f"a fixed number of turns is whole, not {self.mean_turns}")
        if not (math.isfinite(self.think_s) and self.think_s >= 0):
            raise AdvisorError(f"thinking takes a time of at least 0 s, not {self.think_s}")


def draw_sessions(sessions: Sessions, seed: int, tenant: Tenant | None = None) -> FleetLoad:
    """Return all turns of all sessions as a load: the first turns with their instants, the others as followers.

    Source: own definition.
    """
    draft = _Draft(sessions, seed)
    for number in range(sessions.num_sessions):
        draft.add_session(number)
    count = len(draft.inputs)
    instants = np.full(count, -1, dtype=np.int64)
    instants[draft.first_requests[: len(draft.starts)]] = draft.starts
    return FleetLoad(
        instants_ps=instants,
        input_tokens=np.array(draft.inputs, dtype=np.int32),
        output_tokens=np.array(draft.outputs, dtype=np.int32),
        tenants=(tenant or Tenant(),),
        contents=Contents(draft.tree, draft.prompts, draft.answers),
        sessions=draft.session_of,
        followers=draft.followers,
        num_awaited=draft.num_awaited,
        think_ps=draft.think_ps,
    )


class _Draft:
    """Sessions while they are drawn: columns by request."""

    def __init__(self, sessions: Sessions, seed: int) -> None:
        self.sessions = sessions
        self.inputs = array("l")
        self.outputs = array("l")
        self.prompts = array("l")
        self.session_of = array("l")
        self.think_ps = array("q")
        self.answers: dict[int, int] = {}
        self.followers: dict[int, tuple[int, ...]] = {}
        self.num_awaited: dict[int, int] = {}
        self.first_requests: list[int] = []
        self.last_requests: list[int] = []
        self.tree = ContentTree()
        self.system = self.tree.add(ROOT, sessions.system_tokens) if sessions.system_tokens else ROOT
        rngs = [
            np.random.default_rng([seed, stream]) for stream in (_ARRIVALS, _INPUTS, _OUTPUTS, _TURNS, _THINK)
        ]
        self.starts = _starts(sessions, rngs[0])
        self.turns_rng, self.think_rng = rngs[3:]
        self.pairs: Iterator[tuple[int, int]] = chain.from_iterable(
            zip(inputs.tolist(), outputs.tolist(), strict=True)
            for inputs, outputs in sessions.lengths.chunks(rngs[1], rngs[2])
        )

    def add_session(self, number: int) -> None:
        """Draw one session; in a closed loop it follows the previous session of the same user."""
        sessions = self.sessions
        mean = sessions.mean_turns
        num_turns = int(mean) if sessions.fixed_turns else int(self.turns_rng.geometric(1.0 / mean))
        node = self.system
        extra = 0
        waited_for: tuple[int, ...] = ()
        for turn in range(num_turns):
            new, output = next(self.pairs)
            if turn and self.tree.ends[node] + extra + new + output > sessions.max_context_tokens:
                break
            request = self._add(number, node, extra + new, output, think=turn > 0)
            self._after(request, waited_for)
            if not turn:
                self.first_requests.append(request)
            node = self.answers[request]
            waited_for = (request,)
            extra = 0
            if turn + 1 < num_turns and sessions.branches:
                waited_for, extra = self._branch(number, request)
        self.last_requests.append(waited_for[-1])
        if len(self.last_requests) > len(self.starts):
            before = self.last_requests[number - len(self.starts)]
            self._after(self.first_requests[number], (before,))
            self.think_ps[self.first_requests[number]] = self._think()

    def _branch(self, number: int, parent: int) -> tuple[tuple[int, ...], int]:
        """Draw the sub-agents that continue an output; return their requests and the tokens that they report."""
        node = self.answers[parent]
        made = []
        tokens = 0
        for _ in range(self.sessions.branches):
            new, output = next(self.pairs)
            request = self._add(number, node, new, output, think=False)
            self._after(request, (parent,))
            made.append(request)
            tokens += output
        return tuple(made), tokens

    def _add(self, number: int, node: int, new: int, output: int, *, think: bool) -> int:
        request = len(self.inputs)
        prompt = self.tree.add(node, new)
        self.answers[request] = self.tree.add(prompt, output)
        self.prompts.append(prompt)
        self.inputs.append(self.tree.ends[prompt])
        self.outputs.append(output)
        self.session_of.append(number)
        self.think_ps.append(self._think() if think else 0)
        return request

    def _after(self, request: int, waited_for: tuple[int, ...]) -> None:
        for before in waited_for:
            self.followers[before] = (*self.followers.get(before, ()), request)
        if len(waited_for) > 1:
            self.num_awaited[request] = len(waited_for)

    def _think(self) -> int:
        return round(self.sessions.think_s * float(self.think_rng.standard_exponential()) * PICOSECONDS_PER_S)


def _starts(sessions: Sessions, rng: np.random.Generator) -> list[int]:
    """Start instants of the sessions whose start does not depend on others [ps]."""
    arrivals = sessions.arrivals
    count = sessions.num_sessions
    if isinstance(arrivals, ClosedLoop):
        return arrivals.start_instants_ps(min(arrivals.concurrency, count))
    starts: list[int] = []
    for chunk in arrivals.instants_ps(rng):
        starts += chunk[: count - len(starts)].tolist()
        if len(starts) == count:
            return starts
    raise AdvisorError(
        f"the trace holds {len(starts)} arrivals, not {count}", fix=f"at most {len(starts)} sessions"
    )
