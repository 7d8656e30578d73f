"""What adapters change in a layer: no gradients of frozen weights, small products beside each, dequantised bases."""

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import LayerGroup
from advisor.simulator.graph.model import layer_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.step_layers import LayerPricing, LayerTimes

FloatArray = NDArray[np.float64]

_DEQUANTIZED_FRACTION = 0.5
"""Of the bandwidth, reached by a kernel that unpacks NF4 through a table."""


def adapter_times(
    job: TrainingJob, group: LayerGroup, pricing: LayerPricing, whole: LayerTimes
) -> LayerTimes:
    """Times of a layer under the job's method [s]: unchanged in full training.

    LoRA adds per matrix x A B of rank r: inputs and outputs travel once more; the backward pass twice that. Frozen
    weights need no gradient. QLoRA unpacks 4-bit weights to 16 bits before each use; DoRA reads every weight for the
    norm of its columns.

    Assumes: adapters beside every dense matrix of the layer.
    Source: LoRA (arXiv:2106.09685), QLoRA (arXiv:2305.14314), DoRA (arXiv:2402.09353).
    """
    if job.method == "full":
        return whole
    s = pricing.slices
    travel, weights = np.zeros_like(s.rows), np.zeros_like(s.rows)
    for tp in np.unique(s.tensor_parallel):
        mask = s.tensor_parallel == tp
        matrices = layer_of(group, pricing.hidden).local(int(tp))
        # Tensors of the whole hidden size lie divided along the sequence; the others are divided already.
        split = s.sequence_split[mask]
        travel[mask] = sum(
            _width(matrix.depth, pricing.hidden, split) + 2.0 * _width(matrix.columns, pricing.hidden, split)
            for matrix in matrices
        )
        weights[mask] = sum(matrix.elements for matrix in matrices)
    beside = pricing.stream_s(2.0 * travel * s.rows)
    flop = 2.0 * job.lora_rank * travel * s.rows
    beside = beside + flop / (0.5 * pricing.device.peak_flop_per_s["bf16"])
    again = np.zeros_like(beside)
    if job.method == "qlora":
        again = pricing.stream_s(weights * (bytes_per_element("int4") + 2.0) / _DEQUANTIZED_FRACTION)
    elif job.method == "dora":
        again = pricing.stream_s(6.0 * weights)
    return LayerTimes(
        forward_s=whole.forward_s + beside + again,
        input_s=whole.input_s + 2.0 * beside + again,
        weight_s=np.zeros_like(whole.weight_s),
        core_s=whole.core_s,
        matmul_forward_s=whole.matmul_forward_s,
        attention_s=whole.attention_s,
        last_matmul_s=whole.last_matmul_s,
    )


def _width(size: int, hidden: int, split: FloatArray) -> FloatArray:
    return np.asarray(size / split) if size == hidden else np.full_like(split, size)
