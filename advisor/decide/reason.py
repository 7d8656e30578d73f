"""Reasons: why something is not an answer. A reason is a type; people alone read its English, which is made here.

A kind of reason with fields is a dataclass; one without inherits the record of `Reason` or `StatedReason`.
"""

from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import GB, TYPED_DIGITS, plain_number, time_words, usd_words


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is not an answer, or cannot be priced."""

    code: ClassVar[str] = "reason"
    by_limits: ClassVar[bool] = False
    """Whether other limits of the question could remove the reason; such reasons are printed first."""
    sentence: ClassVar[str] = ""
    """The reason in one sentence without a full stop; `{self.name}` stands for a field."""
    reach: ClassVar[int] = 0
    """How far the candidate came that has the reason. An accelerator has the reason of the one that came furthest."""

    @property
    def excess(self) -> float:
        """Ratio of what was computed to the limit that it misses; 0 for a reason without such a limit."""
        return 0.0

    @property
    def group(self) -> Hashable:
        """Return the key that reasons share which are told together."""
        return self

    @property
    def text(self) -> str:
        """The reason in one sentence without a full stop."""
        return self.sentence.format(self=self)

    def __str__(self) -> str:
        return self.text

    def document_fields(self) -> dict[str, str]:
        """Fields by which a document names the reason."""
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True, slots=True)
class StatedReason(Reason):
    """A reason that the code which found it puts into words."""

    why: str
    sentence: ClassVar[str] = "{self.why}"


class NoAnswerError(InfeasibleError):
    """Nothing satisfies a question; the most common reasons against its candidates are kept as records."""

    def __init__(
        self, what: str, *, why: str = "", fix: str = "", hint: str = "", reasons: tuple[Reason, ...] = ()
    ) -> None:
        super().__init__(what, why=why, fix=fix, hint=hint)
        self.reasons = reasons


_MOST_NAMED: Final = 3
"""Largest number of accelerators with one reason that are named; of more, the number is told. Own choice."""


def name_accelerators(reason: Reason, names: Sequence[str]) -> str:
    """Return a reason after the accelerators that have it, of which sentences say *it*."""
    if len(names) > _MOST_NAMED:
        return f"{reason} ({len(names)} accelerators)"
    return f"{', '.join(names)}: {reason}"


class NotRanked(StatedReason):
    """The catalog only describes an accelerator."""

    code: ClassVar[str] = "not_ranked"


@dataclass(frozen=True, slots=True)
class NoEngine(Reason):
    """No engine of the catalog runs a model on an accelerator."""

    model: str
    code: ClassVar[str] = "no_engine"
    sentence: ClassVar[str] = "no engine in the catalog runs {self.model} on it"


class ArchitectureNotInEngine(StatedReason):
    """No engine that runs on an accelerator loads the class of a model."""

    code: ClassVar[str] = "architecture_not_in_engine"


class FilesNotLoaded(StatedReason):
    """No engine that runs on an accelerator loads the files of a checkpoint."""

    code: ClassVar[str] = "files_not_loaded"


class UnsureClass(StatedReason):
    """No source says that an engine has the class of a model itself, which the predicted speed assumes."""

    code: ClassVar[str] = "engine_class_unsure"


@dataclass(frozen=True, slots=True)
class NoKernels(Reason):
    """An engine has no kernels for the number formats that the question allows."""

    engine: str
    formats: tuple[str, ...]
    nearest: str = ""
    """Format of about as many bits for which the engine has kernels; empty if it has none."""
    code: ClassVar[str] = "no_kernels"

    @property
    def text(self) -> str:
        more = f", but for {self.nearest}" if self.nearest else ""
        return f"{self.engine} has no kernels for {'/'.join(self.formats)} on it{more}"


@dataclass(frozen=True, slots=True)
class NoCacheFormat(Reason):
    """An engine does not keep its KV cache in the format that the question names."""

    engine: str
    format: str
    code: ClassVar[str] = "no_cache_format"
    sentence: ClassVar[str] = "{self.engine} does not keep its KV cache in {self.format} on it"


class DoesNotFit(StatedReason):
    """Memory or layout keep every replica from starting."""

    code: ClassVar[str] = "does_not_fit"


class NotSupported(StatedReason):
    """An engine lacks something that the question needs."""

    code: ClassVar[str] = "not_supported"


class NotForSale(Reason):
    """No provider offers an accelerator within the limits of the question."""

    code: ClassVar[str] = "not_for_sale"
    sentence: ClassVar[str] = "no price within the constraints on this date"


@dataclass(frozen=True, slots=True)
class AsksMore(Reason):
    """A provider sells the accelerators of an option, which are rented elsewhere."""

    accelerator: str
    usd: float
    """Lowest price of one accelerator at the provider [USD/h]."""
    taken_usd: float
    """Price of one accelerator of the option [USD/h]."""
    taken_from: str
    """Provider of the option, with region and term."""
    code: ClassVar[str] = "asks_more"

    @property
    def text(self) -> str:
        asks = f"asks from ${self.usd:,.2f} an hour for one {self.accelerator}"
        if self.usd > self.taken_usd:
            return f"{asks}, against ${self.taken_usd:,.2f} at {self.taken_from}"
        return f"{asks}, but the age of that price or its whole units make it cost more than at {self.taken_from}"


@dataclass(frozen=True, slots=True)
class ServiceEnded(Reason):
    """A provider's API, or the model there, no longer answers, although price lists still have its rows."""

    ended_on: str
    """First day without it, as ISO 8601."""
    model: str
    """Model that the provider took away; empty where the whole service ended."""
    url: str
    code: ClassVar[str] = "service_ended"

    @property
    def text(self) -> str:
        what = f"{self.model} there" if self.model else "the service"
        return f"{what} ended on {self.ended_on}; its listed price is left out"


