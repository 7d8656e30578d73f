"""Answers of `advisor catalog ...`: lists and single records."""

from dataclasses import asdict

from advisor.ask.measures import parse_bytes
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import kept_prices
from advisor.catalog import accelerators
from advisor.catalog import models as models_catalog
from advisor.catalog.coverage import coverage as known_coverage
from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.config import class_from_hf_config
from advisor.catalog.hf.fields import is_pasted
from advisor.catalog.resolve import Chosen
from advisor.catalog.schema import Model
from advisor.commands.catalog import coverage_view, price_view, queries, record_view, view
from advisor.commands.catalog.classes_view import model_classes_answer
from advisor.commands.catalog.options import (
    BitsInput,
    CoverageInput,
    EfficiencyInput,
    EnginesInput,
    GpusInput,
    InterconnectsInput,
    ModelsInput,
    PartsInput,
    PricesInput,
    RefreshInput,
    ShowInput,
)
from advisor.render.answer import Answer


def gpus(asked: GpusInput, shared: SharedOptions) -> Answer:
    """Return accelerators that pass the filters."""
    memory_bytes = parse_bytes(asked.min_memory, "--min-memory") if asked.min_memory else 0.0
    filters = asdict(asked) | {"min_memory_bytes": memory_bytes}
    del filters["min_memory"]
    return view.accelerators_answer(queries.select_accelerators(asked, memory_bytes), filters)


def models(asked: ModelsInput, shared: SharedOptions) -> Answer:
    """Return models that pass the filters."""
    return view.models_answer(queries.select_models(asked), asdict(asked))


def prices(asked: PricesInput, shared: SharedOptions) -> Answer:
    """Return rental prices as known on a day."""
    filters = asdict(asked) | {
        "gpu": ",".join(one.record.id for one in queries.accelerators_of(asked.gpu)) or None,
        "term": queries.terms_of(asked.term),
        "price_cache": kept_prices(),
    }
    found, note = queries.select_prices(asked, shared.as_of)
    return price_view.prices_answer(found, note, as_of=shared.as_of, filters=filters)


def coverage(asked: CoverageInput, shared: SharedOptions) -> Answer:
    """Return the answer on known facts about accelerators and providers, and on gaps."""
    chosen = accelerators.get(asked.gpu) if asked.gpu else None
    known = known_coverage(
        shared.as_of,
        accelerators=[chosen.record.id] if chosen else None,
        providers=[name.strip() for name in asked.provider.split(",")] if asked.provider else None,
        user_file=asked.price_file,
        cache_dir=kept_prices(),
    )
    inputs = asdict(asked) | {"gpu": chosen.record.id if chosen else None, "price_cache": kept_prices()}
    return coverage_view.coverage_answer(known, inputs)


def refresh(asked: RefreshInput, shared: SharedOptions) -> Answer:
    """Return today's prices, fetched, checked and kept."""
    from advisor.commands.catalog.refresh_run import run_refresh

    return run_refresh(asked, shared)


def engines(asked: EnginesInput, shared: SharedOptions) -> Answer:
    """Return serving engines that pass the filters."""
    chip = accelerators.get(asked.gpu).record if asked.gpu else None
    found = queries.select_engines(asked, chip)
    if asked.model is None:
        return view.engines_answer(found, asdict(asked), chip)
    model = _with_class(asked.model)
    return model_classes_answer(found, model.record, chip, asdict(asked), tuple(filter(None, (model.note,))))


def _with_class(ref: str) -> Chosen[Model]:
    """Return the model that the user means, without layers where config.json names a class and its layers are not read.

    Raises: AdvisorError and its kinds: no model has this name, or no class is read either.
    """
    try:
        return models_catalog.get(ref)
    except InputFileError as error:
        if not (is_pasted(ref) or models_catalog.is_path(ref)):
            raise
        record = class_from_hf_config(ref)
        if record is None:
            raise
        return Chosen(record, f"only the class is read: {error}")


def parts(asked: PartsInput, shared: SharedOptions) -> Answer:
    """Return parts of workstations that pass the filters."""
    filters = asdict(asked) | {"max_usd": asked.max_price}
    del filters["max_price"]
    return price_view.parts_answer(
        queries.select_parts(asked, shared.as_of), as_of=shared.as_of, filters=filters
    )


def show(asked: ShowInput, shared: SharedOptions) -> Answer:
    """Return everything about one record."""
    record, kind, note = queries.find_record(asked.name)
    return record_view.record_answer(record, kind, note, asdict(asked))


def interconnects(asked: InterconnectsInput, shared: SharedOptions) -> Answer:
    """Return links by generation, and what names of networks mean."""
    from advisor.commands.catalog.hardware_facts import answer_interconnects

    return answer_interconnects(asked, shared)


def bits(asked: BitsInput, shared: SharedOptions) -> Answer:
    """Return bits per element of number formats."""
    from advisor.commands.catalog.hardware_facts import answer_bits

    return answer_bits(asked, shared)


def efficiency(asked: EfficiencyInput, shared: SharedOptions) -> Answer:
    """Return work per watt of accelerators."""
    from advisor.commands.catalog.hardware_facts import answer_efficiency

    return answer_efficiency(asked, shared)
