"""Queues ordered by priority, or by the deadline of the first token, instead of by arrival."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.pipeline import NEVER

Rank = Callable[[Request], int]
"""Rank of a request; lower ranks are served first."""


class OrderedInbox:
    """Inbox whose visible requests are taken by rank; requests of equal rank in order of arrival.

    The inbox answers the questions of a replica: its first request, its last, their number. A preempted request goes
    before those of its rank, and the youngest of the highest rank is the one that is preempted.

    Source: own design; vLLM's --scheduling-policy priority, earliest deadline first.
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.visible: list[tuple[int, Request]] = []
        """Heap of the requests that the scheduler has ranked."""
        self.later: deque[Request] = deque()
        """Requests that the scheduler has not ranked, in order of the instants at which it can see them."""

    def reveal(self, now_ps: int) -> None:
        """Rank the requests that the scheduler can see by now."""
        later = self.later
        while later and later[0][0] <= now_ps:
            request = later.popleft()
            heappush(self.visible, (self.rank(request), request))

    def next_ps(self) -> int:
        """Instant at which the next unranked request can be seen, or NEVER [ps]."""
        return self.later[0][0] if self.later else NEVER

    def __len__(self) -> int:
        return len(self.visible) + len(self.later)

    def __getitem__(self, index: int) -> Request:
        """Return the first request to be served; as the last, return one that every request may follow: `append` finds
        their place."""
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

    def extend(self, requests: Iterable[Request]) -> None:
        """Add requests, each in its place."""
        for request in requests:
            self.append(request)
