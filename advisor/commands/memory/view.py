"""Memory of a deployment as an answer: one row for each part, and the sequences that fit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.models import weights_in_words
from advisor.catalog.units import GB, GIGA, KILO
from advisor.commands.memory.links import CacheLink
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import BINARY_SIZE, TIME, digits, percent, show
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import kv_bytes_per_token, layers_of
from advisor.simulator.memory import expert_padding_bytes
from advisor.simulator.memory_account import MemoryAccount, ModelAccount
from advisor.simulator.replica_model import cache_block_tokens

_MUCH: Final = 0.02
"""Empty part of a cache from which it is told."""


@dataclass(frozen=True, slots=True)
class BlockPool:
    """Cache of a replica in blocks of equal size, for sequences of one length."""

    block_tokens: int
    num_blocks: int
    blocks_per_sequence: int
    used_tokens: int

    @classmethod
    def of(
        cls, account: MemoryAccount, deployment: Deployment, block_tokens: int | None, tokens: int
    ) -> Self | None:
        """Return the pool of an account; None where layers keep a window or a state, which no block of tokens holds."""
        kept = kv_bytes_per_token(deployment.model, deployment.kv_dtype)
        if kept.windowed or kept.state_bytes_per_sequence:
            return None
        block_tokens = block_tokens or cache_block_tokens(deployment)
        return cls(block_tokens, account.capacity_tokens // block_tokens, -(-tokens // block_tokens), tokens)

    @property
    def unused_fraction(self) -> float:
        """Fraction of a sequence's blocks that is empty on average while it grows to its length: half of the last."""
        return 0.5 * (self.block_tokens - 1) / (self.blocks_per_sequence * self.block_tokens)


def memory_answer(
    deployment: Deployment,
    tokens: int,
    account: MemoryAccount,
    model: ModelAccount,
    pool: BlockPool | None,
    links: Sequence[CacheLink],
    fitting: Mapping[str, float | int | str | None],
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Answer:
    """Return the parts of the memory, the verdict and the number of sequences that fit.

    `fitting` are the options with the values with which all fit, None or empty where no value is.
    """
    exchanged = _exchanged_bytes(deployment)
    ways = [f"{option} {value}" for option, value in fitting.items() if value]
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
                "kv_reading_bytes": account.reading_bytes,
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
                "num_parameters": model.num_parameters,
                "num_active_parameters": model.num_active_parameters,
            },
            "block_pool": asdict(pool) | {"unused_fraction": pool.unused_fraction} if pool else None,
            "cache_links": [
                {"link": link.name, "bytes_per_s": link.bytes_per_s, "transfer_s": transfer_s(link, model)}
                for link in links
            ],
            "expert_exchange_bytes_per_token_and_layer": exchanged,
            "problem": account.problem or None,
            "memory_fraction_that_fits": fitting["--gpu-memory-utilization"],
            "kv_precision_that_fits": fitting["--kv-precision"] or None,
            "tensor_parallel_that_fits": fitting["--tp"],
            "precision_that_fits": fitting["--precision"] or None,
        },
        inputs=inputs,
        blocks=(
            Paragraph(_headline(deployment, tokens, account), emphasis=True),
            _parts(account, deployment),
            Paragraph(_whole(deployment, tokens, model)),
            *([Paragraph(_pool_words(pool))] if pool and pool.num_blocks else []),
            *([_link_table(links, tokens, model)] if links else []),
            *([Paragraph(_exchange_words(exchanged))] if exchanged else []),
            *([Paragraph(f"With {' or '.join(ways)} they fit.")] if ways else []),
        ),
        notes=notes,
    )


def transfer_s(link: CacheLink, model: ModelAccount) -> float:
    """Time of one sequence's cache over a link [s]."""
    return model.sequence_bytes / link.bytes_per_s


def _pool_words(pool: BlockPool) -> str:
    return (
        f"The cache is a pool of {pool.num_blocks:,} blocks of {pool.block_tokens:,} tokens; a sequence takes "
        f"{pool.blocks_per_sequence:,}, of which {percent(pool.unused_fraction)} are empty on average."
    )


def _link_table(links: Sequence[CacheLink], tokens: int, model: ModelAccount) -> Table:
    rows = tuple(
        (link.name, digits(link.bytes_per_s / GB), show(transfer_s(link, model), TIME)) for link in links
    )
    title = f"Moving the cache of one sequence of {tokens:,} tokens"
    return Table(columns("link | GB/s> | time>"), rows, title=title)


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
    weights = weights_in_words(deployment.model, deployment.weight_dtype)
    what = f"{deployment.model.id} ({weights}, {deployment.kv_dtype} cache) on {where}"
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


def _cache_words(account: MemoryAccount, deployment: Deployment) -> str:
    """Return what the cache holds, and how much of it the engine's pages and pools leave empty where that is much."""
    words = f"{_count(account.num_sequences)} at full length"
    if any(layer.mixer is not None and layer.mixer.follows_encoder for layer in layers_of(deployment.model)):
        words += "; prompts as keys and values of cross-attention, outputs as the decoder's own"
    empty = account.padding_bytes / account.cache_bytes if account.cache_bytes else 0.0
    return f"{words}; {100 * empty:.0f} % of it stays empty" if empty >= _MUCH else words


def _parts(account: MemoryAccount, deployment: Deployment) -> Table:
    """Return one row for each part of the memory of the fullest accelerator."""
    runtime = "driver, communicators, captured graphs"
    if padding_bytes := expert_padding_bytes(deployment):
        runtime += f"; {digits(padding_bytes / GB)} GB of padding of experts"
    free = "free for more sequences" if account.fits or account.problem else "free, in another pool"
    left = free if account.free_bytes >= 0 else "missing"
    held = account.cache_bytes - account.reading_bytes
    parts = (
        ("weights", account.weight_bytes, "vision tower included" if account.vision_bytes else ""),
        ("KV cache", held, _cache_words(account, deployment)),
        ("prompt being read", account.reading_bytes, "an iteration's new tokens, beside each window"),
        ("recurrent state", account.state_bytes, "convolutions included"),
        ("activations", account.activation_bytes, "largest iteration"),
        ("context, graphs", account.runtime_bytes, runtime),
        ("engine reserve", account.reserve_bytes, "not requested by the engine"),
        (left, abs(account.free_bytes), "" if account.free_bytes >= 0 else "for all of these to fit"),
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
    count = f"{digits(model.num_parameters / GIGA)} billion parameters"
    if model.num_active_parameters < model.num_parameters:
        count += f", {digits(model.num_active_parameters / GIGA)} of them active,"
    towers = deployment.model.vision.parameters if deployment.model.vision else 0.0
    if towers:
        count += f" and {digits(towers / GIGA)} billion of its image and audio towers"
    windows = [f"{window:,}" for window, _ in kv_bytes_per_token(deployment.model).windowed]
    beyond = f" beyond windows of {' and '.join(windows)} tokens" if windows else ""
    return (
        f"The whole model has {count} in {digits(model.weight_bytes / GB)} GB of weights, and {sequence}: "
        f"{digits(model.cache_bytes_per_token / KILO)} kB for each further token{beyond}. GB are 10^9 bytes."
    )
