"""Simulated runs in the trace event format that Perfetto and chrome://tracing open.

Source of the format: "Trace Event Format", Google, 2016; complete events (X), counters (C) and names (M), times in µs.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from advisor.catalog.units import MICROSECOND_S
from advisor.simulator.serving.metrics import Records
from advisor.simulator.training.pipeline import PipelineRun

Event = dict[str, Any]
_REQUESTS: Final = 1
_STATE: Final = 2
_STEP: Final = 1
_STAGES: Final = 2
_DECIMALS: Final = 3
"""Digits behind the point of a time [µs]: nanoseconds."""


def trace_text(events: Iterable[Event], about: Mapping[str, object]) -> str:
    """Return a trace file: its events, and what was simulated as metadata."""
    content = {"displayTimeUnit": "ms", "otherData": dict(about), "traceEvents": list(events)}
    return json.dumps(content, allow_nan=False) + "\n"


def serving_events(records: Records) -> Iterator[Event]:
    """Yield the requests of a run: queue, prefill and decode of each on a row of its own, and how many wait and run.

    A row is free again when its request is finished, so there are as many rows as requests at once.
    """
    yield from _names(_REQUESTS, "requests")
    yield from _names(_STATE, "state")
    rows = sorted(records.rows(), key=lambda row: (_at(row, "arrived_at_s"), _at(row, "request")))
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    num_rows = 0
    for row in rows:
        while busy and busy[0][0] <= _at(row, "arrived_at_s"):
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            num_rows += 1
            heapq.heappush(free, num_rows)
        place = heapq.heappop(free)
        heapq.heappush(busy, (_at(row, "finished_at_s"), place))
        yield from _request(row, place)
    yield from (_counter(time_s, waiting, running) for time_s, waiting, running in occupancy(records))


def _request(row: Mapping[str, float | int | None], place: int) -> Iterator[Event]:
    facts = {name: row[name] for name in ("request", "input_tokens", "output_tokens", "num_preemptions")}
    instants = [_at(row, f"{name}_at_s") for name in ("arrived", "admitted", "first_token", "finished")]
    for name, start_s, end_s in zip(("queue", "prefill", "decode"), instants, instants[1:], strict=False):
        if end_s > start_s:
            yield _slice(name, _REQUESTS, place, start_s, end_s, facts)


def occupancy(records: Records) -> Iterator[tuple[float, int, int]]:
    """Yield the number of requests that wait and that run after each change, by time [s]."""
    changes: list[tuple[float, int, int]] = []
    for row in records.rows():
        changes.append((_at(row, "arrived_at_s"), 1, 0))
        changes.append((_at(row, "admitted_at_s"), -1, 1))
        changes.append((_at(row, "finished_at_s"), 0, -1))
    waiting = 0
    running = 0
    changes.sort(key=lambda change: change[0])
    for place, (time_s, more_waiting, more_running) in enumerate(changes):
        waiting += more_waiting
        running += more_running
        if place + 1 == len(changes) or changes[place + 1][0] > time_s:
            yield time_s, waiting, running


def _at(row: Mapping[str, float | int | None], name: str) -> float:
    value = row[name]
    assert value is not None
    return float(value)


def _counter(time_s: float, waiting: int, running: int) -> Event:
    return {
        "name": "requests",
        "ph": "C",
        "pid": _STATE,
        "ts": _us(time_s),
        "args": {"waiting": waiting, "running": running},
    }


def training_events(breakdown_s: Mapping[str, float], pipeline: PipelineRun | None) -> Iterator[Event]:
    """Yield one optimizer step: its parts one after the other, and the passes of every pipeline stage."""
    yield from _names(_STEP, "one step, by part")
    start_s = 0.0
    for name, seconds in breakdown_s.items():
        if seconds > 0.0:
            yield _slice(name.replace("_", " "), _STEP, 1, start_s, start_s + seconds, {"seconds": seconds})
            start_s += seconds
    if pipeline is None:
        return
    yield from _names(_STAGES, f"pipeline, {pipeline.schedule}")
    for number, stage in enumerate(pipeline.slots):
        for slot in stage:
            share_s = (slot.end_at_s - slot.start_at_s) / len(slot.passes)
            for place, step in enumerate(slot.passes):
                begins_s = slot.start_at_s + place * share_s
                facts = {"micro_batch": step.micro_batch}
                name = f"{step.kind.name.lower()} {step.micro_batch}"
                yield _slice(name, _STAGES, number, begins_s, begins_s + share_s, facts)


def _names(process: int, name: str) -> Iterator[Event]:
    yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}


def _slice(
    name: str, process: int, row: int, start_s: float, end_s: float, facts: Mapping[str, object]
) -> Event:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": row,
        "ts": _us(start_s),
        "dur": _us(end_s - start_s),
        "args": dict(facts),
    }


def _us(seconds: float) -> float:
    return round(seconds / MICROSECOND_S, _DECIMALS)
