"""The event loop of all serving: replicas that say when they next change, and requests that come to them."""

from collections.abc import Iterator
from heapq import heappop, heappush

from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.replica import Replica

BLOCK = 1 << 15
"""Integers that replicas collect before a recorder takes them in."""
Arrival = tuple[int, int, int, int]
"""(instant at which it is sent [ps], index, input tokens, output tokens)"""
_NOBODY: Arrival = (NEVER, -1, 0, 0)


class LoadIndex:
    """Replicas that take requests, by how many unfinished ones each has; the least loaded in constant time.

    Replicas of one number of requests are the bits of one whole number, so that the first of them is its lowest bit.
    """

    __slots__ = ("least", "loads", "masks", "members")

    def __init__(self) -> None:
        self.loads: dict[int, int] = {}
        """Unfinished requests of each member."""
        self.masks: list[int] = [0]
        self.least = 0
        """No member has fewer than this."""
        self.members: list[int] = []
        """Ascending."""

    def join(self, number: int) -> None:
        """Take in a replica without requests."""
        self.loads[number] = 0
        self.masks[0] |= 1 << number
        self.least = 0
        self.members = sorted(self.loads)

    def leave(self, number: int) -> None:
        """Send a replica nothing more."""
        load = self.loads.pop(number)
        self.masks[load] ^= 1 << number
        self.members.remove(number)

    def more(self, number: int) -> None:
        """A member has one request more."""
        load = self.loads[number] + 1
        self.loads[number] = load
        bit, masks = 1 << number, self.masks
        masks[load - 1] ^= bit
        if load == len(masks):
            masks.append(bit)
        else:
            masks[load] |= bit

    def fewer(self, number: int, count: int) -> None:
        """A member has `count` requests fewer."""
        before = self.loads[number]
        load = before - count
        self.loads[number] = load
        bit = 1 << number
        self.masks[before] ^= bit
        self.masks[load] |= bit
        if load < self.least:
            self.least = load

    def least_loaded(self) -> int:
        """The member with the fewest unfinished requests, the first of them in a tie."""
        masks, least = self.masks, self.least
        while not masks[least]:
            least += 1
        self.least = least
        mask = masks[least]
        return (mask & -mask).bit_length() - 1

    def least_load(self) -> int:
        """Unfinished requests of the least loaded member."""
        return self.loads[self.least_loaded()]


class Site:
    """A replica among others: what it is, what it has to do, when it next changes."""

    __slots__ = ("is_touched", "load_index", "num_outstanding", "number", "replica", "ticket")

    def __init__(self, number: int, replica: Replica, load_index: LoadIndex) -> None:
        self.number, self.replica, self.load_index = number, replica, load_index
        self.num_outstanding = 0
        """Requests that it was sent and has not answered."""
        self.ticket = 0
        """Of its entry in the loop's heap that counts: earlier ones are out of date."""
        self.is_touched = False
        """Whether something happened to it at this instant, so that a run may start."""

    def answered(self, num_requests: int) -> None:
        """Note that it has finished requests."""
        self.num_outstanding -= num_requests
        self.load_index.fewer(self.number, num_requests)


class EventLoop:
    """What falls on one instant happens in the order runs end, requests arrive, runs start.

    Each replica's next instant stands in a heap. A replica goes on without it as long as nothing else happens, which
    is all the time where it is alone and knows its requests beforehand. What changes the replicas themselves (scaling,
    failures) happens between two calls of `run_until`.
    """

    def __init__(self) -> None:
        self.now_ps = 0
        self.heap: list[tuple[int, int, Site]] = []
        self.due: list[Arrival] = []
        """Requests that follow others, by instant."""
        self.source: Iterator[Arrival] = iter(())
        self.next_known: Arrival = _NOBODY
        self.touched: list[Site] = []
        self.enough = False
        """Set to end the simulation at once."""
        self._ticket = 0

    def arrive(self, arrival: Arrival) -> None:
        """Give a request that is sent now to a replica, or to nobody."""
        raise NotImplementedError

    def completed(self, site: Site, num_finished: int) -> None:
        """Take note of requests that a replica has finished now."""
        raise NotImplementedError

    def come_from(self, source: Iterator[Arrival]) -> None:
        """Take requests whose instants are known beforehand, in order of time."""
        self.source = source
        self.next_known = next(source, _NOBODY)

    @property
    def expects_nobody(self) -> bool:
        """Whether no request is to come whose instant is known."""
        return self.next_known[0] == NEVER and not self.due

    def touch(self, site: Site) -> None:
        """Let a replica start what it can once all of this instant has come."""
        if not site.is_touched:
            site.is_touched = True
            self.touched.append(site)

    def hand_over(self, site: Site, request: Request) -> None:
        """Give a request to a replica."""
        site.num_outstanding += 1
        site.load_index.more(site.number)
        if site.replica.submit(request):
            self.touch(site)

    def forget(self, site: Site) -> None:
        """Let nothing happen to a replica any more."""
        site.ticket = -1
        if site in self.touched:
            self.touched.remove(site)

    def run_until(self, limit_ps: int) -> None:
        """Everything that happens before an instant."""
        heap, due, touched = self.heap, self.due, self.touched
        while not self.enough:
            now_ps = self.now_ps if touched else self._next_ps()
            if now_ps >= limit_ps:
                return
            self.now_ps = now_ps
            while heap and heap[0][0] == now_ps:
                _, ticket, site = heappop(heap)
                if ticket == site.ticket:
                    self.touch(site)
                    num_finished = site.replica.advance(now_ps)
                    if num_finished:
                        self.completed(site, num_finished)
            while self.next_known[0] == now_ps:
                arrival = self.next_known
                self.next_known = next(self.source, _NOBODY)
                self.arrive(arrival)
            while due and due[0][0] == now_ps:
                self.arrive(heappop(due))
            if len(touched) == 1 and not self.enough:
                self._go_on(touched[0], limit_ps)
                continue
            for site in touched:
                self._expect(site, site.replica.resume(now_ps))
            touched.clear()

    def _next_ps(self) -> int:
        next_ps, heap, due = self.next_known[0], self.heap, self.due
        if heap and heap[0][0] < next_ps:
            next_ps = heap[0][0]
        if due and due[0][0] < next_ps:
            next_ps = due[0][0]
        return next_ps

    def _expect(self, site: Site, next_ps: int) -> None:
        """Note when a replica next changes."""
        if next_ps < self.now_ps:
            raise AssertionError(f"replica {site.number} neither works nor waits at {self.now_ps} ps")
        self._ticket = site.ticket = ticket = self._ticket + 1
        site.is_touched = False
        if next_ps != NEVER:
            heappush(self.heap, (next_ps, ticket, site))

    def _go_on(self, site: Site, limit_ps: int) -> None:
        """Alternate resume and advance of the one replica that is touched until something else happens."""
        replica, touched = site.replica, self.touched
        touched.clear()
        due = self.due
        now_ps, horizon_ps = self.now_ps, min(limit_ps, self._next_ps())
        while (next_ps := replica.resume(now_ps)) < horizon_ps:
            now_ps = next_ps
            num_finished = replica.advance(now_ps)
            if num_finished:
                self.now_ps = now_ps
                self.completed(site, num_finished)
                if touched or self.enough or (due and due[0][0] < horizon_ps):
                    touched.insert(0, site)
                    return
        self.now_ps = now_ps
        self._expect(site, next_ps)
