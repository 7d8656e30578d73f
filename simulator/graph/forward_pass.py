"""Time of one pass of all layers on one accelerator: cost of its tokens, and attention over the cache.

The pass of one pipeline stage is a sum over layer groups of projections, experts, collectives and small operators,
each priced by its own time function over a whole grid of token counts at once. Attention over the cache is a sum of
straight lines in the surface's aggregates: summed context and query-key pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema.model import Part
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from advisor.simulator.collectives.expert_parallel import Mode, moe_combine_s, moe_dispatch_s
from advisor.simulator.collectives.operations import Algorithm
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.graph.model import dense_dtype, layers_in, layers_of, window_of
from advisor.simulator.graph.operator import (
    Decoding,
    Experts,
    FeedForwardOperators,
    Layer,
    MixerOperators,
    Pass,
    Rank,
)
from advisor.simulator.graph.weights import Projection
from advisor.simulator.operator_library import ExpertLayer, OperatorLibrary, matmul_key

FloatArray = NDArray[np.float64]

CATEGORIES = (
    "attention_projections",
    "feed_forward",
    "experts",
    "state_space",
    "collectives",
    "exchange",
    "small_operators",
    "head",
    "attention",
)
_ALL_REDUCE: Mapping[str, Algorithm] = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm"}
"""Level of the all-reduce fits by engine; other engines take the level over all engines."""
_DENSE_PARTS: tuple[Part, ...] = ("mixer", "feed_forward", "shared_experts")
_LARGEST_SUM_WITH_NORM = 8e6
"""Largest sum over ranks that TensorRT-LLM's own kernels take, with the norm behind it [bytes]: the workspace of more
than two ranks (cpp/tensorrt_llm/common/customAllReduceUtils.h, getMaxRequiredWorkspaceSize)."""
_NORM_BYTES = 8.0  # Sums of squares of a token's queries and keys are fp32.


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """Time of one stage's pass over a grid of token counts, by category [s]."""

    tokens: FloatArray
    seconds: Mapping[str, FloatArray]

    @property
    def total_s(self) -> FloatArray:
        return np.asarray(sum(self.seconds.values()), dtype=np.float64)


@dataclass(slots=True)
class DecodeLines:
    """Decode attention of one stage at each batch size: intercept [s] + slope·S + window_slope·S_w."""

    intercept_s: FloatArray
    slope_s: FloatArray
    window_slope_s: FloatArray
    window_tokens: int | None = None

    def growing_s(self, context_tokens: float) -> FloatArray:
        """Time that sequences of this context add to the intercept [s], at each batch size."""
        windowed = min(context_tokens, self.window_tokens or 0)
        return self.slope_s * context_tokens + self.window_slope_s * windowed


@dataclass(slots=True)
class PrefillLines:
    """Prefill attention of one stage: sequence [s] + token·n + pair·A + window_pair·A_w."""

    sequence_s: float = 0.0
    token_s: float = 0.0
    pair_s: float = 0.0
    window_pair_s: float = 0.0


def token_costs(
    deployment: Deployment,
    library: OperatorLibrary,
    tokens: FloatArray,
    *,
    decode: bool,
    prompt_tokens: float = 1.0,
    input_tokens: float = 0.0,
) -> TokenCosts:
    """Time of one pipeline stage over `tokens` new tokens of the whole replica, by category [s].

    `decode` means one token per sequence: latent attention runs absorbed and recurrent layers step; otherwise
    prompts run through the chunked and the up-projected forms, or absorbed too where keys are chosen and prompts have
    `input_tokens`. Kernels of chosen keys, whose time depends on the tokens alone, count here as `attention`.

    Assumes: attention data-parallel ranks run in lockstep, so the busiest decides: decoding sequences are dealt out
    evenly, a prompt of `prompt_tokens` is on one rank; stages hold equal shares of the layers.
    Raises: KeyError: the device has no 16-bit peak.
    Source: own composition; operators as documented in their modules.
    """
    whole = 1.0 if decode else prompt_tokens
    rank_tokens = busiest_rank_tokens(tokens, deployment.data_parallel, whole)
    totals = {category: np.zeros_like(tokens, dtype=np.float64) for category in CATEGORIES}
    pricing = _Pricing(Pass(deployment, library, tokens, rank_tokens, decode, input_tokens))
    for layer in layers_in(deployment.model, decode=decode):
        layers = layer.count / deployment.pipeline_parallel
        for category, seconds in pricing.layer(layer).items():
            totals[category] += layers * seconds
    return TokenCosts(tokens, totals)


