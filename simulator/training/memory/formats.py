"""Bytes per parameter: weights, gradients, optimizer, by framework, number format, optimizer and method."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from advisor.catalog.dtypes import grouped_bits
from advisor.catalog.schema import Model
from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.catalog.training import software_of
from advisor.catalog.units import BITS_PER_BYTE
from advisor.simulator.graph.training import ModelShape, model_shape
from advisor.simulator.training.job import TrainingJob

_NF4_GROUP: Final = 64
_NF4_OUTER_GROUP: Final = 256
_ABSMAX_BITS: Final = 32.0
_OUTER_ABSMAX_BITS: Final = 8.0
_EIGHT_BIT_GROUP: Final = 256
_QUANTIZED_COPY_BYTES: Final = {"fp8": 2.0, "mxfp8": 2.0 * (1 + 1 / 32), "nvfp4": 2.0 * (0.5 + 1 / 16)}
"""Bytes per parameter of a low-bit copy for the forward pass and its transpose for the backward pass."""


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes per parameter of one kind, before sharding."""

    weights: float
    gathered: float
    """Bytes per parameter of a gathered copy."""
    gradients: float
    optimizer: float
    """Bytes per parameter of master copy and moments."""
    step: float
    """Bytes per parameter of temporaries of the optimizer step."""


@dataclass(frozen=True, slots=True)
class Formats:
    """Bytes per parameter of everything that a job holds."""

    software: TrainingSoftware
    layers: ParameterBytes
    """Bytes per parameter of matrices in layers."""
    experts: ParameterBytes
    """Bytes per parameter of routed experts."""
    tables: ParameterBytes
    """Bytes per parameter of input table, head and norms."""
    adapters: ParameterBytes
    """Bytes per parameter of adapters on frozen weights; none if all parameters learn."""
    quantized_copy: float
    """Bytes per parameter of low-bit copies of layer matrices that the matrix units read, in addition to the
    weights."""
    table_copies: float
    """Number of 16-bit copies of the input table that are held in addition to it."""
    head_saved: float
    """Bytes per parameter by which the head is smaller than a table, if it is quantised with the layers."""
    frozen: bool
    """Whether only adapters learn."""
    keeps_gradients: bool
    """Whether gradients live through the whole step."""
    drops_gradients: bool
    """Whether the optimizer runs inside the backward pass, layer by layer."""
    autocast: bool
    """Whether weights are fp32 and every matrix multiplication casts them; the forward pass keeps the casts."""
    wide_residual: bool
    """Whether what layers pass on is fp32: under autocast, and behind fp32 tables."""
    pages_optimizer: bool
    """Whether the optimizer's state lives in memory that the driver pages to the host."""


def shape_of(job: TrainingJob) -> ModelShape:
    """Return the parameters of a job's model as its framework holds them.

    Source: catalog/data/training/memory.toml (which frameworks untie tables).
    """
    model = job.model
    if model.tied_embeddings and software_of(job.framework, job.software).unties_tables:
        model = _untie_embeddings(model)
    shape = model_shape(model)
    return replace(shape, head=float(shape.hidden)) if "scalar_head" in job.features else shape


@cache
def _untie_embeddings(model: Model) -> Model:
    return model.model_copy(update={"tied_embeddings": False})


def nf4_bytes_per_parameter(*, double_quantization: bool = True) -> float:
    """Size of one NF4 parameter with its scales [bytes].

    4 bits + 32 / 64 of a scale per 64 parameters; with double quantisation the scale has 8 bits and 32 / 256 of
    a scale per 256 of them: 4.127 bits.

    Source: QLoRA (arXiv:2305.14314), section 3; bitsandbytes.
    """
    scale = grouped_bits(_OUTER_ABSMAX_BITS, _NF4_OUTER_GROUP, _ABSMAX_BITS)
    bits = grouped_bits(4.0, _NF4_GROUP, scale if double_quantization else _ABSMAX_BITS)
    return bits / BITS_PER_BYTE


