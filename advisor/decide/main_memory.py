"""Models that are too large for the accelerators that are there, with a part of their weights in main memory."""

from bisect import bisect_left
from typing import Final

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.engines import by_id as engine_by_id
from advisor.catalog.engines import split_release, weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import GB
from advisor.decide.scenario import Scenario, Traffic
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.host_layers import HostLayers, num_expert_layers
from advisor.simulator.replica_model import EngineSettings, replica_memory

_ENGINE: Final = "llama.cpp"
"""Engine that keeps layers, or their experts, in main memory and multiplies them there."""
_USUAL_FORMAT: Final = "q4_k_m"


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
    deployment = Deployment(
        model, accelerator, engine_by_id(_ENGINE), pipeline_parallel=count, weight_dtype=precision
    )
    if _holds(deployment, None, scenario.traffic):
        return ""
    fewest = _fewest_in_host(deployment, scenario.traffic)
    if fewest is None:
        return ""
    option, host = fewest
    held = parameter_count(host.model_on_accelerators(model)).total
    in_host = (parameter_count(model).total - held) * bytes_per_element(precision)
    stages = f" --pp {count}" if count > 1 else ""
    typed = f"--model {model.id} --gpu {name}{stages} --engine {_ENGINE} --precision {precision} {option}"
    command = f"advisor simulate serve {typed} --concurrency 1"
    return f"{_ENGINE} can keep {in_host / GB:.0f} GB of it in main memory: {command}"


def _fewest_in_host(deployment: Deployment, traffic: Traffic) -> tuple[str, HostLayers] | None:
    """Return the fewest experts, or layers, in main memory with which the accelerators hold the rest and a request, and
    how they are typed; None if they do not. Routed experts come first: a token reads few of them."""
    layers = sum(group.count for group in deployment.model.layers)
    with_experts = num_expert_layers(deployment.model)
    if with_experts:
        counts = range(layers - with_experts + 1, layers + 1)
        choices = [(f"--host-experts {each}", HostLayers(expert_layers=each)) for each in counts]
    else:
        choices = [(f"--gpu-layers {each}", HostLayers(gpu_layers=each)) for each in range(layers - 1, 0, -1)]
    place = bisect_left(choices, True, key=lambda choice: _holds(deployment, choice[1], traffic))
    return choices[place] if place < len(choices) else None


def _holds(deployment: Deployment, host: HostLayers | None, traffic: Traffic) -> bool:
    """Whether accelerators hold what is not in main memory, and the longest request.

    Source: `replica_memory`, as a simulation of it does.
    """
    longest = traffic.longest_request_tokens
    try:
        memory = replica_memory(deployment, EngineSettings(host=host), longest, traffic.mean_context_tokens)
    except InfeasibleError:
        return False
    return memory.kv_capacity_tokens >= longest
