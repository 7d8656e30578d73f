"""Workloads: arrivals, lengths and number of requests; and the stream of requests drawn from them."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError, whole
from advisor.simulator.serving.arrivals import Arrivals, ClosedLoop, TraceArrivals
from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.content import Contents, SharedPrefixes
from advisor.simulator.serving.lengths import EmpiricalLengths, LengthChunk, Lengths
from advisor.simulator.serving.metrics import Recorder
from advisor.simulator.serving.policy import UNLIMITED, SchedulerPolicy, Slo

AHEAD = 1024
"""Number of open-loop requests handed over at once."""
_ARRIVAL_STREAM = 0
_INPUT_STREAM = 1
_OUTPUT_STREAM = 2
_PREFIX_STREAM = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """Workload of `num_requests` requests with their arrivals and lengths, and the shared prefixes of their prompts."""

    arrivals: Arrivals
    lengths: Lengths
    num_requests: int
    contents: Contents | SharedPrefixes | None = None
    """Contents of the prompts; None: no two prompts share a prefix. Shared prefixes come before the drawn input."""

    def __post_init__(self) -> None:
        whole("num_requests", self.num_requests)
        if isinstance(self.arrivals, TraceArrivals) and self.num_requests > len(self.arrivals.times_s):
            raise AdvisorError(
                f"the trace holds {len(self.arrivals.times_s)} arrivals, not {self.num_requests}",
                fix=f"at most {len(self.arrivals.times_s)} requests",
            )
        lengths = self.lengths
        if (
            isinstance(lengths, EmpiricalLengths)
            and lengths.in_order
            and self.num_requests > len(lengths.pairs)
        ):
            raise AdvisorError(
                f"{len(lengths.pairs)} lengths replayed in order do not make {self.num_requests} requests",
                fix=f"at most {len(lengths.pairs)} requests, or in_order=False",
            )


def draw_requests(workload: Workload, seed: int) -> Iterator[tuple[int, int, int]]:
    """Yield (index, input tokens, output tokens) of the workload's requests in order of arrival.

    Inputs, outputs and arrivals have a random stream each: request i is the same whatever the rate.
    Source: own definition.
    """
    return chain.from_iterable(_number_lengths(workload, seed))


def _number_lengths(workload: Workload, seed: int) -> Iterator[Iterator[tuple[int, int, int]]]:
    start = 0
    for input_tokens, output_tokens in draw_length_chunks(workload, seed):
        count = min(len(input_tokens), workload.num_requests - start)
        end = start + count
        yield zip(
            range(start, end), input_tokens[:count].tolist(), output_tokens[:count].tolist(), strict=True
        )
        start = end
        if end == workload.num_requests:
            return


def draw_length_chunks(workload: Workload, seed: int) -> Iterator[LengthChunk]:
    """Yield input and output tokens of consecutive requests, in chunks that may reach beyond the last request.

    Source: own definition.
    """
    whole("the seed", seed, 0)
    prefix_tokens = workload.contents.num_tokens if isinstance(workload.contents, SharedPrefixes) else 0
    lengths = workload.lengths
    chunks = _drawn_lengths(lengths, seed)
    if not isinstance(lengths, EmpiricalLengths):
        # A search draws the same few requests repeatedly.
        chunks = chain((_first_chunk(lengths, seed),), islice(chunks, 1, None))
    return _behind(chunks, prefix_tokens) if prefix_tokens else chunks


def _behind(chunks: Iterator[LengthChunk], prefix_tokens: int) -> Iterator[LengthChunk]:
    for input_tokens, output_tokens in chunks:
        yield input_tokens + prefix_tokens, output_tokens


@lru_cache(maxsize=32)
def _first_chunk(lengths: Lengths, seed: int) -> LengthChunk:
    chunk = next(_drawn_lengths(lengths, seed))
    for tokens in chunk:
        tokens.flags.writeable = False
    return chunk


def _drawn_lengths(lengths: Lengths, seed: int) -> Iterator[LengthChunk]:
    return lengths.chunks(
        np.random.default_rng([seed, _INPUT_STREAM]), np.random.default_rng([seed, _OUTPUT_STREAM])
    )


def draw_arrivals(workload: Workload, seed: int) -> Iterator[int]:
    """Yield ascending arrival instants [ps] of an open-loop workload's requests.

    Source: own definition.
    """
    return chain.from_iterable(_arrival_lists(workload, seed))


def _arrival_lists(workload: Workload, seed: int) -> Iterator[list[int]]:
    left = workload.num_requests
    for instants in draw_arrival_chunks(workload, seed):
        yield instants[:left].tolist()
        left -= len(instants)
        if left <= 0:
            return


def draw_arrival_chunks(workload: Workload, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield ascending arrival instants [ps], in chunks that may reach beyond the last request.

    Source: own definition.
    """
    assert not isinstance(workload.arrivals, ClosedLoop)
    whole("the seed", seed, 0)
    return workload.arrivals.instants_ps(np.random.default_rng([seed, _ARRIVAL_STREAM]))


