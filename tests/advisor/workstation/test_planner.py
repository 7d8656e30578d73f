"""Planned machines: none of the same parts and money is faster, and each keeps every rule."""

import random
from dataclasses import replace
from functools import cache

import pytest

from advisor.catalog import accelerators, models, parts
from advisor.catalog.part_prices import price_book
from advisor.catalog.schema.part import RamKit
from advisor.workstation.assembly import Assembly, Memory, Supplies, host_bytes_per_s
from advisor.workstation.candidates import PartCandidate, SearchLimits
from advisor.workstation.hardware import Hardware
from advisor.workstation.knee import dependable_speed_of
from advisor.workstation.listing import read_listing
from advisor.workstation.optimiser import Program
from advisor.workstation.performance import MachineLoad, _replica, best_run
from advisor.workstation.plan import Build, Question
from advisor.workstation.planner import (
    FAR_AHEAD,
    SAME_SPEED,
    complete_question,
    first_builds,
    plan,
    program_for,
)
from advisor.workstation.rents import RentMarket
from advisor.workstation.rule_book import judge, rules_for
from advisor.workstation.rules_fit import LEAST_RAM_BYTES
from advisor.workstation.rules_power import GOOD_GRADES, GRADED_FROM_W
from advisor.workstation.valuation import hardware_of

NO_RENT = RentMarket(())
MOST_FASTER = 1.03
"""Ratio up to which another machine for the same money may be faster than the planned one."""


def question(
    model: str,
    budget: float,
    *gpus: str,
    precision: str | None = None,
    workload: str = "serve",
    most: int = 4,
) -> Question:
    load = MachineLoad(models.get(model).record, precision=precision, workload=workload)
    limits = SearchLimits(max_cards=most, accelerators=gpus)
    return complete_question(Question(load, budget_usd=budget, limits=limits, systems=False, top=2))


ON_CPU = question("70b", 12000.0, "rtx-4090", precision="q4_k_m", most=1)
LINKED = question("70b", 15000.0, "rtx-4090", "rtx-5090")
SPARSE = question("gpt-oss-120b", 5000.0, "rtx-3090")
TUNED = question("8b", 6000.0, workload="finetune")
QUESTIONS = {"on the CPU": ON_CPU, "linked": LINKED, "sparse": SPARSE, "tuned": TUNED}


@cache
def program_of(name: str) -> Program:
    return program_for(QUESTIONS[name], price_book())


@cache
def builds_with_systems(model: str, usd: float) -> list[Build]:
    """The eight best machines for the money, systems and used ones among them: several laws hold of them."""
    asked = replace(question(model, usd), systems=True, top=8)
    return list(plan(asked, price_book(), NO_RENT).builds)


def rate_of(build: Build) -> float:
    """Output rate of a build over whole requests [tokens/s]."""
    assert build.performance is not None
    return build.performance.run.request_tokens_per_s


def speed_of(machine: Assembly, asked: Question) -> float:
    """Speed of a machine as a check of its list predicts it [tokens/s]."""
    hardware = hardware_of(machine)
    run = best_run(hardware, asked.load) if hardware else None
    return run.request_tokens_per_s if run else 0.0


def random_machine(
    program: Program, rng: random.Random, asked: Question, best: float
) -> tuple[Assembly, float] | None:
    """A machine that keeps the hard rules within the budget: cards of about the best speed [tokens/s] and some parts
    are drawn, the others are the cheapest that fit."""
    assert asked.budget_usd is not None
    by_place: dict[str, list[PartCandidate]] = {}
    for candidate in program.candidates:
        by_place.setdefault(candidate.place, []).append(candidate)
    kept = dict(by_place)
    near = [c for c in by_place["cards"] if 0.5 * best <= c.tokens_per_s <= 1.3 * best]
    kept["cards"] = [rng.choice(near or by_place["cards"])]
    for place in rng.sample(["cpu", "memory", "board"], rng.randint(0, 1)):
        kept[place] = [rng.choice(by_place[place])]
    small = Program(kept, rules_for(asked.setting), asked.setting)
    found = small.solve(max_usd=asked.budget_usd, maximise_speed=False, used=True)
    return None if found is None else (found.machine, found.usd)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_machine_for_the_money_is_faster_than_the_plan(name: str) -> None:
    asked = QUESTIONS[name]
    best = max(map(rate_of, plan(asked, price_book(), NO_RENT).builds))
    program = program_of(name)
    rng = random.Random(name)
    machines = [found for _ in range(16) if (found := random_machine(program, rng, asked, best)) is not None]
    assert len(machines) >= 2
    for machine, usd in machines:
        assert asked.budget_usd is not None
        assert usd <= asked.budget_usd
        assert speed_of(machine, asked) <= MOST_FASTER * best


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_planned_machine_is_as_fast_as_planned_and_keeps_its_rules(name: str) -> None:
    asked = QUESTIONS[name]
    for budget in (1500.0, 3000.0, 9000.0):
        solution = program_of(name).solve(max_usd=budget, maximise_speed=True)
        if solution is None:
            continue
        assert speed_of(solution.machine, asked) == pytest.approx(solution.tokens_per_s, rel=0.02)
        assert speed_of(solution.machine, asked) >= 0.999 * solution.tokens_per_s
        assert not [check for check in judge(solution.machine, asked.setting) if check.verdict == "broken"]


