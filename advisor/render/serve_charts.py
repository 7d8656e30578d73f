"""Charts of a simulated serving run for pages: latencies of all requests, and what waits and runs over time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from advisor.catalog.units import MILLISECOND_S
from advisor.render.answer import Axis, Chart, Datum, Series
from advisor.render.chrome_trace import occupancy
from advisor.simulator.serving.metrics import Records

_POINTS: Final = 60
"""Points of a line: more cannot be told apart on a page."""
_PERCENTS: Final = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)


def serving_charts(records: Records) -> tuple[Chart, ...]:
    """Return the charts of a run that kept its records; none without a finished request."""
    if not len(records):
        return ()
    return latency_chart(records), requests_chart(records), cache_chart(records)


def latency_chart(records: Records) -> Chart:
    """Return the part of the requests that a latency does not exceed, for each latency."""
    rows = list(records.rows())
    series = []
    for name, column in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("end to end", "e2e_s")):
        values = sorted(value for row in rows if (value := row[column]) is not None and value > 0)
        if values:
            series.append(Series(name, tuple(_quantiles(values))))
    return Chart(
        "line",
        "Latency of the simulated requests",
        Axis("latency", "ms", "left is faster", is_log=True),
        Axis("requests that are not slower", "%"),
        tuple(series),
        "Each line says which part of the requests had at most this latency in the simulated run",
        is_in_terminal=False,
    )


def _quantiles(values: Sequence[float]) -> Iterable[Datum]:
    for percent in _PERCENTS:
        value = values[min(len(values) - 1, max(0, -(-len(values) * percent // 100) - 1))]
        yield Datum(value / MILLISECOND_S, float(percent), label=f"{percent} % of the requests")


def requests_chart(records: Records) -> Chart:
    """Return how many requests wait and how many run, over the time of the run."""
    states = list(occupancy(records))
    shown = _thin([time_s for time_s, _, _ in states])
    return Chart(
        "line",
        "Requests over time",
        Axis("time", "s"),
        Axis("requests"),
        (
            Series("waiting", tuple(Datum(states[i][0], float(states[i][1])) for i in shown)),
            Series("running", tuple(Datum(states[i][0], float(states[i][2])) for i in shown)),
        ),
        "Requests that wait for a place in a batch, and those whose tokens are computed; all replicas together",
        is_in_terminal=False,
    )


def cache_chart(records: Records) -> Chart:
    """Return the tokens that the running requests hold in the KV cache over time.

    Assumes: the prompt is cached when a request is admitted, and its output grows evenly until it is finished.
    """
    rows = [_residence(row) for row in records.rows()]
    first_s = min(row[0] for row in rows)
    last_s = max(row[1] for row in rows)
    times = [first_s + (last_s - first_s) * place / (_POINTS - 1) for place in range(_POINTS)]
    points = []
    for time_s in times:
        held = sum(
            prompt + output * (time_s - start_s) / (end_s - start_s)
            for start_s, end_s, prompt, output in rows
            if start_s <= time_s < end_s
        )
        points.append(Datum(time_s, held))
    return Chart(
        "line",
        "KV cache over time",
        Axis("time", "s"),
        Axis("cached tokens"),
        (Series("tokens of running requests", tuple(points)),),
        "Tokens that running requests hold in the KV cache, in all replicas; a shared prefix counts for each request",
        is_in_terminal=False,
    )


def _residence(row: Mapping[str, float | int | None]) -> tuple[float, float, float, float]:
    """Return from when to when a request is in the cache [s], with its prompt and its output [tokens]."""
    names = ("admitted_at_s", "finished_at_s", "input_tokens", "output_tokens")
    start_s, end_s, prompt, output = (float(row[name] or 0.0) for name in names)
    return start_s, end_s, prompt, output


def _thin(times: Sequence[float]) -> list[int]:
    """Return the places of at most `_POINTS` instants, evenly in time, the first and the last among them."""
    if len(times) <= _POINTS:
        return list(range(len(times)))
    span = times[-1] - times[0]
    kept: list[int] = []
    for place, time_s in enumerate(times):
        if not kept or time_s - times[0] >= len(kept) * span / (_POINTS - 1):
            kept.append(place)
    return kept if kept[-1] == len(times) - 1 else [*kept, len(times) - 1]
