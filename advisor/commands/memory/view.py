"""Memory of a deployment as an answer: one row for each part, and the sequences that fit."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.units import GB, KILO
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import BINARY_SIZE, digits, percent, show
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import layers_of
from advisor.simulator.memory_account import MemoryAccount, ModelAccount

_MUCH: Final = 0.02
"""Empty part of a cache from which it is told."""


def memory_answer(
    deployment: Deployment,
    tokens: int,
    account: MemoryAccount,
    model: ModelAccount,
    fitting_degree: int | None,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return the parts of the memory, the verdict and the number of sequences that fit."""
    exchanged = _exchanged_bytes(deployment)
    return Answer(
        result={
            "fits": account.fits,
            "num_sequences_that_fit": account.num_fitting,
            "kv_capacity_tokens": account.capacity_tokens,
            "num_accelerators": deployment.accelerators_per_replica,
            "per_accelerator": {
                "total_bytes": account.total_bytes,
                "weight_bytes": account.weight_bytes,
                "vision_bytes": account.vision_bytes,
                "kv_cache_bytes": account.cache_bytes,
                "kv_padding_bytes": account.padding_bytes,
                "state_bytes": account.state_bytes,
                "activation_bytes": account.activation_bytes,
                "runtime_bytes": account.runtime_bytes,
                "reserve_bytes": account.reserve_bytes,
                "free_bytes": account.free_bytes,
            },
            "model": {
                "weight_bytes": model.weight_bytes,
                "sequence_bytes": model.sequence_bytes,
                "kv_bytes_per_token": model.cache_bytes_per_token,
            },
            "expert_exchange_bytes_per_token_and_layer": exchanged,
            "problem": account.problem or None,
            "tensor_parallel_that_fits": fitting_degree,
        },
        inputs=inputs,
        blocks=(
            Paragraph(_headline(deployment, tokens, account), emphasis=True),
            _parts(account),
            Paragraph(_whole(deployment, tokens, model)),
            *([Paragraph(_exchange_words(exchanged))] if exchanged else []),
            *([Paragraph(f"With --tp {fitting_degree} they fit.")] if fitting_degree else []),
        ),
        notes=notes,
    )


def _exchanged_bytes(deployment: Deployment) -> float | None:
    """Return what expert parallelism moves for one token and layer, sent to its experts and brought back in 16 bits
    [bytes]; None without it."""
    experts = next((layer.experts for layer in layers_of(deployment.model) if layer.experts), None)
    if experts is None or deployment.expert_parallel == 1:
        return None
    return 2.0 * experts.per_token * experts.hidden_size * bytes_per_element("bf16")


def _exchange_words(num_bytes: float) -> str:
    return (
        f"Expert parallelism moves {show(num_bytes, BINARY_SIZE)} for each token and layer with experts: dispatch and "
        "combine in 16 bits, if every chosen expert is on another accelerator."
    )


def _headline(deployment: Deployment, tokens: int, account: MemoryAccount) -> str:
    """Return the verdict in one sentence."""
    count = deployment.accelerators_per_replica
    where = f"{count} x {deployment.accelerator.id} under {deployment.engine.name}"
    what = (
        f"{deployment.model.id} ({deployment.weight_dtype} weights, {deployment.kv_dtype} cache) on {where}"
    )
    if account.problem:
        return f"{what} does not fit: {account.problem}"
    number = account.num_sequences
    asked = f"{_count(number)} of {tokens:,} tokens"
    if account.fits:
        return f"{what}: {asked} fit{'' if number > 1 else 's'}, {account.num_fitting:,} at most"
    if account.num_fitting:
        return f"{what}: {asked} do not fit at once, {account.num_fitting:,} do"
    held = f"the cache holds {account.capacity_tokens:,} tokens"
    return f"{what}: a sequence of {tokens:,} tokens does not fit, {held}"


def _count(number: int) -> str:
    return f"{number:,} sequence{'s' if number > 1 else ''}"


def _cache_words(account: MemoryAccount) -> str:
    """Return what the cache holds, and how much of it the engine's pages leave empty where that is much."""
    words = f"{_count(account.num_sequences)} at full length"
    empty = account.padding_bytes / account.cache_bytes if account.cache_bytes else 0.0
    return f"{words}; {100 * empty:.0f} % of its pages are empty" if empty >= _MUCH else words


def _parts(account: MemoryAccount) -> Table:
    """Return one row for each part of the memory of the fullest accelerator."""
    left = "free for more sequences" if account.free_bytes >= 0 else "missing"
    parts = (
        ("weights", account.weight_bytes, "vision tower included" if account.vision_bytes else ""),
        ("KV cache", account.cache_bytes, _cache_words(account)),
        ("recurrent state", account.state_bytes, "convolutions included"),
        ("activations", account.activation_bytes, "largest iteration"),
        ("context, graphs", account.runtime_bytes, "driver, communicators, captured graphs"),
        ("engine reserve", account.reserve_bytes, "not requested by the engine"),
        (left, abs(account.free_bytes), ""),
        ("memory", account.total_bytes, ""),
    )
    rows = tuple(
        (name, digits(size / GB), percent(size / account.total_bytes), meaning)
        for name, size, meaning in parts
        if size > 0
    )
    return Table(
        columns("part | GB> | of memory> | meaning~?"), rows, title="Memory of the fullest accelerator"
    )


def _whole(deployment: Deployment, tokens: int, model: ModelAccount) -> str:
    """Return the sizes of the whole model in one paragraph."""
    sequence = f"a sequence of {tokens:,} tokens {digits(model.sequence_bytes / GB)} GB"
    return (
        f"The whole model has {digits(model.weight_bytes / GB)} GB of weights, and {sequence}: "
        f"{digits(model.cache_bytes_per_token / KILO)} kB for each further token. GB are 10^9 bytes."
    )
