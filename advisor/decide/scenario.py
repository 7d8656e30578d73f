"""The scenario: the whole frozen question that the search takes and that the answer echoes."""

import datetime
import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.published import context_limits
from advisor.catalog.schema import Calibration, Engine, Model
from advisor.catalog.schema.price import Tenancy
from advisor.catalog.schema.record import Record
from advisor.catalog.units import TYPED_DIGITS, time_words
from advisor.simulator.serving.lengths import lognormal_location

_NORMAL: Final = NormalDist()
_HEAVY_SIGMA: Final = 1.0
"""Standard deviation of the logarithm of lengths above which the prompts are heavy-tailed."""
_LONGEST: Final = _NORMAL.cdf(3.09)
"""Part of the requests that a replica must hold: all but one in a thousand."""


class Traffic(Record):
    """Requests: how many tokens they have, and how they come."""

    profile: str = "chat"
    mean_input_tokens: int = Field(ge=1, le=10_000_000)
    mean_output_tokens: int = Field(ge=1, le=10_000_000)
    input_sigma: float = Field(default=0.0, ge=0, le=5)
    output_sigma: float = Field(default=0.0, ge=0, le=5)
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    rate_per_s: float | None = Field(default=None, gt=0)
    """Requests per second of the whole deployment; None asks for the highest that meets the objectives."""
    concurrency: int | None = Field(default=None, ge=1)
    """Users that send their next request when the last is answered."""
    trace: Path | None = None
    shared_prefix_tokens: int = Field(default=0, ge=0)
    """Tokens at the start of the mean prompt that other prompts share; 0 without a shared prefix."""
    shared_prefixes: int = Field(default=1, ge=1)
    """How many such beginnings there are."""
    reused_input_tokens: float = Field(default=0.0, ge=0)
    """Tokens of the mean prompt that a prefix cache without end would hold from earlier ones."""
    source: str = ""
    part: "PromptRange | None" = None
    """Traffic and range of prompt lengths that these requests are a part of; None if they are all requests."""
    conversations: "Conversations | None" = None
    """Conversations whose turns these are, each with all that was said before; None if requests are independent."""

    @property
    def longest_request_tokens(self) -> int:
        """Tokens of the longest request that a replica must hold: the 99.9th percentile, or the stated maxima."""
        own = lognormal_quantile(self.own_input_tokens, self.input_sigma, None, _LONGEST)
        longest = self.max_input_tokens or own + self.shared_prefix_tokens
        return round(longest + self.longest_output_tokens)

    def prompt_tokens(self, percent: float) -> float:
        """Return the prompt length at the given percentile [tokens]."""
        own = self.behind_beginning
        most = own.max_input_tokens
        part = percent / 100.0
        quantile = lognormal_quantile(own.mean_input_tokens, own.input_sigma, most, part)
        return self.shared_prefix_tokens + quantile

    @property
    def longest_output_tokens(self) -> int:
        """Longest output that a replica must hold: the 99.9th percentile, or the stated maximum [tokens]."""
        return self.max_output_tokens or round(
            lognormal_quantile(self.mean_output_tokens, self.output_sigma, None, _LONGEST)
        )

    @property
    def own_input_tokens(self) -> int:
        """Tokens of the mean prompt behind its shared beginning."""
        return self.mean_input_tokens - self.shared_prefix_tokens

    @property
    def has_heavy_tail(self) -> bool:
        """Whether the longest few of the prompts decide what a run of hundreds shows."""
        return self.input_sigma > _HEAVY_SIGMA

    @property
    def behind_beginning(self) -> "Traffic":
        """Return the traffic without the shared prefix of its prompts."""
        common = self.shared_prefix_tokens
        most = self.max_input_tokens
        own = {
            "mean_input_tokens": self.own_input_tokens,
            "max_input_tokens": None if most is None else most - common,
            "shared_prefix_tokens": 0,
        }
        return self.model_copy(update=own)

    @property
    def tokens_per_request(self) -> int:
        """Prompt and output tokens of the mean request."""
        return self.mean_input_tokens + self.mean_output_tokens

    @property
    def mean_context_tokens(self) -> float:
        """Mean context of a sequence while it decodes."""
        return self.mean_input_tokens + self.mean_output_tokens / 2.0


