"""A judged list as an answer: what is wrong with it, what it runs, and what else the money buys."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog.parts import planner_parts, usual_supply_w
from advisor.catalog.schema.part import LANES_USUAL, Bridge
from advisor.catalog.units import GB, GIB
from advisor.commands.build.records import build_record, check_record, question_inputs
from advisor.commands.build.view import (
    bill_table,
    bridge_words,
    checks_table,
    economics_words,
    headline,
    performance_blocks,
    price_warnings,
    purchases,
    slot_words,
    slow_words,
    speed_warnings,
)
from advisor.render.answer import Answer, Block, Paragraph
from advisor.render.numbers import LEGEND, TIME, digits, show, usd
from advisor.workstation.asked import Asked
from advisor.workstation.assembly import Assembly, Cards, Check, Supplies, others_w
from advisor.workstation.hardware import HardwareRun
from advisor.workstation.knee import speed_of
from advisor.workstation.listing import Listing
from advisor.workstation.performance import OFFLOADING, best_run, model_file_bytes
from advisor.workstation.plan import WITH_OTHERS, Build, Question
from advisor.workstation.rules_fit import model_memory
from advisor.workstation.rules_power import (
    ATX2_EXCURSION,
    EXCURSION,
    HEADROOM,
    USUAL_CPU_W,
    plugs_needed,
    supply_words,
)
from advisor.workstation.upgrades import Upgrades, left_words
from advisor.workstation.valuation import hardware_of, has_main_prices
from advisor.workstation.verdict import PLACES, Verdict, missing_places
from advisor.workstation.wiring import wire

EXIT_BROKEN = 3
"""A list that breaks a hard rule cannot be built: nothing satisfies the request."""


def verdict_answer(
    verdict: Verdict,
    listing: Listing,
    question: Question,
    notes: tuple[str, ...],
    upgrades: Upgrades | None = None,
    asked: Sequence[Asked] = (),
    also: Sequence[tuple[Verdict, Question]] = (),
    instead: Sequence[tuple[Verdict, Question]] = (),
    window: tuple[Verdict, Question] | None = None,
    before: HardwareRun | None = None,
    num_able: int | None = None,
) -> Answer:
    """Return the answer about a list of parts: its questions and the verdict, faults by weight, speed, what to change,
    and last how each line was read. `also` holds the verdicts by further models that the question names,
    `instead` those by what the machine runs in place of a model that it does not, `window` that with the window that
    the question wants, `before` is the run of the machine without the cards that a question adds, `num_able` the number
    of cards of 24 GB that hold a model which the CPU mostly runs."""
    build = verdict.build
    replies = [_reply(one, verdict, listing, question) for one in dict.fromkeys((*asked, MODEL))]
    replies += [_reply(MODEL, other, listing, one) for other, one in also]
    replies += _words_instead(instead, num_able)
    replies += [_window_words(window)] if window is not None and build.performance is not None else []
    replies = [*_upgrade_words(upgrades, question), *_addition_words(listing, verdict, before), *replies]
    blocks: list[Block] = [
        Paragraph("\n".join((*replies, _headline(verdict), _price_words(verdict, listing))), emphasis=True)
    ]
    if listing.wall_limit_w is not None:
        blocks.append(Paragraph(_wall_words(listing.wall_limit_w, verdict), emphasis=True))
    failed = [check for check in build.checks if not check.passed]
    if failed:
        kept = len(build.checks) - len(failed)
        blocks.append(
            checks_table(failed, f"What is wrong or can be better; {kept} of {len(build.checks)} rules kept")
        )
    speed, *details = performance_blocks(build.performance, explain=True) if build.performance else [None]
    blocks += [speed] if speed is not None else []
    slots = slot_words(build.machine) if build.machine is not None else []
    blocks += [Paragraph("\n".join(slots))] if slots else []
    blocks += [Paragraph(f"Note: {build.note}.")] if build.note else []
    blocks += _upgrade_blocks(upgrades, question, listing.machine)
    blocks += _change_blocks(verdict, listing, question)
    blocks.append(bill_table(build, "The list"))
    if listing.unjudged:
        blocks.append(Paragraph(f"Not judged, as no model is named: {', '.join(listing.unjudged)}."))
    if build.economics is not None:
        blocks.append(Paragraph(economics_words(build)))
    elif build.performance is not None and not has_main_prices(build.parts):
        blocks.append(
            Paragraph(
                "What owning costs is left out: a card or a machine of the list has no price that is known."
            )
        )
    blocks += filter(None, details)
    near = (f"{error.part}: {error.hint or error.why}" for error in listing.unknown)
    readings = [f"- {text}" for text in (*notes, *near)]
    if readings:
        blocks.append(Paragraph("\n".join(("How the list was read:", *readings))))
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
            "read_as": notes,
            "unknown_parts": [
                {"where": error.what, "why": error.why, "hint": error.hint} for error in listing.unknown
            ],
            "repaired": None if verdict.repaired is None else build_record(verdict.repaired),
            "better": None if verdict.better is None else build_record(verdict.better),
            "other_models": {one.load.model.id: build_record(other.build) for other, one in also},
            "upgrades": None if upgrades is None else [build_record(build) for build in upgrades.builds],
        },
        inputs={"parts": [line.text for line in listing.lines], **question_inputs(question)},
        blocks=tuple(blocks),
        records="checks",
        warnings=(*price_warnings(shown, question.as_of), *speed_warnings(*shown)),
        exit_code=EXIT_BROKEN if verdict.broken else 0,
    )


MODEL: Final[Asked] = "model"
_OF_SUPPLY: Final = ("psu-headroom", "psu-transient", "psu-advised", "psu-plugs", "eps-plugs")
"""Rules by which a supply is enough: watts, peaks, the advice of the card's maker, plugs."""


