"""The solver against trying everything, on lists small enough for that."""

import itertools
import random
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from advisor.catalog import models, parts
from advisor.catalog.part_prices import price_book
from advisor.workstation.assembly import Assembly, Circuit, Setting
from advisor.workstation.candidates import PartCandidate, SearchLimits, all_candidates
from advisor.workstation.hardware import power_points_of
from advisor.workstation.optimiser import FIRST_BATCH, Program
from advisor.workstation.performance import MachineLoad, ram_needed_bytes
from advisor.workstation.plan import Question
from advisor.workstation.planner import plan
from advisor.workstation.rents import RentMarket
from advisor.workstation.rule_book import judge, rules_for
from advisor.workstation.rules import MatchRule


@cache
def real_candidates() -> dict[str, list[PartCandidate]]:
    load = MachineLoad(models.get("8b").record)
    return all_candidates(load, real_setting(), price_book(), SearchLimits(max_cards=4, max_usd=9000.0))


def real_setting() -> Setting:
    return Setting(ram_needed_bytes=ram_needed_bytes(MachineLoad(models.get("8b").record)))


def some(seed: int, number: int) -> dict[str, list[PartCandidate]]:
    """A few candidates of each place, among them ones that go together."""
    rng = random.Random(seed)
    kept = {}
    for place, found in real_candidates().items():
        kept[place] = rng.sample(found, min(number, len(found)))
    return kept


def is_allowed(machine: Assembly, setting: Setting) -> bool:
    planned = {rule.id for rule in rules_for(setting) if rule.planned}
    return all(check.passed for check in judge(machine, setting) if check.rule in planned)


def by_trying(
    candidates: Mapping[str, Sequence[PartCandidate]], setting: Setting, budget: float
) -> tuple[float, float] | None:
    """Speed of the fastest machine for the money, and the price of the cheapest that is as fast."""
    best: tuple[float, float] | None = None
    places = list(candidates)
    for taken in itertools.product(*candidates.values()):
        usd = sum(candidate.usd for candidate in taken)
        run = next(candidate.run for candidate in taken if candidate.place == "cards")
        assert run is not None
        found = (run.request_tokens_per_s, usd)
        if usd > budget or (best is not None and (-found[0], usd) >= (-best[0], best[1])):
            continue
        machine = Assembly(**{p: c.choice for p, c in zip(places, taken, strict=True)})
        if is_allowed(machine, setting):
            best = found
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_solver_finds_what_trying_everything_finds(seed: int) -> None:
    setting = real_setting()
    candidates = some(seed, 3)
    # Places that seldom decide are kept small, so that a machine exists now and then.
    rng = random.Random(seed)
    am5 = [c for c in real_candidates()["board"] if c.choice.socket == "AM5"]
    candidates["board"] = rng.sample(am5, 2) + candidates["board"][:1]
    candidates["cpu"] = [c for c in real_candidates()["cpu"] if c.choice.series.id == "am5"][:2]
    candidates["memory"] = [c for c in real_candidates()["memory"] if c.choice.kit.ram_type == "DDR5"][:2]
    candidates["cooler"] = [c for c in real_candidates()["cooler"] if "AM5" in c.choice.sockets][:2]
    for budget in (1500.0, 3000.0, 9000.0):
        program = Program(candidates, rules_for(setting), setting)
        solution = program.solve(max_usd=budget, maximise_speed=True)
        tried = by_trying(candidates, setting, budget)
        if tried is None:
            assert solution is None
            continue
        assert solution is not None
        assert solution.tokens_per_s == pytest.approx(tried[0], rel=1e-9)
        cheapest = program.solve(max_usd=budget, min_tokens_per_s=tried[0] * (1 - 1e-9), maximise_speed=False)
        assert cheapest is not None
        assert cheapest.usd == pytest.approx(tried[1], abs=0.01)
        for found in (solution, cheapest):
            assert found.gap == 0.0
            assert is_allowed(found.machine, setting)


