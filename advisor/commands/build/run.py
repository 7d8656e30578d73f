"""Ask the planner, judge a list, and hand over the answer."""

from dataclasses import replace
from typing import Final

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.part_prices import price_book
from advisor.commands.build.options import BuildInput, CheckInput
from advisor.commands.build.question import question_of
from advisor.commands.build.verdict_view import verdict_answer
from advisor.commands.build.view import plan_answer
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.workstation.listing import read_listing
from advisor.workstation.planner import plan
from advisor.workstation.verdict import judge_listing

DEFAULT_MODEL: Final = "70b"
"""Model that a list is tried with if none is named: the usual reason for two cards."""


def build(asked: BuildInput, shared: SharedOptions) -> Answer:
    """Return the machines that answer a question.

    Raises: AdvisorError and its kinds: something typed is wrong, or no machine satisfies it.
    """
    question, notes = question_of(asked.conditions, asked, shared)
    book = price_book(asked.conditions.price_file, shared.as_of, used=asked.conditions.used)
    answer = plan_answer(plan(question, book), question, notes, explain=asked.explain)
    return with_calibration(answer, question.load.calibration, question.limits.accelerators)


def check(asked: CheckInput, shared: SharedOptions) -> Answer:
    """Return the verdict on a list of parts.

    Raises: AdvisorError and its kinds: the list cannot be read, or names a part that is not known.
    """
    conditions = asked.conditions
    texts = tuple(asked.part or ())
    book = price_book(conditions.price_file, shared.as_of, used=conditions.used)
    if asked.file is None and not texts:
        raise AdvisorError(
            "there is no list to judge",
            fix="advisor build check MYBUILD.toml, or --part '2x RTX 5090 $4500' ...",
        )
    listing = read_listing(asked.file, book, texts)
    if conditions.model is None:
        conditions = replace(conditions, model=DEFAULT_MODEL)
    question, notes = question_of(conditions, BuildInput(), shared)
    verdict = judge_listing(listing, question, book, better=asked.better)
    answer = verdict_answer(verdict, listing, question, (*notes, *listing.notes))
    return with_calibration(answer, question.load.calibration)
