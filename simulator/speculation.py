"""Speculative decoding: methods by name, expected tokens per step, cost of drafting and verification, and the batch at
which it stops paying."""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.speculation import speculation_methods, usual_acceptance
from advisor.catalog.units import GIGA, PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.engine_costs import default_costs
from advisor.simulator.graph.forward_pass import head_s
from advisor.simulator.graph.model import kv_bytes_per_token, num_layers, parameter_count
from advisor.simulator.layout import check_layout
from advisor.simulator.memory import weight_bytes
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica, replica_in_turns
from advisor.simulator.serving_prediction import ServingPrediction, end_to_end
from advisor.simulator.step_cost import StepSurface, decode_iteration_s

Method = Literal["draft_model", "mtp", "eagle", "medusa", "ngram", "self"]
METHODS: tuple[Method, ...] = ("draft_model", "mtp", "eagle", "medusa", "ngram", "self")
_LAYERS_OF_A_HEAD = {"mtp": 1.0, "eagle": 1.0, "medusa": 0.0, "ngram": 0.0}
"""Number of layers of the target's kind that propose one draft token, by method."""
_LOOKUP_S = 50e-6
"""Time to match the n-grams of a sequence on the host [s], once per sequence and step."""
NAMES: Final = ("mtp", "eagle", "medusa", "ngram", "lookahead")
_DRAFT: Final = "draft"
_SELF: Final = "self"
_CHAINS: Final = ("mtp", "ngram", "lookahead", _SELF)
"""Methods that engines draft as a chain alone."""
_METHODS: Final[dict[str, Method]] = {
    "mtp": "mtp",
    "eagle": "eagle",
    "medusa": "medusa",
    "ngram": "ngram",
    "lookahead": "ngram",
    _DRAFT: "draft_model",
    _SELF: "self",
}


