"""Event loop of all serving simulations: replicas announce their next change, requests arrive between the changes."""

from collections.abc import Iterator
from heapq import heappop, heappush

from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.load import Arrival
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.replica import Replica

BLOCK = 1 << 15
"""Number of integers that replicas collect before a recorder takes them in."""
_NO_ARRIVAL: Arrival = (NEVER, -1, 0, 0)


class LoadIndex:
    """Index of replicas by number of unfinished requests; finds the least loaded in constant time.

    The replicas with a given number of requests are the bits of one whole number, so that the first of them is its
    lowest bit.
    """

    __slots__ = ("least", "loads", "masks", "members")

    def __init__(self) -> None:
        self.loads: dict[int, int] = {}
        """Number of unfinished requests of each member."""
        self.masks: list[int] = [0]
        self.least = 0
        """Lower bound of the unfinished requests of every member."""
        self.members: list[int] = []
        """Numbers of the replicas, ascending."""

    def join(self, number: int) -> None:
        """Take in a replica without requests."""
        self.loads[number] = 0
        self.masks[0] |= 1 << number
        self.least = 0
        self.members = sorted(self.loads)

    def leave(self, number: int) -> None:
        """Send a replica no further requests."""
        load = self.loads.pop(number)
        self.masks[load] ^= 1 << number
        self.members.remove(number)

    def more(self, number: int) -> None:
        """Add one request to a member's count."""
        load = self.loads[number] + 1
        self.loads[number] = load
        bit = 1 << number
        masks = self.masks
        masks[load - 1] ^= bit
        if load == len(masks):
            masks.append(bit)
        else:
            masks[load] |= bit

    def fewer(self, number: int, count: int) -> None:
        """Subtract `count` requests from a member's count."""
        before = self.loads[number]
        load = before - count
        self.loads[number] = load
        bit = 1 << number
        self.masks[before] ^= bit
        self.masks[load] |= bit
        if load < self.least:
            self.least = load

    def least_loaded(self) -> int:
        """Return the member with the fewest unfinished requests, the first of them in a tie."""
        masks = self.masks
        least = self.least
        while not masks[least]:
            least += 1
        self.least = least
        mask = masks[least]
        return (mask & -mask).bit_length() - 1

    def least_load(self) -> int:
        """Number of unfinished requests of the least loaded member."""
        return self.loads[self.least_loaded()]


class Site:
    """Replica in an event loop, with its load and its place in the heap of changes."""

    __slots__ = ("is_touched", "load_index", "num_outstanding", "number", "replica", "ticket")

    def __init__(self, number: int, replica: Replica, load_index: LoadIndex) -> None:
        self.number = number
        self.replica = replica
        self.load_index = load_index
        self.num_outstanding = 0
        """Number of requests that the replica was sent and has not answered."""
        self.ticket = 0
        """Ticket of the replica's valid entry in the loop's heap: entries with earlier tickets are out of date."""
        self.is_touched = False
        """Whether something happened to the replica at this instant, so that a run may start."""

    def count_finished(self, num_requests: int) -> None:
        """Note that the replica has finished requests."""
        self.num_outstanding -= num_requests
        self.load_index.fewer(self.number, num_requests)


class EventLoop:
    """Event loop in which, at one instant, runs end first, then requests arrive, then runs start.

    Each replica's next instant is in a heap. A replica continues without it as long as nothing else happens, which
    is always the case if it is alone and knows its requests in advance. Changes to the replicas themselves (scaling,
    failures) happen between two calls of `run_until`.
    """

    def __init__(self) -> None:
        self.now_ps = 0
        self.heap: list[tuple[int, int, Site]] = []
        self.due: list[Arrival] = []
        """Requests that follow others, by instant."""
        self.source: Iterator[Arrival] = iter(())
        self.next_known: Arrival = _NO_ARRIVAL
        self.touched: list[Site] = []
        self.enough = False
        """Whether the simulation ends at once."""
        self._ticket = 0

    def arrive(self, arrival: Arrival) -> None:
        """Give a request that is sent now to a replica, or drop it."""
        raise NotImplementedError

    def handle_finished(self, site: Site, num_finished: int) -> None:
        """Handle the requests that a replica has just finished."""
        raise NotImplementedError

    def come_from(self, source: Iterator[Arrival]) -> None:
        """Take requests whose instants are known in advance, in order of time."""
        self.source = source
        self.next_known = next(source, _NO_ARRIVAL)

    @property
    def expects_nobody(self) -> bool:
        """Whether no request with a known instant is still to come."""
        return self.next_known[0] == NEVER and not self.due

    def touch(self, site: Site) -> None:
        """Let a replica start runs once all events of this instant have been processed."""
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
        """Remove a replica from all future events."""
        site.ticket = -1
        if site in self.touched:
            self.touched.remove(site)

    def run_until(self, limit_ps: int) -> None:
        """Process all events before an instant."""
        heap = self.heap
        due = self.due
        touched = self.touched
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
                        self.handle_finished(site, num_finished)
            while self.next_known[0] == now_ps:
                arrival = self.next_known
                self.next_known = next(self.source, _NO_ARRIVAL)
                self.arrive(arrival)
            while due and due[0][0] == now_ps:
                self.arrive(heappop(due))
            if len(touched) == 1 and not self.enough:
                self._run_alone(touched[0], limit_ps)
                continue
            for site in touched:
                self._expect(site, site.replica.resume(now_ps))
            touched.clear()

    def _next_ps(self) -> int:
        next_ps = self.next_known[0]
        heap = self.heap
        due = self.due
        if heap and heap[0][0] < next_ps:
            next_ps = heap[0][0]
        if due and due[0][0] < next_ps:
            next_ps = due[0][0]
        return next_ps

    def _expect(self, site: Site, next_ps: int) -> None:
        """Note the instant at which a replica next changes."""
        if next_ps < self.now_ps:
            raise AssertionError(f"replica {site.number} neither works nor waits at {self.now_ps} ps")
        self._ticket = site.ticket = ticket = self._ticket + 1
        site.is_touched = False
        if next_ps != NEVER:
            heappush(self.heap, (next_ps, ticket, site))

    def _run_alone(self, site: Site, limit_ps: int) -> None:
        """Alternate resume and advance of the one replica that is touched until something else happens."""
        replica = site.replica
        touched = self.touched
        touched.clear()
        due = self.due
        now_ps = self.now_ps
        horizon_ps = min(limit_ps, self._next_ps())
        while (next_ps := replica.resume(now_ps)) < horizon_ps:
            now_ps = next_ps
            num_finished = replica.advance(now_ps)
            if num_finished:
                self.now_ps = now_ps
                self.handle_finished(site, num_finished)
                if touched or self.enough or (due and due[0][0] < horizon_ps):
                    touched.insert(0, site)
                    return
        self.now_ps = now_ps
        self._expect(site, next_ps)
