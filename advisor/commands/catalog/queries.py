"""Filters and orders of the catalog's records."""

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, get_args

from advisor.ask.measures import parse_count
from advisor.ask.own_data import kept_prices
from advisor.catalog import accelerators, engines, models, prices
from advisor.catalog.described import find_described
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, InfeasibleError, UnknownNameError
from advisor.catalog.part_prices import price_book, price_of
from advisor.catalog.parts import all_parts
from advisor.catalog.resolve import Chosen, known_value
from advisor.catalog.schema import Accelerator, Engine, Model, Price, Record
from advisor.catalog.schema.part import Part, PartPrice
from advisor.catalog.schema.price import Term
from advisor.commands.catalog.options import EnginesInput, GpusInput, ModelsInput, PartsInput, PricesInput
from advisor.render.numbers import term_words
from advisor.simulator.graph.model import is_moe, kv_bytes_per_token, parameter_count

T = TypeVar("T")

_ACCELERATOR_KEYS: Final[dict[str, Callable[[Accelerator], float | None]]] = {
    "memory": lambda record: record.memory_bytes,
    "bandwidth": lambda record: record.bandwidth_bytes_per_s,
    "bf16": lambda record: record.peak_flop_per_s.get("bf16"),
    "fp8": lambda record: record.peak_flop_per_s.get("fp8"),
    "fp4": lambda record: record.peak_flop_per_s.get("fp4"),
    "power": lambda record: record.tdp_w,
}
_MODEL_KEYS: Final[dict[str, Callable[[Model], float | None]]] = {
    "parameters": lambda model: parameter_count(model).total,
    "active": lambda model: parameter_count(model).active,
    "context": lambda model: model.max_context_tokens,
    "kv": lambda model: kv_bytes_per_token(model).full_bytes_per_token,
}


def select_accelerators(asked: GpusInput, min_memory_bytes: float) -> Sequence[Accelerator]:
    """Return accelerators that pass every filter, in the order asked for.

    Raises: UnknownNameError: no record has that vendor, family or engine.
    Raises: InfeasibleError: nothing passes all filters together.
    """
    records = accelerators.all_accelerators()
    known_value(asked.vendor, {r.vendor for r in records}, "vendor")
    known_value(asked.family, {r.architecture for r in records}, "family")
    known_value(asked.engine, {name for r in records for name in r.engines}, "engine")
    kept = [
        r
        for r in records
        if asked.vendor in (None, r.vendor)
        and asked.family in (None, r.architecture)
        and asked.engine in (None, *r.engines)
        and (r.memory_bytes or 0.0) >= min_memory_bytes
    ]
    if asked.sort == "released":
        kept.sort(key=lambda record: record.released, reverse=True)
    return _sort_largest_first(kept, "accelerator", _ACCELERATOR_KEYS.get(asked.sort))


def select_models(asked: ModelsInput) -> Sequence[Model]:
    """Return models that pass every filter, in the order asked for.

    Raises: UnknownNameError: no record has that family or mixer.
    Raises: InfeasibleError: nothing passes all filters together.
    """
    limit = parse_count(asked.max_parameters, "--max-parameters") if asked.max_parameters else math.inf
    records = models.all_models()
    known_value(asked.family, {m.family for m in records if m.family}, "family")
    known_value(asked.mixer, {kind for m in records for kind in _mixers(m)}, "mixer")
    kept = [
        m
        for m in records
        if asked.family in (None, m.family)
        and asked.mixer in (None, *_mixers(m))
        and asked.moe in (None, is_moe(m))
        and parameter_count(m).total <= limit
    ]
    return _sort_largest_first(kept, "model", _MODEL_KEYS.get(asked.sort))


def select_engines(asked: EnginesInput, chip: Accelerator | None = None) -> Sequence[Engine]:
    """Return engines that run on a vendor's accelerators, or on one, and serve a weight format.

    Raises: UnknownNameError: no engine has that vendor or format.
    Raises: InfeasibleError: none has both.
    """
    records = engines.all_engines()
    known_value(asked.vendor, {name for e in records for name in e.vendors}, "vendor")
    dtype, _ = known_dtype(asked.precision)
    kept = [
        e
        for e in records
        if asked.vendor in (None, *e.vendors)
        and (chip is None or chip.vendor in e.vendors)
        and dtype in (None, *e.vendor_weight_dtypes.get(asked.vendor or "", e.weight_dtypes))
    ]
    return _sort_largest_first(kept, "engine")


def _sort_largest_first(
    kept: Sequence[T], kind: str, key: Callable[[T], float | None] | None = None
) -> Sequence[T]:
    """Return records by a number, largest first; those without it come last, equal ones keep their order.

    Raises: InfeasibleError: there is none.
    """
    if not kept:
        raise _nothing_left(kind)
    return kept if key is None else sorted(kept, key=lambda record: -(key(record) or 0.0))


def _mixers(model: Model) -> set[str]:
    return {group.mixer.kind for group in model.layers if group.mixer is not None}


