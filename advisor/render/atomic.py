"""Files that are written completely or not at all."""

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_link

_PREFIX: Final = ".advisor-"


class UnwritableError(InputFileError):
    """Output file that cannot be written; no partial file remains."""


def check_writable(path: Path) -> None:
    """Refuse an output path before the work for it starts.

    Raises: UnwritableError: the folder is missing or closed, the path is a folder, or the system takes no such name.
    """
    folder = path.parent
    try:
        if path.is_symlink():
            path.resolve(strict=path.exists())
            check_link(path)
        if path.is_dir():
            raise _refusal(path, "it is a folder", f"name a file in it, e.g. {path / 'answer.json'}")
        if not folder.is_dir():
            raise _refusal(path, f"there is no folder {folder}", f"mkdir -p {shlex.quote(str(folder))}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _refusal(path, "permission denied", "choose a folder that you may write to")
        if not path.exists() or path.is_file():  # neither a pipe nor a device: it will be replaced
            with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=_PREFIX):
                pass
    except (OSError, ValueError, RuntimeError) as error:  # too long, a loop of links, a null byte, no space
        raise _refusal(path, getattr(error, "strerror", None) or str(error), "choose another name") from None


def write_text(path: Path, text: str | bytes) -> None:
    """Write a file in one step: a reader sees the old content or the new, never a part.

    Raises: UnwritableError: the system refused; a file that was there stays as it was.
    """
    check_writable(path)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
            path.write_bytes(_encode(text))
        else:
            _replace(path.resolve(), _encode(text))
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _refusal(path, why, "free space or choose another folder") from error


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their names below a folder, which is created if it is missing.

    Raises: UnwritableError: the system refused. InputFileError: a link leads out of the folder.
    """
    try:
        for name in files:
            check_link(folder / name, folder)
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _refusal(folder, why, "choose another folder") from error
    for name, text in files.items():
        write_text(folder / name, text)


def _encode(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", errors="replace")


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX, suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(_mode_of(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _mode_of(path: Path) -> int:
    """Return the permission bits of the file that is replaced, or those that the umask leaves to a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _refusal(path: Path, why: str, fix: str) -> UnwritableError:
    return UnwritableError(f"cannot write {path}", why=why, fix=fix)
