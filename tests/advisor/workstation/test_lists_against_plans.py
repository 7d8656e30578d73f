"""Law over generated lists of the whole catalog: no list that keeps the rules is faster than the plan for its money."""

import datetime
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from advisor.catalog import models, parts
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook, price_book, price_of
from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.workstation.assembly import Assembly, Cards, Circuit, Memory, Risers, Setting, Supplies
from advisor.workstation.candidates import SearchLimits
from advisor.workstation.part_names import kit_of
from advisor.workstation.performance import MachineLoad
from advisor.workstation.plan import Question
from advisor.workstation.planner import WHAT_IS_USUAL, complete_question, plan
from advisor.workstation.rents import RentMarket
from advisor.workstation.rule_book import planning_rules
from advisor.workstation.typed_line import read_line
from advisor.workstation.valuation import build_of

LISTS: Final = int(os.environ.get("ADVISOR_LISTS", "0")) or 4
"""Lists that the law is asked about; the suite asks four."""
FIRST: Final = int(os.environ.get("ADVISOR_FIRST_LIST", "5"))
"""Seed of the first list; each of the six seeds from 5 on has a list that keeps the rules."""
TOLERANCE: Final = 1.03
"""Largest ratio of the list's speed to the plan's: the planner counts speeds within 1 % as equal, three times."""
BOOK: Final = price_book()
USED_BOOK: Final = price_book(used=True)
"""Prices with those of second-hand parts, which count in every fourth list of the whole catalog."""
AS_OF: Final = datetime.date(2026, 11, 20)
MOST_TRIES: Final = 300
"""Compositions of parts that are drawn until one keeps every rule."""
MODELS: Final = (
    "8b",
    "qwen3-14b",
    "qwen3-32b",
    "70b",
    "gpt-oss-20b",
    "qwen3-30b-a3b",
    "glm-4.5-air",
    "gpt-oss-120b",
    "qwen3-235b-a22b",
    "deepseek-v3",
)
CIRCUITS: Final = (Circuit(120.0, 15.0), Circuit(120.0, 20.0), Circuit(230.0, 16.0), Circuit(240.0, 30.0))
MODULES_GIB: Final = (8, 16, 24, 32, 48, 64)


NOT_REPAIRED: Final = frozenset(
    (
        "memory-kind",
        "memory-slots",
        "memory-size",
        "memory-channels",
        "memory-floor",
        "model-memory",
        "ram-loading",
        "pcie-lanes",
        "cpu-lanes",
    )
)
"""Rules on parts that a drawn list keeps: another draw is quicker than another part."""


@dataclass(frozen=True)
class Draw:
    """One list, as parts, and the question that it answers."""

    machine: Assembly
    question: Question
    usd: float


def with_price(kind: type[Any]) -> list[Any]:
    return [part for part in parts.planner_parts(kind) if price_of(part, BOOK) is not None]


POOLS: Final = {
    kind: with_price(kind)
    for kind in (GpuCard, Cpu, Board, RamKit, Psu, Case, Cooler, Storage, Riser, Bridge)
}


def usd_of(machine: Assembly, book: PriceBook = BOOK) -> float:
    """Price of a machine [USD]."""
    prices = [(price_of(part, book), num) for _, part, num in machine.bill()]
    return sum(float("inf") if price is None else price.usd * num for price, num in prices)


def keeps_rules(machine: Assembly, question: Question) -> bool:
    """Whether a machine keeps every rule that the planner keeps, without those on what is usual."""
    setting = complete_question(question).setting
    checks = (
        rule.check(machine, setting)
        for rule in planning_rules(setting)
        if rule.id not in WHAT_IS_USUAL and (rule.planned or rule.severity == "hard")
    )
    return all(check is None or check.passed for check in checks)


def draw_memory(rng: random.Random, board: Board, cpu: Cpu) -> Memory:
    """Return memory from the catalog, or as a line names it."""
    if rng.random() < 0.5:
        kits = [
            kit
            for kit in POOLS[RamKit]
            if (kit.ram_type, kit.registered) == (board.ram_type, board.registered)
        ]
        if kits:
            return Memory(rng.choice(kits), rng.choice((1, 1, 2)))
    modules = rng.choice([num for num in (1, 2, 4, 6, 8, 12, 16) if num <= board.ram_slots])
    kind = "RDIMM" if board.registered else ""
    line = read_line(f"RAM: {modules}x{rng.choice(MODULES_GIB)}GB {board.ram_type} {kind}", "list")
    kit = kit_of(line, board, cpu)
    assert kit is not None
    return Memory(kit, 1)