@pytest.mark.parametrize(("model", "budget"), [("8b", 1500.0), ("70b", 2500.0)])
def test_no_planned_build_is_broken_by_its_own_check(model: str, budget: float) -> None:
    found = plan(question(model, budget), price_book(), NO_RENT)
    assert found.builds
    for build in found.builds:
        assert build.broken == ()
        assert build.total_usd <= budget
        machine = build.machine
        assert machine is not None
        assert machine.memory is not None
        assert machine.memory.capacity_bytes >= LEAST_RAM_BYTES


def test_more_money_buys_memory_bandwidth_where_layers_run_on_the_cpu() -> None:
    speeds = []
    for budget in (3300.0, 5500.0, 12000.0):
        solution = program_of("on the CPU").solve(max_usd=budget, maximise_speed=True)
        assert solution is not None
        speeds.append(solution.tokens_per_s)
    assert speeds == sorted(speeds)
    assert speeds[0] > 2.4, "a machine with DDR5 for the same money reaches that"
    assert speeds[-1] > 2 * speeds[0]


def test_expensive_cards_have_a_good_supply() -> None:
    for budget in (4000.0, 12000.0):
        solution = program_of("linked").solve(max_usd=budget, maximise_speed=True)
        if solution is None:
            continue
        cards = next(c for c in solution.candidates if c.place == "cards")
        assert solution.machine.supplies is not None
        rated_w = sum(card.power_w for card in cards.choice.cards)
        assert rated_w < GRADED_FROM_W or all(
            psu.grade in GOOD_GRADES for psu in solution.machine.supplies.psus
        )


def test_several_cards_are_tuned_where_a_source_says_so() -> None:
    for candidate in program_of("tuned").candidates:
        if candidate.place == "cards" and candidate.choice.num > 1:
            assert accelerators.by_id(candidate.choice.accelerators[0]).vendor == "nvidia"


def test_the_knee_comes_first_and_used_cards_are_beside_new_ones() -> None:
    asked = replace(question("70b", 12000.0, "rtx-4090"), top=3)
    found = plan(asked, price_book(), NO_RENT).builds
    used = [build for build in found if build.is_used]
    assert used
    assert not found[0].is_used
    assert all(", used " in build.name or "in a used " in build.name for build in used)
    assert {line.condition for line in used[0].parts if line.category == "gpu"} == {"used"}
    as_fast = [build for build in used if rate_of(build) >= SAME_SPEED * rate_of(found[0])]
    assert as_fast
    assert min(build.total_usd for build in as_fast) < found[0].total_usd


def test_memory_runs_at_the_rate_of_its_cpus(machine: Assembly) -> None:
    am5 = parts.cpu_series()["am5"]
    assert isinstance(machine.memory, Memory)

    def rate(modules: int, mts: float) -> float:
        assert machine.memory is not None
        kit = machine.memory.kit.model_copy(
            update={"ram_type": "DDR5", "registered": False, "modules": modules, "speed_mts": mts}
        )
        assert isinstance(kit, RamKit)
        return host_bytes_per_s(Memory(kit), am5)

    assert rate(2, 6000) == 2 * 8 * 6000e6
    assert rate(1, 6000) == rate(2, 6000) / 2, "one module is one channel"
    assert rate(2, 8000) == rate(2, 6000), "no kit runs faster than its CPU"
    assert rate(4, 6000) < rate(2, 6000), "two modules a channel are slower"
    assert rate(4, 3200) == rate(2, 3200), "a slow kit runs at its own rate"


def test_bridged_cards_are_planned_at_every_power_that_makes_them_faster() -> None:
    asked = replace(question("70b", 9000.0, "rtx-3090"), systems=False)
    program = program_for(complete_question(asked), price_book())
    bridged = [c for c in program.candidates if c.place == "cards" and c.choice.conditions.bridged]
    fastest = max(bridged, key=lambda candidate: candidate.tokens_per_s)
    alone = max(
        c.tokens_per_s
        for c in program.candidates
        if c.place == "cards" and c.choice.num == fastest.choice.num and not c.choice.conditions.bridged
    )
    assert fastest.choice.power_fraction == 1.0
    assert fastest.tokens_per_s > alone