class PromptRange(Record):
    """The requests of a traffic whose prompts are in a range of lengths."""

    whole: Traffic
    from_tokens: int = Field(default=1, ge=1)
    to_tokens: int | None = None
    """None: any number."""


class Conversations(Record):
    """Requests that send back what was said before them."""

    turn: Traffic
    """New tokens of a turn, and those of its answer."""
    mean_turns: float = Field(ge=1)
    gap_s: float = Field(gt=0)
    """Mean time from a prompt to the next of its conversation [s]."""
    common_tokens: int = Field(default=0, ge=0)
    """Tokens with which every conversation begins; 0 if none are shared."""


@lru_cache(maxsize=64)
def _location(mean: float, sigma: float, most: float | None) -> float:
    return math.log(mean) - sigma**2 / 2.0 if most is None else lognormal_location(mean, sigma, most)


def lognormal_quantile(mean: float, sigma: float, most: float | None, part: float) -> float:
    """The length below which so large a part is of a lognormal with this mean that ends at `most` [tokens]."""
    if sigma <= 0.0:
        return mean
    length = math.exp(_location(mean, sigma, most) + sigma * _NORMAL.inv_cdf(part))
    return length if most is None else min(length, most)


Metric = Literal["ttft", "tpot", "itl", "e2e"]


class ServiceLevel(Record):
    """A time that a share of the requests (of the gaps between tokens, for itl) must keep."""

    metric: Metric
    percent: Literal[50, 95, 99] | Annotated[float, Field(gt=0, lt=100)] = 99
    limit_s: float = Field(gt=0)

    @property
    def name(self) -> str:
        """Return the name of the objective in answers, e.g. p99 TTFT."""
        return f"p{self.percent:g} {'end to end' if self.metric == 'e2e' else self.metric.upper()}"

    @property
    def words(self) -> str:
        """Return the name of the objective with its limit, e.g. p99 TTFT 2 s."""
        return f"{self.name} {time_words(self.limit_s, TYPED_DIGITS)}"


class Objectives(Record):
    """Service levels, and what may be spent."""

    ttft_p99_s: float | None = Field(default=2.0, gt=0)
    """None where another level of the time to the first token stands in `others`."""
    tpot_p99_s: float | None = Field(default=0.1, gt=0)
    others: tuple[ServiceLevel, ...] = ()
    budget_usd_per_hour: float | None = Field(default=None, gt=0)

    @property
    def levels(self) -> tuple[ServiceLevel, ...]:
        """All service levels."""
        named = (("ttft", self.ttft_p99_s), ("tpot", self.tpot_p99_s))
        usual = (ServiceLevel(metric=name, limit_s=limit) for name, limit in named if limit is not None)
        return (*usual, *self.others)

    @property
    def words(self) -> str:
        """All service levels in words."""
        return " and ".join(each.words for each in self.levels)

    def shortest(self, *metrics: Metric) -> ServiceLevel | None:
        """Return the level of some metrics with the shortest limit; None if none sets one."""
        able = (each for each in self.levels if each.metric in metrics)
        return min(able, key=lambda each: each.limit_s, default=None)

    @property
    def largest_ttft_s(self) -> float:
        """Time to the first token beyond which a level is missed for certain; infinite where none says so."""
        level = self.shortest("ttft", "e2e")
        return level.limit_s if level else math.inf

    @property
    def largest_tpot_s(self) -> float:
        """Return the TPOT beyond which an objective is certainly missed [s]; infinite if none sets it."""
        level = self.shortest("tpot")
        return level.limit_s if level else math.inf