def busiest_rank_tokens(tokens: FloatArray, num_ranks: int, prompt_tokens: float = 1.0) -> FloatArray:
    """Number of tokens on the busiest of attention data-parallel ranks that share `tokens` prompt by prompt [tokens].

    min(tokens, ⌈tokens / (ranks · prompt)⌉ · prompt), at least 1

    Assumes: prompts of equal length are dealt out evenly.
    Source: own derivation.
    """
    rounds = np.ceil(tokens / (num_ranks * max(1.0, prompt_tokens)))
    return np.maximum(1.0, np.minimum(tokens, rounds * max(1.0, prompt_tokens)))


def riding_state_s(deployment: Deployment, library: OperatorLibrary) -> float:
    """Time of one stage for the states of one more sequence that decodes in an iteration with prefill [s].

    Recurrent layers read and write its states as in a step without prompts; all other work on it is part of the
    tokens of the iteration.

    Assumes: engines step such sequences apart from prompts, as recent vLLM does; its 0.18 runs gated delta nets of all
    of them through the chunked rule, which takes longer.
    Source: own composition; vLLM's Mamba2 mixer and gated delta nets.
    """
    few = 64.0
    sequences = np.array([few, 2.0 * few])
    tp = deployment.tensor_parallel
    slope_s = sum(
        layer.count
        * float(np.diff(layer.mixer.recurrence_s(library, sequences, sequences, tp, decode=True))[0])
        / few
        for layer in layers_of(deployment.model)
        if layer.mixer is not None and layer.mixer.recurrence_kernel
    )
    return slope_s / deployment.data_parallel / deployment.pipeline_parallel


