"""Response surface of a deployment: latencies, rates and cache use over load and lengths, from simulated runs.

Between its points a surface is interpolated on logarithmic scales, along the load in parts of what is carried.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.decide.offers import ROUNDING

LENGTH_FACTORS: Final = (0.5, 0.71, 1.0, 1.41, 2.0)
"""Mean lengths of the runs, over those of the question: equal steps on a logarithmic scale."""
_LARGEST_FACTORS: Final = (2.0, 1.41)
"""Factors that are tried as the largest, and inverted as the smallest: longer requests may not fit."""
LOAD_FRACTIONS: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9)
"""Request rates of the runs, over the rate that is carried. Nearer to it, latencies depend on the length of the run."""
_CLIENT_FRACTIONS: Final = (0.6, 0.75, 0.85, 0.92, 1.0, 1.1, 1.2, 1.35, 1.6)
"""Clients of the runs, over those whose requests run at once: denser where requests begin to wait for a place."""
_CLIENT_STEPS: Final = tuple(2.0 ** (step / 2.0) for step in range(-6, 5))
"""Clients of the runs, over those of the question."""
_LEAST_LOAD: Final = 0.1
_LARGEST_LOAD: Final = 1.2
NUM_SCALES: Final = 20
"""New runs that say how much each figure errs."""
NUM_CHECKS: Final = 39
"""New runs after them that say how much all err together. If settings are drawn alike, another run errs by no more than
the largest of n with a probability of n in n + 1 (split conformal prediction, Vovk et al. 2005, section 2.2): 97.5 %
for 39."""
_LEAST_ERROR: Final = 0.001
"""Error below which a figure counts as known no better."""
_NEARER_ENDS: Final = (0.75, 0.6)
_TOLERATED_LOG_ERROR: Final = 0.5
"""Error of a figure from which on the surface ends at a lower load: queues of conversations and of short runs swing."""
_MOST_TRIALS: Final = 40
_LOG_DIGITS: Final = 7
"""Decimals of a logarithm: a figure is known to a part in ten million, and a page stays small."""


@dataclass(frozen=True, slots=True)
class ServingSetting:
    """A load, and the mean lengths of its requests."""

    load: float
    """Requests per second, or clients."""
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of one run by name, all above zero, and how many requests it takes."""

    figures: Mapping[str, float]
    carried_per_s: float | None
    """Requests per second that are served under overload; None if the deployment keeps up."""
    batch: float
    """Mean number of requests that are served at once, in all replicas."""


Simulate = Callable[[ServingSetting], Outcome]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadSurface:
    """Logarithms of figures over load, mean prompt and mean output of one deployment."""

    is_rate: bool
    """Whether the load is a request rate; else it is a number of clients, and nothing is overloaded."""
    asked: ServingSetting
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    capacities: tuple[float, ...]
    """Load that is carried at each pair of lengths, outputs fastest: requests/s, or requests served at once."""
    loads: tuple[tuple[float, ...], ...]
    """Loads of the runs at each pair of lengths."""
    log_figures: Mapping[str, tuple[tuple[float, ...], ...]]
    """Natural logarithms of each figure at these loads."""
    largest_fraction: float
    """Load over what is carried at which the surface ends."""
    load_range: tuple[float, float]
    """Loads that a page offers."""
    errors: Mapping[str, float]
    """Part by which a figure of a new run may differ, for 19 of 20 settings."""
    num_checks: int = NUM_SCALES + NUM_CHECKS
    """New runs by which the errors are known."""


