"""Answer of a simulated serving run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.units import GB
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import fields_of, pick_attributes
from advisor.render.numbers import (
    ENERGY,
    LEGEND,
    POWER,
    REQUEST_RATE,
    SIZE,
    TIME,
    TOKEN_RATE,
    client_words,
    digits,
    layout_words,
    percent,
    show,
    show_quantity,
    words_of,
)
from advisor.simulator.host_cache import PreemptionCost, preemption_cost
from advisor.simulator.power import serving_power_w
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.overload import RESIDENCES, Overload
from advisor.simulator.serving_prediction import ServingPrediction

STATISTICS: Final = ("mean", "p50", "p90", "p99")
"""Statistics that the table has room for; documents have p95 too."""


@dataclass(frozen=True, slots=True)
class SpeculationGain:
    """Gain of speculative decoding in a run."""

    method: str
    draft_tokens: int
    acceptance: float
    acceptance_low: float
    acceptance_high: float
    acceptance_source: str
    """Source of the acceptance rate; empty if the user gave it."""
    tokens_per_step: float
    batch: int
    """Mean number of sequences that decoded together."""
    speed_up: float
    """Decode rate at that batch [tokens/s] over the rate without speculative decoding."""
    largest_batch_that_pays: int
    """Largest batch up to which no batch is slower with speculative decoding than without."""
    num_slots: int


_END_SHOWS: Final = 0.95
"""Fraction of the rate that is sent below which the rate of the run is explained."""


@dataclass(frozen=True, slots=True)
class ServeRun:
    """Finished run of one replica of a deployment."""

    replica: ReplicaModel
    result: ServingResult
    prediction: ServingPrediction
    """Prediction for the whole deployment."""
    wall_s: float
    speculation: SpeculationGain | None = None
    pools: str = ""
    """Description of the prefill and decode pools; empty if there is one pool."""
    overload: Overload | None = None
    """Overload of the run; None if the deployment keeps up with the load."""
    preemption: PreemptionCost | None = None
    """Cost of preemptions by the engine's own way to swap; None to state it for copies of whole blocks."""
    needed_requests: int | None = None
    """Requests of a run that is long enough to tell whether the deployment keeps up; None if this one is."""

    @property
    def board_power_w(self) -> Quantity | None:
        """Mean power of one board [W]; None if its rated power is unknown, or if boards of two pools are mixed."""
        return None if self.pools else serving_power_w(self.result, self.replica)

    @property
    def energy_j_per_output_token(self) -> Quantity | None:
        """Energy of the boards per output token [J]."""
        power_w = self.board_power_w
        result = self.result
        if power_w is None or not result.output_tokens:
            return None
        return power_w.scale(
            self.replica.deployment.num_accelerators * result.duration_s / result.output_tokens
        )


def serve_answer(
    run: ServeRun, traffic: Traffic, inputs: Mapping[str, object], notes: tuple[str, ...]
) -> Answer:
    """Return the answer with latencies, rates and state of one deployment under one load."""
    run = _without_length_of_run(run)
    run = replace(run, preemption=run.preemption or preemption_cost(run.result, run.replica))
    prediction = run.prediction
    result = run.result
    replica = run.replica
    metrics = fields_of(prediction) | {
        **pick_attributes(result, "goodput_fraction num_refused num_preemptions prefix_hit_fraction"),
        "utilisation": result.busy_fraction,
        "mean_batch": _finite_or_none(result.mean_batch),
        "board_power_w": run.board_power_w,
        "energy_j_per_output_token": run.energy_j_per_output_token,
        "kv_tokens": {
            "mean": _finite_or_none(result.mean_kv_tokens),
            "max": result.max_kv_tokens,
            "capacity": result.kv_capacity_tokens,
        },
    }
    return Answer(
        result={
            "metrics": metrics,
            "memory_bytes": _memory(replica),
            "simulation": pick_attributes(result, "num_requests num_iterations num_events duration_s")
            | {"wall_s": run.wall_s},
        }
        | {
            "overload": run.overload
            and fields_of(run.overload) | {"queue_growth_per_s": run.overload.queue_growth_per_s}
        }
        | ({} if run.speculation is None else {"speculation": run.speculation})
        | ({} if run.preemption is None else {"preemption": run.preemption}),
        inputs=inputs,
        blocks=_blocks(_headline(replica, traffic, run.pools), run, traffic.rate_per_s),
        warnings=_warnings(run),
        notes=notes,
    )


