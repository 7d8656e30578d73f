"""Decisions: the whole answer to a question, frozen; the only thing that views, files and callers see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from advisor.decide.option import Option
from advisor.decide.reason import Reason
from advisor.simulator.quantity import Quantity


class _Reasoned:
    """A record with a reason, whose code and text are attributes too, as its document has them."""

    __slots__ = ()
    reason: Reason

    @property
    def code(self) -> str:
        """Code of the reason."""
        return self.reason.document_fields()["code"]

    @property
    def text(self) -> str:
        """Words of the reason."""
        return self.reason.document_fields()["text"]


@dataclass(frozen=True, slots=True)
class Rejected(_Reasoned):
    """An accelerator that is not among the options, and why. Documents write `accelerator`, `code` and `text`."""

    accelerator: str
    reason: Reason

    def document_fields(self) -> dict[str, str]:
        """Fields by which a document names the accelerator and the reason."""
        return {"accelerator": self.accelerator, **self.reason.document_fields()}


@dataclass(frozen=True, slots=True)
class NotTaken(_Reasoned):
    """A provider or an engine that the question names and no option has. Documents write `option`, `name`, `code`,
    `text`."""

    option: str
    """Option by which it was named, as it is typed."""
    name: str
    reason: Reason

    def document_fields(self) -> dict[str, str]:
        """Fields by which a document names what was typed and the reason."""
        return {"option": self.option, "name": self.name, **self.reason.document_fields()}


@dataclass(frozen=True, slots=True)
class Rung:
    """One demand of a ladder and the option to take for it. Of the demands, the one that the ladder varies is set."""

    option: Option | None
    """None where nothing carries the demand."""
    reason: Reason | None = None
    """Why there is no option."""
    rate_per_s: float | None = None
    """Requests or items per second; of a number of clients the rate at which they are served."""
    clients: int | None = None
    deadline_s: float | None = None
    max_context_tokens: int | None = None
    needs_rope_scaling: bool = False
    """Whether servers of this context window must switch on the scaling that the publisher states."""
    requests_at_once: int | None = None
    """Requests of `max_context_tokens` that the caches of all replicas hold together."""
    first_token_s: float | None = None
    """Time to first token of one such request on an idle replica [s]."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How sure the first option is cheaper than another one: errors that both predictions share cancel."""

    rank: int
    """Rank of the other option."""
    accelerator: str
    pair_class: str | None
    """Class of the difference between the two, by which published pairs erred; None if several models share
    machines."""
    usd_ratio: Quantity | None
    """Cost of the other option over that of the first; None where several models share machines."""
    chance_first_is_cheaper: float


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A figure without and with a change."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """`after` over `before`; 1 where `before` is zero."""
        return self.after / self.before if self.before > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """A lever, a looser objective or other weights, tried on one of the options and simulated at the same demand."""

    name: str
    """Name of the lever, or of the option to type."""
    words: str
    rank: int
    """Rank of the option; 0 for the option of a ladder's smallest load."""
    accelerator: str
    verdict: Literal["applied", "cheaper", "faster", "no gain", "refused"]
    """applied: the option has the lever, and is compared with itself without."""
    costs_quality: bool
    note: str
    """Requirements of the change other than money, or the reason why it was refused."""
    usd_per_million_tokens: BeforeAfter | None = None
    usd_per_hour: BeforeAfter | None = None
    ttft_p99_s: BeforeAfter | None = None
    tpot_p99_s: BeforeAfter | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at for an answer."""

    num_candidates: int
    """Deployments, replicas on offers, or plans."""
    num_modelled: int | None = None
    """Candidates whose step-cost surface was built; None for other work than serving."""
    num_simulated: int = 0
    num_simulated_requests: int | None = None
    """None for other work than serving."""
    num_clusters: int | None = None
    """Clusters on which plans were laid out; None for other work than training."""
    num_evaluated: int | None = None
    """Plans whose memory and time were computed; None for other work than training."""
    num_feasible: int | None = None
    """Plans that fit; None for other work than training."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The ranked answer to a question about serving, a batch of requests, or images, texts and audio."""

    kind: str
    model: str
    workload: str
    headline: str
    options: tuple[Option, ...]
    """Best first; `--top` cuts this list and changes nothing else."""
    safe_pick: Option | None
    """The option with the role `safe_pick`, also where it is below the cut of `--top`; None where there is none."""
    ladder: tuple[Rung, ...]
    rejected: tuple[Rejected, ...]
    counts: Counts
    not_taken: tuple[NotTaken, ...] = ()
    """Providers and engines that the question names and no option has."""
    comparisons: tuple[Comparison, ...] = ()
    changes: tuple[Change, ...] = ()
    what_would_change: tuple[str, ...] = ()
    contexts: tuple[Rung, ...] = ()
    """Context windows, smallest first, each with the option to take for it."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str | None = None
    """Unit that is counted instead of requests: images, texts or seconds of audio; None for requests."""
    extra: Mapping[str, object] = field(default_factory=dict)
