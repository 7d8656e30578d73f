"""Start-up settings of published benchmarks: what their scripts set and their tables do not print."""

import tomllib
from functools import lru_cache
from importlib.resources import files

from advisor.catalog.schema.recipe import BenchmarkFormats, BenchmarkLayout, BenchmarkRecipe, DecodeSlots


@lru_cache(maxsize=1)
def all_recipes() -> tuple[BenchmarkRecipe, ...]:
    """Every recipe, the more specific before the more general.

    Source: data/recipes.toml, each with its own source.
    """
    text = (files("advisor.catalog") / "data" / "recipes.toml").read_text(encoding="utf-8")
    return tuple(BenchmarkRecipe.model_validate(record) for record in tomllib.loads(text)["recipe"])


@lru_cache(maxsize=1)
def all_layouts() -> tuple[BenchmarkLayout, ...]:
    """Every layout that scripts chose and results did not tell.

    Source: data/unstated_layouts.toml, each with its own source.
    """
    text = (files("advisor.catalog") / "data" / "unstated_layouts.toml").read_text(encoding="utf-8")
    return tuple(BenchmarkLayout.model_validate(record) for record in tomllib.loads(text)["layout"])


def recipe_of(
    benchmark: str,
    engine: str,
    model: str,
    architecture: str,
    *,
    weight_dtype: str = "",
    date: str = "",
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
            recipe.benchmark == benchmark
            and recipe.engine == engine
            and (not recipe.architectures or architecture in recipe.architectures)
            and (not recipe.models or model.startswith(recipe.models))
            and (not recipe.weight_dtypes or weight_dtype in recipe.weight_dtypes)
            and (not recipe.until or (date != "" and date < recipe.until))
            and recipe.input_tokens in (None, input_tokens)
            and recipe.output_tokens in (None, output_tokens)
            and recipe.data_parallel in (None, data_parallel > 1)
            and concurrency >= recipe.min_concurrency
            and tensor_parallel >= recipe.min_tensor_parallel
        )

    return next((recipe for recipe in all_recipes() if covers(recipe)), None)


def layout_of(
    benchmark: str,
    engine: str,
    model: str,
    architecture: str,
    *,
    weight_dtype: str,
    date: str,
    tensor_parallel: int,
    input_tokens: int,
    output_tokens: int,
) -> BenchmarkLayout | None:
    """The layout that a benchmark's scripts chose for a run whose results do not tell it; None where they do.

    Source: data/unstated_layouts.toml.
    """

    def covers(layout: BenchmarkLayout) -> bool:
        return (
            (layout.benchmark, layout.engine) == (benchmark, engine)
            and model.startswith(layout.models)
            and architecture in layout.architectures
            and weight_dtype in layout.weight_dtypes
            and "" < date < layout.until
            and layout.tensor_parallel in (None, tensor_parallel)
            and (layout.input_tokens, layout.output_tokens) == (input_tokens, output_tokens)
        )

    return next((layout for layout in all_layouts() if covers(layout)), None)


@lru_cache(maxsize=1)
def all_formats() -> tuple[BenchmarkFormats, ...]:
    """Every set of formats that scripts chose and results did not tell, the more specific before the more general.

    Source: data/unstated_formats.toml, each with its own source.
    """
    text = (files("advisor.catalog") / "data" / "unstated_formats.toml").read_text(encoding="utf-8")
    return tuple(BenchmarkFormats.model_validate(record) for record in tomllib.loads(text)["formats"])


def formats_of(
    benchmark: str, engine: str, model: str, architecture: str, *, weight_dtype: str, date: str
) -> BenchmarkFormats | None:
    """The formats that a benchmark's scripts chose for a run whose results do not tell them; None where they left
    them to the engine. A run without a date is not known to be late enough for scripts that changed.

    Source: data/unstated_formats.toml.
    """

    def covers(formats: BenchmarkFormats) -> bool:
        return (
            (formats.benchmark, formats.engine) == (benchmark, engine)
            and (not formats.models or model.startswith(formats.models))
            and (not formats.architectures or architecture in formats.architectures)
            and (not formats.weight_dtypes or weight_dtype in formats.weight_dtypes)
            and date >= formats.from_date
        )

    return next((formats for formats in all_formats() if covers(formats)), None)


@lru_cache(maxsize=1)
def all_decode_slots() -> DecodeSlots:
    """What is known of the slots of decode workers.

    Source: data/decode_slots.toml.
    """
    text = (files("advisor.catalog") / "data" / "decode_slots.toml").read_text(encoding="utf-8")
    return DecodeSlots.model_validate(tomllib.loads(text))


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
