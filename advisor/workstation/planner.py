"""Best machines for a budget or a target: the exact frontier of parts, and complete systems."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook, price_of, second_hand_prices
from advisor.catalog.schema.part import Part, System
from advisor.catalog.units import GB
from advisor.workstation.assembly import SERVER, Assembly, Check
from advisor.workstation.candidates import (
    PartCandidate,
    ResidentRuns,
    all_candidates,
    can_exceed_on_cpu,
    usd_of,
)
from advisor.workstation.hardware import power_points_of
from advisor.workstation.knee import dependable_speed_of, is_beaten, knee, speed_of, steps
from advisor.workstation.optimiser import Program, Solution
from advisor.workstation.performance import ram_needed_bytes
from advisor.workstation.plan import Build, PlanResult, Question
from advisor.workstation.rents import RentMarket, rent_market
from advisor.workstation.rule_book import judge, planning_rules
from advisor.workstation.rules import Finding, MatchRule, Rule, SumRule
from advisor.workstation.rules_fit import card_height, card_length
from advisor.workstation.rules_power import POWER_RULES, psu_plugs, psu_reset
from advisor.workstation.valuation import build_of, system_of

CHEAPER_BY: Final = 0.85
"""Highest price of each further build over that of the one before."""
LEAST_FRONTIER: Final = 4
"""Number of machines among which the knee is sought, however few are shown."""
SAME_SPEED: Final = 0.99
"""Ratio of speeds above which two machines count as equally fast: predictions err by more, and prices do not. With
LEAST_GAIN, which counts once for bandwidth and once for power, it keeps the best machine within 3 % of any other for
the money."""
WHAT_IS_USUAL: Final = frozenset(("cpu-class", "display", "frame", "psu-advised", "psu-reset"))
"""Rules on what builders usually take, which the planner keeps where that costs no speed for the money."""
SYSTEM_FILES_BYTES: Final = 200 * GB
USUAL_DRIVES: Final = ((15_000.0, 4000 * GB), (5_000.0, 2000 * GB))
"""Budget from which a drive of that size is usual [USD, bytes]: users keep many models, and the drive costs little."""


def plan(question: Question, book: PriceBook, market: RentMarket | None = None) -> PlanResult:
    """Return the fastest machine within the budget, or the cheapest that reaches the target, and what less money buys.

    Raises: InfeasibleError: no machine of parts that have a price does it; the hint is the cheapest that does.
    """
    started = time.perf_counter()
    question = complete_question(question)
    program, solutions = _best_machines(question, book)
    market = market or rent_market(question)
    builds = [_build(solution, question, book, market) for solution in solutions]
    complete = _systems(question, book, market) if question.systems else []
    doubts = {build.name: doubt for build in complete if (doubt := _price_doubt(build, book))}
    doubted = [f"{build.name} ({doubts[build.name]})" for build in complete if build.name in doubts]
    complete = [build for build in complete if build.name not in doubts]
    builds += [build for build in complete if not _faults(build)]
    new = [build for build in _sort_builds(builds, question) if not build.is_used]
    second_hand = _second_hand(program, new, question, book, market)
    builds += [build for build in second_hand if not _is_matched(build, new)]
    if not builds:
        raise _nothing(program, question, book)
    ordered = _sort_builds(builds, question)
    beside = new[0] if new and not ordered[0].is_used else None
    return PlanResult(
        builds=first_builds(ordered, question.top),
        saving=_best_saving(beside, builds, question) if beside is not None else None,
        gaining=_best_gain(beside, builds) if beside is not None else None,
        unpriced=count_unpriced(book),
        num_binaries=program.size[0],
        num_inequalities=program.size[1],
        wall_s=time.perf_counter() - started,
        left_out=[
            *(f"{build.name} ({faults[0].why})" for build in complete if (faults := _faults(build))),
            *doubted,
        ],
    )


def complete_question(question: Question) -> Question:
    """Return the question with the memory and drive that its model needs, and the usual drive for the budget."""
    needed = ram_needed_bytes(question.load)
    counts_prompts = question.load.counts_prompts and question.target_tokens_per_s is None
    load = replace(question.load, counts_prompts=counts_prompts)
    usual = next((size for limit, size in USUAL_DRIVES if (question.budget_usd or 0.0) >= limit), 0.0)
    setting = replace(
        question.setting,
        ram_needed_bytes=needed,
        storage_needed_bytes=max(
            question.setting.storage_needed_bytes, 2 * needed + SYSTEM_FILES_BYTES, usual
        ),
    )
    return replace(question, setting=setting, load=load)


def candidates_for(
    question: Question, book: PriceBook, *, faster_than: float = 0.0, known: ResidentRuns | None = None
) -> Mapping[str, Sequence[PartCandidate]]:
    """Return every part that an answer can contain, by place; without the sets of cards that leave layers to the CPU
    and cannot exceed `faster_than` [tokens/s].

    Raises: AdvisorError: a format does not exist.
    """
    limits = replace(question.limits, max_usd=question.budget_usd or math.inf)
    return all_candidates(
        question.load,
        question.setting,
        book,
        limits,
        faster_than=faster_than,
        known=known,
        have=question.have,
    )


def program_for(question: Question, book: PriceBook, *, faster_than: float = 0.0) -> Program:
    """Return the program over every part that an answer can contain, as `candidates_for`."""
    candidates = candidates_for(question, book, faster_than=faster_than)
    return Program(candidates, rules_of(question), question.setting)


def rules_of(question: Question) -> tuple[Rule, ...]:
    """Return the rules that a machine keeps, without advice that the parts which the user has do not keep, or on what
    one of them gives: it does not force other parts on the user."""
    rules = planning_rules(question.setting)
    if question.have is None:
        return rules
    checks = judge(question.have, question.setting)
    ignored = {check.rule for check in checks if check.severity == "advice" and not check.passed}
    ignored |= {
        rule.id
        for rule in rules
        if isinstance(rule, SumRule) and rule.severity == "advice"
        if any(getattr(question.have, place) for place in rule.gives)
    }
    if question.have.supplies is not None:
        on_supply = (rule for rule in rules if isinstance(rule, MatchRule) and "supplies" in rule.between)
        ignored |= {rule.id for rule in on_supply if rule.severity == "advice"}
    board = question.have.board
    is_whole = board is not None and SERVER in board.flags
    kept = (rule for rule in rules if rule.id not in ignored)
    return tuple(_with_doubts(rule) if is_whole and rule.id in OF_WHOLE_MACHINES else rule for rule in kept)


OF_WHOLE_MACHINES: Final = frozenset((psu_plugs.id, card_length.id, card_height.id))
"""Rules on what makers of whole machines seldom publish: where it is not known, an owner looks it up, and the machine
is not replaced for it."""


def _with_doubts(rule: Rule) -> Rule:
    """Return a rule that parts keep unless they are known to break it."""
    if not isinstance(rule, MatchRule):
        return rule
    judge_parts = rule.judge

    def judge_known(*parts_and_setting: object) -> Finding | None:
        found = judge_parts(*parts_and_setting)
        return found._replace(passed=True) if found is not None and found.is_unknown else found

    return replace(rule, judge=judge_known)


def _best_machines(question: Question, book: PriceBook) -> tuple[Program, list[Solution]]:
    """Return the program and its best machines. Cards that leave layers to the CPU enter only if their bound exceeds
    what cards that hold the whole model reach for the money."""
    if question.target_tokens_per_s is not None:
        program = program_for(question, book, faster_than=question.target_tokens_per_s)
        return program, _frontier(program, question)
    known: ResidentRuns = {}
    candidates = candidates_for(question, book, faster_than=math.inf, known=known)
    money = question.budget_usd if question.budget_usd is not None else math.inf
    program, first, is_narrow = _fastest_of(candidates, question, money)
    resident = first.tokens_per_s if first else 0.0
    named = [one for found in candidates.values() for one in found]
    if can_exceed_on_cpu(question.load, known, named, resident):
        candidates = candidates_for(question, book, faster_than=resident, known=known)
        narrow = _without_waiting(candidates) if is_narrow else None
        program = Program(narrow or candidates, rules_of(question), question.setting)
        first = None
    return program, _frontier(program, question, first)


def _fastest_of(
    candidates: Mapping[str, Sequence[PartCandidate]], question: Question, money: float
) -> tuple[Program, Solution | None, bool]:
    """Return the program of parts whose cache leaves no stream waiting with its fastest machine for the money, or, if
    it has none, the program of all parts with that; and whether it is the first."""
    narrow = _without_waiting(candidates)
    if narrow is not None:
        program = Program(narrow, rules_of(question), question.setting)
        first = fastest_for(program, money, used=question.used)
        if first is not None:
            return program, first, True
    program = Program(candidates, rules_of(question), question.setting)
    return program, fastest_for(program, money, used=question.used), False


def _without_waiting(
    candidates: Mapping[str, Sequence[PartCandidate]],
) -> Mapping[str, Sequence[PartCandidate]] | None:
    """Return the parts without the cards whose cache leaves streams waiting; None if none or all of them do: whoever
    states streams wants all of them served at once, where the money buys that."""
    cards = [one for one in candidates.get("cards", ()) if one.run is not None]
    able = [one for one in cards if one.run is not None and not one.run.num_waiting]
    if not able or len(able) == len(cards):
        return None
    kept = [one for one in candidates["cards"] if one.run is None or not one.run.num_waiting]
    return {**candidates, "cards": kept}


def _frontier(program: Program, question: Question, first: Solution | None = None) -> list[Solution]:
    """Return the machines from the best down, each the fastest for its money (with a target, the cheapest first);
    `first` is the best one if it is known."""
    money = question.budget_usd if question.budget_usd is not None else math.inf
    if question.target_tokens_per_s is not None:
        target = question.target_tokens_per_s
        first = cheapest_for(program, money, target, used=question.used)
        return _faster(program, first, money, question) if first else []
    return _descend(program, money, max(question.top, LEAST_FRONTIER), used=question.used, first=first)


def _descend(
    program: Program, money: float, num: int, *, used: bool, first: Solution | None = None
) -> list[Solution]:
    """Return the fastest machine for the money, then the fastest for a good part less, and so on; `first` is the first
    one if it is known."""
    found: list[Solution] = []
    while len(found) < num:
        solution = first if first is not None and not found else fastest_for(program, money, used=used)
        if solution is None:
            break
        found.append(solution)
        if not solution.usd:
            break  # the parts that the user has, which nothing undercuts
        money = CHEAPER_BY * solution.usd
    return found


def fastest_for(program: Program, money: float, *, least: float = 0.0, used: bool = False) -> Solution | None:
    """Return the cheapest machine that is as fast as any for the money, within the error of a prediction; None if none
    reaches `least` [tokens/s].

    Source: two programs: the highest speed, then the lowest price within SAME_SPEED of it. Rules on what is usual
    decide only where they cost no speed.
    """
    fastest = program.solve(
        max_usd=money, min_tokens_per_s=least, maximise_speed=True, used=used, without=WHAT_IS_USUAL
    )
    if fastest is None:
        return None
    enough = SAME_SPEED * fastest.tokens_per_s
    cheapest = cheapest_for(program, money, enough, used=used)
    if cheapest is None:
        return fastest
    return replace(cheapest, gap=max(fastest.gap, cheapest.gap))


def cheapest_for(program: Program, money: float, least: float, *, used: bool = False) -> Solution | None:
    """Return the cheapest machine of at least a speed [tokens/s]: of usual parts, else with a supply that needs the
    power limits of its cards, else of any parts."""
    for without in (frozenset[str](), frozenset((psu_reset.id,)), WHAT_IS_USUAL):
        found = program.solve(
            max_usd=money, min_tokens_per_s=least, maximise_speed=False, used=used, without=without
        )
        if found is not None:
            return found
    return None


def _build(solution: Solution, question: Question, book: PriceBook, market: RentMarket) -> Build:
    """Return a machine of the planner, with second-hand prices if its cards are second-hand, which its name tells."""
    used = {candidate.place for candidate in solution.candidates if candidate.is_used}
    prices = {**book, **second_hand_prices(book)} if "cards" in used else book
    machine = raise_power(solution.machine, question)
    is_whole = machine.board is not None and bool(machine.board.sold_with)  # its name says that it is used
    told = [
        word for place, word in _USED_WORDS.items() if place in used and not (is_whole and place == "board")
    ]
    words = " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:])))
    name = machine_name(machine) + (f", used {words}" if words and not question.used else "")
    build = build_of(name, machine, question, prices, market, gap=solution.gap)
    return replace(build, is_used=bool(used) and not question.used)


_USED_WORDS: Final = {"cards": "cards", "cpu": "CPU", "board": "board"}
"""Second-hand parts that the name of a machine tells, by place; a bridge or a cable stands in its bill alone."""


def raise_power(machine: Assembly, question: Question, more: Sequence[float] = ()) -> Assembly:
    """Return the machine with its cards at the highest power limit, of those tried and `more` [over rated power], under
    which it keeps every rule: a limit that its supply, circuit and case do not need only costs speed."""
    cards = machine.cards
    if cards is None or not cards.cards:
        return machine
    rules = [rule for rule in rules_of(question) if rule.planned]
    usual = power_points_of(cards.accelerators[0], question.limits.power_points)
    for fraction in sorted({*usual, *more}, reverse=True):
        if fraction <= cards.power_fraction:
            break
        raised = replace(machine, cards=replace(cards, power_fraction=fraction))
        checks = (rule.check(raised, question.setting) for rule in rules)
        if all(check is None or check.passed for check in checks):
            return raised
    return machine


def _second_hand(
    program: Program, new: Sequence[Build], question: Question, book: PriceBook, market: RentMarket
) -> list[Build]:
    """Return the cheapest machine with second-hand parts that is as fast as the first new one, the fastest for the
    money, and the fastest for less than any new one costs; where nothing new does it, the frontier of machines with
    second-hand parts."""
    money = question.budget_usd if question.budget_usd is not None else math.inf
    target = question.target_tokens_per_s
    if question.used or not any(candidate.is_used for candidate in program.candidates):
        return []  # whoever takes second-hand parts has them among the others
    if not new:
        found: list[Solution | None] = [*_frontier(program, replace(question, used=True))]
    elif target is not None:
        found = [cheapest_for(program, new[0].total_usd, target, used=True)]
    else:
        enough = SAME_SPEED * speed_of(new[0])
        least_usd = min(build.total_usd for build in new)
        found = [
            cheapest_for(program, new[0].total_usd, enough, used=True),
            fastest_for(program, money, least=enough, used=True),
            fastest_for(program, CHEAPER_BY * least_usd, used=True),
        ]
    able = [one for one in found if one is not None and any(part.is_used for part in one.candidates)]
    distinct = {tuple(map(id, one.candidates)): one for one in able}
    return [_build(one, question, book, market) for one in distinct.values()]


def _is_matched(build: Build, others: Sequence[Build]) -> bool:
    """Whether another machine is as fast for no more money."""
    return any(
        other.total_usd <= build.total_usd and speed_of(other) >= SAME_SPEED * speed_of(build)
        for other in others
    )


def _best_saving(head: Build, builds: Sequence[Build], question: Question) -> Build | None:
    """Return the cheapest machine with second-hand parts that is as fast as the first new one, or reaches the target
    too, and costs less; None if there is none, or its price is one page's estimate."""
    least = SAME_SPEED * speed_of(head) if question.target_tokens_per_s is None else 0.0
    able = (
        build
        for build in builds
        if build.is_used
        and not build.rests_on_one_estimate
        and build.total_usd < head.total_usd
        and speed_of(build) >= least
    )
    return min(able, key=lambda build: build.total_usd, default=None)


