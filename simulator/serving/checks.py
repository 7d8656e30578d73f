"""Numbers that describe loads, schedulers and fleets: whole where they count, positive where they measure."""

import math

from advisor.catalog.errors import AdvisorError


def whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse what is not a whole number in a range.

    Raises: AdvisorError: it is none, or too small, or too large.
    Source: own definition.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        raise AdvisorError(f"{name} must be a whole number of at least {least}, not {value!r}")


def positive(name: str, value: float) -> None:
    """Refuse what is not a positive and finite number.

    Raises: AdvisorError: it is not.
    Source: own definition.
    """
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise AdvisorError(f"{name} must be positive and finite, not {value}")
