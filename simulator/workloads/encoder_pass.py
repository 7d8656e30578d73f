"""Passes of all layers over whole sequences, without a cache, and the runtimes that run them outside the engines.

Encoders, vision towers and diffusion transformers run in this way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.collectives import all_to_all_s, topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import Device
from advisor.simulator.graph.forward_pass import token_costs
from advisor.simulator.graph.model import layers_of, num_operators
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.operators.matmul import with_one_warp_limit

FloatArray = NDArray[np.float64]
EAGER_LAUNCH_S: Final = 40.0e-6
"""Python and driver time of one operator in PyTorch [s], its small companions (reshapes, casts, copies) included."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Runtime of a model that is not a serving engine.

    `kernel_scale` and the interval come from published runs, relative to the sum of operators measured alone; the
    runs are repeated in tests/simulator/workloads.
    """

    name: str
    kernel_scale: float
    """Ratio of published time to the sum of the operators' times, attention and exchanges aside."""
    launch_s: float
    """Host time per operator, the lower bound of a pass [s]; 0 if a captured graph launches all at once."""
    low: float
    high: float
    """Upper end of the range that contains 80 % of the ratios of published to predicted time."""
    has_plain_attention: bool = False
    """Whether attention runs FlashAttention-2, whose instructions are those of one warp."""


_LIBRARY_KERNELS: Final = ("attention", "collectives")
"""Categories of one library kernel for each operator, which no runtime fuses or breaks up."""
RUNTIMES: Final[Mapping[str, Runtime]] = {
    runtime.name: runtime
    for runtime in (
        # BERT-large on A100, NVIDIA/TensorRT demo/BERT: 16 batches, sequences of 128 and 384.
        Runtime("tensorrt", 1.0, 0.0, 0.85, 1.15),
        # FLUX.1 dev, 28 steps of 1024 x 1024 on one H100: 4.30 s (xdit-project/xDiT, docs/performance/flux.md).
        Runtime("torch-compile", 1.3, 0.0, 0.75, 1.3),
        # FLUX.1 dev without compilation: 6.71 s; 50 steps of 512 x 512 on an L40S: 8.71 s (pruna.ai, 2025-02-17).
        Runtime("torch-eager", 1.83, EAGER_LAUNCH_S, 0.75, 1.4, has_plain_attention=True),
    )
}


def runtime_of(name: str) -> Runtime:
    """Return the runtime of a name.

    Raises: AdvisorError: no runtime has that name.
    Source: RUNTIMES.
    """
    if name not in RUNTIMES:
        raise AdvisorError(f"runtime {name!r} is not known", fix=f"one of {', '.join(RUNTIMES)}")
    return RUNTIMES[name]


@dataclass(frozen=True, slots=True)
class PassCost:
    """Time of one pass per entry of a grid of batches, by category [s]."""

    num_sequences: FloatArray
    seconds: Mapping[str, FloatArray]

    @property
    def total_s(self) -> FloatArray:
        """Sum over the categories [s]. Source: definition."""
        return np.asarray(sum(self.seconds.values()), dtype=np.float64)


def encoder_pass(
    deployment: Deployment,
    library: OperatorLibrary,
    num_sequences: FloatArray,
    tokens_per_sequence: float,
    *,
    sequence_parallel: int = 1,
    runtime: Runtime = RUNTIMES["tensorrt"],
) -> PassCost:
    """Time of one pass over batches of equal sequences on one replica, by category [s].

    linear parts of (sequences · tokens / sequence_parallel) tokens + attention of every layer group over whole
    sequences + the exchange of heads for tokens if the sequence is split

    Assumes: no padding; sequences split by heads (Ulysses): each rank computes its tokens' projections, then its
    heads' attention over all tokens, with four all-to-alls a layer; an eager pass lasts at least as long as its
    launches; kernels take the runtime's multiple of their time alone.
    Raises: KeyError: the device has no 16-bit peak.
    Error: tests/simulator/workloads/test_published_encoders.py: BERT-large on A100.
    Source: operators; Ulysses: Jacobs et al. 2023, arXiv:2309.14509.
    """
    batches = np.atleast_1d(np.asarray(num_sequences, dtype=np.float64))
    tokens = batches * tokens_per_sequence / sequence_parallel
    linear = token_costs(deployment, library, tokens, decode=False)
    seconds = {name: part.copy() for name, part in linear.seconds.items()}
    seconds["attention"] = np.zeros_like(batches)
    ranks = deployment.tensor_parallel * sequence_parallel
    attending = attending_library(library, runtime)
    for layer in layers_of(deployment.model):
        if layer.mixer is not None:
            one_s = layer.mixer.sequence_s(attending, tokens_per_sequence, batches, ranks)
            seconds["attention"] += layer.count / deployment.pipeline_parallel * one_s
    if sequence_parallel > 1:
        seconds["collectives"] = seconds["collectives"] + _exchange_s(deployment, tokens, sequence_parallel)
    return PassCost(batches, as_run(seconds, runtime, num_operators(deployment.model)))