@dataclass(frozen=True, slots=True)
class SellsOnlyOthers(Reason):
    """A provider sells none of the accelerators of the options."""

    accelerators: tuple[str, ...]
    code: ClassVar[str] = "sells_only_others"

    @property
    def text(self) -> str:
        shown = ", ".join(self.accelerators[:3])
        more = f" and {len(self.accelerators) - 3} more" if len(self.accelerators) > 3 else ""
        return f"sells only accelerators that are not among the options: {shown}{more}"


class NotSoldTogether(Reason):
    """No provider offers as many accelerators in one node as a replica needs."""

    code: ClassVar[str] = "not_sold_together"
    sentence: ClassVar[str] = "no provider offers enough of them in one node for this model"


@dataclass(frozen=True, slots=True)
class TooFewOwned(Reason):
    """A replica needs more accelerators than there are."""

    accelerator: str
    num_owned: int
    needed: int
    """Accelerators of the smallest replica."""
    weights: str
    """Format of the weights of the smallest replica."""
    code: ClassVar[str] = "too_few_owned"
    sentence: ClassVar[str] = (
        "one replica with {self.weights} weights takes {self.needed} x {self.accelerator}, "
        "and you have {self.num_owned}"
    )


class NotPowered(Reason):
    """The power budget does not feed a single accelerator, or replica."""

    code: ClassVar[str] = "not_powered"
    sentence: ClassVar[str] = "the power budget feeds none of them"


class OverBudget(Reason):
    """Every purchase that carries the load costs more than the budget."""

    code: ClassVar[str] = "over_budget"
    reach: ClassVar[int] = 4
    sentence: ClassVar[str] = "costs more than the budget"


class OwnedTooSlow(Reason):
    """The hardware that is there does not carry the load."""

    code: ClassVar[str] = "owned_too_slow"
    reach: ClassVar[int] = 4
    sentence: ClassVar[str] = "the hardware that is there does not carry this load"


class NotEnoughOffered(Reason):
    """No provider offers as many units as the load needs."""

    code: ClassVar[str] = "not_enough_offered"
    reach: ClassVar[int] = 4
    sentence: ClassVar[str] = "no provider offers as many units as the load needs"


@dataclass(frozen=True, slots=True)
class TooLate(Reason):
    """The least that a latency can be, whatever the load, is above its objective."""

    objective: str
    """Name of the objective, e.g. p99 TPOT."""
    least_s: float
    limit_s: float

    @property
    def excess(self) -> float:
        return self.least_s / self.limit_s

    @property
    def group(self) -> Hashable:
        return self.code, self.objective

    @property
    def least(self) -> str:
        """The least that the latency can be, in words."""
        return time_words(self.least_s)

    @property
    def limit(self) -> str:
        """The limit of the objective, in words."""
        return time_words(self.limit_s, TYPED_DIGITS)


class SlowByDatasheet(TooLate):
    """The datasheet limits of an accelerator miss an objective."""

    code: ClassVar[str] = "slow_by_datasheet"
    reach: ClassVar[int] = 1
    sentence: ClassVar[str] = (
        "even its datasheet limits allow no {self.objective} below {self.least}, {self.limit} is asked"
    )


