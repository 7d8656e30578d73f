"""Requests of two priorities as typed: their ranks, and the latencies of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.render.answer import Table, columns
from advisor.render.numbers import TIME, show_quantity
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import Distribution, ServingResult
from advisor.simulator.serving.metrics import IntColumn
from advisor.simulator.serving.ordered_queue import Rank
from advisor.simulator.serving_prediction import predict_serving

_STREAM: Final = 4
"""Number of the random stream that draws priorities; arrivals, lengths and prefixes have others."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of the requests of one priority."""

    requests: str
    num_finished: int
    num_preemptions: int
    ttft_s: dict[str, Quantity]
    tpot_s: dict[str, Quantity]
    e2e_s: dict[str, Quantity]


def draw_ranks(part: float, num_requests: int, seed: int) -> list[int]:
    """Return the rank of each request by its index: 0 for a random `part` of them, 1 for the others."""
    drawn = np.random.default_rng([seed, _STREAM]).random(num_requests)
    ranks: list[int] = (drawn >= part).astype(int).tolist()
    return ranks


def rank_by(ranks: Sequence[int]) -> Rank:
    """Return the rule that ranks a request by its index."""
    return lambda request: ranks[request[1]]


def by_priority(result: ServingResult, ranks: Sequence[int], replica: ReplicaModel) -> tuple[Latencies, ...]:
    """Return the latencies of urgent requests and of the others, those of them that finished.

    Raises: AdvisorError: records were not kept.
    """
    records = result.records
    if records is None:
        raise AdvisorError(
            "latencies by priority need the records of one run", fix="--seed instead of --seeds"
        )
    of_request = np.asarray(ranks)[records.index]
    found = []
    for rank, name in enumerate(("urgent", "others")):
        chosen = of_request == rank
        if not chosen.any():
            continue
        first = records.first_token_ps[chosen]
        end = records.finished_ps[chosen]
        arrived = records.arrived_ps[chosen]
        outputs = records.output_tokens[chosen]
        several = outputs > 1
        apart = replace(
            result,
            ttft=_distribution_of(first - arrived),
            e2e=_distribution_of(end - arrived),
            tpot=_distribution_of((end - first)[several] // (outputs[several] - 1)),
        )
        predicted = predict_serving(apart, replica)
        preemptions = int(records.num_preemptions[chosen].sum())
        found.append(
            Latencies(
                name,
                int(chosen.sum()),
                preemptions,
                dict(predicted.ttft_s),
                dict(predicted.tpot_s),
                dict(predicted.e2e_s),
            )
        )
    return tuple(found)


def _distribution_of(times_ps: IntColumn) -> Distribution:
    found = Distribution()
    found.add(times_ps)
    return found


def priority_table(found: Sequence[Latencies]) -> Table:
    """Return one row for each priority."""
    rows = tuple(
        (
            each.requests,
            f"{each.num_finished:,}",
            f"{each.num_preemptions:,}",
            show_quantity(each.ttft_s.get("p50"), TIME),
            show_quantity(each.ttft_s.get("p99"), TIME),
            show_quantity(each.tpot_s.get("mean"), TIME),
        )
        for each in found
    )
    header = columns("requests", "number", "preempted", "TTFT p50", "TTFT p99", "TPOT mean")
    return Table(header, rows)
