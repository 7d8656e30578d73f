"""Video transformers: tokens by hand, laws, and times against published runs."""

from typing import Any

import numpy as np
import pytest

from advisor.catalog import diffusion, models
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.matmul import with_one_warp_limit
from advisor.simulator.workloads.diffusion import ImageJob, Parallel, image_tokens, images_s
from advisor.simulator.workloads.encoder_pass import RUNTIMES

VIDEO_MODELS = [name for name, pipeline in diffusion.all_pipelines().items() if pipeline.makes_videos]


def seconds(model: str, gpu: str, job: ImageJob, runtime: str, **how: Any) -> float:
    deployment = named_deployment(model, gpu)
    library = OperatorLibrary(device_of(deployment.accelerator), "any")
    cost = images_s(
        deployment,
        library,
        diffusion.get(model),
        job,
        np.array([1.0]),
        parallel=Parallel(**how),
        runtime=RUNTIMES[runtime],
    )
    return float(cost.total_s[0])


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("hunyuan-video", (1280, 720, 129), 33 * 45 * 80 + 256),
        ("wan2.1-t2v-14b", (1280, 720, 81), 21 * 45 * 80),
        ("cogvideox-5b", (720, 480, 49), 13 * 30 * 45 + 226),
        ("cogvideox1.5-5b", (1360, 768, 81), 11 * 48 * 85 + 226),
        ("ltx-video-2b", (768, 512, 121), 16 * 16 * 24),
    ],
)
def test_a_video_is_so_many_tokens(model: str, size: tuple[int, int, int], tokens: int) -> None:
    width, height, frames = size
    job = ImageJob(width, height, 50, guided=False, frames=frames)
    assert image_tokens(diffusion.get(model), job) == tokens


@pytest.mark.parametrize("model", VIDEO_MODELS)
def test_parameters_are_those_that_were_published(model: str) -> None:
    record = models.get(model).record
    assert record.published_parameters is not None
    assert parameter_count(record).total == pytest.approx(record.published_parameters, rel=0.03)


# Published runs of one accelerator and of two halves of guidance [s]: xdit-project/xDiT docs/performance, the README of
# zai-org/CogVideo, and NVIDIA/TensorRT-LLM's blog on visual generation.
PUBLISHED = [
    ("hunyuan-video", "h100-sxm", ImageJob(1280, 720, 50, False, 129), "torch-eager", 1, 1904.0),
    ("hunyuan-video", "h20", ImageJob(1280, 720, 50, False, 129), "torch-eager", 1, 6639.0),
    ("cogvideox-2b", "h100-sxm", ImageJob(720, 480, 50, True, 49), "torch-eager", 1, 45.0),
    ("cogvideox-2b", "a100-sxm-80gb", ImageJob(720, 480, 50, True, 49), "torch-eager", 1, 90.0),
    ("wan2.2-t2v-a14b", "b200-sxm", ImageJob(1280, 720, 40, True, 80), "torch-compile", 1, 373.0),
    ("wan2.2-t2v-a14b", "gb200", ImageJob(1280, 720, 40, True, 80), "torch-compile", 2, 183.0),
]


@pytest.mark.parametrize(("model", "gpu", "job", "runtime", "guidance", "published_s"), PUBLISHED)
def test_times_are_within_a_quarter_of_published_runs(
    model: str, gpu: str, job: ImageJob, runtime: str, guidance: int, published_s: float
) -> None:
    assert seconds(model, gpu, job, runtime, guidance=guidance) == pytest.approx(published_s, rel=0.25)


def test_more_frames_take_longer_than_in_proportion() -> None:
    short, long = (
        seconds("wan2.1-t2v-1.3b", "h100-sxm", ImageJob(832, 480, 10, True, frames), "torch-compile")
        for frames in (41, 81)
    )
    assert long > 2.0 * short * 0.95


def test_only_full_hopper_sms_are_limited_by_instructions_of_one_warp() -> None:
    full, cut = (device_of(named_deployment("flux.1-dev", gpu).accelerator) for gpu in ("h100-sxm", "h20"))
    assert with_one_warp_limit(full).peak_flop_per_s["bf16"] == pytest.approx(
        0.629 * full.peak_flop_per_s["bf16"], rel=0.01
    )
    assert with_one_warp_limit(cut).peak_flop_per_s == cut.peak_flop_per_s
