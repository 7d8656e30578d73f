"""Schema of a fleet file: pools, router and load; amounts with their units."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from advisor.ask.measures import parse_bytes, parse_rate, parse_seconds
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import DATA_DIR, check_record, data_files, read_text, read_toml
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema.price import Term
from advisor.catalog.schema.record import Record
from advisor.simulator.serving.fleet import QueueOrder, RouterRule, ScalingMetric

EXAMPLES: Final = DATA_DIR / "fleets"
MOST_REQUESTS: Final = 1_000_000
"""Largest number of requests in a load: these are simulated within a minute."""


def _with(parse: object, example: str) -> BeforeValidator:
    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(f"write a number and its unit in quotes, e.g. {example!r}")
        try:
            return parse(value, "")  # type: ignore[operator]
        except AdvisorError as error:
            raise ValueError(f"{error.what.strip()}; e.g. {example!r}") from None

    return BeforeValidator(convert)


def _rate(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return parse_rate(str(value), "")
    except AdvisorError as error:
        raise ValueError(f"{error.what.strip()}; e.g. 10 or '600/min'") from None


Seconds = Annotated[float, _with(parse_seconds, "90s")]
Bytes = Annotated[float, _with(parse_bytes, "15GB")]
Rate = Annotated[float, BeforeValidator(_rate), Field(gt=0)]


class ColdStartTable(Record):
    """Times between the decision to start a replica and its first request."""

    provision: Seconds = 0.0
    image: Bytes = 0.0
    image_per_s: Bytes | None = None
    weights_per_s: Bytes | None = None
    """Rate at which weights are read; None: their time is part of `engine`."""
    engine: Seconds = 0.0

    @model_validator(mode="after")
    def _image_has_a_rate(self) -> "ColdStartTable":
        if self.image and not self.image_per_s:
            raise ValueError("image needs image_per_s, what is pulled in a second")
        return self


class ScalingTable(Record):
    """Rules by which replicas are added and removed."""

    metric: ScalingMetric
    target: float = Field(gt=0)
    min: int = Field(ge=1)
    max: int = Field(ge=1, le=10_000)
    interval: Seconds = 15.0
    tolerance: float = Field(default=0.1, ge=0, le=1)
    down_after: Seconds = 300.0


class FailureTable(Record):
    """Random failures of replicas."""

    mtbf: Seconds
    repair: Seconds


class SpotTable(Record):
    """Spot machines that the provider takes back."""

    mean_life: Seconds
    notice: Seconds = 120.0
    wait: Seconds = 0.0


class DeployTable(Record):
    """Rollout of a new version during the run."""

    at: Seconds
    at_a_time: int = Field(default=1, ge=1)
    surge: bool = True


class PoolTable(Record):
    """Equal replicas that are bought and scaled together."""

    name: str = Field(min_length=1, max_length=40)
    gpu: str
    replicas: int = Field(ge=1, le=100_000)
    tp: int = Field(default=1, ge=1)
    pp: int = Field(default=1, ge=1)
    dp: int = Field(default=1, ge=1)
    ep: int = Field(default=1, ge=1)
    engine: str = "vllm"
    precision: str | None = None
    kv_precision: str | None = None
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    prefix_caching: bool | None = None
    provider: str | None = None
    term: Term = "on_demand"
    usd_per_hour: float | None = Field(default=None, ge=0)
    """Price of one replica [USD/h]; None means the cheapest offer of provider and term."""
    prompts_from: int = Field(default=0, ge=0)
    prompts_to: int | None = Field(default=None, ge=1)
    tenants: tuple[str, ...] = ()
    spill_above: int | None = Field(default=None, ge=1)
    max_outstanding: int | None = Field(default=None, ge=1)
    order: QueueOrder = "arrival"
    cold_start: ColdStartTable = ColdStartTable()
    scaling: ScalingTable | None = None
    failures: FailureTable | None = None
    spot: SpotTable | None = None
    deploys: tuple[DeployTable, ...] = ()


class DayTable(Record):
    """A rate that swings as a sine."""

    mean: Rate
    peak_to_mean: float = Field(ge=1, le=2)
    period: Seconds = 86_400.0


class BurstTable(Record):
    """A base rate with bursts."""

    base: Rate
    burst: Rate
    every: Seconds
    lasting: Seconds


class SessionTable(Record):
    """Conversations: of users who start one after the other, or that begin at the load's rate."""

    users: int | None = Field(default=None, ge=1)
    turns: float = Field(default=5.0, ge=1, le=1000)
    think: Seconds = 10.0
    system_tokens: int = Field(default=0, ge=0)
    branches: int = Field(default=0, ge=0, le=1000)
    max_context: int = Field(default=131_072, ge=2)