def head_s(deployment: Deployment, library: OperatorLibrary, num_sequences: FloatArray) -> FloatArray:
    """Time of the output head and sampling for the sequences that yield a token [s].

    Assumes: vocabulary split over tensor-parallel ranks and gathered; sampling passes over fp32 logits twice.
    Source: own composition.
    """
    model = deployment.model
    tp = deployment.tensor_parallel
    rows = np.maximum(1.0, np.ceil(num_sequences / deployment.data_parallel))
    seconds = library.matmul_s(rows, -(-model.vocab_size // tp), model.hidden_size, "bf16")
    seconds = seconds + library.elementwise_s(rows * model.vocab_size * 8.0)
    if tp > 1:
        seconds = seconds + all_gather_s(rows * model.vocab_size * BF16_BYTES, deployment.group(tp))
    return np.asarray(seconds)


def decode_lines(
    deployment: Deployment,
    library: OperatorLibrary,
    num_sequences: FloatArray,
    context_low: float,
    context_high: float,
    context_spread: float = 0.0,
) -> DecodeLines:
    """Return decode attention of one pipeline stage as lines, per number of sequences of the replica.

    Attention data-parallel ranks each hold their share of the sequences, so a slope per token of the replica's
    summed context is the rank's slope divided by the number of ranks.

    Source: the mixers' own lines.
    """
    dp = deployment.data_parallel
    batch = np.maximum(1.0, np.ceil(num_sequences / dp))
    zero = np.zeros_like(batch)
    at = Decoding(deployment, library, context_spread)
    lines = DecodeLines(zero, zero.copy(), zero.copy(), window_of(deployment.model))
    for layer in layers_in(deployment.model, decode=True):
        layers = layer.count / deployment.pipeline_parallel
        if layer.mixer is None:
            continue
        for line in layer.mixer.decode_lines(at, batch, context_low, context_high):
            lines.intercept_s += layers * np.maximum(line.intercept_s, 0.0)
            target = lines.window_slope_s if line.windowed else lines.slope_s
            target += layers * np.maximum(line.slope_s, 0.0) / dp
    return lines


def prefill_lines(
    deployment: Deployment, library: OperatorLibrary, chunk_tokens: float, cached_tokens: float
) -> PrefillLines:
    """Return prefill attention of one pipeline stage as lines around a typical chunk on a typical cache.

    Two chunk sizes separate the cost per sequence from the cost per token. If an indexer chooses keys for absorbed
    prompts, only its scores grow with the pairs.

    Source: the mixers' own lines.
    """
    dp = deployment.data_parallel
    small = max(16.0, chunk_tokens / 4.0)
    large = max(64.0, chunk_tokens)
    at = Rank(deployment, library)
    result = PrefillLines()
    for layer in layers_in(deployment.model, decode=False):
        layers = layer.count / deployment.pipeline_parallel
        mixer = layer.mixer
        if mixer is None or mixer.attention is None:
            continue
        scored_s = mixer.score_pair_s(at, large, max(cached_tokens, large), cached_tokens)
        result.pair_s += layers * scored_s / dp
        if not mixer.attends_prompts(deployment, cached_tokens):
            continue
        few_s, _ = mixer.prefill_line(at, small, max(cached_tokens, small))
        many_s, slope_s = mixer.prefill_line(at, large, max(cached_tokens, large))
        token_s = max(0.0, (many_s - few_s) / (large - small))
        result.token_s += layers * token_s / dp
        result.sequence_s += layers * max(0.0, many_s - token_s * large)
        if mixer.attention.line_window is None:
            result.pair_s += layers * max(0.0, slope_s) / dp
        else:
            result.window_pair_s += layers * max(0.0, slope_s) / dp
    return result


def expert_format(deployment: Deployment) -> str:
    """Return the operator format of a deployment's routed experts. Source: operator_library.matmul_key."""
    block = deployment.model.fp8_scaling == "block"
    return matmul_key(*_formats(deployment.weight_dtype, deployment), block_scaled=block)


class _Pricing:
    """Pricing of single layers over a fixed grid of tokens."""

    def __init__(self, at: Pass) -> None:
        self.at = at
        self.deployment = at.deployment
        self.library = at.library
        deployment = at.deployment
        model = at.deployment.model
        self.hidden = model.hidden_size
        self.dense_keys = {part: self._key(part) for part in _DENSE_PARTS}
        self.expert_key = expert_format(deployment)
        self.all_reduce = _ALL_REDUCE.get(deployment.engine.id, "engine")
        self.tp_group = deployment.group(deployment.tensor_parallel)
        self.stage_group = deployment.group(deployment.ranks_per_stage)

    def _key(self, part: Part) -> str:
        """Return the operator format of the dense matrices of one kind."""
        model = self.deployment.model
        formats = _formats(dense_dtype(model, self.deployment.weight_dtype, part), self.deployment)
        return matmul_key(*formats, block_scaled=model.fp8_scaling == "block")

    def layer(self, layer: Layer) -> dict[str, FloatArray]:
        """Time of one layer by category [s]."""
        parts: dict[str, FloatArray] = {}
        if layer.mixer is not None:
            self._mixer(layer.mixer, parts)
        if layer.feed_forward is not None:
            self._feed_forward(layer.feed_forward, parts)
        return parts

    def _mixer(self, mixer: MixerOperators, parts: dict[str, FloatArray]) -> None:
        projections = mixer.pass_projections(self.at)
        _add(
            parts,
            "attention_projections",
            self._matmuls_s(projections, "mixer", core=mixer.attention is not None),
        )
        for category, seconds in mixer.pass_s(self.at).items():
            _add(parts, category, seconds)
        tp = self.deployment.tensor_parallel
        normed = float(mixer.exchanged_norm_values)
        widths = [float(sum(p.columns for p in projections[:-1])), *mixer.pass_widths(self.at)]
        if normed:
            # Squares of queries and keys are summed in fp32, over ranks too, before anything is normed.
            widths += [normed / tp, 2.0 * normed / tp]
            self._all_reduce(parts, _NORM_BYTES)
        _add(parts, "small_operators", self._norm_s() + self._small_s(widths))
        self._all_reduce(parts, self.hidden * BF16_BYTES)

    def _feed_forward(self, part: FeedForwardOperators, parts: dict[str, FloatArray]) -> None:
        tp = self.deployment.tensor_parallel
        dense: Part = "shared_experts" if part.experts is not None else "feed_forward"
        _add(parts, "feed_forward", self._matmuls_s(part.local(tp), dense))
        _add(parts, "small_operators", self._norm_s() + self._small_s(part.pass_widths(tp)))
        if part.experts is not None and self.deployment.data_parallel > 1:
            experts_s, exchange_s = self._exchanged_s(part.experts)
            _add(parts, "experts", experts_s)
            _add(parts, "exchange", exchange_s)
            return
        if part.experts is not None:
            _add(parts, "experts", self._experts_s(part.experts))
        self._all_reduce(parts, self.hidden * BF16_BYTES)

    def _matmuls_s(
        self, projections: tuple[Projection, ...], part: Part, *, core: bool = False
    ) -> FloatArray:
        """Time of several matmuls [s]; the last follows attention in a mixer if `core` is set."""
        last = len(projections) - 1 if core else -1
        seconds = np.zeros_like(self.at.rank_tokens)
        for order, p in enumerate(projections):
            form = self.dense_keys[part] if p.low_bit else self.library.wide_format(p.name)
            seconds = seconds + self.library.matmul_s(
                self.at.rank_tokens, p.columns, p.depth, form, behind_kernel=order != last
            )
        return seconds

    def _experts_s(self, experts: Experts, *, dispatched: bool = False) -> FloatArray:
        layer = ExpertLayer(
            hidden_size=experts.hidden_size,
            intermediate_size=experts.intermediate_size,
            num_experts=self.deployment.expert_slots(experts.num_experts),
            experts_per_token=experts.per_token,
            tensor_parallel=self.deployment.expert_tensor_parallel,
            expert_parallel=self.deployment.expert_parallel,
            gated=experts.gated,
            is_balanced=self.deployment.redundant_experts > 0,
        )
        return self.library.experts_s(self.at.tokens, self.expert_key, layer, dispatched=dispatched)

    def _norm_s(self) -> FloatArray:
        """Time of the norm in front of a part, with the residual [s]; 0 where the sum over ranks takes it along.

        Assumes: larger sums than the engine's own kernels take are followed by a norm of its own; the norm of the first
        layer, which follows no sum, is negligible.
        Source: kernel_choices of the engine's record.
        """
        norm_s = self._small_s([2.0 * self.hidden])
        sums = self.deployment.tensor_parallel > 1 and self.deployment.data_parallel == 1
        if not sums or not self.library.sums_take_norms:
            return norm_s
        sum_bytes = self.at.rank_tokens * self.hidden * BF16_BYTES
        return np.where(sum_bytes > _LARGEST_SUM_WITH_NORM, norm_s, 0.0)

    def _small_s(self, widths: list[float]) -> FloatArray:
        """Time of small operators that read and write the given numbers of 16-bit values per token [s]."""
        num_bytes = np.outer(widths, self.at.rank_tokens) * 2.0 * BF16_BYTES
        return np.asarray(self.library.elementwise_s(num_bytes).sum(axis=0))

    def _all_reduce(self, parts: dict[str, FloatArray], token_bytes: float) -> None:
        if self.deployment.tensor_parallel > 1:
            num_bytes = self.at.rank_tokens * token_bytes
            _add(parts, "collectives", all_reduce_s(num_bytes, self.tp_group, algorithm=self.all_reduce))

    def _exchanged_s(self, experts: Experts) -> tuple[FloatArray, FloatArray]:
        """Time of routed experts whose tokens come from several attention ranks, and of the way there and back [s], in
        the cheaper of an engine's ways.

        Either every rank gathers all tokens and sums are scattered back; or, if whole experts are on ranks, each token
        goes to the ranks of its experts alone: low-latency kernels for decode, normal ones for prompts. Kernels that
        hold all tokens pass the rows of other ranks' experts through memory too.

        Assumes: within a node kernels hold all tokens whatever brought them.
        """
        tokens = self.at.tokens
        deployment = self.deployment
        num_bytes = tokens * self.hidden * BF16_BYTES
        gathered_s = all_gather_s(num_bytes, self.stage_group) + reduce_scatter_s(num_bytes, self.stage_group)
        on_all_s = self._experts_s(experts)
        if deployment.expert_parallel < deployment.ranks_per_stage:
            return on_all_s, np.asarray(gathered_s)
        mode: Mode = "low_latency" if self.at.decode else "normal"
        sent_s = sum(
            exchange_s(
                tokens / deployment.ranks_per_stage,
                experts.hidden_size,
                experts.per_token,
                self.stage_group,
                num_experts=deployment.expert_slots(experts.num_experts),
                mode=mode,
            )
            for exchange_s in (moe_dispatch_s, moe_combine_s)
        )
        on_own_s = self._experts_s(experts, dispatched=True) if deployment.can_dispatch else on_all_s
        dispatches = on_own_s + sent_s < on_all_s + gathered_s
        return np.where(dispatches, on_own_s, on_all_s), np.where(dispatches, sent_s, gathered_s)


def _formats(weight_dtype: str, deployment: Deployment) -> tuple[str, str]:
    if weight_dtype == deployment.weight_dtype:
        return weight_dtype, deployment.activation_dtype
    return weight_dtype, activation_dtype_for(weight_dtype, deployment.accelerator)


def _add(parts: dict[str, FloatArray], category: str, seconds: FloatArray | int) -> None:
    parts[category] = parts.get(category, 0.0) + np.asarray(seconds, dtype=np.float64)
