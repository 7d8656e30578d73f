"""Trials: candidates with what is known of them so far, from a bound to a measured deployment that is bought."""

from dataclasses import dataclass, field, replace
from typing import Literal

from advisor.decide.candidates import Candidate
from advisor.decide.load_runs import Served
from advisor.decide.measure import Capacity, Measurements
from advisor.decide.offers import Placement
from advisor.decide.option import Share
from advisor.decide.purchase import Purchase
from advisor.decide.reason import Reason
from advisor.decide.scenario import Traffic
from advisor.simulator.replica_model import ReplicaModel


@dataclass(frozen=True, slots=True)
class FleetPart:
    """Equal replicas that do one share of the work of a deployment, and where they are bought."""

    role: Share
    candidate: Candidate
    replica: ReplicaModel
    num_replicas: int
    placement: Placement
    """Way to buy one such replica, or the machine that holds all parts."""
    num_units: int
    is_shared: bool = False
    """Whether that machine holds all parts."""
    traffic: Traffic | None = None
    """Requests that this part serves; None where it has a share in every request."""
    share_fraction: float | None = None
    """Fraction of all requests that the router sends to this part, whatever their length; None where it goes by length
    or where all parts work on every request."""

    @property
    def accelerator_id(self) -> str:
        """Id of its accelerator."""
        return self.candidate.deployment.accelerator.id


@dataclass(frozen=True, slots=True)
class UnlikeFleet:
    """Unlike parts behind one router, and what is simulated of them together."""

    lever: str
    """Name of the lever by which it is made."""
    parts: tuple[FleetPart, ...]
    served: Served


@dataclass(frozen=True, slots=True)
class Found:
    """A measured candidate, bought for one demand."""

    candidate: Candidate
    replica: ReplicaModel
    capacity: Capacity
    purchase: Purchase
    ways: tuple[Placement, ...] = ()
    """All ways to buy it."""
    fleet: UnlikeFleet | None = None
    """Unlike parts that serve together; candidate and replica are then those of the part that generates tokens. None
    where all replicas are alike."""
    measurements: Measurements | None = None
    """Runs of the replica; None for a fleet of unlike parts."""

    @property
    def served(self) -> Served:
        """Return the system that is simulated under a load."""
        return self.fleet.served if self.fleet else self.replica

    @property
    def long_prompt_replica(self) -> ReplicaModel:
        """Return the replica that computes the longest prompts: of unlike parts, the one for prompts or long ones."""
        parts = self.fleet.parts if self.fleet else ()
        return next((part.replica for part in parts if part.role in ("prefill", "long")), self.replica)

    @property
    def accelerator_id(self) -> str:
        """Id of the accelerator that generates the tokens."""
        return self.candidate.deployment.accelerator.id

    @property
    def usd_per_million_tokens(self) -> float:
        """Cost at the price that was read [USD]."""
        return self.purchase.usd_per_million_tokens

    def with_purchase(self, purchase: Purchase) -> "Found":
        """Return the candidate with another purchase."""
        return replace(self, purchase=purchase)


Progress = Literal["bound", "surface", "screened", "confirmed", "settled", "closed"]
"""Stage of a trial: datasheet bound, bound of its step-cost surface, or a capacity of some precision; closed if it
cannot answer."""


@dataclass(slots=True)
class Trial:
    """One candidate during a race."""

    order: int
    """Place among the candidates: of equal ones the first is tried first."""
    candidate: Candidate
    ways: tuple[Placement, ...]
    rate_bound: float
    """Most requests per second that one replica can serve."""
    best_load: float = 0.0
    """Most that one replica may carry by what is known of it [requests/s]: its bound, a load that it missed, or its
    capacity with two standard errors."""
    progress: Progress = "bound"
    replica: ReplicaModel | None = None
    measurements: Measurements | None = None
    capacity: Capacity | None = None
    """The most precise one."""
    confirmed: Capacity | None = None
    reason: Reason | None = None
    """Why it is closed."""
    may_be_likely: bool = True
    """Whether it may keep the objectives with the chance of a safe pick at any load."""
    least_drawn: float = 1.0
    """Least power that its boards draw over their rated power, if they are owned; 1 for rented ones."""
    floors: list[float] = field(default_factory=list)
    """Least expected cost by lane, as in Purchase.cost; infinite where it cannot be bought."""
    parent: "Trial | None" = None
    """The trial of which this one changes the batch limits; None for a candidate with the engine's defaults."""
    accelerator_id: str = field(init=False)
    """Id of its accelerator; asked for at every step of a race, so that it is no property."""

    def __post_init__(self) -> None:
        self.best_load = self.best_load or self.rate_bound
        self.accelerator_id = self.candidate.deployment.accelerator.id

    @property
    def is_measured(self) -> bool:
        """Whether a capacity is known."""
        return self.capacity is not None and self.progress != "closed"