def draw_machine(rng: random.Random) -> Assembly:
    """Return a machine whose sockets fit, whatever other rules say."""
    # Most boards carry one card: every second draw is of those whose slots are known for more.
    wide = [board for board in POOLS[Board] if board.max_cards > 1]
    board = rng.choice(wide if rng.random() < 0.5 else POOLS[Board])
    cpus = [cpu for cpu in POOLS[Cpu] if board.chipset in cpu.series.chipsets]
    cpu = rng.choice(cpus or POOLS[Cpu])
    accelerator = rng.choice(sorted({card.accelerator for card in POOLS[GpuCard]}))
    cards = [card for card in POOLS[GpuCard] if card.accelerator == accelerator]
    num = rng.randint(0 if rng.random() < 0.1 else 1, max(1, min(board.max_cards, 8)))
    card = rng.choice(cards)
    psu = rng.choice(POOLS[Psu])
    case = rng.choice(POOLS[Case])
    is_double = case.num_psus > 1 and rng.random() < 0.5
    link = parts.planner_parts(PsuLink)[0] if is_double else None
    bridges = [bridge for bridge in POOLS[Bridge] if accelerator in bridge.accelerators]
    risers = Risers(rng.choice(POOLS[Riser]), num) if case.open_frame and num else Risers()
    return Assembly(
        cards=Cards((card,) * num, rng.choice((1.0, 1.0, 0.8, 0.7))),
        cpu=cpu,
        board=board,
        memory=draw_memory(rng, board, cpu),
        supplies=Supplies((psu,) * (2 if is_double else 1), link),
        case=case,
        cooler=rng.choice(POOLS[Cooler]),
        storage=rng.choice(POOLS[Storage]),
        risers=risers,
        bridges=(rng.choice(bridges),) if bridges and num == 2 and rng.random() < 0.4 else (),
    )


def repair_parts(machine: Assembly, question: Question, rng: random.Random) -> Assembly | None:
    """Return the machine with the cheapest parts that keep the rules, place after place; None if none does."""
    setting = complete_question(question).setting
    rules = [
        rule
        for rule in planning_rules(setting)
        if rule.id not in WHAT_IS_USUAL and (rule.planned or rule.severity == "hard")
    ]

    def num_broken(one: Assembly) -> int:
        return sum(
            check is not None and not check.passed for rule in rules if (check := rule.check(one, setting))
        )

    hopeless = (rule.check(machine, setting) for rule in rules if rule.id in NOT_REPAIRED)
    if any(check is not None and not check.passed for check in hopeless):
        return None
    kinds: list[tuple[str, Sequence[Any], Callable[[Any], Any]]] = [
        (
            "supplies",
            POOLS[Psu],
            lambda psu: replace(machine.supplies, psus=(psu,) * len(machine.supplies.psus)),
        ),  # type: ignore[union-attr, type-var]
        ("case", POOLS[Case], lambda case: case),
        ("cooler", POOLS[Cooler], lambda cooler: cooler),
        ("storage", POOLS[Storage], lambda drive: drive),
        (
            "cpu",
            [cpu for cpu in POOLS[Cpu] if machine.board and machine.board.chipset in cpu.series.chipsets],
            lambda cpu: cpu,
        ),
    ]
    rng.shuffle(kinds)
    broken = num_broken(machine)
    for place, pool, choose in kinds:
        sample = rng.sample(list(pool), min(len(pool), 16))
        options = [replace(machine, **{place: choose(part)}) for part in sample]
        best = min(((num_broken(one), usd_of(one), i) for i, one in enumerate(options)), default=None)
        if best is not None and (best[0] < broken or (best[0] == broken and best[1] < usd_of(machine))):
            machine = options[best[2]]
            broken = best[0]
    return None if broken else machine


def draw_load(rng: random.Random) -> MachineLoad:
    """Return a model and how it is used."""
    # Many streams of long prompts take more memory than any workstation has.
    concurrency, input_tokens = rng.choice(
        ((1, 512), (1, 2048), (1, 8192), (1, 32768), (4, 512), (4, 8192), (16, 2048), (64, 512))
    )
    return MachineLoad(
        models.get(rng.choice(MODELS)).record,
        concurrency=concurrency,
        input_tokens=input_tokens,
        workload="finetune" if rng.random() < 0.1 else "serve",
        precision=rng.choice((None, None, None, "q4_k_m", "q8_0", "int4", "bf16")),
        engine=rng.choice((None, None, None, "llama.cpp", "vllm")),
    )


def draw_setting(rng: random.Random) -> Setting:
    """Return the place of a machine and what it must have."""
    circuit = rng.choice(CIRCUITS)
    return Setting(
        circuit=circuit,
        room_cooling_w=max(1500.0, circuit.continuous_w),
        min_lanes=rng.choice((4, 4, 4, 8, 16)),
        needs_ecc=rng.random() < 0.1,
        max_noise_db=rng.choice((50.0, 50.0, 45.0, 60.0)),
    )


def draw_near_a_plan(seed: int) -> Draw | None:
    """Return a machine of the planner with some parts changed, which costs no more than twice as much; None if none of
    them keeps the rules."""
    rng = random.Random(seed)
    load = draw_load(rng)
    setting = draw_setting(rng)
    limits = SearchLimits(max_cards=rng.choice((1, 2, 4, 8)))
    budget = round(1200.0 * 25.0 ** rng.random())
    question = Question(load, budget, None, setting, limits, as_of=AS_OF, top=8, systems=False)
    try:
        builds = plan(question, BOOK, RentMarket(())).builds
    except InfeasibleError:
        return None
    # Parts of a machine that is sold whole have no others in their place.
    alone = [
        build.machine
        for build in builds
        if build.machine and build.machine.board and not build.machine.board.sold_with
    ]
    best: Draw | None = None
    for _ in range(MOST_TRIES if alone else 0):
        base = rng.choice(alone)
        machine = change_parts(base, rng)
        usd = usd_of(machine)
        if usd == float("inf") or (machine.cards and machine.cards.num > limits.max_cards):
            continue
        asked = replace(question, budget_usd=usd * 1.0001)
        if machine != base and keeps_rules(machine, asked) and is_case_usual(machine, usd):
            found = Draw(machine, asked, usd)
            # The cheapest change is the hardest to match.
            best = found if best is None or rng.random() < 0.3 else best
    return best


