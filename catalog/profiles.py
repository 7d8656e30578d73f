"""Kinds of traffic with published token lengths."""

import functools
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, named_records, read_toml
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.economics import LoadShape
from advisor.catalog.schema.record import Record


class Profile(Record):
    """Token lengths of one kind of traffic: lognormal with these means."""

    mean_input_tokens: int = Field(ge=1)
    mean_output_tokens: int = Field(ge=1)
    input_sigma: float = Field(ge=0, le=5)
    """Standard deviation of the logarithm of the prompt length, fitted so that the lognormal has the trace's mean and
    p99."""
    output_sigma: float = Field(ge=0, le=5)
    median_input_tokens: int = Field(ge=1)
    median_output_tokens: int = Field(ge=1)
    p99_input_tokens: int = Field(ge=1)
    p99_output_tokens: int = Field(ge=1)
    max_input_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt of the set, which ends the lognormal's tail [tokens]; None if it does not
    reach far past the p99.
    """
    interarrival_cv: float | None = Field(default=None, gt=0)
    """Standard deviation of the gaps between arrivals over their mean; 1 is Poisson, None if the set has no times."""
    peak_to_mean: float | None = Field(default=None, ge=1)
    """Busiest minute over the mean minute (10 minutes for reasoning)."""
    prefix_share_fraction: float | None = Field(default=None, ge=0, le=1)
    """Fraction of prompt blocks that an earlier request had, with an endless cache; None if the set
    does not state it.
    """
    session_turns: float | None = Field(default=None, ge=1)
    """Mean number of turns of conversations with more than one, within the window of the trace."""
    think_time_s: float | None = Field(default=None, gt=0)
    """Median gap between the turns of one conversation [s]."""
    source: str
    arrivals_source: str = ""
    """Source of burstiness, prefixes and turns."""

    def longest_prompt(self, mean_input_tokens: int) -> int | None:
        """Longest prompt of such traffic around another mean [tokens]; None if the lognormal has no end."""
        if self.max_input_tokens is None:
            return None
        return round(self.max_input_tokens * mean_input_tokens / self.mean_input_tokens)


@lru_cache(maxsize=1)
def all_profiles() -> dict[str, Profile]:
    """Return every profile by name.

    Source: data/profiles.toml, each with its own source.
    """
    records = read_toml(DATA_DIR / "profiles.toml")
    return {name: Profile.model_validate(record) for name, record in records.items()}


def get(name: str) -> Profile:
    """Return the profile with this name.

    Raises: UnknownNameError: no profile has this name; near misses are in the hint.
    """
    profiles = all_profiles()
    return profiles[resolve(name, tuple(profiles), {}, "profile").id]


@functools.cache
def all_load_shapes() -> dict[str, LoadShape]:
    """Return every load shape by name.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/load_shapes.toml, each with its own source.
    """
    return named_records(LoadShape, "load_shapes.toml")


def get_load_shape(name: str) -> LoadShape:
    """Return the load shape with this name, or the shape of a TOML file with `levels` if the name ends in .toml.

    Raises: UnknownNameError: no shape has this name. InputFileError: the file is malformed or its levels are not a
      load.
    """
    path = Path(name)
    if path.suffix == ".toml":
        return check_record(LoadShape, {"id": path.stem, "source": str(path), **read_toml(path)}, str(path))
    shapes = all_load_shapes()
    try:
        return shapes[resolve(name, tuple(shapes), {}, "load shape").id]
    except UnknownNameError as error:
        error.fix = f"one of {', '.join(shapes)}, or a file that ends in .toml"
        raise
