"""Files that a command is told to write: checked before the work, and never one that it reads."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import AdvisorError

WRITTEN: Final = ("output", "plan", "records", "predictions", "report")
"""Options that name a file to write, in whatever command."""
_READ: Final = {("simulate train", "plan")}
"""A command whose option of such a name is read."""
_CONTINUED: Final = "resume"
"""An interrupted probe goes on in the file that it began."""


def check_files(command: str, values: Mapping[str, Any]) -> None:
    """Refuse output files that cannot be written or that are also an input or another output.

    Raises: AdvisorError: with the option's name.
    """
    written = {
        name: Path(values[name])
        for name in WRITTEN
        if values.get(name) is not None and (command, name) not in _READ
    }
    if not written:
        return
    from advisor.render.atomic import check_writable

    taken: dict[tuple[int, int] | str, str] = {}
    for name, path in _inputs(values, written):
        taken.setdefault(_identity(path), name)
    for name, path in written.items():
        check_writable(path)
        other = taken.setdefault(_identity(path), name)
        if other != name and not (path.exists() and not path.is_file()):
            raise AdvisorError(
                f"--{name} {path} is also the file of {_words(other)}",
                why="it would be overwritten",
                fix="name another file",
            )


def _inputs(values: Mapping[str, Any], written: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Whatever else was typed and is a file: paths, and names that turn out to be one."""
    for name, value in values.items():
        if name in written or name == _CONTINUED or not isinstance(value, Path | str):
            continue
        path = Path(value)
        try:
            for each in (path, path / "config.json"):
                if each.is_file():
                    yield name, each
        except (OSError, ValueError):  # a text that is no path
            continue


def _identity(path: Path) -> tuple[int, int] | str:
    """The same for all names of one file."""
    try:
        state = path.stat()
        return state.st_dev, state.st_ino
    except OSError:
        return str(path.absolute())


def _words(option: str) -> str:
    return f"--{option.replace('_', '-')}" if option not in ("file", "first", "second", "cases") else option
