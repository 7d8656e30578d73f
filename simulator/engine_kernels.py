"""What an engine does differently on some architectures, by release and by model: launches without graphs, kernels that
are not tuned yet or overlap, kernels chosen for a family."""

from dataclasses import replace

from advisor.catalog.schema import KernelChoice, OperatorLaunches, ReleaseKernels
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.releases import belongs_to, is_before


def operator_launches(
    deployment: Deployment, *, version: str = "", date: str = ""
) -> OperatorLaunches | None:
    """How a release launches decode steps where it captures no graphs of them; None where it does as elsewhere.

    Source: the engine's record.
    """
    for launches in deployment.engine.operator_launches:
        ended = launches.until_version is not None and not is_before(
            version, date, launches.until_version, launches.until_date
        )
        if deployment.accelerator.architecture in launches.architectures and not ended:
            return launches
    return None


def release_costs(
    deployment: Deployment, costs: EngineCosts, *, version: str = "", date: str = ""
) -> EngineCosts:
    """An engine's costs as its record and its release have them on the deployment's accelerator.

    Assumes: kernels that are not tuned yet are slower by one factor whatever the batch; additional ones take, and
    overlapping ones save, the same time whatever the batch.
    Source: the engine's record.
    """
    if deployment.engine.eager_launch_s is not None:
        costs = replace(costs, eager_launch_s=deployment.engine.eager_launch_s)
    launches = operator_launches(deployment, version=version, date=date)
    if launches is not None:
        costs = replace(costs, eager_launch_s=launches.launch_s)
    for kernels in deployment.engine.release_kernels:
        layers = _num_layers(deployment, kernels)
        if layers and belongs_to(kernels, version=version, date=date):
            costs = replace(costs, release_scale=kernels.scale, release_layers_s=layers * kernels.layer_s)
    return costs


def _num_layers(deployment: Deployment, kernels: ReleaseKernels) -> int:
    """Layers of the model that run these kernels; 0 on other hardware and in other formats."""
    if (
        deployment.accelerator.architecture not in kernels.architectures
        or deployment.weight_dtype not in kernels.weight_dtypes
    ):
        return 0
    return sum(
        group.count
        for group in deployment.model.layers
        if group.mixer is not None and group.mixer.kind == kernels.mixer
    )


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


def latent_cache_dtype(deployment: Deployment, *, version: str = "", date: str = "") -> str:
    """Format by which a release's decode of latent attention is priced: the cache's own, or that of slower kernels.

    Source: the engine's record.
    """
    for kernels in deployment.engine.latent_cache_kernels:
        concerns = deployment.kv_dtype in kernels.kv_dtypes
        here = deployment.accelerator.architecture in kernels.architectures
        if concerns and here and belongs_to(kernels, version=version, date=date):
            return kernels.reads_as
    return deployment.kv_dtype


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
