"""Mixed-integer program of a machine: one binary per candidate, one row per rule, solved by HiGHS."""

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.workstation.assembly import Assembly, Setting
from advisor.workstation.candidates import PartCandidate
from advisor.workstation.rules import MatchRule, Rule, SumRule

FloatArray = NDArray[np.float64]

SOLVER_TOLERANCE: Final = 1e-6
"""Gap below which HiGHS takes a solution as optimal (mip_abs_gap)."""
_MOST_S: Final = 60.0
"""Time limit of one solver run [s]."""


FIRST_BATCH: Final = 24
"""Number of sets of cards that the first search for a machine takes; each further one takes twice as many, up to
`LARGEST_BATCH`. Own choice: all sets at once take five times as long where layers run on the CPU (2026-11-27)."""
LARGEST_BATCH: Final = 96
"""Most sets of cards in one search. Own choice: 96 sets take 0.07 s, 1,500 of them 8 s, which is five times as much for
each set (2026-12-01)."""


class _Problem(NamedTuple):
    """Inequalities and objective of one question to the program."""

    matrix: FloatArray
    bounds: FloatArray
    maximise_speed: bool


class _Row(NamedTuple):
    """One inequality: Σ coefficients x ≤ bound."""

    coefficients: dict[int, float]
    bound: float
    rule: str


_HOST: Final = ("cpu", "board", "memory")
"""Places of the parts whose price is bounded together."""


class _PriceBeside(NamedTuple):
    """Price of the cheapest parts of some places that rules allow with each candidate [USD]."""

    rules: tuple[str, ...]
    places: tuple[str, ...]
    least: Mapping[bool, FloatArray]
    """Price among new parts alone, and among all."""


class _SumBeside(NamedTuple):
    """Needs and gifts of each candidate by a hard rule on a sum, and what cards and memory may need together."""

    rule: str
    amounts: FloatArray
    room: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Machine that the solver proved best, up to the gap."""

    machine: Assembly
    candidates: tuple[PartCandidate, ...]
    usd: float
    tokens_per_s: float
    gap: float
    """Relative gap at the end of the search, (bound − value) / value; 0 means proven optimal."""

    @property
    def cost(self) -> float:
        """Price that the search for the cheapest machine minimises [USD]."""
        return sum(map(_cost_of, self.candidates))


@contextmanager
def _discard_output() -> Iterator[None]:
    """Discard what the solver's library prints on standard output, past its own options: a line whenever it repairs a
    solution (HiGHS, transformNewIntegerFeasibleSolution). An answer as JSON has nothing before it."""
    sys.stdout.flush()
    try:
        kept = os.dup(_STANDARD_OUTPUT)
    except OSError:  # it is closed: nothing can be printed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, _STANDARD_OUTPUT)
        yield
    finally:
        os.dup2(kept, _STANDARD_OUTPUT)
        os.close(kept)
        os.close(nowhere)


_STANDARD_OUTPUT: Final = 1
"""Descriptor of the process's standard output."""