def draw_contents(workload: Workload, seed: int) -> Contents | None:
    """Return the contents of the workload's prompts; None if no two share a prefix.

    Source: own definition.
    """
    contents = workload.contents
    if not isinstance(contents, SharedPrefixes):
        return contents
    whole("the seed", seed, 0)
    return contents.draw(np.random.default_rng([seed, _PREFIX_STREAM]), workload.num_requests)


class Client:
    """Client side of a workload: sends requests in order of arrival, and counts those that no replica can hold as
    refused.

    A closed loop sends the next request when one has finished, as long as there are any; the others know their
    instants beforehand.
    """

    def __init__(
        self,
        workload: Workload,
        policy: SchedulerPolicy,
        seed: int,
        *,
        most_prompt_tokens: int = UNLIMITED,
        num_front_ends: int = 1,
    ) -> None:
        self.num_sent = 0
        """Number of requests sent so far, refused ones included."""
        self.num_refused = 0
        self._largest = policy.largest_request_tokens or UNLIMITED
        self._largest_prompt = min(policy.largest_prompt_tokens or UNLIMITED, most_prompt_tokens)
        self.ahead: deque[Request] = deque()
        """Requests drawn and not yet sent."""
        self.api_ps = policy.api_overhead_ps
        self._intake_ps = (
            policy.intake_ps // num_front_ends if isinstance(workload.arrivals, ClosedLoop) else 0
        )
        self._intake_free_ps = 0
        """Instant at which the front end has taken in all requests that were sent [ps]."""
        self.intake_waits: dict[int, int] = {}
        """Waits of requests under way before the front end took them in, by index [ps]; those without one are left
        out."""
        self._drawn = draw_requests(workload, seed)
        arrivals = workload.arrivals
        self.is_closed_loop = isinstance(arrivals, ClosedLoop)
        self.num_requests = workload.num_requests
        self.ramp = max(1, self.num_requests // 10)
        if isinstance(arrivals, ClosedLoop):
            self.ramp = arrivals.concurrency
            instants: Iterator[int] = iter(
                arrivals.start_instants_ps(min(arrivals.concurrency, workload.num_requests))
            )
        else:
            instants = draw_arrivals(workload, seed)
        self.first_arrival_ps = next(instants)
        self._instants = islice(chain((self.first_arrival_ps,), instants), workload.num_requests)
        """Arrivals that do not depend on completions: all of an open loop, the first ones of a closed loop [ps]."""

    def recorder(self, slo: Slo | None, *, keep: bool) -> Recorder:
        """Return the recorder of the outputs."""
        return Recorder(
            api_overhead_ps=self.api_ps,
            waits=self.intake_waits,
            slo=slo,
            keep=keep,
            num_expected=self.num_requests,
            ramp=self.ramp,
            full_from_ps=self.first_arrival_ps if self.is_closed_loop else None,
        )

    def send(self, now_ps: int, submit: Callable[[Request], object]) -> None:
        """Send a client's next request now, if there is one; after a refused request, send the next at once."""
        for index, input_tokens, output_tokens in self._drawn:
            self.num_sent = index + 1
            if input_tokens + output_tokens <= self._largest and input_tokens <= self._largest_prompt:
                taken_ps = now_ps
                if self._intake_ps:
                    if self._intake_free_ps > now_ps:
                        taken_ps = self._intake_free_ps
                        self.intake_waits[index] = taken_ps - now_ps
                    self._intake_free_ps = taken_ps + self._intake_ps
                submit((taken_ps + self.api_ps, index, input_tokens, output_tokens))
                return
            self.num_refused += 1

    def begin(self, submit: Callable[[Request], object]) -> None:
        """Send the first request of every client of a closed loop."""
        for instant_ps in self._instants:
            self.send(instant_ps, submit)

    def upcoming(self) -> list[Request]:
        """Return the next requests of an open loop in order of time, at least one if there is any."""
        found: list[Request] = []
        api_ps = self.api_ps
        largest = self._largest
        largest_prompt = self._largest_prompt
        while len(found) < AHEAD:
            drawn = list(islice(zip(self._drawn, self._instants, strict=False), AHEAD - len(found)))
            if not drawn:
                break
            before = len(found)
            found += [
                (instant_ps + api_ps, index, input_tokens, output_tokens)
                for (index, input_tokens, output_tokens), instant_ps in drawn
                if input_tokens + output_tokens <= largest and input_tokens <= largest_prompt
            ]
            self.num_sent = drawn[-1][0][0] + 1
            self.num_refused += len(drawn) - (len(found) - before)
        return found

    def arrivals(self) -> Iterator[Request]:
        """Yield the requests one after the other, with the instants at which they are sent."""
        ahead = self.ahead
        while True:
            if self.is_closed_loop:
                self.begin(ahead.append)
            else:
                ahead.extend(self.upcoming())
            if not ahead:
                return
            while ahead:
                seen_ps, index, input_tokens, output_tokens = ahead.popleft()
                yield seen_ps - self.api_ps, index, input_tokens, output_tokens
