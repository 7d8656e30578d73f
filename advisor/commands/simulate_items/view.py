"""Images, texts and audio as an answer: one replica by batch size."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.numbers import LEGEND, TIME, digits, percent, show, show_quantity
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.batch_queue import BatchFleet
from advisor.simulator.workloads.services import ItemJob, ItemService, quantity

_SHOWN_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def service_answer(
    service: ItemService,
    job: ItemJob,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...] = (),
    fleet: tuple[BatchFleet, Quantity] | None = None,
    facts: Mapping[str, float] | None = None,
) -> Answer:
    """Return one replica by batch size, what its time is made of, and how many of it a load takes."""
    sizes = [size for size in _SHOWN_BATCHES if size < len(service.batch_s)]
    batches: list[dict[str, Any]] = [
        {
            "batch": size,
            "latency_s": quantity(service, service.batch_s[size]),
            "items_per_s": quantity(service, size / service.batch_s[size], is_rate=True),
        }
        for size in sizes
    ]
    result: dict[str, Any] = {
        "unit": job.unit,
        "accelerators_per_replica": service.accelerators_per_replica,
        "batches": batches,
        "best_items_per_s": max(batches, key=lambda row: row["batch"] / service.batch_s[row["batch"]])[
            "items_per_s"
        ],
        "single_latency_s": batches[0]["latency_s"],
        "parts_s": service.parts,
        **(facts or {}),
    }
    if fleet is not None:
        found, p99 = fleet
        result["fleet"] = {
            "num_replicas": found.num_servers,
            "num_accelerators": found.num_servers * service.accelerators_per_replica,
            "max_batch": found.max_batch,
            "latency_p50_s": quantity(service, found.latency_p50_s),
            "latency_p99_s": p99,
            "mean_batch": found.mean_batch,
            "busy_fraction": found.busy_fraction,
        }
    return Answer(
        result=result,
        inputs=inputs,
        blocks=_service_blocks(service, job, batches, fleet, facts or {}),
        records="batches",
        warnings=_warnings(service),
        notes=notes,
    )


def _service_blocks(
    service: ItemService,
    job: ItemJob,
    batches: Sequence[Mapping[str, Any]],
    fleet: tuple[BatchFleet, Quantity] | None,
    facts: Mapping[str, float],
) -> tuple[Block, ...]:
    deployment = service.deployment
    count = service.accelerators_per_replica
    where = f"{count} x {deployment.accelerator.id}"
    headline = (
        f"{deployment.model.id} ({deployment.weight_dtype}) on {where}, {service.runtime.name}: "
        f"{show(service.batch_s[1], TIME)} for one {job.unit} of {job.size_words}"
    )
    if fleet is not None:
        found, p99 = fleet
        headline = (
            f"{deployment.model.id}, {job.unit}s of {job.size_words}: {found.num_servers * count} x "
            f"{deployment.accelerator.id} as {found.num_servers} replicas, batches of up to {found.max_batch}, "
            f"p99 {show_quantity(p99, TIME)}, busy {percent(found.busy_fraction)}"
        )
    rows = tuple(
        (str(row["batch"]), show_quantity(row["latency_s"], TIME), show_quantity(row["items_per_s"]))
        for row in batches
    )
    table = Table(columns(f"batch> | latency | {job.unit}s/s"), rows)
    whole = sum(service.parts.values())
    parts = ", ".join(
        f"{name.replace('_', ' ')} {percent(seconds / whole)}"
        for name, seconds in sorted(service.parts.items(), key=lambda item: -item[1])
    )
    told = "".join(
        f"{name.replace('_', ' ').capitalize()}: {digits(value)}.\n" for name, value in facts.items()
    )
    text = f"Where the time of one goes: {parts}.\n{told}{LEGEND}"
    return Paragraph(headline, emphasis=True), table, Paragraph(text)


def _warnings(service: ItemService) -> tuple[str, ...]:
    if not service.transferred_operators:
        return ()
    architecture = service.deployment.accelerator.architecture
    return (
        f"kernels of {', '.join(service.transferred_operators)} stand in for {architecture}, which was not measured: "
        "marked as assumed",
    )
