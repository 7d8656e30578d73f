"""Watched plans for people: one line on what to do, a row for each plan, and why its figures moved."""

from collections.abc import Iterator, Sequence
from typing import Final

from advisor.catalog.units import usd_words
from advisor.commands.recommend.watch import Finding, WatchedOption, WatchedPlan, exit_code_of
from advisor.render.answer import Answer, Block, Paragraph, Table, bullet_list, columns
from advisor.render.comparison_view import comparison_fields, comparison_words
from advisor.render.document import fields_of
from advisor.render.numbers import MISSING

_WORDS: Final[dict[Finding, str]] = {
    "beaten": "beaten",
    "price_rose": "its price rose",
    "costs_more": "it costs more",
    "gone": "gone",
    "unreadable": "cannot be read",
}


def watch_answer(plans: Sequence[WatchedPlan], inputs: dict[str, object], threshold: float) -> Answer:
    """Return the answer of `advisor watch`; exit code 7 if a plan has a finding."""
    found = [each for each in plans if each.findings]
    head = f"{len(plans) - len(found)} of {len(plans)} plans stand within {threshold:.0%}"
    blocks: list[Block] = [Paragraph(head, emphasis=True), _table(plans)]
    lines = [line for each in found for line in _advice(each)]
    lines += [line for each in plans if not each.findings for line in _reservation(each)]
    if lines:
        blocks.append(bullet_list("What to do", lines))
    blocks += [
        bullet_list(f"{each.file}: what moved the first option of the answer", comparison_words(each.since))
        for each in plans
        if each.since is not None
    ]
    return Answer(
        result={
            "kind": "watch",
            "num_standing": len(plans) - len(found),
            "plans": [_fields(each) for each in plans],
        },
        inputs=inputs,
        blocks=tuple(blocks),
        records="plans",
        exit_code=exit_code_of(plans),
    )


def _fields(watched: WatchedPlan) -> dict[str, object]:
    since = watched.since
    return {**fields_of(watched, "since"), "since": None if since is None else comparison_fields(since)}


def _table(plans: Sequence[WatchedPlan]) -> Table:
    rows = tuple(
        (
            str(each.file),
            ", ".join(_WORDS[finding] for finding in each.findings) or _standing_words(each),
            MISSING if each.taken is None else _option_words(each.taken),
            _percent(each.price_change_fraction),
            _percent(each.bill_change_fraction),
            _best_words(each),
        )
        for each in plans
    )
    return Table(columns("plan~ | verdict~ | taken~ | price> | bill> | best today~"), rows)


def _best_words(watched: WatchedPlan) -> str:
    if watched.best is None:
        return MISSING
    if watched.held is None:
        return _option_words(watched.best)
    if watched.saving_fraction is None:
        return "the same"
    if watched.saving_fraction <= 0.0:
        return f"{_option_words(watched.best)}, costs more"
    return f"{_option_words(watched.best)}, {_percent(-watched.saving_fraction)}"


def _option_words(option: WatchedOption) -> str:
    whose = f" from {option.provider}" if option.provider else " of your own"
    return f"{option.num_accelerators} x {option.accelerator}{whose}"


def _percent(fraction: float | None) -> str:
    if fraction is None:
        return MISSING
    return "unchanged" if abs(fraction) < 0.0005 else f"{100 * fraction:+.1f} %"


def _standing_words(watched: WatchedPlan) -> str:
    return "stands if confirmed" if watched.held is not None and watched.held.doubts else "stands"


def _reservation(watched: WatchedPlan) -> Iterator[str]:
    """Yield what today's answer takes where it costs more than the option that was taken, and what that means."""
    held = watched.held
    best = watched.best
    if held is None:
        return
    doubts = "; ".join(held.doubts)
    if best is not None and watched.saving_fraction is not None and watched.saving_fraction <= 0.0:
        role = "safe pick" if best.is_safe else "first option"
        more = _percent(best.bill_usd / held.bill_usd - 1.0)
        yield (
            f"{watched.file}: today's {role} is {_option_words(best)} for {usd_words(best.bill_usd)} ({more}); "
            f"{_option_words(held)} still costs {usd_words(held.bill_usd)}"
            + (f", if it can be had so: {doubts}; confirm it" if doubts else "")
        )
    elif doubts:
        yield f"{watched.file}: confirm {_option_words(held)}: {doubts}"


def _advice(watched: WatchedPlan) -> Iterator[str]:
    """Yield what a finding says to do."""
    for finding in watched.findings:
        if finding == "unreadable":
            yield f"{watched.file} cannot be read: {watched.reason}; {watched.fix}"
        elif finding == "gone":
            yield f"{watched.file}: {_gone_words(watched)}; ask again: advisor recommend"
        elif finding == "beaten" and watched.best is not None and watched.saving_fraction is not None:
            yield (
                f"{watched.file}: {_option_words(watched.best)} costs {100 * watched.saving_fraction:.0f} % less, "
                f"{usd_words(watched.best.bill_usd)} in place of {_held_bill(watched)}"
            )
        elif finding == "price_rose":
            rise = _percent(watched.price_change_fraction)
            yield f"{watched.file}: the price changed by {rise}, to {_held_bill(watched)} for all of it"
        elif finding == "costs_more":
            yield (
                f"{watched.file}: the bill changed by {_percent(watched.bill_change_fraction)} at the same price: "
                "data or models of this advisor changed; --since plan says what"
            )


def _gone_words(watched: WatchedPlan) -> str:
    taken = watched.taken
    name = _option_words(taken) if taken is not None else "the option"
    return f"{name} is gone: {watched.reason}" if watched.reason else f"{name} is gone"


def _held_bill(watched: WatchedPlan) -> str:
    return MISSING if watched.held is None else usd_words(watched.held.bill_usd)
