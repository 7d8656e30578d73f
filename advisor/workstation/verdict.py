"""Judgement of a user's parts list: rules, claims, prices, and what else the money buys."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import parts
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook
from advisor.catalog.schema.part import FIGURES_ASSUMED, Cpu, Psu
from advisor.catalog.units import GB, GIB
from advisor.simulator.quantity import Quantity
from advisor.workstation.asked import memory_bytes
from advisor.workstation.assembly import (
    SERVER,
    TYPICAL,
    Assembly,
    Cards,
    Check,
    Memory,
    Risers,
    Setting,
    Severity,
    Supplies,
    slot_widths,
)
from advisor.workstation.candidates import PartCandidate, all_candidates
from advisor.workstation.hardware import Hardware
from advisor.workstation.knee import speed_of, sure_speed_of
from advisor.workstation.listing import Listing
from advisor.workstation.optimiser import Program
from advisor.workstation.part_reader import PAIRED_SOCKETS
from advisor.workstation.performance import OFFLOADING, best_run, model_file_bytes, ram_needed_bytes
from advisor.workstation.plan import WITH_OTHERS, Build, Question, total_of
from advisor.workstation.planner import (
    cheapest_for,
    complete_question,
    machine_name,
    plan,
    raise_power,
    rules_of,
)
from advisor.workstation.rents import RentMarket, rent_market
from advisor.workstation.rule_book import worst_first
from advisor.workstation.rules import Finding, MatchRule, Rule, at_least, at_most, check_of
from advisor.workstation.rules_fit import (
    card_height,
    card_length,
    card_room,
    drive,
    kind_of_modules,
    memory_speed,
    model_memory,
    ram_loading,
    slots,
)
from advisor.workstation.rules_links import cards_on_switch, cpu_lanes, lanes_of, lanes_of_cards, switch_ports
from advisor.workstation.rules_power import (
    EXCURSION,
    cap_w,
    circuit,
    plugs_needed,
    psu_headroom,
    psu_plugs,
    psu_transient,
    room_heat,
    start_of_supplies,
    supplies_start,
    supply_words,
)
from advisor.workstation.system_names import is_of_a_laptop
from advisor.workstation.upgrades import smallest_card, with_unnamed_rest
from advisor.workstation.valuation import OWNED, build_from_lines, build_of, links_of, system_as_listed

PRICE_TOLERANCE: Final = 0.25
"""Fraction below the catalog's price from which a stated price is doubtful."""
LEAST_DOUBT_USD: Final = 50.0
"""Difference to the catalog's price up to which a lower price is no doubt [USD]: frames, leads and cables of one kind
differ by more than a fraction of their price. Own choice."""
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


LEAST_SYSTEM_BYTES: Final = 60 * GB
"""Drive space of an operating system with drivers, an engine and its libraries [bytes]. Own assumption."""
OF_SLOTS: Final = frozenset(("pcie-lanes", "cpu-lanes", "slots", "riser-lanes"))
"""Rules on the slots of a board, which do not concern cards on a switch board."""
STARTS_WITH: Final = frozenset(("cpu", "board", "memory", "supplies"))
"""Places without which a machine does not start."""
LANES_ON_UNKNOWN_BOARDS: Final = 8
"""Lanes of each card that the CPU of an unknown board must give: no desktop board divides 16 lanes among more than two
slots without special risers."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of a parts list."""

    build: Build
    """Machine as listed, at the list's prices; its checks include claims and prices."""
    catalog_total_usd: float
    """Price of the parts in the catalog [USD]; a part without one counts with its own price of the list."""
    repaired: Build | None
    """Parts of the list with the cheapest others that make every rule hold, those of the list at no price; None if
    nothing is broken, there is none, or none was requested."""
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
    question = _with_circuit(complete_question(question), listing)
    # A drive that holds system and model once is no fault of a list, whatever room planning would leave.
    least = ram_needed_bytes(question.load) + LEAST_SYSTEM_BYTES
    room = min(question.setting.storage_needed_bytes, least)
    as_listed = replace(question, setting=replace(question.setting, storage_needed_bytes=room))
    market = rent_market(question)
    build = build_from_lines("your list", listing.machine, listing.bill, as_listed, market)
    build = _with_rate_of_kit(build, listing.machine, as_listed, market)
    if listing.system is not None:
        build = system_as_listed(build, listing.system, listing.num_systems, question, market)
    extra = [
        *run_checks(build, listing, question),
        *unknown_checks(listing),
        *claim_checks(listing),
        *missing_checks(listing),
        *cpu_count_checks(listing),
        *bound_checks(listing, question.setting),
        *supply_checks(listing, question.setting),
        *price_checks(listing),
        *small_card_checks(build, question, book),
    ]
    bounds = {check.rule for check in extra}
    riser = listing.machine.risers.riser
    skipped = {model_memory.id} | (OF_SLOTS if riser is not None and riser.ports else set())
    skipped |= {ram_loading.id} if build.performance is None else set()
    # Cables of fewer lanes than the slots tell what reaches the cards.
    is_narrow = riser is not None and listing.machine.risers.num and riser.lanes < question.setting.min_lanes
    skipped |= {lanes_of_cards.id} if is_narrow else set()
    kept = [
        _of_neighbour(_without_width(check, listing, question.setting), listing.machine)
        for check in build.checks
        if not (check.is_unknown and check.rule in bounds)
        and check.rule not in skipped
        and not _fills_board(check, listing)
    ]
    checks = sorted((_as_of_a_list(check, question.setting) for check in (*kept, *extra)), key=worst_first)
    build = replace(build, checks=tuple(checks))
    total = sum(
        catalog if catalog is not None else 0.0 if line.source == WITH_OTHERS else line.usd
        for line, catalog in zip(listing.bill, listing.catalog_usd, strict=True)
    )
    if not better or not build.total_usd:
        return Verdict(build, total, None, None)
    repaired = repair(build, listing, question, book, market)
    if listing.is_running:
        return Verdict(build, total, repaired, None)
    try:
        found = plan(replace(question, budget_usd=build.total_usd, systems=False), book, market)
    except InfeasibleError as error:
        return Verdict(build, total, repaired, None, f"{error.what}: {error.why}")
    has_used = any(line.condition == "used" for line in build.parts)
    able = [one for one in found.builds if has_used or not one.is_used] or found.builds
    is_sure = build.performance is not None and build.performance.decode_tokens_per_s.basis != "assumed"
    fastest = max(able, key=sure_speed_of if is_sure else speed_of)
    gained = sure_speed_of(fastest) if is_sure else speed_of(fastest)
    if gained <= (_SPEED_OF_SOUND_PARTS if build.broken else 1.0) * speed_of(build):
        unpriced = sum(line.unit_price_usd is None for line in listing.bill)
        left_out = f", which leaves out {unpriced} of its lines without a price" if unpriced else ""
        why = f"no parts with a price are faster for the money of the list{left_out}"
        return Verdict(build, total, repaired, None, why)
    return Verdict(build, total, repaired, fastest)