def test_no_machine_stands_behind_one_that_costs_more_and_is_slower() -> None:
    for model, budget in (("70b", 2500.0), ("gpt-oss-120b", 3000.0), ("gpt-oss-20b", 1200.0)):
        found = builds_with_systems(model, budget)
        builds = [build for build in found if not build.is_used or build.kind == "system"]
        for place, first in enumerate(builds):
            for later in builds[place + 1 :]:
                beats = later.total_usd <= first.total_usd and rate_of(later) > rate_of(first)
                assert not beats or later.rests_on_one_estimate, (first.name, later.name)


def test_a_used_workstation_is_sold_whole_and_stands_beside_new_machines() -> None:
    book = price_book()
    names = {machine.name for machine in parts.used_machines()}
    for model, budget in (("qwen3-14b", 800.0), ("qwen3-32b", 1800.0), ("8b", 1500.0)):
        builds = plan(replace(question(model, budget), top=8), book, NO_RENT).builds
        used = [b for b in builds if b.machine and b.machine.board and b.machine.board.sold_with in names]
        assert used, model
        for build in used:
            machine = build.machine
            assert machine is not None
            assert build.is_used
            assert build.total_usd <= budget
            assert not build.broken
            whole = [
                machine.cpu,
                machine.board,
                machine.memory,
                machine.supplies,
                machine.case,
                machine.cooler,
            ]
            kits = [one.kit if isinstance(one, Memory) else one for one in whole]
            sold = {
                one.psus[0].sold_with if isinstance(one, Supplies) else one.sold_with for one in kits if one
            }
            assert len(sold) == 1
            (price,) = (line for line in build.parts if line.category == "board")
            assert price.usd > 0
            assert all(
                line.usd == 0 for line in build.parts if line.category in ("cpu", "ram", "psu", "case")
            )
        assert all(
            not b.machine.board.sold_with for b in builds if not b.is_used and b.machine and b.machine.board
        )


def test_arc_cards_go_into_no_machine_that_lacks_resizable_bar() -> None:
    for model, budget in (("8b", 1300.0), ("8b", 1500.0), ("qwen3-32b", 1800.0)):
        asked = replace(question(model, budget, "arc-b580"), top=8)
        for build in plan(asked, price_book(), NO_RENT).builds:
            assert build.machine is not None
            assert build.machine.cpu is not None
            assert build.machine.cpu.series.resizable_bar


def test_a_price_of_one_page_heads_no_answer_that_has_another_and_beats_nothing() -> None:
    believable = {
        key: price.model_copy(update={"usd": 4500.0}) if key == "system/mac-studio-m2-ultra-192gb" else price
        for key, price in price_book().items()
    }
    for model, budget in (("gpt-oss-120b", 5000.0), ("70b", 5000.0)):
        asked = replace(question(model, budget), systems=True, top=12)
        doubtful = [build.rests_on_one_estimate for build in plan(asked, believable, NO_RENT).builds]
        assert any(doubtful), model
        assert not doubtful[0] or all(doubtful)
    quoted = {
        key: price.model_copy(update={"basis": "quote"}) if key.startswith("system/") else price
        for key, price in price_book().items()
    }
    asked = replace(question("70b", 2500.0), systems=True, top=8)
    assert not any(build.rests_on_one_estimate for build in plan(asked, quoted, NO_RENT).builds)


def test_an_estimate_far_below_what_new_machines_cost_is_no_basis_of_an_option() -> None:
    key = "system/mac-studio-m2-ultra-192gb"
    name = next(system.name for system in parts.systems() if f"system/{system.id}" == key)
    asked = replace(question("70b", 6000.0), systems=True, top=20)
    shown = []
    for usd in (900.0, 2000.0, 3000.0, 4500.0, 5900.0):
        book = {**price_book(), key: price_book()[key].model_copy(update={"usd": usd})}
        found = plan(asked, book, NO_RENT)
        is_shown = any(build.name == name for build in found.builds)
        assert is_shown != any(name in told and "one page" in told for told in found.left_out)
        shown.append(is_shown)
    assert shown == sorted(shown), "a higher estimate is never less plausible"
    assert shown[0] is False
    assert shown[-1] is True