def find_record(name: str) -> tuple[Record, str, str]:
    """Return the record that the user means by a name, its kind, and a note if the name is not its id.

    Raises: UnknownNameError: no accelerator, model or engine is called so, or several are.
    Raises: InputFileError: the name is a path, and the config.json there cannot be read.
    """
    chip = find_described(name)
    if chip is not None:
        return chip, "chip", "" if name == chip.id else f"'{name}' is taken as {chip.id}"
    found: list[tuple[Record, str, str]] = []
    unknown: list[UnknownNameError] = []
    for kind, get in (("accelerator", accelerators.get), ("model", models.get), ("engine", engines.get)):
        try:
            record, note = get(name)
            found.append((record, kind, note))
        except UnknownNameError as error:
            unknown.append(error)
    if found:
        return found[0]
    if "/" in name:
        raise unknown[1]  # only models are called so
    hints = [error.hint.removeprefix("did you mean: ") for error in unknown if error.hint]
    raise UnknownNameError(
        f"the catalog has no record '{name}'",
        why="no accelerator, model or engine has this id or alias",
        fix="advisor catalog gpus, models or engines list the ids",
        hint=f"did you mean: {', '.join(hints)}" if hints else "",
    )


def terms_of(text: str) -> list[str]:
    """Return terms named, with `-` or `_`; `all` is every one.

    Raises: UnknownNameError: there is no such term.
    """
    if text == "all":
        return list(get_args(Term))
    names = [name.strip().replace("-", "_") for name in text.split(",")]
    for name in names:
        known_value(name, get_args(Term), "term")
    return names


def accelerators_of(text: str | None) -> list[Chosen[Accelerator]]:
    """Return the accelerators that a list of names means; none for no list.

    Raises: UnknownNameError: one of them is not known.
    """
    return [accelerators.get(name.strip()) for name in text.split(",")] if text else []


def select_prices(wanted: PricesInput, as_of: datetime.date) -> tuple[list[Price], str]:
    """Return prices that pass every filter, in the order asked for, and a note on what was understood.

    Raises: UnknownNameError: no such accelerator, provider or term.
    Raises: InfeasibleError: nothing passes all filters on that day.
    """
    chosen = accelerators_of(wanted.gpu)
    ids = [one.record.id for one in chosen] or None
    note = "; ".join(one.note for one in chosen if one.note)
    providers = [name.strip() for name in wanted.provider.split(",")] if wanted.provider else None
    found = prices.prices_as_of(
        as_of,
        providers=providers,
        terms=terms_of(wanted.term),
        accelerators=ids,
        user_file=wanted.price_file,
        cache_dir=kept_prices(),
    )
    kept = [price for price in found if price.region.startswith(wanted.region or "")]
    if not kept:
        raise _none_known(wanted, as_of, ids, providers)
    if wanted.sort == "price":
        kept.sort(key=lambda price: price.usd_per_accelerator_hour)
    elif wanted.sort == "provider":
        kept.sort(key=lambda price: (price.provider, price.usd_per_accelerator_hour))
    elif wanted.sort == "age":
        kept.sort(key=lambda price: price.observed_on, reverse=True)
    if wanted.price_file:
        note = "; ".join(filter(None, (note, *prices.catalogue_notes(wanted.price_file, as_of, providers))))
    return kept, note


def _none_known(
    wanted: PricesInput, as_of: datetime.date, gpus: list[str] | None, providers: list[str] | None
) -> InfeasibleError:
    """Return the error for no matching price, with the terms under which the accelerator was on offer that day."""
    elsewhere = prices.prices_as_of(
        as_of,
        providers=providers if wanted.price_file else None,
        terms=get_args(Term),
        accelerators=gpus,
        user_file=wanted.price_file,
        cache_dir=kept_prices(),
    )
    offers = sorted({f"{price.provider} ({term_words(price.term)})" for price in elsewhere})
    of = f" of {', '.join(gpus)}" if gpus else ""
    return InfeasibleError(
        f"no price{of} passes all filters on {as_of}",
        why="no row that was known on that day fits provider, term and region",
        fix="loosen one filter, or give your own prices with --price-file",
        hint=f"known on that day: {', '.join(offers[:8])}" if offers else "",
    )


def select_parts(wanted: PartsInput, as_of: datetime.date) -> list[tuple[str, Part, PartPrice | None]]:
    """Return parts that pass every filter, by category and price; those without a price last.

    Raises: UnknownNameError: no such category. InfeasibleError: nothing passes. InputFileError: the price file.
    """
    found = all_parts()
    known_value(wanted.category, found, "category")
    if wanted.max_price is not None and not wanted.max_price > 0:
        raise AdvisorError(
            f"--max-price {wanted.max_price:g} is out of range", fix="a positive number of dollars"
        )
    book = price_book(wanted.price_file, as_of)
    words = (wanted.name or "").lower().split()
    rows = [
        (category, part, price_of(part, book))
        for category, listed in found.items()
        if wanted.category in (None, category)
        for part in listed
        if all(word in part.name.lower() for word in words)
    ]
    if wanted.max_price is not None:
        rows = [row for row in rows if row[2] is not None and row[2].usd <= wanted.max_price]
    if not rows:
        raise _nothing_left("part")
    order = list(found)

    def rank(row: tuple[str, Part, PartPrice | None]) -> tuple[int, bool, float, str]:
        category, part, price = row
        return order.index(category), price is None, price.usd if price else 0.0, part.name

    return sorted(rows, key=rank)


def _nothing_left(kind: str) -> InfeasibleError:
    """Return the failure of filters that exclude each other."""
    return InfeasibleError(f"no {kind} passes all filters together", fix="loosen one of them")