def _with_rate_of_kit(build: Build, machine: Assembly, question: Question, market: RentMarket) -> Build:
    """Return a build whose CPU reads layers from modules that usually stay below the rating of their kit with the speed
    at that rating in the ranges of its speeds: of boards that train such modules to it no record tells."""
    run = build.performance
    memory = machine.memory
    cpu = machine.cpu
    if run is None or not run.run.on_cpu or memory is None or cpu is None:
        return build
    check = memory_speed.check(machine, question.setting)
    if check is None or check.passed:
        return build
    kind = memory.kit.ram_type
    limits = {**cpu.series.ram_full_mts, kind: memory.kit.speed_mts}
    rated = cpu.model_copy(update={"series": cpu.series.model_copy(update={"ram_full_mts": limits})})
    faster = build_from_lines(build.name, replace(machine, cpu=rated), build.parts, question, market)
    if faster.performance is None or not faster.performance.run.on_cpu:
        return build
    wide = replace(
        run,
        run=replace(
            run.run,
            output_tokens_per_s=_reaching(
                run.run.output_tokens_per_s, faster.performance.decode_tokens_per_s
            ),
        ),
        output_tokens_per_s=_reaching(run.output_tokens_per_s, faster.performance.output_tokens_per_s),
        rate_of_kit=faster.performance.decode_tokens_per_s.value,
    )
    return replace(build, performance=wide)


def _reaching(found: Quantity, faster: Quantity) -> Quantity:
    """Return a rate whose range ends where that of a faster one does."""
    return replace(found, high=max(found.high, faster.high))


def _without_unnamed(mended: Build, listing: Listing) -> Build:
    """Return a mended machine without the price of parts of kinds that the list does not name: whoever asks about some
    parts has the others, or has not chosen them."""
    unnamed = {_CATEGORY_OF.get(place, place) for place in missing_places(listing)}
    lines = tuple(
        replace(line, unit_price_usd=0.0, price_basis="user", source=OWNED)
        if line.category in unnamed
        else line
        for line in mended.parts
    )
    return replace(mended, parts=lines, total_usd=total_of(lines))


_CATEGORY_OF: Final = {"memory": "ram", "supplies": "psu", "cards": "gpu"}
"""Category of a bill by the place of a machine, where they differ."""
_OF_CARD_SIZE: Final = {
    "slots": slots,
    "card-length": card_length,
    "card-height": card_height,
    "card-room": card_room,
    "psu-plugs": psu_plugs,
}
"""Rules by id that read the width, the length and the plugs of cards."""


