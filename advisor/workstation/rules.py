"""Two kinds of rule; each rule is written once, for the check of a machine and for the optimiser's program."""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from advisor.workstation.assembly import Assembly, Cards, Check, Setting, Severity

Choice = Any
"""Content of one place of a machine: Cards, a Cpu, a Board, Memory, Supplies, a Case, ..."""


NO_CARDS: Final = "no cards"
"""Figures of a set without cards, for every rule that reads cards."""


class Finding(NamedTuple):
    """Measurement of a rule on its parts."""

    actual: float
    limit: float
    passed: bool
    why: str
    remedy: str = ""
    is_unknown: bool = False
    """Whether a figure that the rule reads is in no record: the rule does not pass, and is not broken either."""


def check_of(id: str, title: str, unit: str, finding: Finding, severity: Severity = "hard") -> Check:
    """Return the check of a rule that found something on its parts."""
    actual, limit, passed, why, remedy, is_unknown = finding
    return Check(id, title, actual, limit, unit, passed, severity, why, remedy, is_unknown)


def at_most(actual: float, limit: float, why: str, remedy: str) -> Finding:
    """Return a finding that passes up to its limit."""
    return Finding(actual, limit, actual <= limit, why, remedy)


def at_least(actual: float, limit: float, why: str, remedy: str) -> Finding:
    """Return a finding that passes from its limit on."""
    return Finding(actual, limit, actual >= limit, why, remedy)


def holds(fits: bool, why: str, remedy: str) -> Finding:
    """Return a finding that passes if `fits`."""
    return Finding(float(fits), 1, fits, why, remedy)


@dataclass(frozen=True, slots=True)
class MatchRule:
    """Rule by which two or three parts go together or do not."""

    id: str
    title: str
    between: tuple[str, ...]
    """Places of the parts, in the order of the function's arguments."""
    judge: Callable[..., Finding | None]
    """Function (parts..., setting) -> finding; it returns None if the rule does not concern the parts."""
    unit: str = ""
    severity: Severity = "hard"
    planned: bool = True
    """Whether the planner keeps the rule; of advice only if its estimates are good enough for that."""
    reads: dict[str, Callable[[Choice], Hashable]] = field(default_factory=dict)
    """Function by place that returns the figures which the rule reads; parts with equal figures are judged once."""
    without_cards: bool = False
    """Whether the rule also concerns a machine without cards."""

    def check(self, machine: Assembly, setting: Setting) -> Check | None:
        """Return the check of a machine; None if a part is not known or the rule does not concern it."""
        parts = [getattr(machine, place) for place in self.between]
        return None if any(part is None for part in parts) else self.check_parts(parts, setting)

    def check_parts(self, parts: Sequence[Choice], setting: Setting) -> Check | None:
        """Return the check of the rule's own parts; None if the rule does not concern them."""
        found = self._finding(parts, setting)
        return None if found is None else check_of(self.id, self.title, self.unit, found, self.severity)

    def allows(self, parts: tuple[Choice, ...], setting: Setting) -> bool:
        """Whether the parts go together."""
        found = self._finding(parts, setting)
        return found is None or found.passed

    def _finding(self, parts: Sequence[Choice], setting: Setting) -> Finding | None:
        if not self.without_cards and any(isinstance(part, Cards) and not part.cards for part in parts):
            return None
        return self.judge(*parts, setting)

    def figures(self, place: str, choice: Choice) -> Hashable:
        """Return the figures of a part that the rule reads; the part itself if the rule does not say."""
        if isinstance(choice, Cards) and not choice.cards and not self.without_cards:
            return NO_CARDS
        return self.reads[place](choice)