def _best_gain(head: Build, builds: Sequence[Build]) -> Build | None:
    """Return the fastest machine with second-hand parts if it is `LEAST_USED_GAIN` times as fast as the first new one;
    None if there is none, or its price is one page's estimate."""
    used = (build for build in builds if build.is_used and not build.rests_on_one_estimate)
    best = max(used, key=dependable_speed_of, default=None)
    is_faster = best is not None and dependable_speed_of(best) >= LEAST_USED_GAIN * speed_of(head)
    return best if is_faster else None


LEAST_USED_GAIN: Final = 1.25
"""Speed of a machine with second-hand parts over that of the first new one from which an answer names it. Own choice:
predictions err by as much."""


def _faster(program: Program, first: Solution, money: float, question: Question) -> list[Solution]:
    """Return the cheapest machine that is fast enough, then the cheapest ones that are each a quarter faster."""
    found = [first]
    while len(found) < question.top:
        target = 1.25 * found[-1].tokens_per_s
        solution = cheapest_for(program, money, target, used=question.used)
        if solution is None:
            break
        found.append(solution)
    return found


def _systems(question: Question, book: PriceBook, market: RentMarket) -> list[Build]:
    found = []
    wanted = question.limits.accelerators
    for system in parts.systems():
        usd = usd_of(system, book)
        if wanted and system.accelerator not in wanted:
            continue
        if usd is None or usd > (question.budget_usd or math.inf):
            continue
        build = system_of(system, question, book, market)
        if build is not None and _is_fast_enough(build, question):
            found.append(build)
    return found