class SlowAlone(TooLate):
    """A single request on an idle replica misses the time per output token."""

    code: ClassVar[str] = "slow_alone"
    reach: ClassVar[int] = 2
    sentence: ClassVar[str] = (
        "even a request alone is predicted a {self.objective} of {self.least}, {self.limit} is asked"
    )


@dataclass(frozen=True, slots=True)
class LongPrompts(TooLate):
    """Long prompts miss an objective alone, without any load."""

    one_in: float
    tokens: float
    code: ClassVar[str] = "long_prompts"
    reach: ClassVar[int] = 2

    @property
    def text(self) -> str:
        return (
            f"one prompt in {plain_number(self.one_in)} is longer than {self.tokens:,.0f} tokens, which take "
            f"{self.least} alone: {self.objective} {self.limit} is asked"
        )


@dataclass(frozen=True, slots=True)
class TooSlowAlone(Reason):
    """One item that meets no queue takes longer than the latency objective."""

    unit: str
    alone_s: float
    limit_s: float
    code: ClassVar[str] = "too_slow_alone"

    @property
    def text(self) -> str:
        limit = time_words(self.limit_s, TYPED_DIGITS)
        return f"one {self.unit} alone takes {time_words(self.alone_s)}, the objective is {limit}"


@dataclass(frozen=True, slots=True)
class MissesDeadline(Reason):
    """The job is not done by its deadline, or costs more than the budget."""

    by_roofline: bool
    """Whether the datasheet limits say so, and not the modelled replica."""
    code: ClassVar[str] = "misses_deadline"
    reach: ClassVar[int] = 3

    @property
    def excess(self) -> float:
        return 1.0 if self.by_roofline else 0.0

    @property
    def text(self) -> str:
        if self.by_roofline:
            return "its datasheet limits miss the deadline or the budget"
        return "misses the deadline or the budget at its best"


@dataclass(frozen=True, slots=True)
class WindowTooSmall(Reason):
    """The model reads fewer tokens than a context window asks for."""

    model: str
    most_tokens: int
    code: ClassVar[str] = "window_too_small"
    sentence: ClassVar[str] = "{self.model} reads at most {self.most_tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class RequestsTooLong(Reason):
    """The mean request of the load is longer than a context window."""

    mean_tokens: int
    code: ClassVar[str] = "requests_too_long"
    sentence: ClassVar[str] = "a mean request has {self.mean_tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class NothingCarries(Reason):
    """No option carries a demand of a ladder."""

    why: str = ""
    code: ClassVar[str] = "nothing_carries"

    @property
    def text(self) -> str:
        return self.why or "nothing carries it"


@dataclass(frozen=True, slots=True)
class MissesObjectives(Reason):
    """Simulated runs miss an objective at every load that was tried."""

    objective: str
    """The objective that is missed at the lowest load, e.g. p99 TTFT, with its limit."""
    reached_s: float | None = None
    """Latency at the lowest load that was tried [s]; None where requests do not fit, or pile up."""
    limit_s: float = 0.0
    code: ClassVar[str] = "misses_objectives"
    reach: ClassVar[int] = 3

    @property
    def excess(self) -> float:
        return 0.0 if self.reached_s is None else self.reached_s / self.limit_s

    @property
    def group(self) -> Hashable:
        return self.code, self.objective

    @property
    def text(self) -> str:
        reached = (
            "" if self.reached_s is None else f": {time_words(self.reached_s)} at the least that was tried"
        )
        return f"misses {self.objective} at any load{reached}"


class NotTried(Reason):
    """The limit of simulated work was reached before the candidate was tried."""

    code: ClassVar[str] = "not_tried"
    reach: ClassVar[int] = 5
    sentence: ClassVar[str] = "not tried: the search had reached its limit of simulated events"


