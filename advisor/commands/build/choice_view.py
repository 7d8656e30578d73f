"""Machines that a question names to choose between, as an answer: the one to take, a table, and the verdict on each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators, models
from advisor.catalog.units import GB, GIB
from advisor.commands.build.verdict_view import decode_rate, fit_words
from advisor.commands.build.view import bill_table, checks_table
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.numbers import LEGEND, TIME, show, usd
from advisor.workstation.asked import SMALLER_MODELS, memory_bytes, weight_bytes
from advisor.workstation.choice import SAME_SPEED, Preference, choose
from advisor.workstation.knee import speed_of, sure_run, sure_speed_of
from advisor.workstation.listing import Listing
from advisor.workstation.plan import Build, Question
from advisor.workstation.rules_fit import model_memory
from advisor.workstation.verdict import PLACES, Verdict, missing_places


def choice_answer(
    choices: Sequence[tuple[str, Listing]],
    verdicts: Sequence[Verdict],
    answers: Sequence[Answer],
    question: Question,
    usual: Mapping[str, Sequence[float]],
) -> Answer:
    """Return the answer about machines that a question names to choose between, the fastest first, with the verdict on
    each; `usual` holds the rate of each with usual models, if the question names none."""
    unread: list[set[object]] = [{error.part for error in listing.unknown} for _, listing in choices]
    strange = [parts - set.intersection(*unread) for parts in unread]
    # Of a machine with a part that no record has, and others have not, the rest tells no speed.
    verdicts = [
        replace(verdict, build=replace(verdict.build, performance=None)) if parts else verdict
        for verdict, parts in zip(verdicts, strange, strict=True)
    ]
    sure = [_sure_rate(verdict.build) for verdict in verdicts]
    order = sorted(range(len(verdicts)), key=lambda place: -sure[place])
    memories = [memory_bytes(listing) for _, listing in choices]
    has_owner = any(line.is_owned for _, listing in choices for line in listing.lines)
    others = list(usual.values())[1:]
    rows = []
    for place in order:
        name, listing = choices[place]
        verdict = verdicts[place]
        build = verdict.build
        speed = decode_rate(build)
        price = usd(build.total_usd) if build.total_usd else "yours" if _is_there(listing) else "no price"
        broken = ", ".join(dict.fromkeys(check.rule for check in verdict.broken))
        first = build.performance.ttft_s if build.performance is not None else None
        rows.append(
            (
                name,
                f"{memories[place] / GIB:.0f} GB" if memories[place] else "",
                _bandwidth_words(listing),
                f"{speed:.3g}{_surer_words(build)}"
                if speed
                else "not known"
                if strange[place]
                else _why_not(verdict),
                *(f"{each[place]:.3g}" if each[place] else "-" for each in others),
                "" if first is None else show(first.value, TIME),
                price,
                f"{build.power_w:.0f}" if build.power_w else "",
                broken,
                ", ".join((*([] if has_owner else _missing_kinds(listing)), *_names_without_price(build))),
            )
        )
    rates = [(choices[place][0], sure[place]) for place in order if not strange[place]]
    told = ((choices[place][0], fit_words(verdicts[place], question)) for place in order)
    fits = [f"{name}:{words}" for name, words in told if words]
    best = choose([verdict.build for verdict in verdicts])
    known = [place for place in order if not strange[place]]
    advice = ""
    if best is not None and len(known) > 1:
        advice = _advice_words(best, [name for name, _ in choices], verdicts, memories, known)
    unknown = [
        f"Not compared: {choices[place][0]}, as {', '.join(sorted(map(str, strange[place])))}"
        for place in order
        if strange[place]
    ]
    rated = _choice_words(rates, question.load.model.id) if rates else ""
    opening = filter(None, (advice, rated, *fits, *unknown))
    blocks: list[Block] = [
        Paragraph("\n".join(opening), emphasis=True),
        Table(
            columns(
                f"choice~ | memory> | GB/s> | {question.load.model.id} tokens/s> | "
                f"{''.join(f'{name} tokens/s> | ' for name in list(usual)[1:])}"
                "first token> | price> | W at the wall> | broken~ | not in the price~"
            ),
            tuple(rows),
        ),
    ]
    for place in order:
        name = choices[place][0]
        verdict = verdicts[place]
        failed = [check for check in verdict.build.checks if not check.passed and check.rule != "complete"]
        blocks.append(bill_table(verdict.build, name))
        blocks += [checks_table(failed, f"{name}: what is wrong or can be better")] if failed else []
    readings = dict.fromkeys(f"- {note}" for _, listing in choices for note in listing.notes)
    if readings:
        blocks.append(Paragraph("\n".join(("How the list was read:", *readings))))
    blocks.append(Paragraph(LEGEND))
    return Answer(
        result={
            "kind": "build_choice",
            "recommended": None if best is None else choices[best.place][0],
            "choices": [answers[place].result for place in order],
        },
        inputs={"choices": [name for name, _ in choices], **answers[0].inputs},
        blocks=tuple(blocks),
        warnings=tuple(dict.fromkeys(text for answer in answers for text in answer.warnings)),
        notes=tuple(dict.fromkeys(text for answer in answers for text in answer.notes)),
        exit_code=min(answer.exit_code for answer in answers),
    )


def _is_there(listing: Listing) -> bool:
    """Whether a list names what its writer has."""
    return bool(listing.lines) and all(line.is_owned for line in listing.lines)


def _bandwidth_words(listing: Listing) -> str:
    """Return the bandwidth of the memory of each kind of card, or of a complete machine [GB/s]."""
    cards = listing.machine.cards
    names = [] if cards is None else list(dict.fromkeys(cards.accelerators))
    names = [listing.system.accelerator] if listing.system is not None else names
    rates = (accelerators.by_id(name).bandwidth_bytes_per_s for name in names)
    return " + ".join(f"{rate / GB:,.0f}" for rate in rates if rate)


def _sure_rate(build: Build) -> float:
    """Output tokens per second of the surest run while a machine decodes; 0 if it does not run the model."""
    run = sure_run(build)
    return run.output_tokens_per_s.value if run is not None else 0.0


def _surer_words(build: Build) -> str:
    """Return the rate of a machine that does not rest on an assumed figure, by which it is compared; empty if its best
    one does not."""
    sure = _sure_rate(build)
    return "" if sure >= decode_rate(build) else f"? ({sure:.3g} surer)"


def _why_not(verdict: Verdict) -> str:
    """Return why a machine has no speed: the model is larger than its memory, or than its cards where nothing tells
    what may hold the rest."""
    is_open = any(check.rule == model_memory.id and check.is_unknown for check in verdict.build.checks)
    return "not on its cards" if is_open else "does not run it"


def _missing_kinds(listing: Listing) -> list[str]:
    """Return the kinds of parts that a list leaves out."""
    return [PLACES[place] for place in missing_places(listing)]


def _names_without_price(build: Build) -> tuple[str, ...]:
    """Return the names of the parts of a machine without a price."""
    return tuple(line.name for line in build.parts if line.unit_price_usd is None)


def _choice_words(rates: Sequence[tuple[str, float]], model: str) -> str:
    """Return the sentence that names the fastest choice and tells how fast each is."""
    (first, ahead), *others = rates
    if not ahead:
        return f"No choice runs {model}"
    if not others:
        return f"{first} runs {model} at {ahead:.3g} tokens/s"
    if others[-1][1] >= (1.0 - SAME_SPEED) * ahead:
        return f"Each runs {model} at about {ahead:.3g} tokens/s"
    words = [f"{name} at {rate:.3g}" if rate else f"{name} does not run it" for name, rate in others]
    behind = others[0][1]
    times = f": {ahead / behind:.1f} times as fast" if behind and len(others) == 1 else ""
    fastest = "" if len(others) == 1 else f"The fastest: {first}. "
    return f"{fastest}{first} runs {model} at {ahead:.3g} tokens/s, {', '.join(words)}{times}"


def _advice_words(
    best: Preference,
    names: Sequence[str],
    verdicts: Sequence[Verdict],
    memories: Sequence[float],
    known: Sequence[int],
) -> str:
    """Return the machine to take, with the reason against each other one whose parts are known."""
    build = verdicts[best.place].build
    others = [place for place in sorted(known) if place != best.place]
    reasons = [
        f"{names[place]} {_reason_words(best, place, build, verdicts[place].build)}"
        f"{_alone_words(memories[best.place], memories[place])}"
        for place in others
    ]
    doubt = "" if best.is_sound(best.place) else ", once it is mended"
    return f"Take {names[best.place]}{doubt}: {'; '.join(reasons)}."


def _reason_words(best: Preference, place: int, build: Build, other: Build) -> str:
    """Return why a machine is not the one to take: it does not run the model, its speed, its price, and a fault."""
    own = {check.rule for check in best.faults[best.place]}
    faults = [check for check in best.faults[place] if check.rule not in own]
    counts = [check for check in faults if check.verdict == "broken" or not best.is_sound(place)]
    if not speed_of(other):
        return "does not run the model on what is named"
    ratio = sure_speed_of(build) / sure_speed_of(other)
    is_alike = abs(ratio - 1.0) <= SAME_SPEED
    counts = counts or (faults if is_alike else [])
    fault = f", and {_FAILS[counts[0].verdict]} {counts[0].rule}: {counts[0].why}" if counts else ""
    faster = f"takes {ratio:.1f} times as long" if ratio > 1.0 else f"is {1.0 / ratio:.1f} times as fast"
    return f"{'is as fast' if is_alike else faster} {_money_words(build, other)}{fault}"


_FAILS: Final = {"broken": "breaks", "unknown": "leaves open", "advice": "does not keep"}
"""Verb for a failed check by its verdict."""


def _money_words(build: Build, other: Build) -> str:
    """Return how much more or less another machine costs."""
    if any(line.unit_price_usd is None for one in (build, other) for line in one.parts):
        return "at a price that is not known"
    saved = other.total_usd - build.total_usd
    return (
        f"for {usd(abs(saved))} {'more' if saved > 0 else 'less'}"
        if abs(saved) >= 1.0
        else "at the same price"
    )


def _alone_words(memory: float, other: float) -> str:
    """Return the largest usual model that the memory of another machine holds and that of the one to take does not;
    empty if there is none."""
    sizes = {name: _WITH_CACHE * weight_bytes(models.get(name).record) for name in SMALLER_MODELS}
    alone = [name for name, size in sizes.items() if memory < size <= other]
    return f", and alone holds {max(alone, key=sizes.__getitem__)} without its CPU" if alone else ""


_WITH_CACHE: Final = 1.1
"""Memory that a model takes with a cache of some thousand tokens, over that of its weights. Own assumption."""
