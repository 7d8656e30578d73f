"""Data of a training run: what a node reads and tokenises, and the wait of a step where that is too slow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from advisor.ask.measures import parse_bytes
from advisor.ask.together import OptionDependency, check_together
from advisor.catalog.units import MB
from advisor.decide.training.search import PlanFound
from advisor.render.numbers import SIZE, TIME, show

_TOKEN_BYTES: Final = 4.0
"""Bytes of a token that was tokenised before: an unsigned integer of 32 bits."""
_TEXT_BYTES: Final = 4.0
"""Bytes of text behind one token of English: 0.75 words of about five letters and a space (OpenAI, tokenizer page)."""
_TOKENIZER_BYTES_PER_S: Final = 50.0 * MB
"""Rate of a server's processors: less than 20 s for a gigabyte (huggingface/tokenizers, README)."""
_TOGETHER: Final = (
    OptionDependency(
        "--tokenizer", "--data", "--data text", why="token ids are read as they are, only text is tokenised"
    ),
)


@dataclass(frozen=True, slots=True)
class DataSupply:
    """Rates at which one node gets its data; None: as fast as it is taken."""

    kind: str
    storage_bytes_per_s: float | None
    tokenizer_bytes_per_s: float | None

    @property
    def token_bytes(self) -> float:
        """Bytes that are read for one token."""
        return _TOKEN_BYTES if self.kind == "tokens" else _TEXT_BYTES

    @property
    def bytes_per_s(self) -> float:
        """Rate of the slower of storage and tokeniser [bytes/s]; infinite if neither is stated."""
        rates = (self.storage_bytes_per_s, self.tokenizer_bytes_per_s)
        return min((rate for rate in rates if rate is not None), default=math.inf)

    @property
    def bottleneck(self) -> str:
        """The slower of the two, in words."""
        slow = self.tokenizer_bytes_per_s is not None and self.bytes_per_s == self.tokenizer_bytes_per_s
        return "tokenising" if slow else "storage"


def data_supply(values: Mapping[str, Any]) -> DataSupply | None:
    """Return the data of a run as stated; None if nothing was.

    Raises: AdvisorError: a rate is malformed, or a tokeniser is stated for token ids.
    """
    if not {"data", "storage", "tokenizer"} & set(values):
        return None
    check_together(values, _TOGETHER)
    kind = str(values.get("data", "tokens"))
    storage = _rate(values, "storage")
    tokenizer = _rate(values, "tokenizer") if kind == "text" else None
    if kind == "text" and tokenizer is None:
        tokenizer = _TOKENIZER_BYTES_PER_S
    return DataSupply(kind, storage, tokenizer)


def _rate(values: Mapping[str, Any], name: str) -> float | None:
    return parse_bytes(str(values[name]).removesuffix("/s"), f"--{name}") if name in values else None


def num_nodes(found: PlanFound) -> int:
    """Number of nodes that read data."""
    return max(1, math.ceil(found.plan.num_accelerators / found.cluster.node_size))


def needed_bytes_per_s(found: PlanFound, supply: DataSupply) -> float:
    """Rate at which a node takes data while no step waits for it [bytes/s]."""
    return found.job.real_tokens_per_step * supply.token_bytes / num_nodes(found) / found.step_s


def with_data(found: PlanFound, supply: DataSupply) -> PlanFound:
    """Return the plan whose step waits for its data.

    step = max(step, tokens of a node · bytes of a token / the slower of storage and tokeniser)

    Assumes: the next batch is read and tokenised during a step; nodes share the work evenly.
    """
    node_bytes = found.job.real_tokens_per_step * supply.token_bytes / num_nodes(found)
    waits_s = max(0.0, node_bytes / supply.bytes_per_s - found.step_s)
    if not waits_s:
        return found
    parts = {**found.breakdown_s, "data_loading": waits_s}
    return replace(found, step_s=found.step_s + waits_s, breakdown_s=parts)


def data_words(before: PlanFound, after: PlanFound, supply: DataSupply) -> str:
    """Return the data of a step in words."""
    what = "token ids" if supply.kind == "tokens" else "text"
    needed = f"{show(needed_bytes_per_s(before, supply), SIZE)}/s"
    text = f"A node takes {needed} of {what} if no step waits for it"
    if math.isinf(supply.bytes_per_s):
        return f"{text}."
    has = f"{show(supply.bytes_per_s, SIZE)}/s"
    waits_s = after.step_s - before.step_s
    if waits_s:
        return (
            f"{text}; {supply.bottleneck} gives {has}, so each step waits {show(waits_s, TIME)} for its data."
        )
    return f"{text}; {supply.bottleneck} gives {has}, which is enough."


def with_stated_data(found: PlanFound, values: Mapping[str, Any]) -> tuple[PlanFound, str]:
    """Return the plan whose step waits for the data that was stated, and the data in words; as it is if none was.

    Raises: AdvisorError: a rate is malformed, or a tokeniser is stated for token ids.
    """
    supply = data_supply(values)
    if supply is None:
        return found, ""
    waiting = with_data(found, supply)
    return waiting, data_words(found, waiting, supply)