def test_eight_bits_are_tried_where_four_are_slow_and_never_make_a_machine_slower() -> None:
    for accelerator in ("r9700", "rx-7900-xtx", "arc-b580", "rtx-3090"):
        for num in (1, 2, 4):
            hardware = Hardware(accelerator, num, pcie_generation=4, pcie_lanes=16)
            for model in ("8b", "qwen3-32b", "70b"):
                load = MachineLoad(models.get(model).record, engine="vllm")
                free = best_run(hardware, load)
                for precision in ("int4", "fp8"):
                    forced = best_run(hardware, replace(load, precision=precision))
                    if forced is not None and (precision == "int4" or accelerator != "rtx-3090"):
                        assert free is not None
                        assert free.output_tokens_per_s.value >= forced.output_tokens_per_s.value
    four = Hardware("r9700", 4, pcie_generation=4, pcie_lanes=16)
    large = MachineLoad(models.get("70b").record)
    divided = best_run(four, large)
    in_turn = best_run(four, replace(large, engine="llama.cpp"))
    assert divided is not None
    assert in_turn is not None
    assert divided.split == "tensor parallel"
    assert divided.output_tokens_per_s.value > 1.5 * in_turn.output_tokens_per_s.value


@pytest.mark.parametrize(
    ("model", "budget", "target"),
    [
        ("8b", 700.0, None),
        ("8b", 1500.0, None),
        ("qwen3-32b", 4000.0, None),
        ("70b", 9000.0, None),
        ("70b", None, 20.0),
        ("deepseek-v3", 9000.0, None),
    ],
)
def test_second_hand_parts_stand_beside_new_ones_and_head_only_where_nothing_new_comes_near(
    model: str, budget: float | None, target: float | None
) -> None:
    asked = replace(
        question(model, budget or 1.0), budget_usd=budget, target_tokens_per_s=target, systems=True, top=6
    )
    found = plan(asked, price_book(), NO_RENT)
    new = [build for build in found.builds if not build.is_used]
    for build in found.builds:
        assert build.is_used == any(line.condition == "used" for line in build.parts), build.name
    head = found.builds[0]
    fastest_new = max(map(dependable_speed_of, new), default=0.0)
    assert not head.is_used or dependable_speed_of(head) >= FAR_AHEAD * fastest_new
    sure_used = [one for one in found.builds if one.is_used and not one.rests_on_one_estimate]
    if (
        target is None
        and max(map(dependable_speed_of, sure_used), default=0.0) >= FAR_AHEAD * fastest_new > 0.0
    ):
        assert head.is_used
    if found.saving is not None:
        assert found.saving.is_used
        assert found.saving.total_usd < found.builds[0].total_usd
        assert target is not None or rate_of(found.saving) >= SAME_SPEED * rate_of(found.builds[0])


HAVE = (
    "Ryzen 9 5900X",
    "ASUS X570 ROG Crosshair VIII Dark Hero",
    "64GB DDR4-3600 (4x16GB)",
    "RTX 3090",
    "Corsair HX1200i",
    "Fractal Define 7 XL",
    "2TB 990 Pro",
    "Noctua NH-D15",
)


@pytest.mark.parametrize(
    ("model", "usd"), [("gpt-oss-120b", 1.0), ("gpt-oss-120b", 1500.0), ("qwen3-32b", 300.0), ("70b", 1.0)]
)
def test_an_upgrade_is_never_slower_than_what_is_there(model: str, usd: float) -> None:
    """Advice that the parts at hand do not keep forces no others on the user."""
    book = price_book(used=True)
    have = read_listing(None, book, HAVE).machine
    load = MachineLoad(models.get(model).record)
    hardware = hardware_of(have)
    assert hardware is not None
    now = best_run(hardware, load)
    assert now is not None
    asked = Question(load, budget_usd=usd, have=have, systems=False, used=True)
    builds = plan(asked, book, NO_RENT).builds
    assert builds[0].total_usd <= usd
    assert rate_of(builds[0]) >= 0.98 * now.request_tokens_per_s
    assert len({build.total_usd for build in builds}) == len(builds)


