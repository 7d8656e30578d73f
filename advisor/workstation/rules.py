"""Two shapes of rule; each is stated once and read by the check of a machine and by the optimiser's model alike."""

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from advisor.workstation.assembly import Assembly, Check, Setting, Severity

Choice = Any
"""What a machine holds in one place: Cards, a Cpu, a Board, Memory, Supplies, a Case, ..."""


class Finding(NamedTuple):
    """What a rule measures on the parts that it looks at."""

    actual: float
    limit: float
    passed: bool
    why: str
    remedy: str = ""
    is_unknown: bool = False
    """Nobody can say: what the rule reads is in no record. It does not pass, and is not broken either."""


def at_most(actual: float, limit: float, why: str, remedy: str) -> Finding:
    """What passes up to its limit."""
    return Finding(actual, limit, actual <= limit, why, remedy)


def at_least(actual: float, limit: float, why: str, remedy: str) -> Finding:
    """What passes from its limit on."""
    return Finding(actual, limit, actual >= limit, why, remedy)


def holds(fits: bool, why: str, remedy: str) -> Finding:
    """What is so or not."""
    return Finding(float(fits), 1, fits, why, remedy)


@dataclass(frozen=True, slots=True)
class MatchRule:
    """Two or three parts either go together or do not."""

    id: str
    title: str
    between: tuple[str, ...]
    """Places of the parts, in the order of the function's arguments."""
    judge: Callable[..., Finding | None]
    """(parts..., setting) -> finding; None where the rule does not concern them."""
    unit: str = ""
    severity: Severity = "hard"
    planned: bool = True
    """Whether the planner keeps it; of advice only what its estimates are good enough for."""
    reads: dict[str, Callable[[Choice], Hashable]] = field(default_factory=dict)
    """What the rule reads of the part in a place, where parts that agree in it need not be judged twice."""

    def check(self, machine: Assembly, setting: Setting) -> Check | None:
        """The rule applied to a machine; None where a part is not known or the rule does not concern it."""
        parts = [getattr(machine, place) for place in self.between]
        return None if any(part is None for part in parts) else self.check_parts(parts, setting)

    def check_parts(self, parts: Sequence[Choice], setting: Setting) -> Check | None:
        """The rule applied to the parts that it is about; None where it does not concern them."""
        found = self.judge(*parts, setting)
        if found is None:
            return None
        actual, limit, passed, why, remedy, is_unknown = found
        return Check(
            self.id, self.title, actual, limit, self.unit, passed, self.severity, why, remedy, is_unknown
        )

    def allows(self, parts: tuple[Choice, ...], setting: Setting) -> bool:
        """Whether the parts go together."""
        found = self.judge(*parts, setting)
        return found is None or found.passed


@dataclass(frozen=True, slots=True)
class SumRule:
    """What parts need, added up, must not exceed what parts give, added up."""

    id: str
    title: str
    needs: dict[str, Callable[[Choice, Setting], float]]
    """By place."""
    gives: dict[str, Callable[[Choice, Setting], float]]
    words: Callable[[float, float, Assembly, Setting], tuple[str, str]]
    """(actual, limit, machine, setting) -> why, remedy."""
    base_need: Callable[[Setting], float] = lambda setting: 0.0
    base_give: Callable[[Setting], float] = lambda setting: 0.0
    unit: str = "W"
    severity: Severity = "hard"
    planned: bool = True
    show: Callable[[float], float] = lambda value: value
    """From the quantity that adds up to the one that people read (decibels)."""
    required: tuple[str, ...] = ()
    """Places without which nothing can be said."""
    in_doubt: Callable[[Assembly], bool] = lambda machine: False
    """Whether a figure of a machine that does not pass is in no record."""

    def coefficient(self, place: str, part: Choice, setting: Setting) -> float:
        """Need minus give of one part: what it adds to the left of  Σ coefficients ≤ bound."""
        need, give = self.needs.get(place), self.gives.get(place)
        return (need(part, setting) if need else 0.0) - (give(part, setting) if give else 0.0)

    def bound(self, setting: Setting) -> float:
        """The right side: what is given minus what is needed whatever the parts."""
        return self.base_give(setting) - self.base_need(setting)

    def check(self, machine: Assembly, setting: Setting) -> Check | None:
        """The rule applied to a machine; None where a part that it needs to know is missing."""
        if any(getattr(machine, place) is None for place in self.required):
            return None

        def total(base: float, amounts: dict[str, Callable[[Choice, Setting], float]]) -> float:
            parts = ((amount, getattr(machine, place)) for place, amount in amounts.items())
            return sum((amount(part, setting) for amount, part in parts if part is not None), base)

        need = total(self.base_need(setting), self.needs)
        give = total(self.base_give(setting), self.gives)
        passed = need <= give * (1 + 1e-9)
        actual, limit = self.show(need), self.show(give)
        why, remedy = self.words(actual, limit, machine, setting)
        is_unknown = not passed and self.in_doubt(machine)
        return Check(
            self.id, self.title, actual, limit, self.unit, passed, self.severity, why, remedy, is_unknown
        )


Rule = MatchRule | SumRule


def match_rule(
    id: str,
    title: str,
    unit: str = "",
    severity: Severity = "hard",
    *,
    planned: bool = True,
    **reads: Callable[[Choice], Hashable],
) -> Callable[[Callable[..., Finding | None]], MatchRule]:
    """The function below as a rule between the parts that its parameters name; the setting is the last."""

    def rule(judge: Callable[..., Finding | None]) -> MatchRule:
        between = tuple(inspect.signature(judge).parameters)[:-1]
        return MatchRule(id, title, between, judge, unit, severity, planned, reads)

    return rule


def sum_rule(id: str, title: str, **fields: Any) -> Callable[[Callable[..., tuple[str, str]]], SumRule]:
    """The function below as the words of a rule on sums."""
    return lambda words: SumRule(id, title, words=words, **fields)
