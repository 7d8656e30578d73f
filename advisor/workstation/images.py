"""Images on a few cards: how long one takes, and which number format makes it fastest."""

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from advisor.catalog import accelerators, diffusion
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.simulator.workloads.diffusion import ImageJob, Offload
from advisor.simulator.workloads.services import ItemJob, item_service, quantity
from advisor.workstation.hardware import Hardware, HardwareRun

RUNTIME: Final = "torch-compile"
"""Runtime of the times: diffusers with torch.compile, as builders run it on a card of their own."""
FORMATS: Final = ("bf16", "fp8")
"""Weight formats to try if none is asked for; fp8 halves the memory."""
OFFLOADS: Final[dict[Offload, str]] = {
    "none": "",
    "components": ", encoders in main memory",
    "layers": ", weights in main memory",
}
"""Places of the weights to try, and the words that tell them: all on the card, the text encoders in main memory until a
prompt comes, or every layer there until its turn."""
VENDORS: Final = ("nvidia",)
"""Vendors whose cards this runtime was measured on (published runs behind simulator.workloads.runtimes)."""


def usual_image(model: Model) -> ImageJob:
    """Return an image, or a video, of the usual size and steps of a model's pipeline.

    Raises: UnknownNameError: the pipeline is not recorded.
    """
    pipeline = diffusion.get(model.id)
    guided = pipeline.guidance == "classifier_free"
    size = (pipeline.default_width, pipeline.default_height)
    return ImageJob(*size, pipeline.default_steps, guided, pipeline.default_frames)


@lru_cache(maxsize=1024)
def best_images(
    hardware: Hardware, model: Model, precision: str | None, num_at_once: int
) -> HardwareRun | None:
    """Return the fastest format of a model of images that fits one card; None if none does. Each further card makes
    an image of its own, if several are wanted at once.

    Source: simulator.workloads.services, diffusion.
    """
    if accelerators.by_id(hardware.accelerator).vendor not in VENDORS:
        return None
    found = []
    for weights, offload in product((precision,) if precision is not None else FORMATS, OFFLOADS):
        image = replace(usual_image(model), offload=offload)
        job = ItemJob("diffusion", RUNTIME, image=image, max_batch=1)
        try:
            service = item_service(model, hardware.record(), job, weight_dtype=weights)
        except (AdvisorError, ValueError, KeyError):
            continue  # it does not fit, or the chip lacks the format or a figure
        busy = min(hardware.num, num_at_once)
        found.append(
            HardwareRun(
                engine=RUNTIME,
                split=("one card" if hardware.num == 1 else "a copy on each card") + OFFLOADS[offload],
                weight_dtype=weights,
                output_tokens_per_s=quantity(service, busy / service.batch_s[1], is_rate=True),
                ttft_s=None,
                weight_bytes_per_card=0.0,
                kv_tokens=0,
                unit=f"{job.unit}s/s",
            )
        )
    return max(found, key=lambda run: run.output_tokens_per_s.value, default=None)
