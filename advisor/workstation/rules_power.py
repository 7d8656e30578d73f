"""Rules on power: supplies, excursions, plugs, the wall, the room, the noise."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from advisor.catalog import parts
from advisor.catalog.schema.part import (
    GRADE_UNKNOWN,
    PLUGS_OF_LINE,
    PLUGS_UNKNOWN,
    Board,
    Case,
    Cooler,
    Cpu,
    DisplayCard,
    GpuCard,
    Psu,
)
from advisor.workstation.assembly import (
    EFFICIENCY,
    HIGH_VOLTS,
    HOT_PLUG,
    OTHERS_W,
    SERVER,
    TYPICAL,
    Assembly,
    Cards,
    Circuit,
    Setting,
    Supplies,
    is_rack_server,
    is_server,
    others_w,
    running_power_w,
)
from advisor.workstation.rules import Finding, at_least, at_most, holds, match_rule, sum_rule

UNVERIFIED: Final = "unverified"
"""Flag of a part whose maker's page was not read again: it may hold more than its record says."""
HEADROOM: Final = 0.9
"""Fraction of a supply's rating that a load of hours may draw."""
HEADROOM_ERROR: Final = 0.05
"""Error of the load of hours over what a supply may carry: CPU and cards seldom draw their full power at once, so that
a supply this little over is tight and no fault of a list. Own assumption; the planner keeps HEADROOM."""
EXCURSION: Final = 1.57
"""Power of a card for less than a millisecond over its limit: an RTX 5090 peaks at 901 W of 575 (Igor's Lab, 2025)."""
ATX3_EXCURSION: Final = 2.0
"""Load over its rating that an ATX 3.x supply withstands for 100 µs (Intel, ATX Version 3 design guide)."""
ATX2_EXCURSION: Final = 1.2
"""Load over its rating at which the over-current protection of an older supply trips; not specified, so an estimate."""
EXCURSION_ERROR: Final = 0.1
"""Error of the sum of excursions against the load that trips a supply: one card was measured for all, and peaks of
several cards seldom meet. Own assumption; at 0 a list that is 1 % over the estimate would be called broken."""
EIGHT_PIN_W: Final = 150.0
SIXTEEN_PIN_W: Final = 600.0
CASE_AIRFLOW_W: Final = {"Full": 1500.0, "Mid": 1000.0, "Mini": 500.0, "Open": 1e5}
"""Heat that a case removes with the fans that it has room for [W] (six, four, two of 120 mm): each moves about 100
m³/h through filters, which at 15 K is half a kilowatt; half of it is taken as reaching the cards."""
NOISE_DB: Final = {"open": 38.0, "blower": 46.0, "passive": 0.0, "liquid": 36.0}
"""Noise of the reference card of a kind of cooling at full power at one metre [dB]; rough, from reviews' usual
figures."""
_REFERENCE: Final = {"open": (350.0, 3 * 0.32), "blower": (300.0, 2 * 0.267), "liquid": (350.0, 2 * 0.267)}
"""Power [W] and area, slots by length [m], of the reference card of a kind of cooling: RTX 3090, RTX A6000."""
COOLER_DB: Final = 35.0
_DB_PER_DECADE_OF_HEAT: Final = 29.0
"""Rise of noise with ten times the heat on the same fins [dB]: heat passes to air as its speed to the power 1.7, and
noise grows with the fifth power of the fans' speed (50 log10 over 1.7). Half the heat is 9 dB less."""


def card_noise_db(card: GpuCard, power_fraction: float = 1.0) -> float:
    """Noise of one card at one metre under load [dB]; 0 without fans. It rises with the heat for the area of its fins
    and fans, and with that area itself: `29 log10(heat / area) + 10 log10(area)` beside the reference card.

    Error: rough, about 5 dB; makers differ by that with one size and power.
    """
    if card.cooling == "passive":
        return 0.0
    power_w, area = _REFERENCE[card.cooling]
    heat = card.power_w * power_fraction / power_w
    larger = 1.0 if card.cooling == "liquid" else card.slots * card.length_m / area
    return (
        NOISE_DB[card.cooling]
        + _DB_PER_DECADE_OF_HEAT * math.log10(heat / larger)
        + 10.0 * math.log10(larger)
    )


def _cards_w(cards: Cards, setting: Setting) -> float:
    return cards.power_w