def _reply(asked: Asked, verdict: Verdict, listing: Listing, question: Question) -> str:
    """Return the answer to a question of the list in one sentence; whether the machine runs the model is always one."""
    checks = {check.rule: check for check in verdict.build.checks}
    if asked == MODEL:
        check = checks[model_memory.id]
        opening = f"Does it run {question.load.model.id}?"
        run = verdict.build.performance
        if run is None:
            return f"{opening} {'That is open' if check.is_unknown else 'No'}: {check.why}."
        rate = run.decode_tokens_per_s.value
        fit = fit_words(verdict, question)
        num = question.load.concurrency
        each = f", {rate / num:.3g} for each of {num} streams" if num > 1 else ""
        split = "" if fit else f" ({run.run.split})"
        speed = f"at about {rate:.3g} {run.run.unit}{each}{split}{slow_words(rate, question)}"
        partly = ", but not on its cards alone" if fit else ""
        if run.rate_of_kit:
            fit += f" At the rating of its kit, main memory would give about {run.rate_of_kit:.3g} tokens/s."
        num = verdict.build.performance.num_machines if verdict.build.performance is not None else 1
        if num > 1:
            return f"{opening} Not on one; on {num} together by llama.cpp RPC, {speed}; not measured."
        return f"{opening} {'Once the list is mended' if verdict.broken else 'Yes'}{partly}, {speed}.{fit}"
    if asked == "lanes":
        return _lanes_words(verdict, question)
    if asked == "adapter":
        plugs = checks.get("psu-plugs")
        words = "That is open" if plugs is None or plugs.is_unknown else "Yes" if plugs.passed else "No"
        why = "the plugs of the supply are not known" if plugs is None else plugs.why
        return (
            f"Does an adapter do? {words}: {why}. Each of its plugs takes a cable of its own from the supply."
        )
    if asked == "slots":
        return _slots_words(verdict, question)
    if asked == "bridge":
        return _bridge_reply(verdict, question)
    if asked == "fit":
        return _fit_reply(checks)
    if asked == "price":
        return price_reply(verdict, listing)
    if asked == "circuit":
        return _circuit_reply(verdict, question)
    if asked == "worth":
        return _worth_reply(verdict, question)
    machine = verdict.build.machine
    if machine is not None and machine.supplies is None and machine.cards is not None and machine.cards.cards:
        return _wanted_supply(machine, machine.cards)
    return _supply_reply(checks)


