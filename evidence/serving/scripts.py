"""Settings that published benchmarks gave their engines in start-up scripts, and that their tables do not print."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import Field

from advisor.catalog.files import read_toml
from advisor.catalog.schema.record import Record, Source

DATA_DIR: Final = Path(__file__).parents[1] / "data"
RunsT = TypeVar("RunsT", bound="BenchmarkRuns")


class FromConcurrency(Record):
    """Setting that depends on the number of clients; the last entry that applies counts."""

    concurrency: int = Field(ge=1)
    value: int = Field(ge=1)


class PublishedRun(NamedTuple):
    """Conditions on which start-up scripts decide: a run of a model with an engine in a benchmark, under a load."""

    benchmark: str
    engine: str
    model: str
    """Id of the model in the catalog."""
    architecture: str
    """Architecture of the accelerators."""
    weight_dtype: str = ""
    date: str = ""
    """ISO date; empty if not known."""
    version: str = ""
    """Version of the engine; empty if not known."""
    input_tokens: int = 0
    output_tokens: int = 0
    concurrency: int = 1
    tensor_parallel: int = 1
    data_parallel: int = 1


class BenchmarkRuns(Record):
    """Runs of one engine in one benchmark to which a record applies; an empty field means any."""

    benchmark: str
    engine: str
    models: tuple[str, ...] = ()
    """Ids of models, or their beginnings."""
    architectures: tuple[str, ...] = ()
    """Architectures of accelerators."""
    weight_dtypes: tuple[str, ...] = ()
    from_date: str = ""
    """First ISO date of the runs to which the record applies; empty means no beginning."""
    until: str = ""
    """ISO date before which those runs were started; empty means no end."""
    versions: tuple[str, ...] = ()
    """Versions of the engine, or their beginnings."""

    def concerns(self, run: PublishedRun) -> bool:
        """Whether a run is among these; a run without a date is in no period with a beginning or an end."""
        return (
            (self.benchmark, self.engine) == (run.benchmark, run.engine)
            and (not self.models or run.model.startswith(self.models))
            and (not self.architectures or run.architecture in self.architectures)
            and (not self.weight_dtypes or run.weight_dtype in self.weight_dtypes)
            and run.date >= self.from_date
            and (not self.until or "" < run.date < self.until)
            and (not self.versions or run.version.startswith(self.versions))
        )


class BenchmarkRecipe(BenchmarkRuns):
    """Start-up settings of one engine in one benchmark; None and empty leave the engine's default."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    data_parallel: bool | None = None
    """Whether the recipe holds only with (True) or only without (False) attention data parallelism; None means both."""
    min_concurrency: int = 1
    min_tensor_parallel: int = 1

    max_num_batched_tokens: int | None = None
    tokens_per_input: float | None = None
    """Token budget as a multiple of the prompt length."""
    spare_tokens: int | None = None
    """Tokens of the budget beyond one prompt and the whole batch's decodes."""
    budget_step_tokens: int = Field(default=1, ge=1)
    """Multiple to which the token budget is rounded up [tokens]."""
    min_num_batched_tokens: int = 0
    """Smallest token budget."""
    mixed_chunks: bool = False
    """Whether prompts join decode batches, in an engine that runs them alone by default."""
    graphs_for_all_batches: bool = False
    """Whether decode graphs are captured up to the concurrency."""
    async_scheduling: bool = False
    """Whether the host prepares the next iteration while the device runs, in a release that does not by default."""
    fused_launches: bool = False
    """Whether all-reduces include the following norms in their kernel, which the engine launches separately by
    default."""
    stream_interval: int = Field(default=1, ge=1)
    """Tokens of an output that are sent together, so that sending them costs once for all."""
    front_ends: int = Field(default=1, ge=1)
    """Processes that take requests in, each one request after the other."""
    poll_steps: tuple[FromConcurrency, ...] = ()
    """Decode steps between two looks at the queue of new requests."""
    gather_steps: int = 0
    """Most decode steps that prompts wait for others to compute with."""
    gather_token_fraction: float | None = None
    """Fraction of the token budget at which waiting prompts start before `gather_steps` are over."""
    gather_for_each_rank: bool = False
    """Whether waiting prompts also start once every attention data-parallel rank has one."""
    requests_per_client: int | None = None
    """Number of requests that the benchmark's client sends for each of its streams."""
    num_requests: int | None = Field(default=None, ge=1)
    """Number of requests of the whole run, for any number of streams."""
    equal_lengths: bool = False
    """Whether all requests have the stated lengths to the token, so that streams that began together end together."""
    in_process: bool = False
    """Whether the client calls the engine in its own process, without a server in between."""
    distinct_prompts: int | None = None
    """Number of different prompts that the client sends repeatedly, to an engine that keeps them; None: all differ."""
    jitter_tokens: float | None = Field(default=None, gt=0.0)
    """Decode steps by which clients of equal requests fall out of step between two requests, for any length of the
    output (standard deviation); None: not known."""
    source: Source

    def concerns(self, run: PublishedRun) -> bool:
        """Whether a run is among these; its load and layout count too."""
        return (
            super().concerns(run)
            and self.input_tokens in (None, run.input_tokens)
            and self.output_tokens in (None, run.output_tokens)
            and self.data_parallel in (None, run.data_parallel > 1)
            and run.concurrency >= self.min_concurrency
            and run.tensor_parallel >= self.min_tensor_parallel
        )