LEAST_CAP_FRACTION: Final = 0.3
"""Lowest power limit that is advised for cards whose driver states none, over rated power. Own choice: a
power limit that a list states counts from there on too."""


def _cpu_w(cpu: Cpu, setting: Setting) -> float:
    return cpu.power_w


def _tolerated_w(supplies: Supplies, setting: Setting) -> float:
    return sum(psu.power_w * (ATX3_EXCURSION if psu.is_atx3 else ATX2_EXCURSION) for psu in supplies.psus)


def _displays_w(displays: Sequence[DisplayCard], setting: Setting) -> float:
    return sum(card.power_w for card in displays)


def _saved_w(case: Case, setting: Setting) -> float:
    """Power of the rest of a machine beyond `OTHERS_W` [W], which is negative in a small case."""
    return others_w(case) - OTHERS_W


USUAL_CPU_W: Final = 125.0
"""Power of a CPU that a list does not name [W]: the base power of most desktop CPUs for two cards. Own choice."""
_power_rule: Final = partial(
    sum_rule,
    needs={"cards": _cards_w, "cpu": _cpu_w, "case": _saved_w, "displays": _displays_w},
    base_need=lambda setting: OTHERS_W,
    absent={"cpu": USUAL_CPU_W},
)
"""Decorator for rules that compare the power of cards, CPU and the rest with a limit."""


def _stands_peaks(machine: Assembly, setting: Setting) -> bool:
    """Whether no peak of the cards may trip the supply: one that is tight for hours too is a fault."""
    check = psu_transient.check(machine, setting)
    return check is None or check.passed


def _has_added_load(machine: Assembly) -> bool:
    """Whether a machine has cards, or a supply that its builder chose: makers size those of whole machines."""
    has_cards = machine.cards is not None and bool(machine.cards.cards)
    return has_cards or machine.supplies is None or not all(psu.sold_with for psu in machine.supplies.psus)


