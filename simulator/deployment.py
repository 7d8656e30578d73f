"""One way to run one model on some accelerators: the layout that everything else prices."""

from dataclasses import dataclass, replace
from typing import Any

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import (
    Accelerator,
    Engine,
    GatedDeltaNet,
    GroupedQueryAttention,
    LayerGroup,
    Model,
    MoeFeedForward,
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """`num_replicas` equal replicas of a model; a replica uses tp × pp × dp accelerators.

    `data_parallel` is attention data parallelism inside a replica (1 for dense models); `expert_parallel` divides
    the same accelerators among experts, the remaining factor tp × dp / ep splits each expert.
    """

    model: Model
    accelerator: Accelerator
    engine: Engine
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: int = 1
    num_replicas: int = 1
    weight_dtype: str = "bf16"
    activation_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    is_calibrated: bool = False
    """Whether the accelerator's figures are those measured on one machine."""
    redundant_experts: int = 0
    """Further copies of experts, so that slots divide among ranks and loads even out (expert load balancers)."""

    @property
    def accelerators_per_replica(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def num_accelerators(self) -> int:
        return self.accelerators_per_replica * self.num_replicas

    @property
    def ranks_per_stage(self) -> int:
        """Accelerators that share the layers of one pipeline stage."""
        return self.tensor_parallel * self.data_parallel

    @property
    def expert_tensor_parallel(self) -> int:
        return self.ranks_per_stage // self.expert_parallel

    def expert_slots(self, num_experts: int) -> int:
        """Places for experts on all ranks together, copies included."""
        return num_experts + self.redundant_experts

    def with_replicas(self, num_replicas: int) -> "Deployment":
        return replace(self, num_replicas=num_replicas)


def named_deployment(
    model: str, accelerator: str, engine: str = "vllm", *, weight_dtype: str | None = None, **layout: Any
) -> Deployment:
    """A deployment of catalog records, by the names that people type.

    Weights are in the published checkpoint's format unless said otherwise, activations in what goes with it;
    `layout` sets the other fields of Deployment.

    Raises: UnknownNameError: no record, or several, are called so.
    Source: own definition.
    """
    chosen, chip = models.get(model).record, accelerators.get(accelerator).record
    weights = weight_dtype or chosen.weights
    return Deployment(
        model=chosen,
        accelerator=chip,
        engine=engines.get(engine).record,
        weight_dtype=weights,
        activation_dtype=activation_dtype_for(weights, chip),
        **layout,
    )


def is_moe(model: Model) -> bool:
    """Whether any layer routes tokens to experts."""
    return any(isinstance(group.feed_forward, MoeFeedForward) for group in model.layers)


def routed_experts(model: Model) -> tuple[MoeFeedForward, ...]:
    """The feed-forward parts with routed experts, one per group of layers."""
    parts = (group.feed_forward for group in model.layers)
    return tuple(part for part in parts if isinstance(part, MoeFeedForward))


def num_experts(model: Model) -> int:
    """Routed experts of a layer, of the one with most; 0 for a dense model. Source: own definition."""
    return max((part.num_experts for part in routed_experts(model)), default=0)


def moe_layers(model: Model) -> tuple[LayerGroup, ...]:
    """The layer groups with routed experts."""
    return tuple(group for group in model.layers if isinstance(group.feed_forward, MoeFeedForward))


def activation_dtype_for(weight_dtype: str, accelerator: Accelerator) -> str:
    """Number format of activations that goes with a weight format on a chip.

    fp8 weights multiply in fp8 where the chip has it; nvfp4 in nvfp4; every other low-bit format is weight-only.

    Assumes: the W8A8 / W4A4 kernels of the engines; int8 means W8A8.
    Source: vLLM and TensorRT-LLM supported-hardware tables.
    """
    peaks = accelerator.peak_flop_per_s
    if weight_dtype == "fp8":
        return "fp8" if "fp8" in peaks else "bf16"
    if weight_dtype == "nvfp4":
        return "nvfp4" if "fp4" in peaks else "bf16"
    if weight_dtype == "mxfp4" and "fp4" in peaks:
        # gpt-oss checkpoints run with mxfp8 activations on NVIDIA; AMD's requantised ones with mxfp4.
        return "mxfp4" if accelerator.vendor == "amd" else "fp8"
    if weight_dtype == "int8":
        return "int8" if "int8" in peaks else "bf16"
    return "bf16"


def check_layout(deployment: Deployment) -> None:
    """Refuse layouts that the engines refuse, with the nearest valid one as the hint.

    Raises: InfeasibleError: heads, layers or experts do not divide, or expert parallelism on a dense model.
    Source: vLLM 0.20.2, config/model.py (heads); own rules for pipelines and experts.
    """
    model, tp, ep = deployment.model, deployment.tensor_parallel, deployment.expert_parallel
    for degree, name in (
        (tp, "tensor"), (deployment.pipeline_parallel, "pipeline"), (deployment.data_parallel, "data"), (ep, "expert"),
    ):  # fmt: skip
        if degree < 1:
            raise InfeasibleError(f"{name} parallelism must be at least 1, not {degree}")
    refused = _refused_heads(model, tp)
    if refused:
        valid = max(degree for degree in range(1, tp) if not _refused_heads(model, degree))
        raise InfeasibleError(
            f"{model.id}: {refused} do not divide among tensor parallelism {tp}",
            fix=f"--tp {valid}",
        )
    num_layers = sum(group.count for group in model.layers)
    if deployment.pipeline_parallel > num_layers:
        raise InfeasibleError(
            f"{model.id}: {deployment.pipeline_parallel} pipeline stages for {num_layers} layers",
            fix=f"--pp {num_layers}",
        )
    if ep > 1 and not is_moe(model):
        raise InfeasibleError(
            f"{model.id} has no experts, so expert parallelism {ep} means nothing", fix="--ep 1"
        )
    _check_expert_parallel(deployment)


def _check_expert_parallel(deployment: Deployment) -> None:
    model, ranks, ep = deployment.model, deployment.ranks_per_stage, deployment.expert_parallel
    experts = {part.num_experts for part in routed_experts(model)}
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


def _refused_heads(model: Model, tensor_parallel: int) -> str:
    """The heads that keep an engine from starting at this degree, in words; empty if none do.

    Key-value heads are repeated where there are fewer of them than ranks, and then ranks divide among heads.

    Source: vLLM 0.20.2, config/model.py (verify_with_parallel_config) and the attention layers' own checks.
    """
    for group in model.layers:
        mixer = group.mixer
        heads: tuple[int, ...]
        if isinstance(mixer, GatedDeltaNet):
            heads = (mixer.num_value_heads, mixer.num_key_heads)
        else:
            heads = (mixer.num_heads,) if mixer is not None else ()
        uneven = [number for number in heads if number % tensor_parallel]
        if uneven:
            return f"{uneven[0]} heads"
        if isinstance(mixer, GroupedQueryAttention):
            kv_heads = mixer.num_kv_heads
            if kv_heads % tensor_parallel and tensor_parallel % kv_heads:
                return f"{kv_heads} key-value heads"
    return ""
