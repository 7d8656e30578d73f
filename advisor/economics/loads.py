"""The cost of a token when a deployment is used less than fully: the simulator runs it at fractions of its highest
load.
"""

import math

from advisor.catalog.units import DAY_S, HOUR_S, MILLION
from advisor.decide.load_runs import run_at
from advisor.decide.measure import SHORT_REQUESTS
from advisor.economics.question import CostQuestion
from advisor.economics.result import LoadPoint
from advisor.economics.row import Priced, prices_of, tokens_of
from advisor.simulator.serving import ServingResult

LOADS = (0.1, 0.25, 0.5, 0.75)
"""Parts of the highest load that are simulated; the highest itself was."""


def load_points(question: CostQuestion, priced: Priced) -> tuple[LoadPoint, ...]:
    """Return cost and latencies of a deployment at parts of its highest load, with the same bill.

    Source: simulator.serving at each load; the split of economics.token_split.
    """
    found = priced.plan.found
    traffic = question.scenario.traffic
    points = []
    for part in LOADS:
        load = part * found.capacity.load
        if traffic.concurrency is not None and load < 1.0:
            continue
        result = run_at(found.served, traffic, load, SHORT_REQUESTS, question.scenario.seed)
        served = load if traffic.concurrency is None else result.requests_per_s
        points.append(_point(question, priced, result, served))
    points.append(_point(question, priced, found.capacity.result, found.capacity.requests_per_s))
    return tuple(points)


def _point(question: CostQuestion, priced: Priced, result: ServingResult, requests_per_s: float) -> LoadPoint:
    """Return the whole deployment at a load of each of its replicas."""
    found = priced.plan.found
    row = priced.row
    tokens = tokens_of(question.scenario.traffic, result.prefix_hit_fraction or 0.0)
    total_per_s = requests_per_s * found.purchase.num_replicas
    per_request = row.usd_per_hour / (total_per_s * HOUR_S)
    prices = prices_of(priced.plan, row.option, result, requests_per_s, per_request, tokens)
    tpot = result.tpot.p99_s
    return LoadPoint(
        load_fraction=requests_per_s / found.capacity.requests_per_s,
        tokens_per_day=total_per_s * question.tokens_per_request * DAY_S,
        usd_per_million_tokens=per_request * MILLION / question.tokens_per_request,
        usd_per_million_input_tokens=prices.usd_per_million_input,
        usd_per_million_output_tokens=prices.usd_per_million_output,
        mean_batch=result.mean_batch,
        busy_fraction=result.busy_fraction,
        ttft_p99_s=result.ttft.p99_s,
        tpot_p99_s=tpot if math.isfinite(tpot) else None,
    )
