"""Judgement of a user's parts list: rules, claims, prices, and what else the money buys."""

from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook
from advisor.workstation.assembly import Check
from advisor.workstation.candidates import all_candidates
from advisor.workstation.listing import Listing
from advisor.workstation.optimiser import Program
from advisor.workstation.plan import Build, Question
from advisor.workstation.planner import complete_question, machine_name, plan
from advisor.workstation.rents import RentMarket, rent_market
from advisor.workstation.rule_book import rules_for, worst_first
from advisor.workstation.valuation import build_from_lines, build_of

PRICE_TOLERANCE: Final = 0.25
"""Fraction below the catalog's price from which a stated price is doubtful."""
PLACES: Final = {
    "cards": "GPU",
    "cpu": "CPU",
    "board": "board",
    "memory": "memory",
    "supplies": "power supply",
    "case": "case",
    "cooler": "CPU cooler",
    "storage": "drive",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of a parts list."""

    build: Build
    """Machine as listed, at the list's prices; its checks include claims and prices."""
    catalog_total_usd: float
    """Price of the parts in the catalog [USD]; a part without one counts with the price of the list."""
    repaired: Build | None
    """Cheapest machine that works with as many of the same accelerators, whatever it costs; None if there is none or
    none was requested."""
    better: Build | None
    """Fastest machine for the listed money; None if it was not requested or there is none."""
    why_no_better: str = ""

    @property
    def broken(self) -> tuple[Check, ...]:
        """Failed checks of hard rules."""
        return self.build.broken


def judge_listing(listing: Listing, question: Question, book: PriceBook, *, better: bool) -> Verdict:
    """Judge a list by the rules, and find the fastest machine for the same money.

    Raises: AdvisorError: a format does not exist.
    """
    question = complete_question(question)
    market = rent_market(question)
    build = build_from_lines("your list", listing.machine, listing.bill, question, market)
    extra = [
        *unknown_checks(listing),
        *claim_checks(listing),
        *missing_checks(listing),
        *price_checks(listing),
    ]
    checks = sorted((*build.checks, *extra), key=worst_first)
    build = replace(build, checks=tuple(checks))
    total = sum(
        catalog if catalog is not None else line.usd
        for line, catalog in zip(listing.bill, listing.catalog_usd, strict=True)
    )
    if not better:
        return Verdict(build, total, None, None)
    repaired = repair(listing, question, book, market)
    try:
        found = plan(replace(question, budget_usd=build.total_usd, top=1, systems=False), book, market)
    except InfeasibleError as error:
        return Verdict(build, total, repaired, None, f"{error.what}: {error.why}")
    return Verdict(build, total, repaired, found.builds[0])


def repair(listing: Listing, question: Question, book: PriceBook, market: RentMarket) -> Build | None:
    """Return the cheapest machine that keeps every rule with as many of the list's accelerators; None if there is
    none."""
    cards = listing.machine.cards
    if cards is None or len(cards.accelerators) != 1:
        return None
    limits = replace(question.limits, accelerators=cards.accelerators, max_cards=max(cards.num, 1))
    same = replace(question, budget_usd=None, target_tokens_per_s=None, limits=limits)
    candidates = all_candidates(same.load, same.setting, book, limits)
    candidates["cards"] = [c for c in candidates["cards"] if c.choice.num == cards.num]
    solution = Program(candidates, rules_for(same.setting), same.setting).solve(maximise_speed=False)
    if solution is None:
        return None
    return build_of(machine_name(solution.machine), solution.machine, same, book, market, gap=solution.gap)


def unknown_checks(listing: Listing) -> list[Check]:
    """Return a check for each line whose part is in no record, or in several, with its place in the list."""
    known = len(listing.lines) - len(listing.unknown)
    num = len(listing.lines)
    return [
        Check(
            "part-known",
            "part that is known",
            known,
            num,
            "parts",
            False,
            "hard",
            f"{error.what}: {error.why}",
            error.hint or error.fix,
            is_unknown=True,
        )
        for error in listing.unknown
    ]


def claim_checks(listing: Listing) -> list[Check]:
    """Return checks of the list's claims about its CPU against the record."""
    cpu = listing.machine.cpu
    if cpu is None:
        return []
    series = cpu.series
    found = []
    channels = listing.claims.get("channels")
    if channels is not None:
        why = f"{channels} channels are claimed; {series.name} has {series.channels}"
        found.append(
            Check(
                "claim-channels",
                "memory channels as claimed",
                channels,
                series.channels,
                "channels",
                channels == series.channels,
                "hard",
                why,
                "a CPU that has them, or the price of one that has not",
            )
        )
    lanes = listing.claims.get("lanes")
    if lanes is not None:
        why = (
            f"{lanes} lanes are claimed; {series.slot_lanes} PCIe {series.pcie_generation}.0 lanes of the CPU reach "
            "slots, the rest is slower or the chipset's"
        )
        found.append(
            Check(
                "claim-lanes",
                "lanes as claimed",
                lanes,
                series.slot_lanes,
                "lanes",
                lanes <= series.slot_lanes,
                "advice",
                why,
                "plan with the lanes that reach slots",
            )
        )
    return found


def missing_checks(listing: Listing) -> list[Check]:
    """Return checks for parts without which nothing starts; a line that names no model counts as present."""
    listed = {line.category for line in listing.bill}
    categories = {"cards": "gpu", "memory": "ram", "supplies": "psu"}
    missing = [words for place, words in PLACES.items() if categories.get(place, place) not in listed]
    why = f"the list lacks {', '.join(missing)}" if missing else "every kind of part is listed"
    return [
        Check(
            "complete",
            "complete list",
            len(PLACES) - len(missing),
            len(PLACES),
            "kinds",
            not missing,
            "advice",
            why,
            "add what is missing",
        )
    ]


def price_checks(listing: Listing) -> list[Check]:
    """Return checks of stated prices against the catalog's."""
    found = []
    for line, catalog in zip(listing.bill, listing.catalog_usd, strict=True):
        if line.price_basis != "user" or catalog is None:
            continue
        stated = line.usd
        low = stated >= (1.0 - PRICE_TOLERANCE) * catalog
        if not low:
            why = f"{line.quantity} x {line.name}: ${stated:,.0f} is listed, the catalog has ${catalog:,.0f}"
            found.append(
                Check(
                    "price",
                    "price that can be had",
                    stated,
                    catalog,
                    "USD",
                    False,
                    "advice",
                    why,
                    "ask for a quote, or plan with the higher price",
                )
            )
    return found
