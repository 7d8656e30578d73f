"""Completion of names in a shell: models, accelerators, providers, profiles, regions, engines."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args

from typer.models import ArgumentInfo

NAMES: Final[Mapping[str, str]] = {
    "model": "models",
    "models": "models",
    "teacher": "models",
    "draft": "models",
    "gpu": "accelerators",
    "own": "accelerators",
    "expect": "accelerators",
    "accelerator": "accelerators",
    "provider": "providers",
    "profile": "profiles",
    "shape": "profiles",
    "region": "regions",
    "engine": "engines",
    "id": "records",
    "name": "records",
    "first": "records",
    "second": "records",
}
"""Kind of names by the field of an option that takes them."""


def _files(*folders: str) -> list[str]:
    from advisor.catalog.files import DATA_DIR, toml_names

    return [name for folder in folders for name in toml_names(DATA_DIR / folder)]


def _keys(file: str) -> Iterable[str]:
    from advisor.catalog.files import DATA_DIR, read_toml

    return read_toml(DATA_DIR / file)


def _regions() -> Iterable[str]:
    from advisor.catalog.regions import all_regions

    known = all_regions()
    return {*known, *(alias.lower() for place in known.values() for alias in place.aliases)}


_KINDS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "models": lambda: _files("models"),
    "accelerators": lambda: _files("accelerators"),
    "providers": lambda: _keys("providers.toml"),
    "profiles": lambda: _keys("profiles.toml"),
    "regions": _regions,
    "engines": lambda: _files("engines"),
    "records": lambda: _files("accelerators", "models", "engines"),
}


def names_like(kind: str, typed: str) -> list[str]:
    """Return the names of a kind that begin with what was typed; of a list with commas, its last name is completed.

    A count before a name stays: `8xh1` gives `8xh100-sxm`.
    """
    before, comma, last = typed.rpartition(",")
    count, times, rest = last.partition("x")
    head = before + comma
    if kind == "accelerators" and times and count.isdigit():
        head += count + times
        last = rest
    return [f"{head}{name}" for name in sorted(_KINDS[kind]()) if name.startswith(last.lower())]


def _completer(kind: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return names_like(kind, incomplete)

    return complete


def add_completion(name: str, annotation: Any) -> None:
    """Let a shell complete the value of an option whose field is known to take names."""
    kind = NAMES.get(name)
    declared = get_args(annotation)[1]
    if kind is None or (kind == "records" and not isinstance(declared, ArgumentInfo)):
        return
    declared.autocompletion = _completer(kind)
