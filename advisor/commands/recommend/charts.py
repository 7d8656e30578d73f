"""Drawings of a recommendation: cost against latency and load, one step, memory by part."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from advisor.catalog.units import GB, MILLISECOND_S
from advisor.decide.option import Option
from advisor.render.answer import Axis, Chart, Datum, Reference, Series
from advisor.render.numbers import layout_words, words_of

LEAST_LOAD_FRACTION: Final = 0.05
"""Lowest load of an option's curve, as a fraction of its highest: below it, nearly all cost is idle time."""
LOAD_POINTS: Final = 13
_MEMORY_PARTS: Final = {
    "weight_bytes": "weights",
    "activation_bytes": "activations",
    "runtime_bytes": "runtime",
    "kv_bytes": "KV cache",
}


def layout(option: Option) -> str:
    """Return the layout of an option in words."""
    return layout_words(option.replica_layout, option.machine.accelerator, option.replica_layout.num_replicas)


def short_layout(option: Option) -> str:
    """Return accelerators and layout as a short label of a point: `8 x h100-sxm TP8`."""
    degree = (
        f" TP{option.replica_layout.tensor_parallel}" if option.replica_layout.tensor_parallel > 1 else ""
    )
    return f"{option.machine.num_accelerators} x {option.machine.accelerator}{degree}"


def pareto_chart(options: Sequence[Option], *, is_in_terminal: bool = True) -> Chart:
    """Return the chart of options by cost and p99 TPOT; a terminal shows ranks as digits, other layouts as dots."""
    best = [datum for option in options if (datum := _cost_point(option, str(option.rank)[-1]))]
    others = [
        datum for option in options for variant in option.variants if (datum := _cost_point(variant, "."))
    ]
    known = [*best, *others]
    front = () if is_in_terminal else _front(known)
    series = [Series("best of each accelerator", tuple(best))]
    if others:
        series.append(Series("other layouts", tuple(others)))
    if len(front) > 1:
        series.append(Series("Pareto front", front, is_joined=True, is_muted=True))
    return Chart(
        "scatter",
        "Cost against latency",
        Axis("TPOT p99", "ms", "left is faster", is_log=True),
        Axis("USD per million tokens", "", "down is cheaper", is_log=True),
        tuple(series) if len(known) > 1 else (),
        "Each point is a deployment at its highest load within the objectives; whiskers are 80 % intervals of cost, "
        "the dashed line joins those that nothing beats in both",
        is_in_terminal=is_in_terminal,
    )


def _cost_point(option: Option, mark: str) -> Datum | None:
    tpot = option.served.tpot_s.get("p99")
    cost = option.served.usd_per_million_tokens
    if tpot is None or tpot.value <= 0 or cost.low <= 0:
        return None
    return Datum(tpot.value / MILLISECOND_S, cost.value, cost.low, cost.high, short_layout(option), mark)


def _front(points: Sequence[Datum]) -> tuple[Datum, ...]:
    """Return points that no other beats in both, from fast to cheap."""
    front: list[Datum] = []
    for point in sorted(points, key=lambda p: (p.x, p.y)):
        if not front or point.y < front[-1].y:
            front.append(Datum(point.x, point.y, label=point.label))
    return tuple(front)


def load_chart(options: Sequence[Option], asked_per_s: float | None) -> Chart:
    """Return the chart of cost per million tokens by load, per option: the same dollars over fewer tokens."""
    series = tuple(Series(layout(option), _load_curve(option)) for option in options)
    return Chart(
        "line",
        "Cost against load",
        Axis("load", "requests/s", is_log=True),
        Axis("cost", "$/Mtok", "idle time included", is_log=True),
        series,
        "A deployment costs the same at every load; each line ends at the highest load within the objectives",
        (Reference("x", asked_per_s, "asked"),) if asked_per_s else (),
        is_in_terminal=False,
    )


def _load_curve(option: Option) -> tuple[Datum, ...]:
    most = option.served.requests_per_s.value
    cost = option.served.usd_per_million_tokens.value
    if most <= 0 or cost <= 0:
        return ()
    loads = np.geomspace(most * LEAST_LOAD_FRACTION, most, LOAD_POINTS).tolist()
    return tuple(Datum(load, cost * most / load, label=layout(option)) for load in loads)


def step_chart(option: Option) -> Chart:
    """Return the chart of one decode step by part, longest first; the sum is the step."""
    parts = sorted(option.explained.step_s.items(), key=lambda item: -item[1])
    points = tuple(Datum(words_of(name), seconds / MILLISECOND_S) for name, seconds in parts)
    return Chart(
        "waterfall",
        f"One step of option {option.rank}: {layout(option)}",
        Axis("part"),
        Axis("time", "ms"),
        (Series("step", points),),
        f"A decode step with {option.served.mean_batch:.0f} sequences, the mean at this load; parts add up to the step",
        is_in_terminal=False,
    )


def memory_chart(options: Sequence[Option]) -> Chart:
    """Return the chart of an accelerator's memory by part, a row per option; what no part takes is free."""
    used = {
        part: tuple(option.explained.memory_bytes.get(part, 0.0) for option in options)
        for part in _MEMORY_PARTS
    }
    free = tuple(
        max(
            0.0,
            option.explained.memory_bytes.get("total_bytes", 0.0) - sum(sizes[i] for sizes in used.values()),
        )
        for i, option in enumerate(options)
    )
    names = [f"{option.rank} {option.machine.accelerator}" for option in options]
    series = [
        Series(
            name,
            tuple(Datum(n, size / GB) for n, size in zip(names, sizes, strict=True)),
            is_muted=name == "free",
        )
        for name, sizes in [*((_MEMORY_PARTS[part], sizes) for part, sizes in used.items()), ("free", free)]
        if max(sizes, default=0.0) > 0
    ]
    return Chart(
        "stacked",
        "Memory of one accelerator",
        Axis("option"),
        Axis("memory", "GB"),
        tuple(series),
        "What fills the memory of one accelerator of each option; the KV cache bounds how many requests run at once",
        is_in_terminal=False,
    )
