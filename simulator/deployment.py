"""One way to run one model on some accelerators: the layout that everything else prices."""

from dataclasses import dataclass, replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import (
    Accelerator,
    Engine,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Model,
    MoeFeedForward,
)

_FOUR_BIT = ("int4", "nvfp4", "mxfp4")


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

    def with_replicas(self, num_replicas: int) -> "Deployment":
        return replace(self, num_replicas=num_replicas)


def is_moe(model: Model) -> bool:
    """Whether any layer routes tokens to experts."""
    return any(isinstance(group.feed_forward, MoeFeedForward) for group in model.layers)


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
    """
    model, tp, ep = deployment.model, deployment.tensor_parallel, deployment.expert_parallel
    for degree, name in (
        (tp, "tensor"), (deployment.pipeline_parallel, "pipeline"), (deployment.data_parallel, "data"), (ep, "expert"),
    ):  # fmt: skip
        if degree < 1:
            raise InfeasibleError(f"{name} parallelism must be at least 1, not {degree}")
    for group in model.layers:
        heads = _shardable_heads(group)
        if heads and heads % tp:
            valid = max(d for d in range(1, tp + 1) if heads % d == 0)
            raise InfeasibleError(
                f"{model.id}: {heads} heads do not divide among tensor parallelism {tp}",
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
    if deployment.ranks_per_stage % ep:
        raise InfeasibleError(
            f"expert parallelism {ep} does not divide the {deployment.ranks_per_stage} accelerators of a stage",
            fix=f"--ep {deployment.ranks_per_stage}",
        )
    for group in moe_layers(model):
        feed_forward = group.feed_forward
        assert isinstance(feed_forward, MoeFeedForward)
        if feed_forward.num_experts % ep:
            raise InfeasibleError(
                f"{model.id}: {feed_forward.num_experts} experts do not divide among expert parallelism {ep}",
                fix=f"--ep {max(d for d in range(1, ep + 1) if feed_forward.num_experts % d == 0)}",
            )


def _shardable_heads(group: LayerGroup) -> int:
    mixer = group.mixer
    if isinstance(mixer, GroupedQueryAttention | LatentAttention):
        return mixer.num_heads
    if isinstance(mixer, GatedDeltaNet):
        return mixer.num_value_heads
    return 0


def is_four_bit(dtype: str) -> bool:
    """Whether a weight format stores about four bits per element."""
    return dtype in _FOUR_BIT
