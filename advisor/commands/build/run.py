"""Ask the planner, judge a list, and hand over the answer."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from advisor.ask.options import SharedOptions
from advisor.catalog import models
from advisor.catalog.dtypes import GGUF_STEPS, bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.files import MOST_TOML_BYTES, read_text
from advisor.catalog.part_prices import PriceBook, price_book
from advisor.commands.build.options import BuildConditions, BuildInput, CheckInput
from advisor.commands.build.question import question_of
from advisor.commands.build.view import plan_answer
from advisor.commands.build.what_if import with_what_if
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.render.numbers import usd
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.assembly import Assembly
from advisor.workstation.candidates import COUNTS
from advisor.workstation.hardware import Hardware, HardwareRun
from advisor.workstation.knee import speed_of
from advisor.workstation.performance import FOUR_BITS, OFFLOADING, MachineLoad, best_run
from advisor.workstation.plan import Build, PlanResult, Question
from advisor.workstation.planner import LEAST_FRONTIER, plan
from advisor.workstation.valuation import best_use, hardware_of_system

if TYPE_CHECKING:
    from advisor.workstation.listing import Listing
    from advisor.workstation.upgrades import Upgrades
    from advisor.workstation.verdict import Verdict

MOST_STREAMS: Final = 256
"""Largest number of streams for which a machine is judged."""
MOST_OTHERS: Final = 4
"""Largest number of further models by which a list is judged that names several."""
_LIST_FILES: Final = frozenset((".toml", ".json", ".txt", ".md", ".csv", ".tsv"))
"""Endings of the files that hold lists."""


def build(asked: BuildInput, shared: SharedOptions) -> Answer:
    """Return the machines that answer a question.

    Raises: AdvisorError and its kinds: something typed is wrong, or no machine satisfies it.
    """
    return _answer_of_plan(asked, shared)


def _answer_of_plan(asked: BuildInput, shared: SharedOptions, told: tuple[str, ...] = ()) -> Answer:
    """Return the machines that answer a question, with notes on how it was read.

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
    notes = (*told, *notes)
    if asked.have is not None:
        # Patterns of lists take a tenth of a second to compile, which a question without a list does not need.
        from advisor.workstation.listing import read_listing
        from advisor.workstation.upgrades import with_unnamed_rest

        listing = read_listing(asked.have, book)
        machine = with_unnamed_rest(listing) if asked.upgrade is not None else listing.machine
        question = replace(question, have=machine, systems=False)
        unread = tuple(f"not counted, as no record has it: {error.what}" for error in listing.unknown)
        notes = (*notes, *listing.notes, *unread, *present_words(question))
    # Of an upgrade, all machines of the frontier are compared, however few are shown.
    top = question.top if asked.upgrade is None else max(question.top, LEAST_FRONTIER)
    found = plan(replace(question, top=top), book)
    opening = ""
    remark = ""
    if asked.upgrade is not None:
        found, opening = _next_parts(found, question, book)
        remark = _idle_words(found, question)
    elif asked.have is not None:
        found, opening = _with_owned_parts(found, question, book)
    if asked.upgrade is None and asked.have is not None and not found.builds[0].total_usd:
        notes = (*notes, "no parts for the money make it faster than the parts of --have")
    answer = plan_answer(found, question, notes, explain=asked.explain, opening=opening, remark=remark)
    if asked.what_if:
        answer = with_what_if(answer, found.builds, question, asked.conditions.resale)
    return with_calibration(answer, question.load.calibration, question.limits.accelerators)


def _with_owned_parts(found: PlanResult, question: Question, book: PriceBook) -> tuple[PlanResult, str]:
    """Return the machines around the parts that the user has ahead of the first whole one, which uses none of them, and
    a sentence on that one."""
    boards = ((build, build.machine.board if build.machine is not None else None) for build in found.builds)
    whole = next((build for build, board in boards if board is not None and board.sold_with), None)
    if whole is None:
        return found, ""
    limits = replace(question.limits, whole_machines=False)
    told = f"{whole.name} for {usd(whole.total_usd)} is sold whole and uses no part of --have but cards and drives"
    try:
        own = plan(replace(question, limits=limits), book)
    except InfeasibleError as error:
        return found, f"{told}; {error.what} around your parts."
    shown = own.builds[: max(question.top - 1, 1)]
    return replace(own, builds=(*shown, whole)[: question.top]), f"{told}."


