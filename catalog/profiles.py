"""Kinds of traffic with published token lengths."""

import tomllib
from functools import lru_cache
from importlib.resources import files

from pydantic import Field

from advisor.catalog.resolve import resolve
from advisor.catalog.schema.record import Record


class Profile(Record):
    """Lengths of one kind of traffic: lognormal with these means."""

    mean_input_tokens: int = Field(ge=1)
    mean_output_tokens: int = Field(ge=1)
    input_sigma: float = Field(ge=0, le=5)
    """Standard deviation of the logarithm of the prompt length."""
    output_sigma: float = Field(ge=0, le=5)
    source: str


@lru_cache(maxsize=1)
def all_profiles() -> dict[str, Profile]:
    """Every profile by its name.

    Source: data/profiles.toml, each with its own source.
    """
    text = (files("advisor.catalog") / "data" / "profiles.toml").read_text(encoding="utf-8")
    return {name: Profile.model_validate(record) for name, record in tomllib.loads(text).items()}


def get(name: str) -> Profile:
    """The profile of a name.

    Raises: UnknownNameError: no such profile; near misses are in the hint.
    Source: own definition.
    """
    profiles = all_profiles()
    return profiles[resolve(name, tuple(profiles), {}, "profile").id]