class BenchmarkLayout(BenchmarkRuns):
    """Layout of experts and attention over a replica's accelerators in start-up scripts, if results state only the
    number of accelerators. The record is about ranks of rows that state neither expert nor attention data parallelism.
    """

    tensor_parallel: int | None = None
    """Accelerators of the replica; None means any number."""
    input_tokens: int
    output_tokens: int
    whole_experts_from: int = Field(default=1, ge=1)
    """Number of clients from which experts are whole on ranks: as much expert parallelism as there are ranks."""
    data_parallel_from: int | None = Field(default=None, ge=1)
    """Number of clients from which attention is data-parallel over the ranks; None means never."""
    source: Source

    def concerns(self, run: PublishedRun) -> bool:
        """Whether a run is among these; its lengths and accelerators count too."""
        lengths = (self.input_tokens, self.output_tokens) == (run.input_tokens, run.output_tokens)
        return super().concerns(run) and lengths and self.tensor_parallel in (None, run.tensor_parallel)


class PoolLayout(BenchmarkRuns):
    """Layout of decode workers in start-up scripts, if results state their number of accelerators and not their
    degrees: the degrees of such rows were read from that number."""

    tensor_parallel_up_to: int = Field(ge=1)
    """Most accelerators of a decode worker that is tensor-parallel in attention and experts."""
    source: Source


class BenchmarkFormats(BenchmarkRuns):
    """Number formats of caches and states that start-up scripts set, if results do not state them."""

    kv_dtype: str
    state_dtype: str = ""
    """Format of the states of linear attention and state-space mixers; empty means the model's own."""
    source: Source


class DecodeLoad(Record):
    """Published runs of two pools on one accelerator under one kind of load."""

    accelerator: str
    weight_dtype: str
    input_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)
    points: tuple[tuple[int, int, int], ...] = Field(min_length=1)
    """Measured points: (clients, decode workers, sequences that one decode worker takes at once)."""


class DecodeSlots(Record):
    """Number of sequences that decode workers took at once in one benchmark."""

    benchmark: str
    engine: str
    model: str
    load: tuple[DecodeLoad, ...]
    source: Source

    def of(self, run: PublishedRun, accelerator: str, decode_workers: int) -> int | None:
        """Return the number of sequences that one decode worker took at once in a run; None if it is not known.

        Source: data/decode_slots.toml.
        """
        if (run.benchmark, run.engine, run.model) != (self.benchmark, self.engine, self.model):
            return None
        asked = (accelerator, run.weight_dtype, run.input_tokens, run.output_tokens)
        for load in self.load:
            if asked == (load.accelerator, load.weight_dtype, load.input_tokens, load.output_tokens):
                slots = {(number, workers): each for number, workers, each in load.points}
                return slots.get((run.concurrency, decode_workers))
        return None


@lru_cache(maxsize=1)
def all_recipes() -> tuple[BenchmarkRecipe, ...]:
    """Return every recipe, the more specific before the more general. Source: data/recipes.toml, each with its own."""
    return _records("recipes", "recipe", BenchmarkRecipe)


@lru_cache(maxsize=1)
def all_layouts() -> tuple[BenchmarkLayout, ...]:
    """Return every layout that scripts chose and results do not state. Source: data/layouts.toml, each with its own."""
    return _records("layouts", "layout", BenchmarkLayout)


@lru_cache(maxsize=1)
def all_pool_layouts() -> tuple[PoolLayout, ...]:
    """Return every layout of decode workers that results do not state. Source: data/layouts.toml, each with its own."""
    return _records("layouts", "pool", PoolLayout)


@lru_cache(maxsize=1)
def all_formats() -> tuple[BenchmarkFormats, ...]:
    """Return every set of formats that scripts chose, the more specific first. Source: data/formats.toml, each its
    own."""
    return _records("formats", "formats", BenchmarkFormats)


@lru_cache(maxsize=1)
def all_decode_slots() -> DecodeSlots:
    """Return the known slots of decode workers. Source: data/decode_slots.toml."""
    return DecodeSlots.model_validate(read_toml(DATA_DIR / "decode_slots.toml"))


def _records(file: str, table: str, kind: type[RunsT]) -> tuple[RunsT, ...]:
    return tuple(kind.model_validate(record) for record in read_toml(DATA_DIR / f"{file}.toml")[table])


def first_of(records: Iterable[RunsT], run: PublishedRun) -> RunsT | None:
    """Return the first record that is about a run; None if its benchmark left the engine's defaults."""
    return next((record for record in records if record.concerns(run)), None)