def _instead(
    listing: "Listing", question: Question, book: PriceBook, *, on_cards: bool
) -> "list[tuple[Verdict, Question]]":
    """Return the verdicts by the largest format of the model that a machine runs, with `on_cards` without its CPU, and
    by the largest usual model."""
    from advisor.workstation.asked import SMALLER_MODELS
    from advisor.workstation.verdict import judge_listing

    load = question.load
    bits = bytes_per_element(load.precision or FOUR_BITS[OFFLOADING])
    # Files of fewer bits keep weights that are published in four bits: they are no smaller.
    steps = GGUF_STEPS if bytes_per_element(load.model.weights) > bytes_per_element("q4_k_m") else ()
    smaller = (models.get(name).record for name in SMALLER_MODELS)
    size = parameter_count(load.model).total
    tries: tuple[list[MachineLoad], ...] = (
        [replace(load, precision=name) for name in steps if bytes_per_element(name) < bits],
        [replace(load, model=one, precision=None) for one in smaller if parameter_count(one).total < size],
    )
    asked = ((replace(question, load=one) for one in loads) for loads in tries)
    judged = (((judge_listing(listing, one, book, better=False), one) for one in each) for each in asked)
    runs = ((one for one in each if _runs(one[0], on_cards=on_cards)) for each in judged)
    return [one for one in (next(each, None) for each in runs) if one is not None]


def _runs(verdict: "Verdict", *, on_cards: bool) -> bool:
    run = verdict.build.performance
    return run is not None and not (on_cards and run.run.on_cpu)


def _usual_rates(
    listings: "Sequence[tuple[str, Listing]]", question: Question
) -> dict[str, tuple[float, ...]]:
    """Return the rate of each machine of a choice with the usual models [tokens/s]."""
    from advisor.workstation.asked import models_of_a_choice

    return models_of_a_choice([hardware_listed(one, question) for _, one in listings], question.load)


def hardware_listed(listing: "Listing", question: Question) -> Hardware | None:
    """Return the hardware of a list: that of its complete machine, or of its cards as they are used together."""
    if listing.system is not None:
        return hardware_of_system(listing.system)
    return best_use(listing.machine, question)[0]


def _num_able(question: Question) -> int | None:
    """Return how many cards of 24 GB hold a model, as the RTX 3090 is one; None if none of the usual numbers does."""
    return next(
        (num for num in COUNTS if best_run(Hardware("rtx-3090", num), question.load) is not None), None
    )


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


def _larger_goal(
    listing: "Listing", conditions: BuildConditions, shared: SharedOptions, book: PriceBook
) -> str:
    """Return the largest usual model that the cards of a list do not hold and that they hold with the next parts for
    which the list asks; empty if it asks for none, or they do not. Whoever asks for parts without a model wants more
    than the machine does."""
    from advisor.workstation.asked import larger_than_held
    from advisor.workstation.upgrades import USUAL_UPGRADE_USD, best_upgrades, most_bytes_for

    usd = listing.upgrade_usd
    if usd is None or listing.machine.cpu is None:
        return ""
    goal = larger_than_held(listing, most_bytes_for(listing.machine, usd or USUAL_UPGRADE_USD, book))
    if not goal:
        return ""
    question, _ = question_of(replace(conditions, model=goal), BuildInput(), shared)
    found = best_upgrades(listing, question, book, usd).builds
    runs = (build.performance.run for build in found if build.performance is not None)
    return goal if any(not run.on_cpu for run in runs) else ""


_TWICE: Final = 2.0
"""Speed over the present one that people notice, whose price an answer tells if the sum buys less. Own choice."""


def _next_parts(found: PlanResult, question: Question, book: PriceBook) -> tuple[PlanResult, str]:
    """Return the machines that a sum makes faster than the present one, and a sentence if it buys none that is twice as
    fast: what would be, and its price."""
    present = _present_run(question)
    if present is None or question.budget_usd is None:
        return replace(found, builds=found.builds[: question.top]), ""
    spent = question.budget_usd
    before = present.request_tokens_per_s
    from advisor.workstation.upgrades import LITTLE_GAIN, worthy_first

    able = _with_parts(found, question, LITTLE_GAIN * before)
    faster = tuple(worthy_first(able, question.have)[: question.top])
    if faster and max(map(speed_of, faster)) >= _TWICE * before:
        return replace(found, builds=faster), ""
    told = "" if faster else f"Nothing for {usd(spent)} makes it a quarter faster. "
    target = replace(question, budget_usd=None, target_tokens_per_s=_TWICE * before)
    try:
        dearer = [
            build for build in _with_parts(plan(target, book), question, 0.0) if build.total_usd > spent
        ]
    except InfeasibleError:
        dearer = []
    words = f"{told}No parts with a price make it twice as fast."
    if dearer:
        more = usd(dearer[0].total_usd - spent)
        words = f"{told}Twice as fast takes {usd(dearer[0].total_usd)}, {more} more than the sum: {dearer[0].name}."
    same = _with_parts(found, question, 0.0)[:1] or found.builds[:1]
    if not faster and same[0].total_usd:
        words += " What follows is your machine with the parts that its list does not name."
    return replace(found, builds=faster or same), words


