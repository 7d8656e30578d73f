"""Published timings of images and videos as tables name them: models, splits, what was timed."""

import pytest

from advisor.catalog import diffusion
from advisor.evidence.images.prediction import parse_case, predict_row

ROW = {
    "case_id": "1",
    "model": "FLUX.1-dev",
    "gpu": "h100-sxm",
    "n_gpus": "1",
    "parallel": "-",
    "width": "1024",
    "height": "1024",
    "steps": "28",
    "guidance_passes": "1",
    "precision": "bf16",
    "batch": "1",
    "engine": "xdit",
    "what": "end-to-end seconds per batch",
}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("SDXL", "sdxl"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "sdxl"),
        ("SDXL-Lightning", "sdxl"),
        ("SD 1.5", "stable-diffusion-1.5"),
        ("Stable Diffusion 3", "sd3-medium"),
        ("SANA-1.6B 4K", "sana-1.6b"),
        ("SANA-0.6B", "sana-0.6b"),
        ("FLUX.1-schnell FSDP", "flux.1-schnell"),
        ("ConsisID (CogVideoX-5B)", "cogvideox-5b"),
        ("CogVideoX-5B-I2V", "cogvideox-5b"),
        ("HunyuanVideo-I2V", "hunyuan-video"),
        ("Wan2.1-1.3B", "wan2.1-t2v-1.3b"),
        ("Wan2.2-I2V-A14B", "wan2.2-t2v-a14b"),
        ("Step-Video-T2V-Turbo", "step-video-t2v"),
    ],
)
def test_models_by_the_names_of_tables(name: str, model: str) -> None:
    assert parse_case(ROW | {"model": name}, 2).pipeline.id == model


@pytest.mark.parametrize(
    ("text", "gpus", "split", "sequence", "guidance", "tensor", "decoder", "shards"),
    [
        ("ulysses 4", "4", "ulysses", 4, 1, 1, 1, 1),
        ("cfg 2 ulysses 1 ring 2 pp 1", "4", "ring", 2, 2, 1, 1, 1),
        ("cfg 2 ulysses 1 ring 1 pp 4", "8", "pipefusion", 4, 2, 1, 1, 1),
        ("tp 8", "8", "ulysses", 1, 1, 8, 1, 1),
        ("dp 2 (CFG) x context 4", "8", "ring", 4, 2, 1, 1, 1),
        ("cfg 2 ulysses 4 attn2d 3x3 vae 8", "72", "ring", 36, 2, 1, 8, 1),
        ("fsdp 4", "4", "ulysses", 1, 1, 1, 1, 4),
        ("-", "1", "ulysses", 1, 1, 1, 1, 1),
    ],
)
def test_splits_as_tables_write_them(
    text: str, gpus: str, split: str, sequence: int, guidance: int, tensor: int, decoder: int, shards: int
) -> None:
    row = ROW | {"model": "Wan2.1-T2V-14B", "guidance_passes": "2", "parallel": text, "n_gpus": gpus}
    case = parse_case(row, 2)
    found = case.parallel
    assert (found.split, found.sequence, found.guidance) == (split, sequence, guidance)
    assert (case.deployment.tensor_parallel, found.decoder, found.weight_shards) == (tensor, decoder, shards)
    assert predict_row(row, 2).status == "ok"


def test_a_timing_of_the_loop_leaves_out_what_runs_once() -> None:
    whole, loop = (
        predict_row(ROW | {"what": what}, 2).metrics["seconds"].value
        for what in ("end-to-end request", "denoise loop only")
    )
    assert loop < whole < 1.2 * loop


def test_engines_that_compile_are_faster() -> None:
    eager, compiled, planned = (
        predict_row(ROW | {"model": "SDXL", "guidance_passes": "2", "engine": engine}, 2)
        .metrics["seconds"]
        .value
        for engine in ("diffusers", "diffusers torch.compile", "tensorrt")
    )
    assert eager > compiled > planned


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gpu": ""}, "accelerator is not stated"),
        ({"width": "", "height": "", "steps": ""}, "neither size nor steps"),
        ({"model": "SVD"}, "not modelled"),
    ],
)
def test_a_row_that_says_too_little_is_not_asked(change: dict[str, str], told: str) -> None:
    found = predict_row(ROW | change, 2)
    assert found.status == "unsupported"
    assert told in found.reason


def test_every_pipeline_can_be_asked() -> None:
    for name in diffusion.all_pipelines():
        row = ROW | {"model": name, "width": "", "height": "", "guidance_passes": "", "gpu": "h200-sxm"}
        assert predict_row(row, 2).status == "ok", name
