"""Two models compared: parameters, cache of a sequence by context, and the context from which one reads less."""

from collections.abc import Callable
from functools import partial
from typing import Final

from advisor.catalog import models
from advisor.catalog.schema import Model
from advisor.catalog.units import GB, GIGA, KILO, MB
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import MISSING, digits, show_in
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count
from advisor.simulator.roofline import decode_step_work, total_work
from advisor.simulator.serving.lengths import LONGEST_TOKENS

_CONTEXTS: Final = (1024, 8192, 65_536, 262_144)


def compare_models(first: str, second: str) -> Answer:
    """Return two models next to each other, all in 16 bits, and where their order changes with the context.

    Raises: UnknownNameError: no model is called so.
    """
    chosen = [models.get(name) for name in (first, second)]
    one, other = (each.record for each in chosen)
    caches = [kv_bytes_per_token(model) for model in (one, other)]
    held = _crossing(lambda tokens: caches[0].bytes_of(tokens) - caches[1].bytes_of(tokens))
    read = _crossing(lambda tokens: _read_bytes(one, tokens) - _read_bytes(other, tokens))
    rows: list[tuple[str, float, float]] = []

    def add(name: str, figure: Callable[[Model], float]) -> None:
        rows.append((name, figure(one), figure(other)))

    add("parameters, B", lambda model: parameter_count(model).total / GIGA)
    add("active per token, B", lambda model: parameter_count(model).active / GIGA)
    add("cache for each token, kB", lambda model: kv_bytes_per_token(model).full_bytes_per_token / KILO)
    add("state of a sequence, MB", lambda model: kv_bytes_per_token(model).state_bytes_per_sequence / MB)
    for tokens in _CONTEXTS:
        held_gb = partial(_cache_gb, tokens=tokens)
        add(f"cache at {tokens:,} tokens, GB", held_gb)
    for tokens in _CONTEXTS:
        read_gb = partial(_read_gb, tokens=tokens)
        add(f"read by a step at {tokens:,}, GB", read_gb)
    words = " ".join(
        (
            _sentence(one, other, held, "keeps less cache"),
            _sentence(one, other, read, "reads less for each token"),
        )
    )
    return Answer(
        result={
            "first": one.id,
            "second": other.id,
            "figures": [{"figure": name, "first": a, "second": b} for name, a, b in rows],
            "cache_crossover_tokens": held[0],
            "read_crossover_tokens": read[0],
        },
        inputs={"first": one.id, "second": other.id},
        blocks=(
            Paragraph(words, emphasis=True),
            Table(
                columns(f"figure | {one.id}> | {other.id}> | ratio>"),
                tuple(
                    (name, show_in(a, 1.0), show_in(b, 1.0), f"{digits(a / b)} x" if b else MISSING)
                    for name, a, b in rows
                ),
            ),
            Paragraph(
                "16 bits, one sequence; what a step reads are weights and the sequence's own cache or state."
            ),
        ),
        records="figures",
        notes=tuple(each.note for each in chosen if each.note),
    )


def _cache_gb(model: Model, tokens: int) -> float:
    return kv_bytes_per_token(model).bytes_of(tokens) / GB


def _read_gb(model: Model, tokens: int) -> float:
    return _read_bytes(model, tokens) / GB


def _read_bytes(model: Model, tokens: int) -> float:
    """Return what a decode step of one sequence reads and writes at memory [bytes]."""
    return total_work(decode_step_work(model, 1, tokens).values()).num_bytes


def _crossing(difference: Callable[[int], float]) -> tuple[int | None, bool]:
    """Return the context from which the order of two models is another than at one token, None if it stays, and
    whether the first model has less at long contexts.

    Assumes: the order changes once.
    """
    starts = difference(1) > 0
    ends = difference(LONGEST_TOKENS) > 0
    if starts == ends:
        return None, not ends
    low = 1
    high = LONGEST_TOKENS
    while high - low > 1:
        middle = (low + high) // 2
        if (difference(middle) > 0) == starts:
            low = middle
        else:
            high = middle
    return high, not ends


def _sentence(one: Model, other: Model, found: tuple[int | None, bool], what: str) -> str:
    """Return from which context on which model has less."""
    tokens, is_first = found
    less = one if is_first else other
    if tokens is None:
        return f"{less.id} {what} at every context."
    return f"{less.id} {what} from {tokens:,} tokens on."
