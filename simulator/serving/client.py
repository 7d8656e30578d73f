"""The clients of a simulated service: they send the workload's requests and count what becomes of them."""

from collections.abc import Callable, Iterator

from advisor.simulator.serving.arrivals import ClosedLoop
from advisor.simulator.serving.micro_batch import Request
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.serving.workload import Workload, draw_arrivals, draw_lengths

_BLOCK = 1024
"""Open-loop requests handed over at once."""


class Client:
    """Sends requests in order of arrival; those that the service could never hold count as refused.

    A closed loop sends the next request when one has finished, as long as there are any; the others know their
    instants beforehand.

    Source: own design.
    """

    def __init__(self, workload: Workload, policy: SchedulerPolicy, seed: int) -> None:
        self.num_left = workload.num_requests
        self.num_refused = 0
        self.first_arrival_ps: int | None = None
        self._largest = policy.largest_request_tokens
        self._api_ps = policy.api_overhead_ps
        self._index = 0
        self._lengths: Iterator[tuple[int, int]] = draw_lengths(workload, seed)
        self._instants: Iterator[int] | None = None
        arrivals = workload.arrivals
        if isinstance(arrivals, ClosedLoop):
            self.ramp = max(arrivals.concurrency, workload.num_requests // 10)
            self._starts = arrivals.start_instants_ps(min(arrivals.concurrency, workload.num_requests))
        else:
            self.ramp = workload.num_requests // 10
            self._starts = []
            self._instants = draw_arrivals(workload, seed)

    @property
    def is_closed_loop(self) -> bool:
        return self._instants is None

    @property
    def num_sent(self) -> int:
        """Requests sent so far, refused ones included."""
        return self._index

    def begin(self, submit: Callable[[Request], None]) -> None:
        """Send the first request of every client of a closed loop."""
        for start_ps in self._starts:
            self.send(start_ps, submit)

    def send(self, now_ps: int, submit: Callable[[Request], None]) -> None:
        """Send a client's next request now; a refused one is followed by the next at once."""
        while self.num_left:
            request = self._next(now_ps)
            if request is not None:
                submit(request)
                return

    def open_loop(self) -> Iterator[Request]:
        """Requests of an open loop in order of arrival."""
        assert self._instants is not None
        for instant_ps in self._instants:
            if not self.num_left:
                return
            request = self._next(instant_ps)
            if request is not None:
                yield request

    def refill(self, requests: Iterator[Request], submit: Callable[[Request], None]) -> None:
        """Hand over the next requests of an open loop."""
        for _, request in zip(range(_BLOCK), requests, strict=False):
            submit(request)

    def _next(self, now_ps: int) -> Request | None:
        """The next request, sent now; None where it is refused."""
        self.num_left -= 1
        if self.first_arrival_ps is None:
            self.first_arrival_ps = now_ps
        index = self._index
        self._index = index + 1
        input_tokens, output_tokens = next(self._lengths)
        if self._largest is not None and input_tokens + output_tokens > self._largest:
            self.num_refused += 1
            return None
        return (now_ps + self._api_ps, index, input_tokens, output_tokens)