_OF_FIT: Final = (
    "card-room",
    "card-length",
    "slots",
    "radiator",
    "cooler-height",
    "board-fits",
    "psu-fits",
    "card-spacing",
    "server-kit",
)
"""Rules on what goes into a case, by weight."""


def _fit_reply(checks: Mapping[str, Check]) -> str:
    """Return whether the parts go into the case."""
    found = [checks[rule] for rule in _OF_FIT if rule in checks]
    if not any(one.rule in _ON_ROOM for one in found):
        return "Does it fit? That is open: the case or what goes into it is not known."
    failed = [one for one in found if not one.passed]
    order = ("broken", "unknown", "advice", "ok")
    worst = min((one.verdict for one in found), key=order.index)
    words = {"ok": "Yes", "broken": "No", "unknown": "That is open", "advice": "Yes, but tightly"}[worst]
    told = [f"{one.why}; better {one.remedy}" for one in failed] or [one.why for one in found[:2]]
    return _sentences(f"Does it fit? {words}: {told[0]}.", told[1:])


_ON_ROOM: Final = ("card-room", "card-length", "radiator", "cooler-height", "slots", "server-kit")
"""Rules of which one has to be known for an answer whether parts go in."""


def price_reply(verdict: Verdict, listing: Listing) -> str:
    """Return whether the price of a list is fair, by the prices that the catalog has for the same parts; open if the
    list states none in US dollars, since its total is then that of the catalog itself."""
    opening = "Is the price fair?"
    usual = verdict.catalog_total_usd
    if listing.foreign_total:
        told = f"the catalog has {usd(usual)} for it" if usual else "the catalog has no price for it"
        return (
            f"{opening} That is open: no rates of exchange are kept, so {listing.foreign_total} is not compared; "
            f"{told}, without the taxes of a country."
        )
    is_priced = any(line.usd is not None for line in listing.lines)
    asks = verdict.build.total_usd if is_priced else 0.0
    if not is_priced and usual:
        return (
            f"{opening} That is open: the list names none in US dollars; the catalog has {usd(usual)} for it."
        )
    if not asks or not usual:
        return (
            f"{opening} That is open: {'the catalog has no price for it' if asks else 'the list names none'}."
        )
    ratio = asks / usual
    word = next(word for most, word in _PRICE_WORDS if ratio <= most)
    lines = [line for line in verdict.build.parts if line.unit_price_usd is None]
    less = f", which has no price for {len(lines)} of its parts" if lines else ""
    return (
        f"{opening} {word}: {usd(asks)} is {ratio:.0%} of the {usd(usual)} of the catalog{less}; its prices have their "
        "days in the table below."
    )


_PRICE_WORDS: Final = (
    (0.75, "Cheap; see it work before you pay"),
    (1.1, "Fair"),
    (1.3, "Rather dear"),
    (math.inf, "Dear"),
)
"""Words on a price by the largest ratio to that of the catalog for which they hold. Own choice: second-hand prices of
one part differ by a quarter."""


def _circuit_reply(verdict: Verdict, question: Question) -> str:
    """Return whether the wall circuit carries a machine for hours; without a supply or a CPU, by usual ones."""
    opening = "Does the circuit carry it?"
    check = next((one for one in verdict.build.checks if one.rule == "circuit"), None)
    machine = verdict.build.machine
    cards = machine.cards if machine is not None else None
    if check is not None:
        words = "Yes" if check.passed else "No"
        return f"{opening} {words}: {check.why}{'' if check.passed else f'; better {check.remedy}'}."
    if machine is None or cards is None or not cards.cards:
        return f"{opening} That is open: the cards are not known."
    wall = question.setting.circuit
    cpu_w = machine.cpu.power_w if machine.cpu is not None else USUAL_CPU_W
    others = others_w(machine.case)
    rest_w = (cpu_w + others) / USUAL_EFFICIENCY
    taken_w = cards.power_w / USUAL_EFFICIENCY + rest_w
    host = "" if machine.cpu is not None else " for a CPU that is not named"
    told = (
        f"about {taken_w:,.0f} W at the wall at full power ({cards.power_w:.0f} W of cards, {cpu_w:.0f} W{host}, "
        f"{others:.0f} W rest, a supply of {USUAL_EFFICIENCY:.0%}); "
        f"{wall} carries {wall.continuous_w:,.0f} W for hours"
    )
    if taken_w <= wall.continuous_w:
        return f"{opening} Yes: {told}."
    each_w = (wall.continuous_w - rest_w) * USUAL_EFFICIENCY / cards.num
    each_w = math.floor(each_w / _ROUND_W) * _ROUND_W
    held = f"hold the cards to {each_w:.0f} W each" if each_w > _LEAST_CARD_W else "use fewer cards"
    return f"{opening} No: {told}; {held}."


