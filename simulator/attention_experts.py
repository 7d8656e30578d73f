"""Attention and feed-forward parts on accelerators of their own: decode in a ping-pong of micro-batches in closed form.

Attention accelerators hold the cache and attend; expert accelerators multiply with the feed-forward parts of all
layers. A token's vector travels to the experts and back in every layer, and several micro-batches in turn hide that.
"""

from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.collectives import collective
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB, MILLISECOND_S
from advisor.simulator.collectives import topology_of
from advisor.simulator.collectives.expert_parallel import FP8_SCALED_BYTES, distinct_holders
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.engine_costs import engine_costs, operator_library
from advisor.simulator.graph.model import kv_bytes_per_token, routed_layers
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.memory import weight_bytes
from advisor.simulator.operators.grouped_matmul import TYPICAL_SKEW
from advisor.simulator.quantity import Quantity
from advisor.simulator.surface import decode_breakdown_s

MOST_MICRO_BATCHES: Final = 4
"""Largest number of micro-batches that is tried: Step-3 runs three, MegaScale-Infer up to four."""
_MEMORY_FRACTION: Final = 0.9
"""Part of an accelerator's memory for weights and cache. Own assumption; activations and libraries take the rest."""
_COMBINE_BYTES: Final = 2.0
_NOT_IN_LAYERS: Final = ("head", "host")
_BATCH_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class SplitDecode:
    """Decode with attention and feed-forward parts apart, at one size of micro-batch."""

    num_micro_batches: int
    tokens_per_micro_batch: int
    attention_s: float
    """Time of one micro-batch in one layer on the attention accelerators [s]."""
    experts_s: float
    dispatch_s: float
    """Time to send a micro-batch's vectors to the experts [s]."""
    combine_s: float
    num_layers: int
    num_accelerators: int

    @property
    def period_s(self) -> float:
        """Time between two micro-batches in one layer [s].

        max(attention, experts, dispatch, combine, sum / micro-batches)

        Assumes: both directions of a link are free at the same time; every layer takes the mean of all.
        Source: Zhu et al. 2025 (MegaScale-Infer), arXiv:2504.02263, section 4.1; links may be the slowest part here.
        """
        parts = (self.attention_s, self.experts_s, self.dispatch_s, self.combine_s)
        return max(*parts, sum(parts) / self.num_micro_batches)

    @property
    def tpot_s(self) -> float:
        """Time per output token: every micro-batch passes every layer once [s]."""
        return self.num_micro_batches * self.num_layers * self.period_s

    @property
    def num_sequences(self) -> int:
        """Number of sequences that decode at once."""
        return self.num_micro_batches * self.tokens_per_micro_batch

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second and accelerator."""
        return self.num_sequences / self.tpot_s / self.num_accelerators

    @property
    def bound(self) -> str:
        """Part that the others wait for."""
        parts = {
            "attention": self.attention_s,
            "experts": self.experts_s,
            "dispatch": self.dispatch_s,
            "combine": self.combine_s,
        }
        slowest = max(parts, key=lambda name: parts[name])
        return slowest if parts[slowest] >= self.period_s else "too few micro-batches"


@dataclass(frozen=True, slots=True)
class TogetherDecode:
    """Decode of the whole model on equal accelerators, attention and experts on each."""

    num_accelerators: int
    """Number of accelerators: that of the split, or fewer where the experts do not divide among that many."""
    num_sequences: int
    tpot_s: float
    tokens_per_s: float
    """Output tokens per second and accelerator."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Accelerators of the attention part and of the feed-forward part of one model."""

    model: Deployment
    """Model, formats and engine on one attention accelerator."""
    num_attention: int
    num_experts: int
    expert_accelerator: Accelerator
    expert_skew: float = TYPICAL_SKEW
    """Coefficient of variation of the popularity of experts; 0 where copies or a balancer make them equal."""

    def __post_init__(self) -> None:
        routed = routed_layers(self.model.model)
        if not routed:
            raise AdvisorError(
                f"{self.model.model.id} has no routed experts",
                why="a dense feed-forward part gains nothing from accelerators of its own",
                fix="--model deepseek-v3",
            )
        experts = routed[0][1].num_experts
        if experts % self.num_experts:
            raise InfeasibleError(
                f"{experts} experts do not divide among {self.num_experts} accelerators",
                why="each holds the same number of experts",
                fix=f"--expert-gpus {max(n for n in range(1, self.num_experts + 1) if experts % n == 0)}",
            )

    @property
    def attention_side(self) -> Deployment:
        """Return the model's layers without feed-forward parts, on one accelerator."""
        layers = tuple(group.model_copy(update={"feed_forward": None}) for group in self.model.model.layers)
        return replace(self.model, model=self.model.model.model_copy(update={"layers": layers}))

    @property
    def expert_side(self) -> Deployment:
        """Return the model's layers without mixers, experts over all expert accelerators."""
        layers = tuple(group.model_copy(update={"mixer": None}) for group in self.model.model.layers)
        model = self.model.model.model_copy(update={"layers": layers})
        chip = self.expert_accelerator
        return replace(
            self.model,
            model=model,
            accelerator=chip,
            activation_dtype=activation_dtype_of(self.model.model, self.model.weight_dtype, chip),
            data_parallel=self.num_experts,
            expert_parallel=self.num_experts,
        )

    @property
    def num_layers(self) -> int:
        return sum(group.count for group in self.model.model.layers)