def _of_neighbour(check: Check, machine: Assembly) -> Check:
    """Return a check that fails by the figures of a neighbour, which stands for a part without a record, as unknown."""
    places = _OF_SIZE.get(check.rule, ())
    named = (getattr(machine, place) for place in places)
    part = next((one for one in named if one is not None and TYPICAL in one.flags), None)
    if part is None or check.passed or check.is_unknown:
        return check
    remedy = f"look up the figures of {part.name}, which no record has; {check.remedy}"
    return replace(check, is_unknown=True, remedy=remedy)


_OF_SIZE: Final = {
    "slots": ("case",),
    "card-length": ("case",),
    "board-fits": ("case",),
    "psu-fits": ("case",),
    "cooler-height": ("cooler", "case"),
    "cooler-power": ("cooler",),
    "cooler-socket": ("cooler",),
}
"""Places of the parts whose figures a rule reads and a neighbour may have otherwise, by rule."""


def _without_width(check: Check, listing: Listing, setting: Setting) -> Check:
    """Return a check that fails by the size of cards whose model the list does not name as unknown, if the smallest
    cards of these accelerators keep the rule."""
    cards = listing.machine.cards
    rule = _OF_CARD_SIZE.get(check.rule)
    if rule is None or check.passed or cards is None or not listing.has_unnamed_cards:
        return check
    smallest = replace(cards, cards=tuple(smallest_card(card.accelerator) for card in cards.cards))
    supplies = listing.machine.supplies
    if check.rule == psu_plugs.id and supplies is not None:
        few, many = (plugs_needed(one, supplies) for one in (smallest, cards))
        by_model = f"the list names no model of the card: {few} to {many} 8-pin plugs by model; "
        check = replace(check, why=f"{by_model if few < many else ''}{check.why}")
    if check.is_unknown:
        return check
    found = rule.check(replace(listing.machine, cards=smallest), setting)
    if found is None or not (found.passed or found.is_unknown):
        return check
    return replace(
        check, is_unknown=True, remedy=f"look up the model of the card: its size decides; {check.remedy}"
    )


_SPEED_OF_SOUND_PARTS: Final = 0.8
"""Fraction of the predicted speed of a list that breaks a rule from which a machine that breaks none is shown. Own
choice."""


def _as_of_a_list(check: Check, setting: Setting) -> Check:
    """Return a check as advice where the machine works all the same: cards with few lanes load slowly, and a circuit
    that the question leaves open may be another one."""
    if check.rule == "circuit" and setting.circuit.is_assumed and not check.passed:
        why = f"{check.why}; no place is stated, so this circuit is assumed"
        return replace(
            check, severity="advice", why=why, remedy=f"state yours (--circuit 230V/16A), or {check.remedy}"
        )
    works = check.rule == "pcie-lanes" and not check.is_unknown and check.actual >= 1
    return replace(check, severity="advice") if works else check


def _fills_board(check: Check, listing: Listing) -> bool:
    """Whether a check wants more modules than the board has slots."""
    board = listing.machine.board
    return check.rule == "memory-channels" and board is not None and check.actual >= board.ram_slots


def _with_circuit(question: Question, listing: Listing) -> Question:
    """Return the question with the circuit that the list states, if the question states none."""
    circuit = listing.circuit
    if circuit is None or not question.setting.circuit.is_assumed:
        return question
    room_w = max(question.setting.room_cooling_w, circuit.continuous_w)
    return replace(question, setting=replace(question.setting, circuit=circuit, room_cooling_w=room_w))