USUAL_EFFICIENCY: Final = 0.9
"""Efficiency of a usual supply of a list that names none."""
_ROUND_W: Final = 10.0
"""Step of a power limit that is advised without a supply [W]."""


def _worth_reply(verdict: Verdict, question: Question) -> str:
    """Return what a machine brings for its money."""
    opening = "Is it worth it?"
    model = question.load.model.id
    rate = decode_rate(verdict.build)
    if not rate:
        return f"{opening} Not for {model}, which it does not run."
    slow = slow_words(rate, question)
    told = f"it decodes {model} at {rate:.3g} tokens/s{slow}"
    better = verdict.better
    if better is not None and decode_rate(better) > rate:
        return (
            f"{opening} For {model}, the same money buys more: {told}, {better.name} ({usd(better.total_usd)}) at "
            f"{decode_rate(better):.3g}."
        )
    if verdict.why_no_better and verdict.build.total_usd:
        return f"{opening} For {model}, yes: {told}, and {verdict.why_no_better}."
    return f"{opening} That depends on its price, which is not compared: {told}."


def _sentences(first: str, others: Sequence[str]) -> str:
    """Return a sentence and clauses as sentences behind it."""
    return " ".join((first, *(f"{text[0].upper()}{text[1:]}." for text in others)))


def _supply_reply(checks: Mapping[str, Check]) -> str:
    """Return whether the supply is enough: its watts for hours, its peaks, what the card's maker advises, and its
    plugs."""
    opening = "Is the supply enough?"
    found = [checks[rule] for rule in _OF_SUPPLY if rule in checks]
    if not found:
        return f"{opening} That is open: the supply or the cards are not known."
    order = ("broken", "unknown", "advice", "ok")
    worst = min((one.verdict for one in found), key=order.index)
    words = {"ok": "Yes", "broken": "No", "unknown": "That is open", "advice": "Barely"}[worst]
    watts = checks.get("psu-headroom")
    if worst == "unknown" and watts is not None and watts.passed:
        words = "Its watts are; the rest is open"
    told = [
        f"{one.why}{'' if one.passed else f'; better {one.remedy}'}"
        for one in found
        if not (one.passed and one.rule == "eps-plugs")
    ]
    return _sentences(f"{opening} {words}: {told[0]}.", told[1:])


def _wanted_supply(machine: Assembly, cards: Cards) -> str:
    """Return the supply that a machine without one wants: watts for hours, its standard, and its plugs."""
    cpu = machine.cpu
    cpu_w = cpu.power_w if cpu is not None else USUAL_CPU_W
    rest_w = others_w(machine.case)
    load_w = cards.power_w + cpu_w + rest_w
    peak_w = EXCURSION * cards.power_w + cpu_w + rest_w
    old_w = usual_supply_w(max(peak_w / ATX2_EXCURSION, load_w / HEADROOM))
    eight = plugs_needed(cards, Supplies(()))
    sixteen = sum(card.num_16_pin for card in cards.cards)
    of_new = (
        f"{sixteen} x 16-pin (or adapters with {eight} 8-pin plugs)" if sixteen else f"{eight} 8-pin plugs"
    )
    host = f"{cpu_w:.0f} W CPU" if cpu is not None else f"{cpu_w:.0f} W for a CPU that is not named"
    told = [
        f"{load_w:.0f} W under load ({cards.num} x {cards.power_w / cards.num:.0f} W cards, {host}, {rest_w:.0f} W "
        f"rest), and a supply carries {HEADROOM:.0%} of its rating for hours",
        f"all cards may peak together at {peak_w:.0f} W for less than a millisecond: a supply of ATX 3.x rides "
        f"through, an older one would need {old_w:.0f} W",
        f"the cards want {of_new}, each on a cable of its own",
    ]
    if load_w > _MOST_OF_ONE_SUPPLY_W * HEADROOM:
        told.append(
            f"few supplies of desktops exceed {_MOST_OF_ONE_SUPPLY_W:.0f} W: else two of them with a lead that starts "
            "the second, or lower power limits"
        )
    return _sentences(f"Which supply? {supply_words(load_w, machine)}: {told[0]}.", told[1:])