class Market(Record):
    """The hardware that may be rented or is already owned; an empty field allows everything."""

    accelerators: tuple[str, ...] = ()
    most_rented: tuple[tuple[int, str], ...] = ()
    """Accelerators of a kind that are rented at most, where the user counts them: (count, accelerator id)."""
    providers: tuple[str, ...] = ()
    terms: tuple[str, ...] = ("on_demand",)
    own: tuple[tuple[int, str], ...] = ()
    """Hardware that is already there: (count, accelerator id)."""
    own_are_alternatives: bool = False
    """Whether one kind of that hardware is taken: kinds are alternatives, which serve nothing together."""
    tenancies: tuple[Tenancy, ...] = ("dedicated",)
    """Tenancies that an offer may have; hardware of other people's hosts is "unknown"."""
    countries: tuple[str, ...] = ()
    """Where data must stay, as ISO 3166 codes; empty is anywhere, and an offer without a country is nowhere."""
    max_price_age_days: int | None = Field(default=None, ge=0)
    power_budget_w: float | None = Field(default=None, gt=0)
    """Power that owned machines may draw together, hosts included [W]; None without a limit."""
    price_file: Path | None = None
    price_cache: Path | None = None
    """Folder of refreshed prices, which count before the bundled ones."""


class Constraints(Market):
    """The limits that an answer about serving must stay within."""

    engines: tuple[str, ...] = ()
    engine_releases: tuple[tuple[str, str], ...] = ()
    """Engines with the release that the user named, whose words the commands have."""
    precisions: tuple[str, ...] = ()
    kv_dtype: str = ""
    """Number format of the KV cache; empty for that of checkpoint or engine."""
    regions: tuple[str, ...] = ()
    """Beginnings of sellers' names for their regions, or country codes; empty is anywhere."""
    max_accelerators: int = Field(default=64, ge=1)

    @property
    def home_places(self) -> tuple[str, ...]:
        """Regions or countries in which machines of one's own stand: those of the question, or else where data must
        stay; empty where it names neither."""
        return self.regions or self.countries

    def engines_of(self, known: Iterable[Engine]) -> tuple[Engine, ...]:
        """Return the engines that may be used, each with the release that the user named."""
        return tuple(
            engine.model_copy(update={"release": release})
            if (release := self.release_of(engine.id))
            else engine
            for engine in known
            if engine.id in self.engines or not (self.engines or engine.is_planned_if_named)
        )

    def release_of(self, engine: str) -> str:
        """Return the release of an engine that the user named; empty if none was named."""
        return dict(self.engine_releases).get(engine, "")


class ExtraItems(Record):
    """The items paid for besides machines; None if the scenario states no amount."""

    storage_bytes: float | None = Field(default=None, ge=0)
    """Kept all the time."""
    egress_bytes_per_month: float | None = Field(default=None, ge=0)


class AdapterLoad(Record):
    """LoRA adapters on the model, of which each request uses one."""

    count: int = Field(ge=1, le=1_000_000)
    rank: int = Field(ge=1, le=4096)
    slots: int = Field(ge=1, le=100_000)
    """Number of adapters in the accelerators' memory at once."""
    paths: tuple[tuple[str, str], ...] = ()
    """Adapters of a folder that was read, as name and path; empty if only their number was given."""


class Scenario(Record):
    """One question about serving, with everything resolved."""

    model: str
    workload: Literal["serve"] = "serve"
    traffic: Traffic
    objectives: Objectives = Objectives()
    constraints: Constraints = Constraints()
    as_of: datetime.date
    seed: int = 0
    calibration: Calibration | None = None
    """Measured figures of one machine, which count for the accelerator that they name."""
    ladder_per_s: tuple[float, ...] = ()
    """Loads [requests/s] of which each gets an answer, where none is given."""
    ladder_clients: tuple[int, ...] = ()
    """Numbers of clients of which each gets an answer; the traffic's are the most of them."""
    screened_only: bool = False
    """No capacity is confirmed: quick, and called so."""
    headroom_fraction: float = Field(default=0.2, ge=0, le=0.9)
    """Part of the confirmed capacity that stays free at the planning point."""
    redundancy: Literal["none", "n+1"] = "none"
    """n+1: one replica more than the load needs."""
    top: int = Field(default=5, ge=1, le=100)
    levers: tuple[str, ...] = ("auto",)
    """Names of those that the search may pull; auto: reuse of prompts, others tried on what is shown; none."""
    acceptance: float | None = Field(default=None, ge=0, le=1)
    """Chance that a guess of speculation is accepted; None as published."""
    adapters: AdapterLoad | None = None
    max_contexts: tuple[int, ...] = ()
    """Longest requests [tokens] of which each gets an answer; the options are those of the largest that has one."""
    beside: ExtraItems = ExtraItems()

    @model_validator(mode="after")
    def _finite(self) -> "Scenario":
        rate = self.traffic.rate_per_s
        if rate is not None and not math.isfinite(rate):
            raise ValueError("rate must be finite")
        if rate is not None and self.traffic.concurrency is not None:
            raise ValueError("give a rate or a concurrency, not both")
        if self.ladder_per_s and (rate is not None or self.traffic.concurrency is not None):
            raise ValueError("a ladder of loads is for questions without a load")
        return self

    def with_traffic(self, **changed: object) -> "Scenario":
        """Return a copy with other values of fields of its traffic."""
        return self.model_copy(update={"traffic": self.traffic.model_copy(update=changed)})

    def with_objectives(self, **changed: object) -> "Scenario":
        """Return a copy with other values of fields of its objectives."""
        return self.model_copy(update={"objectives": self.objectives.model_copy(update=changed)})

    def with_limits(self, **changed: object) -> "Scenario":
        """Return a copy with other values of fields of its constraints."""
        return self.model_copy(update={"constraints": self.constraints.model_copy(update=changed)})


