"""Speech to text with an encoder and a decoder (Whisper): segments of 30 s, encoded at once, decoded token by token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.forward_pass import decode_lines, head_s, token_costs
from advisor.simulator.graph.model import kv_bytes_per_token, layers_of, num_operators, parameter_count
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.workloads.embedding import MEMORY_FRACTION
from advisor.simulator.workloads.encoder_pass import RUNTIMES, Runtime, as_run, encoder_pass

FloatArray = NDArray[np.float64]
SEGMENT_S = 30.0
"""Length of audio of one pass of the encoder, whatever it contains [s]."""
TOKENS_PER_S = 3.5
"""Text tokens per second of speech: 150 words a minute at 1.33 tokens a word, and timestamps."""
PROMPT_TOKENS = 4
"""Number of marks that the decoder reads first: start, language, task and timestamp."""
RANGE = (0.55, 2.4)
"""Range that contains 80 % of the ratios of published to predicted time: three published runs,
test_published_speech.py."""


@dataclass(frozen=True, slots=True)
class SpeechCost:
    """Time to transcribe batches of segments [s], by part."""

    num_segments: FloatArray
    seconds: Mapping[str, FloatArray]
    decode_step_s: FloatArray

    @property
    def total_s(self) -> FloatArray:
        """Sum over the parts [s]. Source: definition."""
        return np.asarray(sum(self.seconds.values()), dtype=np.float64)


def encoder_of(model: Model) -> Model:
    """Return the layers that read audio. Source: the model record."""
    return _part_of(model, reads=True)


def decoder_of(model: Model) -> Model:
    """Return the layers that write text. Source: the model record."""
    return _part_of(model, reads=False)


def transcription_s(
    deployment: Deployment,
    library: OperatorLibrary,
    num_segments: FloatArray,
    *,
    tokens_per_segment: float = TOKENS_PER_S * SEGMENT_S,
    runtime: Runtime = RUNTIMES["torch-compile"],
    host_step_s: float = 0.0,
) -> SpeechCost:
    """Time to transcribe batches of 30 s segments on one replica, by part [s].

    encoder pass over 1 500 positions + keys and values for every decoder layer + tokens · decode step

    A decode step reads the decoder's weights, attends to the text so far and to all 1 500 positions of the audio.

    Assumes: all segments of a batch take as many tokens, as batches without refill do; greedy decoding; the two
    convolutions in front are small.
    Raises: AdvisorError: the model is no speech model. KeyError: no 16-bit peak.
    Error: Whisper large v3 on A100, tests/simulator/workloads/test_published_speech.py.
    Source: Radford et al. 2022, arXiv:2212.04356; operators.
    """
    positions = _positions(deployment.model)
    segments = np.atleast_1d(np.asarray(num_segments, dtype=np.float64))
    encoder = replace(deployment, model=encoder_of(deployment.model))
    listened = encoder_pass(encoder, library, segments, positions, runtime=runtime)
    step = decode_step_s(deployment, library, segments, PROMPT_TOKENS + tokens_per_segment / 2.0, runtime)
    step_s = np.asarray(sum(step.values()), dtype=np.float64) + host_step_s
    crossing = as_run({"cross_keys": _cross_keys_s(deployment, library, segments * positions)}, runtime, 0)
    seconds = {
        "encoder": listened.total_s,
        "cross_keys": crossing["cross_keys"],
        "decoder": tokens_per_segment * step_s,
    }
    return SpeechCost(segments, seconds, step_s)


def decode_step_s(
    deployment: Deployment,
    library: OperatorLibrary,
    num_sequences: FloatArray,
    mean_text_tokens: float,
    runtime: Runtime,
) -> dict[str, FloatArray]:
    """Time of one decoder step over a batch, by category [s].

    Source: graph.forward_pass.
    """
    model = decoder_of(deployment.model)
    decoder = replace(deployment, model=model)
    seconds = {
        name: part.copy()
        for name, part in token_costs(decoder, library, num_sequences, decode=True).seconds.items()
    }
    lines = decode_lines(decoder, library, num_sequences, mean_text_tokens, 2.0 * mean_text_tokens)
    seconds["attention"] = lines.intercept_s + num_sequences * lines.growing_s(mean_text_tokens)
    seconds["head"] = head_s(decoder, library, num_sequences)
    return as_run(seconds, runtime, num_operators(model))


def largest_segment_batch(deployment: Deployment) -> int:
    """Number of segments whose caches fit in addition to the weights: audio keys of every decoder layer, and text.

    Raises: InfeasibleError: not even one fits.
    Source: graph.model.kv_bytes_per_token.
    """
    model = deployment.model
    memory = (deployment.accelerator.memory_bytes or 0.0) * MEMORY_FRACTION
    weights = parameter_count(model).total * bytes_per_element(deployment.weight_dtype)
    footprint = kv_bytes_per_token(model)
    positions = _positions(model)
    activations = positions * model.hidden_size * 12.0 * bytes_per_element("bf16")
    each = footprint.bytes_of(model.max_context_tokens or 448) + activations
    count = int((memory - weights) / each)
    if count < 1:
        raise InfeasibleError(
            f"{model.id} does not fit {deployment.accelerator.id}", why="no segment fits beside the weights"
        )
    return count


def _positions(model: Model) -> int:
    for layer in layers_of(model):
        if layer.attention is not None and layer.attention.cross_tokens:
            return layer.attention.cross_tokens
    raise AdvisorError(
        f"{model.id} has no decoder that listens to an encoder",
        fix="a speech model, e.g. --model whisper-large-v3",
    )


def _cross_keys_s(deployment: Deployment, library: OperatorLibrary, rows: FloatArray) -> FloatArray:
    """Time of the keys and values of the audio for every decoder layer [s]."""
    total = np.zeros_like(rows)
    for layer in layers_of(deployment.model):
        if layer.mixer is not None and layer.mixer.follows_encoder:
            for matrix in layer.mixer.projections(1, decode=False):
                total += layer.count * library.matmul_s(rows, matrix.columns, matrix.depth, "bf16")
    return total


def _part_of(model: Model, *, reads: bool) -> Model:
    kept = (
        group
        for group, layer in zip(model.layers, layers_of(model), strict=True)
        if (layer.attention is not None and not layer.attention.causal) == reads
    )
    return model.model_copy(update={"layers": tuple(kept)})