_MOST_OF_ONE_SUPPLY_W: Final = 1600.0
"""Rating of the largest supplies that shops commonly sell for desktops [W]."""


def _slots_words(verdict: Verdict, question: Question) -> str:
    """Return which slots the cards take, with lanes and generation, and what those cost."""
    machine = verdict.build.machine
    wired = wire(machine) if machine is not None else ()
    board = machine.board if machine is not None else None
    opening = "Which slots?"
    if board is None or not wired or not all(card.slot for card in wired):
        of_what = f"how {board.name} wires them" if board is not None and wired else "the board or the cards"
        return f"{opening} That is open: no source states {of_what}."
    order = sorted(slot.position for slot in board.slots)
    told = "; ".join(
        f"card {number} in x16 slot {order.index(card.slot) + 1} of {len(order)}, position {card.slot} from the CPU "
        f"(PCIe {card.pcie_generation}.0 x{card.lanes})"
        for number, card in enumerate(wired, 1)
    )
    doubts = {LANES_USUAL, "layout_assumed"} & set(board.flags)
    doubt = "; positions are the usual ones, look them up in the manual" if doubts else ""
    return f"{opening} {told[0].upper()}{told[1:]}{doubt}. {_lanes_words(verdict, question)}"


_NOTICED: Final = 0.1
"""Gain in speed from which a bridge is worth a purchase. Own choice."""


def _bridge_reply(verdict: Verdict, question: Question) -> str:
    """Return what an NVLink bridge brings: the speed with and without it by the model of tensor parallelism, and the
    slots that it spans."""
    opening = "Is an NVLink bridge worth it?"
    machine = verdict.build.machine
    cards = machine.cards if machine is not None else None
    hardware = hardware_of(machine) if machine is not None else None
    if machine is None or cards is None or hardware is None or cards.num < 2:
        return f"{opening} It joins two cards; the list does not name two."
    able = [one for one in planner_parts(Bridge) if set(cards.accelerators) <= set(one.accelerators)]
    if not able or len(cards.accelerators) > 1:
        return f"{opening} No: no bridge is made for {' and '.join(cards.accelerators)}."
    bridge = next((one for one in machine.bridges if one in able), able[0])
    divided = replace(question.load, engine=None)
    runs = [best_run(replace(hardware, bridged=is_bridged), divided) for is_bridged in (True, False)]
    joined, apart = runs
    spans = bridge_words(bridge, wire(machine))
    board = machine.board
    if board is not None and {LANES_USUAL, "layout_assumed"} & set(board.flags):
        spans += " The distance of its slots is the usual one: measure before you buy."
    if joined is None or apart is None:
        return f"{opening} That is open: {question.load.model.id} does not run on these cards. {spans}"
    if cards.num > bridge.joins:
        rest = (
            f"it joins {bridge.joins} of {cards.num} cards, and the rest of each layer still goes over PCIe"
        )
        return f"{opening} Hardly: {rest}. {spans}"
    rates = [run.output_tokens_per_s.value for run in (joined, apart)]
    gain = rates[0] / rates[1] - 1.0
    words = "Yes" if gain >= _NOTICED else "A little" if gain > _HARDLY else "No"
    prompts = ""
    if joined.ttft_s is not None and apart.ttft_s is not None:
        prompts = f"; first token after {show(joined.ttft_s, TIME)} and {show(apart.ttft_s, TIME)}"
        is_sooner = apart.ttft_s >= (1.0 + _NOTICED) * joined.ttft_s
        words = "Only for long prompts" if gain <= _HARDLY and is_sooner else words
    price = next((line.usd for line in verdict.build.parts if line.category == "bridge"), 0.0)
    cost = f" for {usd(price)}" if price else ""
    link = f"PCIe {hardware.pcie_generation}.0 x{hardware.pcie_lanes}"
    told = (
        f"{question.load.model.id} decodes {rates[0]:.3g} tokens/s with it and {rates[1]:.3g} without, over {link} "
        f"({joined.engine}, {joined.split}): {gain:+.0%}{cost}{prompts}"
    )
    alone = (
        best_run(hardware, replace(question.load, engine=OFFLOADING)) if joined.tensor_parallel > 1 else None
    )
    rest = (
        f" Layers in turn (llama.cpp, {alone.output_tokens_per_s.value:.3g} tokens/s) gain nothing."
        if alone
        else ""
    )
    return f"{opening} {words}: {told}.{rest} {spans}"