def change_parts(base: Assembly, rng: random.Random) -> Assembly:
    """Return a machine with one to three parts changed."""
    machine = base
    cards = base.cards
    assert cards is not None
    for place in rng.sample(
        ("cards", "power", "board", "memory", "supplies", "case", "cpu"), rng.randint(1, 3)
    ):
        board = machine.board
        cpu = machine.cpu
        assert board is not None
        assert cpu is not None
        if place == "cards" and cards.cards:
            num = rng.choice([num for num in (cards.num - 1, cards.num, cards.num + 1) if num > 0])
            card = rng.choice(POOLS[GpuCard])
            risers = replace(machine.risers, num=num) if machine.risers.num else machine.risers
            machine = replace(machine, cards=Cards((card,) * num, 1.0), bridges=(), risers=risers)
        elif place == "power" and machine.cards is not None:
            machine = replace(machine, cards=Cards(machine.cards.cards, rng.choice((1.0, 0.9, 0.8, 0.7))))
        elif place == "board":
            fitting = [
                one
                for one in POOLS[Board]
                if one.chipset in cpu.series.chipsets and one.ram_type == board.ram_type
            ]
            machine = replace(machine, board=rng.choice(fitting))
        elif place == "memory":
            machine = replace(machine, memory=draw_memory(rng, board, cpu))
        elif place == "supplies" and machine.supplies is not None:
            supplies = (rng.choice(POOLS[Psu]),) * len(machine.supplies.psus)
            machine = replace(machine, supplies=replace(machine.supplies, psus=supplies))
        elif place == "case":
            machine = replace(machine, case=rng.choice(POOLS[Case]), risers=Risers())
        elif place == "cpu":
            fitting_cpus = [one for one in POOLS[Cpu] if one.series.id == cpu.series.id]
            machine = replace(machine, cpu=rng.choice(fitting_cpus))
    return machine


def is_case_usual(machine: Assembly, usd: float) -> bool:
    """Whether the case costs what the planner spends on one at least."""
    case = machine.case
    price = price_of(case, BOOK) if case is not None else None
    return case is None or case.open_frame or price is None or price.usd >= min(0.01 * usd, 150.0)


def draw(seed: int) -> Draw | None:
    """Return a list that keeps the rules, with its question: every second one is near a machine of the planner; None
    if none was found."""
    if seed % 2:
        return draw_near_a_plan(seed)
    rng = random.Random(seed)
    load = draw_load(rng)
    setting = draw_setting(rng)
    for _ in range(MOST_TRIES):
        machine = draw_machine(rng)
        question = Question(load, setting=setting, as_of=AS_OF, top=8, systems=True)
        usd = usd_of(machine)
        if usd == float("inf"):
            continue
        found = repair_parts(machine, replace(question, budget_usd=usd), rng)
        if found is None or usd_of(found) == float("inf"):
            continue
        is_used = seed % 4 == 2
        usd = usd_of(found, USED_BOOK if is_used else BOOK)
        question = replace(question, used=is_used)
        cards = found.cards.num if found.cards else 0
        limits = SearchLimits(max_cards=rng.choice((max(cards, 1), 4, 8 if cards > 4 else 4)))
        if cards and rng.random() < 0.4:
            limits = replace(limits, accelerators=found.cards.accelerators[:1], max_cards=max(cards, 1))  # type: ignore[union-attr]
        question = replace(question, budget_usd=usd * 1.0001, limits=limits)
        if keeps_rules(found, question) and is_case_usual(found, usd):
            return Draw(found, question, usd)
    return None


def speeds(one: Draw) -> tuple[float, float]:
    """Return the speeds of a list and of the plan for its money [tokens/s]."""
    question = complete_question(one.question)
    book = USED_BOOK if question.used else BOOK
    listed = build_of("list", one.machine, question, book, RentMarket(()))
    speed = listed.performance.decode_tokens_per_s.value if listed.performance else 0.0
    if not speed:
        return 0.0, 0.0
    builds = plan(one.question, book, RentMarket(())).builds
    return speed, max(build.performance.decode_tokens_per_s.value for build in builds if build.performance)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LISTS))
def test_no_list_that_keeps_the_rules_is_faster_than_the_plan_for_its_money(seed: int) -> None:
    one = draw(seed)
    if one is None:
        pytest.skip("no list of this seed keeps the rules")
    listed, planned = speeds(one)
    assert listed <= TOLERANCE * planned, [(part.name, num) for _, part, num in one.machine.bill()]
