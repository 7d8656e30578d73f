"""What guessing ahead usually gains, by method: guesses in a row, and the chance that one is accepted."""

from functools import cache

from pydantic import Field

from advisor.catalog.files import named_records
from advisor.catalog.schema.record import Record, Source


class Acceptance(Record):
    """Chance that a guess is accepted, given that those before it were, and the range that was published."""

    most_draft_tokens: int = Field(ge=1)
    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    source: Source


class SpeculationMethod(Record):
    """A method's usual number of guesses, and what is known of their acceptance."""

    draft_tokens: int = Field(ge=1)
    acceptance: tuple[Acceptance, ...] = ()


@cache
def speculation_methods() -> dict[str, SpeculationMethod]:
    """Every method by name.

    Source: data/speculation.toml, each figure with its own source.
    """
    return named_records(SpeculationMethod, "speculation.toml")


def usual_acceptance(method: str, draft_tokens: int) -> Acceptance | None:
    """What was published for a method and so many guesses in a row; None where no figure is general.

    Raises: KeyError: the method is not known.
    Source: data/speculation.toml.
    """
    known = speculation_methods()[method].acceptance
    return next((entry for entry in known if draft_tokens <= entry.most_draft_tokens), None)
