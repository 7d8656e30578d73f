"""Guessing ahead in a simulated run: what was typed, the replica that does it, and what it gains."""

import contextlib
from dataclasses import dataclass, replace

from advisor.ask.deployment import LoadPlan
from advisor.catalog.engines import support
from advisor.catalog.errors import AdvisorError
from advisor.commands.simulate_serve.options import Guessing
from advisor.render.serve_view import SpeculationGain
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving_prediction import ServingPrediction
from advisor.simulator.speculation import (
    NAMES,
    ChosenSpeculation,
    chosen_speculation,
    crossover_batch,
    speculative_replica,
    speed_up,
    with_acceptance_range,
)


@dataclass(frozen=True, slots=True)
class Speculating:
    """Replica with speculative decoding, and its method."""

    chosen: ChosenSpeculation
    replica: ReplicaModel

    def gain(self, plain: ReplicaModel, plan: LoadPlan, result: ServingResult) -> SpeculationGain:
        """Return the gain of speculative decoding at the batch of a run, and the batch up to which it pays."""
        chosen = self.chosen
        fast = self.replica.surface
        slow = plain.surface
        guess = chosen.speculation
        context = plan.mean_input_tokens + plan.mean_output_tokens / 2.0
        num_slots = len(slow.decode_base_ps) - 1
        batch = min(num_slots, max(1, round(result.mean_batch)))
        loss = crossover_batch(slow, fast, context)
        return SpeculationGain(
            method=chosen.name if guess.branches == 1 else f"{chosen.name} in {guess.branches} branches",
            draft_tokens=guess.draft_tokens,
            acceptance=guess.acceptance,
            acceptance_low=chosen.low,
            acceptance_high=chosen.high,
            acceptance_source=chosen.source,
            tokens_per_step=guess.tokens_per_step,
            batch=batch,
            speed_up=speed_up(slow, fast, batch, context),
            largest_batch_that_pays=num_slots if loss is None else loss - 1,
            num_slots=num_slots,
        )

    def as_sure(self, prediction: ServingPrediction) -> ServingPrediction:
        """Return a prediction whose interval includes the error of the acceptance rate."""
        return with_acceptance_range(prediction, self.chosen)


def speculating_replica(
    typed: Guessing, plain: ReplicaModel, plan: LoadPlan, settings: EngineSettings
) -> Speculating | None:
    """Return the replica with the typed speculation; None without it.

    Raises: AdvisorError and its kinds: a part is typed without a method, the method is not known or does not go with
        the model, or the draft leaves no room.
    """
    if typed.speculative is None:
        if typed != Guessing():
            raise AdvisorError(
                "--draft-tokens, --draft-branches and --acceptance need a method",
                fix=f"{_usable_method(typed, plain, plan, settings)}drop them",
            )
        return None
    chosen = chosen_speculation(
        typed.speculative,
        plain.deployment,
        draft_tokens=typed.draft_tokens,
        acceptance=typed.acceptance,
        branches=typed.draft_branches or 1,
    )
    replica = speculative_replica(
        plain,
        chosen.speculation,
        mean_input_tokens=plan.mean_input_tokens,
        mean_output_tokens=plan.mean_output_tokens,
        settings=settings,
    )
    return Speculating(chosen, replica)


def _usable_method(typed: Guessing, plain: ReplicaModel, plan: LoadPlan, settings: EngineSettings) -> str:
    """Return the option of the first method that the model and the engine have and that takes the parts as typed, with
    "or"; empty if there is none."""
    run = plain.deployment
    for name in NAMES:
        known = support(run.engine.id, run.accelerator.architecture, f"feature:speculative_{name}")
        with contextlib.suppress(AdvisorError):
            if known.is_usable and speculating_replica(
                replace(typed, speculative=name), plain, plan, settings
            ):
                return f"--speculative {name}, or "
    return ""
