"""Memory use of a training framework and its formats, where a run does not state them."""

from typing import Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source

ActivationStyle = Literal["fused", "eager", "compiled"]
"""Kernels that decide which tensors of the forward pass the backward pass needs: fused kernels (Transformer Engine),
operator-by-operator PyTorch, or the choice of torch.compile's partitioner."""


class StateBytes(Record):
    """Bytes per parameter, before any sharding."""

    weights: float = Field(ge=0, le=8)
    """Weights held between steps on the accelerator; gathered or cast copies come on top."""
    gathered: float = Field(default=2.0, ge=0, le=8)
    """Gathered copy, where shards are gathered for computing."""
    gradients: float = Field(ge=0, le=8)
    master: float = Field(default=0.0, ge=0, le=8)
    """Copy in higher precision that the optimizer updates, in addition to the weights."""
    moment: float = Field(default=4.0, ge=0, le=8)
    """One moment of the optimizer; AdamW has two."""
    step: float = Field(default=0.0, ge=0, le=32)
    """Temporaries of the optimizer step: fp32 gradients, square roots of the second moment."""


class TrainingSoftware(Record):
    """Memory use of a training framework."""

    id: str
    names: tuple[str, ...] = ()
    """Words in a framework's name, lower case, that mean this record; after an equals sign, the whole name."""
    family: str
    """Family as in `TrainingJob.framework`; the first record of a family is its default."""
    states: StateBytes
    adapter_states: StateBytes
    """State bytes per adapter parameter, where only adapters are trained."""
    offloads_gradients: bool = False
    """Whether sharded gradients are also in host memory when the optimizer is."""
    persistent_gradients: bool = False
    """Whether the gradient buffer lives through the whole step, not only from the backward pass to
    the optimizer step.
    """
    activations: ActivationStyle = "eager"
    norm_bytes: float = Field(default=6.0, ge=0, le=16)
    """Bytes that a norm with a trained weight keeps per hidden value, in addition to its output."""
    frozen_norm_bytes: float = Field(default=4.0, ge=0, le=16)
    repeats_key_value: bool = False
    """Whether keys and values are copied out to every query head before attention."""
    splits_one_projection: bool = False
    """Whether queries, keys and values are parts of one matrix's output, which the backward pass of attention keeps
    whole where its values are not copied out; the outputs of adapters on only some of the three are kept as
    concatenated with the rest."""
    loss_bytes: float = Field(ge=0, le=32)
    """Bytes per logit at the peak of the loss."""
    unfused_loss_bytes: float | None = Field(default=None, ge=0, le=32)
    """Bytes per logit if the run states that its loss is not fused; None means `loss_bytes`."""
    sharded_loss_bytes: float | None = Field(default=None, ge=0, le=32)
    """Bytes per logit if the vocabulary is sharded over tensor-parallel ranks; None means `loss_bytes`."""
    fused_loss_bytes: float = Field(default=2.0, ge=0, le=32)
    """Bytes per logit with a fused cross-entropy."""
    adapters_on: Literal["query_value", "all_linear"] = "all_linear"
    adapter_dropout: bool = False
    """Whether adapters drop out their inputs; each then keeps its own copy and a mask."""
    adapter_inputs: Literal["cast", "autocast", "shared"] = "cast"
    """Copy of the input of each matrix that adapters wider than 16 bits keep: a cast to their own format; under
    autocast a 16-bit one; or none, as they share the 16-bit output of the norm and compute that of the activation
    function again."""
    adapts_experts: bool = False
    """Whether routed experts have adapters where all linear matrices have (see `families_with_adapted_experts`); each
    pass adds them to the weights, and the backward pass finds gradients as large as these."""
    own_models: bool = False
    """Whether it has definitions of its own for models, whose attention stores no scores, in place of Transformers'."""
    own_attention: tuple[str, ...] = ()
    """Model types of Transformers for which it has attention of its own, which stores no scores."""
    quantized_experts: tuple[str, ...] = ()
    """Model types whose routed experts it packs in 4 bits too, as linear layers of its own."""
    double_quantization: bool = True
    """Whether NF4 scales are quantised themselves, if the run does not state it."""
    keeps_quantized_inputs: bool = False
    """Whether the input of every NF4 matrix lives until the backward pass, although frozen weights
    have no use for it.
    """
    keeps_last_graph: bool = False
    """Whether the loss of one micro-batch is held until the next loss is known, and with it the
    inputs of NF4 matrices.
    """
    quantizes_head: bool = False
    """Whether the head is NF4 too, like every linear matrix."""
    quantized_table_copies: float = Field(default=0.0, ge=0, le=4)
    """Copies of the input table held in addition to the table itself where matrices are NF4, in table sizes."""
    bucket_bytes: float = Field(default=0.0, ge=0)
    """Communication buckets of data parallelism [bytes]."""
    placeholder_gradients: bool = False
    """Whether fused accumulation of weight gradients hands autograd an empty 16-bit gradient per matrix, kept for
    reuse."""
    gathered_layers: int = Field(default=2, ge=0, le=8)
    """Number of layers whose weights are gathered at once: the running one and those fetched ahead."""
    gathers_tables: bool = True
    """Whether the outermost unit with input table and head stays gathered while the layers run."""
    sums_in_fp32: bool = False
    """Whether gradients are summed over ranks in fp32, whatever format they are kept in."""
    gathers_stages: bool = False
    """Whether a pipeline stage stays gathered, with whole gradients, until its last micro-batch."""
    sharded_reserved_factor: float | None = Field(default=None, ge=1, le=2)
    """Reserved over allocated bytes if the framework gathers into buffers that it keeps itself; None means the
    allocator's `sharded_reserved_factor`."""
    gathers_ring: bool = False
    """Whether context parallelism gathers keys and values of all ranks at once (PyTorch's ring)."""
    repeats_ring_heads: bool = False
    """Whether these keys and values are repeated for their query heads before."""
    broadcasts_shards: bool = False
    """Whether parameters of a divided optimizer go out by one broadcast from each rank of a shard group, not by a
    gather."""
    flat_step: bool = False
    """Whether temporaries of the optimizer step are whole flat buffers, which fit into no cached block of an
    activation, so that the allocator holds both."""
    remainder_on_last_stages: bool = False
    """Whether layers that do not divide by the stages go to the last stages, the very last included."""
    unties_tables: bool = False
    """Whether input table and head are separate even if the model ties them."""
    adapters_on_one_device: bool = False
    """Whether adapter recipes run on one accelerator, however many the machine has."""
    chunks_adapter_loss: bool = False
    """Whether adapter recipes compute the loss in chunks."""
    accumulates_whole_gradients: bool = False
    """Whether whole gradients are accumulated on every rank between micro-batches, although parameters are sharded."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Recomputation if the run does not state it."""
    sharded_recompute: Literal["none", "selective", "full"] | None = None
    """Recomputation if the run does not state it and parameters are sharded; None means `recompute`."""
    recomputes_all_or_none: bool = False
    """Whether every layer is recomputed whole or none is; a tuned run recomputes only if it must."""
    source: Source


class TrainingAllocator(Record):
    """Allocator overheads: from the tensors of a run to the memory that its machine needs."""

    reserved_factor: float = Field(ge=1, le=2)
    """Bytes that the caching allocator holds over those in tensors, at their peaks."""
    sharded_reserved_factor: float = Field(ge=1, le=2)
    """Bytes held over bytes in tensors if parameters are gathered on streams of their own, whose blocks no other stream
    reuses."""
    context_bytes: float = Field(ge=0)
    """Driver context and libraries, outside the allocator [bytes]."""
    communicator_bytes: float = Field(ge=0)
    """Memory of one communicator, outside the allocator [bytes]."""
    source: Source