def build_surface(
    asked: ServingSetting, *, is_rate: bool, simulate: Simulate, seed: int, progress: Report
) -> LoadSurface:
    """Return the surface around a setting, with its error against new runs.

    Raises: AdvisorError: no figure exists at every point, or no load is carried.
    """
    inputs, outputs = _lengths(asked, simulate)
    pairs = list(itertools.product(inputs, outputs))
    capacities = []
    load = asked.load
    for place, pair in enumerate(pairs, start=1):
        progress(f"finding what is carried, lengths {place} of {len(pairs)}")
        load = (_capacity_per_s if is_rate else _capacity_clients)(ServingSetting(load, *pair), simulate)
        capacities.append(load)
    at_asked = capacities[pairs.index((asked.input_tokens, asked.output_tokens))]
    fraction = asked.load / at_asked
    if is_rate:
        low = _LEAST_LOAD * min(asked.load, at_asked)
        high = max(asked.load, _LARGEST_LOAD * max(capacities))
        end = LOAD_FRACTIONS[-1]
        fractions = {low / max(capacities), fraction, *LOAD_FRACTIONS}
        fractions = {each for each in fractions if low / max(capacities) <= each <= end}
    else:
        low = max(1.0, round(asked.load * _CLIENT_STEPS[0]))
        high = asked.load * _CLIENT_STEPS[-1]
        end = high / min(capacities)
        ends = (low / max(capacities), end)
        steps = {fraction * step for step in _CLIENT_STEPS}
        fractions = {*ends, *steps, *(each for each in _CLIENT_FRACTIONS if ends[0] < each < end)}
    loads = []
    runs: list[list[Mapping[str, float]]] = []
    for place, (pair, most) in enumerate(zip(pairs, capacities, strict=True), start=1):
        progress(f"simulating {len(fractions)} loads, lengths {place} of {len(pairs)}")
        tried = {each * most for each in fractions}
        tried = tried if is_rate else {float(max(1, round(each))) for each in tried}
        loads.append(tuple(sorted(tried)))
        runs.append([simulate(ServingSetting(each, *pair)).figures for each in loads[-1]])
    names = [name for name in runs[0][0] if all(name in run for row in runs for run in row)]
    if not names:
        raise AdvisorError(
            "no figure of this deployment exists at every load",
            why="a page that answers what-if questions interpolates between loads",
            fix="leave --what-if out, or more --requests",
        )
    logs = {
        name: tuple(tuple(round(math.log(run[name]), _LOG_DIGITS) for run in row) for row in runs)
        for name in names
    }
    surface = LoadSurface(
        is_rate, asked, inputs, outputs, tuple(capacities), tuple(loads), logs, end, (low, high), errors={}
    )
    return _with_errors(surface, simulate, seed, progress)


