"""Predictions of published image and video timings from their conditions, with 80 % intervals."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.catalog import accelerators, diffusion, models
from advisor.catalog.errors import UnknownNameError
from advisor.evidence.prediction import Prediction, UnsupportedCaseError, predict_or_report
from advisor.evidence.table import Cells
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.workloads.diffusion import ImageJob, Parallel, Split, images_s
from advisor.simulator.workloads.encoder_pass import RUNTIMES, Runtime

INPUT_COLUMNS: Final = (
    "case_id",
    "model",
    "gpu",
    "n_gpus",
    "parallel",
    "width",
    "height",
    "frames",
    "steps",
    "guidance_passes",
    "precision",
    "batch",
    "engine",
    "compile",
    "what",
)
"""Columns that a prediction may read; notes, source, source_ref and measured values are not among them."""
METRICS: Final = ("seconds",)
_DEGREE: Final = re.compile(
    r"(ulysses|ring|pipefusion|pp|tp|cfg|context|dp|fsdp|attn2d|vae)\s*(?:\(cfg\)\s*)?x?\s*(\d+)(?:x(\d+))?"
)
_COMPILED_ENGINES: Final = ("maxdiffusion", "trtllm")
"""Engines that compile whatever their options say."""
_PLANNED_ENGINES: Final = ("tensorrt", "onediff", "oneflow")
"""Engines that plan a static network and fuse its kernels, beginnings of their names."""
_ONCE: Final = ("text_encoders", "decoder")
"""Parts of a batch that a timing of the denoising loop leaves out."""
_SIZE_WORD: Final = re.compile(r"a?\d+(\.\d+)?b", re.IGNORECASE)
_USUAL_PRECISION: Final = "bf16"
_PRECISIONS: Final = {"fp16": "bf16", "fp8 blockwise": "fp8", "fp8 dynamic": "fp8"}


@dataclass(frozen=True, slots=True)
class ImageCase:
    """One published timing of images or a video."""

    case_id: str
    deployment: Deployment
    pipeline: diffusion.DiffusionPipeline
    job: ImageJob
    parallel: Parallel
    num_images: float
    """Number of images or videos of one replica's batch."""
    runtime: Runtime
    only_denoising: bool = False
    """Whether the timing leaves out what runs once: text encoders and decoder."""


def predict_row(row: Mapping[str, str], row_number: int) -> Prediction:
    """Return the prediction of one row; no content of a row raises an error."""
    return predict_or_report(row, row_number, lambda: parse_case(row, row_number), _predict)


def parse_case(row: Mapping[str, str], row_number: int) -> ImageCase:
    """Return a case from a CSV row; blanks mean the pipeline's own settings.

    Raises: InputFileError: a field is not a number of the right kind. UnsupportedCaseError: the model, the accelerator
        or the split is not modelled.
    """
    cells = Cells(row, row_number)
    pipeline = _pipeline(cells.text("model"))
    if not cells.text("gpu"):
        raise UnsupportedCaseError("the accelerator is not stated")
    try:
        chip = accelerators.get(cells.text("gpu")).record
    except UnknownNameError as error:
        raise UnsupportedCaseError(error.what) from None
    width = cells.degree("width")
    height = cells.degree("height")
    steps = cells.degree("steps")
    if width is None and height is None and steps is None:
        raise UnsupportedCaseError("neither size nor steps are stated")
    passes = cells.degree("guidance_passes")
    guided = pipeline.guidance == "classifier_free" if passes is None else passes == 2
    job = ImageJob(
        width or pipeline.default_width,
        height or pipeline.default_height,
        steps or pipeline.default_steps,
        guided,
        cells.degree("frames") or pipeline.default_frames,
    )
    split = cells.text("parallel").lower()
    parallel, replicas = _parallel(split, cells.degree("n_gpus") or 1)
    tensor = _degree_of("tp", split)
    precision = cells.text("precision").lower() or _USUAL_PRECISION
    dtype = _PRECISIONS.get(precision, precision)
    engine = chip.engines[0] if chip.engines else "vllm"
    try:
        deployment = named_deployment(
            pipeline.id, chip.id, engine, weight_dtype=dtype, tensor_parallel=tensor
        )
    except KeyError:
        raise UnsupportedCaseError(f"precision {precision} is not modelled") from None
    return ImageCase(
        cells.text("case_id"),
        deployment,
        pipeline,
        job,
        parallel,
        max(1.0, (cells.degree("batch") or 1) / replicas),
        _runtime(cells.text("engine").lower(), is_compiled=cells.text("compile") == "1"),
        only_denoising="denois" in cells.text("what").lower(),
    )