@dataclass(frozen=True, slots=True)
class Speculation:
    """Method of speculative decoding with its settings.

    draft_model runs `draft` for each draft token; mtp and eagle run one layer and the head for each; medusa proposes
    all positions with one head each from one hidden state; ngram looks the draft tokens up in the text (lookahead's
    n-grams count as such). self drafts with a part of the target's own layers, whose weights and cache are there
    already.

    Source: Leviathan et al. 2023, arXiv:2211.17192; DeepSeek-V3, arXiv:2412.19437; EAGLE, arXiv:2401.15077; Medusa,
    arXiv:2401.10774; Fu et al. 2024 (lookahead), arXiv:2402.02057; Zhang et al. 2023 (Draft & Verify),
    arXiv:2309.08168; Elhoushi et al. 2024 (LayerSkip), arXiv:2404.16710.
    """

    method: Method
    draft_tokens: int
    """Draft tokens per sequence and step, along the longest path."""
    acceptance: float
    """Acceptance rate: probability that a draft token is accepted, given that those before it were."""
    draft: Deployment | None = None
    branches: int = 1
    """Number of alternatives at each position of a tree; 1 is a chain."""
    kept_layers: float = 0.0
    """Fraction of the target's own layers that draft (self: LayerSkip, Draft & Verify); 0 for other methods."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise AdvisorError(
                f"speculation {self.method!r} is not known", fix=f"one of {', '.join(METHODS)}"
            )
        if self.draft_tokens < 1 or self.branches < 1:
            raise AdvisorError("speculation drafts at least one token on at least one branch")
        if not 0.0 <= self.acceptance <= 1.0:
            raise AdvisorError(f"acceptance is a chance between 0 and 1, not {self.acceptance}")
        if (self.method == "draft_model") != (self.draft is not None):
            raise AdvisorError("a draft model belongs to the method draft_model, and only there")
        if (self.method == "self") != (0.0 < self.kept_layers < 1.0):
            raise AdvisorError(
                f"{self.kept_layers:g} of the layers cannot draft",
                why="self-speculation keeps a fraction of them between 0 and 1",
                fix="--speculative self:0.5",
            )

    def draft_layers(self, num_target_layers: int) -> float:
        """Return the number of layers of the target's kind that propose one draft token. Source: the method's."""
        if self.method == "self":
            return self.kept_layers * num_target_layers
        return _LAYERS_OF_A_HEAD[self.method]

    @property
    def tokens_per_step(self) -> float:
        """Expected number of tokens of one step. Source: expected_tokens."""
        return expected_tokens(self.acceptance, self.draft_tokens, self.branches)

    @property
    def verified_tokens(self) -> int:
        """Tokens of one sequence that the target computes in one step: all draft tokens of the tree, and its own."""
        return 1 + self.branches * self.draft_tokens


def expected_tokens(acceptance: float, draft_tokens: int, branches: int = 1) -> float:
    """Expected tokens that one verification yields, its own token included [tokens].

    1 + Σ_{i=1..k} b^i = (1 - b^(k+1)) / (1 - b), b = 1 - (1 - acceptance)^branches

    Assumes: draft tokens are accepted independently; a position of a tree holds if any of its branches does.
    Raises: AdvisorError: acceptance outside 0 to 1, or nothing drafted.
    Source: Leviathan et al. 2023, arXiv:2211.17192, eq. 1; Miao et al. 2024 (SpecInfer), arXiv:2305.09781, for trees.
    """
    if not 0.0 <= acceptance <= 1.0 or draft_tokens < 1 or branches < 1:
        raise AdvisorError(
            "acceptance lies in 0 to 1, and at least one token is drafted on at least one branch"
        )
    held = 1.0 - (1.0 - acceptance) ** branches
    return float(sum(held**position for position in range(draft_tokens + 1)))


def speculative_replica(
    replica: ReplicaModel,
    speculation: Speculation,
    *,
    mean_input_tokens: float,
    mean_output_tokens: float,
    settings: EngineSettings | None = None,
) -> ReplicaModel:
    """Return the replica with speculative decoding: its step costs per token, and the cache that drafting leaves.

    A step drafts and verifies; verifying d sequences costs as much as decoding d · (draft tokens + 1) tokens, while
    attention reads each cache once. The surface is a mean field: an iteration stands for one token, at 1 / expected
    tokens of the step's time.

    An engine that takes turns with the device under this method of speculation is priced accordingly.

    Assumes: every step yields its expectation, so means hold and the spread of inter-token times is not modelled;
    sequences do not differ in acceptance; prompts also run through the draft model.
    Raises: InfeasibleError: the draft leaves no room for a request.
    Source: own composition.
    """
    if speculation.method in replica.deployment.engine.in_turns_guessing:
        replica = replica_in_turns(replica, mean_input_tokens, mean_output_tokens, settings)
    deployment = replica.deployment
    plain = replica.surface
    count = speculation.verified_tokens
    slots = len(plain.decode_base_ps) - 1
    wide = _verifying(replica, speculation, mean_input_tokens, mean_output_tokens, settings)
    draft = _draft_surface(speculation, mean_input_tokens, mean_output_tokens, slots, plain)
    guess_ps = _guess_ps(replica, speculation, slots) if draft is None else []
    k = speculation.draft_tokens
    yielded = speculation.tokens_per_step
    base = [0]
    slope = [0]
    for batch in range(1, slots + 1):
        drafted = k * draft.decode_base_ps[batch] if draft else guess_ps[batch]
        base.append(round((wide.decode_base_ps[batch * count] + drafted) / yielded))
        read = plain.decode_context_ps[batch] + (k * draft.decode_context_ps[batch] if draft else 0)
        read += round(k * speculation.kept_layers * plain.decode_context_ps[batch])
        slope.append(round(read / yielded))
    surface = replace(
        plain,
        decode_base_ps=base,
        decode_context_ps=slope,
        decode_window_ps=[round(each / yielded) for each in plain.decode_window_ps],
        mixed_base_ps=plain.mixed_base_ps
        if draft is None
        else [whole + part for whole, part in zip(plain.mixed_base_ps, draft.mixed_base_ps, strict=True)],
    )
    blocks = _blocks_left(replica, speculation)
    if blocks is not None and blocks * replica.policy.block_tokens < mean_input_tokens + mean_output_tokens:
        raise InfeasibleError(
            f"{deployment.model.id} with a {speculation.method} leaves no room for a request",
            why=f"{blocks * replica.policy.block_tokens:,} tokens of cache remain beside the draft",
            fix="a smaller draft, or more accelerators",
        )
    return replace(replica, surface=surface, policy=replace(replica.policy, kv_capacity_blocks=blocks))


def crossover_batch(plain: StepSurface, speculative: StepSurface, context_tokens: float) -> int | None:
    """Smallest batch from which a token costs more time with speculation than with plain decoding [sequences]; None if
    no batch does.

    Source: definition.
    """
    for batch in range(1, len(plain.decode_base_ps)):
        slower = decode_iteration_s(speculative, batch, context_tokens)
        if slower > decode_iteration_s(plain, batch, context_tokens):
            return batch
    return None


def speed_up(plain: StepSurface, speculative: StepSurface, batch: int, context_tokens: float) -> float:
    """Ratio of tokens per second with speculation to those without it, decoding alone.

    Source: definition.
    """
    return decode_iteration_s(plain, batch, context_tokens) / decode_iteration_s(
        speculative, batch, context_tokens
    )


def _verifying(
    replica: ReplicaModel,
    speculation: Speculation,
    mean_input_tokens: float,
    mean_output_tokens: float,
    settings: EngineSettings | None,
) -> StepSurface:
    """Return the target's surface over all tokens that it verifies in one step."""
    slots = (len(replica.surface.decode_base_ps) - 1) * speculation.verified_tokens
    wide = replace(settings or EngineSettings(), max_num_seqs=slots, graphs_for_all_batches=True)
    costs = replace(replica.costs, sequence_s=replica.costs.sequence_s / speculation.verified_tokens)
    return model_replica(
        replica.deployment,
        mean_input_tokens=mean_input_tokens,
        mean_output_tokens=mean_output_tokens,
        settings=replace(wide, max_num_batched_tokens=None),
        costs=costs,
        library=replica.library,
    ).surface


