"""What an engine does differently on some architectures, by release and by model: launches without graphs, kernels that
are not tuned yet, kernels chosen for a family."""

from dataclasses import replace

from advisor.catalog.schema import KernelChoice
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.terms import Case, find


def release_costs(
    deployment: Deployment, costs: EngineCosts, *, version: str = "", date: str = ""
) -> EngineCosts:
    """An engine's costs as its release has them on the deployment's accelerator, for its model.

    Assumes: kernels that are not tuned yet are slower by one factor whatever the batch; additional ones take the same
    time whatever the batch.
    Source: catalog/data/terms.csv.
    """
    engine = Case(deployment.engine.id, version, date, deployment.accelerator.architecture)
    launch = find("engine", "eager_launch_s", engine)
    if launch is not None and launch.name:
        costs = replace(costs, eager_launch_s=launch.value)
    scale, layers_s = 1.0, 0.0
    for group in deployment.model.layers:
        if group.mixer is not None:
            case = replace(engine, mixer=group.mixer.kind, dtype=deployment.weight_dtype)
            layer = find("engine", "layer_s", case)
            layers_s += group.count * (layer.value if layer else 0.0)
            slow = find("engine", "release_scale", case)
            scale = max(scale, slow.value if slow else 1.0)
    return replace(costs, release_scale=scale, release_layers_s=layers_s)


def chosen_kernels(deployment: Deployment) -> dict[str, str]:
    """Level of the records of efficiency by operator, where the engine runs other kernels for this model.

    Source: the engine's record.
    """
    chosen: dict[str, str] = {}
    for choice in deployment.engine.kernel_choices:
        if _applies(choice, deployment):
            for operator in choice.operators:
                chosen.setdefault(operator, choice.kernels)
    return chosen


def operator_library(deployment: Deployment) -> OperatorLibrary:
    """Time functions of the deployment's accelerator under its engine, with the kernels that the model gets.

    Source: own composition.
    """
    device = device_of(deployment.accelerator)
    return OperatorLibrary(device, deployment.engine.id, kernels=chosen_kernels(deployment))


def _applies(choice: KernelChoice, deployment: Deployment) -> bool:
    family = deployment.model.family
    return (
        deployment.accelerator.architecture in choice.architectures
        and (not choice.families or family in choice.families)
        and family not in choice.except_families
        and (not choice.weight_dtypes or deployment.weight_dtype in choice.weight_dtypes)
        and (deployment.engine.prefix_caching or not choice.needs_prefix_cache)
    )
