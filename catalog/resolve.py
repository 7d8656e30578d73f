"""Resolution of a typed name to one catalog id: exactly, by alias, or not at all."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar

from advisor.catalog.errors import UnknownNameError

RecordT = TypeVar("RecordT")
NUM_NEAR_MISSES: Final = 5
_SEPARATORS: Final = re.compile(r"[\s_/()-]+")
_LISTED: Final = {"accelerator": "gpus", "model": "models", "engine": "engines"}
"""Kinds of records too numerous to list in an error, and their names in `advisor catalog`."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Id that a name stands for, and a sentence for the user if it differs from the name."""

    id: str
    note: str = ""


class Chosen(NamedTuple, Generic[RecordT]):
    """Record that a name stands for, and a sentence for the user if the name is not its id."""

    record: RecordT
    note: str = ""


REMEMBERED_NAMES: Final = 16_384
"""Number of names whose normal form is remembered: the ids and aliases of the catalog are compared with each name."""


def resolve(name: str, ids: Iterable[str], aliases: Mapping[str, str], kind: str) -> Resolution:
    """Return the id that `name` stands for, and a note that names it if an alias or another spelling was used.

    Order: id as typed; id in another case or with other separators; alias in the same ways. A part of a name is
    never enough: a laptop GPU must not inherit the figures of its desktop namesake.

    Assumes: alias targets are ids.
    Raises: UnknownNameError: no id or alias equals the name, or several do; `hint` lists near misses.
    """
    known = tuple(ids)
    found = match(name, known, aliases, kind)
    if found is None:
        raise unknown(name, known, aliases, kind)
    return found


def match(name: str, known: Collection[str], aliases: Mapping[str, str], kind: str) -> Resolution | None:
    """Return what `resolve` does; None if no id or alias equals the name. Near misses take most of an error's time.

    Raises: UnknownNameError: several ids or aliases equal the name.
    """
    if name in known:
        return Resolution(name)
    spellings = [(spelling, spelling) for spelling in known] + list(aliases.items())
    for normal_form in (_join_with_dashes, drop_separators):
        wanted = normal_form(name)
        targets = {target: spelling for spelling, target in spellings if normal_form(spelling) == wanted}
        if wanted and len(targets) == 1:
            (target,) = targets
            return Resolution(target, f"{kind} '{name}' is taken as {target}")
        if wanted and len(targets) > 1:
            raise UnknownNameError(
                f"{kind} '{name}' can mean {' or '.join(sorted(targets))}",
                why="the name fits more than one catalog record",
                fix="type one of these ids in full",
            )
    return None


_PROCESSORS = ("cpu", "cpuonly", "processor", "none", "nogpu")
"""Names by which people ask for a machine without a card, as `drop_separators` leaves them."""


def unknown(name: str, ids: Collection[str], aliases: Mapping[str, str], kind: str) -> UnknownNameError:
    """Return the error for a name that no record has; `hint` lists near misses."""
    if kind == "accelerator" and drop_separators(name) in _PROCESSORS:
        return UnknownNameError(
            f"'{name}' is no accelerator",
            why="speeds are those of accelerators; a machine that computes with its processors alone is not modelled",
            fix="name the card beside them; advisor simulate offload counts layers and experts left to the processors",
        )
    near = near_misses(name, ids, aliases)
    listed = (
        f"an id that advisor catalog {_LISTED[kind]} lists" if kind in _LISTED else f"one of {', '.join(ids)}"
    )
    if kind == "model":
        listed += ", an id of Hugging Face (owner/name), or the folder of a checkpoint"
    figures = re.findall(r"\d+", name)
    is_misspelt = len(near) == 1 and re.findall(r"\d+", near[0]) == figures  # grok-1 is not grok-5
    return UnknownNameError(
        f"unknown {kind} '{name}'",
        why=f"none of the {len(ids)} catalog records has this id or alias",
        fix=f"type {near[0]}" if is_misspelt else f"type {listed}",
        hint=f"did you mean: {', '.join(near)}" if near else "",
    )


def choice_of(typed: str, choices: Iterable[str]) -> str:
    """Return the choice that is spelled as `typed` except for case and separators, all-reduce for all_reduce; what was
    typed if none or several are."""
    wanted = drop_separators(typed)
    known = tuple(choices)
    same = [each for each in known if drop_separators(each) == wanted]
    return typed if typed in known or len(same) != 1 else same[0]


def near_misses(name: str, ids: Iterable[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids whose spelling or alias is close to `name`, best first, at most five.

    Assumes: nothing; used for suggestions only, never to choose.
    Source: Ratcliff-Obershelp similarity of the standard library (difflib).
    """
    wanted = drop_separators(name)
    if not wanted:
        return ()
    target_of: dict[str, str] = {}
    for spelling, target in [*((id_, id_) for id_ in ids), *aliases.items()]:
        target_of.setdefault(drop_separators(spelling), target)
    close = difflib.get_close_matches(wanted, target_of, n=2 * NUM_NEAR_MISSES, cutoff=0.6)
    containing = sorted((key for key in target_of if wanted in key or key in wanted), key=len)
    found = dict.fromkeys(target_of[key] for key in [*close, *containing])
    return tuple(found)[:NUM_NEAR_MISSES]


def known_value(name: str | None, known: Iterable[str], kind: str) -> None:
    """Refuse a filter value that no record has: an empty list would hide the typing mistake.

    Raises: UnknownNameError: the value is not among the known ones.
    """
    values = sorted(set(known))
    if name is None or name in values:
        return
    near = near_misses(name, values, {})
    raise UnknownNameError(
        f"unknown {kind} '{name}'",
        why=f"no record of the catalog has it; there are {', '.join(values)}",
        fix=f"--{kind} {near[0] if near else values[0]}" if values else "",
    )


@lru_cache(maxsize=REMEMBERED_NAMES)
def _join_with_dashes(name: str) -> str:
    return _SEPARATORS.sub("-", name.strip().casefold()).strip("-")


@lru_cache(maxsize=REMEMBERED_NAMES)
def drop_separators(name: str) -> str:
    return _SEPARATORS.sub("", name.strip().casefold())
