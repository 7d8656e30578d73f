"""Whisper against published runs: the least sure of the workloads, and its interval says so."""

from typing import Any

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.workloads.encoder_pass import RUNTIMES
from advisor.simulator.workloads.speech import (
    RANGE,
    decoder_of,
    encoder_of,
    largest_segment_batch,
    transcription_s,
)


def ratio(
    placed: Any, model: str, gpu: str, runtime: str, batch: int, num_segments: float, published_s: float
) -> float:
    deployment, library = placed(model, gpu)
    cost = transcription_s(deployment, library, np.array([float(batch)]), runtime=RUNTIMES[runtime])
    return published_s / (float(cost.total_s[0]) * num_segments / batch)


def test_published_runs_lie_in_the_stated_range(placed: Any) -> None:
    found = [
        # Vaibhavs10/insanely-fast-whisper: 150 minutes in 98 s, A100, batches of 24; 30 s chunks that advance 20 s.
        ratio(placed, "whisper-large-v3", "a100-sxm-80gb", "torch-eager", 24, 450, 98.0),
        # inferencebench.io: 120 s of speech in 0.201 s, H100, large v3 turbo.
        ratio(placed, "whisper-large-v3-turbo", "h100-sxm", "torch-eager", 4, 4, 0.201),
        # MLPerf Inference 5.1: 45 000 tokens/s on eight B200s.
        ratio(placed, "whisper-large-v3", "b200-sxm", "torch-compile", 256, 256, 256 * 105 / (45e3 / 8)),
    ]
    assert sum(RANGE[0] * 0.98 <= value <= RANGE[1] for value in found) == len(found), found


def test_decoding_dominates_and_turbo_is_faster(placed: Any) -> None:
    one = np.array([1.0])
    large = transcription_s(*placed("whisper-large-v3", "h100-sxm"), one)
    turbo = transcription_s(*placed("whisper-large-v3-turbo", "h100-sxm"), one)
    assert large.seconds["decoder"][0] > 10 * large.seconds["encoder"][0]
    assert turbo.total_s[0] < large.total_s[0] / 3  # 4 of 32 decoder layers


def test_time_is_linear_in_the_words_and_batching_pays(placed: Any) -> None:
    deployment, library = placed("whisper-large-v3", "h100-sxm")
    sizes = np.array([1.0, 4.0, 16.0, 64.0])
    short, long = (transcription_s(deployment, library, sizes, tokens_per_segment=n) for n in (50, 100))
    assert (long.total_s > 1.5 * short.total_s).all()
    assert (np.diff(sizes / short.total_s) > 0).all()


def test_the_halves_of_a_model_are_the_whole(placed: Any) -> None:
    model = placed("whisper-large-v3", "h100-sxm")[0].model
    assert sum(group.count for group in encoder_of(model).layers) == 32
    assert sum(group.count for group in decoder_of(model).layers if group.feed_forward) == 32
    assert parameter_count(encoder_of(model)).total < parameter_count(model).total
    assert largest_segment_batch(placed("whisper-large-v3", "h100-sxm")[0]) > 100


def test_a_text_model_does_not_listen(placed: Any) -> None:
    with pytest.raises(AdvisorError, match="no decoder that listens"):
        transcription_s(*placed("llama-3.1-8b", "h100-sxm"), np.array([1.0]))
