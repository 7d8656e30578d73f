"""The entry point: `advisor`, or `python -m advisor` in a checkout."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A failure is told on stderr, as a traceback only if asked."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _prepare_streams()
    from typer.main import get_command

    from advisor.cli.command import FOLDERS, folders_for, tree
    from advisor.cli.errors import INTERRUPTED, report

    try:
        has_defaults = (
            any(name.startswith("ADVISOR_") for name in os.environ) or Path("advisor.toml").is_file()
        )
        command = get_command(tree(FOLDERS if has_defaults else folders_for(arguments)))
        defaults = _defaults(command, arguments) if has_defaults else {}
        outcome = command(args=arguments, prog_name="advisor", standalone_mode=False, default_map=defaults)
        code = outcome() if callable(outcome) else outcome
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except Exception as error:
        return report(error, verbose="-v" in arguments or "--verbose" in arguments)
    return code if isinstance(code, int) else 0


def _defaults(command: object, arguments: Sequence[str]) -> dict[str, object]:
    """Defaults of options that a file or the environment sets; those that count for this run are told.

    Raises: InputFileError: the file is wrong.
    """
    from advisor.cli.defaults import given_defaults
    from advisor.cli.notes import note, warn

    found = given_defaults(command, os.environ, Path.cwd())
    if not {"-q", "--quiet"} & set(arguments):
        note(
            *(
                f"{default.option} = {default.words} (from {default.origin})"
                for default in found.in_use(arguments)
            )
        )
        warn(*(f"{name} sets no option of any command" for name in found.unknown_variables))
    return found.as_map()


def _prepare_streams() -> None:
    """Let a terminal without Unicode show `?` instead of failing, and keep colour codes out of pipes.

    Typer decides about colour when it is first imported, and GITHUB_ACTIONS alone makes it colour a pipe.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")


def _discard_stdout() -> None:
    """Nobody reads any more (`advisor ... | head`): let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
