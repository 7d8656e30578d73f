"""One pass of all layers over some tokens: what every iteration pays besides attention over the cache.

The pass of one pipeline stage is a sum over layer groups of projections, experts, collectives and small operators,
each priced by its own time function over a whole grid of token counts at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import (
    DenseFeedForward,
    GatedDeltaNet,
    LatentAttention,
    LayerGroup,
    Mamba2,
    MoeFeedForward,
)
from advisor.simulator.collectives import Topology, all_gather_s, all_reduce_s, reduce_scatter_s, topology_of
from advisor.simulator.collectives.expert_parallel import Mode, moe_combine_s, moe_dispatch_s
from advisor.simulator.collectives.operations import Algorithm
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.operator_library import ExpertLayer, OperatorLibrary, matmul_key
from advisor.simulator.operators.latent_attention import AbsorbEfficiency, mla_absorb_s
from advisor.simulator.operators.state_space import RecurrenceEfficiency, gated_delta_net_s, mamba2_s
from advisor.simulator.projections import dense_dtype, feed_forward_projections, mixer_projections
from advisor.simulator.sparse_latent import kernels_for, runs_absorbed, sparse_pass_s, sparse_widths

FloatArray = NDArray[np.float64]

CATEGORIES = (
    "attention_projections",
    "feed_forward",
    "experts",
    "state_space",
    "collectives",
    "small_operators",
    "head",
    "attention",
)
_ALL_REDUCE: Mapping[str, Algorithm] = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm"}
"""Levels of the all-reduce fits; other engines take the level over all."""
_BYTES = 2.0  # activations travel in 16 bits


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """Time of one stage's pass over a grid of token counts, by category [s]."""

    tokens: FloatArray
    seconds: Mapping[str, FloatArray]

    @property
    def total_s(self) -> FloatArray:
        return np.asarray(sum(self.seconds.values()), dtype=np.float64)


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
    evenly, a prompt of `prompt_tokens` lies on one rank; stages hold equal shares of the layers.
    Raises: KeyError: the device has no 16-bit peak.
    Source: own composition; operators as documented in their modules.
    """
    whole = 1.0 if decode else prompt_tokens
    rank_tokens = busiest_rank_tokens(tokens, deployment.data_parallel, whole)
    totals = {category: np.zeros_like(tokens, dtype=np.float64) for category in CATEGORIES}
    pricing = _Pricing(deployment, library, tokens, rank_tokens, decode, input_tokens)
    for group in deployment.model.layers:
        layers = group.count / deployment.pipeline_parallel
        for category, seconds in pricing.layer(group).items():
            totals[category] += layers * seconds
    return TokenCosts(tokens, totals)


def busiest_rank_tokens(tokens: FloatArray, num_ranks: int, prompt_tokens: float = 1.0) -> FloatArray:
    """Tokens on the busiest of attention data-parallel ranks that share some, prompt by prompt [tokens].

    min(tokens, ⌈tokens / (ranks · prompt)⌉ · prompt), at least 1

    Assumes: prompts of equal length are dealt out evenly.
    Source: own derivation.
    """
    rounds = np.ceil(tokens / (num_ranks * max(1.0, prompt_tokens)))
    return np.maximum(1.0, np.minimum(tokens, rounds * max(1.0, prompt_tokens)))


def riding_state_s(deployment: Deployment, library: OperatorLibrary) -> float:
    """Time of one stage for the states of one more sequence that decodes beside a prompt [s].

    Recurrent layers read and write its states as in a step without prompts; everything else of it is part of the
    tokens of the iteration.

    Assumes: engines step such sequences apart from prompts, as recent vLLM does; its 0.18 runs gated delta nets of all
    of them through the chunked rule, which takes longer.
    Source: own composition; vLLM's Mamba2 mixer and gated delta nets.
    """
    mixers = [
        (group.count, group.mixer)
        for group in deployment.model.layers
        if isinstance(group.mixer, GatedDeltaNet | Mamba2)
    ]
    if not mixers:
        return 0.0
    few = 64.0
    sequences = np.array([few, 2.0 * few])
    pricing = _Pricing(deployment, library, sequences, sequences, decode=True)
    slopes_s = [count * float(np.diff(pricing.recurrence(mixer))[0]) / few for count, mixer in mixers]
    return sum(slopes_s) / deployment.data_parallel / deployment.pipeline_parallel


def head_s(deployment: Deployment, library: OperatorLibrary, num_sequences: FloatArray) -> FloatArray:
    """Time of the output head and sampling for the sequences that yield a token [s].

    Assumes: vocabulary split over tensor-parallel ranks and gathered; sampling passes over fp32 logits twice.
    Source: own composition.
    """
    model, tp = deployment.model, deployment.tensor_parallel
    rows = np.maximum(1.0, np.ceil(num_sequences / deployment.data_parallel))
    seconds = library.matmul_s(rows, -(-model.vocab_size // tp), model.hidden_size, "bf16")
    seconds = seconds + library.elementwise_s(rows * model.vocab_size * 8.0)
    if tp > 1:
        seconds = seconds + all_gather_s(
            rows * model.vocab_size * _BYTES, topology_of(deployment.accelerator, tp)
        )
    return np.asarray(seconds)


def expert_format(deployment: Deployment) -> str:
    """Operator format of a deployment's routed experts. Source: operator_library.matmul_key."""
    block = deployment.model.fp8_scaling == "block"
    return matmul_key(*_formats(deployment.weight_dtype, deployment), block_scaled=block)