def _runtime(engine: str, *, is_compiled: bool) -> Runtime:
    """Return the runtime of an engine: one that plans whole networks, a compiler, or PyTorch as it is."""
    if engine.startswith(_PLANNED_ENGINES) and not engine.startswith(_COMPILED_ENGINES):
        return RUNTIMES["tensorrt"]
    compiled = is_compiled or engine.startswith(_COMPILED_ENGINES) or "compile" in engine
    return RUNTIMES["torch-compile" if compiled else "torch-eager"]


def _pipeline(name: str) -> diffusion.DiffusionPipeline:
    """Return the pipeline of a model as published tables name it: a name in brackets is the model that was adapted,
    words behind a name tell its size or how it was run."""
    inner = re.search(r"\(([^)]+)\)", name)
    words = name.split()
    shorter = [" ".join(words[:count]) for count in range(len(words), 0, -1)]
    # What was made of a model keeps its name in front: HunyuanVideo-I2V, SDXL-Lightning. A size is no such word.
    pieces = name.split("-")
    while len(pieces) > 1 and not _SIZE_WORD.fullmatch(pieces[-1]):
        pieces.pop()
        shorter.append("-".join(pieces))
    for text in filter(None, (*shorter, inner[1] if inner else "")):
        try:
            return diffusion.get(models.get(text).record.id)
        except UnknownNameError:
            continue
    raise UnsupportedCaseError(f"model {name!r} is not modelled")


def _degree_of(way: str, text: str) -> int:
    """Return the degree of one way to split, 1 if it is not among those of a row."""
    return next((int(first) for name, first, _ in _DEGREE.findall(text) if name == way), 1)


def _parallel(text: str, num_gpus: int) -> tuple[Parallel, int]:
    """Return the split of one batch, and the number of replicas that the accelerators leave room for.

    Several ways to split the tokens of a batch are taken as the first of them, with the product of their degrees.
    """
    sequence = 1
    guidance = 1
    split: Split = "ulysses"
    for way, first, second in _DEGREE.findall(text):
        degree = int(first) * int(second or 1)
        if degree == 1 or way in ("fsdp", "vae", "tp"):
            continue
        if way == "cfg" or (way == "dp" and "cfg" in text):
            guidance = degree
        elif way != "dp":
            split = _split_of(way) if sequence == 1 else split
            sequence *= degree
    tensor = _degree_of("tp", text)
    most = max(1, num_gpus // tensor)
    if guidance > 2 or sequence * guidance > most:
        sequence = max(1, most // guidance)
    if split == "ulysses" and "attn2d" in text:
        # Rows of accelerators hold queries, columns keys: any number divides them, as around a ring.
        split = "ring"
    parallel = Parallel(
        split, sequence, guidance, decoder=_degree_of("vae", text), weight_shards=_degree_of("fsdp", text)
    )
    return parallel, max(1, most // (sequence * guidance))


def _split_of(way: str) -> Split:
    """Return the split that a published name of it means."""
    if way in ("ring", "context", "attn2d"):
        return "ring"
    return "pipefusion" if way in ("pp", "pipefusion") else "ulysses"


def _predict(case: ImageCase) -> Prediction:
    library = OperatorLibrary(device_of(case.deployment.accelerator), "any")
    cost = images_s(
        case.deployment,
        library,
        case.pipeline,
        case.job,
        np.array([case.num_images]),
        parallel=case.parallel,
        runtime=case.runtime,
    )
    left_out = sum(float(cost.seconds[name][0]) for name in _ONCE) if case.only_denoising else 0.0
    seconds = float(cost.total_s[0]) - left_out
    basis: Basis = "assumed" if library.transferred_operators else "modelled"
    range_s = Quantity(seconds, seconds * case.runtime.low, seconds * case.runtime.high, basis)
    return Prediction(case.case_id, "ok", "", basis, {"seconds": range_s})
