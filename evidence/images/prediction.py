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
)
"""Columns that a prediction may read; notes, source, source_ref and measured values are not among them."""
METRICS: Final = ("seconds",)
_DEGREE: Final = re.compile(
    r"(ulysses|ring|pipefusion|pp|tp|cfg|context|dp|fsdp|attn2d|vae)\s*(?:\(cfg\)\s*)?x?\s*(\d+)(?:x(\d+))?"
)
_COMPILED_ENGINES: Final = ("maxdiffusion", "trtllm", "tensorrt")
"""Engines that compile whatever their options say."""
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


def predict_row(row: Mapping[str, str], row_number: int) -> Prediction:
    """Return the prediction of one row; no content of a row raises an error."""
    case_id = (row.get("case_id") or "").strip()
    return predict_or_report(case_id, lambda: parse_case(row, row_number), _predict)


def parse_case(row: Mapping[str, str], row_number: int) -> ImageCase:
    """Return a case from a CSV row; blanks mean the pipeline's own settings.

    Raises: InputFileError: a field is not a number of the right kind. UnsupportedCaseError: the model, the accelerator
        or the split is not modelled.
    """
    cells = Cells(row, row_number)
    pipeline = _pipeline(cells.text("model"))
    try:
        chip = accelerators.get(cells.text("gpu")).record
    except UnknownNameError as error:
        raise UnsupportedCaseError(error.what) from None
    width = cells.degree("width")
    height = cells.degree("height")
    if (width is None or height is None) and not row.get("model"):
        raise UnsupportedCaseError("the size is not stated")
    passes = cells.degree("guidance_passes")
    guided = pipeline.guidance == "classifier_free" if passes is None else passes == 2
    job = ImageJob(
        width or pipeline.default_width,
        height or pipeline.default_height,
        cells.degree("steps") or pipeline.default_steps,
        guided,
        cells.degree("frames") or pipeline.default_frames,
    )
    parallel, replicas = _parallel(cells.text("parallel").lower(), cells.degree("n_gpus") or 1)
    precision = cells.text("precision").lower() or _USUAL_PRECISION
    dtype = _PRECISIONS.get(precision, precision)
    engine = chip.engines[0] if chip.engines else "vllm"
    try:
        deployment = named_deployment(pipeline.id, chip.id, engine, weight_dtype=dtype)
    except KeyError:
        raise UnsupportedCaseError(f"precision {precision} is not modelled") from None
    compiled = cells.text("compile") == "1" or cells.text("engine").lower().startswith(_COMPILED_ENGINES)
    return ImageCase(
        cells.text("case_id"),
        deployment,
        pipeline,
        job,
        parallel,
        max(1.0, (cells.degree("batch") or 1) / replicas),
        RUNTIMES["torch-compile" if compiled else "torch-eager"],
    )


def _pipeline(name: str) -> diffusion.DiffusionPipeline:
    """Return the pipeline of a model as published tables name it; a name in brackets is the model that was adapted."""
    inner = re.search(r"\(([^)]+)\)", name)
    for text in filter(None, (name, inner[1] if inner else "")):
        try:
            return diffusion.get(models.get(text).record.id)
        except UnknownNameError:
            continue
    raise UnsupportedCaseError(f"model {name!r} is not modelled")


def _parallel(text: str, num_gpus: int) -> tuple[Parallel, int]:
    """Return the split of one batch, and the number of replicas that the accelerators leave room for.

    Raises: UnsupportedCaseError: a way to split is not modelled, or the degrees do not multiply to the number.
    """
    sequence = 1
    guidance = 1
    split: Split = "ulysses"
    for way, first, second in _DEGREE.findall(text):
        degree = int(first) * int(second or 1)
        if degree == 1 or way in ("fsdp", "vae"):
            continue
        if way == "cfg" or (way == "dp" and "cfg" in text):
            guidance = degree
        elif way in ("tp", "attn2d"):
            raise UnsupportedCaseError(f"a split by {way} is not modelled for images")
        elif way != "dp":
            sequence *= degree
            if way == "ring" and sequence == degree:
                split = "ring"
            elif way in ("pp", "pipefusion") and sequence == degree:
                split = "patch"
    if guidance > 2 or sequence * guidance > num_gpus:
        sequence = max(1, num_gpus // guidance)
    return Parallel(split, sequence, guidance), max(1, num_gpus // (sequence * guidance))


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
    seconds = float(cost.total_s[0])
    basis: Basis = "assumed" if library.transferred_operators else "modelled"
    range_s = Quantity(seconds, seconds * case.runtime.low, seconds * case.runtime.high, basis)
    return Prediction(case.case_id, "ok", "", basis, {"seconds": range_s})