def _draft_surface(
    speculation: Speculation,
    mean_input_tokens: float,
    mean_output_tokens: float,
    slots: int,
    plain: StepSurface,
) -> StepSurface | None:
    """Return the surface of the draft model, its host time hidden behind the target's; None if there is no draft
    model."""
    if speculation.draft is None:
        return None
    settings = EngineSettings(
        max_num_seqs=slots, max_num_batched_tokens=len(plain.mixed_base_ps) - 1, graphs_for_all_batches=True
    )
    return model_replica(
        speculation.draft,
        mean_input_tokens=mean_input_tokens,
        mean_output_tokens=mean_output_tokens,
        settings=settings,
        costs=replace(
            default_costs(), step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, request_s=0.0, request_launch_s=0.0
        ),
    ).surface


def _guess_ps(replica: ReplicaModel, speculation: Speculation, slots: int) -> list[int]:
    """Time to draft all tokens of a step without a draft model, by batch [ps]: layers and heads, or a look-up."""
    if speculation.method == "ngram":
        return [round(_LOOKUP_S * batch * PICOSECONDS_PER_S) for batch in range(slots + 1)]
    model = replica.deployment.model
    plain = replica.surface
    batches = np.arange(slots + 1, dtype=np.float64)
    heads = head_s(replica.deployment, replica.library, batches) * PICOSECONDS_PER_S
    layers = num_layers(model)
    share = speculation.draft_layers(layers) / layers
    body = [share * max(0.0, base - head) for base, head in zip(plain.decode_base_ps, heads, strict=True)]
    return [round(speculation.draft_tokens * (one + head)) for one, head in zip(body, heads, strict=True)]


def _blocks_left(replica: ReplicaModel, speculation: Speculation) -> int | None:
    """Number of cache blocks left after the draft's weights and its own cache."""
    blocks = replica.policy.kv_capacity_blocks
    memory = replica.memory
    if blocks is None or memory.kv_bytes <= 0:
        return blocks
    deployment = replica.deployment
    draft = speculation.draft
    if speculation.method == "self":
        return blocks
    ranks = deployment.accelerators_per_replica
    if draft is not None:
        weights = weight_bytes(draft) * draft.accelerators_per_replica / ranks
        per_token = kv_bytes_per_token(draft.model, draft.kv_dtype).full_bytes_per_token / ranks
    else:
        layers = num_layers(deployment.model)
        share = _LAYERS_OF_A_HEAD[speculation.method] / layers
        weights = share * memory.weight_bytes
        per_token = share * memory.kv_bytes_per_token
        if speculation.method == "medusa":
            table = deployment.model.hidden_size * deployment.model.vocab_size * bytes_per_element("bf16")
            weights = speculation.draft_tokens * table / ranks
    if memory.kv_bytes_per_token + per_token <= 0:
        return blocks  # a state of fixed size holds any context
    left = max(0.0, memory.kv_bytes - weights) / memory.kv_bytes
    return int(blocks * left * memory.kv_bytes_per_token / (memory.kv_bytes_per_token + per_token))


@dataclass(frozen=True, slots=True)
class ChosenSpeculation:
    """Speculation with the range of its acceptance rate."""

    name: str
    """Name as given: mtp, draft:llama-3.2-1b."""
    speculation: Speculation
    low: float
    """Lowest likely acceptance rate; equal to the speculation's own if the user gave it."""
    high: float
    source: str
    """Publication of the acceptance rate; empty if the user gave it."""

    @property
    def time_factors(self) -> tuple[float, float]:
        """Factors (low, high) of the time per token at the highest and the lowest likely acceptance rate."""
        guess = self.speculation
        most, least = (
            expected_tokens(chance, guess.draft_tokens, guess.branches) for chance in (self.high, self.low)
        )
        return guess.tokens_per_step / most, guess.tokens_per_step / least


