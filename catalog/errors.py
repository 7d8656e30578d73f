"""User errors, each with what, why and fix, and the two checks that many numbers need."""

import math
import re


class AdvisorError(Exception):
    """User mistake: what happened, why, how to fix it, and a hint. Shown without traceback."""

    exit_code = 2

    def __init__(self, what: str, *, why: str = "", fix: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.hint = hint


class UnknownNameError(AdvisorError):
    """Unknown name of a model, accelerator, provider or engine."""


class InputFileError(AdvisorError):
    """File that is missing, unreadable or malformed; the message names file, row and field."""


class InfeasibleError(AdvisorError):
    """Request that no option satisfies."""

    exit_code = 3


class MissingHardwareError(AdvisorError):
    """Missing hardware, driver or optional package."""

    exit_code = 6


def install_command(extra: str, *needed: str) -> str:
    """Return the command that installs the packages of an optional extra, or those that are `needed` of it, to a
    checkout as to an installed wheel: by their own names, since that of this package is not reserved in the index,
    where it could be a stranger's."""
    from importlib.metadata import requires

    marked = (entry.partition(";") for entry in requires("ai-hardware-advisor") or ())
    entries = [entry for entry, _, marker in marked if re.search(rf"extra == .{extra}\b", marker)]
    whole_names = [re.split(r"[\s<>=!~]", entry.strip(), maxsplit=1)[0] for entry in entries]
    names = [name for name in whole_names if not needed or name.partition("[")[0] in needed]
    return " ".join(("pip install", *(f"'{name}'" if "[" in name else name for name in names)))


def whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse a value that is not a whole number in a range.

    Raises: AdvisorError: the value is not whole, too small, or too large.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        raise AdvisorError(f"{name} must be a whole number of at least {least}, not {value!r}")


def positive(name: str, value: float) -> None:
    """Refuse a value that is not a positive and finite number.

    Raises: AdvisorError: the value is not positive and finite.
    """
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise AdvisorError(f"{name} must be positive and finite, not {value}")
