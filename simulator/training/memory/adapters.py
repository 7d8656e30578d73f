"""Adapters beside frozen weights: how many parameters they have, and what they keep of the forward pass."""

from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.simulator.graph.backward import Linear
from advisor.simulator.graph.operator import Layer
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.formats import Formats


def adapter_parameters(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """Adapter parameters of one layer.

    LoRA on a matrix of d inputs and k outputs has r (d + k); DoRA adds k magnitudes. On queries and values, or on
    all linear matrices of attention and dense feed-forward part.

    Source: LoRA (arXiv:2106.09685); DoRA (arXiv:2402.09353).
    """
    return sum(
        job.lora_rank * (inputs + outputs) + (outputs if job.method == "dora" else 0)
        for _, inputs, outputs in _targets(layer, job, formats)
    )


def adapter_input_bytes(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """What adapters of one layer keep per token for their own gradients: their inputs in their format [bytes].

    Adapters in the activations' format share an input; fp32 adapters cast it for each matrix, and dropout copies it
    for each matrix beside a mask of a byte. DoRA keeps the outputs of matrix and adapter too, and so does a framework
    that puts adapters on queries and values into the output of one matrix for all three (index_copy_).

    Assumes: an adapter that is not of LoRA's kind (`other_adapter`) keeps one input of the hidden size.
    Source: huggingface/peft tuners/lora/layer.py; litgpt/lora.py.
    """
    software, size = formats.software, formats.adapters.weights
    if "other_adapter" in job.features:
        return size * job.model.hidden_size
    targets = _targets(layer, job, formats)
    # DoRA scales the sum of both outputs: its magnitudes need them.
    outputs = 2.0 * _ACTIVATION_BYTES * sum(width for _, _, width in targets) if job.method == "dora" else 0.0
    if software.splits_one_projection and not adapts_every_matrix(job, software):
        outputs += _ACTIVATION_BYTES * sum(width for tensor, _, width in targets if tensor == "mixer")
    inputs = [(tensor, width) for tensor, width, _ in targets]
    if software.adapter_dropout:
        return outputs + (size + 1.0) * sum(width for _, width in dict.fromkeys(inputs))
    kept = inputs if size > _ACTIVATION_BYTES else dict.fromkeys(inputs)
    return outputs + size * sum(width for _, width in kept)


def quantized_input_bytes(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """Inputs of NF4 matrices of one layer that an autograd function keeps although nothing learns from them [bytes per
    token]: those in front of attention and feed-forward part and of its last matrix; with those of the micro-batch
    before, where its graph still lives, also attention's output, which the graph itself has given back.

    Source: bitsandbytes before 0.43.3, MatMul4Bit.forward (`ctx.tensors = (A, B)`).
    """
    software = formats.software
    if job.method != "qlora" or not software.keeps_quantized_inputs:
        return 0.0
    inputs = attended = 0
    if layer.mixer is not None:
        inputs, attended = job.model.hidden_size, layer.mixer.attended_values
    if layer.feed_forward is not None and layer.experts is None:
        inputs += job.model.hidden_size + layer.feed_forward.inner_size
    return _ACTIVATION_BYTES * (inputs + (inputs + attended if software.keeps_last_graph else 0))


def adapter_identity_bytes(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """What DoRA keeps of one layer however few its tokens [bytes]: per matrix an fp32 identity as wide as its inputs.

    It goes through the adapter to find the norms of the columns, and autograd keeps it.

    Source: huggingface/peft tuners/lora/dora.py (`x_eye`); tensors counted with torch.autograd.graph hooks.
    """
    if job.method != "dora" or not formats.software.adapts_identity:
        return 0.0
    return sum(4.0 * inputs**2 for _, inputs, _ in _targets(layer, job, formats))


def adapts_every_matrix(job: TrainingJob, software: TrainingSoftware) -> bool:
    """Whether adapters are on every linear matrix, or on queries and values only.

    Source: the recipe's habit, where the job's features do not say.
    """
    if "adapters_all_linear" in job.features:
        return True
    return software.adapters_on == "all_linear" and "adapters_query_value" not in job.features


_ACTIVATION_BYTES = 2.0


def _targets(layer: Layer, job: TrainingJob, formats: Formats) -> tuple[Linear, ...]:
    """The matrices that have an adapter."""
    every = adapts_every_matrix(job, formats.software)
    parts = (part for part in (layer.mixer, layer.feed_forward) if part is not None)
    return tuple(linear for part in parts for linear in part.linears(every=every))