class LoadTable(Record):
    """The requests of one tenant."""

    name: str = Field(default="all", min_length=1, max_length=40)
    rate: Rate | None = None
    day: DayTable | None = None
    bursts: BurstTable | None = None
    trace: Path | None = None
    trace_speed: float = Field(default=1.0, gt=0)
    fitted: bool = False
    """Traffic like the trace instead of the trace: as many requests as one likes."""
    sessions: SessionTable | None = None
    requests: int | None = Field(default=None, ge=1, le=MOST_REQUESTS)
    """Sessions, where there are any."""
    duration: Seconds | None = None
    burstiness: float = Field(default=1.0, gt=0, le=50)
    profile: str | None = None
    input_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    output_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    spread: float | None = Field(default=None, ge=0, le=5)
    """Standard deviation of the logarithm of both lengths; of the profile where nothing is said."""
    output_spread: float | None = Field(default=None, ge=0, le=5)
    """Spread of the output lengths; None means that of the prompts."""
    shared_prefix_tokens: int | None = Field(default=None, ge=1)
    shared_prefixes: int = Field(default=1, ge=1)
    priority: int = 0
    ttft: Seconds | None = None
    tpot: Seconds | None = None
    e2e: Seconds | None = None

    @model_validator(mode="after")
    def _comes_one_way(self) -> "LoadTable":
        ways = [name for name in ("rate", "day", "bursts", "trace") if getattr(self, name) is not None]
        users = self.sessions is not None and self.sessions.users is not None
        if len(ways) + users != 1:
            said = ", ".join([*ways, *(["sessions.users"] if users else [])]) or "none"
            raise ValueError(f"give one of rate, day, bursts, trace, sessions.users; here: {said}")
        if self.trace is not None and (self.sessions or self.profile or self.input_tokens or self.duration):
            raise ValueError(
                "a trace has its own lengths and length: no sessions, profile, tokens or duration"
            )
        if self.fitted and self.trace is None:
            raise ValueError("fitted needs the trace that it is fitted to")
        if self.requests is not None and self.duration is not None:
            raise ValueError("requests and duration both say how long it lasts: drop one")
        return self


class FleetFile(Record):
    """Content of a fleet file."""

    model: str
    router: RouterRule = "least_outstanding"
    interval: Seconds | None = None
    """Interval between rows of the time series; None leaves it to the program."""
    pools: tuple[PoolTable, ...] = Field(min_length=1)
    load: tuple[LoadTable, ...] = Field(min_length=1)


def read_fleet(name: str) -> tuple[FleetFile, Path]:
    """Return the fleet of a file, or of one of the shipped examples; and its path.

    Raises: InputFileError: neither a file nor an example, no TOML, or a field is missing, unknown or wrong.
    """
    path = Path(name)
    if path.exists() or path.suffix == ".toml":
        return _fleet_in(path), path
    known = example_names()
    if name not in known:
        raise InputFileError(
            f"{name}: neither a file nor an example",
            fix=f"a fleet file, or one of {', '.join(near_misses(name, known, {}) or known)}",
        )
    example = EXAMPLES / f"{name}.toml"
    return _fleet_in(example), example


def _fleet_in(path: Path) -> FleetFile:
    return check_record(FleetFile, read_toml(path), str(path))


def example_names() -> tuple[str, ...]:
    """Return names of the shipped examples."""
    return tuple(path.stem for path in data_files("fleets/*.toml"))


def file_text(name: str) -> str:
    """Return the text of a fleet file or example.

    Raises: InputFileError: see `read_fleet`.
    """
    return read_text(read_fleet(name)[1])
