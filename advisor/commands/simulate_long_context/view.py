"""A long context as an answer: prefill by degree, cache by policy, and which memory tier pays; offloaded experts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from advisor.catalog.hosts import Host
from advisor.catalog.schema import Model
from advisor.catalog.units import GB, MINUTE_S
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import LEGEND, TIME, digits, percent, show, show_quantity
from advisor.simulator.deployment import Deployment
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.host_experts import HostedDecode
from advisor.simulator.workloads.long_context import CachePolicy, LongPrefill
from advisor.simulator.workloads.tiers import LINK_RANGE, OFFLOAD_RANGE, Fetch


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One cache policy on one deployment."""

    policy: CachePolicy
    bytes_per_sequence: float
    num_sequences: int
    """Number of sequences that fit in memory together with the weights."""
    decode_step_s: Quantity | None
    """Time of a decode step of one sequence [s]; None if the engine could not hold it."""


@dataclass(frozen=True, slots=True)
class TierRow:
    """One memory tier: fetching against computing again, and how long keeping pays."""

    fetch: Fetch
    recompute_s: Quantity
    worth_keeping_s: float


def context_answer(
    deployment: Deployment,
    tokens: int,
    prefills: Sequence[LongPrefill],
    prefill_s: Sequence[Quantity],
    policies: Sequence[ContextRow],
    tiers: Sequence[TierRow],
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return prefill by context parallelism, cache policies, memory tiers."""
    alone = prefills[0].total_s
    prefill_rows = [
        {
            "context_parallel": prefill.context_parallel,
            "num_accelerators": prefill.context_parallel * deployment.accelerators_per_replica,
            "prefill_s": quantity,
            "speed_up": alone / prefill.total_s,
            "parts_s": prefill.seconds,
        }
        for prefill, quantity in zip(prefills, prefill_s, strict=True)
    ]
    where = f"{deployment.accelerators_per_replica} x {deployment.accelerator.id}"
    what = f"{deployment.model.id} ({deployment.weight_dtype}), {tokens:,} tokens on {where}"
    headline = f"{what}: prefill {show(alone, TIME)}"
    return Answer(
        result={
            "prefill": prefill_rows,
            "cache_policies": [_policy_record(row) for row in policies],
            "tiers": [_tier_record(row, inputs["hit_rate"]) for row in tiers],
            "preemption": _preemption(tiers[0].fetch) if tiers else None,
        },
        inputs=inputs,
        blocks=(
            Paragraph(headline, emphasis=True),
            _prefill_table(prefill_rows, prefills),
            _policy_table(policies),
            *([_tier_table(tiers, inputs["hit_rate"])] if tiers else []),
            *([Paragraph(_swap_words(tiers[0].fetch))] if tiers else []),
            Paragraph(
                "Fetching pays where it is faster; keeping pays up to the time at which storing costs more than "
                f"the accelerator time that it saves.\n{LEGEND}"
            ),
        ),
        records="prefill",
        notes=notes,
    )


def _prefill_table(rows: Sequence[Mapping[str, Any]], prefills: Sequence[LongPrefill]) -> Table:
    cells = tuple(
        (
            str(row["context_parallel"]),
            str(row["num_accelerators"]),
            show_quantity(row["prefill_s"], TIME),
            digits(row["speed_up"]),
            percent(prefill.seconds["attention"] / prefill.total_s),
            percent(prefill.seconds["ring"] / prefill.total_s),
        )
        for row, prefill in zip(rows, prefills, strict=True)
    )
    return Table(
        columns("context parallel> | accelerators> | prefill> | speed-up> | attention> | exposed ring>"),
        cells,
        title="Prefill of one prompt, dealt over groups",
    )


def _policy_table(rows: Sequence[ContextRow]) -> Table:
    cells = tuple(
        (
            row.policy.name,
            digits(row.bytes_per_sequence / GB),
            str(row.num_sequences),
            show_quantity(row.decode_step_s, TIME),
            row.policy.quality,
        )
        for row in rows
    )
    return Table(
        columns("cache | GB each> | fit> | step at 1> | quality~"), cells, title="Cache of one sequence"
    )


def _mean_s(fetch: Fetch, hit_rate: float) -> float:
    """Mean time to a prompt's cache, a fraction of which is found in the tier [s]."""
    return hit_rate * min(fetch.fetch_s, fetch.recompute_s) + (1.0 - hit_rate) * fetch.recompute_s


def _preemption(fetch: Fetch) -> dict[str, Any]:
    """Return what it costs to take a running sequence from the accelerators and to bring it back: both ways over the
    link, or its prompt and answer so far computed again."""
    swap_s = 2.0 * fetch.fetch_s
    return {"swap_s": swap_s, "recompute_s": fetch.recompute_s, "swap_pays": swap_s < fetch.recompute_s}


def _swap_words(fetch: Fetch) -> str:
    found = _preemption(fetch)
    better = "swapping" if found["swap_pays"] else "computing again"
    return (
        f"A sequence of this length that is preempted takes {show(found['swap_s'], TIME)} to swap to host memory and "
        f"back, {show(found['recompute_s'], TIME)} to compute again: {better} is faster."
    )


def _tier_table(rows: Sequence[TierRow], hit_rate: float | None) -> Table:
    cells = tuple(
        (
            row.fetch.tier.name,
            digits(row.fetch.tier.bytes_per_s / GB),
            show(row.fetch.fetch_s, TIME),
            show(row.fetch.recompute_s, TIME),
            "yes" if row.fetch.pays else "no",
            show(row.worth_keeping_s, TIME) if row.worth_keeping_s >= MINUTE_S else "-",
            *(() if hit_rate is None else (show(_mean_s(row.fetch, hit_rate), TIME),)),
        )
        for row in rows
    )
    mean = "" if hit_rate is None else f" | mean at {percent(hit_rate)} hits>"
    return Table(
        columns(f"tier | GB/s each> | fetch> | recompute> | pays | keep up to>{mean}"),
        cells,
        title="The cache of this prompt in a lower tier",
    )


def _policy_record(row: ContextRow) -> dict[str, Any]:
    return {
        **asdict(row.policy),
        "bytes_per_sequence": row.bytes_per_sequence,
        "num_sequences": row.num_sequences,
        "decode_step_s": row.decode_step_s,
    }


def _tier_record(row: TierRow, hit_rate: float | None) -> dict[str, Any]:
    fetch = row.fetch
    return {
        "tier": fetch.tier.name,
        "bytes_per_s": fetch.tier.bytes_per_s,
        "usd_per_gb_month": fetch.tier.usd_per_gb_month,
        "cache_bytes": fetch.num_bytes,
        "fetch_s": assumed_quantity(fetch.fetch_s, LINK_RANGE),
        "recompute_s": row.recompute_s,
        "pays": fetch.pays,
        "worth_keeping_s": row.worth_keeping_s,
        "mean_s": None if hit_rate is None else _mean_s(fetch, hit_rate),
    }


def assumed_quantity(value: float, factors: tuple[float, float]) -> Quantity:
    """Return a number whose interval rests on a few published runs or an assumption, not on a set of cases."""
    return Quantity(value, value * factors[0], value * factors[1], "assumed")


def offload_answer(
    deployment: Deployment,
    decode: HostedDecode,
    batch: int,
    prompt_s: float | None,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return the answer on experts in host memory: tokens per second, and what a step waits for."""
    found = decode.offload
    where = f"{deployment.accelerators_per_replica} x {deployment.accelerator.id}"
    step = assumed_quantity(decode.step_s, OFFLOAD_RANGE)
    rate = Quantity(batch / step.value, batch / step.high, batch / step.low, step.basis)
    told = f"{show_quantity(rate)} tokens/s"
    told += ", all experts fit, nothing is offloaded" if found.best_s <= 0 else ""
    headline = f"{deployment.model.id} ({deployment.weight_dtype}) on {where}: {told}"
    text = (
        f"{percent(found.resident_fraction)} of the experts stay on the accelerators, "
        f"{digits(found.host_bytes / GB)} GB in host memory. In a step of {batch}, the accelerators take "
        f"{show(decode.own_s + decode.resident_s, TIME)}; reading the other chosen experts over the link adds "
        f"{show(found.step_read_s, TIME)}, multiplying them with the host's processors "
        f"{show(found.step_host_s, TIME)}."
    )
    if prompt_s is not None:
        text += f" A prompt of {inputs['context_tokens']:,} tokens takes {show(prompt_s, TIME)} with the processors."
    times = {
        name: assumed_quantity(getattr(found, name), OFFLOAD_RANGE)
        for name in ("step_read_s", "step_host_s", "best_s")
    }
    return Answer(
        result={
            "offload": asdict(found) | times | {"batch": batch},
            "step_s": step,
            "tokens_per_s": rate,
            "own_s": decode.own_s,
            "resident_s": decode.resident_s,
            "prompt_s": prompt_s,
        },
        inputs=inputs,
        blocks=(Paragraph(headline, emphasis=True), Paragraph(text)),
        notes=notes,
    )


def host_answer(
    model: Model, weights: str, host: Host, step_s: float, prompt_s: float | None, inputs: Mapping[str, Any]
) -> Answer:
    """Return the answer on a model that the processors run alone: tokens per second of one sequence."""
    step = assumed_quantity(step_s, OFFLOAD_RANGE)
    rate = Quantity(1.0 / step.value, 1.0 / step.high, 1.0 / step.low, step.basis)
    headline = f"{model.id} ({weights}) on {inputs['host']} alone: {show_quantity(rate)} tokens/s"
    text = (
        f"One socket's memory moves {digits(host.bytes_per_s / host.sockets / GB)} GB/s; a token reads "
        f"{digits(inputs['token_bytes'] / GB)} GB of weights."
    )
    if host.sockets > 1:
        text += " A second socket adds nothing unless the engine keeps a copy of the weights for each."
    if prompt_s is not None:
        text += f" A prompt of {inputs['context_tokens']:,} tokens takes {show(prompt_s, TIME)}."
    return Answer(
        result={"step_s": step, "tokens_per_s": rate, "prompt_s": prompt_s},
        inputs=inputs,
        blocks=(Paragraph(headline, emphasis=True), Paragraph(text)),
    )
