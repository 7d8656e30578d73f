"""Choice between machines that a question names: which one an experienced builder takes, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.workstation.assembly import Check
from advisor.workstation.knee import WORTH_IT, sure_speed_of
from advisor.workstation.plan import Build

SAME_SPEED: Final = 0.05
"""Difference of speed up to which machines count as equally fast: predictions err by more."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Machine that is recommended among several."""

    place: int
    faults: tuple[tuple[Check, ...], ...]
    """Failed checks of each machine that not all of them fail, by weight."""

    def is_sound(self, place: int) -> bool:
        """Whether a machine breaks no rule that others keep."""
        return not any(check.verdict == "broken" for check in self.faults[place])


def choose(builds: Sequence[Build]) -> Preference | None:
    """Return the machine to take: of those that run the model and break no rule the one with the fewest faults where
    all are as fast, else the dearest whose price buys speed; None if none runs it.

    Source: own definition; the price buys speed as in `knee`.
    """
    failed = [[check for check in build.checks if not check.passed] for build in builds]
    common = set.intersection(*({check.rule for check in checks} for checks in failed))
    faults = tuple(
        tuple(check for check in checks if check.rule not in common or check.verdict == "broken")
        for checks in failed
    )
    able = [place for place, build in enumerate(builds) if sure_speed_of(build)]
    if not able:
        return None
    fewest = min(_num_broken(faults[place]) for place in able)
    able = [place for place in able if _num_broken(faults[place]) == fewest]
    speeds = [sure_speed_of(builds[place]) for place in able]
    if min(speeds) >= (1.0 - SAME_SPEED) * max(speeds):
        best = min(
            able,
            key=lambda place: (
                _weight(faults[place]),
                any(line.unit_price_usd is None for line in builds[place].parts),
                builds[place].total_usd,
            ),
        )
        return Preference(best, faults)
    if any(line.unit_price_usd is None for place in able for line in builds[place].parts):
        return Preference(max(able, key=lambda place: sure_speed_of(builds[place])), faults)
    able.sort(key=lambda place: (builds[place].total_usd, -sure_speed_of(builds[place])))
    best = able[0]
    for place in able[1:]:
        gain = sure_speed_of(builds[place]) / sure_speed_of(builds[best]) - 1.0
        # What its owner has costs nothing: a purchase beside it counts as twice the price.
        base = builds[best].total_usd
        dearer = builds[place].total_usd / base - 1.0 if base else 1.0
        if gain > SAME_SPEED and gain >= WORTH_IT * dearer:
            best = place
    return Preference(best, faults)


def _num_broken(checks: Sequence[Check]) -> int:
    return sum(check.verdict == "broken" for check in checks)


_WEIGHTS: Final = {"broken": 100, "unknown": 3, "advice": 1, "ok": 0}
"""Weight of a failed check in the order of machines that are equally fast. Own choice."""


def _weight(checks: Sequence[Check]) -> int:
    return sum(_WEIGHTS[check.verdict] for check in checks)