def _lengths(asked: ServingSetting, simulate: Simulate) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the mean prompts and outputs of the runs: half to double, or fewer where longer requests do not fit."""
    own = (asked.input_tokens, asked.output_tokens)
    for largest in _LARGEST_FACTORS:
        factors = [each for each in LENGTH_FACTORS if 1.0 / largest - 0.01 <= each <= largest]
        inputs, outputs = (tuple(sorted({max(1, round(n * each)) for each in factors})) for n in own)
        try:
            for pair in ((inputs[0], outputs[0]), (inputs[-1], outputs[-1])):
                simulate(ServingSetting(asked.load, *pair))
        except AdvisorError:
            continue
        return inputs, outputs
    return (own[0],), (own[1],)


def _capacity_per_s(setting: ServingSetting, simulate: Simulate) -> float:
    """Return the request rate that is served when more is sent."""
    rate = setting.load
    for _ in range(_MOST_TRIALS):
        found = simulate(replace(setting, load=rate))
        if found.carried_per_s is not None:
            return found.carried_per_s
        rate *= 1.5
    raise AdvisorError(
        "no request rate overloads this deployment",
        why="a page that answers what-if questions needs the rate that it carries",
        fix="more --requests, or --concurrency in place of --rate",
    )


def _capacity_clients(setting: ServingSetting, simulate: Simulate) -> float:
    """Return how many requests run at once when there are more clients."""
    clients = setting.load
    for _ in range(_MOST_TRIALS):
        batch = simulate(replace(setting, load=float(round(clients)))).batch
        if batch < clients / 1.5:
            break
        clients *= 2.0
    return batch


def estimate(surface: LoadSurface, setting: ServingSetting) -> dict[str, float] | None:
    """Return the figures of a setting; None where the load is beyond the surface.

    A load below the surface has the figures of the lowest one.
    """
    fraction = setting.load / capacity_at(surface, setting)
    if fraction > surface.largest_fraction * (1.0 + ROUNDING):
        return None
    points = [
        (length_weight * weight, pair, place)
        for length_weight, pair in _pairs(surface, setting)
        for weight, place in _bracket(surface.loads[pair], fraction * surface.capacities[pair])
    ]
    return {
        name: math.exp(sum(weight * logs[pair][place] for weight, pair, place in points))
        for name, logs in surface.log_figures.items()
    }


def capacity_at(surface: LoadSurface, setting: ServingSetting) -> float:
    """Return the load that is carried at the lengths of a setting."""
    return math.exp(
        sum(weight * math.log(surface.capacities[pair]) for weight, pair in _pairs(surface, setting))
    )


def _pairs(surface: LoadSurface, setting: ServingSetting) -> Iterator[tuple[float, int]]:
    """Yield the pairs of lengths around those of a setting, with their weights."""
    for weight, i in _bracket(surface.inputs, setting.input_tokens):
        for other, j in _bracket(surface.outputs, setting.output_tokens):
            yield weight * other, i * len(surface.outputs) + j


def _bracket(grid: Sequence[float], value: float) -> tuple[tuple[float, int], ...]:
    """Return the points of a grid around a value with their weights, on a logarithmic scale; its end beyond it."""
    inside = min(grid[-1], max(grid[0], value))
    above = next(place for place, each in enumerate(grid) if inside <= each)
    if above == 0:
        return ((1.0, 0),)
    part = math.log(inside / grid[above - 1]) / math.log(grid[above] / grid[above - 1])
    return ((1.0 - part, above - 1), (part, above))


def draw_setting(surface: LoadSurface, draw: random.Random) -> ServingSetting:
    """Return a setting that the surface answers: lengths at random on logarithmic scales, loads evenly to its end."""
    prompt, output = (
        round(grid[0] * (grid[-1] / grid[0]) ** draw.random()) for grid in (surface.inputs, surface.outputs)
    )
    most = surface.largest_fraction * capacity_at(surface, ServingSetting(1.0, prompt, output))
    low = min(surface.load_range[0], most)
    load = low + (min(most, surface.load_range[1]) - low) * draw.random()
    return ServingSetting(load if surface.is_rate else float(round(load)), prompt, output)


def _with_errors(surface: LoadSurface, simulate: Simulate, seed: int, progress: Report) -> LoadSurface:
    """Return the surface with the errors that hold for all figures of a setting together.

    The largest error of each figure in the first runs is its scale; the later runs say which multiple of all scales
    holds.
    """
    draw = random.Random(seed)
    asked = surface.asked.load / capacity_at(surface, surface.asked)
    ends = [each for each in _NEARER_ENDS if each >= asked] if surface.is_rate else []
    for end in (surface.largest_fraction, *ends):
        progress("learning how much each figure errs")
        surface = replace(surface, largest_fraction=end)
        tried = [log_errors(surface, draw_setting(surface, draw), simulate) for _ in range(NUM_SCALES)]
        scales = {name: max(_LEAST_ERROR, *(each[name] for each in tried)) for name in surface.log_figures}
        if max(scales.values()) <= _TOLERATED_LOG_ERROR:
            break
    multiple = 0.0
    for number in range(1, NUM_CHECKS + 1):
        progress(f"holding the surface against new run {number} of {NUM_CHECKS}")
        errors = log_errors(surface, draw_setting(surface, draw), simulate)
        multiple = max(multiple, *(errors[name] / scales[name] for name in scales))
    return replace(surface, errors={name: math.expm1(multiple * scale) for name, scale in scales.items()})


def log_errors(surface: LoadSurface, setting: ServingSetting, simulate: Simulate) -> dict[str, float]:
    """Return the error of each figure of a setting against a new run, as a logarithm; infinite if the run has none.

    Raises: ValueError: the surface does not answer the setting.
    """
    expected = estimate(surface, setting)
    if expected is None:
        raise ValueError(f"{setting} is beyond the surface")
    figures = simulate(setting).figures
    return {
        name: abs(math.log(figures[name] / value)) if name in figures else math.inf
        for name, value in expected.items()
    }
