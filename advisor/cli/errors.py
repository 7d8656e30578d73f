"""How failures end a run: what, why, `To fix:`, `Hint:` on stderr, and an exit code for scripts."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from typer import TyperException

from advisor.catalog.errors import AdvisorError
from advisor.cli.engine_words import HINTS, OTHER_WORDS, sets_a_server
from advisor.cli.notes import tell, write_json

if TYPE_CHECKING:
    from advisor.catalog.programs import EngineProgram

INTERNAL: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

_LONGEST: Final = 1000
_CHOOSE_FROM: Final = ". Choose from:"
"""Words before the choices that the parser of the command line lists, one a line."""
_NO_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)\.$")
_NO_OPTION: Final = "No such option:"
_ALIKE: Final = 0.75
"""Similarity of two names of options from which one may be a misspelling of the other: users and levers have 0.73,
model and modle 0.8."""
_MOST_MENTIONED: Final = 2
"""Options whose help has the words of an unknown one, beyond which they are too common to be meant."""
_NO_INTEGER: Final = "Input should be a valid integer, unable to parse string as an integer"

_OF_TRAINING: Final = frozenset(
    [
        "--workload",
        "--method",
        "--lora-rank",
        "--sequence",
        "--global-batch",
        "--micro-batch",
        "--optimizer",
        "--sharding",
        "--recompute",
    ]
)
"""Options by which the memory of training is asked for."""

EXIT_CODES: Final = (
    (0, "ok; warnings, such as stale prices, are still ok"),
    (INTERNAL, "internal error"),
    (USAGE, "usage error or bad input file"),
    (3, "nothing satisfies the request"),
    (4, "probe verdict FAIL"),
    (5, "probe verdict WARN under --strict"),
    (6, "hardware, driver or optional package missing"),
    (7, "a watched plan is beaten, costs more or is gone"),
    (INTERRUPTED, "interrupted; what was finished is saved"),
)


class UnreadAnswerError(AdvisorError):
    """Standard output is closed or takes no more."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "the answer cannot be written to standard output",
            why=why,
            fix="free space or redirect it elsewhere; -q -o FILE writes a file alone",
        )


def report(error: Exception, *, verbose: bool, as_json: bool = False) -> int:
    """Tell a failure on stderr, and on stdout if the answer would be a document there; returns the exit code."""
    mistake = _mistake_of(error)
    if mistake is None:
        if verbose:
            import traceback

            traceback.print_exception(error)
        mistake = internal_error(error)
        if not verbose:
            mistake.fix = "run it again with -v, which shows the traceback, and report that"
    _tell(mistake.what, mistake.why, mistake.fix, mistake.hint)
    if as_json and not isinstance(error, UnreadAnswerError):
        from advisor.render.document import dump

        write_json(dump(error_document(mistake)))
    return mistake.exit_code


def _mistake_of(error: Exception) -> AdvisorError | None:
    """Return the user's error behind any failure; None for a defect of the program."""
    if isinstance(error, AdvisorError):
        return error
    if isinstance(error, TyperException):
        what, why, fix, hint = _of_usage(error)
        mistake = AdvisorError(what, why=why, fix=fix, hint=hint)
        mistake.exit_code = error.exit_code
        return mistake
    return as_mistake(error)


def internal_error(error: Exception) -> AdvisorError:
    """Return the error that tells a defect of the program."""
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    defect = AdvisorError(
        "internal error: this is a defect of advisor, not of your input", why=_short(summary)
    )
    defect.exit_code = INTERNAL
    return defect


def error_document(error: AdvisorError) -> dict[str, Any]:
    """Return a refusal as JSON: what, why, fix and hint, and the exit code that the command has."""
    return {
        "error": {
            "what": error.what,
            "why": error.why,
            "fix": error.fix,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
    }


def as_mistake(error: Exception) -> AdvisorError | None:
    """Return the user's error behind a failure that is no AdvisorError; None for a defect of the program."""
    if isinstance(error, OSError):
        what, why, fix = _of_system(error)
        return AdvisorError(what, why=why, fix=fix)
    if isinstance(error, MemoryError):
        return AdvisorError(
            "out of memory", why="the question needs more than there is", fix="ask for less at a time"
        )
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):
        return AdvisorError(_of_record(error.errors(include_url=False)[0]), fix="choose another value")
    return None