def _price_doubt(build: Build, book: PriceBook) -> str:
    """Return why the price of a complete machine is no basis of an answer: one page's estimate that is far below
    what new machines of the maker of its chip cost for the same memory. Empty if it is one."""
    if not build.rests_on_one_estimate:
        return ""
    records = {system.name: system for system in parts.systems()}
    own = records[build.name]
    vendor = accelerators.by_id(own.accelerator).vendor
    alike = (one for one in records.values() if accelerators.by_id(one.accelerator).vendor == vendor)
    prices = ((one, price_of(one, book)) for one in alike if one is not own)
    usual = [
        price.usd / _memory_gb(one) for one, price in prices if price is not None and price.condition == "new"
    ]
    each = build.total_usd / _memory_gb(own)
    if len(usual) < LEAST_PEERS or each >= IMPLAUSIBLE_BELOW * statistics.median(usual):
        return ""
    return (
        f"{build.total_usd:,.0f} USD on {build.parts[0].price_observed_on} is one page's estimate, {each:.0f} USD "
        f"for a GB of memory where new machines with chips of {vendor} cost {statistics.median(usual):.0f}: look at "
        "sold listings"
    )


def _memory_gb(system: System) -> float:
    return system.num_accelerators * system.memory_bytes / GB


LEAST_PEERS: Final = 3
"""Number of new machines that make a usual price. Own choice."""
IMPLAUSIBLE_BELOW: Final = 0.3
"""Price for a GB of memory over the median of new machines below which an estimate is not believed. Own choice:
machines lose 28 % a year (economics), so that this is one of three and a half years at the price of its class."""


