"""How much may be simulated for one answer: counted in work, not in seconds, so that an answer is the same anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from advisor.catalog.units import MILLION
from advisor.simulator.serving import ServingResult

SEARCH_WORK: Final = 3_500_000
"""Requests plus events of all runs of one search: some 20 s. Usual questions take 0.5 to 2.5 million."""
SHOW_WORK: Final = 2_000_000
"""Limit of requests plus events for the runs that confirm, show and try an answer, and for the questions near one
without an answer."""
CHANGE_WORK: Final = 300_000
"""Limit of requests plus events for one changed question, tried where the question itself has no answer. It is enough
to see that something serves the changed question; what is best there is not sought."""
ENDED_EARLY: Final = (
    f"the search ended at its limit of {SEARCH_WORK / MILLION:g} million simulated events; what was not tried by then "
    "is called so: --gpu, --engine or --precision make the question smaller"
)
NOT_SETTLED: Final = (
    "some capacities and times are those of the search, at full load: more takes over "
    f"{SHOW_WORK / MILLION:g} million simulated events"
)


class Effort:
    """Work that was done, against a limit."""

    def __init__(self, most: int) -> None:
        self.left = most

    @property
    def is_spent(self) -> bool:
        """Whether nothing more should be begun."""
        return self.left <= 0


_effort: ContextVar[Effort | None] = ContextVar("effort", default=None)


@contextmanager
def limit_effort(most: int, *, is_apart: bool = False) -> Iterator[Effort]:
    """Limit what is simulated inside; inside another limit, at most what that one has left, and it is charged too,
    unless this work `is_apart`."""
    outer = None if is_apart else _effort.get()
    allowed = most if outer is None else min(most, outer.left)
    effort = Effort(allowed)
    before = _effort.set(effort)
    try:
        yield effort
    finally:
        _effort.reset(before)
        if outer is not None:
            outer.left -= allowed - effort.left


def spend(work: int) -> None:
    """Charge the requests and events of a run to the limit of work."""
    effort = _effort.get()
    if effort is not None:
        effort.left -= work


def affords(result: ServingResult, num_requests: int) -> bool:
    """Whether `num_requests` more requests like those of a run are within the limit; if not, the limit counts as
    reached."""
    effort = _effort.get()
    if effort is None:
        return True
    work = num_requests * (result.num_events + result.num_requests) / max(1, result.num_requests)
    if work > effort.left:
        effort.left = 0
    return not effort.is_spent


def is_spent() -> bool:
    """Whether the limit that counts here is reached."""
    effort = _effort.get()
    return effort is not None and effort.is_spent
