"""What a user can get wrong, told as what, why, what to do."""


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