def _of_usage(error: TyperException) -> tuple[str, str, str, str]:
    """Return the parts of an error for words that the parser of the command line refused, with near names and usage."""
    context: Any = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "advisor")
    near = getattr(error, "possibilities", None)
    what = (error.message if near else error.format_message()).replace(": Value error, ", ": ")
    if what.startswith("Missing"):  # the parser lists choices on lines of their own
        what = " ".join(what.split())
    fix = f"{command} --help lists what is accepted"
    unknown = what.removeprefix(_NO_OPTION).strip().strip("'.") if what.startswith(_NO_OPTION) else ""
    if command.endswith(" memory") and unknown in _OF_TRAINING:
        return (
            what,
            "it shows the memory of serving",
            "advisor simulate train, which shows that of a step too",
            "",
        )
    if unknown in HINTS:
        return what, *HINTS[unknown], ""
    if unknown and sets_a_server(unknown):
        why = f"it sets one server; {command} chooses such settings itself, or does not depend on them"
        return what, why, "drop it; advisor simulate serve and advisor memory take it", ""
    engine = _engine_with(unknown) if command.endswith((" memory", " simulate serve")) else None
    if engine is not None:
        why = f"it is an option of {engine.engine}'s server that is not modelled"
        fix = (
            f"drop it, or paste the whole start command in quotes: {command} --gpu ID '{engine.command} ...'"
        )
        return what, why, fix, ""
    near = _find_by_help(context, unknown) or _alike(unknown, near or ())
    what, _, offered = what.partition(_CHOOSE_FROM)
    why = f"it is one of {' '.join(offered.split())}" if offered else ""
    if what.startswith("Missing argument"):
        words = (word.strip("{}") for word in context.command.collect_usage_pieces(context))
        fix = " ".join([command, *(word for word in words if word != "[OPTIONS]")])
    elif what.startswith("Missing option"):
        missing: Any = getattr(error, "param", None)
        fix = f"{missing.opts[0]} {missing.metavar or 'VALUE'}" if missing is not None else fix
    elif what.endswith(_NO_INTEGER):
        what = what.replace(_NO_INTEGER, "not a whole number, such as 4096 or 128k")
    elif choice := _NO_CHOICE.search(what):
        choices = choice[2].replace("'", "").split(", ")
        other = OTHER_WORDS.get(choice[1].lower().replace("-", "").removesuffix("s"))
        near = [other] if other in choices else get_close_matches(choice[1], choices)
    return what.strip(), why, fix, f"did you mean: {', '.join(near)}" if near else ""


def _engine_with(option: str) -> "EngineProgram | None":
    """Return the first program of an engine that has an option; None if none has."""
    # The help of a command needs no table of programs.
    from advisor.catalog.programs import all_programs

    return (
        next((each for each in all_programs().values() if option in each.takes_value), None)
        if option
        else None
    )


def _alike(unknown: str, options: Sequence[str]) -> list[str]:
    """Return the options whose names are close to an unknown one; the parser counts their dashes, so that to it any two
    short names are close."""
    names = {option.strip("-"): option for option in options}
    return [names[name] for name in get_close_matches(unknown.strip("-"), names, cutoff=_ALIKE)]


def _find_by_help(context: Any, unknown: str) -> list[str]:
    """Return the options of a command whose help begins with the words of an unknown option, or whose name has them,
    else the few whose help has them: --items for --requests, as its help is "Requests of a batch"; --bytes for --size.
    """
    words = unknown.strip("-").replace("-", " ").lower()
    if context is None or not words:
        return []
    texts = {
        each.opts[0]: f" {each.help} ".lower()
        for each in context.command.params
        if getattr(each, "help", None)
    }
    alike = [
        option
        for option, text in texts.items()
        if text.startswith(f" {words} ") or unknown.strip("-") in option.strip("-").split("-")
    ]
    mentioned = [option for option, text in texts.items() if re.search(rf"\b{re.escape(words)}\b", text)]
    return alike or (mentioned if len(mentioned) <= _MOST_MENTIONED else [])


def _short(text: str) -> str:
    """Return the text without its middle if it is longer than `_LONGEST` characters."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _of_record(problem: Mapping[str, Any]) -> str:
    """Return the error for an option that a record of the question refuses, as beyond what can be computed."""
    name = ".".join(map(str, problem["loc"])) or "the question"
    return f"{name} {_short(repr(problem['input']))} is out of range: {problem['msg']}"


def _of_system(error: OSError) -> tuple[str, str, str]:
    """Return the parts of an error of the system: the user has to mend rights, space, names or devices."""
    names = " or ".join(dict.fromkeys(str(n) for n in (error.filename, error.filename2) if n is not None))
    return (
        f"the system refused {names or 'an operation'}",
        error.strerror or str(error) or type(error).__name__,
        "check that the path exists, its rights, its length and the free space",
    )


def _tell(what: str, why: str = "", fix: str = "", hint: str = "") -> None:
    tell(f"error: {_short(what)}")
    for label, text in (("why", why), ("To fix", fix), ("Hint", hint)):
        if text:
            tell(f"  {label}: {_short(text)}")
