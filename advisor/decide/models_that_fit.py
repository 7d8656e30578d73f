"""Models that a machine or a budget can serve: ranked by published quality, with their cost and speed."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import engines, models
from advisor.catalog.dtypes import GGUF_STEPS, bytes_per_element
from advisor.catalog.engines import weight_formats
from advisor.catalog.errors import AdvisorError
from advisor.catalog.model_quality import Quality, read_quality
from advisor.catalog.published import served_checkpoint, served_model
from advisor.catalog.schema import Accelerator, Model
from advisor.decide.bounds import too_long_a_prompt
from advisor.decide.candidates import cache_format
from advisor.decide.offers import OWN, market, placements
from advisor.decide.scenario import Scenario, context_window
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.intervals import with_interval
from advisor.simulator.layout import check_layout
from advisor.simulator.memory_account import MemoryAccount, account_memory
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.step_cost import decode_iteration_s

_SIZES: Final = (1, 2, 4, 8)
"""Numbers of accelerators that are tried together."""
_FORMATS: Final = (
    *("bf16", "fp8", "int8", "nvfp4", "mxfp4", "int4"),
    *(name for name in GGUF_STEPS if bytes_per_element(name) >= bytes_per_element("int4")),
)
"""Formats that are tried besides a model's own, the widest first. Below four bits the cost in quality is not small."""
_FLUENT_TOKENS_PER_S: Final = 20.0
"""Speed of an answer from which on a wider format is worth more than a faster one: twice reading. Own choice."""
_MOST_SPEEDS: Final = 40
"""Most models whose speed is computed."""
_MOST_MACHINES: Final = 20
"""Most machines and formats of a model whose speed is held against the objectives."""


@dataclass(frozen=True, slots=True)
class FittingMachine:
    """Accelerators of one kind that serve one replica."""

    accelerator: Accelerator
    count: int
    usd_per_hour: float
    """Price of the unit that is bought or, for hardware of one's own, its electricity [USD/h]."""
    provider: str


@dataclass(frozen=True, slots=True)
class FittingModel:
    """One model in the widest published format that the cheapest machine holds, or with which owned accelerators answer
    fluently."""

    model: Model
    machine: FittingMachine
    deployment: Deployment
    checkpoint: str
    memory: MemoryAccount
    quality: Quality | None
    """Published score; None if the catalog has no sourced one."""
    tokens_per_s: Quantity | None
    """Output tokens per second of one sequence; None if it was not computed."""


def models_that_fit(
    scenario: Scenario, most: int, *, in_time: bool = False
) -> tuple[tuple[FittingModel, ...], int]:
    """Return up to `most` models that serve one request of the traffic's longest length, the best first, and the number
    of all that do.

    Models with a published score come first, by that score; then the others, the newest first. With `in_time` those are
    left out that miss the objectives even for one request at a time.

    Raises: AdvisorError and its kinds: a name is not known, or nothing is for sale within the limits.
    """
    machines = machines_within(scenario)
    tokens = scenario.traffic.longest_request_tokens
    found = models_by_quality(scenario, machines)
    if not in_time:
        shown = (_most_fluent(one, machines, scenario) for one in found[: min(most, _MOST_SPEEDS)])
        return tuple(shown), len(found)
    kept = list[FittingModel]()
    for one in found[:_MOST_SPEEDS]:
        able = _that_hold(one.model, machines, scenario, tokens, one.quality)
        judged = (_with_speed(each, scenario) for each in itertools.islice(able, _MOST_MACHINES))
        kept += itertools.islice((each for each, is_in_time in judged if is_in_time), 1)
        if len(kept) == most:
            break
    return tuple(kept), len(found)


def _most_fluent(found: FittingModel, machines: Sequence[FittingMachine], scenario: Scenario) -> FittingModel:
    """Return a model, with its speed, as owned accelerators answer fastest with the most bits with which they answer
    fluently, or with any; on rented ones in the format that it has."""
    if found.machine.provider != OWN:
        return _with_speed(found, scenario)[0]
    tokens = scenario.traffic.longest_request_tokens
    able = _that_hold(found.model, machines, scenario, tokens, found.quality, widest_first=True)
    fastest = found
    for _, of_bits in itertools.groupby(able, key=lambda each: _whole_bits(each.deployment.weight_dtype)):
        fastest = max((fastest, *(_with_speed(each, scenario)[0] for each in of_bits)), key=_speed)
        if _speed(fastest) >= _FLUENT_TOKENS_PER_S:
            break
    return fastest


def _speed(found: FittingModel) -> float:
    return 0.0 if found.tokens_per_s is None else found.tokens_per_s.value


def _whole_bits(dtype: str) -> int:
    """Return the bits of an element in whole numbers: formats that differ by their scales alone are equally wide."""
    return round(8.0 * bytes_per_element(dtype))


def models_by_quality(scenario: Scenario, machines: Sequence[FittingMachine]) -> list[FittingModel]:
    """Return the models that hold one request of the traffic's longest length on one of the machines, the best first;
    each on the cheapest machine that holds it, of owned ones in the widest format that any holds, without its speed."""
    is_owned = all(machine.provider == OWN for machine in machines)
    tokens = scenario.traffic.longest_request_tokens
    scores = read_quality()
    found = []
    for model in models.all_models():
        if model.workload != "decoder" or not model.hf_ids:
            continue
        window = context_window(model)
        if window and tokens > window:
            continue
        able = _that_hold(model, machines, scenario, tokens, scores.get(model.id), widest_first=is_owned)
        held = next(able, None)
        if held is not None:
            found.append(held)
    found.sort(key=_place)
    return found


