"""Ask the planner, judge a list, and hand over the answer."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import MOST_TOML_BYTES, read_text
from advisor.catalog.part_prices import PriceBook, price_book
from advisor.commands.build.options import BuildInput, CheckInput
from advisor.commands.build.question import question_of
from advisor.commands.build.view import plan_answer
from advisor.commands.build.what_if import with_what_if
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.workstation.knee import speed_of
from advisor.workstation.performance import best_run
from advisor.workstation.plan import Question
from advisor.workstation.planner import plan
from advisor.workstation.valuation import best_use

if TYPE_CHECKING:
    from advisor.workstation.listing import Listing
    from advisor.workstation.upgrades import Upgrades
    from advisor.workstation.verdict import Verdict

MOST_OTHERS: Final = 4
"""Largest number of further models by which a list is judged that names several."""
_LIST_FILES: Final = frozenset((".toml", ".json", ".txt", ".md", ".csv", ".tsv"))
"""Endings of the files that hold lists."""


def build(asked: BuildInput, shared: SharedOptions) -> Answer:
    """Return the machines that answer a question.

    Raises: AdvisorError and its kinds: something typed is wrong, or no machine satisfies it.
    """
    book = price_book(asked.conditions.price_file, shared.as_of, used=asked.conditions.used)
    if asked.upgrade is not None and (asked.have is None or asked.budget is not None):
        raise AdvisorError(
            "--upgrade needs --have, and takes the place of --budget",
            why="the sum buys parts for a machine that you have",
            fix="e.g. build --model 70b --have mybuild.txt --upgrade 1500",
        )
    if asked.upgrade is not None:
        asked = replace(asked, budget=asked.upgrade)
    question, notes = question_of(asked.conditions, asked, shared)
    if asked.have is not None:
        # Patterns of lists take a tenth of a second to compile, which a question without a list does not need.
        from advisor.workstation.listing import read_listing
        from advisor.workstation.upgrades import with_unnamed_rest

        listing = read_listing(asked.have, book)
        machine = with_unnamed_rest(listing) if asked.upgrade is not None else listing.machine
        question = replace(question, have=machine, systems=False)
        unread = tuple(f"not counted, as no record has it: {error.what}" for error in listing.unknown)
        notes = (*notes, *listing.notes, *unread, *present_words(listing, question))
    found = plan(question, book)
    if asked.have is not None and not found.builds[0].total_usd:
        notes = (*notes, "no parts for the money make it faster than the parts of --have")
    answer = plan_answer(found, question, notes, explain=asked.explain)
    if asked.what_if:
        answer = with_what_if(answer, found.builds, question, asked.conditions.resale)
    return with_calibration(answer, question.load.calibration, question.limits.accelerators)


def _with_window(question: Question, num_tokens: int) -> Question | None:
    """Return the question with prompts that fill a window with their answers; None if there is no room for both, or the
    model makes no text."""
    load = question.load
    if load.workload != "serve" or num_tokens <= load.output_tokens:
        return None
    return replace(question, load=replace(load, input_tokens=num_tokens - load.output_tokens))


def _upgrades_of(
    listing: "Listing", verdict: "Verdict", question: Question, book: PriceBook
) -> "Upgrades | None":
    """Return the next parts for the machine of a list that asks for them; None if it asks for none."""
    from advisor.workstation.upgrades import best_upgrades

    if listing.upgrade_usd is None or listing.machine.cpu is None:
        return None
    return best_upgrades(listing, question, book, listing.upgrade_usd, speed_of(verdict.build))


def present_words(listing: "Listing", question: Question) -> tuple[str, ...]:
    """Return a note on the speed of the machine that the user has, if its parts tell it."""
    hardware, load, _ = best_use(listing.machine, question)
    run = best_run(hardware, load) if hardware is not None else None
    if run is None:
        return (f"the parts of --have alone do not run {question.load.model.id}",)
    speed = run.output_tokens_per_s.value
    return (f"the parts of --have run {question.load.model.id} at {speed:.3g} tokens/s ({run.split})",)


def is_list_text(file: Path) -> bool:
    """Return whether the name of a file is a list of parts or a question that was pasted in its place: words that
    separators divide, or that name a part."""
    text = str(file)
    try:
        if " " not in text or file.exists():
            return False
    except OSError:  # longer than any name
        return True
    if any(sign in text for sign in ",+;?\n"):
        return True
    from advisor.workstation.mentions import mentions_in

    return file.suffix.lower() not in _LIST_FILES and bool(mentions_in(text))


def check(asked: CheckInput, shared: SharedOptions) -> Answer:
    """Return the verdict on a list of parts.

    Raises: AdvisorError and its kinds: the list cannot be read, or names a part that is not known.
    """
    from advisor.commands.build.verdict_view import choice_answer, verdict_answer
    from advisor.workstation.asked import format_in, models_in, questions_in, usual_model, window_in
    from advisor.workstation.listing import read_listings
    from advisor.workstation.verdict import judge_listing

    conditions = asked.conditions
    file = asked.file
    texts = tuple(asked.part or ())
    pasted = ""
    if file is not None and is_list_text(file):
        pasted = str(file)
        file = None
    book = price_book(conditions.price_file, shared.as_of, used=conditions.used)
    if file is None and not texts and not pasted:
        raise AdvisorError(
            "there is no list to judge",
            fix="advisor build check MYBUILD.toml, or --part '2x RTX 5090 $4500' ...",
        )
    listings = read_listings(file, book, texts, pasted)
    words = "\n".join((pasted or ("" if file is None else read_text(file, MOST_TOML_BYTES)), *texts))
    rest: list[str] = []
    if conditions.model is None:
        named, *rest = models_in(words) or ("",)
        model = named or usual_model([listing for _, listing in listings])
        precision = conditions.precision or (
            format_in(words, [one for _, one in listings]) if named else None
        )
        conditions = replace(conditions, model=model, precision=precision)
    question, notes = question_of(conditions, BuildInput(), shared)
    others = [
        question_of(replace(conditions, model=one), BuildInput(), shared)[0] for one in rest[:MOST_OTHERS]
    ]
    full = _with_window(question, window_in(words))
    is_choice = len(listings) > 1
    verdicts = [
        judge_listing(
            listing,
            question,
            book,
            better=asked.better and not is_choice and listing.upgrade_usd is None,
        )
        for _, listing in listings
    ]
    answers = [
        verdict_answer(
            verdict,
            listing,
            question,
            (*notes, *listing.notes),
            _upgrades_of(listing, verdict, question, book),
            questions_in(words),
            [(judge_listing(listing, other, book, better=False), other) for other in others],
            None if full is None else (judge_listing(listing, full, book, better=False), full),
        )
        for (_, listing), verdict in zip(listings, verdicts, strict=True)
    ]
    model = question.load.model.id
    answer = choice_answer(listings, verdicts, answers, model) if is_choice else answers[0]
    return with_calibration(answer, question.load.calibration)
