"""A way of guessing ahead by its name, `mtp` or `draft:llama-3.2-1b`, with published acceptance where none is given."""

import math
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.speculation import speculation_methods, usual_acceptance
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.layout import check_layout
from advisor.simulator.quantity import Quantity
from advisor.simulator.serving_prediction import ServingPrediction
from advisor.simulator.speculation import Method, Speculation, expected_tokens

NAMES: Final = ("mtp", "eagle", "medusa", "ngram", "lookahead")
_DRAFT: Final = "draft"
_METHODS: Final[dict[str, Method]] = {
    "mtp": "mtp", "eagle": "eagle", "medusa": "medusa", "ngram": "ngram", "lookahead": "ngram", _DRAFT: "draft_model",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChosenSpeculation:
    """A speculation, and how far its acceptance is known."""

    name: str
    """As it was named: mtp, draft:llama-3.2-1b."""
    speculation: Speculation
    low: float
    """Least acceptance that is likely; equal to the speculation's own where a person gave it."""
    high: float
    source: str
    """Where the acceptance was published; empty where a person gave it."""

    @property
    def time_factors(self) -> tuple[float, float]:
        """(low, high) factors of the time per token between the highest and the lowest likely acceptance."""
        guess = self.speculation
        most, least = (
            expected_tokens(chance, guess.draft_tokens, guess.branches) for chance in (self.high, self.low)
        )
        return guess.tokens_per_step / most, guess.tokens_per_step / least


def chosen_speculation(
    text: str, target: Deployment, *, draft_tokens: int | None = None, acceptance: float | None = None
) -> ChosenSpeculation:
    """What a name, a number of guesses and a chance of acceptance stand for beside a target.

    Raises: AdvisorError: the name is not known, or there is no usual acceptance. InfeasibleError: the target has no
        such module, or the draft does not go with it. UnknownNameError: no such draft model.
    Source: own composition; catalog/data/speculation.toml.
    """
    kind, _, draft_name = text.partition(":")
    method = _METHODS.get(kind)
    if method is None or (kind == _DRAFT) != bool(draft_name):
        raise AdvisorError(
            f"speculation {text!r} is not known", fix=f"one of {', '.join(NAMES)}, or draft:MODEL"
        )
    if kind == "mtp" and not target.model.mtp_layers:
        raise InfeasibleError(
            f"{target.model.id} has no module for multi-token prediction",
            why="the checkpoint's configuration names none",
            fix="--speculative eagle, or --speculative draft:MODEL",
        )
    record = "draft_model" if kind == _DRAFT else kind
    guesses = draft_tokens or speculation_methods()[record].draft_tokens
    known = usual_acceptance(record, guesses)
    if acceptance is None and known is None:
        raise AdvisorError(
            f"what part of {guesses} guesses of {kind} is accepted is not known",
            why="it differs too much from text to text, or was published for fewer guesses only",
            fix="measure it, or say what you expect, e.g. --acceptance 0.4",
        )
    draft = _draft(draft_name, target) if draft_name else None
    if acceptance is None and known is not None:
        where = f"{known.source.title}, {known.source.where}"
        return ChosenSpeculation(
            text, Speculation(method, guesses, known.value, draft), known.low, known.high, where
        )
    chance = float(acceptance if acceptance is not None else math.nan)
    return ChosenSpeculation(text, Speculation(method, guesses, chance, draft), chance, chance, "")


def _draft(name: str, target: Deployment) -> Deployment:
    """A draft model on the target's accelerators, over as many of them as its heads divide among.

    Assumes: its own checkpoint's format.
    """
    model = models.get(name).record
    if target.data_parallel > 1:
        raise InfeasibleError(
            "a draft model beside attention data parallelism is not modelled",
            why="each rank would need a draft of its own",
            fix="--speculative mtp or eagle, or --tp instead of --dp",
        )
    if model.vocab_size != target.model.vocab_size:
        raise InfeasibleError(
            f"{model.id} cannot draft for {target.model.id}",
            why=f"their vocabularies differ: {model.vocab_size:,} and {target.model.vocab_size:,} tokens",
            fix="--speculative draft:MODEL with a smaller model of the same family",
        )
    draft = replace(
        target,
        model=model,
        pipeline_parallel=1,
        expert_parallel=1,
        redundant_experts=0,
        weight_dtype=model.weights,
        activation_dtype=activation_dtype_for(model.weights, target.accelerator),
    )
    for degree in range(target.tensor_parallel, 0, -1):
        candidate = replace(draft, tensor_parallel=degree)
        try:
            check_layout(candidate)
        except InfeasibleError:
            continue
        return candidate
    return replace(draft, tensor_parallel=1)


def with_acceptance_range(
    prediction: ServingPrediction, chosen: ChosenSpeculation | None
) -> ServingPrediction:
    """A prediction whose times per token and rates also err as far as acceptance is not known.

    Assumes: both errors are independent, so they add in squares on the logarithm; first tokens do not depend on it.
    Source: own composition.
    """
    if chosen is None:
        return prediction
    slow = chosen.time_factors
    fast = (1.0 / slow[1], 1.0 / slow[0])
    times = ("tpot_s", "itl_s", "e2e_s")
    rates = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s")
    changed: dict[str, object] = {
        name: {key: widened(value, slow) for key, value in getattr(prediction, name).items()}
        for name in times
    }
    changed |= {name: widened(getattr(prediction, name), fast) for name in rates}
    return replace(prediction, **changed)  # type: ignore[arg-type]


def widened(quantity: Quantity, factors: tuple[float, float]) -> Quantity:
    """A quantity with a further independent error of (low, high) factors.

    Source: errors add in squares on the logarithm.
    """
    if quantity.value <= 0 or quantity.low <= 0:
        return quantity
    low = math.hypot(math.log(quantity.value / quantity.low), math.log(factors[0]))
    high = math.hypot(math.log(quantity.high / quantity.value), math.log(factors[1]))
    return replace(quantity, low=quantity.value * math.exp(-low), high=quantity.value * math.exp(high))
