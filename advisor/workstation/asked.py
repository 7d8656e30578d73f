"""Words of a list about its use: the model and the format that the machine shall run, and questions to answer."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from advisor.catalog import accelerators, models
from advisor.catalog.schema import Model
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.foreign_words import regex, whole
from advisor.workstation.hardware import Hardware
from advisor.workstation.listing import Listing
from advisor.workstation.mentions import mentions_in, model_names_in
from advisor.workstation.part_names import names_a_model
from advisor.workstation.performance import MachineLoad, best_run
from advisor.workstation.typed_line import number_in

_FORMATS: Final = {
    "q8": "q8_0",
    "q6": "q6_k",
    "q5": "q5_k_m",
    "q3": "q3_k_m",
    "q2": "q2_k",
    "8": "int8",
    "16": "bf16",
}
"""Format by its short name; four bits are those of a question without any."""
_ENOUGH: Final = whole("enough")
Asked = Literal["supply", "model", "lanes", "adapter", "slots", "bridge", "fit", "price", "circuit", "worth"]
USUAL_MODELS: Final = ("70b", "32b", "8b")
"""Models by which a list is judged that names none: the largest of them whose weights of four bits the cards hold."""
MODELS_OF_A_CHOICE: Final = ("70b", "32b", "14b", "8b")
"""Models by which machines are compared if a question names none, the largest first."""
SMALLER_MODELS: Final = ("gpt-oss-120b", *USUAL_MODELS)
"""Models that an answer names in place of one that does not fit, the largest first."""
_BYTES_PER_WEIGHT: Final = 0.6
"""Bytes of a weight of four bits with its scales."""


def models_in(text: str) -> tuple[str, ...]:
    """Return the language and image models that a text names, by name or by size; of those with as many weights the
    first, since people write a model's name and its size apart."""
    names: dict[float, str] = {}
    for name in (one for row in text.splitlines() for one in model_names_in(row)):
        num_weights = parameter_count(models.get(name).record).total
        if all(abs(num_weights - old) > _SAME_SIZE * old for old in names):
            names[num_weights] = name
    return tuple(names.values())


_SAME_SIZE: Final = 0.05
"""Largest difference of two numbers of weights that are one size, over the first: a 70B has 70.6 or 72.7 billion."""


def streams_in(text: str) -> int:
    """Return the number of people that a text says use one machine, each as a stream; 1 if it names none."""
    found = regex("question.team").search(text)
    return max(number_in(found["team"] or found["users"]), 1) if found is not None else 1


def larger_in(text: str) -> str:
    """Return the smallest usual model that is larger than one which a text wants to exceed (`beyond 14B models`); empty
    if it wants none."""
    for name in (one for row in text.splitlines() for one in model_names_in(row)):
        if regex("question.beyond").search(text[: text.index(name)]) is not None:
            return next_larger(parameter_count(models.get(name).record).total)
    return ""


def larger_than_held(listing: Listing, most_bytes: float) -> str:
    """Return the largest usual model whose weights the cards of a list do not hold and a memory does [bytes]; empty if
    there is none."""
    memory = memory_bytes(listing)
    sizes = ((name, weight_bytes(models.get(name).record)) for name in MODELS_OF_A_CHOICE)
    return next((name for name, size in sizes if 0.0 < memory < size <= most_bytes), "")


def next_larger(num_weights: float) -> str:
    """Return the smallest usual model with more weights than a number; empty if none has."""
    usual = ((parameter_count(models.get(one).record).total, one) for one in MODELS_OF_A_CHOICE)
    larger = (each for each in usual if each[0] > (1.0 + _SAME_SIZE) * num_weights)
    return min(larger, default=(0.0, ""))[1]


def format_in(text: str, listings: Sequence[Listing] = (), model: str = "") -> str | None:
    """Return the number format that a text names for a model; None if it names none, or one of four bits. Eight bits on
    a machine whose memory its GPU shares are those of llama.cpp, which runs there. Without a model the first format
    counts, whatever it is of."""
    formats = regex("question.format").finditer(text)
    found = next((one for one in formats if not model or _is_format_of(model, text, one)), None)
    if found is None:
        return None
    name = next(filter(None, found.groups())).lower()
    shares_memory = bool(listings) and all(
        one.system is not None and accelerators.by_id(one.system.accelerator).unified_memory
        for one in listings
    )
    if name in ("8", "int8") and shares_memory:
        name = "q8"
    return None if name == "q4" else _FORMATS.get(name, name)


def _is_format_of(model: str, text: str, found: re.Match[str]) -> bool:
    """Whether a format is that of a model: it stands directly ahead of its name, or behind it with no other between
    (`Llama 3.3 70B or Qwen3 32B at Q8` is one of Qwen3 alone); in a sentence that names no model, or next to a word for
    all, it is that of every model."""
    ends = [end.end() for end in regex("question.end").finditer(text)]
    start = max((end for end in ends if end <= found.start()), default=0)
    end = min((end for end in ends if end >= found.end()), default=len(text))
    named = []
    place = start
    for name in model_names_in(text[start:end]):
        place = text.index(name, place)
        named.append((place, name))
        place += len(name)
    ahead = regex("question.all_ahead").search(text, start, found.start()) is not None
    behind = regex("question.all_behind").match(text, found.end(), end) is not None
    if not named or ahead or behind:
        return True
    before = [name for place, name in named if place <= found.start()]
    following = [
        name
        for place, name in named
        if place >= found.end() and regex("question.format_ahead").fullmatch(text, found.end(), place)
    ]
    owner = (following or before[-1:] or [named[0][1]])[0]
    sizes = [parameter_count(models.get(one).record).total for one in (owner, model)]
    return abs(sizes[0] - sizes[1]) <= _SAME_SIZE * sizes[1]