class _Pricing:
    """Prices one layer at a time over a fixed grid of tokens."""

    def __init__(
        self,
        deployment: Deployment,
        library: OperatorLibrary,
        tokens: FloatArray,
        rank_tokens: FloatArray,
        decode: bool,
        input_tokens: float = 1.0,
    ) -> None:
        self.deployment = deployment
        self.library = library
        self.tokens = tokens
        self.rank_tokens = rank_tokens
        self.decode = decode
        self.input_tokens = input_tokens
        model = deployment.model
        self.hidden = model.hidden_size
        block = model.fp8_scaling == "block"
        self.dense_key = matmul_key(
            *_formats(dense_dtype(model, deployment.weight_dtype), deployment), block_scaled=block
        )
        self.expert_key = expert_format(deployment)
        self.all_reduce = _ALL_REDUCE.get(deployment.engine.id, "engine")
        self.tp_group = topology_of(deployment.accelerator, deployment.tensor_parallel)
        self.stage_group = topology_of(deployment.accelerator, deployment.ranks_per_stage)

    def layer(self, group: LayerGroup) -> dict[str, FloatArray]:
        """Time of one layer by category [s]."""
        parts: dict[str, FloatArray] = {}
        if group.mixer is not None:
            self._mixer(group, parts)
        if group.feed_forward is not None:
            self._feed_forward(group, parts)
        return parts

    def _mixer(self, group: LayerGroup, parts: dict[str, FloatArray]) -> None:
        tp, mixer = self.deployment.tensor_parallel, group.mixer
        absorbed = isinstance(mixer, LatentAttention) and (
            self.decode or runs_absorbed(self.deployment, mixer, self.input_tokens)
        )
        projections = [
            projection
            for projection in mixer_projections(mixer, self.hidden, tp)
            if not (absorbed and projection.prefill_only)
        ]
        seconds = sum(
            self.library.matmul_s(
                self.rank_tokens, p.columns, p.depth, self.dense_key if p.low_bit else "bf16"
            )
            for p in projections
        )
        if isinstance(mixer, LatentAttention) and absorbed:
            seconds = seconds + mla_absorb_s(
                self.rank_tokens, mixer.num_heads // tp, mixer.kv_lora_rank, mixer.qk_nope_head_dim, mixer.v_head_dim,
                self.library.device, self.library.parameters(AbsorbEfficiency, "mla_absorb", "bf16"),
            )  # fmt: skip
        _add(parts, "attention_projections", seconds)
        widths = [2.0 * self.hidden, sum(p.columns for p in projections[:-1])]
        if isinstance(mixer, LatentAttention) and absorbed and kernels_for(self.deployment, mixer):
            widths += sparse_widths(mixer, mixer.num_heads // tp)
            attention_s = sparse_pass_s(
                self.deployment, self.library, mixer, self.rank_tokens, decode=self.decode
            )
            _add(parts, "attention", attention_s)
        _add(parts, "small_operators", self._small(widths))
        if isinstance(mixer, GatedDeltaNet | Mamba2):
            _add(parts, "state_space", self.recurrence(mixer))
        self._all_reduce(parts)

    def _feed_forward(self, group: LayerGroup, parts: dict[str, FloatArray]) -> None:
        deployment, feed_forward = self.deployment, group.feed_forward
        shared_tp = deployment.tensor_parallel
        matmuls = feed_forward_projections(feed_forward, self.hidden, shared_tp)
        seconds = sum(
            self.library.matmul_s(
                self.rank_tokens, p.columns, p.depth, self.dense_key if p.low_bit else "bf16"
            )
            for p in matmuls
        )
        _add(parts, "feed_forward", seconds)
        widths = [2.0 * self.hidden]
        if isinstance(feed_forward, DenseFeedForward):
            widths.append(0.75 * matmuls[0].columns)  # reads gate and up, writes one
        if isinstance(feed_forward, MoeFeedForward):
            # Gating, top-k and, with shared experts, their activation and the final sum.
            widths += [feed_forward.num_experts, 2.0 * feed_forward.experts_per_token]
            if feed_forward.shared_intermediate_size:
                widths += [0.75 * matmuls[-2].columns, 0.75 * self.hidden]
            _add(parts, "experts", self._experts(feed_forward))
        _add(parts, "small_operators", self._small(widths))
        if isinstance(feed_forward, MoeFeedForward) and deployment.data_parallel > 1:
            _add(parts, "collectives", self._exchange_s(feed_forward))
        else:
            self._all_reduce(parts)

    def _experts(self, feed_forward: MoeFeedForward) -> FloatArray:
        layer = ExpertLayer(
            hidden_size=feed_forward.latent_size or self.hidden,
            intermediate_size=feed_forward.intermediate_size,
            num_experts=self.deployment.expert_slots(feed_forward.num_experts),
            experts_per_token=feed_forward.experts_per_token,
            tensor_parallel=self.deployment.expert_tensor_parallel,
            expert_parallel=self.deployment.expert_parallel,
            gated=feed_forward.gated,
        )
        return self.library.experts_s(self.tokens, self.expert_key, layer)

    def recurrence(self, mixer: GatedDeltaNet | Mamba2) -> FloatArray:
        """Time of the state mixer of one layer [s]."""
        sequences = self.rank_tokens if self.decode else np.ones_like(self.tokens)
        gated = isinstance(mixer, GatedDeltaNet)
        run: Callable[..., FloatArray] = gated_delta_net_s if gated else mamba2_s
        operator = "mamba2" if isinstance(mixer, Mamba2) else "kda" if mixer.channel_gate_rank else "gdn"
        efficiency = self.library.parameters(RecurrenceEfficiency, operator, "bf16")
        tp, device = self.deployment.tensor_parallel, self.library.device
        return run(self.rank_tokens, sequences, mixer, tp, device, efficiency, decode=self.decode)

    def _small(self, widths: list[float]) -> FloatArray:
        """Small operators that read and write about so many 16-bit values per token."""
        return np.asarray(
            sum(self.library.elementwise_s(self.rank_tokens * width * 2.0 * _BYTES) for width in widths)
        )

    def _all_reduce(self, parts: dict[str, FloatArray]) -> None:
        if self.deployment.tensor_parallel > 1:
            num_bytes = self.rank_tokens * self.hidden * _BYTES
            _add(parts, "collectives", all_reduce_s(num_bytes, self.tp_group, algorithm=self.all_reduce))

    def _exchange_s(self, feed_forward: MoeFeedForward) -> FloatArray:
        """Tokens of all attention ranks reach their experts and return, in the cheaper of the ways an engine has.

        Either every rank gathers all tokens and sums are scattered back; or, where whole experts sit on ranks, each
        token goes to the ranks of its experts alone: low-latency kernels for decode, normal ones for prompts.
        """
        num_bytes = self.tokens * self.hidden * _BYTES
        gathered_s = all_gather_s(num_bytes, self.stage_group) + reduce_scatter_s(num_bytes, self.stage_group)
        deployment = self.deployment
        if deployment.expert_parallel < deployment.ranks_per_stage:
            return np.asarray(gathered_s)
        mode: Mode = "low_latency" if self.decode else "normal"
        per_rank = self.tokens / deployment.ranks_per_stage
        dispatch_s, combine_s = (
            exchange_s(
                per_rank,
                feed_forward.latent_size or self.hidden,
                feed_forward.experts_per_token,
                self.stage_group,
                num_experts=deployment.expert_slots(feed_forward.num_experts),
                mode=mode,
            )
            for exchange_s in (moe_dispatch_s, moe_combine_s)
        )
        return np.minimum(gathered_s, dispatch_s + combine_s)


def stage_topology(deployment: Deployment) -> Topology:
    """The accelerators that share the layers of one stage. Source: own definition."""
    return topology_of(deployment.accelerator, deployment.ranks_per_stage)


def _formats(weight_dtype: str, deployment: Deployment) -> tuple[str, str]:
    if weight_dtype == deployment.weight_dtype:
        return weight_dtype, deployment.activation_dtype
    return weight_dtype, activation_dtype_for(weight_dtype, deployment.accelerator)


def _add(parts: dict[str, FloatArray], category: str, seconds: FloatArray | int) -> None:
    parts[category] = parts.get(category, 0.0) + np.asarray(seconds, dtype=np.float64)
