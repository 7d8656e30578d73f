"""Deployments: a model on accelerators under an engine, with number formats and layout."""

from dataclasses import dataclass
from typing import Any

from advisor.catalog import accelerators, engines, models
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.simulator.collectives.fabric_text import join_nodes
from advisor.simulator.collectives.topology import Topology, full_domain, topology_of

_LOCAL_ENGINES = ("llama.cpp", "mlx", "exllamav3")


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
    ranks_per_node: int | None = None
    """Accelerators per machine, if a replica is spread over more machines than its fabric requires; None: as the
    fabric."""
    network: str = ""
    """Network between nodes in words, e.g. TCP 100Gb; empty for that of the accelerator's usual node."""
    redundant_experts: int = 0
    """Number of additional copies of experts, so that slots divide among ranks and loads even out (expert load
    balancers)."""

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

    @property
    def can_dispatch(self) -> bool:
        """Whether tokens may go to the ranks of their experts alone: attention is data-parallel, ranks hold whole
        experts, and they are more than a node has. Within a node engines gather all tokens unless told otherwise.

        Source: vLLM, --all2all-backend; SGLang, --moe-a2a-backend none; its docs, expert parallelism.
        """
        ranks = self.ranks_per_stage
        whole = self.data_parallel > 1 and self.expert_parallel == ranks
        return whole and ranks > self.accelerator.node_size

    def group(self, num_ranks: int, *, apart: int = 1) -> Topology:
        """Return the topology of `num_ranks` ranks of a replica whose neighbours are `apart` places from each other.

        Source: topology_of, and join_nodes for a network in words; a rack with one fabric is one domain however its
            trays are counted.
        """
        domain = full_domain(self.accelerator)
        if self.ranks_per_node is not None and domain <= self.accelerator.node_size:
            domain = min(domain, self.ranks_per_node)
        found = topology_of(self.accelerator, num_ranks, ranks_per_node=max(1, domain // apart))
        if not self.network:
            return found
        return join_nodes(found, self.accelerator, self.ranks_per_node, self.network)

    def expert_slots(self, num_experts: int) -> int:
        """Number of expert places on all ranks together, copies included."""
        return num_experts + self.redundant_experts


def is_local(engine: Engine) -> bool:
    """Whether an engine is for one user's machine, whose steps `local_surface` describes. Source: own definition."""
    return engine.id in _LOCAL_ENGINES


def named_deployment(
    model: str, accelerator: str, engine: str = "vllm", *, weight_dtype: str | None = None, **layout: Any
) -> Deployment:
    """Return a deployment of catalog records, by the names that users type.

    Weights and cache have the published checkpoint's formats unless `weight_dtype` or `kv_dtype` is given, activations
    the format that goes with the weights; `layout` sets the other fields of Deployment.

    Raises: UnknownNameError: no record, or several, have this name.
    Source: own definition.
    """
    chosen = models.get(model).record
    chip = accelerators.get(accelerator).record
    served_by = engines.get(engine).record
    weights = weight_dtype or chosen.weights
    if layout.get("kv_dtype") is None:
        layout["kv_dtype"] = cache_dtype_of(chosen, served_by, chip)
    return Deployment(
        model=chosen,
        accelerator=chip,
        engine=served_by,
        weight_dtype=weights,
        activation_dtype=activation_dtype_of(chosen, weights, chip),
        **layout,
    )


def cache_dtype_of(model: Model, engine: Engine, accelerator: Accelerator) -> str:
    """Return the format of the cache that an engine chooses for a checkpoint unless told otherwise.

    The checkpoint's own if it declares one that the engine follows, else the engine's default for the model on the
    accelerator, else 16 bits.

    Source: the engine's record.
    """
    files = {"config.json": model.kv_dtype, "hf_quant_config.json": model.kv_dtype or model.kv_dtype_beside}
    declared = next((files[name] for name in engine.reads_cache_format_from if files[name]), None)
    if declared in engine.kv_dtypes:
        return declared
    return engines.default_kv_dtype(engine, model, accelerator) or "bf16"


def activation_dtype_of(model: Model, weight_dtype: str, accelerator: Accelerator) -> str:
    """Return the number format of activations of a model in a weight format on a chip: 16 bits if its checkpoint is
    weight-only, else the format that goes with the weights.

    Source: `activations` of the model; activation_dtype_for.
    """
    if model.activations is not None and weight_dtype == model.weights:
        return model.activations
    return activation_dtype_for(weight_dtype, accelerator)


def activation_dtype_for(weight_dtype: str, accelerator: Accelerator) -> str:
    """Return the number format of activations that goes with a weight format on a chip.

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
    if weight_dtype == "w4a8":
        return next((name for name in ("fp8", "int8") if name in peaks), "bf16")
    return "bf16"
