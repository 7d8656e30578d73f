"""Products of providers by patterns of their names, where no bundled price row has the name itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_toml


@dataclass(frozen=True, slots=True)
class Product:
    """Product behind a provider's SKU."""

    accelerator: str
    num_accelerators: int | None
    """Number of accelerators; None if only the provider's document states it."""
    sku: str


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    accelerator: str
    sku: str


def product_by_rule(provider: str, sku: str) -> Product | None:
    """Return the product whose pattern fits the name of a provider's SKU; None if none does.

    Raises: InputFileError: the bundled file is damaged.
    """
    for rule in _rules().get(provider, ()):
        found = rule.pattern.fullmatch(sku)
        if found:
            groups = found.groupdict()
            count = groups.get("n")
            return Product(
                accelerator=rule.accelerator or groups["id"],
                num_accelerators=int(count) if count else None,
                sku=rule.sku.format(**groups) if rule.sku else sku,
            )
    return None


@cache
def _rules() -> Mapping[str, Sequence[_Rule]]:
    """Return the patterns by provider.

    Raises: InputFileError: the bundled file names an accelerator that the catalog lacks.
    """
    path = DATA_DIR / "price_skus.toml"
    return {
        provider: tuple(
            _rule(entry, f"{path.name}: {provider} {number}") for number, entry in enumerate(entries, 1)
        )
        for provider, entries in read_toml(path).items()
    }


def _rule(entry: Mapping[str, Any], where: str) -> _Rule:
    known = {record.id for record in accelerators.all_accelerators()}
    named = entry.get("accelerator", "")
    if named and named not in known:
        raise InputFileError(
            f"{where}: field accelerator: {named!r}", why="no such accelerator", fix="use its id"
        )
    return _Rule(re.compile(entry["pattern"]), named, entry.get("sku", ""))
