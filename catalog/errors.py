"""What a user can get wrong, told as what, why, what to do; the two checks that many numbers need."""

import math


class AdvisorError(Exception):
    """A mistake that the user can mend: what happened, why, how to fix it, and a hint. Shown without traceback."""

    exit_code = 2

    def __init__(self, what: str, *, why: str = "", fix: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.hint = hint


class UnknownNameError(AdvisorError):
    """A model, accelerator, provider or engine that the catalog does not hold."""


class InputFileError(AdvisorError):
    """A file that is missing, unreadable or malformed; the message names file, row and field."""


class InfeasibleError(AdvisorError):
    """Nothing satisfies the request."""

    exit_code = 3


class MissingHardwareError(AdvisorError):
    """Hardware, driver or optional package is missing."""

    exit_code = 6


def whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse what is not a whole number in a range.

    Raises: AdvisorError: it is none, or too small, or too large.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        raise AdvisorError(f"{name} must be a whole number of at least {least}, not {value!r}")


def positive(name: str, value: float) -> None:
    """Refuse what is not a positive and finite number.

    Raises: AdvisorError: it is not.
    """
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise AdvisorError(f"{name} must be positive and finite, not {value}")