def split_decode(
    plan: SplitPlan, num_tokens: int, num_micro_batches: int, context_tokens: int
) -> SplitDecode:
    """Return decode with micro-batches of `num_tokens` tokens over all attention accelerators.

    Attention is data-parallel. Every attention accelerator sends each token once to each node that holds a chosen
    expert, in fp8 with scales, and gets the sum back in 16 bits, over its own network port.

    Assumes: links carry even shares; forwarding inside the expert nodes is hidden; head and host are spread over the
    layers.
    Source: own composition; times as in simulator.surface, links as DeepEP's between nodes.
    """
    attention = plan.attention_side
    experts = plan.expert_side
    costs = engine_costs(attention.engine)
    layers = plan.num_layers
    own = max(1, -(-num_tokens // plan.num_attention))
    attended = decode_breakdown_s(attention, operator_library(attention), costs, own, context_tokens)
    library = replace(operator_library(experts), expert_skew=plan.expert_skew)
    multiplied = decode_breakdown_s(experts, library, costs, num_tokens, context_tokens)
    skipped = (*_NOT_IN_LAYERS, "collectives")
    experts_s = sum(seconds for name, seconds in multiplied.items() if name not in skipped)
    send_s, return_s = (
        _exchange_s(plan, operation, num_tokens) for operation in ("moe_dispatch", "moe_combine")
    )
    return SplitDecode(
        num_micro_batches,
        num_tokens,
        sum(attended.values()) / layers,
        experts_s / layers,
        send_s,
        return_s,
        layers,
        plan.num_attention + plan.num_experts,
    )


def _exchange_s(plan: SplitPlan, operation: str, num_tokens: int) -> float:
    """Time to send a micro-batch's vectors from one side to the other in one layer [s]."""
    chips = (plan.model.accelerator, plan.expert_accelerator)
    rate = min(topology_of(chip, 2, ranks_per_node=1).inter_bytes_per_s for chip in chips)
    parameters = collective("network", operation, "deepep-normal").record.parameters
    nodes = -(-plan.num_experts // plan.expert_accelerator.node_size)
    layer = routed_layers(plan.model.model)[0][1]
    copies = distinct_holders(nodes, layer.per_token)
    width = FP8_SCALED_BYTES if operation == "moe_dispatch" else _COMBINE_BYTES
    busiest = num_tokens / min(plan.num_attention, plan.num_experts)
    num_bytes = busiest * copies * layer.hidden_size * width
    return parameters["base_s"] + parameters["level_s"] + num_bytes / (rate * parameters["efficiency"])


def best_split(
    plan: SplitPlan, context_tokens: int, tpot_s: float, num_micro_batches: int | None = None
) -> SplitDecode:
    """Return the split with the most tokens per second whose time per token keeps the limit and whose caches fit.

    Raises: InfeasibleError: the weights of a side or the caches do not fit, or even the smallest micro-batches take
        longer.
    Source: own search; larger micro-batches only take longer.
    """
    _check_fits(plan)
    numbers = (num_micro_batches,) if num_micro_batches else range(1, MOST_MICRO_BATCHES + 1)
    each = _most_sequences(plan.attention_side, context_tokens)
    if each < numbers[0]:
        raise InfeasibleError(
            f"the caches of {context_tokens:,} tokens do not fit {plan.model.accelerator.id}",
            why=f"{each} fit beside the weights, and each of {numbers[0]} micro-batches brings one or more",
            fix="a shorter --context" + (", or fewer --micro-batches" if each else ""),
        )
    most = each * plan.num_attention
    found = None
    shortest_s = float("inf")
    for number in numbers:
        low = 0
        high = most // number // plan.num_attention
        for _ in range(_BATCH_STEPS):
            if high - low <= 0:
                break
            middle = (low + high + 1) // 2
            tried = split_decode(plan, middle * plan.num_attention, number, context_tokens)
            shortest_s = min(shortest_s, tried.tpot_s)
            low, high = (middle, high) if tried.tpot_s <= tpot_s else (low, middle - 1)
        if low:
            tried = split_decode(plan, low * plan.num_attention, number, context_tokens)
            if found is None or tried.tokens_per_s > found.tokens_per_s:
                found = tried
    if found is None:
        raise InfeasibleError(
            f"no micro-batch keeps {tpot_s / MILLISECOND_S:g} ms per token on {plan.num_attention} and "
            f"{plan.num_experts} accelerators",
            why=f"the shortest that was tried takes {shortest_s / MILLISECOND_S:.3g} ms",
            fix="a longer --tpot, or more accelerators",
        )
    return found


def best_together(plan: SplitPlan, context_tokens: int, tpot_s: float) -> TogetherDecode | None:
    """Return the whole model on as many accelerators of the attention side's kind; None if no batch keeps the limit.

    Assumes: attention is data-parallel and experts lie over all accelerators, as far as their number divides.
    Source: own search, the same parts as `split_decode`.
    """
    number = plan.num_attention + plan.num_experts
    experts = routed_layers(plan.model.model)[0][1].num_experts
    ranks = max(n for n in range(1, number + 1) if experts % n == 0)
    whole = replace(plan.model, data_parallel=ranks, expert_parallel=ranks)
    costs = engine_costs(whole.engine)
    library = replace(operator_library(whole), expert_skew=plan.expert_skew)

    def time_s(each: int) -> float:
        return sum(decode_breakdown_s(whole, library, costs, each * ranks, context_tokens).values())

    low = 0
    high = _most_sequences(whole, context_tokens)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if time_s(middle) <= tpot_s else (low, middle - 1)
    if not low:
        return None
    seconds = time_s(low)
    return TogetherDecode(ranks, low * ranks, seconds, low / seconds)


def as_predicted(tokens_per_s: float, deployment: Deployment) -> Quantity:
    """Return a rate with the interval of kernels on related hardware: no run with parts apart was fitted.

    Source: `prediction_class`.
    """
    class_name = prediction_class(deployment.engine.id, transferred=True)
    return with_interval(tokens_per_s, "throughput", class_name, "assumed")


def _most_sequences(deployment: Deployment, context_tokens: int) -> int:
    """Number of sequences whose caches fit beside the weights on one accelerator."""
    room = _room(deployment)
    per_sequence = kv_bytes_per_token(deployment.model, deployment.kv_dtype).bytes_of(context_tokens)
    return max(0, int(room / per_sequence)) if per_sequence else 0


def _room(deployment: Deployment) -> float:
    return (deployment.accelerator.memory_bytes or 0.0) * _MEMORY_FRACTION - weight_bytes(deployment)


def _check_fits(plan: SplitPlan) -> None:
    """Refuse a side whose weights do not fit. Raises: InfeasibleError: they do not."""
    for side, name in ((plan.attention_side, "attention"), (plan.expert_side, "expert")):
        room = _room(side)
        if room > 0:
            continue
        larger = _least_expert_accelerators(plan) if name == "expert" else None
        raise InfeasibleError(
            f"the weights of the {name} side do not fit {side.accelerator.id}",
            why=f"they lack {-room / GB:.1f} GB on each accelerator",
            fix="an accelerator with more memory, or a smaller --precision"
            if larger is None
            else f"--expert-gpus {larger}",
        )


def _least_expert_accelerators(plan: SplitPlan) -> int | None:
    """Smallest number of accelerators on which the experts fit; None if one expert of each layer is too large."""
    experts = routed_layers(plan.model.model)[0][1].num_experts
    numbers = (number for number in range(1, experts + 1) if experts % number == 0)
    return next((n for n in numbers if _room(replace(plan, num_experts=n).expert_side) > 0), None)