def _faults(build: Build) -> tuple[Check, ...]:
    """Return the checks for which a complete machine is not planned: broken ones, then unknown ones."""
    return (*build.broken, *build.unknown)


def _is_fast_enough(build: Build, question: Question) -> bool:
    if question.target_tokens_per_s is None:
        return True
    return build.performance is not None and (
        build.performance.decode_tokens_per_s.value >= question.target_tokens_per_s
    )


def _sort_builds(builds: Sequence[Build], question: Question) -> tuple[Build, ...]:
    """Return the builds: with a target the cheapest new one first and then by price, else the knee and then by speed;
    then those whose price is one page's estimate, and last those that another beats in both. Second-hand machines are
    steps to the knee only where nothing new comes near them."""
    by_price = question.target_tokens_per_s is not None
    far = not by_price and _is_far_ahead(builds)
    ladder = steps([replace(build, is_used=False) for build in builds] if far else builds)
    best = min(ladder, key=lambda step: step.total_usd, default=None) if by_price else knee(ladder)
    first = None if best is None else (best.name, best.total_usd)
    return tuple(
        sorted(
            builds,
            key=lambda b: (
                is_beaten(b, builds),
                b.rests_on_one_estimate,
                (b.name, b.total_usd) != first,
                b.total_usd if by_price else -speed_of(b),
                b.total_usd,
            ),
        )
    )


