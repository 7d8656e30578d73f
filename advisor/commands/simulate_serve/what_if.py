"""What-if data of a simulated deployment: a response surface over load and lengths, its figures, and its bill."""

import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.ask.own_data import kept_prices
from advisor.ask.traffic import traffic_of
from advisor.catalog.units import DAYS_PER_MONTH, HOUR_S, HOURS_PER_DAY, MILLION
from advisor.cli.notes import progress
from advisor.commands.simulate_serve.options import ServeInput
from advisor.commands.simulate_serve.surface import (
    LoadSurface,
    Outcome,
    ServingSetting,
    build_surface,
    capacity_at,
    estimate,
)
from advisor.decide.offers import cheapest_placement
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer
from advisor.render.html_controls import number, slider
from advisor.render.numbers import MISSING, TIME, digits, percent, show, usd
from advisor.simulator.deployment import Deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.overload import overload_of
from advisor.simulator.serving_prediction import ServingPrediction

_LOW: Final = " low"
_HIGH: Final = " high"
"""Ends of the name of the ends of a figure's 80 % interval."""
_TIMES: Final = (
    ("ttft_s", "time to first token"),
    ("tpot_s", "time per output token"),
    ("e2e_s", "end to end"),
)
_STATISTICS: Final = ("mean", "p99")
_RATES: Final = (("output_tokens_per_s", "output tokens/s"), ("requests_per_s", "requests/s"))
_CACHE: Final = (("kv_mean", "KV cache in use, mean"), ("kv_max", "KV cache in use, at most"))
_LABELS: Final = {
    **{f"{name} {part}": f"{words}, {part}" for name, words in _TIMES for part in _STATISTICS},
    **dict(_RATES),
    **dict(_CACHE),
}
_HEADERS: Final = ("figure", "value", "80 % interval", "page errs by at most")
_LARGEST_PRICE_FACTOR: Final = 100.0


@dataclass(frozen=True, slots=True)
class DeploymentPrice:
    """Price of a deployment when its page is opened."""

    usd_per_hour: float
    """Price of all replicas; 0 where no price is known."""
    words: str


def with_what_if(
    answer: Answer,
    asked: ServeInput,
    simulate: Callable[[ServeInput], tuple[ServingPrediction, ServingResult]],
    traffic: Traffic,
    price: DeploymentPrice,
    *,
    seed: int,
    quiet: bool,
) -> Answer:
    """Return the answer with what its page needs for other loads, lengths, prices and hours.

    Assumes: the load is no trace.
    Raises: AdvisorError: no load can be found that the deployment carries.
    """
    is_rate = traffic.concurrency is None
    load = traffic.rate_per_s if is_rate else traffic.concurrency
    assert load is not None
    # Typed lengths are those of a turn; the traffic of conversations counts what earlier turns said as well.
    turn = traffic_of(replace(asked.load, sessions=None, turn_gap=None))
    setting = ServingSetting(float(load), turn.mean_input_tokens, turn.mean_output_tokens)

    def run(each: ServingSetting) -> Outcome:
        sent = replace(
            asked.load,
            rate=repr(each.load) if is_rate else None,
            concurrency=None if is_rate else str(round(each.load)),
            input_tokens=each.input_tokens,
            output_tokens=each.output_tokens,
        )
        prediction, result = simulate(replace(asked, load=sent))
        overload = overload_of(result, each.load if is_rate else None)
        carried = None if overload is None else overload.served_per_s
        # Little's law: what is served at once is the rate times the time from a place in the batch to the last token.
        served = result.requests_per_s * (result.e2e.mean_s - result.queueing.mean_s)
        return Outcome(_figures(prediction, result), carried, served)

    with progress(quiet=quiet) as line:
        surface = build_surface(setting, is_rate=is_rate, simulate=run, seed=seed, progress=line)
    data = {
        "kind": "simulate",
        "about": (
            "Interpolated on this page between simulated runs of this deployment. "
            f"{price.words} Rented by the hour, it costs only the hours in which it runs."
        ),
        "controls": list(_controls(surface, price)),
        "headers": _HEADERS,
        "rows": list(_rows(surface, price.usd_per_hour)),
        "answer": _words(surface),
        "note": (
            "In 19 of 20 settings, all figures of a new run with the same seed and number of requests differ by no "
            f"more than the page errs by. This is known from {surface.num_checks} new runs at random loads and lengths "
            "in these ranges. The interval is the model's own error."
        ),
        "script": {"surface": surface, "labels": _LABELS},
    }
    return replace(answer, result={**answer.result, "what_if": data})


