"""U-Nets of latent diffusion: time of one pass over batches of latents, whole or split into patches."""

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.diffusion import DiffusionPipeline, UNet
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.collectives import all_gather_s, topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.convolution import Convolution
from advisor.simulator.graph.unet import ImageAttention, UNetOperators, unet_operators
from advisor.simulator.operator_library import OperatorLibrary, matmul_key
from advisor.simulator.operators.attention import attention_encoder_s
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.workloads.encoder_pass import PassCost, Runtime, as_run, attending_library

FloatArray = NDArray[np.float64]
CONVOLUTION_PASSES = 3.0
"""Reads and writes of a convolution's output by group norm, activation and residual around it."""
_BLOCK_VALUES = 27.0
"""Values per position and width that a transformer block moves outside its matmuls: three norms (2 each), three
residual sums (3 each), and the gated activation, which reads eight widths and writes four."""


def unet_step(
    deployment: Deployment,
    library: OperatorLibrary,
    pipeline: DiffusionPipeline,
    size: tuple[int, int],
    num_images: FloatArray,
    *,
    patches: int = 1,
    runtime: Runtime,
) -> PassCost:
    """Time of one pass of a U-Net over batches of images, by category [s].

    each convolution as a multiplication of (pixels) × (area · inputs) by (area · inputs) × (outputs), linear layers,
    attention to the image and to the prompt, norms and activations by their traffic

    Assumes: implicit-GEMM convolutions reach the rate of matmuls of that shape; patches (DistriFusion) attend to the
    neighbours' keys of the last step, whose exchange hides behind the pass.
    Source: operators.matmul, operators.attention; DistriFusion, arXiv:2402.19481.
    Error: tests/simulator/workloads/test_published_unets.py.
    """
    unet = pipeline.unet
    if unet is None:
        raise ValueError(f"{pipeline.id} has no U-Net")
    operators = unet_operators(unet, *size, pipeline.context_tokens)
    images = np.atleast_1d(np.asarray(num_images, dtype=np.float64))
    key = matmul_key(deployment.weight_dtype, deployment.activation_dtype)
    tokens = pipeline.context_tokens
    seconds = {
        "convolutions": _products_s(library, operators.convolutions, images / patches, "bf16"),
        "attention_projections": _linears_s(library, operators.linears, images, patches, tokens, key),
        "time_embedding": _products_s(library, operators.per_image, images, "bf16"),
        "small_operators": _small_s(library, operators, unet, images / patches),
        "attention": _attention_s(attending_library(library, runtime), operators.attention, images, patches),
    }
    cost = as_run(seconds, runtime, operators.launches)
    if patches > 1:
        computed = np.asarray(sum(cost.values()), dtype=np.float64)
        moved = _moved_s(deployment, operators.attention, images, patches)
        cost["collectives"] = np.asarray(np.maximum(0.0, moved - computed))
    return PassCost(images, cost)


def convolutions_s(
    library: OperatorLibrary, parts: tuple[Convolution, ...], images: FloatArray, bytes_per_value: float = 2.0
) -> FloatArray:
    """Time of convolutions of batches of images, with the traffic of the norms around them [s].

    Assumes: values of 32 bits are multiplied at half the rate of 16 bits (TF32) and are twice the traffic.
    Source: operators.matmul, operators.elementwise; TF32 rates: NVIDIA A100 and H100 datasheets.
    """
    total = _products_s(library, parts, images, "bf16") * (bytes_per_value / BF16_BYTES)
    width = 2.0 * CONVOLUTION_PASSES * bytes_per_value
    for part in parts:
        total += part.count * library.elementwise_s(images * part.pixels * part.outputs * width)
    return total


def _products_s(
    library: OperatorLibrary, parts: tuple[Convolution, ...], images: FloatArray, key: str
) -> FloatArray:
    total = np.zeros_like(images)
    for part in parts:
        total += part.count * library.matmul_s(
            images * part.pixels, part.outputs, part.area * part.inputs, key
        )
    return total


def _linears_s(
    library: OperatorLibrary,
    parts: tuple[Convolution, ...],
    images: FloatArray,
    patches: int,
    context_tokens: int,
    key: str,
) -> FloatArray:
    """Time of linear layers; every patch projects the whole prompt [s]."""
    total = np.zeros_like(images)
    for part in parts:
        share = 1 if part.pixels == context_tokens else patches
        rows = images * part.pixels / share
        total += part.count * library.matmul_s(rows, part.outputs, part.inputs, key)
    return total


def _small_s(
    library: OperatorLibrary, operators: UNetOperators, unet: UNet, images: FloatArray
) -> FloatArray:
    total = np.zeros_like(images)
    for part in operators.convolutions:
        rows = images * part.pixels
        total += part.count * library.elementwise_s(
            rows * part.outputs * 2.0 * CONVOLUTION_PASSES * BF16_BYTES
        )
    for block in operators.attention:
        if not block.is_cross:
            width = block.num_heads * block.head_dim
            moved = images * block.queries * width * _BLOCK_VALUES * BF16_BYTES
            # About seven kernels share the traffic of a block.
            total += block.count * 7.0 * library.elementwise_s(moved / 7.0)
    return total


def _attention_s(
    library: OperatorLibrary, parts: tuple[ImageAttention, ...], images: FloatArray, patches: int
) -> FloatArray:
    total = np.zeros_like(images)
    encoder = library.parameters(PrefillEfficiency, "attention_encoder", "bf16")
    for part in parts:
        # A short row of keys is a tile of its own: the cost of a square with as many scores.
        side = np.sqrt(part.queries / patches * part.keys)
        one_s = attention_encoder_s(side, images, part.num_heads, part.head_dim, library.device, encoder)
        total += part.count * one_s
    return total


def _moved_s(
    deployment: Deployment, parts: tuple[ImageAttention, ...], images: FloatArray, patches: int
) -> FloatArray:
    """Time of gathering the keys and values of all patches [s]."""
    topology = topology_of(deployment.accelerator, patches)
    total = np.zeros_like(images)
    for part in parts:
        if not part.is_cross:
            num_bytes = images * part.keys * 2.0 * part.num_heads * part.head_dim * BF16_BYTES
            total += part.count * all_gather_s(num_bytes, topology)
    return total
