"""Image encoders on accelerators of their own, as in encode/prefill/decode disaggregation."""

from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import MILLISECOND_S, PICOSECONDS_PER_S
from advisor.simulator.serving import Distribution, ServingResult, TraceArrivals, Workload
from advisor.simulator.serving.workload import draw_arrivals

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EncoderPool:
    """Encoders that take images one after the other; those of one request spread over the pool."""

    num_encoders: int
    image_s: float
    """Time to encode one image on one accelerator [s]."""
    images_per_request: int
    transfer_s: float
    """Time to send the embeddings of a request to the language model [s]."""

    @property
    def capacity_per_s(self) -> float:
        """Requests per second that keep every encoder busy."""
        return self.num_encoders / (self.image_s * self.images_per_request)

    def ready_s(self, arrivals_s: Seconds) -> Seconds:
        """Instants at which the embeddings of requests have arrived at the language model [s].

        Images queue in order of arrival for the first free encoder; a request is ready with its last image.

        Assumes: all images take equally long; a router without a queue of its own.
        Source: own formulation of a queue with several servers.
        """
        free = [0.0] * self.num_encoders
        heapify(free)
        ready = np.empty(len(arrivals_s))
        for index, arrived_s in enumerate(arrivals_s.tolist()):
            for _ in range(self.images_per_request):
                done_s = max(arrived_s, free[0]) + self.image_s
                heapreplace(free, done_s)
            ready[index] = done_s + self.transfer_s
        return ready


def behind_encoders(workload: Workload, pool: EncoderPool, seed: int) -> tuple[Workload, Seconds]:
    """Return the workload as the language model sees it, and how long each request waited for its images [s].

    Raises: InfeasibleError: requests come faster than their images can be encoded.
    Source: own composition.
    """
    instants = np.fromiter(draw_arrivals(workload, seed), np.int64, workload.num_requests)
    arrivals_s = instants / PICOSECONDS_PER_S
    sent_per_s = (len(arrivals_s) - 1) / (arrivals_s[-1] - arrivals_s[0]) if len(arrivals_s) > 1 else 0.0
    if sent_per_s > pool.capacity_per_s:
        needed = int(np.ceil(sent_per_s / pool.capacity_per_s * pool.num_encoders))
        raise InfeasibleError(
            f"a pool of {pool.num_encoders} for encoding takes {pool.capacity_per_s:.3g} requests/s, and "
            f"{sent_per_s:.3g} are sent",
            why=f"an image takes {pool.image_s / MILLISECOND_S:.3g} ms",
            fix=f"--encoder-gpus {needed}",
        )
    ready_s = pool.ready_s(arrivals_s)
    return replace(workload, arrivals=TraceArrivals(ready_s.tolist())), ready_s - arrivals_s


def with_encoding(result: ServingResult, waited_s: Seconds) -> ServingResult:
    """Return a run of the language model with the time for images added to first tokens and whole requests.

    Source: definition; a request has arrived before its images are encoded.
    """
    records = result.records
    assert records is not None, "the run keeps records"
    waited_ps = np.rint(waited_s[records.index] * PICOSECONDS_PER_S).astype(np.int64)
    arrived = records.arrived_ps - waited_ps
    first = Distribution()
    first.add(records.first_token_ps - arrived)
    whole = Distribution()
    whole.add(records.finished_ps - arrived)
    return replace(result, ttft=first, e2e=whole, records=None)
