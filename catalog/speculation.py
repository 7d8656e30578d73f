"""Speculative decoding by method: usual number of draft tokens, and the acceptance rate."""

from functools import cache

from pydantic import Field

from advisor.catalog.files import named_records
from advisor.catalog.schema.record import Record, Source


class Acceptance(Record):
    """Probability that a draft token is accepted, given that those before it were, and the published range."""

    most_draft_tokens: int = Field(ge=1)
    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    source: Source


class SpeculationMethod(Record):
    """Usual number of draft tokens of a method, and the published acceptance rates."""

    draft_tokens: int = Field(ge=1)
    acceptance: tuple[Acceptance, ...] = ()


@cache
def speculation_methods() -> dict[str, SpeculationMethod]:
    """Return every method by name.

    Source: data/speculation.toml, each figure with its own source.
    """
    return named_records(SpeculationMethod, "speculation.toml")


def usual_acceptance(method: str, draft_tokens: int) -> Acceptance | None:
    """Return the published acceptance of a method with `draft_tokens` draft tokens in a row; None without a general
    figure.

    Raises: KeyError: the method is unknown.
    Source: data/speculation.toml.
    """
    known = speculation_methods()[method].acceptance
    return next((entry for entry in known if draft_tokens <= entry.most_draft_tokens), None)