def _is_far_ahead(builds: Sequence[Build]) -> bool:
    """Whether a machine with second-hand parts is `FAR_AHEAD` times as fast as any new one."""
    new = [dependable_speed_of(build) for build in builds if not build.is_used]
    used = (dependable_speed_of(one) for one in builds if one.is_used and not one.rests_on_one_estimate)
    return bool(new) and max(used, default=0.0) >= FAR_AHEAD * max(new)


FAR_AHEAD: Final = 2.0
"""Speed of a machine with second-hand parts over that of the fastest new one for the money from which it may head an
answer: a new PC without a card does not do what a used card does. Own choice."""


def first_builds(
    builds: Sequence[Build], top: int, speed: Callable[[Build], float] = speed_of
) -> tuple[Build, ...]:
    """Return the first machines, and in place of the last ones those that are as fast as the first for less money, or
    faster for no more: a doubtful price or second-hand parts keep a machine from the head of an answer, and do not
    hide it."""
    head = builds[0]

    def rivals(build: Build) -> bool:
        is_cheaper = build.total_usd < head.total_usd and speed(build) >= SAME_SPEED * speed(head)
        return is_cheaper or (build.total_usd <= head.total_usd and speed(build) > speed(head))

    hidden = [build for build in builds[top:] if rivals(build)]
    kept = max(top - len(hidden), 1)
    return (*builds[:kept], *hidden[: top - kept])


