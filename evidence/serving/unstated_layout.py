"""Runs whose layout was not published: the smallest replicas that are useful, as many as there is room for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.isolated import Measured
from advisor.simulator.replica_model import ReplicaModel

_LEAST_SEQUENCES: Final = 32
"""Requests that the cache of a replica must hold before a submitter would call a layout good."""
_RATES: Final = ("output_tok_s", "total_tok_s", "req_s", "prefill_tok_s")


def layouts_of(case: ServingCase) -> list[ServingCase]:
    """A case for every tensor parallelism that divides its accelerators, the smallest first.

    Source: own definition.
    """
    degrees = [tp for tp in (1, 2, 4, 8, 16, 32, 64) if case.num_gpus % tp == 0]
    return [replace(case, tp=tp) for tp in degrees]


def smallest_layout(
    case: ServingCase, replica_of: Callable[[ServingCase], ReplicaModel]
) -> tuple[ServingCase, ReplicaModel]:
    """The smallest replica that holds the weights and a useful number of requests, as a case and as a model.

    Assumes: submitters of throughput runs divide a model no further than they must.
    Raises: InfeasibleError: no layout fits.
    Source: own definition; MLPerf Inference v5.1 submissions of Llama-2-70B run so.
    """
    tried: list[tuple[int, ServingCase, ReplicaModel]] = []
    refused: InfeasibleError | None = None
    for layout in layouts_of(case):
        try:
            replica = replica_of(layout)
        except InfeasibleError as error:
            refused = error
            continue
        room = replica.memory.kv_capacity_tokens // max(1, case.isl + case.osl)
        if room >= _LEAST_SEQUENCES:
            return layout, replica
        tried.append((room, layout, replica))
    if not tried:
        raise refused or InfeasibleError(f"{case.case_id}: no layout fits")
    return max(tried, key=lambda entry: entry[0])[1:]


def share_of(case: ServingCase, num_replicas: int) -> ServingCase:
    """The load of one of equal replicas.

    Assumes: requests are dealt out evenly.
    Source: own definition.
    """

    def part(number: int | None) -> int | None:
        return None if number is None else max(1, round(number / num_replicas))

    rate = None if case.request_rate is None else case.request_rate / num_replicas
    return replace(
        case,
        concurrency=part(case.concurrency),
        num_requests=part(case.num_requests),
        request_rate=rate,
    )


def of_all_replicas(measured: Measured, num_replicas: int) -> Measured:
    """Columns of one replica as those of all together: rates add up, latencies stay.

    Source: definition.
    """
    values, num_samples = measured
    return {
        name: value * num_replicas if name in _RATES else value for name, value in values.items()
    }, num_samples * num_replicas