@dataclass(frozen=True, slots=True)
class SumRule:
    """Rule by which the sum of needs of parts must not exceed the sum that parts give."""

    id: str
    title: str
    needs: dict[str, Callable[[Choice, Setting], float]]
    """Function by place that returns the need of a part."""
    gives: dict[str, Callable[[Choice, Setting], float]]
    words: Callable[[float, float, Assembly, Setting], tuple[str, str]]
    """Function (actual, limit, machine, setting) -> why, remedy."""
    base_need: Callable[[Setting], float] = lambda setting: 0.0
    base_give: Callable[[Setting], float] = lambda setting: 0.0
    unit: str = "W"
    severity: Severity = "hard"
    planned: bool = True
    show: Callable[[float], float] = lambda value: value
    """Function from the quantity that adds up to the one that is shown (decibels)."""
    required: tuple[str, ...] = ()
    """Places without which the rule has no result."""
    concerns: Callable[[Assembly], bool] = lambda machine: True
    """Whether the rule says anything about a listed machine; the planner's machines are all concerned."""
    in_doubt: Callable[[Assembly], bool] = lambda machine: False
    """Whether the figure that makes a machine fail is in no record."""
    error: float = 0.0
    """Error of the rule's estimates, over what the parts give: within it a machine gets a warning. The planner does not
    use it."""
    absent: Mapping[str, float] = field(default_factory=dict)
    """Need that is taken of a part which a list does not name, by place."""
    is_lenient: Callable[[Assembly, Setting], bool] = lambda machine, setting: True
    """Whether a machine within the error gets a warning only."""

    def coefficient(self, place: str, part: Choice, setting: Setting) -> float:
        """Need minus give of one part: its coefficient on the left of Σ coefficients ≤ bound."""
        need = self.needs.get(place)
        give = self.gives.get(place)
        return (need(part, setting) if need else 0.0) - (give(part, setting) if give else 0.0)

    def bound(self, setting: Setting) -> float:
        """Right side of the inequality: give minus need that do not depend on the parts."""
        return self.base_give(setting) - self.base_need(setting)

    def check(self, machine: Assembly, setting: Setting) -> Check | None:
        """Return the check of a machine; None if a part that the rule requires is missing."""
        if any(getattr(machine, place) is None for place in self.required) or not self.concerns(machine):
            return None

        def total(base: float, amounts: dict[str, Callable[[Choice, Setting], float]]) -> float:
            parts = ((amount, getattr(machine, place)) for place, amount in amounts.items())
            return sum((amount(part, setting) for amount, part in parts if part is not None), base)

        unnamed = sum(need for place, need in self.absent.items() if getattr(machine, place) is None)
        need = total(self.base_need(setting) + unnamed, self.needs)
        give = total(self.base_give(setting), self.gives)
        passed = need <= give * (1 + 1e-9)
        actual = self.show(need)
        limit = self.show(give)
        why, remedy = self.words(actual, limit, machine, setting)
        is_near = not passed and need <= give * (1 + self.error) and self.is_lenient(machine, setting)
        if is_near:
            why += f"; the estimate errs by {self.error:.0%}, so this may hold"
        severity: Severity = "advice" if is_near else self.severity
        is_unknown = not passed and not is_near and self.in_doubt(machine)
        return Check(self.id, self.title, actual, limit, self.unit, passed, severity, why, remedy, is_unknown)


Rule = MatchRule | SumRule


def match_rule(
    id: str,
    title: str,
    unit: str = "",
    severity: Severity = "hard",
    *,
    planned: bool = True,
    without_cards: bool = False,
    **reads: Callable[[Choice], Hashable],
) -> Callable[[Callable[..., Finding | None]], MatchRule]:
    """Return a decorator that makes a function a rule between the parts that its parameters name; the setting comes
    last."""

    def rule(judge: Callable[..., Finding | None]) -> MatchRule:
        between = tuple(inspect.signature(judge).parameters)[:-1]
        return MatchRule(id, title, between, judge, unit, severity, planned, reads, without_cards)

    return rule


def sum_rule(id: str, title: str, **fields: Any) -> Callable[[Callable[..., tuple[str, str]]], SumRule]:
    """Return a decorator that makes a function the words of a rule on sums."""
    return lambda words: SumRule(id, title, words=words, **fields)
