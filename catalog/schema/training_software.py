"""What a training framework keeps in memory, and in which format, where a run does not say otherwise."""

from typing import Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source

ActivationStyle = Literal["fused", "eager", "compiled"]
"""Which tensors of the forward pass the backward pass finds again: those of fused kernels (Transformer Engine), of
operator-by-operator PyTorch, or what torch.compile's partitioner keeps."""


class StateBytes(Record):
    """Bytes per parameter, before any sharding."""

    weights: float = Field(ge=0, le=8)
    """What is held between steps on the accelerator; gathered or cast copies come on top."""
    gathered: float = Field(default=2.0, ge=0, le=8)
    """Of a gathered copy, where shards are gathered for computing."""
    gradients: float = Field(ge=0, le=8)
    master: float = Field(default=0.0, ge=0, le=8)
    """A copy in higher precision that the optimizer updates, beside the weights."""
    moment: float = Field(default=4.0, ge=0, le=8)
    """One moment of the optimizer; AdamW has two."""
    step: float = Field(default=0.0, ge=0, le=32)
    """Temporaries of the optimizer step: fp32 gradients, square roots of the second moment."""


class TrainingSoftware(Record):
    """Memory habits of a framework."""

    id: str
    names: tuple[str, ...] = ()
    """Words in a framework's name, lower case, that mean this record; after an equals sign, the whole name."""
    family: str
    """As `TrainingJob.framework`; the first record of a family is its default."""
    states: StateBytes
    adapter_states: StateBytes
    """Of adapters, where only they learn."""
    offloads_gradients: bool = False
    """Where the optimizer lives in host memory and gradients are divided, these go there too."""
    persistent_gradients: bool = False
    """The gradient buffer lives through the whole step, not only from the backward pass to the optimizer step."""
    activations: ActivationStyle = "eager"
    norm_bytes: float = Field(default=6.0, ge=0, le=16)
    """That a norm keeps per hidden value beside its output where its weight learns."""
    frozen_norm_bytes: float = Field(default=4.0, ge=0, le=16)
    repeats_key_value: bool = False
    """Keys and values are copied out to every query head before attention."""
    splits_one_projection: bool = False
    """Queries, keys and values are parts of one matrix's output, which the backward pass of attention keeps whole
    where its values are not copied out; adapters on some of the three are kept as they are put beside the rest."""
    loss_bytes: float = Field(ge=0, le=32)
    """Per logit at the widest moment of the loss."""
    unfused_loss_bytes: float | None = Field(default=None, ge=0, le=32)
    """The same where the run says that its loss is not fused; None is the same."""
    sharded_loss_bytes: float | None = Field(default=None, ge=0, le=32)
    """The same where the vocabulary is divided over tensor-parallel ranks; None is the same."""
    fused_loss_bytes: float = Field(default=2.0, ge=0, le=32)
    """The same with a fused cross-entropy."""
    adapters_on: Literal["query_value", "all_linear"] = "all_linear"
    adapter_dropout: bool = False
    """Adapters drop out their inputs: each keeps its own copy and a mask."""
    adapts_identity: bool = False
    """DoRA finds its norms by sending an identity matrix through the adapter."""
    double_quantization: bool = True
    """NF4 scales are quantised themselves where the run does not say."""
    keeps_quantized_inputs: bool = False
    """The input of every NF4 matrix lives until the backward pass, although frozen weights have no use for it."""
    keeps_last_graph: bool = False
    """The loss of one micro-batch is held until that of the next is known, and with it the inputs of NF4 matrices."""
    quantizes_head: bool = False
    """The head is NF4 too, as every linear matrix."""
    quantized_table_copies: float = Field(default=0.0, ge=0, le=4)
    """What is held of the input table's size beside it where matrices are NF4."""
    bucket_bytes: float = Field(default=0.0, ge=0)
    """Communication buckets of data parallelism."""
    placeholder_gradients: bool = False
    """Fused accumulation of weight gradients hands autograd an empty 16-bit gradient per matrix, kept for reuse."""
    gathered_layers: int = Field(default=2, ge=0, le=8)
    """Layers whose weights are gathered at once: the running one and those fetched ahead."""
    gathers_tables: bool = True
    """The outermost unit with input table and head stays gathered while the layers run."""
    gathers_stages: bool = False
    """With pipeline parallelism a stage stays gathered, with whole gradients, until its last micro-batch."""
    sharded_reserved_factor: float | None = Field(default=None, ge=1, le=2)
    """As of the allocator, where the framework gathers into buffers that it keeps itself."""
    flat_step: bool = False
    """Temporaries of the optimizer step are whole flat buffers, which fit into no cached block of an activation: the
    allocator holds both."""
    remainder_on_last_stages: bool = False
    """Layers that do not divide by the stages go to the last ones, the very last included."""
    unties_tables: bool = False
    """Input table and head are two even where the model ties them."""
    adapters_on_one_device: bool = False
    """Adapter recipes run on one accelerator, however many the machine has."""
    chunks_adapter_loss: bool = False
    """Adapter recipes compute the loss in chunks."""
    accumulates_whole_gradients: bool = False
    """Between micro-batches whole gradients are added up on every rank, although parameters are sharded."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Where the run does not say."""
    sharded_recompute: Literal["none", "selective", "full"] | None = None
    """The same where parameters are sharded; None is no different."""
    recomputes_all_or_none: bool = False
    """Every layer is recomputed whole, or none; a run that was tuned does it only where it must."""
    source: Source


class TrainingAllocator(Record):
    """From the tensors of a run to what its machine must have."""

    reserved_factor: float = Field(ge=1, le=2)
    """Bytes that the caching allocator holds over those in tensors, at their peaks."""
    sharded_reserved_factor: float = Field(ge=1, le=2)
    """The same where parameters are gathered on streams of their own, whose blocks no other stream reuses."""
    context_bytes: float = Field(ge=0)
    """Driver context and libraries, outside the allocator."""
    communicator_bytes: float = Field(ge=0)
    """Of one communicator, outside the allocator."""
    source: Source
