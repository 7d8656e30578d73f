"""Start-up settings of published benchmarks: what their scripts set and their tables do not print."""

from functools import lru_cache

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.recipe import (
    BenchmarkFormats,
    BenchmarkLayout,
    BenchmarkRecipe,
    DecodeSlots,
    PublishedRun,
)


@lru_cache(maxsize=1)
def all_recipes() -> tuple[BenchmarkRecipe, ...]:
    """Every recipe, the more specific before the more general.

    Source: data/recipes.toml, each with its own source.
    """
    records = read_toml(DATA_DIR / "recipes.toml")["recipe"]
    return tuple(BenchmarkRecipe.model_validate(record) for record in records)


@lru_cache(maxsize=1)
def all_layouts() -> tuple[BenchmarkLayout, ...]:
    """Every layout that scripts chose and results did not tell.

    Source: data/unstated_layouts.toml, each with its own source.
    """
    records = read_toml(DATA_DIR / "unstated_layouts.toml")["layout"]
    return tuple(BenchmarkLayout.model_validate(record) for record in records)


@lru_cache(maxsize=1)
def all_formats() -> tuple[BenchmarkFormats, ...]:
    """Every set of formats that scripts chose and results did not tell, the more specific before the more general.

    Source: data/unstated_formats.toml, each with its own source.
    """
    records = read_toml(DATA_DIR / "unstated_formats.toml")["formats"]
    return tuple(BenchmarkFormats.model_validate(record) for record in records)


def recipe_of(
    run: PublishedRun,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    concurrency: int = 1,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
) -> BenchmarkRecipe | None:
    """The first recipe of a benchmark that covers a run; None where it left the engine alone.

    Source: own definition.
    """

    def covers(recipe: BenchmarkRecipe) -> bool:
        return (
            recipe.concerns(run)
            and recipe.input_tokens in (None, input_tokens)
            and recipe.output_tokens in (None, output_tokens)
            and recipe.data_parallel in (None, data_parallel > 1)
            and concurrency >= recipe.min_concurrency
            and tensor_parallel >= recipe.min_tensor_parallel
        )

    return next((recipe for recipe in all_recipes() if covers(recipe)), None)


def layout_of(
    run: PublishedRun, *, tensor_parallel: int, input_tokens: int, output_tokens: int
) -> BenchmarkLayout | None:
    """The layout that a benchmark's scripts chose for a run whose results do not tell it; None where they do.

    Source: data/unstated_layouts.toml.
    """

    def covers(layout: BenchmarkLayout) -> bool:
        return (
            layout.concerns(run)
            and layout.tensor_parallel in (None, tensor_parallel)
            and (layout.input_tokens, layout.output_tokens) == (input_tokens, output_tokens)
        )

    return next((layout for layout in all_layouts() if covers(layout)), None)


def formats_of(run: PublishedRun) -> BenchmarkFormats | None:
    """The formats that a benchmark's scripts chose for a run whose results do not tell them; None where they left
    them to the engine. A run without a date is not known to be late enough for scripts that changed.

    Source: data/unstated_formats.toml.
    """
    return next((formats for formats in all_formats() if formats.concerns(run)), None)


@lru_cache(maxsize=1)
def all_decode_slots() -> DecodeSlots:
    """What is known of the slots of decode workers.

    Source: data/decode_slots.toml.
    """
    return DecodeSlots.model_validate(read_toml(DATA_DIR / "decode_slots.toml"))


def decode_slots_of(
    benchmark: str,
    engine: str,
    model: str,
    accelerator: str,
    *,
    weight_dtype: str,
    input_tokens: int,
    output_tokens: int,
    clients: int,
    decode_workers: int,
) -> int | None:
    """Sequences that one decode worker took at once in a published run; None where nothing is known of it.

    Source: data/decode_slots.toml.
    """
    known = all_decode_slots()
    if (benchmark, engine, model) != (known.benchmark, known.engine, known.model):
        return None
    asked = (accelerator, weight_dtype, input_tokens, output_tokens)
    for load in known.load:
        if asked == (load.accelerator, load.weight_dtype, load.input_tokens, load.output_tokens):
            slots = {(number, workers): each for number, workers, each in load.points}
            return slots.get((clients, decode_workers))
    return None
