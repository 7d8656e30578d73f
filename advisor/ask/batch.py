"""A question about a batch: requests that are there already, and a deadline."""

from dataclasses import replace
from typing import Final

from advisor.ask.levers import beside_of
from advisor.ask.measures import parse_count, parse_seconds
from advisor.ask.options import DEFAULT_ITEMS, SharedOptions
from advisor.ask.scenario import scenario_of
from advisor.ask.work import WorkQuestion
from advisor.catalog.errors import AdvisorError
from advisor.decide.batch.result import BatchJob
from advisor.decide.scenario import Scenario

DEFAULT_DEADLINE: Final = "24h"
_PROFILE: Final = "batch"


def batch_question(
    model: str, asked: WorkQuestion, shared: SharedOptions
) -> tuple[Scenario, BatchJob, tuple[str, ...]]:
    """Return a question about requests that no client waits for, the job, and notes on what was understood.

    The lengths are those of the profile `batch` where none are given.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the batch has a rate.
    """
    load = asked.load
    said = load.input_tokens or load.output_tokens or load.profile or load.trace
    if load.rate is not None or load.concurrency is not None:
        raise AdvisorError(
            "a batch has no rate",
            why="its requests are there already, and nothing is left for --rate or --concurrency to say",
            fix="--items N and --deadline TIME",
        )
    load = load if said else replace(load, profile=_PROFILE)
    patient = replace(asked.objectives, ttft_p99="1d", tpot_p99="1d")
    scenario, notes = scenario_of(model, load, patient, asked.where, asked.shown.top, shared)
    scenario = scenario.model_copy(update={"beside": beside_of(asked.beside)})
    job = BatchJob(
        num_requests=round(parse_count(asked.item.items or DEFAULT_ITEMS, "--items")),
        deadline_s=parse_seconds(asked.training.deadline or DEFAULT_DEADLINE, "--deadline"),
        spot_losses_per_day=asked.training.spot_losses_per_day,
    )
    traffic = scenario.traffic
    assumed = (
        f"no lengths are told: {traffic.mean_input_tokens:,} tokens in, {traffic.mean_output_tokens:,} out are taken "
        f"({traffic.source.partition(':')[0]}); cost and time grow with them: --input-tokens, --output-tokens"
    )
    return scenario, job, notes if said else (*notes, assumed)
