"""Paths that begin in a user's home folder."""

from pathlib import Path


def expand_home(path: str) -> Path:
    """Return a path with its user's home folder in place of `~`.

    Where the home is not known, as in a container that runs under a number without a user, the path stays as it is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
