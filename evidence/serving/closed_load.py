"""What the client of a published closed loop sent: how many requests, of which lengths, with which prompts."""

from typing import Final

from advisor.catalog.schema.recipe import BenchmarkRecipe
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.gpustack import constant_rate_per_s
from advisor.evidence.serving.lengths import lengths_of
from advisor.evidence.serving.own_machine import closed_loop_lengths
from advisor.evidence.serving.recipe import client_lengths, repeated_prompts
from advisor.evidence.serving.sglang_client import replayed_requests
from advisor.simulator.serving import ClosedLoop, TraceArrivals, Workload

_REQUESTS_PER_CLIENT: Final = 10
"""How many requests per concurrent client the usual benchmark client sends."""


def closed_workload(case: ServingCase, recipe: BenchmarkRecipe | None, seed: int) -> Workload:
    """The load of a closed loop, or of one whose rate is known although only what was in flight is published.

    Raises: AdvisorError: no tokens in or out.
    Source: the benchmarks' own clients, see catalog/data/recipes.toml, gpustack.py and sglang_client.py.
    """
    num_requests = _num_requests(case, recipe)
    rate_per_s = constant_rate_per_s(case)
    if rate_per_s is not None:
        arrivals = TraceArrivals([index / rate_per_s for index in range(num_requests)])
        return Workload(arrivals, lengths_of(case), num_requests)
    clients = ClosedLoop(case.concurrency or 1)
    replayed = replayed_requests(case)
    if replayed is not None:
        lengths, contents = replayed
        return Workload(clients, lengths, num_requests, contents)
    chosen = client_lengths(case, recipe) or closed_loop_lengths(case)
    if recipe is None or not recipe.distinct_prompts:
        return Workload(clients, chosen, num_requests)
    prompts = repeated_prompts(case, recipe.distinct_prompts, num_requests, seed)
    return Workload(clients, chosen, num_requests, prompts)


def _num_requests(case: ServingCase, recipe: BenchmarkRecipe | None) -> int:
    """Requests of a closed loop: those that are stated, those that its benchmark sends, else some per client."""
    if case.num_requests is None and recipe is not None and recipe.num_requests:
        return recipe.num_requests
    per_client = recipe.requests_per_client if recipe is not None else None
    clients = case.concurrency or 1
    return max(case.num_requests or (per_client or _REQUESTS_PER_CLIENT) * clients, clients)
