"""Passes over whole sequences against published times and operation counts. Nothing here was fitted to them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.catalog import vision
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.workloads.encoder_pass import RUNTIMES, encoder_pass, pass_flop

# NVIDIA/TensorRT, demo/BERT/README.md: BERT-large, FP16, one A100 40 GB, mean latency [ms] by sequence and batch.
BERT_LARGE_MS = {
    128: {1: 1.64, 2: 2.05, 4: 2.97, 8: 4.51, 16: 7.75, 32: 13.85, 64: 26.20, 128: 51.61},
    384: {1: 3.12, 2: 4.15, 4: 5.96, 8: 11.53, 16: 21.92, 32: 43.01, 64: 83.63, 128: 163.70},
}


def bert_ratios(placed: Any) -> np.ndarray:
    """Published over predicted time of every row."""
    deployment, library = placed("bge-large-en", "a100-sxm-40gb", "tensorrt-llm")  # BERT-large by shape
    ratios = []
    for tokens, row in BERT_LARGE_MS.items():
        predicted = encoder_pass(deployment, library, np.array(list(row), dtype=float), tokens).total_s
        ratios += list(np.array(list(row.values())) / 1e3 / predicted)
    return np.array(ratios)


def test_bert_large_within_a_tenth_at_the_median(placed: Any) -> None:
    ratios = bert_ratios(placed)
    assert np.median(np.abs(ratios - 1)) < 0.1
    assert ratios.min() > 0.8
    assert ratios.max() < 1.35


def test_the_stated_interval_holds_what_it_says(placed: Any) -> None:
    ratios = bert_ratios(placed)
    runtime = RUNTIMES["tensorrt"]
    inside = (ratios >= runtime.low) & (ratios <= runtime.high)
    assert inside.mean() >= 0.8


@pytest.mark.parametrize(
    ("model", "tokens", "published_flop", "tolerance"),
    [
        # Peebles and Xie 2022, table 1: 118.6 Gflops, a multiplication with its addition counted once.
        ("dit-xl-2", 256, 2 * 118.6e9, 0.01),
        # diffusers/benchmarks, collated_results.csv: 59.5 TFLOP of linear layers for 4096 + 512 tokens.
        ("flux.1-dev", 4608, 59.5e12 + 57 * 4 * 4608**2 * 3072, 0.01),
    ],
)
def test_operations_of_a_pass(
    placed: Any, model: str, tokens: int, published_flop: float, tolerance: float
) -> None:
    deployment, _ = placed(model, "h100-sxm")
    assert pass_flop(deployment, tokens) == pytest.approx(published_flop, rel=tolerance)


def test_operations_and_parameters_of_a_vision_tower(placed: Any) -> None:
    # timm, vit_large_patch14_clip_336: 191.1 GMACs, 304.5 M parameters.
    scheme = vision.get("llava-1.5")
    deployment = replace(placed("llama-2-7b", "h100-sxm")[0], model=scheme.tower_model())
    assert pass_flop(deployment, scheme.patches_per_tile) / 2 == pytest.approx(191.1e9, rel=0.01)
    assert parameter_count(scheme.tower_model()).total == pytest.approx(304.5e6, rel=0.01)


def test_time_grows_with_batch_and_length_and_falls_with_a_better_chip(placed: Any) -> None:
    deployment, library = placed("bge-m3", "h100-sxm")
    batches = np.array([1.0, 2.0, 8.0, 32.0, 128.0])
    short, long = (encoder_pass(deployment, library, batches, tokens).total_s for tokens in (128, 512))
    assert (np.diff(short) > 0).all()
    assert (long > short).all()
    assert (np.diff(batches / short) > 0).all()  # batching pays
    older = encoder_pass(*placed("bge-m3", "a100-sxm-80gb"), batches, 512).total_s
    assert (older > long).all()


def test_an_eager_pass_lasts_at_least_as_long_as_its_launches(placed: Any) -> None:
    deployment, library = placed("bge-m3", "h100-sxm")
    one = np.array([1.0])
    eager = encoder_pass(deployment, library, one, 16, runtime=RUNTIMES["torch-eager"])
    graph = encoder_pass(deployment, library, one, 16)
    assert eager.total_s[0] == pytest.approx(24 * 12 * 40e-6)
    assert eager.total_s[0] > 5 * graph.total_s[0]
