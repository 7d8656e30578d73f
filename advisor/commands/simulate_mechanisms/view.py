"""Serving with images in prompts, or with adapters, as answers: what a plain run shows, and what the mechanism adds."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.catalog.units import GB, MB
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer, Paragraph
from advisor.render.numbers import TIME, digits, percent, show, show_quantity
from advisor.render.serve_view import ServeRun, serve_answer
from advisor.simulator.host_link import host_link_bytes_per_s
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.lora import (
    OVERHEAD_RANGE,
    Adapters,
    adapter_bytes,
    distinct_adapters,
    lru_hit_fraction,
    slot_bytes,
)
from advisor.simulator.workloads.tiers import LINK_RANGE


def vision_answer(
    run: ServeRun,
    traffic: Traffic,
    inputs: Mapping[str, object],
    notes: tuple[str, ...],
    facts: Mapping[str, Any],
) -> Answer:
    """Return a run of a vision-language model, and what its images are."""
    plain = serve_answer(run, traffic, inputs, notes)
    width, height = facts["image_pixels"]
    passes = f"{facts['encoder_passes']} x {facts['encoder_patches']:,} patches"
    text = (
        f"An image of {width} x {height} pixels is {facts['image_tokens']:,} tokens under {facts['image_scheme']} "
        f"({passes}, {show_quantity(facts['encoder_s'], TIME)} to encode); a prompt is {facts['prompt_tokens']:,} "
        f"tokens, {digits(facts['kv_bytes_per_request'] / GB)} GB of cache."
    )
    if facts["encoders"] is not None:
        pool = facts["encoders"]
        text += (
            f" A pool of {pool['num_encoders']} for encoding takes at most {digits(pool['capacity_requests_per_s'])} "
            f"requests/s; embeddings take {show(pool['transfer_s'], TIME)} to the language model. First tokens "
            "include both."
        )
    if facts["num_together"] is not None:
        together = facts["num_together"]
        alone = facts["text_bytes_per_request"]
        text += (
            f" {together} of them together are {together * facts['prompt_tokens']:,} tokens, "
            f"{digits(together * facts['kv_bytes_per_request'] / GB)} GB; their text alone "
            f"{together * facts['text_tokens']:,} tokens, {digits(together * alone / GB)} GB."
        )
    return replace(plain, result={**plain.result, "vision": facts}, blocks=(*plain.blocks, Paragraph(text)))


def adapter_answer(
    run: ServeRun,
    without: ServeRun,
    adapters: Adapters,
    traffic: Traffic,
    inputs: Mapping[str, object],
    notes: tuple[str, ...],
) -> Answer:
    """Return a run with adapters, and the same run without them."""
    plain = serve_answer(run, traffic, inputs, notes)
    deployment = run.replica.deployment
    size = adapter_bytes(deployment.model, adapters.rank)
    hit = lru_hit_fraction(adapters.probabilities, adapters.slots)
    load_s = size / deployment.accelerators_per_replica / host_link_bytes_per_s(deployment.accelerator)
    distinct = float(
        distinct_adapters(adapters.probabilities, np.array([max(1.0, run.result.mean_batch)]))[0]
    )
    slower = 0.0
    if without.result.tpot.num_samples:
        slower = max(0.0, run.result.tpot.mean_s / without.result.tpot.mean_s - 1.0)
    facts = {
        "adapter_bytes": size,
        "slots_bytes": adapters.slots
        * slot_bytes(deployment, adapters.rank)
        * deployment.accelerators_per_replica,
        "distinct_adapters_per_step": distinct,
        "hit_fraction": hit,
        "cold_load_s": Quantity(load_s, load_s * LINK_RANGE[0], load_s * LINK_RANGE[1], "assumed"),
        "mean_tpot_increase_fraction": Quantity(
            slower, slower * OVERHEAD_RANGE[0], slower * OVERHEAD_RANGE[1], "assumed"
        ),
        # Answers of one token have no time per output token.
        "plain_tpot_mean_s": None if math.isnan(without.result.tpot.mean_s) else without.result.tpot.mean_s,
    }
    text = (
        f"{adapters.count} adapters of rank {adapters.rank}, {digits(size / MB)} MB each, {adapters.slots} in memory "
        f"({digits(size * adapters.slots / GB)} GB): {digits(distinct)} different ones in a step, {percent(hit)} of "
        f"requests find theirs there, the others wait {show(load_s, TIME)} for a copy from the host. Tokens take "
        f"{percent(slower)} longer than without adapters."
    )
    return replace(plain, result={**plain.result, "adapters": facts}, blocks=(*plain.blocks, Paragraph(text)))
