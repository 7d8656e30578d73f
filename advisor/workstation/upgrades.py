"""Next parts for a machine that a list describes: what a sum adds to it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from advisor.catalog import accelerators, parts
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook, price_of, second_hand_prices
from advisor.catalog.schema.part import Board, Case, Cooler, Cpu, GpuCard, Storage
from advisor.workstation.assembly import SERVER, Assembly, Memory, Risers, Setting
from advisor.workstation.knee import dependable_speed_of, speed_of
from advisor.workstation.listing import Listing
from advisor.workstation.part_names import board_by_number
from advisor.workstation.plan import Build, Question
from advisor.workstation.planner import plan
from advisor.workstation.rule_book import judge

USUAL_UPGRADE_USD: Final = 1000.0
"""Sum for which next parts are shown if a question names none [USD]: a used card with 24 GB. Own choice."""
_SHOWN: Final = 2


OF_OWNER: Final = "that you have"


def with_unnamed_rest(listing: Listing) -> Assembly:
    """Return the machine of a list with the board, the case, the cooler and the drive that its owner does not name, and
    cards without a model as the smallest of their kind.

    Assumes: a list with CPU and memory is that of a machine that runs; the case has room for any card.
    """
    machine = listing.machine
    if listing.has_unnamed_cards and machine.cards is not None:
        smallest = tuple(
            smallest_card(name).model_copy(update={"name": f"{name} {OF_OWNER}"})
            for name in (card.accelerator for card in machine.cards.cards)
        )
        machine = replace(machine, cards=replace(machine.cards, cards=smallest))
    if machine.cpu is None or machine.memory is None:
        return machine
    socket = machine.cpu.series.socket
    towers = [case for case in parts.planner_parts(Case) if not case.open_frame]
    coolers = parts.planner_parts(Cooler)
    cooler = next((one for one in reversed(coolers) if socket in one.sockets), coolers[-1])
    forms = tuple(sorted({name for case in towers for name in case.boards}))
    room = max(towers, key=lambda case: (case.expansion_slots, case.max_gpu_m))
    case = machine.case or room.model_copy(update={"boards": forms})
    height_m = min(cooler.height_m or 0.0, case.max_cooler_m or math.inf)  # it stands in that case
    usual = {
        "board": machine.board or _usual_board(machine.cpu, machine.memory),
        "case": case,
        "cooler": machine.cooler or cooler.model_copy(update={"sockets": (socket,), "height_m": height_m}),
        "storage": machine.storage or parts.planner_parts(Storage)[0],
    }
    board = usual["board"]
    whole = board.name if board is not None and SERVER in board.flags else ""
    named: dict[str, Any] = {
        place: part.model_copy(update={"name": f"{place} {OF_OWNER}", "sold_with": whole})
        for place, part in usual.items()
        if part is not None and getattr(machine, place) is None
    }
    if whole and machine.case is not None:
        named["case"] = machine.case.model_copy(update={"sold_with": whole})
    return replace(machine, **named)


def smallest_card(accelerator: str) -> GpuCard:
    """Return the narrowest and shortest card of an accelerator, with the fewest plugs of any, without a radiator."""
    every = [card for card in parts.planner_parts(GpuCard) if card.accelerator == accelerator]
    sold = [card for card in every if card.cooling != "liquid"] or every
    fewest = min(sold, key=lambda card: card.num_8_pin + 2 * card.num_16_pin)
    least = {name: getattr(fewest, name) for name in ("num_8_pin", "num_16_pin", "num_6_pin")}
    least["is_low_profile"] = any(card.is_low_profile for card in sold)
    return min(sold, key=lambda card: (card.slots, card.length_m, card.name)).model_copy(update=least)


def _usual_board(cpu: Cpu, memory: Memory) -> Board | None:
    """Return the board of the commonest wiring that takes a CPU and its memory, or a usual one if no record does."""
    kit = memory.kit
    able = [
        board
        for board in parts.planner_parts(Board)
        if board.chipset in cpu.series.chipsets
        and (board.socket, board.ram_type, board.registered)
        == (cpu.series.socket, kit.ram_type, kit.registered)
        and board.ram_slots >= memory.num_modules
        and SERVER not in board.flags
        and board.lane_modes
    ]
    wirings = Counter(board.lane_modes for board in able)
    if able:
        return max(able, key=lambda board: wirings[board.lane_modes])
    return next(filter(None, (board_by_number(name, kit.ram_type) for name in cpu.series.chipsets)), None)


@dataclass(frozen=True, slots=True)
class Upgrades:
    """Machines that a sum of money makes of one that the user has."""

    usd: float
    """Sum that buys the next parts [USD]."""
    is_usual: bool
    """Whether the sum is the usual one, as the question names none."""
    builds: tuple[Build, ...]
    """Machines with the next parts, the fastest first; none if no part for the money makes it faster."""


def best_upgrades(
    listing: Listing, question: Question, book: PriceBook, usd: float, present_tokens_per_s: float = 0.0
) -> Upgrades:
    """Return the machines that a sum of money [USD], or the usual sum if it is 0, makes of that of a list, if they are
    a quarter faster than it is now [tokens/s]."""
    spent = usd or USUAL_UPGRADE_USD
    asked = replace(question, have=with_unnamed_rest(listing), budget_usd=spent, systems=False)
    try:
        found = plan(asked, book).builds
    except InfeasibleError:
        found = ()
    faster = [
        build
        for build in found
        if build.total_usd
        and speed_of(build) > LITTLE_GAIN * present_tokens_per_s
        and keeps_machine(build, asked.have)
    ]
    return Upgrades(spent, not usd, tuple(worthy_first(faster, asked.have)[:_SHOWN]))


def most_bytes_for(machine: Assembly, usd: float, book: PriceBook) -> float:
    """Memory of the cards that a sum buys at most, two of a kind at most, with those of that kind that are there
    [bytes]."""
    prices = {**book, **second_hand_prices(book)}
    own = (
        Counter(card.accelerator for card in machine.cards.cards) if machine.cards is not None else Counter()
    )
    most = 0.0
    for card in parts.planner_parts(GpuCard):
        price = price_of(card, prices)
        num = min(int(usd // price.usd), _MOST_BOUGHT) if price is not None and price.usd else 0
        memory = accelerators.by_id(card.accelerator).memory_bytes or 0.0
        most = max(most, (num + own[card.accelerator]) * memory if num else 0.0)
    return most


_MOST_BOUGHT: Final = 2
"""Number of cards of one kind that are bought at once at most for a machine that is there. Own choice."""


def keeps_machine(build: Build, have: Assembly | None) -> bool:
    """Whether an upgrade stands in no whole machine in place of the present one, and keeps a present whole one."""
    present = have.board if have is not None else None
    board = build.machine.board if build.machine is not None else None
    if board is None or board == present:
        return True
    is_whole = present is not None and SERVER in present.flags
    return not is_whole and SERVER not in board.flags


LITTLE_GAIN: Final = 1.25
"""Speed over that of a cheaper upgrade from which more money heads an answer: predictions err by as much. Own
choice."""


def worthy_first(builds: Sequence[Build], have: Assembly | None) -> list[Build]:
    """Return upgrades with one at the head that is nearly as fast as the fastest, then the others by speed: one that
    uses the owner's cards before others, and the cheapest of those; second-hand parts head only as more of the owner's
    cards, or where nothing new helps; no assumed speed heads where one that is not reaches it. The sum is there to be
    spent, but not for a small gain."""
    owned = set(have.cards.accelerators) if have is not None and have.cards is not None else set()
    by_speed = sorted(builds, key=speed_of, reverse=True)
    adds_to_owned = {build.name for build in builds if owned and not owned - _cards_of(build)}
    able = [build for build in builds if not build.is_used or build.name in adds_to_owned] or builds
    most = max(map(dependable_speed_of, able), default=0.0)
    sure = [build for build in builds if not _is_assumed(build)]
    if max(map(dependable_speed_of, sure), default=0.0) >= most:
        able = [build for build in able if not _is_assumed(build)] or sure
        most = max(map(dependable_speed_of, able), default=0.0)
    near = (build for build in able if LITTLE_GAIN * dependable_speed_of(build) > most)
    head = min(
        near,
        key=lambda build: (bool(owned - _cards_of(build)), build.total_usd, -speed_of(build)),
        default=None,
    )
    return [build for build in by_speed if build is head] + [build for build in by_speed if build is not head]


def _is_assumed(build: Build) -> bool:
    """Whether the speed of a machine rests on no measurement of its kind."""
    return build.performance is not None and build.performance.decode_tokens_per_s.basis == "assumed"


def left_words(build: Build, have: Assembly | None, builds: Sequence[Build], setting: Setting) -> str:
    """Return words on everything of the owner that an upgrade leaves out: cards, and parts that others replace; empty
    if it uses all."""
    return "; ".join(filter(None, (_idle_words(build, have, builds), *_replaced_words(build, have, setting))))


_ONE_OF_A_KIND: Final = ("board", "cpu", "case", "cooler")
"""Places that hold one part, which another part replaces."""


def _replaced_words(build: Build, have: Assembly | None, setting: Setting) -> list[str]:
    """Return words on each part of the owner that another replaces, with the rule that the machine would break with
    it."""
    machine = build.machine
    if have is None or machine is None:
        return []
    found = []
    for place in _ONE_OF_A_KIND:
        own = getattr(have, place)
        new = getattr(machine, place)
        if own is None or own == new or own.name.endswith(OF_OWNER):
            continue
        changed: dict[str, Any] = {place: own}
        kept = replace(machine, **changed)
        # A closed case holds cards in the slots, without the risers of a frame.
        kept = replace(kept, risers=Risers()) if place == "case" else kept
        told = {check.rule for check in judge(machine, setting) if not check.passed}
        lost = (check for check in judge(kept, setting) if not check.passed and check.rule not in told)
        why = next((f" (with yours: {check.why})" for check in lost), "")
        found.append(f"{new.name if new is not None else 'nothing'} replaces your {own.name}{why}")
    return found


def _idle_words(build: Build, have: Assembly | None, builds: Sequence[Build]) -> str:
    """Return words on cards of the owner that an upgrade leaves idle, with the gain over the fastest one that uses
    them; empty if it uses a card of each kind."""
    owned = have.cards if have is not None else None
    cards = build.machine.cards if build.machine is not None else None
    if owned is None or not owned.cards or cards is None:
        return ""
    idle = [name for name in owned.accelerators if name not in cards.accelerators]
    if not idle:
        return ""
    kept = max(
        (one for one in builds if _cards_of(one) & set(owned.accelerators) and one.total_usd),
        key=speed_of,
        default=None,
    )
    told = f"your {' and '.join(idle)} then stays unused: sell it, or keep it for another machine"
    if kept is None or not speed_of(kept):
        return told
    gain = speed_of(build) / speed_of(kept) - 1.0
    more = build.total_usd - kept.total_usd
    money = f"${more:,.0f} more" if more >= 0 else f"${-more:,.0f} less"
    return f"{told}; {gain:+.0%} speed for {money} than {kept.name}, which uses it"


def _cards_of(build: Build) -> set[str]:
    cards = build.machine.cards if build.machine is not None else None
    return set(cards.accelerators) if cards is not None else set()