def repair(
    build: Build, listing: Listing, question: Question, book: PriceBook, market: RentMarket
) -> Build | None:
    """Return the parts of a list with the least that makes every rule hold: a power limit of the cards, else other
    parts in the place of those that break a rule, else the cheapest parts of all kinds. The cards keep
    `_NEARLY_FULL_SPEED` or more if any of these does that; None if nothing does."""
    cards = listing.machine.cards
    # Small parts that the remedy names mend these faults: nothing else changes for them.
    small = {check.rule for check in build.broken} & {supplies_start.id, drive.id}
    if (
        {check.rule for check in build.broken} <= small
        or cards is None
        or not cards.cards
        or len(cards.accelerators) != 1
    ):
        return None
    sound = replace(build, checks=tuple(check for check in build.checks if check.rule not in small))
    is_of_place = {check.rule for check in sound.broken} <= {circuit.id}
    held = _with_limits(sound, listing, question, book, market)
    others = replace(sound, checks=tuple(one for one in sound.checks if one.rule not in _CAPPED))
    limited = held if not others.broken else None
    least = _NEARLY_FULL_SPEED * speed_of(build)
    cards_held = _cards_of_slight_limit(held, least)
    if limited is not None and (cards_held is not None or is_of_place):
        return limited
    if is_of_place:
        return None  # another machine draws as much from the wall: the check names what helps
    have = with_unnamed_rest(listing)
    limits = replace(question.limits, accelerators=cards.accelerators, max_cards=cards.num)
    same = replace(question, budget_usd=None, target_tokens_per_s=None, limits=limits, have=have)
    if cards_held is not None:
        # The limit costs nothing and mends the rules on power; parts are bought for the other rules alone.
        mended_held = _under_limit(sound, listing, same, cards_held, book, market, least)
        if mended_held is not None:
            return mended_held
    candidates = _candidates_of_mend(same, cards, have, book)
    kept_rules = tuple(rule for rule in rules_of(same) if rule.id not in small)
    tries = (_as_little_as_helps(candidates, sound, have, kept_rules), (candidates, kept_rules))
    solution = None
    for number, (candidates, rules) in enumerate(tries):
        if number and limited is not None:
            return limited  # a machine of other parts throughout costs more than the speed that a limit takes
        # A supply that is bought carries the cards without a power limit, if any does.
        full = {**candidates, "cards": [c for c in candidates["cards"] if c.choice.power_fraction == 1.0]}
        programs = [Program(one, rules, same.setting) for one in (full, candidates) if one["cards"]]
        solutions = (cheapest_for(one, math.inf, speed) for one in programs for speed in (least, 0.0))
        solution = next(filter(None, solutions), None)
        if solution is not None:
            break
    if solution is None:
        return None
    caps = _caps_w(build, cards)
    points = [cap / cards.cards[0].power_w for cap in caps if cap]
    machine = raise_power(solution.machine, same, points)
    whole = build_of(machine_name(machine), machine, same, book, market, gap=solution.gap)
    mended = _without_unnamed(whole, listing)
    still_held = machine.cards is not None and machine.cards.power_fraction < 1.0
    if limited is not None and still_held and speed_of(limited) >= _NEARLY_FULL_SPEED * speed_of(mended):
        return limited
    return mended


def _cards_of_slight_limit(held: Build | None, least: float) -> Cards | None:
    """Return the cards of a machine under a power limit if the limit is slight and keeps the `least` speed [tokens/s];
    None if it does not, or there is no such machine."""
    cards = held.machine.cards if held is not None and held.machine is not None else None
    if held is None or cards is None or speed_of(held) < least:
        return None
    return cards if cards.power_fraction >= _LEAST_LIMIT_ALONE else None


def _under_limit(
    build: Build,
    listing: Listing,
    question: Question,
    cards: Cards,
    book: PriceBook,
    market: RentMarket,
    least: float,
) -> Build | None:
    """Return the machine of a list with its cards under a power limit, and with parts in the place of those that break
    other rules than those on power; None if a supply is among these parts, which carries the cards without a limit, or
    if none mend the list at the `least` speed [tokens/s]."""
    if question.have is None:
        return None
    have = replace(question.have, cards=cards)
    limits = replace(question.limits, power_points=(cards.power_fraction,))
    question = replace(question, limits=limits, have=have)
    checks = tuple(replace(one, passed=True) if one.rule in _CAPPED else one for one in build.checks)
    mended = replace(build, checks=checks)
    rules = tuple(rules_of(question))
    candidates = _candidates_of_mend(question, cards, have, book)
    broken = {check.rule for check in mended.broken}
    if any("supplies" in places for rule, places in _places_of(rules) if rule.id in broken):
        return None
    kept, judged = _as_little_as_helps(candidates, mended, have, rules)
    if not kept["cards"]:
        return None
    solution = cheapest_for(Program(kept, judged, question.setting), math.inf, least)
    if solution is None:
        return None
    machine = solution.machine
    whole = build_of(machine_name(machine), machine, question, book, market, gap=solution.gap)
    return _without_unnamed(whole, listing)


def _candidates_of_mend(
    same: Question, cards: Cards, have: Assembly, book: PriceBook
) -> dict[str, list[PartCandidate]]:
    """Return the parts among which a mend chooses: as many cards of the accelerator, supplies that its maker advises,
    and the own board, case and supply of a machine that is sold whole."""
    candidates = all_candidates(same.load, same.setting, book, same.limits, have=have)
    candidates["cards"] = [c for c in candidates["cards"] if c.choice.num == cards.num]
    advice = parts.advised_supply(cards.accelerators)
    least_w = 0.0 if advice is None else advice.watts
    candidates["supplies"] = [c for c in candidates["supplies"] if not c.usd or c.choice.power_w >= least_w]
    board = have.board
    if board is not None and SERVER in board.flags:
        # A machine that is sold whole stays whole: its supply and its case fit no other board, and it takes no other.
        for place in ("board", "case", "supplies"):
            own = [c for c in candidates[place] if c.choice == getattr(have, place)]
            candidates[place] = own or candidates[place]
    return candidates


_CAPPED: Final = {psu_headroom.id: 1.0, circuit.id: 1.0, psu_transient.id: EXCURSION}
"""Rules that a power limit of the cards mends, and how often the cards' power counts in each."""