class Program:
    """All machines that keep the hard rules, as linear inequalities over binaries.

    x_i = 1 if candidate i is taken; each place takes exactly one. A rule on a sum is one row. A rule on a pair says
    that a part may be taken only with one of the parts that go with it; a rule on three parts says so for each pair of
    the first two. Parts that a rule treats alike share a row.
    """

    def __init__(
        self, candidates: Mapping[str, Sequence[PartCandidate]], rules: Sequence[Rule], setting: Setting
    ) -> None:
        self._setting = setting
        self._rules = [rule for rule in rules if rule.planned]
        usable = {place: self._alone(place, found) for place, found in candidates.items()}
        self.candidates = [candidate for found in usable.values() for candidate in found]
        self._places = _indices(usable, self.candidates)
        self.usd: FloatArray = np.array([c.usd for c in self.candidates], dtype=np.float64)
        self.speed: FloatArray = np.array([c.tokens_per_s for c in self.candidates], dtype=np.float64)
        self._is_new: FloatArray = np.array([not c.is_used for c in self.candidates], dtype=np.float64)
        self._cost: FloatArray = np.array([_cost_of(c) for c in self.candidates], dtype=np.float64)
        self._rows: list[_Row] = []
        # Price of each candidate among new ones alone, and among all: bounds without second-hand parts are closer.
        self._usd_of = {False: np.where(self._is_new > 0, self.usd, np.inf), True: self.usd}
        self._beside_cards: list[_PriceBeside] = []
        self._hosts: _PriceBeside | None = None
        self._sums: list[_SumBeside] = []
        self._known: dict[tuple[int, ...], bool] = {}
        """Whether a rule, by its place among all, allows candidates by their places."""
        for rule in self._rules if not self.is_empty else ():
            self._add(rule)
        if not self.is_empty:
            self._price_hosts()

    @property
    def is_empty(self) -> bool:
        """Whether a place has no candidate at all."""
        return any(not indices for indices in self._places.values())

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of binaries and inequalities."""
        return len(self.candidates), len(self._rows)

    def solve(
        self,
        *,
        max_usd: float = np.inf,
        min_tokens_per_s: float = 0.0,
        maximise_speed: bool,
        without: Collection[str] = (),
        used: bool = False,
    ) -> Solution | None:
        """Return the fastest machine for the money, or the cheapest that is fast enough; None if there is none.

        `without` names rules that are not kept, to see what they cost; `used` also takes second-hand cards that are
        sold new too.

        Source: scipy.optimize.milp (HiGHS branch and bound).
        """
        if self.is_empty:
            return None
        best: Solution | None = None
        order = -self.speed if maximise_speed else self.usd
        for batch in self._batches(self._upper_bounds(max_usd, min_tokens_per_s, used, without), order):
            # A machine that was found bounds the price of all that follow.
            max_usd = max_usd if best is None else best.usd
            further = best is not None and self._upper_bounds(max_usd, min_tokens_per_s, used, without)
            upper = batch if best is None else batch * further
            problem = _Problem(*self._inequalities(max_usd, min_tokens_per_s, without), maximise_speed)
            found = self._run_solver(problem, upper)
            # Speed depends on the cards alone: the best machine of the fastest sets is the best of all.
            if found is not None and maximise_speed:
                return found
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _batches(self, upper: FloatArray, order: FloatArray) -> Iterator[FloatArray]:
        """Yield upper bounds that leave only some sets of cards, by their order, each batch larger than the last."""
        cards = [i for i in self._places["cards"] if upper[i] > 0]
        cards.sort(key=lambda i: order[i])
        start = 0
        size = FIRST_BATCH
        while start < len(cards):
            batch = upper.copy()
            batch[self._places["cards"]] = 0.0
            batch[cards[start : start + size]] = 1.0
            yield batch
            start += size
            size = min(2 * size, LARGEST_BATCH)

    def _run_solver(self, problem: "_Problem", upper: FloatArray) -> Solution | None:
        """Return the best machine of the candidates whose upper bound is not 0; the others leave the program."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        kept = np.flatnonzero(upper > 0)
        equal = np.zeros((len(self._places), len(self.candidates)))
        for row, indices in enumerate(self._places.values()):
            equal[row, indices] = 1.0
        if not equal[:, kept].any(axis=1).all():
            return None
        matrix = problem.matrix[:, kept]
        binding = np.maximum(matrix, 0.0).sum(axis=1) > problem.bounds  # other rows hold whatever is taken
        constraints = [
            LinearConstraint(csr_array(matrix[binding]), -np.inf, problem.bounds[binding]),
            LinearConstraint(csr_array(equal[:, kept]), 1.0, 1.0),
        ]
        with _discard_output():
            found = milp(
                (-self.speed if problem.maximise_speed else self._cost)[kept],
                integrality=np.ones(len(kept)),
                bounds=Bounds(0, 1),
                constraints=constraints,
                options={"mip_rel_gap": 0.0, "time_limit": _MOST_S},
            )
        if found.x is None:
            return None
        return self._solution([self.candidates[i] for i in kept], found)

    def _upper_bounds(
        self, max_usd: float, min_speed: float, used: bool, without: Collection[str]
    ) -> FloatArray:
        """Upper bound of each binary: 0 for a candidate that no machine within the limits contains, because it costs
        too much beside the cheapest others that go with it, is too slow, or is second-hand and not wanted."""
        upper = np.ones(len(self.candidates)) if used else self._is_new.copy()
        is_card = np.array([candidate.run is not None for candidate in self.candidates])
        upper[is_card & (self.speed < min_speed)] = 0.0
        total = self._least_totals(without, used=used)
        upper[total > max_usd] = 0.0
        return upper

    def _least_totals(self, without: Collection[str], *, used: bool) -> FloatArray:
        """Price of each candidate with the cheapest others that rules allow with it, each rule for itself [USD]."""
        cheapest = {
            place: np.full(len(self.candidates), float(self._usd_of[used][indices].min()))
            for place, indices in self._places.items()
        }
        beside = [one for one in self._beside_cards if not set(one.rules) & set(without)]
        for one in beside:
            if len(one.places) == 1:
                cheapest[one.places[0]] = np.maximum(cheapest[one.places[0]], one.least[used])
        for place, indices in self._places.items():
            cheapest[place][indices] = 0.0
        more = np.zeros(len(self.candidates))
        for one in beside:
            if len(one.places) > 1:
                known = np.sum([cheapest[place] for place in one.places], axis=0)
                gap = np.subtract(one.least[used], known, out=np.zeros_like(known), where=np.isfinite(known))
                more = np.maximum(more, gap)
        if self._hosts is not None and not set(self._hosts.rules) & set(without):
            known = np.sum([cheapest[place] for place in self._hosts.places], axis=0)
            gap = np.subtract(
                self._hosts.least[used], known, out=np.zeros_like(known), where=np.isfinite(known)
            )
            more = np.maximum(more, gap)
        return self.usd + sum(cheapest.values()) + more

    def _solution(self, candidates: Sequence[PartCandidate], found: Any) -> Solution:
        taken = tuple(c for c, value in zip(candidates, found.x, strict=True) if value > 0.5)
        machine = Assembly(**{candidate.place: candidate.choice for candidate in taken})
        gap = float(getattr(found, "mip_gap", 0.0) or 0.0)
        gap = 0.0 if gap < SOLVER_TOLERANCE else gap
        speed = max((c.tokens_per_s for c in taken), default=0.0)
        return Solution(machine, taken, sum(c.usd for c in taken), speed, gap)

    def _inequalities(
        self, max_usd: float, min_speed: float, without: Collection[str]
    ) -> tuple[FloatArray, FloatArray]:
        kept = [number for number, row in enumerate(self._rows) if row.rule not in without]
        bounds = [self._rows[number].bound for number in kept]
        further = []
        if np.isfinite(max_usd):
            further.append(self.usd)
            bounds.append(max_usd)
        if min_speed > 0:
            further.append(-self.speed)
            bounds.append(-min_speed)
        return np.vstack([self._matrix[kept], *further]), np.array(bounds)

    @cached_property
    def _matrix(self) -> FloatArray:
        """Coefficients of every row."""
        matrix = np.zeros((len(self._rows), len(self.candidates)))
        for number, row in enumerate(self._rows):
            matrix[number, list(row.coefficients)] = list(row.coefficients.values())
        return matrix

    def _alone(self, place: str, found: Sequence[PartCandidate]) -> list[PartCandidate]:
        """Return the candidates that keep the rules on a single part."""
        rules = [r for r in self._rules if isinstance(r, MatchRule) and r.between == (place,)]
        return [c for c in found if all(rule.allows((c.choice,), self._setting) for rule in rules)]

    def _add(self, rule: Rule) -> None:
        if isinstance(rule, SumRule):
            self._add_sum(rule)
        elif all(place in self._places for place in rule.between):
            {1: lambda r: None, 2: self._add_pair, 3: self._add_triple}[len(rule.between)](rule)

    def _add_sum(self, rule: SumRule) -> None:
        row = {
            index: rule.coefficient(candidate.place, candidate.choice, self._setting)
            for index, candidate in enumerate(self.candidates)
        }
        row = {index: value for index, value in row.items() if value}
        bound = rule.bound(self._setting)
        scale = max((abs(value) for value in row.values()), default=1.0)
        scaled = {index: value / scale for index, value in row.items()}
        self._rows.append(_Row(scaled, bound / scale + 1e-9, rule.id))
        self._price_sum_beside(rule, row, scale * self._rows[-1].bound)

    def _price_sum_beside(self, rule: SumRule, row: Mapping[int, float], bound: float) -> None:
        """Note the price of the cheapest part of each place that a sum allows with each set of cards, if the parts of
        all other places need the least and give the most."""
        amounts = np.zeros(len(self.candidates))
        amounts[list(row)] = list(row.values())
        least = {place: float(amounts[indices].min()) for place, indices in self._places.items()}
        cards = self._places["cards"]
        if rule.severity == "hard":
            of_both = bound - (sum(least.values()) - least["cards"] - least["memory"])
            self._sums.append(_SumBeside(rule.id, amounts, of_both))
        for place, indices in self._places.items():
            if place == "cards" or not amounts[indices].any():
                continue
            room = bound - amounts[cards] - (sum(least.values()) - least["cards"] - least[place])
            order = np.array(indices)[np.argsort(amounts[indices])]
            taken = np.searchsorted(amounts[order], room, side="right")
            found = {used: np.zeros(len(self.candidates)) for used in self._usd_of}
            for used, usd in self._usd_of.items():
                found[used][cards] = np.append(np.inf, np.minimum.accumulate(usd[order]))[taken]
            self._beside_cards.append(_PriceBeside((rule.id,), (place,), found))

    def _add_pair(self, rule: MatchRule) -> None:
        """Add the inequalities x_a ≤ Σ x_b over the b that go with a."""
        first, second = (self._classes(rule, place) for place in rule.between)
        for group in first:
            allowed = [b for other in second if self._allows(rule, group[0], other[0]) for b in other]
            if len(allowed) < sum(map(len, second)):
                row = {**dict.fromkeys(group, 1.0), **dict.fromkeys(allowed, -1.0)}
                self._rows.append(_Row(row, 0.0, rule.id))
        self._price_beside(rule)

    def _price_beside(self, rule: MatchRule) -> None:
        """Note the price of the cheapest parts that a rule allows with each set of cards, all its places together."""
        if "cards" not in rule.between:
            return
        places = tuple(place for place in rule.between if place != "cards")
        sides = [self._classes(rule, place) for place in places]
        least = {used: np.zeros(len(self.candidates)) for used in self._usd_of}
        for used, usd in self._usd_of.items():
            price = [{group[0]: float(usd[group].min()) for group in groups} for groups in sides]
            sets = sorted(
                (sum(map(dict.__getitem__, price, ones)), ones)
                for ones in product(*([group[0] for group in groups] for groups in sides))
            )
            for group in self._classes(rule, "cards"):
                fitting = (
                    each
                    for each, ones in sets
                    if self._allows(
                        rule, *_in_order(rule, {"cards": group[0], **dict(zip(places, ones, strict=True))})
                    )
                )
                least[used][group] = next(fitting, np.inf)
        self._beside_cards.append(_PriceBeside((rule.id,), places, least))

    def _add_triple(self, rule: MatchRule) -> None:
        """Add the inequalities x_a + x_b − 1 ≤ Σ x_c over the c that go with both."""
        sides = [self._classes(rule, place) for place in rule.between]
        # The place with the most kinds is on the right, which needs fewer rows.
        order = sorted(range(3), key=lambda i: len(sides[i]))
        first, second, third = (sides[i] for i in order)
        for group in first:
            alike: dict[tuple[int, ...], list[int]] = {}
            for other in second:
                allowed = tuple(
                    number
                    for number, last in enumerate(third)
                    if self._allows(rule, *_restore_order(order, (group[0], other[0], last[0])))
                )
                if len(allowed) < len(third):
                    alike.setdefault(allowed, []).extend(other)
            for allowed, others in alike.items():
                taken = dict.fromkeys((*group, *others), 1.0)
                able = (c for number in allowed for c in third[number])
                self._rows.append(_Row({**taken, **dict.fromkeys(able, -1.0)}, 1.0, rule.id))
        self._price_beside(rule)

    def _classes(self, rule: MatchRule, place: str) -> list[list[int]]:
        """Return the candidates of a place in groups that the rule cannot distinguish."""
        if place not in rule.reads:
            return [[index] for index in self._places[place]]
        found: dict[object, list[int]] = {}
        for index in self._places[place]:
            found.setdefault(rule.figures(place, self.candidates[index].choice), []).append(index)
        return list(found.values())

    def _allows(self, rule: MatchRule, *indices: int) -> bool:
        key = (id(rule), *indices)
        found = self._known.get(key)
        if found is None:
            found = rule.allows(tuple(self.candidates[i].choice for i in indices), self._setting)
            self._known[key] = found
        return found

    def _price_hosts(self) -> None:
        """Note the price of the cheapest CPU, board and memory that go together and with each set of cards by all hard
        rules on them at once. Rules for themselves allow each a cheap part that goes with none of the others."""
        rules = [
            rule
            for rule in self._rules
            if isinstance(rule, MatchRule)
            and rule.severity == "hard"
            and len(rule.between) > 1
            and set(rule.between) <= {"cards", *_HOST}
        ]
        sums = [one for one in self._sums if one.amounts[self._places["memory"]].any()]
        kinds = {place: self._kinds(rules, sums, place) for place in ("cards", *_HOST)}
        firsts = {place: [group[0] for group in groups] for place, groups in kinds.items()}
        allowed = np.ones([len(firsts[place]) for place in _HOST], dtype=bool)
        of_cards = []
        for rule in rules:
            if "cards" in rule.between:
                of_cards.append(rule)
            else:
                allowed &= self._table(rule, firsts)
        usd: dict[bool, FloatArray] = {}
        for used, prices in self._usd_of.items():
            each = [np.array([prices[group].min() for group in kinds[place]]) for place in _HOST]
            whole = each[0][:, None, None] + each[1][None, :, None] + each[2][None, None, :]
            usd[used] = np.where(allowed, whole, np.inf)
        least = {used: np.zeros(len(self.candidates)) for used in usd}
        tables: dict[tuple[int, int], NDArray[np.bool_]] = {}
        cheapest: dict[tuple[float, ...], dict[bool, float]] = {}
        reads = [dict(self._class_of(rule, "cards")) for rule in of_cards]
        for group in kinds["cards"]:
            key = (*(read[group[0]] for read in reads), *(one.amounts[group[0]] for one in sums))
            if key not in cheapest:
                fits = np.ones_like(allowed)
                for one in sums:
                    fits = fits & (one.amounts[firsts["memory"]] <= one.room - one.amounts[group[0]])
                for number, (rule, first) in enumerate(zip(of_cards, key, strict=False)):
                    if (number, first) not in tables:
                        tables[number, first] = self._table(rule, {**firsts, "cards": [first]})
                    fits = fits & tables[number, first]
                cheapest[key] = {
                    used: float(np.min(prices, where=fits, initial=np.inf)) for used, prices in usd.items()
                }
            for used in usd:
                least[used][group] = cheapest[key][used]
        names = tuple({*(rule.id for rule in rules), *(one.rule for one in sums)})
        self._hosts = _PriceBeside(names, _HOST, least)

    def _kinds(self, rules: Sequence[MatchRule], sums: Sequence["_SumBeside"], place: str) -> list[list[int]]:
        """Return the candidates of a place in groups that none of some rules can distinguish."""
        found: dict[object, list[int]] = {}
        reads = [dict(self._class_of(rule, place)) for rule in rules if place in rule.between]
        for index in self._places[place]:
            key = (*(read[index] for read in reads), *(one.amounts[index] for one in sums))
            found.setdefault(key, []).append(index)
        return list(found.values())

    def _class_of(self, rule: MatchRule, place: str) -> Iterator[tuple[int, int]]:
        """Yield each candidate of a place with the first one that a rule cannot distinguish from it."""
        for group in self._classes(rule, place):
            yield from ((index, group[0]) for index in group)

    def _table(self, rule: MatchRule, firsts: Mapping[str, Sequence[int]]) -> NDArray[np.bool_]:
        """Return whether a rule allows each CPU, board and memory, with axes of length one where it reads none; the
        cards are those given."""
        places = [place for place in _HOST if place in rule.between]
        first_of = {place: dict(self._class_of(rule, place)) for place in places}
        sides = [[first_of[place][index] for index in firsts[place]] for place in places]
        ahead = {"cards": firsts["cards"][0]} if "cards" in rule.between else {}
        values = [
            self._allows(rule, *_in_order(rule, {**ahead, **dict(zip(places, ones, strict=True))}))
            for ones in product(*sides)
        ]
        shape = [len(firsts[place]) if place in places else 1 for place in _HOST]
        return np.array(values, dtype=bool).reshape(shape)


def _cost_of(candidate: PartCandidate) -> float:
    """Price and trouble of a part, less a thousandth of a cent for each token per second, and a cent for each of its
    pieces, which decides among equal prices for the fewer [USD]."""
    return candidate.usd + candidate.trouble_usd - 1e-5 * candidate.tokens_per_s + 0.01 * candidate.num_pieces


def _in_order(rule: MatchRule, indices: Mapping[str, int]) -> tuple[int, ...]:
    """Return candidates by place in the order of a rule's places."""
    return tuple(indices[place] for place in rule.between)


def _restore_order(order: Sequence[int], values: tuple[int, int, int]) -> tuple[int, ...]:
    """Return values that were reordered, in the rule's own order."""
    restored = [0, 0, 0]
    for position, value in zip(order, values, strict=True):
        restored[position] = value
    return tuple(restored)


def _indices(places: Iterable[str], candidates: Sequence[PartCandidate]) -> dict[str, list[int]]:
    """Return the candidates' indices by place, places without candidates included."""
    found: dict[str, list[int]] = {place: [] for place in places}
    for index, candidate in enumerate(candidates):
        found[candidate.place].append(index)
    return found
