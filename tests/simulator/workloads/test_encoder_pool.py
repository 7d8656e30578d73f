"""Encoders of their own: laws of their queue, and what two publications report."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from advisor.simulator.workloads.encoder_pool import EncoderPool

Cli = Callable[[str], Any]
VISION = (
    "simulate vision --model qwen3-vl-4b --gpu a100-sxm-80gb --precision bf16 --image-size 640x640 --images 4 "
    "--input-tokens 400 --output-tokens 150 --length-dist fixed --requests 400"
)


def metrics(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command} --json").document()["metrics"]


def test_a_lone_request_waits_for_its_images_in_rounds() -> None:
    """Seven images on three encoders take three rounds (the SGLang authors' example), then the transfer."""
    pool = EncoderPool(3, image_s=0.1, images_per_request=7, transfer_s=0.01)
    assert pool.ready_s(np.array([5.0])) == pytest.approx([5.31])


def test_requests_queue_behind_each_other_and_leave_in_order() -> None:
    pool = EncoderPool(1, image_s=0.1, images_per_request=2, transfer_s=0.0)
    assert pool.ready_s(np.array([0.0, 0.1, 1.0])) == pytest.approx([0.2, 0.4, 1.2])
    assert pool.capacity_per_s == pytest.approx(5.0)


def test_more_encoders_never_make_a_request_wait_longer() -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(0.1, 500))
    waits = [EncoderPool(number, 0.04, 2, 0.0).ready_s(arrivals) - arrivals for number in (1, 2, 4)]
    assert np.all(waits[0] >= waits[1] - 1e-12)
    assert np.all(waits[1] >= waits[2] - 1e-12)
    assert waits[2].min() == pytest.approx(0.04)


def test_one_encoder_and_three_replicas_decode_with_shorter_tails_than_four(cli: Cli) -> None:
    """vLLM's authors report 20 to 50 % lower p99 TTFT and TPOT on four A100s; predicted are 13 % at 12 requests/s."""
    together = metrics(cli, f"{VISION} --rate 12 --replicas 4")
    apart = metrics(cli, f"{VISION} --rate 12 --replicas 3 --encoder-gpus 1")
    for metric in ("ttft_s", "tpot_s"):
        assert apart[metric]["p99"]["value"] < 0.95 * together[metric]["p99"]["value"]


def test_encoders_of_their_own_shorten_first_tokens_by_the_published_factor(cli: Cli) -> None:
    """6 to 8 times where a replica that encodes its own images is overwhelmed: at 1 request/s there, predicted at 0.7.

    SGLang, EPD Disaggregation, 2026-01-12: Qwen3-VL-235B in fp8 on four H20s, about four images of 1080p.
    """
    base = "simulate vision --model qwen3-vl-235b-a22b --gpu h20 --tp 4 --precision fp8 --engine sglang --rate 0.7"
    base += " --image-size 1920x1080 --images 4 --input-tokens 128 --output-tokens 256 --requests 200"
    together, apart = (
        metrics(cli, f"{base} {more}")["ttft_s"]["mean"]["value"] for more in ("", "--encoder-gpus 2")
    )
    assert 5.0 < together / apart < 9.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--concurrency 4 --encoder-gpus 1", "needs a rate"),
        ("--rate 60 --replicas 4 --encoder-gpus 1", "--encoder-gpus 3"),
    ],
)
def test_what_encoders_cannot_take_is_refused(cli: Cli, options: str, said: str) -> None:
    run = cli(f"advisor {VISION} {options}")
    assert run.code != 0
    assert said in run.err