@_power_rule(
    "psu-headroom",
    "supply under sustained load",
    gives={"supplies": lambda supplies, setting: HEADROOM * supplies.power_w},
    required=("cards", "supplies"),
    error=HEADROOM_ERROR,
    is_lenient=_stands_peaks,
    concerns=_has_added_load,
)
def psu_headroom(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on supplies: a load of hours draws no more than `HEADROOM` of their rating."""
    rated = limit / HEADROOM
    host = (
        f", {USUAL_CPU_W:.0f} W of them for a CPU that the list does not name" if machine.cpu is None else ""
    )
    why = f"{actual:.0f} W under load{host}; {rated:.0f} W of supply may carry {limit:.0f} W for hours ({HEADROOM:.0%})"
    held = _cap_that_fits(actual, limit, machine)
    return why, f"{_own_supply_words(machine) or supply_words(actual, machine)}, or {held}"


def _own_supply_words(machine: Assembly) -> str:
    """Return what may take the place of a supply whose leads fit its own machine alone; empty for any other supply."""
    supplies = machine.supplies
    is_own = supplies is not None and any(psu.sold_with for psu in supplies.psus)
    return (
        "a larger supply of the machine's maker, if it sells one (others seldom have its leads)"
        if is_own
        else ""
    )


def supply_words(load_w: float, machine: Assembly) -> str:
    """Return words on the usual supply for a load of hours [W], no smaller than the maker of a card advises."""
    advice = parts.advised_supply(machine.cards.accelerators if machine.cards is not None else ())
    least_w = load_w / HEADROOM
    if advice is None or advice.watts <= least_w:
        return f"{parts.usual_supply_w(least_w):.0f} W of supply"
    advised = f"{advice.accelerator}: its maker advises {advice.watts:.0f} W"
    return f"{parts.usual_supply_w(advice.watts):.0f} W of supply ({advised})"


CAP_STEP_W: Final = 5.0
"""Steps in which power limits are advised [W]: a rule and the mend by it then tell one figure."""


def cap_w(actual: float, limit: float, cards: Cards, factor: float = 1.0) -> float:
    """Power of each card under which a machine meets a limit [W], to `CAP_STEP_W` below; 0 if a driver accepts none
    that is so low. The machine draws `actual`, in which its cards' power counts `factor` times."""
    each = CAP_STEP_W * math.floor(
        (limit - (actual - factor * cards.power_w)) / (factor * cards.num) / CAP_STEP_W + 1e-9
    )
    floors = (parts.power_floors().get(card.accelerator) for card in cards.cards)
    lowest = max((one.fraction for one in floors if one is not None), default=LEAST_CAP_FRACTION)
    return float(each) if each >= lowest * max(card.power_w for card in cards.cards) else 0.0


def _cap_that_fits(actual: float, limit: float, machine: Assembly, factor: float = 1.0) -> str:
    """Return words on the power limit of the cards that would meet a limit, or on other cards if none does."""
    if machine.cards is None or not machine.cards.cards:
        return "less power"
    each = cap_w(actual, limit, machine.cards, factor)
    if not each:
        return "fewer cards" if machine.cards.num > 1 else "a card of less power"
    return f"cards held to {each:.0f} W each"


def _is_generation_unknown(machine: Assembly) -> bool:
    """Whether no record says if a supply is built to ATX 3."""
    doubts = {PLUGS_UNKNOWN, PLUGS_OF_LINE}
    return machine.supplies is not None and any(doubts & set(psu.flags) for psu in machine.supplies.psus)


@_power_rule(
    "psu-transient",
    "supply against excursions",
    needs={
        "cards": lambda cards, setting: cards.power_w * EXCURSION,
        "cpu": _cpu_w,
        "case": _saved_w,
        "displays": _displays_w,
    },
    gives={"supplies": _tolerated_w},
    required=("cards", "supplies"),
    in_doubt=_is_generation_unknown,
    error=EXCURSION_ERROR,
    concerns=_has_added_load,
)
def psu_transient(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on peaks below a millisecond, which stay under the load that trips the supplies."""
    old = machine.supplies is not None and not all(psu.is_atx3 for psu in machine.supplies.psus)
    kind = "an older supply trips near" if old else "ATX 3 supplies ride through"
    why = f"all cards may peak together at {actual:.0f} W for less than a millisecond; {kind} {limit:.0f} W"
    held = _cap_that_fits(actual, limit, machine, EXCURSION)
    has_new_plug = machine.cards is not None and any(card.num_16_pin for card in machine.cards.cards)
    kind = "with its own 12V-2x6 plug (ATX 3.x)" if has_new_plug else "of ATX 3.x, or one of more watts"
    return why, f"{_own_supply_words(machine) or f'a supply {kind}'}, or {held}"


def _plugs_given(supplies: Supplies) -> tuple[tuple[int, int, int, bool, bool, bool], ...]:
    """Return the numbers of 16-pin, 8-pin and 6-pin plugs of each supply, whether no source counts them, whether it is
    that of a machine, and whether it has no leads."""
    return tuple(
        (
            psu.num_16_pin,
            _fewest_plugs(psu),
            psu.num_6_pin,
            PLUGS_UNKNOWN in psu.flags,
            bool(psu.sold_with),
            HOT_PLUG in psu.flags,
        )
        for psu in supplies.psus
    )


def plugs_needed(cards: Cards, supplies: Supplies) -> int:
    """Number of 8-pin plugs that cards need once the 16-pin and 6-pin ones of the supplies are used up, adapters
    included."""
    native = sum(psu.num_16_pin for psu in supplies.psus)
    sixes = sum(card.num_6_pin for card in cards.cards)
    needed = sixes - min(sixes, sum(psu.num_6_pin for psu in supplies.psus))
    for card in cards.cards:
        needed += card.num_8_pin
        for _ in range(card.num_16_pin):
            if native:
                native -= 1
            else:
                share = min(card.power_w / card.num_16_pin, SIXTEEN_PIN_W)
                needed += math.ceil(share / EIGHT_PIN_W - 1e-9)
    return needed


@match_rule(
    "psu-plugs",
    "power plugs for the cards",
    "plugs",
    cards=lambda cards: tuple((c.num_8_pin, c.num_6_pin, c.num_16_pin, c.power_w) for c in cards.cards),
    supplies=_plugs_given,
)
def psu_plugs(cards: Cards, supplies: Supplies, setting: Setting) -> Finding | None:
    """Compare the 8-pin plugs that are needed once 16-pin ones are used up with those of the supplies; None of supplies
    without leads, whose server feeds the cards.

    A 16-pin card without a plug of its kind takes an adapter with one 8-pin plug per 150 W.
    """
    if any(HOT_PLUG in psu.flags for psu in supplies.psus):
        return None
    eight = sum(psu.num_8_pin for psu in supplies.psus)
    needed = plugs_needed(cards, supplies)
    sixteen = sum(card.num_16_pin for card in cards.cards)
    is_eps = not sixteen and all(card.has_eps_lead for card in cards.cards)
    wanted = f"{sixteen} x 16-pin, the rest 8-pin" if sixteen else "EPS by adapters" if is_eps else "8-pin"
    if needed and any(PLUGS_UNKNOWN in psu.flags for psu in supplies.psus):
        fewest = sum(map(_fewest_plugs, supplies.psus))
        usual = f"the supply, supplies of its size have {fewest} or more"
        whose = "the machine's own supply" if any(psu.sold_with for psu in supplies.psus) else usual
        why = f"cards want {wanted}: {needed} 8-pin plugs (adapters included); no record counts those of {whose}"
        return Finding(fewest, needed, needed <= fewest, why, "count them, or name another supply", True)
    six = ", 6-pin ones with adapters" if any(psu.has_six_pin_leads for psu in supplies.psus) else ""
    why = f"cards want {wanted}: {needed} 8-pin plugs (adapters included), {_supply_words(supplies)} has {eight}{six}"
    is_own = any(psu.sold_with for psu in supplies.psus)
    remedy = "a card with fewer plugs" if is_own else "a supply with more plugs, or a second supply"
    return _as_known(at_most(needed, eight, why, remedy), supplies)


@match_rule(
    "card-lead",
    "plugs of server cards",
    "cards",
    "advice",
    planned=False,
    cards=lambda cards: tuple(card.has_eps_lead for card in cards.cards),
)
def card_lead(cards: Cards, setting: Setting) -> Finding | None:
    """Name the cards whose plug is that of a CPU: an 8-pin PCIe cable goes into none of them."""
    names = dict.fromkeys(card.name for card in cards.cards if card.has_eps_lead)
    why = f"{', '.join(names)}: the plug is an 8-pin EPS one, as of a CPU, and takes no PCIe cable"
    return (
        holds(False, why, "a spare EPS cable, or an adapter from two PCIe plugs, for each") if names else None
    )


CARDS_WITHOUT_RISERS: Final = 4
"""Number of cards from which a server is built for cards, which stand on its boards and not on risers. Own choice."""
SLOT_W: Final = 75.0
"""Power that a card takes from its slot without a cable of its own [W] (PCI Express CEM)."""


@match_rule(
    "server-kit",
    "GPU kit of a server",
    "cards",
    "advice",
    planned=False,
    cards=lambda cards: tuple(
        (card.power_w > SLOT_W, card.cooling, card.has_eps_lead) for card in cards.cards
    ),
    board=lambda board: (board.name, is_server(board), is_rack_server(board), board.max_cards),
)
def server_kit(cards: Cards, board: Board, setting: Setting) -> Finding | None:
    """Name what strong cards in a server need: its supplies plug into a board and have no leads, its risers are of
    several kinds, and its fans are chosen for what it was sold with."""
    strong = [card for card in cards.cards if card.power_w > SLOT_W]
    if not strong or not is_server(board):
        return None
    plug = (
        "an 8-pin EPS plug"
        if any(card.has_eps_lead for card in strong)
        else "a 16-pin plug"
        if any(card.num_16_pin for card in strong)
        else "8-pin PCIe plugs"
    )
    source = "board or riser" if is_rack_server(board) else "board"
    why = (
        f"hot-plug supplies have no leads: {board.name} feeds a card from its {source} over the maker's GPU power "
        f"cable, which must end in {plug}"
    )
    is_passive = any(card.cooling == "passive" for card in strong)
    fans = ", and its high-performance fans, as the card has none" if is_passive else ""
    has_risers = is_rack_server(board) and board.max_cards < CARDS_WITHOUT_RISERS
    riser = " and the riser with x16 slots of double width" if has_risers else ""
    remedy = f"that cable{riser}, by the maker's GPU kit for it{fans}"
    return Finding(0, len(strong), False, why, remedy)


FEWEST_PLUGS_OF_LARGE: Final = 4
"""Fewest 8-pin plugs of a supply of 1,000 W and more: a smaller number in an unchecked record may be that of cables.
Own assumption."""
LARGE_SUPPLY_W: Final = 1000.0


def _may_count_cables(psu: Psu) -> bool:
    return psu.power_w >= LARGE_SUPPLY_W and psu.num_8_pin < FEWEST_PLUGS_OF_LARGE and not psu.sold_with


PLUGS_FRACTION: Final = 0.5
"""Power of the fewest 8-pin plugs that supplies have, over their rating: 2,416 of the 2,492 supplies of 450 W and more
whose plugs are counted have as many or more, a plug of 16 pins taken as two."""
TWO_EPS_FROM_W: Final = 1000.0
"""Rating from which a supply whose plugs no source counts is taken to have two for CPUs [W]: 518 of the 558 supplies of
this size that are counted do."""


def _fewest_plugs(psu: Psu) -> int:
    """Number of 8-pin plugs of a supply; the fewest of its size if no source counts them, and none of the own supply of
    a machine, which has the leads that its maker chose."""
    if PLUGS_UNKNOWN not in psu.flags or psu.sold_with:
        return psu.num_8_pin
    return math.floor(PLUGS_FRACTION * psu.power_w / EIGHT_PIN_W)


def _fewest_eps(psu: Psu) -> int:
    """Number of CPU plugs of a supply; the fewest of its size if no source counts them."""
    return psu.num_eps if PLUGS_UNKNOWN not in psu.flags else 2 if psu.power_w >= TWO_EPS_FROM_W else 1


def _supply_words(supplies: Supplies) -> str:
    return "a usual supply of this size" if _is_typical(supplies) else "the supply"


def _is_typical(supplies: Supplies) -> bool:
    return any(TYPICAL in psu.flags for psu in supplies.psus)


def _as_known(finding: Finding, supplies: Supplies) -> Finding:
    """Return the finding as unknown if it fails on the figures of a usual supply or of a product line, which the user's
    may exceed, on a count of cables, each of which may end in two plugs, or on one that no maker's page confirmed."""
    is_of_line = any(PLUGS_OF_LINE in psu.flags for psu in supplies.psus)
    is_doubtful = is_of_line or _is_typical(supplies) or any(map(_may_count_cables, supplies.psus))
    is_doubtful |= any(UNVERIFIED in psu.flags for psu in supplies.psus) and (
        max(finding.actual, finding.limit) * EIGHT_PIN_W <= supplies.power_w
    )
    if finding.passed or not is_doubtful:
        return finding
    return finding._replace(is_unknown=True, remedy="count the plugs of yours, or name its model")


EPS_W: Final = 336.0
"""Power that an 8-pin plug carries to a CPU [W]: four contacts of 7 A at 12 V (ATX12V design guide, EPS12V)."""


def _eps_needed(cpu: Cpu) -> int:
    """Number of 8-pin plugs that the CPUs need: one each, or as many as their power takes."""
    return max(cpu.series.num_cpus, math.ceil(cpu.power_w / EPS_W))


@match_rule(
    "eps-plugs",
    "power plugs for the CPU",
    "plugs",
    board=lambda board: board.num_eps,
    cpu=_eps_needed,
    supplies=lambda supplies: (
        sum(map(_fewest_eps, supplies.psus)),
        any(PLUGS_UNKNOWN in psu.flags for psu in supplies.psus),
    ),
)
def eps_plugs(board: Board, cpu: Cpu, supplies: Supplies, setting: Setting) -> Finding:
    """Compare the 8-pin plugs that the CPU needs, of those that the board has, with those of the supply."""
    wanted = min(_eps_needed(cpu), board.num_eps)
    given = sum(psu.num_eps for psu in supplies.psus)
    spare = "" if wanted == board.num_eps else f" of the board's {board.num_eps}; the rest may stay empty"
    if any(PLUGS_UNKNOWN in psu.flags for psu in supplies.psus):
        fewest = sum(map(_fewest_eps, supplies.psus))
        why = f"the CPU wants {wanted} plugs{spare}; no record counts those of the supply, {fewest} are usual"
        return Finding(fewest, wanted, wanted <= fewest, why, "count them, or name another supply", True)
    why = f"the CPU wants {wanted} plugs{spare}, {_supply_words(supplies)} has {given}"
    if wanted <= 1:
        return Finding(given, wanted, True, why)
    return _as_known(at_least(given, wanted, why, "a supply with more CPU plugs"), supplies)


@match_rule(
    "psu-advised",
    "supply that the card's maker advises",
    "W",
    "advice",
    cards=lambda cards: (cards.num, cards.accelerators, cards.power_w),
    supplies=lambda supplies: supplies.power_w,
)
def supply_advice(cards: Cards, supplies: Supplies, setting: Setting) -> Finding | None:
    """Compare the supply with the one that the maker advises for a machine with one such card; a power limit takes off
    what it saves. None for several cards, and where no advice was read."""
    advice = parts.advised_supply(cards.accelerators)
    if advice is None or cards.num != 1:
        return None
    saved_w = _rated_w(cards) - cards.power_w
    wanted = advice.watts - saved_w
    held = f" ({wanted:.0f} W with the cards held to {cards.power_w:.0f} W)" if saved_w >= 1.0 else ""
    told = f"the maker of the {advice.accelerator} advises {advice.watts:.0f} W{held}"
    why = f"{told}; the supply has {supplies.power_w:.0f} W"
    remedy = f"{parts.usual_supply_w(wanted):.0f} W of supply, or a lower power limit and a good supply"
    return at_least(supplies.power_w, wanted, why, remedy)


GRADED_FROM_W: Final = 300.0
"""Rated power of the cards from which a supply of `GOOD_GRADES` feeds them [W]: it costs $50 more, and its failure
takes the cards along. Own assumption."""
GOOD_GRADES: Final = ("gold", "platinum", "titanium")


def _rated_w(cards: Cards) -> float:
    """Power of the cards without a power limit [W]."""
    return sum(card.power_w for card in cards.cards)


@match_rule(
    "psu-class",
    "class of the supply",
    "",
    "advice",
    cards=lambda cards: _rated_w(cards) >= GRADED_FROM_W,
    supplies=lambda supplies: tuple((psu.grade, GRADE_UNKNOWN in psu.flags) for psu in supplies.psus),
)
def psu_class(cards: Cards, supplies: Supplies, setting: Setting) -> Finding | None:
    """Judge the grade of a supply that feeds strong cards."""
    if _rated_w(cards) < GRADED_FROM_W:
        return None
    if any(GRADE_UNKNOWN in psu.flags and psu.grade not in GOOD_GRADES for psu in supplies.psus):
        why = f"no source states the grade of the supply, which feeds {_rated_w(cards):.0f} W of cards"
        return Finding(0, 1, False, why, "one of grade gold or better", True)
    grade = min((psu.grade for psu in supplies.psus), key=lambda grade: grade in GOOD_GRADES)
    why = f"a supply of grade {grade} feeds {_rated_w(cards):.0f} W of cards"
    return holds(grade in GOOD_GRADES, why, "a supply of grade gold or better")


@sum_rule(
    "psu-reset",
    "supply without power limits",
    severity="advice",
    needs={
        "cards": lambda cards, setting: _rated_w(cards),
        "cpu": _cpu_w,
        "case": _saved_w,
        "displays": _displays_w,
    },
    base_need=lambda setting: OTHERS_W,
    absent={"cpu": USUAL_CPU_W},
    gives={"supplies": lambda supplies, setting: supplies.power_w},
    required=("cards", "supplies"),
    # Of cards without a limit psu-headroom judges the same draw.
    concerns=lambda machine: machine.cards is not None and machine.cards.power_fraction < 1.0,
)
def psu_reset(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the draw after a restart, before a service sets the power limits of the cards again."""
    why = f"without power limits everything draws {actual:.0f} W, the supply has {limit:.0f} W"
    return why, "a larger supply: limits end with each restart until a service sets them"


@match_rule(
    "dual-psu",
    "place for a second supply",
    "supplies",
    supplies=lambda supplies: len(supplies.psus),
    case=lambda case: (case.num_psus, case.open_frame, UNVERIFIED in case.flags),
)
def two_supplies(supplies: Supplies, case: Case, setting: Setting) -> Finding | None:
    """Judge the place of a second supply; an open frame has room for any."""
    num = len(supplies.psus)
    if num == 1:
        return None
    if num <= case.num_psus or case.open_frame:
        return Finding(num, num, True, f"{case.name} has places for {num} supplies")
    is_unknown = UNVERIFIED in case.flags
    why = f"{case.name} holds {case.num_psus} supply" + (", as far as a record says" if is_unknown else "")
    return Finding(num, case.num_psus, False, why, "an open frame, or one supply", is_unknown)


@match_rule(
    "psu-start",
    "start of a second supply",
    "supplies",
    supplies=lambda supplies: (len(supplies.psus), supplies.link is not None),
    board=lambda board: (board.num_24_pin, SERVER in board.flags),
)
def supplies_start(supplies: Supplies, board: Board, setting: Setting) -> Finding | None:
    """Judge whether every supply starts with the board; a machine that is sold whole starts its own."""
    return None if SERVER in board.flags else start_of_supplies(supplies, board.num_24_pin, board.name)


def start_of_supplies(supplies: Supplies, num_inputs: int, board: str) -> Finding | None:
    """Return the finding on supplies that start by inputs of a board or a lead; None for one supply."""
    num = len(supplies.psus)
    if num == 1:
        return None
    if num <= num_inputs:
        return Finding(num, num, True, f"{board} has {num_inputs} inputs of 24 pins, one for each supply")
    starts = "a lead starts the second supply with the first"
    why = starts if supplies.link else "nothing starts the second supply"
    return Finding(num, num if supplies.link else 1, supplies.link is not None, why, "add a dual-supply lead")


@match_rule("psu-reserve", "supplies of a server as a reserve", "W", "advice", planned=False)
def reserve(cards: Cards, cpu: Cpu, board: Board, supplies: Supplies, setting: Setting) -> Finding | None:
    """Compare the load of a server with what is left if one of its supplies fails; None of one supply."""
    if SERVER not in board.flags or len(supplies.psus) < 2:
        return None
    load_w = cards.power_w + cpu.power_w + OTHERS_W
    left_w = supplies.power_w - max(psu.power_w for psu in supplies.psus)
    why = f"{load_w:.0f} W under load; if one supply fails, {left_w:.0f} W are left: not redundant"
    return at_most(load_w, left_w, why, "the maker's larger supplies, or lower power limits")


def _larger_circuit(circuit: Circuit) -> str:
    """Return the next usual circuit: of the same voltage where that is high, as in Europe, else of 240 V."""
    amps = next((one for one in HIGH_VOLTAGE_AMPS if one > circuit.amps), 2.0 * circuit.amps)
    return str(Circuit(circuit.volts, amps) if circuit.volts >= HIGH_VOLTS else Circuit(240.0, 20.0))


HIGH_VOLTAGE_AMPS: Final = (16.0, 20.0, 32.0)
"""Usual circuits at 220 to 240 V [A] (IEC 60898-1, preferred values)."""


@_power_rule(
    "circuit",
    "wall circuit (as power behind the supply)",
    gives={"supplies": lambda supplies, setting: setting.circuit.continuous_w * supplies.efficiency},
    required=("cards", "supplies"),
)
def circuit(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the power that the machine draws for hours against the limit of its circuit."""
    efficiency = machine.supplies.efficiency if machine.supplies else 1.0
    wall = setting.circuit
    why = (
        f"{actual / efficiency:.0f} W at the wall at full power; {wall} carries {wall.continuous_w:.0f} W for hours "
        f"({wall.continuous_fraction:.0%})"
    )
    return why, f"another circuit ({_larger_circuit(wall)}), or {_cap_that_fits(actual, limit, machine)}"


@_power_rule(
    "room-heat",
    "heat into the room (as power behind the supply)",
    severity="advice",
    gives={"supplies": lambda supplies, setting: setting.room_cooling_w * supplies.efficiency},
    required=("cards", "supplies"),
)
def room_heat(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the room, in which all power becomes heat."""
    efficiency = machine.supplies.efficiency if machine.supplies else 1.0
    heat = actual / efficiency
    why = f"{heat:.0f} W of heat ({heat * 3.412:.0f} BTU/h) into a room that loses {setting.room_cooling_w:.0f} W"
    return why, "cooling for the room (--room-cooling), another room, or lower power limits"


def _airflow_w(case: Case, setting: Setting) -> float:
    return CASE_AIRFLOW_W[_size_of(case)]


def _size_of(case: Case) -> str:
    return next((size for size in CASE_AIRFLOW_W if size in case.form_factor), "Mid")


@_power_rule(
    "case-airflow",
    "heat out of the case",
    severity="advice",
    gives={"case": _airflow_w},
    required=("cards", "case"),
)
def case_airflow(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the heat inside against what the case's fans remove."""
    size = f" of the size {_size_of(machine.case)}" if machine.case else ""
    why = f"{actual:.0f} W inside; the fans of a case{size} carry off about {limit:.0f} W"
    return why, "a larger case or an open frame"


def loudness(level_db: float) -> float:
    """Sound power in units in which sources add up: 10^(L / 10), for a level L in decibels."""
    return float(10.0 ** (level_db / 10.0))


def _cards_loudness(cards: Cards, setting: Setting) -> float:
    loud = (card for card in cards.cards if card.cooling != "passive")
    return sum(loudness(card_noise_db(card, cards.power_fraction)) for card in loud)


@sum_rule(
    "noise",
    "noise",
    unit="dB(A)",
    severity="advice",
    needs={"cards": _cards_loudness, "cooler": lambda cooler, setting: loudness(COOLER_DB)},
    gives={},
    base_give=lambda setting: loudness(setting.max_noise_db),
    show=lambda value: 10.0 * math.log10(max(value, 1.0)),
    required=("cards",),
)
def noise(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the noise; sources add up as powers."""
    why = f"about {actual:.0f} dB(A) at one metre under load, a rough estimate from power and coolers"
    return why, "lower power limits, or another room"


def cooler_capacity_w(cooler: Cooler, setting: Setting) -> float:
    """Heat that a cooler takes from a CPU [W]: as its maker rates it, else by radiator or by height; towers made only
    for the large sockets cover their heat spreader and take more.

    Source: the makers' pages; own estimate from reviews' typical figures where they rate none.
    """
    if cooler.rated_w is not None:
        return cooler.rated_w
    if cooler.radiator_m is not None:
        sizes = {0.12: 150.0, 0.14: 170.0, 0.24: 250.0, 0.28: 280.0, 0.36: 350.0, 0.42: 400.0}
        return max((w for size, w in sizes.items() if size <= cooler.radiator_m + 1e-6), default=120.0)
    if "fanless" in cooler.name.lower():
        return 95.0
    height = cooler.height_m or 0.0
    if set(cooler.sockets) <= set(LARGE_SOCKETS):
        return 350.0 if height >= 0.14 else 200.0
    # The largest towers run a Core of 253 W at its limit.
    return 255.0 if height >= 0.15 else 180.0 if height >= 0.12 else 120.0 if height >= 0.08 else 65.0


def _has_unknown_capacity(machine: Assembly) -> bool:
    """Whether a cooler made only for the large sockets has no rating: those for servers have fans of which their height
    tells nothing."""
    cooler = machine.cooler
    return (
        cooler is not None
        and cooler.rated_w is None
        and cooler.radiator_m is None
        and set(cooler.sockets) <= set(LARGE_SOCKETS)
    )


LARGE_SOCKETS: Final = (
    "sTR4",
    "sTRX4",
    "sWRX8",
    "sTR5",
    "SP3",
    "SP5",
    "SP6",
    "LGA3647",
    "LGA4189",
    "LGA4677",
    "LGA4710",
)


@sum_rule(
    "cooler-power",
    "cooler against the CPU's heat",
    severity="advice",
    needs={"cpu": _cpu_w},
    gives={"cooler": cooler_capacity_w},
    required=("cpu", "cooler"),
    in_doubt=_has_unknown_capacity,
)
def cooler_power(actual: float, limit: float, machine: Assembly, setting: Setting) -> tuple[str, str]:
    """Return words on the CPU's heat against the cooler's limit."""
    cooler = machine.cooler
    if cooler is not None and cooler.rated_w is not None:
        capacity = f"the cooler is rated up to {limit:.0f} W"
    elif _has_unknown_capacity(machine):
        capacity = f"no record holds the rating of the cooler, by its height about {limit:.0f} W"
    else:
        capacity = f"a cooler like this about {limit:.0f} W"
    return f"the CPU takes up to {actual:.0f} W, {capacity}", "a larger cooler"


POWER_RULES: Final = (
    psu_headroom,
    psu_transient,
    psu_plugs,
    card_lead,
    server_kit,
    eps_plugs,
    supply_advice,
    psu_class,
    psu_reset,
    two_supplies,
    supplies_start,
    reserve,
    circuit,
    room_heat,
    case_airflow,
    cooler_power,
    noise,
)


def wall_power_w(machine: Assembly) -> float:
    """Power at the wall while the cards run a model [W]: the draw of the parts over the supply's efficiency."""
    efficiency = machine.supplies.efficiency if machine.supplies else EFFICIENCY["gold"]
    return running_power_w(machine.cards, machine.cpu) / efficiency
