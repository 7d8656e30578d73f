"""What `advisor catalog ...` lists and shows."""

import math
from dataclasses import asdict

from advisor.cli.measures import parse_bytes, parse_count
from advisor.cli.options import Shared
from advisor.commands.catalog import queries
from advisor.commands.catalog.options import (
    EnginesInput,
    GpusInput,
    ModelsInput,
    PartsInput,
    PricesInput,
    RefreshInput,
    ShowInput,
)
from advisor.render.answer import Answer


def gpus(asked: GpusInput, shared: Shared) -> Answer:
    """Accelerators that pass the filters."""
    from advisor.commands.catalog.view import accelerators_answer

    memory_bytes = parse_bytes(asked.min_memory, "--min-memory") if asked.min_memory else 0.0
    records = queries.select_accelerators(asked.vendor, asked.family, asked.engine, memory_bytes, asked.sort)
    filters = {
        "vendor": asked.vendor, "family": asked.family, "engine": asked.engine, "min_memory_bytes": memory_bytes,
        "sort": asked.sort,
    }  # fmt: skip
    return accelerators_answer(records, filters)


def models(asked: ModelsInput, shared: Shared) -> Answer:
    """Models that pass the filters."""
    from advisor.commands.catalog.model_view import models_answer

    limit = parse_count(asked.max_parameters, "--max-parameters") if asked.max_parameters else math.inf
    records = queries.select_models(asked.family, asked.mixer, asked.moe, limit, asked.sort)
    return models_answer(records, asdict(asked))


def prices(asked: PricesInput, shared: Shared) -> Answer:
    """Rental prices as known on a day."""
    from advisor.commands.catalog.price_queries import inputs_of, select_prices
    from advisor.commands.catalog.price_view import prices_answer

    return prices_answer(*select_prices(asked, shared.as_of), as_of=shared.as_of, filters=inputs_of(asked))


def refresh(asked: RefreshInput, shared: Shared) -> Answer:
    """Today's prices, fetched, checked and kept."""
    from advisor.commands.catalog.refresh_run import run_refresh

    return run_refresh(asked, shared)


def engines(asked: EnginesInput, shared: Shared) -> Answer:
    """Serving engines that pass the filters."""
    from advisor.commands.catalog.view import engines_answer

    return engines_answer(queries.select_engines(asked.vendor, asked.precision), asdict(asked))


def parts(asked: PartsInput, shared: Shared) -> Answer:
    """Parts of workstations that pass the filters."""
    from advisor.commands.catalog.part_queries import select_parts
    from advisor.commands.catalog.parts_view import parts_answer

    filters = {
        "category": asked.category, "name": asked.name, "max_usd": asked.max_price, "price_file": asked.price_file,
    }  # fmt: skip
    return parts_answer(select_parts(asked), as_of=shared.as_of, filters=filters)


def show(asked: ShowInput, shared: Shared) -> Answer:
    """Everything about one record."""
    from advisor.commands.catalog.record_view import record_answer

    record, kind, note = queries.find_record(asked.name)
    return record_answer(record, kind, note, asdict(asked))