@pytest.mark.parametrize("target", [20.0, 90.0])
def test_batches_of_cards_find_what_one_program_of_all_finds(
    target: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(real_candidates(), rules_for(real_setting()), real_setting())
    found = []
    for size in (1, FIRST_BATCH, len(program.candidates)):
        monkeypatch.setattr("advisor.workstation.optimiser.FIRST_BATCH", size)
        solution = program.solve(max_usd=9000.0, min_tokens_per_s=target, maximise_speed=False)
        assert solution is not None
        found.append(solution.cost)
    assert found == pytest.approx([found[0]] * 3, abs=1e-4)


def test_parts_that_a_rule_reads_alike_it_judges_alike() -> None:
    """The shortcut of the program: what `reads` says of a part is all that the rule looks at."""
    setting = real_setting()
    candidates = some(7, 12)
    for rule in rules_for(setting):
        if not isinstance(rule, MatchRule) or not rule.reads:
            continue
        verdicts: dict[tuple[object, ...], bool] = {}
        choices = (
            [c.choice for c in candidates[place]] if place in candidates else [()] for place in rule.between
        )
        for taken in itertools.product(*choices):
            key = tuple(
                rule.figures(place, part) if place in rule.reads else id(part)
                for place, part in zip(rule.between, taken, strict=True)
            )
            assert verdicts.setdefault(key, rule.allows(taken, setting)) == rule.allows(taken, setting), (
                rule.id
            )


def test_machines_of_the_whole_catalog_keep_the_rules_at_every_budget() -> None:
    setting = real_setting()
    program = Program(real_candidates(), rules_for(setting), setting)
    speeds = []
    for budget in (1500.0, 2500.0, 4000.0, 8000.0):
        solution = program.solve(max_usd=budget, maximise_speed=True)
        assert solution is not None
        assert solution.usd <= budget
        assert solution.gap == 0.0
        assert solution.machine.cards is not None
        assert solution.machine.cards.num <= 4
        assert is_allowed(solution.machine, setting)
        speeds.append(solution.tokens_per_s)
    assert speeds == sorted(speeds), "more money is never slower"


def test_leaving_out_what_no_machine_can_pay_changes_no_answer() -> None:
    """Candidates that cost too much beside their cheapest neighbours leave the search; without that the search finds
    the same machine."""
    setting = real_setting()
    program = Program(real_candidates(), rules_for(setting), setting)
    questions = [(budget, speed) for budget in (900.0, 1500.0, 2500.0, 5000.0) for speed in (0.0, 60.0)]

    def answers() -> list[float | None]:
        found = (
            (program.solve(max_usd=budget, min_tokens_per_s=speed, maximise_speed=not speed), speed)
            for budget, speed in questions
        )
        return [None if one is None else one.usd if speed else one.tokens_per_s for one, speed in found]

    pruned = answers()
    program._beside_cards.clear()
    assert pruned == answers()


@pytest.mark.parametrize(
    ("accelerator", "points"),
    [("rtx-3090", (1.0, 0.8, 0.7, 0.6)), ("rtx-5090", (1.0, 0.8, 0.7)), ("rx-7900-xtx", (1.0, 0.9))],
)
def test_power_limits_are_those_that_the_driver_accepts(accelerator: str, points: tuple[float, ...]) -> None:
    assert power_points_of(accelerator) == points


def test_no_set_of_cards_is_held_below_what_its_driver_accepts() -> None:
    floors = parts.power_floors()
    for candidate in real_candidates()["cards"]:
        if not candidate.choice.cards:
            continue
        floor = floors.get(candidate.choice.accelerators[0])
        assert floor is None or candidate.choice.power_fraction >= floor.fraction


def test_the_cheapest_for_a_speed_is_as_fast_as_asked() -> None:
    setting = real_setting()
    program = Program(real_candidates(), rules_for(setting), setting)
    prices = []
    for speed in (50.0, 100.0, 150.0):
        solution = program.solve(min_tokens_per_s=speed, maximise_speed=False)
        assert solution is not None
        assert solution.tokens_per_s >= speed
        prices.append(solution.usd)
    assert prices == sorted(prices), "more speed is never cheaper"


def test_a_rule_left_out_never_makes_machines_dearer() -> None:
    setting = Setting(circuit=Circuit(120.0, 6.0), ram_needed_bytes=real_setting().ram_needed_bytes)
    program = Program(real_candidates(), rules_for(setting), setting)
    kept = program.solve(min_tokens_per_s=100.0, maximise_speed=False)
    free = program.solve(min_tokens_per_s=100.0, maximise_speed=False, without={"circuit"})
    assert free is not None
    assert kept is None or free.usd <= kept.usd + 0.01


def test_the_solver_prints_nothing_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    """A question at which HiGHS 1.x repairs a solution and says so past its options."""
    load = MachineLoad(models.get("qwen3-235b-a22b").record)
    plan(Question(load, budget_usd=10000.0), price_book(), RentMarket(()))
    assert not capfd.readouterr().out
