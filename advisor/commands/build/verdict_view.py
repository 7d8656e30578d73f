"""A judged list as an answer: what is wrong with it, what it runs, and what else the money buys."""

from advisor.commands.build.records import build_record, check_record, question_inputs
from advisor.commands.build.view import (
    bill_table,
    checks_table,
    economics_words,
    headline,
    machine_blocks,
    performance_blocks,
    price_warnings,
    speed_warnings,
)
from advisor.render.answer import Answer, Block, Paragraph
from advisor.render.numbers import LEGEND, usd
from advisor.workstation.listing import Listing
from advisor.workstation.plan import Question
from advisor.workstation.verdict import Verdict

EXIT_BROKEN = 3
"""A list that breaks a hard rule cannot be built: nothing satisfies the request."""


def verdict_answer(verdict: Verdict, listing: Listing, question: Question, notes: tuple[str, ...]) -> Answer:
    """Return the answer about a list of parts, the broken rules first."""
    build = verdict.build
    blocks: list[Block] = [Paragraph(_headline(verdict), emphasis=True)]
    failed = [check for check in build.checks if not check.passed]
    if failed:
        kept = len(build.checks) - len(failed)
        blocks.append(
            checks_table(failed, f"What is wrong or can be better; {kept} of {len(build.checks)} rules kept")
        )
    blocks.append(bill_table(build, "The list"))
    blocks.append(Paragraph(_price_words(verdict)))
    if build.performance is not None:
        blocks += performance_blocks(build.performance, explain=True)
    if build.economics is not None:
        blocks.append(Paragraph(economics_words(build)))
    if listing.unjudged:
        blocks.append(Paragraph(f"Not judged, as no model is named: {', '.join(listing.unjudged)}."))
    if verdict.repaired is not None and verdict.broken:
        text = f"The same cards in a machine that works: {headline(verdict.repaired, question)}"
        blocks.append(Paragraph(text, emphasis=True))
        blocks.append(bill_table(verdict.repaired))
        if verdict.repaired.note:
            blocks.append(Paragraph(f"Note: {verdict.repaired.note}."))
    if verdict.better is not None:
        blocks.append(Paragraph(f"Better for the money: {headline(verdict.better, question)}", emphasis=True))
        blocks += machine_blocks(verdict.better, explain=False)
    elif verdict.why_no_better:
        blocks.append(Paragraph(f"No better machine for the money: {verdict.why_no_better}."))
    blocks.append(Paragraph(LEGEND))
    shown = [build, *([verdict.better] if verdict.better else [])]
    return Answer(
        result={
            "kind": "build_check",
            "verdict": "broken" if verdict.broken else "unknown" if verdict.build.unknown else "ok",
            "build": build_record(build),
            "checks": [check_record(check) for check in build.checks],
            "catalog_total_usd": verdict.catalog_total_usd,
            "not_judged": listing.unjudged,
            "unknown_parts": [
                {"where": error.what, "why": error.why, "hint": error.hint} for error in listing.unknown
            ],
            "repaired": None if verdict.repaired is None else build_record(verdict.repaired),
            "better": None if verdict.better is None else build_record(verdict.better),
        },
        inputs={"parts": [line.text for line in listing.lines], **question_inputs(question)},
        blocks=tuple(blocks),
        records="checks",
        warnings=(
            *price_warnings(shown, question.as_of),
            *(warning for each in shown for warning in speed_warnings(each)),
        ),
        notes=notes,
        exit_code=EXIT_BROKEN if verdict.broken else 0,
    )


def _headline(verdict: Verdict) -> str:
    broken = len({check.rule for check in verdict.broken})
    advice = sum(check.verdict == "advice" for check in verdict.build.checks)
    unknown = list(dict.fromkeys(check.rule for check in verdict.build.unknown))
    doubts = f", {len(verdict.build.unknown)} unknown ({', '.join(unknown)})" if unknown else ""
    things = f"{advice}{' more' if broken else ''} thing{'s' if advice != 1 else ''} to think about"
    if not broken and unknown:
        return f"Nothing is known to be wrong{doubts}; {things}"
    if not broken:
        return f"The list goes together; {things}"
    rules = ", ".join(dict.fromkeys(check.rule for check in verdict.broken))
    return f"The list does not go together: {broken} rule{'s' if broken > 1 else ''} broken ({rules}){doubts}, {things}"


def _price_words(verdict: Verdict) -> str:
    listed = verdict.build.total_usd
    catalog = verdict.catalog_total_usd
    if not catalog:
        return "No part of the list has a price, in the list or in the catalog."
    return f"Listed at {usd(listed)}; the same parts cost {usd(catalog)} where the catalog has their prices."