def _caps_w(build: Build, cards: Cards) -> list[float]:
    """Return the power of each card under which the machine keeps each rule on power that it fails [W]; 0 where a
    driver accepts none that is so low."""
    loads = (check for check in build.checks if not check.passed and check.rule in _CAPPED)
    return [cap_w(load.actual, load.limit, cards, _CAPPED[load.rule]) for load in loads]


def _with_limits(
    build: Build, listing: Listing, question: Question, book: PriceBook, market: RentMarket
) -> Build | None:
    """Return the machine of a list with its cards held to the power under which it keeps every rule on power; None if
    it breaks none of them, or no driver accepts so low a limit."""
    cards = listing.machine.cards
    broken = [check for check in build.broken if check.rule in _CAPPED]
    if cards is None:
        return None
    caps = _caps_w(replace(build, checks=tuple(broken)), cards)
    if not caps or not all(caps):
        return None
    fraction = min(caps) / max(card.power_w for card in cards.cards)
    machine = replace(listing.machine, cards=replace(cards, power_fraction=fraction))
    owned = replace(question, budget_usd=None, target_tokens_per_s=None, have=listing.machine)
    return build_of(machine_name(machine), machine, owned, book, market)


def _as_little_as_helps(
    candidates: dict[str, list[PartCandidate]],
    build: Build,
    have: Assembly,
    planned: Sequence[Rule],
) -> tuple[dict[str, list[PartCandidate]], tuple[Rule, ...]]:
    """Return candidates that replace only parts of broken rules, of rules on sums those that give; and the rules on
    these, with those that the list keeps: what it leaves open about parts that stay is as open afterwards."""
    rules = _places_of(planned)
    broken = {check.rule for check in build.broken}
    touched = [places for rule, places in rules if rule.id in broken]
    free = set().union(*touched) - {"cards"}
    free_or_open = free | {"cards", "risers", "bridges"}
    kept = {
        place: found
        if place in free_or_open
        else [one for one in found if one.choice == getattr(have, place)] or found
        for place, found in candidates.items()
    }
    judged = broken | {check.rule for check in build.checks if check.passed}
    return kept, tuple(rule for rule, places in rules if rule.id in judged or free & places)


def _places_of(rules: Sequence[Rule]) -> list[tuple[Rule, set[str]]]:
    """Return rules with the places whose parts decide each: of rules on sums, those that give."""
    return [
        (rule, set(rule.between if isinstance(rule, MatchRule) else rule.gives or rule.needs))
        for rule in rules
    ]


_LEAST_LIMIT_ALONE: Final = 0.8
"""Power limit of cards from which it mends a list without another part, over rated power. Own choice: below it the
supply is the fault, not the cards."""
_NEARLY_FULL_SPEED: Final = 0.85
"""Fraction of the speed of the list, as if nothing were wrong, that the parts which mend it keep if any do. Own choice:
a power limit keeps as much and costs nothing."""


def run_checks(build: Build, listing: Listing, question: Question) -> list[Check]:
    """Return the check that the machine runs the model. The predicted run alone decides it, so that no sentence of an
    answer contradicts another."""
    load = question.load
    machine = listing.machine
    is_system = listing.system is not None
    runs = build.performance is not None
    cards = memory_bytes(listing) * max(listing.num_systems, 1)
    memory = machine.memory.capacity_bytes if machine.memory is not None and not is_system else 0.0
    is_full = ram_needed_bytes(load) > cards + memory
    where = ((cards, "for models" if is_system else "on the cards"), (memory, "of main memory"))
    room = " and ".join(f"{size / GB:.0f} GB {place}" for size, place in where if size)
    why = (
        f"it takes {model_file_bytes(load) / GB:.0f} GB; the machine has {room or 'no memory that is known'}"
    )
    remedy = "a smaller model, a smaller format, or more memory"
    is_open = not runs and not is_system and (machine.cards is None or machine.memory is None)
    is_open |= not runs and not is_system and not is_full and machine.cpu is None
    if is_open:
        why += "; what may hold the rest is not named"
        places = {"the cards": machine.cards, "the CPU": machine.cpu, "the memory": machine.memory}
        remedy = f"name {' and '.join(name for name, part in places.items() if part is None)}"
    elif load.workload != "serve":
        what = "QLoRA of it" if load.workload == "finetune" else "an image of it"
        why = f"{what} fits these cards in no way that is planned"
        remedy = "a smaller model or a larger card"
    elif not runs and not is_full:
        why = "no engine tried runs it in this format on these cards"
        remedy = "another --engine or --precision"
    found = Finding(ram_needed_bytes(load) / GB, (cards + memory) / GB, runs, why, remedy, is_open)
    return [check_of(model_memory.id, model_memory.title, "GB", found)]


LARGE_CARD: Final = "rtx-3090"
"""Card with which many small ones are compared: the cheapest with 24 GB that engines support well."""
MANY_CARDS: Final = 4
SMALL_CARD_BYTES: Final = 13 * GB
"""Memory below which a card counts as small [bytes]: less than half of what `LARGE_CARD` holds."""