def _ends_slowly(run: ServeRun, sent_per_s: float | None) -> bool:
    """Whether the rate of a run that keeps up is below the rate at which requests were sent, for its last answers end
    after the last request has arrived."""
    rate = run.prediction.requests_per_s
    return sent_per_s is not None and run.overload is None and rate.value < _END_SHOWS * sent_per_s


def _blocks(headline: str, run: ServeRun, sent_per_s: float | None) -> tuple[Block, ...]:
    prediction = run.prediction
    result = run.result
    replica = run.replica
    rows = tuple(
        (label, *(show_quantity(times.get(name), TIME) for name in STATISTICS))
        for label, times in (
            ("TTFT", prediction.ttft_s),
            ("TPOT", prediction.tpot_s),
            ("token gap", prediction.itl_s),
            ("end to end", prediction.e2e_s),
        )
    )
    output = prediction.output_tokens_per_s
    total = prediction.total_tokens_per_s
    rates = (
        ("Over the whole run, with its end, in which the queue drains:\n" if run.overload else "")
        + f"Output: {show_quantity(output, TOKEN_RATE)}\n"
        f"Input and output: {show_quantity(total, TOKEN_RATE)}\n"
        f"Requests: {show_quantity(prediction.requests_per_s, REQUEST_RATE)}"
        + (", the end of the run included, in which none arrive" if _ends_slowly(run, sent_per_s) else "")
    )
    stages = replica.deployment.pipeline_parallel
    waits = (
        f" in the first of {stages} stages, which waits while its batches are in the others"
        if stages > 1
        else ""
    )
    state = (
        f"Busy {percent(result.busy_fraction)} of the time{waits}, {digits(result.mean_batch)} sequences per step, "
        f"KV cache {_kv_state(result)}; memory of one accelerator [GB]: "
        + ", ".join(f"{words_of(name)} {digits(size / GB)}" for name, size in _memory(replica).items())
        + "."
    )
    hits = (
        []
        if result.prefix_hit_fraction is None
        else [f"Found in the prefix cache: {percent(result.prefix_hit_fraction)} of the prompts' tokens."]
    )
    goodput = (
        []
        if result.goodput_fraction is None
        else [f"Within the objectives: {percent(result.goodput_fraction)}."]
    )
    return (
        *overload_blocks(run.overload),
        Paragraph(headline, emphasis=True),
        Table(columns("latency", *STATISTICS), rows),
        Paragraph(
            "\n".join(
                [
                    *(rates, *_power(run), state, *_preemptions(run.preemption), *hits, *goodput),
                    *(*_speculation(run.speculation), LEGEND),
                ]
            )
        ),
    )


def _without_length_of_run(run: ServeRun) -> ServeRun:
    """Return the run without latencies that only say how long it was: under overload, first tokens and whole requests
    wait for a queue that grows until the load ends."""
    if run.overload is None:
        return run
    return replace(run, prediction=replace(run.prediction, ttft_s={}, e2e_s={}))


def overload_blocks(overload: Overload | None) -> tuple[Block, ...]:
    """Return the verdict on a load beyond capacity; nothing if the deployment keeps up."""
    if overload is None:
        return ()
    words = (
        f"Overloaded: {digits(overload.sent_per_s)} requests/s are sent and {digits(overload.served_per_s)} are "
        f"served, so the queue grows by {digits(overload.queue_growth_per_s)} requests each second."
    )
    why = "Time to first token and end-to-end time grow with the length of the run and have no percentile."
    return (Paragraph(words, emphasis=True), Paragraph(why))


