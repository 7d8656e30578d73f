"""Kinds of traffic with published token lengths."""

from functools import lru_cache

from pydantic import Field

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.record import Record


class Profile(Record):
    """Lengths of one kind of traffic: lognormal with these means."""

    mean_input_tokens: int = Field(ge=1)
    mean_output_tokens: int = Field(ge=1)
    input_sigma: float = Field(ge=0, le=5)
    """Standard deviation of the logarithm of the prompt length: that of the lognormal with the trace's mean and p99."""
    output_sigma: float = Field(ge=0, le=5)
    median_input_tokens: int = Field(ge=1)
    median_output_tokens: int = Field(ge=1)
    p99_input_tokens: int = Field(ge=1)
    p99_output_tokens: int = Field(ge=1)
    interarrival_cv: float | None = Field(default=None, gt=0)
    """Standard deviation of the gaps between arrivals over their mean; 1 is Poisson, None where there are no times."""
    peak_to_mean: float | None = Field(default=None, ge=1)
    """Busiest minute over the mean minute (10 minutes for reasoning)."""
    prefix_share_fraction: float | None = Field(default=None, ge=0, le=1)
    """Prompt blocks that an earlier request had, an endless cache assumed; None where the set does not say."""
    session_turns: float | None = Field(default=None, ge=1)
    """Mean turns of conversations that go on at all, within the window of the trace."""
    think_time_s: float | None = Field(default=None, gt=0)
    """Median gap between the turns of one conversation."""
    source: str
    arrivals_source: str = ""
    """Where burstiness, prefixes and turns are from."""


@lru_cache(maxsize=1)
def all_profiles() -> dict[str, Profile]:
    """Every profile by its name.

    Source: data/profiles.toml, each with its own source.
    """
    records = read_toml(DATA_DIR / "profiles.toml")
    return {name: Profile.model_validate(record) for name, record in records.items()}


def get(name: str) -> Profile:
    """The profile of a name.

    Raises: UnknownNameError: no such profile; near misses are in the hint.
    Source: own definition.
    """
    profiles = all_profiles()
    return profiles[resolve(name, tuple(profiles), {}, "profile").id]
