"""How failures end a run: what, why, `To fix:`, `Hint:` on stderr, and an exit code for scripts."""

import sys
from typing import Final

from typer import TyperException

from advisor.catalog.errors import AdvisorError

INTERNAL: Final = 1
INTERRUPTED: Final = 130

EXIT_CODES: Final = (
    (0, "ok; warnings, such as stale prices, are still ok"),
    (INTERNAL, "internal error"),
    (2, "usage error or bad input file"),
    (3, "nothing satisfies the request"),
    (4, "probe verdict FAIL"),
    (5, "probe verdict WARN under --strict"),
    (6, "hardware, driver or optional package missing"),
    (INTERRUPTED, "interrupted; what was finished is saved"),
)


def report(error: Exception, *, verbose: bool) -> int:
    """Tell a failure on stderr; returns the exit code."""
    if isinstance(error, AdvisorError):
        _tell(error.what, error.why, error.fix, error.hint)
        return error.exit_code
    if isinstance(error, TyperException):
        command = getattr(getattr(error, "ctx", None), "command_path", "advisor")
        _tell(
            error.format_message().replace(": Value error, ", ": "),
            fix=f"{command} --help lists what is accepted",
        )
        return error.exit_code
    if verbose:
        import traceback

        traceback.print_exception(error)
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    _tell(
        "internal error: this is a defect of advisor, not of your input",
        why=summary,
        fix="" if verbose else "run it again with -v, which shows the traceback, and report that",
    )
    return INTERNAL


def _tell(what: str, why: str = "", fix: str = "", hint: str = "") -> None:
    lines = [f"error: {what}"]
    lines += [f"  {label}: {text}" for label, text in (("why", why), ("To fix", fix), ("Hint", hint)) if text]
    sys.stderr.write("\n".join(lines) + "\n")
