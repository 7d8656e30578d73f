"""A goal: how much fit, cost, ecosystem and team count, what the team knows, and what it needs."""

from pathlib import Path
from typing import Final

from pydantic import Field, model_validator

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_record, read_toml
from advisor.catalog.platforms import all_platforms
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema.record import Record

EXAMPLE: Final = """[weights]
fit = 3
cost = 3
ecosystem = 2
team = 2

[team]
frameworks = ["pytorch"]
"""


class Weights(Record):
    """How much each score counts; only their ratios matter."""

    fit: float = Field(default=1.0, ge=0, le=1000)
    cost: float = Field(default=1.0, ge=0, le=1000)
    ecosystem: float = Field(default=1.0, ge=0, le=1000)
    team: float = Field(default=1.0, ge=0, le=1000)

    @model_validator(mode="after")
    def _something_counts(self) -> "Weights":
        if self.fit + self.cost + self.ecosystem + self.team <= 0:
            raise ValueError("at least one weight must be above 0")
        return self

    def shares(self) -> dict[str, float]:
        """The weights over their sum."""
        whole = self.fit + self.cost + self.ecosystem + self.team
        return {name: getattr(self, name) / whole for name in type(self).model_fields}


class Team(Record):
    """The skills of the team."""

    frameworks: tuple[str, ...] = Field(default=("pytorch",), min_length=1)
    """Frameworks that the team knows; it would use the best supported of them."""


class Needs(Record):
    """The tasks that the hardware must do besides serving the model."""

    training: bool = False
    own_weights: bool = True
    """Serve checkpoints of one's own, not only listed models."""


class Goal(Record):
    """The goal of a team for its hardware."""

    weights: Weights = Weights()
    team: Team = Team()
    needs: Needs = Needs()
    platforms: tuple[str, ...] = ()
    """Only these families; empty is all."""


def read_goal(path: Path) -> Goal:
    """The goal in a TOML file with [weights], [team] and [needs].

    Raises: InputFileError: the file is not TOML, a name is not known, or a weight is negative or no number.
    """
    data = read_toml(path)
    for table, known in (("", Goal), ("weights", Weights), ("team", Team), ("needs", Needs)):
        given = data if not table else data.get(table, {})
        if isinstance(given, dict):
            _check_names(path, table, tuple(given), tuple(known.model_fields))
    goal = check_record(Goal, data, str(path))
    families = {platform.id: platform for platform in all_platforms()}
    _check_names(path, "platforms", goal.platforms, tuple(families))
    frameworks = {name for platform in families.values() for name in platform.frameworks}
    _check_names(path, "team.frameworks", goal.team.frameworks, tuple(sorted(frameworks)))
    return goal


def _check_names(path: Path, where: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            near = near_misses(name, known, {})
            label = f"{where}.{name}" if where else name
            raise InputFileError(
                f"{path}: {label}: no such name",
                why=f"known are {', '.join(known)}",
                fix=f"write {near[0]}" if near else "take one of these names",
            )
