"""Models that are too large for the accelerators that are there, with a part of their weights in main memory."""

import math
from typing import Final

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.engines import by_id as engine_by_id
from advisor.catalog.engines import split_release, weight_formats
from advisor.catalog.schema import Model
from advisor.catalog.units import GB
from advisor.decide.scenario import Scenario
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.host_layers import num_expert_layers, without_experts

_ENGINE: Final = "llama.cpp"
"""Engine that keeps layers, or their experts, in main memory and multiplies them there."""
_USUAL_FORMAT: Final = "q4_k_m"
_FOR_WEIGHTS: Final = 0.8
"""Part of the memory of accelerators that weights may take; the rest is for cache and buffers. Own choice."""


def main_memory_hint(scenario: Scenario, model: Model) -> str:
    """Return the command that computes a model with experts, or layers, in main memory on the accelerators that are
    there; empty where it cannot start so.

    Assumes: accelerators of one kind; layers in the order of llama.cpp, which keeps experts of the first ones there.
    """
    limits = scenario.constraints
    engines = [split_release(each)[0] for each in limits.engines]
    if len(limits.own) != 1 or (engines and _ENGINE not in engines):
        return ""
    count, name = limits.own[0]
    accelerator = accelerator_catalog.by_id(name)
    formats = weight_formats(engine_by_id(_ENGINE), accelerator)
    wanted = [*limits.precisions, *([] if limits.precisions else [model.weights, _USUAL_FORMAT])]
    precision = next((each for each in wanted if each in formats and bytes_per_element(each) < 1.5), "")
    if accelerator.unified_memory or not precision or not accelerator.memory_bytes:
        return ""
    each = bytes_per_element(precision)
    whole = parameter_count(model).total * each
    in_host = whole - _FOR_WEIGHTS * count * accelerator.memory_bytes
    if in_host <= 0.0:
        return ""
    option = _experts_or_layers(model, whole, each, in_host)
    if not option:
        return ""
    stages = f" --pp {count}" if count > 1 else ""
    typed = f"--model {model.id} --gpu {name}{stages} --engine {_ENGINE} --precision {precision} {option}"
    command = f"advisor simulate serve {typed} --concurrency 1"
    return f"{_ENGINE} can keep {in_host / GB:.0f} GB of it in main memory: {command}"


def _experts_or_layers(model: Model, whole: float, each: float, in_host: float) -> str:
    """Return the option that keeps `in_host` bytes of a model of `whole` bytes in main memory; empty if all of it would
    be there. Routed experts come first: a token reads few of them."""
    with_experts = num_expert_layers(model)
    if with_experts:
        experts = whole - parameter_count(without_experts(model, 0)).total * each
        number = math.ceil(with_experts * in_host / experts)
        dense = sum(group.count for group in model.layers) - with_experts
        return f"--host-experts {dense + number}" if number <= with_experts else ""
    layers = sum(group.count for group in model.layers)
    left = math.floor(layers * (1.0 - in_host / whole))
    return f"--gpu-layers {left}" if left >= 1 else ""
