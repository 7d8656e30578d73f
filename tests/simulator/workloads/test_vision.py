"""Tokens of images against the published processors, and what images do to a replica."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from advisor.catalog import models, vision
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.simulator.graph.model import kv_bytes_per_token
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving import FixedLengths, Poisson, Workload, simulate
from advisor.simulator.workloads.vision import image_encoder_s, tokens_of_image, vision_replica


@pytest.mark.parametrize(
    ("scheme", "size", "tokens"),
    [
        ("llava-1.5", (336, 336), 576),  # (336 / 14)^2
        ("llava-1.5", (4000, 3000), 576),
        ("llava-next", (672, 672), 576 + 48 * 49),  # two by two tiles, a separator per row, the whole image
        ("llava-next", (336, 672), 576 + 48 * 25),
        ("llava-next", (640, 480), 2340),  # padding cut off: 36 rows of 48
        ("qwen2-vl", (1280, 720), 26 * 46 + 2),  # 728 x 1288 pixels in units of 28
        ("qwen2-vl", (224, 224), 64 + 2),
        ("qwen3-vl", (1024, 1024), 32 * 32 + 2),
        ("internvl", (448, 448), 256 + 2),
        ("internvl", (896, 448), 3 * 256 + 2),  # two tiles and the thumbnail
        ("internvl", (640, 480), 13 * 256 + 2),  # four by three tiles and the thumbnail
        ("pixtral", (1024, 1024), 64 * 65),  # a break behind each of 64 rows
        ("pixtral", (512, 256), 16 * 33),
        ("pixtral", (2048, 1024), 32 * 65),  # shrunk to 1024 x 512
        ("gemma-3", (1920, 1080), 256),
        ("llama-4", (336, 336), 144),
    ],
)
def test_tokens_of_known_images(scheme: str, size: tuple[int, int], tokens: int) -> None:
    assert tokens_of_image(vision.get(scheme), *size).language_tokens == tokens


SIDES = st.integers(28, 3000)


@given(st.sampled_from(sorted(vision.all_schemes())), SIDES, SIDES)
def test_every_image_has_tokens_within_the_schemes_bounds(name: str, width: int, height: int) -> None:
    scheme = vision.get(name)
    image = tokens_of_image(scheme, width, height)
    assert image.language_tokens > 0
    assert image.num_passes >= 1
    if scheme.kind == "merged":
        unit = scheme.patch * scheme.merge
        assert image.patches_per_pass * scheme.patch**2 <= max(scheme.max_pixels, unit * max(width, height))
        assert image.language_tokens == image.patches_per_pass // scheme.merge**2 + scheme.extra_tokens
    if scheme.kind in ("tiles", "grid"):
        assert image.num_passes <= max(scheme.max_tiles, 4) + 1


def test_impossible_images_are_refused() -> None:
    for size in ((0, 10), (10, -1), (100_000, 10)):
        with pytest.raises(AdvisorError, match="cannot be encoded"):
            tokens_of_image(vision.get("qwen2-vl"), *size)


def test_models_know_their_scheme() -> None:
    assert vision.scheme_of(models.by_id("qwen3-vl-8b")).id == "qwen3-vl"
    assert vision.scheme_of(models.by_id("gemma-3-27b")).id == "gemma-3"
    with pytest.raises(UnknownNameError, match="not recorded"):
        vision.scheme_of(models.by_id("llama-3.1-8b"))
    with pytest.raises(UnknownNameError):
        vision.get("lava")


def test_sixteen_users_with_an_image_each(placed: Any) -> None:
    """Worked question 13: 10 240 tokens and 5.4 GB of cache, against 0.54 GB without images."""
    model = placed("llama-2-7b", "a100-sxm-80gb")[0].model
    image = tokens_of_image(vision.get("llava-1.5"), 336, 336)
    tokens = 16 * (image.language_tokens + 64)
    per_token = kv_bytes_per_token(model).full_bytes_per_token
    assert tokens == 10_240
    assert tokens * per_token == pytest.approx(5.4e9, rel=0.01)
    assert 16 * 64 * per_token == pytest.approx(0.54e9, rel=0.01)


def test_images_cost_time_to_the_first_token_and_cache(placed: Any) -> None:
    deployment, _ = placed("llama-2-7b", "a100-sxm-80gb")
    scheme = vision.get("llava-1.5")
    image = tokens_of_image(scheme, 336, 336)
    plain = model_replica(deployment, mean_input_tokens=640, mean_output_tokens=64)
    seeing = vision_replica(plain, scheme, image, 1, 640)
    load = Workload(Poisson(2.0), FixedLengths(640, 64), 200)
    first, second = (simulate(r.surface, r.policy, load).ttft.mean_s for r in (plain, seeing))
    encoder_s = image_encoder_s(deployment, plain.library, scheme, image)
    assert second - first == pytest.approx(encoder_s, rel=0.5)
    assert second > first
    assert seeing.policy.kv_capacity_blocks < plain.policy.kv_capacity_blocks
    many = image_encoder_s(deployment, plain.library, scheme, image, 8)
    assert encoder_s < many < 8 * encoder_s
