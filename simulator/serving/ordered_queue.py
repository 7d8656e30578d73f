"""Waiting requests that are not served in order of arrival: by priority, or by the deadline of their first token."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from advisor.simulator.serving.batch import MicroBatch, Request
from advisor.simulator.serving.caching_replica import CachingReplica
from advisor.simulator.serving.replica import Replica

Rank = Callable[[Request], int]
"""Less is served first."""


class OrderedInbox:
    """An inbox whose visible requests are taken by rank; those of one rank in order of arrival.

    It answers what a replica asks of its inbox: its first request, its last, how many.
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.visible: list[tuple[int, Request]] = []
        """A heap of what the scheduler has looked at."""
        self.later: deque[Request] = deque()
        """What it has not, in order of the instants at which it can."""

    def reveal(self, now_ps: int) -> None:
        """Rank the requests that the scheduler can see by now."""
        later = self.later
        while later and later[0][0] <= now_ps:
            request = later.popleft()
            heappush(self.visible, (self.rank(request), request))

    def next_ps(self) -> int | None:
        """When the next request is seen that has not been ranked [ps]."""
        return self.later[0][0] if self.later else None

    def __len__(self) -> int:
        return len(self.visible) + len(self.later)

    def __getitem__(self, index: int) -> Request:
        """The first request to be served; for the last, one that all may follow: `append` finds their place."""
        if index:
            return (0, -1, 0, 0)
        return self.visible[0][1] if self.visible else self.later[0]

    def __iter__(self) -> Iterator[Request]:
        for _, request in self.visible:
            yield request
        yield from self.later

    def popleft(self) -> Request:
        """Take the first request off the queue."""
        return heappop(self.visible)[1] if self.visible else self.later.popleft()

    def append(self, request: Request) -> None:
        """Add a request in order of the instant at which it can be seen."""
        later = self.later
        if not later or later[-1][0] <= request[0]:
            later.append(request)
        else:
            later.insert(bisect_right(later, request[0], key=lambda other: other[0]), request)


class _Ordered(Replica):
    """What a replica does otherwise where its queue is ordered.

    Preempted requests still go first, and the youngest is still the one that is preempted.
    """

    inbox: OrderedInbox  # type: ignore[assignment]

    def __init__(self, rank: Rank, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.inbox = OrderedInbox(rank)

    def _plan(self, batch: MicroBatch, now_ps: int) -> bool:
        late = self.overlap and not batch.is_empty()
        self.inbox.reveal(batch.cutoff_ps if late else now_ps)
        return super()._plan(batch, now_ps)

    def _start_decode(self, batch: MicroBatch, made_room: bool) -> None:
        """Decode until the next completion or arrival: whoever comes may go before those who wait."""
        super()._start_decode(batch, made_room)
        if batch.num_iterations > 1 and not self.batch_closed and self.num_running < self.num_slots:
            batch.open_to_arrivals = True
            next_ps = self.inbox.next_ps()
            if next_ps is not None and next_ps < batch.end_ps:
                self.pipeline.end_at(batch, next_ps)

    def _most_iterations(self, batch: MicroBatch, waiting: bool) -> int:
        next_ps = self.inbox.next_ps()
        if next_ps is not None and next_ps <= batch.start_ps and not self.batch_closed:
            return 1  # seen too late for this iteration, in time for the next
        return super()._most_iterations(batch, waiting)


class OrderedReplica(_Ordered):
    """A replica that serves waiting requests by rank.

    Source: own design; vLLM's --scheduling-policy priority, earliest deadline first.
    """


class OrderedCachingReplica(_Ordered, CachingReplica):
    """A replica with a prefix cache that serves waiting requests by rank."""