def chosen_speculation(
    text: str,
    target: Deployment,
    *,
    draft_tokens: int | None = None,
    acceptance: float | None = None,
    branches: int = 1,
) -> ChosenSpeculation:
    """Return the speculation that a name, a number of draft tokens and an acceptance rate mean for a target.

    Raises: AdvisorError: the name is not known, or there is no usual acceptance. InfeasibleError: the target has no
        such module, or the draft does not go with it. UnknownNameError: no such draft model.
    Source: own composition; catalog/data/speculation.toml.
    """
    kind, _, draft_name = text.partition(":")
    method = _METHODS.get(kind)
    if branches > 1 and kind in (*_CHAINS, _DRAFT):
        raise AdvisorError(
            f"a tree of {branches} branches does not go with {kind}",
            why="engines verify trees of heads that propose alternatives; others draft a chain",
            fix="--speculative eagle or medusa, or drop --draft-branches",
        )
    if method is None or (kind in (_DRAFT, _SELF)) != bool(draft_name):
        raise AdvisorError(
            f"speculation {text!r} is not known",
            fix=f"one of {', '.join(NAMES)}, draft:MODEL, or self:FRACTION of its layers",
        )
    if kind == _SELF:
        return _self_speculation(text, draft_name, draft_tokens, acceptance)
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
            text, Speculation(method, guesses, known.value, draft, branches), known.low, known.high, where
        )
    chance = float(acceptance if acceptance is not None else math.nan)
    return ChosenSpeculation(text, Speculation(method, guesses, chance, draft, branches), chance, chance, "")


_SELF_TOKENS: Final = 4
"""Draft tokens in a row of self-speculation where none are given. Own assumption: as of draft models."""


def _self_speculation(
    text: str, fraction: str, draft_tokens: int | None, acceptance: float | None
) -> ChosenSpeculation:
    """Return self-speculation with a fraction of the layers.

    Raises: AdvisorError: it is no fraction, or the acceptance rate is not given.
    """
    try:
        kept = float(fraction)
    except ValueError:
        kept = 0.0
    if acceptance is None:
        raise AdvisorError(
            "which part of guesses by skipped layers is accepted is not known",
            why="it depends on which layers are left out, and on whether the model was trained for that",
            fix=f"measure it, or say what you expect: --speculative {text} --acceptance 0.8",
        )
    found = Speculation("self", draft_tokens or _SELF_TOKENS, acceptance, kept_layers=kept)
    return ChosenSpeculation(text, found, acceptance, acceptance, "")


def _draft(name: str, target: Deployment) -> Deployment:
    """Return the draft model on the target's accelerators, over as many of them as its heads divide among.

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
    sizes = [parameter_count(each).active / GIGA for each in (model, target.model)]
    if sizes[0] >= sizes[1]:
        raise InfeasibleError(
            f"{model.id} cannot draft for {target.model.id}",
            why=f"a draft model reads fewer weights a token than its target: {sizes[0]:.3g} and {sizes[1]:.3g} billion",
            fix="--speculative draft:MODEL with a smaller model of the same family",
        )
    draft = replace(
        target,
        model=model,
        pipeline_parallel=1,
        expert_parallel=1,
        redundant_experts=0,
        weight_dtype=model.weights,
        activation_dtype=activation_dtype_of(model, model.weights, target.accelerator),
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
    """Return the prediction with the uncertainty of the acceptance rate added to times per token and rates.

    Assumes: both errors are independent, so they add in squares on the logarithm; first tokens do not depend on it,
    so that a whole request errs by it in the tokens after the first.
    Source: own composition.
    """
    if chosen is None:
        return prediction
    slow = chosen.time_factors
    fast = (1.0 / slow[1], 1.0 / slow[0])
    times = ("tpot_s", "itl_s")
    rates = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s")
    changed: dict[str, object] = {
        name: {key: widen_by_factors(value, slow) for key, value in getattr(prediction, name).items()}
        for name in times
    }
    changed |= {name: widen_by_factors(getattr(prediction, name), fast) for name in rates}
    wider = replace(prediction, **changed)  # type: ignore[arg-type]
    whole_s = {name: value.value for name, value in prediction.e2e_s.items()}
    return replace(wider, e2e_s=end_to_end(whole_s, wider.ttft_s, wider.tpot_s))


def widen_by_factors(quantity: Quantity, factors: tuple[float, float]) -> Quantity:
    """Return a quantity with an additional independent error of (low, high) factors.

    Source: errors add in squares on the logarithm.
    """
    if quantity.value <= 0 or quantity.low <= 0 or factors == (1.0, 1.0):
        return quantity
    low = math.hypot(math.log(quantity.value / quantity.low), math.log(factors[0]))
    high = math.hypot(math.log(quantity.high / quantity.value), math.log(factors[1]))
    return replace(quantity, low=quantity.value * math.exp(-low), high=quantity.value * math.exp(high))
