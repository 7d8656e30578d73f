"""Run one replica that serves images, texts or audio."""

from dataclasses import asdict, replace
from typing import Any

from advisor.ask.items import item_job, named_model
from advisor.ask.measures import parse_rate, parse_seconds
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.catalog import accelerators
from advisor.catalog import diffusion as pipelines
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import KILO
from advisor.commands.simulate_items.options import DiffusionInput, EmbedInput, SpeechInput
from advisor.commands.simulate_items.view import service_answer
from advisor.decide.items.option import NUM_REQUESTS, latencies_of
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.batch_queue import (
    BatchFleet,
    servers_for,
)
from advisor.simulator.workloads.diffusion import Parallel
from advisor.simulator.workloads.services import ItemJob, ItemService, ItemWorkload, item_service


def diffusion(asked: DiffusionInput, shared: SharedOptions) -> Answer:
    """Return the answer on images by batch size; raises as `_answer_load`."""
    guidance = 2 if asked.guidance_parallel else 1
    parallel = Parallel(asked.split, asked.parallel, guidance, asked.decoder_parallel)
    return _answer_load("diffusion", asked, parallel, shared)


def embed(asked: EmbedInput, shared: SharedOptions) -> Answer:
    """Return the answer on texts, or pairs of query and text, by batch size; raises as `_answer_load`."""
    return _answer_load("rerank" if asked.item.query_tokens else "embed", asked, Parallel(), shared)


def speech(asked: SpeechInput, shared: SharedOptions) -> Answer:
    """Return the answer on segments of audio by batch size; raises as `_answer_load`."""
    return _answer_load("speech", asked, Parallel(), shared)


def _answer_load(
    workload: ItemWorkload,
    asked: DiffusionInput | EmbedInput | SpeechInput,
    parallel: Parallel,
    shared: SharedOptions,
) -> Answer:
    """Return one replica by batch size, and how many of it a load takes.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or it does not fit.
    """
    model, notes = named_model(asked.model)
    chip = accelerators.get(asked.gpu)
    calibration = given_calibration(shared.calibration)
    job = item_job(model, workload, asked.item)
    tensor_parallel = 1
    if isinstance(asked, DiffusionInput):
        tensor_parallel = asked.tp
        job = _with_details(job, model.id, asked)
    weight_dtype, format_note = known_dtype(asked.precision)
    accelerator = calibrated_accelerator(chip.record, calibration)
    service = item_service(
        model, accelerator, job, weight_dtype=weight_dtype, parallel=parallel, tensor_parallel=tensor_parallel
    )
    limit_s = parse_seconds(asked.item.latency_p99, "--latency-p99") if asked.item.latency_p99 else 1.0
    fleet = _fleet(service, parse_rate(asked.rate), limit_s, shared.seed) if asked.rate else None
    inputs = {
        "model": model.id,
        "gpu": chip.record.id,
        "workload": workload,
        "job": asdict(job),
        "parallel": asdict(parallel),
        "tensor_parallel": tensor_parallel,
        "weight_dtype": service.deployment.weight_dtype,
        "rate": asked.rate,
        "latency_p99_s": limit_s if asked.rate else None,
    }
    remarks = tuple(filter(None, (*notes, chip.note, format_note)))
    answer = service_answer(service, job, inputs, remarks, fleet, _facts(workload, service))
    return with_calibration(answer, calibration, (chip.record.id,))


def _with_details(job: ItemJob, model: str, asked: DiffusionInput) -> ItemJob:
    """Return the job with the frames, the step cache and the offloading that were typed.

    Raises: AdvisorError: the model makes images and has no frames.
    """
    assert job.image is not None
    image = replace(job.image, skipped_fraction=asked.skip_steps, offload=asked.offload)
    if asked.frames is not None:
        if not pipelines.get(model).makes_videos:
            raise AdvisorError(
                f"--frames says nothing of {model}",
                why="it makes images",
                fix="--model wan2.1-t2v-14b, or drop --frames",
            )
        image = replace(image, frames=asked.frames)
    return replace(job, image=image)


def _fleet(service: ItemService, rate_per_s: float, limit_s: float, seed: int) -> tuple[BatchFleet, Quantity]:
    """Return replicas for a load, and their p99 latency with the range of a faster and of a slower service."""
    found = servers_for(
        rate_per_s, service.batch_s, limit_s, headroom=service.headroom, seed=seed, num_requests=NUM_REQUESTS
    )
    if found is None:
        raise InfeasibleError(
            f"p99 latency of {KILO * limit_s:g} ms cannot be kept",
            why=f"one item alone takes {KILO * service.batch_s[1]:.0f} ms",
            fix="fewer steps, a faster accelerator, or a split over several",
        )
    return found, latencies_of(service, found, rate_per_s, seed)["p99"]


def _facts(workload: ItemWorkload, service: ItemService) -> dict[str, Any]:
    """Return further figures of a workload; empty for all but speech."""
    if workload == "speech":
        best = max(size / service.batch_s[size] for size in range(1, len(service.batch_s)))
        return {"times_real_time": 30.0 * best}
    return {}