_HARDLY: Final = 0.05
"""Fraction of the speed up to which narrow links count as no loss. Own choice."""


def _lanes_words(verdict: Verdict, question: Question) -> str:
    """Return what the links of the cards cost: the speed with them, and with all lanes that the cards have."""
    machine = verdict.build.machine
    hardware = hardware_of(machine) if machine is not None else None
    run = verdict.build.performance
    opening = "Do the lanes hurt?"
    if run is None or hardware is None or hardware.pcie_lanes is None:
        return f"{opening} That is open: the links or the speed are not known."
    wide = best_run(replace(hardware, pcie_generation=None, pcie_lanes=None), question.load)
    whole = run.decode_tokens_per_s.value if wide is None else wide.output_tokens_per_s.value
    loss = 1.0 - run.decode_tokens_per_s.value / max(whole, run.decode_tokens_per_s.value)
    link = f"PCIe {hardware.pcie_generation}.0 x{hardware.pcie_lanes}"
    told = f"at {link} it decodes {run.decode_tokens_per_s.value:.3g} {run.run.unit}"
    rest = f"with all lanes of the cards {max(whole, run.decode_tokens_per_s.value):.3g}"
    words = "Hardly, once the model is loaded" if loss <= _HARDLY else f"They cost {loss:.0%}"
    return f"{opening} {words}: {told} ({run.run.split}), {rest}."


def fit_words(verdict: Verdict, question: Question) -> str:
    """Return a sentence on how much of the weights the cards hold, where the CPU reads the rest; empty if they hold
    all, or there are none."""
    run = verdict.build.performance
    cards = verdict.build.machine.cards if verdict.build.machine is not None else None
    if run is None or not run.run.on_cpu or cards is None or not cards.cards:
        return ""
    whole = model_file_bytes(replace(question.load, precision=run.run.weight_dtype))
    held = run.run.weight_bytes_per_card * cards.num
    return (
        f" The cards' {cards.memory_bytes / GIB:.0f} GB hold {digits(held / GB)} of the {digits(whole / GB)} GB of "
        f"weights in {run.run.weight_dtype}; main memory holds the rest, {run.run.split}."
    )


def is_mostly_on_cpu(verdict: Verdict) -> bool:
    """Whether a machine with cards runs a language model, and most of a step is the CPU's."""
    run = verdict.build.performance
    cards = verdict.build.machine.cards if verdict.build.machine is not None else None
    return run is not None and run.run.host_fraction > MOSTLY and cards is not None and bool(cards.cards)


MOSTLY: Final = 0.5
"""Fraction of a decode step on the CPU above which an answer names cards that hold the model, and what these hold."""


def _addition_words(listing: Listing, verdict: Verdict, before: HardwareRun | None) -> list[str]:
    """Return whether a machine takes the cards that a question adds, and what it runs without them."""
    cards = verdict.build.machine.cards if verdict.build.machine is not None else None
    if not listing.num_added or cards is None:
        return []
    faults = verdict.broken or verdict.build.unknown
    words = "Not as it is" if verdict.broken else "That is open" if faults else "Yes"
    told = f": {faults[0].why}; better {faults[0].remedy}" if faults else ""
    reply = f"Does it take {listing.num_added} more, {cards.num} cards in all? {words}{told}."
    speed = f"{before.output_tokens_per_s.value:.3g} tokens/s ({before.split})" if before else ""
    now = f" Without {'it' if listing.num_added == 1 else 'them'} the model runs at {speed}." if speed else ""
    return [f"{reply}{now}"]