def _place(found: FittingModel) -> tuple[float, str, float, str]:
    """Return a sort key: score, then the date of release, then the size, each from the highest down."""
    score = found.quality.score_percent if found.quality else 0.0
    newest = "".join(chr(0x10FFFF - ord(sign)) for sign in found.model.released)
    return -score, newest, -parameter_count(found.model).total, found.model.id


def machines_within(scenario: Scenario) -> list[FittingMachine]:
    """Return the machines that are owned, or that the budget rents, the cheapest first."""
    return sorted(_machines(scenario), key=lambda machine: machine.usd_per_hour)


def _machines(scenario: Scenario) -> Iterator[FittingMachine]:
    offers, chips = market(scenario.constraints, scenario.as_of, scenario.calibration)
    budget = scenario.objectives.budget_usd_per_hour
    for name, prices in offers.items():
        chip = chips[name]
        if chip.memory_bytes is None or chip.unranked_reason:
            continue
        for size in _SIZES:
            ways = placements(size, prices, chip)
            cheapest = min(ways, key=lambda way: way.usd_per_unit_hour * way.min_units, default=None)
            if cheapest is None:
                continue
            usd = cheapest.usd_per_unit_hour * cheapest.min_units
            if budget is None or cheapest.price.provider == OWN or usd <= budget:
                yield FittingMachine(chip, size, usd, cheapest.price.provider)


def _that_hold(
    model: Model,
    machines: Iterable[FittingMachine],
    scenario: Scenario,
    tokens: int,
    quality: Quality | None,
    *,
    widest_first: bool = False,
) -> Iterator[FittingModel]:
    """Yield a model on each machine that holds it, in each published format that it holds there: by machine and then
    the widest format first, or with `widest_first` by the bits of the format and then machine."""
    parameters = parameter_count(model)
    formats = _formats(model, scenario)
    tried = list(itertools.product(machines, formats))
    if widest_first:
        tried.sort(key=lambda pair: -_whole_bits(pair[1]))
    for machine, dtype in tried:
        whole = (machine.accelerator.memory_bytes or 0.0) * machine.count
        if parameters.total * bytes_per_element(dtype) * 0.9 > whole:
            continue
        held = _deploy(model, machine, dtype, scenario, tokens)
        if held is not None:
            yield FittingModel(model, machine, *held, quality, None)


def _formats(model: Model, scenario: Scenario) -> tuple[str, ...]:
    """Return the formats to try, the widest first: none wider than the model's own."""
    if scenario.constraints.precisions:
        return scenario.constraints.precisions
    own = bytes_per_element(model.weights)
    others = [dtype for dtype in _FORMATS if bytes_per_element(dtype) <= own and dtype != model.weights]
    return model.weights, *others


def _deploy(
    model: Model, machine: FittingMachine, dtype: str, scenario: Scenario, tokens: int
) -> tuple[Deployment, str, MemoryAccount] | None:
    """Return a deployment that holds one request, with the checkpoint and its memory; None if there is none."""
    chip = machine.accelerator
    for name in chip.engines:
        engine = engines.by_id(name)
        if scenario.constraints.engines and name not in scenario.constraints.engines:
            continue
        if dtype not in weight_formats(engine, chip):
            continue
        served = served_checkpoint(model, engine, dtype, chip)
        if served.origin == "quantise first":
            continue
        own = served_model(model, engine, dtype, chip)
        cache = cache_format(scenario.constraints.kv_dtype, own, engine, chip)
        if not cache:
            continue
        for tp, pp in ((machine.count, 1), (1, machine.count)):
            deployment = Deployment(
                own,
                chip,
                engine,
                tensor_parallel=tp,
                pipeline_parallel=pp,
                weight_dtype=dtype,
                activation_dtype=activation_dtype_of(own, dtype, chip),
                kv_dtype=cache,
            )
            try:
                check_layout(deployment)
                memory = account_memory(deployment, tokens, 1)
            except (AdvisorError, KeyError):
                continue
            if memory.fits:
                return deployment, served.repository, memory
    return None


def _with_speed(found: FittingModel, scenario: Scenario) -> tuple[FittingModel, bool]:
    """Return the model with the speed of one sequence at the traffic's mean context, and whether a request that is
    alone meets the objectives."""
    traffic = scenario.traffic
    objectives = scenario.objectives
    try:
        replica = model_replica(
            found.deployment,
            # The longest request, for which memory was counted: windows then take the same part of the cache.
            mean_input_tokens=float(traffic.longest_request_tokens - traffic.mean_output_tokens),
            mean_output_tokens=float(traffic.mean_output_tokens),
            max_context_tokens=traffic.longest_request_tokens,
        )
        alone_s = decode_iteration_s(replica.surface, 1, traffic.mean_context_tokens)
        step_s = with_interval(alone_s, "tpot", class_of(replica), replica.basis)
        is_in_time = alone_s <= objectives.largest_tpot_s
        is_in_time = is_in_time and too_long_a_prompt(replica, traffic, objectives) is None
    except (AdvisorError, KeyError, ValueError):
        return found, False
    speed = Quantity(1.0 / step_s.value, 1.0 / step_s.high, 1.0 / step_s.low, step_s.basis)
    return replace(found, tokens_per_s=speed), is_in_time