@dataclass(frozen=True, slots=True)
class CostsMore(Reason):
    """The expected cost of a candidate for the same demand, against the last option that is shown."""

    usd: float
    """Expected cost of the candidate, in the unit of `per`."""
    limit_usd: float
    """Expected cost of the option `rank`."""
    rank: int | None
    """Rank of the option; None for the dearest one that is shown."""
    is_bound: bool
    """Whether `usd` is the least that the candidate could cost, and not what was simulated."""
    per: str = "per million tokens"
    code: ClassVar[str] = "costs_more"
    reach: ClassVar[int] = 5

    @property
    def text(self) -> str:
        least = "at least " if self.is_bound else ""
        named = "the dearest shown" if self.rank is None else f"option {self.rank}"
        if self.is_bound and plain_number(self.usd) == plain_number(self.limit_usd):
            return f"costs no less than {named}, ${plain_number(self.limit_usd)} {self.per}"
        return f"{least}${plain_number(self.usd)} {self.per}, against ${plain_number(self.limit_usd)} for {named}"


@dataclass(frozen=True, slots=True)
class CostsAsMuch(Reason):
    """A candidate and an option are a tie: neither is cheaper with a probability of 75 % or more."""

    rank: int
    code: ClassVar[str] = "costs_as_much"
    sentence: ClassVar[str] = "a tie with option {self.rank}: less than 75 % sure which is cheaper"


@dataclass(frozen=True, slots=True)
class LessSure(Reason):
    """A candidate that is expected to cost less than the last option that is shown, which is the safe pick."""

    usd: float
    """Expected cost of the candidate, in the unit of `per`."""
    limit_usd: float
    """Expected cost of the option `rank`, in the unit of `per`."""
    rank: int
    per: str = "per million tokens"
    code: ClassVar[str] = "less_sure"

    @property
    def text(self) -> str:
        return (
            f"${plain_number(self.usd)} {self.per} if it holds, behind option {self.rank} for "
            f"${plain_number(self.limit_usd)}, which is surer"
        )


@dataclass(frozen=True, slots=True)
class AmountNotStated(Reason):
    """The question does not say how much of something is used."""

    option: str
    """Option as it is typed."""
    code: ClassVar[str] = "amount_not_stated"
    sentence: ClassVar[str] = "the question states no amount: {self.option}"


@dataclass(frozen=True, slots=True)
class PriceNotStated(Reason):
    """No price of a provider is known for something."""

    provider: str
    is_amount_stated: bool = True
    """Whether the question says how much of it is used, so that a sum leaves something out."""
    code: ClassVar[str] = "price_not_stated"
    sentence: ClassVar[str] = "no price of {self.provider} is known"


class AssumedKernels(Reason):
    """The prediction borrows kernel measurements of other hardware."""

    code: ClassVar[str] = "assumed_kernels"
    sentence: ClassVar[str] = "its kernels were not measured"


@dataclass(frozen=True, slots=True)
class TightMemory(Reason):
    """The expected peak of memory fits, but the 80 % interval around it does not."""

    peak_bytes: float
    high_bytes: float
    limit_bytes: float
    code: ClassVar[str] = "tight_memory"

    @property
    def text(self) -> str:
        return (
            f"its memory is tight: {self.peak_bytes / GB:.1f} GB, up to {self.high_bytes / GB:.1f}, "
            f"of {self.limit_bytes / GB:.1f}"
        )


@dataclass(frozen=True, slots=True)
class MayNotHold(Reason):
    """The objectives, or a deadline, hold with a probability below 75 %."""

    chance: float
    code: ClassVar[str] = "may_not_hold"

    @property
    def text(self) -> str:
        return f"holds with a probability of {100.0 * self.chance:.0f} %"


@dataclass(frozen=True, slots=True)
class UnsurePrice(Reason):
    """The price is old, or no provider's own, or of shared hardware."""

    kind: str
    tenancy: str
    age_days: int | None
    code: ClassVar[str] = "unsure_price"

    @property
    def text(self) -> str:
        age = "undated" if self.age_days is None else f"{self.age_days} days old"
        return f"{self.kind.replace('_', ' ')} price of {self.tenancy} hardware, {age}"


@dataclass(frozen=True, slots=True)
class UnsureNetwork(Reason):
    """Pools send caches to each other over a network that parts of nodes, or machines of one accelerator, may lack."""

    code: ClassVar[str] = "unsure_network"
    sentence: ClassVar[str] = "its pools need a network between machines that are not known to have it"


@dataclass(frozen=True, slots=True)
class ByContract(Reason):
    """The cluster is larger than any that a provider sells at its list price."""

    provider: str
    num_accelerators: int
    most: int
    """Most accelerators that the provider's page sells without a contract."""
    code: ClassVar[str] = "by_contract"

    @property
    def text(self) -> str:
        return (
            f"{self.num_accelerators:,} accelerators are more than the {self.most:,} that are sold at list prices: ask "
            f"{self.provider} for a contract, its price and its start"
        )


