"""A question about distillation: the teacher's batch of outputs, and the student that is tuned on them."""

from dataclasses import replace
from typing import Final

from advisor.ask.measures import parse_count, parse_seconds
from advisor.ask.work import WorkQuestion
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import HOUR_S
from advisor.decide.scenario import Traffic

_SHORTEST_SEQUENCE: Final = 4096


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


def student_of(asked: WorkQuestion, traffic: Traffic) -> WorkQuestion:
    """Return the question about the student: it reads every prompt with its output once, or as many tokens as given.

    `asked` is the question about the teacher's batch, `traffic` its lengths.
    """
    typed = asked.training
    read = traffic.tokens_per_request
    written = parse_count(asked.item.items, "--items") * read
    longest = max(_SHORTEST_SEQUENCE, 1 << (round(read) - 1).bit_length())
    tuned = replace(typed, tokens=typed.tokens or f"{written:.0f}", sequence=typed.sequence or longest)
    return replace(asked, workload="finetune", training=tuned)
