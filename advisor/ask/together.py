"""Options that are not typed together, or that say nothing without another."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from advisor.catalog.errors import AdvisorError


class Apart(NamedTuple):
    """Two options that are not typed together."""

    one: str
    other: str
    why: str
    fix: str = "drop one"


class OptionDependency(NamedTuple):
    """An option that says nothing without another."""

    option: str
    other: str
    fix: str
    what: str = ""
    """Text of the error; empty if the only fault is that the other option is missing."""
    why: str = ""


Rule = Apart | OptionDependency


def check_together(given: Collection[str], rules: Iterable[Rule]) -> None:
    """Refuse options that do not go together; `given` are names of fields.

    Raises: AdvisorError: they do not.
    """
    for rule in rules:
        first, second = (name.removeprefix("--").replace("-", "_") in given for name in rule[:2])
        if isinstance(rule, OptionDependency) and first and not second:
            raise AdvisorError(rule.what or f"{rule.option} needs {rule.other}", why=rule.why, fix=rule.fix)
        if isinstance(rule, Apart) and first and second:
            raise AdvisorError(f"{rule.one} and {rule.other} exclude each other", why=rule.why, fix=rule.fix)