_UNCUT_SM_FLOP_PER_CYCLE: Final = 520.0
"""Dense 16-bit rate of one SM up to which its unit is one of GeForce's, cut to half of its generation's rate [flop]."""
_UNCUT_GENERATIONS: Final = ("ampere", "ada", "blackwell-geforce")
_MATRIX_FRACTION: Final = 0.9
"""Fraction of a cut unit's peak that attention reaches. Own assumption; the published 101 of 119 TFLOP/s of a video on
an L20 (xDiT) is 0.85 with all other operators."""


def _at_rate(device: Device, rate: float, uncut: float) -> Device:
    """Return the device with this rate of its 16-bit unit, taken for one that is built for `uncut` [flop/s]."""
    return replace(
        device,
        peak_flop_per_s={**device.peak_flop_per_s, "bf16": rate},
        peak_scale={**device.peak_scale, "bf16": rate / uncut},
    )


def attending_library(library: OperatorLibrary, runtime: Runtime) -> OperatorLibrary:
    """Return the library for attention over images and videos under a runtime.

    Kernels were measured on boards with the full matrix rate, where other instructions set the pace. Boards whose
    rate is halved run those instructions as fast: they come as close to their peak as these allow.

        rate = min(2 · fraction · peak, 0.9 · peak)

    Source: NVIDIA Ada architecture whitepaper, appendix A (matrix rates of RTX 4090 and L40); own derivation.
    """
    device = library.device
    peak = device.peak_flop_per_s["bf16"]
    per_cycle = peak / (device.num_sms * device.clock_hz)
    if device.architecture in _UNCUT_GENERATIONS and per_cycle <= _UNCUT_SM_FLOP_PER_CYCLE:
        uncut = library.on_device(_at_rate(device, 2.0 * peak, 2.0 * peak))
        fraction = uncut.parameters(PrefillEfficiency, "attention_prefill", "bf16").peak_fraction
        rate = min(2.0 * peak, _MATRIX_FRACTION * peak / fraction)
        return library.on_device(_at_rate(device, max(peak, rate), 2.0 * peak))
    if runtime.has_plain_attention:
        return library.on_device(with_one_warp_limit(device))
    return library


def as_run(seconds: Mapping[str, FloatArray], runtime: Runtime, num_launches: int) -> dict[str, FloatArray]:
    """Return the times of kernels as a runtime runs them, exposed launch time included, by category [s].

    Source: runtimes.RUNTIMES.
    """
    scaled = {
        name: part * (1.0 if name in _LIBRARY_KERNELS else runtime.kernel_scale)
        for name, part in seconds.items()
    }
    if runtime.launch_s * num_launches:
        whole = np.asarray(sum(scaled.values()), dtype=np.float64)
        scaled["launch"] = np.maximum(0.0, num_launches * runtime.launch_s - whole)
    return scaled


def pass_flop(deployment: Deployment, tokens_per_sequence: float) -> float:
    """FLOP of one pass over one sequence [flop].

    2 · parameters of the layers · tokens + 4 · heads · head_dim · scores of every attention layer

    Source: definition; a multiplication with its addition counts as two.
    """
    total = 0.0
    for layer in layers_of(deployment.model):
        total += layer.count * 2.0 * tokens_per_sequence * layer.active
        attention = layer.attention
        if attention is not None:
            keys = attention.cross_tokens or tokens_per_sequence
            seen = 0.5 if attention.causal and not attention.cross_tokens else 1.0
            total += layer.count * attention.prefill_pair_flop * tokens_per_sequence * keys * seen
    return total


def _exchange_s(deployment: Deployment, rank_tokens: FloatArray, ranks: int) -> FloatArray:
    """Time of the four all-to-alls by which queries, keys, values and outputs of every layer change their split [s]."""
    topology = topology_of(deployment.accelerator, ranks)
    num_bytes = rank_tokens * deployment.model.hidden_size * BF16_BYTES / deployment.tensor_parallel
    layers = sum(group.count for group in deployment.model.layers if group.mixer is not None)
    return np.asarray(4.0 * layers / deployment.pipeline_parallel * all_to_all_s(num_bytes, topology))