def formats_of(job: TrainingJob) -> Formats:
    """Return the bytes per parameter of a job's weights, gradients and optimizer.

    Mixed-precision AdamW is 16 bytes: 2 weights, 2 gradients, 4 master, 8 moments (ZeRO); Megatron keeps gradients
    in fp32, 18 bytes; FSDP keeps fp32 shards, 16 bytes; a bf16 recipe keeps everything in bf16, 8 bytes.

    Assumes: the framework's habit, unless a job's features tell otherwise; a frozen base of QLoRA is NF4 with double
    quantisation, its tables, norms and routed experts bf16: bitsandbytes packs linear layers, and Transformers has the
    experts of a layer as one tensor.
    Source: ZeRO (arXiv:1910.02054) section 3; Megatron-Core distributed optimizer; catalog/data/training/memory.toml;
        mlcommons/training_results_v4.0, NVIDIA's llama2_70b_lora, megatron_gpt_peft_tuning_config.yaml (fp8_params,
        disable_parameter_transpose_cache);
        transformers 5.24.0, integrations/bitsandbytes.py (replace_with_bnb_linear), models/mixtral, MixtralExperts.
    """
    software = software_of(job.framework, job.software)
    frozen = job.method != "full"
    low_bit_parameters = "fp8_allgather" in job.features and software.family == "megatron"
    trained = _trained_parameter_bytes(job, software)
    if not frozen:
        layers = tables = held = trained
        if low_bit_parameters:
            # Parameters are the low-bit copies themselves (--fp8-param-gather).
            layers = replace(trained, weights=0.0, gathered=1.0)
        adapters = ParameterBytes(0.0, 0.0, 0.0, 0.0, 0.0)
    else:
        held = ParameterBytes(2.0, 2.0, 0.0, 0.0, 0.0)
        tables = ParameterBytes(4.0, 4.0, 0.0, 0.0, 0.0) if _has_wide_tables(job) else held
        double = software.double_quantization and "single_quantization" not in job.features
        quantized = nf4_bytes_per_parameter(double_quantization=double)
        layers = ParameterBytes(quantized, quantized, 0.0, 0.0, 0.0) if job.method == "qlora" else held
        if low_bit_parameters:
            # Frozen ones need no other copy: they are transposed where a gradient needs it.
            layers = ParameterBytes(1.0, 1.0, 0.0, 0.0, 0.0)
        states = software.adapter_states
        moments = moment_bytes(job, states.moment)
        adapters = ParameterBytes(
            states.weights, states.gathered, states.gradients, states.master + moments, states.step
        )
    copies = software.activations == "fused" and job.method != "qlora" and not (frozen and low_bit_parameters)
    return Formats(
        software=software,
        layers=layers,
        experts=layers if job.method != "qlora" or job.model.family in software.quantized_experts else held,
        tables=tables,
        adapters=adapters,
        quantized_copy=_QUANTIZED_COPY_BYTES.get(job.compute_dtype, 0.0) if copies else 0.0,
        table_copies=software.quantized_table_copies if job.method == "qlora" else 0.0,
        head_saved=tables.weights - layers.weights if software.quantizes_head else 0.0,
        frozen=frozen,
        keeps_gradients=software.persistent_gradients and not frozen,
        drops_gradients="optim_in_backward" in job.features,
        autocast="autocast" in job.features,
        wide_residual="autocast" in job.features or _has_wide_tables(job),
        pages_optimizer="paged_optimizer" in job.features,
    )


def _has_wide_tables(job: TrainingJob) -> bool:
    """Whether tables and norms of an NF4 model are fp32. Source: peft/utils/other.py,
    prepare_model_for_kbit_training."""
    return job.method == "qlora" and "wide_tables" in job.features


def _trained_parameter_bytes(job: TrainingJob, software: TrainingSoftware) -> ParameterBytes:
    fused = "fused_optimizer" in job.features or job.optimizer not in ("adamw", "muon")
    states = software.states
    if "bf16_states" in job.features:
        return ParameterBytes(2.0, 2.0, 2.0, moment_bytes(job, 2.0), 0.0 if fused else 2.0)
    weights = 4.0 if job.features & {"fp32_params", "autocast"} else states.weights
    gradients = 4.0 if job.features & {"fp32_grad_reduce", "autocast"} else states.gradients
    gradients = min(gradients, 2.0) if "bf16_grad_reduce" in job.features else gradients
    master = 0.0 if weights >= 4.0 else states.master
    return ParameterBytes(
        weights=weights,
        gathered=states.gathered,
        gradients=gradients,
        optimizer=master + moment_bytes(job, states.moment),
        step=0.0 if fused else states.step,
    )


def moment_bytes(job: TrainingJob, element_bytes: float) -> float:
    """Size of the moments that an optimizer keeps per parameter, in elements of that size [bytes]: two moments, or
    fewer and smaller ones.

    Source: AdamW; 8-bit blocks of 256 with an fp32 scale (arXiv:2110.02861); Adafactor keeps a row and a column per
    matrix (arXiv:1804.04235); Muon and Lion (arXiv:2302.06675) keep one momentum, plain SGD nothing. Megatron's SGD has
    a momentum of 0.9 by default (megatron-core 0.16.0, optimizer_config.py).
    """
    if job.optimizer == "adamw_8bit":
        return 2.0 * grouped_bits(8.0, _EIGHT_BIT_GROUP, 32.0) / BITS_PER_BYTE
    if job.optimizer == "adafactor":
        return 2.0 * 4.0 / job.model.hidden_size
    if job.optimizer == "sgd":
        return element_bytes if job.framework == "megatron" else 0.0
    if job.optimizer == "adamw_bf16":
        return 4.0
    if job.optimizer in ("muon", "lion"):
        return element_bytes
    return 2.0 * element_bytes