def _power(run: ServeRun) -> list[str]:
    power_w = run.board_power_w
    energy = run.energy_j_per_output_token
    if power_w is None or energy is None:
        return []
    drawn = show_quantity(power_w, POWER)
    per_token = show_quantity(energy, ENERGY)
    return [f"Power of one board: {drawn}; energy of the boards per output token: {per_token}"]


def _preemptions(cost: PreemptionCost | None) -> list[str]:
    """Return a line on preemptions: how many, and what one costs if it is computed again or swapped."""
    if cost is None:
        return []
    kept = "none of them kept in host memory"
    if cost.num_swaps:
        kept = f"{cost.num_swaps:,} of them kept in host memory"
    swap = ""
    if cost.swap_s is not None:
        swap = f", copying {show(cost.bytes_of_cache, SIZE)} to the host and back {show_quantity(cost.swap_s, TIME)}"
    return [
        f"Preempted: {cost.num_preemptions:,} times, {kept}. Computing the mean of {digits(cost.mean_tokens)} tokens "
        f"again takes {show_quantity(cost.recompute_s, TIME)}{swap}."
    ]


def _speculation(gain: SpeculationGain | None) -> list[str]:
    """Return lines on the draft, its gain here, and the batch from which it costs more than it gains."""
    if gain is None:
        return []
    accepted = f"accepted with {gain.acceptance:g}"
    if gain.acceptance_source:
        accepted += f" ({gain.acceptance_low:g} to {gain.acceptance_high:g} published)"
    pays = f"pays at every batch up to the {gain.num_slots} slots"
    if gain.largest_batch_that_pays < gain.num_slots:
        pays = f"costs from batch {gain.largest_batch_that_pays + 1} on"
    guesses = "1 guess" if gain.draft_tokens == 1 else f"{gain.draft_tokens} guesses in a row"
    return [
        f"Speculation: {gain.method}, {guesses}, {accepted}: {gain.tokens_per_step:.2f} tokens per "
        f"step, decoding {gain.speed_up:.2f} times as fast at batch {gain.batch}; {pays}. Every step yields its "
        "expectation: means hold, gaps between tokens do not spread."
    ]


def _headline(replica: ReplicaModel, traffic: Traffic, pools: str) -> str:
    """Return deployment and load in one line: `llama-3.1-70b (fp8) on 4 x h100-sxm (TP4), vllm, 5 requests/s`."""
    deployment = replica.deployment
    where = pools or layout_words(deployment, deployment.accelerator.id, deployment.num_replicas)
    load = f"{digits(traffic.rate_per_s or 0.0)} requests/s"
    if traffic.concurrency is not None:
        load = client_words(traffic.concurrency)
    spread = " on average" if traffic.input_sigma > 0 else ""
    return (
        f"{deployment.model.id} ({deployment.weight_dtype}) on {where}, {deployment.engine.id}, {load} of "
        f"{traffic.mean_input_tokens} in, {traffic.mean_output_tokens} out{spread}"
    )


def _kv_state(result: ServingResult) -> str:
    if not result.kv_capacity_tokens:
        return "unlimited"
    return f"{percent(result.max_kv_tokens / result.kv_capacity_tokens)} full at most"


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _memory(replica: ReplicaModel) -> dict[str, float]:
    plan = replica.memory
    return {
        "weights": plan.weight_bytes,
        "activations": plan.activation_bytes,
        "runtime": plan.runtime_bytes,
        "kv_cache": plan.kv_bytes,
    }


def _warnings(run: ServeRun) -> tuple[str, ...]:
    result = run.result
    found = []
    if run.needed_requests:
        found.append(
            "the run is too short to tell whether the server keeps up: waits still grow, or requests arrive for less "
            f"than {RESIDENCES} times as long as one is served, so that percentiles depend on its length; "
            f"--requests {run.needed_requests} is longer"
        )
    if result.num_refused:
        found.append(
            f"{result.num_refused} of {result.num_requests} requests are longer than the KV cache and were refused"
        )
    return (*found, *run.replica.doubts)