def _idle_words(found: PlanResult, question: Question) -> str:
    """Return a sentence for each upgrade that leaves cards of the owner idle, or replaces another part."""
    from advisor.workstation.upgrades import left_words

    told = (
        (build, left_words(build, question.have, found.builds, question.setting)) for build in found.builds
    )
    return "\n".join(f"With {build.name} {words}." for build, words in told if words)


def _with_parts(found: PlanResult, question: Question, least_tokens_per_s: float) -> tuple[Build, ...]:
    """Return the machines of a plan that are faster than a rate, without whole ones in place of the present one."""
    from advisor.workstation.upgrades import keeps_machine

    fast = (build for build in found.builds if speed_of(build) > least_tokens_per_s)
    return tuple(build for build in fast if keeps_machine(build, question.have))


def _present_run(question: Question) -> HardwareRun | None:
    """Return the best run of the machine that the user has; None if its parts tell none."""
    if question.have is None:
        return None
    hardware, load, _ = best_use(question.have, question)
    return best_run(hardware, load) if hardware is not None else None


def _without_added(listing: "Listing") -> Assembly | None:
    """Return a machine without the cards that a question adds; None if it adds none, or to cards of several kinds."""
    cards = listing.machine.cards
    if cards is None or not listing.num_added or len(cards.accelerators) > 1:
        return None
    return replace(listing.machine, cards=replace(cards, cards=cards.cards[: -listing.num_added]))


def present_words(question: Question) -> tuple[str, ...]:
    """Return a note on the speed of the machine that the user has, if its parts tell it."""
    run = _present_run(question)
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
    from advisor.workstation.mentions import mentions_in, model_names_in

    return file.suffix.lower() not in _LIST_FILES and bool(mentions_in(text) or model_names_in(text))


def _question_in_words(asked: CheckInput, text: str) -> tuple[BuildInput, tuple[str, ...]] | None:
    """Return the question of a text that wants a machine and names no part of it, with notes on how it was read; None
    if it is a list. What is typed as an option counts first.

    Raises: AdvisorError: the text names a sum that cannot be taken as one of dollars.
    """
    from advisor.workstation.wanted_machine import QUIET_DB, wanted_machine

    wanted = wanted_machine(text)
    if wanted is None:
        return None
    typed = asked.conditions
    conditions = replace(
        typed,
        model=typed.model or wanted.model,
        max_noise=QUIET_DB if typed.max_noise is None and wanted.is_quiet else typed.max_noise,
        used=typed.used or wanted.is_used,
    )
    options = {
        "--model": conditions.model,
        "--budget": None if wanted.budget_usd is None else f"{wanted.budget_usd:.0f}",
        "--target-tokens-per-s": None if wanted.tokens_per_s is None else f"{wanted.tokens_per_s:g}",
        "--max-noise": None if conditions.max_noise is None else f"{conditions.max_noise:g}",
    }
    command = shlex.join(
        ["advisor", "build", *(word for pair in options.items() if pair[1] for word in map(str, pair))]
    )
    notes = [f"read as: {command}{' --used' if conditions.used else ''}"]
    if wanted.budget_usd is not None and wanted.currency != "USD":
        notes.append(
            f"{wanted.budget_usd:,.0f} {wanted.currency} counts as {usd(wanted.budget_usd)}, since prices there have a "
            "tax of about a fifth inside: write the sum in dollars if you know better"
        )
    question = BuildInput(
        budget=wanted.budget_usd, target_tokens_per_s=wanted.tokens_per_s, conditions=conditions
    )
    return question, tuple(notes)