def context_window(model: Model) -> int:
    """Longest request that a model reads, with the scaling that its publisher states [tokens]; 0 if no source says."""
    limits = context_limits(model)
    return max(limits.with_scaling or 0, limits.native or 0)


def check_window(tokens: int, model: Model, option: str) -> None:
    """Refuse a sequence that is longer than the model reads, with the scaling that its publisher states.

    Raises: InfeasibleError: it is longer than the window.
    """
    window = context_window(model)
    if window and tokens > window:
        raise InfeasibleError(
            f"{option} {tokens:,} exceeds the {window:,} tokens that {model.id} reads",
            why=f"its context window ends there ({context_limits(model).source})",
            fix=f"{option} {window}, or another model",
        )


def within_window(traffic: Traffic, model: Model, max_model_len: int | None = None) -> tuple[Traffic, str]:
    """The traffic as a model's context window lets it be, and a note where long requests are cut.

    A server that was started with `max_model_len` has that window.

    Assumes: the scaling that the publisher states may be switched on.
    Raises: InfeasibleError: the mean request is longer than the window.
    """
    limits = context_limits(model)
    window = max_model_len or context_window(model)
    reads = f"a server with --max-model-len {window}" if max_model_len else model.id
    if not window or traffic.longest_request_tokens <= window:
        return traffic, _scaling_note(traffic.longest_request_tokens, model)
    mean = traffic.tokens_per_request
    output = min(traffic.longest_output_tokens, max(traffic.mean_output_tokens, window // 2))
    longest_mean = window - output - 1  # lengths that are cut are shorter in the mean
    if traffic.mean_input_tokens > longest_mean:
        reach = "" if mean > window else f", and answers reach {output:,}"
        raise InfeasibleError(
            f"{reads} reads at most {window:,} tokens, a mean request has {mean:,}{reach}",
            why="longer requests are refused"
            if max_model_len
            else f"its context window ends there ({limits.source})",
            fix=f"--input-tokens {max(1, longest_mean)} or less, or another model",
        )
    cut = traffic.model_copy(update={"max_output_tokens": output, "max_input_tokens": window - output})
    note = f"requests are cut to the {window:,} tokens that {reads} reads"
    return cut, "; ".join(filter(None, (note, _scaling_note(window, model))))


def _scaling_note(tokens: int, model: Model) -> str:
    """Return the setting that a server of requests longer than the native window must enable; empty within the
    window."""
    limits = context_limits(model)
    if not limits.native or tokens <= limits.native:
        return ""
    return (
        f"beyond {limits.native:,} tokens {model.id} needs the scaling of positions that its publisher states "
        f"({limits.source}): the command switches it on, for short prompts too, whose quality it lowers"
    )


def fit_to_window(scenario: Scenario, model: Model) -> tuple[Scenario, str]:
    """The scenario with its requests within the model's window, and a note where that changed them.

    Raises: InfeasibleError: the mean request is longer than the window.
    """
    traffic, note = within_window(scenario.traffic, model)
    return scenario.model_copy(update={"traffic": traffic}), note
