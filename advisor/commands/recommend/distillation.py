"""Distillation: a teacher writes answers as a batch, a student is tuned on them; both parts searched, one bill."""

from collections.abc import Sequence
from typing import Any, cast

from advisor.ask.distillation import readings_warning, student_of, teacher_of
from advisor.ask.options import SharedOptions
from advisor.ask.work import WorkQuestion
from advisor.catalog.units import DAY_S, duration_words
from advisor.commands.recommend.other_work import batch_of_requests
from advisor.commands.recommend.training_run import answer_typed_training
from advisor.decide.option import Option
from advisor.decide.training.result import TrainingOption
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import usd


def answer_distillation(asked: WorkQuestion, shared: SharedOptions) -> Answer:
    """Return the teacher's batch and the student's tuning, one after the other; each gets half of the deadline.

    The student reads every prompt with its answer once, or as often as --tokens says.

    Raises: AdvisorError and its kinds: no teacher is named, or one of the parts has no answer.
    Source: sequence-level distillation, arXiv:1606.07947; DeepSeek-R1 (arXiv:2501.12948), section 2.4.
    """
    name, asked_of_teacher = teacher_of(asked)
    teacher, traffic = batch_of_requests(name, asked_of_teacher, shared)
    student = answer_typed_training(student_of(asked_of_teacher, traffic), shared)
    return _together(teacher, student, asked.model or "", readings_warning(asked, traffic))


def _together(teacher: Answer, student: Answer, name: str, warning: str) -> Answer:
    """Return the answers of teacher and student as one, with the sum of their dollars and times."""
    first = cast(Sequence[Option], teacher.result["options"])[0]
    then = cast(Sequence[TrainingOption], student.result["options"])[0]
    writer, learner = (str(part.result["model"]) for part in (teacher, student))
    writes_usd = first.job_usd.value
    writes_days = first.batched.duration_s.value / DAY_S
    learns_days = then.performance.days.value
    dollars = writes_usd + then.usd.value
    days = writes_days + learns_days
    rows = (
        (
            "teacher writes",
            writer,
            f"{first.machine.num_accelerators} x {first.machine.accelerator}",
            duration_words(writes_days),
            usd(writes_usd),
        ),
        (
            "student learns",
            learner,
            f"{then.machine.num_accelerators} x {then.machine.accelerator}",
            duration_words(learns_days),
            usd(then.usd.value),
        ),
        ("together", "", "", duration_words(days), usd(dollars)),
    )
    headline = (
        f"{writer} into {learner}: {usd(dollars)} and {duration_words(days)}, of "
        f"which the teacher's answers {usd(writes_usd)}"
    )
    result: dict[str, Any] = {
        "kind": "distillation",
        "model": learner,
        "teacher": writer,
        "workload": "distill",
        "headline": headline,
        "usd": dollars,
        "duration_s": days * DAY_S,
        "parts": {"teacher": teacher.result, "student": student.result},
    }
    return Answer(
        result=result,
        inputs={"teacher": dict(teacher.inputs), "student": dict(student.inputs)},
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("part | model | on~ | takes> | dollars>"), rows, title=f"Distilling into {name}"),
            *teacher.blocks,
            *student.blocks,
        ),
        warnings=tuple(dict.fromkeys(filter(None, (warning, *teacher.warnings, *student.warnings)))),
        notes=tuple(dict.fromkeys((*teacher.notes, *student.notes))),
    )