def does_not_run(verdict: Verdict, question: Question) -> bool:
    """Whether a machine is known not to run a language model."""
    checks = {check.rule: check for check in verdict.build.checks}
    is_known = not checks[model_memory.id].is_unknown
    return question.load.workload == "serve" and verdict.build.performance is None and is_known


def _words_instead(instead: Sequence[tuple[Verdict, Question]], num_able: int | None) -> list[str]:
    """Return what a machine runs in place of a model that it does not, or not on its cards, with its speed, and how
    many cards of 24 GB hold that model."""
    found = []
    able = "" if num_able is None else f"{num_able} x 24 GB of cards hold it ({24 * num_able} GB in all). "
    for verdict, question in instead:
        run = verdict.build.performance
        if run is not None:
            name = f"{question.load.model.id} in {run.run.weight_dtype}"
            found.append(f"{name} at about {run.decode_tokens_per_s.value:.3g} tokens/s ({run.run.split})")
    told = "What it runs instead" if num_able is None else "What its cards hold wholly"
    return [f"{able}{told}: {'; '.join(found)}."] if found else [able.strip()] if able else []


def _window_words(window: tuple[Verdict, Question]) -> str:
    """Return whether the machine holds a window that a question wants, and its speed with a full one."""
    verdict, question = window
    load = question.load
    opening = f"Does a window of {load.context_tokens:,} tokens fit?"
    most = load.model.max_context_tokens
    if most is not None and load.context_tokens > most:
        return f"{opening} No: {load.model.id} reads at most {most:,}."
    run = verdict.build.performance
    if run is None:
        return f"{opening} No: weights and cache are larger than the memory."
    rate = run.decode_tokens_per_s.value
    return f"{opening} Yes, at about {rate:.3g} {run.run.unit} with a full one ({run.run.split})."


def _wall_words(limit_w: float, verdict: Verdict) -> str:
    """Return what the machine takes at the wall beside the most that its list allows, and the limit of the cards that
    keeps it."""
    machine = verdict.build.machine
    check = next((one for one in verdict.build.checks if one.rule == "circuit"), None)
    allowed = f"The list allows {limit_w:,.0f} W at the wall"
    if check is None or machine is None or machine.cards is None or machine.supplies is None:
        return f"{allowed}; what the machine takes is open: the supply or the cards are not known."
    taken_w = check.actual / machine.supplies.efficiency
    words = f"{allowed}; at full power the machine takes {taken_w:,.0f} W"
    if taken_w <= limit_w:
        return f"{words}."
    left_w = machine.cards.power_w - (check.actual - limit_w * machine.supplies.efficiency)
    each_w = left_w / machine.cards.num if machine.cards.num else 0.0
    return f"{words}; {f'hold the cards to {each_w:.0f} W each' if each_w > _LEAST_CARD_W else 'use fewer cards'}."


_LEAST_CARD_W: Final = 100.0
"""Lowest power limit that drivers of such cards take [W] (100 W for an RTX 3090)."""


def _upgrade_words(upgrades: Upgrades | None, question: Question) -> list[str]:
    """Return the answer to the question for the next part, if the list asks it: what to buy first, and its effect."""
    if upgrades is None:
        return []
    sum_words = usd(upgrades.usd) + (", as the question names no sum" if upgrades.is_usual else "")
    if not upgrades.builds:
        return [f"What to buy next for {sum_words}? Nothing: no part with a price makes it a quarter faster."]
    best = upgrades.builds[0]
    parts = ", ".join(purchases(best))
    speed = f"{question.load.model.id} then runs at {decode_rate(best):.3g} tokens/s"
    return [f"What to buy next for {sum_words}? {parts}: {speed}."]


