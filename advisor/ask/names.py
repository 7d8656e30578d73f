"""Names that an option lists, and releases that names of engines carry."""

import re

from advisor.ask.measures import without_groups
from advisor.catalog import engines
from advisor.catalog.architectures import check_release
from advisor.catalog.errors import AdvisorError
from advisor.catalog.launch_options import launch_options
from advisor.catalog.schema import Model


def names_of(text: str | None, option: str) -> tuple[str, ...]:
    """Return names of a comma-separated option; none where it was not given.

    Raises: AdvisorError: it was given, but holds an empty name.
    """
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise AdvisorError(f"{option} {text!r} has an empty name", fix=f"{option} NAME,NAME or no {option}")
    return names


def loads_of(text: str | None, option: str) -> tuple[str, ...]:
    """Return the loads of a list, whose commas part them: `1,000` is one, as no load is 000, and `1,200` are two.

    Raises: AdvisorError: one is empty.
    """
    found: list[str] = []
    for part in names_of(text, option):
        joined = f"{found[-1]},{part}" if found else part
        is_rest = re.match(r"000(?:\D|$)", part) and without_groups(joined) != joined
        found[-1 if is_rest else len(found) :] = [joined if is_rest else part]
    return tuple(map(without_groups, found))


def releases_of(typed: str | None) -> tuple[tuple[str, str], ...]:
    """Return engines with the release that was typed: (("vllm", "0.24.0"),) for `vllm@0.24.0,sglang`."""
    named = (engines.split_release(name) for name in names_of(typed, "--engine"))
    return tuple((engines.get(short).record.id, release) for short, release in named if release)


def release_notes(model: Model, typed: str | None) -> tuple[str, ...]:
    """Return notes on releases of engines that were typed, as `vllm@0.24.0`.

    Raises: InfeasibleError: a release does not load the class of the model, as one that is older than the model.
    """
    notes = []
    for name in names_of(typed, "--engine"):
        short, release = engines.split_release(name)
        if release:
            engine = engines.get(short).record
            options = launch_options().get(engine.id)
            notes.append(check_release(engine, model, release, options.release if options else ""))
    return tuple(filter(None, notes))
