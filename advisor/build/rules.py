"""Two shapes of rule; each is stated once and read by the check of a machine and by the optimiser's model alike."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from advisor.build.assembly import Assembly, Check, Setting, Severity

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
        return Check(
            self.id, self.title, found.actual, found.limit, self.unit, found.passed, self.severity, found.why,
            found.remedy, found.is_unknown,
        )  # fmt: skip

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
        need, give = self.base_need(setting), self.base_give(setting)
        for place, amount in self.needs.items():
            part = getattr(machine, place)
            need += amount(part, setting) if part is not None else 0.0
        for place, amount in self.gives.items():
            part = getattr(machine, place)
            give += amount(part, setting) if part is not None else 0.0
        passed = need <= give * (1 + 1e-9)
        actual, limit = self.show(need), self.show(give)
        why, remedy = self.words(actual, limit, machine, setting)
        is_unknown = not passed and self.in_doubt(machine)
        return Check(
            self.id, self.title, actual, limit, self.unit, passed, self.severity, why, remedy, is_unknown
        )


Rule = MatchRule | SumRule