def _upgrade_blocks(upgrades: Upgrades | None, question: Question, have: Assembly | None) -> list[Block]:
    """Return the machines that the next parts make of that of the list."""
    builds = upgrades.builds if upgrades is not None else ()
    lines = [
        f"- {headline(build, question)}: buy {', '.join(purchases(build))}"
        + (f"; {told}" if (told := left_words(build, have, builds, question.setting)) else "")
        + "".join(f"; open: {check.why}" for check in build.unknown)
        for build in builds
    ]
    return [Paragraph("\n".join(("With the next parts:", *lines)), emphasis=True)] if lines else []


def _change_blocks(verdict: Verdict, listing: Listing, question: Question) -> list[Block]:
    """Return what to change first and its price: parts that mend the list, then another machine for its money."""
    blocks: list[Block] = []
    mended = verdict.repaired
    if mended is not None and (bought := purchases(mended)):
        kinds = {line.category for line in mended.parts if line.unit_price_usd}
        left = [line.name for line in verdict.build.parts if line.category in kinds]
        assumed = [PLACES[place] for place in missing_places(listing) if place != "cards"]
        lines = [
            f"To mend it, for {usd(mended.total_usd)}:",
            *(f"- buy {part}" for part in bought),
            *([f"- leave out {', '.join(left)}"] if left else []),
            *(
                [f"- add what you do not have; the sum is without it: {', '.join(assumed)}"]
                if assumed
                else []
            ),
            *([f"- {mended.note}"] if mended.note else []),
            f"{question.load.model.id} then runs at {decode_rate(mended):.3g} tokens/s.",
        ]
        blocks.append(Paragraph("\n".join(lines), emphasis=True))
    elif mended is not None and mended.note:
        blocks.append(Paragraph(f"To mend it: {mended.note}.", emphasis=True))
    if verdict.better is not None:
        is_faster = speed_of(verdict.better) > speed_of(verdict.build)
        what = "Better for the money" if is_faster else "For the money, without a broken rule"
        blocks.append(Paragraph(f"{what}: {headline(verdict.better, question)}", emphasis=True))
        blocks.append(bill_table(verdict.better, is_planned=True))
        blocks += [Paragraph(f"Note: {verdict.better.note}.")] if verdict.better.note else []
    elif verdict.why_no_better:
        blocks.append(Paragraph(f"No better machine for the money: {verdict.why_no_better}."))
    return blocks


def decode_rate(build: Build) -> float:
    """Output tokens per second while a machine decodes; 0 if it does not run the model."""
    return build.performance.decode_tokens_per_s.value if build.performance is not None else 0.0


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


def _price_words(verdict: Verdict, listing: Listing) -> str:
    """Return what the list costs, and what the catalog takes for the same parts."""
    lines = verdict.build.parts
    unpriced = sum(line.unit_price_usd is None for line in lines)
    if all(line.is_owned for line in listing.lines):
        return "The list names what its owner has: nothing is bought."
    if not verdict.catalog_total_usd and verdict.build.total_usd:
        return f"The list costs {usd(verdict.build.total_usd)}; the catalog has no price for its parts."
    if not verdict.catalog_total_usd:
        return "No part of the list has a price, in the list or in the catalog."
    left_out = f", without {unpriced} of {len(lines)} lines that have no price" if unpriced else ""
    if not verdict.build.total_usd:
        return "What the list costs is not known."
    if listing.foreign_total:
        told = "has prices like" if listing.foreign_total.endswith("...") else "costs"
        return (
            f"The list {told} {listing.foreign_total}, which is not converted; in US dollars the catalog has "
            f"{usd(verdict.build.total_usd)} for these parts{left_out}, without the taxes of a country."
        )
    listed = f"The list costs {usd(verdict.build.total_usd)}{left_out}"
    if round(verdict.catalog_total_usd) == round(verdict.build.total_usd):
        return f"{listed}."
    known = sum(usd is not None for usd in listing.catalog_usd)
    is_of_part = known < len(lines) and any(line.source == WITH_OTHERS for line in lines)
    of_what = f"{known} of its {len(lines)} lines" if is_of_part else "the same parts"
    return f"{listed}; the catalog has {usd(verdict.catalog_total_usd)} for {of_what}."