def window_in(text: str) -> int:
    """Return the window that a text wants [tokens], 0 if it names none: `128K context` is 131,072."""
    found = regex("piece.window").search(text)
    return int(found[1].replace(",", "")) * (1024 if found[2] else 1) if found is not None else 0


def usual_model(listings: Sequence[Listing]) -> str:
    """Return the model by which lists that name none are judged: the largest usual one that the cards hold."""
    memory = [memory_bytes(one) for one in listings if one.system is None]
    if len(memory) < len(listings) or not all(memory):
        return USUAL_MODELS[0]
    able = (name for name in USUAL_MODELS if weight_bytes(models.get(name).record) <= max(memory))
    return next(able, USUAL_MODELS[-1])


def models_of_a_choice(
    hardware: Sequence[Hardware | None], load: MachineLoad
) -> dict[str, tuple[float, ...]]:
    """Return the rate of each machine with the usual models that the memory of one of them holds [tokens/s], 0 where a
    machine does not hold a model: first the largest that two of them hold, by which they are compared, then the others
    from the largest on."""
    found: dict[str, tuple[float, ...]] = {}
    for name in MODELS_OF_A_CHOICE:
        asked = replace(load, model=models.get(name).record, precision=None)
        runs = [best_run(one, asked) if one is not None and one.num else None for one in hardware]
        rates = tuple(
            run.output_tokens_per_s.value if run is not None and not run.on_cpu else 0.0 for run in runs
        )
        if any(rates):
            found[name] = rates
    shared = next((name for name, rates in found.items() if sum(map(bool, rates)) > 1), "")
    return {shared: found[shared], **found} if shared else found


def memory_bytes(listing: Listing) -> float:
    """Memory of the cards, or of the GPU of a complete machine [bytes]; 0 if neither is known."""
    if listing.system is not None:
        return listing.system.memory_bytes
    cards = listing.machine.cards
    return cards.memory_bytes if cards else 0.0


def weight_bytes(model: Model) -> float:
    """Size of the weights in four bits with their scales [bytes]."""
    return parameter_count(model).total * _BYTES_PER_WEIGHT


def _sentence_ahead(text: str) -> str:
    """Return the last sentence of a text, which ends with its row at the latest."""
    return text.rstrip(" .\n").rpartition("\n")[2].rpartition(".")[2]


def questions_in(text: str) -> tuple[Asked, ...]:
    """Return what the sentences of a text ask: whether the supply is enough, or why the machine switches off; whether
    the machine runs the model; what narrow links cost; whether the parts fit the case; whether a price is fair, a
    circuit carries the machine, and it is worth its money; which slots the cards take; what a bridge brings; and
    whether an adapter does for a card's plug."""
    sentences = [
        # `The supply has 900 W. Is that enough?` speaks of what stands before it.
        f"{_sentence_ahead(text[: found.start()])} {found.group()}"
        if regex("question.pronoun").match(found.group())
        else found.group()
        for found in regex("question.sentence").finditer(text)
    ]
    of_supply = [one for one in sentences if regex("question.of_supply").search(one) or _names_supply(one)]
    of_model = [one for one in sentences if model_names_in(one)]
    asked: list[Asked] = []
    # A number of watts alone may be that of a card: `Is 450 W too hot?`
    asks_of_supply = any(
        _ENOUGH.search(one) or regex("question.supply").search(one) or _names_supply(one) for one in of_supply
    )
    # A machine that switches off under load does so by its supply before anything else.
    if asks_of_supply or any(regex("question.restarts").search(one) for one in sentences):
        asked.append("supply")
    if any(
        regex("question.runs").search(one)
        or (one not in of_supply and (_ENOUGH.search(one) or not mentions_in(one)))
        for one in of_model
    ):
        asked.append("model")
    if any(regex("question.of_lanes").search(one) for one in sentences):
        asked.append("lanes")
    # A model that fits the memory is the question for a model.
    of_bridge = [one for one in sentences if regex("question.of_bridge").search(one)]
    if any(regex("question.of_fit").search(one) for one in sentences if one not in (*of_model, *of_bridge)):
        asked.append("fit")
    # Whether a machine takes parts is a question for room and for power.
    takes = any(
        regex("question.of_take").search(one) and regex("question.supply").search(one) is None
        for one in sentences
        if one not in of_model
    )
    asked += ["fit", "supply"] if takes else []
    asked += [
        name for name in _BY_WORDS if any(regex(f"question.of_{name}").search(one) for one in sentences)
    ]
    if of_bridge:
        asked.append("bridge")
    if any(regex("question.of_adapter").search(one) for one in sentences):
        asked.append("adapter")
    return tuple(dict.fromkeys(asked))


def _names_supply(sentence: str) -> bool:
    """Whether a question names a supply by its product beside cards: `Can I run two 5080s on a Corsair RM1000x?`."""
    named = mentions_in(sentence)
    return {"gpu", "psu"} <= {one.kind for one in named} and any(
        one.kind == "psu" and names_a_model(sentence[one.start : one.end]) for one in named
    )


_BY_WORDS: Final[tuple[Asked, ...]] = ("price", "circuit", "slots", "worth")
"""Questions that the words of their sentences tell alone."""