def small_card_checks(build: Build, question: Question, book: PriceBook) -> list[Check]:
    """Return advice against many small cards, where fewer large ones hold the model and are faster; none else."""
    cards = build.machine.cards if build.machine is not None else None
    run = build.performance
    if cards is None or run is None or question.load.workload != "serve" or cards.num < MANY_CARDS:
        return []
    each = cards.memory_bytes / cards.num
    if each >= SMALL_CARD_BYTES:
        return []
    # Layers in turn need no fast links, so that the comparison holds on any board.
    load = replace(question.load, engine=OFFLOADING)
    runs = ((num, best_run(Hardware(LARGE_CARD, num), load)) for num in range(1, cards.num))
    num, large = next(((num, run) for num, run in runs if run is not None), (0, None))
    own = run.decode_tokens_per_s.value
    if large is None or large.output_tokens_per_s.value <= own:
        return []
    price = book.get(f"gpu/{LARGE_CARD}")
    cost = f" for about ${num * price.usd:,.0f} used" if price is not None else ""
    why = (
        f"{cards.num} cards of {each / GIB:.0f} GB take as many slots, leads and risers, at {own:.3g} tokens/s; "
        f"{num} x {LARGE_CARD} hold the model at {large.output_tokens_per_s.value:.3g} (layers in turn)"
    )
    remedy = f"sell them and buy {num} x {LARGE_CARD}{cost}"
    return [
        check_of(
            "small-cards", "many small cards", "cards", Finding(cards.num, num, False, why, remedy), "advice"
        )
    ]


def unknown_checks(listing: Listing) -> list[Check]:
    """Return the check that names the lines whose part is in no record, or in several; none if there are none."""
    known = len(listing.lines) - len(listing.unknown)
    if not listing.unknown:
        return []
    why = "; ".join(error.part for error in listing.unknown)
    remedy = "the full name of each, as near misses below; what no record holds is not judged"
    cards = listing.machine.cards
    kinds = {line.category for line in listing.lines}
    if listing.machine.case is None and "case" in kinds and cards is not None and cards.cards:
        longest = max(card.length_m for card in cards.cards)
        remedy += f"; look up whether the case takes cards of {longest * 1000:.0f} mm"
    found = Finding(known, len(listing.lines), False, why, remedy, True)
    return [check_of("part-known", "parts that are known", "parts", found)]


def claim_checks(listing: Listing) -> list[Check]:
    """Return checks of the list's claims: that several cards have one memory, and those about its CPU."""
    found = []
    cards = listing.machine.cards
    if (pooled_gb := listing.claims.get("pooled_gb")) is not None and cards is not None and cards.num > 1:
        why = f"{pooled_gb} GB are claimed to be one memory; {cards.num} cards have {cards.num}, and each holds a part"
        remedy = "plan with the memory of each card: engines divide the model, no link joins the memories"
        claim = Finding(1, cards.num, False, why, remedy)
        found.append(check_of("claim-memory", "one memory as claimed", "memories", claim, "advice"))
    cpu = listing.machine.cpu
    if cpu is None:
        return found
    series = cpu.series
    if (channels := listing.claims.get("channels")) is not None:
        why = f"{channels} channels are claimed; {series.name} has {series.channels}"
        remedy = "a CPU that has them, or the price of one that has not"
        claim = Finding(channels, series.channels, channels == series.channels, why, remedy)
        found.append(check_of("claim-channels", "memory channels as claimed", "channels", claim))
    if (lanes := listing.claims.get("lanes")) is not None:
        why = (
            f"{lanes} lanes are claimed; {series.slot_lanes} PCIe {series.pcie_generation}.0 lanes of the CPU reach "
            "slots, the rest is slower or the chipset's"
        )
        claim = at_most(lanes, series.slot_lanes, why, "plan with the lanes that reach slots")
        found.append(check_of("claim-lanes", "lanes as claimed", "lanes", claim, "advice"))
    return found


_TRAY: Final = re.compile(r"\b(?:tray|oem|wof|(?:without|no|w/o)\s+(?:a\s+)?cooler)\b", re.IGNORECASE)
"""Words in the line of a CPU that comes without the cooler of its retail box."""
_BOXED: Final = re.compile(r"\b(?:boxed|wraith|(?:box|stock)\s+cooler)\b", re.IGNORECASE)
MOST_BOXED_W: Final = 95.0
"""Power of a CPU up to which makers sell it in a box with a cooler [W]: AMD adds Wraith coolers to desktop CPUs of 65 W
TDP, which draw 88 W, and none to those above (AMD, Wraith coolers)."""