@dataclass(frozen=True, slots=True)
class NoCheckpoint(Reason):
    """No published checkpoint, or no published draft head, is known for the format that is served."""

    what: str
    code: ClassVar[str] = "no_checkpoint"
    sentence: ClassVar[str] = "no published {self.what} is known"


@dataclass(frozen=True, slots=True)
class NoStartCommand(StatedReason):
    """No start command is known for a replica that was priced without one."""

    code: ClassVar[str] = "no_start_command"


@dataclass(frozen=True, slots=True)
class NoFramework(StatedReason):
    """No training framework that is modelled, or that was asked for, runs the job on an accelerator."""

    elsewhere: tuple[str, ...] = ()
    """Families of frameworks, not asked for, that run it."""
    code: ClassVar[str] = "no_framework"


@dataclass(frozen=True, slots=True)
class NoUnits(Reason):
    """An accelerator does not multiply in the formats that a job asks for."""

    formats: tuple[str, ...]
    usable: tuple[str, ...]
    """Training formats that it multiplies in."""
    code: ClassVar[str] = "no_units"
    by_limits: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return f"has no units for {'/'.join(self.formats)}, but for {', '.join(self.usable) or 'none of the formats'}"


@dataclass(frozen=True, slots=True)
class NoOptions(Reason):
    """No training framework has options for a method with an optimizer in a format."""

    frameworks: tuple[str, ...]
    what: str
    optimizers: tuple[str, ...]
    """Optimizers with which one has options."""
    elsewhere: tuple[str, ...] = ()
    """Families of frameworks, not asked for, that have them."""
    by_model: bool = False
    """Whether the model lacks them, on accelerators of any vendor."""
    sibling: str = ""
    """Model of the same family, nearest in size, that Transformers builds; empty if there is none."""
    code: ClassVar[str] = "no_options"
    by_limits: ClassVar[bool] = True

    @property
    def text(self) -> str:
        instead = f"; they have {', '.join(self.optimizers)}" if self.optimizers else ""
        if self.elsewhere:
            instead = f"; those of {' and '.join(self.elsewhere)} do"
        return f"no options of {' and '.join(self.frameworks)} are known that say {self.what}{instead}"


@dataclass(frozen=True, slots=True)
class NotSoldAsCluster(Reason):
    """No provider sells as many accelerators as one cluster."""

    count: int
    near: int
    """The nearest size that is sold; 0 where there is none."""
    code: ClassVar[str] = "not_sold_as_cluster"
    by_limits: ClassVar[bool] = True

    @property
    def text(self) -> str:
        near = f"; {self.near} can be had" if self.near else ""
        return f"no provider within the limits sells {self.count} of them as one cluster{near}"


@dataclass(frozen=True, slots=True)
class LayoutRefused(Reason):
    """A framework cannot run what the user fixes of a plan."""

    what: str
    why: str
    fix: str
    """Options to type instead."""
    elsewhere: tuple[str, ...] = ()
    """Frameworks, not asked for, that run it."""
    month: str = ""
    """First month of which a release has all of it; empty if releases do not decide."""
    code: ClassVar[str] = "layout_refused"
    by_limits: ClassVar[bool] = True
    sentence: ClassVar[str] = "{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class NoLayout(Reason):
    """No plan divides the accelerators, the batch and the model, or fits the memory."""

    why: str
    fix: str = ""
    """Options to type instead; empty if only more accelerators or a smaller job would do."""
    last_fix: str = ""
    """Options to type if no other question is found to have an answer."""
    code: ClassVar[str] = "no_layout"
    by_limits: ClassVar[bool] = True
    sentence: ClassVar[str] = "{self.why}"


class NoClusterSize(Reason):
    """No cluster size lies within the limits."""

    code: ClassVar[str] = "no_cluster_size"
    sentence: ClassVar[str] = "no cluster size within the limits"


@dataclass(frozen=True, slots=True)
class FailsTooOften(Reason):
    """Failures leave too little of the time."""

    count: int
    goodput_fraction: float
    is_spot: bool
    """Whether spot machines that are taken back are the cause; another term removes it."""
    code: ClassVar[str] = "fails_too_often"
    by_limits: ClassVar[bool] = True

    @property
    def text(self) -> str:
        where = "spot machines come and go" if self.is_spot else "it fails too often"
        return f"not feasible on {self.count}: {where}, {self.goodput_fraction:.0%} of the time is left"