def _with_words(
    conditions: BuildConditions,
    words: str,
    listings: "Sequence[tuple[str, Listing]]",
    shared: SharedOptions,
    book: PriceBook,
) -> tuple[BuildConditions, list[str], list[str]]:
    """Return the conditions of a list with what its words tell and no option does: people who share the machine, the
    model and its format; then further models that they name, and notes."""
    from advisor.workstation.asked import format_in, larger_in, models_in, streams_in, usual_model

    rest: list[str] = []
    said: list[str] = []
    streams = streams_in(words)
    if streams > 1 and conditions.concurrency == 1:
        conditions = replace(conditions, concurrency=min(streams, MOST_STREAMS))
        said.append(f"{streams} people are taken as as many streams at once: --streams sets another number")
    if conditions.model is not None:
        return conditions, rest, said
    larger = larger_in(words)
    named, *rest = ((larger,) if larger else models_in(words)) or ("",)
    model = named or _larger_goal(listings[0][1], conditions, shared, book)
    if model and not named:
        said.append(
            f"no model is named: the next parts are those for {model}, which the cards do not hold yet"
        )
    model = model or usual_model([listing for _, listing in listings])
    machines = [listing for _, listing in listings]
    asked = "" if larger else named
    precision = conditions.precision or (format_in(words, machines, asked) if named else None)
    return replace(conditions, model=model, precision=precision), rest, said


def check(asked: CheckInput, shared: SharedOptions) -> Answer:
    """Return the verdict on a list of parts; of a question what to buy that names no part, the answer of the planner.

    Raises: AdvisorError and its kinds: the list cannot be read, or names a part that is not known.
    """
    from advisor.commands.build.choice_view import choice_answer
    from advisor.commands.build.verdict_view import (
        does_not_run,
        is_mostly_on_cpu,
        verdict_answer,
    )
    from advisor.workstation.asked import format_in, models_in, questions_in, window_in
    from advisor.workstation.listing import read_listings
    from advisor.workstation.verdict import judge_listing

    conditions = asked.conditions
    file = asked.file
    texts = tuple(asked.part or ())
    pasted = ""
    if file is not None and is_list_text(file):
        pasted = str(file)
        file = None
    wanted = _question_in_words(asked, pasted) if pasted and not texts else None
    if wanted is not None:
        wish, told = wanted
        return _answer_of_plan(wish, shared, told)
    book = price_book(conditions.price_file, shared.as_of, used=conditions.used)
    if file is None and not texts and not pasted:
        raise AdvisorError(
            "there is no list to judge",
            fix="advisor build check MYBUILD.toml, or --part '2x RTX 5090 $4500' ...",
        )
    listings = read_listings(file, book, texts, pasted)
    words = "\n".join((pasted or ("" if file is None else read_text(file, MOST_TOML_BYTES)), *texts))
    conditions, rest, said = _with_words(conditions, words, listings, shared, book)
    question, notes = question_of(conditions, BuildInput(), shared)
    machines = [listing for _, listing in listings]
    others = [
        question_of(
            replace(
                conditions,
                model=one,
                precision=asked.conditions.precision or format_in(words, machines, one),
            ),
            BuildInput(),
            shared,
        )[0]
        for one in rest[:MOST_OTHERS]
    ]
    full = _with_window(question, window_in(words))
    is_choice = len(listings) > 1
    is_named = conditions.model in (asked.conditions.model, *models_in(words))
    usual = {} if is_named or not is_choice else _usual_rates(listings, question)
    if is_choice:  # their table compares decoding
        model = models.get(next(iter(usual))).record if usual else question.load.model
        question = replace(question, load=replace(question.load, model=model, counts_prompts=False))
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
            (*said, *notes, *listing.notes),
            _upgrades_of(listing, verdict, question, book),
            questions_in(words),
            [(judge_listing(listing, other, book, better=False), other) for other in others],
            _instead(listing, question, book, on_cards=slow)
            if ((slow := is_mostly_on_cpu(verdict)) or does_not_run(verdict, question)) and not is_choice
            else (),
            None if full is None else (judge_listing(listing, full, book, better=False), full),
            _present_run(replace(question, have=_without_added(listing))),
            _num_able(question) if is_mostly_on_cpu(verdict) else None,
        )
        for (_, listing), verdict in zip(listings, verdicts, strict=True)
    ]
    answer = choice_answer(listings, verdicts, answers, question, usual) if is_choice else answers[0]
    return with_calibration(answer, question.load.calibration)
