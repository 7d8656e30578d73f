"""Models that the catalog does not have: how `catalog.models` asks for their files where the network may be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

Fetch = Callable[[str], Path | None]
"""Function that returns the folder with a repository's config.json, None if it may not look, or raises an AdvisorError
that says what to do."""
_FETCH: ContextVar[Fetch | None] = ContextVar("fetch_of_models", default=None)


@contextmanager
def use_fetch(fetch: Fetch) -> Iterator[None]:
    """Let models that the catalog does not have be fetched by `fetch` within the context."""
    token = _FETCH.set(fetch)
    try:
        yield
    finally:
        _FETCH.reset(token)


def folder_of(repository: str) -> Path | None:
    """Return the folder with the files of a repository; None where nothing may fetch them.

    Raises: AdvisorError: there is no such repository, or it cannot be reached.
    """
    fetch = _FETCH.get()
    return None if fetch is None else fetch(repository)