def price_of(deployment: Deployment, as_of: datetime.date, *, is_alike: bool) -> DeploymentPrice:
    """Return the price of a deployment: the cheapest on-demand offer that holds a replica, for each replica.

    `is_alike` is whether all replicas are those of the deployment.
    """
    best = None
    if is_alike:
        best = cheapest_placement(
            deployment, as_of, term="on_demand", provider=None, price_cache=kept_prices()
        )
    if best is None:
        return DeploymentPrice(0.0, "No price is known: type what the deployment costs an hour.")
    count = math.ceil(deployment.num_replicas / best.replicas_per_unit)
    offer = best.price
    return DeploymentPrice(
        count * best.usd_per_unit_hour,
        f"The price is that of {offer.provider}, on demand ({offer.read_words}).",
    )


def _figures(prediction: ServingPrediction, result: ServingResult) -> dict[str, float]:
    """Return the figures of a run that are above zero, with the ends of their intervals."""
    quantities: dict[str, Quantity] = {name: getattr(prediction, name) for name, _ in _RATES}
    for name, _ in _TIMES:
        times: Mapping[str, Quantity] = getattr(prediction, name)
        quantities |= {f"{name} {part}": times[part] for part in _STATISTICS if part in times}
    found = {name: each.value for name, each in quantities.items()}
    found |= {f"{name}{_LOW}": each.low for name, each in quantities.items()}
    found |= {f"{name}{_HIGH}": each.high for name, each in quantities.items()}
    if result.kv_capacity_tokens:
        found["kv_mean"] = result.mean_kv_tokens / result.kv_capacity_tokens
        found["kv_max"] = result.max_kv_tokens / result.kv_capacity_tokens
    return {name: value for name, value in found.items() if value > 0.0 and math.isfinite(value)}


def _controls(surface: LoadSurface, price: DeploymentPrice) -> Iterator[dict[str, object]]:
    asked = surface.asked
    what = "Load [requests/s]" if surface.is_rate else "Clients"
    yield slider("load", what, asked.load, *surface.load_range)
    for name, label, own, grid in (
        ("input", "Mean prompt [tokens]", asked.input_tokens, surface.inputs),
        ("output", "Mean output [tokens]", asked.output_tokens, surface.outputs),
    ):
        if len(grid) > 1:
            yield slider(name, label, own, grid[0], grid[-1])
    most = _LARGEST_PRICE_FACTOR * max(1.0, price.usd_per_hour)
    yield number("price", "Price of the deployment [$/h]", price.usd_per_hour, 0.0, most, 0.0)
    yield number("hours", "Hours a day [h]", HOURS_PER_DAY, 0.5, HOURS_PER_DAY, 0.5)


def _rows(surface: LoadSurface, usd_per_hour: float) -> Iterator[tuple[str, ...]]:
    """Yield the figures as asked, as the page shows them before its script runs."""
    found = estimate(surface, surface.asked)
    if found is None:
        return
    for name, label in _LABELS.items():
        if name in found:
            ends = [found.get(f"{name}{end}") for end in (_LOW, _HIGH)]
            span = MISSING if None in ends else " to ".join(_show(name, each) for each in ends)
            yield label, _show(name, found[name]), span, _error(surface, name)
    yield from _bill(found, usd_per_hour, _error(surface, "output_tokens_per_s"))


def _words(surface: LoadSurface) -> str:
    """Return the latencies and the rate as asked in a sentence."""
    found = estimate(surface, surface.asked)
    if found is None:
        capacity = capacity_at(surface, surface.asked)
        why = "less than" if surface.asked.load > capacity else "hardly more than"
        return f"This deployment carries about {digits(capacity)} requests/s: {why} was asked for."
    names = [name for name in ("ttft_s p99", "tpot_s p99", "output_tokens_per_s") if name in found]
    return f"As asked: {'; '.join(f'{_LABELS[name]} {_show(name, found[name])}' for name in names)}."


def _error(surface: LoadSurface, name: str) -> str:
    return f"{digits(100.0 * surface.errors[name], 2)} %"


def _bill(found: Mapping[str, float], usd_per_hour: float, error: str) -> Iterator[tuple[str, ...]]:
    if usd_per_hour <= 0.0:
        return
    yield "bill a month", usd(usd_per_hour * HOURS_PER_DAY * DAYS_PER_MONTH), MISSING, MISSING
    rate = "output_tokens_per_s"
    value, low, high = (
        usd_per_hour * MILLION / (HOUR_S * found[f"{rate}{end}"]) for end in ("", _HIGH, _LOW)
    )
    yield "$ per million output tokens", usd(value), f"{usd(low)} to {usd(high)}", error


def _show(name: str, value: float | None) -> str:
    if name.startswith("kv_"):
        return percent(value)
    return show(value, TIME) if " " in name else digits(value or 0.0)