def missing_places(listing: Listing) -> list[str]:
    """Return the places of a machine that no line of a list fills; none of a complete machine."""
    if listing.system is not None or any(is_of_a_laptop(line.text) for line in listing.lines):
        return []
    listed = {line.category for line in listing.bill}
    categories = {"cards": "gpu", "memory": "ram", "supplies": "psu"}
    board = listing.machine.board
    if board is not None and SERVER in board.flags:
        listed |= {"case", "cooler", "psu"} | ({"cpu"} if listing.machine.cpu is not None else set())
    if _has_boxed_cooler(listing):
        listed.add("cooler")
    return [place for place in PLACES if categories.get(place, place) not in listed]


def _has_boxed_cooler(listing: Listing) -> bool:
    """Whether the CPU of a list comes with a cooler in its box: as the list says, or as its maker sells it."""
    cpu = listing.machine.cpu
    of_cpu = (line for line, part in zip(listing.lines, listing.bill, strict=True) if part.category == "cpu")
    if cpu is None or any(_TRAY.search(line.text) for line in of_cpu):
        return False
    is_called_boxed = any(_BOXED.search(line.text) for line in listing.lines)
    return cpu.has_boxed_cooler or (is_called_boxed and cpu.power_w <= MOST_BOXED_W)


def missing_checks(listing: Listing) -> list[Check]:
    """Return the check for parts without which nothing starts; a line that names no model counts as present.

    A list with half of the kinds or more is a machine, which does not start without a CPU, a board, memory or a supply;
    a shorter list is a selection of parts, and a machine that its owner uses has what the list leaves out.
    """
    if listing.system is not None:
        return []
    listed = {line.category for line in listing.bill}
    missing = missing_places(listing)
    is_machine = len(PLACES) - len(missing) >= len(PLACES) // 2
    # A line of an unknown kind may be the part that seems to be missing.
    is_printed = any(line.is_printed for line in listing.lines)
    is_unknown = bool(missing) and (is_printed or "unknown" in listed)
    is_whole = is_machine and not listing.is_running
    severity: Severity = "hard" if is_whole and STARTS_WITH & set(missing) else "advice"
    names = ", ".join(PLACES[place] for place in missing)
    why = f"the list lacks {names}" if missing else "every kind of part is listed"
    if "cooler" not in listed and _has_boxed_cooler(listing):
        why += "; the CPU's retail box holds its cooler, a tray version needs one"
    remedy = "write what the unknown lines are" if is_unknown else "add what is missing"
    remedy = "add what no program sees" if is_printed else remedy
    found = Finding(len(PLACES) - len(missing), len(PLACES), not missing, why, remedy, is_unknown)
    return [check_of("complete", "complete list", "kinds", found, severity)]


def cpu_count_checks(listing: Listing) -> list[Check]:
    """Return the check of the number of CPUs: each takes a socket, and boards of the catalog have one."""
    num = listing.num_cpus
    if num < 2:
        return []
    machine = listing.machine
    board = machine.board
    limit = board.sockets if board is not None else 1
    if num <= limit:
        return []
    is_assumed = board is None or bool({FIGURES_ASSUMED, TYPICAL} & set(board.flags))
    is_unknown = is_assumed and (machine.cpu is None or machine.cpu.series.socket in PAIRED_SOCKETS)
    name = board.name if board is not None else machine.cpu.series.socket if machine.cpu else "the board"
    sockets = "one socket" if limit == 1 else f"{limit} sockets"
    why = (
        f"{num} CPUs on a board that no record holds"
        if is_unknown
        else f"{num} CPUs are listed, {name} has {sockets}"
    )
    found = Finding(num, limit, False, why, "fewer CPUs, or a server board with as many sockets", is_unknown)
    return [check_of("cpu-count", "CPUs and sockets", "CPUs", found)]


def bound_checks(listing: Listing, setting: Setting) -> list[Check]:
    """Return checks that hold whatever the unknown board is: memory of the CPU, lanes of the CPU and of the worst known
    board, openings of the case.

    Assumes: no PCIe switch; a board with one is a record of its own.
    """
    machine = listing.machine
    found = []
    if machine.board is None and machine.memory is not None and machine.cpu is not None:
        found.append(_memory_of_cpu(machine.memory, machine.cpu))
    if machine.board is None and machine.supplies is not None:
        start = start_of_supplies(machine.supplies, 1, "the board")
        found += (
            [check_of(supplies_start.id, supplies_start.title, supplies_start.unit, start)] if start else []
        )
    cards = machine.cards
    if machine.risers.riser is not None and machine.risers.riser.ports:
        on_switch = cards_on_switch(cards, machine.risers, 0) if cards is not None and cards.cards else None
        if machine.board is None and on_switch is not None:
            found.append(check_of(switch_ports.id, switch_ports.title, switch_ports.unit, on_switch))
        return found
    if cards is None or not cards.cards or (machine.board is not None and lanes_of(cards, machine.board)):
        return found
    if machine.board is None or not machine.board.slots_known:
        found.append(_lanes_of_worst(machine, cards, setting))
    if machine.cpu is not None:
        given = machine.cpu.series.all_slot_lanes
        riser = machine.risers.riser
        each = max(setting.min_lanes, LANES_ON_UNKNOWN_BOARDS)
        each = min(each, riser.lanes) if riser is not None and machine.risers.num else each
        wanted = each * cards.num
        why = (
            f"{cards.num} cards at x{each} want {wanted} lanes on any board; {machine.cpu.name} gives "
            f"{given} to slots, so some links have fewer lanes or those of the chipset"
        )
        remedy = "for tensor parallelism a CPU with more lanes (HEDT, server); nothing for layers in turn"
        lanes = at_most(wanted, given, why, remedy)
        if not lanes.passed:
            found.append(check_of("cpu-lanes", cpu_lanes.title, "lanes", lanes, "advice"))
    if machine.case is not None and machine.board is None:
        width = sum(slot_widths(cards))
        room = machine.case.expansion_slots
        why = f"{cards.num} cards cover {width} slots on any board; {machine.case.name} has {room}"
        too_wide = at_most(width, room, why, "narrower cards, or an open frame with risers")
        wide = _without_width(check_of(slots.id, slots.title, slots.unit, too_wide), listing, setting)
        found += [wide] if not wide.passed else []
    return found


