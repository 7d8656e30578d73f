"""Prefixes that launchers and log collectors write before every line of a program's output."""

import re
from collections.abc import Iterator
from typing import Final

_PREFIX: Final = re.compile(
    r"""^(?:
      \[\d+(?:,\d+)?\](?:<(?:stdout|stderr|stddiag)>)?:?\s?   # mpirun --tag-output and the MPI operator
    | \d+:\s                                                   # srun --label
    | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s   # kubectl logs --timestamps
    | \[(?:pod|container)/[^\]]+\]\s                           # kubectl logs --prefix
    | [\w.-]+\s+\|\s                                           # docker compose, stern
    | \([\w\s=.-]*(?:pid|rank|ip)[\w\s=.,-]*\)\s?              # Ray workers and engine processes
    )""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def without_prefixes(text: str) -> Iterator[str]:
    """Yield the lines of a text without the prefixes of launchers and without colours of a terminal."""
    for line in text.splitlines():
        rest = _ESCAPE.sub("", line)
        while found := _PREFIX.match(rest):
            rest = rest[found.end() :]
        yield rest