@dataclass(frozen=True, slots=True)
class TakesTooLong(Reason):
    """The run takes longer than the deadline, or than hardware lasts."""

    days: float
    count: int
    deadline_days: float | None
    """None where there is no deadline."""
    is_stated: bool = True
    """Whether the user stated the deadline."""
    code: ClassVar[str] = "takes_too_long"
    by_limits: ClassVar[bool] = True
    reach: ClassVar[int] = 4

    @property
    def excess(self) -> float:
        return self.days / self.deadline_days if self.deadline_days else 0.0

    @property
    def group(self) -> Hashable:
        return self.code, self.deadline_days

    @property
    def text(self) -> str:
        takes = f"takes {plain_number(self.days)} days on {self.count}"
        if self.deadline_days is None:
            return f"takes {self.days:,.0f} days on {self.count}, hardware does not last so long"
        most = plain_number(self.deadline_days)
        if not self.is_stated:
            return f"{takes}, and without --deadline {most} days are the most that is listed"
        return f"{takes}, the deadline is {most}"


@dataclass(frozen=True, slots=True)
class NotWorthCommitting(Reason):
    """The run uses less than a tenth of the commitment of its term; another term removes it."""

    days: float
    committed_days: float
    code: ClassVar[str] = "not_worth_committing"
    by_limits: ClassVar[bool] = True

    @property
    def text(self) -> str:
        days = plain_number(self.days)
        return f"takes {days} days, less than a tenth of a commitment of {self.committed_days:.0f} days"


@dataclass(frozen=True, slots=True)
class OverJobBudget(Reason):
    """The run costs more than the budget."""

    usd: float
    budget_usd: float
    count: int | None
    """Accelerators of the run; None where `usd` is the least that perfect computation would cost."""
    code: ClassVar[str] = "over_job_budget"
    by_limits: ClassVar[bool] = True
    reach: ClassVar[int] = 4

    @property
    def excess(self) -> float:
        return self.usd / self.budget_usd

    @property
    def group(self) -> Hashable:
        return self.code, self.count is None

    @property
    def text(self) -> str:
        where = "at best" if self.count is None else f"on {self.count}"
        return f"costs {usd_words(self.usd)} {where}, the budget is {usd_words(self.budget_usd)}"


class NoDeployment(Reason):
    """No candidate on an accelerator was left to be tried."""

    code: ClassVar[str] = "no_deployment"
    sentence: ClassVar[str] = "no feasible deployment"


def keep_furthest(reasons: MutableMapping[str, Reason], name: str, reason: Reason) -> None:
    """Note why a candidate of an accelerator is no answer, unless another one came further or missed by less."""
    known = reasons.get(name)
    if known is None or (reason.reach, -reason.excess) > (known.reach, -known.excess):
        reasons[name] = reason


def most_common(reasons: Mapping[str, Reason], *, is_sold: bool) -> list[tuple[Reason, str]]:
    """Return the most common reasons of accelerators in words, those of the candidates that came furthest first. Of
    those that miss one limit by different amounts, that of the accelerator which misses it by least is told.

    `is_sold`: accelerators are for sale within the limits; those that are not count last then.
    """
    alike: dict[Hashable, list[tuple[str, Reason]]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason.group, []).append((name, reason))
    nearest = [
        ([name for name, _ in group], *min(group, key=lambda item: item[1].excess))
        for group in alike.values()
    ]

    def order(item: tuple[list[str], str, Reason]) -> tuple[bool, bool, bool, int, int]:
        names, _, reason = item
        is_unsold = isinstance(reason, NotForSale)
        is_later = is_unsold if is_sold else not is_unsold
        return isinstance(reason, NotRanked), is_later, not reason.by_limits, -reason.reach, -len(names)

    nearest.sort(key=order)
    told = list[tuple[Reason, str]]()
    for names, name, reason in nearest[:3]:
        words = name_accelerators(reason, names)
        if reason.excess and len(names) > 1:
            words = f"{reason} ({name}, the nearest of {len(names)} accelerators)"
        told.append((reason, words))
    return told


def reason_codes() -> tuple[str, ...]:
    """Return the codes of all reasons, sorted; documents have no others."""
    return tuple(sorted({kind.code for kind in _kinds(Reason)} - {Reason.code}))


def _kinds(kind: type[Reason]) -> Iterator[type[Reason]]:
    """Yield a kind of reason, and those that inherit from it."""
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
