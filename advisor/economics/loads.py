"""What a token costs when a deployment is used less than fully: the simulator runs it at parts of its highest load."""

import math

from advisor.catalog.units import HOUR_S, HOURS_PER_DAY, MILLION
from advisor.decide.load_runs import run_at
from advisor.decide.measure import SHORT_REQUESTS
from advisor.economics.market import Market
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostRow, LoadPoint
from advisor.economics.rows import split_prices, tokens_of
from advisor.simulator.serving import ServingResult

LOADS = (0.1, 0.25, 0.5, 0.75)
"""Parts of the highest load that are simulated; the highest itself was."""


def load_points(question: CostQuestion, market: Market, row: CostRow) -> tuple[LoadPoint, ...]:
    """Cost and latencies of a deployment at parts of its highest load, the bill staying the same.

    Source: simulator.serving at each load; the split of cost.token_split.
    """
    found = market.found_of(row)
    traffic = question.scenario.traffic
    points = []
    for part in LOADS:
        load = part * found.capacity.load
        if traffic.concurrency is not None and load < 1.0:
            continue
        result = run_at(found.replica, traffic, load, SHORT_REQUESTS, question.scenario.seed)
        served = load if traffic.concurrency is None else result.requests_per_s
        points.append(_point(question, market, row, result, served))
    points.append(_point(question, market, row, found.capacity.result, found.capacity.requests_per_s))
    return tuple(points)


def _point(
    question: CostQuestion, market: Market, row: CostRow, result: ServingResult, requests_per_s: float
) -> LoadPoint:
    """The whole deployment at a load of each of its replicas."""
    found = market.found_of(row)
    tokens = tokens_of(question.scenario.traffic, result.prefix_hit_fraction or 0.0)
    total_per_s = requests_per_s * row.num_replicas
    per_request = row.usd_per_hour / (total_per_s * HOUR_S)
    prices = split_prices(found.replica, result, requests_per_s, per_request, tokens)
    tpot = result.tpot.p99_s
    return LoadPoint(
        load_fraction=requests_per_s / found.capacity.requests_per_s,
        tokens_per_day=total_per_s * (tokens.input + tokens.output) * HOURS_PER_DAY * HOUR_S,
        usd_per_million_tokens=per_request * MILLION / (tokens.input + tokens.output),
        usd_per_million_input_tokens=prices.usd_per_million_input,
        usd_per_million_output_tokens=prices.usd_per_million_output,
        mean_batch=result.mean_batch,
        busy_fraction=result.busy_fraction,
        ttft_p99_s=result.ttft.p99_s,
        tpot_p99_s=tpot if math.isfinite(tpot) else None,
    )