@pytest.mark.parametrize("accelerator", ["rtx-3090", "rtx-5090", "rtx-pro-6000-ws", "rx-7900-xtx"])
def test_streams_without_a_place_in_the_cache_wait(accelerator: str) -> None:
    """A machine serves as many streams at once as its cache holds; more streams make it no slower, and never faster
    than a cache for all of them would."""
    hardware = Hardware(accelerator, 2, pcie_generation=4, pcie_lanes=16)
    load = MachineLoad(models.get("qwen3-32b").record, input_tokens=16_000)
    runs = {num: best_run(hardware, replace(load, concurrency=num)) for num in (1, 4, 16, 64)}
    previous = 0.0
    for num, run in runs.items():
        assert run is not None
        assert run.num_waiting == max(0, num - run.kv_tokens // load.context_tokens)
        assert run.output_tokens_per_s.value >= 0.999 * previous
        previous = run.output_tokens_per_s.value
        larger = replace(hardware, memory_bytes=4e12)
        whole = best_run(larger, replace(load, concurrency=num))
        assert whole is not None
        assert not whole.num_waiting
        assert whole.output_tokens_per_s.value >= 0.999 * run.output_tokens_per_s.value


def test_long_prompts_of_many_streams_build_no_longer_tables() -> None:
    """The tables of a replica are as long as one request, however many streams there are."""
    load = MachineLoad(models.get("qwen3-14b").record, 64, 32_000)
    replica = _replica(Hardware("rtx-4090", 4), load, "llama.cpp", "q4_k_m", 1, 4)
    assert replica is not None
    assert len(replica.surface.mixed_base_ps) == load.context_tokens + 1


@pytest.mark.parametrize(("model", "usd"), [("14b", 1000.0), ("qwen3-30b-a3b", 1200.0)])
def test_whoever_takes_used_parts_sees_none_that_another_beats(model: str, usd: float) -> None:
    asked = replace(question(model, usd), used=True, systems=True, top=4)
    builds = plan(asked, price_book(used=True), NO_RENT).builds
    for one in builds:
        assert not any(
            other.total_usd <= one.total_usd and rate_of(other) > rate_of(one) and not other.is_used
            for other in builds
        )


def test_a_used_host_that_costs_half_is_said_to_save() -> None:
    asked = replace(question("8b", 1000.0, most=0), limits=SearchLimits(max_cards=0), top=4)
    found = plan(asked, price_book(), NO_RENT)
    assert not found.builds[0].is_used
    assert found.saving is not None
    assert found.saving.name == "used HP Z440 without cards"


@pytest.mark.parametrize("top", [1, 2, 3])
def test_a_machine_that_is_faster_for_less_is_never_hidden(top: int) -> None:
    dear, doubtful, cheap = (
        Build(name, "system", (), usd, (), None, None, 0.0, 0.0)
        for name, usd in (("dear", 4000.0), ("doubtful", 2000.0), ("cheap", 1000.0))
    )
    speeds = {"dear": 13.0, "doubtful": 23.0, "cheap": 7.0}
    shown = first_builds((dear, cheap, doubtful), top, lambda build: speeds[build.name])
    assert shown[0] is dear
    assert len(shown) == top
    assert top == 1 or doubtful in shown


def test_images_are_planned_on_one_card_each() -> None:
    load = MachineLoad(models.get("sdxl").record, workload="images")
    limits = SearchLimits(max_cards=2, accelerators=("rtx-5060-ti-16gb",))
    asked = Question(load, budget_usd=2000.0, limits=limits, systems=False, top=1)
    alone = plan(asked, price_book(), NO_RENT).builds[0]
    assert alone.machine is not None
    assert alone.machine.cards is not None
    assert alone.machine.cards.num == 1
    assert alone.performance is not None
    assert alone.performance.run.unit == "images/s"


def test_streams_are_all_served_at_once_where_the_money_buys_that() -> None:
    load = MachineLoad(models.get("qwen3-coder-30b-a3b").record, 5, 32_000, 1000)
    asked = replace(question("32b", 6000.0), load=load, top=1)
    head = plan(asked, price_book(), NO_RENT).builds[0]
    assert head.performance is not None
    assert not head.performance.run.num_waiting
    small = plan(replace(asked, budget_usd=1600.0), price_book(), NO_RENT).builds[0]
    assert small.performance is not None
    assert small.performance.run.num_waiting
    assert "wait for cache" in small.note


def test_tuning_on_cards_whose_software_is_in_doubt_counts_with_the_low_end() -> None:
    asked = question("8b", 2000.0, "rx-7900-xtx", workload="finetune")
    for candidate in program_for(asked, price_book()).candidates:
        if candidate.run is not None:
            assert candidate.tokens_per_s == candidate.run.output_tokens_per_s.low


@pytest.mark.parametrize("kind", ["serve", "finetune"])
def test_more_cards_than_divide_a_layer_are_not_tried_where_fewer_hold_the_model(kind: str) -> None:
    """Sixty-four heads divide among two of three cards: the third costs and brings nothing."""
    asked = replace(question("70b", 30_000.0, "rtx-5090", workload=kind, most=7), systems=False)
    program = program_for(asked, price_book())
    numbers = {one.choice.num for one in program.candidates if one.place == "cards" and one.choice.num}
    assert (3 in numbers) == (kind == "finetune")
    assert {2, 4} <= numbers
