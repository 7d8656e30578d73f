"""Layouts that engines accept: heads, layers and experts must divide among accelerators."""

from dataclasses import replace
from typing import Final

from advisor.catalog.architectures import ClassLimit, class_lacks, class_of, output_of
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import check_parameters, is_moe, layers_of, num_layers, routed_layers

WIDEST_TENSOR_PARALLEL: Final = ASSUMED_ACCELERATORS_PER_NODE
"""Widest tensor parallelism that is tried for a serving replica: a wider one leaves most machines, and divides few
models' heads of keys. One that is asked for is simulated."""
OTHER_WORK = {"encoder": "embed", "diffusion": "diffusion", "speech": "speech"}


def check_generates(model: Model) -> None:
    """Refuse models without text output (encoders, images, speech), and models that do not write token after token.

    Raises: AdvisorError: the model's record says that it does something else.
    Source: Model.workload; data/support/model_classes.csv.
    """
    if model.workload in OTHER_WORK:
        work = OTHER_WORK[model.workload]
        raise AdvisorError(
            f"{model.id} answers with no text",
            why=f"its record says {model.workload}",
            fix=f"advisor recommend --workload {work}, or advisor simulate {work}",
        )
    output = output_of(model)
    if output == "blocks":
        raise AdvisorError(
            f"{model.id} writes blocks of tokens by diffusion, not one token after the other",
            why="no model of such passes was fitted, and a price per token would be that of another kind of model",
            fix="--model with an autoregressive model, or --workload train",
        )
    if output == "nothing":
        raise AdvisorError(
            f"{model.id} answers with no text",
            why=f"its class is {class_of(model)}",
            fix="a checkpoint whose class ends in ForCausalLM or ForConditionalGeneration",
        )


def check_layout(deployment: Deployment) -> None:
    """Refuse layouts that the engines refuse, with the nearest valid one as the hint.

    Raises: InfeasibleError: heads, layers or experts do not divide, or expert parallelism on a dense model.
    AdvisorError: the model's record contradicts itself.
    Source: vLLM 0.20.2, config/model.py (heads); data/support/class_limits.csv; own rules for pipelines and experts.
    """
    model = deployment.model
    tp = deployment.tensor_parallel
    ep = deployment.expert_parallel
    check_parameters(model)
    for degree, name in (
        (tp, "tensor"),
        (deployment.pipeline_parallel, "pipeline"),
        (deployment.data_parallel, "data"),
        (ep, "expert"),
    ):
        if degree < 1:
            raise InfeasibleError(f"{name} parallelism must be at least 1, not {degree}")
    refused = refused_heads(model, tp)
    if refused:
        valid = max(degree for degree in range(1, tp) if not refused_heads(model, degree))
        raise InfeasibleError(
            f"{model.id}: {refused} do not divide among tensor parallelism {tp}", fix=f"--tp {valid}"
        )
    degrees: tuple[tuple[int, ClassLimit, str], ...] = (
        (tp, "tensor", f"--pp {tp} without --tp, or another --engine"),
        (deployment.pipeline_parallel, "pipeline", "--tp without --pp, or another --engine"),
    )
    for degree, kind, fix in degrees:
        if degree > 1 and (lack := class_lacks(deployment.engine, model, kind)):
            raise InfeasibleError(f"{model.id}: {lack}", fix=fix)
    if deployment.engine.holds_layers_in_turn and tp > 1 and deployment.pipeline_parallel > 1:
        raise InfeasibleError(
            f"{deployment.engine.name} takes no tensor and pipeline parallelism together",
            why="its accelerators hold parts of every layer, or whole layers in turn",
            fix=f"--pp {tp * deployment.pipeline_parallel} without --tp, or --tp without --pp",
        )
    layers = num_layers(model)
    if deployment.pipeline_parallel > layers:
        raise InfeasibleError(
            f"{model.id}: {deployment.pipeline_parallel} pipeline stages for {layers} layers",
            fix=f"--pp {layers}",
        )
    if ep > 1 and not is_moe(model):
        raise InfeasibleError(
            f"{model.id} has no experts, so expert parallelism {ep} means nothing", fix="--ep 1"
        )
    _check_expert_parallel(deployment)


def with_copies(deployment: Deployment) -> Deployment:
    """Return the deployment with as many redundant experts as make the slots divide among the ranks; it could not
    start without.

    Source: own arithmetic.
    """
    parts = [experts for _, experts in routed_layers(deployment.model)]
    missing = -parts[0].num_experts % max(1, deployment.expert_parallel) if parts else 0
    return replace(deployment, redundant_experts=missing)


def _check_expert_parallel(deployment: Deployment) -> None:
    model = deployment.model
    ranks = deployment.ranks_per_stage
    ep = deployment.expert_parallel
    experts = {part.num_experts for _, part in routed_layers(model)}
    slots = {number: deployment.expert_slots(number) for number in experts}
    uneven = sorted(number for number in experts if slots[number] % ep)
    if ranks % ep == 0 and not uneven:
        return
    valid = max(
        d for d in range(1, ep) if ranks % d == 0 and not any(slots[number] % d for number in experts)
    )
    raise InfeasibleError(
        f"expert parallelism {ep} does not divide the {ranks} accelerators of a stage"
        if ranks % ep
        else f"{model.id}: {uneven[0]} experts do not divide among expert parallelism {ep}",
        fix=f"--ep {valid}",
    )


def refused_heads(model: Model, tensor_parallel: int) -> str:
    """Return the heads that keep an engine from starting at this degree, as a phrase; empty if none do.

    Source: MixerOperators.refused_heads of each layer.
    """
    refused = (
        layer.mixer.refused_heads(tensor_parallel) for layer in layers_of(model) if layer.mixer is not None
    )
    return next(filter(None, refused), "")
