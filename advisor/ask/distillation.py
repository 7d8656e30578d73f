"""A question about distillation: the teacher's batch of outputs, and the student that is tuned on them."""

from dataclasses import replace
from typing import Final

from advisor.ask.measures import parse_count, parse_seconds
from advisor.ask.options import DEFAULT_ITEMS
from advisor.ask.work import WorkQuestion
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import HOUR_S
from advisor.decide.scenario import Traffic

_SHORTEST_SEQUENCE: Final = 4096
_MOST_READINGS: Final = 4.0
"""Readings of one text up to which it teaches nearly as much as new text (Muennighoff et al. 2023,
arXiv:2305.16264)."""


def teacher_of(asked: WorkQuestion) -> tuple[str, WorkQuestion]:
    """Return the teacher, and the question about its batch, which gets half of the deadline.

    Raises: AdvisorError: no teacher is named, or the deadline is malformed.
    """
    typed = asked.training
    if typed.teacher is None:
        raise AdvisorError(
            "no teacher is named", why="its answers are what the student learns from", fix="--teacher 70b"
        )
    if typed.deadline is None:
        return typed.teacher, asked
    half = parse_seconds(typed.deadline, "--deadline") / 2.0
    return typed.teacher, replace(asked, training=replace(typed, deadline=f"{half / HOUR_S:g}h"))


def readings_warning(asked: WorkQuestion, traffic: Traffic) -> str:
    """Return a warning where --tokens has the student read every output more often than helps; empty otherwise.

    `asked` is the question about the teacher's batch, `traffic` its lengths.
    """
    if asked.training.tokens is None:
        return ""
    items = parse_count(asked.item.items or DEFAULT_ITEMS, "--items")
    tokens = parse_count(asked.training.tokens, "--tokens")
    readings = tokens / (items * traffic.tokens_per_request)
    if readings <= _MOST_READINGS:
        return ""
    return (
        f"the student reads each of {items:,.0f} outputs {readings:,.0f} times, and more than {_MOST_READINGS:.0f} "
        f"readings teach little (arXiv:2305.16264): --items {tokens / traffic.tokens_per_request:.0f} reads each once"
    )


def student_of(asked: WorkQuestion, traffic: Traffic) -> WorkQuestion:
    """Return the question about the student: it reads every prompt with its output once, or as many tokens as given.

    `asked` is the question about the teacher's batch, `traffic` its lengths.
    """
    typed = asked.training
    read = traffic.tokens_per_request
    written = parse_count(asked.item.items or DEFAULT_ITEMS, "--items") * read
    longest = max(_SHORTEST_SEQUENCE, 1 << (round(read) - 1).bit_length())
    tuned = replace(typed, tokens=typed.tokens or f"{written:.0f}", sequence=typed.sequence or longest)
    return replace(asked, workload="finetune", training=tuned)
