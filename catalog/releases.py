"""Releases of software: the span that a run falls into, by version number or, without one, by date.

A release is written as its version, its date, or both: `0.5.10 2026-04-05`. A span starts with one release and
ends before another; an empty end is open.
"""

import re
from functools import lru_cache
from typing import Final

_DATE: Final = re.compile(r"(19|20)\d\d-\d\d(-\d\d)?")
_YEAR_DIGITS: Final = 4
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")
"""Pattern of a commit id. A commit is not a version, although it may begin with digits."""


def belongs(since: str, until: str, *, version: str = "", date: str = "") -> bool:
    """Whether a run used a release of a span, by its version or else by its date; without either, a run used the
    newest."""
    if since and is_before(version, date, since):
        return False
    return not until or is_before(version, date, until)


@lru_cache(maxsize=4096)
def is_before(version: str, date: str, release: str) -> bool:
    """Whether a run is older than a release: by version numbers if both have them, else by dates.

    Version numbers compare by their leading integers, dates as ISO text, spans by their middle; without version and
    date a run used the newest release.
    """
    number, day = split(release)
    key = version_key(version)
    if key and number:
        return key < version_key(number)
    return bool(date) and middle_of(date) < day


def split(release: str) -> tuple[str, str]:
    """Return version and date of a release; an empty string for a missing part."""
    words = release.split()
    dates = [word for word in words if _DATE.fullmatch(word)]
    versions = [word for word in words if word not in dates]
    return " ".join(versions), " ".join(dates)


def is_release(text: str) -> bool:
    """Whether a text is a version with a number, a date, or both."""
    version, date = split(text)
    return " " not in version + date and bool(version_key(version) or (date and not version))


def spans_overlap(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether any release belongs to both spans, each (since, until)."""
    return not any(until and since and _is_at_least(since, until) for since, until in _cross(first, second))


def _cross(first: tuple[str, str], second: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    return (first[0], second[1]), (second[0], first[1])


def _is_at_least(release: str, other: str) -> bool:
    """Whether a release equals another one or is newer; False if one has only a version and the other only a date."""
    (version, date), (other_version, other_date) = split(release), split(other)
    if version and other_version:
        return version_key(version) >= version_key(other_version)
    return bool(date and other_date) and date >= other_date


def middle_of(date: str) -> str:
    """Return a date as ISO text: for a year (2025) or two (2025-2026) the middle; others are unchanged."""
    years = date.split("-")
    if not all(len(year) == _YEAR_DIGITS and year.isdigit() for year in years):
        return date
    middle = int(years[0]) + int(years[-1]) + 1  # counted in half years
    return f"{middle // 2}-{'07' if middle % 2 else '01'}-01"


def version_key(version: str) -> tuple[int, ...]:
    """Return the leading integers of a version without trailing zeros; () if there are none, as in a commit."""
    parts: list[int] = []
    if _COMMIT.fullmatch(version) and not version.isdigit():
        return ()
    for piece in version.lstrip("v").split("."):
        digits = ""
        for character in piece:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        parts.append(int(digits))
    while parts and parts[-1] == 0:  # 0.8 is 0.8.0
        parts.pop()
    return tuple(parts)