def machine_name(machine: Assembly) -> str:
    """Return a machine's name by its cards: `2 x rtx-3090 at 70% power`."""
    cards = machine.cards
    if cards is None:
        return "machine"
    if not cards.cards:
        sold_with = machine.board.sold_with if machine.board else ""
        return f"{sold_with or (machine.cpu.name if machine.cpu else 'CPU')} without cards"
    kind = " + ".join(cards.accelerators)
    limit = f" at {cards.power_fraction:.0%} power" if cards.power_fraction < 1 else ""
    bridge = " with NVLink" if machine.bridges else ""
    host = f" in a {machine.board.sold_with}" if machine.board and machine.board.sold_with else ""
    return f"{cards.num} x {kind}{bridge}{limit}{host}"


def _nothing(program: Program, question: Question, book: PriceBook) -> InfeasibleError:
    """Return the error that says why there is no machine, and the cheapest machine without the budget."""
    target = question.target_tokens_per_s or 0.0
    model = question.load.model.id
    wanted = f" at {target:g} tokens/s" if target else ""
    open_question = replace(question, budget_usd=None)
    wide = program_for(open_question, book)
    cheapest = wide.solve(min_tokens_per_s=target, maximise_speed=False, used=True, without=WHAT_IS_USUAL)
    offers = [(cheapest.usd, machine_name(cheapest.machine))] if cheapest else []
    if question.systems:
        complete = _systems(open_question, book, RentMarket(()))
        sound = (build for build in complete if not _faults(build) and not _price_doubt(build, book))
        offers += [(build.total_usd, build.name) for build in sound]
    if not offers:
        return InfeasibleError(
            f"no machine of parts with a price, of up to {question.limits.max_cards} cards, runs {model}{wanted}",
            why=_in_the_way(wide, question, target),
            fix="a smaller format (--precision), more cards (--max-gpus), another --circuit, or fewer limits",
        )
    usd, name = min(offers)
    budget = f"${question.budget_usd:,.0f}" if question.budget_usd is not None else "the budget"
    return InfeasibleError(
        f"no machine for {budget} runs {model}{wanted}",
        why=f"the cheapest that does costs ${usd:,.0f}: {name}",
        fix=f"--budget {math.ceil(usd / 50.0) * 50}, a smaller model, or a smaller format",
        hint="your own prices: --price-file CSV",
    )


def _in_the_way(program: Program, question: Question, target: float) -> str:
    """Return words on the single rule that excludes every machine, and by how much the cheapest machine without it
    breaks it."""
    if not any(candidate.place == "cards" for candidate in program.candidates):
        return f"the model fits no {question.limits.max_cards} cards that have a price, in any format tried"
    fastest = float(program.speed.max(initial=0.0))
    if fastest < target:
        return f"the fastest cards reach {fastest:.0f} tokens/s"
    power_first = sorted(rules_of(question), key=lambda rule: rule not in POWER_RULES)
    for rule in power_first:
        solution = program.solve(min_tokens_per_s=target, maximise_speed=False, without={rule.id})
        check = rule.check(solution.machine, question.setting) if solution else None
        if check is not None:
            over = f"{check.excess:.0f} {check.unit}".strip()
            return f"rule {rule.id} stands in the way by {over}: {check.why}"
    return f"several rules together stand in the way, on a {question.setting.circuit} circuit"


def count_unpriced(book: PriceBook) -> Mapping[str, int]:
    """Return the number of parts without a price, by category."""
    counts: dict[str, int] = {}
    for category, found in parts.all_parts().items():
        missing = sum(usd_of(part, book) is None for part in _distinct(found))
        if missing:
            counts[category] = missing
    return counts


def _distinct(found: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple({part.name: part for part in found}.values())
