"""Answers that nobody can buy: they follow from what was asked, and say so."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Final

LARGEST_SITE: Final = 200_000
"""Accelerators of the largest single systems that are known (xAI Colossus, 2025)."""
_COUNTS: Final = ("num_accelerators", "num_gpus", "num_ranks")
_DEPTH: Final = 3
_MOST_RECORDS: Final = 200


def implausible(result: Mapping[str, object]) -> tuple[str, ...]:
    """A warning where an answer takes more accelerators than any site has; none otherwise."""
    most = max(_counts(result, _DEPTH), default=0)
    if most <= LARGEST_SITE:
        return ()
    return (
        f"{most:,} accelerators are more than any site has (about {LARGEST_SITE:,}): check the load that was asked; "
        "prices, power and networks of this size are not modelled",
    )


def _counts(value: object, depth: int) -> Iterator[float]:
    for name, item in _items(value):
        if name in _COUNTS and isinstance(item, int | float) and not isinstance(item, bool):
            yield item
        elif depth and not isinstance(item, str | int | float):
            yield from _counts(item, depth - 1)


def _items(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        yield from (("", item) for item in value[:_MOST_RECORDS])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    else:
        names = getattr(type(value), "model_fields", ())
        yield from ((name, getattr(value, name)) for name in names)