def supply_checks(listing: Listing, setting: Setting) -> list[Check]:
    """Return checks of the power of a machine whose supply is in no record: the rating that it needs, and what circuit
    and room make of it with the smallest supply of a record that suffices."""
    machine = listing.machine
    has_load = machine.cards is not None and bool(machine.cards.cards) and machine.cpu is not None
    if machine.supplies is not None or not has_load:
        return []
    able = [
        supplies
        for supplies in (Supplies((psu,)) for psu in parts.planner_parts(Psu))
        if (check := psu_headroom.check(replace(machine, supplies=supplies), setting)) and check.passed
    ]
    smallest = min(able, key=lambda supplies: supplies.power_w, default=None)
    if smallest is None:
        return []
    assumed = replace(machine, supplies=smallest)
    found = [
        check for rule in (circuit, room_heat) if (check := rule.check(assumed, setting)) and not check.passed
    ]
    needed = psu_headroom.check(assumed, setting)
    is_printed = any(line.is_printed for line in listing.lines)  # no program sees a supply
    if needed is not None and (is_printed or any(line.category == "psu" for line in listing.bill)):
        why = f"{needed.actual:.0f} W under load; no record holds the supply"
        remedy = f"name it: it takes {supply_words(needed.actual, machine)}"
        found.append(replace(needed, passed=False, is_unknown=True, why=why, remedy=remedy))
    return found


def _lanes_of_worst(machine: Assembly, cards: Cards, setting: Setting) -> Check:
    """Return the check of the lanes that each card has on the worst known board of the socket; where those are too few,
    the lanes of the board are unknown."""
    _, lanes = links_of(replace(machine, risers=Risers()), cards)
    name = machine.board.name if machine.board is not None else "the board"
    why = f"no source says how {name} wires {cards.num} cards; the worst known of its socket gives each x{lanes}"
    found = at_least(lanes, setting.min_lanes, why, "a board whose lanes are known, or look them up")
    found = found._replace(is_unknown=not found.passed)
    return check_of(lanes_of_cards.id, lanes_of_cards.title, lanes_of_cards.unit, found)


def _memory_of_cpu(memory: Memory, cpu: Cpu) -> Check:
    """Return the check of the kind of module against those that the CPU's memory controller runs."""
    series = cpu.series
    both = series.unbuffered_too
    found = kind_of_modules(f"{series.name} CPUs take", memory.kit, series.ram_types, series.registered, both)
    return check_of("memory-kind", "memory and CPU", "", found)


def _catalog_of_all(listing: Listing, place: int) -> float | None:
    """Price of the part of a line in the catalog, with those of the parts behind it that its price includes [USD]; None
    if one of them has none."""
    behind = itertools.takewhile(lambda n: listing.lines[n].is_included, range(place + 1, len(listing.lines)))
    prices = [listing.catalog_usd[n] for n in (place, *behind)]
    return None if None in prices else sum(filter(None, prices))


def price_checks(listing: Listing) -> list[Check]:
    """Return checks of stated prices against the catalog's."""
    found = []
    for place, (line, typed) in enumerate(zip(listing.bill, listing.lines, strict=True)):
        catalog = _catalog_of_all(listing, place)
        if line.price_basis != "user" or catalog is None or typed.is_included:
            continue
        stated = line.usd
        if catalog - stated > max(PRICE_TOLERANCE * catalog, LEAST_DOUBT_USD):
            more = " with what its price includes" if catalog != listing.catalog_usd[place] else ""
            why = f"{line.quantity} x {line.name}{more}: ${stated:,.0f} is listed, the catalog has ${catalog:,.0f}"
            fault = Finding(stated, catalog, False, why, "ask for a quote, or plan with the higher price")
            found.append(check_of("price", "price that can be had", "USD", fault, "advice"))
    return found
