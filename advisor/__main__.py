"""The entry point: `advisor`, or `python -m advisor` in a checkout."""

import atexit
import codecs
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence

_OBJECTS_BETWEEN_COLLECTIONS = 250_000
"""A command imports some 100 000 objects, which a collection would visit in vain: 20 000 cost 50 ms of every question.
A long search makes a gigabyte of cycles unless they are collected; one that simulates 216,000 requests takes 180 MB
either way."""
_LEAST_WIDTH = 40
_USUAL_WIDTH = 80
_MOST_DIGITS = 5

_STAND_INS = str.maketrans("✓≈·×µ–−█▓▒░▚▞▤▏▎▍▌▋▊▉─", "+~.xu--#@%:&/=|||||||-")
"""Replacement for signs that a terminal without Unicode lacks: marks and shades that mean something stay apart."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A failure is printed on stderr, with a traceback only on request."""
    try:
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        # The end of the process frees everything; looking for cycles before takes 60 ms.
        atexit.register(gc.freeze)
        # Threads of products take 50 ms to start, and those here are small; looking for plugins takes 15 ms.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        _protect_children()
        is_closed = _prepare_streams()
        return _run(sys.argv[1:] if arguments is None else list(arguments), is_closed)
    except KeyboardInterrupt:
        return _interrupted_exit_code()


def _words_to_complete(environment: Mapping[str, str]) -> list[str]:
    """Return the words behind `advisor` that a shell asks to complete."""
    typed = environment.get("_TYPER_COMPLETE_ARGS") or environment.get("COMP_WORDS", "")
    return typed.split()[1:]


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement of the same width for each character that the stream's encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    shown = error.object[error.start : error.end].translate(_STAND_INS)
    return "".join(each if each.isascii() else "?" for each in shown), error.end


def _interrupted_exit_code() -> int:
    """The exit code of Ctrl-C, which the interpreter would replace by a signal where code in a text was interrupted."""
    from advisor.cli.notes import end_interrupted

    end_interrupted()
    exec("")  # a dataclass is made that way; only the next text forgets the interruption
    return 130


def _run(arguments: list[str], is_closed: bool) -> int:
    from pathlib import Path

    from advisor.cli.command import COMPLETION, FOLDERS, folders_for, parser_of
    from advisor.cli.defaults import default_files, sets_an_option
    from advisor.cli.errors import UnreadAnswerError, report
    from advisor.cli.notes import lose

    try:
        if is_closed and not {"-q", "--quiet"} & set(arguments):
            raise UnreadAnswerError("it is closed")
        is_completion = COMPLETION in os.environ
        has_defaults = not is_completion and (
            any(map(sets_an_option, os.environ)) or bool(default_files(os.environ, Path.cwd()))
        )
        if not arguments and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            from advisor.cli.interview import ask_words

            arguments = ask_words()
        words = _words_to_complete(os.environ) if is_completion else arguments
        folders = FOLDERS if has_defaults else folders_for(words)
        # Options of all commands take 60 ms to read; the first word of a line is the name of a command.
        needs_names = is_completion and folders is FOLDERS and not any(word.startswith("-") for word in words)
        if needs_names:
            from typer.completion import get_completion_inspect_parameters

            get_completion_inspect_parameters()  # teaches the parser to answer shells
        command = parser_of(tuple(folders), has_options=not needs_names, is_completion=is_completion)
        defaults = _defaults(command, arguments) if has_defaults else {}
        outcome = command(args=arguments, prog_name="advisor", standalone_mode=False, default_map=defaults)
        code = _delivered_exit_code(outcome) if callable(outcome) else outcome
        sys.stdout.flush()
    except BrokenPipeError:
        lose(sys.stdout)
        return 0
    except Exception as error:
        if type(error).__name__ == "Abort":  # what the parser makes of Ctrl-C
            return _interrupted_exit_code()
        _name_misplaced_file(error, arguments)
        verbose = "-v" in arguments or "--verbose" in arguments
        code = report(error, verbose=verbose, as_json="--json" in arguments)
        if isinstance(error, UnreadAnswerError):
            lose(sys.stdout)
    if code == 130:
        return _interrupted_exit_code()
    return code if isinstance(code, int) else 0


def _name_misplaced_file(error: Exception, arguments: list[str]) -> None:
    """Add to an error of usage which command takes a file among the arguments that the failed one does not."""
    from advisor.catalog.errors import AdvisorError
    from advisor.cli.errors import USAGE

    if isinstance(error, AdvisorError) and error.exit_code == USAGE:
        from advisor.cli.misplaced import hint_of

        error.hint = hint_of(arguments) or error.hint


def _delivered_exit_code(delivery: Callable[[], int]) -> int:
    """The exit code of an answer that was printed.

    Raises: UnreadAnswerError: standard output takes no more.
    """
    from advisor.cli.errors import UnreadAnswerError

    try:
        code = delivery()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnreadAnswerError(error.strerror or str(error)) from error


def _defaults(command: object, arguments: Sequence[str]) -> dict[str, object]:
    """Defaults of options that a file or the environment sets; those that act in this run are printed.

    Raises: InputFileError: the file is wrong, or sets what only a person may.
    """
    from pathlib import Path

    from advisor.cli.defaults import check_trust, given_defaults, is_trusted
    from advisor.cli.notes import note, warn

    found = given_defaults(command, os.environ, Path.cwd())
    counting = found.in_use(arguments)
    trusted = is_trusted(arguments, os.environ)
    if not trusted:
        check_trust(counting)
    if not {"-q", "--quiet"} & set(arguments):
        note(*(f"{default.option} = {default.words} (from {default.origin})" for default in counting))
        warn(*(f"{name} sets no option of any command" for name in found.unknown_variables))
    return found.as_map(is_trusted=trusted)


def _protect_children() -> None:
    """Let no child process import from the folder where the command runs: a `numpy.py` there is not ours to run.

    A checkout that is only found because it is that folder stays importable.
    """
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[0] == root:
        known = os.environ.get("PYTHONPATH", "")
        if root not in known.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, known)))


def _prepare_streams() -> bool:
    """Let a terminal without Unicode show stand-ins instead of failing, and keep colour codes out of pipes.

    Typer decides about colour when it is first imported, and GITHUB_ACTIONS alone makes it colour a pipe. Returns
    whether standard output is closed; its place, and that of stderr, is then held by the null device, so that no file
    that is opened later takes it.
    """
    is_closed = sys.stdout is None
    while is_closed or sys.stderr is None:
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            break
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("advisor", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="advisor")
    if "COLUMNS" in os.environ:  # 0 is what a terminal without a size says
        typed = os.environ["COLUMNS"]
        width = int(typed) if typed.isdecimal() and len(typed) < _MOST_DIGITS else 0
        os.environ["COLUMNS"] = str(max(_LEAST_WIDTH, width or _USUAL_WIDTH))
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")
    return is_closed


if __name__ == "__main__":
    # `python -m advisor` puts the working directory first among the places that imports come from.
    if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]
    sys.exit(main())
