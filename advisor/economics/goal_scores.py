"""Scores of families of hardware under a goal: each a mean of facts between 0 and 1, each fact with its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.platforms import Published
from advisor.catalog.units import plain_number
from advisor.economics.goal import Goal
from advisor.economics.goal_facts import PlatformFacts

SUPPORT_POINTS: Final = {"native": 1.0, "plugin": 0.75, "experimental": 0.4, "none": 0.0}
"""Own scale: the framework's own releases; the same program with changes; on trial; another program."""
WEIGHT_POINTS: Final = {"any": 1.0, "adapters": 0.5, "listed": 0.0}
_WEIGHT_WORDS: Final = {
    "any": "loads any checkpoint",
    "adapters": "adapters of listed models only",
    "listed": "listed models only",
}
ENOUGH_ENGINES: Final = 3
ENOUGH_PROVIDERS: Final = 5
"""More of them add nothing to the score: one can leave the first, and the second, without leaving the hardware."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about a family of hardware as points between 0 and 1; `None` where no source states it."""

    name: str
    points: float | None
    text: str
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class GoalScore:
    """The mean of its facts; what is not known leaves a range."""

    name: str
    weight: float
    """Share of the total."""
    low: float
    high: float
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class PlatformScore:
    """One family of hardware under the goal."""

    rank: int
    platform: str
    name: str
    access: str
    accelerator: str
    deal: str
    usd_per_million_tokens: float | None
    score: float
    """Weighted sum, what is not known counting nothing."""
    score_at_best: float
    """Weighted sum in which each unknown counts in full."""
    scores: tuple[GoalScore, ...]


def rank_platforms(facts: Sequence[PlatformFacts], goal: Goal) -> tuple[PlatformScore, ...]:
    """Families by their weighted score, best first.

    Source: weighted sum; weights from the goal, points from the facts.
    """
    cheapest = min(
        (fact.deal.usd_per_million_tokens for fact in facts if fact.deal is not None), default=None
    )
    shares = goal.weights.shares()
    found = []
    for fact in facts:
        parts = {
            "fit": _fit(fact, goal),
            "cost": _cost(fact, cheapest),
            "ecosystem": _ecosystem(fact),
            "team": _team(fact, goal),
        }
        scores = tuple(_score(name, shares[name], known) for name, known in parts.items())
        found.append((fact, scores))
    found.sort(key=lambda pair: (-_total(pair[1], "low"), -_total(pair[1], "high"), pair[0].platform.id))
    return tuple(
        PlatformScore(
            rank=rank,
            platform=fact.platform.id,
            name=fact.platform.name,
            access=fact.platform.access,
            accelerator=fact.deal.accelerator if fact.deal else "",
            deal=fact.deal.what if fact.deal else fact.reason,
            usd_per_million_tokens=fact.deal.usd_per_million_tokens if fact.deal else None,
            score=_total(scores, "low"),
            score_at_best=_total(scores, "high"),
            scores=scores,
        )
        for rank, (fact, scores) in enumerate(found, start=1)
    )


def _total(scores: Sequence[GoalScore], end: str) -> float:
    return sum(score.weight * float(getattr(score, end)) for score in scores)


def _score(name: str, weight: float, facts: tuple[Fact, ...]) -> GoalScore:
    low = sum(fact.points or 0.0 for fact in facts) / len(facts)
    high = sum(1.0 if fact.points is None else fact.points for fact in facts) / len(facts)
    return GoalScore(name, weight, low, high, facts)


def _fit(fact: PlatformFacts, goal: Goal) -> tuple[Fact, ...]:
    platform = fact.platform
    facts = [_serves(fact)]
    if goal.needs.own_weights:
        points = WEIGHT_POINTS[platform.weights]
        text = _WEIGHT_WORDS[platform.weights]
        facts.append(Fact("own weights", points, text, "", platform.weights_source))
    if goal.needs.training:
        text = "trains" if platform.trains else "no training at scale"
        facts.append(Fact("trains", float(platform.trains), text, "", "frameworks below"))
    return tuple(facts)


def _serves(fact: PlatformFacts) -> Fact:
    deal = fact.deal
    if deal is None:
        return Fact("serves the model", _unless_unpriced(fact), fact.reason, "", "search")
    if fact.platform.service:
        text = f"{deal.what}; its latencies are not simulated"
        return Fact("serves the model", 1.0, text, deal.observed_on, deal.source)
    text = f"within the objectives: {deal.what}"
    return Fact("serves the model", 1.0, text, deal.observed_on, "simulated")


def _unless_unpriced(fact: PlatformFacts) -> float | None:
    """Return 0 if the family fails; None (unknown) if only its price is missing, so that it was not simulated."""
    return None if fact.is_unpriced else 0.0


def _cost(fact: PlatformFacts, cheapest: float | None) -> tuple[Fact, ...]:
    deal = fact.deal
    if deal is None or cheapest is None:
        unknown = _unless_unpriced(fact)
        return (Fact("cost", unknown, fact.reason, "", "catalog prices"),)
    usd = deal.usd_per_million_tokens
    span = (
        f" ({plain_number(deal.low, 2)}-{plain_number(deal.high, 2)}, {deal.basis})"
        if deal.high > deal.low
        else f" ({deal.basis})"
    )
    text = f"${plain_number(usd)} per million tokens{span}; the cheapest family ${plain_number(cheapest)}"
    return (Fact("cost", cheapest / usd, text, deal.observed_on, deal.source),)


def _ecosystem(fact: PlatformFacts) -> tuple[Fact, ...]:
    platform = fact.platform
    engines = fact.engines
    providers = fact.providers
    sellers = f"{len(providers)}: {', '.join(providers[:6])}" if providers else "none with a price"
    measured = "measured on its architecture" if fact.kernels_measured else "borrowed from related hardware"
    return (
        Fact(
            "open engines",
            min(1.0, len(engines) / ENOUGH_ENGINES),
            ", ".join(engines) or "none",
            "",
            "engine records",
        ),
        Fact("providers", min(1.0, len(providers) / ENOUGH_PROVIDERS), sellers, "", "catalog prices"),
        _published_fact("published serving", platform.inference),
        _published_fact("published training", platform.training),
        Fact(
            "kernel parameters",
            float(fact.kernels_measured),
            measured if fact.deal and not platform.service else "nothing was simulated",
            "",
            "efficiency records",
        ),
    )


def _published_fact(name: str, result: Published) -> Fact:
    return Fact(name, float(result.found), result.text, result.date.isoformat(), result.source)


def _team(fact: PlatformFacts, goal: Goal) -> tuple[Fact, ...]:
    """The best supported framework that the team knows."""
    knows = goal.team.frameworks
    if not (goal.needs.training or goal.needs.own_weights):
        knows = (*knows, "api")  # anybody can call a service, where a listed model will do
    known = [
        (SUPPORT_POINTS[support.level], name, support)
        for name in knows
        if (support := fact.platform.frameworks.get(name)) is not None
    ]
    if not known:
        named = ", ".join(goal.team.frameworks)
        return (Fact("framework", 0.0, f"nothing known of {named} on it", "", "platform records"),)
    points, name, support = max(known, key=lambda entry: entry[0])
    return (Fact("framework", points, f"{name}: {support.level}", "", support.source),)
